//! Perfetto's protobuf, with its own model of GPU compute: kernels and copies are GPU render stages with interned
//! kernels, host calls are track events that name the stages they submitted.
//!
//! Rules that every packet keeps (each one is a silent loss in the reader when broken):
//!
//! 1. A non-zero sequence id; the first packet of a sequence clears its state and sets its clock, all others need it.
//! 2. One sequence for the process itself, one for its GPU work, one for each host thread. Interned ids are defined in
//!    the packet that first uses them, or before; never 0; never twice.
//! 3. Every id that the whole file shares (sequences, tracks, contexts, events) is made from the process's identity, so
//!    that files of several processes can be merged or just concatenated. Process ids and the numbers of GPUs stay the
//!    system's: where they are equal in files that are concatenated, readers show the work of both processes in one of them (host
//!    threads stay apart), and one GPU for both. An export of both traces gives the second process and its GPUs other ids, and
//!    an archive of the files with a manifest that names a machine for each keeps them apart (docs/cli.md). A `machine_id` would
//!    do so too, but no default holds it: with 32 bits it takes 7 bytes of each packet, 12% of a file (5% if it were one byte,
//!    which cannot be unique), and clocks of several machines would meet only if all times became REALTIME.
//! 4. All times are BOOTTIME; clock snapshots come first and last, each with a clock that only its sequence has. Anchors
//!    between these two are not written: events are in BOOTTIME already, converted with all anchors, and a reader that
//!    converts other clocks itself knows only the first and the last one.
//! 5. Lists in `GpuCorrelation` are not packed.
//! 6. What is too large for one file becomes several: see [`parts`].
//!
//! # Source
//! google/perfetto, `protos/perfetto/trace/trace_packet.proto`, `.../trace/track_event/*.proto`, `.../trace/gpu/*.proto`;
//! field numbers in `field`.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use strandline::hash;
use strandline::record::Kind;

use crate::export::{ExportError, ExportReport};
use crate::join::{IdMap, LaunchTable, Numbers, Recent};
use crate::lanes::{FlatLanes, NestedLanes, RangesById};
use crate::memory::Memory;
use crate::model::{Model, Process};
use crate::notes::Notes;
use crate::order::Item;
use crate::out::Output;
use crate::pipeline::{Chunk, Inserts, Writer};
pub(crate) use format::Packets;
use names::{thing, unique};
use parts::{Parts, WaitEnd};

#[macro_use]
mod names;
mod closing;
mod depth;
mod ends;
mod field;
mod format;
mod host;
mod packets;
mod parts;
mod work;

/// InternedGraphicsContext.Api.
const API_CUDA: u64 = 4;
const API_HIP: u64 = 5;

/// Bits of a sequence id: four bytes as a varint.
const SEQUENCE_BITS: u32 = 28;
/// Bits of the process in an event id; the rest counts.
const EVENT_PROCESS_BITS: u32 = 28;

/// Interned ids of specifications: two stages, then queues.
const STAGE_KERNEL: u64 = 1;
const STAGE_COPY: u64 = 2;
const QUEUE_FIRST: u32 = 3;
/// Interned names of copies come first, then those of kernels in the order in which they are met.
const FIRST_KERNEL: u64 = 7;
/// Work of a stream that is remembered for calls that wait: what started before such a call ended, and ended after it, is
/// hardly ever more than one less than this.
const RECENT: usize = 4;

#[derive(Debug)]
struct Thread {
    sequence: u64,
    uuid: u64,
    lanes: NestedLanes,
    /// Lanes that have a track.
    lanes_named: usize,
    /// Which names this sequence has interned.
    names: Vec<bool>,
}

#[derive(Debug)]
struct Depth {
    uuid: u64,
    value: u64,
    written_ns: u64,
    changed_ns: u64,
    pending: bool,
}

/// A kernel's shapes.
#[derive(Debug, Default)]
struct KernelShapes {
    shapes: Vec<Shape>,
    newest: usize,
    /// Interned id of the kernel with its first shape.
    first_iid: u32,
}

/// A kernel as it is launched again and again: with its sizes, on one stream and queue. Everything that this decides is
/// interned with the kernel, or encoded once by each thread that formats.
#[derive(Debug)]
struct Shape {
    /// Words 11 to 15 of its dispatches.
    words: [u64; 5],
    queue: u64,
    /// Device and stream.
    row: u64,
    /// Interned ids of the kernel with this shape, and of the queue.
    iid: u32,
    queue_iid: u32,
}

/// A stream on a device.
#[derive(Debug, Default)]
struct StreamRow {
    /// Device and stream.
    key: u64,
    lanes: FlatLanes,
    /// Ends, event ids and record numbers of its newest work, for calls that wait for it.
    recent: [(u64, u64, u64); RECENT],
    next: usize,
}

/// A call that waits for the device, until its end is written.
#[derive(Debug)]
struct Wait {
    start: u64,
    end: WaitEnd,
    /// Stream, or all of them.
    stream: Option<usize>,
}

#[derive(Debug)]
struct State {
    main: u64,
    gpu: u64,
    next_sequence: u64,
    process_uuid: u64,
    context: u64,
    api: u64,
    event_base: u64,
    threads: IdMap<u32, u32>,
    thread_list: Vec<Thread>,
    newest_threads: Recent<u32, u32>,
    launches: LaunchTable,
    /// Which operations wait for the device.
    waiting: Vec<Waiting>,
    kernel_numbers: Numbers,
    kernels: Vec<KernelShapes>,
    next_kernel: u32,
    copies: [bool; 6],
    queues: IdMap<(u64, u64), u32>,
    stream_handles: Vec<bool>,
    rows: IdMap<u64, u32>,
    row_list: Vec<StreamRow>,
    /// Row, device and stream by agent and stream id.
    newest_rows: Recent<(u64, u32), (u32, u32, u32)>,
    /// Names of ranges and marks, numbered after the operations.
    names: IdMap<u64, u32>,
    /// By call that did not come yet: record numbers of its work that did.
    early: IdMap<u64, Vec<u64>>,
    /// Calls that wait and whose end is not written yet, and the earliest of their ends.
    waits: Vec<Wait>,
    next_wait_end: u64,
    ranges: RangesById,
    range_rows: usize,
    memory: Memory,
    depths: IdMap<u64, u32>,
    depth_list: Vec<Depth>,
    ends: BinaryHeap<Reverse<(u64, u32)>>,
}

/// What an operation waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    Stream,
    Device,
}

/// Where the call is that work leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    /// There is none.
    None,
    /// The call came before the work, or comes after it.
    After,
    Before,
}

/// What a host event needs to know of those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Host {
    /// Work that the call launched: the first number, and how much.
    first: u64,
    count: u32,
    sequence: u32,
    /// Place of its name among those of the process.
    name: u32,
    lane: u32,
    /// True when its sequence does not know the name yet.
    is_new: bool,
    /// True when the end is written later.
    waits: bool,
}

/// What an event needs to know of those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Decision {
    /// Written already, or nothing to write.
    Nothing,
    /// A call, range, mark or scratch event.
    Host(Host),
    /// A kernel, in one of its shapes.
    Kernel {
        event: u64,
        target: u64,
        number: u32,
        iid: u32,
        queue: u32,
        /// True when the kernel has too many shapes, and this one is written out.
        is_odd: bool,
        link: Link,
    },
    Copy {
        event: u64,
        target: u64,
        queue: u32,
        link: Link,
    },
}

/// Writes Perfetto's protobuf.
#[derive(Debug)]
pub(crate) struct Perfetto<'o> {
    parts: Parts<'o>,
    states: Vec<State>,
    /// Records that were decided.
    decided: u64,
    report: ExportReport,
    taken_sequences: std::collections::BTreeSet<u64>,
}

impl<'o> Perfetto<'o> {
    /// Begins the file: snapshots, metadata, processes, GPUs.
    pub(crate) fn new(model: &mut Model<'_>, out: Output<'o>) -> Result<Self, ExportError> {
        let mut writer = Self {
            parts: Parts::new(out),
            states: Vec::new(),
            decided: 0,
            report: model.report(),
            taken_sequences: std::collections::BTreeSet::new(),
        };
        let mut text = Vec::new();
        for process in &mut model.processes {
            let identity = process.identity;
            let first = unique(identity, thing::SEQUENCES, 0) % (1 << SEQUENCE_BITS);
            let mut state = State {
                main: 0,
                gpu: 0,
                next_sequence: first,
                process_uuid: unique(identity, thing::PROCESS, 0),
                context: unique(identity, thing::CONTEXT, 0) % (1 << 28) + 1,
                api: if process.is_cuda() { API_CUDA } else { API_HIP },
                event_base: (unique(identity, thing::EVENTS, 0) % (1 << EVENT_PROCESS_BITS))
                    << (56 - EVENT_PROCESS_BITS),
                threads: IdMap::default(),
                thread_list: Vec::new(),
                newest_threads: Recent::default(),
                launches: std::mem::take(&mut process.launches),
                waiting: host::waiting(process),
                kernel_numbers: Numbers::default(),
                kernels: Vec::new(),
                next_kernel: 1,
                copies: [false; 6],
                queues: IdMap::default(),
                stream_handles: vec![false; process.streams.len()],
                rows: IdMap::default(),
                row_list: Vec::new(),
                newest_rows: Recent::default(),
                names: IdMap::default(),
                early: IdMap::default(),
                waits: Vec::new(),
                next_wait_end: u64::MAX,
                ranges: RangesById::default(),
                range_rows: 0,
                memory: Memory::default(),
                depths: IdMap::default(),
                depth_list: Vec::new(),
                ends: BinaryHeap::new(),
            };
            state.main = writer.sequence(&mut state.next_sequence);
            state.gpu = writer.sequence(&mut state.next_sequence);
            ends::begin_process(&mut text, process, &state);
            writer.states.push(state);
        }
        let uuid = hash::words(model.processes.iter().map(|process| process.identity));
        let header = writer.begin_file(text, model);
        let closings = (model.processes.iter())
            .zip(&writer.states)
            .map(|(process, state)| ends::closing(process, state.main));
        let closings = closings.collect();
        let mut notes = Notes::default();
        for (process, state) in model.processes.iter().zip(&writer.states) {
            notes.add(process, |out, placed| {
                ends::note(out, process, state.main, placed);
            });
        }
        writer.parts.begin(uuid, header, closings, notes)?;
        Ok(writer)
    }

    /// The next sequence id of a process that no other process of the file uses.
    fn sequence(&mut self, next: &mut u64) -> u64 {
        loop {
            let id = *next % (1 << SEQUENCE_BITS) + 1;
            *next += 1;
            if self.taken_sequences.insert(id) {
                return id;
            }
        }
    }

    /// Writes what is left and names the file.
    pub(crate) fn finish(
        mut self,
        model: &mut Model<'_>,
        report: &mut ExportReport,
    ) -> Result<(Vec<std::path::PathBuf>, u64), ExportError> {
        for (index, process) in model.processes.iter().enumerate() {
            let mut inserts = Inserts::default();
            self.settle_waits(index, u64::MAX, &mut inserts);
            self.settle_depths(index, u64::MAX, &mut inserts);
            for at in 0..self.states[index].depth_list.len() {
                self.write_depth(index, at, &mut inserts);
            }
            for started in self.states[index].ranges.drain() {
                let end = process.open_end_ns(&started);
                self.range_by_id(process, index, &started, end, true, &mut inserts);
            }
            let (list, texts) = inserts.take();
            self.parts.add_inserts(list, &texts)?;
            self.parts.end_process(index)?;
        }
        *report = self.report;
        let cut = self.parts.cut();
        report.arrows = report.arrows.saturating_sub(cut.arrows);
        (report.cut_arrows, report.cut_waits) = (cut.arrows, cut.waits);
        self.parts.commit()
    }
}

impl Writer for Perfetto<'_> {
    type Decision = Decision;
    type Formatter = Packets;

    const DECIDES_BY_RECORDS: bool = true;

    #[inline]
    fn decide(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        let (index, record, start) = (item.process(), &item.record, item.place.start);
        self.decided += 1;
        if start >= self.states[index].next_wait_end {
            self.settle_waits(index, start, inserts);
        }
        match item.kind {
            Some(Kind::Api | Kind::OpenCall) => return self.call(process, item, inserts),
            Some(Kind::Dispatch | Kind::Copy) => return self.work(process, item, inserts),
            Some(Kind::Range | Kind::OpenRange | Kind::Mark | Kind::Scratch) => {
                return self.other(process, item, inserts);
            }
            Some(Kind::Alloc) => self.allocation(process, item, inserts),
            Some(Kind::Enqueue) => self.issue(process, item, inserts),
            Some(Kind::RangeStart) => self.states[index].ranges.start_by(record, start),
            Some(Kind::RangeStop) => {
                if let Some(started) = self.states[index].ranges.stop_by(record) {
                    self.range_by_id(process, index, &started, start, false, inserts);
                }
            }
            _ => {}
        }
        Decision::Nothing
    }

    fn formatter(&self, _: &[Process<'_>]) -> Packets {
        Packets::new(&self.states)
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
