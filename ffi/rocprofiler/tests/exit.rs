//! Acceptance c, and how processes end: threads keep appending while sessions start, stop and are exported, while the
//! process finalizes, and in its exit handlers. No crash, no hang, and what comes late is counted.
//!
//! Each of the two arms with a memory checker first shows that it catches a planted overflow. `STRANDLINE_SEEDS=40` runs
//! 2,000 cycles and 200 exits an arm.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use support::{Ended, Scratch, Table, at, built, c};

const LIMIT: Duration = Duration::from_secs(120);
/// How the process ends: what `host exit` takes.
const ENDS: [&str; 7] = [
    "plain", "stop", "export", "handler", "waiting", "destroy", "stop",
];

fn host(output: &str, flags: &[&str]) -> Result<PathBuf, String> {
    let hip = built().sim.join("libamdhip64.so.7");
    let hip = hip.to_string_lossy();
    let shared = [
        "-std=c++17",
        "-pthread",
        "-Wl,--allow-shlib-undefined",
        &hip,
        "-ldl",
    ];
    c::compile("g++", "host.cpp", output, &[&shared[..], flags].concat())
}

/// One checker: how the host is run under it.
struct Arm {
    name: &'static str,
    host: PathBuf,
    env: Vec<(&'static str, String)>,
}

impl Arm {
    fn command(&self, words: &[&str], scratch: &Scratch, start: &str) -> Command {
        let mut command = support::traced(&self.host, &scratch.path("region.slt"), start);
        command.args(words);
        for (name, value) in &self.env {
            command.env(name, value);
        }
        command
    }

    fn run(&self, words: &[&str], scratch: &Scratch) -> Ended {
        scratch.clear();
        let mut command = self.command(words, scratch, "api");
        command
            .env("ROCSIM_LATE", "uniform:0:3ms")
            .env("ROCSIM_HANDLERS", "2");
        support::run(&mut command, LIMIT)
    }

    /// The checker sees an overflow of the host, and one of the SDK in the middle of its completions.
    fn catches(&self, scratch: &Scratch) -> Result<(), String> {
        let own = support::run(&mut self.command(&["overflow"], scratch, "api"), LIMIT);
        if own.clean() {
            return Err(format!(
                "{}: an overflow in the host went unseen",
                self.name
            ));
        }
        scratch.clear();
        let folder = scratch.path("");
        let mut command =
            self.command(&["cycles", "20", &folder.to_string_lossy()], scratch, "api");
        command.env("ROCSIM_PLANTED_OVERFLOW", "10");
        let planted = support::run(&mut command, LIMIT);
        if planted.clean() {
            return Err(format!(
                "{}: the SDK's planted overflow went unseen",
                self.name
            ));
        }
        Ok(())
    }
}

/// Runs the cycles and the exits of an arm.
fn cycles_and_exits(arm: &Arm) {
    let scratch = Scratch::new("exit");
    if let Err(why) = arm.catches(&scratch) {
        panic!("{why}");
    }
    let (cycles, exits) = if support::full() {
        (2000, 200)
    } else {
        (200, 14)
    };
    let folder = scratch.path("");
    let folder = folder.to_string_lossy();
    let ended = arm.run(&["cycles", &cycles.to_string(), &folder], &scratch);
    ended.expect_clean(&format!("{}: {cycles} cycles", arm.name));
    let line = &ended.json_lines()[0];
    assert_eq!(at(line, "cycles"), cycles);
    assert!(
        at(line, "incomplete") > 0,
        "no stop left records to come: nothing is tested"
    );
    // What was missing at a stop that did not wait came later and was counted, for its session or, when that was too
    // long ago, for all older ones.
    let (summary, _) = support::summary(&scratch.path("region.slt"));
    let sessions = summary["sessions"].as_array().expect("sessions");
    assert_eq!(sessions.len() as u64, cycles);
    let sum = |path: &str| {
        sessions
            .iter()
            .map(|session| at(session, path))
            .sum::<u64>()
    };
    assert_eq!(
        sum("dispatches/missing") + sum("copies/missing"),
        at(line, "missing")
    );
    let counted = sum("late");
    assert!(
        counted * 2 > at(line, "missing"),
        "{counted} late records are counted for their sessions"
    );
    let mut clean = 0;
    let mut late = 0;
    for run in 0..exits {
        let how = ENDS[run % ENDS.len()];
        let ended = arm.run(&["exit", how, &folder], &scratch);
        ended.expect_clean(&format!("{}: exit {how}", arm.name));
        clean += 1;
        let (summary, _) = support::summary(&scratch.path("region.slt"));
        let session = &summary["sessions"][0];
        let count = |path| at(session, path);
        assert_eq!(
            count("dispatches/issued"),
            count("dispatches/recorded")
                + count("dispatches/missing")
                + count("dispatches/retired_without_record"),
            "{how}: the books balance"
        );
        assert!(count("dispatches/issued") >= 64, "{how}");
        late += count("late");
    }
    let mut table = Table::new(
        &format!("acceptance c: {}", arm.name),
        &["what", "runs", "clean", "issued", "missing at stop", "late"],
    );
    table.row(vec![
        "start/stop cycles".to_owned(),
        cycles.to_string(),
        cycles.to_string(),
        at(line, "issued").to_string(),
        at(line, "missing").to_string(),
        sum("late").to_string(),
    ]);
    table.row(vec![
        "process exits".to_owned(),
        exits.to_string(),
        clean.to_string(),
        String::new(),
        String::new(),
        late.to_string(),
    ]);
    table.print();
}

#[test]
fn cycles_and_exits_under_address_sanitizer() {
    let name = "acceptance c under AddressSanitizer";
    let flags = ["-fsanitize=address", "-fno-omit-frame-pointer"];
    let host = match host("host-asan", &flags) {
        Ok(host) => host,
        Err(why) => return support::skip(name, &why),
    };
    let libraries = match sanitized() {
        Ok(libraries) => libraries,
        Err(why) => return support::skip(name, &why),
    };
    let tool = libraries.join("libstrandline_rocprofiler.so");
    let text = |path: PathBuf| path.to_string_lossy().into_owned();
    cycles_and_exits(&Arm {
        name: "AddressSanitizer",
        host,
        env: vec![
            ("ASAN_OPTIONS", "detect_leaks=0:exitcode=86".to_owned()),
            ("LD_LIBRARY_PATH", text(libraries.join("strandline-sim"))),
            ("ROCP_TOOL_LIBRARIES", text(tool)),
        ],
    });
}

/// Folder of the stand-in and the tool library built with AddressSanitizer, which takes a nightly compiler; in a target
/// folder of its own beside the others, so that it is built once.
fn sanitized() -> Result<PathBuf, String> {
    let rustup = |words: &[&str]| {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly"]).args(words);
        // What `cargo test` has set for the tests' own toolchain.
        for name in [
            "CARGO",
            "RUSTC",
            "RUSTDOC",
            "RUSTC_WRAPPER",
            "RUSTUP_TOOLCHAIN",
            "CARGO_ENCODED_RUSTFLAGS",
        ] {
            command.env_remove(name);
        }
        command
    };
    let version = rustup(&["rustc", "-vV"])
        .output()
        .ok()
        .filter(|output| output.status.success())
        .ok_or("no nightly toolchain, which building with AddressSanitizer takes")?;
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let target = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or("rustc does not say what it builds for")?
        .to_owned();
    let folder = support::profile_folder().join("strandline-asan");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let packages = [
        "strandline-rocprofiler",
        "sim-rocprofiler-sdk",
        "sim-roctx",
        "sim-amdhip64",
    ];
    let mut build = rustup(&["cargo", "build", "--offline", "--target", &target]);
    for package in packages {
        build.args(["-p", package]);
    }
    let output = build
        .current_dir(workspace)
        .env("CARGO_TARGET_DIR", &folder)
        .env("RUSTFLAGS", "-Zsanitizer=address")
        .output()
        .map_err(|error| error.to_string())?;
    assert!(
        output.status.success(),
        "building with AddressSanitizer: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let libraries = folder.join(&target).join("debug");
    let sim = libraries.join("strandline-sim");
    let _ = std::fs::create_dir_all(&sim);
    for entry in std::fs::read_dir(&built().sim).expect("the stand-in's folder") {
        let link = entry.expect("an entry").path();
        let real = std::fs::canonicalize(&link).expect("a library");
        let (name, real) = (link.file_name(), real.file_name());
        let (Some(name), Some(real)) = (name, real) else {
            continue;
        };
        let _ = std::fs::remove_file(sim.join(name));
        std::os::unix::fs::symlink(libraries.join(real), sim.join(name)).expect("a link");
    }
    Ok(libraries)
}

#[test]
fn cycles_and_exits_under_glibcs_malloc_checks() {
    let library = "libc_malloc_debug.so.0";
    let found = [
        "/lib/x86_64-linux-gnu",
        "/usr/lib/x86_64-linux-gnu",
        "/lib64",
        "/usr/lib64",
    ]
    .iter()
    .any(|folder| Path::new(folder).join(library).exists());
    if !found {
        return support::skip(
            "acceptance c under glibc's malloc checks",
            &format!("no {library}"),
        );
    }
    let host = match host("host", &[]) {
        Ok(host) => host,
        Err(why) => return support::skip("acceptance c under glibc's malloc checks", &why),
    };
    cycles_and_exits(&Arm {
        name: "glibc malloc checks",
        host,
        env: vec![
            ("LD_PRELOAD", library.to_owned()),
            ("MALLOC_CHECK_", "3".to_owned()),
            ("MALLOC_PERTURB_", "165".to_owned()),
        ],
    });
}

/// case B07: the host's exit code and signals are its own, with and without a session.
#[test]
fn the_hosts_end_is_its_own() {
    let host = match host("host", &[]) {
        Ok(host) => host,
        Err(why) => return support::skip("case B07", &why),
    };
    let scratch = Scratch::new("b07");
    for start in ["load", "api", "roctx"] {
        for (words, code, signal) in [
            (&["return", "7"][..], Some(7), None),
            (&["return", "0"][..], Some(0), None),
            (&["abort"][..], None, Some(6)),
        ] {
            scratch.clear();
            let mut command = support::traced(&host, &scratch.path("region.slt"), start);
            command.args(words);
            let ended = support::run(&mut command, LIMIT);
            let status = ended.status.expect("it ends");
            let got = std::os::unix::process::ExitStatusExt::signal(&status);
            assert_eq!((status.code(), got), (code, signal), "{start} {words:?}");
            assert_eq!(
                (&*ended.stdout, &*ended.stderr),
                ("", ""),
                "{start} {words:?}"
            );
            // After an abort too, what was recorded is there.
            if start == "load" {
                let (summary, _) = support::summary(&scratch.path("region.slt"));
                assert_eq!(at(&summary, "sessions/0/dispatches/issued"), 32);
            }
        }
    }
    // case B33: one name, several processes: the first takes it, the others add their number.
    scratch.clear();
    for _ in 0..3 {
        let mut command = support::traced(&host, &scratch.path("region.slt"), "load");
        command.args(["return", "0"]);
        support::run(&mut command, LIMIT).expect_clean("one of several");
    }
    let files = std::fs::read_dir(scratch.path(""))
        .expect("the folder")
        .count();
    assert_eq!(files, 3);
}

/// Acceptance f: code objects are unloaded, their images overwritten and their addresses used again before the records
/// come: every kernel has its own name.
#[test]
fn names_survive_their_code_objects() {
    let host = match host("host", &[]) {
        Ok(host) => host,
        Err(why) => return support::skip("acceptance f", &why),
    };
    let scratch = Scratch::new("names");
    let mut command = support::traced(&host, &scratch.path("region.slt"), "api");
    command
        .arg("unload")
        .env("ROCSIM_LATE", "uniform:50ms:90ms");
    support::run(&mut command, LIMIT).expect_clean("unload");
    let (summary, _) = support::summary(&scratch.path("region.slt"));
    let mut names: Vec<(String, u64)> = summary["kernels"]
        .as_array()
        .expect("kernels")
        .iter()
        .map(|kernel| {
            (
                support::text_at(kernel, "mangled").to_owned(),
                at(kernel, "count"),
            )
        })
        .collect();
    names.sort();
    let want: Vec<(String, u64)> = [
        "6beta_1", "6beta_2", "7alpha_1", "7alpha_2", "7gamma_1", "7gamma_2",
    ]
    .iter()
    .map(|name| (format!("_Z{name}Pfi"), 10))
    .collect();
    assert_eq!(names, want);
}
