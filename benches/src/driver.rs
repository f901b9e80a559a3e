//! How every peer is driven: producers in bursts, one consumer that looks every 50 us and checks every record.
//!
//! A burst is 256 appends, timed as a whole with two readings of the TSC. Between bursts a producer waits until the
//! consumer has seen the burst, and at least [`GAP_US`]: so no peer is ever full, none is polled hot, and what is timed
//! is the append alone. A figure is the mean over all bursts of all producers, except those in which the kernel took the
//! core away ([`PREEMPTED_NS`]; their number is given), and of the repetitions the median. R, the cost of one reading of the
//! clock, is measured by the same threads after each burst: processors change their speed, also under the same row.
//!
//! Single appends are timed one by one in a second pass, beside the same loop without an append: two readings of the TSC
//! with nothing between them.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::clock::{self, Scale, median, percentile};

/// Appends in one burst.
pub const BURST: u64 = 256;
/// Least time between two bursts of one producer.
const GAP_US: u64 = 300;
/// How often the consumer looks.
const LOOK: Duration = Duration::from_micros(50);
/// A producer gives up on a consumer that has not seen its burst by then.
const PATIENCE: Duration = Duration::from_secs(4);
/// Bursts before the first that counts: more than any peer's places, so that each was used once.
const WARM_BURSTS: usize = 40;
/// Records that a producer at full speed may be ahead of the consumer.
pub const AHEAD: u64 = 1 << 13;
/// Readings of the clock after each burst.
const READINGS: u64 = 64;
/// What is walked before each cold append.
const COLD_BYTES: usize = 4 << 20;

/// What one append does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Timestamps that it takes: 0, 1, or 2 for a begin and an end.
    pub timestamps: usize,
    /// Cells of 64 bytes that it stores.
    pub cells: usize,
}

/// How long, and how often.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Producers.
    pub producers: usize,
    /// Seconds of one repetition.
    pub seconds: f64,
    /// Most bursts of one repetition.
    pub bursts: usize,
    /// Repetitions.
    pub repetitions: usize,
    /// Single appends timed, and cold ones.
    pub singles: usize,
    /// See `singles`.
    pub cold: usize,
}

/// One producer's side of a peer. `append` is the whole public call.
pub trait Producer {
    /// Appends record `sequence` of this producer. False: there was no room.
    fn append(&mut self, sequence: u64) -> bool;
}

/// A peer: producers, and a consumer that says which records it saw.
pub trait Peer: Sync {
    /// A producer's side.
    type Producer<'a>: Producer
    where
        Self: 'a;

    /// The side of producer `index`, made on its own thread.
    fn producer(&self, index: usize) -> Self::Producer<'_>;

    /// Takes what is there. `seen` is called with the producer and the sequence number of each record, after its
    /// content was checked. One thread at a time.
    ///
    /// # Errors
    /// A record that is not what was appended.
    fn drain(&self, seen: &mut dyn FnMut(usize, u64)) -> Result<(), String>;

    /// Records of one cell that one of its blocks of memory holds: where slow appends are looked for.
    fn segment_records(&self) -> u64 {
        1_024
    }

    /// A peer that takes its records itself; nothing is checked through `drain`.
    fn drains_itself(&self) -> bool {
        false
    }

    /// After the last append: how many records the peer says that it lost.
    ///
    /// # Errors
    /// Why that is not known.
    fn lost(&self) -> Result<u64, String> {
        Ok(0)
    }

    /// For a peer that takes its records itself: waits until all `appended` records came out.
    ///
    /// # Errors
    /// How many did, when it is another number.
    fn settle(&self, appended: u64) -> Result<(), String> {
        let _ = appended;
        Ok(())
    }
}

/// What a row measured, ns.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// Mean of one append in bursts.
    pub ns_mean: f64,
    /// R: mean of one reading of the clock, by the same threads between the bursts.
    pub rdtsc_ns: f64,
    /// Percentiles of single appends, with the two readings around them: 50, 99, 99.9.
    pub singles: [f64; 3],
    /// The same of nothing between the two readings.
    pub empty: [f64; 3],
    /// Median of an append after 4 MiB were walked, and of nothing after the same walk.
    pub cold: Option<(f64, f64)>,
    /// Bursts that do not count, because the kernel took the core away in the middle.
    pub preempted: u64,
    /// Records that the consumer saw and checked.
    pub checked: u64,
    /// Where slow single appends lie.
    pub slow: Slow,
}

/// Of single appends, how many per 10,000 took [`SLOW_NS`] more than the median, by where they lie: in the burst, and in
/// the producer's records where they fill segments ([`Peer::segment_records`]) and pages of 64. One append may lie in several places.
#[derive(Clone, Copy, Debug, Default)]
pub struct Slow {
    /// All of them.
    pub all: f64,
    /// The first 4 of a burst.
    pub burst_start: f64,
    /// The first of a segment.
    pub segment: f64,
    /// The 16 that follow it.
    pub segment_start: f64,
    /// The first of a page.
    pub page: f64,
    /// None of these.
    pub elsewhere: f64,
}

/// What a slow append takes more than the median one.
pub const SLOW_NS: f64 = 100.0;

/// What a sustained row measured.
#[derive(Clone, Copy, Debug)]
pub struct Sustained {
    /// Records that the consumer saw and checked, a second.
    pub records_per_s: f64,
    /// Records that the peer itself counts as lost.
    pub lost: u64,
}

#[derive(Debug)]
#[repr(align(128))]
struct Line<T>(T);

/// Keeps a consumer's books: each producer's records, each exactly once.
#[derive(Debug)]
pub struct Books {
    /// Records seen, by producer; read by the producers.
    seen: Vec<Line<AtomicU64>>,
    /// Sum of their sequence numbers.
    sums: Vec<Line<AtomicU64>>,
}

impl Books {
    /// Empty books of that many producers.
    pub fn new(producers: usize) -> Self {
        let line = || Line(AtomicU64::new(0));
        Self {
            seen: (0..producers).map(|_| line()).collect(),
            sums: (0..producers).map(|_| line()).collect(),
        }
    }

    /// Takes what a peer has; the consumer only. Returns how many records that were.
    ///
    /// # Errors
    /// As [`Peer::drain`], or that a record is of a producer that is not there.
    pub fn drain(&self, peer: &impl Peer) -> Result<u64, String> {
        let mut stray = None;
        let mut counts = vec![(0u64, 0u64); self.seen.len()];
        peer.drain(&mut |producer, sequence| match counts.get_mut(producer) {
            Some(count) => *count = (count.0 + 1, count.1.wrapping_add(sequence)),
            None => stray = Some((producer, sequence)),
        })?;
        let mut all = 0;
        for (at, (count, sum)) in counts.into_iter().enumerate() {
            if count != 0 {
                all += count;
                let sums = &self.sums[at].0;
                sums.store(
                    sums.load(Ordering::Relaxed).wrapping_add(sum),
                    Ordering::Relaxed,
                );
                let seen = &self.seen[at].0;
                seen.store(seen.load(Ordering::Relaxed) + count, Ordering::Release);
            }
        }
        match stray {
            None => Ok(all),
            Some((producer, sequence)) => Err(format!(
                "a record of producer {producer}, number {sequence}"
            )),
        }
    }

    /// How many of the records are missing; none was seen that was not appended.
    fn missing(&self, appended: &[u64]) -> Result<u64, String> {
        let seen: u64 = self
            .seen
            .iter()
            .map(|seen| seen.0.load(Ordering::Acquire))
            .sum();
        let appended: u64 = appended.iter().sum();
        appended
            .checked_sub(seen)
            .ok_or_else(|| format!("{seen} records were seen of {appended}"))
    }

    /// Every record from 0 to `appended` of each producer was seen once. Returns how many records those are.
    ///
    /// # Errors
    /// What is missing or there twice.
    pub fn check(&self, appended: &[u64]) -> Result<u64, String> {
        for (at, &count) in appended.iter().enumerate() {
            let seen = self.seen[at].0.load(Ordering::Acquire);
            let sum = self.sums[at].0.load(Ordering::Relaxed);
            let expected = (0..count).fold(0u64, |sum, sequence| sum.wrapping_add(sequence));
            if (seen, sum) != (count, expected) {
                return Err(format!(
                    "producer {at}: {seen} of {count} records were seen, or some twice"
                ));
            }
        }
        Ok(appended.iter().sum())
    }
}

/// Runs one row.
///
/// # Errors
/// Why there is no figure: a record that is missing, twice there or not what was appended.
pub fn measure<P: Peer>(peer: &P, effort: Effort, scale: Scale) -> Result<Figures, String> {
    let mut sequences = vec![0u64; effort.producers];
    let books = Books::new(effort.producers);
    let (mut means, mut readings) = (Vec::new(), Vec::new());
    let mut preempted = 0;
    // One round first that is checked and not counted: behaviour before time.
    for repetition in 0..=effort.repetitions {
        let effort = if repetition == 0 {
            Effort {
                seconds: effort.seconds.min(1.0),
                bursts: WARM_BURSTS,
                ..effort
            }
        } else {
            effort
        };
        let (bursts, read) =
            bursts(peer, &books, &mut sequences, effort).map_err(|why| with_lost(peer, why))?;
        if repetition != 0 {
            let (mean, dropped) = mean_burst(bursts, scale);
            means.push(mean / BURST as f64);
            preempted += dropped;
            readings.push(mean_burst(read, scale).0 / READINGS as f64);
        }
    }
    let mut figures = Figures {
        ns_mean: median(means),
        rdtsc_ns: median(readings),
        preempted,
        ..Figures::default()
    };
    let thirds = |samples: &mut Vec<u32>| {
        samples.sort_unstable();
        [0.5, 0.99, 0.999].map(|share| f64::from(percentile(samples, share)) * scale.ns_per_tick)
    };
    let first = sequences.clone();
    let (mut singles, mut empty) = singles(peer, &books, &mut sequences, effort.singles)?;
    figures.slow = slow(&singles, &first, peer.segment_records(), scale);
    figures.singles = thirds(&mut singles);
    figures.empty = thirds(&mut empty);
    if effort.cold != 0 {
        let (mut cold, mut empty) = cold(peer, &books, &mut sequences, effort.cold)?;
        figures.cold = Some((thirds(&mut cold)[0], thirds(&mut empty)[0]));
    }
    figures.checked = if peer.drains_itself() {
        let appended = sequences.iter().sum();
        peer.settle(appended)?;
        appended
    } else {
        books
            .check(&sequences)
            .map_err(|why| with_lost(peer, why))?
    };
    Ok(figures)
}

fn with_lost(peer: &impl Peer, why: String) -> String {
    match peer.lost() {
        Ok(0) | Err(_) => why,
        Ok(lost) => format!("{why}; the peer counts {lost} as lost"),
    }
}

/// What a preempted burst is longer than: three usual ones and this. An interrupt takes less, a turn of another thread
/// more.
const PREEMPTED_NS: f64 = 50_000.0;

/// Mean of the bursts, ns, without those that were preempted; and how many those were.
fn mean_burst(mut bursts: Vec<u32>, scale: Scale) -> (f64, u64) {
    bursts.sort_unstable();
    let usual = f64::from(percentile(&bursts, 0.5)) * scale.ns_per_tick;
    let ns = bursts
        .iter()
        .map(|&ticks| f64::from(ticks) * scale.ns_per_tick);
    let counted: Vec<f64> = ns.filter(|&ns| ns <= 3.0 * usual + PREEMPTED_NS).collect();
    let sum: f64 = counted.iter().sum();
    let dropped = (bursts.len() - counted.len()) as u64;
    (sum / counted.len().max(1) as f64, dropped)
}

/// Runs `work` on each producer's thread, and the consumer beside them; returns what the producers made.
fn with_consumer<P: Peer, T: Send>(
    peer: &P,
    books: &Books,
    sequences: &mut [u64],
    work: impl Fn(usize, &mut P::Producer<'_>, &mut u64) -> T + Sync,
) -> Result<Vec<T>, String> {
    let barrier = Barrier::new(sequences.len());
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                books.drain(peer)?;
                std::thread::sleep(LOOK);
            }
            // Some peers hand over with a delay of their own: until nothing came for a while.
            let mut idle = Instant::now();
            while idle.elapsed() < Duration::from_millis(3) {
                if books.drain(peer)? != 0 {
                    idle = Instant::now();
                }
            }
            Ok::<(), String>(())
        });
        let threads: Vec<_> = sequences
            .iter_mut()
            .enumerate()
            .map(|(index, sequence)| {
                let (barrier, work) = (&barrier, &work);
                scope.spawn(move || {
                    let mut producer = peer.producer(index);
                    barrier.wait();
                    work(index, &mut producer, sequence)
                })
            })
            .collect();
        let made: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
        done.store(true, Ordering::Release);
        match consumer.join() {
            Ok(drained) => drained?,
            Err(_) => return Err("the consumer panicked".to_owned()),
        }
        made.into_iter()
            .map(|made| made.map_err(|_| "a producer panicked".to_owned()))
            .collect()
    })
}

/// Waits until the consumer has seen all of a producer's records; false when it never does.
fn wait_until_seen(books: &Books, index: usize, sequence: u64) -> bool {
    let began = Instant::now();
    while books.seen[index].0.load(Ordering::Acquire) < sequence {
        if began.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(Duration::from_micros(10));
    }
    true
}

/// The gap between two bursts. More threads than cores sleep, so that the consumer gets its turn.
fn pause(producers: usize) {
    if producers + 1 > std::thread::available_parallelism().map_or(1, usize::from) {
        std::thread::sleep(Duration::from_micros(GAP_US));
        return;
    }
    let began = Instant::now();
    while began.elapsed() < Duration::from_micros(GAP_US) {
        std::hint::spin_loop();
    }
}

/// Ticks of each burst of all producers, and of [`READINGS`] readings of the clock after each.
fn bursts<P: Peer>(
    peer: &P,
    books: &Books,
    sequences: &mut [u64],
    effort: Effort,
) -> Result<(Vec<u32>, Vec<u32>), String> {
    let waits = !peer.drains_itself();
    let producers = sequences.len();
    let made = with_consumer(peer, books, sequences, |index, producer, sequence| {
        let until = Instant::now() + Duration::from_secs_f64(effort.seconds);
        let mut bursts = Vec::with_capacity(effort.bursts);
        let mut readings = Vec::with_capacity(effort.bursts);
        while Instant::now() < until && bursts.len() < effort.bursts {
            let first = clock::ticks();
            let mut stored = true;
            for at in *sequence..*sequence + BURST {
                stored &= producer.append(at);
            }
            let took = clock::ticks() - first;
            *sequence += BURST;
            if !stored {
                return Err("an append found no room".to_owned());
            }
            bursts.push(took.min(u32::MAX.into()) as u32);
            let first = clock::ticks();
            for _ in 0..READINGS {
                std::hint::black_box(clock::ticks());
            }
            let took = clock::ticks() - first;
            readings.push(took.min(u32::MAX.into()) as u32);
            pause(producers);
            if waits && !wait_until_seen(books, index, *sequence) {
                return Err("the consumer never saw a burst".to_owned());
            }
        }
        Ok((bursts, readings))
    })?;
    let made: Result<(Vec<_>, Vec<_>), String> = made.into_iter().collect();
    let (bursts, readings) = made?;
    Ok((bursts.concat(), readings.concat()))
}

/// Where the slow ones of `samples` lie: those of each producer, from its record `first` on.
fn slow(samples: &[u32], first: &[u64], segment: u64, scale: Scale) -> Slow {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let limit = percentile(&sorted, 0.5) + (SLOW_NS / scale.ns_per_tick) as u32;
    let mut counts = [0u64; 6];
    let each = (samples.len() / first.len().max(1)).max(1);
    for (samples, &first) in samples.chunks(each).zip(first) {
        for (at, _) in (0u64..).zip(samples).filter(|&(_, &took)| took > limit) {
            let place = first + at;
            let here = [
                at % BURST < 4,
                place.is_multiple_of(segment),
                (1..=16).contains(&(place % segment)),
                place.is_multiple_of(64),
            ];
            counts[0] += 1;
            for (count, here) in counts[1..].iter_mut().zip(here) {
                *count += u64::from(here);
            }
            counts[5] += u64::from(here == [false; 4]);
        }
    }
    let share = counts.map(|count| count as f64 * 1e4 / samples.len().max(1) as f64);
    let [all, burst_start, segment, segment_start, page, elsewhere] = share;
    Slow {
        all,
        burst_start,
        segment,
        segment_start,
        page,
        elsewhere,
    }
}

/// Ticks of single appends, and of nothing, by turns of a burst each.
fn singles<P: Peer>(
    peer: &P,
    books: &Books,
    sequences: &mut [u64],
    count: usize,
) -> Result<(Vec<u32>, Vec<u32>), String> {
    let waits = !peer.drains_itself();
    let producers = sequences.len();
    let made = with_consumer(peer, books, sequences, |index, producer, sequence| {
        let (mut samples, mut empty) = (Vec::with_capacity(count), Vec::with_capacity(count));
        while samples.len() < count {
            for _ in 0..BURST {
                let first = clock::ticks();
                let last = clock::ticks();
                empty.push((last - first).min(u32::MAX.into()) as u32);
            }
            // Counted here and not in the shared list: its lines hold the counts of 8 producers each.
            for at in *sequence..*sequence + BURST {
                let first = clock::ticks();
                producer.append(at);
                let last = clock::ticks();
                samples.push((last - first).min(u32::MAX.into()) as u32);
            }
            *sequence += BURST;
            pause(producers);
            if waits && !wait_until_seen(books, index, *sequence) {
                break;
            }
        }
        (samples, empty)
    })?;
    let (samples, empty): (Vec<_>, Vec<_>) = made.into_iter().unzip();
    Ok((samples.concat(), empty.concat()))
}

/// Only the cold row: median of a call after 4 MiB were walked, and of nothing after the same walk, ns.
///
/// # Errors
/// As [`measure`].
pub fn cold_alone(peer: &impl Peer, count: usize, scale: Scale) -> Result<(f64, f64), String> {
    let (mut cold, mut empty) = cold(peer, &Books::new(1), &mut [0], count)?;
    let median = |samples: &mut Vec<u32>| {
        samples.sort_unstable();
        f64::from(percentile(samples, 0.5)) * scale.ns_per_tick
    };
    Ok((median(&mut cold), median(&mut empty)))
}

/// As `singles`, with 4 MiB walked before each; the first producer only.
fn cold<P: Peer>(
    peer: &P,
    books: &Books,
    sequences: &mut [u64],
    count: usize,
) -> Result<(Vec<u32>, Vec<u32>), String> {
    let mut made = with_consumer(peer, books, &mut sequences[..1], |_, producer, sequence| {
        let memory = vec![1u8; COLD_BYTES];
        let walk = || {
            let sum: u64 = memory.iter().step_by(64).map(|&byte| u64::from(byte)).sum();
            std::hint::black_box(sum);
        };
        let (mut samples, mut empty) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for _ in 0..count {
            walk();
            let first = clock::ticks();
            let last = clock::ticks();
            empty.push((last - first).min(u32::MAX.into()) as u32);
            walk();
            let first = clock::ticks();
            producer.append(*sequence);
            let last = clock::ticks();
            *sequence += 1;
            samples.push((last - first).min(u32::MAX.into()) as u32);
        }
        (samples, empty)
    })?;
    Ok(made.remove(0))
}

/// Records a second through one consumer that only takes and checks: producers at full speed for `seconds`, each at most
/// [`AHEAD`] records ahead of the consumer.
///
/// # Errors
/// As [`measure`].
pub fn sustained<P: Peer>(peer: &P, producers: usize, seconds: f64) -> Result<Sustained, String> {
    let books = Books::new(producers);
    let done = AtomicBool::new(false);
    let mut sequences = vec![0u64; producers];
    let began = Instant::now();
    let took = std::thread::scope(|scope| {
        let consumer = scope.spawn(|| {
            let mut last = Instant::now();
            loop {
                let finished = done.load(Ordering::Acquire);
                if books.drain(peer)? != 0 {
                    last = Instant::now();
                } else if finished && last.elapsed() > Duration::from_millis(3) {
                    return Ok::<Duration, String>(last - began);
                } else {
                    std::thread::sleep(LOOK);
                }
            }
        });
        let threads: Vec<_> = sequences
            .iter_mut()
            .enumerate()
            .map(|(index, sequence)| {
                let (books, done) = (&books, &done);
                scope.spawn(move || {
                    let mut producer = peer.producer(index);
                    let until = began + Duration::from_secs_f64(seconds);
                    while Instant::now() < until {
                        for at in *sequence..*sequence + BURST {
                            // A full peer empties: the consumer runs until the end.
                            while !producer.append(at) {
                                std::thread::yield_now();
                            }
                        }
                        *sequence += BURST;
                        // As with a full peer: the consumer, and the others where cores are few, get the turn.
                        while *sequence > books.seen[index].0.load(Ordering::Relaxed) + AHEAD
                            && !done.load(Ordering::Relaxed)
                            && began.elapsed() < PATIENCE
                        {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let ended = threads.into_iter().all(|thread| thread.join().is_ok());
        done.store(true, Ordering::Release);
        match consumer.join() {
            Ok(took) if ended => took,
            _ => Err("a thread panicked".to_owned()),
        }
    })?;
    let missing = books.missing(&sequences)?;
    let lost = peer.lost()?;
    if lost != missing {
        return Err(format!(
            "{missing} records are missing, {lost} are counted as lost"
        ));
    }
    let records = match lost {
        0 => books.check(&sequences)?,
        _ => sequences.iter().sum::<u64>() - lost,
    };
    Ok(Sustained {
        records_per_s: records as f64 / took.as_secs_f64(),
        lost,
    })
}
