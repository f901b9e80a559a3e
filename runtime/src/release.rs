//! Reusing the memory of sessions whose traces were taken: window mode.
//!
//! A segment is freed when it is sealed, nobody has it in hand (it came out of the ring and has its checksum), no trace of
//! the live region is open, and every session in it was released. The lane's open segment stays, whatever is in it: a lane
//! that fell silent keeps up to one segment. Facts are never freed.
//!
//! I1 Only under the lock of [`Released`] is a segment freed or given its checksum, and a trace of the live region opened.
//! I2 A segment with a checksum is not in the ring: the consumer took it out first.
//!
//! In flight mode the lanes reuse their own segments, in stream mode the collector frees them; there a release frees
//! nothing.

use std::collections::BTreeSet;
use std::sync::MutexGuard;

use crate::control::SessionState;
use crate::header::Mode;
use crate::record::{Kind, high, low};
use crate::runtime::Runtime;
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::status::Status;
use crate::sync::Ordering;

/// What was released, and how far the ring was read.
#[derive(Debug, Default)]
pub(crate) struct Released {
    pub(crate) ring_head: u64,
    /// All sessions up to this one are released.
    up_to: u32,
    /// Released ones above it.
    sessions: BTreeSet<u32>,
    /// Something was released that may still have segments to be freed.
    pub(crate) waiting: bool,
}

impl Released {
    /// False when it was released already.
    fn add(&mut self, session: u32) -> bool {
        if session <= self.up_to || !self.sessions.insert(session) {
            return false;
        }
        while self.sessions.remove(&(self.up_to + 1)) {
            self.up_to += 1;
        }
        true
    }

    fn has_all(&self, lowest: u32, highest: u32) -> bool {
        let lowest = lowest.max(self.up_to + 1);
        highest < lowest
            || self.sessions.range(lowest..=highest).count() as u64
                == u64::from(highest - lowest) + 1
    }
}

impl Runtime {
    pub(crate) fn released(&self) -> MutexGuard<'_, Released> {
        self.released
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Says that nobody needs a session's records any more: its trace was taken, or never will be. Frees the segments in
    /// which all sessions were released; those that can't be freed yet follow later. Not in a callback.
    ///
    /// Records of other sessions stay. The session itself disappears from reports of the live region.
    ///
    /// Returns how many segments were freed now; 0 in flight and stream mode.
    ///
    /// # Errors
    /// [`Status::NoSuchSession`] when its books are not closed or it was released already, [`Status::NotReady`] in a
    /// forked child, [`Status::Finalizing`].
    pub fn session_release(&self, session: u64) -> Result<u64, Status> {
        let control = self.control();
        control.barrier().ok_or(Status::NotReady)?;
        if self.is_finalizing() {
            return Err(Status::Finalizing);
        }
        let newest = control.newest.load(Ordering::Acquire);
        if session == 0 || session > newest || control.state(session as u32) != SessionState::Booked
        {
            return Err(Status::NoSuchSession);
        }
        let mut released = self.released();
        if !released.add(session as u32) {
            return Err(Status::NoSuchSession);
        }
        self.fact(Kind::SessionReleased, session as u32, &[session]);
        released.waiting = true;
        Ok(self.free_released(&mut released))
    }

    /// Frees what can be freed.
    pub(crate) fn free_released(&self, released: &mut Released) -> u64 {
        let region = self.region();
        if !released.waiting
            || region.header().mode != Mode::Window
            || region.pins().load(Ordering::Acquire) != 0
        {
            return 0;
        }
        released.waiting = false;
        self.checksum_sealed(&mut released.ring_head, usize::MAX);
        let mut freed = 0;
        for segment in 0..region.backed_count() as u32 {
            // ORD(seal): Acquire. Pairs with the Release store in `Region::seal`: the sessions are final.
            let state =
                StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire));
            let sealed = state.is_some_and(|state| {
                (state.state, state.kind) == (SegmentState::Sealed, SegmentKind::Records)
            });
            if !sealed {
                continue;
            }
            let sessions = region
                .entry(segment, word::SESSIONS)
                .load(Ordering::Relaxed);
            if !released.has_all(low(sessions).max(1), high(sessions)) {
                continue;
            }
            // Without a checksum it may be in the ring still (I2).
            if region
                .entry(segment, word::CHECKSUM)
                .load(Ordering::Relaxed)
                == 0
            {
                released.waiting = true;
                continue;
            }
            region.recycle(segment);
            freed += 1;
        }
        freed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_released_when_each_of_it_is() {
        let mut released = Released::default();
        assert!(!released.has_all(1, 1));
        assert!(released.add(2) && !released.add(2));
        assert!(released.has_all(2, 2) && !released.has_all(1, 2));
        assert!(released.add(1) && released.add(4) && !released.add(1));
        assert!(released.has_all(1, 2) && !released.has_all(1, 4) && released.has_all(4, 4));
        assert!(released.add(3));
        assert_eq!((released.up_to, released.sessions.len()), (4, 0));
        assert!(released.has_all(1, 4) && !released.has_all(4, 5));
    }
}
