//! The free segments: one bit each, set = free and backed by memory.
//!
//! Claiming is a scan from a moving hint and one `fetch_and`; a lost race moves on to the next bit. Both the scan and
//! the number of lost races are bounded, so claiming is wait-free. `free` counts the set bits, so that a full region is
//! noticed without a scan.

use crate::sync::{Ordering, Word};

/// Free bits over words that the caller owns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FreeBits<'a> {
    pub(crate) words: &'a [Word],
    pub(crate) free: &'a Word,
    pub(crate) hint: &'a Word,
}

/// Claims lost to other threads before a claim gives up and counts as "none free".
const RACES_MAX: u32 = 64;

impl FreeBits<'_> {
    /// Claims a free segment, or `None`. Any thread; wait-free.
    pub(crate) fn claim(&self) -> Option<u32> {
        // ORD(free): Relaxed. A count that is only a hint.
        if self.free.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut races = 0;
        let first = self.hint.load(Ordering::Relaxed) as usize;
        for step in 0..self.words.len() {
            let index = (first + step) % self.words.len();
            let mut bits = self.words[index].load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits & bits.wrapping_neg();
                // ORD(recycle): Acquire. Pairs with the Release in `give`: the new owner sees the recycler's words.
                let before = self.words[index].fetch_and(!bit, Ordering::Acquire);
                if before & bit != 0 {
                    self.free.fetch_sub(1, Ordering::Relaxed);
                    if before & !bit == 0 {
                        self.hint
                            .store(((index + 1) % self.words.len()) as u64, Ordering::Relaxed);
                    }
                    return Some((index * 64) as u32 + bit.trailing_zeros());
                }
                races += 1;
                if races == RACES_MAX {
                    return None;
                }
                bits = before & !bit;
            }
        }
        None
    }

    /// Frees segments. Any thread; the caller owns them. The words are shared with those who claim: they are written once
    /// for all segments of a word that come one after another.
    pub(crate) fn give(&self, segments: &[u32]) {
        if segments.is_empty() {
            return;
        }
        // The count goes up first, so that it never goes below zero when a bit is claimed at once.
        self.free
            .fetch_add(segments.len() as u64, Ordering::Relaxed);
        for run in segments.chunk_by(|one, next| one / 64 == next / 64) {
            let bits = run
                .iter()
                .fold(0u64, |bits, segment| bits | 1 << (segment % 64));
            debug_assert_eq!(
                bits.count_ones() as usize,
                run.len(),
                "one of {run:?} is there twice"
            );
            // ORD(recycle): Release. Pairs with the Acquire in `claim`.
            let before = self.words[run[0] as usize / 64].fetch_or(bits, Ordering::Release);
            debug_assert_eq!(before & bits, 0, "one of {run:?} was free already");
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn claims_each_bit_once_across_words() {
        let words = [const { Word::new(0) }; 3];
        let (free, hint) = (Word::new(0), Word::new(0));
        let bits = FreeBits {
            words: &words,
            free: &free,
            hint: &hint,
        };
        assert_eq!(bits.claim(), None);
        bits.give(&[]);
        bits.give(&[0]);
        bits.give(&[129, 1, 2, 63, 128, 64]);
        let rest: Vec<u32> = (3..128)
            .filter(|segment| !(63..=64).contains(segment))
            .collect();
        bits.give(&rest);
        assert_eq!(free.load(Ordering::Relaxed), 130);
        let claimed: HashSet<u32> = std::iter::from_fn(|| bits.claim()).collect();
        assert_eq!(claimed.len(), 130);
        bits.give(&[129]);
        assert_eq!(bits.claim(), Some(129));
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    #[test]
    fn a_recycled_segment_has_one_owner_who_sees_the_recycler() {
        loom::model(|| {
            let shared = Arc::new([Word::new(0), Word::new(0), Word::new(0), Word::new(0)]);
            fn bits(words: &[Word; 4]) -> FreeBits<'_> {
                FreeBits {
                    words: &words[..1],
                    free: &words[1],
                    hint: &words[2],
                }
            }
            let claimers: Vec<_> = (0..2)
                .map(|_| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let claimed = bits(&shared).claim();
                        if claimed.is_some() {
                            assert_eq!(
                                shared[3].load(Ordering::Relaxed),
                                7,
                                "claimed before the generation moved"
                            );
                        }
                        claimed.is_some()
                    })
                })
                .collect();
            shared[3].store(7, Ordering::Relaxed);
            bits(&shared).give(&[0]);
            let owners = claimers
                .into_iter()
                .map(|claimer| claimer.join().unwrap())
                .filter(|&got| got)
                .count();
            assert!(owners <= 1);
        });
    }
}
