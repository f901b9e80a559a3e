//! Goal: threads come and go as they like. 10,000 short ones on 64 lanes lose nothing, 300 at once are counted and none
//! waits; destructors of thread-locals append; a thread that is cancelled, or that vanishes inside an append, leaves a
//! lane that works for the next. Method: children with few lanes; offered = recorded + lost, to the last record.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::{Runtime, Trace, Verdict};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

const LONG: Duration = Duration::from_secs(60);

fn in_child(name: &str) -> Outcome {
    let file = File::new();
    harness::run_quiet(&mut harness::child(name, file.path()), 0);
    let trace = Trace::open(file.path()).expect("the region");
    work::check(&trace, false);
    Outcome::Passed
}

pub fn ten_thousand_in_turn() -> Outcome {
    in_child("short threads")
}

pub fn short_body() -> i32 {
    let runtime = work::runtime(|_| ());
    let session = runtime.session_open().expect("a session");
    for at in 1..=10_000 {
        std::thread::spawn(move || {
            let token = work::issue(runtime, number(1, at));
            work::done(runtime, token, number(1, at));
        })
        .join()
        .expect("a thread");
    }
    let end = runtime.session_stop(session, LONG, None).expect("books");
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, 10_000)
    );
    assert_eq!(end.lost.total(), 0);
    let trace = runtime.trace().expect("a trace");
    let lanes = trace.lanes().len();
    assert!(
        lanes <= 2,
        "one thread at a time, and this one: {lanes} lanes"
    );
    0
}

pub fn three_hundred_at_once() -> Outcome {
    in_child("many threads")
}

pub fn many_body() -> i32 {
    const PAIRS: u64 = 2_000;
    let runtime = work::runtime(|_| ());
    // With lanes short it looks for dead owners all the time; who is alive must keep its lane.
    work::keep_house(runtime);
    for source in 1..=300 {
        work::announce_all(runtime, source, PAIRS);
    }
    let session = runtime.session_open().expect("a session");
    while runtime.trace().expect("a trace").lanes().len() < 2 {
        // The housekeeper has a lane of its own from its first fact on.
        runtime.announce_anchor();
        std::thread::sleep(Duration::from_millis(10));
    }
    let barrier = Arc::new(Barrier::new(300));
    let threads: Vec<_> = (1..=300)
        .map(|source| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                barrier.wait();
                work::pair_known(runtime, number(source, 1));
                // All are alive together: nobody gives a lane back before everybody has asked.
                barrier.wait();
                for at in 2..=PAIRS {
                    work::pair_known(runtime, number(source, at));
                }
                barrier.wait();
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("nobody waits for a lane");
    }
    let end = runtime.session_stop(session, LONG, None).expect("books");
    // Lanes of this thread, and of the housekeeper.
    let (got, missed) = (64 - 2, 300 - 62);
    let found = work::check(&runtime.trace().expect("a trace"), true);
    for kind in [Kind::Enqueue, Kind::Dispatch] {
        assert_eq!(found.total(kind), got * PAIRS, "{kind:?}");
    }
    assert_eq!(end.dispatches.issued, 300 * PAIRS);
    assert_eq!(end.dispatches.missing(), missed * PAIRS);
    assert_eq!(end.lost.get(LossReason::NoLane), 2 * missed * PAIRS);
    0
}

pub fn destructors_append() -> Outcome {
    in_child("destructors")
}

struct Appends(Cell<u64>);

impl Drop for Appends {
    fn drop(&mut self) {
        let runtime = Runtime::global().expect("the runtime");
        let at = self.0.get();
        let token = work::issue_known(runtime, number(2, at));
        work::done(runtime, token, number(2, at));
    }
}

thread_local! {
    static APPENDS: Appends = const { Appends(Cell::new(0)) };
}

static KEYS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
static KEYED: AtomicU64 = AtomicU64::new(0);

/// Destructor of a pthread key: appends, and sets its value again for as many rounds as the system gives.
extern "C" fn keyed(value: *mut c_void) {
    let runtime = Runtime::global().expect("the runtime");
    let at = KEYED.fetch_add(1, Ordering::Relaxed) + 1;
    let token = work::issue_known(runtime, number(3, at));
    work::done(runtime, token, number(3, at));
    let value = value as usize;
    let key = KEYS[value & 1].load(Ordering::Relaxed) as libc::pthread_key_t;
    // SAFETY: a key that was made below; any value will do.
    unsafe { libc::pthread_setspecific(key, value as *const c_void) };
}

fn key(index: usize) {
    let mut key = 0;
    // SAFETY: `key` is valid for writing, the destructor lives as long as the process.
    let failed = unsafe { libc::pthread_key_create(&mut key, Some(keyed)) };
    assert_eq!(failed, 0);
    KEYS[index].store(key.into(), Ordering::Relaxed);
}

pub fn destructors_body() -> i32 {
    // One key's destructor runs before the runtime's own, one after.
    key(0);
    let runtime = work::runtime(|settings| settings.lane_count = 4);
    key(1);
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    const THREADS: u64 = 400;
    for source in 1..=3 {
        work::announce_all(runtime, source, 10 * THREADS);
    }
    for at in 1..=THREADS {
        std::thread::spawn(move || {
            let token = work::issue_known(runtime, number(1, at));
            APPENDS.with(|appends| appends.0.set(at));
            for (value, key) in KEYS.iter().enumerate() {
                let value = (2 + value) as *const c_void;
                // SAFETY: as in `keyed`.
                unsafe {
                    libc::pthread_setspecific(
                        key.load(Ordering::Relaxed) as libc::pthread_key_t,
                        value,
                    )
                };
            }
            work::done(runtime, token, number(1, at));
        })
        .join()
        .expect("a thread");
    }
    let keyed = KEYED.load(Ordering::Relaxed);
    assert!(keyed >= 2 * THREADS, "{keyed}");
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let found = work::check(&runtime.trace().expect("a trace"), false);
    // A destructor that runs after the runtime's last one leaves its lane to the housekeeper's look for dead owners;
    // until it looks, lanes may be short, and what has none is counted.
    let lost = end.lost.get(LossReason::NoLane);
    let offered = 2 * (2 * THREADS + keyed);
    assert_eq!(
        found.total(Kind::Enqueue) + found.total(Kind::Dispatch) + lost,
        offered
    );
    assert_eq!(end.dispatches.issued, 2 * THREADS + keyed);
    assert!(found.count(Kind::Dispatch, 2) > 0 && found.count(Kind::Dispatch, 3) > 0);
    0
}

pub fn cancelled_and_vanished() -> Outcome {
    in_child("cancelled")
}

static READY: AtomicU64 = AtomicU64::new(0);

/// Appends, then waits to be cancelled. No frame of this function has anything to clean up, so that the unwinding of
/// pthread_cancel passes through it.
unsafe extern "C-unwind" fn cancelled(at: *mut c_void) -> *mut c_void {
    let runtime = Runtime::global().expect("the runtime");
    work::mark(runtime, number(1, at as u64));
    READY.fetch_add(1, Ordering::Release);
    loop {
        // SAFETY: waits for a signal or for being cancelled.
        unsafe { pause() };
    }
}

unsafe extern "C-unwind" {
    fn pause() -> libc::c_int;
    fn pthread_create(
        thread: *mut libc::pthread_t,
        attributes: *const libc::pthread_attr_t,
        start: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> libc::c_int;
    fn pthread_cancel(thread: libc::pthread_t) -> libc::c_int;
}

/// Ends the thread that it interrupts, wherever that is: no destructor runs, no unwinding.
extern "C" fn vanish(_: libc::c_int) {
    // SAFETY: ends this thread only.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
}

/// Appends until it is made to vanish.
unsafe extern "C-unwind" fn vanishes(at: *mut c_void) -> *mut c_void {
    let runtime = Runtime::global().expect("the runtime");
    for mark in 1.. {
        work::mark(runtime, number(10 + at as u64, mark));
        if mark == 100 {
            READY.fetch_add(1, Ordering::Release);
        }
    }
    std::ptr::null_mut()
}

fn start(
    body: unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: u64,
) -> libc::pthread_t {
    let before = READY.load(Ordering::Acquire);
    let mut thread = 0;
    // SAFETY: a thread that its caller joins.
    let failed =
        unsafe { pthread_create(&mut thread, std::ptr::null(), body, argument as *mut c_void) };
    assert_eq!(failed, 0);
    while READY.load(Ordering::Acquire) == before {
        std::thread::yield_now();
    }
    thread
}

pub fn cancelled_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.lane_count = 4;
        settings.budget_bytes = 256 << 20;
    });
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    for at in 1..=50 {
        let thread = start(cancelled, at);
        // SAFETY: a thread that was not joined yet.
        unsafe {
            assert_eq!(pthread_cancel(thread), 0);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        }
    }
    let found = work::check(&runtime.trace().expect("a trace"), true);
    assert_eq!(
        found.count(Kind::Mark, 1),
        50,
        "each cancelled thread had a lane"
    );
    // SAFETY: a handler that only makes a system call.
    unsafe { libc::signal(libc::SIGUSR1, vanish as *const () as libc::sighandler_t) };
    for at in 1..=40 {
        let thread = loop {
            // The housekeeper finds out that an owner is dead once lanes are short: until then `start` would lose marks.
            if runtime
                .trace()
                .expect("a trace")
                .lanes()
                .iter()
                .filter(|lane| lane.thread != 0)
                .count()
                < 4
            {
                break start(vanishes, at);
            }
            let short = std::thread::spawn(move || work::mark(runtime, number(2, at)));
            short.join().expect("a thread");
            std::thread::sleep(Duration::from_millis(1));
        };
        // SAFETY: a live thread. It never returns from the handler, most often out of the middle of an append.
        unsafe {
            assert_eq!(libc::pthread_kill(thread, libc::SIGUSR1), 0);
            assert_eq!(libc::pthread_join(thread, std::ptr::null_mut()), 0);
        }
    }
    // The last of them is still the owner of its lane, perhaps inside an append: a stop must not wait for it.
    let token = work::issue(runtime, number(6, 1));
    work::done(runtime, token, number(6, 1));
    let end = runtime.session_stop(session, LONG, None).expect("books");
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, 1)
    );
    assert!(
        end.waited_ns < LONG.as_nanos() as u64 / 2,
        "the stop waited for a dead thread: {end:?}"
    );
    let found = work::check(&runtime.trace().expect("a trace"), false);
    for at in 1..=40 {
        let (count, highest) = (
            found.count(Kind::Mark, 10 + at),
            found.highest[&(Kind::Mark, 10 + at)],
        );
        assert_eq!(
            count, highest,
            "all but the last mark of a thread that vanished"
        );
    }
    0
}
