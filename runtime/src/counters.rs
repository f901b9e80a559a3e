//! Counters of one lane for one session: which word holds what.
//!
//! A lane header has [`SESSION_SLOTS`] blocks, one for each of the newest sessions (session number modulo the slots),
//! and one more that all older sessions share. Only the lane's thread writes them, without read-modify-write; anybody
//! may read them.
//!
//! [`SESSION_SLOTS`]: crate::limits::SESSION_SLOTS

use crate::loss::Losses;

/// Index of a counter in its block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
#[non_exhaustive]
pub enum Counter {
    /// The session that the block counts for; 0 = unused. In the shared block: unused.
    Session = 0,
    /// Dispatches issued.
    DispatchIssued = 1,
    /// Copies issued.
    CopyIssued = 2,
    /// Dispatch completions that arrived in time, stored or lost.
    DispatchDone = 3,
    /// Copy completions that arrived in time, stored or lost.
    CopyDone = 4,
    /// Dispatch records stored.
    DispatchRecorded = 5,
    /// Copy records stored.
    CopyRecorded = 6,
    /// API calls stored.
    ApiRecorded = 7,
    /// Records that came after the session was accounted for.
    Late = 8,
    /// Highest correlation id under which work was issued.
    HighId = 9,
    /// Lowest correlation id of an issue record that was lost, plus 1; 0 = none was.
    LostIssueId = 10,
    /// Host ticks at the newest completion.
    LastArrivalTicks = 11,
    /// All other records stored.
    OtherRecorded = 12,
    /// Host ticks spent at the EXIT of sampled API calls (about 1 in 1,024), from one reading of the clock to another.
    SampledTicks = 13,
    /// See `SampledTicks`.
    SampledAppends = 14,
    /// Issues of dispatches and copies whose record found no room.
    IssueLost = 15,
    /// First of the losses, by reason.
    Lost = 16,
    /// Host ticks at the first loss that the lane saw; 0 = none.
    FirstLossTicks = 24,
    /// Host ticks at the last of them.
    LastLossTicks = 25,
}

/// One block, read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The raw words.
    pub words: [u64; crate::limits::SESSION_SLOT_WORDS],
}

/// Records that a lane stored, as its counters say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// All kinds.
    pub(crate) all: u64,
    /// Issues and completions of dispatches and copies, also the issues whose record found no room: 0 says that no such
    /// record was stored.
    pub(crate) device: u64,
}

impl Tally {
    /// For the session of one block, whose counters are `count(index)`.
    pub(crate) fn of(count: impl Fn(Counter) -> u64) -> Self {
        let device = [
            Counter::DispatchIssued,
            Counter::CopyIssued,
            Counter::DispatchRecorded,
            Counter::CopyRecorded,
        ];
        let device: u64 = device.into_iter().map(&count).sum();
        let others = count(Counter::ApiRecorded) + count(Counter::OtherRecorded);
        Self {
            all: (device + others).wrapping_sub(count(Counter::IssueLost)),
            device,
        }
    }

    /// What came since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            all: self.all.wrapping_sub(before.all),
            device: self.device.wrapping_sub(before.device),
        }
    }

    /// Both together.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            all: self.all.wrapping_add(other.all),
            device: self.device.wrapping_add(other.device),
        }
    }
}

impl Block {
    /// One counter.
    pub fn get(&self, counter: Counter) -> u64 {
        self.words[counter as usize]
    }

    /// The losses.
    pub fn lost(&self) -> Losses {
        let mut lost = Losses::default();
        let first = Counter::Lost as usize;
        lost.0
            .copy_from_slice(&self.words[first..first + Losses::COUNT]);
        lost
    }

    /// Sums `other` into this block; maxima and minima where that is what the counter means.
    pub fn add(&mut self, other: &Self) {
        for (index, (sum, &word)) in self.words.iter_mut().zip(&other.words).enumerate() {
            *sum = if index == Counter::Session as usize
                || index == Counter::HighId as usize
                || index == Counter::LastArrivalTicks as usize
                || index == Counter::LastLossTicks as usize
            {
                (*sum).max(word)
            } else if index == Counter::LostIssueId as usize
                || index == Counter::FirstLossTicks as usize
            {
                match (*sum, word) {
                    (0, other) | (other, 0) => other,
                    (one, other) => one.min(other),
                }
            } else {
                sum.wrapping_add(word)
            };
        }
    }
}

const _: () = assert!(Counter::Lost as usize + Losses::COUNT <= Counter::FirstLossTicks as usize);
const _: () = assert!((Counter::LastLossTicks as usize) < crate::limits::SESSION_SLOT_WORDS);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_b39_the_first_and_last_loss_of_all_lanes_are_kept() {
        let block = |first, last| {
            let mut block = Block::default();
            block.words[Counter::FirstLossTicks as usize] = first;
            block.words[Counter::LastLossTicks as usize] = last;
            block
        };
        let mut sum = Block::default();
        // A lane without a loss says 0.
        for one in [
            block(0, 0),
            block(70, 90),
            block(50, 60),
            block(0, 0),
            block(80, 95),
        ] {
            sum.add(&one);
        }
        assert_eq!(sum.get(Counter::FirstLossTicks), 50);
        assert_eq!(sum.get(Counter::LastLossTicks), 95);
    }
}
