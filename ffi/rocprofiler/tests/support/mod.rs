//! What the acceptance tests share: the built pieces, running programs with a time limit, reading what came out, tables.
//!
//! The tests run the command and the shared libraries that `cargo build` made, beside the test executable or where
//! `STRANDLINE_BIN` (the command) says. `STRANDLINE_SEEDS` sets the runs of each arm.

#![allow(
    dead_code,
    missing_docs,
    reason = "each test file uses a part; the names say it"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

pub mod c;

/// What must be built before the tests run.
#[derive(Debug)]
pub struct Built {
    pub command: PathBuf,
    /// The tool library.
    pub tool: PathBuf,
    /// Folder of the stand-in's libraries, for `LD_LIBRARY_PATH`.
    pub sim: PathBuf,
}

/// The built pieces.
///
/// # Panics
/// With the command that builds them.
pub fn built() -> &'static Built {
    static BUILT: OnceLock<Built> = OnceLock::new();
    BUILT.get_or_init(|| {
        let release = if profile_folder().ends_with("release") {
            " --release"
        } else {
            ""
        };
        let advice = format!(
            "build the workspace first, in its root: cargo build{release} (or name the command in STRANDLINE_BIN)"
        );
        let command = match std::env::var_os("STRANDLINE_BIN") {
            Some(path) => PathBuf::from(path),
            None => profile_folder().join("strandline"),
        };
        assert!(command.is_file(), "no {}: {advice}", command.display());
        let path = |what: &str| {
            let output = Command::new(&command)
                .args(["tool-path", what])
                .output()
                .unwrap_or_else(|error| panic!("running {}: {error}", command.display()));
            let path = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
            assert!(
                output.status.success() && Path::new(&path).exists(),
                "{}{advice}",
                String::from_utf8_lossy(&output.stderr)
            );
            PathBuf::from(path)
        };
        let (tool, sim) = (path("rocprofiler"), path("sim"));
        Built { command, tool, sim }
    })
}

/// `target/<profile>`: the tests lie in its folder `deps`.
pub fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    test.parent()
        .and_then(Path::parent)
        .expect("it lies in target/<profile>/deps")
        .to_owned()
}

/// Runs of each arm.
pub fn seeds() -> u64 {
    number("STRANDLINE_SEEDS", 5)
}

/// True when the full counts are asked for.
pub fn full() -> bool {
    seeds() >= 40
}

pub fn number(variable: &str, default: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{variable}={text}: expected a whole number")),
        Err(_) => default,
    }
}

/// Says something that is seen also when the test passes.
pub fn say(text: &str) {
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// Says that a test is skipped, and why.
pub fn skip(test: &str, why: &str) {
    say(&format!("skipped {test}: {why}"));
}

/// A folder of one test, in memory where there is such a file system; removed at the end.
#[derive(Debug)]
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let folder = base.join(format!(
            "strandline-test-{name}-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        ));
        std::fs::create_dir_all(&folder).expect("making the test's folder");
        Self(folder)
    }

    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.0.join(name)
    }

    /// Removes all files in it.
    pub fn clear(&self) {
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if std::env::var_os("STRANDLINE_KEEP").is_none() {
            let _ = std::fs::remove_dir_all(&self.0);
        } else {
            say(&format!("kept {}", self.0.display()));
        }
    }
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<ExitStatus>,
    pub stdout: String,
    pub stderr: String,
    pub seconds: f64,
}

impl Ended {
    /// Exit code 0 within the limit.
    pub fn clean(&self) -> bool {
        self.status.is_some_and(|status| status.success())
    }

    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }

    /// How it ended, for people.
    pub fn how(&self) -> String {
        match self.status {
            None => format!("hung for {:.1} s and was killed", self.seconds),
            Some(status) => match (status.code(), status.signal()) {
                (Some(code), _) => format!("exit code {code}"),
                (None, signal) => format!("signal {}", signal.unwrap_or(0)),
            },
        }
    }

    /// # Panics
    /// Unless it ended with code 0.
    #[track_caller]
    pub fn expect_clean(&self, what: &str) -> &Self {
        assert!(
            self.clean(),
            "{what}: {}\nstdout: {}\nstderr: {}",
            self.how(),
            tail(&self.stdout),
            tail(&self.stderr)
        );
        self
    }

    /// The lines of stdout that are JSON objects.
    pub fn json_lines(&self) -> Vec<Value> {
        self.stdout
            .lines()
            .filter(|line| line.starts_with('{'))
            .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
            .collect()
    }
}

fn tail(text: &str) -> &str {
    let mut from = text.len().saturating_sub(3000);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    &text[from..]
}

/// Runs a program; kills it after `limit`.
pub fn run(command: &mut Command, limit: Duration) -> Ended {
    let began = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    fn reader(from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
        let mut from = from;
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = std::io::Read::read_to_end(&mut from, &mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
    let stdout = reader(child.stdout.take().expect("piped"));
    let stderr = reader(child.stderr.take().expect("piped"));
    let mut pause = Duration::from_millis(1);
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break Some(status);
        }
        if began.elapsed() > limit {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    };
    let seconds = began.elapsed().as_secs_f64();
    Ended {
        status,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
        seconds,
    }
}

/// A command with the stand-in on the loader's path and the tool library as the SDK's tool.
pub fn traced(program: &Path, out: &Path, start: &str) -> Command {
    let built = built();
    let mut command = Command::new(program);
    clean(&mut command);
    command
        .env("LD_LIBRARY_PATH", &built.sim)
        .env("ROCP_TOOL_LIBRARIES", &built.tool)
        .env("STRANDLINE_OUT", out)
        .env("STRANDLINE_START", start);
    command
}

/// Removes what the caller's environment may say to the tool, the stand-in and the SDK.
pub fn clean(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if ["STRANDLINE_", "ROCSIM_", "ROCP", "LD_"]
            .iter()
            .any(|prefix| text.starts_with(prefix))
        {
            command.env_remove(&name);
        }
    }
}

/// `strandline sim ...` under the tool.
pub fn sim(args: &[&str], out: &Path, start: &str) -> Command {
    let mut command = traced(&built().command, out, start);
    command.arg("sim").args(args);
    command
}

/// `strandline summary --json FILE`, with its exit code.
pub fn summary(file: &Path) -> (Value, i32) {
    let (text, code) = strandline(&["summary".into(), file.into(), "--json".into()]);
    let value = serde_json::from_str(&text)
        .unwrap_or_else(|error| panic!("summary of {}: {error}: {text}", file.display()));
    (value, code)
}

/// `strandline dump FILE`.
pub fn dump(file: &Path) -> Vec<Value> {
    let (text, _) = strandline(&["dump".into(), file.into()]);
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect()
}

/// Runs the command; returns stdout and the code, which must be 0 or 3.
pub fn strandline(args: &[OsString]) -> (String, i32) {
    let mut command = Command::new(&built().command);
    clean(&mut command);
    command.args(args);
    let ended = run(&mut command, Duration::from_secs(300));
    let code = ended.code().unwrap_or(-1);
    assert!(
        code == 0 || code == 3,
        "strandline {args:?}: {}: {}",
        ended.how(),
        tail(&ended.stderr)
    );
    (ended.stdout, code)
}

/// A number at a path such as `sessions/0/late`.
#[track_caller]
pub fn at(value: &Value, path: &str) -> u64 {
    let found = value.pointer(&format!("/{path}"));
    found
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("no number at {path}: {found:?}"))
}

/// A text at a path.
#[track_caller]
pub fn text_at<'a>(value: &'a Value, path: &str) -> &'a str {
    value
        .pointer(&format!("/{path}"))
        .and_then(Value::as_str)
        .unwrap_or_else(|| panic!("no text at {path}"))
}

/// The stand-in's ground truth.
#[derive(Debug, Default)]
pub struct Ledger {
    pub dispatches: Vec<Work>,
    pub copies: Vec<Work>,
    /// Calls of each HIP function.
    pub calls: BTreeMap<String, u64>,
}

/// One dispatch or copy of the ledger.
#[derive(Debug)]
pub struct Work {
    pub dispatch_id: u64,
    pub correlation_id: u64,
    pub thread: u64,
    pub queue: u64,
    pub kernel: String,
    pub start_ns: u64,
    pub end_ns: u64,
    pub bytes: u64,
    /// Some tool traced it.
    pub traced: bool,
    /// Its record came before the end of the process.
    pub delivered: bool,
    /// The device gave its times.
    pub timed: bool,
}

impl Ledger {
    pub fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path)
            .unwrap_or_else(|error| panic!("ledger {}: {error}", path.display()));
        let mut ledger = Self::default();
        for line in text.lines() {
            let value: Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"));
            let kind = text_at(&value, "kind");
            if kind == "api" {
                let name = text_at(&value, "name").to_owned();
                ledger.calls.insert(name, at(&value, "calls"));
                continue;
            }
            let truth = |name: &str| value[name].as_bool() == Some(true);
            let work = Work {
                dispatch_id: at(&value, "dispatch_id"),
                correlation_id: at(&value, "correlation_id"),
                thread: at(&value, "thread"),
                queue: value["queue"].as_u64().unwrap_or(0),
                kernel: text_at(&value, "kernel").to_owned(),
                start_ns: at(&value, "start_ns"),
                end_ns: at(&value, "end_ns"),
                bytes: at(&value, "bytes"),
                traced: truth("traced"),
                delivered: truth("delivered"),
                timed: truth("timed"),
            };
            match kind {
                "dispatch" => ledger.dispatches.push(work),
                "copy" => ledger.copies.push(work),
                other => panic!("ledger: kind {other}"),
            }
        }
        ledger
    }

    /// Dispatches that a tool traced.
    pub fn traced(&self) -> u64 {
        self.dispatches.iter().filter(|work| work.traced).count() as u64
    }

    /// Traced dispatches whose timing failed.
    pub fn failed(&self) -> u64 {
        self.dispatches
            .iter()
            .filter(|work| work.traced && !work.timed)
            .count() as u64
    }
}

pub fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        n => values[n / 2],
    }
}

/// A table for people.
#[derive(Debug)]
pub struct Table {
    title: String,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(title: &str, columns: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            rows: vec![columns.iter().map(|&column| column.to_owned()).collect()],
        }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub fn print(&self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let mut text = format!("\n{}\n", self.title);
        for (index, row) in self.rows.iter().enumerate() {
            for (column, cell) in row.iter().enumerate() {
                let pad = width[column] - cell.chars().count();
                let space = " ".repeat(pad);
                let _ = if column == 0 {
                    write!(text, "  {cell}{space}")
                } else {
                    write!(text, "  {space}{cell}")
                };
            }
            text.push('\n');
            if index == 0 {
                let line = width.iter().map(|width| width + 2).sum::<usize>();
                text.push_str("  ");
                text.push_str(&"-".repeat(line.saturating_sub(2)));
                text.push('\n');
            }
        }
        say(&text);
    }
}

/// Milliseconds with two decimals.
pub fn ms(value: f64) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else {
        format!("{value:.2}")
    }
}
