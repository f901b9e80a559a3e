//! Acceptance e: real recordings played back through the stand-in SDK come out as they went in.
//!
//! Two small recordings are in `tests/data`; the others are read from `STRANDLINE_DATA`, else from `../shared/data` beside
//! the workspace, and skipped where they are not.

mod support;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use support::{Scratch, Table, at, c, text_at};

const LIMIT: Duration = Duration::from_secs(300);

fn data(name: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = here.join("tests/data").join(Path::new(name).file_name()?);
    if own.is_file() {
        return Some(own);
    }
    let shared = match std::env::var_os("STRANDLINE_DATA") {
        Some(path) => PathBuf::from(path),
        None => here.join("../../../shared/data"),
    };
    let path = shared.join(name);
    if path.is_file() {
        Some(path)
    } else {
        support::skip(&format!("replay of {name}"), "the recording is not here");
        None
    }
}

fn json_gz(path: &Path) -> Value {
    let file = std::fs::File::open(path).expect("opening the recording");
    let mut text = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut text)
        .expect("decompressing the recording");
    serde_json::from_slice(&text).expect("the recording is JSON")
}

/// Plays a recording with all calls traced; the region is in the folder.
fn replay(file: &Path, more: &[&str], scratch: &Scratch) -> PathBuf {
    scratch.clear();
    let region = scratch.path("region.slt");
    let file = file.to_string_lossy();
    let words = [&["replay", &file][..], more].concat();
    let mut command = support::sim(&words, &region, "load");
    command
        .env("STRANDLINE_EXCLUDE_API", "none")
        .env("STRANDLINE_KINDS", "all");
    support::run(&mut command, LIMIT).expect_clean(&words.join(" "));
    region
}

/// Two labellings of the same things are the same up to renaming: how many labels there are.
#[track_caller]
fn same_partition(what: &str, pairs: impl Iterator<Item = (u64, u64)>) -> usize {
    let (mut there, mut back) = (HashMap::new(), HashMap::new());
    for (one, other) in pairs {
        assert_eq!(
            *there.entry(one).or_insert(other),
            other,
            "{what}: {one} was split"
        );
        assert_eq!(
            *back.entry(other).or_insert(one),
            one,
            "{what}: {other} was merged"
        );
    }
    there.len()
}

/// Partial overlaps of neighbours in start order, by queue and stream.
fn overlaps(rows: impl Iterator<Item = (u64, u64, u64)>) -> usize {
    let mut lanes: BTreeMap<u64, Vec<(u64, u64)>> = BTreeMap::new();
    for (lane, start, end) in rows {
        lanes.entry(lane).or_default().push((start, end));
    }
    let mut count = 0;
    for lane in lanes.values_mut() {
        lane.sort_unstable();
        count += lane
            .windows(2)
            .filter(|pair| pair[1].0 < pair[0].1 && pair[1].1 > pair[0].1)
            .count();
    }
    count
}

fn rocprofv3(name: &str, streams: usize, queues: usize) {
    let Some(file) = data(name) else { return };
    let recording = json_gz(&file);
    let tool = &recording["rocprofiler-sdk-tool"][0];
    let symbols: HashMap<u64, &str> = tool["kernel_symbols"]
        .as_array()
        .expect("symbols")
        .iter()
        .filter(|symbol| symbol["kernel_name"].is_string())
        .map(|symbol| (at(symbol, "kernel_id"), text_at(symbol, "kernel_name")))
        .collect();
    let mut want: Vec<&Value> = tool["buffer_records"]["kernel_dispatch"]
        .as_array()
        .expect("dispatches")
        .iter()
        .collect();
    let scratch = Scratch::new("replay");
    let region = replay(&file, &["--late=uniform:0:5ms", "--handlers=2"], &scratch);
    let (summary, code) = support::summary(&region);
    let session = &summary["sessions"][0];
    assert_eq!(text_at(session, "verdict"), "complete", "{session}");
    assert_eq!(code, 0);
    assert_eq!(at(session, "dispatches/recorded"), want.len() as u64);
    for flag in [
        "outside_window",
        "untimed",
        "end_before_start",
        "unknown_stream",
        "no_launch",
    ] {
        assert_eq!(at(session, &format!("flagged/{flag}")), 0, "{flag}");
    }
    let mut have: Vec<Value> = support::dump(&region)
        .into_iter()
        .filter(|record| record["kind"] == "dispatch")
        .collect();
    let key = |start, end, queue, thread| (start, end, queue, thread);
    want.sort_by_key(|row| {
        key(
            at(row, "start_timestamp"),
            at(row, "end_timestamp"),
            at(row, "dispatch_info/queue_id/handle"),
            at(row, "thread_id"),
        )
    });
    have.sort_by_key(|row| {
        key(
            at(row, "start_ns"),
            at(row, "end_ns"),
            at(row, "queue"),
            at(row, "thread"),
        )
    });
    assert_eq!(have.len(), want.len());
    for (row, record) in want.iter().zip(&have) {
        let what = || format!("{row}\n{record}");
        for (field, path) in [
            ("start_ns", "start_timestamp"),
            ("end_ns", "end_timestamp"),
            ("thread", "thread_id"),
            ("queue", "dispatch_info/queue_id/handle"),
        ] {
            assert_eq!(at(record, field), at(row, path), "{field}: {}", what());
        }
        for (field, path) in [("grid", "grid_size"), ("block", "workgroup_size")] {
            for (index, axis) in ["x", "y", "z"].iter().enumerate() {
                assert_eq!(
                    at(record, &format!("{field}/{index}")),
                    at(row, &format!("dispatch_info/{path}/{axis}")),
                    "{}",
                    what()
                );
            }
        }
        let symbol = symbols[&at(row, "dispatch_info/kernel_id")];
        let name = symbol.strip_suffix(".kd").unwrap_or(symbol);
        assert_eq!(text_at(record, "kernel"), name);
    }
    let rows = || want.iter().zip(&have);
    let agents = same_partition(
        "agents",
        rows().map(|(row, record)| {
            (
                at(row, "dispatch_info/agent_id/handle"),
                at(record, "agent"),
            )
        }),
    );
    let streams_seen = same_partition(
        "streams",
        rows().map(|(row, record)| (at(row, "stream_id/handle"), at(record, "stream"))),
    );
    assert_eq!(streams_seen, streams);
    let queues_seen: HashSet<u64> = have.iter().map(|record| at(record, "queue")).collect();
    assert_eq!(queues_seen.len(), queues);
    let overlapping = overlaps(have.iter().map(|record| {
        (
            at(record, "queue"),
            at(record, "start_ns"),
            at(record, "end_ns"),
        )
    }));
    let names = check_demangled(&summary);
    support::say(&format!(
        "acceptance e, {name}: {} dispatches equal, {agents} agent, {queues} queues, {streams_seen} streams, \
         {overlapping} overlaps of neighbours on a queue, {names}",
        have.len()
    ));
}

/// Demangled names against binutils' c++filt; the exceptions are listed.
fn check_demangled(summary: &Value) -> String {
    if !c::there_is("c++filt") {
        return "names not compared: no c++filt".to_owned();
    }
    let kernels = summary["kernels"].as_array().expect("kernels");
    let mangled: Vec<&str> = kernels
        .iter()
        .map(|kernel| text_at(kernel, "mangled"))
        .collect();
    let mut child = Command::new("c++filt")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("running c++filt");
    let mut input = child.stdin.take().expect("piped");
    let text = mangled.join("\n") + "\n";
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().expect("c++filt's output");
    writer
        .join()
        .expect("the writer")
        .expect("writing to c++filt");
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let demangled: Vec<&str> = output.lines().collect();
    assert_eq!(demangled.len(), kernels.len());
    let mut different = 0;
    for (kernel, filtered) in kernels.iter().zip(&demangled) {
        if text_at(kernel, "name") != *filtered {
            different += 1;
            support::say(&format!(
                "exception: {}\n  c++filt: {filtered}",
                kernel["name"]
            ));
        }
    }
    assert_eq!(different, 0, "names that differ from c++filt's");
    format!("{} names as c++filt writes them", kernels.len())
}

#[test]
fn mi350x_400() {
    rocprofv3(
        "amd-rocprofv3/mi350x_kernel_dispatch_400.results.json.gz",
        6,
        5,
    );
}

#[test]
fn mi350x_43915() {
    rocprofv3(
        "amd-rocprofv3/mi350x_kernel_dispatch_43915.results.json.gz",
        567,
        5,
    );
}

/// A row of a kineto trace, as times in ns.
struct Row<'a> {
    event: &'a Value,
    start: u64,
    end: u64,
}

impl Row<'_> {
    fn correlation(&self) -> Option<u64> {
        self.event
            .pointer("/args/correlation")
            .and_then(Value::as_u64)
    }
}

fn kineto(file: &Path, speed: &str, table: &mut Table) {
    let name = file
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_default();
    let recording = json_gz(file);
    let base = recording["baseTimeNanoseconds"].as_u64().unwrap_or(0);
    let events = recording["traceEvents"].as_array().expect("events");
    let rows = |categories: &[&str]| -> Vec<Row<'_>> {
        events
            .iter()
            .filter(|event| event["ph"] == "X")
            .filter(|event| categories.iter().any(|&category| event["cat"] == category))
            .map(|event| {
                // Three decimals of a microsecond.
                let ns =
                    |field: &str| (event[field].as_f64().expect("a time") * 1000.0).round() as u64;
                let start = base + ns("ts");
                Row {
                    event,
                    start,
                    end: start + ns("dur"),
                }
            })
            .collect()
    };
    let calls = rows(&["cuda_runtime", "cuda_driver", "hip_runtime"]);
    let kernels = rows(&["kernel"]);
    let sets = rows(&["gpu_memset"]);
    let copies = rows(&["gpu_memcpy"]);
    let launches: HashSet<u64> = calls.iter().filter_map(Row::correlation).collect();
    let orphans = [&kernels, &sets, &copies]
        .into_iter()
        .flatten()
        .filter(|row| row.correlation().is_none_or(|id| !launches.contains(&id)))
        .count() as u64;

    let scratch = Scratch::new("kineto");
    let flag = format!("--speed={speed}");
    let more = ["--late=uniform:0:5ms", "--handlers=2", &*flag];
    let region = replay(file, &more, &scratch);
    let (summary, _) = support::summary(&region);
    let session = &summary["sessions"][0];
    let what = |path: &str| format!("{name}: {path}: {session}");
    assert_eq!(
        text_at(session, "verdict"),
        "complete",
        "{}",
        what("verdict")
    );
    for (path, count) in [
        ("dispatches/recorded", kernels.len() + sets.len()),
        ("copies/recorded", copies.len()),
    ] {
        assert_eq!(at(session, path), count as u64, "{}", what(path));
    }
    assert_eq!(
        at(session, "flagged/no_launch"),
        orphans,
        "{}",
        what("no_launch")
    );
    let records = support::dump(&region);
    let of = |kind: &'static str| records.iter().filter(move |record| record["kind"] == kind);
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();

    // Times and names of kernels; memsets are fill kernels of the recorded times.
    let mut want: Vec<(u64, u64, String)> = kernels
        .iter()
        .map(|row| (row.start, row.end, text(&row.event["name"])))
        .collect();
    let fills: HashSet<(u64, u64)> = sets.iter().map(|row| (row.start, row.end)).collect();
    let mut have: Vec<(u64, u64, String)> = Vec::new();
    let mut filled = Vec::new();
    for record in of("dispatch") {
        let (start, end, kernel) = (
            at(record, "start_ns"),
            at(record, "end_ns"),
            text(&record["kernel"]),
        );
        if fills.contains(&(start, end))
            && !want.iter().any(|row| row.0 == start && row.2 == kernel)
        {
            filled.push((start, end));
        } else {
            have.push((start, end, kernel));
        }
    }
    want.sort_unstable();
    have.sort_unstable();
    assert_eq!(have, want, "{name}: kernels");
    let mut fills: Vec<_> = sets.iter().map(|row| (row.start, row.end)).collect();
    fills.sort_unstable();
    filled.sort_unstable();
    assert_eq!(filled, fills, "{name}: memsets");

    let mut want: Vec<(u64, u64)> = copies.iter().map(|row| (row.start, row.end)).collect();
    let mut have: Vec<(u64, u64)> = of("copy")
        .map(|record| (at(record, "start_ns"), at(record, "end_ns")))
        .collect();
    want.sort_unstable();
    have.sort_unstable();
    assert_eq!(have, want, "{name}: copies");

    // Calls by name and thread.
    let mut balance: BTreeMap<(String, u64), i64> = BTreeMap::new();
    for row in &calls {
        let thread = row.event["tid"].as_u64().expect("a thread");
        *balance
            .entry((text(&row.event["name"]), thread))
            .or_default() += 1;
    }
    for record in of("api") {
        let key = (text(&record["name"]), at(record, "thread"));
        *balance.entry(key).or_default() -= 1;
    }
    balance.retain(|_, count| *count != 0);
    assert!(
        balance.is_empty(),
        "{name}: calls that are too few (+) or too many (-): {balance:?}"
    );

    // Arrows go from a launch to its work: none without both ends, none from a launch that was only captured.
    let export = scratch.path("export.json");
    support::strandline(&[
        "export".into(),
        region.clone().into(),
        "-o".into(),
        export.clone().into(),
    ]);
    let exported = std::fs::read(&export).expect("the export");
    let exported: Value = serde_json::from_slice(&exported).expect("strict JSON");
    let flows = |phase: &str| -> Vec<u64> {
        exported["traceEvents"]
            .as_array()
            .expect("events")
            .iter()
            .filter(|event| event["cat"] == "ac2g" && event["ph"] == phase)
            .map(|event| at(event, "id"))
            .collect()
    };
    let (tails, heads) = (flows("s"), flows("f"));
    let joined: Vec<u64> = [&kernels, &sets, &copies]
        .into_iter()
        .flatten()
        .filter_map(Row::correlation)
        .filter(|id| launches.contains(id))
        .collect();
    let launched: HashSet<u64> = joined.iter().copied().collect();
    assert_eq!(
        tails.len(),
        launched.len(),
        "{name}: an arrow starts at each launch that has work, and at no other"
    );
    let starts: HashSet<u64> = tails.iter().copied().collect();
    assert!(
        heads.iter().all(|id| starts.contains(id)),
        "{name}: an arrow without a tail"
    );
    // At full speed our own times of calls, made from the machine's clock, can't follow the recording's jumps: a kernel may
    // then lie before its call, and gets no arrow.
    if speed == "recorded" {
        assert_eq!(
            heads.len(),
            joined.len(),
            "{name}: an arrow to each piece of work with a launch"
        );
    }

    table.row(vec![
        format!("{name}, {speed} speed"),
        at(session, "dispatches/recorded").to_string(),
        copies.len().to_string(),
        calls.len().to_string(),
        orphans.to_string(),
        tails.len().to_string(),
        heads.len().to_string(),
    ]);
}

fn kineto_table() -> Table {
    Table::new(
        "acceptance e: kineto traces made on AMD, replayed",
        &[
            "trace",
            "dispatches",
            "copies",
            "HIP calls",
            "no launch",
            "arrow tails",
            "arrow heads",
        ],
    )
}

#[test]
fn kineto_torch_compile() {
    let Some(file) = data("amd-kineto/mi300x_hip7.2_torch_compile_triton.json.gz") else {
        return;
    };
    let mut table = kineto_table();
    kineto(&file, "full", &mut table);
    kineto(&file, "recorded", &mut table);
    table.print();
}

#[test]
fn kineto_all() {
    let Some(one) = data("amd-kineto/mi300x_hip6.4_resnet_ddp_rank0.json.gz") else {
        return;
    };
    let folder = one.parent().expect("a folder");
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.to_string_lossy().ends_with(".json.gz"))
        .collect();
    files.sort();
    let mut table = kineto_table();
    let mut failures = Vec::new();
    for file in &files {
        let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            kineto(file, "full", &mut table)
        }));
        if let Err(panic) = result {
            let text = panic.downcast_ref::<String>().cloned().unwrap_or_default();
            failures.push(text.chars().take(1500).collect::<String>());
        }
    }
    table.print();
    assert!(
        failures.is_empty(),
        "{} of {} differ:\n{}",
        failures.len(),
        files.len(),
        failures.join("\n\n")
    );
}
