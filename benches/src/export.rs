//! The export bench: one synthetic trace, as Chrome JSON and as Perfetto's protobuf, and the same events through
//! serde_json.
//!
//! The trace is the mix of a graph-driven inference service: graph launches of 36 kernels, a copy and its call every
//! eighth, four streams. Each export runs in a process of its own that maps the region, and writes to a sink that only
//! counts; the figure is user time.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;
use strandline::anchors::ClockAnchor;
use strandline::builder::Builder;
use strandline::counters::Counter;
use strandline::record::{Kind, api_arg, domain, pair};
use strandline::{Proof, SessionEnd, Trace, Verdict, Work};
use strandline_exporters::{Format, Options, export_to};

use crate::arguments::Arguments;
use crate::ours;

/// Kernels of one graph.
const GRAPH: u64 = 36;
/// HIP's numbers of the two calls; only their names matter here.
const GRAPH_LAUNCH: u16 = 300;
const COPY_ASYNC: u16 = 301;
/// The region's one process and GPU.
const AGENT: u64 = 77;

const PEERS: [(&str, &str); 3] = [
    ("strandline", "json"),
    ("strandline", "pftrace"),
    ("serde_json", "json"),
];

/// Runs all exports.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let path = ours::region_path();
    let made = std::fs::write(&path, synthetic(arguments.events as u64).bytes());
    let _remove = Remove(path.clone());
    made.map_err(|error| format!("writing {}: {error}", path.display()))?;
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    for (peer, format) in PEERS.iter().filter(|(peer, _)| arguments.wants(peer)) {
        let output = Command::new(&own)
            .args(["export-child", peer, format])
            .arg(&path)
            .output()
            .map_err(|error| format!("starting {peer}: {error}"))?;
        if !output.status.success() {
            let why = String::from_utf8_lossy(&output.stderr);
            eprintln!("skipped: {peer} {format}: {}", why.trim());
            continue;
        }
        lines.push(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    for line in lines {
        if arguments.json {
            println!("{line}");
            continue;
        }
        let row: serde_json::Value =
            serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let number = |name: &str| row[name].as_f64().unwrap_or(f64::NAN);
        println!(
            "{:<12} {:<8} {:>7.2} M events/s {:>8.1} MB/s {:>7.2} s user {:>7.1} MiB peak, {:.1} MiB of it mapped",
            row["peer"].as_str().unwrap_or(""),
            row["format"].as_str().unwrap_or(""),
            number("events_per_s") / 1e6,
            number("bytes_per_s") / 1e6,
            number("user_s"),
            number("peak_rss_bytes") / f64::from(1 << 20),
            number("mapped_bytes") / f64::from(1 << 20),
        );
    }
    Ok(())
}

/// Removes the region when the bench ends, however it ends.
struct Remove(PathBuf);

impl Drop for Remove {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One export.
pub fn child(arguments: &Arguments) -> Result<(), String> {
    let [peer, format, path] = &arguments.words[..] else {
        return Err("export-child: expected a peer, a format and a region".to_owned());
    };
    let trace = Trace::open(Path::new(path)).map_err(|error| error.to_string())?;
    // Mapped pages are read once before: the figure is the export's, not the page cache's.
    let records = trace.entries().count() as u64;
    let before = user_s();
    let mut sink = Count(0);
    let events = match (peer.as_str(), format.as_str()) {
        ("strandline", "json") => ours_to(trace, Format::Json, &mut sink)?,
        ("strandline", "pftrace") => ours_to(trace, Format::Perfetto, &mut sink)?,
        ("serde_json", "json") => serde_to(&trace, &mut sink)?,
        _ => return Err(format!("{peer} {format}: no such export")),
    };
    let took = (user_s() - before).max(1e-6);
    if events < records / 2 {
        return Err(format!("{events} events came out of {records} records"));
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .and_then(|rest| {
                rest.trim()
                    .trim_end_matches(" kB")
                    .trim()
                    .parse::<u64>()
                    .ok()
            })
            .unwrap_or(0)
    };
    let peak = kib("VmHWM:") * 1024;
    // The region's pages were all looked at, so all of them are in the peak.
    let mapped = std::fs::metadata(path).map_or(0, |data| data.len());
    println!(
        "{{\"peer\":\"{peer}\",\"format\":\"{format}\",\"events_per_s\":{:.0},\"bytes_per_s\":{:.0},\"user_s\":{took:.4},\
         \"peak_rss_bytes\":{peak},\"mapped_bytes\":{mapped},\"events\":{events},\"bytes\":{}}}",
        events as f64 / took,
        sink.0 as f64 / took,
        sink.0,
    );
    Ok(())
}

/// User time of the process so far, all threads.
fn user_s() -> f64 {
    // SAFETY: plain data, valid for writing.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &mut usage);
        usage
    };
    usage.ru_utime.tv_sec as f64 + usage.ru_utime.tv_usec as f64 / 1e6
}

/// Counts the bytes that are written to it.
struct Count(u64);

impl Write for Count {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += std::hint::black_box(bytes).len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn ours_to(trace: Trace, format: Format, sink: &mut Count) -> Result<u64, String> {
    let report = export_to(&[trace], format, sink, &Options::default())
        .map_err(|error| error.to_string())?;
    Ok(report.calls + report.kernels + report.copies)
}

/// An event as a program that uses serde would write it; the same fields as kineto's.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    cat: &'static str,
    name: &'a str,
    pid: u64,
    tid: u64,
    ts: f64,
    dur: f64,
    args: Args,
}

#[derive(Serialize, Default)]
struct Args {
    #[serde(rename = "External id")]
    external: u64,
    correlation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<[u32; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<[u32; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

#[derive(Serialize)]
struct Arrow {
    ph: &'static str,
    id: u64,
    cat: &'static str,
    name: &'static str,
    pid: u64,
    tid: u64,
    ts: f64,
}

fn serde_to(trace: &Trace, sink: &mut Count) -> Result<u64, String> {
    let names: Vec<String> = (0..GRAPH).map(kernel_name).collect();
    let mut out = BufWriter::with_capacity(1 << 18, sink);
    let mut events = 0;
    let mut put = |out: &mut BufWriter<&mut Count>, event: &Event<'_>| {
        events += 1;
        serde_json::to_writer(&mut *out, event)
            .map_err(|error| error.to_string())
            .and_then(|()| out.write_all(b",\n").map_err(|error| error.to_string()))
    };
    let us = |ns: u64| ns as f64 / 1e3;
    for entry in trace.entries() {
        let record = entry.record;
        let (ts, dur) = (
            us(record.start()),
            us(record.end().wrapping_sub(record.start())),
        );
        let args = Args {
            external: record.external_id(),
            correlation: record.correlation_id(),
            ..Args::default()
        };
        let arrow = |ph, tid| Arrow {
            ph,
            id: record.correlation_id(),
            cat: "ac2g",
            name: "ac2g",
            pid: 4242,
            tid,
            ts,
        };
        match record.kind() {
            Some(Kind::Api) => {
                let tid = record.thread().into();
                let graph = record.operation() == u32::from(GRAPH_LAUNCH);
                let event = Event {
                    ph: "X",
                    cat: "cuda_runtime",
                    name: if graph {
                        "hipGraphLaunch"
                    } else {
                        "hipMemcpyAsync"
                    },
                    pid: 4242,
                    tid,
                    ts,
                    dur,
                    args,
                };
                put(&mut out, &event)?;
                serde_json::to_writer(&mut out, &arrow("s", tid))
                    .map_err(|error| error.to_string())?;
                out.write_all(b",\n").map_err(|error| error.to_string())?;
            }
            Some(kind @ (Kind::Dispatch | Kind::Copy)) => {
                let kernel = kind == Kind::Dispatch;
                let tid = record.stream().into();
                let event = Event {
                    ph: "X",
                    cat: if kernel { "kernel" } else { "gpu_memcpy" },
                    name: if kernel {
                        &names[(record.kernel_id() % GRAPH) as usize]
                    } else {
                        "Memcpy HtoD"
                    },
                    pid: 0,
                    tid,
                    ts,
                    dur,
                    args: Args {
                        device: Some(0),
                        stream: Some(record.stream()),
                        grid: kernel.then(|| record.grid()),
                        block: kernel.then(|| record.block()),
                        bytes: (!kernel).then(|| record.bytes()),
                        ..args
                    },
                };
                put(&mut out, &event)?;
                serde_json::to_writer(&mut out, &arrow("f", tid))
                    .map_err(|error| error.to_string())?;
                out.write_all(b",\n").map_err(|error| error.to_string())?;
            }
            _ => {}
        }
    }
    out.flush().map_err(|error| error.to_string())?;
    drop(out);
    Ok(events)
}

fn kernel_name(kernel: u64) -> String {
    format!(
        "void gemm::kernel_{kernel}<float, {}, 128, true>(float const*, float const*, float*, int)",
        1 << (kernel % 8)
    )
}

/// A region of about `events` events.
fn synthetic(events: u64) -> Builder {
    const STREAMS: u64 = 4;
    const START: u64 = 1_000_000_000;
    let mut region = Builder::new();
    region.gpu(AGENT, 0, "gfx942", "AMD Instinct MI300X");
    for kernel in 0..GRAPH {
        region.kernel(kernel, kernel_name(kernel).as_bytes());
    }
    region.operation(domain::RUNTIME, GRAPH_LAUNCH, "hipGraphLaunch");
    region.operation(domain::RUNTIME, COPY_ASYNC, "hipMemcpyAsync");
    for stream in 1..=STREAMS {
        region.stream(stream as u32, 0x1000 * stream);
    }
    let anchor = |ns: u64| ClockAnchor {
        ticks: ns,
        vendor_ns: ns,
        boottime_ns: ns,
        monotonic_ns: ns,
        monotonic_raw_ns: ns,
        realtime_ns: 1_700_000_000_000_000_000 + ns,
    };
    region.anchor(anchor(START));
    region.session_begin(1, START);
    let (mut now, mut correlation, mut dispatch, mut copies, mut calls) = (START, 0, 0, 0, 0);
    while dispatch + copies + calls < events {
        correlation += 1;
        calls += 1;
        let stream = correlation % STREAMS + 1;
        let place = |thread: u32| pair(stream as u32, thread);
        let operation = |number: u16| u64::from(number) | u64::from(domain::RUNTIME) << 16;
        let launch = [
            now,
            now + 9_000,
            correlation,
            0,
            operation(GRAPH_LAUNCH),
            correlation,
            place(4243),
            api_arg::GRAPH,
            0,
            0xfeed,
            0,
            0,
            0,
            0,
            0,
        ];
        region.record(0, Kind::Api, 1, &launch);
        let mut gpu = now + 10_000;
        for kernel in 0..GRAPH {
            dispatch += 1;
            let took = 2_000 + kernel * 137 % 3_000;
            region.record(
                0,
                Kind::Enqueue,
                1,
                &[
                    now + kernel,
                    dispatch,
                    correlation,
                    0,
                    kernel,
                    9,
                    place(4243),
                ],
            );
            let done = [
                gpu,
                gpu + took,
                correlation,
                0,
                dispatch,
                kernel,
                correlation,
                AGENT,
                9,
                place(4243),
                pair(256, 1),
                pair(1, 256 * 1024),
                pair(4, 1),
                pair(0, 4_096),
                pair(1, kernel as u32),
            ];
            region.record(1, Kind::Dispatch, 1, &done);
            gpu += took + 400;
        }
        if correlation % 8 == 0 {
            calls += 1;
            copies += 1;
            correlation += 1;
            let bytes = 4_096 * (correlation % 64 + 1);
            let call = [
                now + 20_000,
                now + 24_000,
                correlation,
                0,
                operation(COPY_ASYNC),
                correlation,
                place(4243),
                api_arg::BYTES,
                bytes,
                0,
                0,
                0,
                0,
                0,
                0,
            ];
            region.record(0, Kind::Api, 1, &call);
            let copy = [
                gpu,
                gpu + 3_000,
                correlation,
                0,
                2,
                bytes,
                correlation,
                AGENT,
                AGENT,
                place(4243),
                0,
                0,
                0,
                0,
                0,
            ];
            region.record(1, Kind::Copy, 1, &copy);
            gpu += 3_400;
        }
        now += 30_000.max((gpu - now) / STREAMS);
    }
    region.anchor(anchor(now + 1_000_000));
    for (counter, value) in [
        (Counter::DispatchIssued, dispatch),
        (Counter::DispatchDone, dispatch),
        (Counter::DispatchRecorded, dispatch),
        (Counter::CopyIssued, copies),
        (Counter::CopyDone, copies),
        (Counter::CopyRecorded, copies),
        (Counter::ApiRecorded, calls),
    ] {
        region.counter(0, 1, counter, value);
    }
    let work = |count| Work {
        issued: count,
        recorded: count,
        retired_without_record: 0,
    };
    region.session_end(&SessionEnd {
        session: 1,
        verdict: Verdict::Complete,
        proof: Proof::Pairs,
        dispatches: work(dispatch),
        copies: work(copies),
        api_recorded: calls,
        begin_ns: START,
        returned_ns: now + 1_000_000,
        ..SessionEnd::default()
    });
    region
}
