//! An export of a region of any size: how long it takes, how much memory beside the mapping, and whether all comes out.
//!
//! `cargo run --release -p strandline-exporters --example export_big -- FOLDER [RECORDS] [THREADS] [json|pftrace|keep|table]
//! [SHAPE [TABLES]]`
//!
//! Writes a sparse region of RECORDS (50,000,000) records to FOLDER, unless it is there, exports it with THREADS (1)
//! threads, reads every part with a strict parser and counts. Prints one JSON object a line. Removes what it wrote, the
//! region only without a format or "keep". 50 M records need 5 GB for the region and 15 GB for the JSON.
//!
//! With "table", THREADS is a list, like `1,2,4,8,16`: exports JSON and Perfetto to a file in FOLDER and to nowhere with
//! each number of threads, each in a process of its own, reads nothing back, and prints one table with the seconds of each
//! phase. The region stays. Where FOLDER is in memory (tmpfs), no disk is measured.
//!
//! SHAPE is `9` for correlation ids that lie nine apart, `9,4` for four kernels a launch besides, `1,4,issues` for issues
//! besides, `1,2,none,3` for three external ids of each call. TABLES is what the tables of ids may have, bytes. The allocator is left as it is: what is measured holds in a host's process.

#[path = "../tests/export_support/big.rs"]
mod big;

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use strandline::Trace;
use strandline_exporters::{Format, Options, Phases, export, export_to};

/// Anonymous memory of this process, bytes: what it has beside mapped files.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

fn cpu_seconds() -> (f64, f64) {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind = stat.rsplit(')').next().unwrap_or("");
    let ticks: Vec<f64> = behind
        .split_whitespace()
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse().ok())
        .collect();
    match ticks[..] {
        [user, system] => (user / 100.0, system / 100.0),
        _ => (0.0, 0.0),
    }
}

/// The highest anonymous memory while `work` runs, looked at every 2 ms.
fn peak_of<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_bytes());
                std::thread::sleep(Duration::from_millis(2));
            }
            peak
        });
        let result = work();
        done.store(true, Ordering::Relaxed);
        (result, watch.join().unwrap_or(0))
    })
}

fn run(traces: &[Trace], out: &Path, threads: usize, written: big::Counts) {
    let options = Options {
        force: true,
        threads,
        ..Options::default()
    };
    let before = cpu_seconds();
    let (begun, baseline) = (Instant::now(), anonymous_bytes());
    let (report, peak) = peak_of(|| export(traces, out, &options).expect("an export"));
    let (wall_s, after) = (begun.elapsed().as_secs_f64(), cpu_seconds());
    let largest = report
        .files
        .iter()
        .filter_map(|file| Some(file.metadata().ok()?.len()))
        .max();
    let json = out.extension().is_some_and(|extension| extension == "json");
    let counts = if json {
        big::count_json(&report.files).0
    } else {
        big::count_perfetto(&report.files)
    };
    // A kernel in another part than its call has no arrow there, and the export says how many these are.
    let whole = big::Counts {
        arrows: counts.arrows + report.cut_arrows,
        ..counts
    } == written;
    println!(
        "{{\"file\":\"{}\",\"threads\":{threads},\"records\":{},\"bytes\":{},\"parts\":{},\"largest_part\":{},\"wall_s\":{wall_s:.2},\"user_s\":{:.2},\"system_s\":{:.2},\"peak_anonymous_bytes\":{peak},\"before_bytes\":{baseline},\"all_there\":{whole},\"arrows\":{},\"arrows_of\":{}}}",
        out.file_name().unwrap_or_default().to_string_lossy(),
        report.records,
        report.bytes,
        report.files.len(),
        largest.unwrap_or(0),
        after.0 - before.0,
        after.1 - before.1,
        counts.arrows,
        written.arrows,
    );
    for file in report.files {
        let _ = std::fs::remove_file(file);
    }
    assert!(whole, "{counts:?} of {written:?}");
}

/// Takes all bytes and keeps none.
struct Nowhere;

impl std::io::Write for Nowhere {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One row of the table.
fn row(
    traces: &[Trace],
    folder: &Path,
    threads: usize,
    name: &str,
    to_file: bool,
    table_bytes_max: u64,
) {
    let format = if name == "json" {
        Format::Json
    } else {
        Format::Perfetto
    };
    let phases = Cell::new(Phases::default());
    let options = Options {
        force: true,
        threads,
        table_bytes_max,
        phases: Some(&|times| phases.set(times)),
        ..Options::default()
    };
    let (before, begun) = (cpu_seconds(), Instant::now());
    let (report, peak) = peak_of(|| {
        if to_file {
            export(traces, &folder.join(format!("big-table.{name}")), &options)
        } else {
            export_to(traces, format, &mut Nowhere, &options)
        }
        .expect("an export")
    });
    let (wall_s, after) = (begun.elapsed().as_secs_f64(), cpu_seconds());
    let phases = phases.get();
    let seconds = [
        phases.first_pass,
        phases.first_pass_shared,
        phases.picking,
        phases.formatting,
        phases.deciding,
        phases.stitching,
        phases.waiting,
    ]
    .map(|phase| format!("{:.2}", phase.as_secs_f64()));
    println!(
        "| {name}, {} | {threads} | {wall_s:.2} | {:.2} | {:.2} | {:.0} | {:.1} | {} | {} |",
        if to_file { "file" } else { "nowhere" },
        after.0 - before.0,
        after.1 - before.1,
        report.bytes as f64 / wall_s / 1e6,
        report.records as f64 / wall_s / 1e6,
        peak >> 20,
        seconds.join(" | "),
    );
    for file in &report.files {
        let _ = std::fs::remove_file(file);
    }
}

/// Each row is a process of its own: what one export leaves in the allocator is not another one's memory.
fn table(folder: &Path, records: u64, threads: &[usize], shape: &str) {
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    println!(
        "{records} records, {cores} cores. Behind the peak memory, seconds: the first pass from begin to end, and the part of \
         it that threads share, summed over them; picking with sorting, and formatting, summed over all threads; deciding, \
         stitching and waiting of the one thread that does these. A file is written by a thread of its own, where there are \
         several.\n"
    );
    println!(
        "| output | threads | wall s | user s | system s | MB/s | M records/s | peak memory MiB | first pass | shared | pick | \
         format | decide | stitch | wait |"
    );
    println!("|{}", "---|".repeat(15));
    let program = std::env::current_exe().expect("this program");
    for output in [
        "json-file",
        "json-nowhere",
        "pftrace-file",
        "pftrace-nowhere",
    ] {
        for threads in threads {
            let status = std::process::Command::new(&program)
                .arg(folder)
                .args([&records.to_string(), &threads.to_string(), output, shape])
                .status();
            assert!(status.is_ok_and(|status| status.success()), "{output}");
        }
    }
}

fn shape_of(text: &str) -> big::Shape {
    let mut parts = text.split(',');
    let mut number = || {
        parts
            .next()
            .map_or(1, |part| part.parse().expect("a number"))
    };
    big::Shape {
        id_step: number(),
        kernels: number(),
        issues: parts.next() == Some("issues"),
        externals: (parts.next()).map_or(0, |part| part.parse().expect("a number")),
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let folder = PathBuf::from(arguments.first().expect("a folder"));
    let number = |at: usize, default: u64| {
        arguments
            .get(at)
            .map_or(default, |text| text.parse().expect("a number"))
    };
    let records = number(1, 50_000_000);
    let threads: Vec<usize> = arguments
        .get(2)
        .map_or("1", String::as_str)
        .split(',')
        .map(|text| text.parse().expect("a number of threads"))
        .collect();
    let only = arguments.get(3).map(String::as_str);
    let shape_text = arguments.get(4).map_or("1", String::as_str);
    let shape = shape_of(shape_text);
    let region = folder.join(format!("big-{records}-{shape_text}.slt"));
    let written = shape.counts(records);
    if !region.exists() {
        let counts = big::write_shape(&region, records, shape).expect("a region");
        assert_eq!(counts, written);
    }
    if only == Some("table") {
        table(&folder, records, &threads, shape_text);
        return;
    }
    let traces = [Trace::open(&region).expect("a region")];
    if let Some((name, to)) = only.and_then(|only| only.split_once('-')) {
        let tables = number(5, Options::default().table_bytes_max);
        row(&traces, &folder, threads[0], name, to == "file", tables);
        return;
    }
    for format in ["json", "pftrace"] {
        if only.is_none_or(|only| only == format) {
            let out = folder.join(format!("big-{records}.{format}"));
            for &threads in &threads {
                run(&traces, &out, threads, written);
            }
        }
    }
    if only.is_none() {
        let _ = std::fs::remove_file(&region);
    }
}
