//! Acceptance a and b: the graph workload on the stand-in SDK, with records that come late, out of order, on other
//! threads, or not at all. Every run ends cleanly, and the trace is whole or says exactly what is missing.
//!
//! `STRANDLINE_SEEDS=40` runs the counts.

mod support;

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use support::{Ended, Ledger, Scratch, Table, at, median, ms, text_at};

const NODES: u64 = 32;
const REPLAYS: u64 = 200;
const LIMIT: Duration = Duration::from_secs(60);
const LATE: &str = "--late=uniform:5ms:40ms";

/// One way in which the SDK may behave.
struct Arm {
    name: &'static str,
    args: &'static [&'static str],
    replays: u64,
    /// The arm again with a deadline that is surely shorter than the lateness: its arguments, and the deadline in ms.
    short: Option<(&'static [&'static str], u64)>,
}

/// Late for sure, also where few records are under way at the end.
const LATER: &str = "--late=uniform:30ms:60ms";

const ARMS: [Arm; 14] = [
    arm("records 5-40 ms late", &[LATE], Some((&[LATE], 1))),
    arm(
        "plain launches",
        &["--plain", LATE],
        Some((&["--plain", LATE], 1)),
    ),
    Arm {
        replays: 2000,
        ..arm("64,000 dispatches", &[LATE], Some((&[LATE], 1)))
    },
    arm(
        "1 handler thread",
        &["--handlers=1", LATE],
        Some((&["--handlers=1", LATE], 1)),
    ),
    arm(
        "2 handler threads",
        &["--handlers=2", LATE],
        Some((&["--handlers=2", LATE], 1)),
    ),
    arm(
        "4 handler threads",
        &["--handlers=4", LATE],
        Some((&["--handlers=4", LATE], 1)),
    ),
    arm(
        "0.1% 60-200 ms late",
        &["--late=tail:0.1%:60ms:200ms"],
        Some((&["--late=tail:0.1%:60ms:200ms"], 1)),
    ),
    // With 6400 records about 1 is late: in some runs none, and the deadline is kept.
    arm(
        "0.02% 60-200 ms late",
        &["--late=tail:0.02%:60ms:200ms"],
        None,
    ),
    arm(
        "5% 300-600 ms late",
        &["--late=tail:5%:300ms:600ms"],
        Some((&["--late=tail:5%:300ms:600ms"], 20)),
    ),
    arm(
        "stalls of 40-80 ms",
        &["--stall=0.1%:40ms:80ms"],
        Some((&["--stall=0.3%:40ms:80ms"], 1)),
    ),
    arm(
        "throttle",
        &["--throttle", LATE],
        Some((&["--throttle", LATER], 1)),
    ),
    arm(
        "newest first",
        &["--newest-first", "--handler-time=20us"],
        Some((&["--newest-first", LATER], 1)),
    ),
    arm(
        "ring of 8",
        &["--ring=8", LATE],
        Some((&["--ring=8", LATER], 1)),
    ),
    arm(
        "4 threads, 1 queue",
        &["--plain", "--threads=4", "--queues=1", LATE],
        Some((&["--plain", "--threads=4", "--queues=1", LATE], 1)),
    ),
];

const fn arm(
    name: &'static str,
    args: &'static [&'static str],
    short: Option<(&'static [&'static str], u64)>,
) -> Arm {
    Arm {
        name,
        args,
        replays: REPLAYS,
        short,
    }
}

/// One run of an arm, read.
struct Run {
    /// The command's arguments.
    what: String,
    ended: Ended,
    summary: Value,
    code: i32,
    ledger: Ledger,
}

impl Run {
    fn session(&self) -> &Value {
        &self.summary["sessions"][0]
    }

    fn count(&self, path: &str) -> u64 {
        at(self.session(), path)
    }

    /// From the request to the return, and from the last arrival (or the request, when that came later), ms.
    fn stop_ms(&self) -> (f64, f64) {
        let (asked, arrival, returned) = (
            self.count("stop/requested_ns"),
            self.count("stop/last_arrival_ns"),
            self.count("stop/returned_ns"),
        );
        let since = |then: u64| returned.saturating_sub(then) as f64 / 1e6;
        (since(asked), since(arrival.max(asked)))
    }
}

/// Runs the workload and reads what the process left: the saved session, or the region when nobody stopped it.
fn run(args: &[&str], replays: u64, seed: u64, saved: bool, scratch: &Scratch) -> Run {
    scratch.clear();
    let (region, trace, ledger) = (
        scratch.path("region.slt"),
        scratch.path("saved.slt"),
        scratch.path("ledger"),
    );
    let (seed, nodes, replays) = (
        format!("--seed={seed}"),
        format!("--nodes={NODES}"),
        format!("--replays={replays}"),
    );
    let mut all = vec!["graph", &*seed, &*nodes, &*replays];
    let save = format!("--save={}", trace.display());
    if saved {
        all.extend(["--window=api", &*save]);
    }
    all.extend(args);
    let mut command = support::sim(&all, &region, if saved { "api" } else { "load" });
    command.env("ROCSIM_LEDGER", &ledger);
    let ended = support::run(&mut command, LIMIT);
    let what = all.join(" ");
    ended.expect_clean(&what);
    let (summary, code) = support::summary(if saved { &trace } else { &region });
    Run {
        what,
        ended,
        summary,
        code,
        ledger: Ledger::read(&ledger),
    }
}

fn check_kernels(run: &Run, replays: u64) {
    let kernels = run.summary["kernels"].as_array().expect("kernels");
    assert_eq!(kernels.len() as u64, NODES, "each node is a kernel by name");
    for kernel in kernels {
        assert_eq!(at(kernel, "count"), replays, "{kernel}");
        assert!(
            text_at(kernel, "mangled").starts_with("_Z8node_"),
            "{kernel}"
        );
    }
}

/// All that was issued is there, by the trace and by the ledger.
fn check_whole(run: &Run, replays: u64, proof: &str) {
    let issued = NODES * replays;
    let what = &run.what;
    assert_eq!(
        run.ledger.traced(),
        issued,
        "{what}: the ledger's own count"
    );
    for (path, want) in [
        ("dispatches/issued", issued),
        ("dispatches/recorded", issued),
        ("dispatches/retired_without_record", 0),
        ("dispatches/missing", 0),
        ("copies/issued", 0),
        ("late", 0),
    ] {
        assert_eq!(run.count(path), want, "{what}: {path}: {}", run.session());
    }
    assert_eq!(text_at(run.session(), "verdict"), "complete");
    assert_eq!(text_at(run.session(), "proof"), proof);
    assert_eq!(run.code, 0, "exit code of summary");
    check_kernels(run, replays);
}

/// Runs all arms; prints a line for each.
fn whole(title: &str, saved: bool) {
    let scratch = Scratch::new("graph");
    let seeds = support::seeds();
    let mut table = Table::new(
        &format!("{title} ({seeds} seeds an arm)"),
        &[
            "arm",
            "clean exits",
            "complete",
            "kernels",
            "proof",
            "no launch",
            "stop ms",
            "arrival to return ms",
        ],
    );
    let proof = if saved { "pairs" } else { "finalize-drain" };
    for arm in &ARMS {
        let (mut stop, mut since, mut no_launch) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let mut args = arm.args.to_vec();
            // Half of the runs end without waiting for the device. With a full ring that would close the window before
            // most dispatches are intercepted: `what_is_enqueued_after_the_window_does_not_belong_to_it`.
            if seed % 2 == 0 && !(saved && arm.name.starts_with("ring")) {
                args.push("--no-device-sync");
            }
            let run = run(&args, arm.replays, seed, saved, &scratch);
            check_whole(&run, arm.replays, proof);
            let (total, after) = run.stop_ms();
            stop.push(total);
            since.push(after);
            no_launch.push(run.count("flagged/no_launch") as f64);
            if saved {
                let line = &run.ended.json_lines()[0];
                assert_eq!(at(line, "stop_status"), 0);
                let waited = at(line, "waited_ns");
                assert!(waited < 5_000_000_000, "waited {waited} ns, the deadline");
            }
            if arm.name.starts_with("ring") {
                let unlaunched = run.count("flagged/no_launch");
                assert!(unlaunched > NODES * arm.replays / 2, "{unlaunched}");
                assert!(run.count("flagged/unknown_stream") >= unlaunched);
            }
        }
        table.row(vec![
            arm.name.to_owned(),
            format!("{seeds} of {seeds}"),
            format!("{seeds} of {seeds}"),
            (NODES * arm.replays).to_string(),
            proof.to_owned(),
            format!("{:.0}", median(&mut no_launch)),
            ms(median(&mut stop)),
            ms(median(&mut since)),
        ]);
    }
    table.print();
}

#[test]
fn complete_and_saved_then_exit() {
    whole("acceptance a, stop, save, exit at once", true);
}

#[test]
fn complete_without_any_stop() {
    whole("acceptance a, exit without a stop", false);
}

#[test]
fn a_deadline_shorter_than_the_lateness_says_exactly_what_is_missing() {
    let scratch = Scratch::new("short");
    let seeds = support::seeds();
    let mut table = Table::new(
        &format!("acceptance a, deadline shorter than the lateness ({seeds} seeds an arm)"),
        &[
            "arm",
            "deadline ms",
            "clean exits",
            "incomplete",
            "recorded",
            "missing",
            "late later",
            "stop ms",
        ],
    );
    for arm in &ARMS {
        let Some((args, deadline)) = arm.short else {
            continue;
        };
        let (mut recorded, mut missing, mut stop) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let mut args = args.to_vec();
            let text = format!("--deadline-ms={deadline}");
            args.push(&text);
            let run = run(&args, arm.replays, seed, true, &scratch);
            let issued = NODES * arm.replays;
            let (have, lack) = (
                run.count("dispatches/recorded"),
                run.count("dispatches/missing"),
            );
            assert_eq!(run.ledger.traced(), issued);
            assert_eq!(run.count("dispatches/issued"), issued);
            assert_eq!(
                issued - have,
                lack,
                "{}: what is missing is what is not there: {}",
                run.what,
                run.session()
            );
            if lack == 0 {
                // On a busy machine the launching thread may rest so long that all has come.
                assert_eq!(text_at(run.session(), "verdict"), "complete");
                continue;
            }
            assert_eq!(text_at(run.session(), "verdict"), "incomplete");
            assert_eq!(text_at(run.session(), "proof"), "none");
            assert_eq!(run.code, 3, "exit code of summary");
            let named: u64 = run.summary["kernels"]
                .as_array()
                .expect("kernels")
                .iter()
                .map(|kernel| at(kernel, "count"))
                .sum();
            assert_eq!(named, have, "kernels in the trace");
            check_watermark(&run, &scratch.path("saved.slt"));
            // The process drained its queues at exit: by then each of the missing came, and was counted late.
            let (after, _) = support::summary(&scratch.path("region.slt"));
            assert_eq!(at(&after, "sessions/0/late"), lack, "late records");
            assert_eq!(at(&after, "sessions/0/dispatches/missing"), lack);
            recorded.push(have as f64);
            missing.push(lack as f64);
            stop.push(run.stop_ms().0);
        }
        let short = missing.len() as u64;
        assert!(
            short * 2 > seeds,
            "{}: the deadline was long enough in {} of {seeds} runs: nothing is tested",
            arm.name,
            seeds - short
        );
        let lack = median(&mut missing);
        table.row(vec![
            arm.name.to_owned(),
            deadline.to_string(),
            format!("{seeds} of {seeds}"),
            format!("{short} of {seeds}"),
            format!("{:.0}", median(&mut recorded)),
            format!("{lack:.0}"),
            format!("{lack:.0}"),
            ms(median(&mut stop)),
        ]);
    }
    table.print();
}

/// Up to the low watermark nothing is missing, by the ledger.
fn check_watermark(run: &Run, trace: &Path) {
    let low = run.count("low_watermark");
    let have: std::collections::HashSet<u64> = support::dump(trace)
        .iter()
        .filter(|record| record["kind"] == "dispatch")
        .map(|record| at(record, "dispatch_id"))
        .collect();
    assert_eq!(have.len() as u64, run.count("dispatches/recorded"));
    let lacking: Vec<_> = run
        .ledger
        .dispatches
        .iter()
        .filter(|work| work.traced && !have.contains(&work.dispatch_id))
        .map(|work| work.correlation_id)
        .collect();
    assert_eq!(lacking.len() as u64, run.count("dispatches/missing"));
    let first = lacking.iter().min().copied().unwrap_or(u64::MAX);
    assert!(low < first, "whole up to {low}, but {first} is missing");
}

#[test]
fn failed_timings_are_retired_and_nothing_waits_for_the_deadline() {
    let scratch = Scratch::new("failed");
    let seeds = support::seeds();
    let mut table = Table::new(
        &format!("acceptance a, 1% of the timings fail ({seeds} seeds an arm)"),
        &[
            "arm",
            "clean exits",
            "complete",
            "recorded",
            "retired",
            "proof",
            "stop ms",
            "arrival to return ms",
        ],
    );
    for (name, args) in [
        ("on time", &[][..]),
        ("records 5-40 ms late", &[LATE][..]),
        ("plain, 5-40 ms late", &["--plain", LATE][..]),
        ("4 handler threads", &["--handlers=4", LATE][..]),
        ("ring of 8", &["--ring=8", LATE][..]),
        ("newest first", &["--newest-first", LATE][..]),
    ] {
        let (mut retired, mut stop, mut since) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 1..=seeds {
            let args = [args, &["--fail-timing=1%"]].concat();
            let run = run(&args, REPLAYS, seed, true, &scratch);
            let (issued, failed) = (NODES * REPLAYS, run.ledger.failed());
            assert!(failed > 0, "no timing failed: nothing is tested");
            for (path, want) in [
                ("dispatches/issued", issued),
                ("dispatches/recorded", issued - failed),
                ("dispatches/retired_without_record", failed),
                ("dispatches/missing", 0),
            ] {
                assert_eq!(run.count(path), want, "{name}: {path}: {}", run.session());
            }
            assert_eq!(text_at(run.session(), "verdict"), "complete");
            assert_eq!(text_at(run.session(), "proof"), "pairs+retirement");
            assert_eq!(run.code, 3, "what is retired without a record is said");
            let (total, after) = run.stop_ms();
            assert!(
                total < 2_500.0,
                "{name}: waited {total} ms for the deadline"
            );
            retired.push(failed as f64);
            stop.push(total);
            since.push(after);
        }
        let failed = median(&mut retired);
        table.row(vec![
            name.to_owned(),
            format!("{seeds} of {seeds}"),
            format!("{seeds} of {seeds}"),
            format!("{:.0}", (NODES * REPLAYS) as f64 - failed),
            format!("{failed:.0}"),
            "pairs+retirement".to_owned(),
            ms(median(&mut stop)),
            ms(median(&mut since)),
        ]);
    }
    table.print();
    // Without a stop: what was retired before the finalizer counts, what the SDK forces in it does not (facts M8).
    for seed in 1..=seeds {
        let run = run(&["--fail-timing=1%", LATE], REPLAYS, seed, false, &scratch);
        let failed = run.ledger.failed();
        let counts = |path| run.count(path);
        assert_eq!(counts("dispatches/recorded"), NODES * REPLAYS - failed);
        assert_eq!(
            counts("dispatches/retired_without_record") + counts("dispatches/missing"),
            failed
        );
        assert_eq!(text_at(run.session(), "proof"), "finalize-drain");
    }
}

#[test]
fn nothing_outstanding_stops_at_once() {
    let scratch = Scratch::new("idle");
    let mut stop = Vec::new();
    for seed in 1..=support::seeds().max(11) {
        let args = ["--sync", "--kernel-time=100ns"];
        let run = run(&args, 10, seed, true, &scratch);
        assert_eq!(text_at(run.session(), "verdict"), "complete");
        let line = &run.ended.json_lines()[0];
        stop.push(at(line, "waited_ns") as f64 / 1e6);
    }
    let longest = stop.iter().copied().fold(0.0, f64::max);
    let middle = median(&mut stop);
    support::say(&format!(
        "acceptance b, nothing outstanding: stop takes {middle:.3} ms (median), {longest:.3} ms (longest)"
    ));
}

/// A full ring leaves packets that the event thread intercepts when the session is closed already: they were never
/// issued in it.
#[test]
fn what_is_enqueued_after_the_window_does_not_belong_to_it() {
    let scratch = Scratch::new("after");
    for seed in 1..=support::seeds() {
        let args = ["--ring=8", "--no-device-sync", LATE];
        let run = run(&args, REPLAYS, seed, true, &scratch);
        let traced = run.ledger.traced();
        assert!(
            traced < NODES * REPLAYS,
            "all were intercepted in time: nothing is tested"
        );
        let issued = run.count("dispatches/issued");
        // The session is closed a moment before its context: what the SDK traces in between belongs to none.
        assert!(
            issued <= traced && traced - issued < 100,
            "{issued} issued, {traced} traced"
        );
        assert_eq!(run.count("dispatches/recorded"), issued);
        assert_eq!(text_at(run.session(), "verdict"), "complete");
    }
}

/// The records are the ledger's: times, names, ids, threads and queues.
#[test]
fn records_equal_the_ledger() {
    let scratch = Scratch::new("equal");
    for args in [
        &["--threads=2", "--streams=3", "--devices=2", "--plain", LATE][..],
        &["--threads=3", LATE, "--handlers=3"][..],
    ] {
        let run = run(args, REPLAYS, 3, true, &scratch);
        let records: std::collections::HashMap<u64, Value> =
            support::dump(&scratch.path("saved.slt"))
                .into_iter()
                .filter(|record| record["kind"] == "dispatch")
                .map(|record| (at(&record, "dispatch_id"), record))
                .collect();
        for work in run.ledger.dispatches.iter().filter(|work| work.traced) {
            let record = &records[&work.dispatch_id];
            for (field, want) in [
                ("correlation_id", work.correlation_id),
                ("thread", work.thread),
                ("queue", work.queue),
                ("start_ns", work.start_ns),
                ("end_ns", work.end_ns),
            ] {
                assert_eq!(at(record, field), want, "{field}: {record} {work:?}");
            }
            let name = work.kernel.strip_suffix(".kd").unwrap_or(&work.kernel);
            assert_eq!(text_at(record, "kernel"), name);
        }
    }
}
