//! The record that closes a session's books: verdict, proof and every count at the moment the session was accounted
//! for. Eight cells, sticky.

use crate::limits::CELL_WORDS;
use crate::loss::Losses;
use crate::record::{Kind, Record, head_word};

/// What a trace says of its own completeness.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Verdict {
    /// Each issued dispatch and copy is recorded or retired without a record.
    Complete = 0,
    /// Some are missing.
    #[default]
    Incomplete = 1,
    /// The SDK offers no proof.
    Heuristic = 2,
    /// Nothing was issued.
    Empty = 3,
}

impl Verdict {
    /// The verdict with that number; unknown numbers read as incomplete.
    pub const fn from_u64(value: u64) -> Self {
        match value {
            0 => Self::Complete,
            2 => Self::Heuristic,
            3 => Self::Empty,
            _ => Self::Incomplete,
        }
    }

    /// The verdict's name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Incomplete => "incomplete",
            Self::Heuristic => "heuristic",
            Self::Empty => "empty",
        }
    }
}

/// What the verdict rests on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u64)]
pub enum Proof {
    /// Nothing.
    #[default]
    None = 0,
    /// Every issue has its completion.
    Pairs = 1,
    /// Pairs, and for the rest the retirement of their correlation id.
    PairsAndRetirement = 2,
    /// Pairs, as they stood when the SDK had drained its queues at finalize.
    FinalizeDrain = 3,
}

impl Proof {
    /// The proof with that number; unknown numbers read as none.
    pub const fn from_u64(value: u64) -> Self {
        match value {
            1 => Self::Pairs,
            2 => Self::PairsAndRetirement,
            3 => Self::FinalizeDrain,
            _ => Self::None,
        }
    }

    /// The proof's name in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Pairs => "pairs",
            Self::PairsAndRetirement => "pairs+retirement",
            Self::FinalizeDrain => "finalize-drain",
        }
    }
}

/// Counts of one kind of device work. `missing` is what is left of `issued` after the other two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Seen at issue, in the session.
    pub issued: u64,
    /// Completion recorded.
    pub recorded: u64,
    /// Retired without a record: the SDK could not time it.
    pub retired_without_record: u64,
}

impl Work {
    /// Issued and neither recorded nor retired.
    pub fn missing(&self) -> u64 {
        self.issued
            .saturating_sub(self.recorded.saturating_add(self.retired_without_record))
    }
}

/// The closing record of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionEnd {
    /// The session's number, from 1.
    pub session: u64,
    /// Verdict.
    pub verdict: Verdict,
    /// What it rests on.
    pub proof: Proof,
    /// Dispatches.
    pub dispatches: Work,
    /// Memory copies.
    pub copies: Work,
    /// API calls recorded whole.
    pub api_recorded: u64,
    /// API calls and ranges still open when the session was accounted for.
    pub open_at_stop: u64,
    /// Every correlation id at or below it is accounted for; 0 when not even the first is.
    pub low_watermark: u64,
    /// The highest correlation id under which work was issued.
    pub high_watermark: u64,
    /// Records that came after the session was accounted for, up to now.
    pub late: u64,
    /// Records that are not in the trace, by reason.
    pub lost: Losses,
    /// When a lane first had no room for a record or a fact, vendor ns; 0 = never. Losses of threads without a lane and of
    /// the SDK have no time.
    pub first_loss_ns: u64,
    /// When one last had none, vendor ns.
    pub last_loss_ns: u64,
    /// When the stop was asked for, vendor ns.
    pub requested_ns: u64,
    /// When the last completion arrived, vendor ns; 0 when none did.
    pub last_arrival_ns: u64,
    /// When the stop returned, vendor ns.
    pub returned_ns: u64,
    /// When the session was opened, vendor ns.
    pub begin_ns: u64,
    /// How long the stop waited, host ns.
    pub waited_ns: u64,
    /// True when correlation-id retirement was switched off.
    pub retirement_off: bool,
}

/// Words of the record.
pub(crate) const SESSION_END_WORDS: usize = 8 * CELL_WORDS;

impl SessionEnd {
    /// The record's words.
    pub(crate) fn encode(&self) -> [u64; SESSION_END_WORDS] {
        let mut words = [0; SESSION_END_WORDS];
        words[0] = head_word(Kind::SessionEnd, 8, 0, self.session as u32);
        let head = [
            self.session,
            self.verdict as u64,
            self.proof as u64,
            self.dispatches.issued,
            self.dispatches.recorded,
            self.dispatches.retired_without_record,
            self.copies.issued,
            self.copies.recorded,
            self.copies.retired_without_record,
            self.api_recorded,
            self.open_at_stop,
            self.low_watermark,
            self.high_watermark,
            self.late,
            self.requested_ns,
            self.last_arrival_ns,
            self.returned_ns,
            self.begin_ns,
            self.waited_ns,
            u64::from(self.retirement_off),
            self.first_loss_ns,
            self.last_loss_ns,
        ];
        words[1..=head.len()].copy_from_slice(&head);
        words[32..32 + Losses::COUNT].copy_from_slice(&self.lost.0);
        words
    }

    /// Reads the record back.
    pub fn decode(record: &Record<'_>) -> Self {
        let word = |index| record.word(index);
        let work = |at| Work {
            issued: word(at),
            recorded: word(at + 1),
            retired_without_record: word(at + 2),
        };
        let mut lost = Losses::default();
        for (index, count) in lost.0.iter_mut().enumerate() {
            *count = word(32 + index);
        }
        Self {
            session: word(1),
            verdict: Verdict::from_u64(word(2)),
            proof: Proof::from_u64(word(3)),
            dispatches: work(4),
            copies: work(7),
            api_recorded: word(10),
            open_at_stop: word(11),
            low_watermark: word(12),
            high_watermark: word(13),
            late: word(14),
            requested_ns: word(15),
            last_arrival_ns: word(16),
            returned_ns: word(17),
            begin_ns: word(18),
            waited_ns: word(19),
            retirement_off: word(20) != 0,
            first_loss_ns: word(21),
            last_loss_ns: word(22),
            lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip() {
        let end = SessionEnd {
            session: 3,
            verdict: Verdict::Empty,
            proof: Proof::FinalizeDrain,
            dispatches: Work {
                issued: 9,
                recorded: 5,
                retired_without_record: 1,
            },
            copies: Work {
                issued: 2,
                recorded: 2,
                retired_without_record: 0,
            },
            api_recorded: 11,
            open_at_stop: 12,
            low_watermark: 13,
            high_watermark: 14,
            late: 15,
            lost: Losses([1, 2, 3, 4, 5, 6]),
            requested_ns: 16,
            last_arrival_ns: 17,
            returned_ns: 18,
            begin_ns: 19,
            waited_ns: 20,
            retirement_off: true,
            first_loss_ns: 21,
            last_loss_ns: 22,
        };
        let words = end.encode();
        assert_eq!(SessionEnd::decode(&Record::parse(&words).unwrap()), end);
        assert_eq!(end.dispatches.missing(), 3);
    }
}
