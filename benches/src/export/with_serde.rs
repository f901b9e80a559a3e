//! The same events through serde_json: derived structures, `to_writer`, straight from the records in the order in which
//! they lie, with names and handles as texts made before. Each row has the fields and values that ours has, so that both
//! make the same text (ours has a few rows of metadata more); sorting, lanes and joining are not the peer's.

use std::io::{BufWriter, Write};

use serde::Serialize;
use strandline::Trace;
use strandline::record::{Kind, Record, high, low};

use super::synthetic::{GRAPH, GRAPH_LAUNCH, STREAMS, kernel_name};

/// From the region's clock to the file's: what ours comes to with the region's anchors.
const TO_FILE_NS: u64 = 3_813_830_000_000_000;
/// The GPU's process id in ours.
const GPU_PID: u64 = 5_000_000;

/// An event as a program that uses serde would write it; the same fields as ours.
#[derive(Serialize)]
struct Event<'a> {
    ph: &'static str,
    cat: &'static str,
    name: &'a str,
    pid: u64,
    tid: u64,
    ts: f64,
    dur: f64,
    args: Args<'a>,
}

#[derive(Serialize, Default)]
struct Args<'a> {
    #[serde(rename = "External id")]
    external: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    cid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<u32>,
    #[serde(rename = "stream handle", skip_serializing_if = "Option::is_none")]
    stream_handle: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hsa_queue: Option<u64>,
    correlation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    grid: Option<[u32; 3]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    block: Option<[u32; 3]>,
    #[serde(rename = "shared memory", skip_serializing_if = "Option::is_none")]
    shared_memory: Option<u32>,
    #[serde(rename = "graph id", skip_serializing_if = "Option::is_none")]
    graph_id: Option<u32>,
    #[serde(rename = "graph node id", skip_serializing_if = "Option::is_none")]
    graph_node_id: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dispatch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(
        rename = "memory bandwidth (GB/s)",
        skip_serializing_if = "Option::is_none"
    )]
    bandwidth: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph: Option<&'static str>,
}

#[derive(Serialize)]
struct Arrow {
    ph: &'static str,
    id: u64,
    pid: u64,
    tid: u64,
    ts: f64,
    cat: &'static str,
    name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    bp: Option<&'static str>,
}

/// What only a kernel says.
fn kernel_args<'a>(record: &Record<'_>, args: Args<'a>) -> Args<'a> {
    let (grid, block) = (record.grid(), record.block());
    Args {
        kind: Some("Dispatch Kernel"),
        grid: Some(std::array::from_fn(|axis| {
            grid[axis].div_ceil(block[axis].max(1))
        })),
        block: Some(block),
        shared_memory: Some(high(record.word(14))),
        graph_id: Some(low(record.word(15))),
        graph_node_id: Some(high(record.word(15))),
        dispatch: Some(record.dispatch_id()),
        ..args
    }
}

/// Writes the events and their arrows; returns how many events.
pub(super) fn serde_to<W: Write>(trace: &Trace, sink: &mut W) -> Result<u64, String> {
    let names: Vec<String> = (0..GRAPH).map(kernel_name).collect();
    let handles: Vec<String> = (0..=STREAMS)
        .map(|stream| format!("{:#x}", 0x1000 * stream))
        .collect();
    let mut out = BufWriter::with_capacity(1 << 18, sink);
    let mut events = 0;
    let mut put = |out: &mut BufWriter<&mut W>, event: &Event<'_>| {
        events += 1;
        serde_json::to_writer(&mut *out, event)
            .map_err(|error| error.to_string())
            .and_then(|()| out.write_all(b",\n").map_err(|error| error.to_string()))
    };
    let us = |ns: u64| ns as f64 / 1e3;
    for entry in trace.entries() {
        let record = entry.record;
        let (ts, dur) = (
            us(record.start() + TO_FILE_NS),
            us(record.end().wrapping_sub(record.start())),
        );
        let args = Args {
            external: record.external_id(),
            correlation: record.correlation_id(),
            ..Args::default()
        };
        let arrow = |ph, pid, tid, bp| Arrow {
            ph,
            id: record.correlation_id(),
            pid,
            tid,
            ts,
            cat: "ac2g",
            name: "ac2g",
            bp,
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
                    args: Args {
                        cid: Some(record.operation()),
                        graph: graph.then_some("0xfeed"),
                        bytes: (!graph).then(|| record.bytes()),
                        ..args
                    },
                };
                put(&mut out, &event)?;
                serde_json::to_writer(&mut out, &arrow("s", 4242, tid, None))
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
                        "Memcpy HtoD (Host -> Device)"
                    },
                    pid: GPU_PID,
                    tid,
                    ts,
                    dur,
                    args: Args {
                        device: Some(0),
                        stream: Some(record.stream()),
                        stream_handle: Some(&handles[record.stream() as usize]),
                        hsa_queue: Some(record.queue()),
                        ..if kernel {
                            kernel_args(&record, args)
                        } else {
                            Args {
                                kind: Some("HtoD"),
                                bytes: Some(record.bytes()),
                                bandwidth: Some(
                                    record.bytes() as f64
                                        / record.end().wrapping_sub(record.start()) as f64,
                                ),
                                ..args
                            }
                        }
                    },
                };
                put(&mut out, &event)?;
                serde_json::to_writer(&mut out, &arrow("f", GPU_PID, tid, Some("e")))
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
