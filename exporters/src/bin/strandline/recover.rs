//! `strandline recover`: reads what a dead process left behind.
//!
//! The region needs no repair: what its heads publish is whole, whatever happened to its writer (promise 2). This command
//! says how far the process had come and what every thread was inside of; `-o` writes the trace. A live region of stream
//! mode names the file that it was moved to: what was not moved yet is brought there first, and that file is read.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use strandline::Trace;
use strandline::record::Kind;
use strandline::report::{self, SessionReport};

use crate::args;
use crate::counts::Counts;
use crate::export::{Target, threads};
use crate::failure::{Failure, advice, code, reason, say};
use crate::summary::{duration, printable};
use crate::{input, process, region_folder, streamed};

/// Runs the command.
pub(crate) fn run(args: &args::Recover) -> Result<u8, Failure> {
    let target = args.out.as_deref().map(Target::parse).transpose()?;
    if let Some(target) = &target {
        target.check(args.force)?;
    }
    let default;
    let input = match &args.input {
        Some(input) => input,
        None => {
            default = region_folder::path();
            &default
        }
    };
    if input.is_dir() {
        if target.is_some() {
            return Err(Failure::new(format!(
                "reading {}: it is a folder; give one of the regions in it to write it out",
                input.display()
            )));
        }
        return list(input);
    }
    if args.input.is_none() {
        print(&format!(
            "no region was left behind: {} does not exist\n",
            input.display()
        ))?;
        return Ok(code::FINE);
    }
    let mut trace = input::open(input)?;
    let streamed = streamed::finish(input, &trace)?;
    let input = streamed.as_deref().unwrap_or(input);
    if streamed.is_some() {
        trace = input::open(input)?;
    }
    let reports = report::sessions(&trace);
    let mut counts = Counts::default();
    counts.add(&trace, &reports);
    if let Some(target) = &target {
        let report = target.write(&[input::open(input)?], args.force, threads())?;
        for file in &report.files {
            say(format_args!("wrote {}", file.display()));
        }
    }
    print(&describe(&trace, &reports, &counts))?;
    Ok(counts.code())
}

fn print(text: &str) -> Result<(), Failure> {
    io::stdout()
        .write_all(text.as_bytes())
        .map_err(|error| Failure::stdout(&error))
}

/// One line for each region in a folder.
fn list(folder: &Path) -> Result<u8, Failure> {
    let found = region_folder::find(folder).map_err(|error| {
        Failure::new(format!(
            "reading {}: {}{}",
            folder.display(),
            reason(&error),
            advice(&error)
        ))
    })?;
    if found.is_empty() {
        print(&format!(
            "no region was left behind in {}\n",
            folder.display()
        ))?;
    }
    let mut exit = code::FINE;
    for path in found {
        match input::open(&path) {
            Ok(trace) => {
                let counts = Counts::of(&trace);
                let header = trace.header();
                let state = if process::is_alive(header) {
                    "running"
                } else {
                    "dead"
                };
                print(&format!(
                    "{}: pid {} ({state}) {}; {}; {}\n",
                    path.display(),
                    header.pid,
                    printable(&header.program),
                    counts.loss_line(),
                    counts.verdict_line()
                ))?;
                exit = exit.max(counts.code());
            }
            Err(failure) => {
                say(failure.text);
                exit = exit.max(failure.code);
            }
        }
    }
    Ok(exit)
}

/// What is known of the process's end.
fn describe(trace: &Trace, reports: &[SessionReport], counts: &Counts) -> String {
    let mut out = String::new();
    // Writing to a `String` can't fail.
    let _ = write_description(&mut out, trace, reports, counts);
    out
}

fn write_description(
    out: &mut String,
    trace: &Trace,
    reports: &[SessionReport],
    counts: &Counts,
) -> std::fmt::Result {
    let header = trace.header();
    writeln!(out, "{}", trace.path().display())?;
    if header.simulated {
        writeln!(
            out,
            "  SIMULATED: recorded on a stand-in SDK, no GPU did this work"
        )?;
    }
    let state = if process::is_alive(header) {
        "still runs on this machine: this is a look at a live region"
    } else {
        "is gone"
    };
    writeln!(
        out,
        "  process   pid {} {state}: {}",
        header.pid,
        printable(&header.program)
    )?;
    let phase = trace.phase().map_or("unknown", |phase| phase.name());
    writeln!(
        out,
        "  phase     {phase}, the last that its runtime reached"
    )?;
    writeln!(out, "  records   {} cells published", trace.cells())?;
    let newest = newest_time(trace);
    for report in reports {
        let state = if report.unfinished {
            "never closed"
        } else {
            "closed"
        };
        writeln!(
            out,
            "  session {}: {state}, {}; dispatches {} of {}, copies {} of {}",
            report.id,
            report.verdict.name(),
            report.dispatches.recorded,
            report.dispatches.issued,
            report.copies.recorded,
            report.copies.issued
        )?;
    }
    let mut outside = 0;
    for lane in trace.lanes() {
        if lane.thread == 0 {
            continue;
        }
        if lane.inside.is_empty() {
            outside += 1;
            continue;
        }
        let name = trace
            .facts()
            .thread_names
            .get(&lane.thread)
            .map_or_else(String::new, |name| format!(" ({})", printable(name)));
        writeln!(out, "  thread {}{name} was inside of", lane.thread)?;
        for call in &lane.inside {
            let start = trace.clock().vendor_ns(call.start_ticks);
            write!(
                out,
                "    {} for at least {}, correlation id {}",
                printable(&trace.facts().operation_name(call.domain, call.operation)),
                duration(newest.saturating_sub(start)),
                call.correlation_id
            )?;
            if call.session == 0 {
                write!(out, ", outside any session")?;
            }
            writeln!(out)?;
        }
    }
    if outside > 0 {
        writeln!(
            out,
            "  {outside} other threads that recorded were inside of no call"
        )?;
    }
    for damage in trace.damage() {
        writeln!(out, "  damaged   {damage}")?;
    }
    writeln!(out, "{}", counts.loss_line())?;
    writeln!(out, "{}", counts.verdict_line())
}

/// The newest time that any record or open call names, vendor ns: the process was alive then.
fn newest_time(trace: &Trace) -> u64 {
    let clock = trace.clock();
    let mut newest = 0;
    let mut newest_ticks = 0;
    for entry in trace.entries() {
        let record = entry.record;
        match record.kind() {
            Some(Kind::Dispatch | Kind::Copy | Kind::Alloc | Kind::Scratch) => {
                newest = newest.max(record.end())
            }
            Some(Kind::Api | Kind::Range) => {
                newest_ticks = newest_ticks.max(record.start()).max(record.end())
            }
            Some(Kind::Enqueue | Kind::CopyIssue | Kind::Mark) => {
                newest_ticks = newest_ticks.max(record.start())
            }
            _ => {}
        }
    }
    for lane in trace.lanes() {
        for call in lane.inside {
            newest_ticks = newest_ticks.max(call.start_ticks);
        }
    }
    // A device time can be garbage; a host time can't, so it counts where the two are far apart.
    let host = if newest_ticks == 0 {
        0
    } else {
        clock.vendor_ns(newest_ticks)
    };
    if host != 0 { host } else { newest }
}
