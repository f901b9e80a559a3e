//! C and C++ pieces of the tests, compiled when they are needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::profile_folder;

/// Where the sources are.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c")
}

/// True when the program can be run.
pub fn there_is(program: &str) -> bool {
    Command::new(program)
        .arg("--version")
        .output()
        .is_ok_and(|output| output.status.success())
}

/// Compiles `source` to `output` (beside the test executables) with `compiler`; `None` and the reason when there is no
/// such compiler.
///
/// # Panics
/// When the compiler is there and refuses the source.
pub fn compile(
    compiler: &str,
    source: &str,
    output: &str,
    flags: &[&str],
) -> Result<PathBuf, String> {
    static ONE: Mutex<()> = Mutex::new(());
    if !there_is(compiler) {
        return Err(format!("no {compiler} on this machine"));
    }
    let _one = ONE.lock();
    let folder = profile_folder().join("strandline-test-c");
    std::fs::create_dir_all(&folder).expect("making a folder for compiled tests");
    let path = folder.join(output);
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).expect("making a folder for compiled tests");
    }
    // Other test executables may compile the same file, or run it: replaced in one step.
    let new = folder.join(format!("{output}.{}", std::process::id()));
    let out = Command::new(compiler)
        .args(["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .arg(&new)
        .arg(sources().join(source))
        .args(flags)
        .output()
        .expect("running the compiler");
    assert!(
        out.status.success(),
        "{compiler} {source}:\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    std::fs::rename(&new, &path).expect("moving a compiled test into place");
    Ok(path)
}
