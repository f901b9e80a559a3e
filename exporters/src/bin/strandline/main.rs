//! The command `strandline`: records GPU programs, and says whether the traces are whole.
//!
//! Each subcommand is a module with a `run` that takes its parsed arguments and returns the exit code, or a
//! [`failure::Failure`]: one line for the user and the exit code. Data goes to standard output, talk to standard error.

mod args;
mod child;
mod counts;
mod demo;
mod doctor;
mod dump;
mod export;
mod failure;
mod input;
mod keeper;
mod names;
mod place;
mod process;
mod progress;
mod record;
mod recover;
mod region_folder;
mod streamed;
mod summary;

use std::process::ExitCode;

use clap::Parser;

use args::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let command = Cli::parse().command;
    let result = failure::guard("running the command", || match command {
        Command::Record(args) => record::run(&args),
        Command::Summary(args) => summary::run(&args),
        Command::Dump(args) => dump::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Recover(args) => recover::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::ToolPath(args) => place::run(&args),
        Command::Sim(args) => Ok(sim(&args)),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, text }) => {
            if !text.is_empty() {
                failure::say(text);
            }
            ExitCode::from(code)
        }
    }
}

fn sim(args: &args::Sim) -> u8 {
    u8::try_from(sim_workload::main_sim(&args.args)).unwrap_or(failure::code::COULD_NOT)
}
