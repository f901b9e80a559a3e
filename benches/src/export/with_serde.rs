//! The same events through serde_json: derived structures, `to_writer`, straight from the records in the order in which
//! they lie.

use std::io::{BufWriter, Write};

use serde::Serialize;
use strandline::Trace;
use strandline::record::Kind;

use super::synthetic::{GRAPH, GRAPH_LAUNCH, kernel_name};

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

/// Writes the events and their arrows; returns how many events.
pub(super) fn serde_to<W: Write>(trace: &Trace, sink: &mut W) -> Result<u64, String> {
    let names: Vec<String> = (0..GRAPH).map(kernel_name).collect();
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
