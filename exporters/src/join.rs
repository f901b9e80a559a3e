//! Joins device work to the API calls that launched it, without a map of all ids.
//!
//! Correlation ids are handed out by counting, so a table of pages has two bits for each id (see [`pages`]): is there a
//! recorded API call with it, do drawn kernels or copies lead to it, and has the call claimed them. It lies in mappings of its
//! own ([`words`]) and is shared out to the threads that fill it ([`shards`]). Where it would take more than its budget, no
//! table of the whole process is kept: each stretch of time comes with what is known of its ids ([`window`]).

mod launches;
mod numbering;
mod pages;
mod shards;
mod tally;
mod window;
mod words;

pub(crate) use launches::LaunchTable;
pub(crate) use numbering::step;
pub(crate) use pages::Ids;
pub(crate) use shards::{Drawn, Feeder, Shards};
pub(crate) use tally::Tally;
pub(crate) use window::{Sorted, Window};
pub(crate) use words::Budget;

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Spreads one integer; for maps whose keys are ids.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn write_u64(&mut self, value: u64) {
        let wide = u128::from(value ^ self.0 ^ 0x5bd1_e995) * 0x9E37_79B9_7F4A_7C15_u128;
        self.0 = (wide as u64) ^ (wide >> 64) as u64;
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}

/// A map whose keys are ids.
pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Answers of a map that were asked for lately, a few of them, each at a place of its own by the lowest bits of a number:
/// records of several streams and threads come in turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recent<K, V>([Option<(K, V)>; RECENT]);

const RECENT: usize = 16;

impl<K: Copy, V: Copy> Default for Recent<K, V> {
    fn default() -> Self {
        Self([None; RECENT])
    }
}

impl<K: Copy + PartialEq, V: Copy> Recent<K, V> {
    /// The answer for `key`, if it is still there; `number` is the one that it was kept by.
    #[inline]
    pub(crate) fn get(&self, number: u64, key: K) -> Option<V> {
        match self.0[number as usize % RECENT] {
            Some((kept, value)) if kept == key => Some(value),
            _ => None,
        }
    }

    /// Keeps an answer.
    #[inline]
    pub(crate) fn keep(&mut self, number: u64, key: K, value: V) {
        self.0[number as usize % RECENT] = Some((key, value));
    }
}

/// Ids below this are looked up in an array.
const DENSE_IDS: u64 = 1 << 16;

/// Numbers things from 0 in the order in which their ids are met.
#[derive(Clone, Debug, Default)]
pub(crate) struct Numbers {
    dense: Vec<u32>,
    sparse: IdMap<u64, u32>,
    met: u32,
}

impl Numbers {
    /// The number of an id, and whether it is new.
    #[inline]
    pub(crate) fn of(&mut self, id: u64) -> (usize, bool) {
        match self.dense.get(id as usize) {
            Some(&number) if number != u32::MAX => (number as usize, false),
            _ => self.find(id),
        }
    }

    #[cold]
    fn find(&mut self, id: u64) -> (usize, bool) {
        if let Some(&number) = self.sparse.get(&id) {
            return (number as usize, false);
        }
        let number = self.met;
        self.met += 1;
        if id < DENSE_IDS {
            let dense = id as usize;
            if self.dense.len() <= dense {
                self.dense.resize(dense + 1, u32::MAX);
            }
            self.dense[dense] = number;
        } else {
            self.sparse.insert(id, number);
        }
        (number as usize, true)
    }
}
