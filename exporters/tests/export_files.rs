//! Files appear whole or not at all: parts, compression, copies of regions, and what happens when something is in the way.

mod export_support;

use std::io::Read;

use export_support::*;
use strandline::record::Kind;
use strandline::{Trace, report};
use strandline_exporters::{ExportError, Format, Options, export, export_to};

fn many(count: u64) -> Trace {
    let mut region = region();
    for id in 1..=count {
        let start = 2_000 + id * 100;
        launch(&mut region, (id % 3) as u16, id, start, start + 50);
        dispatch(
            &mut region,
            3,
            Dispatch {
                id,
                correlation: id,
                start: start + 20_000,
                end: start + 20_090,
                kernel: 1 + id % 2,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, count, 0, 2_000 + count * 100 + 100_000);
    region.trace()
}

#[test]
fn parts_load_by_themselves_and_lose_nothing() {
    let trace = many(4_000);
    let folder = Folder::new();
    let path = folder.file("out.json");
    let options = Options {
        part_bytes_max: Some(400_000),
        ..Options::default()
    };
    let report = export(&[trace], &path, &options).unwrap();
    assert!(report.files.len() > 3, "{:?}", report.files);
    assert_eq!(report.files[0], path);
    assert_eq!(report.files[1], folder.file("out.part2.json"));
    assert_eq!(folder.names().len(), report.files.len());
    let (mut kernels, mut calls, mut drawn) = (Vec::new(), Vec::new(), 0);
    for file in &report.files {
        let text = std::fs::read(file).unwrap();
        assert!(text.len() <= 400_000, "{} bytes", text.len());
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        check_rules(&value);
        drawn += arrows(&value).len() as u64;
        for (cat, ids) in [("kernel", &mut kernels), ("cuda_runtime", &mut calls)] {
            ids.extend(
                of(&value, cat)
                    .iter()
                    .map(|event| event["args"]["correlation"].as_u64().unwrap()),
            );
        }
        assert_eq!(
            value["traceName"],
            file.file_name().unwrap().to_str().unwrap()
        );
        assert!(events(&value).iter().any(|event| event["name"] == "thread_name" && event["args"]["name"] == "stream 1 "));
        assert_eq!(
            value["strandline"]["processes"][0]["sessions"][0]["verdict"],
            "complete"
        );
    }
    kernels.sort_unstable();
    calls.sort_unstable();
    assert_eq!(kernels, (1..=4_000).collect::<Vec<u64>>());
    assert_eq!(calls, kernels);
    assert_eq!(drawn, report.arrows);
    assert_eq!(report.before_launch, 0);
}

#[test]
fn a_shorter_export_with_force_leaves_no_part_of_a_longer_one() {
    let folder = Folder::new();
    let path = folder.file("out.json");
    let options = Options {
        part_bytes_max: Some(400_000),
        force: true,
        ..Options::default()
    };
    export(&[many(4_000)], &path, &options).unwrap();
    assert!(folder.names().len() > 3);
    export(&[many(10)], &path, &options).unwrap();
    assert_eq!(folder.names(), ["out.json"]);
}

#[test]
fn compressed_json_holds_the_same_bytes() {
    let trace = many(20_000);
    let folder = Folder::new();
    let (plain, report) = export_named(std::slice::from_ref(&trace), &folder, "out.json");
    let (packed, _) = export_named(&[trace], &folder, "out.json.gz");
    let plain = std::fs::read_to_string(plain).unwrap();
    assert_eq!(report.bytes, plain.len() as u64);
    let mut text = String::new();
    flate2::read::GzDecoder::new(std::fs::File::open(packed).unwrap())
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text.replace("out.json.gz", "out.json"), plain);
}

#[test]
fn nothing_is_replaced_without_force_and_nothing_is_left_behind() {
    let folder = Folder::new();
    for name in ["out.json", "out.json.gz", "out.pftrace", "out.slt"] {
        let region = folder.file("in.slt");
        std::fs::write(&region, b"").unwrap();
        let path = folder.file(name);
        std::fs::write(&path, b"mine").unwrap();
        let source = folder.file("source.slt");
        std::fs::write(&source, crate::region().bytes()).unwrap();
        let trace = Trace::open(&source).unwrap();
        let error = export(&[trace], &path, &Options::default()).unwrap_err();
        assert!(matches!(error, ExportError::Exists { .. }), "{error}");
        assert!(error.to_string().contains(name), "{error}");
        assert_eq!(std::fs::read(&path).unwrap(), b"mine");
        std::fs::remove_file(&path).unwrap();
    }
    assert_eq!(folder.names(), ["in.slt", "source.slt"]);
}

#[test]
fn a_part_that_is_in_the_way_undoes_the_export() {
    let folder = Folder::new();
    std::fs::write(folder.file("out.part2.json"), b"mine").unwrap();
    let options = Options {
        part_bytes_max: Some(400_000),
        ..Options::default()
    };
    let error = export(&[many(4_000)], &folder.file("out.json"), &options).unwrap_err();
    assert!(error.to_string().contains("out.part2.json"), "{error}");
    assert_eq!(folder.names(), ["out.part2.json"]);
}

#[test]
fn what_cannot_be_written_is_named() {
    let trace = [many(10)];
    let error = export(
        &trace,
        "/nowhere/at/all/out.json".as_ref(),
        &Options::default(),
    )
    .unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("creating /nowhere/at/all/out.json: "),
        "{error}"
    );
    let error = export(&trace, "out.txt".as_ref(), &Options::default()).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(".json, .json.gz, .pftrace or .slt"),
        "{error}"
    );
    let error = export(&[], "out.json".as_ref(), &Options::default()).unwrap_err();
    assert_eq!(error.to_string(), "exporting: no input");
    let error = export(&[many(1), many(1)], "out.slt".as_ref(), &Options::default()).unwrap_err();
    assert!(
        error.to_string().contains("a region is one process"),
        "{error}"
    );
}

/// Refuses everything after some bytes, like a full disk.
struct Full(usize);

impl std::io::Write for Full {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0 == 0 {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_stream_that_is_full_is_an_error() {
    for format in [Format::Json, Format::JsonGz, Format::Perfetto] {
        let error = export_to(
            &[many(4_000)],
            format,
            &mut Full(10_000),
            &Options::default(),
        )
        .unwrap_err();
        assert!(error.to_string().contains("no storage space"), "{error}");
    }
}

#[test]
fn a_stream_gets_the_same_bytes_as_a_file() {
    let folder = Folder::new();
    let trace = [many(100)];
    let (path, _) = export_named(&trace, &folder, "out.pftrace");
    let mut bytes = Vec::new();
    export_to(&trace, Format::Perfetto, &mut bytes, &Options::default()).unwrap();
    assert_eq!(bytes, std::fs::read(path).unwrap());
}

fn contents(trace: &Trace) -> Vec<Vec<u64>> {
    trace
        .entries()
        .map(|entry| entry.record.words().to_vec())
        .collect()
}

#[test]
fn a_copied_region_reads_back_equal() {
    let folder = Folder::new();
    let mut region = region();
    for id in 1..=5_000u64 {
        launch(&mut region, (id % 4) as u16, id, 1_000 + id, 1_001 + id);
        dispatch(
            &mut region,
            5,
            Dispatch {
                id,
                correlation: id,
                ..Dispatch::default()
            },
        );
    }
    close(&mut region, 5_000, 0, 90_000);
    let source = folder.file("in.slt");
    std::fs::write(&source, region.bytes()).unwrap();
    let trace = Trace::open(&source).unwrap();
    let out = folder.file("out.slt");
    let report = export(std::slice::from_ref(&trace), &out, &Options::default()).unwrap();
    assert_eq!(report.files.first(), Some(&out));
    assert_eq!(report.files.len(), 1);
    assert_eq!(report.records, 10_000);
    let copy = Trace::open(&out).unwrap();
    assert_eq!(copy.damage(), []);
    assert_eq!(contents(&copy), contents(&trace));
    assert_eq!(report::sessions(&copy), report::sessions(&trace));
    assert_eq!(copy.header().pid, trace.header().pid);
    // A copy of the copy is the copy.
    let again = folder.file("again.slt");
    export(std::slice::from_ref(&copy), &again, &Options::default()).unwrap();
    assert_eq!(std::fs::read(&again).unwrap(), std::fs::read(&out).unwrap());
}

#[test]
fn a_copy_of_one_session_holds_nothing_of_the_others() {
    let folder = Folder::new();
    let mut region = region();
    region.session_begin(2, 50_000);
    for id in 1..=3_000u64 {
        launch(&mut region, 0, id, 1_000 + id, 1_001 + id);
        region.record(0, Kind::Mark, 2, &[50_000 + id]);
    }
    close(&mut region, 0, 0, 40_000);
    let source = folder.file("in.slt");
    std::fs::write(&source, region.bytes()).unwrap();
    let out = folder.file("out.slt");
    let options = Options {
        session: Some(2),
        ..Options::default()
    };
    export(&[Trace::open(&source).unwrap()], &out, &options).unwrap();
    let copy = Trace::open(&out).unwrap();
    assert_eq!(copy.damage(), []);
    assert_eq!(copy.entries().count(), 3_000);
    assert!(copy.entries().all(|entry| entry.record.session() == 2));
    assert_eq!(report::sessions(&copy).len(), 1);
    assert_eq!(copy.facts().operation_name(1, LAUNCH), "hipLaunchKernel");
}
