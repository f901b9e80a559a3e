//! The ring by which lanes hand over sealed segment numbers: many producers, one consumer, wait-free to push.
//!
//! It has as many places as there are segments, and a segment is in it at most once (it is pushed when sealed and can
//! be sealed again only after its consumer recycled it, or after its own lane did in flight mode). So it is never full
//! and one `fetch_add` gives a producer its place. A place holds `segment + 1`, 0 = nothing yet.
//!
//! A producer that was preempted between taking its place and filling it holds up what lies behind it for the
//! consumer, never for another producer. The consumer is not the hot path: it polls.

use crate::sync::{Ordering, Word};

/// A ring over words that the caller owns: `places` (a power of two of them) and the tail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring<'a> {
    places: &'a [Word],
    tail: &'a Word,
}

impl<'a> Ring<'a> {
    pub(crate) fn new(places: &'a [Word], tail: &'a Word) -> Self {
        debug_assert!(places.len().is_power_of_two());
        Self { places, tail }
    }

    fn place(&self, ticket: u64) -> &Word {
        &self.places[ticket as usize & (self.places.len() - 1)]
    }

    /// Hands over one segment. Any thread; wait-free.
    pub(crate) fn push(&self, segment: u32) {
        // ORD(ticket): Relaxed. Gives each producer its own place; publishes nothing.
        let ticket = self.tail.fetch_add(1, Ordering::Relaxed);
        // ORD(seal): Release. Pairs with the Acquire load in `take`: the consumer sees the sealed segment's entry.
        self.place(ticket)
            .store(u64::from(segment) + 1, Ordering::Release);
    }

    /// Takes the segment at the consumer's `head`, if it is there, and moves the head on. One consumer only.
    pub(crate) fn take(&self, head: &mut u64) -> Option<u32> {
        let place = self.place(*head);
        // ORD(seal): Acquire. Pairs with the Release store in `push`.
        let value = place.load(Ordering::Acquire);
        if value == 0 {
            return None;
        }
        // ORD(place): Relaxed. The place's next producer comes a whole round later, after a recycle of a segment that
        // this consumer made, which orders the two.
        place.store(0, Ordering::Relaxed);
        *head += 1;
        Some((value - 1) as u32)
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn every_sealed_segment_is_taken_once_with_its_entry() {
        loom::model(|| {
            // Two places; the tail starts at 1, so that the second push wraps.
            struct Shared {
                places: [Word; 2],
                tail: Word,
                entries: [Word; 2],
            }
            let shared = Arc::new(Shared {
                places: [Word::new(0), Word::new(0)],
                tail: Word::new(1),
                entries: [Word::new(0), Word::new(0)],
            });
            let producers: Vec<_> = (0..2u32)
                .map(|segment| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        shared.entries[segment as usize]
                            .store(100 + u64::from(segment), Ordering::Relaxed);
                        Ring::new(&shared.places, &shared.tail).push(segment);
                    })
                })
                .collect();
            let ring = Ring::new(&shared.places, &shared.tail);
            let (mut head, mut seen) = (1, Vec::new());
            while seen.len() < 2 {
                match ring.take(&mut head) {
                    Some(segment) => {
                        let entry = shared.entries[segment as usize].load(Ordering::Relaxed);
                        assert_eq!(
                            entry,
                            100 + u64::from(segment),
                            "taken before its entry was visible"
                        );
                        seen.push(segment);
                    }
                    None => thread::yield_now(),
                }
            }
            for producer in producers {
                producer.join().unwrap();
            }
            seen.sort_unstable();
            assert_eq!(seen, [0, 1]);
            assert_eq!(ring.take(&mut head), None);
        });
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn wraps_and_is_empty_in_between() {
        let places = [const { Word::new(0) }; 4];
        let tail = Word::new(0);
        let ring = Ring::new(&places, &tail);
        let mut head = 0;
        for round in 0..10 {
            for segment in 0..4 {
                ring.push(segment + round);
            }
            for segment in 0..4 {
                assert_eq!(ring.take(&mut head), Some(segment + round));
            }
            assert_eq!(ring.take(&mut head), None);
        }
    }
}
