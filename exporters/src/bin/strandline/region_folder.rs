//! Where live regions lie: in memory (tmpfs), because on a disk file the kernel write-protects pages at each writeback and
//! a store into them faults again.

use std::env;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::failure::{Failure, advice, reason};
use crate::place;

/// The region folder by the contract's rules: STRANDLINE_DIR, else `$XDG_RUNTIME_DIR/strandline`, else
/// `/dev/shm/strandline-UID`.
pub(crate) fn path() -> PathBuf {
    let set = |name| {
        env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("STRANDLINE_DIR")
        .unwrap_or_else(|| strandline::settings::default_dir(set("XDG_RUNTIME_DIR")))
}

/// A folder of one recording, closed to others.
#[derive(Debug)]
pub(crate) struct Private {
    path: PathBuf,
}

impl Private {
    /// Makes a new one in the region folder.
    ///
    /// # Errors
    /// When the region folder can't be made or is not this user's own.
    pub(crate) fn new() -> Result<Self, Failure> {
        let parent = path();
        let failed = |error: &io::Error| {
            Failure::new(format!(
                "making a private folder for the live trace in {}: {}{}; STRANDLINE_DIR names another folder",
                parent.display(),
                reason(error),
                advice(error)
            ))
        };
        if let Some(above) = parent.parent() {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(above)
                .map_err(|error| failed(&error))?;
        }
        place::private_folder(&parent).map_err(|error| failed(&error))?;
        Self::below(&parent, "record").map_err(|error| failed(&error))
    }

    /// Makes a new one beside a file: on the same disk.
    ///
    /// # Errors
    /// When it can't be made there.
    pub(crate) fn beside(file: &Path) -> Result<Self, Failure> {
        let parent = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Self::below(parent, ".strandline-record").map_err(|error| {
            Failure::new(format!(
                "making a private folder for the stream in {}: {}{}",
                parent.display(),
                reason(&error),
                advice(&error)
            ))
        })
    }

    fn below(parent: &Path, stem: &str) -> io::Result<Self> {
        let process = std::process::id();
        for attempt in 0..1_000 {
            let name = match attempt {
                0 => format!("{stem}-{process}"),
                _ => format!("{stem}-{process}-{attempt}"),
            };
            let path = parent.join(name);
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// The folder itself.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The region of the program's first process.
    pub(crate) fn region(&self) -> PathBuf {
        self.path.join("live.slt")
    }

    /// The socket at which regions without a name are kept.
    pub(crate) fn keeper(&self) -> PathBuf {
        self.path.join("keeper")
    }

    /// A name for a region that had none.
    pub(crate) fn named(&self, which: Option<&str>) -> PathBuf {
        match which {
            None => self.region(),
            Some(which) => self.path.join(format!("live.{which}.slt")),
        }
    }

    /// The tool library's log.
    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    /// All regions that are there: the first process's, with `None`, then the others' with what stands between `live.`
    /// and `.slt`.
    pub(crate) fn regions(&self) -> io::Result<Vec<(Option<String>, PathBuf)>> {
        let mut regions = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            let entry = entry?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if name == "live.slt" {
                regions.push((None, entry.path()));
            } else if let Some(middle) = name
                .strip_prefix("live.")
                .and_then(|name| name.strip_suffix(".slt"))
            {
                regions.push((Some(middle.to_owned()), entry.path()));
            }
        }
        regions.sort();
        Ok(regions)
    }

    /// Removes the folder if nothing is left in it.
    pub(crate) fn remove_if_empty(&self) {
        let _ = fs::remove_file(self.log());
        let _ = fs::remove_file(self.keeper());
        let _ = fs::remove_dir(&self.path);
    }
}

/// Region files in a folder and in the folders directly below it, sorted.
pub(crate) fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            let Ok(below) = fs::read_dir(&path) else {
                continue;
            };
            found.extend(below.filter_map(|entry| Some(entry.ok()?.path())));
        } else {
            found.push(path);
        }
    }
    found.retain(|path| {
        path.extension().is_some_and(|extension| extension == "slt") && path.is_file()
    });
    found.sort();
    Ok(found)
}
