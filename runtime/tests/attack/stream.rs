//! Goal: in stream mode a session of any length fits in the memory that was given: every record is in the file or counted
//! as lost, whatever the disk does and however the process ends; a producer never waits. Method: children that append
//! many times what fits, to a file that grows, to one that may not grow, and until they are killed.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use strandline::header::Mode;
use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::{Runtime, Trace, collector};

use crate::harness::{self, File, Outcome};
use crate::work::{self, Random, number};

const LONG: Duration = Duration::from_secs(60);
/// 9 cells each: 17 MiB of records a thread, and the region has 8 MiB.
const ROUNDS: u64 = 30_000;
const SOURCES: u64 = 3;

/// The live region of a child that had `file`.
fn region(file: &Path) -> PathBuf {
    let folder = file.with_extension("live");
    let mut found: Vec<PathBuf> = std::fs::read_dir(&folder)
        .expect("the region's folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert!(found.len() == 1, "{found:?}");
    found.remove(0)
}

fn remove(file: &Path) {
    let _ = std::fs::remove_dir_all(file.with_extension("live"));
}

fn runtime() -> &'static Runtime {
    let runtime = work::runtime(|settings| {
        settings.mode = Mode::Stream;
        settings.dir = harness::given_file().with_extension("live");
        settings.budget_bytes = 8 << 20;
        settings.lane_count = 8;
    });
    work::keep_house(runtime);
    runtime
}

fn append(runtime: &'static Runtime) {
    let threads: Vec<_> = (1..=SOURCES)
        .map(|source| {
            std::thread::spawn(move || {
                for at in 1..=ROUNDS {
                    work::round(runtime, number(source, at));
                    // Faster than a disk for good would only be dropped: that is the other test.
                    if at % 256 == 0 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a thread");
    }
}

const KINDS: [Kind; 6] = [
    Kind::Enqueue,
    Kind::CopyIssue,
    Kind::Api,
    Kind::Dispatch,
    Kind::Copy,
    Kind::Mark,
];

fn found_in(trace: &Trace) -> u64 {
    let found = work::check(trace, false);
    KINDS.iter().map(|kind| found.total(*kind)).sum()
}

pub fn everything_is_in_the_file_or_counted() -> Outcome {
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("stream", file.path()));
    assert!(status.success(), "{status}: {text}");
    let trace = Trace::open(file.path()).expect("the file");
    let (found, lost) = (found_in(&trace), work::lost(&trace, LossReason::NoSegment));
    let offered = SOURCES * ROUNDS * work::ROUND_RECORDS;
    assert_eq!(found + lost, offered, "{lost} lost");
    assert!(found * 64 > 8 << 20, "more than the region holds");
    let left: Vec<_> = std::fs::read_dir(file.path().with_extension("live"))
        .expect("the folder")
        .collect();
    assert!(left.is_empty(), "the region is not needed: {left:?}");
    println!("  {offered} records offered, {found} in the file, {lost} counted as lost{text}");
    remove(file.path());
    Outcome::Passed
}

pub fn body() -> i32 {
    let runtime = runtime();
    let session = runtime.session_open().expect("a session");
    append(runtime);
    let end = runtime.session_stop(session, LONG, None).expect("books");
    // What can't be stored completes all the same: no proof waits for it.
    assert!(end.waited_ns < LONG.as_nanos() as u64);
    runtime.finalize();
    runtime.discard_unasked_file();
    0
}

pub fn a_file_that_may_not_grow_is_a_count() -> Outcome {
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("stream, limited", file.path()));
    assert!(status.success(), "{status}: {text}");
    let live = region(file.path());
    let trace = Trace::open(file.path()).expect("the file");
    let before = found_in(&trace);
    assert_eq!(trace.damage(), [], "what is there is sound");
    // The region was kept, since it has what the file lacks.
    assert!(collector::finish(&live, file.path()).expect("room now") > 0);
    let trace = Trace::open(file.path()).expect("the file");
    let (found, lost) = (found_in(&trace), work::lost(&trace, LossReason::NoSegment));
    let offered = SOURCES * ROUNDS * work::ROUND_RECORDS;
    assert_eq!(found + lost, offered);
    assert!(found > before && lost > 0);
    let told = trace.facts().metadata.iter();
    let told = told.filter(|(key, _)| key == "output failed").count();
    assert_eq!(told, 1, "the trace says why");
    println!(
        "  {before} in the file when it could not grow, {found} after its region, {lost} counted as lost"
    );
    remove(file.path());
    Outcome::Passed
}

pub fn limited_body() -> i32 {
    let runtime = runtime();
    // The table's hole and 8 MiB behind it. More would be SIGXFSZ, which ends the host.
    let limit = libc::rlimit {
        rlim_cur: (128 << 20) + (8 << 20),
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: a valid limit.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &limit) }, 0);
    let session = runtime.session_open().expect("a session");
    append(runtime);
    runtime.session_stop(session, LONG, None).expect("books");
    runtime.finalize();
    runtime.discard_unasked_file();
    0
}

pub fn killed_at_random_moments() -> Outcome {
    let kills = std::env::var("STRANDLINE_KILLS").map_or(25, |text| {
        text.parse::<u64>().expect("a number").div_ceil(2)
    });
    let mut random = Random(u64::from(std::process::id()) ^ 0xdead);
    let (mut records, mut brought) = (0, 0);
    for _ in 0..kills {
        let file = File::new();
        let mut child = harness::child("stream, killed", file.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a child");
        let ready = child.stdout.as_mut().expect("a pipe").read_exact(&mut [0]);
        ready.expect("the child to become ready");
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        child.kill().expect("SIGKILL");
        child.wait().expect("a dead child");
        // The file alone is sound at any moment.
        let alone = Trace::open(file.path()).expect("the file opens");
        assert_eq!(alone.damage(), []);
        brought += collector::finish(&region(file.path()), file.path()).expect("the rest");
        let trace = Trace::open(file.path()).expect("the file opens");
        // Nothing was lost, so that what is there has no gap.
        let found = if work::lost(&trace, LossReason::NoSegment) == 0 {
            work::check(&trace, true)
        } else {
            work::check(&trace, false)
        };
        records += found.counts.values().sum::<u64>();
        remove(file.path());
    }
    println!("  {kills} kills, {records} records, {brought} segments from regions");
    assert!(records > 0 && brought > 0);
    Outcome::Passed
}

pub fn killed_body() -> i32 {
    let runtime = runtime();
    runtime.session_open().expect("a session");
    harness::say_ready();
    append(runtime);
    loop {
        std::thread::sleep(LONG);
    }
}
