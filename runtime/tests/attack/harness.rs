//! A small test runner: tests run one after another in this process, and re-run the same binary as a child for what a
//! process can do only once. No threads of its own, so that a child is what its test made it.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How a test ended, if it did not panic.
pub enum Outcome {
    Passed,
    /// With the reason.
    Skipped(String),
}

impl From<()> for Outcome {
    fn from((): ()) -> Self {
        Self::Passed
    }
}

pub type Test = (&'static str, fn() -> Outcome);
pub type Body = (&'static str, fn() -> i32);

const CHILD: &str = "STRANDLINE_TEST_CHILD";
const FILE: &str = "STRANDLINE_TEST_FILE";
/// Longest time that a child is given before it counts as hanging. Nothing is decided by how fast a test runs.
const HANG: Duration = Duration::from_secs(120);

pub fn main(tests: &[Test], children: &[Body]) -> ExitCode {
    if let Ok(name) = std::env::var(CHILD) {
        let body = children.iter().find(|(known, _)| *known == name);
        let code = body.expect("a child of that name").1();
        std::process::exit(code);
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in tests {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }
    let exact = arguments.iter().any(|argument| argument == "--exact");
    let filters: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let chosen = |name: &str| {
        filters.is_empty()
            || filters
                .iter()
                .any(|filter| name == *filter || !exact && name.contains(&**filter))
    };
    let mut failed = Vec::new();
    for (name, test) in tests.iter().filter(|(name, _)| chosen(name)) {
        match std::panic::catch_unwind(test) {
            Ok(Outcome::Passed) => println!("test {name} ... ok"),
            Ok(Outcome::Skipped(why)) => println!("test {name} ... skipped: {why}"),
            Err(_) => {
                println!("test {name} ... FAILED");
                failed.push(name);
            }
        }
    }
    println!(
        "\ntest result: {}. failed: {failed:?}",
        if failed.is_empty() { "ok" } else { "FAILED" }
    );
    if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// A file that is removed with its namesakes when the test is over.
pub struct File(PathBuf);

impl File {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let shm = Path::new("/dev/shm");
        let folder = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(folder.join(format!(
            "strandline-attack-{}-{number}.slt",
            std::process::id()
        )))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The command that runs the child `name` with its region in `file`.
pub fn child(name: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this binary"));
    command.env(CHILD, name).env(FILE, file);
    command
}

/// In a child: the file that it was given.
pub fn given_file() -> PathBuf {
    std::env::var_os(FILE).expect("a child's file").into()
}

/// In a child: a number that it was given.
pub fn given(name: &str) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_else(|| panic!("{name} is not set"))
}

/// In a child: says on stdout that it is ready.
pub fn say_ready() {
    // SAFETY: one byte of a static, to an open file.
    unsafe { libc::write(1, b"!".as_ptr().cast(), 1) };
}

/// Runs a child to its end; returns its status and all that it wrote.
pub fn run(command: &mut Command) -> (ExitStatus, String) {
    run_for(command, Duration::ZERO)
}

/// As `run`, for a child that takes `longer` by itself.
pub fn run_for(command: &mut Command, longer: Duration) -> (ExitStatus, String) {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a child");
    finish_within(child, HANG + longer)
}

/// Waits for a child; one that hangs is killed and fails the test.
pub fn finish(child: Child) -> (ExitStatus, String) {
    finish_within(child, HANG)
}

fn finish_within(mut child: Child, hang: Duration) -> (ExitStatus, String) {
    let readers: Vec<_> = [
        child
            .stdout
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>),
        child
            .stderr
            .take()
            .map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>),
    ]
    .into_iter()
    .flatten()
    .map(|mut pipe| {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            let _ = pipe.read_to_end(&mut text);
            String::from_utf8_lossy(&text).into_owned()
        })
    })
    .collect();
    let until = Instant::now() + hang;
    let status = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break Some(status);
        }
        if Instant::now() >= until {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text: String = readers
        .into_iter()
        .map(|reader| reader.join().expect("a reader"))
        .collect();
    (
        status.unwrap_or_else(|| panic!("the child hangs; it wrote: {text}")),
        text,
    )
}

/// Runs a child that must end with `code` and write nothing.
pub fn run_quiet(command: &mut Command, code: i32) {
    let (status, text) = run(command);
    assert!(
        status.code() == Some(code),
        "expected exit code {code}, found {status}; it wrote: {text}"
    );
    assert_eq!(text, "", "the child wrote something");
}
