//! Stream mode: the collector moves sealed segments out of the region and frees them, so that a session of any length
//! fits in the memory that was given.
//!
//! ```text
//!   lanes ── seal ──▶ ring ──▶ collector ──▶ sink ──▶ free bits ──▶ lanes
//! ```
//!
//! The collector is a thread of the runtime that writes to a file ([`file`]), or the host itself, which calls
//! [`Runtime::collect`] with a sink of its own. Nothing here is on an append's way: a sink that is slow leaves fewer
//! free segments, and an append that finds none is counted ([`crate::loss::LossReason::NoSegment`]). Back pressure never
//! reaches a producer.
//!
//! Invariants
//! - T1 One collector at a time: the lock of `CollectorState`.
//! - T2 A segment is freed only after its sink took it whole and after its issues and completions were read for the
//!   sessions whose books are open (`session::outstanding`). A sink that fails gets the same segment again.
//! - T3 Segments of facts stay in the region; a sink sees each when it is sealed.
//! - T4 Whoever reads the live region copies it by the rule for segments that are reused meanwhile (`handover::copy`).

mod file;

use std::collections::{HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering as StdOrdering;
use std::sync::{MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use file::Head;
pub(crate) use file::OutputFile;
pub use file::finish;

use crate::anchors::TickAnchor;
use crate::header::Mode;
use crate::housekeeper::{block_signals, restore_signals};
use crate::limits::CELL_WORDS;
use crate::record::{READ_AHEAD_CELLS, fetch_to_read, high, low};
use crate::region::Region;
use crate::runtime::Runtime;
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::status::Status;
use crate::sync::Ordering;

/// Segments that are taken in one go: 1 MiB, so that whoever waits for the collector waits for no more than that.
const BATCH: usize = 16;
/// Segments that are freed in one go: lanes claim from the same words, and a small region must not wait long for its few.
const FREED_TOGETHER: usize = 4;
/// Between looks at the ring while segments come.
const BUSY: Duration = Duration::from_micros(200);
/// Between looks otherwise.
const IDLE: Duration = Duration::from_millis(2);
/// Between the times at which the file gets what the open segments hold so far.
const FLUSH: Duration = Duration::from_secs(1);
/// How long the end of the process waits for a collector that is busy writing.
const FINISH_PATIENCE: Duration = Duration::from_secs(2);

/// The collector's state.
#[derive(Debug, Default)]
pub(crate) struct CollectorState {
    /// How far the ring was read.
    ring_head: u64,
    /// Taken from the ring, not yet taken by the sink.
    taken: VecDeque<u32>,
    /// Retired, not yet free for lanes; fewer than [`FREED_TOGETHER`].
    retired: Vec<u32>,
    file: Option<OutputFile>,
    /// Segments that a sink took.
    collected: u64,
    /// Those of them that were read for open books.
    read_for_books: u64,
    /// What a sink has of segments that were open still: generation and cells.
    given: HashMap<u32, (u32, usize)>,
}

impl CollectorState {
    pub(crate) fn with_file(file: Option<OutputFile>) -> Self {
        Self {
            file,
            ..Self::default()
        }
    }
}

/// Records of one segment, as a sink gets them: valid during the call, in the region itself.
#[derive(Clone, Copy, Debug)]
pub struct Collected<'a> {
    /// Whole records, one after another ([`crate::record::Records`] walks them); facts when `kind` says sticky.
    pub words: &'a [u64],
    /// What lies in the segment.
    pub kind: SegmentKind,
    /// The lane that wrote it.
    pub lane: u16,
    /// Counts the segments of that lane; those of one lane come in order.
    pub sequence: u32,
    /// Thread id of the lane's owner when the segment was begun; a record of kind Thread names a later one.
    pub thread: u32,
    /// Lowest and highest session in it, 0 = none.
    pub sessions: (u32, u32),
    /// A moment near its records in host ticks and in the vendor's clock.
    pub anchor: TickAnchor,
}

impl<'a> Collected<'a> {
    /// What a segment has published from cell `from` on, its generation and its cells; `None`: it is free. Only for the
    /// collector, who alone frees segments.
    fn of(
        region: &'a Region,
        segment: u32,
        from: impl FnOnce(u32) -> usize,
    ) -> Option<(Self, u32, usize)> {
        let at = |index: usize| region.entry(segment, index).load(Ordering::Relaxed);
        // ORD(seal), ORD(claim): Acquire. Pairs with the Release stores in `Region::seal` and `Region::open`.
        let state = StateWord::unpack(region.entry(segment, word::STATE).load(Ordering::Acquire))?;
        if state.state == SegmentState::Free {
            return None;
        }
        // ORD(publish): Acquire. Pairs with the Release store in `handover::publish`.
        let committed = region
            .entry(segment, word::COMMITTED)
            .load(Ordering::Acquire);
        let cells = (committed as usize).min(region.segment_cells());
        let from = from(state.generation).min(cells);
        // SAFETY: published cells are never written again until the segment is freed, and only the collector, who calls
        // this, frees it, after the sink has returned. The words lie within the mapping, which is never unmapped.
        let words = unsafe {
            std::slice::from_raw_parts(
                region.cells(segment).add(from * CELL_WORDS),
                (cells - from) * CELL_WORDS,
            )
        };
        let collected = Self {
            words,
            kind: state.kind,
            lane: state.lane,
            sequence: high(at(word::ORIGIN)),
            thread: low(at(word::ORIGIN)),
            sessions: (low(at(word::SESSIONS)), high(at(word::SESSIONS))),
            anchor: TickAnchor {
                ticks: at(word::ANCHOR_TICKS),
                vendor_ns: at(word::ANCHOR_VENDOR),
            },
        };
        Some((collected, state.generation, cells))
    }
}

impl Runtime {
    fn collector(&self) -> MutexGuard<'_, CollectorState> {
        self.collector
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Stream mode without a file: hands up to `most` sealed segments to `sink` and frees them. Any thread, not in a
    /// callback; call it often enough that what is not free fits in the budget. Returns how many were taken; while the
    /// appending threads are faster than the sink it takes all of `most`. The records of one thread come in its order,
    /// each once.
    ///
    /// # Errors
    /// [`Status::InvalidArgument`] in another mode, or when the runtime writes a file itself; [`Status::NotReady`] in a
    /// forked child; [`Status::Output`] when the sink returned an error: that segment comes again.
    pub fn collect(
        &self,
        most: usize,
        mut sink: impl FnMut(&Collected<'_>) -> io::Result<()>,
    ) -> Result<usize, Status> {
        let mut state = self.collector_without_file()?;
        let mut done = 0;
        while done < most {
            self.take_sealed(&mut state, (most - done).min(BATCH));
            if state.taken.is_empty() {
                break;
            }
            while let Some(&segment) = state.taken.front().filter(|_| done < most) {
                if let Some(&next) = state.taken.get(1) {
                    self.fetch_first(next);
                }
                if self.give(&state, segment, &mut sink).is_err() {
                    self.free_retired(&mut state);
                    return Err(Status::Output);
                }
                // Not before: a sink that panics gets it again, and what it had taken does not come again.
                state.taken.pop_front();
                self.was_collected(&mut state, segment);
                done += 1;
            }
        }
        self.free_retired(&mut state);
        Ok(done)
    }

    /// As [`Runtime::collect`], all there is: also what is published in segments that are still open, which is how a
    /// session's last records come after its stop. What was given is not given again when the segment is sealed.
    ///
    /// # Errors
    /// As [`Runtime::collect`].
    pub fn collect_all(
        &self,
        mut sink: impl FnMut(&Collected<'_>) -> io::Result<()>,
    ) -> Result<usize, Status> {
        let mut done = self.collect(usize::MAX, &mut sink)?;
        let mut state = self.collector_without_file()?;
        let region = self.region();
        let mut open: Vec<(u16, u32, u32)> = (0..region.backed_count() as u32)
            .filter_map(|segment| {
                // ORD(claim): Acquire. Pairs with the Release store in `Region::open`.
                let state = region.entry(segment, word::STATE).load(Ordering::Acquire);
                let state = StateWord::unpack(state)?;
                let origin = region.entry(segment, word::ORIGIN).load(Ordering::Relaxed);
                (state.state == SegmentState::Open).then_some((state.lane, high(origin), segment))
            })
            .collect();
        // One sealed meanwhile comes next time, before what was opened after it: only the first of a lane is given.
        open.sort_unstable();
        open.dedup_by_key(|&mut (lane, _, segment)| {
            let state = region.entry(segment, word::STATE).load(Ordering::Relaxed);
            (lane, state >> 8 & 0xff)
        });
        for (_, _, segment) in open {
            let given = self.give(&state, segment, &mut sink);
            if let Some(given) = given.map_err(|_| Status::Output)? {
                state.given.insert(segment, given);
            }
            done += 1;
        }
        Ok(done)
    }

    fn collector_without_file(&self) -> Result<MutexGuard<'_, CollectorState>, Status> {
        self.control().barrier().ok_or(Status::NotReady)?;
        if self.region().header().mode != Mode::Stream {
            return Err(Status::InvalidArgument);
        }
        let state = self.collector();
        if state.file.is_some() {
            return Err(Status::InvalidArgument);
        }
        Ok(state)
    }

    /// Asks for a segment that comes next: its books, and its first lines. `Records` asks for the others.
    fn fetch_first(&self, segment: u32) {
        self.region().fetch_sealed(segment);
        let cells = self.region().cells(segment);
        for line in 0..READ_AHEAD_CELLS {
            fetch_to_read(cells.wrapping_add(line * CELL_WORDS));
        }
    }

    /// Gives a sink what it does not have of a segment; returns what it has then: generation and cells.
    fn give(
        &self,
        state: &CollectorState,
        segment: u32,
        sink: &mut impl FnMut(&Collected<'_>) -> io::Result<()>,
    ) -> io::Result<Option<(u32, usize)>> {
        let given = state.given.get(&segment).copied();
        let from = |generation| match given {
            Some((known, cells)) if known == generation => cells,
            _ => 0,
        };
        let Some((collected, generation, cells)) = Collected::of(self.region(), segment, from)
        else {
            return Ok(None);
        };
        if !collected.words.is_empty() {
            sink(&collected)?;
        }
        Ok(Some((generation, cells)))
    }

    /// Fills `taken` from the ring.
    fn take_sealed(&self, state: &mut CollectorState, most: usize) {
        while state.taken.len() < most {
            let Some(segment) = self.region().ring().take(&mut state.ring_head) else {
                return;
            };
            state.taken.push_back(segment);
        }
    }

    /// A sink has a segment whole: reads for the open books what is in it, and frees it. Facts stay in the region (T3).
    fn was_collected(&self, state: &mut CollectorState, segment: u32) {
        state.collected += 1;
        state.given.remove(&segment);
        // After the sink: what it has just read is in this processor's cache.
        state.read_for_books += u64::from(self.read_outstanding(segment));
        let word = self.region().entry(segment, word::STATE);
        let word = StateWord::unpack(word.load(Ordering::Relaxed));
        if word.is_some_and(|word| word.kind == SegmentKind::Records) {
            self.region().retire(segment);
            state.retired.push(segment);
            if state.retired.len() >= FREED_TOGETHER {
                self.free_retired(state);
            }
        }
    }

    /// Gives the lanes what was retired; before the lock is left.
    fn free_retired(&self, state: &mut CollectorState) {
        self.region().give(&state.retired);
        state.retired.clear();
    }

    /// Writes sealed segments to the file; true when there were any. Under the lock (T1). Facts first: all that the
    /// records need were announced before these were sealed, so that no record is in the file without its names.
    fn write_sealed(&self, state: &mut CollectorState) -> io::Result<bool> {
        let region = self.region();
        let mut any = false;
        loop {
            self.take_sealed(state, BATCH);
            let (Some(file), false) = (&mut state.file, state.taken.is_empty()) else {
                return Ok(any);
            };
            let taken = state.taken.iter();
            let records: Vec<Head> = taken.filter_map(|&at| Head::of(region, at)).collect();
            for head in self.heads(SegmentKind::Sticky).iter().chain(&records) {
                file.write_segment(region, head)?;
            }
            file.write_header(region)?;
            any = true;
            for segment in std::mem::take(&mut state.taken) {
                self.was_collected(state, segment);
            }
            self.free_retired(state);
        }
    }

    /// Writes all that is published to the file, also what open segments hold so far. Under the lock (T1).
    fn write_all(&self, state: &mut CollectorState) -> io::Result<()> {
        let region = self.region();
        // Lanes first: what they count is in the segments that are written after them, or was lost and is counted.
        let lanes = file::lane_table(region);
        self.write_sealed(state)?;
        let Some(file) = &mut state.file else {
            return Ok(());
        };
        let records = self.heads(SegmentKind::Records);
        for head in self.heads(SegmentKind::Sticky).iter().chain(&records) {
            file.write_segment(region, head)?;
        }
        file.write_lanes(&lanes)?;
        file.write_header(region)
    }

    /// How far the segments of a kind are published.
    fn heads(&self, kind: SegmentKind) -> Vec<Head> {
        (0..self.region().backed_count() as u32)
            .filter_map(|segment| Head::of(self.region(), segment))
            .filter(|head| head.state.kind == kind)
            .collect()
    }

    /// True when there is a file and it holds all that is published now. Not in a callback; waits for the disk.
    pub(crate) fn flush_output(&self) -> bool {
        if self.region().header().mode != Mode::Stream || self.control().barrier().is_none() {
            return false;
        }
        let mut state = self.collector();
        state.file.is_some() && self.told(|| self.write_all(&mut state)).is_some()
    }

    /// The end of the process: as [`Runtime::flush_output`], but waits for a busy collector a moment only. False: the
    /// file lacks something, and the region has it.
    pub(crate) fn finish_output(&self) -> bool {
        let until = Instant::now() + FINISH_PATIENCE;
        let mut state = loop {
            match self.collector.try_lock() {
                Ok(state) => break state,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() >= until => return false,
                Err(TryLockError::WouldBlock) => std::thread::sleep(BUSY),
            }
        };
        state.file.is_some() && self.write_all(&mut state).is_ok()
    }

    /// Does something with the file; a failure is told in the trace, once.
    fn told<T>(&self, body: impl FnOnce() -> io::Result<T>) -> Option<T> {
        match body() {
            Ok(done) => Some(done),
            Err(error) => {
                if !self.output_failed.swap(true, StdOrdering::Relaxed) {
                    self.metadata(b"output failed", error.to_string().as_bytes());
                }
                None
            }
        }
    }

    /// Starts the collector thread, when there is a file for it to write to.
    ///
    /// # Errors
    /// The system's, when it makes no thread. What fits in the budget is then in the region and written at the end.
    pub(crate) fn start_collector(&'static self) -> io::Result<()> {
        if self.collector().file.is_none() {
            return Ok(());
        }
        let all_signals = block_signals();
        let thread = std::thread::Builder::new()
            .name("strandline-out".to_owned())
            .stack_size(256 * 1024)
            .spawn(move || self.keep_collecting());
        restore_signals(&all_signals);
        thread.map(|_| ())
    }

    fn keep_collecting(&'static self) {
        let mut flushed = Instant::now();
        while !self.is_finalizing() {
            let mut state = self.collector();
            let wrote = self.told(|| self.write_sealed(&mut state));
            if flushed.elapsed() >= FLUSH {
                self.told(|| self.write_all(&mut state));
                flushed = Instant::now();
            }
            drop(state);
            // After a failure there is no hurry: what does not fit any more is counted.
            std::thread::sleep(if wrote == Some(true) { BUSY } else { IDLE });
        }
    }

    /// Segments that were taken out of the region by the collector so far.
    pub fn collected_segments(&self) -> u64 {
        self.collector().collected
    }

    /// Of those, how many the collector read for the books of open sessions: the ones that may hold an issue or a
    /// completion of a dispatch or copy.
    pub fn segments_read_for_books(&self) -> u64 {
        self.collector().read_for_books
    }
}

/// The file that a live region of stream mode writes to, as its facts say; `None` in the other modes.
pub fn output_of(trace: &crate::trace::Trace) -> Option<&Path> {
    if trace.header().mode != Mode::Stream || trace.header().is_stream_output() {
        return None;
    }
    let mut metadata = trace.facts().metadata.iter();
    let (_, path) = metadata.find(|(key, _)| key == OUTPUT_KEY)?;
    Some(Path::new(path))
}

/// The metadata key under which a live region names the file.
pub(crate) const OUTPUT_KEY: &str = "output";

#[cfg(test)]
mod tests;
