//! For the tests of the C API: an installed library, compilers, programs that are run with a limit.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a program of the tests may run.
const LIMIT: Duration = Duration::from_secs(120);

/// `ffi/c`.
pub fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The workspace.
pub fn root() -> PathBuf {
    here().join("../..")
}

/// `target/<profile>`: the tests lie in its folder `deps`.
pub fn profile_folder() -> PathBuf {
    let test = std::env::current_exe().expect("the test knows its own path");
    test.parent()
        .and_then(Path::parent)
        .expect("it lies in target/<profile>/deps")
        .to_owned()
}

/// Says that something is skipped, and why.
pub fn skip(what: &str, why: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {why}");
}

/// A folder of one test, in memory where there is such a file system; removed at the end.
#[derive(Debug)]
pub struct Scratch(pub PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = base.join(format!(
            "strandline-c-{name}-{}-{count}",
            std::process::id()
        ));
        std::fs::create_dir_all(&folder).expect("making the test's folder");
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The folder that `install.sh` filled, from the archive that cargo built for these tests. One for a test program; it is left to
/// the next run, which replaces it.
pub fn prefix() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = profile_folder().join("strandline-c-installed");
        let _ = std::fs::remove_dir_all(&prefix);
        let mut install = Command::new(here().join("install.sh"));
        install.arg(&prefix).env("STRANDLINE_ARCHIVE", archive());
        run(&mut install).expect_clean();
        prefix
    })
}

/// The newest archive beside the tests.
fn archive() -> PathBuf {
    let deps = profile_folder().join("deps");
    let newest = std::fs::read_dir(&deps)
        .expect("the tests' folder")
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            name.starts_with("libstrandline_c") && name.ends_with(".a")
        })
        .max_by_key(|entry| entry.metadata().and_then(|data| data.modified()).ok());
    newest
        .unwrap_or_else(|| panic!("no libstrandline_c*.a in {}", deps.display()))
        .path()
}

/// The compilers that there are, of `gcc` and `clang`, and their C++ names.
pub fn compilers() -> Vec<(&'static str, &'static str)> {
    [("gcc", "g++"), ("clang", "clang++")]
        .into_iter()
        .filter(|(cc, cxx)| {
            let there = exists(cc) && exists(cxx);
            if !there {
                skip(cc, "not installed");
            }
            there
        })
        .collect()
}

pub fn exists(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// A compiler with the warnings that count, the header and the folder of the test programs.
pub fn compiler(name: &str, standard: &str) -> Command {
    let mut command = Command::new(name);
    command
        .arg(format!("-std={standard}"))
        .args(["-Wall", "-Wextra", "-Werror", "-g", "-O1"])
        .arg("-I")
        .arg(prefix().join("include"))
        .arg("-I")
        .arg(here().join("tests/c"));
    command
}

/// Links with the shared library.
pub fn link(command: &mut Command) -> &mut Command {
    let lib = prefix().join("lib");
    command
        .arg("-L")
        .arg(&lib)
        .args(["-lstrandline", "-lpthread"])
        .arg(format!("-Wl,-rpath,{}", lib.display()))
}

/// How a program ended, and what it said.
#[derive(Debug)]
pub struct Ended {
    what: String,
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// # Panics
    /// Unless it ended with code 0.
    #[track_caller]
    pub fn expect_clean(&self) -> &Self {
        assert_eq!(
            self.code,
            Some(0),
            "{}\nstdout: {}\nstderr: {}",
            self.what,
            self.stdout,
            self.stderr
        );
        self
    }

    /// # Panics
    /// Unless it ended with code 0 and its last word was "ok".
    #[track_caller]
    pub fn expect_ok(&self) -> &Self {
        self.expect_clean();
        assert_eq!(
            self.stdout.lines().last(),
            Some("ok"),
            "{}\nstdout: {}\nstderr: {}",
            self.what,
            self.stdout,
            self.stderr
        );
        self
    }
}

/// Runs a program; kills it past the limit.
pub fn run(command: &mut Command) -> Ended {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let foreign = ["STRANDLINE_", "ROCSIM_", "ROCP"]
            .iter()
            .any(|prefix| text.starts_with(prefix));
        if foreign && !command.get_envs().any(|(set, _)| set == name) {
            command.env_remove(&name);
        }
    }
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("starting {command:?}: {error}"));
    fn reader(mut from: impl std::io::Read + Send + 'static) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        })
    }
    let stdout = reader(child.stdout.take().expect("piped"));
    let stderr = reader(child.stderr.take().expect("piped"));
    let began = Instant::now();
    let code = loop {
        if let Some(status) = child.try_wait().expect("waiting for a child") {
            break status.code();
        }
        if began.elapsed() > LIMIT {
            let _ = child.kill();
            let _ = child.wait();
            break None;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    Ended {
        what: format!("{command:?}"),
        code,
        stdout: stdout.join().unwrap_or_default(),
        stderr: stderr.join().unwrap_or_default(),
    }
}

/// Compiles a test program and links it with the shared library.
pub fn build(compiler_name: &str, standard: &str, source: &Path, extra: &[&OsStr], to: &Path) {
    let mut command = compiler(compiler_name, standard);
    command.arg(source).args(extra).arg("-o").arg(to);
    run(link(&mut command)).expect_clean();
}
