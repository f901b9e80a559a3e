//! Goal: for as long as it runs, in every mode, memory stays flat and the counts balance to the last record: what was
//! offered is stored, or counted by its reason. Method: 4 producers at full speed, sessions of half a second that start and
//! stop under them, each mode in a process of its own; the records of each session are counted in its trace (window), by
//! the collector (stream), or by the lanes (flight, where most are overwritten; snapshots are checked as well). 10 s a
//! mode; `STRANDLINE_SOAK_S` says otherwise for all three together. The region's memory is there from the start, so that
//! whatever grows is the runtime's.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use strandline::header::Mode;
use strandline::loss::LossReason;
use strandline::record::{Kind, Records};
use strandline::segment_entry::SegmentKind;
use strandline::settings::Collector;
use strandline::{Runtime, SessionEnd, Status};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

const LONG: Duration = Duration::from_secs(60);
const PRODUCERS: u64 = 4;
const SESSION: Duration = Duration::from_millis(500);
/// Facts of one session (its begin, its end, anchors), which stay: about 1 KiB.
const FACTS_BYTES: u64 = 1024;
/// What else may come and go: stacks, allocator, segments that lanes have not touched before.
const SLACK_BYTES: u64 = 3 << 20;

pub fn all_modes_in_turn() -> Outcome {
    let seconds = std::env::var("STRANDLINE_SOAK_S")
        .map_or(30, |text| text.parse::<u64>().expect("seconds, a number"));
    for mode in ["window", "flight", "stream"] {
        let file = File::new();
        let mut command = harness::child(&format!("soak, {mode}"), file.path());
        command.env("SECONDS", seconds.div_ceil(3).to_string());
        let (status, text) = harness::run_for(&mut command, Duration::from_secs(seconds));
        assert!(status.success(), "{mode}: {status}: {text}");
        print!("{text}");
        let _ = std::fs::remove_dir_all(file.path().with_extension("live"));
    }
    Outcome::Passed
}

pub fn window_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.budget_bytes = 64 << 20;
        settings.prefault = true;
        settings.lane_count = 16;
    });
    work::keep_house(runtime);
    soak(
        runtime,
        |_| 0,
        |end| {
            let trace = runtime.trace().expect("a trace");
            assert_eq!(trace.damage(), []);
            let stored = trace
                .entries()
                .filter(|entry| u64::from(entry.record.session()) == end.session)
                .filter(|entry| is_ours(entry.record.kind()))
                .count() as u64;
            drop(trace);
            runtime.session_release(end.session).expect("a release");
            stored
        },
    )
}

pub fn flight_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.mode = Mode::Flight;
        settings.budget_bytes = 16 << 20;
        settings.prefault = true;
        settings.lane_count = 16;
    });
    work::keep_house(runtime);
    soak(
        runtime,
        |_| 0,
        |end| {
            let trace = runtime.trace().expect("a trace");
            assert_eq!(trace.damage(), []);
            assert!(trace.entries().count() > 0 && trace.reused_cells() > 0);
            // Most of them are overwritten: the lanes counted each as it was stored. Each lane has segments to reuse.
            assert_eq!(end.lost.total(), 0, "{:?}", end.lost);
            end.dispatches.recorded + end.dispatches.issued
        },
    )
}

pub fn stream_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.mode = Mode::Stream;
        settings.collector = Collector::Host;
        settings.dir = harness::given_file().with_extension("live");
        settings.budget_bytes = 32 << 20;
        settings.prefault = true;
        settings.lane_count = 16;
    });
    work::keep_house(runtime);
    let count = |runtime: &Runtime, all: bool| {
        let mut stored = 0;
        let sink = |collected: &strandline::collector::Collected<'_>| {
            if collected.kind == SegmentKind::Records {
                let records = Records::new(collected.words);
                let records = records.map(|record| record.expect("a whole record").kind());
                stored += records.filter(|kind| is_ours(*kind)).count() as u64;
            }
            Ok(())
        };
        let done = if all {
            runtime.collect_all(sink)
        } else {
            runtime.collect(256, sink)
        };
        done.expect("a collector");
        stored
    };
    soak(
        runtime,
        move |runtime| count(runtime, false),
        move |_| count(runtime, true),
    )
}

fn is_ours(kind: Option<Kind>) -> bool {
    matches!(kind, Some(Kind::Enqueue | Kind::Dispatch))
}

/// Bytes of memory that the process holds, but for what the allocator keeps of the copies that were read.
fn resident() -> u64 {
    // SAFETY: gives free memory back to the system; no preconditions.
    unsafe { libc::malloc_trim(0) };
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).expect("a field");
    pages.parse::<u64>().expect("a number") * 4096
}

/// `during` runs every few milliseconds of a session, `after` when its books are closed; both say how many records they
/// found stored.
fn soak(
    runtime: &'static Runtime,
    during: impl Fn(&Runtime) -> u64,
    after: impl Fn(&SessionEnd) -> u64,
) -> i32 {
    static OVER: AtomicBool = AtomicBool::new(false);
    static OFFERED: AtomicU64 = AtomicU64::new(0);
    work::announce(runtime, 1, "soak");
    let mode = runtime.settings().mode.name();
    let until = Instant::now() + Duration::from_secs(harness::given("SECONDS"));
    let threads: Vec<_> = (1..=PRODUCERS)
        .map(|source| {
            std::thread::spawn(move || {
                let (mut at, mut offered) = (0, 0);
                while !OVER.load(Ordering::Relaxed) {
                    for _ in 0..64 {
                        at += 1;
                        let token = work::issue_known(runtime, number(source, at));
                        if !token.is_none() {
                            // An issue and a completion.
                            offered += 2;
                            work::done(runtime, token, number(source, at));
                        }
                    }
                }
                OFFERED.fetch_add(offered, Ordering::Relaxed);
            })
        })
        .collect();
    let (mut sessions, mut stored, mut missed, mut early) = (0u64, 0, 0, None);
    let began = Instant::now();
    let quarter = until.duration_since(began) / 4;
    while Instant::now() < until {
        let session = match runtime.session_open() {
            Ok(session) => session,
            Err(Status::TooManyPending) => {
                std::thread::yield_now();
                continue;
            }
            Err(other) => panic!("{other:?}"),
        };
        let end = Instant::now() + SESSION;
        while Instant::now() < end {
            stored += during(runtime);
            std::thread::sleep(Duration::from_millis(1));
        }
        let end = runtime.session_stop(session, LONG, None).expect("books");
        stored += after(&end);
        // Facts are not among what was offered; there is room for them, however full of records the region is.
        let facts = end.lost.get(LossReason::StickyFull);
        assert_eq!(facts, 0, "{mode}: {:?}", end.lost);
        missed += end.lost.total();
        sessions += 1;
        if began.elapsed() >= quarter {
            early.get_or_insert((resident(), sessions));
        }
    }
    OVER.store(true, Ordering::Relaxed);
    for thread in threads {
        thread.join().expect("a thread");
    }
    let (at_first, sessions_then) = early.expect("a quarter of the time");
    let grown = resident().saturating_sub(at_first);
    let offered = OFFERED.load(Ordering::Relaxed);
    let trace = runtime.trace().expect("a trace");
    // Completions that came after their session was accounted for; the lanes count them for the newest sessions, and in
    // one sum for older ones.
    let late: u64 = late(&trace, sessions);
    println!(
        "  {mode}: {:.0} s, {sessions} sessions, {offered} records offered, {stored} stored, {missed} lost, {late} late; \
         resident memory {} MiB, grew by {} KiB after the first quarter",
        began.elapsed().as_secs_f64(),
        at_first >> 20,
        grown >> 10,
    );
    assert_eq!(stored + missed + late, offered, "{mode}");
    let facts = (sessions - sessions_then) * FACTS_BYTES;
    assert!(grown < SLACK_BYTES + facts, "{mode}: {grown} bytes");
    0
}

fn late(trace: &strandline::Trace, sessions: u64) -> u64 {
    use strandline::counters::Counter;
    let newest = (1..=sessions).filter_map(|session| trace.session_counters(session));
    newest.map(|block| block.get(Counter::Late)).sum::<u64>()
        + trace.older_counters().get(Counter::Late)
}
