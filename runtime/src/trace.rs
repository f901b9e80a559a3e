//! Reading a region: a file, a file that a live process still writes to, or one that a dead process left.
//!
//! A reader trusts nothing beyond the heads that were published. Whatever is not sound is left out and listed in
//! [`Trace::damage`] with its place; nothing here panics on bad bytes.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::anchors::{TickAnchor, TickMap};
use crate::counters::Block;
use crate::facts::Facts;
use crate::hash;
use crate::header::{
    HEARTBEAT_OFFSET, Header, HeaderError, LANELESS_OFFSET, LANELESS_WORDS, Mode,
    NEWEST_SESSION_OFFSET, OPEN_SESSION_OFFSET, PHASE_OFFSET, Phase, SDK_DROPPED_OFFSET,
};
use crate::limits::{
    CELL_BYTES, CELL_WORDS, INSIDE_DEPTH, INSIDE_WORDS, LANE_BYTES, LANE_COUNTERS_OFFSET,
    LANE_INSIDE_OFFSET, LANE_REUSED_OFFSET, SEGMENT_ENTRY_BYTES, SESSION_SLOT_WORDS, SESSION_SLOTS,
};
use crate::loss::{LossReason, Losses};
use crate::map::ReadMap;
use crate::record::{Record, Records, high, low};
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::snapshot;

/// Why a file can't be read at all.
#[derive(Debug)]
#[non_exhaustive]
pub enum TraceError {
    /// The file can't be opened or mapped.
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// It is no region that this version reads.
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and where.
        error: HeaderError,
    },
}

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "reading {}: {error}", path.display()),
            Self::Header { path, error } => write!(f, "reading {}: {error}", path.display()),
        }
    }
}

impl std::error::Error for TraceError {}

/// Something in the file that is not sound and was left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where, bytes from the start of the file.
    pub offset: u64,
    /// Segment, when it lies in one.
    pub segment: Option<u32>,
    /// Cells that were left out because of it, as far as the head says.
    pub cells_lost: u64,
    /// What is wrong.
    pub cause: String,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "offset {}", self.offset)?;
        if let Some(segment) = self.segment {
            write!(f, " (segment {segment})")?;
        }
        write!(f, ": {}; {} cells left out", self.cause, self.cells_lost)
    }
}

/// A run of published cells.
#[derive(Clone, Copy, Debug)]
struct Run {
    segment: u32,
    lane: u16,
    sequence: u32,
    cells: usize,
    kind: SegmentKind,
}

/// What tracing cost, as the runtime itself counted and sampled it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Records of sessions that were appended (facts not counted).
    pub records: u64,
    /// Bytes of the region that hold records and facts.
    pub bytes: u64,
    /// API calls whose end was timed, about 1 in 1,024.
    pub sampled_appends: u64,
    /// Mean time of such an append, ns, the reading of the clock included; 0 when none was timed.
    pub append_ns: u64,
}

/// One record and where it comes from.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// The record.
    pub record: Record<'a>,
    /// The lane that it was written to.
    pub lane: u16,
    /// Where it lies, bytes from the start of the file.
    pub offset: u64,
}

/// A call that a thread is inside of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inside {
    /// Operation number.
    pub operation: u16,
    /// Its domain.
    pub domain: u8,
    /// Session in which it was entered, 0 = none.
    pub session: u32,
    /// When, host ticks.
    pub start_ticks: u64,
    /// Correlation id.
    pub correlation_id: u64,
}

/// What the lane table says of one lane.
#[derive(Clone, Debug)]
pub struct LaneState {
    /// The lane's number.
    pub lane: u16,
    /// Thread that owns it, 0 = none.
    pub thread: u32,
    /// How often it changed hands.
    pub generation: u32,
    /// What the thread is inside of, outermost first.
    pub inside: Vec<Inside>,
}

/// Facts lie in sticky segments only, all others never do, and neither lies among blobs: a segment whose kind was damaged
/// gives none of them.
fn belongs(record: &Record<'_>, kind: SegmentKind) -> bool {
    let fact = record.words()[0] & 0xff >= 64;
    match kind {
        SegmentKind::Blob => record.kind().is_none(),
        kind => fact == (kind == SegmentKind::Sticky),
    }
}

/// A region, opened for reading.
#[derive(Debug)]
pub struct Trace {
    map: ReadMap,
    path: PathBuf,
    header: Header,
    runs: Vec<Run>,
    facts: Facts,
    clock: TickMap,
    damage: Vec<Damage>,
}

impl Trace {
    /// Opens a region file.
    ///
    /// # Errors
    /// [`TraceError`] when it can't be read or is no region. A region that is damaged further in opens, and
    /// [`Trace::damage`] says what was left out.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let io_error = |error| TraceError::Io {
            path: path.to_owned(),
            error,
        };
        let file = File::open(path).map_err(io_error)?;
        if file.metadata().map_err(io_error)?.is_dir() {
            return Err(io_error(io::ErrorKind::IsADirectory.into()));
        }
        let map = ReadMap::file(&file).map_err(io_error)?;
        Self::from_map(map, path)
    }

    /// Reads a region from memory; `path` names it in errors.
    ///
    /// # Errors
    /// As [`Trace::open`].
    pub fn from_bytes(bytes: &[u8], path: &Path) -> Result<Self, TraceError> {
        Self::from_map(ReadMap::memory(bytes), path)
    }

    pub(crate) fn from_map(map: ReadMap, path: &Path) -> Result<Self, TraceError> {
        let header = Header::decode(map.bytes(), map.bytes().len() as u64).map_err(|error| {
            TraceError::Header {
                path: path.to_owned(),
                error,
            }
        })?;
        // What may be reused under the reader is copied first; a copy that is a file stays one.
        let reused = header.mode != Mode::Window && !header.is_stream_output();
        let map = if reused && !map.is_owned() && header.region_bytes <= map.bytes().len() as u64 {
            snapshot::in_memory(&map, &header)
        } else {
            map
        };
        let mut trace = Self {
            map,
            path: path.to_owned(),
            header,
            runs: Vec::new(),
            facts: Facts::default(),
            clock: TickMap::default(),
            damage: Vec::new(),
        };
        trace.find_runs();
        trace.read_facts();
        Ok(trace)
    }

    fn segment_offset(&self, segment: u32) -> usize {
        self.header.segment_offset(segment) as usize
    }

    fn run_words(&self, run: &Run) -> &[u64] {
        self.map
            .words(self.segment_offset(run.segment), run.cells * CELL_WORDS)
    }

    fn find_runs(&mut self) {
        let file_bytes = self.map.bytes().len();
        let mut anchors = Vec::new();
        // What the header claims beyond the file's end reads as nothing: a damaged count must not cost billions of looks.
        let table = file_bytes.saturating_sub(self.header.segment_table_offset as usize);
        let there = u32::try_from(table.div_ceil(SEGMENT_ENTRY_BYTES)).unwrap_or(u32::MAX);
        for segment in 0..self.header.segment_count.min(there) {
            let entry =
                self.header.segment_table_offset as usize + segment as usize * SEGMENT_ENTRY_BYTES;
            let at = |index: usize| self.map.acquire(entry + index * 8);
            let damage = |cells_lost, cause: String| Damage {
                offset: entry as u64,
                segment: Some(segment),
                cells_lost,
                cause,
            };
            let state = at(word::STATE);
            let committed = at(word::COMMITTED);
            if state == 0 && committed == 0 {
                continue;
            }
            let Some(state) = StateWord::unpack(state) else {
                self.damage.push(damage(
                    committed,
                    format!("segment state {state:#x} cannot be"),
                ));
                continue;
            };
            if state.state == SegmentState::Free {
                // Whoever frees a segment empties it: unless that is just happening, a bit of its state was turned.
                let still = at(word::STATE) == state.pack();
                let committed = at(word::COMMITTED);
                if still && committed != 0 {
                    let cause = format!("it is free, yet {committed} cells are committed");
                    self.damage.push(damage(committed, cause));
                }
                continue;
            }
            if u32::from(state.lane) >= self.header.lane_count {
                let cause = format!("lane {} of {}", state.lane, self.header.lane_count);
                self.damage.push(damage(committed, cause));
                continue;
            }
            let segment_cells = self.header.segment_cells();
            if committed > segment_cells as u64 {
                let cause = format!("{committed} cells committed, a segment has {segment_cells}");
                self.damage.push(damage(committed, cause));
                continue;
            }
            let start = self.segment_offset(segment);
            let there = file_bytes.saturating_sub(start) / CELL_BYTES;
            let mut cells = (committed as usize).min(there);
            if cells < committed as usize {
                let lost = committed - cells as u64;
                let cause = format!(
                    "the file ends at {file_bytes}, before the segment's {committed} cells"
                );
                self.damage.push(damage(lost, cause));
            }
            let (checksum, covered) = (at(word::CHECKSUM), at(word::CHECKED_CELLS) as usize);
            // The checksum of a sealed segment covers all that was ever published in it, and nothing of an earlier use.
            if state.state == SegmentState::Sealed
                && checksum != 0
                && covered as u64 != committed
                && covered <= there
                && at(word::STATE) == state.pack()
            {
                let cause = format!("{committed} cells committed, its checksum covers {covered}");
                let lost = committed.saturating_sub(covered as u64);
                self.damage.push(damage(lost, cause));
                cells = covered;
            }
            if checksum != 0 && covered <= cells {
                let words = self.map.words(start, covered * CELL_WORDS);
                if hash::words(words.iter().copied()) != checksum {
                    let cause =
                        "its checksum does not match, the records in it are not trusted".to_owned();
                    let mut damage = damage(committed, cause);
                    damage.offset = start as u64;
                    self.damage.push(damage);
                    continue;
                }
            }
            let anchor = TickAnchor {
                ticks: at(word::ANCHOR_TICKS),
                vendor_ns: at(word::ANCHOR_VENDOR),
            };
            if anchor.vendor_ns != 0 {
                anchors.push(anchor);
            }
            self.runs.push(Run {
                segment,
                lane: state.lane,
                sequence: high(at(word::ORIGIN)),
                cells,
                kind: state.kind,
            });
        }
        self.runs
            .sort_by_key(|run| (run.lane, run.sequence, run.segment));
        self.clock = TickMap::new(anchors, self.header.ticks_per_second);
    }

    fn read_facts(&mut self) {
        let mut facts = Facts::default();
        let mut damage = Vec::new();
        for run in &self.runs {
            let mut at = self.segment_offset(run.segment);
            let mut left = run.cells;
            for record in Records::new(self.run_words(run)) {
                match record {
                    Ok(record) => {
                        if !belongs(&record, run.kind) {
                            damage.push(Damage {
                                offset: at as u64,
                                segment: Some(run.segment),
                                cells_lost: record.cells() as u64,
                                cause: format!(
                                    "a record of kind {} in a segment of {:?}",
                                    record.words()[0] & 0xff,
                                    run.kind
                                ),
                            });
                        } else if run.kind == SegmentKind::Sticky {
                            facts.take(&record);
                        }
                        at += record.cells() * CELL_BYTES;
                        left -= record.cells();
                    }
                    Err(error) => damage.push(Damage {
                        offset: at as u64,
                        segment: Some(run.segment),
                        cells_lost: left as u64,
                        cause: error.to_string(),
                    }),
                }
            }
        }
        facts.finish();
        let anchors = facts
            .clock_anchors
            .iter()
            .map(|anchor| TickAnchor {
                ticks: anchor.ticks,
                vendor_ns: anchor.vendor_ns,
            })
            .chain(self.clock.taken())
            .collect();
        self.clock = TickMap::new(anchors, self.header.ticks_per_second);
        self.facts = facts;
        self.damage.extend(damage);
    }

    /// The file's path, as it was given.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Converts host ticks into vendor ns.
    pub fn clock(&self) -> &TickMap {
        &self.clock
    }

    /// What was left out because it is not sound.
    pub fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// How far the process had come.
    pub fn phase(&self) -> Option<Phase> {
        Phase::from_u64(self.map.acquire(PHASE_OFFSET))
    }

    /// The housekeeper's heartbeat.
    pub fn heartbeat(&self) -> u64 {
        self.map.acquire(HEARTBEAT_OFFSET)
    }

    /// The newest session's number, 0 when none was ever opened.
    pub fn newest_session(&self) -> u64 {
        self.map.acquire(NEWEST_SESSION_OFFSET)
    }

    /// The session that is open, 0 when none is.
    pub fn open_session(&self) -> u64 {
        self.map.acquire(OPEN_SESSION_OFFSET)
    }

    /// Cells that are published, all kinds.
    pub fn cells(&self) -> u64 {
        self.runs.iter().map(|run| run.cells as u64).sum()
    }

    /// All records of sessions, lane by lane, in the order in which each lane wrote them. Facts are in
    /// [`Trace::facts`]. Reads each published cell once and allocates nothing.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> + '_ {
        self.entries_of(0..self.runs())
    }

    /// How many runs of published cells there are, at most one a segment: for readers that share the work.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }

    /// The part of [`Trace::entries`] that lies in some of the runs; all runs one after the other give all of them.
    pub fn entries_of(&self, runs: std::ops::Range<usize>) -> impl Iterator<Item = Entry<'_>> + '_ {
        self.runs
            .get(runs)
            .unwrap_or_default()
            .iter()
            .filter(|run| run.kind == SegmentKind::Records)
            .flat_map(move |run| {
                let mut offset = self.segment_offset(run.segment) as u64;
                Records::new(self.run_words(run))
                    .map_while(Result::ok)
                    .map(move |record| {
                        let entry = Entry {
                            record,
                            lane: run.lane,
                            offset,
                        };
                        offset += (record.cells() * CELL_BYTES) as u64;
                        entry
                    })
                    .filter(|entry| belongs(&entry.record, SegmentKind::Records))
            })
    }

    /// What the lane table says.
    pub fn lanes(&self) -> Vec<LaneState> {
        let mut lanes = Vec::new();
        for lane in 0..self.header.lane_count {
            let base = self.lane_offset(lane);
            let state = self.map.acquire(base);
            if state == 0 {
                continue;
            }
            let depth = self.map.acquire(base + LANE_INSIDE_OFFSET - 8) as usize;
            let mut inside = Vec::new();
            for index in 0..depth.min(INSIDE_DEPTH) {
                let at = base + LANE_INSIDE_OFFSET + index * INSIDE_WORDS * 8;
                let what = self.map.acquire(at);
                inside.push(Inside {
                    operation: what as u16,
                    domain: (what >> 16) as u8,
                    session: high(what),
                    start_ticks: self.map.acquire(at + 8),
                    correlation_id: self.map.acquire(at + 16),
                });
            }
            lanes.push(LaneState {
                lane: lane as u16,
                thread: low(state),
                generation: high(state),
                inside,
            });
        }
        lanes
    }

    fn lane_offset(&self, lane: u32) -> usize {
        self.header.lane_table_offset as usize + lane as usize * LANE_BYTES
    }

    /// The lanes' counters for one session, summed; `None` when no lane keeps them apart any more.
    pub fn session_counters(&self, session: u64) -> Option<Block> {
        let slot = session as usize % SESSION_SLOTS;
        let mut sum: Option<Block> = None;
        for lane in 0..self.header.lane_count {
            let block = self.block(lane, slot);
            if block.words[0] == session {
                sum.get_or_insert_default().add(&block);
            }
        }
        let laneless = self.laneless(slot);
        if laneless.0 == session {
            sum.get_or_insert_default().words[0] = session;
            for (reason, count) in laneless.1 {
                let at = crate::counters::Counter::Lost as usize + reason as usize;
                let sum = sum.get_or_insert_default();
                sum.words[at] = sum.words[at].saturating_add(count);
            }
            use crate::counters::Counter;
            let at = LANELESS_OFFSET + slot * LANELESS_WORDS * 8;
            for (index, counter) in [
                (3, Counter::DispatchIssued),
                (4, Counter::CopyIssued),
                (5, Counter::DispatchDone),
                (6, Counter::CopyDone),
            ] {
                let count = self.map.acquire(at + index * 8);
                let sum = sum.get_or_insert_default();
                sum.words[counter as usize] = sum.words[counter as usize].saturating_add(count);
            }
        }
        sum
    }

    /// The counters that all older sessions share, summed over the lanes.
    pub fn older_counters(&self) -> Block {
        let mut sum = Block::default();
        for lane in 0..self.header.lane_count {
            sum.add(&self.block(lane, SESSION_SLOTS));
        }
        for (reason, count) in self.laneless(SESSION_SLOTS).1 {
            let at = crate::counters::Counter::Lost as usize + reason as usize;
            sum.words[at] = sum.words[at].saturating_add(count);
        }
        sum
    }

    /// Cells that lanes reused in flight mode: what they held is not in the trace any more.
    pub fn reused_cells(&self) -> u64 {
        (0..self.header.lane_count)
            .map(|lane| {
                self.map
                    .acquire(self.lane_offset(lane) + LANE_REUSED_OFFSET)
            })
            .fold(0, u64::saturating_add)
    }

    /// Records that the SDK said it dropped, whole process.
    pub fn sdk_dropped(&self) -> u64 {
        self.map.acquire(SDK_DROPPED_OFFSET)
    }

    fn block(&self, lane: u32, slot: usize) -> Block {
        let at = self.lane_offset(lane) + LANE_COUNTERS_OFFSET + slot * SESSION_SLOT_WORDS * 8;
        let mut block = Block::default();
        for (index, word) in block.words.iter_mut().enumerate() {
            *word = self.map.acquire(at + index * 8);
        }
        block
    }

    fn laneless(&self, slot: usize) -> (u64, [(LossReason, u64); 2]) {
        let at = LANELESS_OFFSET + slot * LANELESS_WORDS * 8;
        let count = |index: usize| self.map.acquire(at + index * 8);
        (
            count(0),
            [
                (LossReason::NoLane, count(1)),
                (LossReason::Reentry, count(2)),
            ],
        )
    }

    /// What tracing cost, over all sessions, as the runtime counted and sampled it itself.
    pub fn cost(&self) -> Cost {
        use crate::counters::Counter;
        let mut sum = Block::default();
        for lane in 0..self.header.lane_count {
            for slot in 0..=SESSION_SLOTS {
                sum.add(&self.block(lane, slot));
            }
        }
        let records = [
            Counter::DispatchIssued,
            Counter::CopyIssued,
            Counter::DispatchRecorded,
            Counter::CopyRecorded,
            Counter::ApiRecorded,
            Counter::OtherRecorded,
        ];
        let sampled_appends = sum.get(Counter::SampledAppends);
        let ns = u128::from(sum.get(Counter::SampledTicks)) * 1_000_000_000
            / u128::from(self.header.ticks_per_second.max(1));
        Cost {
            records: records
                .into_iter()
                .map(|counter| sum.get(counter))
                .fold(0, u64::saturating_add),
            bytes: self.cells() * CELL_BYTES as u64,
            sampled_appends,
            append_ns: (ns / u128::from(sampled_appends.max(1))) as u64,
        }
    }

    /// Losses of all sessions and of none.
    pub fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        for lane in 0..self.header.lane_count {
            for slot in 0..=SESSION_SLOTS {
                losses.add(&self.block(lane, slot).lost());
            }
        }
        for slot in 0..=SESSION_SLOTS {
            for (reason, count) in self.laneless(slot).1 {
                losses.count(reason, count);
            }
        }
        losses.count(LossReason::SdkDropped, self.sdk_dropped());
        losses
    }
}
