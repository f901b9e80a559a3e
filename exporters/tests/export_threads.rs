//! An export has the same bytes for any number of threads: every kind of record, overlaps, losses, several sessions and
//! processes, several parts, compressed or not.

mod export_support;

use export_support::mixed::{mixed, mixed_in, mixed_of};
use export_support::*;
use strandline::Trace;
use strandline_exporters::{Options, export};

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
        let with = |threads, batch_records_max, table_bytes_max| {
            // Perfetto's format takes about a third of the bytes.
            let share = if name == "out.pftrace" { 3 } else { 1 };
            let options = Options {
                threads,
                batch_records_max,
                table_bytes_max,
                part_bytes_max: Some(part_bytes_max / share),
                ..Options::default()
            };
            files(traces, name, &options)
        };
        let whole = Options::default().table_bytes_max;
        let one = with(1, 1 << 20, whole);
        assert!(one.len() >= parts_min, "{name}: {} parts", one.len());
        for (threads, batch, tables) in [
            (1, 5_000, whole),
            (2, 1 << 20, whole),
            (3, 5_000, whole),
            (8, 1_000, whole),
            (8, 50_000, whole),
            // No table of all launches: each stretch looks up its own.
            (1, 1 << 20, 0),
            (0, 5_000, 0),
            (4, 2_000, 0),
            // Some processes have a table.
            (2, 5_000, 4_000),
        ] {
            assert!(
                with(threads, batch, tables) == one,
                "{name}: {threads} threads, {batch} records, tables of {tables} bytes"
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
    let trace = mixed_of(6_000, 4242, 9).trace();
    same_for_any_number_of_threads(&[trace], 700_000, 8);
}

#[test]
fn arrows_of_parts_lie_in_the_events_of_their_part() {
    let trace = [mixed(6_000, 4242).trace()];
    let folder = Folder::new();
    let options = Options {
        part_bytes_max: Some(300_000),
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
    let traces = [
        mixed_of(1_500, 4242, 9).trace(),
        mixed_of(2_500, 4300, 9).trace(),
    ];
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
        let region = mixed_in(4_000, 4242, 58, segment_bytes);
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
