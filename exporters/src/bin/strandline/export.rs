//! `strandline export`, and how the other commands write a trace to a file.

use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use strandline::Trace;
use strandline_exporters::{ExportError, ExportReport, Format, Options};

use crate::args;
use crate::counts::Counts;
use crate::failure::{Failure, advice, code, reason, say};
use crate::{input, progress};

/// Extensions of the formats that can be written.
const FORMATS: [&str; 4] = [".json.gz", ".json", ".pftrace", ".slt"];

/// Runs the command.
pub(crate) fn run(args: &args::Export) -> Result<u8, Failure> {
    check_parts(args)?;
    let target = if args.out.as_os_str() == "-" {
        None
    } else {
        let target = Target::parse(&args.out)?;
        target.check(args.force)?;
        Some(target)
    };
    let traces: Vec<Trace> = args
        .inputs
        .iter()
        .map(|path| input::open(path))
        .collect::<Result<_, _>>()?;
    let mut counts = Counts::default();
    let options = Options {
        force: args.force,
        threads: args.threads.map_or_else(threads, usize::from),
        part_bytes_max: args.part_size,
        ..Options::default()
    };
    let report = match &target {
        Some(target) => {
            let report = target.write_with(&traces, &options)?;
            for file in &report.files {
                say(format_args!("wrote {}", file.display()));
            }
            Some(report)
        }
        None => {
            to_stdout(&traces, &options)?;
            None
        }
    };
    match (&traces[..], report) {
        // The export has judged them on its way.
        ([trace], Some(report)) => counts.add(trace, &report.sessions),
        _ => {
            for trace in &traces {
                counts.add(trace, &strandline::report::sessions(trace));
            }
        }
    }
    say(counts.loss_line());
    say(counts.verdict_line());
    Ok(counts.code())
}

/// Refuses a size of parts where there are none.
fn check_parts(args: &args::Export) -> Result<(), Failure> {
    let (what, instead) = match args.out.as_os_str() {
        _ if args.part_size.is_none() => return Ok(()),
        out if out == "-" => ("standard output", "name a file, or leave --part-size out"),
        _ if args
            .out
            .extension()
            .is_some_and(|extension| extension == "slt") =>
        {
            (
                "a region",
                "leave --part-size out, or choose .json or .pftrace",
            )
        }
        _ => return Ok(()),
    };
    let text = format!("{what} has no parts; {instead}");
    Err(Failure::new(text).with_code(code::USAGE))
}

/// What an export in parts left out, if it did.
fn cut_line(report: &ExportReport) -> Option<String> {
    let (arrows, waits) = (report.cut_arrows, report.cut_waits);
    let what = match (arrows, waits) {
        (0, 0) => return None,
        (_, 0) => format!("{arrows} from calls to their work"),
        (0, _) => format!("{waits} from work to calls that waited for it"),
        _ => format!(
            "{arrows} from calls to their work, {waits} from work to calls that waited for it"
        ),
    };
    Some(format!(
        "arrows left out, their ends lie in two parts: {what}"
    ))
}

/// Threads that an export gets when nobody says how many: more than this wait for the one that decides, and each has chunks
/// of its own in memory.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(16))
}

/// An output file, split into stem and extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    path: PathBuf,
    stem: PathBuf,
    extension: &'static str,
}

impl Target {
    /// Takes a path apart. No I/O.
    pub(crate) fn parse(path: &Path) -> Result<Self, Failure> {
        let name = path.file_name().unwrap_or_default().as_bytes();
        let found = FORMATS
            .into_iter()
            .find(|extension| name.len() > extension.len() && name.ends_with(extension.as_bytes()));
        let Some(extension) = found else {
            return Err(Failure::new(format!(
                "writing {}: the file type is unknown; end the name in .slt, .json, .json.gz or .pftrace",
                path.display()
            )));
        };
        let stem = &name[..name.len() - extension.len()];
        Ok(Self {
            path: path.to_owned(),
            stem: path.with_file_name(std::ffi::OsStr::from_bytes(stem)),
            extension,
        })
    }

    /// The path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The output for a further process: `stem.WHICH.ext`.
    pub(crate) fn further(&self, which: &str) -> Self {
        let mut path = self.stem.clone().into_os_string();
        path.push(".");
        path.push(which);
        let stem = PathBuf::from(&path);
        path.push(self.extension);
        Self {
            path: path.into(),
            stem,
            extension: self.extension,
        }
    }

    /// Finds out early whether the output can be written, without making it.
    pub(crate) fn check(&self, force: bool) -> Result<(), Failure> {
        if !force && fs::symlink_metadata(&self.path).is_ok() {
            return Err(self.exists());
        }
        if self.path.is_dir() {
            return Err(Failure::io(
                "writing",
                &self.path,
                &io::ErrorKind::IsADirectory.into(),
            ));
        }
        let folder = match self.path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let found = fs::metadata(folder).map_err(|error| self.cannot(&error))?;
        if !found.is_dir() {
            return Err(self.cannot(&io::ErrorKind::NotADirectory.into()));
        }
        let mut name = folder.as_os_str().as_bytes().to_vec();
        name.push(0);
        // SAFETY: `name` ends with a NUL, and access only reads it.
        if unsafe { libc::access(name.as_ptr().cast(), libc::W_OK | libc::X_OK) } != 0 {
            return Err(self.cannot(&io::Error::last_os_error()));
        }
        Ok(())
    }

    fn exists(&self) -> Failure {
        Failure::new(format!(
            "writing {}: the file exists; give --force to replace it, or another name",
            self.path.display()
        ))
    }

    fn cannot(&self, error: &io::Error) -> Failure {
        Failure::new(format!(
            "writing {}: {}{}",
            self.path.display(),
            reason(error),
            advice(error)
        ))
    }

    /// Writes traces to it, and says which files were made.
    pub(crate) fn write(
        &self,
        traces: &[Trace],
        force: bool,
        threads: usize,
    ) -> Result<ExportReport, Failure> {
        let options = Options {
            force,
            threads,
            ..Options::default()
        };
        self.write_with(traces, &options)
    }

    /// As [`Target::write`], with all options.
    fn write_with(&self, traces: &[Trace], options: &Options<'_>) -> Result<ExportReport, Failure> {
        for trace in traces {
            self.refuse_input(trace)?;
        }
        let report = progress::during(&format!("writing {}", self.path.display()), || {
            strandline_exporters::export(traces, &self.path, options)
        })
        .map_err(|error| self.describe(&error))?;
        if let Some(line) = cut_line(&report) {
            say(line);
        }
        Ok(report)
    }

    /// Replacing a file that is being read is never what was meant.
    fn refuse_input(&self, trace: &Trace) -> Result<(), Failure> {
        let (Ok(one), Ok(other)) = (fs::metadata(&self.path), fs::metadata(trace.path())) else {
            return Ok(());
        };
        if (one.dev(), one.ino()) != (other.dev(), other.ino()) {
            return Ok(());
        }
        Err(Failure::new(format!(
            "writing {}: it is the input {}; choose another name",
            self.path.display(),
            trace.path().display()
        )))
    }

    fn describe(&self, error: &ExportError) -> Failure {
        match error {
            ExportError::Exists { .. } => self.exists(),
            ExportError::Io { doing, path, error } => Failure::io(doing, path, error),
            ExportError::PartSize { bytes_max, needed } => Failure::new(format!(
                "writing {} in parts of {bytes_max} bytes: what each part repeats, and one event, take {needed}, which leaves too little for the rest; give --part-size {}M or more",
                self.path.display(),
                needed.saturating_mul(4).div_ceil(1 << 20),
            )),
            other => Failure::new(other.to_string()),
        }
    }
}

/// Writes Chrome JSON to standard output.
fn to_stdout(traces: &[Trace], options: &Options<'_>) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match strandline_exporters::export_to(traces, Format::Json, &mut out, options) {
        Ok(_) => out.flush().map_err(|error| Failure::stdout(&error)),
        Err(ExportError::Io { error, .. }) => Err(Failure::stdout(&error)),
        Err(error) => Err(Failure::new(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_further_processes_keep_the_whole_extension() {
        let further = |path: &str| {
            Target::parse(Path::new(path))
                .unwrap()
                .further("77")
                .path()
                .to_owned()
        };
        assert_eq!(further("a/run.json.gz"), Path::new("a/run.77.json.gz"));
        assert_eq!(further("run.slt"), Path::new("run.77.slt"));
        assert_eq!(further("run.v2.pftrace"), Path::new("run.v2.77.pftrace"));
    }

    #[test]
    fn an_unknown_type_is_refused_with_the_known_ones() {
        for bad in [
            "run",
            "run.txt",
            ".slt",
            "run.gz",
            "a.slt/",
            "run.SLT.bak",
            "",
        ] {
            let ok = bad == "a.slt/";
            assert_eq!(Target::parse(Path::new(bad)).is_ok(), ok, "{bad}");
        }
        assert_eq!(
            Target::parse(Path::new("run.txt")).unwrap_err().text,
            "writing run.txt: the file type is unknown; end the name in .slt, .json, .json.gz or .pftrace"
        );
    }
}
