//! The segment table's entries: one segment's state, as words of the region.
//!
//! ```text
//!            claim (a lane)            seal (the lane)
//!   free ───────────────────▶ open ───────────────────▶ sealed
//!    ▲                                                     │
//!    └───────── recycle (collector, or the lane in flight mode) ┘
//! ```
//!
//! | word | content | written by |
//! |---|---|---|
//! | 0 | state u8, kind u8 (0 records, 1 sticky, 2 blob), lane u16, generation u32 | claimer, then the lane, then the recycler |
//! | 1 | committed cells: what is published | the lane, one release store a record |
//! | 2 | thread id u32 of the opener, sequence of the segment in its lane u32 | claimer |
//! | 3 | lowest session u32, highest session u32 | the lane |
//! | 4, 5 | anchor: host ticks, vendor ns, of one moment at most about 10 ms before the segment was claimed | claimer |
//! | 6 | checksum of the committed cells, 0 = not sealed with one | whoever seals the books |
//! | 7 | committed cells that the checksum covers | likewise |

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentState {
    /// Nobody's; zeroed memory means free.
    Free = 0,
    /// A lane writes to it.
    Open = 1,
    /// Full, or its lane went on.
    Sealed = 2,
}

/// What lies in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SegmentKind {
    /// Records of sessions.
    Records = 0,
    /// Facts; never recycled.
    Sticky = 1,
    /// Vendor bytes.
    Blob = 2,
}

/// Index of a word in an entry.
pub(crate) mod word {
    pub(crate) const STATE: usize = 0;
    pub(crate) const COMMITTED: usize = 1;
    pub(crate) const ORIGIN: usize = 2;
    pub(crate) const SESSIONS: usize = 3;
    pub(crate) const ANCHOR_TICKS: usize = 4;
    pub(crate) const ANCHOR_VENDOR: usize = 5;
    pub(crate) const CHECKSUM: usize = 6;
    pub(crate) const CHECKED_CELLS: usize = 7;
}

/// Word 0, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateWord {
    /// State.
    pub state: SegmentState,
    /// Kind.
    pub kind: SegmentKind,
    /// Lane that owns it.
    pub lane: u16,
    /// Counts recycles.
    pub generation: u32,
}

impl StateWord {
    /// Packs the word.
    pub const fn pack(self) -> u64 {
        self.state as u64
            | (self.kind as u64) << 8
            | (self.lane as u64) << 16
            | (self.generation as u64) << 32
    }

    /// Unpacks a word, or `None` when it holds no state or kind.
    pub const fn unpack(word: u64) -> Option<Self> {
        let state = match word & 0xff {
            0 => SegmentState::Free,
            1 => SegmentState::Open,
            2 => SegmentState::Sealed,
            _ => return None,
        };
        let kind = match word >> 8 & 0xff {
            0 => SegmentKind::Records,
            1 => SegmentKind::Sticky,
            2 => SegmentKind::Blob,
            _ => return None,
        };
        Some(Self {
            state,
            kind,
            lane: (word >> 16) as u16,
            generation: (word >> 32) as u32,
        })
    }
}
