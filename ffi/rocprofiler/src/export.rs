//! Exporting from inside the process: hands the mapped region to the exporters. No format is known here.

use std::path::Path;

use strandline::{Runtime, Status};
use strandline_exporters::{ExportError, Options};

use crate::log;

/// Writes one session (0 = all) to `path`.
///
/// # Errors
/// [`Status::NoSuchSession`], [`Status::OutputExists`], [`Status::Output`] with the reason in the log.
pub fn export(runtime: &Runtime, session: u64, path: &Path) -> Result<(), Status> {
    let trace = runtime.trace().map_err(|error| {
        log::line(&error.to_string());
        Status::Internal
    })?;
    if session != 0
        && !trace
            .facts()
            .session_begins
            .iter()
            .any(|begin| begin.session == session)
    {
        return Err(Status::NoSuchSession);
    }
    let options = Options {
        session: (session != 0).then_some(session),
        ..Options::default()
    };
    match strandline_exporters::export(&[trace], path, &options) {
        Ok(_) => Ok(()),
        Err(error) => {
            log::line(&error.to_string());
            Err(match error {
                ExportError::Exists { .. } => Status::OutputExists,
                ExportError::Extension { .. } => Status::InvalidArgument,
                _ => Status::Output,
            })
        }
    }
}
