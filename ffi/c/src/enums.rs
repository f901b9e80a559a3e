//! The numbers of `strandline.h`: what `cbindgen` makes its enums and constants of.
//!
//! They are numbers on the wire, never values of these types: a caller may pass anything. `abi::numbers` says which of the
//! runtime's own each is, and a test compares them.

#![allow(non_camel_case_types, reason = "their names in C")]
#![allow(missing_docs, reason = "what the name says")]

/// What functions answer. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_status {
    /// Done.
    STRANDLINE_OK = 0,
    /// Not configured, off because of a bad setting, or in a forked child.
    STRANDLINE_NOT_READY = 1,
    /// A session is open already.
    STRANDLINE_SESSION_OPEN = 2,
    /// There is no such session, or it was accounted for already.
    STRANDLINE_NO_SUCH_SESSION = 3,
    /// Time was up.
    STRANDLINE_DEADLINE = 4,
    /// Called inside an SDK callback or finalizer: a session that was to be stopped is closed, its books are closed in the
    /// background.
    STRANDLINE_INSIDE_CALLBACK = 5,
    /// Too many sessions still wait for their proof.
    STRANDLINE_TOO_MANY_PENDING = 6,
    /// An argument is null, out of range, or says something that this version does not know.
    STRANDLINE_INVALID_ARGUMENT = 7,
    /// A struct's `size` is not set, or smaller than its first version.
    STRANDLINE_STRUCT_TOO_SMALL = 8,
    /// The region can't be made: folder, space or permission.
    STRANDLINE_NO_REGION = 9,
    /// rocprofiler-sdk is not found.
    STRANDLINE_SDK_MISSING = 10,
    /// rocprofiler-sdk was configured before, without this library.
    STRANDLINE_SDK_LOCKED = 11,
    /// rocprofiler-sdk is older than 1.0.0.
    STRANDLINE_SDK_TOO_OLD = 12,
    /// A file can't be written.
    STRANDLINE_OUTPUT = 13,
    /// There is a file of that name; nothing is overwritten.
    STRANDLINE_OUTPUT_EXISTS = 14,
    /// A setting in the environment has a bad value.
    STRANDLINE_BAD_SETTING = 15,
    /// rocprofiler-sdk refused a context or a service.
    STRANDLINE_SDK_REFUSED = 16,
    /// Something in the library broke.
    STRANDLINE_INTERNAL = 17,
    /// The process, or the runtime, is ending.
    STRANDLINE_FINALIZING = 18,
    /// The runtime is there already, with the settings that it was made with.
    STRANDLINE_ALREADY_THERE = 19,
    /// Closed, foreign or made up.
    STRANDLINE_BAD_HANDLE = 20,
    /// There is nothing (more) of what was asked for, at least not now: the end of a cursor, an index past the last.
    STRANDLINE_NOTHING = 21,
    /// The file can't be opened or mapped.
    STRANDLINE_NO_FILE = 22,
    /// It is no region that this version reads.
    STRANDLINE_BAD_FILE = 23,
    /// Too many handles are open.
    STRANDLINE_TOO_MANY_HANDLES = 24,
}

/// How complete a session is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_verdict {
    /// Everything that was issued is recorded, or retired without a record.
    STRANDLINE_VERDICT_COMPLETE = 0,
    /// Something is missing.
    STRANDLINE_VERDICT_INCOMPLETE = 1,
    /// The source offers no proof.
    STRANDLINE_VERDICT_HEURISTIC = 2,
    /// Nothing was issued.
    STRANDLINE_VERDICT_EMPTY = 3,
}

/// What the verdict rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_proof {
    STRANDLINE_PROOF_NONE = 0,
    STRANDLINE_PROOF_PAIRS = 1,
    STRANDLINE_PROOF_PAIRS_AND_RETIREMENT = 2,
    STRANDLINE_PROOF_FINALIZE_DRAIN = 3,
}

/// What a record is. Up to 63: records of sessions. From 64 on: facts, which subscribers get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_kind {
    STRANDLINE_KIND_API = 1,
    STRANDLINE_KIND_ENQUEUE = 2,
    STRANDLINE_KIND_DISPATCH = 3,
    STRANDLINE_KIND_COPY_ISSUE = 4,
    STRANDLINE_KIND_COPY = 5,
    STRANDLINE_KIND_ALLOC = 6,
    STRANDLINE_KIND_SCRATCH = 7,
    STRANDLINE_KIND_RANGE = 8,
    STRANDLINE_KIND_MARK = 9,
    STRANDLINE_KIND_RANGE_START = 10,
    STRANDLINE_KIND_RANGE_STOP = 11,
    STRANDLINE_KIND_THREAD = 12,
    STRANDLINE_KIND_EXTERNAL = 13,
    STRANDLINE_KIND_AGENT = 65,
    STRANDLINE_KIND_QUEUE = 66,
    STRANDLINE_KIND_STREAM = 67,
    STRANDLINE_KIND_STREAM_END = 68,
    STRANDLINE_KIND_CODE_OBJECT = 69,
    STRANDLINE_KIND_CODE_OBJECT_UNLOAD = 70,
    STRANDLINE_KIND_KERNEL_SYMBOL = 71,
    STRANDLINE_KIND_OPERATION = 72,
    STRANDLINE_KIND_METADATA = 73,
    STRANDLINE_KIND_ANCHOR = 74,
    STRANDLINE_KIND_SESSION_BEGIN = 75,
    STRANDLINE_KIND_SESSION_END = 76,
    STRANDLINE_KIND_RETIRED = 77,
    STRANDLINE_KIND_THREAD_NAME = 80,
    STRANDLINE_KIND_LABEL = 81,
    STRANDLINE_KIND_LATE = 82,
    STRANDLINE_KIND_SESSION_RELEASED = 83,
}

/// Flags of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_flag {
    /// The source gave no time, or half of one.
    STRANDLINE_FLAG_UNTIMED = 1,
    /// The end lies before the start.
    STRANDLINE_FLAG_END_BEFORE_START = 2,
    /// Of a dispatch or copy: it began outside of its session's window. From a cursor only.
    STRANDLINE_FLAG_OUTSIDE_WINDOW = 4,
    /// No enclosing call named the stream.
    STRANDLINE_FLAG_UNKNOWN_STREAM = 8,
    /// Of a dispatch or copy: no recorded call leads to it. From a cursor only: to a subscriber the call may
    /// still come.
    STRANDLINE_FLAG_NO_LAUNCH = 16,
    /// The call or range was still open when its session was accounted for: it has no end.
    STRANDLINE_FLAG_OPEN = 32,
    /// Part of it is not there: it was cut off at the end of its segment.
    STRANDLINE_FLAG_CUT = 64,
    /// Some of its fields are not known.
    STRANDLINE_FLAG_PARTIAL = 128,
}

/// Whose operation numbers they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_domain {
    STRANDLINE_DOMAIN_RUNTIME = 1,
    STRANDLINE_DOMAIN_COMPILER = 2,
    STRANDLINE_DOMAIN_DRIVER = 3,
    STRANDLINE_DOMAIN_COLLECTIVE = 4,
    STRANDLINE_DOMAIN_MARKER = 5,
    /// The program's own.
    STRANDLINE_DOMAIN_USER = 6,
}

/// What kind of stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_stream_kind {
    /// Made just now: the handle is a new stream, whatever it stood for before.
    STRANDLINE_STREAM_CREATED = 0,
    /// First seen in use.
    STRANDLINE_STREAM_SEEN = 1,
    STRANDLINE_STREAM_NULL = 2,
    STRANDLINE_STREAM_LEGACY = 3,
    STRANDLINE_STREAM_PER_THREAD = 4,
}

/// What strandline_label names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_label_what {
    STRANDLINE_LABEL_AGENT = 1,
    STRANDLINE_LABEL_DEVICE = 2,
    STRANDLINE_LABEL_STREAM = 3,
}

/// Bits of `arguments[0]` of a call: which of the other words hold something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_arg {
    /// 1: bytes.
    STRANDLINE_ARG_BYTES = 1,
    /// 2: destination, or the pointer allocated or freed.
    STRANDLINE_ARG_DESTINATION = 2,
    /// 3: source.
    STRANDLINE_ARG_SOURCE = 4,
    /// 4, low half: copy direction, the API's number.
    STRANDLINE_ARG_COPY_KIND = 8,
    /// 5: grid x, y; 6: grid z, shared bytes; 7: block x, y, z as u16.
    STRANDLINE_ARG_LAUNCH = 16,
    STRANDLINE_ARG_GRID_IN_ITEMS = 32,
    /// 2: a graph.
    STRANDLINE_ARG_GRAPH = 64,
    /// 2: an event.
    STRANDLINE_ARG_EVENT = 128,
}

/// Flags of the settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_settings_flag {
    /// `rank` counts.
    STRANDLINE_SETTINGS_RANK = 1,
    /// The source is a simulation; every export says so.
    STRANDLINE_SETTINGS_SIMULATED = 2,
}

/// Flags of a subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum strandline_subscribe_flag {
    /// Also the records that the region still holds, not only those to come.
    STRANDLINE_SUBSCRIBE_OLDEST = 1,
}

/// Domains of external ids.
pub const STRANDLINE_EXTERNAL_DOMAINS: u32 = 4;
/// Ids that a thread can have pushed in one domain at once.
pub const STRANDLINE_EXTERNAL_DEPTH: u32 = 32;
