//! Subscriptions: what a late reader in the same process gets, while the process runs.
//!
//! A [`Subscriber`] hands out first every fact of the sticky log, then records as they are published, each exactly once;
//! there may be any number of subscribers, each at its own pace. Nothing is registered with the runtime: a subscriber is
//! only a place in each segment, so an append does not know of it and can't be slowed by it (promises 1 and 7).
//!
//! Invariants
//! - S1 `seen` holds, for each segment, the generation that was read and how many of its cells were handed out.
//! - S2 The heads of record segments are read before those of sticky segments, and facts are handed out first: every fact
//!   that was announced before a record was published is handed out before that record.
//! - S3 Within a lane, a segment is handed out only when the one before it in the lane is handed out to its end. A lane
//!   claims the next segment before it seals the old one, so "sealed" is read first, and then the head.
//! - S4 Cells are copied before they are handed out, and the copy counts only if the segment was not reused meanwhile
//!   (`handover::copy`).
//!
//! A subscriber that is slower than the reuse of segments loses what was in them, and counts it ([`Lost`]). Progress:
//! takes no lock; allocates; reads two words of each backed segment for each round of [`Subscriber::next`] that finds
//! nothing left to hand out, so poll it every millisecond or so, not in a tight loop. Not for callbacks.

use std::collections::VecDeque;

use crate::anchors::TickAnchor;
use crate::handover;
use crate::limits::{CELL_WORDS, SEGMENT_CELLS};
use crate::record::{Record, high};
use crate::runtime::Runtime;
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::sync::Ordering;

/// Which records a subscriber gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum From {
    /// Those that are published after the subscription.
    #[default]
    Now,
    /// Also those that the region still holds.
    Oldest,
}

/// What a subscriber was too slow for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    /// Segments that were reused before they were read to their end.
    pub segments: u64,
    /// Cells in them that were not read: at most 15 too many for each segment, whose tail may have been unused. A record
    /// is 1 to 16 cells.
    pub cells: u64,
}

/// One record, or one fact.
#[derive(Clone, Copy, Debug)]
pub struct Item<'a> {
    /// The words, in the subscriber's own memory: valid until the next call.
    pub record: Record<'a>,
    /// The lane that wrote it.
    pub lane: u16,
    /// A moment near the record in host ticks and in the vendor's clock, for converting its ticks.
    pub anchor: TickAnchor,
}

/// A place in the stream of facts and records. See the module.
#[derive(Debug)]
pub struct Subscriber {
    runtime: &'static Runtime,
    seen: Vec<Seen>,
    /// What this round still has to copy, facts first.
    parts: VecDeque<Part>,
    /// Cells that were copied and are not handed out yet, and the next word in them.
    cells: Vec<u64>,
    next_word: usize,
    lane: u16,
    anchor: TickAnchor,
    lost: Lost,
}

/// How far one segment was read (S1).
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    generation: u32,
    cells: usize,
    /// Sealed, and read to its end: nothing more comes in this generation.
    finished: bool,
    /// Held records when it was last looked at, so that what is missed in it is a loss.
    records: bool,
}

/// Published cells that this round hands out.
#[derive(Clone, Copy, Debug)]
struct Part {
    segment: u32,
    lane: u16,
    sequence: u32,
    generation: u32,
    until: usize,
    sealed: bool,
}

impl Subscriber {
    /// Subscribes. Facts are handed out from the first one on; records as `from` says.
    pub fn new(runtime: &'static Runtime, from: From) -> Self {
        let mut subscriber = Self {
            runtime,
            seen: Vec::new(),
            parts: VecDeque::new(),
            cells: Vec::new(),
            next_word: 0,
            lane: 0,
            anchor: TickAnchor {
                ticks: 0,
                vendor_ns: 0,
            },
            lost: Lost::default(),
        };
        let region = runtime.region();
        // Every segment of the region, also those that are backed later: what was reused before now is no loss.
        for segment in 0..region.segment_count() {
            let mut seen = Seen::default();
            if u64::from(segment) < region.backed_count()
                && let Some((state, committed)) = subscriber.head(segment)
            {
                seen.generation = state.generation;
                if from == From::Now
                    && state.kind == SegmentKind::Records
                    && state.state != SegmentState::Free
                {
                    seen.cells = committed;
                    seen.finished = state.state == SegmentState::Sealed;
                    seen.records = true;
                }
            }
            subscriber.seen.push(seen);
        }
        subscriber
    }

    /// The next fact or record; `None` when there is nothing new.
    #[expect(
        clippy::should_implement_trait,
        reason = "the item borrows from the subscriber, which Iterator can't say"
    )]
    pub fn next(&mut self) -> Option<Item<'_>> {
        loop {
            while self.next_word >= self.cells.len() {
                if self.parts.is_empty() {
                    self.look();
                }
                let part = self.parts.pop_front()?;
                self.copy(&part);
            }
            if Record::parse(&self.cells[self.next_word..]).is_ok() {
                break;
            }
            // The lane's own thread wrote it, so only damage looks like this. What follows can't be found again.
            self.next_word = self.cells.len();
        }
        let record = Record::parse(&self.cells[self.next_word..]).ok()?;
        self.next_word += record.cells() * CELL_WORDS;
        Some(Item {
            record,
            lane: self.lane,
            anchor: self.anchor,
        })
    }

    /// What was lost so far because segments were reused before they were read.
    pub fn lost(&self) -> Lost {
        self.lost
    }

    /// State and head of a segment; the state first, so that "sealed" means that the head is final (S3).
    fn head(&self, segment: u32) -> Option<(StateWord, usize)> {
        let region = self.runtime.region();
        // ORD(seal): Acquire. Pairs with the Release store in `Region::seal` and `Region::claim`.
        let state = region.entry(segment, word::STATE).load(Ordering::Acquire);
        // ORD(publish): Acquire. Pairs with the Release store in `handover::publish`.
        let committed = region
            .entry(segment, word::COMMITTED)
            .load(Ordering::Acquire) as usize;
        Some((StateWord::unpack(state)?, committed.min(SEGMENT_CELLS)))
    }

    /// Starts a round: reads all heads, records before facts (S2).
    fn look(&mut self) {
        let records = self.look_for(SegmentKind::Records);
        let facts = self.look_for(SegmentKind::Sticky);
        self.parts.extend(facts);
        self.parts.extend(records);
    }

    fn look_for(&mut self, kind: SegmentKind) -> Vec<Part> {
        let region = self.runtime.region();
        let mut parts = Vec::new();
        for segment in 0..region.backed_count().min(self.seen.len() as u64) as u32 {
            let Some((state, committed)) = self.head(segment) else {
                continue;
            };
            self.follow_generation(segment, state.generation);
            let seen = self.seen[segment as usize];
            if state.state == SegmentState::Free || state.kind != kind || seen.finished {
                continue;
            }
            self.seen[segment as usize].records = kind == SegmentKind::Records;
            let origin = region.entry(segment, word::ORIGIN).load(Ordering::Relaxed);
            parts.push(Part {
                segment,
                lane: state.lane,
                sequence: high(origin),
                generation: state.generation,
                until: committed,
                sealed: state.state == SegmentState::Sealed,
            });
        }
        // In the order of each lane, up to its first segment that may still grow (S3).
        parts.sort_unstable_by_key(|part| (part.lane, part.sequence));
        let mut open_lane = None;
        parts.retain(|part| {
            let after_open = open_lane == Some(part.lane);
            if !part.sealed {
                open_lane = Some(part.lane);
            }
            !after_open && (part.sealed || part.until > self.seen[part.segment as usize].cells)
        });
        parts
    }

    /// Notes that a segment was reused, and counts what was not read of it.
    fn follow_generation(&mut self, segment: u32, generation: u32) {
        let seen = &mut self.seen[segment as usize];
        let reuses = generation.wrapping_sub(seen.generation);
        if reuses == 0 {
            return;
        }
        if seen.records && !seen.finished {
            self.lost.segments += 1;
            self.lost.cells += (SEGMENT_CELLS - seen.cells) as u64;
        } else if !seen.records {
            // It came and went between two looks.
            self.lost.segments += 1;
            self.lost.cells += SEGMENT_CELLS as u64;
        }
        self.lost.segments += u64::from(reuses - 1);
        self.lost.cells += u64::from(reuses - 1) * SEGMENT_CELLS as u64;
        *seen = Seen {
            generation,
            ..Seen::default()
        };
    }

    /// Copies a part into `cells` (S4).
    fn copy(&mut self, part: &Part) {
        let region = self.runtime.region();
        let from = self.seen[part.segment as usize].cells;
        self.cells.clear();
        self.next_word = 0;
        let state = region.entry(part.segment, word::STATE);
        let committed = region.entry(part.segment, word::COMMITTED);
        let cells = &mut self.cells;
        let copied = handover::copy(state, committed, |_| {
            let words = from * CELL_WORDS..part.until * CELL_WORDS;
            cells.extend(words.map(|index| {
                region
                    .cell_word(part.segment, index)
                    .load(Ordering::Relaxed)
            }));
            [word::ANCHOR_TICKS, word::ANCHOR_VENDOR]
                .map(|index| region.entry(part.segment, index).load(Ordering::Relaxed))
        });
        let same = copied.and_then(|(state, anchor)| {
            let state = StateWord::unpack(state)?;
            (state.generation == part.generation).then_some(anchor)
        });
        let Some([ticks, vendor_ns]) = same else {
            // Reused meanwhile: the next round counts what was not read.
            self.cells.clear();
            return;
        };
        self.lane = part.lane;
        self.anchor = TickAnchor { ticks, vendor_ns };
        let seen = &mut self.seen[part.segment as usize];
        seen.cells = part.until;
        seen.finished = part.sealed;
    }
}

#[cfg(test)]
mod tests;
