//! Goal: where there is no room or no permission, the runtime says so by a status and the host does not notice; a full
//! disk never becomes SIGBUS. What is only wished for (huge pages, locked memory) is got or said not to be, and nothing
//! else changes. Method: children with a tiny file system, limits, other users, a region file that is deleted or renamed
//! under them, and a memfd that others try to cut.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::settings::Backing;
use strandline::{MemoryKind, Runtime, Status, Trace, Vendor, Verdict};

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

const LONG: Duration = Duration::from_secs(60);

/// In a child: the runtime must be refused, with `NoRegion` and a sentence that names the file.
fn refused() -> i32 {
    let file = harness::given_file();
    let settings = work::settings(&file);
    match Runtime::make_global(settings, &Vendor::default()) {
        Ok(_) => 50,
        Err((Status::NoRegion, why)) => {
            println!("{why}");
            i32::from(!why.contains(&*file.to_string_lossy()) || Runtime::global().is_some())
        }
        Err((other, why)) => {
            println!("{other:?}: {why}");
            51
        }
    }
}

pub fn refused_body() -> i32 {
    if let Ok(limit) = std::env::var("FILE_LIMIT") {
        set_limit(libc::RLIMIT_FSIZE, limit.parse().expect("a number"));
    }
    if let Ok(limit) = std::env::var("SPACE_LIMIT") {
        set_limit(libc::RLIMIT_AS, limit.parse().expect("a number"));
    }
    if std::env::var_os("NOBODY").is_some() {
        // SAFETY: no preconditions; 65534 is nobody.
        assert_eq!(unsafe { libc::setresuid(65_534, 65_534, 65_534) }, 0);
    }
    refused()
}

fn set_limit(what: libc::__rlimit_resource_t, bytes: u64) {
    let limit = libc::rlimit {
        rlim_cur: bytes,
        rlim_max: bytes,
    };
    // SAFETY: plain data.
    assert_eq!(unsafe { libc::setrlimit(what, &limit) }, 0);
}

fn expect_refusal(command: &mut Command, why: &str) {
    let (status, text) = harness::run(command);
    assert!(
        status.success() && text.contains(why),
        "{status}: {text} (expected {why:?})"
    );
}

pub fn limits_and_permissions_are_a_status() -> Outcome {
    let file = File::new();
    // A limit on file size is answered with SIGXFSZ by the kernel, if one runs into it.
    expect_refusal(
        harness::child("refused", file.path()).env("FILE_LIMIT", "1048576"),
        "File too large",
    );
    assert!(!file.path().exists(), "nothing is left behind");
    expect_refusal(
        harness::child("refused", file.path()).env("SPACE_LIMIT", "50000000"),
        "annot allocate memory",
    );
    assert!(!file.path().exists(), "nothing is left behind");
    expect_refusal(
        &mut harness::child("refused", Path::new("/proc/no/such.slt")),
        "/proc/no",
    );
    std::fs::write(file.path(), "a file").expect("a file");
    expect_refusal(
        &mut harness::child("refused", &file.path().join("below a file.slt")),
        "below a file",
    );
    // SAFETY: no preconditions.
    if unsafe { libc::getuid() } == 0 {
        let folder = file.path().with_extension("folder");
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o711))
            .expect("permissions");
        let inside = folder.join("x.slt");
        expect_refusal(
            harness::child("refused", &inside).env("NOBODY", "1"),
            "Permission denied",
        );
        std::fs::remove_dir(folder).expect("an empty folder");
        Outcome::Passed
    } else {
        Outcome::Skipped("the part about another user's folder needs root".to_owned())
    }
}

/// A file system of its own, of a few MiB.
struct Tiny(PathBuf);

impl Tiny {
    fn new(file: &File, mib: u64) -> Result<Self, String> {
        let folder = file.path().with_extension("mount");
        std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let text = |path: &Path| {
            std::ffi::CString::new(path.as_os_str().as_encoded_bytes()).expect("no zero byte")
        };
        let options = std::ffi::CString::new(format!("size={mib}m")).expect("no zero byte");
        // SAFETY: all arguments are terminated strings.
        let failed = unsafe {
            libc::mount(
                c"tmpfs".as_ptr(),
                text(&folder).as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            )
        };
        if failed != 0 {
            let why = std::io::Error::last_os_error();
            let _ = std::fs::remove_dir(&folder);
            return Err(format!("a tmpfs can't be mounted: {why}"));
        }
        Ok(Self(folder))
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        let path =
            std::ffi::CString::new(self.0.as_os_str().as_encoded_bytes()).expect("no zero byte");
        // SAFETY: a terminated string; what is mounted there is ours.
        unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
        let _ = std::fs::remove_dir(&self.0);
    }
}

pub fn a_full_file_system_is_a_count() -> Outcome {
    let file = File::new();
    let tiny = match Tiny::new(&file, 2) {
        Ok(tiny) => tiny,
        Err(why) => return Outcome::Skipped(why),
    };
    expect_refusal(
        &mut harness::child("refused", &tiny.0.join("x.slt")),
        "No space left",
    );
    assert!(!tiny.0.join("x.slt").exists(), "nothing is left behind");
    drop(tiny);
    // Room for some of the budget: what is there is used, the rest is counted. Huge pages are faulted in before they are
    // reserved: that must not be SIGBUS either.
    for huge in ["", "1"] {
        let tiny = Tiny::new(&file, 48).expect("a mount, as before");
        let region = tiny.0.join("y.slt");
        harness::run_quiet(harness::child("full", &region).env("HUGE", huge), 0);
        work::check(&Trace::open(&region).expect("the region"), true);
    }
    Outcome::Passed
}

pub fn full_body() -> i32 {
    let runtime = work::runtime(|settings| {
        settings.budget_bytes = 256 << 20;
        settings.huge_pages = std::env::var("HUGE").as_deref() == Ok("1");
    });
    work::keep_house(runtime);
    // Somebody else takes what is left of the disk.
    let other = runtime.path().with_extension("other");
    let mut taken = 0;
    while std::fs::write(&other, vec![1; taken + (1 << 20)]).is_ok() {
        taken += 1 << 20;
    }
    let session = runtime.session_open().expect("a session");
    const MARKS: u64 = 700_000;
    for at in 1..=MARKS {
        work::mark(runtime, number(1, at));
        // Once the first step of the backing is used up, the housekeeper tries another one.
        if at == MARKS / 2 {
            while !runtime.backing_failed() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
    let end = runtime.session_stop(session, LONG, None).expect("books");
    let found = work::check(&runtime.trace().expect("a trace"), true);
    let (there, lost) = (
        found.count(Kind::Mark, 1),
        end.lost.get(LossReason::NoSegment),
    );
    assert_eq!(there + lost, MARKS, "counts balance");
    assert!(runtime.backing_failed() && lost > 0, "{there} {lost}");
    assert_eq!(end.verdict, Verdict::Empty);
    0
}

pub fn the_file_may_go_away() -> Outcome {
    for what in ["deleted", "renamed"] {
        let file = File::new();
        harness::run_quiet(harness::child("gone", file.path()).env("WHAT", what), 0);
        assert!(!file.path().exists());
        let renamed = file.path().with_extension("renamed");
        if what == "renamed" {
            let found = work::check(&Trace::open(&renamed).expect("the region"), true);
            assert_eq!(found.count(Kind::Dispatch, 1), 20_000);
            std::fs::remove_file(renamed).expect("the region");
        }
    }
    Outcome::Passed
}

pub fn gone_body() -> i32 {
    let runtime = work::runtime(|_| ());
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    for at in 1..=20_000 {
        if at == 5_000 {
            match std::env::var("WHAT").as_deref() {
                Ok("deleted") => std::fs::remove_file(runtime.path()).expect("the file"),
                _ => std::fs::rename(runtime.path(), runtime.path().with_extension("renamed"))
                    .expect("the file"),
            }
        }
        work::round(runtime, number(1, at));
    }
    let end = runtime.session_stop(session, LONG, None).expect("books");
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, 20_000)
    );
    work::check(&runtime.trace().expect("a trace"), true);
    runtime.finalize();
    runtime.discard_unasked_file();
    0
}

/// Bytes that a line of a file of /proc names in kB.
fn kilobytes(text: &str, name: &str) -> u64 {
    let sum = text
        .lines()
        .filter_map(|line| {
            line.strip_prefix(name)?
                .strip_suffix("kB")?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum::<u64>();
    sum * 1024
}

fn proc_self(name: &str) -> String {
    std::fs::read_to_string(format!("/proc/self/{name}")).expect("a file of /proc")
}

/// In a child: a session that is complete whatever the wishes came to.
fn session_of_work(runtime: &'static Runtime, rounds: u64) {
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    for at in 1..=rounds {
        work::round(runtime, number(1, at));
    }
    let end = runtime.session_stop(session, LONG, None).expect("books");
    assert_eq!(
        (end.verdict, end.dispatches.recorded),
        (Verdict::Complete, rounds)
    );
}

/// What the trace itself says of its memory.
fn said(trace: &Trace) -> String {
    let mut pairs = trace.facts().metadata.iter();
    let said = pairs.find(|(key, _)| key == "strandline.memory");
    said.map(|(_, text)| text.clone()).unwrap_or_default()
}

/// More than a region of 4 MiB, and less than the limit that kernels of today begin with (8 MiB).
const WHOLE: &str = "7340032";

fn number_of(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn hard_lock_limit() -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is valid for writing.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &mut limit) };
    assert_eq!(failed, 0);
    limit.rlim_max
}

pub fn locked_memory_is_best_effort() -> Outcome {
    for (limit, text) in [
        ("0", "0.0 MiB locked (not more: "),
        ("3145728", "MiB locked (not more: "),
        (WHOLE, "; locked"),
    ] {
        if limit == WHOLE && hard_lock_limit() < number_of(WHOLE) {
            return Outcome::Skipped(
                "the part where all is locked: the hard limit is too low".to_owned(),
            );
        }
        let file = File::new();
        harness::run_quiet(harness::child("lock", file.path()).env("LIMIT", limit), 0);
        let trace = Trace::open(file.path()).expect("the region");
        work::check(&trace, true);
        let said = said(&trace);
        assert!(said.contains(text), "{limit}: {said}");
        if limit == "3145728" {
            assert!(
                said.contains("the limit on locked memory is 3072 KiB"),
                "{said}"
            );
        }
    }
    Outcome::Passed
}

pub fn lock_body() -> i32 {
    let limit = harness::given("LIMIT");
    set_limit(libc::RLIMIT_MEMLOCK, limit);
    // SAFETY: no preconditions. Root may lock what it likes.
    if unsafe { libc::getuid() } == 0 {
        // SAFETY: as above; 65534 is nobody.
        assert_eq!(unsafe { libc::setresuid(65_534, 65_534, 65_534) }, 0);
    }
    let locked = || kilobytes(&proc_self("status"), "VmLck:");
    assert_eq!(locked(), 0);
    let whole = limit == number_of(WHOLE);
    let runtime = work::runtime(|settings| {
        settings.lock = true;
        if whole {
            settings.budget_bytes = 4 << 20;
        }
    });
    let memory = runtime.memory();
    // A lane for the facts of threads without one is among the lanes.
    let trace = runtime.trace().expect("a trace");
    let segments = u64::from(trace.header().segment_count);
    drop(trace);
    let tables = 4096 + (64 + 1) * 4096 + segments * 128;
    let got = memory.locked_bytes.expect("asked for");
    match limit {
        0 => assert_eq!(got, 0),
        // Header, lanes and segment table, and the rest of the limit is the host's.
        3_145_728 => assert_eq!(got, tables),
        _ => assert_eq!(got, memory.mapped_bytes),
    }
    assert_eq!(locked(), got);
    assert_eq!(memory.lock_refused.is_some(), got < memory.mapped_bytes);
    session_of_work(runtime, if whole { 2_000 } else { 20_000 });
    assert_eq!(locked(), got);
    0
}

pub fn huge_pages_are_best_effort() -> Outcome {
    let mut without = None;
    for forbidden in [false, true] {
        let file = File::new();
        let mut child = harness::child("huge", file.path());
        if forbidden {
            child.env("FORBIDDEN", "1");
        }
        harness::run_quiet(&mut child, 0);
        let trace = Trace::open(file.path()).expect("the region");
        work::check(&trace, true);
        assert!(trace.header().segments_offset.is_multiple_of(2 << 20));
        let said = said(&trace);
        let refused = said.contains("MiB in huge pages (not more: ");
        assert!(
            refused || said.contains("; 32.0 MiB in huge pages"),
            "{said}"
        );
        assert!(refused || !forbidden, "{said}");
        if refused && !forbidden {
            without = Some(said);
        }
    }
    match without {
        None => Outcome::Passed,
        Some(said) => Outcome::Skipped(format!("the part that gets huge pages: {said}")),
    }
}

pub fn huge_body() -> i32 {
    if std::env::var_os("FORBIDDEN").is_some() {
        // SAFETY: switches huge pages off for this process.
        let failed = unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) };
        assert_eq!(failed, 0);
    }
    let runtime = work::runtime(|settings| settings.huge_pages = true);
    session_of_work(runtime, 20_000);
    // More than was there at first, or a refusal: each step asks anew, when the housekeeper makes it.
    let (memory, got) = loop {
        let memory = runtime.memory();
        let got = memory.huge_bytes.expect("asked for");
        if got > 32 << 20 || memory.huge_refused.is_some() {
            break (memory, got);
        }
        std::thread::sleep(Duration::from_millis(1));
    };
    let mapped = kilobytes(&proc_self("smaps"), "ShmemPmdMapped:");
    // Not all of them: the kernel may map a huge page in small pieces for a while, where it was busy.
    assert!(mapped > 0 || got == 0, "{mapped}: {memory}");
    0
}

pub fn a_memfd_can_be_read_and_not_cut() -> Outcome {
    use std::io::BufRead;
    for end in ["killed", "written"] {
        let file = File::new();
        let mut child = harness::child("memfd", file.path())
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("a child");
        let mut path = String::new();
        let mut out = std::io::BufReader::new(child.stdout.as_mut().expect("a pipe"));
        out.read_line(&mut path).expect("its path");
        let path = PathBuf::from(path.trim());
        assert!(!file.path().exists());
        // As `recover` reads it: the live process's.
        let found = work::check(&Trace::open(&path).expect("the live region"), true);
        assert_eq!(found.count(Kind::Dispatch, 1), 20_000);
        let open = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .expect("the live region");
        let bytes = open.metadata().expect("its size").len();
        for size in [0, bytes - 1, bytes + 1] {
            let error = open.set_len(size).expect_err("the size is sealed");
            assert_eq!(error.raw_os_error(), Some(libc::EPERM), "{size}");
        }
        if end == "killed" {
            child.kill().expect("a kill");
            child.wait().expect("its end");
            // Whoever has it open has it still.
            use std::os::fd::AsRawFd;
            let own = format!("/proc/self/fd/{}", open.as_raw_fd());
            let found = work::check(&Trace::open(Path::new(&own)).expect("the region"), true);
            assert_eq!(found.count(Kind::Dispatch, 1), 20_000);
            assert!(!path.exists() && !file.path().exists());
        } else {
            drop(child.stdin.take());
            let (status, text) = harness::finish(child);
            assert!(status.success() && text.is_empty(), "{status}: {text}");
            let trace = Trace::open(file.path()).expect("the file that was asked for");
            let found = work::check(&trace, true);
            assert_eq!(found.count(Kind::Dispatch, 1), 20_000);
            assert!(said(&trace).starts_with("a memfd, "), "{}", said(&trace));
        }
    }
    Outcome::Passed
}

pub fn memfd_body() -> i32 {
    let runtime = work::runtime(|settings| settings.backing = Backing::Memfd);
    assert_eq!(runtime.memory().kind, MemoryKind::Memfd);
    session_of_work(runtime, 20_000);
    println!("{}", runtime.path().display());
    let _ = std::io::stdin().read_line(&mut String::new());
    runtime.finalize();
    let written = runtime.write_asked_file().expect("the file");
    assert_eq!(written.as_deref(), Some(&*harness::given_file()));
    runtime.discard_unasked_file();
    0
}
