//! One call that turns traces into a file of any format.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use strandline::Trace;
use strandline::report::SessionReport;

use crate::chrome::Chrome;
use crate::model::{Model, TimeBase};
use crate::order::{batch_records, walk};
use crate::out::Output;
use crate::perfetto::Perfetto;
use crate::phases::Phases;

/// Default limit of one JSON part, bytes: viewers and readers fail on strings of 2 GB.
pub const JSON_PART_BYTES_MAX: u64 = 1_900_000_000;

/// Default limit of one part in Perfetto's format, bytes. Its reader takes about eight bytes of memory for each, and has no
/// more than 16 GB in a browser (4 GB in one whose WebAssembly has 32 bits).
pub const PERFETTO_PART_BYTES_MAX: u64 = 1_000_000_000;

/// A format that exports can be written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Chrome JSON in kineto's dialect.
    Json,
    /// The same, compressed with gzip.
    JsonGz,
    /// Perfetto's protobuf.
    Perfetto,
    /// A compact copy of the region.
    Region,
}

impl Format {
    /// The format that a file name's extension asks for.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.to_ascii_lowercase();
        Some(if name.ends_with(".json.gz") {
            Self::JsonGz
        } else if name.ends_with(".json") {
            Self::Json
        } else if name.ends_with(".pftrace") {
            Self::Perfetto
        } else if name.ends_with(".slt") {
            Self::Region
        } else {
            return None;
        })
    }

    /// The largest part that a file of this format has when nobody says how large, bytes before compression. A region has
    /// no parts.
    pub fn part_bytes_max(self) -> u64 {
        match self {
            Self::Json | Self::JsonGz => JSON_PART_BYTES_MAX,
            Self::Perfetto => PERFETTO_PART_BYTES_MAX,
            Self::Region => u64::MAX,
        }
    }
}

/// How far an export has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Records written so far.
    pub records: u64,
    /// Records in all, as far as known.
    pub records_total: u64,
    /// Bytes written so far, before compression.
    pub bytes: u64,
}

/// How to export.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Replace files that exist.
    pub force: bool,
    /// Only this session.
    pub session: Option<u64>,
    /// Called now and then, on the calling thread.
    pub progress: Option<&'a dyn Fn(Progress)>,
    /// Called once, when all is written: where the time went.
    pub phases: Option<&'a dyn Fn(Phases)>,
    /// Largest part of a file, bytes before compression; none: [`Format::part_bytes_max`]. Further parts lie beside the file,
    /// `out.json` before `out.part2.json`, and each loads by itself. A region has no parts.
    pub part_bytes_max: Option<u64>,
    /// Most records that are held in memory at once, to be put into order (about 56 bytes each while they are).
    pub batch_records_max: usize,
    /// Most memory of the tables that join work to its calls, and issues to dispatches, all processes together, bytes. Where
    /// they would need more, each batch looks up what it needs to know, which takes longer. The bytes of the output are
    /// the same.
    pub table_bytes_max: u64,
    /// Threads that read, sort and format, the calling one included; with more than one, a further one writes, and as many
    /// compress where the format asks for it (one always does). The bytes are the same for any number.
    pub threads: usize,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Self {
            force: false,
            session: None,
            progress: None,
            phases: None,
            part_bytes_max: None,
            batch_records_max: 3 << 19,
            table_bytes_max: 128 << 20,
            threads: 1,
        }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("force", &self.force)
            .field("session", &self.session)
            .field("progress", &self.progress.is_some())
            .field("phases", &self.phases.is_some())
            .field("part_bytes_max", &self.part_bytes_max)
            .field("batch_records_max", &self.batch_records_max)
            .field("table_bytes_max", &self.table_bytes_max)
            .field("threads", &self.threads)
            .finish()
    }
}

/// What an export wrote, and what it could not draw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExportReport {
    /// The files, in order.
    pub files: Vec<PathBuf>,
    /// Bytes written, before compression.
    pub bytes: u64,
    /// Records read of the sessions that were exported.
    pub records: u64,
    /// API calls drawn.
    pub calls: u64,
    /// Kernels drawn.
    pub kernels: u64,
    /// Copies drawn.
    pub copies: u64,
    /// Ranges drawn.
    pub ranges: u64,
    /// Marks, allocations and scratch events drawn.
    pub instants: u64,
    /// Arrows from a call to its kernels and copies; there is none where the two lie in different parts.
    pub arrows: u64,
    /// Arrows from a call to its kernels and copies that are not drawn because the two lie in different parts.
    pub cut_arrows: u64,
    /// Arrows from kernels and copies to calls that waited for them, not drawn for the same reason. Only Perfetto's format
    /// has such arrows.
    pub cut_waits: u64,
    /// Kernels and copies without a recorded call.
    pub unlinked: u64,
    /// Kernels and copies not drawn because they have no start or end.
    pub untimed: u64,
    /// Kernels and copies not drawn because their end lies before their start.
    pub end_before_start: u64,
    /// Kernels and copies not drawn because they lie outside their session's window.
    pub outside_window: u64,
    /// Kernels and copies that overlap another one of their stream (laid out on lanes in JSON).
    pub overlaps: u64,
    /// Host calls and ranges that overlap another one of their thread only in part.
    pub host_overlaps: u64,
    /// Kernels and copies that start before the call that launched them. In JSON the arrow of those that still run when
    /// it begins ends at that moment; the others have none.
    pub before_launch: u64,
    /// Places of the region that are damaged and were left out.
    pub damage: usize,
    /// The sessions' own reports, process by process.
    pub sessions: Vec<SessionReport>,
}

impl ExportReport {
    /// True when every session is complete and nothing is lost, late, retired without a record or damaged.
    pub fn is_clean(&self) -> bool {
        self.damage == 0 && self.sessions.iter().all(SessionReport::is_clean)
    }
}

/// Why there is no export.
#[derive(Debug)]
#[non_exhaustive]
pub enum ExportError {
    /// The extension names no format.
    Extension {
        /// The output's path.
        path: PathBuf,
    },
    /// The file is there already.
    Exists {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    Io {
        /// What was being done.
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// No trace has the session that was asked for.
    NoSession {
        /// The session.
        session: u64,
    },
    /// A part of that size has too little room for events beside the names and descriptions that each part repeats.
    PartSize {
        /// The limit, bytes.
        bytes_max: u64,
        /// What a part repeats, and one event, bytes.
        needed: u64,
    },
    /// A region is one process: several cannot become one `.slt`.
    Several,
    /// There was nothing to export.
    Nothing,
}

impl std::fmt::Display for ExportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Extension { path } => write!(
                f,
                "exporting to {}: the extension names no format, expected .json, .json.gz, .pftrace or .slt",
                path.display()
            ),
            Self::Exists { path } => write!(
                f,
                "exporting to {}: the file exists; it is replaced only with --force",
                path.display()
            ),
            Self::Io { doing, path, error } => write!(f, "{doing} {}: {error}", path.display()),
            Self::NoSession { session } => {
                write!(f, "exporting session {session}: no input has that session")
            }
            Self::PartSize { bytes_max, needed } => write!(
                f,
                "exporting in parts of at most {bytes_max} bytes: what each part repeats, and one event, take {needed}, which leaves too little for the rest; allow parts of {}M or more",
                needed.saturating_mul(4).div_ceil(1 << 20)
            ),
            Self::Several => f.write_str(
                "exporting several inputs to one .slt: a region is one process; export them one by one, or to .json or .pftrace",
            ),
            Self::Nothing => f.write_str("exporting: no input"),
        }
    }
}

impl std::error::Error for ExportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Exports `traces`, one or several processes on one timeline, to `out`; its extension names the format (`.json`,
/// `.json.gz`, `.pftrace`, `.slt`).
///
/// The same records, sessions and anchors give the same bytes, in whatever lanes and order they arrived. Nothing is
/// left behind when it fails, and no file is replaced unless [`Options::force`] says so.
///
/// # Errors
/// [`ExportError`]; those of the system name the file.
pub fn export(
    traces: &[Trace],
    out: &Path,
    options: &Options<'_>,
) -> Result<ExportReport, ExportError> {
    let format = Format::of(out).ok_or_else(|| ExportError::Extension {
        path: out.to_owned(),
    })?;
    if format == Format::Region {
        return match traces {
            [trace] => crate::copy::copy(trace, out, options),
            [] => Err(ExportError::Nothing),
            _ => Err(ExportError::Several),
        };
    }
    if !options.force && out.symlink_metadata().is_ok() {
        return Err(ExportError::Exists {
            path: out.to_owned(),
        });
    }
    let model = prepare(traces, format, options)?;
    let output = Output::file(out, format, options)?;
    write(model, output, format, options)
}

/// Exports to a stream, in one part. A region ([`Format::Region`]) cannot be written to a stream.
///
/// # Errors
/// As [`export`].
pub fn export_to(
    traces: &[Trace],
    format: Format,
    writer: &mut dyn Write,
    options: &Options<'_>,
) -> Result<ExportReport, ExportError> {
    if format == Format::Region {
        return Err(ExportError::Extension {
            path: PathBuf::from("-"),
        });
    }
    let model = prepare(traces, format, options)?;
    let output = Output::writer(writer, format == Format::JsonGz)?;
    write(model, output, format, options)
}

fn prepare<'a>(
    traces: &'a [Trace],
    format: Format,
    options: &Options<'_>,
) -> Result<Model<'a>, ExportError> {
    if traces.is_empty() {
        return Err(ExportError::Nothing);
    }
    let base = if format == Format::Perfetto {
        TimeBase::Boot
    } else {
        TimeBase::Unix
    };
    let model = Model::new(traces, base, options);
    match options.session {
        Some(session)
            if model
                .processes
                .iter()
                .all(|process| process.reports.is_empty()) =>
        {
            Err(ExportError::NoSession { session })
        }
        _ => Ok(model),
    }
}

fn write(
    mut model: Model<'_>,
    output: Output<'_>,
    format: Format,
    options: &Options<'_>,
) -> Result<ExportReport, ExportError> {
    let mut report = model.report();
    let mut phases = model.phases;
    // Before the writer takes the tables.
    let batch = batch_records(&model, options);
    let (files, bytes) = if format == Format::Perfetto {
        let mut writer = Perfetto::new(&mut model, output)?;
        phases.add(&walk(&mut model, options, batch, &mut writer)?);
        writer.finish(&mut model, &mut report)?
    } else {
        let mut writer = Chrome::new(&mut model, output)?;
        phases.add(&walk(&mut model, options, batch, &mut writer)?);
        writer.finish(&mut model, &mut report)?
    };
    (report.files, report.bytes) = (files, bytes);
    if let Some(tell) = options.phases {
        tell(phases);
    }
    Ok(report)
}
