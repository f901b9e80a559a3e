//! Command line of the workloads. Parses into plain settings first, then acts.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use sim_interface::settings::Settings;

use crate::window::{Kind, Symbols};
use crate::{calls, graph, replay};

/// Programs to record on a machine without a GPU.
///
/// Kernels only take time; records of them reach tools as the real SDK delivers them: on handler
/// threads, after the device is idle, late, out of order, or not at all.
#[derive(Debug, Parser)]
#[command(
    name = "sim",
    no_binary_name = true,
    after_help = "Examples:\n  \
        sim graph                                    32 kernels, replayed 200 times\n  \
        sim graph --late uniform:5ms:40ms --seed 7   every record 5 to 40 ms late\n  \
        sim graph --late tail:0.1%:60ms:200ms        one record in a thousand very late\n  \
        sim graph --plain --threads 4 --queues 1     four threads share a hardware queue\n  \
        sim graph --api-threads 16 --api-calls 2000000 --json   calls per second\n  \
        sim replay FILE.results.json.gz              play back a real recording"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Replay a HIP graph, or launch the same kernels one by one.
    Graph(Box<GraphArgs>),
    /// Play back a real recording: rocprofv3 results JSON, or kineto's Chrome JSON made on AMD.
    Replay(ReplayArgs),
}

/// How records are delivered. Durations: 10ms, 5us, 100ns, 1s. Probabilities: 0.001 or 0.1%.
#[derive(Debug, Args)]
pub(crate) struct Delivery {
    /// How late records come: fixed:T, uniform:LO:HI or tail:P:LO:HI
    #[arg(long, value_name = "DIST")]
    late: Option<String>,
    /// Handler threads block before a record with probability P, for LO to HI
    #[arg(long, value_name = "P:LO:HI")]
    stall: Option<String>,
    /// Share of records whose timing fails: their id is retired, no record comes
    #[arg(long, value_name = "P")]
    fail_timing: Option<String>,
    /// Handler threads
    #[arg(long, value_name = "N")]
    handlers: Option<String>,
    /// Time that each handler takes besides the tools' callbacks
    #[arg(long, value_name = "T")]
    handler_time: Option<String>,
    /// Seed of all that is random
    #[arg(long, value_name = "S")]
    seed: Option<String>,
    /// The SDK's throttle: 16 dispatches in flight, then each launch sleeps a little
    #[arg(long)]
    throttle: bool,
    /// Among the records that are due, the newest goes first
    #[arg(long)]
    newest_first: bool,
    /// Write the ground truth here, as JSON lines
    #[arg(long, value_name = "FILE")]
    ledger: Option<PathBuf>,
    /// Last line of stdout is a JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// How the process ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Exit {
    /// `exit(0)`: all exit handlers run.
    Normal,
    /// `_exit(0)`: none run.
    Quick,
    /// `abort()`.
    Abort,
}

#[derive(Debug, Args)]
pub(crate) struct GraphArgs {
    /// Kernel nodes of the graph
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) nodes: u32,
    /// Launches of the graph, over all threads
    #[arg(long, value_name = "R", default_value_t = 200)]
    pub(crate) replays: u64,
    /// Launch the same kernels one by one, without a graph
    #[arg(long)]
    pub(crate) plain: bool,
    /// GPUs
    #[arg(long, value_name = "D", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) devices: u32,
    /// Threads that launch, each with its own graph and streams
    #[arg(long, value_name = "T", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) threads: u32,
    /// Streams of each thread, used in turn
    #[arg(long, value_name = "S", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) streams: u32,
    /// Hardware queues of each GPU [default: 4]
    #[arg(long, value_name = "N")]
    queues: Option<String>,
    /// Packets that fit a hardware queue; the rest is enqueued by an event thread [default: no limit]
    #[arg(long, value_name = "N")]
    ring: Option<String>,
    /// How long kernels run: T, or a distribution as for --late [default: 1us]
    #[arg(long, value_name = "DIST")]
    kernel_time: Option<String>,
    /// Share of dispatches that need a scratch allocation
    #[arg(long, value_name = "P")]
    scratch: Option<String>,
    /// How the trace window is opened and closed
    #[arg(long, value_enum, default_value_t = Kind::None)]
    pub(crate) window: Kind,
    /// Sessions one after the other, each with all replays
    #[arg(long, value_name = "K", default_value_t = 1)]
    pub(crate) sessions: u64,
    /// Pause between sessions
    #[arg(long, value_name = "G", default_value_t = 1)]
    pub(crate) gap_ms: u64,
    /// Longest wait of a session's stop
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    pub(crate) deadline_ms: u64,
    /// Save each session (window api); `{}` becomes its number
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Library with the session functions [default: those that are loaded]
    #[arg(long, value_name = "FILE")]
    api_library: Option<PathBuf>,
    /// Name of the function that starts a session
    #[arg(long, value_name = "NAME", default_value = "strandline_session_start")]
    api_start: String,
    /// Name of the function that stops a session
    #[arg(long, value_name = "NAME", default_value = "strandline_session_stop")]
    api_stop: String,
    /// Name of the function that saves a session
    #[arg(long, value_name = "NAME", default_value = "strandline_export")]
    api_export: String,
    /// Synchronize the stream after each replay
    #[arg(long)]
    pub(crate) sync: bool,
    /// Close the window without waiting for the device
    #[arg(long)]
    pub(crate) no_device_sync: bool,
    /// Instead: this many threads make HIP calls of many kinds at full rate
    #[arg(long, value_name = "T", default_value_t = 0)]
    pub(crate) api_threads: u32,
    /// HIP calls of each of them
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    pub(crate) api_calls: u64,
    /// Memory copies of 4 KiB to the device after the replays
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) copies: u64,
    /// How the process ends
    #[arg(long, value_enum, default_value_t = Exit::Normal)]
    pub(crate) exit: Exit,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// The recording; may be compressed with gzip
    pub(crate) file: PathBuf,
    /// As fast as possible, or in the recording's own time
    #[arg(long, value_enum, default_value_t = Speed::Full)]
    pub(crate) speed: Speed,
    /// How the process ends
    #[arg(long, value_enum, default_value_t = Exit::Normal)]
    pub(crate) exit: Exit,
    #[command(flatten)]
    pub(crate) delivery: Delivery,
}

/// Speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Speed {
    /// The clock jumps from event to event.
    Full,
    /// Events come when they came in the recording.
    Recorded,
}

impl GraphArgs {
    /// Names of the session functions.
    pub(crate) fn symbols(&self) -> Symbols {
        Symbols {
            start: self.api_start.clone(),
            stop: self.api_stop.clone(),
            export: self.api_export.clone(),
            library: self.api_library.clone(),
        }
    }
}

/// Settings of the simulation that the command line asks for: name without `ROCSIM_`, value.
#[derive(Debug, Default)]
pub(crate) struct Environment(Vec<(&'static str, OsString)>);

impl Environment {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        self.0.push((name, value.into()));
    }

    fn text(&mut self, name: &'static str, value: Option<&String>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn delivery(&mut self, delivery: &Delivery) {
        self.text("LATE", delivery.late.as_ref());
        self.text("STALL", delivery.stall.as_ref());
        self.text("FAIL_TIMING", delivery.fail_timing.as_ref());
        self.text("HANDLERS", delivery.handlers.as_ref());
        self.text("HANDLER_NS", delivery.handler_time.as_ref());
        self.text("SEED", delivery.seed.as_ref());
        if delivery.throttle {
            self.set("THROTTLE", "1");
        }
        if delivery.newest_first {
            self.set("ORDER", "newest-first");
        }
        if let Some(path) = &delivery.ledger {
            self.set("LEDGER", path);
        }
    }

    /// Checks every value, and what the user's own environment holds.
    fn check(&self) -> Result<(), String> {
        let (mut settings, problems) = Settings::from_env();
        if let Some(problem) = problems.first() {
            return Err(problem.replace("; using the default", ""));
        }
        for (name, value) in &self.0 {
            let Some(value) = value.to_str() else {
                continue;
            };
            settings
                .set(name, value)
                .map_err(|problem| format!("{}: {problem}", flag_of(name)))?;
        }
        Ok(())
    }

    /// Puts the settings where the stand-in libraries read them when they are loaded.
    fn apply(&self) {
        for (name, value) in &self.0 {
            // SAFETY: before any library is loaded and any thread is started.
            unsafe { std::env::set_var(format!("ROCSIM_{name}"), value) };
        }
    }
}

/// The flag that sets a setting.
fn flag_of(name: &str) -> String {
    let flag = match name {
        "HANDLER_NS" => "handler-time",
        "KERNEL_NS" => "kernel-time",
        "ORDER" => "newest-first",
        _ => return format!("--{}", name.to_ascii_lowercase().replace('_', "-")),
    };
    format!("--{flag}")
}

/// Runs a workload: `graph ...` or `replay ...`. Returns the exit code: 0 done, 1 could not run or
/// bad input, 2 usage.
///
/// Sets environment variables, so it must be called before other threads are started.
#[must_use]
pub fn main_sim(args: &[OsString]) -> i32 {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            return error.exit_code();
        }
    };
    let mut environment = Environment::default();
    match &cli.command {
        Command::Graph(args) => {
            environment.delivery(&args.delivery);
            environment.set("DEVICES", args.devices.to_string());
            environment.text("QUEUES", args.queues.as_ref());
            environment.text("RING", args.ring.as_ref());
            environment.text("KERNEL_NS", args.kernel_time.as_ref());
            environment.text("SCRATCH", args.scratch.as_ref());
            if args.api_threads > 0 {
                environment.set("NESTED", "1");
                // The device must keep up: its time is not what is measured.
                environment.set("COPY_NS", "1ns");
                if args.kernel_time.is_none() {
                    environment.set("KERNEL_NS", "1ns");
                }
            }
        }
        Command::Replay(args) => environment.delivery(&args.delivery),
    }
    if let Err(problem) = environment.check() {
        eprintln!("sim: {problem}");
        return 2;
    }
    let (result, exit) = match &cli.command {
        Command::Graph(args) => {
            environment.apply();
            let result = if args.api_threads > 0 {
                calls::run(args)
            } else {
                graph::run(args)
            };
            (result, args.exit)
        }
        Command::Replay(args) => {
            let result = replay::prepare(args, &mut environment).and_then(|recording| {
                environment.apply();
                replay::run(args, &recording)
            });
            (result, args.exit)
        }
    };
    if let Err(problem) = result {
        eprintln!("sim: {problem}");
        return 1;
    }
    match exit {
        Exit::Normal => 0,
        // SAFETY: ends the process at once; stdout was flushed line by line.
        Exit::Quick => unsafe { libc::_exit(0) },
        Exit::Abort => std::process::abort(),
    }
}
