//! The workloads as a program of their own; `strandline sim` runs the same.

use std::ffi::OsString;

fn main() {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    // `exit` runs the handlers of every library, as a C program's return from main does.
    std::process::exit(sim_workload::main_sim(&args));
}
