//! The folder of links by which the loader finds the stand-in libraries under their real names.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Link name and library that it leads to.
const LINKS: [(&str, &str); 7] = [
    ("librocprofiler-sdk.so.1", "libsim_rocprofiler_sdk.so"),
    ("librocprofiler-sdk.so", "libsim_rocprofiler_sdk.so"),
    ("librocprofiler-sdk-roctx.so.1", "libsim_roctx.so"),
    ("librocprofiler-sdk-roctx.so", "libsim_roctx.so"),
    ("libamdhip64.so", "libsim_amdhip64.so"),
    ("libamdhip64.so.6", "libsim_amdhip64.so"),
    ("libamdhip64.so.7", "libsim_amdhip64.so"),
];

/// Makes `out_dir` with links to the stand-in libraries in `target_dir` (where `libsim_*.so` are).
///
/// Safe to run from several processes at once: each link is made under another name and renamed
/// over, so a reader always finds an old or a new one. Links that are right are left alone.
///
/// # Errors
/// A stand-in library is missing, or the folder or a link cannot be made.
pub fn install_links(target_dir: &Path, out_dir: &Path) -> io::Result<()> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let target_dir = std::path::absolute(target_dir)?;
    std::fs::create_dir_all(out_dir)?;
    for (name, library) in LINKS {
        let target = target_dir.join(library);
        if !target.exists() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "{}: no such stand-in library; build it first (cargo build -p sim-amdhip64 \
                     -p sim-rocprofiler-sdk -p sim-roctx)",
                    target.display()
                ),
            ));
        }
        let link = out_dir.join(name);
        if std::fs::read_link(&link).is_ok_and(|found| found == target) {
            continue;
        }
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let temporary = out_dir.join(format!(".{name}.{}.{number}", std::process::id()));
        std::os::unix::fs::symlink(&target, &temporary)?;
        if let Err(error) = std::fs::rename(&temporary, &link) {
            let _ = std::fs::remove_file(&temporary);
            return Err(error);
        }
    }
    Ok(())
}

/// The folder of links that belongs to the running program: `standin` beside it.
///
/// Made on the spot if the stand-in libraries lie beside the program, as cargo builds them.
#[must_use]
pub fn standin_folder() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let mut folder = program.parent()?.to_path_buf();
    // Test programs lie one folder deeper.
    if folder.file_name().is_some_and(|name| name == "deps") {
        folder.pop();
    }
    let out = folder.join("standin");
    install_links(&folder, &out).ok()?;
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_made_kept_and_repaired() {
        let folder = std::env::temp_dir().join(format!("sim-links-{}", std::process::id()));
        let (target, out) = (folder.join("target"), folder.join("out"));
        std::fs::create_dir_all(&target).unwrap();
        assert_eq!(
            install_links(&target, &out).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        for (_, library) in LINKS {
            std::fs::write(target.join(library), b"").unwrap();
        }
        let link = out.join("libamdhip64.so.7");
        std::os::unix::fs::symlink("/nowhere", &link).unwrap();
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (target, out) = (target.clone(), out.clone());
                std::thread::spawn(move || install_links(&target, &out).unwrap())
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(
            std::fs::read_link(&link).unwrap(),
            target.join("libsim_amdhip64.so")
        );
        assert_eq!(std::fs::read_dir(&out).unwrap().count(), LINKS.len());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
