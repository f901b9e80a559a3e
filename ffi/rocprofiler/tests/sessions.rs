//! Acceptance d: sessions back to back, with records that come when later sessions are open; HIP calls at full rate from
//! many threads while sessions start and stop and code objects come and go.
//!
//! `STRANDLINE_SEEDS=40` runs 1,000 sessions, and 16 threads with 2 M calls each.

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use strandline::counters::Counter;
use support::{Ledger, Scratch, Table, at, built, c, text_at};

const LIMIT: Duration = Duration::from_secs(300);
const NODES: u64 = 4;
const REPLAYS: u64 = 5;

/// What a session holds, by the dump: issues and completions, by dispatch id.
#[derive(Default)]
struct Held {
    issued: Vec<u64>,
    recorded: Vec<u64>,
}

/// The dispatches of each session, and a check that no record stands in another.
fn held(trace: &Path) -> BTreeMap<u64, Held> {
    let mut sessions: BTreeMap<u64, Held> = BTreeMap::new();
    for record in support::dump(trace) {
        let session = match record["session"].as_u64() {
            Some(session) if session > 0 => session,
            _ => continue,
        };
        let held = sessions.entry(session).or_default();
        match text_at(&record, "kind") {
            "enqueue" => held.issued.push(at(&record, "dispatch_id")),
            "dispatch" => held.recorded.push(at(&record, "dispatch_id")),
            _ => {}
        }
    }
    for held in sessions.values_mut() {
        held.issued.sort_unstable();
        held.recorded.sort_unstable();
    }
    sessions
}

/// Late records that came so late that their session shares its counters with all older ones.
fn late_without_session(trace: &Path) -> u64 {
    let trace = strandline::Trace::open(trace).expect("the trace");
    let folded: u64 = trace.facts().late.values().sum();
    trace.older_counters().get(Counter::Late) - folded
}

/// Sessions that the trace says were not opened.
fn refused(trace: &Path) -> u64 {
    let trace = strandline::Trace::open(trace).expect("the trace");
    let metadata = &trace.facts().metadata;
    metadata
        .iter()
        .find(|(key, _)| key == "sessions refused")
        .map_or(0, |(_, value)| value.parse().expect("a number"))
}

/// 1,000 sessions, 1 ms apart; a session's stop does not wait, and its records come up to 3 sessions later.
#[test]
fn no_record_appears_in_another_session() {
    let count: u64 = if support::full() { 1000 } else { 200 };
    let each = NODES * REPLAYS;
    let mut table = Table::new(
        &format!("acceptance d: {count} sessions 1 ms apart, records up to 3 sessions late"),
        &[
            "how a session ends",
            "sessions",
            "issued",
            "recorded",
            "missing",
            "late",
            "complete",
        ],
    );
    for (name, window, start, deadline) in [
        ("stop that does not wait", "--window=api", "api", 0),
        ("stop that waits 2 ms", "--window=api", "api", 2),
        ("roctxProfilerPause", "--window=roctx", "roctx", 0),
    ] {
        let scratch = Scratch::new("sessions");
        let (region, ledger) = (scratch.path("region.slt"), scratch.path("ledger"));
        let (sessions, deadline, nodes, replays) = (
            format!("--sessions={count}"),
            format!("--deadline-ms={deadline}"),
            format!("--nodes={NODES}"),
            format!("--replays={REPLAYS}"),
        );
        let mut command = support::sim(
            &[
                "graph",
                window,
                &sessions,
                &deadline,
                &nodes,
                &replays,
                "--gap-ms=1",
                "--no-device-sync",
                "--late=uniform:0:4ms",
                "--handlers=2",
            ],
            &region,
            start,
        );
        command.env("ROCSIM_LEDGER", &ledger);
        support::run(&mut command, LIMIT).expect_clean(name);
        let ledger = Ledger::read(&ledger);
        let (summary, _) = support::summary(&region);
        let reports = summary["sessions"].as_array().expect("sessions");
        let sum = |path: &str| reports.iter().map(|report| at(report, path)).sum::<u64>();
        let held = held(&region);
        let older = late_without_session(&region);
        // Dispatches are launched by one thread, one session after the other, and only in sessions: the SDK's ids say
        // which session each belongs to.
        let mut ids: Vec<u64> = ledger
            .dispatches
            .iter()
            .filter(|work| work.traced)
            .map(|work| work.dispatch_id)
            .collect();
        ids.sort_unstable();
        // A session that can't be opened, since the one 8 before is still waiting for its proof, is told. A stop that is
        // called accounts for its session; after a pause only the runtime's own thread does, when the machine lets it.
        let refused = refused(&region);
        assert!(
            refused == 0 || window == "--window=roctx",
            "{name}: {refused} refused"
        );
        assert_eq!(
            reports.len() as u64 + refused,
            count,
            "{name}: every session was opened or is told"
        );
        assert_eq!(
            ids.len(),
            each as usize * reports.len(),
            "{name}: the ledger's own count"
        );
        for (report, own) in reports.iter().zip(ids.chunks(each as usize)) {
            let id = at(report, "id");
            let held = &held[&id];
            assert_eq!(held.issued, own, "{name}: session {id} holds other issues");
            assert!(
                held.recorded.iter().all(|id| own.binary_search(id).is_ok()),
                "{name}: session {id} holds a record of another"
            );
            let (recorded, missing) = (
                at(report, "dispatches/recorded"),
                at(report, "dispatches/missing"),
            );
            assert_eq!(held.recorded.len() as u64, recorded);
            assert_eq!(recorded + missing, each, "{name}: session {id}");
            let complete = text_at(report, "verdict") == "complete";
            assert_eq!(complete, missing == 0, "{name}: session {id}");
            // All were delivered in the end. Those that came more than 8 sessions later are counted with all older ones.
            let late = at(report, "late");
            assert!(late <= missing, "{name}: session {id}: {late} late");
            if missing > late {
                assert!(older > 0, "{name}: session {id}: {late} late of {missing}");
            }
        }
        assert_eq!(
            sum("late") + older,
            sum("dispatches/missing"),
            "{name}: each late record is counted, once"
        );
        if window == "--window=roctx" {
            assert_eq!(
                sum("dispatches/missing"),
                0,
                "{name}: nobody was in a hurry"
            );
        }
        let complete = reports
            .iter()
            .filter(|report| text_at(report, "verdict") == "complete")
            .count();
        table.row(vec![
            name.to_owned(),
            reports.len().to_string(),
            sum("dispatches/issued").to_string(),
            sum("dispatches/recorded").to_string(),
            sum("dispatches/missing").to_string(),
            sum("late").to_string(),
            complete.to_string(),
        ]);
    }
    table.print();
}

fn threads_and_calls() -> (u64, u64) {
    if support::full() {
        (16, 2_000_000)
    } else {
        (16, 20_000)
    }
}

/// Every call that began in a session is one record, or counted: by name, against the ledger.
#[test]
fn every_call_is_one_record_or_is_counted() {
    let (threads, calls) = (16, if support::full() { 100_000 } else { 10_000 });
    let scratch = Scratch::new("calls");
    let (region, ledger) = (scratch.path("region.slt"), scratch.path("ledger"));
    let (threads, calls) = (
        format!("--api-threads={threads}"),
        format!("--api-calls={calls}"),
    );
    // One session from load to exit: all calls belong to it.
    let mut command = support::sim(&["graph", &threads, &calls], &region, "load");
    command
        .env("ROCSIM_LEDGER", &ledger)
        .env("STRANDLINE_BUDGET", "4G");
    support::run(&mut command, LIMIT).expect_clean("calls at full rate");
    let ledger = Ledger::read(&ledger);
    let (summary, _) = support::summary(&region);
    let session = &summary["sessions"][0];
    let mut recorded: BTreeMap<String, u64> = BTreeMap::new();
    for record in support::dump(&region) {
        if record["kind"] == "api" {
            *recorded
                .entry(text_at(&record, "name").to_owned())
                .or_default() += 1;
        }
    }
    let lost: u64 = session["lost"]
        .as_object()
        .expect("losses")
        .values()
        .filter_map(Value::as_u64)
        .sum();
    assert_eq!(lost, 0, "4 GiB hold all of it: {session}");
    // Those that kineto leaves out are not traced; compiler calls are another domain.
    let left_out = [
        "hipGetDevice",
        "hipSetDevice",
        "hipGetLastError",
        "hipGetDevicePropertiesR0600",
        "hipGetDeviceCount",
        "hipDeviceGetAttribute",
        "hipRuntimeGetVersion",
        "hipPeekAtLastError",
        "hipModuleGetFunction",
        "hipCtxSetCurrent",
    ];
    let mut total = 0;
    for (name, &calls) in &ledger.calls {
        if left_out.contains(&&**name) || name.starts_with("__") {
            assert!(!recorded.contains_key(name), "{name} is not traced");
            continue;
        }
        assert_eq!(recorded.get(name).copied().unwrap_or(0), calls, "{name}");
        total += calls;
    }
    assert_eq!(
        recorded.values().sum::<u64>(),
        total,
        "nothing that was not called"
    );
    assert_eq!(at(session, "api/recorded"), total);
    assert_eq!(at(session, "dispatches/issued"), ledger.traced());
    assert_eq!(at(session, "dispatches/missing"), 0);
    assert_eq!(at(session, "copies/issued"), ledger.copies.len() as u64);
    assert_eq!(at(session, "copies/missing"), 0);
    support::say(&format!(
        "acceptance d: {total} HIP calls on 16 threads, each one record; {} dispatches, {} copies",
        ledger.traced(),
        ledger.copies.len()
    ));
}

/// With too little room what does not fit is counted, to the piece.
#[test]
fn what_finds_no_room_is_counted() {
    let scratch = Scratch::new("room");
    let (region, ledger) = (scratch.path("region.slt"), scratch.path("ledger"));
    let mut command = support::sim(
        &["graph", "--api-threads=4", "--api-calls=50000"],
        &region,
        "load",
    );
    command
        .env("ROCSIM_LEDGER", &ledger)
        .env("STRANDLINE_BUDGET", "16M");
    support::run(&mut command, LIMIT).expect_clean("too little room");
    let ledger = Ledger::read(&ledger);
    let (summary, code) = support::summary(&region);
    let session = &summary["sessions"][0];
    let (no_segment, issued, recorded, missing) = (
        at(session, "lost/no_segment"),
        at(session, "dispatches/issued"),
        at(session, "dispatches/recorded"),
        at(session, "dispatches/missing"),
    );
    assert!(no_segment > 0, "it all fitted: nothing is tested");
    assert_eq!(issued, ledger.traced());
    assert_eq!(issued, recorded + missing);
    assert_eq!(code, 3);
    // Lost: calls, issues and completions of dispatches and copies, allocations.
    let traced: u64 = ledger
        .calls
        .iter()
        .filter(|(name, _)| {
            !name.starts_with("__")
                && ![
                    "hipGetDevice",
                    "hipSetDevice",
                    "hipGetDeviceCount",
                    "hipModuleGetFunction",
                ]
                .contains(&&***name)
        })
        .map(|(_, calls)| calls)
        .sum();
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for record in support::dump(&region) {
        *kinds
            .entry(text_at(&record, "kind").to_owned())
            .or_default() += 1;
    }
    let stored = |kind: &str| kinds.get(kind).copied().unwrap_or(0);
    let copies = ledger.copies.len() as u64;
    let expected = (traced - stored("api"))
        + (issued - stored("enqueue"))
        + (issued - stored("dispatch"))
        + (copies - stored("copy_issue").max(stored("copy-issue")))
        + (copies - stored("copy"));
    // Allocations are records too, and the ledger does not list them: four threads make one each at the start.
    assert!(
        (expected..=expected + 16).contains(&no_segment),
        "{no_segment} counted, {expected} not there: {kinds:?}"
    );
}

/// Full rate while sessions start and stop and code objects load and unload; and what it costs.
#[test]
fn calls_at_full_rate() {
    let (threads, calls) = threads_and_calls();
    let scratch = Scratch::new("rate");
    let (threads_flag, calls_flag) = (
        format!("--api-threads={threads}"),
        format!("--api-calls={calls}"),
    );
    let words = ["sim", "graph", &threads_flag, &calls_flag, "--json"];
    let rate = |command: &mut Command, what: &str| {
        let ended = support::run(command, LIMIT);
        ended.expect_clean(what);
        let lines = ended.json_lines();
        let line = lines.last().expect("the report").clone();
        (line["calls_per_s"].as_f64().expect("a rate"), line)
    };
    let with_tool = |tool: Option<&Path>, more: &[&str], start: &str| {
        scratch.clear();
        let region = scratch.path("region.slt");
        let mut command = support::traced(&built().command, &region, start);
        command.args(words).args(more);
        // Room for what the full form makes would be gigabytes: what finds none is counted.
        command.env("STRANDLINE_BUDGET", "1G");
        match tool {
            Some(tool) => command.env("ROCP_TOOL_LIBRARIES", tool),
            None => command.env_remove("ROCP_TOOL_LIBRARIES"),
        };
        command
    };
    let (none, _) = rate(&mut with_tool(None, &[], "load"), "no tool");
    let mut table = Table::new(
        &format!("acceptance d: {threads} threads x {calls} HIP calls (stand-in SDK)"),
        &["tool", "calls/s", "time against no tool", "sessions"],
    );
    let mut row = |name: &str, rate: f64, sessions: u64| {
        table.row(vec![
            name.to_owned(),
            format!("{rate:.0}"),
            format!("x{:.2}", none / rate),
            sessions.to_string(),
        ]);
    };
    row("none", none, 0);
    let empty = c::compile(
        "gcc",
        "empty_tool.c",
        "libempty_tool.so",
        &["-std=gnu11", "-shared", "-fPIC"],
    );
    match empty {
        Ok(empty) => {
            let (empty, _) = rate(&mut with_tool(Some(&empty), &[], "load"), "empty tool");
            row("empty callbacks", empty, 0);
        }
        Err(why) => support::skip("the empty tool", &why),
    }
    let tool = built().tool.as_path();
    let (ours, _) = rate(&mut with_tool(Some(tool), &[], "load"), "our tool");
    row("ours, one session", ours, 1);
    let (idle, _) = rate(
        &mut with_tool(Some(tool), &[], "api"),
        "our tool, no session",
    );
    row("ours, no session", idle, 0);
    let many = [
        "--window=api",
        "--sessions=2",
        "--gap-ms=2",
        "--deadline-ms=1000",
    ];
    let (sessions, line) = rate(&mut with_tool(Some(tool), &many, "api"), "many sessions");
    row(
        "ours, sessions start and stop",
        sessions,
        at(&line, "sessions"),
    );
    table.print();
    assert!(at(&line, "modules") > 0, "no code object came or went");
    let (summary, _) = support::summary(&scratch.path("region.slt"));
    let reports = summary["sessions"].as_array().expect("sessions");
    assert_eq!(reports.len() as u64, at(&line, "sessions"));
    for report in reports {
        let count = |path: &str| at(report, path);
        assert_eq!(
            count("dispatches/issued"),
            count("dispatches/recorded") + count("dispatches/missing"),
            "{report}"
        );
        if count("lost/no_segment") == 0 {
            assert_eq!(count("dispatches/missing"), 0, "{report}");
        }
    }
}
