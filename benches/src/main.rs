//! What Strandline costs, beside its peers in the same run.
//!
//! ```text
//! strandline-benches append [--json] [--producers LIST] [--seconds S] [--quick] [--peers LIST]
//! strandline-benches table FILE            the table of what append --json wrote
//! strandline-benches instructions [--json]
//! strandline-benches readings [--json]     what readings of the clock hide: where the limits come from
//! strandline-benches export [--json] [--events N] [--quick]
//! ```
//!
//! `append` times the product's public append, through Rust and through the C functions of the tool library, and the
//! same work on its peers; `instructions` counts instructions under callgrind; `export` times the exporters. Each peer
//! runs in a process of its own and its behaviour is checked before it is timed. With `--json` each row is one JSON
//! object on a line; a row that can't be measured is a line `skipped: what: why` on stderr. Nothing here needs cargo at
//! run time: the program carries itself to another machine.

mod append;
mod arguments;
mod c_abi;
mod clock;
mod consumer;
mod cxx;
mod driver;
mod export;
mod floor;
mod instructions;
mod lttng;
mod ours;
mod queues;
mod readings;
mod region_reader;
mod tracers;
#[cfg(feature = "tracy")]
mod tracy;

use std::process::ExitCode;

use arguments::Arguments;

fn main() -> ExitCode {
    // A reader that has seen enough ends the bench quietly.
    // SAFETY: the default action, set before any thread exists.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let arguments = match Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    let done = match arguments.command.as_str() {
        "append" => append::run(&arguments),
        "table" => append::table_of(&arguments),
        "append-child" => append::child(&arguments),
        "instructions" => instructions::run(&arguments),
        "instructions-child" => instructions::child(&arguments),
        "readings" => readings::run(&arguments),
        "export" => export::run(&arguments),
        "export-child" => export::child(&arguments),
        other => Err(format!(
            "{other}: expected append, instructions, readings or export"
        )),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("strandline-benches: {why}");
            ExitCode::FAILURE
        }
    }
}
