//! placeholder
use crate::export::{ExportError, ExportReport, Options};
use std::path::Path;
use strandline::Trace;
pub(crate) fn copy(_: &Trace, out: &Path, _: &Options<'_>) -> Result<ExportReport, ExportError> {
    Err(ExportError::Extension { path: out.to_owned() })
}
