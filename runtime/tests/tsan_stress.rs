//! Goal: no data race between appends, readers, the hand-over of lanes and segments, sessions and the housekeeper.
//! Method: a stress program with a `main` of its own, for ThreadSanitizer (`tests/tsan.sh`); without the sanitizer it is
//! an ordinary test of the same claims. No lock or channel of std: std is not instrumented, the sanitizer would not see
//! what they order. Threads are only spawned and joined.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use strandline::events::{DispatchDone, DispatchIssue, Ids, KernelFact, Operation};
use strandline::header::Mode;
use strandline::record::{Kind, Records, domain};
use strandline::settings::{Collector, Settings};
use strandline::{Runtime, Status, Token, Trace, Vendor};

const LAUNCH: Operation = Operation {
    domain: domain::RUNTIME,
    number: 214,
};
const ROUNDS: u64 = 20_000;
const SESSIONS: u64 = 60;

static APPENDERS: AtomicU64 = AtomicU64::new(0);
/// Tokens that appenders hand to the handler thread: 0 = none. Stands for the SDK.
static IN_FLIGHT: [AtomicU64; 256] = [const { AtomicU64::new(0) }; 256];

fn ids(number: u64) -> Ids {
    Ids {
        correlation: number,
        ..Ids::default()
    }
}

fn done(runtime: &Runtime, token: Token, number: u64) {
    let done = DispatchDone {
        ids: ids(number),
        dispatch_id: number,
        kernel_id: number % 50,
        start_ns: number,
        end_ns: number + 1,
        ..DispatchDone::default()
    };
    runtime.dispatch_done(token, &done);
}

fn append(runtime: &'static Runtime, source: u64) {
    for at in 1..=ROUNDS {
        let number = source << 32 | at;
        if at % 400 == 1 {
            let name = format!("_Z4node{}v", number % 50);
            let kernel = KernelFact {
                kernel_id: number % 50,
                name: name.as_bytes(),
                ..KernelFact::default()
            };
            runtime.kernel(&kernel);
        }
        let call = runtime.api_enter(LAUNCH, ids(number), 1);
        let issue = DispatchIssue {
            ids: ids(number),
            dispatch_id: number,
            kernel_id: number % 50,
            queue: source,
            ..DispatchIssue::default()
        };
        let token = runtime.dispatch_issue(&issue);
        runtime.api_exit(call, LAUNCH, ids(number), 0, None);
        runtime.range_push(ids(number), b"step");
        runtime.range_pop(ids(number));
        // Every other completion comes from another thread.
        let place = &IN_FLIGHT[(number % 256) as usize];
        if at % 2 == 0
            || place
                .compare_exchange(0, token.0, Ordering::Release, Ordering::Relaxed)
                .is_err()
        {
            done(runtime, token, number);
        }
    }
    APPENDERS.fetch_sub(1, Ordering::Release);
}

/// The SDK's handler thread.
fn complete(runtime: &'static Runtime) {
    let mut number = 9 << 32;
    loop {
        let last = APPENDERS.load(Ordering::Acquire) == 0;
        for place in &IN_FLIGHT {
            let token = place.swap(0, Ordering::Acquire);
            if token != 0 {
                number += 1;
                done(runtime, Token(token), number);
            }
        }
        if last {
            return;
        }
    }
}

/// Threads that come and go, more at a time than lanes are left: each takes over the lane of one that ended, and nothing
/// but the lane itself orders the two.
fn come_and_go(runtime: &'static Runtime) {
    let mut number = 10 << 32;
    while APPENDERS.load(Ordering::Acquire) != 0 {
        let threads: Vec<_> = (0..8)
            .map(|_| {
                number += 1;
                std::thread::spawn(move || {
                    let token = runtime.dispatch_issue(&DispatchIssue {
                        ids: ids(number),
                        dispatch_id: number,
                        ..DispatchIssue::default()
                    });
                    done(runtime, token, number);
                })
            })
            .collect();
        for thread in threads {
            thread.join().expect("a thread");
        }
    }
}

/// Reads the region over and over, while all of the above write to it.
fn read(runtime: &'static Runtime) -> usize {
    let mut most = 0;
    loop {
        let last = APPENDERS.load(Ordering::Acquire) == 0;
        let trace = runtime.trace().expect("a region");
        most = most.max(check(&trace));
        if last {
            return most;
        }
    }
}

fn check(trace: &Trace) -> usize {
    let mut records = 0;
    for entry in trace.entries() {
        let record = entry.record;
        match record.kind() {
            Some(Kind::Dispatch) => {
                let number = record.correlation_id();
                assert_eq!(
                    (record.start(), record.end(), record.dispatch_id()),
                    (number, number + 1, number)
                );
                assert_eq!(record.kernel_id(), number % 50);
            }
            Some(Kind::Enqueue) => assert_eq!(record.dispatch_id(), record.correlation_id()),
            Some(Kind::Api | Kind::Range) => assert!(record.start() <= record.end()),
            Some(Kind::Thread) => {}
            other => panic!("nobody wrote a {other:?}"),
        }
        records += 1;
    }
    assert_eq!(trace.damage(), []);
    std::hint::black_box((
        trace.lanes(),
        trace.losses(),
        strandline::report::sessions(trace),
    ));
    records
}

/// Takes sealed segments, reads each word of them as the plain memory that it is by then, and frees them.
fn collect(runtime: &'static Runtime) {
    let taken = runtime.collect(usize::MAX, |collected| {
        for record in Records::new(collected.words) {
            std::hint::black_box(record.expect("a whole record").words());
        }
        Ok(())
    });
    taken.expect("stream mode");
}

const MODE: &str = "STRANDLINE_TSAN_MODE";

fn main() {
    // Each mode in a process of its own: a process has one runtime.
    let Ok(mode) = std::env::var(MODE) else {
        for mode in ["window", "flight", "stream"] {
            let this = std::env::current_exe().expect("this program");
            let status = std::process::Command::new(this).env(MODE, mode).status();
            assert!(status.expect("a child").success(), "{mode}");
        }
        return;
    };
    let mut settings = Settings::from_lookup(|_| None).expect("defaults");
    let folder = Path::new("/dev/shm");
    let folder = if folder.is_dir() {
        PathBuf::from(folder)
    } else {
        std::env::temp_dir()
    };
    settings.out = Some(folder.join(format!("strandline-tsan-{}.slt", std::process::id())));
    settings.budget_bytes = 48 << 20;
    if mode == "flight" {
        // Little enough that segments are reused while they are copied.
        (settings.mode, settings.budget_bytes) = (Mode::Flight, 2 << 20);
    }
    if mode == "stream" {
        (settings.mode, settings.budget_bytes) = (Mode::Stream, 2 << 20);
        settings.collector = Collector::Host;
        settings.dir = folder.join(format!("strandline-tsan-{}", std::process::id()));
    }
    let dir = settings.dir.clone();
    // The main thread, the housekeeper, three that append, the handler; two lanes for those that come and go.
    settings.lane_count = 8;
    let runtime = Runtime::make_global(settings, &Vendor::default()).expect("a runtime");
    std::fs::remove_file(runtime.region_path()).expect("the region's file");
    if mode == "stream" {
        std::fs::remove_dir(dir).expect("the region's folder");
    }
    let housekeeper = runtime
        .start_housekeeper(
            None,
            // On that thread: the standard library's locks, which it would else share with another collector, are not
            // instrumented.
            (mode == "stream")
                .then(|| Box::new(move || collect(runtime)) as Box<dyn FnMut() + Send>),
        )
        .expect("a housekeeper");
    let mut session = runtime.session_open().expect("a session");
    APPENDERS.store(3, Ordering::Release);
    let mut threads: Vec<_> = (1..=3)
        .map(|source| std::thread::spawn(move || append(runtime, source)))
        .collect();
    threads.push(std::thread::spawn(move || complete(runtime)));
    threads.push(std::thread::spawn(move || come_and_go(runtime)));
    let reader = std::thread::spawn(move || read(runtime));
    for _ in 0..SESSIONS {
        if APPENDERS.load(Ordering::Acquire) == 0 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(3));
        // Only the housekeeper takes the lock of the books: sessions are closed here, and accounted for there.
        runtime.session_close(session).expect("a close");
        session = loop {
            match runtime.session_open() {
                Ok(session) => break session,
                Err(Status::TooManyPending) => std::thread::yield_now(),
                Err(other) => panic!("{other:?}"),
            }
        };
    }
    for thread in threads {
        thread.join().expect("a thread");
    }
    let records = reader.join().expect("the reader");
    runtime.session_close(session).expect("a close");
    while runtime
        .trace()
        .expect("a region")
        .facts()
        .session_ends
        .len()
        < session as usize
    {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    runtime.finalize();
    housekeeper.join().expect("the housekeeper");
    if mode == "stream" {
        let collected = runtime.collected_segments();
        // The lowest free segment is always taken first, so these were used again.
        assert!(collected >= 16, "{collected} segments");
    }
    let reused = runtime.trace().expect("a region").reused_cells();
    assert!(reused == 0 || mode == "flight");
    println!(
        "test stress in {mode} mode ... ok ({records} records, {session} sessions, {reused} cells reused)"
    );
}
