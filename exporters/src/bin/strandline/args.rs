//! The command line as the user types it: one definition for parsing and for help. Parsing does no I/O.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Record a GPU program and see whether the trace is whole:
  strandline demo
  strandline record -o run.slt -- ./train --steps 10
  strandline summary run.slt
  strandline export run.slt -o run.pftrace        # open in ui.perfetto.dev

Record a program with no GPU, on a stand-in for the vendor's SDK:
  strandline record --sim -o sim.slt -- strandline sim graph";

const EXIT_CODES: &str = "\
Exit codes:
  0        fine
  1        could not run, or bad input
  2        wrong usage
  3        done, but the trace is incomplete, or has losses, late entries or work retired
           without a record (summary, export, dump, recover)
  record passes on the program's own code, 128+n when signal n killed it, 125 when recording
  failed, 126 when the program can't be run, 127 when it can't be found

Data goes to standard output, everything else to standard error. Nothing is overwritten unasked.";

/// Traces GPU programs and proves whether the trace is whole.
#[derive(Debug, Parser)]
#[command(name = "strandline", version, before_help = EXAMPLES, after_help = EXIT_CODES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Record(Record),
    Summary(Summary),
    Dump(Dump),
    Export(Export),
    Recover(Recover),
    Demo(Demo),
    Doctor(Doctor),
    ToolPath(ToolPath),
    Sim(Sim),
}

/// Runs a program and records its GPU work.
///
/// Only environment variables are set for the program (STRANDLINE_*, ROCP_TOOL_LIBRARIES and, with --sim,
/// LD_LIBRARY_PATH); it runs in the same process group, and its exit code is passed on. While it runs, the trace lies in
/// a private folder in memory (see STRANDLINE_DIR in `strandline doctor`); afterwards it is written to OUT. That
/// also works when the program was killed.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  strandline record -o run.slt -- python3 train.py
  strandline record --mode flight --budget 256M -o last.pftrace -- ./server
  strandline record --sim -o sim.json -- strandline sim graph --replays 10", after_help = RECORD_CODES)]
pub(crate) struct Record {
    /// Put a stand-in for the vendor's SDK and HIP before the real ones: for machines with no AMD GPU
    #[arg(long)]
    pub(crate) sim: bool,
    /// What is kept when the budget is used up
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) mode: Option<Mode>,
    /// Memory for records: bytes, or with K, M or G; 1M to 64G [default: 512M]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub(crate) budget: Option<String>,
    /// What to record, separated by commas: hip, compiler, dispatch, copy, alloc, scratch, marker, all [default: all but
    /// compiler]
    #[arg(long, value_name = "LIST", value_parser = kinds)]
    pub(crate) kinds: Option<String>,
    /// API functions to leave out, separated by commas, in place of the default list of frequent queries; a trailing `*`
    /// matches any rest, `none` leaves nothing out
    #[arg(long, value_name = "LIST", value_parser = list)]
    pub(crate) exclude_api: Option<String>,
    /// Replace OUT when it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Where the trace goes: .slt, .json, .json.gz or .pftrace. Further processes of the program get OUT-stem.PID.ext
    #[arg(short = 'o', long = "out", value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// The program and its arguments, after `--`
    #[arg(required = true, last = true, num_args = 1.., value_name = "PROGRAM ARGS")]
    pub(crate) program: Vec<OsString>,
}

const RECORD_CODES: &str = "\
Exit codes:
  the program's own code; 128+n when signal n killed it; 125 when recording failed;
  126 when the program can't be run; 127 when it can't be found; 2 wrong usage";

/// What is kept.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Mode {
    /// All from start to stop, within the budget
    Window,
    /// The newest, for ever
    Flight,
    /// All; full segments move to the output
    Stream,
}

impl Mode {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Window => "window",
            Self::Flight => "flight",
            Self::Stream => "stream",
        }
    }
}

/// Says what is in traces, and whether they are whole.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  strandline summary run.slt
  strandline summary run.slt --json | jq '.sessions[].dispatches'", after_help = TRACE_CODES)]
pub(crate) struct Summary {
    /// Region files (.slt)
    #[arg(required = true, value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,
    /// JSON (schema strandline.summary/1), one object for each input
    #[arg(long)]
    pub(crate) json: bool,
}

const TRACE_CODES: &str = "\
Exit codes:
  0 fine; 1 could not run, or bad input; 2 wrong usage; 3 done, but the trace is incomplete, or has
  losses, late entries or work retired without a record";

/// Prints every record as one JSON object a line.
///
/// Times are the vendor's raw numbers (host times are converted into the vendor's clock). Records come thread by
/// thread, in the order in which each thread wrote them.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  strandline dump run.slt | head
  strandline dump run.slt | jq -c 'select(.kind == \"dispatch\") | [.kernel, .end_ns - .start_ns]'", after_help = TRACE_CODES)]
pub(crate) struct Dump {
    /// Region file (.slt)
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
}

/// Writes traces in another format.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  strandline export run.slt -o run.pftrace              # Perfetto protobuf
  strandline export run.slt -o run.json.gz              # Chrome JSON, kineto's dialect
  strandline export run.*.slt -o all.pftrace            # several processes on one timeline
  strandline export big.slt -o big.pftrace --part-size 400M   # big.pftrace, big.part2.pftrace, ...
  strandline export run.slt -o - | gzip > run.json.gz   # Chrome JSON to standard output", after_help = TRACE_CODES)]
pub(crate) struct Export {
    /// Region files (.slt)
    #[arg(required = true, value_name = "IN")]
    pub(crate) inputs: Vec<PathBuf>,
    /// Output; the format follows its extension: .json, .json.gz, .pftrace or .slt. `-` writes Chrome JSON to standard output
    #[arg(short = 'o', long = "out", value_name = "OUT")]
    pub(crate) out: PathBuf,
    /// Replace OUT when it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Threads that read, sort and compress [default: as many as there are cores, at most 16]; the file is the same for any number
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) threads: Option<u16>,
    /// Largest file, before compression: bytes, or with K, M or G, at least 1M. What is larger becomes OUT,
    /// OUT-stem.part2.ext and so on; each part loads by itself, and each event is in one of them. Perfetto's UI needs about
    /// eight bytes of memory for a byte of .pftrace; give more to have one file, less for a small browser [default: 1000000000
    /// for .pftrace, 1900000000 for .json and .json.gz]
    #[arg(long, value_name = "SIZE", value_parser = part_size)]
    pub(crate) part_size: Option<u64>,
}

/// Reads what a dead process left behind: what every thread was inside of, and what was recorded.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  strandline recover                                    # lists the regions in the region folder
  strandline recover /dev/shm/strandline-1000/record-4242/live.slt -o crash.pftrace", after_help = TRACE_CODES)]
pub(crate) struct Recover {
    /// A region file, or a folder to look for them in [default: the region folder]
    #[arg(value_name = "IN")]
    pub(crate) input: Option<PathBuf>,
    /// Also write the trace: .slt, .json, .json.gz or .pftrace
    #[arg(short = 'o', long = "out", value_name = "OUT", requires = "input")]
    pub(crate) out: Option<PathBuf>,
    /// Replace OUT when it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// Records a simulated GPU workload, and shows what comes out.
///
/// A graph of 32 kernels is replayed 200 times on a stand-in for the vendor's SDK: no GPU is needed and none is used.
/// Writes demo.slt, demo.json and demo.pftrace, replacing those of an earlier run.
#[derive(Debug, Args)]
pub(crate) struct Demo {
    /// Where to write the three files
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
}

/// Says what will work on this machine, and why not.
///
/// Each line is `ok`, `warn` or `no`, with what it means and what to do. Nothing is changed; the vendor's SDK is opened
/// in a child process.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The part that runs in the child process: opens that library and prints what it finds
    #[arg(long, hide = true, value_name = "LIBRARY")]
    pub(crate) probe: Option<OsString>,
}

/// Prints where a part of Strandline lies.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  ROCP_TOOL_LIBRARIES=$(strandline tool-path rocprofiler) STRANDLINE_OUT=/dev/shm/run.slt ./train
  LD_LIBRARY_PATH=$(strandline tool-path sim) ROCP_TOOL_LIBRARIES=... strandline sim graph")]
pub(crate) struct ToolPath {
    #[arg(value_enum, value_name = "PART")]
    pub(crate) part: Part,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Part {
    /// The tool library for AMD's rocprofiler-sdk
    Rocprofiler,
    /// The library for NVIDIA's CUPTI
    Cupti,
    /// The folder with the stand-in SDK, for LD_LIBRARY_PATH
    Sim,
}

/// Programs to record: a simulated GPU workload, or the replay of a real recording.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Sim {
    /// `graph` or `replay FILE`, and their options; `strandline sim --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, num_args = 0.., value_name = "ARGS")]
    pub(crate) args: Vec<OsString>,
}

/// Checks a size such as `512M`, and returns it as it was typed.
fn size(text: &str) -> Result<String, String> {
    use strandline::limits::{BUDGET_BYTES_MAX, BUDGET_BYTES_MIN};
    match strandline::settings::parse_bytes(text) {
        None => Err("expected bytes, or a number with K, M or G, such as 512M".to_owned()),
        Some(bytes) if (BUDGET_BYTES_MIN..=BUDGET_BYTES_MAX).contains(&bytes) => {
            Ok(text.to_owned())
        }
        Some(_) => Err("expected 1M to 64G".to_owned()),
    }
}

/// Least size of a part, bytes: below it, names that each part repeats would be most of it.
const PART_BYTES_MIN: u64 = 1 << 20;

/// Reads the size of a part.
fn part_size(text: &str) -> Result<u64, String> {
    match strandline::settings::parse_bytes(text) {
        None => Err("expected bytes, or a number with K, M or G, such as 400M".to_owned()),
        Some(bytes) if bytes < PART_BYTES_MIN => {
            Err("expected at least 1M: every part repeats the names of its events".to_owned())
        }
        Some(bytes) => Ok(bytes),
    }
}

/// Kinds that the tool library knows; with any other it would stay off.
const KINDS: [&str; 9] = [
    "hip", "compiler", "dispatch", "copy", "alloc", "scratch", "marker", "roctx", "all",
];

/// Checks a list of kinds, such as `hip,dispatch`.
fn kinds(text: &str) -> Result<String, String> {
    match text.split(',').find(|kind| !KINDS.contains(&kind.trim())) {
        Some(kind) => Err(format!("`{kind}` is none of {}", KINDS.join(", "))),
        None => Ok(text.to_owned()),
    }
}

/// Checks a list of names.
fn list(text: &str) -> Result<String, String> {
    if text.split(',').any(|item| item.trim().is_empty()) {
        return Err("expected names separated by commas".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        for good in ["1048576", "1M", "512M", "2g", "64G"] {
            assert_eq!(size(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "M",
            "1.5M",
            "-1",
            "1MB",
            "1048575",
            "1023K",
            "65G",
            "99999999999999999999",
        ] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_of_parts() {
        assert_eq!(part_size("1M"), Ok(1 << 20));
        assert_eq!(part_size("64G"), Ok(64 << 30));
        assert_eq!(part_size("2000000000"), Ok(2_000_000_000));
        for bad in [
            "",
            "0",
            "1023K",
            "1.5G",
            "-1M",
            "400MB",
            "99999999999999999999",
        ] {
            assert!(
                part_size(bad).unwrap_err().starts_with("expected "),
                "{bad}"
            );
        }
    }

    #[test]
    fn everything_after_the_dashes_is_the_programs() {
        let line = [
            "strandline",
            "record",
            "-o",
            "x.slt",
            "--",
            "sh",
            "-c",
            "--sim",
        ];
        let Command::Record(record) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not a record")
        };
        assert_eq!(record.program, ["sh", "-c", "--sim"]);
        assert!(!record.sim);
    }

    #[test]
    fn the_simulations_options_are_not_ours() {
        let line = ["strandline", "sim", "graph", "--help", "--nodes", "3"];
        let Command::Sim(sim) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not a sim")
        };
        assert_eq!(sim.args, ["graph", "--help", "--nodes", "3"]);
    }
}
