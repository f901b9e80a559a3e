//! The tool library under a test double of the SDK: every callback is called by the test itself, so that what the
//! stand-in cannot do is tried as well. An SDK that is locked, too old or incomplete; structs that are smaller, larger or
//! null; finalizers under the SDK's mutex; the loader's lock; forks; other tools that trace HSA.

mod support;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use support::{Ended, Scratch, at, built, c, text_at};

struct Pieces {
    driver: PathBuf,
    /// Folders with the SDK's double in its variants.
    whole: PathBuf,
    required: PathBuf,
    incomplete: PathBuf,
    copy: PathBuf,
    shim: PathBuf,
}

fn pieces() -> Option<&'static Pieces> {
    static PIECES: OnceLock<Result<Pieces, String>> = OnceLock::new();
    let pieces = PIECES.get_or_init(|| {
        let double = |name: &str, more: &[&str]| {
            let shared = [
                "-std=gnu11",
                "-shared",
                "-fPIC",
                "-pthread",
                "-Wno-unused-variable",
                "-Wl,-soname,libdouble.so",
            ];
            c::compile("gcc", "sdk_double.c", name, &[&shared[..], more].concat())
        };
        let whole = double("whole/libdouble.so", &[])?;
        let library = whole.to_string_lossy().into_owned();
        Ok(Pieces {
            required: double("required/libdouble.so", &["-DONLY_REQUIRED"])?,
            incomplete: double("incomplete/libdouble.so", &["-DINCOMPLETE"])?,
            copy: double("copy/libcopy.so", &["-Wl,-soname,libcopy.so"])?,
            shim: c::compile(
                "gcc",
                "shim.c",
                "shim.so",
                &["-std=gnu11", "-shared", "-fPIC"],
            )?,
            driver: c::compile(
                "gcc",
                "driver.c",
                "driver",
                &["-std=gnu11", "-pthread", &library],
            )?,
            whole,
        })
    });
    match pieces {
        Ok(pieces) => Some(pieces),
        Err(why) => {
            support::skip("the SDK's test double", why);
            None
        }
    }
}

/// The driver's command, with the whole double; `start` as in `STRANDLINE_START`.
fn driver(pieces: &Pieces, scenario: &[&str], scratch: &Scratch) -> Command {
    let mut command = Command::new(&pieces.driver);
    support::clean(&mut command);
    command
        .args(scenario)
        .env("LD_LIBRARY_PATH", pieces.whole.parent().expect("a folder"))
        .env("STRANDLINE_TEST_TOOL", &built().tool)
        .env("STRANDLINE_TEST_FOLDER", scratch.path(""))
        .env("STRANDLINE_TEST_COPY", &pieces.copy)
        .env("STRANDLINE_OUT", scratch.path("region.slt"))
        .env("STRANDLINE_LOG", scratch.path("log"))
        .env("STRANDLINE_START", "api");
    command
}

/// How long one run may take: the full counts are ten times the small ones.
fn limit() -> Duration {
    Duration::from_secs(if support::full() { 600 } else { 60 })
}

/// Runs a scenario that must end well; the summary of what it left.
fn well(scenario: &str) -> Option<(Scratch, Ended)> {
    let pieces = pieces()?;
    let scratch = Scratch::new("sdk");
    let words: Vec<&str> = scenario.split(' ').collect();
    let ended = support::run(&mut driver(pieces, &words, &scratch), limit());
    ended.expect_clean(scenario);
    assert_eq!(ended.stderr, "", "{scenario}: nothing is said unasked");
    Some((scratch, ended))
}

fn saved(scratch: &Scratch) -> Value {
    support::summary(&scratch.path("saved.slt")).0
}

fn region(scratch: &Scratch) -> Value {
    support::summary(&scratch.path("region.slt")).0
}

#[test]
fn a_session_through_the_double() {
    let Some((scratch, _)) = well("basic") else {
        return;
    };
    let summary = saved(&scratch);
    assert_eq!(at(&summary, "sessions/0/dispatches/recorded"), 10);
    assert_eq!(at(&summary, "sessions/0/api/recorded"), 10);
    assert_eq!(text_at(&summary, "kernels/0/mangled"), "_Z3onePfi");
    assert_eq!(text_at(&summary, "kernels/0/name"), "one(float*, int)");
    assert_eq!(summary["simulated"], false);
}

/// case B38, B44: the statuses and messages of an SDK that can't be used; the host's exit code is its own.
#[test]
fn an_sdk_that_is_locked_or_too_old_is_named_and_leaves_the_host_alone() {
    let Some(pieces) = pieces() else { return };
    let folder = |library: &PathBuf| library.parent().expect("a folder").to_owned();
    let whole = folder(&pieces.whole);
    for (status, name, value, library, says) in [
        ("11", "DOUBLE_STATUS", "16", &whole, "locked"),
        ("16", "DOUBLE_STATUS", "1", &whole, "creating a context"),
        (
            "12",
            "DOUBLE_VERSION",
            "9900",
            &whole,
            "0.99.0 is older than 1.0.0",
        ),
        (
            "12",
            "DOUBLE_VERSION",
            "10000",
            &folder(&pieces.incomplete),
            "no function rocprofiler_start_context",
        ),
        (
            "15",
            "STRANDLINE_BUDGET",
            "plenty",
            &whole,
            "STRANDLINE_BUDGET",
        ),
        ("15", "STRANDLINE_KINDS", "hsa", &whole, "STRANDLINE_KINDS"),
        (
            "9",
            "STRANDLINE_OUT",
            "/dev/null/x.slt",
            &whole,
            "/dev/null/x.slt",
        ),
    ] {
        let scratch = Scratch::new("sdk");
        let mut command = driver(pieces, &["refused", status], &scratch);
        command.env(name, value).env("LD_LIBRARY_PATH", library);
        let ended = support::run(&mut command, limit());
        assert_eq!(ended.code(), Some(7), "{name}={value}: {}", ended.stderr);
        assert_eq!((&*ended.stdout, &*ended.stderr), ("", ""), "{name}={value}");
        assert!(!scratch.path("region.slt").exists(), "{name}={value}");
        let log = std::fs::read_to_string(scratch.path("log")).unwrap_or_default();
        assert!(
            log.contains("tracing is off") && log.contains(says),
            "{name}={value}: the log says {log:?}"
        );
    }
}

/// case B44: the first configure counts, from whichever copy of the SDK it comes; that copy's functions are used.
#[test]
fn two_copies_of_the_sdk() {
    let Some((scratch, _)) = well("two-copies") else {
        return;
    };
    assert_eq!(at(&region(&scratch), "sessions/0/dispatches/recorded"), 1);
    let log = std::fs::read_to_string(scratch.path("log")).expect("the log");
    assert!(log.contains("called again"), "{log}");
    well("second-copy");
}

#[test]
fn an_sdk_with_only_the_required_functions_still_gives_a_proof() {
    let Some(pieces) = pieces() else { return };
    let scratch = Scratch::new("sdk");
    let mut command = driver(pieces, &["basic"], &scratch);
    command.env(
        "LD_LIBRARY_PATH",
        pieces.required.parent().expect("a folder"),
    );
    support::run(&mut command, limit()).expect_clean("basic, only the required functions");
    let summary = saved(&scratch);
    assert_eq!(text_at(&summary, "sessions/0/verdict"), "complete");
    let log = std::fs::read_to_string(scratch.path("log")).expect("the log");
    assert!(log.contains("no retirement"), "{log}");
}

#[test]
fn smaller_structs_are_refused_by_name_and_null_ones_ignored() {
    let Some((scratch, _)) = well("small") else {
        return;
    };
    for file in ["saved.slt", "region.slt"] {
        let bytes = std::fs::read(scratch.path(file)).expect("the trace");
        for name in [
            "callback_tracing_hip_api_data_t",
            "callback_tracing_kernel_dispatch_data_t",
            "callback_tracing_memory_copy_data_t",
            "callback_tracing_memory_allocation_data_t",
            "callback_tracing_scratch_memory_data_t",
            "callback_tracing_code_object_load_data_t",
            "callback_tracing_code_object_kernel_symbol_register_data_t",
            "callback_tracing_marker_api_data_t",
        ] {
            let found = bytes
                .windows(name.len())
                .any(|window| window == name.as_bytes());
            assert!(found, "{file} does not name {name}");
        }
    }
}

#[test]
fn larger_structs_are_read_as_far_as_they_are_known() {
    let Some((scratch, _)) = well("large") else {
        return;
    };
    let records = support::dump(&scratch.path("saved.slt"));
    let dispatch = records
        .iter()
        .find(|record| record["kind"] == "dispatch")
        .expect("the dispatch");
    assert_eq!(
        (at(dispatch, "start_ns"), at(dispatch, "end_ns")),
        (100, 200)
    );
    assert_eq!(at(dispatch, "dispatch_id"), 5);
    assert!(
        records
            .iter()
            .any(|record| record["name"] == "hipEventRecord")
    );
}

/// A second tool that traces HSA: our records carry its ids; `ancestor` leads back to the launch.
#[test]
fn launches_are_joined_by_ancestor() {
    let Some((scratch, _)) = well("ancestor") else {
        return;
    };
    let summary = saved(&scratch);
    assert_eq!(at(&summary, "sessions/0/dispatches/recorded"), 3);
    assert_eq!(at(&summary, "sessions/0/copies/recorded"), 1);
    assert_eq!(at(&summary, "sessions/0/flagged/no_launch"), 1);
    let text = std::fs::read_to_string(scratch.path("saved.json")).expect("the export");
    let json: Value = serde_json::from_str(&text).expect("strict JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let flow = |phase: &str| {
        let mut ids: Vec<u64> = events
            .iter()
            .filter(|event| event["cat"] == "ac2g" && event["ph"] == phase)
            .map(|event| at(event, "id"))
            .collect();
        ids.sort_unstable();
        ids
    };
    assert_eq!(flow("s").len(), 3, "one arrow from each launch");
    assert_eq!(flow("s"), flow("f"), "no arrow without its other end");
}

#[test]
fn retirement_is_asked_for_only_when_something_stays_unpaired() {
    let Some((scratch, _)) = well("retirement") else {
        return;
    };
    let summary = region(&scratch);
    let session = |index: usize, path: &str| {
        summary
            .pointer(&format!("/sessions/{index}/{path}"))
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(session(0, "proof"), "pairs");
    assert_eq!(session(1, "proof"), "pairs+retirement");
    assert_eq!(session(1, "copies/retired_without_record"), 1);
    assert_eq!(session(1, "dispatches/retired_without_record"), 3);
    assert_eq!(session(2, "verdict"), "incomplete");
}

/// Facts A.5, M8: retirement during finalization proves nothing.
#[test]
fn retirements_that_are_forced_at_finalization_do_not_count() {
    let Some((scratch, _)) = well("forced") else {
        return;
    };
    let summary = region(&scratch);
    let session = &summary["sessions"][0];
    for (path, want) in [
        ("issued", 5),
        ("recorded", 1),
        ("retired_without_record", 1),
        ("missing", 3),
    ] {
        assert_eq!(at(session, &format!("dispatches/{path}")), want, "{path}");
    }
    assert_eq!(text_at(session, "verdict"), "incomplete");
}

/// A record that came late is not "retired without a record", however soon its id is retired.
#[test]
fn late_records_are_missing_and_never_taken_for_retired() {
    let rounds = if support::full() { 20_000 } else { 2_000 };
    let Some((_, ended)) = well(&format!("race {rounds}")) else {
        return;
    };
    let line = &ended.json_lines()[0];
    assert_eq!(at(line, "retired_without_record"), 0);
    assert!(
        at(line, "missing") > 0,
        "nothing came late: nothing is tested"
    );
}

#[test]
fn a_stop_inside_a_callback_closes_and_returns() {
    well("inside");
    well("on-handler");
}

/// case B05.
#[test]
fn the_finalizer_calls_no_sdk_function_and_closes_the_books() {
    for scenario in ["finalize", "finalize-waiting"] {
        let Some((scratch, _)) = well(scenario) else {
            return;
        };
        let summary = region(&scratch);
        let session = &summary["sessions"][0];
        assert_eq!(text_at(session, "verdict"), "incomplete", "{scenario}");
        assert_eq!(text_at(session, "proof"), "finalize-drain", "{scenario}");
        assert_eq!(at(session, "dispatches/issued"), 2, "{scenario}");
        assert_eq!(at(session, "dispatches/missing"), 1, "{scenario}");
        assert_eq!(at(session, "late"), 1, "{scenario}");
        assert!(scratch.path("after.slt").exists(), "{scenario}");
    }
}

/// case B06: callbacks, finalizer and export from the loader's fini phase.
#[test]
fn everything_works_from_the_loaders_fini_phase() {
    let Some((scratch, _)) = well("fini") else {
        return;
    };
    let summary = region(&scratch);
    assert_eq!(at(&summary, "sessions/0/dispatches/recorded"), 2);
    assert_eq!(text_at(&summary, "sessions/0/verdict"), "complete");
    let text = std::fs::read_to_string(scratch.path("after.json")).expect("the export");
    let json: Value = serde_json::from_str(&text).expect("strict JSON");
    let kernels = json["traceEvents"].as_array().expect("events");
    let kernels = kernels.iter().filter(|event| event["cat"] == "kernel");
    assert_eq!(kernels.count(), 2);
}

/// case B04: records after everything, from exit handlers, with other threads still appending.
#[test]
fn appends_never_end() {
    let runs = if support::full() { 1000 } else { 20 };
    let Some(pieces) = pieces() else { return };
    let mut late = 0;
    for _ in 0..runs {
        let scratch = Scratch::new("sdk");
        let mut command = driver(pieces, &["exit-under-load"], &scratch);
        support::run(&mut command, limit()).expect_clean("exit-under-load");
        let sessions = region(&scratch);
        let sessions = sessions["sessions"].as_array().expect("sessions").clone();
        late += sessions
            .iter()
            .map(|session| at(session, "late"))
            .sum::<u64>();
    }
    assert!(
        late >= runs,
        "each run has at least one late record: {late}"
    );
    support::say(&format!(
        "case B04: {runs} exits under load, {late} late records"
    ));
}

/// case B09.
#[test]
fn callbacks_under_the_loaders_lock() {
    well("loader");
}

#[test]
fn a_forked_child_writes_nothing() {
    let Some((scratch, _)) = well("forked") else {
        return;
    };
    let summary = saved(&scratch);
    assert_eq!(at(&summary, "sessions/0/dispatches/issued"), 2);
    assert_eq!(at(&summary, "sessions/0/api/recorded"), 2);
    assert_eq!(at(&region(&scratch), "sessions/0/late"), 0);
}

/// case B36: lanes of ended threads are used again.
#[test]
fn many_threads_share_few_lanes() {
    let Some(pieces) = pieces() else { return };
    let scratch = Scratch::new("sdk");
    let mut command = driver(pieces, &["threads", "2000"], &scratch);
    command.env("STRANDLINE_LANES", "8");
    let ended = support::run(&mut command, limit());
    ended.expect_clean("threads");
    let line = &ended.json_lines()[0];
    assert_eq!((at(line, "issued"), at(line, "lost")), (2000, 0), "{line}");
}

// Acceptance g: the hot path.

/// case B37. No allocation, lock or loader call in any callback, of the first or of later calls of a thread; and the check fires.
#[test]
fn callbacks_neither_allocate_nor_lock_nor_call_the_loader() {
    let Some(pieces) = pieces() else { return };
    let scratch = Scratch::new("sdk");
    for (scenario, code) in [("guarded", 0), ("planted", 99)] {
        scratch.clear();
        let mut command = driver(pieces, &[scenario], &scratch);
        command.env("LD_PRELOAD", &pieces.shim);
        let ended = support::run(&mut command, limit());
        assert_eq!(ended.code(), Some(code), "{scenario}: {}", ended.stderr);
    }
    let mut command = driver(pieces, &["hot-api", "200000"], &scratch);
    scratch.clear();
    command.env("LD_PRELOAD", &pieces.shim);
    support::run(&mut command, limit()).expect_clean("hot-api under the shim");
}

/// The number of system calls of the appending thread does not depend on the number of appends.
#[test]
fn appends_make_no_system_calls() {
    let Some(pieces) = pieces() else { return };
    let probe = Command::new("strace")
        .args(["-c", "-o", "/dev/null", "true"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        support::skip(
            "system calls of appends",
            "strace is not here, or may not trace",
        );
        return;
    }
    for what in ["hot-api", "hot-api-args", "hot-dispatch"] {
        let calls = |count: &str| {
            let scratch = Scratch::new("strace");
            let plain = driver(pieces, &[what, count], &scratch);
            let mut command = Command::new("strace");
            command
                .args(["-c", "-o"])
                .arg(scratch.path("calls"))
                .arg(plain.get_program())
                .args(plain.get_args());
            for (name, value) in plain.get_envs() {
                match value {
                    Some(value) => command.env(name, value),
                    None => command.env_remove(name),
                };
            }
            let ended = support::run(&mut command, limit());
            ended.expect_clean(what);
            let text = std::fs::read_to_string(scratch.path("calls")).expect("strace's table");
            let total = text
                .lines()
                .find(|line| line.trim_end().ends_with(" total"))
                .and_then(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok());
            total.unwrap_or_else(|| panic!("strace's table: {text}"))
        };
        let (few, many) = (calls("1000"), calls("500000"));
        support::say(&format!(
            "acceptance g, {what}: {few} system calls with 2,000 callbacks, {many} with 1,000,000"
        ));
        // The stop looks every 100 us and reads its settings; nothing of it grows with the appends.
        assert!(many < few + 30, "{what}: {few} and {many}");
    }
}

/// Instructions per callback pair, counted by callgrind: the difference of two lengths, less that of an empty callback.
#[test]
fn instructions_of_the_hot_path() {
    let Some(pieces) = pieces() else { return };
    if !c::there_is("valgrind") {
        support::skip(
            "instructions of the hot path",
            "no valgrind on this machine",
        );
        return;
    }
    let count = |what: &str, calls: u64, function: &str| -> u64 {
        let scratch = Scratch::new("callgrind");
        let text = calls.to_string();
        let plain = driver(pieces, &[what, &text], &scratch);
        let mut command = Command::new("valgrind");
        command
            .args(["--tool=callgrind", "--collect-atstart=no"])
            .arg(format!("--toggle-collect={function}"))
            .arg(format!(
                "--callgrind-out-file={}",
                scratch.path("out").display()
            ))
            .arg(plain.get_program())
            .args(plain.get_args());
        for (name, value) in plain.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let ended = support::run(&mut command, Duration::from_secs(120));
        ended.expect_clean(what);
        let out = std::fs::read_to_string(scratch.path("out")).expect("callgrind's file");
        out.lines()
            .find_map(|line| line.strip_prefix("summary: "))
            .and_then(|total| total.trim().parse().ok())
            .expect("a summary in callgrind's file")
    };
    let per_call = |what: &str, function: &str| {
        let (few, many) = (count(what, 2_000, function), count(what, 12_000, function));
        (many - few) as f64 / 10_000.0
    };
    let empty = per_call("hot-empty", "loop_api");
    let pair = |what, function| per_call(what, function) - empty;
    let title = "acceptance g, instructions of the tool's callbacks (callgrind)";
    let mut table = support::Table::new(title, &["what", "instructions"]);
    for (what, instructions) in [
        ("API pair, no session", pair("hot-disabled", "loop_api")),
        ("API pair", pair("hot-api", "loop_api")),
        ("API pair with arguments", pair("hot-api-args", "loop_api")),
        (
            "dispatch issue (one append)",
            per_call("hot-enqueue", "loop_enqueue") - empty / 2.0,
        ),
        ("dispatch pair", pair("hot-dispatch", "loop_dispatch")),
    ] {
        table.row(vec![what.to_owned(), format!("{instructions:.1}")]);
        assert!(instructions < 1_000.0, "{what}: {instructions}");
    }
    table.print();
}
