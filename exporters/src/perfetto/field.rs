//! Field numbers of Perfetto's messages, by message.

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
