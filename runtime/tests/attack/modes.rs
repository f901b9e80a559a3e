//! Goal: flight mode keeps the newest records for ever in the memory it has, and can be copied at any time from inside and
//! from another process: whole records, per thread without a gap, with their names. Released sessions give their memory
//! back and no other session loses a record. Method: children that append many times what fits, while they are copied;
//! 200 sessions in a region that holds a few, with some of them kept to the end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use strandline::header::Mode;
use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::{Runtime, Status, Trace};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

const LONG: Duration = Duration::from_secs(60);
/// Most rounds of one thread: names of 9,000 kernels in all, 3 MiB, and those stay.
const ROUNDS_MAX: u64 = 300_000;

pub fn flight_keeps_the_newest() -> Outcome {
    let file = File::new();
    let mut child = harness::child("flight", file.path())
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("a child");
    // From another process, while the child writes: until enough copies were made of segments that were reused.
    let (mut copies, mut reused) = (0, 0);
    while copies < 6 && child.try_wait().expect("a child").is_none() {
        if let Ok(trace) = Trace::open(file.path()) {
            work::check_newest(&trace);
            reused = trace.reused_cells();
            copies += u64::from(reused > 0);
        }
    }
    // The child goes on until its input ends.
    drop(child.stdin.take());
    let (status, text) = harness::finish(child);
    assert!(status.success(), "{status}: {text}");
    print!("{text}");
    println!("  {copies} copies by another process, {reused} cells reused");
    let trace = Trace::open(file.path()).expect("the region");
    let found = work::check_newest(&trace);
    for source in 1..=3 {
        assert!(found.count(Kind::Mark, source) > 0, "the newest are there");
    }
    Outcome::Passed
}

pub fn flight_body() -> i32 {
    static STOP: AtomicBool = AtomicBool::new(false);
    let runtime = work::runtime(|settings| {
        settings.mode = Mode::Flight;
        settings.budget_bytes = 16 << 20;
        settings.lane_count = 8;
    });
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    let ended = std::sync::Arc::new(std::sync::Barrier::new(3));
    let threads: Vec<_> = (1..=3)
        .map(|source| {
            let ended = ended.clone();
            std::thread::spawn(move || {
                let mut at = 0;
                // On a busy machine a thread may come to run only when all is over: each has its share first.
                while at < 1_000 || !STOP.load(Ordering::Acquire) {
                    at += 1;
                    work::round(runtime, number(source, at));
                    // The names of kernels are facts, which stay: not more of them than the region holds.
                    if at == ROUNDS_MAX {
                        break;
                    }
                }
                // A lane that is handed on is the next thread's to reuse: each keeps its own until all have written.
                ended.wait();
                at
            })
        })
        .collect();
    let copier = std::thread::spawn(move || {
        let mut copies = 0;
        let path = harness::given_file().with_extension("snapshot.slt");
        while copies < 3 || !STOP.load(Ordering::Acquire) {
            let path = runtime.snapshot(&path).expect("a snapshot");
            let trace = Trace::open(&path).expect("a snapshot that opens");
            std::fs::remove_file(path).expect("the snapshot");
            work::check_newest(&trace);
            work::check_newest(&runtime.trace().expect("a trace"));
            copies += 1;
        }
        copies
    });
    // The parent has seen enough.
    let _ = std::io::Read::read(&mut std::io::stdin(), &mut [0]);
    STOP.store(true, Ordering::Release);
    let rounds: Vec<u64> = threads
        .into_iter()
        .map(|thread| thread.join().expect("a thread"))
        .collect();
    let copies = copier.join().expect("the copier");
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let found = work::check_newest(&runtime.trace().expect("a trace"));
    for (source, rounds) in (1..).zip(&rounds) {
        let newest = found.highest[&(Kind::Mark, source)];
        assert_eq!(newest, *rounds, "the newest are there");
    }
    let rounds = rounds.iter().sum::<u64>();
    assert_eq!(
        (end.dispatches.issued, end.dispatches.recorded),
        (rounds, rounds),
        "counters are untouched by reuse"
    );
    assert_eq!(
        end.lost.total(),
        0,
        "each lane has segments of its own to reuse: {:?}",
        end.lost
    );
    assert_eq!(runtime.session_release(session), Ok(0));
    println!("  {rounds} rounds, {copies} snapshots from inside");
    0
}

pub fn released_sessions_give_their_memory_back() -> Outcome {
    let file = File::new();
    let (status, text) = harness::run(&mut harness::child("released", file.path()));
    assert!(status.success(), "{status}: {text}");
    print!("{text}");
    Outcome::Passed
}

const SESSIONS: u64 = 200;
const RECORDS: u64 = 10_000;

/// Bytes of memory that the process holds, of the region and else.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages: u64 = text
        .split(' ')
        .nth(1)
        .expect("a field")
        .parse()
        .expect("a number");
    pages * 4096
}

/// case B24
pub fn released_body() -> i32 {
    static ROUND: AtomicU64 = AtomicU64::new(0);
    static DONE: AtomicU64 = AtomicU64::new(0);
    static OVER: AtomicBool = AtomicBool::new(false);
    // Room for about 20 sessions, of 160 cells in 10 segments and more.
    let runtime = work::runtime(|settings| {
        settings.budget_bytes = 24 << 20;
        settings.lane_count = 8;
    });
    work::keep_house(runtime);
    let threads: Vec<_> = (1..=2)
        .map(|source| {
            std::thread::spawn(move || {
                let mut round = 0;
                while !OVER.load(Ordering::Acquire) {
                    if ROUND.load(Ordering::Acquire) == round {
                        std::thread::yield_now();
                        continue;
                    }
                    round += 1;
                    for at in 1..=RECORDS / 2 {
                        work::mark(runtime, number(source + 10 * round, at));
                    }
                    DONE.fetch_add(1, Ordering::Release);
                }
            })
        })
        .collect();
    let (mut kept, mut early, mut after) = (Vec::new(), 0, 0);
    for round in 1..=SESSIONS {
        let session = open(runtime);
        ROUND.store(round, Ordering::Release);
        while DONE.load(Ordering::Acquire) < 2 * round {
            std::thread::yield_now();
        }
        let end = runtime.session_stop(session, LONG, None).expect("books");
        assert_eq!(end.lost.get(LossReason::NoSegment), 0, "session {session}");
        // A trace that is open holds the segments; what is released meanwhile follows later.
        let open = (round % 25 == 0).then(|| runtime.trace().expect("a trace"));
        if round % 40 == 7 {
            kept.push((session, round));
        } else {
            let freed = runtime.session_release(session).expect("a release");
            assert!(freed == 0 || open.is_none(), "freed under an open trace");
            let again = runtime.session_release(session);
            assert_eq!(again, Err(Status::NoSuchSession), "once");
        }
        if let Some(open) = open {
            check_kept(&open, &kept);
            check_kept(&open, &[(session, round)]);
        }
        match round {
            30 => early = resident(),
            SESSIONS => after = resident(),
            _ => {}
        }
    }
    OVER.store(true, Ordering::Release);
    for thread in threads {
        thread.join().expect("a thread");
    }
    assert_eq!(
        runtime.session_release(SESSIONS + 1),
        Err(Status::NoSuchSession)
    );
    let trace = runtime.trace().expect("a trace");
    check_kept(&trace, &kept);
    let reports = strandline::report::sessions(&trace);
    let reported: Vec<u64> = reports.iter().map(|report| report.id).collect();
    assert_eq!(
        reported,
        kept.iter().map(|(session, _)| *session).collect::<Vec<_>>()
    );
    let grown = after.saturating_sub(early);
    println!(
        "  {SESSIONS} sessions, resident memory grew by {} KiB after the 30th",
        grown >> 10
    );
    // The kept sessions hold their segments: 4 of them are newer than that, of 11 or 12 segments each; those are reused
    // memory, too, once the region was used up one time.
    assert!(grown < 1 << 20, "{early} {after}");
    0
}

fn open(runtime: &Runtime) -> u64 {
    loop {
        match runtime.session_open() {
            Ok(session) => return session,
            Err(Status::TooManyPending) => std::thread::yield_now(),
            Err(other) => panic!("{other:?}"),
        }
    }
}

/// Every record of the sessions that were kept is there.
fn check_kept(trace: &Trace, kept: &[(u64, u64)]) {
    let found = work::check(trace, false);
    for (session, round) in kept {
        for source in 1..=2 {
            assert_eq!(
                found.count(Kind::Mark, source + 10 * round),
                RECORDS / 2,
                "session {session}"
            );
        }
    }
}
