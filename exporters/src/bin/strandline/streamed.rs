//! Stream mode after its process: what the live region still holds goes to the file that the stream went to.

use std::path::{Path, PathBuf};

use strandline::{Trace, collector};

use crate::failure::{Failure, advice, reason, say};
use crate::process;

/// The file that the region at `path` was streamed to, brought up to date if the process is gone. `None`: it is no live
/// region of stream mode.
///
/// # Errors
/// When the file is not there or can't be written. Both files are kept then.
pub(crate) fn finish(path: &Path, trace: &Trace) -> Result<Option<PathBuf>, Failure> {
    let Some(output) = collector::output_of(trace) else {
        return Ok(None);
    };
    if process::is_alive(trace.header()) {
        return Ok(Some(output.to_owned()));
    }
    let brought = collector::finish(path, output).map_err(|error| {
        Failure::new(format!(
            "bringing the rest of {} to {}: {}{}; both are kept",
            path.display(),
            output.display(),
            reason(&error),
            advice(&error)
        ))
    })?;
    if brought > 0 {
        say(format_args!(
            "the process ended before it had written all: brought {brought} segments from {} to {}",
            path.display(),
            output.display()
        ));
    }
    Ok(Some(output.to_owned()))
}
