//! Names that sequences intern once and for all, and ids of things that have a track.

use strandline::hash;

use crate::model::Process;

/// Categories of track events; the interned id is the place in this list, from 1.
pub(super) const CATEGORY_NAMES: [&str; 5] = ["api", "driver", "collective", "range", "quality"];
/// Names of annotations; likewise.
pub(super) const ANNOTATION_NAMES: [&str; 19] = [
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
pub(super) const ARG_NAMES: [&str; 28] = [
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

const _: () = assert!(ARG_NAMES.len() < 0x80);

/// Place of a name in its list, from 1.
pub(super) const fn place(names: &[&str], name: &str) -> u64 {
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

/// Interned id of an argument of a launch or kernel.
macro_rules! arg {
    ($name:literal) => {
        const { $crate::perfetto::names::place(&$crate::perfetto::names::ARG_NAMES, $name) }
    };
}

/// Interned id of an annotation.
macro_rules! annotation {
    ($name:literal) => {
        const { $crate::perfetto::names::place(&$crate::perfetto::names::ANNOTATION_NAMES, $name) }
    };
}

/// An id of a process's thing: the same in every export of the process, never 0.
pub(super) fn unique(identity: u64, what: u64, id: u64) -> u64 {
    hash::words([identity, what, id].into_iter())
}

/// The track of a lane of a thread, from the second lane on.
pub(super) fn lane_uuid(process: &Process<'_>, thread: u32, lane: usize) -> u64 {
    let id = u64::from(thread) << 32 | lane as u64;
    unique(process.identity, thing::THREAD_LANE, id)
}

/// Kinds of things that have a track.
pub(super) mod thing {
    pub(in crate::perfetto) const PROCESS: u64 = 1;
    pub(in crate::perfetto) const THREAD: u64 = 2;
    pub(in crate::perfetto) const THREAD_LANE: u64 = 3;
    pub(in crate::perfetto) const RANGES: u64 = 4;
    pub(in crate::perfetto) const QUALITY: u64 = 5;
    pub(in crate::perfetto) const DEPTH: u64 = 6;
    pub(in crate::perfetto) const SEQUENCES: u64 = 7;
    pub(in crate::perfetto) const CONTEXT: u64 = 8;
    pub(in crate::perfetto) const EVENTS: u64 = 9;
}
