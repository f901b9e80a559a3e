//! Why a record is not in the trace. Every export shows these counts by name.

/// A reason for a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(usize)]
#[non_exhaustive]
pub enum LossReason {
    /// No segment was free, or none backed by memory.
    NoSegment = 0,
    /// No lane was free for the thread.
    NoLane = 1,
    /// The session had been closed between the caller's test and the append.
    AfterClose = 2,
    /// A signal handler appended while its own thread was inside an append.
    Reentry = 3,
    /// The SDK dropped it and said so.
    SdkDropped = 4,
    /// The sticky log had no room for a fact; its id and hash are kept where they are used.
    StickyFull = 5,
}

impl LossReason {
    /// All reasons, in the order of [`Losses`].
    pub const ALL: [Self; Losses::COUNT] = [
        Self::NoSegment,
        Self::NoLane,
        Self::AfterClose,
        Self::Reentry,
        Self::SdkDropped,
        Self::StickyFull,
    ];

    /// The reason's name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NoSegment => "no_segment",
            Self::NoLane => "no_lane",
            Self::AfterClose => "after_close",
            Self::Reentry => "reentry",
            Self::SdkDropped => "sdk_dropped",
            Self::StickyFull => "sticky_full",
        }
    }
}

/// Losses by reason, indexed by [`LossReason`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses(pub [u64; Losses::COUNT]);

impl Losses {
    /// How many reasons there are.
    pub const COUNT: usize = 6;

    /// The count for one reason.
    pub fn get(&self, reason: LossReason) -> u64 {
        self.0[reason as usize]
    }

    /// All reasons together.
    pub fn total(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |sum, &count| sum.saturating_add(count))
    }

    /// Adds to the count for one reason; what a damaged region says may be anything, so no sum overflows.
    pub(crate) fn count(&mut self, reason: LossReason, count: u64) {
        let sum = &mut self.0[reason as usize];
        *sum = sum.saturating_add(count);
    }

    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        for (sum, count) in self.0.iter_mut().zip(other.0) {
            *sum = sum.saturating_add(count);
        }
    }
}
