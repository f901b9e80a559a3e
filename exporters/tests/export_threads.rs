//! An export has the same bytes for any number of threads: every kind of record, overlaps, losses, several sessions and
//! processes, several parts, compressed or not.

mod export_support;

use export_support::*;
use strandline::builder::Builder;
use strandline::limits::SEGMENT_BYTES_MIN;
use strandline::loss::{LossReason, Losses};
use strandline::record::{Kind, api_arg, domain, flag, head_word, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};
use strandline_exporters::{Options, export};

const WAIT: u16 = 300;

/// A program that does everything that shows in an export, in `count` rounds. Records lie in any order.
fn mixed(count: u64, pid: u32) -> Builder {
    mixed_in(count, pid, SEGMENT_BYTES_MIN)
}

/// As [`mixed`], in segments of that size.
fn mixed_in(count: u64, pid: u32, segment_bytes: usize) -> Builder {
    let mut region = region();
    region.header_mut().segment_bytes = segment_bytes as u32;
    region.header_mut().pid = pid;
    region.operation(domain::RUNTIME, WAIT, "hipStreamSynchronize");
    region.operation(domain::RUNTIME, WAIT + 1, "hipDeviceSynchronize");
    for id in 3..60 {
        region.kernel(id, format!("_Z{}kernel_{id:02}Pf.kd", 9).as_bytes());
    }
    region.stream(2, 0x7f00_0000_0200);
    let names: Vec<u64> = (0..50)
        .map(|at| region.string(format!("name {at} \"quoted\" \u{e9}").as_bytes()))
        .collect();
    let odd = region.string(b"no utf-8: \xff");
    let mut random = 1u64;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (random >> 33) % below
    };
    for round in 1..=count {
        let (now, id) = (2_000 + round * 5_000, round * 4);
        let thread = 4242 + (round % 5) as u32;
        let lane = (round % 5) as u16;
        if round % 7 == 0 {
            api_on(&mut region, lane, thread, GRAPH_LAUNCH, id, now, now + 900);
        } else {
            launch(&mut region, lane, id, now, now + 700);
        }
        // Calls that overlap the next ones in part, on one thread.
        let overlap = if round % 11 == 0 { 6_000 } else { 300 };
        api_on(
            &mut region,
            lane,
            4242,
            COPY_ASYNC,
            id + 1,
            now + 1_000,
            now + 1_000 + overlap,
        );
        let wait = WAIT + (round % 2) as u16;
        if round % 3 == 0 {
            let op = u64::from(wait) | u64::from(domain::RUNTIME) << 16;
            let mut words = [0u64; 15];
            words[..7].copy_from_slice(&[
                now + 2_000,
                now + 9_500,
                id + 2,
                0,
                op,
                0,
                pair(1, thread),
            ]);
            words[7] = api_arg::BYTES;
            words[8] = round;
            region.record(lane, Kind::Api, 1, &words);
        }
        let works = if round % 7 == 0 { 1 + next(9) } else { 1 };
        for work in 0..works {
            // Some begin before their call, some overlap others of their stream.
            let start = (now + work * 400 + next(3_000)).saturating_sub(500);
            let dispatch_id = round * 16 + work;
            let kernel = 1 + next(58);
            let words = [
                start,
                start + 100 + next(2_500),
                if round % 13 == 0 { id + 3 } else { id },
                if round % 13 == 0 { id } else { 0 },
                dispatch_id,
                kernel,
                0,
                0xa0,
                3 + next(2),
                pair(1 + (round % 2) as u32, 99),
                pair(64, 1),
                pair(1, 256),
                // More shapes of a kernel than are interned.
                pair(1, 1 + next(40) as u32),
                pair(0, 512),
                if round % 7 == 0 {
                    pair(1, work as u32)
                } else {
                    0
                },
            ];
            region.record(8 + (work % 3) as u16, Kind::Dispatch, 1, &words);
            let words = [
                start.saturating_sub(300),
                id,
                dispatch_id,
                0,
                1,
                3,
                pair(1, thread),
            ];
            region.record(lane, Kind::Enqueue, 1, &words);
        }
        copy(
            &mut region,
            9,
            1 + round % 5,
            id + 1,
            now + 3_000,
            now + 3_400,
            round,
            1,
        );
        let name = names[next(50) as usize];
        match round % 9 {
            0 => {
                let words = [now, now + 4_000, 0, 0, 1, name, pair(0, thread)];
                region.record(lane, Kind::Range, 1, &words);
            }
            1 => {
                let words = [now, 0, 0, 0, 1, odd, pair(0, thread)];
                region.record(lane, Kind::Mark, 1, &words);
            }
            2 => {
                let words = [now, 0, 0, 0, round / 9 % 40, name, pair(0, thread)];
                region.record(lane, Kind::RangeStart, 1, &words);
            }
            3 => {
                let words = [now, 0, 0, 0, round / 9 % 40, 0, pair(0, thread)];
                region.record(lane, Kind::RangeStop, 1, &words);
            }
            4 => {
                let free = if round % 2 == 0 { 2 } else { 3 };
                let words = [
                    now,
                    0,
                    id,
                    0,
                    free,
                    round,
                    0,
                    0xa0,
                    0,
                    pair(0, thread),
                    round / 9,
                ];
                region.record(lane, Kind::Alloc, 1, &words);
            }
            5 => {
                let words = [now, now + 10, 0, 0, 1, 64, 3, 0xa0, 0, pair(0, thread)];
                region.record(lane, Kind::Scratch, 1, &words);
            }
            6 => {
                let words = [now, 0, id, 0, 1, round, pair(0, 1)];
                region.record(lane, Kind::External, 1, &words);
            }
            _ => {}
        }
        if round % 97 == 0 {
            flagged_dispatch(
                &mut region,
                10,
                flag::UNKNOWN_STREAM,
                Dispatch {
                    id: round * 16 + 15,
                    start: now,
                    end: now + 50,
                    stream: 0,
                    ..Dispatch::default()
                },
            );
        }
    }
    let mut open = [0u64; 8];
    open[0] = head_word(Kind::OpenCall, 1, flag::OPEN, 1);
    open[1] = 9_000;
    open[3] = 1;
    open[5] = u64::from(LAUNCH) | u64::from(domain::RUNTIME) << 16;
    open[7] = pair(1, 4243);
    region.record(0, Kind::OpenCall, 1, &open[1..]);
    let mut lost = Losses::default();
    lost.0[LossReason::NoSegment as usize] = 7;
    let end = 2_000 + count * 5_000 + 100_000;
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Incomplete,
        proof: Proof::Pairs,
        dispatches: Work {
            issued: count * 20,
            recorded: count,
            retired_without_record: 1,
        },
        lost,
        first_loss_ns: 3_500,
        last_loss_ns: 4_500,
        begin_ns: 1_000,
        requested_ns: end - 1,
        returned_ns: end,
        low_watermark: 90,
        high_watermark: count * 4,
        ..SessionEnd::default()
    });
    region
}

/// The names and bytes of all files of an export.
fn files(traces: &[Trace], name: &str, options: &Options<'_>) -> Vec<(String, Vec<u8>)> {
    let folder = Folder::new();
    let report = export(traces, &folder.file(name), options).unwrap();
    let all: Vec<_> = report
        .files
        .iter()
        .map(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            (name, std::fs::read(file).unwrap())
        })
        .collect();
    assert_eq!(folder.names().len(), all.len());
    all
}

fn same_for_any_number_of_threads(traces: &[Trace], part_bytes_max: u64, parts_min: usize) {
    for name in ["out.json", "out.json.gz", "out.pftrace"] {
        let with = |threads, batch_records_max| {
            let options = Options {
                threads,
                batch_records_max,
                part_bytes_max,
                ..Options::default()
            };
            files(traces, name, &options)
        };
        let one = with(1, 1 << 20);
        if name != "out.pftrace" {
            assert!(one.len() >= parts_min, "{name}: {} parts", one.len());
        }
        for (threads, batch) in [
            (1, 5_000),
            (2, 1 << 20),
            (3, 5_000),
            (8, 1_000),
            (8, 50_000),
        ] {
            assert!(
                with(threads, batch) == one,
                "{name}: {threads} threads, {batch} records"
            );
        }
    }
}

#[test]
fn the_bytes_are_the_same_for_any_number_of_threads() {
    let trace = mixed(12_000, 4242).trace();
    same_for_any_number_of_threads(&[trace], u64::MAX, 1);
}

#[test]
fn parts_end_at_the_same_event_for_any_number_of_threads() {
    let trace = mixed(6_000, 4242).trace();
    same_for_any_number_of_threads(&[trace], 700_000, 8);
}

#[test]
fn arrows_of_parts_lie_in_the_events_of_their_part() {
    let trace = [mixed(6_000, 4242).trace()];
    let folder = Folder::new();
    let options = Options {
        part_bytes_max: 300_000,
        ..Options::default()
    };
    let report = export(&trace, &folder.file("out.json"), &options).unwrap();
    assert!(report.files.len() > 20 && report.before_launch > 100);
    let (mut drawn, mut late) = (0, 0);
    for file in &report.files {
        let value: serde_json::Value =
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        check_rules(&value);
        let row = |event: &serde_json::Value| {
            (
                event["pid"].as_u64().unwrap(),
                event["tid"].as_u64().unwrap(),
            )
        };
        let mut works = std::collections::BTreeMap::new();
        for category in ["kernel", "gpu_memcpy"] {
            for event in of(&value, category) {
                let start = ns(&event["ts"]);
                works.insert((row(event), start), start + ns(&event["dur"]));
            }
        }
        for (start, end) in arrows(&value) {
            let (row, at) = (row(&end), ns(&end["ts"]));
            let (work, until) = works.range(..=(row, at)).next_back().unwrap();
            assert!(work.0 == row && at < *until, "{end}");
            late += u64::from(work.1 < at);
            assert!(ns(&start["ts"]) <= at);
            drawn += 1;
        }
    }
    assert_eq!(drawn, report.arrows);
    assert!(late > 50, "{late} arrows end inside of their event");
}

#[test]
fn several_processes_are_the_same_for_any_number_of_threads() {
    let traces = [mixed(1_500, 4242).trace(), mixed(2_500, 4300).trace()];
    same_for_any_number_of_threads(&traces, 900_000, 3);
}

/// Fails after some bytes, like a full disk.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        match taken {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn an_export_that_fails_in_the_middle_ends_with_all_its_threads() {
    let trace = [mixed(6_000, 4242).trace()];
    for format in [
        strandline_exporters::Format::Json,
        strandline_exporters::Format::Perfetto,
    ] {
        for room in [0, 100_000, 900_000] {
            let options = Options {
                threads: 5,
                batch_records_max: 3_000,
                ..Options::default()
            };
            let mut full = Full(room);
            let error = strandline_exporters::export_to(&trace, format, &mut full, &options);
            let error = error.unwrap_err().to_string();
            assert!(error.contains("no storage space"), "{error}");
        }
    }
}

#[test]
fn another_size_of_segments_gives_the_same_bytes() {
    let folder = Folder::new();
    let words = |trace: &Trace| -> Vec<Vec<u64>> {
        let entries = trace.entries();
        entries.map(|entry| entry.record.words().to_vec()).collect()
    };
    let mut first = None;
    for segment_bytes in [64, 128, 256, 1024].map(|kib| kib << 10) {
        let region = mixed_in(4_000, 4242, segment_bytes);
        let input = folder.file("in.slt");
        std::fs::write(&input, region.bytes()).unwrap();
        let trace = Trace::open(&input).unwrap();
        assert_eq!(trace.header().segment_bytes as usize, segment_bytes);
        assert!(trace.cells() > 16_384, "more than one segment of any size");
        let options = Options {
            force: true,
            ..Options::default()
        };
        let bytes = ["out.json", "out.json.gz", "out.pftrace"].map(|name| {
            let path = folder.file(name);
            export(std::slice::from_ref(&trace), &path, &options).unwrap();
            std::fs::read(path).unwrap()
        });
        let all = words(&trace);
        // A copy keeps the size, and has the same records; those of one session too.
        for session in [None, Some(1)] {
            let path = folder.file("out.slt");
            let options = Options {
                force: true,
                session,
                ..Options::default()
            };
            export(std::slice::from_ref(&trace), &path, &options).unwrap();
            let copy = Trace::open(&path).unwrap();
            assert_eq!(copy.damage(), []);
            assert_eq!(copy.header().segment_bytes as usize, segment_bytes);
            let mut expected = all.clone();
            if session.is_some() {
                // Those of the lane itself belong to none.
                let of_it = |words: &Vec<u64>| [0, 1].contains(&(words[0] >> 32));
                expected.retain(of_it);
            }
            assert!(words(&copy) == expected, "segments of {segment_bytes}");
        }
        let found = (bytes, all);
        assert!(
            *first.get_or_insert_with(|| found.clone()) == found,
            "segments of {segment_bytes}"
        );
    }
}
