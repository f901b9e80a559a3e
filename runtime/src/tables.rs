//! Two hash tables of the hot path, over words that never move: which facts were announced already, and which dense
//! number a handle has at the moment. Bounded probes, no deletion, no allocation after load.

use crate::hash;
use crate::limits::{HANDLE_SLOTS, INTERN_SLOTS, PROBE_MAX};
use crate::sync::{Ordering, Word};

fn words(count: usize) -> Box<[Word]> {
    (0..count).map(|_| Word::new(0)).collect()
}

/// Remembers 64-bit keys. A set that is full forgets new ones: facts are then announced again, which is harmless.
#[derive(Debug)]
pub(crate) struct OnceSet(Box<[Word]>);

impl OnceSet {
    pub(crate) fn new() -> Self {
        Self(words(INTERN_SLOTS))
    }

    /// True when `key` (not 0) was added. Wait-free.
    #[inline]
    pub(crate) fn contains(&self, key: u64) -> bool {
        for step in 0..PROBE_MAX {
            // ORD(once): Relaxed. A key tells only that its fact was written by somebody; facts are read from the
            // region, not through this table.
            match self.0[(key as usize).wrapping_add(step) % INTERN_SLOTS].load(Ordering::Relaxed) {
                0 => return false,
                known if known == key => return true,
                _ => {}
            }
        }
        false
    }

    /// Adds `key`. Call it *after* the fact was written, so that nobody skips a fact that is not there yet; two threads
    /// may both write it. Wait-free.
    pub(crate) fn add(&self, key: u64) {
        for step in 0..PROBE_MAX {
            let slot = &self.0[(key as usize).wrapping_add(step) % INTERN_SLOTS];
            match slot.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return,
                Err(known) if known == key => return,
                Err(_) => {}
            }
        }
    }
}

/// A handle's number at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Number, from 1; unique for handle and generation.
    pub id: u32,
    /// How often the handle had been used before.
    pub generation: u32,
    /// False the first time: the fact must be announced.
    pub announced: bool,
}

/// Numbers 64-bit handles; a handle that is retired and comes back gets a new number.
#[derive(Debug)]
pub(crate) struct HandleTable {
    /// Pairs: key, and generation << 1 | announced.
    slots: Box<[Word]>,
}

/// Generations that a number can tell apart.
const GENERATIONS: u32 = u32::MAX / HANDLE_SLOTS as u32 - 1;

impl HandleTable {
    pub(crate) fn new() -> Self {
        Self {
            slots: words(2 * HANDLE_SLOTS),
        }
    }

    fn slot(&self, key: u64) -> Option<usize> {
        let first = hash::word(key) as usize;
        for step in 0..PROBE_MAX {
            let slot = first.wrapping_add(step) % HANDLE_SLOTS;
            let word = &self.slots[2 * slot];
            // ORD(handle): Relaxed. The key is all there is; the generation word starts valid at 0.
            let found = word.load(Ordering::Relaxed);
            if found == key {
                return Some(slot);
            }
            if found == 0 {
                match word.compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed) {
                    Ok(_) => return Some(slot),
                    Err(known) if known == key => return Some(slot),
                    Err(_) => {}
                }
            }
        }
        None
    }

    fn numbered(slot: usize, word: u64) -> Numbered {
        let generation = (word >> 1) as u32 % GENERATIONS;
        Numbered {
            id: generation * HANDLE_SLOTS as u32 + slot as u32 + 1,
            generation,
            announced: word & 1 != 0,
        }
    }

    /// The handle's number; `None` when the table has no room. `key` is not 0. Marks it announced. Wait-free.
    #[inline]
    pub(crate) fn number(&self, key: u64) -> Option<Numbered> {
        let slot = self.slot(key)?;
        let word = &self.slots[2 * slot + 1];
        let value = word.load(Ordering::Relaxed);
        if value & 1 == 0 {
            // ORD(handle): Relaxed. Two threads may both announce; that is harmless.
            word.fetch_or(1, Ordering::Relaxed);
        }
        Some(Self::numbered(slot, value))
    }

    /// The handle stands for something else from now on: its old number, if it had one that was announced.
    pub(crate) fn retire(&self, key: u64) -> Option<Numbered> {
        let slot = self.slot(key)?;
        let word = &self.slots[2 * slot + 1];
        let value = word.load(Ordering::Relaxed);
        if value & 1 == 0 {
            return None;
        }
        // ORD(handle): Relaxed. Who loses the race had the same handle retired by somebody else.
        let next = ((value >> 1) + 1) << 1;
        word.compare_exchange(value, next, Ordering::Relaxed, Ordering::Relaxed)
            .ok()?;
        Some(Self::numbered(slot, value))
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_set_remembers_and_forgets_only_when_full() {
        let set = OnceSet::new();
        assert!(!set.contains(9));
        set.add(9);
        set.add(9 + INTERN_SLOTS as u64);
        assert!(set.contains(9) && set.contains(9 + INTERN_SLOTS as u64) && !set.contains(10));
        for key in 0..2 * PROBE_MAX as u64 {
            set.add(500 + key * INTERN_SLOTS as u64);
        }
        assert!(!set.contains(500 + (2 * PROBE_MAX as u64 - 1) * INTERN_SLOTS as u64));
    }

    #[test]
    fn a_reused_handle_is_a_new_thing() {
        let table = HandleTable::new();
        let first = table.number(0x7f00).unwrap();
        assert!(!first.announced && first.id > 0);
        assert_eq!(
            table.number(0x7f00).unwrap(),
            Numbered {
                announced: true,
                ..first
            }
        );
        assert_eq!(table.retire(0x7f00).unwrap().id, first.id);
        assert_eq!(table.retire(0x7f00), None, "retired once");
        let second = table.number(0x7f00).unwrap();
        assert_eq!((second.generation, second.announced), (1, false));
        assert_ne!(second.id, first.id);
    }

    #[test]
    fn a_full_table_says_so() {
        let table = HandleTable::new();
        let numbered = (1..=2 * HANDLE_SLOTS as u64)
            .filter(|&key| table.number(key).is_some())
            .count();
        assert!(
            numbered <= HANDLE_SLOTS && numbered > HANDLE_SLOTS / 2,
            "{numbered}"
        );
    }
}
