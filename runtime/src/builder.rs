//! Regions made in memory, record by record: for tests, benches and importers, never for tracing.
//!
//! The bytes are the format itself, so [`Trace::from_bytes`] reads them and a file written from them is a `.slt`.
//!
//! ```
//! use strandline::builder::Builder;
//! use strandline::record::{Kind, pair};
//!
//! let mut region = Builder::new();
//! region.session_begin(1, 1_000);
//! region.record(0, Kind::Dispatch, 1, &[1_200, 1_300, 5, 0, 1, 9, 0, 77, 0, pair(1, 42)]);
//! let trace = region.trace();
//! assert_eq!(trace.entries().count(), 1);
//! ```

use std::path::Path;

use crate::anchors::ClockAnchor;
use crate::counters::Counter;
use crate::hash;
use crate::header::{Header, Mode, NEWEST_SESSION_OFFSET, PHASE_OFFSET, VERSION};
use crate::limits::{
    CELL_BYTES, CELL_WORDS, HEADER_BYTES, LANE_BYTES, LANE_COUNTERS_OFFSET, LANE_REUSED_OFFSET,
    SEGMENT_BYTES_MIN, SEGMENT_ENTRY_BYTES, SESSION_SLOT_WORDS, SESSION_SLOTS,
};
use crate::record::{Kind, head_word, high, pair};
use crate::segment_entry::{SegmentKind, SegmentState, StateWord, word};
use crate::session_end::SessionEnd;
use crate::trace::Trace;

#[derive(Debug)]
struct Segment {
    lane: u16,
    kind: SegmentKind,
    words: Vec<u64>,
}

/// Builds a region in memory.
#[derive(Debug)]
pub struct Builder {
    header: Header,
    segments: Vec<Segment>,
    counters: Vec<(u16, u64, Counter, u64)>,
    reused_cells: Vec<(u16, u64)>,
    newest_session: u64,
}

impl Default for Builder {
    fn default() -> Self {
        Self::new()
    }
}

impl Builder {
    /// An empty region of a simulated process: ticks are vendor ns.
    pub fn new() -> Self {
        Self {
            header: Header {
                version: VERSION,
                features_may_ignore: 0,
                features_must_understand: 0,
                region_bytes: 0,
                lane_table_offset: HEADER_BYTES as u64,
                lane_count: 1,
                segment_table_offset: 0,
                segment_count: 0,
                segments_offset: 0,
                segment_bytes: SEGMENT_BYTES_MIN as u32,
                mode: Mode::Window,
                simulated: true,
                pid: 4242,
                parent_pid: 1,
                rank: -1,
                uid: 0,
                process_start_ns: 500,
                host_hash: 0x5eed,
                pid_namespace: 1,
                boot_id: *b"synthetic-boot-1",
                created_unix_ns: 1_700_000_000_000_000_000,
                clock: 1,
                vendor: 0,
                ticks_per_second: 1_000_000_000,
                runtime_version: 100,
                sdk_version: 0,
                program: "synthetic".to_owned(),
                host: "host0".to_owned(),
                sdk: "built in memory (simulation)".to_owned(),
            },
            segments: Vec::new(),
            counters: Vec::new(),
            reused_cells: Vec::new(),
            newest_session: 0,
        }
    }

    /// The header, to be changed; places and sizes are filled in at the end, but for `segment_bytes`, 64 KiB unless it is
    /// changed before the first record.
    pub fn header_mut(&mut self) -> &mut Header {
        &mut self.header
    }

    fn put(&mut self, lane: u16, kind: SegmentKind, words: &[u64]) {
        self.header.lane_count = self.header.lane_count.max(u32::from(lane) + 1);
        let segment_words = self.header.segment_cells() * CELL_WORDS;
        let open = self
            .segments
            .iter_mut()
            .rev()
            .find(|segment| segment.lane == lane && segment.kind == kind);
        match open {
            Some(segment) if segment.words.len() + words.len() <= segment_words => {
                segment.words.extend_from_slice(words);
            }
            _ => self.segments.push(Segment {
                lane,
                kind,
                words: words.to_vec(),
            }),
        }
    }

    /// Adds a record; `words` are words 1 and up. The size is the kind's own.
    pub fn record(&mut self, lane: u16, kind: Kind, session: u32, words: &[u64]) -> &mut Self {
        self.flagged_record(lane, kind, session, 0, words)
    }

    /// As [`Builder::record`], with flags.
    pub fn flagged_record(
        &mut self,
        lane: u16,
        kind: Kind,
        session: u32,
        flags: u16,
        words: &[u64],
    ) -> &mut Self {
        let cells = kind
            .cells()
            .max((words.len() + 1).div_ceil(CELL_WORDS))
            .max(1);
        let mut all = vec![0; cells * CELL_WORDS];
        all[0] = head_word(kind, cells, flags, session);
        all[1..=words.len()].copy_from_slice(words);
        let place = if kind.is_sticky() {
            SegmentKind::Sticky
        } else {
            SegmentKind::Records
        };
        self.put(lane, place, &all);
        self
    }

    /// Adds whole cells as they are, among the facts or the records: what another version may write.
    pub fn raw_record(&mut self, lane: u16, sticky: bool, words: &[u64]) -> &mut Self {
        let place = if sticky {
            SegmentKind::Sticky
        } else {
            SegmentKind::Records
        };
        debug_assert!(words.len().is_multiple_of(CELL_WORDS));
        self.put(lane, place, words);
        self
    }

    /// Adds a string and returns its id.
    pub fn string(&mut self, bytes: &[u8]) -> u64 {
        let id = hash::bytes(bytes);
        for (kind, cells, words) in string_records(id, bytes) {
            debug_assert_eq!(kind, Kind::String);
            self.put(0, SegmentKind::Sticky, &words[..cells * CELL_WORDS]);
        }
        id
    }

    /// Adds a GPU agent.
    pub fn gpu(&mut self, handle: u64, type_index: u32, name: &str, product: &str) -> &mut Self {
        let [name, vendor, product] =
            [name, "AMD", product].map(|text| self.string(text.as_bytes()));
        let node = type_index + 1;
        let words = [
            handle,
            pair(2, node),
            pair(node, type_index),
            name,
            vendor,
            product,
            name,
            pair(304, 64),
            0,
            192 << 30,
        ];
        self.record(0, Kind::Agent, 0, &words)
    }

    /// Adds a kernel symbol.
    pub fn kernel(&mut self, kernel_id: u64, mangled: &[u8]) -> &mut Self {
        let name = self.string(mangled);
        self.record(
            0,
            Kind::KernelSymbol,
            0,
            &[kernel_id, 1, name, 0x1000 + kernel_id],
        )
    }

    /// Adds the name of an operation.
    pub fn operation(&mut self, domain: u8, operation: u16, name: &str) -> &mut Self {
        let name = self.string(name.as_bytes());
        self.record(
            0,
            Kind::Operation,
            0,
            &[u64::from(operation) | u64::from(domain) << 16, name],
        )
    }

    /// Adds a stream.
    pub fn stream(&mut self, id: u32, handle: u64) -> &mut Self {
        self.record(0, Kind::Stream, 0, &[u64::from(id), handle])
    }

    /// Adds an anchor of all clocks.
    pub fn anchor(&mut self, anchor: ClockAnchor) -> &mut Self {
        let words = [
            anchor.ticks,
            anchor.vendor_ns,
            anchor.boottime_ns,
            anchor.monotonic_ns,
            anchor.monotonic_raw_ns,
            anchor.realtime_ns,
        ];
        self.record(0, Kind::Anchor, 0, &words)
    }

    /// Opens a session at `vendor_ns`.
    pub fn session_begin(&mut self, session: u64, vendor_ns: u64) -> &mut Self {
        self.newest_session = self.newest_session.max(session);
        self.record(
            0,
            Kind::SessionBegin,
            session as u32,
            &[session, vendor_ns, vendor_ns, 0],
        )
    }

    /// Closes a session's books.
    pub fn session_end(&mut self, end: &SessionEnd) -> &mut Self {
        self.put(0, SegmentKind::Sticky, &end.encode());
        self
    }

    /// Sets a lane's counter for a session.
    pub fn counter(&mut self, lane: u16, session: u64, counter: Counter, value: u64) -> &mut Self {
        self.header.lane_count = self.header.lane_count.max(u32::from(lane) + 1);
        self.counters.push((lane, session, counter, value));
        self
    }

    /// Sets how many cells a lane has reused in flight mode.
    pub fn reused_cells(&mut self, lane: u16, cells: u64) -> &mut Self {
        self.header.lane_count = self.header.lane_count.max(u32::from(lane) + 1);
        self.reused_cells.push((lane, cells));
        self
    }

    /// The region's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        let mut header = self.header.clone();
        let count = self.segments.len();
        header.segment_count = count as u32;
        header.segment_table_offset =
            header.lane_table_offset + u64::from(header.lane_count) * LANE_BYTES as u64;
        header.segments_offset = (header.segment_table_offset
            + (count * SEGMENT_ENTRY_BYTES) as u64)
            .next_multiple_of(4096);
        header.region_bytes = header.segment_offset(count as u32);
        let mut bytes = vec![0u8; header.region_bytes as usize];
        bytes[..HEADER_BYTES].copy_from_slice(&header.encode()[..]);
        let mut put =
            |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        put(PHASE_OFFSET, crate::header::Phase::Finalize as u64);
        put(NEWEST_SESSION_OFFSET, self.newest_session);
        for &(lane, session, counter, value) in &self.counters {
            let block = header.lane_table_offset as usize
                + usize::from(lane) * LANE_BYTES
                + LANE_COUNTERS_OFFSET
                + session as usize % SESSION_SLOTS * SESSION_SLOT_WORDS * 8;
            put(block, session);
            put(block + counter as usize * 8, value);
        }
        for &(lane, cells) in &self.reused_cells {
            let offset = usize::from(lane) * LANE_BYTES + LANE_REUSED_OFFSET;
            put(header.lane_table_offset as usize + offset, cells);
        }
        for (index, segment) in self.segments.iter().enumerate() {
            let entry = header.segment_table_offset as usize + index * SEGMENT_ENTRY_BYTES;
            let state = StateWord {
                state: SegmentState::Sealed,
                kind: segment.kind,
                lane: segment.lane,
                generation: 0,
            };
            let cells = (segment.words.len() / CELL_WORDS) as u64;
            put(entry + word::STATE * 8, state.pack());
            put(entry + word::COMMITTED * 8, cells);
            put(entry + word::ORIGIN * 8, pair(0, index as u32));
            put(
                entry + word::CHECKSUM * 8,
                hash::words(segment.words.iter().copied()),
            );
            put(entry + word::CHECKED_CELLS * 8, cells);
            let start = header.segment_offset(index as u32) as usize;
            for (at, &value) in segment.words.iter().enumerate() {
                put(start + at * 8, value);
            }
        }
        bytes
    }

    /// The region, opened for reading.
    ///
    /// # Panics
    /// Never, unless the header was changed to something that can't be.
    pub fn trace(&self) -> Trace {
        Trace::from_bytes(&self.bytes(), Path::new("memory.slt"))
            .expect("a region that was just built")
    }
}

/// The records that announce a string, in order.
pub(crate) fn string_records(
    id: u64,
    bytes: &[u8],
) -> impl Iterator<
    Item = (
        Kind,
        usize,
        [u64; crate::limits::RECORD_CELLS_MAX * CELL_WORDS],
    ),
> + '_ {
    use crate::limits::{RECORD_CELLS_MAX, STRING_BYTES_MAX};
    const ROOM: usize = RECORD_CELLS_MAX * CELL_BYTES - 3 * 8;
    let (bytes, flags) = match bytes.get(..STRING_BYTES_MAX) {
        Some(cut) if bytes.len() > STRING_BYTES_MAX => (cut, crate::record::flag::CUT),
        _ => (bytes, 0),
    };
    (0..bytes.len().div_ceil(ROOM).max(1)).map(move |part| {
        let offset = part * ROOM;
        let chunk = &bytes[offset..bytes.len().min(offset + ROOM)];
        let cells = (3 * 8 + chunk.len()).div_ceil(CELL_BYTES);
        let mut words = [0u64; RECORD_CELLS_MAX * CELL_WORDS];
        words[0] = head_word(Kind::String, cells, flags, 0);
        words[1] = id;
        words[2] = pair(bytes.len() as u32, offset as u32);
        for (word, eight) in words[3..].iter_mut().zip(chunk.chunks(8)) {
            let mut padded = [0u8; 8];
            padded[..eight.len()].copy_from_slice(eight);
            *word = u64::from_le_bytes(padded);
        }
        debug_assert_eq!(high(words[0]), 0);
        (Kind::String, cells, words)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report;
    use crate::session_end::{Proof, Verdict, Work};

    #[test]
    fn strings_of_every_edge_length_come_back() {
        for length in [0, 1, 7, 8, 40, 41, 999, 1000, 1001, 2000, 59_999, 60_000] {
            let text: Vec<u8> = (0..length).map(|at| (at % 251) as u8).collect();
            let mut region = Builder::new();
            let id = region.string(&text);
            assert_eq!(
                region.trace().facts().bytes(id),
                Some(&text[..]),
                "{length} bytes"
            );
        }
        let long = vec![b'x'; 60_001];
        let mut region = Builder::new();
        let id = region.string(&long);
        assert_eq!(region.trace().facts().bytes(id).unwrap().len(), 60_000);
    }

    #[test]
    fn a_report_counts_what_is_there_and_flags_what_is_odd() {
        // case B01 and B11: records outside the window and untimed ones stay, flagged and counted.
        let mut region = Builder::new();
        region.session_begin(1, 1_000);
        region.record(0, Kind::Api, 1, &[1_010, 1_020, 7, 0, 214 | 1 << 16]);
        for (dispatch, start, end) in [
            (1, 1_100, 1_200),
            (2, 900, 950),
            (3, 0, 500),
            (4, 1_300, 1_250),
        ] {
            region.record(0, Kind::Dispatch, 1, &[start, end, 7, 0, dispatch, 1]);
        }
        region.record(0, Kind::Dispatch, 1, &[1_400, 1_500, 0, 0, 5, 1]);
        let issued = Work {
            issued: 6,
            recorded: 6,
            retired_without_record: 0,
        };
        let end = SessionEnd {
            session: 1,
            verdict: Verdict::Complete,
            proof: Proof::Pairs,
            dispatches: issued,
            begin_ns: 1_000,
            returned_ns: 2_000,
            ..SessionEnd::default()
        };
        region.session_end(&end);
        let reports = report::sessions(&region.trace());
        let [report] = &reports[..] else {
            panic!("{reports:?}")
        };
        assert_eq!(report.dispatches.recorded, 5);
        assert_eq!(report.dispatches.missing(), 1);
        assert_eq!(
            report.verdict,
            Verdict::Incomplete,
            "the file has fewer than the closing record says"
        );
        let flagged = report.flagged;
        assert_eq!(
            (
                flagged.outside_window,
                flagged.untimed,
                flagged.end_before_start,
                flagged.no_launch
            ),
            (1, 1, 1, 1)
        );
    }

    #[test]
    fn counts_of_a_damaged_region_do_not_wrap() {
        let mut region = Builder::new();
        region.session_begin(1, 1_000);
        region.counter(0, 1, Counter::DispatchIssued, u64::MAX);
        region.counter(0, 1, Counter::CopyIssued, u64::MAX);
        region.counter(0, 1, Counter::Late, u64::MAX);
        region.record(0, Kind::Late, 0, &[1, 5]);
        region.record(0, Kind::Late, 0, &[1, u64::MAX]);
        let trace = region.trace();
        assert_eq!(trace.cost().records, u64::MAX);
        let reports = report::sessions(&trace);
        assert_eq!(
            (reports[0].missing(), reports[0].late),
            (u64::MAX, u64::MAX)
        );
        assert_eq!(reports[0].verdict, Verdict::Incomplete);
    }

    #[test]
    fn a_flipped_byte_in_a_segment_is_noticed_and_a_cut_file_keeps_what_is_whole() {
        let mut region = Builder::new();
        region.session_begin(1, 0);
        for id in 0..2_000 {
            region.record(0, Kind::Mark, 1, &[id]);
        }
        let bytes = region.bytes();
        let read = |bytes: &[u8]| Trace::from_bytes(bytes, Path::new("x.slt")).unwrap();
        assert_eq!(read(&bytes).entries().count(), 2_000);
        let mut flipped = bytes.clone();
        let last = flipped.len() - 32 * 1024 - 8;
        flipped[last] ^= 1;
        let trace = read(&flipped);
        assert!(trace.entries().count() < 2_000);
        assert!(
            trace.damage()[0].cause.contains("checksum"),
            "{:?}",
            trace.damage()
        );
        let cut = read(&bytes[..bytes.len() - 40 * 1024]);
        assert!(!cut.damage().is_empty() && cut.entries().count() > 1_000);
    }
}
