//! `strandline doctor`: what will work on this machine, and why not.
//!
//! One line for each thing looked at: `ok`, `warn` or `no`, what was found, what it means, what to do. Vendor libraries
//! are opened in a child process ([`probe`]), because some of them abort when something is missing.

mod machine;
mod memory;
mod probe;
mod vendor;

use std::io::{self, Write};

use crate::args;
use crate::failure::{Failure, code};

/// How a thing stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// Works.
    Ok,
    /// Works with a drawback.
    Warn,
    /// Does not work.
    No,
}

/// One thing that was looked at.
#[derive(Debug)]
struct Finding {
    mark: Mark,
    /// What was looked at.
    what: &'static str,
    /// What was found.
    found: String,
    /// What it means.
    means: String,
    /// What to do; empty when there is nothing to do.
    todo: String,
}

impl Finding {
    fn new(
        mark: Mark,
        what: &'static str,
        found: impl Into<String>,
        means: impl Into<String>,
    ) -> Self {
        Self {
            mark,
            what,
            found: found.into(),
            means: means.into(),
            todo: String::new(),
        }
    }

    fn todo(self, todo: impl Into<String>) -> Self {
        Self {
            todo: todo.into(),
            ..self
        }
    }

    fn line(&self) -> String {
        let mark = match self.mark {
            Mark::Ok => "ok",
            Mark::Warn => "warn",
            Mark::No => "no",
        };
        let todo = if self.todo.is_empty() {
            String::new()
        } else {
            format!("; {}", self.todo)
        };
        format!(
            "{mark:<5}{}: {}; {}{todo}\n",
            self.what, self.found, self.means
        )
    }
}

/// Runs the command.
pub(crate) fn run(args: &args::Doctor) -> Result<u8, Failure> {
    if let Some(library) = &args.probe {
        probe::in_child(library);
    }
    let mut out = io::stdout();
    let parts: [fn() -> Vec<Finding>; 3] = [vendor::findings, memory::findings, machine::findings];
    for part in parts {
        for finding in part() {
            out.write_all(finding.line().as_bytes())
                .map_err(|error| Failure::stdout(&error))?;
        }
    }
    Ok(code::FINE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_it_means_and_what_to_do() {
        let finding = Finding::new(Mark::No, "KFD", "missing", "no AMD GPU can be used")
            .todo("load the driver");
        assert_eq!(
            finding.line(),
            "no   KFD: missing; no AMD GPU can be used; load the driver\n"
        );
    }
}
