//! What one consumer takes a second when it never waits: by turns one thread appends what the rings of some producers
//! hold, and another takes it, which alone is timed. Needs two cores where a sustained row needs one a producer; the
//! records come from another core all the same.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::median;
use crate::driver::{AHEAD, Books, Peer, Producer};

/// Who may go on: even numbers the appending side, odd ones the consumer.
#[derive(Debug)]
#[repr(align(128))]
struct Turn(AtomicU64);

impl Turn {
    /// False: the other side gave up, or takes for ever.
    fn wait_for(&self, turn: u64) -> bool {
        let began = Instant::now();
        loop {
            match self.0.load(Ordering::Acquire) {
                now if now == turn => return true,
                now if now > turn || began.elapsed() > Duration::from_secs(10) => return false,
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn give(&self, turn: u64) {
        self.0.store(turn, Ordering::Release);
    }
}

/// Records a second that the consumer took, the median of the rounds of `seconds`: in each, [`AHEAD`] records of each of
/// `producers` lay there when it began.
///
/// # Errors
/// A record that is missing, twice there or not what was appended; a consumer that panicked.
pub fn capacity<P: Peer>(peer: &P, producers: usize, seconds: f64) -> Result<f64, String> {
    let books = Books::new(producers);
    let turn = Turn(AtomicU64::new(0));
    let mut sequences = vec![0u64; producers];
    let a_round = AHEAD * producers as u64;
    let (mut rates, stored) = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut rates = Vec::new();
            for round in 0.. {
                if !turn.wait_for(2 * round + 1) {
                    break;
                }
                let began = Instant::now();
                let mut taken = 0;
                while taken < a_round && began.elapsed() < Duration::from_secs(4) {
                    taken += books.drain(peer)?;
                }
                rates.push(taken as f64 / began.elapsed().as_secs_f64());
                turn.give(2 * round + 2);
            }
            Ok::<_, String>(rates)
        });
        let until = Instant::now() + Duration::from_secs_f64(seconds);
        let mut made: Vec<_> = (0..producers).map(|index| peer.producer(index)).collect();
        let (mut round, mut stored) = (0, true);
        while Instant::now() < until && stored && turn.wait_for(2 * round) {
            for (producer, sequence) in made.iter_mut().zip(&mut sequences) {
                for at in *sequence..*sequence + AHEAD {
                    stored &= producer.append(at);
                }
                *sequence += AHEAD;
            }
            turn.give(2 * round + 1);
            round += 1;
        }
        turn.wait_for(2 * round);
        turn.give(u64::MAX);
        let rates = consumer
            .join()
            .map_err(|_| "the consumer panicked".to_owned())?;
        rates.map(|rates| (rates, stored))
    })?;
    if !stored {
        return Err("an append found no room".to_owned());
    }
    books.check(&sequences)?;
    // The first rounds warm up.
    rates.drain(..rates.len().min(3));
    Ok(median(rates))
}
