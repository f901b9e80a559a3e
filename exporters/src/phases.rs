//! Where the time of an export goes, for whoever wants to make it faster: which part of the work is one thread's.

use std::time::{Duration, Instant};

/// Times of an export's phases, by the clock on the wall. What several threads do at once is summed over them, so it is
/// about their user time where each thread has a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// The pass over all records that comes first, from its begin to its end; nothing else runs then.
    pub first_pass: Duration,
    /// The same, as much of it as threads share, summed over them.
    pub first_pass_shared: Duration,
    /// Picking the records of stretches of time and sorting them; on all threads.
    pub picking: Duration,
    /// Deciding what a record needs to know of those before it; on one thread.
    pub deciding: Duration,
    /// Making text or packets; on all threads.
    pub formatting: Duration,
    /// Putting the output together and handing it on, or writing it where no other thread does; on one thread.
    pub stitching: Duration,
    /// That thread's waiting for others.
    pub waiting: Duration,
}

impl Phases {
    /// Adds the times of other parts of the same export.
    pub(crate) fn add(&mut self, other: &Self) {
        self.first_pass += other.first_pass;
        self.first_pass_shared += other.first_pass_shared;
        self.picking += other.picking;
        self.deciding += other.deciding;
        self.formatting += other.formatting;
        self.stitching += other.stitching;
        self.waiting += other.waiting;
    }
}

/// Measures one thing after the other.
#[derive(Debug)]
pub(crate) struct Watch(Instant);

impl Watch {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// The time since the start, or since the last lap.
    pub(crate) fn lap(&mut self) -> Duration {
        let now = Instant::now();
        now - std::mem::replace(&mut self.0, now)
    }
}
