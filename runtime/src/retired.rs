//! Correlation ids that the SDK has retired: one bit each, over a window of the newest 64 M ids.
//!
//! Written by one thread at a time (the SDK's buffer callback), read by whoever accounts for a session. A page of 4,096
//! ids carries the round that it belongs to, so that an id of an earlier round is never taken for a newer one.

use crate::sync::{Ordering, Word};

const WINDOW: u64 = 1 << 26;
const PAGE_IDS: u64 = 4096;
const PAGE_WORDS: usize = (PAGE_IDS / 64) as usize;
const PAGES: usize = (WINDOW / PAGE_IDS) as usize;

/// The set. 8 MiB of address space; memory is used as ids come.
#[derive(Debug)]
pub(crate) struct RetiredSet {
    bits: &'static [Word],
    /// Round + 1 of each page, 0 = never used.
    rounds: Box<[Word]>,
}

impl RetiredSet {
    /// # Errors
    /// The kernel's, when it refuses the address space.
    pub(crate) fn new() -> std::io::Result<Self> {
        let words = PAGES * PAGE_WORDS;
        let base = crate::map::map_private(words * 8, false)?;
        // SAFETY: zeroed pages mapped for ever, `words` words long, page-aligned; zero is a valid atomic.
        let bits = unsafe { std::slice::from_raw_parts(base.as_ptr().cast::<Word>(), words) };
        Ok(Self {
            bits,
            rounds: (0..PAGES).map(|_| Word::new(0)).collect(),
        })
    }

    fn place(id: u64) -> (usize, u64) {
        ((id / PAGE_IDS) as usize % PAGES, id / WINDOW + 1)
    }

    fn word(&self, id: u64) -> &Word {
        let (page, _) = Self::place(id);
        &self.bits[page * PAGE_WORDS + (id % PAGE_IDS / 64) as usize]
    }

    /// Adds an id. One caller at a time; usable in a callback.
    pub(crate) fn add(&self, id: u64) {
        let (page, round) = Self::place(id);
        // ORD(retired): Relaxed, one writer.
        if self.rounds[page].load(Ordering::Relaxed) != round {
            if self.rounds[page].load(Ordering::Relaxed) > round {
                return;
            }
            for word in &self.bits[page * PAGE_WORDS..][..PAGE_WORDS] {
                word.store(0, Ordering::Relaxed);
            }
            // ORD(retired): Release. Pairs with the Acquire in `contains`: who sees the round sees the cleared page.
            self.rounds[page].store(round, Ordering::Release);
        }
        let word = self.word(id);
        let bits = word.load(Ordering::Relaxed) | 1 << (id % 64);
        // ORD(retired): Release. Pairs with the Acquire in `contains`.
        word.store(bits, Ordering::Release);
    }

    /// True when the id was added and is still within the window.
    pub(crate) fn contains(&self, id: u64) -> bool {
        let (page, round) = Self::place(id);
        let same = || self.rounds[page].load(Ordering::Acquire) == round;
        same() && self.word(id).load(Ordering::Acquire) >> (id % 64) & 1 != 0 && same()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_comes_round_again_forgets_the_old_ids() {
        let set = RetiredSet::new().unwrap();
        for id in [1, 2, 4095, 4096, WINDOW - 1] {
            assert!(!set.contains(id));
            set.add(id);
            assert!(set.contains(id));
        }
        set.add(WINDOW + 7);
        assert!(set.contains(WINDOW + 7) && !set.contains(1) && !set.contains(WINDOW + 1));
        set.add(1);
        assert!(
            !set.contains(1) && set.contains(WINDOW + 7),
            "an id older than the page's round is ignored"
        );
    }
}
