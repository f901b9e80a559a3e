//! Goal: appending is safe before, during and after exit handlers, from threads that nobody waits for, and however the
//! process ends; its exit code or signal is its own and it writes nothing. Method: children that end in each way while
//! detached threads append; the region is read afterwards.

use std::ffi::c_int;
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};

use strandline::record::Kind;
use strandline::{Runtime, Trace};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

unsafe extern "C" {
    fn atexit(handler: extern "C" fn()) -> c_int;
    fn at_quick_exit(handler: extern "C" fn()) -> c_int;
    fn quick_exit(code: c_int) -> !;
}

pub fn every_way_to_end() -> Outcome {
    // Way, exit code or -signal, marks of handlers that must be in the region, whether the books were closed.
    let ways: [(&str, i32, u64, bool); 7] = [
        ("exit", 7, 2, false),
        ("finalize", 7, 1, true),
        ("return", 0, 2, false),
        ("_exit", 8, 0, false),
        ("quick_exit", 9, 1, false),
        ("abort", -libc::SIGABRT, 0, false),
        ("thread exit", 7, 2, false),
    ];
    for round in 0..4 {
        for (way, end, marks, closed) in ways {
            let file = File::new();
            let (status, text) = harness::run(harness::child("exit", file.path()).env("WAY", way));
            let ended = status
                .code()
                .unwrap_or_else(|| -status.signal().unwrap_or(0));
            assert_eq!((ended, text.as_str()), (end, ""), "{way}, round {round}");
            let trace = Trace::open(file.path()).unwrap_or_else(|error| panic!("{way}: {error}"));
            let found = work::check(&trace, true);
            assert!(
                found.count(Kind::Dispatch, 1) > 0 && found.count(Kind::Dispatch, 2) > 0,
                "{way}"
            );
            assert_eq!(
                found.count(Kind::Mark, 5),
                marks,
                "{way}: marks of exit handlers"
            );
            assert_eq!(
                trace.facts().session_ends.len(),
                usize::from(closed),
                "{way}"
            );
            if closed {
                // Two handlers appended, one of them after the books were closed; and so did the threads.
                let late = trace
                    .session_counters(1)
                    .expect("counters")
                    .get(strandline::counters::Counter::Late);
                let open = trace.open_session();
                assert!(
                    open == 0 && late + found.count(Kind::Mark, 5) >= 1,
                    "{late}"
                );
            }
        }
    }
    Outcome::Passed
}

static MARKS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

extern "C" fn marks() {
    let at = MARKS.fetch_add(1, Ordering::Relaxed) + 1;
    work::mark(
        Runtime::global().expect("the runtime outlives its process's exit"),
        number(5, at),
    );
}

extern "C" fn finalizes() {
    Runtime::global().expect("the runtime").finalize();
}

static STARTED: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

pub fn body() -> i32 {
    let way = std::env::var("WAY").expect("a way");
    // SAFETY: handlers that live as long as the process. They run in the reverse order: the last one first.
    unsafe {
        atexit(marks);
        if way == "finalize" {
            atexit(finalizes);
        }
        at_quick_exit(marks);
    }
    let runtime = work::runtime(|settings| settings.budget_bytes = 256 << 20);
    work::keep_house(runtime);
    // SAFETY: as above; registered after the runtime was made.
    unsafe { atexit(marks) };
    runtime.session_open().expect("a session");
    for source in 1..=2 {
        // Detached: nobody joins it, it appends while the process goes down.
        std::thread::spawn(move || {
            for at in 1.. {
                work::round(runtime, number(source, at));
                STARTED[source as usize - 1].store(true, Ordering::Relaxed);
                // Slow enough that the budget lasts.
                for _ in 0..200 {
                    std::hint::spin_loop();
                }
            }
        });
    }
    while !STARTED
        .iter()
        .all(|started| started.load(Ordering::Relaxed))
    {
        std::thread::yield_now();
    }
    match way.as_str() {
        // SAFETY: ends the process, which is what is tried; so do the next ones.
        "exit" | "finalize" => unsafe { libc::exit(7) },
        "return" => 0,
        // SAFETY: as above.
        "_exit" => unsafe { libc::_exit(8) },
        // SAFETY: as above.
        "quick_exit" => unsafe { quick_exit(9) },
        // SAFETY: as above.
        "abort" => unsafe { libc::abort() },
        "thread exit" => {
            std::thread::spawn(|| std::process::exit(7));
            loop {
                std::thread::park();
            }
        }
        other => panic!("no way {other}"),
    }
}
