//! Goal: a whole session without a TSC is as complete and as well ordered as one with it, and host times follow a vendor
//! clock that goes its own way. Method: children that record real work, one with `CLOCK_MONOTONIC_RAW` for its ticks,
//! one with a vendor clock made here (a simulation: BOOTTIME, 500 ppm fast); each host time must lie between two
//! readings of the vendor's clock around its event.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use strandline::clock;
use strandline::record::Kind;
use strandline::settings::ClockSource;
use strandline::{Trace, Verdict};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

/// What a conversion may be off beside the anchors' own error, ns: a thread may lose the processor between the two
/// readings of an anchor, three times in a row.
const SLACK: u64 = 100_000;
const THREADS: u64 = 4;
const ROUNDS: u64 = 3_000;

pub fn without_a_tsc() -> Outcome {
    let file = File::new();
    harness::run_quiet(harness::child("clock", file.path()).env("CLOCK", "raw"), 0);
    let trace = Trace::open(file.path()).expect("the region");
    assert_eq!(
        (trace.header().clock, trace.header().ticks_per_second),
        (1, 1_000_000_000)
    );
    check(&trace);
    // The ticks are the kernel's own: the anchors say so themselves.
    for anchor in &trace.facts().clock_anchors {
        assert!(anchor.ticks.abs_diff(anchor.monotonic_raw_ns) < 1_000_000_000);
    }
    Outcome::Passed
}

pub fn a_vendor_clock_that_goes_its_own_way() -> Outcome {
    let file = File::new();
    harness::run_quiet(harness::child("clock", file.path()).env("CLOCK", "fast"), 0);
    check(&Trace::open(file.path()).expect("the region"));
    Outcome::Passed
}

fn check(trace: &Trace) {
    let found = work::check(trace, false);
    for source in 1..=THREADS {
        assert_eq!(found.count(Kind::Dispatch, source), ROUNDS);
    }
    let end = &trace.facts().session_ends[0];
    assert_eq!(end.verdict, Verdict::Complete);
    // What the vendor's clock said before and after each mark of source 9.
    let bounds = std::fs::read(trace.path().with_extension("bounds")).expect("the bounds");
    let bounds: Vec<u64> = bounds
        .chunks_exact(8)
        .map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes")))
        .collect();
    std::fs::remove_file(trace.path().with_extension("bounds")).expect("the bounds");
    let mut marks = 0;
    let mut newest = std::collections::HashMap::new();
    for entry in trace.entries() {
        let record = entry.record;
        let ticks = [Kind::Api, Kind::Enqueue, Kind::CopyIssue, Kind::Mark];
        if !record.kind().is_some_and(|kind| ticks.contains(&kind)) {
            continue;
        }
        let at = trace.clock().vendor_ns(record.start());
        assert!(
            at + SLACK >= end.begin_ns && at <= end.returned_ns + SLACK,
            "{at} outside of {}..{}",
            end.begin_ns,
            end.returned_ns
        );
        if record.kind() != Some(Kind::Mark) {
            continue;
        }
        // A thread's marks are in order.
        let before = newest.insert(entry.lane, at).unwrap_or(0);
        assert!(at >= before);
        let number = record.word(3);
        if number >> 32 == 9 {
            let index = (number as u32 - 1) as usize * 2;
            let (earliest, latest) = (bounds[index], bounds[index + 1]);
            assert!(
                at + SLACK >= earliest && at <= latest + SLACK,
                "mark {index}: {at} outside of {earliest}..{latest}"
            );
            marks += 1;
        }
    }
    assert_eq!(marks, bounds.len() / 2);
}

static ZERO: AtomicU64 = AtomicU64::new(0);

fn fast_clock() -> u64 {
    let now = clock::kernel_ns(libc::CLOCK_BOOTTIME);
    now + (now - ZERO.load(Ordering::Relaxed)) / 2_000
}

pub fn body() -> i32 {
    let raw = std::env::var("CLOCK").as_deref() == Ok("raw");
    if !raw {
        ZERO.store(clock::kernel_ns(libc::CLOCK_BOOTTIME), Ordering::Relaxed);
        clock::set_vendor_now(fast_clock);
    }
    let runtime = work::runtime(|settings| {
        settings.prefault = true;
        if raw {
            settings.clock = ClockSource::MonotonicRaw;
        }
    });
    assert!(!raw || !clock::is_tsc());
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    let threads: Vec<_> = (1..=THREADS)
        .map(|source| {
            std::thread::spawn(move || {
                for at in 1..=ROUNDS {
                    work::round(runtime, number(source, at));
                }
            })
        })
        .collect();
    // Two seconds and a half: anchors of the housekeeper's, and time after the last of them.
    let mut bounds = Vec::new();
    for at in 1..=500 {
        let earliest = clock::vendor_now();
        work::mark(runtime, number(9, at));
        for word in [earliest, clock::vendor_now()] {
            bounds.extend(word.to_le_bytes());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    for thread in threads {
        thread.join().expect("a thread");
    }
    std::fs::write(runtime.path().with_extension("bounds"), bounds).expect("the bounds");
    let end = runtime
        .session_stop(session, Duration::from_secs(60), None)
        .expect("books");
    assert_eq!(end.verdict, Verdict::Complete);
    runtime.finalize();
    0
}
