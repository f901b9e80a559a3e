//! Regions of any size, written segment by segment into a sparse file, and readers that count what an export of one holds.

#![allow(dead_code, reason = "the test and the example use a part each")]

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use strandline::anchors::ClockAnchor;
use strandline::builder::Builder;
use strandline::header::Header;
use strandline::limits::{
    CELL_BYTES, CELL_WORDS, HEADER_BYTES, LANE_BYTES, SEGMENT_BYTES_MIN, SEGMENT_ENTRY_BYTES,
};
use strandline::record::{Kind, domain, head_word, pair};
use strandline::segment_entry::{SegmentKind, SegmentState, StateWord};
use strandline::{Proof, SessionEnd, Verdict, Work};

/// Lanes of host threads and of the threads that bring device records.
const HOST_LANES: usize = 48;
const DEVICE_LANES: usize = 16;
const LANES: usize = HOST_LANES + DEVICE_LANES;
/// Of so many segments of the file one is used: the others are holes.
const SEGMENT_STRIDE: usize = 4;
/// As the builder makes them.
const SEGMENT_BYTES: usize = SEGMENT_BYTES_MIN;
const SEGMENT_CELLS: usize = SEGMENT_BYTES / CELL_BYTES;
const LAUNCH: u64 = 214 | (domain::RUNTIME as u64) << 16;
const KERNELS: u64 = 40;

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub calls: u64,
    pub kernels: u64,
    pub marks: u64,
    pub arrows: u64,
}

impl Counts {
    pub fn records(&self) -> u64 {
        self.calls + self.kernels + self.marks
    }
}

/// What there is to a group of ten records: six calls, of which three launch a kernel, and a mark.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Correlation ids lie so far apart.
    pub id_step: u64,
    /// Kernels of each launch: more than one make the group larger.
    pub kernels: u64,
    /// Each kernel's issue is recorded too, beside the ten.
    pub issues: bool,
    /// Records of external ids of each call, beside the ten: in the domains 1 to 3 by turns.
    pub externals: u64,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            id_step: 1,
            kernels: 1,
            issues: false,
            externals: 0,
        }
    }
}

impl Shape {
    /// What a region of about `records` records has, issues not counted.
    pub fn counts(self, records: u64) -> Counts {
        let groups = records / (7 + 3 * self.kernels);
        Counts {
            calls: groups * 6,
            kernels: groups * 3 * self.kernels,
            marks: groups,
            arrows: groups * 3 * self.kernels,
        }
    }
}

struct Lane {
    words: Vec<u64>,
    sequence: u32,
}

struct Writer {
    file: File,
    entries: Vec<[u64; SEGMENT_ENTRY_BYTES / 8]>,
    lanes: Vec<Lane>,
    segments_offset: u64,
}

impl Writer {
    fn put(&mut self, lane: usize, kind: Kind, words: &[u64]) -> io::Result<()> {
        let cells = kind.cells().max(1);
        if self.lanes[lane].words.len() + cells * CELL_WORDS > SEGMENT_CELLS * CELL_WORDS {
            self.seal(lane)?;
        }
        let into = &mut self.lanes[lane].words;
        let end = into.len() + cells * CELL_WORDS;
        into.push(head_word(kind, cells, 0, 1));
        into.extend_from_slice(words);
        into.resize(end, 0);
        Ok(())
    }

    fn seal(&mut self, lane: usize) -> io::Result<()> {
        let words = std::mem::take(&mut self.lanes[lane].words);
        self.lanes[lane].sequence += 1;
        let sequence = self.lanes[lane].sequence;
        self.segment(lane as u16, SegmentKind::Records, sequence, &words)
    }

    fn segment(
        &mut self,
        lane: u16,
        kind: SegmentKind,
        sequence: u32,
        words: &[u64],
    ) -> io::Result<()> {
        if words.is_empty() {
            return Ok(());
        }
        let at = self.entries.len();
        let state = StateWord {
            state: SegmentState::Sealed,
            kind,
            lane,
            generation: 0,
        };
        let mut entry = [0; SEGMENT_ENTRY_BYTES / 8];
        entry[0] = state.pack();
        entry[1] = (words.len() / CELL_WORDS) as u64;
        entry[2] = pair(0, sequence);
        self.entries.push(entry);
        for _ in 1..SEGMENT_STRIDE {
            self.entries.push([0; SEGMENT_ENTRY_BYTES / 8]);
        }
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let offset = self.segments_offset + (at * SEGMENT_BYTES) as u64;
        self.file.write_all_at(&bytes, offset)
    }
}

/// Writes a region of about `records` records: calls of many threads, kernels of many streams, marks, all at the same
/// time, each lane in the order of ends as a tracer writes it.
pub fn write_region(path: &Path, records: u64) -> io::Result<Counts> {
    write_shape(path, records, Shape::default())
}

/// As [`write_region`], of another shape.
pub fn write_shape(path: &Path, records: u64, shape: Shape) -> io::Result<Counts> {
    let mut facts = Builder::new();
    facts.header_mut().vendor = 1;
    facts.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    facts.operation(domain::RUNTIME, 214, "hipLaunchKernel");
    let name = facts.string(b"a mark");
    facts.record(0, Kind::CodeObject, 0, &[1, 0xa0]);
    for id in 0..KERNELS {
        facts.kernel(1 + id, format!("_Z9kernel_{id:02}Pf.kd").as_bytes());
    }
    for stream in 0..DEVICE_LANES as u32 {
        facts.stream(1 + stream, 0x7f00_0000_0000 + u64::from(stream) * 64);
    }
    facts.anchor(ClockAnchor {
        ticks: 0,
        vendor_ns: 0,
        boottime_ns: 63_000_000_000_000,
        monotonic_ns: 62_000_000_000_000,
        monotonic_raw_ns: 62_000_000_000_001,
        realtime_ns: 1_790_000_000_000_000_000,
    });
    facts.session_begin(1, 1_000);
    let counts = shape.counts(records);
    let groups = counts.marks;
    let work = |count| Work {
        issued: count,
        recorded: count,
        retired_without_record: 0,
    };
    facts.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work(counts.kernels),
        begin_ns: 1_000,
        returned_ns: 1 << 60,
        ..SessionEnd::default()
    });
    let facts = facts.bytes();
    let mut header = Header::decode(&facts, facts.len() as u64).expect("a sound region");
    let number = |at: usize| {
        facts
            .get(at..at + 8)
            .and_then(|eight| eight.try_into().ok())
            .map_or(0, u64::from_le_bytes)
    };

    // Room for the tables: cells of all lanes, and one segment more for each lane.
    let cells = counts.records()
        + counts.kernels * if shape.issues { 2 } else { 1 }
        + counts.calls * shape.externals;
    let used = cells.div_ceil(SEGMENT_CELLS as u64 - 1) + LANES as u64 + 8;
    let segments = used * SEGMENT_STRIDE as u64;
    let (old_table, old_segments) = (header.segment_table_offset, header.segments_offset);
    let old_count = header.segment_count;
    header.lane_count = LANES as u32;
    header.segment_count = segments as u32;
    header.lane_table_offset = HEADER_BYTES as u64;
    header.segment_table_offset = (HEADER_BYTES + LANES * LANE_BYTES) as u64;
    header.segments_offset = (header.segment_table_offset + segments * SEGMENT_ENTRY_BYTES as u64)
        .next_multiple_of(4096);
    header.region_bytes = header.segments_offset + segments * SEGMENT_BYTES as u64;
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(path)?;
    file.set_len(header.region_bytes)?;
    file.write_all_at(&header.encode()[..], 0)?;
    let mut out = Writer {
        file,
        entries: Vec::new(),
        lanes: (0..LANES)
            .map(|_| Lane {
                words: Vec::new(),
                sequence: 0,
            })
            .collect(),
        segments_offset: header.segments_offset,
    };
    for segment in 0..u64::from(old_count) {
        let entry = (old_table + segment * SEGMENT_ENTRY_BYTES as u64) as usize;
        let words = number(entry + 8) as usize * CELL_WORDS;
        let start = (old_segments + segment * SEGMENT_BYTES as u64) as usize;
        let words: Vec<u64> = (0..words).map(|at| number(start + at * 8)).collect();
        out.segment(0, SegmentKind::Sticky, segment as u32, &words)?;
    }
    for group in 0..groups {
        let now = 10_000 + group * 2_000;
        for call in 0..6u64 {
            // Threads take turns, so that the times of all lanes are interleaved.
            let thread = ((group * 7 + call * 11) % HOST_LANES as u64) as u32;
            let id = (group * 6 + call + 1) * shape.id_step;
            let start = now + call * 310;
            for number in 0..shape.externals {
                let (domain, external) = (1 + number % 3, id + number);
                let words = [start, 0, id, 0, domain, external, pair(0, 5_000 + thread)];
                out.put(thread as usize, Kind::External, &words)?;
            }
            let words = [
                start,
                start + 290,
                id,
                0,
                LAUNCH,
                0,
                pair(1, 5_000 + thread),
            ];
            out.put(thread as usize, Kind::Api, &words)?;
            let launched = if call % 2 == 0 { shape.kernels } else { 0 };
            for kernel in 0..launched {
                let stream = (group + call) % DEVICE_LANES as u64;
                let dispatch = (group * 3 + call / 2) * shape.kernels + kernel + 1;
                if shape.issues {
                    let place = pair(1 + stream as u32, 5_000 + thread);
                    let words = [start + 100, dispatch, id, 0, 1, 1 + stream % 4, place];
                    out.put(thread as usize, Kind::Enqueue, &words)?;
                }
                let start = start + 4_000 + kernel * 1_510;
                let words = [
                    start,
                    start + 1_500,
                    id,
                    0,
                    dispatch,
                    1 + (group + call) % KERNELS,
                    0,
                    0xa0,
                    1 + stream % 4,
                    pair(1 + stream as u32, 99),
                    pair(256, 1),
                    pair(1, 32_768),
                    pair(1, 1),
                    0,
                    0,
                ];
                let lane = HOST_LANES + stream as usize;
                out.put(lane, Kind::Dispatch, &words)?;
            }
        }
        let thread = (group % HOST_LANES as u64) as u32;
        let words = [now + 305, 0, 0, 0, 0, name, pair(0, 5_000 + thread)];
        out.put(thread as usize, Kind::Mark, &words)?;
    }
    for lane in 0..LANES {
        out.seal(lane)?;
    }
    assert!(out.entries.len() as u64 <= segments, "the tables have room");
    let table: Vec<u8> = out
        .entries
        .iter()
        .flatten()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    out.file.write_all_at(&table, header.segment_table_offset)?;
    Ok(counts)
}

#[derive(serde::Deserialize)]
struct Event<'a> {
    ph: &'a str,
    #[serde(default, borrow)]
    cat: Option<&'a str>,
}

#[derive(Default)]
struct Events(Counts, u64);

impl<'de> Deserialize<'de> for Events {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Count;
        impl<'de> Visitor<'de> for Count {
            type Value = Events;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a list of events")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Events, A::Error> {
                let mut counts = Events::default();
                while let Some(event) = events.next_element::<Event<'de>>()? {
                    counts.1 += 1;
                    match (event.ph, event.cat) {
                        ("X", Some("cuda_runtime")) => counts.0.calls += 1,
                        ("X", Some("kernel")) => counts.0.kernels += 1,
                        ("i", _) => counts.0.marks += 1,
                        ("f", _) => counts.0.arrows += 1,
                        _ => {}
                    }
                }
                Ok(counts)
            }
        }
        deserializer.deserialize_seq(Count)
    }
}

#[derive(serde::Deserialize)]
struct Part {
    #[serde(rename = "traceEvents")]
    events: Events,
    strandline: IgnoredAny,
    #[serde(rename = "deviceProperties")]
    devices: IgnoredAny,
}

/// What the parts of an export to JSON hold, each read by itself with a strict parser, and how many events there are.
pub fn count_json(parts: &[impl AsRef<Path>]) -> (Counts, u64) {
    let (mut sum, mut events) = (Counts::default(), 0);
    for part in parts {
        let path = part.as_ref();
        let text = std::fs::read(path).expect("a part");
        let part: Part = serde_json::from_slice(&text)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let Part {
            events: Events(counts, all),
            strandline: _,
            devices: _,
        } = part;
        assert!(
            counts.records() > 0,
            "{}: a part has events",
            path.display()
        );
        sum.calls += counts.calls;
        sum.kernels += counts.kernels;
        sum.marks += counts.marks;
        sum.arrows += counts.arrows;
        events += all;
    }
    (sum, events)
}

/// What the parts of an export to Perfetto's protobuf hold. Marks and calls are told apart by their event type; an arrow is
/// where a part has a call and the work that it names.
pub fn count_perfetto(parts: &[impl AsRef<Path>]) -> Counts {
    let mut sum = Counts::default();
    for part in parts {
        let bytes = std::fs::read(part).expect("a trace");
        let (mut rest, before) = (&bytes[..], sum.records());
        // What the calls name, and what there is.
        let (mut named, mut ids) = (Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (number, mut packet) = field(&mut rest);
            assert_eq!(number, 1);
            while !packet.is_empty() {
                match field(&mut packet) {
                    (53, mut stage) => {
                        sum.kernels += 1;
                        while !stage.is_empty() {
                            if let (1, mut id) = field(&mut stage) {
                                ids.push(varint(&mut id));
                            }
                        }
                    }
                    (11, mut event) => {
                        while !event.is_empty() {
                            match field(&mut event) {
                                // The type: begin and instant.
                                (9, [1]) => sum.calls += 1,
                                (9, [3]) => sum.marks += 1,
                                (3000, mut work) => {
                                    while !work.is_empty() {
                                        if let (1, mut id) = field(&mut work) {
                                            named.push(varint(&mut id));
                                        }
                                    }
                                }
                                _ => {}
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        ids.sort_unstable();
        let found = named.iter().filter(|id| ids.binary_search(id).is_ok());
        sum.arrows += found.count() as u64;
        assert!(sum.records() > before, "a part has events");
    }
    sum
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let (mut value, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = bytes.split_first().expect("a varint ends");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            return value;
        }
    }
}

/// A field's number and its bytes: a varint's own, or what has a length.
fn field<'a>(bytes: &mut &'a [u8]) -> (u64, &'a [u8]) {
    let tag = varint(bytes);
    let before = *bytes;
    let length = match tag & 7 {
        0 => {
            varint(bytes);
            return (tag >> 3, &before[..before.len() - bytes.len()]);
        }
        1 => 8,
        2 => varint(bytes) as usize,
        5 => 4,
        other => panic!("wire type {other}"),
    };
    let (value, rest) = bytes.split_at(length);
    *bytes = rest;
    (tag >> 3, value)
}
