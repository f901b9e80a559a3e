//! Goal: `summary`, `dump`, `export` and `recover` print what the contract says, end with the right exit code, and refuse
//! bad input with one line that says what, where and what to do. Method: the real binary on made-up regions.

mod cli_support;

use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use cli_support::{Done, Folder, session, text};
use serde_json::Value;
use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::limits;
use strandline::record::{Kind, domain, pair};

#[test]
fn a_whole_trace_is_summed_up_as_the_contract_says() {
    let folder = Folder::new("whole");
    folder.region("run.slt", &session(64, 64, 0));
    let done = folder.run(&["summary", "run.slt"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(
        done.out.ends_with("\ncomplete: 64 of 64 dispatches\n"),
        "{done:?}"
    );
    assert_eq!(done.err, "");
    let done = folder.run(&["summary", "run.slt", "--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!(json["schema"], "strandline.summary/1");
    assert_eq!(json["simulated"], true);
    assert_eq!(json["sessions"][0]["dispatches"]["recorded"], 64);
    assert_eq!(json["kernels"][0]["mangled"], "_Z6kernelPfi");
    assert_eq!(json["kernels"][0]["name"], "kernel(float*, int)");
    assert_eq!(json["kernels"][0]["total_ns"], 64 * 5);
    assert_eq!(done.out.lines().count(), 1);
}

#[test]
fn what_is_not_whole_ends_with_3_in_every_reading_command() {
    let folder = Folder::new("codes");
    folder.region("missing.slt", &session(62, 64, 0));
    folder.region("retired.slt", &session(60, 64, 4));
    let mut lost = session(4, 4, 0);
    lost.counter(0, 1, Counter::Lost, 3);
    folder.region("lost.slt", &lost);
    for (name, last) in [
        (
            "missing.slt",
            "incomplete: 62 of 64 dispatches, 2 missing; whole up to correlation id 62",
        ),
        (
            "retired.slt",
            "complete: 60 of 64 dispatches recorded, 4 retired without a record",
        ),
        ("lost.slt", "complete: 4 of 4 dispatches"),
    ] {
        let done = folder.run(&["summary", name]);
        assert_eq!(
            (done.code, done.out.lines().last()),
            (Some(3), Some(last)),
            "{done:?}"
        );
        assert_eq!(folder.run(&["dump", name]).code, Some(3), "{name}");
        let recovered = folder.run(&["recover", name]);
        assert_eq!(
            (recovered.code, recovered.out.lines().last()),
            (Some(3), Some(last)),
            "{recovered:?}"
        );
        let out = format!("{name}.json");
        let done = folder.run(&["export", name, "-o", &out]);
        assert_eq!(done.code, Some(3), "{done:?}");
        assert!(done.err.ends_with(&format!("{last}\n")), "{done:?}");
        assert!(folder.path(&out).exists());
    }
    let done = folder.run(&["summary", "lost.slt"]);
    assert!(
        done.out.contains("lost 3 (no_segment 3), late 0"),
        "{done:?}"
    );
}

#[test]
fn dump_prints_one_object_a_line() {
    let folder = Folder::new("dump");
    folder.region("run.slt", &session(1_000, 1_000, 0));
    let done = folder.run(&["dump", "run.slt"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let mut dispatches = 0;
    for line in done.out.lines() {
        let record: Value = serde_json::from_str(line).unwrap();
        dispatches += usize::from(record["kind"] == "dispatch");
    }
    assert_eq!((done.out.lines().count(), dispatches), (2_000, 1_000));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let folder = Folder::new("pipe");
    folder.region("run.slt", &session(20_000, 20_000, 0));
    let mut child = folder
        .strandline()
        .args(["dump", "run.slt"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let done = Done::of(child.wait_with_output().unwrap());
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""));
}

#[test]
fn a_full_standard_output_is_one() {
    let folder = Folder::new("full-stdout");
    folder.region("run.slt", &session(10, 10, 0));
    for command in [
        &["summary", "run.slt"][..],
        &["dump", "run.slt"],
        &["tool-path", "rocprofiler"],
        &["doctor"],
    ] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let output = folder
            .strandline()
            .args(command)
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        Done::of(output).fails(
            1,
            &[
                "writing to standard output: no space left on device",
                "make room",
            ],
        );
    }
}

#[test]
fn bad_input_is_refused_by_name_place_and_remedy() {
    let folder = Folder::new("bad");
    let whole = session(10, 10, 0).bytes();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path(name), bytes).unwrap();
    write("trace.json", &[b' '; 5_000]);
    write("empty.slt", b"");
    write("cut.slt", &whole[..2_000]);
    let mut flipped = whole.clone();
    flipped[100] ^= 1;
    write("flipped.slt", &flipped);
    let mut newer = whole.clone();
    newer[8] = 9;
    write("newer.slt", &newer);
    for command in ["summary", "dump", "recover", "export"] {
        let check = |name: &str, parts: &[&str]| {
            let mut args = vec![command, name];
            if command == "export" {
                args.extend(["-o", "out.json"]);
            }
            folder.run(&args).fails(1, parts);
            assert!(!folder.path("out.json").exists());
        };
        check(
            "none.slt",
            &[
                "reading none.slt: no such file or directory",
                "check the path",
            ],
        );
        check(
            "trace.json",
            &[
                "reading trace.json: offset 0: not a Strandline region",
                "give a .slt file",
            ],
        );
        check(
            "empty.slt",
            &[
                "reading empty.slt: offset 0: the file ends here",
                "record again",
            ],
        );
        check(
            "cut.slt",
            &[
                "reading cut.slt: offset 2000: the file ends here",
                "record again",
            ],
        );
        check(
            "flipped.slt",
            &[
                "reading flipped.slt: offset 248: the header's checksum does not match",
                "record again",
            ],
        );
        check(
            "newer.slt",
            &[
                "reading newer.slt: offset 8: format version 9",
                "newer strandline",
            ],
        );
        if command != "recover" {
            check(".", &["reading .: is a directory"]);
        }
    }
}

#[test]
fn a_damaged_segment_is_left_out_and_said() {
    let folder = Folder::new("damaged");
    let whole = session(100, 100, 0).bytes();
    // The records' segment is the last one: a byte of its first record.
    let mut flipped = whole.clone();
    let at = whole.len() - 64 * 1024 + 70;
    flipped[at] ^= 0x40;
    fs::write(folder.path("flipped.slt"), &flipped).unwrap();
    let done = folder.run(&["summary", "flipped.slt"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.out.contains("damaged   offset "), "{done:?}");
    assert!(done.out.contains("checksum"), "{done:?}");
    assert!(
        done.out
            .lines()
            .last()
            .unwrap()
            .starts_with("incomplete: 0 of 100 dispatches, 100 missing"),
        "{done:?}"
    );
    fs::write(
        folder.path("cut.slt"),
        &whole[..whole.len() - 64 * 1024 + 3_000],
    )
    .unwrap();
    let done = folder.run(&["dump", "cut.slt"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(done.err.contains("reading cut.slt: offset "), "{done:?}");
    assert!(!done.out.is_empty());
}

#[test]
fn no_byte_of_a_file_makes_a_reader_crash() {
    let folder = Folder::new("flips");
    let whole = session(3, 3, 0).bytes();
    let path = folder.path("flip.slt");
    // Every 97th byte here; the runtime's own tests flip all of them.
    for at in (0..whole.len()).step_by(1_597) {
        let mut flipped = whole.clone();
        flipped[at] ^= 0xff;
        fs::write(&path, &flipped).unwrap();
        let done = folder.run(&["summary", "flip.slt"]);
        assert!(matches!(done.code, Some(0 | 1 | 3)), "byte {at}: {done:?}");
    }
}

#[test]
fn exports_have_the_format_of_their_name_and_replace_nothing_unasked() {
    let folder = Folder::new("formats");
    folder.region("run.slt", &session(8, 8, 0));
    for (name, start) in [
        ("out.json", &b"{"[..]),
        ("out.json.gz", &[0x1f, 0x8b]),
        ("out.pftrace", &[0x0a]),
        ("out.slt", b"STRNDLN1"),
    ] {
        let done = folder.run(&["export", "run.slt", "-o", name]);
        assert_eq!(done.code, Some(0), "{name}: {done:?}");
        assert!(
            done.err
                .ends_with("lost 0, late 0\nstrandline: complete: 8 of 8 dispatches\n"),
            "{done:?}"
        );
        let bytes = fs::read(folder.path(name)).unwrap();
        assert!(bytes.starts_with(start), "{name}: {:?}", &bytes[..8]);
        fs::write(folder.path(name), b"mine").unwrap();
        folder
            .run(&["export", "run.slt", "-o", name])
            .fails(1, &["writing", name, "the file exists", "--force"]);
        assert_eq!(fs::read(folder.path(name)).unwrap(), b"mine");
        let done = folder.run(&["export", "run.slt", "-o", name, "--force"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(fs::read(folder.path(name)).unwrap().starts_with(start));
    }
    let done = folder.run(&["summary", "out.slt"]);
    assert_eq!(
        (done.code, done.out.lines().last()),
        (Some(0), Some("complete: 8 of 8 dispatches")),
        "{done:?}"
    );
    let done = folder.run(&["export", "run.slt", "-o", "-"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let json: Value = serde_json::from_str(&done.out).unwrap();
    assert!(json["traceEvents"].is_array());
    assert!(!folder.path("-").exists());
}

#[test]
fn a_large_export_comes_in_parts_of_the_size_that_was_asked_for() {
    let folder = Folder::new("parts");
    folder.region("run.slt", &session(30_000, 30_000, 0));
    let export = |out: &str, size: &str| {
        let arguments = ["export", "run.slt", "-o", out, "--force", "--part-size"];
        folder.run(&[&arguments[..], &[size]].concat())
    };
    for (out, further) in [
        ("out.pftrace", "out.part2.pftrace"),
        ("out.json", "out.part2.json"),
        ("out.json.gz", "out.part2.json.gz"),
    ] {
        let done = export(out, "1M");
        assert_eq!(done.code, Some(0), "{done:?}");
        for name in [out, further] {
            assert!(done.err.contains(&format!("wrote {name}\n")), "{done:?}");
            assert!(fs::metadata(folder.path(name)).unwrap().len() <= 1 << 20);
        }
        let done = export(out, "1G");
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!folder.path(further).exists(), "parts of the longer one go");
    }
    for (out, size, parts) in [
        ("a.json", "1023K", &["--part-size", "at least 1M"][..]),
        ("a.json", "1 GB", &["--part-size", "such as 400M"]),
        ("-", "2M", &["standard output has no parts", "name a file"]),
        ("a.slt", "2M", &["a region has no parts", "--part-size"]),
    ] {
        let done = export(out, size);
        assert_eq!(done.code, Some(2), "{done:?}");
        for part in parts {
            assert!(done.err.contains(part), "{part}: {done:?}");
        }
        assert!(!folder.path(out).exists());
    }
}

/// Kernels that begin a hundred calls after their own: some of these lie behind each border of parts.
#[test]
fn an_export_in_parts_says_how_many_arrows_it_left_out() {
    let folder = Folder::new("cut");
    let mut region = session(0, 20_000, 0);
    for id in 1..=20_000 {
        let start = 1_000 + 10 * id;
        let call = [start, start + 2, id, 0, 214 | 1 << 16, 0, pair(1, 42)];
        region.record(0, Kind::Api, 1, &call);
        let start = start + 1_005;
        let work = [start, start + 5, id, 0, id, 9, 0, 7, 0, pair(1, 42)];
        region.record(0, Kind::Dispatch, 1, &work);
    }
    folder.region("run.slt", &region);
    let line = "arrows left out, their ends lie in two parts: ";
    for out in ["out.json", "out.pftrace"] {
        let arguments = ["export", "run.slt", "-o", out, "--force"];
        let done = folder.run(&arguments);
        assert!(!done.err.contains(line), "one part: {done:?}");
        let done = folder.run(&[&arguments[..], &["--part-size", "1M"]].concat());
        let said = done.err.lines().find_map(|said| said.split_once(line));
        let (count, rest) = said.unwrap().1.split_once(' ').unwrap();
        assert_eq!(rest, "from calls to their work");
        let count: u64 = count.parse().unwrap();
        assert!(count > 50, "{done:?}");
        if out == "out.json" {
            let mut wrote = done.err.lines().rev();
            let last = wrote.find_map(|said| said.strip_prefix("strandline: wrote "));
            let last = fs::read(folder.path(last.unwrap())).unwrap();
            let json: Value = serde_json::from_slice(&last).unwrap();
            let not_drawn = &json["strandline"]["not_drawn"];
            assert_eq!(not_drawn["arrows_between_parts"], count);
        }
    }
}

/// Names that each part has to repeat, and more of them than a part may be large.
#[test]
fn a_part_size_that_is_too_small_is_refused_with_one_that_does() {
    let folder = Folder::new("small-parts");
    let mut region = session(1, 1, 0);
    for id in 1..=5_000u64 {
        let name = region.string(format!("{id:0300}").as_bytes());
        let start = 1_000_000 + id * 100;
        region.record(0, Kind::Mark, 1, &[start, 0, 0, 0, 0, name, pair(0, 4242)]);
    }
    folder.region("run.slt", &region);
    let arguments = ["export", "run.slt", "-o", "out.pftrace", "--part-size"];
    let done = folder.run(&[&arguments[..], &["1M"]].concat());
    let needed = "writing out.pftrace in parts of 1048576 bytes";
    done.fails(1, &[needed, "give --part-size 4M or more"]);
    assert!(!folder.path("out.pftrace").exists(), "{done:?}");
    let done = folder.run(&[&arguments[..], &["4M"]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
}

#[test]
fn an_output_that_cannot_be_is_refused_and_nothing_is_left_behind() {
    let folder = Folder::new("unwritable");
    folder.region("run.slt", &session(8, 8, 0));
    let refused = |out: &str, parts: &[&str]| {
        folder
            .run(&["export", "run.slt", "-o", out])
            .fails(1, parts)
    };
    refused(
        "out.txt",
        &["writing out.txt: the file type is unknown", ".pftrace"],
    );
    refused(
        "none/out.json",
        &[
            "writing none/out.json: no such file or directory",
            "check the path",
        ],
    );
    refused(
        "run.slt/out.json",
        &["writing run.slt/out.json: not a directory"],
    );
    refused("/proc/strandline.json", &["/proc/strandline.json"]);
    fs::create_dir(folder.path("dir.json")).unwrap();
    let done = folder.run(&["export", "run.slt", "-o", "dir.json", "--force"]);
    done.fails(1, &["writing dir.json: is a directory"]);
    folder.region("other.slt", &session(8, 8, 0));
    let done = folder.run(&["export", "run.slt", "other.slt", "-o", "both.slt"]);
    done.fails(1, &["several"]);
    assert_eq!(
        folder
            .run(&["export", "run.slt", "other.slt", "-o", "both.json"])
            .code,
        Some(0)
    );
}

#[test]
fn the_own_input_is_not_an_output() {
    let folder = Folder::new("own");
    let path = folder.region("run.slt", &session(8, 8, 0));
    let before = fs::read(&path).unwrap();
    folder
        .run(&["export", "run.slt", "-o", "./run.slt", "--force"])
        .fails(1, &["writing ./run.slt", "input"]);
    assert_eq!(fs::read(&path).unwrap(), before);
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_half_written() {
    let folder = Folder::new("full");
    folder.region("run.slt", &session(20_000, 20_000, 0));
    fs::create_dir(folder.path("small")).unwrap();
    for name in ["out.json", "out.pftrace", "out.slt"] {
        let script = format!(
            "mount -t tmpfs -o size=64k none small || exit 77\n\
             \"$0\" export run.slt -o small/{name}; code=$?; ls small; exit $code"
        );
        let output = Command::new("unshare")
            .args(["-m", "sh", "-c", &script, env!("CARGO_BIN_EXE_strandline")])
            .current_dir(&folder.0)
            .output();
        let Ok(output) = output else {
            eprintln!("skipped: no unshare");
            return;
        };
        let done = Done::of(output);
        if matches!(done.code, Some(77)) || done.err.contains("unshare") {
            eprintln!("skipped: a file system can't be mounted here: {}", done.err);
            return;
        }
        done.fails(1, &["small/", name, "no space left on device", "make room"]);
        assert_eq!(done.out, "", "{name}");
    }
}

#[test]
fn recover_says_what_threads_were_inside_of_and_lists_folders() {
    let folder = Folder::new("recover");
    let mut region = Builder::new();
    region.session_begin(1, 1_000);
    region.record(0, Kind::Mark, 1, &[1_100]);
    region.counter(0, 1, Counter::DispatchIssued, 1);
    fs::create_dir_all(folder.path("live/record-1")).unwrap();
    folder.region("live/record-1/live.slt", &region);
    let done = folder.run(&["recover"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(
        done.out.contains("record-1/live.slt: pid 4242 (dead)"),
        "{done:?}"
    );
    let path = folder.path("live/record-1/live.slt");
    let done = folder.run(&["recover", text(&path), "-o", "out.json"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    assert!(
        done.out.contains("session 1: never closed, incomplete"),
        "{done:?}"
    );
    assert!(
        done.out
            .ends_with("incomplete: 0 of 1 dispatches, 1 missing; whole up to correlation id 0\n"),
        "{done:?}"
    );
    assert!(folder.path("out.json").exists());
    fs::remove_dir_all(folder.path("live")).unwrap();
    assert_eq!(folder.run(&["recover"]).code, Some(0));
}

#[test]
fn recover_names_the_calls_that_threads_were_inside_of() {
    let folder = Folder::new("inside");
    let mut region = session(2, 3, 0);
    region.operation(domain::RUNTIME, 348, "hipStreamSynchronize");
    let mut bytes = region.bytes();
    // The builder writes no lane header: thread 42 is inside of hipLaunchKernel and, within it, another call.
    let mut put = |at: usize, value: u64| bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    let lane = limits::HEADER_BYTES;
    put(lane, pair(42, 1));
    put(lane + limits::LANE_INSIDE_OFFSET - 8, 2);
    for (index, (operation, start)) in [(214u64, 1_015), (348, 1_018)].into_iter().enumerate() {
        let at = lane + limits::LANE_INSIDE_OFFSET + index * limits::INSIDE_WORDS * 8;
        put(at, operation | 1 << 16 | 1 << 32);
        put(at + 8, start);
        put(at + 16, 7);
    }
    fs::write(folder.path("live.slt"), &bytes).unwrap();
    let done = folder.run(&["recover", "live.slt"]);
    assert_eq!(done.code, Some(3), "{done:?}");
    let expected = "  thread 42 was inside of\n\
        \x20   hipLaunchKernel for at least 7 ns, correlation id 7\n\
        \x20   hipStreamSynchronize for at least 4 ns, correlation id 7\n";
    assert!(done.out.contains(expected), "{}", done.out);
    assert!(done.out.contains("pid 4242 is gone"), "{done:?}");
}

#[test]
fn usage_is_2_and_help_teaches() {
    let folder = Folder::new("usage");
    for args in [
        &[][..],
        &["summary"],
        &["export", "x.slt"],
        &["record", "-o", "x.slt"],
        &[
            "record",
            "-o",
            "x.slt",
            "--budget",
            "12 apples",
            "--",
            "true",
        ],
        &["record", "-o", "x.slt", "--budget", "1K", "--", "true"],
        &["record", "-o", "x.slt", "--mode", "sideways", "--", "true"],
        &["record", "-o", "x.slt", "-o", "y.slt", "--", "true"],
        &["recover", "-o", "x.slt"],
        &["frobnicate"],
    ] {
        assert_eq!(folder.run(args).code, Some(2), "{args:?}");
    }
    let done = folder.run(&["--help"]);
    assert_eq!(done.code, Some(0));
    let examples = done.out.find("strandline record -o run.slt").unwrap();
    assert!(examples < done.out.find("Usage:").unwrap());
    for code in ["0  ", "1  ", "2  ", "3  ", "125", "126", "127"] {
        assert!(done.out.contains(code), "{code} in {}", done.out);
    }
    for command in [
        "record",
        "summary",
        "dump",
        "export",
        "recover",
        "demo",
        "doctor",
        "tool-path",
    ] {
        let done = folder.run(&[command, "--help"]);
        assert_eq!(done.code, Some(0), "{command}");
        assert!(!done.out.contains("[aliases"), "{command}");
    }
}

#[test]
fn a_command_named_by_another_name_still_works() {
    let folder = Folder::new("name");
    folder.region("run.slt", &session(1, 1, 0));
    let output = folder
        .strandline()
        .arg0("sl")
        .args(["summary", "run.slt"])
        .output()
        .unwrap();
    assert_eq!(Done::of(output).code, Some(0));
}
