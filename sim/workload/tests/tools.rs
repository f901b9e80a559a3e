//! Goal: tools see what the real SDK shows them. Method: a C++ tool with its own copy of the ABI
//! (`cpp/sdk.h`) checks the rules from the inside while the workload runs, and reports counts and
//! broken rules as JSON; these tests run it in many arms. Skipped, with the reason, without g++.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;

/// What is built once: stand-in libraries, links, tools.
struct Built {
    links: PathBuf,
    folder: PathBuf,
}

/// Builds it; `None` = no g++.
fn built() -> Option<&'static Built> {
    static BUILT: OnceLock<Option<Built>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            if Command::new("g++").arg("--version").output().is_err() {
                eprintln!("skipped: no g++ to build the test tools with");
                return None;
            }
            let program = Path::new(env!("CARGO_BIN_EXE_sim-workload"));
            let target = program.parent().unwrap().to_path_buf();
            let mut cargo = Command::new(env!("CARGO"));
            cargo.args([
                "build",
                "-q",
                "-p",
                "sim-amdhip64",
                "-p",
                "sim-rocprofiler-sdk",
            ]);
            cargo
                .args(["-p", "sim-roctx", "--target-dir"])
                .arg(target.parent().unwrap());
            if !cfg!(debug_assertions) {
                cargo.arg("--release");
            }
            assert!(cargo.status().unwrap().success(), "stand-in libraries");
            let folder = target.join("sim-tests");
            let links = folder.join("links");
            sim_workload::install_links(&target, &links).unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cpp");
            let compile = |name: &str, file: &str, flags: &[&str]| {
                let out = folder.join(name);
                let temporary = folder.join(format!("{name}.{}", std::process::id()));
                let mut gcc = Command::new("g++");
                gcc.args(["-std=c++17", "-O1", "-g", "-Wall", "-Wextra"])
                    .args(flags);
                gcc.arg(source.join(file)).arg("-o").arg(&temporary);
                gcc.arg("-L").arg(&links).args([
                    "-lrocprofiler-sdk",
                    "-lamdhip64",
                    "-lrocprofiler-sdk-roctx",
                ]);
                let output = gcc.output().unwrap();
                let text = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{text}");
                std::fs::rename(&temporary, &out).unwrap();
            };
            let library: &[&str] = &["-fPIC", "-shared"];
            compile("libtool.so", "tool.cpp", library);
            let second: &[&str] = &[
                "-fPIC",
                "-shared",
                "-DTOOL_NAME=\"second\"",
                "-DTOOL_ENV=\"TOOL_OUT2\"",
            ];
            compile("libsecond.so", "tool.cpp", second);
            compile("host", "host.cpp", &[]);
            compile("hazards", "hazards.cpp", &[]);
            Some(Built { links, folder })
        })
        .as_ref()
}

/// One run.
struct Run {
    output: Output,
    /// Reports of the first and the second tool.
    tool: Option<Value>,
    second: Option<Value>,
    /// Lines of the tool's dump and of the ledger.
    dump: Vec<String>,
    ledger: Vec<Value>,
}

impl Run {
    fn count(&self, name: &str) -> i64 {
        let tool = self.tool.as_ref().expect("the tool was finalized");
        tool.get(name).map_or(0, |value| value.as_i64().unwrap())
    }

    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    #[track_caller]
    fn clean(&self) {
        assert!(
            self.output.status.success(),
            "{:?} {}",
            self.output.status,
            self.stderr()
        );
        let tool = self.tool.as_ref().expect("the tool was finalized");
        assert_eq!(tool["violations"], Value::Array(vec![]), "broken rules");
    }
}

/// Runs the workload with the tool; `None` = skipped.
fn run(args: &[&str], env: &[(&str, &str)]) -> Option<Run> {
    let built = built()?;
    static NUMBER: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let file = |name: &str| {
        let path = built
            .folder
            .join(format!("{name}-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        path
    };
    let (out, out2, dump, ledger) = (file("out"), file("out2"), file("dump"), file("ledger"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_sim-workload"));
    command.args(args);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("ROC") || text.starts_with("TOOL_") {
            command.env_remove(&name);
        }
    }
    command
        .env("LD_LIBRARY_PATH", &built.links)
        .env("ROCP_TOOL_LIBRARIES", built.folder.join("libtool.so"))
        .env("TOOL_OUT", &out)
        .env("TOOL_OUT2", &out2)
        .env("TOOL_DUMP_TO", &dump)
        .env("ROCSIM_LEDGER", &ledger);
    for (name, value) in env {
        let value = value
            .replace("{tools}", &built.folder.display().to_string())
            .replace("{dump}", &dump.display().to_string());
        command.env(name, value);
    }
    let output = command.output().unwrap();
    let json = |path: &Path| {
        let text = std::fs::read_to_string(path).ok()?;
        Some(serde_json::from_str(&text).expect("the report is JSON"))
    };
    let lines = |path: &Path| -> Vec<String> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    };
    let run = Run {
        output,
        tool: json(&out),
        second: json(&out2),
        dump: lines(&dump),
        ledger: lines(&ledger)
            .iter()
            .map(|line| serde_json::from_str(line).expect("the ledger is JSON lines"))
            .collect(),
    };
    for path in [out, out2, dump, ledger] {
        let _ = std::fs::remove_file(path);
    }
    Some(run)
}

/// Every arm that delivers all records: each node completes exactly 200 times, no rule is broken.
#[test]
fn every_arm_delivers_each_node_exactly_200_times() {
    let arms: [&[&str]; 14] = [
        &[],
        &["--plain"],
        &["--late", "uniform:5ms:40ms"],
        &["--late", "tail:0.1%:60ms:200ms", "--handlers", "2"],
        &["--late", "tail:5%:300ms:600ms", "--handlers", "4"],
        &["--stall", "0.1%:40ms:80ms"],
        &["--throttle"],
        &["--newest-first", "--handler-time", "5us"],
        &["--ring", "8", "--kernel-time", "20us"],
        &["--threads", "4", "--queues", "1"],
        &["--threads", "4", "--queues", "1", "--plain"],
        &["--threads", "3", "--devices", "2", "--streams", "2"],
        &["--no-device-sync", "--late", "10ms"],
        &["--copies", "20", "--scratch", "1%"],
    ];
    for arm in arms {
        let args = [&["graph", "--seed", "11"], arm].concat();
        let Some(run) = run(&args, &[]) else { return };
        run.clean();
        for name in ["enqueue", "complete"] {
            assert_eq!(run.count(name), 6400, "{arm:?} {name}");
        }
        assert_eq!(
            (run.count("node_min"), run.count("node_max")),
            (200, 200),
            "{arm:?}"
        );
        assert_eq!(run.count("unretired"), 0, "{arm:?}");
        assert_eq!(run.count("after_finalize"), 0, "{arm:?}");
    }
}

#[test]
fn kernel_names_die_with_the_callback() {
    let Some(run) = run(&["graph"], &[]) else {
        return;
    };
    run.clean();
    assert_eq!((run.count("symbol_load"), run.count("host_load")), (32, 32));
    assert_eq!(run.count("poisoned"), 32);
    assert_eq!(
        (run.count("object_unload"), run.count("symbol_unload")),
        (1, 32)
    );
}

#[test]
fn records_of_work_enqueued_before_a_stop_come_after_it() {
    let args = ["graph", "--late", "400ms"];
    let Some(run) = run(&args, &[("TOOL_STOP", "1")]) else {
        return;
    };
    run.clean();
    assert_eq!(run.count("complete"), 6400);
    assert!(run.count("complete_after_stop") > 1000);
    assert_eq!(run.count("enqueue_after_stop"), 0);
    assert_eq!(run.count("unretired"), 0);
}

#[test]
fn retirement_goes_only_to_contexts_that_are_active_then() {
    let args = ["graph", "--late", "400ms"];
    let env = [("TOOL_STOP", "1"), ("TOOL_RETIRE", "0")];
    let Some(run) = run(&args, &env) else { return };
    run.clean();
    assert_eq!(run.count("complete"), 6400);
    assert!(run.count("unretired") > 100, "{}", run.count("unretired"));
}

#[test]
fn nothing_is_flushed_at_finalization() {
    let Some(run) = run(&["graph"], &[("TOOL_FLUSH", "0")]) else {
        return;
    };
    run.clean();
    assert_eq!(run.count("retired"), 0);
}

/// Figures of the real buffer code: 4 KiB, watermark at half.
#[test]
fn lossless_keeps_all_and_discard_dies_after_its_first_flush() {
    let Some(lossless) = run(&["graph"], &[("TOOL_POLICY", "2")]) else {
        return;
    };
    lossless.clean();
    assert_eq!(lossless.count("buffered"), 6400);
    let Some(discard) = run(&["graph"], &[("TOOL_POLICY", "1")]) else {
        return;
    };
    discard.clean();
    assert_eq!(
        (discard.count("buffered"), discard.count("discarded")),
        (12, 0)
    );
    let env = [("TOOL_POLICY", "1"), ("TOOL_WATERMARK", "999999")];
    let Some(discard) = run(&["graph"], &env) else {
        return;
    };
    assert_eq!(
        (discard.count("buffered"), discard.count("discarded")),
        (22, 6378)
    );
}

#[test]
fn a_flush_inside_a_buffer_callback_does_not_go_unnoticed() {
    let env = [("TOOL_HANG", "1"), ("TOOL_POLICY", "2")];
    let Some(run) = run(&["graph"], &env) else {
        return;
    };
    assert!(!run.output.status.success());
    assert!(
        run.stderr().contains("hangs here for ever"),
        "{}",
        run.stderr()
    );
}

#[test]
fn failed_timings_retire_without_a_record() {
    let Some(run) = run(&["graph", "--plain", "--fail-timing", "1%"], &[]) else {
        return;
    };
    run.clean();
    let failed = run
        .ledger
        .iter()
        .filter(|line| line["timed"] == false)
        .count() as i64;
    assert!((20..120).contains(&failed), "{failed}");
    assert_eq!(run.count("complete"), 6400 - failed);
    assert_eq!(run.count("unretired"), 0);
}

#[test]
fn a_full_ring_leaves_dispatches_without_a_launch() {
    let Some(run) = run(&["graph", "--ring", "8", "--kernel-time", "50us"], &[]) else {
        return;
    };
    run.clean();
    assert!(run.count("no_launch") > 3200, "{}", run.count("no_launch"));
    assert_eq!(run.count("complete"), 6400);
}

#[test]
fn handler_threads_share_the_records() {
    let Some(run) = run(&["graph", "--handlers", "4"], &[]) else {
        return;
    };
    run.clean();
    assert_eq!(run.count("handler_threads"), 4);
}

#[test]
fn newest_first_inverts_a_backlog() {
    let args = [
        "graph",
        "--newest-first",
        "--handler-time",
        "20us",
        "--late",
        "30ms",
    ];
    let Some(newest) = run(&args, &[]) else {
        return;
    };
    newest.clean();
    assert!(
        newest.count("inversions") > 2000,
        "{}",
        newest.count("inversions")
    );
    let Some(fifo) = run(&["graph"], &[]) else {
        return;
    };
    assert_eq!(fifo.count("inversions"), 0);
}

#[test]
fn the_same_seed_fails_the_same_records() {
    let args = ["graph", "--fail-timing", "2%", "--seed", "5"];
    let failed = |run: &Run| -> Vec<u64> {
        let lines = run.ledger.iter().filter(|line| line["timed"] == false);
        lines.map(|line| line["seq"].as_u64().unwrap()).collect()
    };
    let (Some(a), Some(b)) = (run(&args, &[]), run(&args, &[])) else {
        return;
    };
    let (mut a, mut b) = (failed(&a), failed(&b));
    a.sort_unstable();
    b.sort_unstable();
    assert!(!a.is_empty());
    assert_eq!(a, b);
}

/// Ground truth and what the tool was told: the same dispatches, times and kernels.
#[test]
fn the_ledger_is_what_tools_were_told() {
    let args = ["graph", "--late", "uniform:1ms:9ms", "--copies", "5"];
    let Some(run) = run(&args, &[("TOOL_DUMP", "{dump}")]) else {
        return;
    };
    run.clean();
    let told: HashMap<u64, (u64, u64, String)> = run
        .dump
        .iter()
        .filter_map(|line| line.strip_prefix("D "))
        .map(|line| {
            let parts: Vec<&str> = line.split(' ').collect();
            let number = |index: usize| parts[index].parse::<u64>().unwrap();
            (number(0), (number(1), number(2), parts[10].to_owned()))
        })
        .collect();
    let mut seen = 0;
    for line in run.ledger.iter().filter(|line| line["kind"] == "dispatch") {
        let (start, end, kernel) = &told[&line["dispatch_id"].as_u64().unwrap()];
        assert_eq!(line["start_ns"].as_u64(), Some(*start));
        assert_eq!(line["end_ns"].as_u64(), Some(*end));
        assert_eq!(line["kernel"].as_str(), Some(kernel.as_str()));
        assert_eq!(line["delivered"], true);
        seen += 1;
    }
    assert_eq!((seen, told.len()), (6400, 6400));
    let copies = run
        .ledger
        .iter()
        .filter(|line| line["kind"] == "copy")
        .count();
    assert_eq!(copies, 5);
    let launches = run
        .ledger
        .iter()
        .find(|line| line["name"] == "hipGraphLaunch");
    assert_eq!(launches.unwrap()["calls"], 200);
}

#[test]
fn several_tools_have_priorities_and_each_gets_all() {
    let both = [(
        "ROCP_TOOL_LIBRARIES",
        "{tools}/libtool.so:{tools}/libsecond.so:",
    )];
    let Some(run) = run(&["graph", "--late", "10ms"], &both) else {
        return;
    };
    run.clean();
    let second = run.second.as_ref().expect("the second tool was finalized");
    assert_eq!(second["violations"], Value::Array(vec![]));
    assert_eq!(
        (run.count("priority"), &second["priority"]),
        (0, &Value::from(1))
    );
    assert_eq!(
        (run.count("complete"), &second["complete"]),
        (6400, &Value::from(6400))
    );
}

/// 1.0.0 forgets what follows the last `:`.
#[test]
fn the_last_tool_of_a_list_is_lost() {
    let both = [(
        "ROCP_TOOL_LIBRARIES",
        "{tools}/libtool.so:{tools}/libsecond.so",
    )];
    let Some(run) = run(&["graph"], &both) else {
        return;
    };
    run.clean();
    assert!(run.second.is_none());
}

#[test]
fn discovery_follows_its_switches() {
    let off = [("ROCPROFILER_REGISTER_ENABLED", "0")];
    let Some(off) = run(&["graph"], &off) else {
        return;
    };
    assert!(off.output.status.success());
    assert!(off.tool.is_none());
    let Some(missing) = run(&["graph"], &[("ROCP_TOOL_LIBRARIES", "/no/such/tool.so")]) else {
        return;
    };
    assert!(!missing.output.status.success(), "the real SDK aborts");
    let preload = [
        ("ROCP_TOOL_LIBRARIES", ""),
        ("LD_PRELOAD", "{tools}/libtool.so"),
    ];
    let Some(preload) = run(&["graph"], &preload) else {
        return;
    };
    preload.clean();
    assert_eq!(preload.count("complete"), 6400);
}

#[test]
fn exits_without_handlers_finalize_nothing() {
    let Some(run) = run(&["graph", "--exit", "quick"], &[]) else {
        return;
    };
    assert!(run.output.status.success());
    assert!(run.tool.is_none());
}

#[test]
fn markers_reach_tools() {
    let Some(run) = run(&["graph", "--window", "roctx"], &[]) else {
        return;
    };
    run.clean();
    for call in ["roctxProfilerResume", "roctxProfilerPause"] {
        assert_eq!(run.count(&format!("enter_{call}")), 1);
        assert_eq!(run.count(&format!("exit_{call}")), 1);
    }
}

#[test]
fn sessions_by_functions_of_the_tool() {
    let Some(built) = built() else { return };
    let saved = built
        .folder
        .join(format!("saved-{}-{{}}", std::process::id()));
    let args = [
        "graph",
        "--window",
        "api",
        "--sessions",
        "5",
        "--replays",
        "10",
        "--late",
        "uniform:1ms:3ms",
        "--api-start",
        "tool_start",
        "--api-stop",
        "tool_stop",
        "--api-export",
        "tool_save",
        "--deadline-ms",
        "77",
        "--save",
        saved.to_str().unwrap(),
        "--json",
    ];
    let Some(run) = run(&args, &[("TOOL_IDLE", "1")]) else {
        return;
    };
    run.clean();
    let text = String::from_utf8_lossy(&run.output.stdout).into_owned();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON lines"))
        .collect();
    assert_eq!(lines.len(), 6, "{text}");
    for (line, session) in lines[..5].iter().zip(1..) {
        assert_eq!(line["session"], session);
        assert_eq!(
            (&line["issued"], &line["launched"]),
            (&Value::from(320), &Value::from(320))
        );
        assert_eq!(line["waited_ns"], 77_000_000);
        let path = saved
            .display()
            .to_string()
            .replace("{}", &(session - 1).to_string());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), session.to_string());
        std::fs::remove_file(path).unwrap();
    }
    assert_eq!(lines[5]["dispatches"], 1600);
    // Nothing is seen of what was launched before the first session: 32 captured launches.
    assert_eq!(run.count("enter_hipLaunchKernel"), 0);
    assert_eq!(run.count("complete"), 1600);
}

#[test]
fn calls_nest_and_modules_come_and_go() {
    let args = [
        "graph",
        "--api-threads",
        "3",
        "--api-calls",
        "4000",
        "--json",
    ];
    let Some(run) = run(&args, &[("TOOL_REPLAY", "1")]) else {
        return;
    };
    run.clean();
    assert_eq!(run.count("enter_hipMemset"), 750);
    assert_eq!(run.count("nested"), 1500);
    assert_eq!(run.count("enter_hipMemsetAsync"), 750);
    assert_eq!(run.count("enqueue"), run.count("complete"));
    assert!(run.count("enter_hipModuleUnload") >= 1);
    assert_eq!(
        run.count("enter_hipModuleUnload") + 2,
        run.count("object_load")
    );
    let line: Value = serde_json::from_slice(&run.output.stdout).unwrap();
    assert_eq!(line["calls"], 12000);
}

/// A sanitizer arm proves nothing unless it can fail: the planted overflow is caught.
#[test]
fn the_planted_overflow_is_caught() {
    let debug = [
        ("LD_PRELOAD", "libc_malloc_debug.so.0"),
        ("MALLOC_CHECK_", "3"),
        ("ROCSIM_PLANTED_OVERFLOW", "100"),
    ];
    let Some(caught) = run(&["graph"], &debug) else {
        return;
    };
    if caught.stderr().contains("cannot be preloaded") {
        eprintln!("skipped: no libc_malloc_debug.so.0");
        return;
    }
    assert!(!caught.output.status.success());
    let Some(clean) = run(&["graph"], &debug[..2]) else {
        return;
    };
    clean.clean();
}

#[test]
fn forced_configuration_and_statuses() {
    let Some(built) = built() else { return };
    for arguments in [&[][..], &["hip-call-in-initialize"]] {
        forced(built, arguments);
    }
}

fn forced(built: &Built, arguments: &[&str]) {
    let output = Command::new(built.folder.join("host"))
        .args(arguments)
        .env("LD_LIBRARY_PATH", &built.links)
        .env_remove("ROCP_TOOL_LIBRARIES")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text} {}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(text, "ok\n");
}

/// What works, and what ends the real SDK with a message of the stand-in.
#[test]
fn hazards_of_the_real_sdk() {
    let Some(built) = built() else { return };
    for (mode, abort) in [
        ("external", None),
        ("request", None),
        ("ranges", None),
        ("launch-in-enqueue", None),
        ("stream", None),
        ("stream-unknown", Some("is unknown")),
        ("second-code-context", Some("a second CODE_OBJECT context")),
        ("context-in-configure", Some("trips an assertion")),
    ] {
        let output = Command::new(built.folder.join("hazards"))
            .arg(mode)
            .env("LD_LIBRARY_PATH", &built.links)
            .env_remove("ROCP_TOOL_LIBRARIES")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            output.status.success(),
            abort.is_none(),
            "{mode}: {text} {error}"
        );
        match abort {
            None => assert_eq!(text, "ok\n", "{mode}"),
            Some(message) => assert!(error.contains(message), "{mode}: {error}"),
        }
    }
}

#[test]
fn bad_values_are_refused_before_anything_runs() {
    for (args, message) in [
        (
            &["graph", "--late", "uniform:9ms:1ms"][..],
            "--late: `uniform:9ms:1ms`",
        ),
        (&["graph", "--stall", "1"], "--stall: `1`: expected P:LO:HI"),
        (&["graph", "--handlers", "0"], "--handlers: `0`"),
        (&["graph", "--fail-timing", "2"], "--fail-timing: `2`"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_sim-workload"))
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(message), "{args:?}: {text}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_sim-workload"))
        .args(["graph", "--nodes", "0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}

/// Two streams, partly overlapping kernels, two queues, launches from two threads.
#[test]
fn a_rocprofv3_recording_is_played_to_the_nanosecond() {
    let Some(built) = built() else { return };
    let base = 63_857_982_592_000_u64;
    let mut records = String::new();
    for id in 1..=100_u64 {
        // Not in the order of the starts, and overlapping by 50 ns.
        let start = base + (id ^ 3) * 950;
        records += &format!(
            "{}{{\"thread_id\":{},\"start_timestamp\":{start},\"end_timestamp\":{},\"stream_id\":{{\"handle\":{}}},\
             \"dispatch_info\":{{\"agent_id\":{{\"handle\":901}},\"queue_id\":{{\"handle\":{}}},\"kernel_id\":{},\
             \"dispatch_id\":{id},\"private_segment_size\":0,\"group_segment_size\":16,\
             \"workgroup_size\":{{\"x\":64,\"y\":1,\"z\":1}},\"grid_size\":{{\"x\":{},\"y\":1,\"z\":1}}}}}}",
            if id > 1 { "," } else { "" },
            1000 + id % 2,
            start + 1000,
            id % 3,
            16 + id % 2,
            1 + id % 2,
            64 * id,
        );
    }
    let text = format!(
        "{{\"rocprofiler-sdk-tool\":[{{\"agents\":[{{\"id\":{{\"handle\":900}},\"type\":1}},\
         {{\"id\":{{\"handle\":901}},\"type\":2,\"name\":\"gfx950\",\"product_name\":\"Test\"}}],\
         \"kernel_symbols\":[{{\"kernel_id\":0,\"code_object_id\":0,\"kernel_name\":\"\"}},\
         {{\"kernel_id\":1,\"code_object_id\":1,\"kernel_name\":\"_Z1av.kd\"}},\
         {{\"kernel_id\":2,\"code_object_id\":2,\"kernel_name\":\"_Z1bv.kd\"}}],\
         \"code_objects\":[{{\"code_object_id\":1,\"agent_id\":{{\"handle\":901}}}}],\
         \"buffer_records\":{{\"kernel_dispatch\":[{records}]}}}}]}}"
    );
    let path = built
        .folder
        .join(format!("recording-{}.json", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = path.display().to_string();
    for late in ["0", "uniform:1ms:5ms"] {
        let env = [("TOOL_DUMP", "{dump}"), ("TOOL_REPLAY", "1")];
        let run = run(&["replay", &file, "--late", late, "--json"], &env).unwrap();
        run.clean();
        let mut streams: HashMap<String, u64> = HashMap::new();
        let lines: Vec<&String> = run
            .dump
            .iter()
            .filter(|line| line.starts_with("D "))
            .collect();
        assert_eq!(lines.len(), 100);
        for line in lines {
            let parts: Vec<&str> = line.split(' ').skip(1).collect();
            let id: u64 = parts[0].parse().unwrap();
            let start = base + (id ^ 3) * 950;
            assert_eq!(
                (parts[1], parts[2]),
                (&*start.to_string(), &*(start + 1000).to_string())
            );
            assert_eq!(parts[5], (1000 + id % 2).to_string(), "thread");
            assert_eq!(
                *streams.entry(parts[6].to_owned()).or_insert(id % 3),
                id % 3,
                "stream"
            );
            assert_eq!(parts[8], format!("{},1,1", 64 * id), "grid");
            assert_eq!(
                parts[10],
                ["_Z1av.kd", "_Z1bv.kd"][(id % 2) as usize],
                "kernel"
            );
        }
        assert_eq!(streams.len(), 3);
    }
    std::fs::remove_file(&path).unwrap();
}

/// A graph launch with two kernels, a memset, a copy, a captured launch, and a row without a call.
#[test]
fn a_kineto_recording_is_played_with_its_calls() {
    let Some(built) = built() else { return };
    let text = r#"{"baseTimeNanoseconds":1767189312000000000,"deviceProperties":[{"id":0,"name":"Test"}],"traceEvents":[
{"ph":"X","cat":"cuda_runtime","name":"hipGraphLaunch","pid":7,"tid":70,"ts":3743411223546.042,"dur":6.619,"args":{"correlation":1}},
{"ph":"X","cat":"cuda_runtime","name":"hipMemsetAsync","pid":7,"tid":71,"ts":3743411223550.001,"dur":1.5,"args":{"correlation":2}},
{"ph":"X","cat":"cuda_runtime","name":"hipMemcpyAsync","pid":7,"tid":70,"ts":3743411223560.001,"dur":1.5,"args":{"correlation":3,"bytes":"64","kind":"1","dst":"0x10","src":"0x20"}},
{"ph":"X","cat":"cuda_runtime","name":"hipLaunchKernel","pid":7,"tid":70,"ts":3743411223570.001,"dur":1.5,"args":{"correlation":4,"grid":[4,1,1],"block":[64,1,1]}},
{"ph":"X","cat":"kernel","name":"void k<float>()","pid":2,"tid":3,"ts":3743411223580.123,"dur":10.001,"args":{"device":2,"stream":3,"correlation":1}},
{"ph":"X","cat":"kernel","name":"other()","pid":2,"tid":3,"ts":3743411223590.1,"dur":1.001,"args":{"device":2,"stream":3,"correlation":1}},
{"ph":"X","cat":"gpu_memset","name":"Memset (Device)","pid":2,"tid":0,"ts":3743411223591.1,"dur":1.001,"args":{"device":2,"stream":0,"correlation":2}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy HtoD","pid":2,"tid":0,"ts":3743411223592.1,"dur":1.001,"args":{"device":2,"stream":0,"correlation":3,"kind":"HtoD","bytes":64}},
{"ph":"X","cat":"kernel","name":"orphan()","pid":2,"tid":0,"ts":3743411223540.5,"dur":60.001,"args":{"device":2,"stream":0,"correlation":99}}]}"#;
    let path = built
        .folder
        .join(format!("kineto-{}.json", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = path.display().to_string();
    let env = [("TOOL_DUMP", "{dump}"), ("TOOL_REPLAY", "1")];
    let run = run(&["replay", &file, "--json"], &env).unwrap();
    std::fs::remove_file(&path).unwrap();
    run.clean();
    let mut calls: Vec<&str> = run
        .dump
        .iter()
        .filter_map(|line| line.strip_prefix("A "))
        .collect();
    calls.sort_unstable();
    assert_eq!(
        calls,
        [
            "70 hipGraphLaunch",
            "70 hipLaunchKernel",
            "70 hipMemcpyAsync",
            "71 hipMemsetAsync"
        ]
    );
    let mut dispatches: Vec<(u64, u64, String)> = run
        .dump
        .iter()
        .filter_map(|line| line.strip_prefix("D "))
        .map(|line| {
            let parts: Vec<&str> = line.splitn(11, ' ').collect();
            (
                parts[1].parse().unwrap(),
                parts[2].parse().unwrap(),
                parts[10].to_owned(),
            )
        })
        .collect();
    dispatches.sort();
    let base = 1_767_189_312_000_000_000 + 3_743_411_223_000_000;
    let expected = [
        (540_500, 600_501, "orphan().kd"),
        (580_123, 590_124, "void k<float>().kd"),
        (590_100, 591_101, "other().kd"),
        (591_100, 592_101, "__amd_rocclr_fillBufferAligned.kd"),
    ];
    let expected: Vec<(u64, u64, String)> = expected
        .iter()
        .map(|&(start, end, name)| (base + start, base + end, name.to_owned()))
        .collect();
    assert_eq!(dispatches, expected);
    let copy = format!("C 2 {} {} 64", base + 592_100, base + 593_101);
    assert!(run.dump.contains(&copy), "{:?}", run.dump);
    assert_eq!(run.count("no_launch"), 1);
}

#[test]
fn a_file_that_is_no_recording_is_refused() {
    let Some(built) = built() else { return };
    let path = built
        .folder
        .join(format!("bad-{}.json", std::process::id()));
    for (text, message) in [
        ("{", "not a recording"),
        ("{\"a\":1}", "neither"),
        ("\x1f\u{8b}", "not a recording"),
    ] {
        std::fs::write(&path, text).unwrap();
        let file = path.display().to_string();
        let run = run(&["replay", &file], &[]).unwrap();
        assert_eq!(run.output.status.code(), Some(1));
        assert!(run.stderr().contains(message), "{}", run.stderr());
        assert!(run.stderr().contains(&file), "{}", run.stderr());
    }
    std::fs::remove_file(&path).unwrap();
    let run = run(&["replay", "/no/such/file"], &[]).unwrap();
    assert_eq!(run.output.status.code(), Some(1));
}
