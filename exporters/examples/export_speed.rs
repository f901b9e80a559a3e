//! How fast the exporters are, against serde_json on the same events, in one run.
//!
//! `cargo run --release -p strandline-exporters --example export_speed -- [KERNELS [REGION [ONLY]]]`
//!
//! The region is what a busy inference service gives: graph launches of 36 kernels, plain launches with arguments, copies,
//! on one device; it is written to REGION if that is given and not empty. ONLY is one of the rows' formats, or serde_json.
//! Prints one JSON object a line: of seven turns of each writer the one in the middle, and how JSON stands to serde_json turn by
//! turn. Times are user time of the whole process, as one core would need it.

use std::io::Write;
use std::time::Instant;

use serde::Serialize;
use strandline::Trace;
use strandline::builder::Builder;
use strandline::record::{Kind, api_arg, domain, pair};
use strandline_exporters::{Format, Options, export_to};

const LAUNCH: u64 = 214 | (domain::RUNTIME as u64) << 16;
const GRAPH_LAUNCH: u64 = 166 | (domain::RUNTIME as u64) << 16;

/// Counts bytes and keeps nothing.
#[derive(Debug, Default)]
struct Sink(u64);

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn region(kernels: u64) -> Trace {
    let mut region = Builder::new();
    region.header_mut().vendor = 1;
    region.gpu(0xa0, 0, "gfx942", "AMD Instinct MI300X");
    region.operation(domain::RUNTIME, 214, "hipLaunchKernel");
    region.operation(domain::RUNTIME, 166, "hipGraphLaunch");
    region.record(0, Kind::CodeObject, 0, &[1, 0xa0]);
    region.stream(1, 0x7f00_0000_0100);
    for at in 0..36u64 {
        let name = format!(
            "_ZN2at6native29vectorized_elementwise_kernelILi{at}ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_.kd"
        );
        region.kernel(1 + at, name.as_bytes());
    }
    region.anchor(strandline::anchors::ClockAnchor {
        ticks: 0,
        vendor_ns: 0,
        boottime_ns: 63_000_000_000_000,
        monotonic_ns: 62_000_000_000_000,
        monotonic_raw_ns: 62_000_000_000_001,
        realtime_ns: 1_790_000_000_000_000_000,
    });
    region.session_begin(1, 1_000);
    let (mut id, mut done, mut now, mut free) = (0u64, 0u64, 10_000u64, 0u64);
    while done < kernels {
        id += 1;
        let graph = id % 3 == 0;
        let mut words = [0u64; 15];
        words[..7].copy_from_slice(&[
            now,
            now + 6_637,
            id,
            0,
            if graph { GRAPH_LAUNCH } else { LAUNCH },
            0,
            pair(1, 4242),
        ]);
        if graph {
            region.record(0, Kind::Api, 1, &words[..7]);
        } else {
            words[7] = api_arg::LAUNCH;
            words[12] = pair(128, 1);
            words[13] = pair(1, 0);
            words[14] = 256 | 1 << 16 | 1 << 32;
            region.record(0, Kind::Api, 1, &words);
        }
        for node in 0..if graph { 36 } else { 1 } {
            done += 1;
            let start = (now + 9_000).max(free + 100);
            free = start + 1_000 + node * 37;
            let words = [
                start,
                free,
                id,
                0,
                done,
                1 + node,
                0,
                0xa0,
                1,
                pair(1, 99),
                pair(256, 1),
                pair(1, 32_768),
                pair(1, 1),
                pair(0, 512),
                0,
            ];
            region.record(1, Kind::Dispatch, 1, &words);
        }
        now = now.max(free.saturating_sub(50_000)) + 8_000;
    }
    if let Some(path) = std::env::args().nth(2).filter(|path| !path.is_empty()) {
        std::fs::write(path, region.bytes()).unwrap();
    }
    region.trace()
}

/// User time of the whole process.
fn user_seconds() -> f64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a rusage that lives until the call returns; all zeros are one, should the call fail.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_utime.tv_sec as f64 + usage.ru_utime.tv_usec as f64 / 1e6
}

fn peak_rss_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

/// Rounds in which each writer has a turn: other programs come and go, and a turn's neighbours have the same machine.
const ROUNDS: usize = 7;

/// One export.
struct Turn {
    events: u64,
    bytes: u64,
    user: f64,
    wall: f64,
}

impl Turn {
    /// An export to nowhere; without a format that of serde_json.
    fn of(traces: &[Trace], format: Option<Format>) -> Self {
        let (user, began) = (user_seconds(), Instant::now());
        let (events, bytes) = match format {
            Some(format) => {
                let mut sink = Sink::default();
                let report =
                    export_to(traces, format, &mut sink, &Options::default()).expect("an export");
                // Rows of the JSON file; for Perfetto the same rows, which it says in fewer packets.
                let rows = report.calls * 2 + report.kernels + report.arrows;
                (rows, report.bytes)
            }
            None => serde(&traces[0]),
        };
        Self {
            events,
            bytes,
            user: user_seconds() - user,
            wall: began.elapsed().as_secs_f64(),
        }
    }

    fn events_per_s(&self) -> f64 {
        self.events as f64 / self.user
    }

    fn print(&self, peer: &str, format: &str, turns: usize) {
        let Self {
            events,
            bytes,
            user,
            wall,
        } = self;
        println!(
            "{{\"peer\":\"{peer}\",\"format\":\"{format}\",\"turns\":{turns},\"events\":{events},\"events_per_s\":{:.0},\"bytes\":{bytes},\"bytes_per_s\":{:.0},\"user_s\":{user:.3},\"wall_s\":{wall:.3},\"peak_rss_bytes\":{}}}",
            self.events_per_s(),
            *bytes as f64 / user,
            peak_rss_bytes(),
        );
    }
}

#[derive(Serialize, Default)]
struct Args<'a> {
    #[serde(rename = "External id", skip_serializing_if = "Option::is_none")]
    external: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hsa_queue: Option<u64>,
    correlation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<[u32; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<[u32; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch: Option<u64>,
    #[serde(rename = "shared memory", skip_serializing_if = "Option::is_none")]
    shared: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mangled: Option<&'a str>,
    #[serde(rename = "stream handle", skip_serializing_if = "Option::is_none")]
    handle: Option<&'a str>,
}

#[derive(Serialize)]
struct Event<'a> {
    ph: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<u64>,
    cat: &'a str,
    name: &'a str,
    pid: u32,
    tid: u32,
    ts: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<Args<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'a str>,
}

/// The same events through serde_json, straight from the records in the order in which they lie: no sorting, no lanes, no
/// joining, names looked up in a list made before.
fn serde(trace: &Trace) -> (u64, u64) {
    let facts = trace.facts();
    let names: Vec<(String, String)> = (0..=36)
        .map(|id| {
            let mangled = facts.kernel_name(id).unwrap_or_default();
            let display = strandline_exporters::demangle::display_name(mangled);
            let mangled = strandline_exporters::demangle::strip_descriptor(mangled);
            (
                String::from_utf8_lossy(&display).into_owned(),
                String::from_utf8_lossy(mangled).into_owned(),
            )
        })
        .collect();
    let mut out = std::io::BufWriter::with_capacity(1 << 20, Sink::default());
    let mut events = 0;
    let micros = |ns: u64| ns as f64 / 1000.0;
    for entry in trace.entries() {
        let record = entry.record;
        let (start, end) = (
            record.start() + 3_813_830_000_000_000,
            record.end() + 3_813_830_000_000_000,
        );
        let api = record.kind() == Some(Kind::Api);
        let graph = record.operation() == 166;
        let (pid, tid) = if api { (4242, 4242) } else { (5_000_000, 1) };
        let (name, args) = if api {
            let args = Args {
                cid: Some(record.operation()),
                correlation: record.correlation_id(),
                grid: (!graph).then_some([128, 1, 1]),
                block: (!graph).then_some([256, 1, 1]),
                shared: (!graph).then_some(0),
                ..Args::default()
            };
            (
                if graph {
                    "hipGraphLaunch"
                } else {
                    "hipLaunchKernel"
                },
                args,
            )
        } else {
            let (name, mangled) = &names[record.kernel_id() as usize];
            let args = Args {
                device: Some(0),
                stream: Some(1),
                hsa_queue: Some(record.queue()),
                correlation: record.correlation_id(),
                kind: Some("Dispatch Kernel"),
                grid: Some([128, 1, 1]),
                block: Some(record.block()),
                dispatch: Some(record.dispatch_id()),
                shared: Some(512),
                mangled: Some(mangled),
                handle: Some("0x7f0000000100"),
                ..Args::default()
            };
            (name.as_str(), args)
        };
        let span = Event {
            ph: "X",
            id: None,
            cat: if api { "cuda_runtime" } else { "kernel" },
            name,
            pid,
            tid,
            ts: micros(start),
            dur: Some(micros(end - start)),
            args: Some(args),
            bp: None,
        };
        let flow = Event {
            ph: if api { "s" } else { "f" },
            id: Some(record.correlation_id()),
            cat: "ac2g",
            name: "ac2g",
            pid,
            tid,
            ts: micros(start),
            dur: None,
            args: None,
            bp: (!api).then_some("e"),
        };
        for event in [span, flow] {
            serde_json::to_writer(&mut out, &event).expect("a sink takes all");
            out.write_all(b",\n").expect("a sink takes all");
            events += 1;
        }
    }
    let sink = out.into_inner().expect("a sink takes all");
    (events, sink.0)
}

fn main() {
    let kernels = std::env::args()
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(1_000_000);
    let trace = region(kernels);
    let traces = [trace];
    let only = std::env::args().nth(3);
    let rows = [
        ("chrome-json", Some(Format::Json)),
        ("serde_json", None),
        ("perfetto", Some(Format::Perfetto)),
        ("chrome-json-gz", Some(Format::JsonGz)),
    ];
    let mut turns: [Vec<Turn>; 4] = Default::default();
    for _ in 0..if only.is_some() { 1 } else { ROUNDS } {
        for ((name, format), turns) in rows.iter().zip(&mut turns) {
            if only.as_ref().is_none_or(|only| only == name) {
                turns.push(Turn::of(&traces, *format));
            }
        }
    }
    let [json, serde, ..] = &turns;
    let mut ratios: Vec<f64> = (json.iter().zip(serde))
        .map(|(json, serde)| json.events_per_s() / serde.events_per_s())
        .collect();
    for ((name, format), turns) in rows.iter().zip(&mut turns) {
        turns.sort_by(|one, other| one.user.total_cmp(&other.user));
        let (peer, format) = match format {
            Some(_) => ("strandline", *name),
            None => (*name, "chrome-json"),
        };
        if let Some(turn) = turns.get(turns.len() / 2) {
            turn.print(peer, format, turns.len());
        }
    }
    ratios.sort_by(f64::total_cmp);
    if let [least, .., most] = ratios[..] {
        let median = ratios[ratios.len() / 2];
        println!(
            "{{\"ratio\":\"chrome-json to serde_json, turn by turn\",\"median\":{median:.2},\"least\":{least:.2},\"most\":{most:.2}}}"
        );
    }
}
