//! Every maximum of the runtime, with its reason, its arithmetic and its cost in bytes.
//!
//! Changing one number here breaks the build instead of the night: the assertions at the end say how the limits
//! relate, and the tests beside them hold this page's figures against a region and against the types.
//!
//! # What a region costs
//!
//! ```text
//! lanes        = threads that append at the same time (the setting), and one
//! segment      = 256 KiB from a budget of 256 MiB on, else 64 KiB; or what was asked for, 64 KiB to 1 MiB
//! segments     = budget / segment, at least 16
//! tables       = 4 KiB header + lanes * 4 KiB + segments * 128 B      backed and faulted in at load
//! address space= tables + segments * segment                          mapped once, at load
//! memory       = tables + what was backed of the segments             32 MiB at load; then 32 MiB ahead of demand, or a segment for
//!                                                                     each of 256 lanes, to an eighth of the budget; 2 MiB a step
//! private      = places * 8 B + segments * 24.125 B + lanes * 512 B   ring places: segments, up to a power of two
//!              + 512 KiB strings + 256 KiB streams + 128 KiB          tables of what was announced
//!              + 8 MiB address space                                  one bit for each of the newest 64 M retired ids
//! ```
//!
//! | budget | segment | lanes | segments | tables | address space | memory at load | private at most |
//! |---|---|---|---|---|---|---|---|
//! | 1 MiB (least) | 64 KiB | 4 | 16 | 24 KiB | 1.02 MiB | 1.02 MiB | 8.9 MiB |
//! | 64 MiB | 64 KiB | 256 | 1,024 | 1.13 MiB | 65.1 MiB | 33.1 MiB | 9.0 MiB |
//! | 512 MiB (default) | 256 KiB | 256 | 2,048 | 1.25 MiB | 513 MiB | 33.3 MiB | 9.1 MiB |
//! | 512 MiB | 64 KiB | 256 | 8,192 | 2.0 MiB | 514 MiB | 34.0 MiB | 9.3 MiB |
//! | 64 GiB (most) | 256 KiB | 4,096 | 262,144 | 48 MiB | 64.0 GiB | 80 MiB | 19 MiB |
//! | 64 GiB (most) | 64 KiB | 4,096 | 1,048,576 | 144 MiB | 64.1 GiB | 176 MiB | 43 MiB |
//!
//! [`default_segment_bytes`], [`ahead_bytes`], [`tables_bytes`], [`region_bytes`] and [`private_bytes`] are this arithmetic. Private memory is of
//! that size at most: the bits of retired ids are used as ids come. Readers that map the region add nothing; flight mode's readers
//! copy what is published.
//!
//! # What a segment's size costs
//!
//! The append that changes its lane's segment is the dear one. A thread that makes three records holds a whole segment, and so
//! does a thread that announces three facts:
//!
//! | segment | records of one cell | one change in | all 256 lanes with records and facts | threads that can begin at once: at load | later, budget 512 MiB |
//! |---|---|---|---|---|---|
//! | 64 KiB | 1,024 | 1,024 | 32 MiB | 479 | 479 |
//! | 128 KiB | 2,048 | 2,048 | 64 MiB | 239 | 239 |
//! | 256 KiB | 4,096 | 4,096 | 128 MiB | 119 | 239 |
//! | 1 MiB | 16,384 | 16,384 | 512 MiB | 29 | 59 |
//!
//! The last columns are of a budget from 32 MiB on: the memory that is kept ahead of demand ([`ahead_bytes`]), less what records
//! leave to facts of it. A thread that finds none is refused until the housekeeper has made more, 2 MiB in about a millisecond, and what it made is
//! counted; a program that starts more threads than that within a millisecond takes smaller segments or has all memory made at
//! load ([`crate::settings::Settings::prefault`]).
//!
//! # What a record costs
//!
//! | what | cells | bytes |
//! |---|---|---|
//! | API call; with its arguments | 1; 2 | 64; 128 |
//! | dispatch: issue and completion | 1 + 2 | 192 |
//! | copy: issue and completion | 1 + 2 | 192 |
//! | allocation, scratch | 2 | 128 |
//! | range, mark, range's start or stop, external id | 1 | 64 |
//! | change of a lane's thread | 1 | 64 |
//! | kernel, once: symbol and name | 2, and 1 to 16 for each 1,000 bytes of name | 192 up |
//! | stream, operation, label, thread's name, once | 1 + its name | 64 up |
//! | anchor of the clocks, when they bend and once a minute, while a session is open | 1 | 0.1 to 1 MiB a day |
//! | a session's begin and end | 1 + 8 and two anchors | 704 |
//!
//! A kernel launch through its API is 256 bytes: the default budget holds 2 M of them. A thread that makes a million
//! one-cell records a second fills 61 MiB/s.
//!
//! # Who gets which segment
//!
//! - Each thread that appends has a lane with one open segment of records, and a lane that announced facts one open
//!   segment of facts: a program with `n` threads needs `2 n` segments before anything else. A lane whose thread has ended
//!   is handed on with its open segments.
//! - The *sticky log* (facts) takes segments from the same budget and never gives one back. In window and
//!   stream mode it may take the last one, and records leave it a sixteenth of what is backed (at most 64 segments, which is 4
//!   to 64 MiB, and a quarter of the reserve), so that a region full of records still says what it lacks. In flight mode it leaves a quarter
//!   of the reserve (which is a quarter of all segments, or two a lane if that is more, but no more than half), then takes
//!   the oldest of its own lane's, but never the lane's last two. What does not
//!   fit is counted as `sticky_full`, and names keep their hash.
//! - In flight mode a session that stays open takes 0.1 to 1 MiB a day for the anchors of its clocks, which are kept like all
//!   facts: choose the budget of a recorder that runs for months by that.
//! - The *ring* of sealed segments has a place for every segment, so it is never full: a segment is in it once, or in none.
//! - *Free bits*: one for each segment, searched 64 at a time.
//!
//! # What happens at a limit
//!
//! | limit | what happens beyond it |
//! |---|---|
//! | budget | window: records are counted as `no_segment`; flight: the lane's oldest segment is reused and counted |
//! | lanes | records of a thread without a lane are counted as `no_lane`; its issues and completions are still counted, and its facts go to one more lane, which is kept for that |
//! | 8 sessions apart | counters of older ones share one block; records that come then are `late` |
//! | 16 calls deep | deeper calls are recorded, only not listed as "inside of" |
//! | 32 ranges deep | deeper ranges are not recorded; their pops still match |
//! | 60,000 bytes of a string | it is cut and flagged |
//! | 65,536 strings, 16,384 streams | a full table forgets: facts are announced again, which costs bytes, not truth |
//! | file size, address space, locked memory | a status at load, never a signal ([`crate::Status::NoRegion`], [`crate::Memory`]) |

/// Bytes of one cell: one cache line on every processor that GPUs are attached to today.
pub const CELL_BYTES: usize = 64;
/// 64-bit words of one cell.
pub const CELL_WORDS: usize = CELL_BYTES / 8;
/// Most cells of one record. 16 cells are 1 KiB: a name part of 1,000 bytes and its header.
pub const RECORD_CELLS_MAX: usize = 16;

/// Least bytes of one segment; sizes are powers of two. 64 KiB hold 1,024 one-cell records: a thread that makes 1 M records a
/// second changes its segment every millisecond, and a thread that makes three records wastes 64 KiB.
pub const SEGMENT_BYTES_MIN: usize = 64 << 10;
/// Most bytes of one segment.
pub const SEGMENT_BYTES_MAX: usize = 1 << 20;
/// Bytes of one segment of a budget of [`BUDGET_BYTES_LARGE`] or more, unless it was asked otherwise: one append in 4,096 changes
/// the segment, which is not in the slowest 0.1% any more.
pub const SEGMENT_BYTES_LARGE: usize = 256 << 10;
/// The smallest budget whose segments are of [`SEGMENT_BYTES_LARGE`], bytes; those of a smaller one are of the least size.
pub const BUDGET_BYTES_LARGE: u64 = 256 << 20;
/// Least segments of a region that a process writes to.
pub const SEGMENT_COUNT_MIN: usize = 16;
/// Bytes of one entry of the segment table: a cache line and its neighbour, because the adjacent-line prefetcher
/// of x86-64 moves lines in pairs and the entry's `committed` word is written on every append.
pub const SEGMENT_ENTRY_BYTES: usize = 128;
/// Most segments of one region: 64 GiB of records, or more in the file of a stream.
pub const SEGMENT_COUNT_MAX: usize = 1 << 20;

/// Bytes of one lane header: one page, so that no two lanes share a page or a line.
pub const LANE_BYTES: usize = 4096;
/// Lanes of a region unless it was asked otherwise: threads that append at the same time. A region has one more, which
/// is kept for the facts of threads without a lane.
pub const LANE_COUNT_DEFAULT: usize = 256;
/// Most lanes of a region, that one included.
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
/// Largest budget: segments of the least size, as many as a region can have.
pub const BUDGET_BYTES_MAX: u64 = (SEGMENT_COUNT_MAX * SEGMENT_BYTES_MIN) as u64;
/// Most free segments that records leave to facts in window and stream mode: each lane that says something takes one.
pub const FACTS_SHARE_MAX: u64 = 64;
/// Least memory kept backed and faulted in ahead of demand, bytes; and what is made at load.
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
    SEGMENT_BYTES_MIN.is_multiple_of(4096)
        && is_segment_bytes(SEGMENT_BYTES_MIN as u64)
        && is_segment_bytes(SEGMENT_BYTES_LARGE as u64)
        && is_segment_bytes(SEGMENT_BYTES_MAX as u64),
    "a segment is whole pages"
);
const _: () = assert!(
    SEGMENT_BYTES_MAX <= u32::MAX as usize,
    "a segment's bytes and cells fit the header's and the lane's 32 bits"
);
const _: () = assert!(
    RECORD_CELLS_MAX * 4 <= SEGMENT_BYTES_MIN / CELL_BYTES,
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
const _: () = assert!(STRING_BYTES_MAX < SEGMENT_BYTES_MIN);
const _: () = assert!(
    BACK_STEP_BYTES.is_multiple_of(SEGMENT_BYTES_MAX as u64)
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

/// Lanes have no more private memory than this beside their page of the region, bytes.
pub const LANE_PRIVATE_BYTES_MAX: u64 = 512;
/// Address space of the retired ids' bits and their pages' rounds, bytes: 64 M ids, in pages of 4,096.
const RETIRED_BYTES: u64 = (1 << 26) / 8 + (1 << 26) / 4096 * 8;

/// True for a size that a segment may have: a power of two from [`SEGMENT_BYTES_MIN`] to [`SEGMENT_BYTES_MAX`].
pub const fn is_segment_bytes(bytes: u64) -> bool {
    bytes.is_power_of_two()
        && bytes >= SEGMENT_BYTES_MIN as u64
        && bytes <= SEGMENT_BYTES_MAX as u64
}

/// Bytes of a segment of a budget, unless it was asked otherwise.
pub const fn default_segment_bytes(budget_bytes: u64) -> u64 {
    if budget_bytes >= BUDGET_BYTES_LARGE {
        SEGMENT_BYTES_LARGE as u64
    } else {
        SEGMENT_BYTES_MIN as u64
    }
}

/// Memory kept backed and faulted in ahead of demand, bytes: a segment for each lane of a usual region where that is not more
/// than an eighth of the budget, so that as many threads can begin at once. At load it is [`AHEAD_BYTES`], the rest is made
/// after it.
pub const fn ahead_bytes(budget_bytes: u64, segment_bytes: u64) -> u64 {
    let lanes = LANE_COUNT_DEFAULT as u64 * segment_bytes;
    let share = budget_bytes / 8;
    let wanted = if lanes < share { lanes } else { share };
    if wanted > AHEAD_BYTES {
        wanted - wanted % BACK_STEP_BYTES
    } else {
        AHEAD_BYTES
    }
}

/// Bytes of header, lane table and segment table, up to whole pages.
pub const fn tables_bytes(lanes: u64, segments: u64) -> u64 {
    let bytes =
        HEADER_BYTES as u64 + lanes * LANE_BYTES as u64 + segments * SEGMENT_ENTRY_BYTES as u64;
    bytes.next_multiple_of(4096)
}

/// Bytes of a region's file and of its address space (up to 2 MiB more with huge pages).
pub const fn region_bytes(lanes: u64, segments: u64, segment_bytes: u64) -> u64 {
    tables_bytes(lanes, segments) + segments * segment_bytes
}

/// Bytes of private memory beside the region, at most.
pub const fn private_bytes(lanes: u64, segments: u64) -> u64 {
    let ring = segments.next_power_of_two() * 8;
    let links_counts_and_bits = segments * (8 + 16) + segments.div_ceil(64) * 8;
    let tables = (INTERN_SLOTS * 8 + HANDLE_SLOTS * 16) as u64;
    ring + links_counts_and_bits + lanes * LANE_PRIVATE_BYTES_MAX + tables + RETIRED_BYTES
}

const _: () = assert!(
    BUDGET_BYTES_MIN.is_multiple_of(SEGMENT_BYTES_MIN as u64)
        && BUDGET_BYTES_DEFAULT.is_multiple_of(default_segment_bytes(BUDGET_BYTES_DEFAULT))
        && BUDGET_BYTES_MIN <= BUDGET_BYTES_LARGE
        && BUDGET_BYTES_LARGE <= BUDGET_BYTES_DEFAULT
        && BUDGET_BYTES_DEFAULT <= BUDGET_BYTES_MAX,
    "budgets are whole segments, within the most"
);
const _: () = assert!(
    BUDGET_BYTES_MIN / SEGMENT_BYTES_MIN as u64 >= SEGMENT_COUNT_MIN as u64
        && BUDGET_BYTES_LARGE / SEGMENT_BYTES_LARGE as u64 >= SEGMENT_COUNT_MIN as u64
        && SEGMENT_COUNT_MIN >= 4,
    "the least budget gives one thread records and facts, and as much again"
);
const _: () = assert!(
    SEGMENT_COUNT_MAX <= u32::MAX as usize && LANE_COUNT_MAX <= u16::MAX as usize,
    "a segment's number fits the ring's and the entry's 32 bits, a lane's the entry's 16"
);
const _: () = assert!(SEGMENT_ENTRY_BYTES.is_multiple_of(2 * CELL_BYTES));
const _: () = assert!(LANE_COUNT_DEFAULT <= LANE_COUNT_MAX);
const _: () = assert!(
    region_bytes(
        LANE_COUNT_MAX as u64,
        SEGMENT_COUNT_MAX as u64,
        SEGMENT_BYTES_MIN as u64
    ) < 1 << 37,
    "the largest region is a sliver of 47 bits of address space"
);
const _: () = assert!(
    STRING_BYTES_MAX.div_ceil(RECORD_CELLS_MAX * CELL_BYTES - 24) * RECORD_CELLS_MAX
        <= SEGMENT_BYTES_MIN / CELL_BYTES,
    "the longest string fits one segment, 24 bytes of head in each part"
);

#[cfg(test)]
mod tests {
    use super::*;

    fn mib(bytes: u64) -> f64 {
        bytes as f64 / f64::from(1 << 20)
    }

    #[test]
    fn the_page_s_figures() {
        let row = |budget: u64, segment_bytes: u64, lanes: u64| {
            let segments = budget / segment_bytes;
            let tables = tables_bytes(lanes, segments);
            let at_load = tables + budget.min(AHEAD_BYTES);
            (
                segments,
                tables,
                mib(region_bytes(lanes, segments, segment_bytes)),
                mib(at_load),
                mib(private_bytes(lanes, segments)),
            )
        };
        let close = |found: f64, page: f64| (found - page).abs() <= page * 0.01;
        for (budget, kib, lanes, segments, tables_mib, region_mib, at_load_mib, private_mib) in [
            (BUDGET_BYTES_MIN, 64, 4, 16, 0.0234, 1.02, 1.02, 8.88),
            (64 << 20, 64, 256, 1_024, 1.13, 65.1, 33.1, 9.0),
            (
                BUDGET_BYTES_DEFAULT,
                256,
                256,
                2_048,
                1.25,
                513.0,
                33.3,
                9.06,
            ),
            (BUDGET_BYTES_DEFAULT, 64, 256, 8_192, 2.0, 514.0, 34.0, 9.25),
            (64 << 30, 256, 4_096, 1 << 18, 48.0, 65_584.0, 80.0, 18.9),
            (64 << 30, 64, 4_096, 1 << 20, 144.0, 65_680.0, 176.0, 43.0),
        ] {
            let (found, tables, region, at_load, private) = row(budget, kib << 10, lanes);
            assert_eq!(found, segments, "{budget}");
            assert!(close(mib(tables), tables_mib), "{}", mib(tables));
            assert!(close(region, region_mib), "{region}");
            assert!(close(at_load, at_load_mib), "{at_load}");
            assert!(close(private, private_mib), "{private}");
        }
        for (budget, kib) in [
            (BUDGET_BYTES_MIN, 64),
            (64 << 20, 64),
            ((256 << 20) - 1, 64),
            (256 << 20, 256),
            (BUDGET_BYTES_DEFAULT, 256),
            (BUDGET_BYTES_MAX, 256),
        ] {
            assert_eq!(default_segment_bytes(budget), kib << 10, "{budget}");
        }
        for (kib, cells, all_lanes_mib) in [
            (64, 1_024, 32),
            (128, 2_048, 64),
            (256, 4_096, 128),
            (1_024, 16_384, 512),
        ] {
            assert!(is_segment_bytes(kib << 10));
            assert_eq!((kib << 10) / CELL_BYTES as u64, cells);
            assert_eq!(LANE_COUNT_DEFAULT as u64 * 2 * kib / 1_024, all_lanes_mib);
        }
        for (budget, kib, ahead_mib) in [
            (BUDGET_BYTES_MIN, 64, 32),
            (BUDGET_BYTES_DEFAULT, 64, 32),
            (BUDGET_BYTES_DEFAULT, 128, 32),
            (256 << 20, 256, 32),
            (300 << 20, 256, 36),
            (BUDGET_BYTES_DEFAULT, 256, 64),
            (BUDGET_BYTES_DEFAULT, 1_024, 64),
            (BUDGET_BYTES_MAX, 1_024, 256),
        ] {
            assert_eq!(ahead_bytes(budget, kib << 10), ahead_mib << 20);
        }
        for odd in [0, 1, 32 << 10, 96 << 10, (64 << 10) + 64, 2 << 20, 1 << 32] {
            assert!(!is_segment_bytes(odd), "{odd}");
        }
        // A launch: an API call, an issue and a completion.
        assert_eq!(BUDGET_BYTES_DEFAULT / (CELL_BYTES as u64 * 4), 2 << 20);
        // Anchors of a day: `clock_watch`'s test counts 1,443 to 16,074.
        assert!(close(mib(1_443 * CELL_BYTES as u64), 0.088));
        assert!(close(mib(16_074 * CELL_BYTES as u64), 0.98));
    }

    #[test]
    fn a_real_region_and_the_types_are_of_these_sizes() {
        assert!(size_of::<crate::lane::Lane>() as u64 <= LANE_PRIVATE_BYTES_MAX);
        for (lanes, segments, segment_bytes) in [
            (1, 1, 64 << 10),
            (7, 33, 1 << 20),
            (7, 34, 128 << 10),
            (256, 8_192, 64 << 10),
            (256, 2_048, 256 << 10),
        ] {
            let mut header = crate::header::tests::sample();
            (header.lane_count, header.segment_count) = (lanes, segments);
            header.segment_bytes = segment_bytes;
            let path = std::env::temp_dir().join(format!(
                "strandline-limits-{}-{segments}.slt",
                std::process::id()
            ));
            let file = std::fs::File::options()
                .read(true)
                .write(true)
                .create_new(true)
                .open(&path)
                .unwrap();
            std::fs::remove_file(&path).unwrap();
            let region =
                crate::region::Region::create(file, path, header, Default::default()).unwrap();
            let (lanes, segments): (u64, u64) = (lanes.into(), segments.into());
            assert_eq!(
                region.header().segments_offset,
                tables_bytes(lanes, segments)
            );
            assert_eq!(
                region.header().region_bytes,
                region_bytes(lanes, segments, segment_bytes.into())
            );
        }
    }
}
