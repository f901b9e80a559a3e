//! What an export has beside the mapped region, in a host's own process whose allocator is left as it is: a bound, also
//! where the tables that join launches with kernels would take more.
//!
//! What the tests look at is the memory of a whole process.

#[path = "export_support/big.rs"]
mod big;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline::Trace;
use strandline_exporters::{Format, Options, export_to};

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Anonymous memory of this process, bytes: what it has beside mapped files.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let number = line.unwrap().split_whitespace().next().unwrap();
    number.parse::<u64>().unwrap() * 1024
}

/// The highest anonymous memory while `work` runs.
fn peak_of(work: impl FnOnce()) -> u64 {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut peak = 0;
            while !done.load(Ordering::Relaxed) {
                peak = peak.max(anonymous_bytes());
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
            peak
        });
        work();
        done.store(true, Ordering::Relaxed);
        watch.join().unwrap()
    })
}

/// Counts bytes, and hashes them (FNV).
struct Sum(u64, u64);

impl std::io::Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        for &byte in bytes {
            self.1 = (self.1 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What the process of one export is told: the region, the format and the number of threads.
const CASE: &str = "STRANDLINE_TEST_MEMORY_CASE";

/// Prints the peak, and the length and the sum of the bytes. Each export has a process to itself: what an earlier one left in the
/// allocator is not its memory.
#[test]
#[ignore = "the other test runs it"]
fn one_export() {
    let case = std::env::var(CASE).unwrap();
    let [region, format, threads] = case.split(';').collect::<Vec<_>>()[..] else {
        panic!("{case}");
    };
    let format = match format {
        "json" => Format::Json,
        _ => Format::Perfetto,
    };
    let traces = [Trace::open(Path::new(region)).unwrap()];
    let options = Options {
        threads: threads.parse().unwrap(),
        ..Options::default()
    };
    let mut sum = Sum(0, 0);
    let (mut arrows, mut calls) = (0, 0);
    let peak = peak_of(|| {
        let report = export_to(&traces, format, &mut sum, &options).unwrap();
        (arrows, calls) = (report.arrows, report.calls);
    });
    let written = FAR.counts(RECORDS);
    assert_eq!((arrows, calls), (written.arrows, written.calls));
    println!("\npeak {peak} {} {}", sum.0, sum.1);
}

const RECORDS: u64 = 2_200_000;
/// Each id is alone in its page of the table, which takes 200 bytes and more.
const FAR: big::Shape = big::Shape {
    id_step: 5_000,
    kernels: 2,
    issues: true,
    externals: 0,
};
/// Twelve records of external ids for each call, 12 M together: a list of all takes 290 MB and more.
const EXTERNALS: big::Shape = big::Shape {
    id_step: 1,
    kernels: 2,
    issues: false,
    externals: 12,
};

#[test]
fn an_export_stays_below_256_mib_where_its_tables_would_not() {
    stays_below("far", FAR);
}

#[test]
fn an_export_stays_below_256_mib_where_a_list_of_external_ids_would_not() {
    stays_below("externals", EXTERNALS);
}

fn stays_below(what: &str, shape: big::Shape) {
    let folder = format!("strandline-memory-{what}-{}", std::process::id());
    let folder = Folder(std::env::temp_dir().join(folder));
    std::fs::create_dir_all(&folder.0).unwrap();
    let region = folder.0.join("region.slt");
    big::write_shape(&region, RECORDS, shape).unwrap();
    for format in ["json", "perfetto"] {
        let mut first = None;
        for threads in [1, 16] {
            let child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "one_export", "--ignored", "--nocapture"])
                .env(CASE, format!("{};{format};{threads}", region.display()))
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&child.stdout);
            assert!(child.status.success(), "{format}, {threads}: {text}");
            let line = text.lines().find_map(|line| line.strip_prefix("peak "));
            let (peak, sum) = line.unwrap().split_once(' ').unwrap();
            let peak_mib = peak.parse::<u64>().unwrap() >> 20;
            println!("{what}, {format}, {threads} threads: {peak_mib} MiB");
            assert!(
                peak_mib < 256,
                "{what}, {format}, {threads} threads: {peak_mib} MiB"
            );
            assert_eq!(*first.get_or_insert(sum.to_owned()), sum);
        }
    }
}
