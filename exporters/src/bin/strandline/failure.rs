//! Why a command ended early: one line for the user, and the exit code.

use std::fmt::Display;
use std::io::{self, Write};
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;

/// Exit codes of the command, as `docs/cli.md` lists them.
pub(crate) mod code {
    pub(crate) const FINE: u8 = 0;
    pub(crate) const COULD_NOT: u8 = 1;
    /// clap's own, for what it finds.
    pub(crate) const USAGE: u8 = 2;
    pub(crate) const NOT_WHOLE: u8 = 3;
    pub(crate) const RECORDING_FAILED: u8 = 125;
    pub(crate) const NOT_RUNNABLE: u8 = 126;
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// A command's early end.
#[derive(Debug)]
pub(crate) struct Failure {
    /// Exit code.
    pub(crate) code: u8,
    /// What was being done, to which file, what was found, what to do next. Empty: nothing is said.
    pub(crate) text: String,
}

impl Failure {
    /// Could not run, or bad input.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            code: code::COULD_NOT,
            text: text.into(),
        }
    }

    /// The same with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// An I/O error at a path: `doing` is a verb with "ing".
    pub(crate) fn io(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self::new(format!(
            "{doing} {}: {}{}",
            path.display(),
            reason(error),
            advice(error)
        ))
    }

    /// An error on standard output. A reader that has gone away is no failure.
    pub(crate) fn stdout(error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self {
                code: code::FINE,
                text: String::new(),
            };
        }
        Self::new(format!(
            "writing to standard output: {}{}",
            reason(error),
            advice(error)
        ))
    }
}

/// The system's words for an error, without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let mut text = error.to_string();
    if let Some(end) = text.find(" (os error ") {
        text.truncate(end);
    }
    // The system begins with a capital, a message's middle does not; `HIP` stays as it is.
    let is_word = text
        .as_bytes()
        .get(1)
        .is_none_or(|byte| !byte.is_ascii_uppercase());
    if is_word && let Some(first) = text.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    text
}

/// What to do about an I/O error, or nothing.
pub(crate) fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; make room there or choose another place"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose another place or ask for the permission"
        }
        io::ErrorKind::NotFound => "; check the path",
        _ => "",
    }
}

/// Does `work`; a bug that breaks it off is a [`Failure`] like any other, behind the lines that the bug itself printed.
///
/// # Errors
/// Those of `work`, and that one.
pub(crate) fn guard<T>(
    doing: &str,
    work: impl FnOnce() -> Result<T, Failure>,
) -> Result<T, Failure> {
    panic::catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Failure::new(format!(
            "{doing}: broke off, which is a bug; no input was changed, please report it with the lines above"
        )))
    })
}

/// Prints one line to standard error. If nobody can hear it, nothing else is done.
pub(crate) fn say(text: impl Display) {
    let _ = writeln!(io::stderr(), "strandline: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_say_what_where_found_and_next() {
        let full = io::Error::from_raw_os_error(libc::ENOSPC);
        assert_eq!(
            Failure::io("writing", Path::new("x.json"), &full).text,
            "writing x.json: no space left on device; make room there or choose another place"
        );
        assert_eq!(reason(&io::Error::other("HIP says no")), "HIP says no");
    }

    #[test]
    fn a_reader_that_went_away_is_quiet() {
        let failure = Failure::stdout(&io::ErrorKind::BrokenPipe.into());
        assert_eq!((failure.code, failure.text.as_str()), (0, ""));
    }
}
