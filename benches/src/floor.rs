//! What any recorder pays that can be off: one test of a word that may be in no cache, and the reading of the clock behind
//! it. Not a peer, since it keeps nothing: the floor beside which cold appends are read. Where readings of the clock wait
//! for each other, as on Emerald Rapids, the caller's next one waits for that test.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::clock;
use crate::driver::{Peer, Producer};

/// The word that says whether to record, on a line of its own.
#[derive(Debug)]
#[repr(align(128))]
pub struct Floor<const TIMES: usize>(AtomicU64);

impl<const TIMES: usize> Default for Floor<TIMES> {
    fn default() -> Self {
        Self(AtomicU64::new(black_box(1)))
    }
}

impl<const TIMES: usize> Producer for &Floor<TIMES> {
    #[inline(always)]
    fn append(&mut self, _sequence: u64) -> bool {
        for _ in 0..TIMES.max(1) {
            if self.0.load(Ordering::Relaxed) == 0 {
                return false;
            }
            if TIMES != 0 {
                black_box(clock::ticks());
            }
        }
        true
    }
}

impl<const TIMES: usize> Peer for Floor<TIMES> {
    type Producer<'a> = &'a Self;

    fn producer(&self, _index: usize) -> &Self {
        self
    }

    fn drain(&self, _seen: &mut dyn FnMut(usize, u64)) -> Result<(), String> {
        Ok(())
    }

    fn drains_itself(&self) -> bool {
        true
    }
}
