//! Goal: where there is no room or no permission, the runtime says so by a status and the host does not notice; a full
//! disk never becomes SIGBUS. Method: children with a tiny file system, limits, other users, and a region file that is
//! deleted or renamed under them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strandline::loss::LossReason;
use strandline::record::Kind;
use strandline::{Runtime, Status, Trace, Vendor, Verdict};

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
    // Room for some of the budget: what is there is used, the rest is counted.
    let tiny = Tiny::new(&file, 48).expect("a mount, as before");
    let region = tiny.0.join("y.slt");
    harness::run_quiet(&mut harness::child("full", &region), 0);
    work::check(&Trace::open(&region).expect("the region"), true);
    Outcome::Passed
}

pub fn full_body() -> i32 {
    let runtime = work::runtime(|settings| settings.budget_bytes = 256 << 20);
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
