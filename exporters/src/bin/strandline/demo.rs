//! `strandline demo`: the whole way from a program to three files and a verdict, on a machine with no GPU.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Stdio;

use strandline::header::Mode;
use strandline::report;

use crate::args;
use crate::child::Ended;
use crate::counts::Counts;
use crate::export::{Target, threads};
use crate::failure::{Failure, code};
use crate::record::Plan;
use crate::{input, place, summary};

/// Variables that would change what the demo records.
const NOT_INHERITED: [&str; 8] = [
    "STRANDLINE_START",
    "STRANDLINE_MODE",
    "STRANDLINE_BUDGET",
    "STRANDLINE_LANES",
    "STRANDLINE_KINDS",
    "STRANDLINE_EXCLUDE_API",
    "STRANDLINE_STOP_TIMEOUT_MS",
    "STRANDLINE_BACKING",
];

/// Runs the command.
pub(crate) fn run(args: &args::Demo) -> Result<u8, Failure> {
    let mut out = io::stdout();
    let mut print = |text: &str| {
        out.write_all(text.as_bytes())
            .and_then(|()| out.flush())
            .map_err(|error| Failure::stdout(&error))
    };
    fs::create_dir_all(&args.dir).map_err(|error| Failure::io("making", &args.dir, &error))?;
    let [trace_path, json, perfetto] =
        ["demo.slt", "demo.json", "demo.pftrace"].map(|name| args.dir.join(name));
    print(
        "This is a simulation: a stand-in for AMD's rocprofiler-sdk and HIP runs a graph of 32 kernels 200 times.\n\
         No GPU does this work. The tool library, the trace and the exports are the real ones.\n\n",
    )?;
    let executable = env::current_exe()
        .map_err(|error| Failure::io("looking for", Path::new("/proc/self/exe"), &error))?;
    let target = Target::parse(&trace_path)?;
    target.check(true)?;
    let plan = Plan {
        sim: Some(place::sim_folder()?),
        settings: Vec::new(),
        memfd: false,
        mode: Mode::Window,
        target,
        force: true,
        program: [executable.into_os_string(), "sim".into(), "graph".into()].to_vec(),
    };
    let recorded = plan
        .run(|command| {
            for name in NOT_INHERITED {
                command.env_remove(name);
            }
            for (name, _) in env::vars_os().filter(|(name, _)| is_simulation_setting(name)) {
                command.env_remove(name);
            }
            if let Ok(stderr) = io::stderr().as_fd().try_clone_to_owned() {
                command.stdout(Stdio::from(stderr));
            }
        })
        .map_err(|failure| failure.with_code(code::COULD_NOT))?;
    if recorded.ended != Ended::Code(0) {
        return Err(Failure::new(format!(
            "recording the demo: the simulated program ended with code {}; `strandline sim graph` runs it alone",
            recorded.ended.code()
        )));
    }
    if recorded.failed || recorded.written == 0 {
        return Err(Failure::new(
            "recording the demo: no trace was written; `strandline doctor` says what does not work here",
        ));
    }
    let traces = [input::open(&trace_path)?];
    for path in [&json, &perfetto] {
        Target::parse(path)?.write(&traces, true, threads())?;
    }
    let [trace] = &traces;
    let reports = report::sessions(trace);
    let mut counts = Counts::default();
    counts.add(trace, &reports);
    print(&format!(
        "wrote {}, {} and {}: open the last two in https://ui.perfetto.dev\n\n",
        trace_path.display(),
        json.display(),
        perfetto.display()
    ))?;
    print(&summary::text(trace, &reports, &counts))?;
    Ok(code::FINE)
}

fn is_simulation_setting(name: &OsString) -> bool {
    name.as_encoded_bytes().starts_with(b"ROCSIM_")
}
