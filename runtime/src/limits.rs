//! Every maximum of the runtime, with its reason and its arithmetic.
//!
//! Changing one number here breaks the build instead of the night: the assertions at the end say how the limits
//! relate.

/// Bytes of one cell: one cache line on every processor that GPUs are attached to today.
pub const CELL_BYTES: usize = 64;
/// 64-bit words of one cell.
pub const CELL_WORDS: usize = CELL_BYTES / 8;
/// Most cells of one record. 16 cells are 1 KiB: a name part of 1,000 bytes and its header.
pub const RECORD_CELLS_MAX: usize = 16;

/// Bytes of one segment. 64 KiB hold 1,024 one-cell records: a thread that makes 1 M records a second changes its
/// segment every millisecond, and a thread that makes three records wastes 64 KiB.
pub const SEGMENT_BYTES: usize = 64 * 1024;
/// Cells of one segment.
pub const SEGMENT_CELLS: usize = SEGMENT_BYTES / CELL_BYTES;
/// Bytes of one entry of the segment table: a cache line and its neighbour, because the adjacent-line prefetcher
/// of x86-64 moves lines in pairs and the entry's `committed` word is written on every append.
pub const SEGMENT_ENTRY_BYTES: usize = 128;
/// Most segments of one region: 64 GiB of records.
pub const SEGMENT_COUNT_MAX: usize = 1 << 20;

/// Bytes of one lane header: one page, so that no two lanes share a page or a line.
pub const LANE_BYTES: usize = 4096;
/// Lanes of a region unless it was asked otherwise: threads that append at the same time.
pub const LANE_COUNT_DEFAULT: usize = 256;
/// Most lanes of a region.
pub const LANE_COUNT_MAX: usize = 4096;

/// Sessions whose counters a lane keeps apart; older ones share one block.
pub const SESSION_SLOTS: usize = 8;
/// Words of one session's counters in a lane header.
pub const SESSION_SLOT_WORDS: usize = 32;
/// Calls that a thread can be inside of at once and still be named one by one; deeper calls are recorded, only not
/// listed as "inside of".
pub const INSIDE_DEPTH: usize = 16;
/// Words of one "inside of" entry.
pub const INSIDE_WORDS: usize = 4;
/// Ranges (push/pop) that one thread can have open at once; deeper ones are counted.
pub const RANGE_DEPTH: usize = 32;

/// Bytes of the region header.
pub const HEADER_BYTES: usize = 4096;

/// Budget for segments unless it was asked otherwise, bytes.
pub const BUDGET_BYTES_DEFAULT: u64 = 512 << 20;
/// Smallest budget: every lane of a small program needs an open segment and a sticky one.
pub const BUDGET_BYTES_MIN: u64 = 1 << 20;
/// Memory kept backed and faulted in ahead of demand, bytes.
pub const AHEAD_BYTES: u64 = 32 << 20;
/// What is backed in one go, bytes: small enough that segments come free again while the rest is still being made.
pub const BACK_STEP_BYTES: u64 = 2 << 20;

/// Longest string that is kept whole, bytes; a longer one is cut and flagged. Mangled names of template libraries
/// reach tens of kilobytes.
pub const STRING_BYTES_MAX: usize = 60_000;
/// Entries of the table of strings already announced (a power of two).
pub const INTERN_SLOTS: usize = 1 << 16;
/// Longest probe in a hash table of the hot path.
pub const PROBE_MAX: usize = 64;
/// Entries of the handle table that numbers streams (a power of two).
pub const HANDLE_SLOTS: usize = 1 << 14;

const _: () = assert!(
    SEGMENT_BYTES.is_multiple_of(4096),
    "a segment is whole pages"
);
const _: () = assert!(
    RECORD_CELLS_MAX * 4 <= SEGMENT_CELLS,
    "records never straddle segments; the waste stays small"
);
const _: () = assert!(SESSION_SLOTS.is_power_of_two());
const _: () = assert!(INTERN_SLOTS.is_power_of_two() && HANDLE_SLOTS.is_power_of_two());
const _: () = assert!(
    LANE_COUNTERS_OFFSET + (SESSION_SLOTS + 1) * SESSION_SLOT_WORDS * 8 <= LANE_INSIDE_OFFSET
        && LANE_INSIDE_OFFSET + INSIDE_DEPTH * INSIDE_WORDS * 8 <= LANE_RANGES_OFFSET
        && LANE_RANGES_OFFSET + RANGE_DEPTH * INSIDE_WORDS * 8 <= LANE_BYTES,
    "a lane header fits its page"
);
const _: () = assert!(STRING_BYTES_MAX < SEGMENT_BYTES);
const _: () = assert!(
    BACK_STEP_BYTES.is_multiple_of(SEGMENT_BYTES as u64)
        && AHEAD_BYTES.is_multiple_of(BACK_STEP_BYTES)
);

/// Offset of the count of cells that the lane reused in flight mode, bytes.
pub const LANE_REUSED_OFFSET: usize = 8;
/// Offset of the per-session counters in a lane header, bytes.
pub const LANE_COUNTERS_OFFSET: usize = 128;
/// Offset of the "inside of" stack in a lane header, bytes.
pub const LANE_INSIDE_OFFSET: usize = 2496;
/// Offset of the stack of open ranges in a lane header, bytes.
pub const LANE_RANGES_OFFSET: usize = 3008;
