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
//! - S5 `before + handed` of a segment is what was stored in it, in all its generations, up to where it was read. The lanes count
//!   what they store in a segment when they seal it, from counters that they keep anyway; what came between is lost.
//!
//! A subscriber that is slower than the reuse of segments loses what was in them, and counts it ([`Lost`]). Progress:
//! takes no lock; allocates; reads four words of each backed segment for each round of [`Subscriber::next`] that finds
//! nothing left to hand out, so poll it every millisecond or so, not in a tight loop. Not for callbacks.

use std::collections::{HashMap, HashSet, VecDeque};

use crate::anchors::TickAnchor;
use crate::handover;
use crate::limits::{BACK_STEP_BYTES, CELL_WORDS};
use crate::record::{Kind, Record, Records, high};
use crate::region::Stored;
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
    /// Records of sessions in them that were not handed out. Exact, but for one for each thread that ended, or jumped, out of
    /// the middle of an append. The cells that say that a lane changed hands are none.
    pub records: u64,
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
    segment: u32,
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
    /// Records that were stored in it in earlier generations ([`Stored::before`]), and those of this one that were handed out, or
    /// were there before the subscription (S5).
    before: u64,
    handed: u64,
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
            segment: 0,
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
            let backed = u64::from(segment) < region.backed_count();
            // A segment that is being reused in this very moment is looked at again.
            let seen = if backed {
                (0..BEGIN_TRIES)
                    .find_map(|_| subscriber.begin(segment, from))
                    .unwrap_or_default()
            } else {
                Seen::default()
            };
            subscriber.seen.push(seen);
        }
        subscriber
    }

    /// Where reading a segment begins; `None` when it was reused meanwhile.
    fn begin(&self, segment: u32, from: From) -> Option<Seen> {
        let region = self.runtime.region();
        let (state, committed) = self.head(segment)?;
        let stored = region.stored(segment);
        if stored.generation != state.generation as u16 {
            return None;
        }
        let mut seen = Seen {
            generation: state.generation,
            before: stored.before,
            ..Seen::default()
        };
        if from == From::Now
            && state.kind == SegmentKind::Records
            && state.state != SegmentState::Free
        {
            seen.cells = committed;
            seen.finished = state.state == SegmentState::Sealed;
            seen.records = true;
            seen.handed = if seen.finished {
                stored.sealed
            } else {
                self.count(segment, state.generation, committed)?
            };
        }
        Some(seen)
    }

    /// Records in the first `cells` cells of a segment; `None` when it was reused meanwhile.
    fn count(&self, segment: u32, generation: u32, cells: usize) -> Option<u64> {
        let region = self.runtime.region();
        let [state, committed] =
            [word::STATE, word::COMMITTED].map(|index| region.entry(segment, index));
        let (state, words) = handover::copy(state, committed, |_| {
            (0..cells * CELL_WORDS)
                .map(|index| region.cell_word(segment, index).load(Ordering::Relaxed))
                .collect::<Vec<u64>>()
        })?;
        (high(state) == generation).then_some(())?;
        let records = Records::new(&words).flatten();
        Some(records.filter(is_of_a_session).count() as u64)
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
        self.seen[self.segment as usize].handed += u64::from(is_of_a_session(&record));
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
        Some((
            StateWord::unpack(state)?,
            committed.min(region.segment_cells()),
        ))
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
            let stored = region.stored(segment);
            if stored.generation != state.generation as u16 {
                // It is being reused just now: counted in the next round. What was in it is no longer to be had.
                continue;
            }
            self.follow_generation(segment, state.generation, &stored);
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
        if parts
            .iter()
            .any(|part| self.seen[part.segment as usize].cells == 0)
        {
            self.keep_order(kind, &mut parts);
        }
        parts
    }

    /// Takes out what another segment of its lane precedes that was not claimed yet when it was looked at: this thread may have
    /// been held up meanwhile for as long as a lane needs to fill it and to go on to one that was looked at later (S3). A lane
    /// claims in order, so whoever has seen a segment claimed now sees all of the lane's earlier ones.
    fn keep_order(&self, kind: SegmentKind, parts: &mut Vec<Part>) {
        let region = self.runtime.region();
        let taken: HashSet<(u32, u32)> = parts
            .iter()
            .map(|part| (part.segment, part.generation))
            .collect();
        let mut first_missed: HashMap<u16, u32> = HashMap::new();
        // What is just being backed may be claimed before it is counted as backed.
        let backed = region.backed_count() + BACK_STEP_BYTES / region.segment_bytes();
        for segment in 0..backed.min(self.seen.len() as u64) as u32 {
            let Some((state, _)) = self.head(segment) else {
                continue;
            };
            let seen = self.seen[segment as usize];
            let known = seen.finished && seen.generation == state.generation
                || taken.contains(&(segment, state.generation));
            if state.state == SegmentState::Free || state.kind != kind || known {
                continue;
            }
            let origin = region.entry(segment, word::ORIGIN).load(Ordering::Relaxed);
            let first = first_missed.entry(state.lane).or_insert(u32::MAX);
            *first = (*first).min(high(origin));
        }
        parts.retain(|part| {
            first_missed
                .get(&part.lane)
                .is_none_or(|&missed| part.sequence < missed)
        });
    }

    /// Notes that a segment was reused, and counts what was not read of it.
    fn follow_generation(&mut self, segment: u32, generation: u32, stored: &Stored) {
        let segment_cells = self.runtime.region().segment_cells() as u64;
        let seen = &mut self.seen[segment as usize];
        let reuses = generation.wrapping_sub(seen.generation);
        if reuses == 0 {
            return;
        }
        if seen.records && !seen.finished {
            self.lost.segments += 1;
            self.lost.cells += segment_cells - seen.cells as u64;
        } else if !seen.records {
            // It came and went between two looks.
            self.lost.segments += 1;
            self.lost.cells += segment_cells;
        }
        let passed = Stored::between(seen.before, stored.before);
        self.lost.records += passed.saturating_sub(seen.handed);
        self.lost.segments += u64::from(reuses - 1);
        self.lost.cells += u64::from(reuses - 1) * segment_cells;
        *seen = Seen {
            generation,
            before: stored.before,
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
        self.segment = part.segment;
        self.lane = part.lane;
        self.anchor = TickAnchor { ticks, vendor_ns };
        let seen = &mut self.seen[part.segment as usize];
        seen.cells = part.until;
        seen.finished = part.sealed;
    }
}

/// How often a segment is looked at that is reused each time meanwhile, when a subscription begins.
const BEGIN_TRIES: usize = 8;

/// False for facts, and for what a lane says of itself.
fn is_of_a_session(record: &Record<'_>) -> bool {
    record
        .kind()
        .is_some_and(|kind| kind != Kind::Thread && !kind.is_sticky())
}

#[cfg(test)]
mod tests;
