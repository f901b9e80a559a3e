//! What the tests of the command share: a folder of their own, made-up regions, and runs of the real binary.
#![allow(dead_code, reason = "each test program uses a part")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::builder::Builder;
use strandline::record::{Kind, domain, pair};
use strandline::{Proof, SessionEnd, Verdict, Work};

static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A folder for one test, removed at its end.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Self {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!(
            "strandline-test-{}-{number}-{name}",
            std::process::id()
        ));
        fs::create_dir_all(path.join("lib")).unwrap();
        // `record` only needs to find the tool library: no program in these tests loads it.
        fs::write(path.join("lib/libstrandline_rocprofiler.so"), b"").unwrap();
        Self(path)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes a region file.
    pub fn region(&self, name: &str, region: &Builder) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, region.bytes()).unwrap();
        path
    }

    /// The command, with its live regions and its tool library in this folder, run from it.
    pub fn strandline(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strandline"));
        command
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .env("STRANDLINE_DIR", self.path("live"))
            .env("STRANDLINE_LIB_DIR", self.path("lib"));
        for name in [
            "ROCP_TOOL_LIBRARIES",
            "STRANDLINE_OUT",
            "STRANDLINE_MODE",
            "STRANDLINE_BUDGET",
            "STRANDLINE_LOG",
        ] {
            command.env_remove(name);
        }
        // A shell starts what it puts into the background with some signals ignored, and they stay so in all children:
        // the tests must not depend on how they were started.
        // SAFETY: between fork and exec only `signal` is called, which is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                for signal in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                    libc::signal(signal, libc::SIG_DFL);
                }
                Ok(())
            });
        }
        command
    }

    /// Runs the command.
    pub fn run(&self, args: &[&str]) -> Done {
        Done::of(self.strandline().args(args).output().unwrap())
    }

    /// Regions that are left in the region folder.
    pub fn left_over(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let Ok(entries) = fs::read_dir(self.path("live")) else {
            return found;
        };
        for entry in entries {
            found.push(entry.unwrap().path());
        }
        found
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What a run gave.
#[derive(Debug)]
pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Done {
    pub fn of(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Checks the exit code, and that standard error is one line of the command's own with these parts in this order.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.err.lines().count(), 1, "{self:?}");
        assert!(self.err.starts_with("strandline: "), "{self:?}");
        let mut rest = self.err.as_str();
        for part in parts {
            let Some(at) = rest.find(part) else {
                panic!("no `{part}` in its place in {self:?}")
            };
            rest = &rest[at + part.len()..];
        }
    }
}

/// A session with `recorded` of `issued` dispatches of one kernel, one API call each.
pub fn session(recorded: u64, issued: u64, retired: u64) -> Builder {
    let mut region = Builder::new();
    region
        .session_begin(1, 1_000)
        .gpu(7, 0, "gfx942", "AMD Instinct MI300X")
        .kernel(9, b"_Z6kernelPfi.kd")
        .stream(1, 0xabc)
        .operation(domain::RUNTIME, 214, "hipLaunchKernel");
    for id in 1..=recorded {
        let start = 1_000 + 10 * id;
        region.record(
            0,
            Kind::Api,
            1,
            &[start, start + 2, id, 0, 214 | 1 << 16, 0, pair(1, 42)],
        );
        region.record(
            0,
            Kind::Dispatch,
            1,
            &[start + 3, start + 8, id, 0, id, 9, 0, 7, 0, pair(1, 42)],
        );
    }
    let issued = Work {
        issued,
        recorded,
        retired_without_record: retired,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: if issued.missing() > 0 {
            Verdict::Incomplete
        } else {
            Verdict::Complete
        },
        proof: Proof::Pairs,
        dispatches: issued,
        low_watermark: recorded,
        high_watermark: issued.issued,
        begin_ns: 1_000,
        requested_ns: 1_000_000,
        returned_ns: 1_000_100,
        ..SessionEnd::default()
    });
    region
}

/// A path as an argument.
pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
