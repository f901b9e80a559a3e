//! Goal: `record` is invisible to the program (environment, streams, signals, exit code) and never loses a recording.
//! Method: shell programs that put a made-up region where the tool library would.

mod cli_support;

use std::ffi::CStr;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Stdio;

use cli_support::{Done, Folder, session};

fn with_region(name: &str) -> Folder {
    let folder = Folder::new(name);
    folder.region("made.slt", &session(8, 8, 0));
    folder
}

fn record(folder: &Folder, script: &str) -> Done {
    folder.run(&["record", "-o", "out.slt", "--", "/bin/sh", "-c", script])
}

#[test]
fn codes_are_the_programs_own() {
    let folder = with_region("codes");
    for (script, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -9 $$", 137),
        ("kill -ABRT $$", 134),
        ("kill -TERM $$", 143),
        ("kill -INT $$", 130),
    ] {
        let done = record(&folder, script);
        assert_eq!(done.code, Some(code), "{script}: {done:?}");
        assert!(
            done.err
                .contains("nothing was recorded and out.slt was not written"),
            "{done:?}"
        );
        assert!(!folder.path("out.slt").exists());
    }
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
}

#[test]
fn a_program_that_is_not_there_or_cannot_run() {
    let folder = with_region("not-there");
    fs::write(folder.path("plain.txt"), b"no program").unwrap();
    let run = |program: &str| folder.run(&["record", "-o", "out.slt", "--", program]);
    run("no-such-program").fails(
        127,
        &["running no-such-program: no such file or directory", "PATH"],
    );
    run("./none").fails(127, &["running ./none"]);
    run("./plain.txt").fails(
        126,
        &["running ./plain.txt: permission denied", "may be run"],
    );
    run("/").fails(126, &["running /"]);
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
}

#[test]
fn the_trace_is_written_whatever_the_program_ends_with() {
    for (end, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("kill -9 $$", 137),
        ("kill -SEGV $$", 139),
    ] {
        let folder = with_region("written");
        let done = record(&folder, &format!("cp made.slt $STRANDLINE_OUT; {end}"));
        assert_eq!(done.code, Some(code), "{done:?}");
        assert!(done.err.contains("wrote out.slt: SIMULATED"), "{done:?}");
        assert!(
            done.err
                .ends_with("strandline: complete: 8 of 8 dispatches\n"),
            "{done:?}"
        );
        assert_eq!(done.out, "");
        let summary = folder.run(&["summary", "out.slt"]);
        assert_eq!(
            (summary.code, summary.out.lines().last()),
            (Some(0), Some("complete: 8 of 8 dispatches"))
        );
        assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
    }
}

#[test]
fn an_incomplete_trace_does_not_change_the_programs_code() {
    let folder = Folder::new("incomplete");
    folder.region("made.slt", &session(6, 8, 0));
    let done = record(&folder, "cp made.slt $STRANDLINE_OUT");
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.err
            .contains("incomplete: 6 of 8 dispatches, 2 missing"),
        "{done:?}"
    );
}

#[test]
fn further_processes_get_files_of_their_own() {
    let folder = with_region("further");
    let script = "cp made.slt $STRANDLINE_OUT; cp made.slt ${STRANDLINE_OUT%.slt}.77.slt";
    let done = folder.run(&["record", "-o", "a.b.json", "--", "/bin/sh", "-c", script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(folder.path("a.b.json").exists() && folder.path("a.b.77.json").exists());
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = with_region("overwrite");
    fs::write(folder.path("out.slt"), b"mine").unwrap();
    let script =
        "touch ran; cp made.slt $STRANDLINE_OUT; cp made.slt ${STRANDLINE_OUT%.slt}.77.slt";
    record(&folder, script).fails(125, &["writing out.slt: the file exists", "--force"]);
    assert!(
        !folder.path("ran").exists(),
        "the program ran although its trace has no place"
    );
    fs::remove_file(folder.path("out.slt")).unwrap();
    fs::write(folder.path("out.77.slt"), b"mine").unwrap();
    let done = record(&folder, script);
    assert_eq!(done.code, Some(125), "{done:?}");
    assert!(
        done.err.contains("writing out.77.slt: the file exists"),
        "{done:?}"
    );
    assert!(done.err.contains("the recording is kept in "), "{done:?}");
    assert_eq!(fs::read(folder.path("out.77.slt")).unwrap(), b"mine");
    assert!(folder.path("out.slt").exists());
    let done = folder.run(&[
        "record", "--force", "-o", "out.slt", "--", "/bin/sh", "-c", script,
    ]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert_ne!(fs::read(folder.path("out.77.slt")).unwrap(), b"mine");
}

#[test]
fn an_output_that_cannot_be_is_refused_before_the_program_runs() {
    let folder = with_region("unwritable");
    let refused = |out: &str, parts: &[&str]| {
        folder
            .run(&["record", "-o", out, "--", "touch", "ran"])
            .fails(125, parts);
    };
    refused(
        "out.txt",
        &["writing out.txt: the file type is unknown", ".slt"],
    );
    refused(
        "none/out.slt",
        &["writing none/out.slt: no such file or directory"],
    );
    refused(
        "made.slt/out.slt",
        &["writing made.slt/out.slt: not a directory"],
    );
    assert!(!folder.path("ran").exists());
}

#[test]
fn a_recording_that_cannot_be_written_is_kept_and_named() {
    for (end, code) in [("exit 0", 125), ("exit 7", 7)] {
        let folder = with_region("kept");
        fs::create_dir(folder.path("gone")).unwrap();
        let script = format!("cp made.slt $STRANDLINE_OUT; rmdir gone; {end}");
        let done = folder.run(&[
            "record",
            "-o",
            "gone/out.json",
            "--",
            "/bin/sh",
            "-c",
            &script,
        ]);
        assert_eq!(done.code, Some(code), "{done:?}");
        let kept = done
            .err
            .lines()
            .find_map(|line| line.strip_prefix("strandline: the recording is kept in "))
            .and_then(|line| line.split_once(';'))
            .unwrap()
            .0
            .to_owned();
        let summary = folder.run(&["summary", &kept]);
        assert_eq!(summary.code, Some(0), "{summary:?}");
        let listed = folder.run(&["recover"]);
        assert!(listed.out.contains(&kept), "{listed:?}");
    }
}

#[test]
fn a_damaged_region_is_kept_and_said() {
    let folder = Folder::new("garbage");
    let done = record(&folder, "echo garbage > $STRANDLINE_OUT; exit 5");
    assert_eq!(done.code, Some(5), "{done:?}");
    assert!(done.err.contains("live.slt: offset "), "{done:?}");
    assert!(done.err.contains("the recording is kept in "), "{done:?}");
}

#[test]
fn only_the_named_variables_are_set() {
    let folder = Folder::new("environment");
    let environment = |command: &mut std::process::Command| -> Vec<String> {
        let done = Done::of(command.output().unwrap());
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.lines().map(str::to_owned).collect()
    };
    let plain = {
        let mut command = folder.strandline();
        let mut env = std::process::Command::new("env");
        env.env_clear().current_dir(&folder.0);
        for (name, value) in std::env::vars_os()
            .map(|(n, v)| (n, Some(v)))
            .collect::<Vec<_>>()
        {
            env.env(name, value.unwrap());
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => env.env(name, value),
                None => env.env_remove(name),
            };
        }
        command.args(["--version"]);
        environment(&mut env)
    };
    let mut command = folder.strandline();
    command.args([
        "record",
        "-o",
        "out.slt",
        "--mode",
        "flight",
        "--budget",
        "64M",
        "--kinds",
        "hip,dispatch",
    ]);
    command.args(["--exclude-api", "hipGetDevice", "--", "env"]);
    let mut added: Vec<String> = environment(&mut command)
        .into_iter()
        .filter(|line| !plain.contains(line))
        .collect();
    added.sort();
    let names: Vec<&str> = added
        .iter()
        .map(|line| line.split_once('=').unwrap().0)
        .collect();
    assert_eq!(
        names,
        [
            "ROCP_TOOL_LIBRARIES",
            "STRANDLINE_BUDGET",
            "STRANDLINE_EXCLUDE_API",
            "STRANDLINE_KINDS",
            "STRANDLINE_LOG",
            "STRANDLINE_MODE",
            "STRANDLINE_OUT"
        ]
    );
    let tool = folder
        .path("lib/libstrandline_rocprofiler.so")
        .canonicalize()
        .unwrap();
    assert_eq!(added[0], format!("ROCP_TOOL_LIBRARIES={}", tool.display()));
    assert_eq!(added[1], "STRANDLINE_BUDGET=64M");
    assert!(added[6].ends_with("/live.slt"), "{}", added[6]);
}

#[test]
fn a_setting_that_cannot_be_is_said_before_the_program_runs() {
    let folder = Folder::new("setting");
    let output = folder
        .strandline()
        .env("STRANDLINE_START", "sometimes")
        .args(["record", "-o", "out.slt", "--", "touch", "ran"])
        .output()
        .unwrap();
    let parts = [
        "setting up the recording: STRANDLINE_START=\"sometimes\": expected load, roctx or api",
        "unset it",
    ];
    Done::of(output).fails(125, &parts);
    assert!(!folder.path("ran").exists());
}

#[test]
fn what_the_tool_library_says_is_repeated_at_the_end() {
    let folder = Folder::new("log");
    let script = "echo 'strandline: tracing into x' > $STRANDLINE_LOG; \
        echo 'strandline: tracing is off: the SDK is locked' >> $STRANDLINE_LOG; echo done >&2";
    let done = record(&folder, script);
    assert_eq!(done.code, Some(0), "{done:?}");
    let lines: Vec<&str> = done.err.lines().collect();
    assert_eq!(
        lines[..2],
        [
            "done",
            "strandline: the tool library: tracing is off: the SDK is locked"
        ]
    );
    assert!(
        lines[2].starts_with("strandline: nothing was recorded"),
        "{done:?}"
    );
    assert!(folder.left_over().is_empty(), "{:?}", folder.left_over());
    // A log of the user's own stays where it is.
    let output = folder
        .strandline()
        .env("STRANDLINE_LOG", "stderr")
        .args([
            "record",
            "-o",
            "out.slt",
            "--",
            "/bin/sh",
            "-c",
            "echo $STRANDLINE_LOG",
        ])
        .output()
        .unwrap();
    assert_eq!(Done::of(output).out, "stderr\n");
}

#[test]
fn another_tool_stays_in_the_list() {
    let folder = Folder::new("tools");
    let output = folder
        .strandline()
        .env("ROCP_TOOL_LIBRARIES", "/opt/other.so")
        .args([
            "record",
            "-o",
            "out.slt",
            "--",
            "/bin/sh",
            "-c",
            "echo $ROCP_TOOL_LIBRARIES",
        ])
        .output()
        .unwrap();
    let done = Done::of(output);
    assert!(done.out.starts_with("/opt/other.so:/"), "{done:?}");
    assert!(
        done.out.ends_with("libstrandline_rocprofiler.so:\n"),
        "{done:?}"
    );
}

#[test]
fn the_live_region_lies_in_a_folder_that_is_closed_to_others() {
    let folder = Folder::new("private");
    let done = record(
        &folder,
        "dirname $STRANDLINE_OUT; stat -c %a $(dirname $STRANDLINE_OUT) $(dirname $(dirname $STRANDLINE_OUT))",
    );
    let lines: Vec<&str> = done.out.lines().collect();
    assert_eq!(&lines[1..], ["700", "700"], "{done:?}");
    assert!(
        lines[0].starts_with(folder.path("live").to_str().unwrap()),
        "{done:?}"
    );
    // A folder that others can write to is not trusted.
    fs::remove_dir_all(folder.path("live")).unwrap();
    fs::create_dir(folder.path("live")).unwrap();
    std::process::Command::new("chmod")
        .args(["777", "live"])
        .current_dir(&folder.0)
        .status()
        .unwrap();
    record(&folder, "true").fails(
        125,
        &[
            "making a private folder",
            "others can write",
            "STRANDLINE_DIR",
        ],
    );
}

#[test]
fn a_missing_tool_library_is_said_before_the_program_runs() {
    let folder = Folder::new("no-tool");
    fs::remove_file(folder.path("lib/libstrandline_rocprofiler.so")).unwrap();
    let copy = folder.path("strandline");
    // By a process of its own: a copy that this one writes may still be open for writing in a child that another test has
    // just forked, and can't be run then ("text file busy").
    let copied = std::process::Command::new("cp")
        .arg(env!("CARGO_BIN_EXE_strandline"))
        .arg(&copy)
        .status();
    assert!(copied.unwrap().success());
    let output = std::process::Command::new(&copy)
        .args(["record", "-o", "out.slt", "--", "touch", "ran"])
        .env("STRANDLINE_LIB_DIR", folder.path("nowhere"))
        .current_dir(&folder.0)
        .output()
        .unwrap();
    Done::of(output).fails(
        125,
        &[
            "looking for libstrandline_rocprofiler.so",
            "STRANDLINE_LIB_DIR",
        ],
    );
    assert!(!folder.path("ran").exists());
}

#[test]
fn streams_pass_through_untouched() {
    let folder = Folder::new("streams");
    let mut child = folder
        .strandline()
        .args([
            "record",
            "-o",
            "out.slt",
            "--",
            "/bin/sh",
            "-c",
            "cat; echo to-err >&2",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(b"through\0binary\n")
        .unwrap();
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!(
        (done.code, done.out.as_str()),
        (Some(0), "through\0binary\n")
    );
    assert!(done.err.starts_with("to-err\n"), "{done:?}");
}

/// A program that says when it is ready, and counts a signal.
const COUNTING: &str = "n=10; trap 'n=$((n+1))' INT TERM HUP USR1; echo ready; i=0; \
    while [ $n = 10 ] && [ $i -lt 200 ]; do sleep 0.05; i=$((i+1)); done; \
    sleep 0.3; cp made.slt $STRANDLINE_OUT; exit $n";

#[test]
fn a_signal_to_record_alone_is_passed_on_once() {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGUSR1] {
        let folder = with_region("passed-on");
        let mut child = folder
            .strandline()
            .args(["record", "-o", "out.slt", "--", "/bin/sh", "-c", COUNTING])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        // SAFETY: kill has no memory effects; the child is not reaped yet.
        unsafe { libc::kill(child.id().cast_signed(), signal) };
        let done = Done::of(child.wait_with_output().unwrap());
        assert_eq!(done.code, Some(11), "signal {signal}: {done:?}");
        assert!(folder.path("out.slt").exists());
    }
}

#[test]
fn a_signal_of_the_terminal_reaches_the_program_once_and_the_trace_is_written() {
    let folder = with_region("terminal");
    // SAFETY: opens a new pseudoterminal; the descriptor is checked and then owned.
    let master = unsafe { libc::posix_openpt(libc::O_RDWR | libc::O_NOCTTY) };
    assert!(master >= 0);
    // SAFETY: just opened, owned by nobody else.
    let mut master = fs::File::from(unsafe { OwnedFd::from_raw_fd(master) });
    let raw = std::os::fd::AsRawFd::as_raw_fd(&master);
    // SAFETY: a pseudoterminal's master.
    assert_eq!(unsafe { libc::grantpt(raw) }, 0);
    // SAFETY: as above.
    assert_eq!(unsafe { libc::unlockpt(raw) }, 0);
    let mut name = [0; 64];
    // SAFETY: `name` has the length that is given.
    let failed = unsafe { libc::ptsname_r(raw, name.as_mut_ptr(), name.len()) };
    assert_eq!(failed, 0);
    // SAFETY: filled with a C string by the call above.
    let name = unsafe { CStr::from_ptr(name.as_ptr()) }.to_str().unwrap();
    let slave = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(name)
        .unwrap();
    let mut command = folder.strandline();
    command
        .args(["record", "-o", "out.slt", "--", "/bin/sh", "-c", COUNTING])
        .stdin(slave)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    // SAFETY: setsid and ioctl are async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            libc::ioctl(0, libc::TIOCSCTTY, 0);
            Ok(())
        });
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    master.write_all(b"\x03").unwrap();
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!(done.code, Some(11), "{done:?}");
    assert!(
        done.err.ends_with("complete: 8 of 8 dispatches\n"),
        "{done:?}"
    );
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let folder = with_region("nohup");
    let bin = env!("CARGO_BIN_EXE_strandline");
    let script = format!(
        "trap '' HUP; exec {bin} record -o out.slt -- /bin/sh -c 'kill -HUP $$; kill -HUP $PPID; exit 4'"
    );
    let output = std::process::Command::new("/bin/sh")
        .args(["-c", &script])
        .env("STRANDLINE_DIR", folder.path("live"))
        .env("STRANDLINE_LIB_DIR", folder.path("lib"))
        .current_dir(&folder.0)
        .output()
        .unwrap();
    assert_eq!(Done::of(output).code, Some(4));
}
