//! Where the parts of Strandline lie: beside the program, so that a build folder and an installed tree both work.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::args;
use crate::failure::{Failure, code, reason};

/// File name of the tool library for rocprofiler-sdk.
const ROCPROFILER: &str = "libstrandline_rocprofiler.so";
/// File name of the stand-in SDK.
const STAND_IN: &str = "libsim_rocprofiler_sdk.so";
/// File name of the library for CUPTI.
const CUPTI: &str = "libstrandline_cupti.so";

/// Runs `strandline tool-path`.
pub(crate) fn run(args: &args::ToolPath) -> Result<u8, Failure> {
    let path = match args.part {
        args::Part::Rocprofiler => library(ROCPROFILER)?,
        args::Part::Cupti => library(CUPTI)?,
        args::Part::Sim => sim_folder()?,
    };
    let mut out = io::stdout();
    out.write_all(path.as_os_str().as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .map_err(|error| Failure::stdout(&error))?;
    Ok(code::FINE)
}

/// The tool library for rocprofiler-sdk.
pub(crate) fn rocprofiler_library() -> Result<PathBuf, Failure> {
    library(ROCPROFILER)
}

fn library(name: &str) -> Result<PathBuf, Failure> {
    let folders = library_folders()?;
    for folder in &folders {
        if let Ok(path) = folder.join(name).canonicalize() {
            return Ok(path);
        }
    }
    let looked: Vec<String> = folders
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    Err(Failure::new(format!(
        "looking for {name}: it is not in {}; build it (`cargo build --release` builds all of Strandline) or set STRANDLINE_LIB_DIR",
        looked.join(", ")
    )))
}

/// Folders in which libraries may lie, the likeliest first.
fn library_folders() -> Result<Vec<PathBuf>, Failure> {
    let beside = executable_folder()?;
    let set = env::var_os("STRANDLINE_LIB_DIR").filter(|folder| !folder.is_empty());
    Ok(set
        .map(PathBuf::from)
        .into_iter()
        .chain([beside.clone(), beside.join("../lib")])
        .collect())
}

/// The folder with the stand-in SDK under the names that programs load, made anew at each call.
///
/// It lies beside the executable; where that place can't be written to, in the user's own folder for temporary files.
pub(crate) fn sim_folder() -> Result<PathBuf, Failure> {
    let sdk = library(STAND_IN)?;
    let target = sdk.parent().unwrap_or(Path::new("/"));
    let first = executable_folder()?.join("strandline-sim");
    let first_error = match sim_workload::install_links(target, &first) {
        Ok(()) => return Ok(first),
        Err(error) => error,
    };
    let second = own_temporary_folder()
        .map(|folder| folder.join("sim"))
        .and_then(|folder| sim_workload::install_links(target, &folder).map(|()| folder));
    second.map_err(|_| {
        Failure::new(format!(
            "setting up the stand-in SDK in {}: {}; build it (`cargo build --release` builds all of Strandline) or set STRANDLINE_LIB_DIR",
            first.display(),
            reason(&first_error)
        ))
    })
}

fn executable_folder() -> Result<PathBuf, Failure> {
    let executable = env::current_exe().map_err(|error| {
        Failure::new(format!(
            "looking for strandline's own executable: {}",
            reason(&error)
        ))
    })?;
    Ok(executable.parent().unwrap_or(Path::new("/")).to_owned())
}

/// A folder for temporary files that only this user can write to.
fn own_temporary_folder() -> io::Result<PathBuf> {
    // SAFETY: geteuid has no preconditions and can't fail.
    let user = unsafe { libc::geteuid() };
    let folder = env::temp_dir().join(format!("strandline-{user}"));
    private_folder(&folder)?;
    Ok(folder)
}

/// Makes a folder of mode 0700, or accepts one that is there, is this user's own and closed to others.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(folder) {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error),
    }
    let found = fs::symlink_metadata(folder)?;
    // SAFETY: geteuid has no preconditions and can't fail.
    let user = unsafe { libc::geteuid() };
    let wrong = if !found.is_dir() {
        "it is not a folder"
    } else if found.uid() != user {
        "it belongs to another user"
    } else if found.mode() & 0o022 != 0 {
        "others can write to it (expected mode 0700)"
    } else {
        return Ok(());
    };
    Err(io::Error::new(io::ErrorKind::PermissionDenied, wrong))
}

/// True when a path can stand in a list separated by colons.
pub(crate) fn fits_colon_list(path: &OsStr) -> bool {
    !path.as_bytes().contains(&b':')
}
