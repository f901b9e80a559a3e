//! Shared by the export tests: regions made in memory, exports into a folder of their own, and two small readers that
//! share nothing with the writers.

#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod mixed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use strandline::anchors::ClockAnchor;
use strandline::builder::Builder;
use strandline::record::{Kind, api_arg, domain, flag, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work, report};
use strandline_exporters::{ExportReport, Options, export};

/// A folder that goes away with the test.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "strandline-export-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Operation number of `hipLaunchKernel` and others in these tests.
pub const LAUNCH: u16 = 214;
pub const GRAPH_LAUNCH: u16 = 166;
pub const COPY_ASYNC: u16 = 268;

/// Where vendor time 0 lies in REALTIME: 2023-11-14.
pub const UNIX_NS: u64 = 1_700_000_000_000_000_000;
/// Where vendor time 0 lies in BOOTTIME.
pub const BOOT_NS: u64 = 50_000_000;

/// A region with a GPU, names and anchors, and session 1 open from 1,000 on.
pub fn region() -> Builder {
    let mut region = Builder::new();
    region.header_mut().vendor = 1;
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    region.operation(domain::RUNTIME, LAUNCH, "hipLaunchKernel");
    region.operation(domain::RUNTIME, GRAPH_LAUNCH, "hipGraphLaunch");
    region.operation(domain::RUNTIME, COPY_ASYNC, "hipMemcpyAsync");
    region.kernel(1, b"_Z3addPfS_.kd");
    region.kernel(2, b"plain_kernel.kd");
    region.record(0, Kind::CodeObject, 0, &[1, 0xa0]);
    region.record(0, Kind::Queue, 0, &[3, 0xa0]);
    region.stream(1, 0x7f00_0000_0100);
    region.anchor(anchor(0));
    region.session_begin(1, 1_000);
    region
}

/// An anchor of all clocks at vendor time `ns`.
pub fn anchor(ns: u64) -> ClockAnchor {
    ClockAnchor {
        ticks: ns,
        vendor_ns: ns,
        boottime_ns: ns + BOOT_NS,
        monotonic_ns: ns + BOOT_NS - 3_000_000,
        monotonic_raw_ns: ns + BOOT_NS - 3_000_100,
        realtime_ns: ns + UNIX_NS,
    }
}

/// Closes session 1 as complete with what is given.
pub fn close(region: &mut Builder, dispatches: u64, copies: u64, returned_ns: u64) {
    let work = |count| Work {
        issued: count,
        recorded: count,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work(dispatches),
        copies: work(copies),
        begin_ns: 1_000,
        requested_ns: returned_ns - 1,
        returned_ns,
        low_watermark: 1_000_000,
        high_watermark: 1_000_000,
        ..SessionEnd::default()
    });
}

pub fn api(region: &mut Builder, lane: u16, operation: u16, id: u64, start: u64, end: u64) {
    api_on(region, lane, 4242, operation, id, start, end);
}

pub fn api_on(
    region: &mut Builder,
    lane: u16,
    thread: u32,
    operation: u16,
    id: u64,
    start: u64,
    end: u64,
) {
    let op = u64::from(operation) | u64::from(domain::RUNTIME) << 16;
    region.record(
        lane,
        Kind::Api,
        1,
        &[start, end, id, 0, op, 0, pair(1, thread)],
    );
}

/// A launch with its arguments: 4 groups of 64.
pub fn launch(region: &mut Builder, lane: u16, id: u64, start: u64, end: u64) {
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    let mut words = [0u64; 15];
    words[..7].copy_from_slice(&[start, end, id, 0, op, 0, pair(1, 4242)]);
    words[7] = api_arg::LAUNCH;
    words[12] = pair(4, 1);
    words[13] = pair(1, 256);
    words[14] = 64 | 1 << 16 | 1 << 32;
    region.record(lane, Kind::Api, 1, &words);
}

#[derive(Clone, Copy)]
pub struct Dispatch {
    pub id: u64,
    pub correlation: u64,
    pub ancestor: u64,
    pub start: u64,
    pub end: u64,
    pub kernel: u64,
    pub stream: u32,
    pub queue: u64,
    pub agent: u64,
}

impl Default for Dispatch {
    fn default() -> Self {
        Self {
            id: 1,
            correlation: 0,
            ancestor: 0,
            start: 2_000,
            end: 3_000,
            kernel: 1,
            stream: 1,
            queue: 3,
            agent: 0xa0,
        }
    }
}

/// 4 groups of 64 work-items.
pub fn dispatch(region: &mut Builder, lane: u16, dispatch: Dispatch) {
    flagged_dispatch(region, lane, 0, dispatch);
}

pub fn flagged_dispatch(region: &mut Builder, lane: u16, flags: u16, it: Dispatch) {
    let words = [
        it.start,
        it.end,
        it.correlation,
        it.ancestor,
        it.id,
        it.kernel,
        0,
        it.agent,
        it.queue,
        pair(it.stream, 99),
        pair(64, 1),
        pair(1, 256),
        pair(1, 1),
        pair(0, 512),
        0,
    ];
    region.flagged_record(lane, Kind::Dispatch, 1, flags, &words);
}

#[allow(clippy::too_many_arguments, reason = "a record's fields")]
pub fn copy(
    region: &mut Builder,
    lane: u16,
    operation: u64,
    id: u64,
    start: u64,
    end: u64,
    bytes: u64,
    stream: u32,
) {
    let words = [
        start,
        end,
        id,
        0,
        operation,
        bytes,
        0,
        0xc0,
        0xa0,
        pair(stream, 99),
        0,
        0,
    ];
    region.record(lane, Kind::Copy, 1, &words);
}

/// Exports to `name` in `folder`.
pub fn export_named(traces: &[Trace], folder: &Folder, name: &str) -> (PathBuf, ExportReport) {
    let path = folder.file(name);
    let report = export(traces, &path, &Options::default()).unwrap();
    (path, report)
}

/// Exports to JSON and reads it with a strict parser.
pub fn json(traces: &[Trace]) -> (Value, ExportReport) {
    let folder = Folder::new();
    let (path, report) = export_named(traces, &folder, "out.json");
    let text = std::fs::read(&path).unwrap();
    let value = serde_json::from_slice(&text)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&text)));
    (value, report)
}

/// Events of a category, in file order.
pub fn of<'a>(value: &'a Value, category: &str) -> Vec<&'a Value> {
    events(value)
        .iter()
        .filter(|event| event["cat"] == category)
        .collect()
}

pub fn events(value: &Value) -> &Vec<Value> {
    value["traceEvents"].as_array().unwrap()
}

/// Time of an event in ns, from its text: exact.
pub fn ns(value: &Value) -> u64 {
    let text = value.to_string();
    let (whole, part) = text.split_once('.').unwrap_or((&text, "000"));
    // serde_json prints a double in its shortest form: fewer digits are zeros.
    whole.parse::<u64>().unwrap() * 1000 + format!("{part:0<3}").parse::<u64>().unwrap()
}

/// Vendor ns of an event.
pub fn vendor_ns(value: &Value, event: &Value) -> u64 {
    value["baseTimeNanoseconds"].as_u64().unwrap() + ns(&event["ts"]) - UNIX_NS
}

/// Arrows as a viewer draws them: (start pid, tid, time) to (end pid, tid, time), by flow id.
pub fn arrows(value: &Value) -> Vec<(Value, Value)> {
    let mut starts: BTreeMap<u64, &Value> = BTreeMap::new();
    let mut arrows = Vec::new();
    for event in events(value) {
        let id = || event["id"].as_u64().unwrap();
        if event["ph"] == "s" {
            let before = starts.insert(id(), event);
            assert!(before.is_none(), "one start for one id: {event}");
        }
    }
    for event in events(value) {
        if event["ph"] == "f" {
            assert_eq!(event["bp"], "e");
            let start = starts[&event["id"].as_u64().unwrap()];
            assert!(
                ns(&start["ts"]) <= ns(&event["ts"]),
                "an arrow points forwards"
            );
            arrows.push((start.clone(), event.clone()));
        }
    }
    arrows
}

/// What every reader needs of every file: see the checks.
pub fn check_rules(value: &Value) {
    let all = events(value);
    assert_eq!(all[0]["ph"], "M", "the first element is a metadata row");
    let mut rows: BTreeMap<(u64, u64), Vec<(u64, u64)>> = BTreeMap::new();
    for event in all {
        let pid = event["pid"].as_u64().expect("pid is a number");
        let tid = event["tid"].as_u64().expect("tid is a number");
        assert!((1..1 << 31).contains(&pid), "{event}");
        assert!((1..1 << 31).contains(&tid), "{event}");
        assert!(event["name"].is_string(), "{event}");
        match event["ph"].as_str().unwrap() {
            "M" => assert!(event.get("ts").is_none()),
            "X" => {
                assert!(
                    event["args"].is_object() && event["cat"].is_string(),
                    "{event}"
                );
                rows.entry((pid, tid))
                    .or_default()
                    .push((ns(&event["ts"]), ns(&event["dur"])));
                let gpu = ["kernel", "gpu_memcpy"].contains(&event["cat"].as_str().unwrap());
                let stream = &event["args"]["stream"];
                assert_eq!(
                    stream.as_u64().is_some_and(|stream| stream > 0),
                    gpu,
                    "{event}"
                );
                assert_eq!(event["args"]["device"].is_u64(), gpu, "{event}");
                if gpu || event["cat"] == "cuda_runtime" {
                    assert!(event["args"]["correlation"].is_u64(), "{event}");
                }
            }
            "i" | "s" | "f" => {}
            other => panic!("phase {other}"),
        }
    }
    for ((pid, tid), spans) in rows {
        let mut open: Vec<u64> = Vec::new();
        let mut spans = spans;
        spans.sort_by_key(|&(start, length)| (start, std::cmp::Reverse(length)));
        for (start, length) in spans {
            while open.last().is_some_and(|&end| end <= start) {
                open.pop();
            }
            if let Some(&end) = open.last() {
                assert!(start + length <= end, "row {pid}/{tid} nests strictly");
            }
            open.push(start + length);
        }
    }
}

/// A protobuf message, read without knowing its type.
#[derive(Clone, Debug, PartialEq)]
pub enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Field {
    pub fn number(&self) -> u64 {
        match self {
            Self::Number(value) => *value,
            Self::Bytes(_) => panic!("a number"),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(value) => value,
            Self::Number(_) => panic!("bytes"),
        }
    }

    pub fn message(&self) -> Message {
        Message::read(self.bytes())
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.bytes().to_vec()).unwrap()
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Message(pub Vec<(u32, Field)>);

impl Message {
    pub fn read(mut bytes: &[u8]) -> Self {
        let mut fields = Vec::new();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let number = (tag >> 3) as u32;
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => {
                    let (word, rest) = bytes.split_at(8);
                    bytes = rest;
                    Field::Number(u64::from_le_bytes(word.try_into().unwrap()))
                }
                2 => {
                    let length = varint(&mut bytes) as usize;
                    let (inner, rest) = bytes.split_at(length);
                    bytes = rest;
                    Field::Bytes(inner.to_vec())
                }
                other => panic!("wire type {other}"),
            };
            fields.push((number, field));
        }
        Self(fields)
    }

    pub fn all(&self, number: u32) -> impl Iterator<Item = &Field> {
        self.0
            .iter()
            .filter(move |(found, _)| *found == number)
            .map(|(_, field)| field)
    }

    pub fn get(&self, number: u32) -> Option<&Field> {
        self.all(number).last()
    }

    pub fn number(&self, number: u32) -> Option<u64> {
        self.get(number).map(Field::number)
    }

    pub fn message(&self, number: u32) -> Option<Message> {
        self.get(number).map(Field::message)
    }

    pub fn text(&self, number: u32) -> Option<String> {
        self.get(number).map(Field::text)
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0u64;
    for at in 0..10 {
        let byte = bytes[at];
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *bytes = &bytes[at + 1..];
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// A render stage as an importer sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stage {
    pub event_id: u64,
    pub start: u64,
    pub duration: u64,
    pub name: String,
    pub category: u64,
    pub queue: String,
    pub pid: u64,
    pub api: u64,
    pub gpu_id: u64,
    pub kernel: Option<(String, String, String)>,
    pub args: BTreeMap<String, String>,
    pub grid: Vec<u64>,
    pub block: Vec<u64>,
}

/// A span or instant on a track.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slice {
    pub track: u64,
    pub start: u64,
    pub end: Option<u64>,
    pub name: String,
    pub submits: Vec<u64>,
    pub waits: Vec<u64>,
    pub annotations: BTreeMap<String, String>,
}

/// A file as an importer sees it; every rule that would lose something silently is asserted on the way.
#[derive(Debug, Default)]
pub struct Imported {
    pub stages: Vec<Stage>,
    pub slices: Vec<Slice>,
    pub tracks: BTreeMap<u64, Message>,
    pub counters: BTreeMap<String, Vec<(u64, u64)>>,
    pub attributes: BTreeMap<String, String>,
    pub gpus: Vec<Message>,
    pub snapshots: Vec<(u64, BTreeMap<u64, u64>)>,
    pub sequences: Vec<u64>,
    pub lost: u64,
    pub memory: Vec<(u64, u64, u64, u64)>,
    pub uuids: Vec<(u64, u64)>,
}

impl Imported {
    pub fn thread_of(&self, slice: &Slice) -> (u64, u64, String) {
        let track = &self.tracks[&slice.track];
        let track = match track.message(4) {
            Some(thread) => thread,
            None => self.tracks[&track.number(5).unwrap()].message(4).unwrap(),
        };
        (
            track.number(1).unwrap(),
            track.number(2).unwrap(),
            track.text(5).unwrap(),
        )
    }

    /// Launch and stage of each arrow, by index.
    pub fn arrows(&self) -> Vec<(usize, usize)> {
        let mut arrows = Vec::new();
        for (at, slice) in self.slices.iter().enumerate() {
            for id in &slice.submits {
                let found: Vec<usize> = (0..self.stages.len())
                    .filter(|&stage| self.stages[stage].event_id == *id)
                    .collect();
                assert_eq!(found.len(), 1, "event id {id} names one stage");
                arrows.push((at, found[0]));
            }
        }
        arrows
    }
}

#[derive(Default)]
struct Sequence {
    clock: Option<u64>,
    track: Option<u64>,
    interned: BTreeMap<(u32, u64), Message>,
}

/// Reads a file as the importer does. Panics where the importer would drop or bend something.
pub fn import(bytes: &[u8]) -> Imported {
    assert!(
        bytes.first().is_none_or(|&byte| byte == 0x0a),
        "sniffed by its first byte"
    );
    let mut out = Imported::default();
    let mut sequences: BTreeMap<u64, Sequence> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let packets: Vec<Message> = Message::read(bytes)
        .0
        .iter()
        .map(|(number, field)| {
            assert_eq!(*number, 1);
            field.message()
        })
        .collect();
    // Track events are paired by time, in file order where times are equal.
    let mut track_events: Vec<(u64, usize, u64, Message, u64)> = Vec::new();
    for (at, packet) in packets.iter().enumerate() {
        let id = packet.number(10).expect("every packet has a sequence");
        assert!(id > 0 && id < 1 << 32);
        let flags = packet.number(13).unwrap();
        if !out.sequences.contains(&id) {
            assert_eq!(
                flags & 1,
                1,
                "the first packet of a sequence clears its state"
            );
            out.sequences.push(id);
        }
        if flags & 1 != 0 {
            sequences.insert(id, Sequence::default());
        } else {
            assert_eq!(flags, 2);
        }
        let sequence = sequences.get_mut(&id).unwrap();
        if let Some(defaults) = packet.message(59) {
            sequence.clock = defaults.number(58);
            sequence.track = defaults.message(11).and_then(|event| event.number(11));
        }
        if let Some(interned) = packet.message(12) {
            for (number, field) in &interned.0 {
                let message = field.message();
                let iid = message.number(1).expect("interned messages have an iid");
                assert!(iid > 0);
                let space = if *number == 24 { 24 } else { *number };
                let before = sequence.interned.insert((space, iid), message);
                assert!(
                    before.is_none(),
                    "iid {iid} of field {number} is defined once"
                );
            }
        }
        let named = |number: u32, iid: u64| -> String {
            let message = &sequence.interned[&(number, iid)];
            message.text(2).unwrap()
        };
        if let Some(snapshot) = packet.message(6) {
            let mut clocks = BTreeMap::new();
            for clock in snapshot.all(1) {
                let clock = clock.message();
                clocks.insert(clock.number(1).unwrap(), clock.number(2).unwrap());
            }
            assert!(clocks.contains_key(&6));
            out.snapshots.push((id, clocks));
        }
        let time = packet.number(8);
        if let Some(time) = time {
            assert_eq!(sequence.clock, Some(6), "every time has a clock");
            assert!(
                !out.snapshots.is_empty(),
                "a snapshot comes before the first time"
            );
            assert!(time < 1 << 63);
        }
        if let Some(descriptor) = packet.message(60) {
            let uuid = descriptor.number(1).unwrap();
            assert_ne!(uuid, 0);
            let before = out.tracks.insert(uuid, descriptor.clone());
            assert!(before.is_none_or(|before| before == descriptor));
        }
        if let Some(info) = packet.message(128) {
            out.gpus = info.all(1).map(Field::message).collect();
        }
        if let Some(attributes) = packet.message(126) {
            for attribute in attributes.all(1) {
                let attribute = attribute.message();
                let value = attribute
                    .text(3)
                    .unwrap_or_else(|| attribute.number(2).unwrap().to_string());
                let before = out.attributes.insert(attribute.text(1).unwrap(), value);
                assert!(before.is_none());
            }
        }
        if let Some(uuid) = packet.message(89) {
            out.uuids
                .push((uuid.number(1).unwrap(), uuid.number(2).unwrap()));
        }
        if let Some(stats) = packet.message(35) {
            for buffer in stats.all(1) {
                out.lost += buffer.message().number(19).unwrap_or(0);
            }
        }
        if let Some(memory) = packet.message(71) {
            let number = |at| memory.number(at).unwrap();
            out.memory
                .push((time.unwrap(), number(1), number(2), number(3)));
        }
        if let Some(event) = packet.message(53) {
            let spec = |iid: u64| &sequence.interned[&(24, iid)];
            let context = &sequence.interned[&(23, event.number(5).unwrap())];
            let stage = spec(event.number(14).unwrap());
            let mut it = Stage {
                event_id: event.number(1).expect("an event without id is dropped"),
                start: time.unwrap(),
                duration: event.number(2).unwrap(),
                name: named(2, event.number(20).unwrap()),
                category: stage.number(4).unwrap(),
                queue: spec(event.number(13).unwrap()).text(2).unwrap(),
                pid: context.number(2).unwrap(),
                api: context.number(3).unwrap(),
                gpu_id: event.number(11).unwrap(),
                ..Stage::default()
            };
            assert!(!it.name.is_empty());
            let take = |it: &mut Stage, arg: &Field| {
                let arg = arg.message();
                let name = named(1001, arg.number(1).unwrap());
                let value = if let Some(number) = arg.number(4) {
                    number.to_string()
                } else if let Some(iid) = arg.number(7) {
                    named(29, iid)
                } else {
                    arg.text(6).unwrap()
                };
                it.args.insert(name, value);
            };
            if let Some(iid) = event.number(19) {
                let kernel = &sequence.interned[&(1000, iid)];
                for arg in kernel.all(5) {
                    take(&mut it, arg);
                }
                it.kernel = Some((
                    kernel.text(2).unwrap(),
                    kernel.text(3).unwrap(),
                    kernel.text(4).unwrap_or_default(),
                ));
            }
            let launch = event.message(21).unwrap();
            for arg in launch.all(3) {
                take(&mut it, arg);
            }
            let size = |number| {
                launch.message(number).map_or(Vec::new(), |size| {
                    (1..=3).map(|axis| size.number(axis).unwrap()).collect()
                })
            };
            (it.grid, it.block) = (size(1), size(2));
            for key in ["device", "stream"] {
                it.args[key].parse::<u32>().expect("an integer");
            }
            out.stages.push(it);
        }
        if let Some(event) = packet.message(11) {
            let track = event
                .number(11)
                .or(sequence.track)
                .expect("every event has a track");
            // Resolved here: the state may be another later.
            let mut event = event;
            if let Some(iid) = event.number(10) {
                let name = named(2, iid);
                event.0.push((23, Field::Bytes(name.into_bytes())));
            }
            for (number, field) in event.0.clone() {
                if number == 4 {
                    let annotation = field.message();
                    let name = named(3, annotation.number(1).unwrap());
                    let value = annotation
                        .number(3)
                        .or(annotation.number(4))
                        .or(annotation.number(2))
                        .map_or_else(|| annotation.text(6).unwrap(), |value| value.to_string());
                    event
                        .0
                        .push((9000, Field::Bytes(format!("{name}={value}").into_bytes())));
                }
            }
            track_events.push((
                time.expect("track events have a time"),
                at,
                track,
                event,
                id,
            ));
        }
    }
    track_events.sort_by_key(|(time, at, ..)| (*time, *at));
    for (time, _, track, event, _) in track_events {
        assert!(out.tracks.contains_key(&track), "the track is described");
        let name = event.text(23);
        match event.number(9).unwrap() {
            4 => {
                let name = out.tracks[&track].text(2).unwrap();
                out.counters
                    .entry(name)
                    .or_default()
                    .push((time, event.number(30).unwrap()));
            }
            2 => {
                let slice = open
                    .get_mut(&track)
                    .and_then(Vec::pop)
                    .expect("an end has a begin");
                out.slices[slice].end = Some(time);
                if let Some(list) = event.message(3000) {
                    out.slices[slice].waits = list.all(2).map(Field::number).collect();
                }
            }
            kind => {
                let submits = event
                    .message(3000)
                    .map_or(Vec::new(), |list| list.all(1).map(Field::number).collect());
                let annotations = event
                    .all(9000)
                    .map(|text| {
                        let text = text.text();
                        let (name, value) = text.split_once('=').unwrap();
                        (name.to_owned(), value.to_owned())
                    })
                    .collect();
                if kind == 1 {
                    open.entry(track).or_default().push(out.slices.len());
                }
                out.slices.push(Slice {
                    track,
                    start: time,
                    end: (kind == 3).then_some(time),
                    name: name.expect("a slice has a name"),
                    submits,
                    waits: Vec::new(),
                    annotations,
                });
            }
        }
    }
    assert!(open.values().all(Vec::is_empty), "every begin has an end");
    for track in out.tracks.values() {
        if let Some(parent) = track.number(5) {
            assert!(out.tracks.contains_key(&parent), "parents are described");
        }
    }
    out
}

/// Exports to Perfetto and reads it as the importer does.
pub fn perfetto(traces: &[Trace]) -> (Imported, ExportReport) {
    let folder = Folder::new();
    let (path, report) = export_named(traces, &folder, "out.pftrace");
    (import(&std::fs::read(path).unwrap()), report)
}

/// What a training step looks like to a tracer: annotated steps on one thread, plain launches and copies on two streams,
/// and graph launches of 36 kernels, on a device that is always a little behind. No two spans of a stream overlap.
pub fn mix(steps: u64, launches: u64, graphs: u64) -> Builder {
    let mut region = region();
    region.record(0, Kind::Stream, 0, &[2, 0x7f00_0000_0200]);
    for at in 0..12u64 {
        let mangled = format!("_Z{}step_kernel_{at:02}PfS_i.kd", 14);
        region.kernel(100 + at, mangled.as_bytes());
    }
    let range = |region: &mut Builder, name: &str, start: u64, end: u64| {
        let name = region.string(name.as_bytes());
        region.record(
            0,
            Kind::Range,
            1,
            &[start, end, 0, 0, 0, name, pair(0, 4242)],
        );
    };
    let (mut now, mut id, mut dispatches, mut copies) = (10_000u64, 0u64, 0u64, 0u64);
    let mut free = [0u64; 3];
    for step in 0..steps {
        let begun = now;
        for at in 0..launches {
            id += 1;
            let stream = 1 + (at % 5 == 4) as u32;
            let copied = at % 9 == 8;
            let operation = if copied { COPY_ASYNC } else { LAUNCH };
            api(&mut region, 0, operation, id, now, now + 2_345);
            let start = (now + 6_001).max(free[stream as usize] + 700);
            let length = 1_501 + (at * 977) % 7_001;
            free[stream as usize] = start + length;
            if copied {
                copies += 1;
                copy(
                    &mut region,
                    1,
                    2 + at % 2,
                    id,
                    start,
                    start + length,
                    4096 * (at + 1),
                    stream,
                );
            } else {
                dispatches += 1;
                region.record(
                    0,
                    Kind::Enqueue,
                    1,
                    &[
                        now + 900,
                        dispatches,
                        id,
                        0,
                        100 + at % 12,
                        3,
                        pair(stream, 4242),
                    ],
                );
                dispatch(
                    &mut region,
                    1,
                    Dispatch {
                        id: dispatches,
                        correlation: id,
                        start,
                        end: start + length,
                        kernel: 100 + at % 12,
                        stream,
                        queue: 3 + u64::from(stream),
                        ..Dispatch::default()
                    },
                );
            }
            now += 4_000;
        }
        for _ in 0..graphs {
            id += 1;
            api(&mut region, 0, GRAPH_LAUNCH, id, now, now + 12_345);
            for node in 0..36 {
                dispatches += 1;
                let start = (now + 9_001).max(free[1] + 300);
                let length = 1_101 + node * 53;
                free[1] = start + length;
                dispatch(
                    &mut region,
                    1,
                    Dispatch {
                        id: dispatches,
                        correlation: id,
                        start,
                        end: start + length,
                        kernel: 100 + node % 12,
                        ..Dispatch::default()
                    },
                );
            }
            now += 20_000;
        }
        now = now.max(free[1]).max(free[2]) + 5_000;
        range(&mut region, &format!("ProfilerStep#{step}"), begun, now);
        now += 1_000;
    }
    close(&mut region, dispatches, copies, now + 1_000_000);
    region
}

/// Calls with external ids of several domains: a launch with all of them, a copy with one, a launch with none.
pub fn externals() -> Builder {
    let mut region = region();
    let external = |region: &mut Builder, id: u64, domain: u64, value: u64| {
        let words = [2_001, 0, id, 0, domain, value, pair(0, 4242)];
        region.record(0, Kind::External, 1, &words);
    };
    let op = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    // Ids are recorded when the call begins, the call when it ends; one comes out of order.
    external(&mut region, 1, 3, u64::MAX);
    region.record(
        0,
        Kind::Api,
        1,
        &[2_000, 2_500, 1, 0, op, 70, pair(1, 4242)],
    );
    external(&mut region, 2, 2, 74);
    external(&mut region, 1, 1, 71);
    // Of no call, and of a domain that does not exist.
    external(&mut region, 0, 1, 75);
    external(&mut region, 3, 9, 76);
    api(&mut region, 0, COPY_ASYNC, 2, 3_000, 3_500);
    api(&mut region, 0, LAUNCH, 3, 4_000, 4_500);
    let words = [5_000, 6_000, 1, 0, 1, 1, 70, 0xa0, 3, pair(1, 99)];
    let shape = [pair(64, 1), pair(1, 256), pair(1, 1), pair(0, 512), 0];
    region.record(1, Kind::Dispatch, 1, &[&words[..], &shape].concat());
    copy(&mut region, 1, 2, 2, 6_000, 7_000, 4096, 1);
    dispatch(
        &mut region,
        1,
        Dispatch {
            id: 2,
            correlation: 3,
            start: 7_000,
            end: 8_000,
            ..Dispatch::default()
        },
    );
    close(&mut region, 2, 1, 9_000);
    region
}

/// Exit code of a script whose reader is not installed.
const SKIPPED: i32 = 77;

/// Runs a script of `tests/python` over an export. False: its reader is not installed, which the test prints.
pub fn run_reader(script: &str, export: &Path, truth: &Path) -> bool {
    let python = std::env::var("STRANDLINE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/python");
    let done = Command::new(&python)
        .arg("-B")
        .arg(folder.join(script))
        .args([export, truth])
        .current_dir(export.parent().unwrap())
        .output();
    let done = match done {
        Ok(done) => done,
        Err(error) => {
            println!("{script}: skipped: {python}: {error}");
            return false;
        }
    };
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{script}:\n{said}{}", String::from_utf8_lossy(&done.stderr));
    if done.status.code() == Some(SKIPPED) {
        return false;
    }
    assert!(done.status.success(), "{script} failed");
    true
}

/// Writes what an export of `trace` must hold, for readers in other languages.
pub fn write_truth(trace: &Trace, path: &Path) {
    write_truths(std::slice::from_ref(trace), path);
}

/// As [`write_truth`], for an export of several processes. What is counted and not drawn is left out.
pub fn write_truths(traces: &[Trace], path: &Path) {
    let lost: u64 = traces
        .iter()
        .flat_map(report::sessions)
        .map(|report| report.lost.total())
        .sum();
    let about = serde_json::json!({"unix_offset": UNIX_NS, "boot_offset": BOOT_NS, "pid": traces[0].header().pid, "lost": lost});
    let mut lines = vec![about];
    for (process, trace) in traces.iter().enumerate() {
        truths_of(trace, process, &mut lines);
    }
    let text: Vec<String> = lines.iter().map(|line| line.to_string() + "\n").collect();
    std::fs::write(path, text.concat()).unwrap();
}

fn truths_of(trace: &Trace, process: usize, lines: &mut Vec<Value>) {
    let facts = trace.facts();
    for entry in trace.entries() {
        let record = entry.record;
        if record.flags() & (flag::UNTIMED | flag::END_BEFORE_START | flag::OUTSIDE_WINDOW) != 0 {
            continue;
        }
        let stream = facts.stream(record.stream());
        let handle = stream.map(|stream| format!("{:#x}", stream.handle));
        let (start, end) = (record.start(), record.end());
        let correlation = record.correlation_id();
        lines.push(match record.kind().unwrap() {
            Kind::Dispatch => {
                let name = String::from_utf8_lossy(facts.kernel_name(record.kernel_id()).unwrap()).into_owned();
                let mangled = name.strip_suffix(".kd").unwrap_or(&name);
                let (grid, block) = (record.grid(), record.block());
                let groups: Vec<u32> = (0..3).map(|axis| grid[axis] / block[axis]).collect();
                serde_json::json!({"kind": "dispatch", "start": start, "end": end, "kernel": mangled,
                    "display": String::from_utf8_lossy(&strandline_exporters::demangle::display_name(name.as_bytes())),
                    "grid": groups, "block": block, "queue": record.queue(), "correlation": correlation,
                    "ancestor": record.ancestor_id(), "process": process,
                    "dispatch": record.dispatch_id(), "stream_handle": handle, "stream_number": record.stream()})
            }
            Kind::Copy => serde_json::json!({"kind": "copy", "start": start, "end": end, "bytes": record.bytes(),
                "correlation": correlation, "ancestor": record.ancestor_id(), "process": process,
                "stream_number": record.stream()}),
            Kind::Api => serde_json::json!({"kind": "api", "start": start, "end": end, "correlation": correlation,
                "process": process,
                "name": facts.operation_name(record.domain(), record.operation() as u16), "thread": record.thread()}),
            Kind::Range => serde_json::json!({"kind": "range", "start": start, "end": end,
                "name": facts.text(record.name_id()), "thread": record.thread()}),
            _ => continue,
        });
    }
}

/// 2,000 kernels of `length` ns, each of which begins 250 ns before its call: a clock that is off.
pub fn early_work(length: u64) -> Trace {
    let mut region = region();
    for id in 1..=2_000u64 {
        let start = 2_000 + id * 100;
        launch(&mut region, 0, id, start + 250, start + 255);
        let it = Dispatch {
            id,
            correlation: id,
            start,
            end: start + length,
            ..Dispatch::default()
        };
        dispatch(&mut region, 1, it);
    }
    close(&mut region, 2_000, 0, 600_000);
    region.trace()
}
