//! Plays back a real recording: calls, dispatches and copies, with the recorded times, queues,
//! streams, agents, threads and kernel names.
//!
//! A reader ([`rocprofv3`], [`kineto`]) turns a file into a [`Recording`]; [`player`] plays it
//! through private functions of the stand-in HIP library. The clock of the whole stand-in is the
//! recording's and goes from event to event, so the SDK adjusts no time.

mod kineto;
mod player;
mod rocprofv3;

use std::io::Read as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cli::{Environment, ReplayArgs};
use crate::window::print_json;

/// A recording, ready to be played.
#[derive(Debug, Default)]
pub(crate) struct Recording {
    /// What it was read as.
    format: &'static str,
    /// GPUs that the process saw.
    gpus: u32,
    gpu_name: Option<String>,
    gpu_gfx: Option<String>,
    /// Code objects, each with its kernels; a kernel's number counts over all of them.
    code_objects: Vec<CodeObject>,
    /// Streams that were used, as recorded; 0 is the null stream.
    streams: Vec<RecordedStream>,
    /// Recorded thread id of each thread; `None` = an event thread of the runtime.
    threads: Vec<Option<u64>>,
    dispatches: Vec<Dispatch>,
    copies: Vec<Copy>,
    /// All events in the order in which they are played.
    events: Vec<Event>,
    api_calls: usize,
    no_launch: usize,
    /// API rows whose name is no HIP function of SDK 1.0.0.
    unknown_calls: usize,
}

/// Kernels that are loaded together.
#[derive(Debug, Default)]
struct CodeObject {
    gpu: u32,
    kernels: Vec<Kernel>,
}

#[derive(Debug, Default)]
struct Kernel {
    name: String,
    private_segment: u32,
    group_segment: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct RecordedStream {
    gpu: u32,
    number: u64,
}

#[derive(Debug, Clone, Copy)]
struct Dispatch {
    /// Number of its kernel over all code objects.
    kernel: usize,
    /// Index into the streams.
    stream: usize,
    gpu: u32,
    /// Id of its queue, as recorded.
    queue: u64,
    grid: [u32; 3],
    workgroup: [u32; 3],
    private_segment: u32,
    group_segment: u32,
    start_ns: u64,
    end_ns: u64,
}

#[derive(Debug, Clone, Copy)]
struct Copy {
    stream: usize,
    gpu: u32,
    /// H2H 1, H2D 2, D2H 3, D2D 4.
    direction: i32,
    bytes: u64,
    dst: u64,
    src: u64,
    start_ns: u64,
    end_ns: u64,
}

/// One step of the player.
#[derive(Debug, Clone, Copy)]
struct Event {
    time_ns: u64,
    /// Order among equal times.
    order: u64,
    /// Index into the threads.
    thread: usize,
    action: Action,
}

#[derive(Debug, Clone, Copy)]
enum Action {
    /// ENTER of a HIP runtime function. `stream`: index into the streams, whose handle replaces
    /// the argument word there.
    Enter {
        op: i32,
        args: [u64; 11],
        stream: Option<(usize, usize)>,
    },
    /// EXIT of the innermost call of the thread.
    Exit,
    /// Enqueue a dispatch, by index.
    Dispatch(usize),
    /// Submit a copy, by index.
    Copy(usize),
    /// The device has finished a dispatch.
    DispatchDone(usize),
    /// The device has finished a copy.
    CopyDone(usize),
}

impl Recording {
    /// Adds the completions, and puts all events into order.
    fn finish(&mut self) {
        let mut order = u64::MAX / 2;
        // Completions may be pushed by any thread: they go with thread 0 unless it does not exist.
        for (index, dispatch) in self.dispatches.iter().enumerate() {
            order += 1;
            self.events.push(Event {
                time_ns: dispatch.end_ns,
                order,
                thread: usize::MAX,
                action: Action::DispatchDone(index),
            });
        }
        for (index, copy) in self.copies.iter().enumerate() {
            order += 1;
            self.events.push(Event {
                time_ns: copy.end_ns,
                order,
                thread: usize::MAX,
                action: Action::CopyDone(index),
            });
        }
        self.events
            .sort_by_key(|event| (event.time_ns, event.order));
    }

    fn first_ns(&self) -> u64 {
        self.events.first().map_or(1, |event| event.time_ns)
    }
}

/// Either file format: both are JSON objects with one list that matters.
#[derive(Deserialize)]
struct File {
    #[serde(rename = "rocprofiler-sdk-tool")]
    rocprofv3: Option<Vec<rocprofv3::Process>>,
    #[serde(rename = "traceEvents")]
    trace_events: Option<Vec<kineto::Row>>,
    #[serde(rename = "baseTimeNanoseconds", default)]
    base_ns: u64,
    #[serde(rename = "deviceProperties", default)]
    devices: Vec<kineto::DeviceProperties>,
}

/// What the last line says.
#[derive(Debug, Serialize)]
struct Report {
    workload: &'static str,
    simulated: bool,
    format: &'static str,
    dispatches: usize,
    copies: usize,
    api_calls: usize,
    no_launch: usize,
    unknown_calls: usize,
    kernels: usize,
    streams: usize,
    threads: usize,
    gpus: u32,
    traced: bool,
    seconds: f64,
}

/// Reads the recording, and asks for as many GPUs as it has, and for its clock.
pub(crate) fn prepare(
    args: &ReplayArgs,
    environment: &mut Environment,
) -> Result<Recording, String> {
    let recording = read(&args.file)?;
    environment.set("DEVICES", recording.gpus.max(1).to_string());
    environment.set(
        "CLOCK",
        recording.first_ns().saturating_sub(1_000_000).to_string(),
    );
    if let Some(name) = &recording.gpu_name {
        environment.set("GPU_NAME", format!("{name} (simulated)"));
    }
    if let Some(gfx) = &recording.gpu_gfx {
        environment.set("GPU_GFX", gfx);
    }
    Ok(recording)
}

/// Plays the recording.
pub(crate) fn run(args: &ReplayArgs, recording: &Recording) -> Result<(), String> {
    let start = std::time::Instant::now();
    let traced = player::play(recording, args.speed)?;
    let report = Report {
        workload: "replay",
        simulated: true,
        format: recording.format,
        dispatches: recording.dispatches.len(),
        copies: recording.copies.len(),
        api_calls: recording.api_calls,
        no_launch: recording.no_launch,
        unknown_calls: recording.unknown_calls,
        kernels: recording
            .code_objects
            .iter()
            .map(|object| object.kernels.len())
            .sum(),
        streams: recording.streams.len(),
        threads: recording.threads.iter().flatten().count(),
        gpus: recording.gpus,
        traced,
        seconds: start.elapsed().as_secs_f64(),
    };
    if args.delivery.json {
        print_json(&report);
    } else {
        println!(
            "sim replay: {} dispatches, {} copies, {} API calls of a {} recording in {:.3} s (simulation, no GPU)",
            report.dispatches, report.copies, report.api_calls, report.format, report.seconds
        );
    }
    Ok(())
}

fn read(path: &Path) -> Result<Recording, String> {
    let problem = |what: &str| format!("{}: {what}", path.display());
    let mut bytes = std::fs::read(path).map_err(|error| problem(&error.to_string()))?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .read_to_end(&mut plain)
            .map_err(|error| problem(&format!("cannot decompress: {error}")))?;
        bytes = plain;
    }
    let file: File = serde_json::from_slice(&bytes).map_err(|error| {
        problem(&format!(
            "not a recording (expected rocprofv3 results JSON, or kineto Chrome JSON): {error}"
        ))
    })?;
    let mut recording = if let Some(process) = file.rocprofv3.and_then(|all| all.into_iter().next())
    {
        rocprofv3::convert(process).map_err(|what| problem(&what))?
    } else if let Some(rows) = file.trace_events {
        kineto::convert(rows, file.base_ns, &file.devices).map_err(|what| problem(&what))?
    } else {
        return Err(problem(
            "not a recording: neither `rocprofiler-sdk-tool` (rocprofv3) nor `traceEvents` (kineto) in it",
        ));
    };
    recording.finish();
    Ok(recording)
}

/// Word and shift of a HIP function's argument in the 11 argument words.
fn argument(op: i32, name: &str) -> Option<(usize, usize)> {
    let list = sim_interface::hip_args::HIP_RUNTIME.get(usize::try_from(op).ok()?)?;
    let entry = list
        .split_ascii_whitespace()
        .find(|entry| entry.split(':').next() == Some(name))?;
    let mut parts = entry.split(':').skip(2);
    let offset: usize = parts.next()?.parse().ok()?;
    let size: usize = parts.next()?.parse().ok()?;
    Some((offset, size))
}

/// Sets bytes of the argument words.
fn set_bytes(args: &mut [u64; 11], offset: usize, bytes: &[u8]) {
    for (index, byte) in bytes.iter().enumerate() {
        let place = offset + index;
        if let Some(word) = args.get_mut(place / 8) {
            let shift = (place % 8) * 8;
            *word = *word & !(0xff << shift) | u64::from(*byte) << shift;
        }
    }
}

/// Sets an argument by name, if the function has it.
fn set_argument(args: &mut [u64; 11], op: i32, name: &str, value: u64) {
    if let Some((offset, size)) = argument(op, name) {
        set_bytes(args, offset, &value.to_le_bytes()[..size.min(8)]);
    }
}

/// Sets a three-part argument: one `dim3`, or three numbers with X, Y, Z.
fn set_dimensions(args: &mut [u64; 11], op: i32, name: &str, value: [u32; 3]) {
    if let Some((offset, 12)) = argument(op, name) {
        for (axis, part) in value.iter().enumerate() {
            set_bytes(args, offset + axis * 4, &part.to_le_bytes());
        }
        return;
    }
    for (axis, part) in ["X", "Y", "Z"].iter().zip(value) {
        set_argument(args, op, &format!("{name}{axis}"), u64::from(part));
    }
}

/// Offset of the stream argument in words; `None` if the function has none.
fn stream_word(op: i32) -> Option<usize> {
    argument(op, "stream")
        .or_else(|| argument(op, "hStream"))
        .filter(|&(_, size)| size == 8)
        .map(|(offset, _)| offset / 8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sim_interface::op;

    #[test]
    fn arguments_land_at_the_abi_offsets() {
        assert_eq!(stream_word(op::hipLaunchKernel), Some(6));
        assert_eq!(stream_word(op::hipGraphLaunch), Some(1));
        assert_eq!(stream_word(op::hipExtModuleLaunchKernel), Some(5));
        assert_eq!(stream_word(op::hipMalloc), None);
        let mut args = [0; 11];
        set_dimensions(&mut args, op::hipLaunchKernel, "numBlocks", [1, 2, 3]);
        assert_eq!(args[1], 1 | 2 << 32);
        assert_eq!(args[2] & 0xffff_ffff, 3);
        let mut args = [0; 11];
        set_dimensions(&mut args, op::hipModuleLaunchKernel, "gridDim", [4, 5, 6]);
        assert_eq!((args[1], args[2]), (4 | 5 << 32, 6));
    }
}
