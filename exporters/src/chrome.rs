//! Chrome JSON in kineto's dialect, made so that the strictest of its readers has nothing to complain about.
//!
//! One event a line, in the order of time, metadata rows first. What differs from kineto's own files, on purpose:
//!
//! * Flows: one `s` on a call that launched something, one `f` on each kernel and copy; none anywhere else. kineto ends a
//!   flow on every call that starts none, and graph launches start none. Where the clocks say that work began before its
//!   call, the arrow ends when the call begins, if the work still runs then: readers take an `f` anywhere inside its
//!   event, and none that lies before the `s`. (Perfetto draws that arrow from the work to the call: it goes by which of the
//!   two events began first.)
//! * GPUs have process ids of their own (5000000 + n), which no Linux process has; `args.device` is the device number.
//! * Streams count from 1; work on a stream that nobody knows has a row of that name.
//! * Grids are work-groups, on every row.
//! * A kernel that overlaps another of its stream goes to a further row of that stream.
//! * Times are exact: no shift by a nanosecond, nothing clipped.
//!
//! Times are microseconds with three decimals since `baseTimeNanoseconds`, a multiple of a quarter year, so that
//! nanoseconds survive a double.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strandline::record::Kind;

use crate::export::{ExportError, ExportReport};
use crate::join::{IdMap, LaunchTable, Recent};
use crate::lanes::{FlatLanes, NestedLanes, RangesById};
use crate::memory::Memory;
use crate::model::{Model, Process};
use crate::order::Item;
use crate::out::Output;
use crate::pipeline::{Chunk, Inserts, Writer};
pub(crate) use format::Events;
use parts::Parts;

mod args;
mod ends;
mod format;
mod host;
mod parts;
mod rows;
mod texts;
mod work;

/// `baseTimeNanoseconds` is a multiple of this: three average months, kineto's own constant.
const BASE_STEP_NS: u64 = 7_889_238 * 1_000_000_000;
/// First thread id of further rows of a stream or thread.
const LANE_TID_FIRST: u32 = 1_500_000_000;
/// First thread id of the rows for ranges by id.
const RANGES_TID_FIRST: u64 = 1_900_000_000;
/// Thread id of the row for what the trace says of itself.
const QUALITY_TID: u64 = 2_100_000_000;

/// A row of a GPU: one stream, and lanes for what overlaps.
#[derive(Debug)]
struct StreamRow {
    lanes: FlatLanes,
    /// Thread id of each lane.
    tids: Vec<u32>,
}

/// A thread's row, and lanes for what overlaps in part.
#[derive(Debug)]
struct ThreadRow {
    lanes: NestedLanes,
    tids: Vec<u32>,
}

/// Work that began before its call.
#[derive(Clone, Copy, Debug)]
struct Early {
    end: u64,
    pid: u64,
    tid: u32,
    /// Number of its record in the whole export.
    number: u64,
}

/// What is decided of a process's records.
#[derive(Debug)]
struct State {
    pid: u64,
    gpu_pid: u64,
    launches: LaunchTable,
    streams: IdMap<u64, u32>,
    stream_rows: Vec<StreamRow>,
    /// Rows by agent and stream id.
    newest_rows: Recent<(u64, u32), u32>,
    threads: IdMap<u32, u32>,
    thread_rows: Vec<ThreadRow>,
    newest_threads: Recent<u32, u32>,
    /// By call: work that began before it, while it runs; and when each ends.
    early: IdMap<u64, Vec<Early>>,
    early_ends: BinaryHeap<Reverse<(u64, u64)>>,
    ranges: RangesById,
    range_rows: usize,
    memory: Memory,
    next_lane_tid: u32,
}

/// What an event needs to know of those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    tid: u32,
    /// Row of the stream, for device work.
    row: u32,
    flags: u8,
}

/// The event is written already, or there is none.
const NOTHING: u8 = 1;
/// An arrow begins or ends here.
const ARROW: u8 = 2;
/// The call that launched the work is named by its own correlation id, or by its ancestor.
const LINKED: u8 = 4;
const BY_ANCESTOR: u8 = 8;

/// Writes Chrome JSON.
#[derive(Debug)]
pub(crate) struct Chrome<'o> {
    parts: Parts<'o>,
    base_ns: u64,
    states: Vec<State>,
    report: ExportReport,
    /// Records that were decided.
    decided: u64,
}

impl State {
    fn new(process: &mut Process<'_>) -> Self {
        Self {
            pid: process.pid,
            gpu_pid: process.gpu_pid,
            launches: std::mem::take(&mut process.launches),
            streams: IdMap::default(),
            stream_rows: Vec::new(),
            newest_rows: Recent::default(),
            threads: IdMap::default(),
            thread_rows: Vec::new(),
            newest_threads: Recent::default(),
            early: IdMap::default(),
            early_ends: BinaryHeap::new(),
            ranges: RangesById::default(),
            range_rows: 0,
            memory: Memory::default(),
            next_lane_tid: LANE_TID_FIRST,
        }
    }
}

impl<'o> Chrome<'o> {
    /// Begins the file.
    pub(crate) fn new(model: &mut Model<'_>, out: Output<'o>) -> Result<Self, ExportError> {
        let base_ns = model.first / BASE_STEP_NS * BASE_STEP_NS;
        let report = model.report();
        Ok(Self {
            parts: Parts::begin(model, base_ns, &report, out)?,
            base_ns,
            states: model.processes.iter_mut().map(State::new).collect(),
            report,
            decided: 0,
        })
    }

    /// Writes what is left and names the files.
    pub(crate) fn finish(
        mut self,
        model: &mut Model<'_>,
        report: &mut ExportReport,
    ) -> Result<(Vec<std::path::PathBuf>, u64), ExportError> {
        for (index, process) in model.processes.iter().enumerate() {
            for started in self.states[index].ranges.drain() {
                let end = process.open_end_ns(&started);
                let mut inserts = Inserts::default();
                self.range_by_id(process, index, &started, end, true, &mut inserts);
                let (list, texts) = inserts.take();
                self.parts.add_inserts(list, &texts)?;
            }
            self.parts.end_process(index)?;
        }
        *report = self.report;
        report.cut_arrows = self.parts.cut_arrows();
        report.arrows -= report.cut_arrows;
        self.parts.commit(report)
    }
}

impl Writer for Chrome<'_> {
    type Decision = Decision;
    type Formatter = Events;

    const DECIDES_BY_RECORDS: bool = false;

    #[inline]
    fn decide(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        self.decided += 1;
        match item.kind {
            Some(Kind::Api | Kind::OpenCall) => self.call(process, item, inserts),
            Some(Kind::Dispatch | Kind::Copy) => self.work(process, item, inserts),
            _ => self.rare(process, item, inserts),
        }
    }

    fn formatter(&self, processes: &[Process<'_>]) -> Events {
        Events::new(processes, self.base_ns)
    }

    fn launches(&mut self, process: usize) -> &mut LaunchTable {
        &mut self.states[process].launches
    }

    fn stitch(&mut self, chunk: &mut Chunk<'_, Decision>) -> Result<(), ExportError> {
        self.parts.stitch(chunk)
    }

    fn bytes(&self) -> u64 {
        self.parts.bytes()
    }
}
