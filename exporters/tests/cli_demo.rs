//! Goal: the whole way, from a simulated program through the tool library to files and a verdict. Method: the real binary
//! with the libraries that cargo builds beside it; they are built here first, because a test of this package alone does not.

mod cli_support;

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Once;

use cli_support::{Done, Folder};
use serde_json::Value;

const STRANDLINE: &str = env!("CARGO_BIN_EXE_strandline");

/// Builds the shared libraries into the folder of the binary under test.
fn build_libraries() {
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let folder = Path::new(STRANDLINE).parent().unwrap();
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
        command
            .args(["build", "--quiet", "--target-dir"])
            .arg(folder.parent().unwrap())
            .args(["-p", "strandline-rocprofiler", "-p", "sim-rocprofiler-sdk"])
            .args(["-p", "sim-roctx", "-p", "sim-amdhip64"])
            .current_dir(env!("CARGO_MANIFEST_DIR"));
        if folder.ends_with("release") {
            command.arg("--release");
        }
        assert!(
            command.status().unwrap().success(),
            "the libraries did not build"
        );
    });
}

/// The command with the libraries that were built, and everything else as in the other tests.
fn strandline(folder: &Folder) -> Command {
    build_libraries();
    let mut command = folder.strandline();
    command.env_remove("STRANDLINE_LIB_DIR");
    command
}

fn run(folder: &Folder, args: &[&str]) -> Done {
    Done::of(strandline(folder).args(args).output().unwrap())
}

#[test]
fn the_demo_shows_a_whole_trace_and_says_that_it_is_simulated() {
    let folder = Folder::new("demo");
    let mut command = strandline(&folder);
    // What would change the recording in the user's shell does not reach the demo.
    command
        .env("STRANDLINE_START", "api")
        .env("ROCSIM_FAIL_TIMING", "50%");
    let done = Done::of(command.args(["demo", "--dir", "out"]).output().unwrap());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.starts_with("This is a simulation"), "{done:?}");
    assert!(done.out.contains("SIMULATED"), "{done:?}");
    assert!(
        done.out.ends_with("\ncomplete: 6400 of 6400 dispatches\n"),
        "{done:?}"
    );
    for name in ["demo.slt", "demo.json", "demo.pftrace"] {
        assert!(
            fs::metadata(folder.path("out").join(name)).unwrap().len() > 10_000,
            "{name}"
        );
    }
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
    let again = run(&folder, &["demo", "--dir", "out"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let dump = run(&folder, &["dump", "out/demo.slt"]);
    let mut nodes: HashMap<String, u32> = HashMap::new();
    for line in dump.out.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        if record["kind"] == "dispatch" {
            *nodes
                .entry(record["kernel"].as_str().unwrap().to_owned())
                .or_default() += 1;
        }
    }
    assert_eq!(
        (nodes.len(), nodes.values().min(), nodes.values().max()),
        (32, Some(&200), Some(&200))
    );
}

#[test]
fn a_recording_on_the_stand_in_passes_the_code_on_and_says_what_was_retired() {
    let folder = Folder::new("sim");
    let sim = [
        "--",
        STRANDLINE,
        "sim",
        "graph",
        "--replays",
        "20",
        "--fail-timing",
        "5%",
    ];
    let done = run(
        &folder,
        &[&["record", "--sim", "-o", "run.slt"], &sim[..]].concat(),
    );
    assert_eq!(done.code, Some(0), "{done:?}");
    let summary = run(&folder, &["summary", "run.slt", "--json"]);
    assert_eq!(summary.code, Some(3), "{summary:?}");
    let json: Value = serde_json::from_str(&summary.out).unwrap();
    let dispatches = &json["sessions"][0]["dispatches"];
    assert_eq!(
        (&json["simulated"], &dispatches["issued"]),
        (&Value::Bool(true), &Value::from(640))
    );
    let done = run(
        &folder,
        &[
            "record",
            "--sim",
            "-o",
            "x.slt",
            "--",
            STRANDLINE,
            "sim",
            "no-such-workload",
        ],
    );
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(
        done.err
            .contains("nothing was recorded and x.slt was not written"),
        "{done:?}"
    );
}

#[test]
fn a_program_that_was_killed_leaves_a_trace() {
    let folder = Folder::new("killed");
    let script = format!(
        "'{STRANDLINE}' sim graph --replays 1000000 & sleep 1; kill -9 $!; wait $!; kill -9 $$"
    );
    let done = run(
        &folder,
        &[
            "record", "--sim", "-o", "run.slt", "--budget", "32M", "--", "sh", "-c", &script,
        ],
    );
    assert_eq!(done.code, Some(137), "{done:?}");
    let recovered = run(&folder, &["recover", "run.slt", "-o", "run.json"]);
    // 0 when by chance nothing was under way at that moment.
    assert!(matches!(recovered.code, Some(0 | 3)), "{recovered:?}");
    assert!(
        recovered.out.contains("session 1: never closed"),
        "{recovered:?}"
    );
    assert!(recovered.out.contains(" is gone: "), "{recovered:?}");
    let json: Value = serde_json::from_slice(&fs::read(folder.path("run.json")).unwrap()).unwrap();
    assert!(json["traceEvents"].as_array().unwrap().len() > 1_000);
}

#[test]
fn a_killed_program_s_memfd_survives_in_the_recorder() {
    let folder = Folder::new("memfd");
    // Two processes: one is killed, one ends.
    let script = format!(
        "'{STRANDLINE}' sim graph --replays 100000000 &
         for i in $(seq 200); do grep -q memfd: /proc/$!/maps && break; sleep 0.1; done; sleep 0.4
         ls \"$STRANDLINE_DIR\"/*/; kill -9 $!; wait $!
         '{STRANDLINE}' sim graph --replays 20; kill -9 $$"
    );
    let mut command = strandline(&folder);
    command
        .args(["record", "--sim", "-o", "run.slt", "--budget", "32M"])
        .args(["--", "sh", "-c", &script])
        .env("STRANDLINE_BACKING", "memfd");
    let done = Done::of(command.output().unwrap());
    assert_eq!(done.code, Some(137), "{done:?}");
    // Nothing in the folder but the socket and the log: the region has no name.
    assert!(
        done.out.contains("keeper") && !done.out.contains(".slt"),
        "{done:?}"
    );
    let recovered = run(&folder, &["recover", "run.slt"]);
    assert!(matches!(recovered.code, Some(0 | 3)), "{recovered:?}");
    assert!(
        recovered.out.contains("session 1: never closed"),
        "{recovered:?}"
    );
    let second = fs::read_dir(folder.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|name| name.starts_with("run.") && name != "run.slt")
        .expect("the second process's trace");
    let summary = run(&folder, &["summary", &second]);
    assert!(
        summary.out.contains("complete: 640 of 640 dispatches"),
        "{summary:?}"
    );
    // No place for it: it is copied to the private folder, named, and kept.
    let mut command = strandline(&folder);
    command
        .args(["record", "--sim", "-o", "no/run.slt", "--", "sh", "-c"])
        .arg(format!(
            "'{STRANDLINE}' sim graph --replays 20; rmdir no; exit 5"
        ))
        .env("STRANDLINE_BACKING", "memfd");
    fs::create_dir(folder.path("no")).unwrap();
    let done = Done::of(command.output().unwrap());
    assert_eq!(done.code, Some(5), "{done:?}");
    let kept = done
        .err
        .split("the recording is kept in ")
        .nth(1)
        .and_then(|rest| rest.split(';').next())
        .unwrap_or_else(|| panic!("{done:?}"));
    let summary = run(&folder, &["summary", kept]);
    assert!(
        summary.out.contains("complete: 640 of 640 dispatches"),
        "{summary:?}"
    );
}

#[test]
fn the_doctor_finds_the_parts() {
    let folder = Folder::new("doctor");
    let done = run(&folder, &["doctor"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("ok   tool library: /"), "{}", done.out);
    assert!(
        done.out
            .contains("ok   stand-in SDK (record --sim, demo): /"),
        "{}",
        done.out
    );
    for line in done.out.lines() {
        assert!(
            ["ok   ", "warn ", "no   "]
                .iter()
                .any(|mark| line.starts_with(mark)),
            "{line}"
        );
        assert!(line.split("; ").count() >= 2, "{line}");
    }
    // With the stand-in on the loader's path it is found and named, open, and a trial tool may configure itself.
    let sim = run(&folder, &["tool-path", "sim"]).out;
    let output = strandline(&folder)
        .env("LD_LIBRARY_PATH", sim.trim_end())
        .arg("doctor")
        .output()
        .unwrap();
    let done = Done::of(output);
    assert!(
        done.out.contains("warn rocprofiler-sdk: 1.0.0 at "),
        "{}",
        done.out
    );
    assert!(
        done.out.contains("ok   SDK configuration: open; "),
        "{}",
        done.out
    );
    // A library that can't be opened in the list of tools ends programs.
    let output = strandline(&folder)
        .env("ROCP_TOOL_LIBRARIES", "/none.so")
        .arg("doctor")
        .output()
        .unwrap();
    let done = Done::of(output);
    assert!(
        done.out
            .contains("no   first in line: ROCP_TOOL_LIBRARIES names /none.so; "),
        "{}",
        done.out
    );
}

#[test]
fn tool_paths_are_absolute_and_what_the_loader_needs() {
    let folder = Folder::new("paths");
    let tool = run(&folder, &["tool-path", "rocprofiler"]);
    assert_eq!(tool.code, Some(0), "{tool:?}");
    let tool = Path::new(tool.out.trim_end());
    assert!(tool.is_absolute() && tool.ends_with("libstrandline_rocprofiler.so"));
    let sim = run(&folder, &["tool-path", "sim"]);
    let sim = Path::new(sim.out.trim_end()).to_owned();
    for name in [
        "librocprofiler-sdk.so.1",
        "libamdhip64.so",
        "librocprofiler-sdk-roctx.so.1",
    ] {
        assert!(sim.join(name).exists(), "{name}");
    }
    run(&folder, &["tool-path", "cupti"]).fails(1, &["looking for libstrandline_cupti.so"]);
}

/// A stream keeps its live region and its file in folders of their own while the program runs, and nothing is left of
/// either: what the program did not write itself is brought to the file.
#[test]
fn a_stream_is_whole_or_says_what_was_lost_also_when_its_program_is_killed() {
    let folder = Folder::new("stream");
    let graph = |replays: &str| format!("{STRANDLINE} sim graph --replays {replays} 2>&1");
    let record = |out: &str, script: &str| {
        let args = [
            "record", "--sim", "--mode", "stream", "--budget", "8M", "-o", out,
        ];
        let mut command = strandline(&folder);
        command.args(args).args(["--", "/bin/sh", "-c", script]);
        Done::of(command.output().unwrap())
    };
    let summary = |file: &str| {
        let done = run(&folder, &["summary", "--json", file]);
        serde_json::from_str::<Value>(&done.out).expect("a summary")
    };
    let done = record("whole.slt", &graph("2000"));
    assert_eq!(done.code, Some(0), "{done:?}");
    let whole = summary("whole.slt");
    let text = run(&folder, &["summary", "whole.slt"]).out;
    assert!(text.contains("  mode      stream\n"), "{text}");
    let work = &whole["sessions"][0]["dispatches"];
    assert_eq!(work["issued"], 64_000, "{done:?}");
    let number = |value: &Value| value.as_u64().expect("a number");
    // On a machine without a free core the collector may come too late: then it says so.
    let lost = number(&whole["sessions"][0]["lost"]["no_segment"]);
    let missing = number(&work["missing"]);
    assert!(missing <= lost, "{done:?}");
    assert_eq!(number(&work["recorded"]) + missing, 64_000, "{done:?}");
    // More than the region holds.
    assert!(number(&work["recorded"]) > 20_000, "{done:?}");

    let script = format!("{} & p=$!; sleep 1; kill -9 $p; wait", graph("2000000"));
    let done = record("killed.slt", &script);
    assert!(done.err.contains("wrote killed.slt"), "{done:?}");
    assert!(done.err.contains("sessions never closed 1"), "{done:?}");
    let killed = summary("killed.slt");
    assert!(number(&killed["sessions"][0]["dispatches"]["recorded"]) > 0);
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
    let beside = fs::read_dir(folder.path(".")).unwrap();
    let beside: Vec<_> = beside
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".strandline"))
        .collect();
    assert!(beside.is_empty(), "{beside:?}");
}
