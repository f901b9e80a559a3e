//! The structs of `strandline.h`, and the runtime's numbers under the header's names.
//!
//! The header is made of this by `cbindgen` (`tests/header.rs`). The layout is asserted here and in the header, with the same
//! numbers; a test compares every field of the two.

#![allow(non_camel_case_types, reason = "their names in C")]
#![allow(missing_docs, reason = "what the name says")]

use std::ffi::c_char;

pub use strandline_rocprofiler::c_api::strandline_stop_result;

use crate::border::Struct;

/// Settings. A field that is zero is as the environment (STRANDLINE_OUT and so on) says, else as the library likes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_settings {
    pub size: u64,
    /// Region file; an existing one is never overwritten, then the name gets the process's number. Null and no
    /// STRANDLINE_OUT: a file that is removed at a clean exit.
    pub out: *const c_char,
    /// Folder of region files that nobody named.
    pub dir: *const c_char,
    /// 1 window, 2 flight, 3 stream.
    pub mode: u32,
    /// 1 a session from load on, 2 roctx pause and resume, 3 only this API. 0 = 3, unless STRANDLINE_START is set.
    pub start: u32,
    /// Memory for records, bytes, 1 MiB to 64 GiB; what is no whole segment is not used.
    pub budget_bytes: u64,
    /// How long a session that nobody waits for may wait for its proof, ns.
    pub stop_timeout_ns: u64,
    /// Threads that append at the same time, 1 to 4096.
    pub lane_count: u32,
    /// enum strandline_settings_flag.
    pub flags: u32,
    /// Rank in a job.
    pub rank: i32,
    pub reserved: u32,
    /// Own source only: what it says of itself, and its clock (null = CLOCK_BOOTTIME). The clock is called on any thread,
    /// also after strandline_shutdown, and must take no lock.
    pub source_name: *const c_char,
    pub now_ns: Option<unsafe extern "C" fn() -> u64>,
    pub source_version: u32,
    pub reserved2: u32,
    /// Bytes of a segment: 64, 128, 256, 512 KiB or 1 MiB, and at most a sixteenth of the memory for records. A thread that
    /// records holds one; the append that changes it is the slow one. Unless STRANDLINE_SEGMENT is set, 0 is 256 KiB for 256 MiB
    /// or more, else 64 KiB.
    pub segment_bytes: u64,
    /// Make all memory at start, not in steps ahead of demand: 1 yes, 2 no.
    pub prefault: u32,
    /// Ask for huge pages: 1 yes, 2 no. Best effort; the metadata `strandline.memory` says what was got.
    pub huge_pages: u32,
    /// Lock the region in memory: 1 yes, 2 no. Best effort, likewise.
    pub lock: u32,
    /// What holds the live region: 1 a file, 2 a memfd, a file without a name that no other process can cut: `out` is then
    /// written at a clean exit. Not with mode 3 (BAD_SETTING).
    pub backing: u32,
    /// Host times: 1 by the TSC where the kernel relies on it, 2 always by CLOCK_MONOTONIC_RAW.
    pub clock: u32,
    pub reserved3: u32,
}

/// An agent: a CPU or GPU. `kind` 1 CPU, 2 GPU. `type_index`: its number among the agents of its kind (the device number).
/// pci_location: bus << 8 | device << 3 | function.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_agent {
    pub size: u64,
    pub handle: u64,
    pub kind: u32,
    pub node: u32,
    pub logical_node: u32,
    pub type_index: u32,
    pub name: *const c_char,
    pub vendor: *const c_char,
    pub product: *const c_char,
    pub model: *const c_char,
    pub compute_units: u32,
    pub wave_front: u32,
    pub pci_domain: u32,
    pub pci_location: u32,
    pub memory_bytes: u64,
    pub uuid: [u8; 16],
    pub gfx_target: u32,
    pub simd_count: u32,
    pub reserved: [u64; 2],
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_queue {
    pub size: u64,
    pub queue: u64,
    pub agent: u64,
}

/// A stream. `generation`: how often its handle had been used before. `label`: the program's name for it, or null.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_stream {
    pub size: u64,
    pub handle: u64,
    pub id: u32,
    pub kind: u32,
    pub generation: u32,
    pub thread: u32,
    pub label: *const c_char,
}

/// A kernel. `name` as the compiler made it (mangled).
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_kernel {
    pub size: u64,
    pub kernel_id: u64,
    pub code_object_id: u64,
    pub name: *const c_char,
    pub kernel_object: u64,
    pub group_bytes: u32,
    pub private_bytes: u32,
    pub sgpr_count: u32,
    pub vgpr_count: u32,
    pub accum_vgpr_count: u32,
    pub kernarg_bytes: u32,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_metadata_pair {
    pub size: u64,
    pub key: *const c_char,
    pub value: *const c_char,
}

/// A call of the program into its source.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_api {
    pub size: u64,
    pub correlation_id: u64,
    /// Correlation id of the enclosing call, 0 = none.
    pub ancestor_id: u64,
    /// 0: what the thread pushed in domain 0.
    pub external_id: u64,
    /// At exit: null, or 8 words (enum strandline_arg).
    pub arguments: *const u64,
    pub domain: u32,
    pub operation: u32,
    /// Stream that the call names, 0 = none. Work that is issued inside the call is on it.
    pub stream: u32,
    /// Thread id, 0 = the calling thread.
    pub thread: u32,
    pub return_value: i32,
    pub reserved: u32,
}

/// A kernel execution. Issue uses ids, kernel, agent, queue; done uses all. `grid` in work-items.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_dispatch {
    pub size: u64,
    pub correlation_id: u64,
    pub ancestor_id: u64,
    pub external_id: u64,
    pub dispatch_id: u64,
    pub kernel_id: u64,
    pub agent: u64,
    pub queue: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub block: [u32; 3],
    pub grid: [u32; 3],
    pub private_bytes: u32,
    pub group_bytes: u32,
    /// Graph and node, 0 = none.
    pub graph: u32,
    pub node: u32,
    pub thread: u32,
    pub reserved: u32,
}

/// A memory copy. `operation`: 0 unknown, 1 host to host, 2 host to device, 3 device to host, 4 device to device.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_copy {
    pub size: u64,
    pub correlation_id: u64,
    pub ancestor_id: u64,
    pub external_id: u64,
    pub bytes: u64,
    pub source_agent: u64,
    pub destination_agent: u64,
    pub source: u64,
    pub destination: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub operation: u32,
    pub thread: u32,
}

/// An allocation (operation 1) or free (3) of device memory.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_memory {
    pub size: u64,
    pub correlation_id: u64,
    pub ancestor_id: u64,
    pub external_id: u64,
    pub bytes: u64,
    pub agent: u64,
    pub queue: u64,
    pub address: u64,
    pub start_ns: u64,
    pub end_ns: u64,
    pub operation: u32,
    pub flags: u32,
    pub thread: u32,
    pub reserved: u32,
}

/// A session: its verdict over what is really in the trace, and every loss by reason.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_session {
    pub size: u64,
    pub session: u64,
    pub verdict: u32,
    pub proof: u32,
    /// 1: it was not accounted for; the process died, or still runs.
    pub unfinished: u32,
    pub reserved: u32,
    pub dispatches_issued: u64,
    pub dispatches_recorded: u64,
    pub dispatches_retired_without_record: u64,
    pub dispatches_missing: u64,
    pub copies_issued: u64,
    pub copies_recorded: u64,
    pub copies_retired_without_record: u64,
    pub copies_missing: u64,
    pub api_recorded: u64,
    pub open_at_stop: u64,
    pub low_watermark: u64,
    pub high_watermark: u64,
    pub late: u64,
    pub lost_no_segment: u64,
    pub lost_no_lane: u64,
    pub lost_after_close: u64,
    pub lost_reentry: u64,
    pub lost_sdk_dropped: u64,
    pub lost_sticky_full: u64,
    pub begin_ns: u64,
    pub requested_ns: u64,
    pub returned_ns: u64,
}

/// What a trace says of itself, and how many facts it has.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_trace_info {
    pub size: u64,
    pub path: *const c_char,
    pub program: *const c_char,
    pub host: *const c_char,
    /// What the SDK or the source says of itself.
    pub sdk: *const c_char,
    pub pid: u32,
    /// -1 = unknown.
    pub rank: i32,
    pub simulated: u32,
    pub mode: u32,
    /// CLOCK_BOOTTIME.
    pub process_start_ns: u64,
    /// Since 1970.
    pub created_unix_ns: u64,
    pub agent_count: u64,
    pub queue_count: u64,
    pub stream_count: u64,
    pub kernel_count: u64,
    pub session_count: u64,
    pub metadata_count: u32,
    /// Places in the file that are not sound and were left out.
    pub damage_count: u32,
}

/// A record, or a fact. Fields that a kind does not have are 0.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_record {
    pub size: u64,
    /// The record itself, where it lies: 8 * cells words, little-endian, as docs/format.md says. From a cursor: in the mapped
    /// region, valid until the cursor and its trace are closed. From a subscriber: valid until its next call.
    pub words: *const u64,
    /// Kernel (mangled), operation, range, mark; of a fact its main string. Null: none, or not known. Valid as long as the
    /// trace, or the subscriber, is open.
    pub name: *const c_char,
    pub name_bytes: u64,
    /// Of an open call or range end_ns is 0.
    pub start_ns: u64,
    pub end_ns: u64,
    pub correlation_id: u64,
    pub ancestor_id: u64,
    pub external_id: u64,
    pub dispatch_id: u64,
    pub kernel_id: u64,
    /// Of a copy: the source.
    pub agent: u64,
    pub destination_agent: u64,
    pub queue: u64,
    pub bytes: u64,
    pub range_id: u64,
    /// enum strandline_kind.
    pub kind: u32,
    pub cells: u32,
    /// enum strandline_flag.
    pub flags: u32,
    pub session: u32,
    pub lane: u32,
    pub thread: u32,
    /// Number of the stream, 0 = unknown.
    pub stream: u32,
    pub domain: u32,
    pub operation: u32,
    pub return_value: i32,
    /// Nesting of a call or range on its thread, from 0.
    pub depth: u32,
    pub graph: u32,
    pub node: u32,
    pub block: [u32; 3],
    pub grid: [u32; 3],
    pub private_bytes: u32,
    pub group_bytes: u32,
    /// Of kind EXTERNAL: the domain of external_id.
    pub external_domain: u32,
    /// Of an allocation: its address. Of a copy: the destination's. Of a stream or label: its handle.
    pub address: u64,
    pub reserved: u64,
}

/// What a subscriber was too slow for.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct strandline_lost {
    pub size: u64,
    /// Segments that were reused before they were read.
    pub segments: u64,
    /// Cells in them that were not read, at most 15 too many for each; a record is 1 to 16 cells.
    pub cells: u64,
    /// Records of sessions in them that were not handed out, of all kinds: exactly so many, but for one for each thread that
    /// ended or jumped out of the middle of an append.
    pub records: u64,
}

/// The size of a struct in its first version, when it has grown, else its size.
const fn first_bytes(now: usize, first: &[usize]) -> usize {
    if first.is_empty() { now } else { first[0] }
}

// `bytes` is the size of a struct; one that grew since its first version says after it how large that was, and has its new fields
// at its end.
macro_rules! layouts {
    ($($name:ident, $bytes:literal bytes $(($first:literal at first))? { $($field:ident = $offset:literal,)* })*) => {
        $(
            const _: () = assert!(size_of::<$name>() == $bytes, stringify!($name));
            $(const _: () = assert!(
                std::mem::offset_of!($name, $field) == $offset,
                concat!(stringify!($name), ".", stringify!($field))
            );)*

            // SAFETY: `repr(C)`, `size` at offset 0 (asserted above), numbers and raw pointers only.
            unsafe impl Struct for $name {
                const BYTES_MIN: usize = first_bytes($bytes, &[$($first)?]);
            }
        )*

        /// Name, size, and name and offset of each field, of every struct: what the header asserts, and what the test compares
        /// with it.
        pub const STRUCTS: &[(&str, usize, &[(&str, usize)])] = &[
            $((stringify!($name), size_of::<$name>(),
               &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*]),)*
        ];
    };
}

macro_rules! defaults {
    ($($name:ident)*) => {
        $(impl Default for $name {
            fn default() -> Self {
                // SAFETY: numbers and raw pointers: zeros are a value.
                let mut value: Self = unsafe { std::mem::zeroed() };
                value.size = size_of::<Self>() as u64;
                value
            }
        })*
    };
}

layouts! {
    strandline_stop_result, 96 bytes {
        size = 0, verdict = 8, session = 16, issued = 24, recorded = 32, retired_without_record = 40,
        missing = 48, low_watermark = 56, high_watermark = 64, late = 72, lost = 80, waited_ns = 88,
    }
    strandline_settings, 120 bytes (88 at first) {
        size = 0, out = 8, dir = 16, mode = 24, start = 28, budget_bytes = 32, stop_timeout_ns = 40,
        lane_count = 48, flags = 52, rank = 56, reserved = 60, source_name = 64, now_ns = 72, source_version =
        80, reserved2 = 84, segment_bytes = 88, prefault = 96, huge_pages = 100, lock = 104, backing = 108,
        clock = 112, reserved3 = 116,
    }
    strandline_agent, 128 bytes {
        size = 0, handle = 8, kind = 16, node = 20, logical_node = 24, type_index = 28, name = 32, vendor =
        40, product = 48, model = 56, compute_units = 64, wave_front = 68, pci_domain = 72, pci_location = 76,
        memory_bytes = 80, uuid = 88, gfx_target = 104, simd_count = 108, reserved = 112,
    }
    strandline_queue, 24 bytes {
        size = 0, queue = 8, agent = 16,
    }
    strandline_stream, 40 bytes {
        size = 0, handle = 8, id = 16, kind = 20, generation = 24, thread = 28, label = 32,
    }
    strandline_kernel, 64 bytes {
        size = 0, kernel_id = 8, code_object_id = 16, name = 24, kernel_object = 32, group_bytes = 40,
        private_bytes = 44, sgpr_count = 48, vgpr_count = 52, accum_vgpr_count = 56, kernarg_bytes = 60,
    }
    strandline_metadata_pair, 24 bytes {
        size = 0, key = 8, value = 16,
    }
    strandline_api, 64 bytes {
        size = 0, correlation_id = 8, ancestor_id = 16, external_id = 24, arguments = 32, domain = 40,
        operation = 44, stream = 48, thread = 52, return_value = 56, reserved = 60,
    }
    strandline_dispatch, 128 bytes {
        size = 0, correlation_id = 8, ancestor_id = 16, external_id = 24, dispatch_id = 32, kernel_id = 40,
        agent = 48, queue = 56, start_ns = 64, end_ns = 72, block = 80, grid = 92, private_bytes = 104,
        group_bytes = 108, graph = 112, node = 116, thread = 120, reserved = 124,
    }
    strandline_copy, 96 bytes {
        size = 0, correlation_id = 8, ancestor_id = 16, external_id = 24, bytes = 32, source_agent = 40,
        destination_agent = 48, source = 56, destination = 64, start_ns = 72, end_ns = 80, operation = 88,
        thread = 92,
    }
    strandline_memory, 96 bytes {
        size = 0, correlation_id = 8, ancestor_id = 16, external_id = 24, bytes = 32, agent = 40, queue = 48,
        address = 56, start_ns = 64, end_ns = 72, operation = 80, flags = 84, thread = 88, reserved = 92,
    }
    strandline_session, 208 bytes {
        size = 0, session = 8, verdict = 16, proof = 20, unfinished = 24, reserved = 28, dispatches_issued =
        32, dispatches_recorded = 40, dispatches_retired_without_record = 48, dispatches_missing = 56,
        copies_issued = 64, copies_recorded = 72, copies_retired_without_record = 80, copies_missing = 88,
        api_recorded = 96, open_at_stop = 104, low_watermark = 112, high_watermark = 120, late = 128,
        lost_no_segment = 136, lost_no_lane = 144, lost_after_close = 152, lost_reentry = 160,
        lost_sdk_dropped = 168, lost_sticky_full = 176, begin_ns = 184, requested_ns = 192, returned_ns = 200,
    }
    strandline_trace_info, 120 bytes {
        size = 0, path = 8, program = 16, host = 24, sdk = 32, pid = 40, rank = 44, simulated = 48, mode = 52,
        process_start_ns = 56, created_unix_ns = 64, agent_count = 72, queue_count = 80, stream_count = 88,
        kernel_count = 96, session_count = 104, metadata_count = 112, damage_count = 116,
    }
    strandline_record, 232 bytes {
        size = 0, words = 8, name = 16, name_bytes = 24, start_ns = 32, end_ns = 40, correlation_id = 48,
        ancestor_id = 56, external_id = 64, dispatch_id = 72, kernel_id = 80, agent = 88, destination_agent =
        96, queue = 104, bytes = 112, range_id = 120, kind = 128, cells = 132, flags = 136, session = 140,
        lane = 144, thread = 148, stream = 152, domain = 156, operation = 160, return_value = 164, depth =
        168, graph = 172, node = 176, block = 180, grid = 192, private_bytes = 204, group_bytes = 208,
        external_domain = 212, address = 216, reserved = 224,
    }
    strandline_lost, 32 bytes (24 at first) {
        size = 0, segments = 8, cells = 16, records = 24,
    }
}

/// A clock of the source: ns, any thread, no lock.
pub type strandline_now_fn = Option<unsafe extern "C" fn() -> u64>;

defaults! {
    strandline_settings
    strandline_agent
    strandline_queue
    strandline_stream
    strandline_kernel
    strandline_metadata_pair
    strandline_api
    strandline_dispatch
    strandline_copy
    strandline_memory
    strandline_session
    strandline_trace_info
    strandline_record
    strandline_lost
}

/// Bit of a kind in a mask of kinds.
pub const fn kind_bit(kind: u32) -> u64 {
    if kind < 63 { 1 << kind } else { KINDS_FACTS }
}

/// All facts, in a mask of kinds.
pub const KINDS_FACTS: u64 = 1 << 63;
/// The rank in `strandline_settings` counts.
pub const SETTINGS_RANK: u32 = 1;
/// The source is a simulation.
pub const SETTINGS_SIMULATED: u32 = 2;
/// Also the records that the region still holds.
pub const SUBSCRIBE_OLDEST: u32 = 1;

/// Numbers of the header that are the runtime's: name and value, for the test.
pub fn numbers() -> Vec<(String, u64)> {
    use strandline::record::{Kind, StreamKind, api_arg, domain, flag, label};
    use strandline::{Proof, Status, Verdict, embed};
    let mut all: Vec<(String, u64)> = [
        ("STRANDLINE_OK", Status::Ok as u64),
        ("STRANDLINE_NOT_READY", Status::NotReady as u64),
        ("STRANDLINE_SESSION_OPEN", Status::SessionOpen as u64),
        ("STRANDLINE_NO_SUCH_SESSION", Status::NoSuchSession as u64),
        ("STRANDLINE_DEADLINE", Status::Deadline as u64),
        ("STRANDLINE_INSIDE_CALLBACK", Status::InsideCallback as u64),
        ("STRANDLINE_TOO_MANY_PENDING", Status::TooManyPending as u64),
        (
            "STRANDLINE_INVALID_ARGUMENT",
            Status::InvalidArgument as u64,
        ),
        ("STRANDLINE_STRUCT_TOO_SMALL", Status::StructTooSmall as u64),
        ("STRANDLINE_NO_REGION", Status::NoRegion as u64),
        ("STRANDLINE_SDK_MISSING", Status::SdkMissing as u64),
        ("STRANDLINE_SDK_LOCKED", Status::SdkLocked as u64),
        ("STRANDLINE_SDK_TOO_OLD", Status::SdkTooOld as u64),
        ("STRANDLINE_OUTPUT", Status::Output as u64),
        ("STRANDLINE_OUTPUT_EXISTS", Status::OutputExists as u64),
        ("STRANDLINE_BAD_SETTING", Status::BadSetting as u64),
        ("STRANDLINE_SDK_REFUSED", Status::SdkRefused as u64),
        ("STRANDLINE_INTERNAL", Status::Internal as u64),
        ("STRANDLINE_FINALIZING", Status::Finalizing as u64),
        ("STRANDLINE_ALREADY_THERE", Status::AlreadyThere as u64),
        ("STRANDLINE_BAD_HANDLE", Status::BadHandle as u64),
        ("STRANDLINE_NOTHING", Status::Nothing as u64),
        ("STRANDLINE_NO_FILE", Status::NoFile as u64),
        ("STRANDLINE_BAD_FILE", Status::BadFile as u64),
        ("STRANDLINE_TOO_MANY_HANDLES", Status::TooManyHandles as u64),
        ("STRANDLINE_KINDS_FACTS", KINDS_FACTS),
        ("STRANDLINE_SETTINGS_RANK", SETTINGS_RANK.into()),
        ("STRANDLINE_SETTINGS_SIMULATED", SETTINGS_SIMULATED.into()),
        ("STRANDLINE_SUBSCRIBE_OLDEST", SUBSCRIBE_OLDEST.into()),
        (
            "STRANDLINE_EXTERNAL_DOMAINS",
            embed::EXTERNAL_DOMAINS as u64,
        ),
        ("STRANDLINE_EXTERNAL_DEPTH", embed::EXTERNAL_DEPTH as u64),
        ("STRANDLINE_LABEL_AGENT", label::AGENT.into()),
        ("STRANDLINE_LABEL_DEVICE", label::DEVICE.into()),
        ("STRANDLINE_LABEL_STREAM", label::STREAM.into()),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    for (name, value) in [
        ("RUNTIME", domain::RUNTIME),
        ("COMPILER", domain::COMPILER),
        ("DRIVER", domain::DRIVER),
        ("COLLECTIVE", domain::COLLECTIVE),
        ("MARKER", domain::MARKER),
        ("USER", domain::USER),
    ] {
        all.push((format!("STRANDLINE_DOMAIN_{name}"), value.into()));
    }
    for (name, value) in [
        ("UNTIMED", flag::UNTIMED),
        ("END_BEFORE_START", flag::END_BEFORE_START),
        ("OUTSIDE_WINDOW", flag::OUTSIDE_WINDOW),
        ("UNKNOWN_STREAM", flag::UNKNOWN_STREAM),
        ("NO_LAUNCH", flag::NO_LAUNCH),
        ("OPEN", flag::OPEN),
        ("CUT", flag::CUT),
        ("PARTIAL", flag::PARTIAL),
    ] {
        all.push((format!("STRANDLINE_FLAG_{name}"), value.into()));
    }
    for (name, value) in [
        ("CREATED", StreamKind::Created),
        ("SEEN", StreamKind::Seen),
        ("NULL", StreamKind::Null),
        ("LEGACY", StreamKind::Legacy),
        ("PER_THREAD", StreamKind::PerThread),
    ] {
        all.push((format!("STRANDLINE_STREAM_{name}"), value as u64));
    }
    for (name, value) in [
        ("BYTES", api_arg::BYTES),
        ("DESTINATION", api_arg::DESTINATION),
        ("SOURCE", api_arg::SOURCE),
        ("COPY_KIND", api_arg::COPY_KIND),
        ("LAUNCH", api_arg::LAUNCH),
        ("GRID_IN_ITEMS", api_arg::GRID_IN_ITEMS),
        ("GRAPH", api_arg::GRAPH),
        ("EVENT", api_arg::EVENT),
    ] {
        all.push((format!("STRANDLINE_ARG_{name}"), value));
    }
    for (name, value) in [
        ("COMPLETE", Verdict::Complete),
        ("INCOMPLETE", Verdict::Incomplete),
        ("HEURISTIC", Verdict::Heuristic),
        ("EMPTY", Verdict::Empty),
    ] {
        all.push((format!("STRANDLINE_VERDICT_{name}"), value as u64));
    }
    for (name, value) in [
        ("NONE", Proof::None),
        ("PAIRS", Proof::Pairs),
        ("PAIRS_AND_RETIREMENT", Proof::PairsAndRetirement),
        ("FINALIZE_DRAIN", Proof::FinalizeDrain),
    ] {
        all.push((format!("STRANDLINE_PROOF_{name}"), value as u64));
    }
    for (name, value) in [
        ("API", Kind::Api),
        ("ENQUEUE", Kind::Enqueue),
        ("DISPATCH", Kind::Dispatch),
        ("COPY_ISSUE", Kind::CopyIssue),
        ("COPY", Kind::Copy),
        ("ALLOC", Kind::Alloc),
        ("SCRATCH", Kind::Scratch),
        ("RANGE", Kind::Range),
        ("MARK", Kind::Mark),
        ("RANGE_START", Kind::RangeStart),
        ("RANGE_STOP", Kind::RangeStop),
        ("THREAD", Kind::Thread),
        ("EXTERNAL", Kind::External),
        ("AGENT", Kind::Agent),
        ("QUEUE", Kind::Queue),
        ("STREAM", Kind::Stream),
        ("STREAM_END", Kind::StreamEnd),
        ("CODE_OBJECT", Kind::CodeObject),
        ("CODE_OBJECT_UNLOAD", Kind::CodeObjectUnload),
        ("KERNEL_SYMBOL", Kind::KernelSymbol),
        ("OPERATION", Kind::Operation),
        ("METADATA", Kind::Metadata),
        ("ANCHOR", Kind::Anchor),
        ("SESSION_BEGIN", Kind::SessionBegin),
        ("SESSION_END", Kind::SessionEnd),
        ("SESSION_RELEASED", Kind::SessionReleased),
        ("LATE", Kind::Late),
        ("RETIRED", Kind::Retired),
        ("THREAD_NAME", Kind::ThreadName),
        ("LABEL", Kind::Label),
    ] {
        all.push((format!("STRANDLINE_KIND_{name}"), value as u64));
    }
    all
}
