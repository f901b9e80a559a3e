//! Goal: a forked child is inert at once, whatever other threads were inside of: no lock, no write to the parent's
//! region, its exit code its own; the parent's trace is untouched. Method: fork while threads append, while the
//! housekeeper works and while a stop holds its lock; children call everything and mark what they write; then the whole
//! file is searched for the marks, and a region at rest is compared byte by byte.

use std::process::Command;
use std::time::Duration;

use strandline::Runtime;
use strandline::events::Ids;
use strandline::header::Phase;
use strandline::record::Kind;

use crate::harness::{self, File, Outcome};
use crate::work::{self, number};

/// In every word that a child would write.
const MARK: u64 = 0xC41D_C41D_C41D_C41D;
const FORKS: u64 = 60;

pub fn children_are_inert() -> Outcome {
    let file = File::new();
    harness::run_quiet(&mut harness::child("fork", file.path()), 0);
    let bytes = std::fs::read(file.path()).expect("the region");
    for (at, word) in bytes.chunks_exact(8).enumerate() {
        assert_ne!(
            word,
            MARK.to_le_bytes(),
            "a child wrote at offset {}",
            at * 8
        );
    }
    let trace = strandline::Trace::open(file.path()).expect("a region");
    let found = work::check(&trace, true);
    assert_eq!(found.counts.len(), 3 * work::ROUND_RECORDS as usize + 2);
    assert_eq!(trace.facts().session_ends.len(), 2);
    Outcome::Passed
}

/// What a child does that does not know that it is one.
fn everything(runtime: &'static Runtime) {
    let ids = Ids {
        correlation: MARK,
        ancestor: MARK,
        external: MARK,
        ..Ids::default()
    };
    work::round(runtime, number(9, 100));
    runtime.range_push(ids, b"a child's range");
    runtime.range_pop(ids);
    runtime.mark(Kind::Mark, ids, MARK, b"a child's mark");
    runtime.intern(&MARK.to_le_bytes().repeat(8));
    runtime.metadata(b"child", &MARK.to_le_bytes());
    runtime.fact(Kind::Metadata, 0, &[MARK, MARK]);
    runtime.stream_created(MARK);
    runtime.stream_destroyed(MARK);
    runtime.set_sdk_dropped(MARK);
    runtime.announce_anchor();
    let _ = runtime.session_open();
    let _ = runtime.session_close(runtime.open_session());
    let _ = runtime.session_stop(1, Duration::from_secs(10), None);
    let _ = runtime.session_result(1);
    runtime.set_phase(Phase::Exit);
    runtime.finalize();
    runtime.discard_unasked_file();
}

/// Forks, has the child run `body` and leave with its code; returns what the parent sees.
fn forked(body: impl FnOnce() -> i32) -> i32 {
    // SAFETY: the child runs `body`, which takes no lock that a thread of the parent could hold, and leaves.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // A child that hangs dies by SIGALRM, which its parent sees.
        // SAFETY: no preconditions.
        unsafe { libc::alarm(20) };
        let code = body();
        // SAFETY: ends the child at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just forked.
    unsafe { libc::waitpid(child, &mut status, 0) };
    assert!(
        libc::WIFEXITED(status),
        "the child died or hung: status {status:#x}"
    );
    libc::WEXITSTATUS(status)
}

pub fn body() -> i32 {
    let runtime = work::runtime(|_| ());
    work::keep_house(runtime);
    let session = runtime.session_open().expect("a session");
    // What a child's thread needs to be made exists before the first fork.
    std::thread::spawn(|| ()).join().expect("a thread");
    let appending: Vec<_> = (1..=3)
        .map(|source| {
            std::thread::spawn(move || {
                for at in 1..=6_000 {
                    work::round(runtime, number(source, at));
                }
            })
        })
        .collect();
    for fork in 0..FORKS {
        let code = forked(|| {
            everything(runtime);
            // A thread of the child, too: its lane word starts at 0, so it would claim one.
            if fork % 4 == 0 {
                let mut thread = 0;
                // SAFETY: a plain thread that is joined; pthread_create takes no lock of Rust's.
                unsafe {
                    libc::pthread_create(
                        &mut thread,
                        std::ptr::null(),
                        thread_body,
                        std::ptr::null_mut(),
                    );
                    libc::pthread_join(thread, std::ptr::null_mut());
                }
            }
            40 + (fork % 7) as i32
        });
        assert_eq!(
            code,
            40 + (fork % 7) as i32,
            "the child's exit code is its own"
        );
        // vfork and exec, posix_spawn: children that share memory, or none.
        if fork % 10 == 0 {
            assert_eq!(vforked(), 3);
            let status = Command::new("/bin/sh").args(["-c", "exit 5"]).status();
            assert_eq!(status.expect("a shell").code(), Some(5));
        }
    }
    for thread in appending {
        thread.join().expect("an appending thread");
    }
    // At rest nothing of the region may change under a child. The housekeeper's heartbeat does, so it is left out; with no
    // session open it takes no anchors.
    runtime
        .session_stop(session, Duration::from_secs(60), None)
        .expect("books");
    let read = || {
        let mut bytes = std::fs::read(runtime.path()).expect("the region");
        bytes[256..304].fill(0);
        bytes
    };
    let settled = || {
        // The housekeeper gives sealed segments their checksum, a few in a round.
        let mut before = read();
        loop {
            std::thread::sleep(Duration::from_millis(20));
            let after = read();
            if before == after {
                return after;
            }
            before = after;
        }
    };
    let before = settled();
    assert_eq!(
        forked(|| {
            everything(runtime);
            0
        }),
        0
    );
    assert!(before == settled(), "a child wrote to the parent's region");
    let session = runtime.session_open().expect("another session");
    // A child forked while a stop holds the lock of the books must not wait for it.
    let token = work::issue(runtime, number(4, 1));
    let stop =
        std::thread::spawn(move || runtime.session_stop(session, Duration::from_secs(60), None));
    while runtime.open_session() != 0 {
        std::thread::yield_now();
    }
    std::thread::sleep(Duration::from_millis(5));
    let code = forked(|| {
        i32::from(runtime.session_result(session).is_some()) << 1
            | i32::from(
                runtime
                    .session_stop(session, Duration::from_secs(60), None)
                    .is_ok(),
            )
    });
    assert_eq!(code, 0, "a child has no sessions");
    work::done(runtime, token, number(4, 1));
    stop.join().expect("a stop").expect("books");
    0
}

extern "C" fn thread_body(_: *mut libc::c_void) -> *mut libc::c_void {
    let runtime = Runtime::global().expect("the parent's");
    work::round(runtime, number(9, 200));
    std::ptr::null_mut()
}

/// Exit code of a child made by vfork, which execs at once.
fn vforked() -> i32 {
    let arguments = [
        c"/bin/sh".as_ptr(),
        c"-c".as_ptr(),
        c"exit 3".as_ptr(),
        std::ptr::null(),
    ];
    let mut status = 0;
    // SAFETY: the child only execs or leaves, as vfork demands; its arguments are static.
    unsafe {
        #[allow(deprecated, reason = "programs use it, so it is tried")]
        let child = libc::vfork();
        if child == 0 {
            libc::execv(arguments[0], arguments.as_ptr());
            libc::_exit(127);
        }
        libc::waitpid(child, &mut status, 0);
    }
    libc::WEXITSTATUS(status)
}
