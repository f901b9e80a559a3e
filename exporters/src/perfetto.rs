//! Perfetto's protobuf, with its own model of GPU compute: kernels and copies are GPU render stages with interned
//! kernels, host calls are track events that name the stages they submitted.
//!
//! Rules that every packet keeps (each one is a silent loss in the reader when broken):
//!
//! 1. A non-zero sequence id; the first packet of a sequence clears its state and sets its clock, all others need it.
//! 2. One sequence for the process itself, one for its GPU work, one for each host thread. Interned ids are defined in
//!    the packet that first uses them, or before; never 0; never twice.
//! 3. Every id that the whole file shares (sequences, tracks, contexts, events) is made from the process's identity, so
//!    that files of several processes can be merged or just concatenated. Process ids stay the system's: in files that are
//!    concatenated, readers take two processes with one id for one (an export of both traces gives the second another id).
//! 4. All times are BOOTTIME; clock snapshots come first and last, each with a clock that only its sequence has. Anchors
//!    between these two are not written: events are in BOOTTIME already, converted with all anchors, and a reader that
//!    converts other clocks itself knows only the first and the last one.
//! 5. Lists in `GpuCorrelation` are not packed.
//! 6. What is too large for one file becomes several: see [`parts`].
//!
//! # Source
//! google/perfetto, `protos/perfetto/trace/trace_packet.proto`, `.../trace/track_event/*.proto`, `.../trace/gpu/*.proto`;
//! field numbers as constants below.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use strandline::hash;
use strandline::record::{Kind, Record, api_arg, domain, high, low};

use crate::export::{ExportError, ExportReport};
use crate::join::{IdMap, LaunchTable, Numbers};
use crate::lanes::{FlatLanes, NestedLanes, RangesById, Started};
use crate::memory::Memory;
use crate::model::{Kernel, Model, Process, copy_names};
use crate::order::Item;
use crate::out::Output;
use crate::pipeline::{Chunk, Formatter, Inserts, What, Writer};
use crate::proto::{bytes, message, text, uint, varint, varint_bytes};
use crate::text::{Line, is_utf8};
use parts::{Closing, Parts, WaitEnd};

mod parts;

/// Field numbers, by message.
mod field {
    /// Trace.
    pub(super) const PACKET: u32 = 1;
    // TracePacket.
    pub(super) const CLOCK_SNAPSHOT: u32 = 6;
    pub(super) const TIMESTAMP: u32 = 8;
    pub(super) const SEQUENCE: u32 = 10;
    pub(super) const TRACK_EVENT: u32 = 11;
    pub(super) const INTERNED_DATA: u32 = 12;
    pub(super) const SEQUENCE_FLAGS: u32 = 13;
    pub(super) const TRACE_STATS: u32 = 35;
    pub(super) const SYSTEM_INFO: u32 = 45;
    pub(super) const GPU_RENDER_STAGE: u32 = 53;
    pub(super) const DEFAULTS: u32 = 59;
    pub(super) const TRACK_DESCRIPTOR: u32 = 60;
    pub(super) const GPU_MEMORY: u32 = 71;
    pub(super) const TRACE_UUID: u32 = 89;
    pub(super) const TRACE_ATTRIBUTES: u32 = 126;
    pub(super) const GPU_INFO: u32 = 128;
    // TracePacketDefaults.
    pub(super) const DEFAULT_TRACK_EVENT: u32 = 11;
    pub(super) const DEFAULT_CLOCK: u32 = 58;
    // TrackEvent.
    pub(super) const CATEGORY_IID: u32 = 3;
    pub(super) const ANNOTATION: u32 = 4;
    pub(super) const EVENT_TYPE: u32 = 9;
    pub(super) const NAME_IID: u32 = 10;
    pub(super) const TRACK_UUID: u32 = 11;
    pub(super) const NAME: u32 = 23;
    pub(super) const COUNTER_VALUE: u32 = 30;
    pub(super) const GPU_CORRELATION: u32 = 3000;
    pub(super) const GPU_API: u32 = 3001;
    // InternedData.
    pub(super) const CATEGORIES: u32 = 1;
    pub(super) const EVENT_NAMES: u32 = 2;
    pub(super) const ANNOTATION_NAMES: u32 = 3;
    pub(super) const CONTEXTS: u32 = 23;
    pub(super) const SPECIFICATIONS: u32 = 24;
    pub(super) const STRINGS: u32 = 29;
    pub(super) const KERNELS: u32 = 1000;
    pub(super) const ARG_NAMES: u32 = 1001;
}

/// `sequence_flags`: the state is cleared here.
const CLEARED: u64 = 1;
/// `sequence_flags`: the packet needs the state.
const NEEDS_STATE: u64 = 2;

/// BuiltinClock.
const REALTIME: u64 = 1;
const MONOTONIC: u64 = 3;
const MONOTONIC_RAW: u64 = 5;
const BOOTTIME: u64 = 6;
/// First clock that belongs to one sequence: the vendor's.
const VENDOR_CLOCK: u64 = 64;

/// TrackEvent.Type.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;

/// InternedGraphicsContext.Api.
const API_CUDA: u64 = 4;
const API_HIP: u64 = 5;

/// Bits of a sequence id: four bytes as a varint.
const SEQUENCE_BITS: u32 = 28;
/// Bits of the process in an event id; the rest counts.
const EVENT_PROCESS_BITS: u32 = 28;
/// Samples of a queue's depth are at least this far apart, but the last of a burst is always there.
const DEPTH_STEP_NS: u64 = 10_000;

/// Categories of track events; the interned id is the place in this list, from 1.
const CATEGORY_NAMES: [&str; 5] = ["api", "driver", "collective", "range", "quality"];
/// Names of annotations; likewise.
const ANNOTATION_NAMES: [&str; 19] = [
    "correlation_id",
    "external_id",
    "operation",
    "return",
    "bytes",
    "open",
    "session",
    "count",
    "grid_x",
    "grid_y",
    "grid_z",
    "destination",
    "source",
    "thread",
    "shared_mem",
    "name_bytes",
    "external_id_domain_1",
    "external_id_domain_2",
    "external_id_domain_3",
];
/// Names of launch and kernel arguments; likewise.
const ARG_NAMES: [&str; 28] = [
    "device",
    "stream",
    "queue",
    "dispatch_id",
    "correlation_id",
    "workgroup_size",
    "grid_size",
    "stream_handle",
    "bytes",
    "shared_mem_dynamic",
    "shared_mem_static",
    "registers_per_thread",
    "sgpr_count",
    "accum_vgpr_count",
    "scratch_bytes",
    "process_id",
    "process_name",
    "external_id",
    "graph_id",
    "graph_node_id",
    "own_correlation_id",
    "source",
    "destination",
    "name_bytes",
    "stream_known",
    "external_id_domain_1",
    "external_id_domain_2",
    "external_id_domain_3",
];

/// Place of a name in its list, from 1.
const fn place(names: &[&str], name: &str) -> u64 {
    let mut at = 0;
    while at < names.len() {
        if same(names[at].as_bytes(), name.as_bytes()) {
            return at as u64 + 1;
        }
        at += 1;
    }
    panic!("a name that is in the list");
}

const fn same(one: &[u8], other: &[u8]) -> bool {
    if one.len() != other.len() {
        return false;
    }
    let mut at = 0;
    while at < one.len() {
        if one[at] != other[at] {
            return false;
        }
        at += 1;
    }
    true
}

macro_rules! arg {
    ($name:literal) => {
        const { place(&ARG_NAMES, $name) }
    };
}

macro_rules! annotation {
    ($name:literal) => {
        const { place(&ANNOTATION_NAMES, $name) }
    };
}

/// Interned ids of specifications: two stages, then queues.
const STAGE_KERNEL: u64 = 1;
const STAGE_COPY: u64 = 2;
const QUEUE_FIRST: u32 = 3;
/// Interned names of copies come first, then those of kernels in the order in which they are met.
const FIRST_KERNEL: u64 = 7;
/// Shapes of one kernel that are interned; more of them are written out each time.
const SHAPES_MAX: usize = 16;
/// Work of a stream that is remembered for calls that wait: what started before such a call ended, and ended after it, is
/// hardly ever more than one less than this.
const RECENT: usize = 4;
/// Calls that return when their stream, or the whole device, has done its work.
const STREAM_WAITS: [&[u8]; 3] = [
    b"hipStreamSynchronize",
    b"hipStreamSynchronize_spt",
    b"cudaStreamSynchronize",
];
const DEVICE_WAITS: [&[u8]; 2] = [b"hipDeviceSynchronize", b"cudaDeviceSynchronize"];
/// Stands for the queue of copies.
const COPY_QUEUE: u64 = u64::MAX;
/// Tag of a packet in a trace, and of a render stage in a packet.
const PACKET_TAG: u8 = (field::PACKET << 3 | 2) as u8;
const LAUNCH_TAG: [u8; 2] = [(21 << 3 | 2) as u8 | 0x80, 1];
const STAGE_TAG: [u8; 2] = {
    let tag = field::GPU_RENDER_STAGE << 3 | 2;
    [tag as u8 | 0x80, (tag >> 7) as u8]
};

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

/// A shape's bytes.
#[derive(Debug)]
struct ShapeFields {
    /// Fields of the render stage: stage, queue, context, GPU, name, kernel.
    stage: Vec<u8>,
    /// Fields of the launch: sizes, device, stream.
    launch: Vec<u8>,
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
    newest_thread: Option<(u32, u32)>,
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
    newest_row: Option<(u64, u32)>,
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

/// A packet of `sequence`, with its time if it has one.
#[inline]
fn packet(
    out: &mut Vec<u8>,
    sequence: u64,
    flags: u64,
    time: Option<u64>,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    message(out, field::PACKET, |out| {
        if let Some(time) = time {
            uint(out, field::TIMESTAMP, time);
        }
        uint(out, field::SEQUENCE, sequence);
        uint(out, field::SEQUENCE_FLAGS, flags);
        fill(out);
    });
}

/// An ExtraComputeArg with a number. Names are interned under ids below 128.
#[inline]
fn arg(out: &mut Vec<u8>, number: u32, name: u64, value: u64) {
    let length = 3 + varint_bytes(value) as u8;
    out.extend_from_slice(&[(number << 3 | 2) as u8, length, 1 << 3, name as u8, 4 << 3]);
    varint(out, value);
}

/// Bytes of a [`launch_arg`].
#[inline]
fn launch_arg_bytes(value: u64) -> usize {
    5 + varint_bytes(value)
}

/// As [`arg`], for a launch.
#[inline]
fn launch_arg(out: &mut Line, name: u64, value: u64) {
    let length = 3 + varint_bytes(value) as u8;
    out.put(&[3 << 3 | 2, length, 1 << 3, name as u8, 4 << 3]);
    out.varint(value);
}

/// The last fields of a launch, which differ from record to record.
#[derive(Clone, Copy, Debug)]
struct LaunchTail {
    /// The call that the work leads to, and its own id if that is another.
    target: u64,
    own: Option<u64>,
    external: u64,
    /// For a kernel.
    dispatch: Option<u64>,
}

impl LaunchTail {
    /// How many bytes it takes.
    #[inline]
    fn bytes(&self, process: &Process<'_>) -> usize {
        let mut bytes = launch_arg_bytes(self.target);
        if self.external != 0 {
            bytes += launch_arg_bytes(self.external);
        }
        for id in [self.own, self.dispatch].into_iter().flatten() {
            bytes += launch_arg_bytes(id);
        }
        let outside = process.externals.of(self.target);
        bytes + outside.map(|(_, id)| launch_arg_bytes(id)).sum::<usize>()
    }

    #[inline]
    fn put(&self, process: &Process<'_>, out: &mut Line) {
        launch_arg(out, arg!("correlation_id"), self.target);
        if let Some(id) = self.own {
            launch_arg(out, arg!("own_correlation_id"), id);
        }
        if self.external != 0 {
            launch_arg(out, arg!("external_id"), self.external);
        }
        if let Some(id) = self.dispatch {
            launch_arg(out, arg!("dispatch_id"), id);
        }
        for (domain, id) in process.externals.of(self.target) {
            let name = arg!("external_id_domain_1") + u64::from(domain) - 1;
            launch_arg(out, name, id);
        }
    }
}

/// A packet with a render stage. All its lengths are known before its first byte is written.
#[inline]
fn stage(
    out: &mut Line,
    process: &Process<'_>,
    header: &[u8],
    (start, end, event): (u64, u64, u64),
    (stage_fields, launch_fields): (&[u8], &[u8]),
    tail: LaunchTail,
) {
    let duration = end - start;
    let launch = launch_fields.len() + tail.bytes(process);
    let inner = 2
        + varint_bytes(event)
        + varint_bytes(duration)
        + stage_fields.len()
        + LAUNCH_TAG.len()
        + varint_bytes(launch as u64)
        + launch;
    let whole = 1
        + varint_bytes(start)
        + header.len()
        + STAGE_TAG.len()
        + varint_bytes(inner as u64)
        + inner;
    out.text(&[PACKET_TAG]).varint(whole as u64);
    out.put(&[(field::TIMESTAMP << 3) as u8]).varint(start);
    out.text(header);
    out.put(&STAGE_TAG).varint(inner as u64);
    out.put(&[1 << 3]).varint(event);
    out.put(&[2 << 3]).varint(duration);
    out.text(stage_fields);
    out.put(&LAUNCH_TAG).varint(launch as u64);
    out.text(launch_fields);
    tail.put(process, out);
}

const _: () = assert!(ARG_NAMES.len() < 0x80);

/// Sizes, queue, memory and graph of a dispatch; dynamic memory also when there is none.
fn shape_args(
    out: &mut Vec<u8>,
    number: u32,
    process: &Process<'_>,
    record: &Record<'_>,
    kernel: &Kernel,
) {
    let (grid, block) = (process.grid(record), record.block());
    let product = |size: [u32; 3]| {
        size.iter()
            .fold(1u64, |all, &one| all.saturating_mul(one.into()))
    };
    arg(out, number, arg!("workgroup_size"), product(block));
    arg(out, number, arg!("grid_size"), product(grid));
    arg(out, number, arg!("queue"), record.queue());
    let (private, group) = (low(record.word(14)), high(record.word(14)));
    let of_symbol = kernel.symbol.group_bytes;
    let dynamic = group.saturating_sub(of_symbol);
    arg(out, number, arg!("shared_mem_dynamic"), dynamic.into());
    if private != 0 {
        arg(out, number, arg!("scratch_bytes"), private.into());
    }
    let graph = record.word(15);
    if graph != 0 {
        arg(out, number, arg!("graph_id"), low(graph).into());
        arg(out, number, arg!("graph_node_id"), high(graph).into());
    }
}

/// The handle of a stream, and whether anybody knows the stream.
fn stream_args(out: &mut Vec<u8>, number: u32, process: &Process<'_>, stream: usize) {
    let known = &process.streams[stream];
    if known.handle != 0 {
        message(out, number, |out| {
            uint(out, 1, arg!("stream_handle"));
            uint(out, 7, stream as u64 + 1);
        });
    }
    if !known.known {
        arg(out, number, arg!("stream_known"), 0);
    }
}

/// A DebugAnnotation with a number.
#[inline]
fn annotate(out: &mut Vec<u8>, name: u64, value: u64) {
    message(out, field::ANNOTATION, |out| {
        uint(out, 1, name);
        uint(out, 3, value);
    });
}

fn annotate_flag(out: &mut Vec<u8>, name: u64) {
    message(out, field::ANNOTATION, |out| {
        uint(out, 1, name);
        uint(out, 2, 1);
    });
}

fn named(out: &mut Vec<u8>, number: u32, iid: u64, name: &[u8]) {
    message(out, number, |out| {
        uint(out, 1, iid);
        text(out, 2, name);
    });
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An id of a process's thing: the same in every export of the process, never 0.
fn unique(identity: u64, what: u64, id: u64) -> u64 {
    hash::words([identity, what, id].into_iter())
}

/// Kinds of things that have a track.
mod thing {
    pub(super) const PROCESS: u64 = 1;
    pub(super) const THREAD: u64 = 2;
    pub(super) const THREAD_LANE: u64 = 3;
    pub(super) const RANGES: u64 = 4;
    pub(super) const QUALITY: u64 = 5;
    pub(super) const DEPTH: u64 = 6;
    pub(super) const SEQUENCES: u64 = 7;
    pub(super) const CONTEXT: u64 = 8;
    pub(super) const EVENTS: u64 = 9;
}

fn begin_process(block: &mut Vec<u8>, process: &Process<'_>, state: &State) {
    let anchors = process.clock_anchors();
    packet(block, state.main, CLEARED, None, |out| {
        defaults(out, None);
        message(out, field::CLOCK_SNAPSHOT, |out| {
            let first = anchors.first().copied().unwrap_or_default();
            let vendor_ns = if anchors.is_empty() {
                process.scan.first_ns.min(process.scan.last_ns)
            } else {
                first.vendor_ns
            };
            clocks(out, process, vendor_ns, &first);
        });
        message(out, field::INTERNED_DATA, |out| {
            for (at, name) in CATEGORY_NAMES.iter().enumerate() {
                named(out, field::CATEGORIES, at as u64 + 1, name.as_bytes());
            }
            for (at, name) in ANNOTATION_NAMES.iter().enumerate() {
                named(out, field::ANNOTATION_NAMES, at as u64 + 1, name.as_bytes());
            }
        });
    });
    packet(block, state.main, NEEDS_STATE, None, |out| {
        message(out, field::TRACK_DESCRIPTOR, |out| {
            uint(out, 1, state.process_uuid);
            message(out, 3, |out| {
                uint(out, 1, process.pid);
                text(out, 6, process.program().as_bytes());
                let rank = process.trace.header().rank;
                if rank >= 0 {
                    bytes(out, 8, format!("rank {rank}").as_bytes());
                }
            });
        });
    });
    if !process.notes.is_empty() {
        packet(block, state.main, NEEDS_STATE, None, |out| {
            message(out, field::TRACK_DESCRIPTOR, |out| {
                uint(out, 1, unique(process.identity, thing::QUALITY, 0));
                let name = format!("Recording quality [{}]", process.pid);
                bytes(out, 2, name.as_bytes());
                let about =
                    "What Strandline says of this trace: what is missing, lost, late or not drawn";
                bytes(out, 14, about.as_bytes());
            });
        });
    }
    packet(block, state.gpu, CLEARED, None, |out| {
        defaults(out, None);
        message(out, field::INTERNED_DATA, |out| {
            message(out, field::CONTEXTS, |out| {
                uint(out, 1, state.context);
                uint(out, 2, process.pid);
                uint(out, 3, state.api);
            });
            specification(out, STAGE_KERNEL, "Kernel", "A kernel on the GPU", 2);
            specification(out, STAGE_COPY, "Memcpy", "A memory copy", 0);
            for (at, name) in ARG_NAMES.iter().enumerate() {
                named(out, field::ARG_NAMES, at as u64 + 1, name.as_bytes());
            }
        });
    });
}

/// What a part says of a process at its end.
fn closing(process: &Process<'_>, sequence: u64) -> Closing {
    let mut snapshot = Vec::new();
    if let [_, last] = process.clock_anchors()[..] {
        packet(&mut snapshot, sequence, NEEDS_STATE, None, |out| {
            message(out, field::CLOCK_SNAPSHOT, |out| {
                clocks(out, process, last.vendor_ns, &last);
            });
        });
    }
    Closing {
        sequence,
        prefix: attribute_prefix(process),
        snapshot,
        notes: notes(process, sequence),
        is_closed: false,
    }
}

/// What a trace says of its own quality: when each note begins, and its packets.
fn notes(process: &Process<'_>, sequence: u64) -> VecDeque<(u64, Vec<u8>)> {
    let mut notes: Vec<_> = process.notes.iter().collect();
    notes.sort_by_key(|note| (note.start, Reverse(note.end)));
    let track = unique(process.identity, thing::QUALITY, 0);
    let encoded = notes.into_iter().map(|note| {
        let (start, mut block) = (process.out_ns(note.start), Vec::new());
        let event = |out: &mut Vec<u8>, kind| {
            message(out, field::TRACK_EVENT, |out| {
                uint(out, field::EVENT_TYPE, kind);
                uint(out, field::TRACK_UUID, track);
                if kind != END {
                    uint(out, field::CATEGORY_IID, 5);
                    text(out, field::NAME, note.text.as_bytes());
                    annotate(out, annotation!("count"), note.count);
                }
            });
        };
        let kind = if note.end.is_some() { BEGIN } else { INSTANT };
        packet(&mut block, sequence, NEEDS_STATE, Some(start), |out| {
            event(out, kind)
        });
        if let Some(end) = note.end {
            let end = process.out_ns(end).max(start);
            packet(&mut block, sequence, NEEDS_STATE, Some(end), |out| {
                event(out, END)
            });
        }
        (start, block)
    });
    encoded.collect()
}

/// Which operations of a process wait for the device.
fn waiting(process: &Process<'_>) -> Vec<Waiting> {
    process
        .operations
        .iter()
        .map(|operation| {
            if STREAM_WAITS.contains(&&operation.name[..]) {
                Waiting::Stream
            } else if DEVICE_WAITS.contains(&&operation.name[..]) {
                Waiting::Device
            } else {
                Waiting::Nothing
            }
        })
        .collect()
}

impl<'o> Perfetto<'o> {
    /// Begins the file: snapshots, metadata, processes, GPUs. Its parts take no more than `part_bytes_max`.
    pub(crate) fn new(
        model: &mut Model<'_>,
        out: Output<'o>,
        part_bytes_max: u64,
    ) -> Result<Self, ExportError> {
        let mut writer = Self {
            parts: Parts::new(out, part_bytes_max),
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
                newest_thread: None,
                launches: std::mem::take(&mut process.launches),
                waiting: waiting(process),
                kernel_numbers: Numbers::default(),
                kernels: Vec::new(),
                next_kernel: 1,
                copies: [false; 6],
                queues: IdMap::default(),
                stream_handles: vec![false; process.streams.len()],
                rows: IdMap::default(),
                row_list: Vec::new(),
                newest_row: None,
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
            begin_process(&mut text, process, &state);
            writer.states.push(state);
        }
        let uuid = hash::words(model.processes.iter().map(|process| process.identity));
        let header = writer.begin_file(text, model);
        let closings = (model.processes.iter())
            .zip(&writer.states)
            .map(|(process, state)| closing(process, state.main));
        let closings = closings.collect();
        writer.parts.begin(uuid, header, closings)?;
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

    /// What a file begins with, before and behind its id; `block` is what processes begin with.
    fn begin_file(&self, mut block: Vec<u8>, model: &Model<'_>) -> [Vec<u8>; 2] {
        let Some(state) = self.states.first() else {
            return [block, Vec::new()];
        };
        let main = state.main;
        let mut gpus: Vec<Option<&crate::model::Device<'_>>> = Vec::new();
        for device in model.processes.iter().flat_map(|process| &process.devices) {
            let at = device.gpu_id as usize;
            // An id far beyond the others would only make a list of nameless GPUs.
            if at < 1024 {
                if gpus.len() <= at {
                    gpus.resize(at + 1, None);
                }
                gpus[at].get_or_insert(device);
            }
        }
        if !gpus.is_empty() {
            packet(&mut block, main, NEEDS_STATE, None, |out| {
                message(out, field::GPU_INFO, |out| {
                    for (at, device) in gpus.iter().enumerate() {
                        message(out, 1, |out| gpu_info(out, at, *device));
                    }
                });
            });
        }
        let mut behind = Vec::new();
        packet(&mut behind, main, NEEDS_STATE, None, |out| {
            message(out, field::SYSTEM_INFO, |out| {
                let version = format!("Strandline {}", env!("CARGO_PKG_VERSION"));
                bytes(out, 4, version.as_bytes());
            });
        });
        for (process, state) in model.processes.iter().zip(&self.states) {
            packet(&mut behind, state.main, NEEDS_STATE, None, |out| {
                message(out, field::TRACE_ATTRIBUTES, |out| attributes(out, process));
            });
        }
        let lost = model.processes.iter().map(|process| {
            let reports = process.reports.iter();
            reports
                .map(|report| report.lost.total())
                .fold(0, u64::saturating_add)
        });
        if lost.clone().any(|lost| lost > 0) {
            packet(&mut behind, main, NEEDS_STATE, None, |out| {
                message(out, field::TRACE_STATS, |out| {
                    // One buffer for each process: readers keep one count for each buffer of a file.
                    for lost in lost {
                        message(out, 1, |out| {
                            if lost > 0 {
                                uint(out, 19, lost);
                            }
                        });
                    }
                });
            });
        }
        [block, behind]
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
                let end = process
                    .out_ns(process.close_ns(started.session))
                    .max(started.start);
                self.range_by_id(process, index, &started, end, true, &mut inserts);
            }
            let (list, texts) = inserts.take();
            self.parts.add_inserts(list, &texts)?;
            self.parts.end_process(index)?;
        }
        *report = self.report;
        report.arrows -= self.parts.cut_arrows();
        self.parts.commit()
    }

    /// Index of a thread's state; its first packets are written when it is new.
    #[inline]
    fn thread(
        &mut self,
        process: &Process<'_>,
        index: usize,
        thread: u32,
        inserts: &mut Inserts,
    ) -> usize {
        let state = &mut self.states[index];
        if let Some((newest, at)) = state.newest_thread
            && newest == thread
        {
            return at as usize;
        }
        let at = match state.threads.get(&thread) {
            Some(&at) => at,
            None => self.add_thread(process, index, thread, inserts),
        };
        self.states[index].newest_thread = Some((thread, at));
        at as usize
    }

    /// Makes a thread's state and writes its first packet.
    #[cold]
    fn add_thread(
        &mut self,
        process: &Process<'_>,
        index: usize,
        thread: u32,
        inserts: &mut Inserts,
    ) -> u32 {
        let mut next = self.states[index].next_sequence;
        let sequence = self.sequence(&mut next);
        let state = &mut self.states[index];
        state.next_sequence = next;
        let uuid = unique(process.identity, thing::THREAD, thread.into());
        let at = state.thread_list.len() as u32;
        state.threads.insert(thread, at);
        inserts.add(What::Definition, |block| {
            packet(block, sequence, CLEARED, None, |out| {
                defaults(out, Some(uuid));
                message(out, field::INTERNED_DATA, |out| {
                    for (at, name) in CATEGORY_NAMES.iter().enumerate() {
                        named(out, field::CATEGORIES, at as u64 + 1, name.as_bytes());
                    }
                    for (at, name) in ANNOTATION_NAMES.iter().enumerate() {
                        named(out, field::ANNOTATION_NAMES, at as u64 + 1, name.as_bytes());
                    }
                });
                message(out, field::TRACK_DESCRIPTOR, |out| {
                    uint(out, 1, uuid);
                    uint(out, 5, state.process_uuid);
                    message(out, 4, |out| {
                        let known = process.threads.get(&thread);
                        let tid = known.map_or(u64::from(thread), |known| known.tid);
                        uint(out, 1, process.pid);
                        uint(out, 2, tid);
                        let own = known.and_then(|known| known.name.clone());
                        let name = match own {
                            Some(name) => name,
                            None if tid == process.pid => process.program().to_owned(),
                            None if thread == 0 => "unknown thread".to_owned(),
                            None => format!("thread {thread}"),
                        };
                        text(out, 5, name.as_bytes());
                    });
                });
            });
        });
        state.thread_list.push(Thread {
            sequence,
            uuid,
            lanes: NestedLanes::default(),
            lanes_named: 1,
            names: Vec::new(),
        });
        at
    }

    /// The lane of a span on its thread.
    #[inline]
    fn thread_lane(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> (usize, usize) {
        let (index, record) = (item.process(), &item.record);
        let at = self.thread(process, index, record.thread(), inserts);
        let thread = &mut self.states[index].thread_list[at];
        let lane = thread.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.host_overlaps += 1;
            if lane == thread.lanes_named {
                thread.lanes_named += 1;
                let uuid = lane_uuid(process, record.thread(), lane);
                let name = format!("overlap {lane}");
                inserts.add(What::Definition, |out| {
                    child_track(out, thread.sequence, uuid, thread.uuid, &name);
                });
            }
        }
        (at, lane)
    }

    /// Writes the ends of calls that waited for the device and ended by `now`, with the last work that each waited for.
    #[cold]
    fn settle_waits(&mut self, index: usize, now: u64, inserts: &mut Inserts) {
        let state = &mut self.states[index];
        let waits = std::mem::take(&mut state.waits);
        state.next_wait_end = u64::MAX;
        let devices = state.row_list.iter().map(|row| row.key >> 32);
        let one_device = devices.clone().max() == devices.min();
        for wait in waits {
            let end = wait.end.end;
            if end > now {
                state.next_wait_end = state.next_wait_end.min(end);
                state.waits.push(wait);
                continue;
            }
            let mut works = Vec::new();
            for row in &state.row_list {
                let waited = match wait.stream {
                    Some(stream) => row.key & u64::from(u32::MAX) == stream as u64,
                    // Which device the thread had chosen, no record says.
                    None => one_device,
                };
                let within = |work: &&(u64, u64, u64)| (wait.start..=end).contains(&work.0);
                if waited && let Some(&(_, id, record)) = row.recent.iter().filter(within).max() {
                    works.push((id, record));
                }
            }
            inserts.add(What::End, |out| {
                let ids: Vec<u64> = works.iter().map(|work| work.0).collect();
                end_packet(out, &wait.end, &ids);
            });
            self.parts.add_end(wait.end, works);
        }
    }

    #[inline]
    fn call(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let record = &item.record;
        let (at, lane) = self.thread_lane(process, item, inserts);
        let operation = process.operation(record);
        let id = record.correlation_id();
        let state = &mut self.states[item.process()];
        let (first, count) = match id {
            0 => (0, 0),
            id => state.launches.numbers(id),
        };
        // A second call with the same id does not claim the same work again.
        let count = if count > 0 && state.launches.claim(id) {
            count
        } else {
            0
        };
        let number = self.decided - 1;
        if count > 0
            && !state.early.is_empty()
            && let Some(works) = state.early.remove(&id)
        {
            self.parts.add_early(number, works);
        }
        let waits_for = match state.waiting[operation] {
            Waiting::Nothing => None,
            Waiting::Stream => process.drawn_stream(record).map(Some),
            Waiting::Device => Some(None),
        };
        self.report.arrows += u64::from(count);
        self.report.calls += 1;
        let thread = &mut state.thread_list[at];
        let is_new = !intern(&mut thread.names, operation);
        if is_new {
            let name = &process.operations[operation].name;
            (self.parts).add_name(number, thread.sequence, operation as u64 + 1, name);
        }
        if let Some(stream) = waits_for {
            // What it waited for is known only when the records have come to its end.
            let (start, end) = (item.place.start, item.place.end);
            state.next_wait_end = state.next_wait_end.min(end);
            let end = WaitEnd {
                call: number,
                sequence: thread.sequence,
                end,
                track: (lane > 0).then(|| lane_uuid(process, record.thread(), lane)),
            };
            self.parts.add_wait(end);
            state.waits.push(Wait { start, end, stream });
        }
        Decision::Host(Host {
            sequence: thread.sequence as u32,
            name: operation as u32,
            is_new,
            lane: lane as u32,
            waits: waits_for.is_some(),
            count,
            first,
        })
    }

    /// Place of a range's or mark's name among the names of its process, and whether its thread does not know it yet.
    fn name_place(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        thread: usize,
    ) -> (usize, bool) {
        let state = &mut self.states[item.process()];
        let next = state.names.len() as u32;
        let at = *state.names.entry(item.record.name_id()).or_insert(next);
        let place = process.operations.len() + at as usize;
        let thread = &mut state.thread_list[thread];
        let is_new = !intern(&mut thread.names, place);
        if is_new {
            let name = process.name(item.record.name_id());
            let (record, iid) = (self.decided - 1, place as u64 + 1);
            self.parts.add_name(record, thread.sequence, iid, &name);
        }
        (place, is_new)
    }

    /// A range, mark or scratch event.
    fn other(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let (index, kind) = (item.process(), item.record.kind());
        let is_range = matches!(kind, Some(Kind::Range | Kind::OpenRange));
        let (at, lane) = if is_range {
            self.report.ranges += 1;
            self.thread_lane(process, item, inserts)
        } else {
            self.report.instants += 1;
            let thread = item.record.thread();
            (self.thread(process, index, thread, inserts), 0)
        };
        let (name, is_new) = if kind == Some(Kind::Scratch) {
            (0, false)
        } else {
            self.name_place(process, item, at)
        };
        Decision::Host(Host {
            sequence: self.states[index].thread_list[at].sequence as u32,
            name: name as u32,
            is_new,
            lane: lane as u32,
            waits: false,
            count: 0,
            first: 0,
        })
    }

    fn range_by_id(
        &mut self,
        process: &Process<'_>,
        index: usize,
        started: &Started,
        end: u64,
        open: bool,
        inserts: &mut Inserts,
    ) {
        let state = &mut self.states[index];
        let track = |lane: usize| unique(process.identity, thing::RANGES, lane as u64);
        while state.range_rows <= started.lane {
            inserts.add(What::Definition, |out| {
                let (track, parent) = (track(state.range_rows), state.process_uuid);
                child_track(out, state.main, track, parent, "ranges by id");
            });
            state.range_rows += 1;
        }
        let (main, track) = (state.main, track(started.lane));
        let name = process.name(started.name);
        inserts.add(What::Event, |block| {
            packet(block, main, NEEDS_STATE, Some(started.start), |out| {
                message(out, field::TRACK_EVENT, |out| {
                    uint(out, field::EVENT_TYPE, BEGIN);
                    uint(out, field::TRACK_UUID, track);
                    uint(out, field::CATEGORY_IID, 4);
                    text(out, field::NAME, &name);
                    annotate(out, annotation!("thread"), started.thread.into());
                    keep_bytes(out, &name);
                    if open {
                        annotate_flag(out, annotation!("open"));
                    }
                });
            });
            packet(block, main, NEEDS_STATE, Some(end), |out| {
                message(out, field::TRACK_EVENT, |out| {
                    uint(out, field::EVENT_TYPE, END);
                    uint(out, field::TRACK_UUID, track);
                });
            });
        });
        self.report.ranges += 1;
    }

    fn allocation(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) {
        let state = &mut self.states[item.process()];
        let change = state.memory.change(&item.record);
        self.report.instants += 1;
        let gpu = process
            .facts
            .agent(change.agent)
            .is_some_and(strandline::facts::Agent::is_gpu);
        if !gpu {
            return;
        }
        let device = process.device_index(change.agent);
        let gpu_id = process
            .devices
            .get(device)
            .map_or(0, |device| device.gpu_id);
        let (main, start) = (state.main, item.place.start);
        inserts.add(What::Event, |block| {
            for pid in [0, process.pid] {
                packet(block, main, NEEDS_STATE, Some(start), |out| {
                    message(out, field::GPU_MEMORY, |out| {
                        uint(out, 1, gpu_id);
                        uint(out, 2, pid);
                        uint(out, 3, change.total);
                    });
                });
            }
        });
    }

    /// Index of the row of a device and stream.
    #[inline]
    fn stream_row(&mut self, index: usize, key: u64) -> usize {
        let state = &mut self.states[index];
        if let Some((newest, at)) = state.newest_row
            && newest == key
        {
            return at as usize;
        }
        let rows = &mut state.row_list;
        let at = *state.rows.entry(key).or_insert_with(|| {
            rows.push(StreamRow {
                key,
                ..StreamRow::default()
            });
            rows.len() as u32 - 1
        });
        state.newest_row = Some((key, at));
        at as usize
    }

    /// Interned id of a queue, and whether it is new. Copies have no queue: one row of their own for each device.
    fn queue(state: &mut State, device: usize, queue: u64) -> (u32, bool) {
        let next = QUEUE_FIRST + state.queues.len() as u32;
        let iid = *state.queues.entry((device as u64, queue)).or_insert(next);
        (iid, iid == next)
    }

    /// Interns what a stage needs and the sequence does not know yet; `kernel` is a number and an interned id, and
    /// whether its name is new.
    fn intern_work(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        (queue_iid, new_queue): (u32, bool),
        (device, stream): (usize, usize),
        kernel: Option<(usize, u32, bool)>,
        inserts: &mut Inserts,
    ) {
        let record = &item.record;
        let state = &mut self.states[item.process()];
        let handle = process.streams[stream].handle;
        let new_handle = handle != 0 && !std::mem::replace(&mut state.stream_handles[stream], true);
        let operation = record.operation().min(5) as usize;
        let is_copy = record.kind() == Some(Kind::Copy);
        let new_copy = is_copy && !std::mem::replace(&mut state.copies[operation], true);
        if !new_queue && !new_handle && !new_copy && kernel.is_none() {
            return;
        }
        let intern = |out: &mut Vec<u8>| {
            if new_queue {
                let pid = process.pid;
                let name = if is_copy {
                    format!("Copies [{pid}]")
                } else {
                    format!("Queue {:#x} [{pid}]", record.queue())
                };
                specification(out, queue_iid.into(), &name, "Hardware queue", 2);
            }
            if new_handle {
                message(out, field::STRINGS, |out| {
                    uint(out, 1, stream as u64 + 1);
                    bytes(out, 2, format!("{handle:#x}").as_bytes());
                });
            }
            if new_copy {
                let (iid, name) = (1 + operation as u64, copy_names(record.operation()).1);
                named(out, field::EVENT_NAMES, iid, name.as_bytes());
            }
            if let Some((number, iid, new_name)) = kernel {
                let kernel = process.kernel(record.kernel_id());
                if new_name {
                    let iid = FIRST_KERNEL + number as u64;
                    named(out, field::EVENT_NAMES, iid, &kernel.display);
                }
                let place = (device, stream);
                interned_kernel(out, process, (&kernel, iid.into()), place, record);
            }
        };
        inserts.add(What::Definition, |out| {
            packet(out, state.gpu, NEEDS_STATE, None, |out| {
                message(out, field::INTERNED_DATA, intern);
            });
        });
    }

    /// Finds the shape of a dispatch, or makes it; interned ids of the kernel and of the queue, and whether the kernel
    /// has too many shapes already.
    #[inline]
    fn shape(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        number: usize,
        place: (usize, usize),
        inserts: &mut Inserts,
    ) -> (u32, u32, bool) {
        let record = &item.record;
        let state = &mut self.states[item.process()];
        while state.kernels.len() <= number {
            state.kernels.push(KernelShapes::default());
        }
        let row = (place.0 as u64) << 32 | place.1 as u64;
        let words: [u64; 5] = std::array::from_fn(|word| record.word(11 + word));
        let is_it = |shape: &Shape| {
            shape.words == words && shape.queue == record.queue() && shape.row == row
        };
        let kernel = &mut state.kernels[number];
        if let Some(shape) = kernel.shapes.get(kernel.newest)
            && is_it(shape)
        {
            return (shape.iid, shape.queue_iid, false);
        }
        if let Some(found) = kernel.shapes.iter().position(is_it) {
            kernel.newest = found;
            let shape = &kernel.shapes[found];
            return (shape.iid, shape.queue_iid, false);
        }
        let (count, first_iid) = (kernel.shapes.len(), kernel.first_iid);
        let queue = Self::queue(state, place.0, record.queue());
        if count == SHAPES_MAX {
            // It borrows the first one's kernel and says everything itself.
            self.intern_work(process, item, queue, place, None, inserts);
            return (first_iid, queue.0, true);
        }
        let iid = state.next_kernel;
        state.next_kernel += 1;
        let kernel = Some((number, iid, count == 0));
        self.intern_work(process, item, queue, place, kernel, inserts);
        let kernel = &mut self.states[item.process()].kernels[number];
        kernel.shapes.push(Shape {
            words,
            queue: record.queue(),
            row,
            iid,
            queue_iid: queue.0,
        });
        kernel.newest = count;
        if count == 0 {
            kernel.first_iid = iid;
        }
        (iid, queue.0, false)
    }

    #[inline]
    fn work(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let (index, record) = (item.process(), &item.record);
        let (device, stream) = (process.device(record), process.stream(record));
        let row = self.stream_row(index, (device as u64) << 32 | stream as u64);
        let state = &mut self.states[index];
        let target = (state.launches).target(record.correlation_id(), record.ancestor_id());
        let number = state.launches.next_number(target);
        let event = state.event_base.wrapping_add(number);
        let row = &mut state.row_list[row];
        if row.lanes.place(item.place.start, item.place.end) > 0 {
            self.report.overlaps += 1;
        }
        let work = self.decided - 1;
        row.recent[row.next % RECENT] = (item.place.end, event, work);
        row.next += 1;
        let link = match target {
            None => Link::None,
            Some(call) if state.launches.is_claimed(call) => Link::After,
            Some(call) => {
                self.report.before_launch += 1;
                state.early.entry(call).or_default().push(work);
                Link::Before
            }
        };
        self.report.unlinked += u64::from(link == Link::None);
        let target = target.unwrap_or(record.correlation_id());
        if record.kind() != Some(Kind::Dispatch) {
            let queue = Self::queue(state, device, COPY_QUEUE);
            self.intern_work(process, item, queue, (device, stream), None, inserts);
            self.report.copies += 1;
            return Decision::Copy {
                event,
                target,
                queue: queue.0,
                link,
            };
        }
        let (number, _) = state.kernel_numbers.of(record.kernel_id());
        let (iid, queue, is_odd) = self.shape(process, item, number, (device, stream), inserts);
        self.report.kernels += 1;
        if process.scan.has_issues {
            self.depth_at_end(index, device, stream, item.place.end);
        }
        Decision::Kernel {
            event,
            target,
            number: number as u32,
            iid,
            queue,
            is_odd,
            link,
        }
    }

    /// A dispatch was issued: its stream's queue grows.
    fn issue(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) {
        let (index, record, start) = (item.process(), &item.record, item.place.start);
        self.settle_depths(index, start, inserts);
        if !process.is_drawn(record.dispatch_id()) {
            return;
        }
        let agent = process
            .facts
            .queues
            .iter()
            .find(|(queue, _)| *queue == record.queue())
            .map(|&(_, agent)| agent);
        let (Some(device), Some(stream)) = (
            agent.map(|agent| process.device_index(agent)),
            process.drawn_stream(record),
        ) else {
            return;
        };
        let at = self.depth(process, index, (device, stream), inserts);
        self.change_depth(index, at, start, 1, inserts);
    }

    fn depth(
        &mut self,
        process: &Process<'_>,
        index: usize,
        (device, stream): (usize, usize),
        inserts: &mut Inserts,
    ) -> usize {
        let state = &mut self.states[index];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.depths.get(&key) {
            return at as usize;
        }
        let at = state.depth_list.len();
        state.depths.insert(key, at as u32);
        let uuid = unique(process.identity, thing::DEPTH, key);
        let number = process
            .devices
            .get(device)
            .map_or(0, |device| device.number);
        let name = format!("queue depth d{number} s{}", process.streams[stream].number);
        inserts.add(What::Definition, |out| {
            packet(out, state.main, NEEDS_STATE, None, |out| {
                message(out, field::TRACK_DESCRIPTOR, |out| {
                    uint(out, 1, uuid);
                    uint(out, 5, state.process_uuid);
                    bytes(out, 2, name.as_bytes());
                    message(out, 8, |out| uint(out, 3, 2));
                });
            });
        });
        state.depth_list.push(Depth {
            uuid,
            value: 0,
            written_ns: 0,
            changed_ns: 0,
            pending: false,
        });
        at
    }

    fn depth_at_end(&mut self, index: usize, device: usize, stream: usize, end: u64) {
        let state = &mut self.states[index];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.depths.get(&key) {
            state.ends.push(Reverse((end, at)));
        }
    }

    /// Takes account of all kernels that ended up to `now`.
    fn settle_depths(&mut self, index: usize, now: u64, inserts: &mut Inserts) {
        while let Some(&Reverse((end, at))) = self.states[index].ends.peek() {
            if end > now {
                break;
            }
            self.states[index].ends.pop();
            self.change_depth(index, at as usize, end, -1, inserts);
        }
    }

    fn change_depth(&mut self, index: usize, at: usize, now: u64, by: i64, inserts: &mut Inserts) {
        if now
            >= self.states[index].depth_list[at]
                .written_ns
                .saturating_add(DEPTH_STEP_NS)
        {
            self.write_depth(index, at, inserts);
        }
        let depth = &mut self.states[index].depth_list[at];
        depth.value = depth.value.saturating_add_signed(by);
        depth.changed_ns = now;
        depth.pending = true;
        if now >= depth.written_ns.saturating_add(DEPTH_STEP_NS) {
            self.write_depth(index, at, inserts);
        }
    }

    fn write_depth(&mut self, index: usize, at: usize, inserts: &mut Inserts) {
        let state = &mut self.states[index];
        let depth = &mut state.depth_list[at];
        if !depth.pending {
            return;
        }
        depth.pending = false;
        depth.written_ns = depth.changed_ns;
        inserts.add(What::Event, |out| {
            packet(
                out,
                state.main,
                NEEDS_STATE,
                Some(depth.changed_ns),
                |out| {
                    message(out, field::TRACK_EVENT, |out| {
                        uint(out, field::EVENT_TYPE, COUNTER);
                        uint(out, field::TRACK_UUID, depth.uuid);
                        uint(out, field::COUNTER_VALUE, depth.value);
                    });
                },
            );
        });
    }
}

/// The track of a lane of a thread, from the second lane on.
fn lane_uuid(process: &Process<'_>, thread: u32, lane: usize) -> u64 {
    let id = u64::from(thread) << 32 | lane as u64;
    unique(process.identity, thing::THREAD_LANE, id)
}

/// What the packets of a process need to know of it.
#[derive(Debug)]
struct Texts {
    context: u64,
    api: u64,
    event_base: u64,
    /// Sequence and flags of GPU packets, encoded.
    gpu_header: Vec<u8>,
    /// By interned id.
    shapes: Vec<Option<ShapeFields>>,
}

/// Makes packets.
#[derive(Debug)]
pub(crate) struct Packets {
    /// By process.
    texts: Vec<Texts>,
}

impl Texts {
    /// Fields of a stage but those of its launch.
    fn stage_fields(&self, stage: u64, queue: u32, gpu_id: u64, name: u64) -> Vec<u8> {
        let mut fields = Vec::new();
        uint(&mut fields, 13, queue.into());
        uint(&mut fields, 14, stage);
        uint(&mut fields, 5, self.context);
        uint(&mut fields, 11, gpu_id);
        uint(&mut fields, 20, name);
        fields
    }

    /// Fields of a kernel; all of them for one with an odd shape.
    #[cold]
    fn kernel_fields(
        &self,
        process: &Process<'_>,
        record: &Record<'_>,
        (number, iid, queue): (u32, u32, u32),
        is_odd: bool,
    ) -> ShapeFields {
        let (device, stream) = (process.device(record), process.stream(record));
        let (device, gpu_id) = device_ids(process, device);
        let name = FIRST_KERNEL + u64::from(number);
        let mut stage = self.stage_fields(STAGE_KERNEL, queue, gpu_id, name);
        uint(&mut stage, 19, iid.into());
        let mut launch = Vec::new();
        dim3(&mut launch, 1, process.grid(record));
        dim3(&mut launch, 2, record.block());
        if is_odd {
            let kernel = process.kernel(record.kernel_id());
            shape_args(&mut launch, 3, process, record, &kernel);
        }
        arg(&mut launch, 3, arg!("device"), device);
        arg(
            &mut launch,
            3,
            arg!("stream"),
            process.streams[stream].number,
        );
        if is_odd {
            stream_args(&mut launch, 3, process, stream);
        }
        ShapeFields { stage, launch }
    }
}

/// Number of a device, and its number among all of the machine.
fn device_ids(process: &Process<'_>, device: usize) -> (u64, u64) {
    process
        .devices
        .get(device)
        .map_or((0, 0), |device| (device.number, device.gpu_id))
}

impl Packets {
    #[inline]
    fn kernel(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        (event, target): (u64, u64),
        ids: (u32, u32, u32),
        is_odd: bool,
        out: &mut Line,
    ) {
        let record = &item.record;
        // Every dispatch has two cells.
        let Some(words) = record.words().first_chunk::<16>() else {
            return;
        };
        let times = (item.place.start, item.place.end, event);
        let texts = &mut self.texts[item.process()];
        let tail = LaunchTail {
            target,
            own: (target != words[3]).then_some(words[3]),
            external: words[7],
            dispatch: Some(words[5]),
        };
        if is_odd {
            let fields = texts.kernel_fields(process, record, ids, true);
            let fields = (&fields.stage[..], &fields.launch[..]);
            stage(out, process, &texts.gpu_header, times, fields, tail);
            return;
        }
        let at = ids.1 as usize;
        if !matches!(texts.shapes.get(at), Some(Some(_))) {
            if texts.shapes.len() <= at {
                texts.shapes.resize_with(at + 1, || None);
            }
            let fields = texts.kernel_fields(process, record, ids, false);
            texts.shapes[at] = Some(fields);
        }
        if let Some(Some(fields)) = texts.shapes.get(at) {
            let fields = (&fields.stage[..], &fields.launch[..]);
            stage(out, process, &texts.gpu_header, times, fields, tail);
        }
    }

    fn copy(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        (event, target, queue): (u64, u64, u32),
        out: &mut Line,
    ) {
        let record = &item.record;
        let texts = &self.texts[item.process()];
        let stream = process.stream(record);
        let (number, gpu_id) = device_ids(process, process.device(record));
        let name = 1 + u64::from(record.operation().min(5));
        let fields = texts.stage_fields(STAGE_COPY, queue, gpu_id, name);
        let mut launch = Vec::new();
        arg(&mut launch, 3, arg!("bytes"), record.bytes());
        if record.word(11) != 0 || record.word(12) != 0 {
            arg(&mut launch, 3, arg!("source"), record.word(11));
            arg(&mut launch, 3, arg!("destination"), record.word(12));
        }
        arg(&mut launch, 3, arg!("device"), number);
        arg(
            &mut launch,
            3,
            arg!("stream"),
            process.streams[stream].number,
        );
        stream_args(&mut launch, 3, process, stream);
        let times = (item.place.start, item.place.end, event);
        let own = record.correlation_id();
        let tail = LaunchTail {
            target,
            own: (target != own).then_some(own),
            external: record.external_id(),
            dispatch: None,
        };
        let fields = (&fields[..], &launch[..]);
        stage(out, process, &texts.gpu_header, times, fields, tail);
    }

    /// A call: two packets, or one when it waits.
    #[inline]
    fn call(&self, process: &Process<'_>, item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let record = &item.record;
        let texts = &self.texts[item.process()];
        let name = &process.operations[host.name as usize];
        let (category, has_api) = match name.domain {
            domain::DRIVER => (2, true),
            domain::COLLECTIVE => (3, false),
            domain::MARKER | domain::USER => (4, false),
            _ => (1, true),
        };
        let id = record.correlation_id();
        span(out, process, item, host, &name.name, category, |out| {
            if id != 0 {
                annotate(out, annotation!("correlation_id"), id);
            }
            call_annotations(out, record);
            for (domain, id) in process.externals.of(id) {
                let first = annotation!("external_id_domain_1");
                annotate(out, first + u64::from(domain) - 1, id);
            }
            if host.count > 0 {
                message(out, field::GPU_CORRELATION, |out| {
                    for at in 0..u64::from(host.count) {
                        let number = host.first + at * 4;
                        uint(out, 1, texts.event_base.wrapping_add(number));
                    }
                });
            }
            if has_api {
                uint(out, field::GPU_API, texts.api);
            }
        });
    }

    fn range(process: &Process<'_>, item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let record = &item.record;
        let open = record.kind() == Some(Kind::OpenRange) || record.end() == 0;
        let name = process.name(record.name_id());
        span(out, process, item, host, &name, 4, |out| {
            annotate(out, annotation!("session"), record.session().into());
            keep_bytes(out, &name);
            if open {
                annotate_flag(out, annotation!("open"));
            }
        });
    }

    fn mark(process: &Process<'_>, item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let (record, start) = (&item.record, item.place.start);
        let name = process.name(record.name_id());
        let iid = u64::from(host.name) + 1;
        packet(out, host.sequence.into(), NEEDS_STATE, Some(start), |out| {
            if host.is_new {
                message(out, field::INTERNED_DATA, |out| {
                    named(out, field::EVENT_NAMES, iid, &name);
                });
            }
            message(out, field::TRACK_EVENT, |out| {
                uint(out, field::EVENT_TYPE, INSTANT);
                uint(out, field::CATEGORY_IID, 4);
                uint(out, field::NAME_IID, iid);
                annotate(out, annotation!("session"), record.session().into());
                keep_bytes(out, &name);
            });
        });
    }

    /// Scratch events: instants on their thread.
    fn scratch(item: &Item<'_>, host: Host, out: &mut Vec<u8>) {
        let (record, start) = (&item.record, item.place.start);
        let name = match record.operation() {
            1 => "scratch alloc",
            2 => "scratch free",
            3 => "scratch reclaim",
            _ => "scratch",
        };
        packet(out, host.sequence.into(), NEEDS_STATE, Some(start), |out| {
            message(out, field::TRACK_EVENT, |out| {
                uint(out, field::EVENT_TYPE, INSTANT);
                uint(out, field::CATEGORY_IID, 2);
                bytes(out, field::NAME, name.as_bytes());
                annotate(out, annotation!("bytes"), record.bytes());
            });
        });
    }
}

/// A span on a thread: two packets, or one when its end comes later.
#[inline]
fn span(
    block: &mut Vec<u8>,
    process: &Process<'_>,
    item: &Item<'_>,
    host: Host,
    name: &[u8],
    category: u64,
    fill: impl FnOnce(&mut Vec<u8>),
) {
    let (start, end, lane) = (item.place.start, item.place.end, host.lane as usize);
    let (sequence, iid) = (u64::from(host.sequence), u64::from(host.name) + 1);
    let track = (lane > 0).then(|| lane_uuid(process, item.record.thread(), lane));
    packet(block, sequence, NEEDS_STATE, Some(start), |out| {
        if host.is_new {
            message(out, field::INTERNED_DATA, |out| {
                named(out, field::EVENT_NAMES, iid, name);
            });
        }
        message(out, field::TRACK_EVENT, |out| {
            uint(out, field::EVENT_TYPE, BEGIN);
            if let Some(track) = track {
                uint(out, field::TRACK_UUID, track);
            }
            uint(out, field::CATEGORY_IID, category);
            uint(out, field::NAME_IID, iid);
            fill(out);
        });
    });
    if !host.waits {
        let end = WaitEnd {
            call: 0,
            sequence,
            end,
            track,
        };
        end_packet(block, &end, &[]);
    }
}

/// The end of a span, with the stages it waited for.
fn end_packet(out: &mut Vec<u8>, end: &WaitEnd, waited: &[u64]) {
    packet(out, end.sequence, NEEDS_STATE, Some(end.end), |out| {
        message(out, field::TRACK_EVENT, |out| {
            uint(out, field::EVENT_TYPE, END);
            if let Some(track) = end.track {
                uint(out, field::TRACK_UUID, track);
            }
            if !waited.is_empty() {
                message(out, field::GPU_CORRELATION, |out| {
                    for &id in waited {
                        uint(out, 2, id);
                    }
                });
            }
        });
    });
}

/// Notes that a name is interned now; true when it was before.
#[inline]
fn intern(names: &mut Vec<bool>, place: usize) -> bool {
    if names.len() <= place {
        names.resize(place + 1, false);
    }
    std::mem::replace(&mut names[place], true)
}

/// Keeps the bytes of a name that is no UTF-8.
fn keep_bytes(out: &mut Vec<u8>, name: &[u8]) {
    if !is_utf8(name) {
        message(out, field::ANNOTATION, |out| {
            uint(out, 1, annotation!("name_bytes"));
            bytes(out, 6, hex(name).as_bytes());
        });
    }
}

fn defaults(out: &mut Vec<u8>, track: Option<u64>) {
    message(out, field::DEFAULTS, |out| {
        uint(out, field::DEFAULT_CLOCK, BOOTTIME);
        if let Some(track) = track {
            message(out, field::DEFAULT_TRACK_EVENT, |out| {
                uint(out, field::TRACK_UUID, track);
            });
        }
    });
}

/// The content of a ClockSnapshot: BOOTTIME as this file's events use it, the vendor's clock, and what else was measured.
fn clocks(
    out: &mut Vec<u8>,
    process: &Process<'_>,
    vendor_ns: u64,
    anchor: &strandline::anchors::ClockAnchor,
) {
    let mut clock = |id: u64, time: u64| {
        message(out, 1, |out| {
            uint(out, 1, id);
            uint(out, 2, time);
        });
    };
    clock(BOOTTIME, process.out_ns(vendor_ns));
    for (id, time) in [
        (MONOTONIC, anchor.monotonic_ns),
        (MONOTONIC_RAW, anchor.monotonic_raw_ns),
        (REALTIME, anchor.realtime_ns),
    ] {
        if time != 0 {
            clock(id, time);
        }
    }
    clock(VENDOR_CLOCK, vendor_ns);
    uint(out, 2, BOOTTIME);
}

fn specification(out: &mut Vec<u8>, iid: u64, name: &str, about: &str, category: u64) {
    message(out, field::SPECIFICATIONS, |out| {
        uint(out, 1, iid);
        bytes(out, 2, name.as_bytes());
        bytes(out, 3, about.as_bytes());
        uint(out, 4, category);
    });
}

fn child_track(out: &mut Vec<u8>, sequence: u64, uuid: u64, parent: u64, name: &str) {
    packet(out, sequence, NEEDS_STATE, None, |out| {
        message(out, field::TRACK_DESCRIPTOR, |out| {
            uint(out, 1, uuid);
            uint(out, 5, parent);
            bytes(out, 2, name.as_bytes());
        });
    });
}

#[inline]
fn dim3(out: &mut Vec<u8>, number: u32, size: [u32; 3]) {
    message(out, number, |out| {
        uint(out, 1, size[0].into());
        uint(out, 2, size[1].into());
        uint(out, 3, size[2].into());
    });
}

fn call_annotations(out: &mut Vec<u8>, record: &Record<'_>) {
    if record.external_id() != 0 {
        annotate(out, annotation!("external_id"), record.external_id());
    }
    if record.return_value() != 0 {
        message(out, field::ANNOTATION, |out| {
            uint(out, 1, annotation!("return"));
            // An int64 is the two's complement, ten bytes when negative.
            uint(out, 4, i64::from(record.return_value()) as u64);
        });
    }
    let mask = record.word(8);
    if mask & api_arg::BYTES != 0 {
        annotate(out, annotation!("bytes"), record.word(9));
    }
    if mask & (api_arg::DESTINATION | api_arg::EVENT | api_arg::GRAPH) != 0 {
        annotate(out, annotation!("destination"), record.word(10));
    }
    if mask & api_arg::SOURCE != 0 {
        annotate(out, annotation!("source"), record.word(11));
    }
    if mask & api_arg::LAUNCH != 0 && high(record.word(14)) != 0 {
        annotate(out, annotation!("shared_mem"), high(record.word(14)).into());
    }
    if record.kind() == Some(Kind::OpenCall) || record.end() == 0 {
        annotate_flag(out, annotation!("open"));
    }
}

/// A kernel with one of its shapes.
fn interned_kernel(
    out: &mut Vec<u8>,
    process: &Process<'_>,
    (kernel, iid): (&Kernel, u64),
    (device, stream): (usize, usize),
    record: &Record<'_>,
) {
    let agent = process
        .facts
        .agent(kernel.agent)
        .or_else(|| process.devices.get(device).and_then(|device| device.agent));
    message(out, field::KERNELS, |out| {
        uint(out, 1, iid);
        text(out, 2, &kernel.mangled);
        text(out, 3, &kernel.display);
        if let Some(agent) = agent {
            bytes(out, 4, agent.name.as_bytes());
        }
        let symbol = &kernel.symbol;
        for (name, value) in [
            (arg!("registers_per_thread"), symbol.vgpr_count),
            (arg!("accum_vgpr_count"), symbol.accum_vgpr_count),
            (arg!("sgpr_count"), symbol.sgpr_count),
            (arg!("shared_mem_static"), symbol.group_bytes),
            (arg!("scratch_bytes"), symbol.private_bytes),
        ] {
            arg(out, 5, name, value.into());
        }
        shape_args(out, 5, process, record, kernel);
        stream_args(out, 5, process, stream);
        arg(out, 5, arg!("process_id"), process.pid);
        let mut string = |name: u64, value: &str| {
            message(out, 5, |out| {
                uint(out, 1, name);
                bytes(out, 6, value.as_bytes());
            });
        };
        string(arg!("process_name"), process.program());
        if !is_utf8(&kernel.mangled) {
            string(arg!("name_bytes"), &hex(&kernel.mangled));
        }
    });
}

fn gpu_info(out: &mut Vec<u8>, at: usize, device: Option<&crate::model::Device<'_>>) {
    let Some(device) = device else {
        bytes(out, 1, format!("GPU {at}").as_bytes());
        return;
    };
    text(out, 1, device.name().as_bytes());
    let Some(agent) = device.agent else { return };
    for (number, value) in [(2, &agent.vendor), (3, &agent.model), (4, &agent.name)] {
        if !value.is_empty() {
            text(out, number, value.as_bytes());
        }
    }
    if agent.uuid != [0; 16] {
        bytes(out, 5, &agent.uuid);
    }
    let location = agent.pci_location;
    let bdf = format!(
        "{:04x}:{:02x}:{:02x}.{:x}",
        agent.pci_domain,
        location >> 8 & 0xff,
        location >> 3 & 0x1f,
        location & 7
    );
    bytes(out, 7, bdf.as_bytes());
    for (key, value) in [
        ("compute_units", agent.compute_units.to_string()),
        ("wave_front_size", agent.wave_front.to_string()),
        ("memory_bytes", agent.memory_bytes.to_string()),
    ] {
        message(out, 6, |out| {
            bytes(out, 1, key.as_bytes());
            bytes(out, 2, value.as_bytes());
        });
    }
}

/// What the keys of a process's attributes begin with, so that several processes do not overwrite each other.
fn attribute_prefix(process: &Process<'_>) -> String {
    match process.trace.header().rank {
        rank if rank >= 0 => format!("strandline.rank{rank}.{:08x}", process.identity as u32),
        _ => format!(
            "strandline.pid{}.{:08x}",
            process.pid, process.identity as u32
        ),
    }
}

/// The trace's own metadata.
fn attributes(out: &mut Vec<u8>, process: &Process<'_>) {
    let header = process.trace.header();
    let prefix = attribute_prefix(process);
    let mut string = |key: &str, value: &str| {
        message(out, 1, |out| {
            bytes(out, 1, format!("{prefix}.{key}").as_bytes());
            text(out, 3, value.as_bytes());
        });
    };
    string("program", process.program());
    string("sdk", &header.sdk);
    string("simulated", if header.simulated { "true" } else { "false" });
    string("host_hash", &format!("{:#x}", header.host_hash));
    string("boot_id", &hex(&header.boot_id));
    for (key, value) in &process.facts.metadata {
        string(&format!("metadata.{key}"), value);
    }
    for report in &process.reports {
        let session = report.id;
        string(&format!("session{session}.verdict"), report.verdict.name());
        string(&format!("session{session}.proof"), report.proof.name());
    }
    for damage in process.trace.damage() {
        string(&format!("damage.{}", damage.offset), &damage.cause);
    }
    let mut number = |key: &str, value: u64| {
        message(out, 1, |out| {
            bytes(out, 1, format!("{prefix}.{key}").as_bytes());
            uint(out, 2, value);
        });
    };
    number("rank", i64::from(header.rank) as u64);
    number("os_pid", header.pid.into());
    number("process_start_ns", header.process_start_ns);
    number("vendor_to_boottime_ns", process.offset as u64);
    for report in &process.reports {
        let session = report.id;
        let mut number = |key: &str, value: u64| number(&format!("session{session}.{key}"), value);
        for (what, work) in [
            ("dispatches", &report.dispatches),
            ("copies", &report.copies),
        ] {
            number(&format!("{what}.issued"), work.issued);
            number(&format!("{what}.recorded"), work.recorded);
            number(
                &format!("{what}.retired_without_record"),
                work.retired_without_record,
            );
            number(&format!("{what}.missing"), work.missing());
        }
        number("api.recorded", report.api_recorded);
        number("api.open_at_stop", report.open_at_stop);
        number("low_watermark", report.low_watermark);
        number("high_watermark", report.high_watermark);
        number("late", report.late);
        if report.first_loss_ns != 0 {
            number("first_loss_ns", process.out_ns(report.first_loss_ns));
            number("last_loss_ns", process.out_ns(report.last_loss_ns));
        }
        for reason in strandline::loss::LossReason::ALL {
            number(&format!("lost.{}", reason.name()), report.lost.get(reason));
        }
        let flagged = &report.flagged;
        for (what, count) in [
            ("outside_window", flagged.outside_window),
            ("untimed", flagged.untimed),
            ("end_before_start", flagged.end_before_start),
            ("unknown_stream", flagged.unknown_stream),
            ("no_launch", flagged.no_launch),
        ] {
            number(&format!("flagged.{what}"), count);
        }
    }
}

impl Writer for Perfetto<'_> {
    type Decision = Decision;
    type Formatter = Packets;

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
        match record.kind() {
            Some(Kind::Api | Kind::OpenCall) => return self.call(process, item, inserts),
            Some(Kind::Dispatch | Kind::Copy) => return self.work(process, item, inserts),
            Some(Kind::Range | Kind::OpenRange | Kind::Mark | Kind::Scratch) => {
                return self.other(process, item, inserts);
            }
            Some(Kind::Alloc) => self.allocation(process, item, inserts),
            Some(Kind::Enqueue) => self.issue(process, item, inserts),
            Some(Kind::RangeStart) => self.states[index].ranges.start(
                record.word(5),
                start,
                record.name_id(),
                record.session(),
                record.thread(),
            ),
            Some(Kind::RangeStop) => {
                if let Some(started) = self.states[index].ranges.stop(record.word(5)) {
                    self.range_by_id(process, index, &started, start, false, inserts);
                }
            }
            _ => {}
        }
        Decision::Nothing
    }

    fn formatter(&self, _: &[Process<'_>]) -> Packets {
        let texts = self.states.iter().map(|state| {
            let mut gpu_header = Vec::new();
            uint(&mut gpu_header, field::SEQUENCE, state.gpu);
            uint(&mut gpu_header, field::SEQUENCE_FLAGS, NEEDS_STATE);
            Texts {
                context: state.context,
                api: state.api,
                event_base: state.event_base,
                gpu_header,
                shapes: Vec::new(),
            }
        });
        Packets {
            texts: texts.collect(),
        }
    }

    fn stitch(&mut self, chunk: &mut Chunk<'_, Decision>) -> Result<(), ExportError> {
        self.parts.stitch(chunk)
    }

    fn bytes(&self) -> u64 {
        self.parts.bytes()
    }
}

impl Formatter for Packets {
    type Decision = Decision;

    #[inline]
    fn format(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Line,
    ) {
        match decision {
            Decision::Nothing => {}
            Decision::Host(host) => out.by_vec(|out| match item.record.kind() {
                Some(Kind::Api | Kind::OpenCall) => self.call(process, item, host, out),
                Some(Kind::Mark) => Self::mark(process, item, host, out),
                Some(Kind::Scratch) => Self::scratch(item, host, out),
                _ => Self::range(process, item, host, out),
            }),
            Decision::Kernel {
                event,
                target,
                number,
                iid,
                queue,
                is_odd,
                ..
            } => {
                let ids = (number, iid, queue);
                self.kernel(process, item, (event, target), ids, is_odd, out);
            }
            Decision::Copy {
                event,
                target,
                queue,
                ..
            } => self.copy(process, item, (event, target, queue), out),
        }
    }
}
