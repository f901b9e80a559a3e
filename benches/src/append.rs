//! The append bench: every peer in a process of its own, every row of it one JSON line.

use std::hint::black_box;
use std::process::{Command, Stdio};

use serde_json::Value;
use strandline::limits::BUDGET_BYTES_DEFAULT;

use crate::arguments::Arguments;
use crate::clock::{self, Scale, median};
use crate::driver::{self, Effort, Figures, Peer, Shape};
use crate::floor::Floor;
use crate::ours::{self, Ours, OursInC, Process, Streamed};
use crate::queues::{ArrayQueue, CrossbeamChannel, RowStore, Rtrb, Shared, SharedPeer, StdChannel};
#[cfg(feature = "tracy")]
use crate::tracy;
use crate::{c_abi, consumer, cxx, lttng, tracers};

/// One row's shape in the order of the table.
const ONE_TIME: Shape = Shape {
    timestamps: 1,
    cells: 1,
};
const NO_TIME: Shape = Shape {
    timestamps: 0,
    cells: 1,
};
const PAIR: Shape = Shape {
    timestamps: 2,
    cells: 1,
};
const TWO_CELLS: Shape = Shape {
    timestamps: 1,
    cells: 2,
};
const SHAPES: [Shape; 4] = [ONE_TIME, NO_TIME, PAIR, TWO_CELLS];

/// A peer: its name and the shapes that it can do.
struct Known {
    name: &'static str,
    shapes: &'static [Shape],
    /// It collapses when producers share it: few producers and shapes say enough.
    shared: bool,
}

const fn known(name: &'static str, shapes: &'static [Shape], shared: bool) -> Known {
    Known {
        name,
        shapes,
        shared,
    }
}

const PEERS: [Known; 18] = [
    known("strandline", &SHAPES, false),
    known("strandline-flight", &[ONE_TIME, NO_TIME, PAIR], false),
    known("strandline-c-abi", &[ONE_TIME], false),
    known("rtrb", &SHAPES, false),
    known("crossbeam-arrayqueue", &[ONE_TIME, NO_TIME], true),
    known("crossbeam-channel", &[ONE_TIME], true),
    known("std-channel", &[ONE_TIME], true),
    known("mutex-vec-box", &[ONE_TIME, NO_TIME, PAIR], true),
    known("fastrace", &[PAIR], false),
    known("tracing-chrome", &[PAIR], true),
    known("tracy", &[PAIR], false),
    known("tracy-viewed", &[PAIR], false),
    known("lttng-ust", &[ONE_TIME], false),
    known("lttng-ust-pid", &[ONE_TIME], false),
    known("lttng-ust-snapshot", &[ONE_TIME], false),
    known("moodycamel-readerwriterqueue", &[ONE_TIME, NO_TIME], false),
    known("moodycamel-concurrentqueue", &[ONE_TIME, NO_TIME], false),
    known("cxx-mutex-vector-new", &[ONE_TIME], true),
];

/// Runs all peers.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let producers = if arguments.producers.is_empty() {
        default_producers(cores)
    } else {
        arguments.producers.clone()
    };
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    if arguments.wants("strandline-c-abi") {
        c_abi::bring_up_to_date(arguments);
    }
    let mut rows = Vec::new();
    let mut jobs = Vec::new();
    for peer in PEERS.iter().filter(|peer| arguments.wants(peer.name)) {
        for (at, &count) in producers.iter().enumerate() {
            for (number, shape) in peer.shapes.iter().enumerate() {
                // The other shapes: for one producer and for the most that the cores hold.
                let full = producers
                    .iter()
                    .rev()
                    .find(|&&count| count < cores)
                    .copied()
                    .unwrap_or(producers[0]);
                if number > 0 && at != 0 && count != full {
                    continue;
                }
                if peer.shared && at > 1 && count != full {
                    continue;
                }
                jobs.push((
                    peer.name,
                    vec![
                        count.to_string(),
                        shape.timestamps.to_string(),
                        shape.cells.to_string(),
                    ],
                ));
            }
        }
    }
    if arguments.wants("strandline") {
        jobs.push(("strandline/no-session", Vec::new()));
        for timestamps in 0..=2 {
            jobs.push(("floor", vec![timestamps.to_string()]));
        }
    }
    for peer in ["strandline", "rtrb"] {
        if arguments.wants(peer) {
            for count in [1, producers[producers.len() - 1].min(cores.max(2) - 1)] {
                for _ in 0..arguments.repetitions {
                    jobs.push((peer, vec!["sustained".to_owned(), count.to_string()]));
                }
            }
        }
    }
    for (peer, of) in [
        ("strandline", "strandline"),
        ("strandline-pairs", "strandline"),
        ("rtrb", "rtrb"),
    ] {
        if arguments.wants(of) {
            let words = vec!["consumer".to_owned(), CONSUMER_RINGS.to_string()];
            jobs.push((peer, words));
        }
    }
    let mut absent: Vec<&str> = Vec::new();
    for (peer, words) in jobs {
        if absent.contains(&peer) {
            continue;
        }
        let mut command = Command::new(&own);
        command.args(["append-child", peer]).args(&words);
        command.args(["--seconds", &arguments.seconds.to_string()]);
        command.args(["--repetitions", &arguments.repetitions.to_string()]);
        if arguments.quick {
            command.arg("--quick");
        }
        let output = command
            .stderr(Stdio::piped())
            .output()
            .map_err(|error| format!("starting {peer}: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            let why = why.trim().trim_start_matches("strandline-benches: ");
            if why.starts_with("built without") || why.starts_with("its provider was not built") {
                // Said once: none of its rows are there.
                eprintln!("skipped: {peer}: {why}");
                absent.push(peer);
            } else {
                eprintln!("skipped: {peer} {}: {why}", words.join(" "));
            }
            continue;
        }
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if arguments.json {
                println!("{line}");
            } else if let Ok(row) = serde_json::from_str(line) {
                rows.push(row);
            }
        }
    }
    if !arguments.json {
        print!("{}", table(&rows));
    }
    Ok(())
}

/// Prints the table of rows that a run with `--json` wrote to a file.
pub fn table_of(arguments: &Arguments) -> Result<(), String> {
    let [path] = &arguments.words[..] else {
        return Err("table: expected a file of JSON lines".to_owned());
    };
    let text = std::fs::read_to_string(path).map_err(|error| format!("reading {path}: {error}"))?;
    let rows: Result<Vec<Value>, _> = text.lines().map(serde_json::from_str).collect();
    print!(
        "{}",
        table(&rows.map_err(|error| format!("reading {path}: {error}"))?)
    );
    Ok(())
}

/// 1, 2, 4, 8, all cores but one, all, and twice as many.
fn default_producers(cores: usize) -> Vec<usize> {
    let mut list: Vec<usize> = [1, 2, 4, 8]
        .into_iter()
        .filter(|&count| count < cores.max(2))
        .chain([cores.max(2) - 1, cores, 2 * cores])
        .collect();
    list.sort_unstable();
    list.dedup();
    list
}

/// One row of one peer, or why there is none.
pub fn child(arguments: &Arguments) -> Result<(), String> {
    let scale = Scale::measure();
    let words: Vec<&str> = arguments.words.iter().map(String::as_str).collect();
    let number = |word: &str| {
        word.parse::<usize>()
            .map_err(|_| format!("{word}: expected a number"))
    };
    match &words[..] {
        ["strandline/no-session"] => no_session(arguments, scale),
        ["floor", timestamps] => floor_row(number(timestamps)?, arguments, scale),
        [peer, "sustained", producers] => sustained_row(peer, number(producers)?, arguments, scale),
        [peer, "consumer", producers] => consumer_row(peer, number(producers)?, arguments, scale),
        [peer, producers, timestamps, cells] => {
            let shape = Shape {
                timestamps: number(timestamps)?,
                cells: number(cells)?,
            };
            let effort = effort(number(producers)?, arguments);
            let figures = figures(peer, shape, effort, scale)?;
            print_rows(peer, shape, effort.producers, &figures);
            Ok(())
        }
        _ => Err("append-child: expected a peer and its row".to_owned()),
    }
}

fn effort(producers: usize, arguments: &Arguments) -> Effort {
    let quick = arguments.quick;
    Effort {
        producers,
        seconds: arguments.seconds,
        bursts: 1 << 14,
        repetitions: arguments.repetitions,
        singles: if quick { 256 } else { 20_000 },
        cold: match (producers, quick) {
            (1, true) => 3,
            (1, false) => 400,
            _ => 0,
        },
    }
}

/// What a region must hold for a row of ours.
fn budget_bytes(shape: Shape, effort: Effort) -> u64 {
    let gap = 300e-6;
    let bursts = effort.seconds / gap * effort.repetitions as f64 + 100.0;
    let records = bursts as u64 * driver::BURST + effort.singles as u64 + 20_000;
    let bytes = (records * effort.producers as u64 + 100_000) * 64 * shape.cells as u64;
    (bytes + bytes / 4 + (64 << 20)).next_multiple_of(1 << 20)
}

fn figures(peer: &str, shape: Shape, effort: Effort, scale: Scale) -> Result<Figures, String> {
    fn go<P: Peer>(peer: P, effort: Effort, scale: Scale) -> Result<Figures, String> {
        driver::measure(&peer, effort, scale)
    }
    fn shared<Q: Shared<8>>(
        queue: Q,
        times: usize,
        effort: Effort,
        scale: Scale,
    ) -> Result<Figures, String> {
        match times {
            0 => go(SharedPeer::<Q, 8, 0>(queue), effort, scale),
            1 => go(SharedPeer::<Q, 8, 1>(queue), effort, scale),
            _ => go(SharedPeer::<Q, 8, 2>(queue), effort, scale),
        }
    }
    let count = effort.producers;
    let times = shape.timestamps;
    match peer {
        "strandline" | "strandline-flight" => {
            // Window mode writes each line once; flight mode reuses what the consumer has read.
            let process = if peer == "strandline" {
                Process::start_whole(budget_bytes(shape, effort), "window")?
            } else {
                Process::start_whole((2 * count as u64 + 2) << 20, "flight")?
            };
            match ours::Call::of(shape) {
                ours::Call::Append => go(Ours::<0>::new(process)?, effort, scale),
                ours::Call::AppendAt => go(Ours::<1>::new(process)?, effort, scale),
                ours::Call::ApiPair => go(Ours::<2>::new(process)?, effort, scale),
                ours::Call::Dispatch => go(Ours::<3>::new(process)?, effort, scale),
            }
        }
        "strandline-c-abi" => {
            let library = c_abi::Library::load(budget_bytes(shape, effort))?;
            go(OursInC::new(library)?, effort, scale)
        }
        "rtrb" => match (shape.cells, times) {
            (2, _) => go(Rtrb::<16, 1>::new(count), effort, scale),
            (_, 0) => go(Rtrb::<8, 0>::new(count), effort, scale),
            (_, 1) => go(Rtrb::<8, 1>::new(count), effort, scale),
            _ => go(Rtrb::<8, 2>::new(count), effort, scale),
        },
        "crossbeam-arrayqueue" => shared(ArrayQueue::new(count), times, effort, scale),
        "crossbeam-channel" => shared(CrossbeamChannel::new(count), times, effort, scale),
        "std-channel" => shared(StdChannel::default(), times, effort, scale),
        "mutex-vec-box" => match times {
            0 => go(RowStore::<8, 0>::default(), effort, scale),
            1 => go(RowStore::<8, 1>::default(), effort, scale),
            _ => go(RowStore::<8, 2>::default(), effort, scale),
        },
        "fastrace" => go(tracers::Fastrace::new(), effort, scale),
        "tracing-chrome" => go(tracers::TracingChrome::new()?, effort, scale),
        #[cfg(feature = "tracy")]
        "tracy" => go(tracy::Tracy::alone(), effort, scale),
        #[cfg(feature = "tracy")]
        "tracy-viewed" => go(tracy::Tracy::viewed()?, effort, scale),
        #[cfg(not(feature = "tracy"))]
        "tracy" | "tracy-viewed" => Err("built without the feature tracy".to_owned()),
        "lttng-ust" | "lttng-ust-pid" | "lttng-ust-snapshot" => {
            if let Some(why) = lttng::missing() {
                return Err(why.to_owned());
            }
            #[cfg(strandline_lttng)]
            {
                let mode = match peer {
                    "lttng-ust" => lttng::Mode::Uid,
                    "lttng-ust-pid" => lttng::Mode::Pid,
                    _ => lttng::Mode::Snapshot,
                };
                go(lttng::Lttng::new(mode)?, effort, scale)
            }
            #[cfg(not(strandline_lttng))]
            Err(String::new())
        }
        "moodycamel-readerwriterqueue" | "moodycamel-concurrentqueue" | "cxx-mutex-vector-new" => {
            if let Some(why) = cxx::missing() {
                return Err(why.to_owned());
            }
            #[cfg(strandline_cxx)]
            {
                let kind = match peer {
                    "moodycamel-readerwriterqueue" => cxx::Kind::ReaderWriter,
                    "moodycamel-concurrentqueue" => cxx::Kind::Concurrent,
                    _ => cxx::Kind::RowStore,
                };
                match times {
                    0 => go(cxx::Queue::<0>::new(kind, count), effort, scale),
                    _ => go(cxx::Queue::<1>::new(kind, count), effort, scale),
                }
            }
            #[cfg(not(strandline_cxx))]
            Err(String::new())
        }
        other => Err(format!("{other}: no such peer")),
    }
}

fn print_rows(peer: &str, shape: Shape, producers: usize, figures: &Figures) {
    let [p50, p99, p999] = figures.singles;
    let [empty_p50, empty_p99, empty_p999] = figures.empty;
    let Shape { timestamps, cells } = shape;
    let (ns_mean, rdtsc_ns) = (figures.ns_mean, figures.rdtsc_ns);
    let records_per_s = producers as f64 / ns_mean * 1e9;
    println!(
        "{{\"peer\":\"{peer}\",\"producers\":{producers},\"timestamps\":{timestamps},\"cells\":{cells},\
         \"ns_mean\":{ns_mean:.2},\"p50\":{p50:.1},\"p99\":{p99:.1},\"p999\":{p999:.1},\"rdtsc_ns\":{rdtsc_ns:.2},\
         \"records_per_s\":{records_per_s:.0},\"empty_p50\":{empty_p50:.1},\"empty_p99\":{empty_p99:.1},\
         \"empty_p999\":{empty_p999:.1},\"preempted\":{},\"checked\":{},\
         \"slow\":{{\"all\":{:.1},\"burst_start\":{:.1},\"segment\":{:.1},\"segment_start\":{:.1},\"page\":{:.1},\
         \"elsewhere\":{:.1}}}}}",
        figures.preempted,
        figures.checked,
        figures.slow.all,
        figures.slow.burst_start,
        figures.slow.segment,
        figures.slow.segment_start,
        figures.slow.page,
        figures.slow.elsewhere,
    );
    if let Some(cold) = figures.cold {
        print_cold(peer, shape, cold, rdtsc_ns);
    }
}

fn print_cold(peer: &str, shape: Shape, (cold, empty): (f64, f64), rdtsc_ns: f64) {
    let Shape { timestamps, cells } = shape;
    println!(
        "{{\"peer\":\"{peer}/cold\",\"producers\":1,\"timestamps\":{timestamps},\"cells\":{cells},\
         \"p50\":{cold:.1},\"empty_p50\":{empty:.1},\"rdtsc_ns\":{rdtsc_ns:.2}}}"
    );
}

/// What a test that may be off, and the readings of the clock behind it, cost cold: no append costs less.
fn floor_row(timestamps: usize, arguments: &Arguments, scale: Scale) -> Result<(), String> {
    let count = effort(1, arguments).cold;
    let cold = match timestamps {
        0 => driver::cold_alone(&Floor::<0>::default(), count, scale)?,
        1 => driver::cold_alone(&Floor::<1>::default(), count, scale)?,
        _ => driver::cold_alone(&Floor::<2>::default(), count, scale)?,
    };
    let cells = 0;
    print_cold("floor", Shape { timestamps, cells }, cold, scale.rdtsc_ns);
    Ok(())
}

/// What an append costs while no session is open: inlined, and as a call.
fn no_session(arguments: &Arguments, scale: Scale) -> Result<(), String> {
    let process = Process::start(16 << 20)?;
    let rounds = if arguments.quick { 3 } else { 51 };
    let calls: u64 = if arguments.quick { 100 } else { 20_000 };
    let time = |call: &dyn Fn()| {
        median(
            (0..rounds)
                .map(|_| {
                    let first = clock::ticks();
                    call();
                    (clock::ticks() - first) as f64 * scale.ns_per_tick / calls as f64
                })
                .collect(),
        )
    };
    let (runtime, name) = (process.runtime, process.name);
    let loops = [
        (
            "strandline/no-session",
            time(&|| (0..calls).for_each(|at| ours::append(runtime, name, black_box(at), 1))),
        ),
        (
            "strandline/no-session-call",
            time(&|| (0..calls).for_each(|at| ours::append_call(runtime, name, black_box(at), 1))),
        ),
        (
            "empty-loop",
            time(&|| {
                (0..calls).for_each(|at| {
                    black_box(at);
                });
            }),
        ),
    ];
    for (peer, ns_mean) in loops {
        println!(
            "{{\"peer\":\"{peer}\",\"producers\":1,\"timestamps\":0,\"cells\":0,\"ns_mean\":{ns_mean:.3},\
             \"rdtsc_ns\":{:.2}}}",
            scale.rdtsc_ns
        );
    }
    Ok(())
}

/// Stream mode with the default budget.
fn streamed<const PAIRS: bool>() -> Result<Streamed<PAIRS>, String> {
    Streamed::new(Process::start_whole(BUDGET_BYTES_DEFAULT, "stream")?)
}

fn sustained_row(
    peer: &str,
    producers: usize,
    arguments: &Arguments,
    scale: Scale,
) -> Result<(), String> {
    let seconds = arguments.seconds;
    let driver::Sustained {
        records_per_s,
        lost,
    } = match peer {
        "strandline" => driver::sustained(&streamed::<false>()?, producers, seconds)?,
        "rtrb" => driver::sustained(&Rtrb::<8, 1>::new(producers), producers, seconds)?,
        other => return Err(format!("{other}: no such row")),
    };
    println!(
        "{{\"peer\":\"{peer}/sustained\",\"producers\":{producers},\"timestamps\":1,\"cells\":1,\
         \"records_per_s\":{records_per_s:.0},\"lost\":{lost},\"rdtsc_ns\":{:.2}}}",
        scale.rdtsc_ns
    );
    Ok(())
}

/// Producers whose rings a consumer row fills.
const CONSUMER_RINGS: usize = 15;

fn consumer_row(
    peer: &str,
    producers: usize,
    arguments: &Arguments,
    scale: Scale,
) -> Result<(), String> {
    let seconds = arguments.seconds;
    let records_per_s = match peer {
        "strandline" => consumer::capacity(&streamed::<false>()?, producers, seconds)?,
        "strandline-pairs" => consumer::capacity(&streamed::<true>()?, producers, seconds)?,
        "rtrb" => consumer::capacity(&Rtrb::<8, 1>::new(producers), producers, seconds)?,
        other => return Err(format!("{other}: no such row")),
    };
    println!(
        "{{\"peer\":\"{peer}/consumer\",\"producers\":{producers},\"timestamps\":1,\"cells\":1,\
         \"records_per_s\":{records_per_s:.0},\"rdtsc_ns\":{:.2}}}",
        scale.rdtsc_ns
    );
    Ok(())
}

fn number(row: &Value, name: &str) -> f64 {
    row.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
}

fn text<'a>(row: &'a Value, name: &str) -> &'a str {
    row.get(name).and_then(Value::as_str).unwrap_or("")
}

/// The table: a block for each shape, a line for each peer, then what has no producers to compare.
fn table(rows: &[Value]) -> String {
    use std::fmt::Write;
    let mut out = String::new();
    let readings = rows.iter().map(|row| number(row, "rdtsc_ns")).collect();
    let _ = writeln!(
        out,
        "R, one reading of the clock: {:.1} ns\n",
        median(readings)
    );
    for shape in SHAPES {
        let of_shape: Vec<&Value> = rows
            .iter()
            .filter(|row| {
                row.get("records_per_s").is_some()
                    && !text(row, "peer").contains('/')
                    && number(row, "timestamps") == shape.timestamps as f64
                    && number(row, "cells") == shape.cells as f64
            })
            .collect();
        let mut counts: Vec<u64> = of_shape
            .iter()
            .map(|row| number(row, "producers") as u64)
            .collect();
        counts.sort_unstable();
        counts.dedup();
        if counts.is_empty() {
            continue;
        }
        let _ = write!(
            out,
            "{:<30}",
            format!("{} timestamps, {} cells, ns", shape.timestamps, shape.cells)
        );
        for count in &counts {
            let _ = write!(out, "{:>9}", format!("N={count}"));
        }
        let _ = writeln!(
            out,
            "{:>9}{:>9}{:>9}{:>9}",
            "less R", "+p50", "+p99", "+p99.9"
        );
        let mut peers: Vec<&str> = of_shape.iter().map(|row| text(row, "peer")).collect();
        peers.dedup();
        for peer in peers {
            let _ = write!(out, "{peer:<30}");
            let at = |count: u64| {
                of_shape.iter().find(|row| {
                    text(row, "peer") == peer && number(row, "producers") == count as f64
                })
            };
            for &count in &counts {
                let _ = match at(count) {
                    Some(row) => write!(out, "{:>9.1}", number(row, "ns_mean")),
                    None => write!(out, "{:>9}", "-"),
                };
            }
            if let Some(row) = at(counts[0]) {
                let clocks = shape.timestamps as f64 * number(row, "rdtsc_ns");
                let _ = write!(out, "{:>9.1}", number(row, "ns_mean") - clocks);
            }
            if let Some(row) = counts.iter().rev().find_map(|&count| at(count)) {
                for name in ["p50", "p99", "p999"] {
                    let over = number(row, name) - number(row, &format!("empty_{name}"));
                    let _ = write!(out, "{over:>9.1}");
                }
            }
            out.push('\n');
        }
        // Against the nearest peer, at each count.
        let _ = write!(out, "{:<30}", "nearest peer / strandline");
        for &count in &counts {
            let ns = |row: &&&Value| number(row, "ns_mean");
            let here = || {
                of_shape
                    .iter()
                    .filter(move |row| number(row, "producers") == count as f64)
            };
            let own = here()
                .find(|row| text(row, "peer") == "strandline")
                .map(|row| ns(&row));
            let nearest = here()
                .filter(|row| !text(row, "peer").starts_with("strandline"))
                .map(|row| ns(&row))
                .min_by(f64::total_cmp);
            let _ = match (own, nearest) {
                (Some(own), Some(nearest)) => {
                    write!(out, "{:>9}", format!("{:.2}x", nearest / own))
                }
                _ => write!(out, "{:>9}", "-"),
            };
        }
        out.push_str("\n\n");
    }
    for row in rows {
        let (peer, producers) = (text(row, "peer"), number(row, "producers"));
        if peer.ends_with("/cold") {
            let over = number(row, "p50") - number(row, "empty_p50");
            let times = number(row, "timestamps");
            let cells = number(row, "cells");
            let _ = writeln!(
                out,
                "{peer:<36} {times} timestamps, {cells} cells: p50 {over:+.1} ns over the empty sample"
            );
        } else if peer.ends_with("/sustained") {
            let same = |other: &&Value| {
                text(other, "peer") == peer && number(other, "producers") == producers
            };
            let runs: Vec<&Value> = rows.iter().filter(same).collect();
            // All runs of a row are told where the first stands.
            if std::ptr::eq(runs[0], row) {
                let rates = runs.iter().map(|run| number(run, "records_per_s") / 1e6);
                let lost: f64 = runs.iter().map(|run| number(run, "lost")).sum();
                let _ = writeln!(
                    out,
                    "{peer:<36} {producers} producers: {:.1} M records/s through one consumer (median of {}), {lost} lost",
                    median(rates.collect()),
                    runs.len()
                );
            }
        } else if peer.ends_with("/consumer") {
            let rate = number(row, "records_per_s") / 1e6;
            let what = if peer.contains("-pairs") {
                "pairs of issue and completion"
            } else {
                "records"
            };
            let _ = writeln!(
                out,
                "{peer:<36} one consumer that never waits: {rate:.1} M {what}/s"
            );
        } else if row.get("records_per_s").is_none() {
            let _ = writeln!(out, "{peer:<36} {:.2} ns a call", number(row, "ns_mean"));
        }
    }
    let burst = |peer: &str| {
        rows.iter()
            .filter(|row| text(row, "peer") == peer && number(row, "timestamps") == 1.0)
            .filter(|row| number(row, "cells") == 1.0)
            .max_by(|one, other| number(one, "producers").total_cmp(&number(other, "producers")))
            .map(|row| (number(row, "producers"), number(row, "records_per_s") / 1e6))
    };
    for peer in ["strandline", "strandline-flight", "rtrb", "mutex-vec-box"] {
        if let Some((producers, rate)) = burst(peer) {
            let _ = writeln!(
                out,
                "{peer:<36} {producers} producers in bursts: {rate:.1} M records/s"
            );
        }
    }
    out
}
