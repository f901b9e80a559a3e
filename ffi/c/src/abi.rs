//! The structs and numbers of `strandline.h`, and the function types of its pointers.
//!
//! The layout is asserted here and in the header, with the same numbers; a test compares every field of the two.

#![allow(non_camel_case_types, reason = "their names in C")]
#![allow(missing_docs, reason = "the header documents the fields")]

use std::ffi::c_char;

pub use strandline_rocprofiler::c_api::strandline_stop_result;

use crate::border::Struct;

// `bytes` is the size of a struct in its first version as well. One that grows keeps that number as its `BYTES_MIN`, gets its new
// size beside it, and new fields only at its end.
macro_rules! c_structs {
    ($($(#[$doc:meta])* $name:ident, $bytes:literal bytes { $($field:ident: $type:ty = $offset:literal,)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug)]
            #[repr(C)]
            pub struct $name { $(pub $field: $type,)* }

            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: numbers and raw pointers: zeros are a value.
                    let mut value: Self = unsafe { std::mem::zeroed() };
                    value.size = size_of::<Self>() as u64;
                    value
                }
            }

            // SAFETY: `repr(C)`, `size` at offset 0 (asserted below), numbers and raw pointers only.
            unsafe impl Struct for $name { const BYTES_MIN: usize = $bytes; }

            const _: () = assert!(size_of::<$name>() == $bytes, stringify!($name));
            $(const _: () = assert!(
                std::mem::offset_of!($name, $field) == $offset,
                concat!(stringify!($name), ".", stringify!($field))
            );)*
        )*

        /// Name, size, and name and offset of each field, of every struct: what the test compares with the header.
        pub const STRUCTS: &[(&str, usize, &[(&str, usize)])] = &[
            $((stringify!($name), size_of::<$name>(),
               &[$((stringify!($field), std::mem::offset_of!($name, $field)),)*]),)*
        ];
    };
}

/// A clock of the source: ns, any thread, no lock.
pub type strandline_now_fn = Option<unsafe extern "C" fn() -> u64>;

c_structs! {
    strandline_settings, 88 bytes {
        size: u64 = 0, out: *const c_char = 8, dir: *const c_char = 16, mode: u32 = 24, start: u32 = 28,
        budget_bytes: u64 = 32, stop_timeout_ns: u64 = 40, lane_count: u32 = 48, flags: u32 = 52, rank: i32 = 56,
        reserved: u32 = 60, source_name: *const c_char = 64, now_ns: strandline_now_fn = 72, source_version: u32 = 80,
        reserved2: u32 = 84,
    }
    strandline_agent, 128 bytes {
        size: u64 = 0, handle: u64 = 8, kind: u32 = 16, node: u32 = 20, logical_node: u32 = 24, type_index: u32 = 28,
        name: *const c_char = 32, vendor: *const c_char = 40, product: *const c_char = 48, model: *const c_char = 56,
        compute_units: u32 = 64, wave_front: u32 = 68, pci_domain: u32 = 72, pci_location: u32 = 76,
        memory_bytes: u64 = 80, uuid: [u8; 16] = 88, gfx_target: u32 = 104, simd_count: u32 = 108,
        reserved: [u64; 2] = 112,
    }
    strandline_queue, 24 bytes { size: u64 = 0, queue: u64 = 8, agent: u64 = 16, }
    strandline_stream, 40 bytes {
        size: u64 = 0, handle: u64 = 8, id: u32 = 16, kind: u32 = 20, generation: u32 = 24, thread: u32 = 28,
        label: *const c_char = 32,
    }
    strandline_kernel, 64 bytes {
        size: u64 = 0, kernel_id: u64 = 8, code_object_id: u64 = 16, name: *const c_char = 24, kernel_object: u64 = 32,
        group_bytes: u32 = 40, private_bytes: u32 = 44, sgpr_count: u32 = 48, vgpr_count: u32 = 52,
        accum_vgpr_count: u32 = 56, kernarg_bytes: u32 = 60,
    }
    strandline_metadata_pair, 24 bytes { size: u64 = 0, key: *const c_char = 8, value: *const c_char = 16, }
    strandline_api, 64 bytes {
        size: u64 = 0, correlation_id: u64 = 8, ancestor_id: u64 = 16, external_id: u64 = 24,
        arguments: *const u64 = 32, domain: u32 = 40, operation: u32 = 44, stream: u32 = 48, thread: u32 = 52,
        return_value: i32 = 56, reserved: u32 = 60,
    }
    strandline_dispatch, 128 bytes {
        size: u64 = 0, correlation_id: u64 = 8, ancestor_id: u64 = 16, external_id: u64 = 24, dispatch_id: u64 = 32,
        kernel_id: u64 = 40, agent: u64 = 48, queue: u64 = 56, start_ns: u64 = 64, end_ns: u64 = 72,
        block: [u32; 3] = 80, grid: [u32; 3] = 92, private_bytes: u32 = 104, group_bytes: u32 = 108, graph: u32 = 112,
        node: u32 = 116, thread: u32 = 120, reserved: u32 = 124,
    }
    strandline_copy, 96 bytes {
        size: u64 = 0, correlation_id: u64 = 8, ancestor_id: u64 = 16, external_id: u64 = 24, bytes: u64 = 32,
        source_agent: u64 = 40, destination_agent: u64 = 48, source: u64 = 56, destination: u64 = 64,
        start_ns: u64 = 72, end_ns: u64 = 80, operation: u32 = 88, thread: u32 = 92,
    }
    strandline_memory, 96 bytes {
        size: u64 = 0, correlation_id: u64 = 8, ancestor_id: u64 = 16, external_id: u64 = 24, bytes: u64 = 32,
        agent: u64 = 40, queue: u64 = 48, address: u64 = 56, start_ns: u64 = 64, end_ns: u64 = 72, operation: u32 = 80,
        flags: u32 = 84, thread: u32 = 88, reserved: u32 = 92,
    }
    strandline_session, 208 bytes {
        size: u64 = 0, session: u64 = 8, verdict: u32 = 16, proof: u32 = 20, unfinished: u32 = 24, reserved: u32 = 28,
        dispatches_issued: u64 = 32, dispatches_recorded: u64 = 40, dispatches_retired_without_record: u64 = 48,
        dispatches_missing: u64 = 56, copies_issued: u64 = 64, copies_recorded: u64 = 72,
        copies_retired_without_record: u64 = 80, copies_missing: u64 = 88, api_recorded: u64 = 96,
        open_at_stop: u64 = 104, low_watermark: u64 = 112, high_watermark: u64 = 120, late: u64 = 128,
        lost_no_segment: u64 = 136, lost_no_lane: u64 = 144, lost_after_close: u64 = 152, lost_reentry: u64 = 160,
        lost_sdk_dropped: u64 = 168, lost_sticky_full: u64 = 176, begin_ns: u64 = 184, requested_ns: u64 = 192,
        returned_ns: u64 = 200,
    }
    strandline_trace_info, 120 bytes {
        size: u64 = 0, path: *const c_char = 8, program: *const c_char = 16, host: *const c_char = 24,
        sdk: *const c_char = 32, pid: u32 = 40, rank: i32 = 44, simulated: u32 = 48, mode: u32 = 52,
        process_start_ns: u64 = 56, created_unix_ns: u64 = 64, agent_count: u64 = 72, queue_count: u64 = 80,
        stream_count: u64 = 88, kernel_count: u64 = 96, session_count: u64 = 104, metadata_count: u32 = 112,
        damage_count: u32 = 116,
    }
    strandline_record, 232 bytes {
        size: u64 = 0, words: *const u64 = 8, name: *const c_char = 16, name_bytes: u64 = 24, start_ns: u64 = 32,
        end_ns: u64 = 40, correlation_id: u64 = 48, ancestor_id: u64 = 56, external_id: u64 = 64,
        dispatch_id: u64 = 72, kernel_id: u64 = 80, agent: u64 = 88, destination_agent: u64 = 96, queue: u64 = 104,
        bytes: u64 = 112, range_id: u64 = 120, kind: u32 = 128, cells: u32 = 132, flags: u32 = 136, session: u32 = 140,
        lane: u32 = 144, thread: u32 = 148, stream: u32 = 152, domain: u32 = 156, operation: u32 = 160,
        return_value: i32 = 164, depth: u32 = 168, graph: u32 = 172, node: u32 = 176, block: [u32; 3] = 180,
        grid: [u32; 3] = 192, private_bytes: u32 = 204, group_bytes: u32 = 208, external_domain: u32 = 212,
        address: u64 = 216, reserved: u64 = 224,
    }
    strandline_lost, 24 bytes { size: u64 = 0, segments: u64 = 8, cells: u64 = 16, }
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
