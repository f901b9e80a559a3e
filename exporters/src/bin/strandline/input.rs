//! Opening traces for the commands that read them.

use std::path::Path;

use strandline::Trace;
use strandline::header::HeaderError;
use strandline::trace::TraceError;

use crate::failure::{Failure, advice, reason};

/// Opens a region file.
///
/// # Errors
/// [`Failure`] when it can't be read or is no region; the message names file, offset and what to do.
pub(crate) fn open(path: &Path) -> Result<Trace, Failure> {
    Trace::open(path).map_err(|error| describe(&error))
}

fn describe(error: &TraceError) -> Failure {
    match error {
        TraceError::Io { path, error } => Failure::new(format!(
            "reading {}: {}{}",
            path.display(),
            reason(error),
            advice(error)
        )),
        TraceError::Header { path, error } => {
            let next = match error {
                HeaderError::Magic => {
                    "; give a .slt file, as `strandline record -o run.slt` makes them"
                }
                HeaderError::Newer { .. } | HeaderError::Features { .. } => "",
                _ => "; nothing of it can be read, record again or use a copy",
            };
            Failure::new(format!("reading {}: {error}{next}", path.display()))
        }
        other => Failure::new(other.to_string()),
    }
}
