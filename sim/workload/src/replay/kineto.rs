//! Reader of kineto's Chrome JSON, made on AMD.
//!
//! | rows (`cat`) | played as |
//! |---|---|
//! | `cuda_runtime` | ENTER and EXIT of the HIP function of that name, on the recorded thread |
//! | `kernel` | a dispatch inside the call with the same `correlation` |
//! | `gpu_memset` | a dispatch of the runtime's fill kernel, likewise |
//! | `gpu_memcpy` | a copy inside that call |
//!
//! GPU rows whose call is not in the file are enqueued by an event thread, without a call. Launches
//! without GPU rows (stream capture) are calls and nothing else. Time in ns is
//! `baseTimeNanoseconds` + `ts`, read from the digits in the file: as a floating-point number
//! it would lose the last ones.

use std::collections::HashMap;

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use sim_interface::{op, op_names};

use super::{
    Action, CodeObject, Copy, Dispatch, Event, Kernel, RecordedStream, Recording, set_argument,
    set_dimensions, stream_word,
};

/// The runtime's fill kernel.
const FILL: &str = "__amd_rocclr_fillBufferAligned";

/// One row of `traceEvents`.
#[derive(Deserialize)]
pub(super) struct Row {
    #[serde(default)]
    ph: String,
    #[serde(default)]
    cat: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    tid: Value,
    ts: Option<Box<RawValue>>,
    dur: Option<Box<RawValue>>,
    #[serde(default)]
    args: Value,
}

/// One of `deviceProperties`.
#[derive(Deserialize)]
pub(super) struct DeviceProperties {
    #[serde(default)]
    name: String,
}

/// A row with its times.
struct Timed {
    row: Row,
    start_ns: u64,
    end_ns: u64,
}

impl Timed {
    fn number(&self, name: &str) -> Option<u64> {
        number(&self.row.args[name])
    }

    fn dimensions(&self, name: &str) -> Option<[u32; 3]> {
        let list = self.row.args[name].as_array()?;
        let part = |axis: usize| u32::try_from(number(list.get(axis)?)?).ok();
        Some([part(0)?, part(1)?, part(2)?])
    }
}

/// A number, also as text, decimal or `0x`.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => match text.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => text.parse().ok(),
        },
        _ => None,
    }
}

/// Microseconds with a fraction, as ns, from the digits.
fn ns_of(text: &str) -> Option<u64> {
    let text = text.trim().trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !whole
        .bytes()
        .chain(fraction.bytes())
        .all(|b| b.is_ascii_digit())
    {
        // An exponent: no kineto writes it; the nearest ns is the best there is.
        let us: f64 = text.parse().ok()?;
        return (us >= 0.0).then_some((us * 1e3).round() as u64);
    }
    let mut ns = whole.parse::<u64>().ok()?.checked_mul(1000)?;
    let mut digits = fraction.bytes().map(|b| u64::from(b - b'0'));
    for scale in [100, 10, 1] {
        ns += digits.next().unwrap_or(0) * scale;
    }
    Some(ns)
}

/// Makes a recording of it.
pub(super) fn convert(
    rows: Vec<Row>,
    base_ns: u64,
    devices: &[DeviceProperties],
) -> Result<Recording, String> {
    let (mut calls, mut work) = (Vec::new(), Vec::new());
    for row in rows {
        let is_call = row.cat == "cuda_runtime";
        let is_work = matches!(row.cat.as_str(), "kernel" | "gpu_memcpy" | "gpu_memset");
        if row.ph != "X" || !(is_call || is_work) {
            continue;
        }
        let time = |raw: &Option<Box<RawValue>>| ns_of(raw.as_ref()?.get());
        let start = time(&row.ts).ok_or_else(|| format!("`{}`: no usable ts", row.name))?;
        let start_ns = base_ns + start;
        let end_ns = start_ns + time(&row.dur).unwrap_or(0);
        let timed = Timed {
            row,
            start_ns,
            end_ns,
        };
        if is_call {
            calls.push(timed)
        } else {
            work.push(timed)
        }
    }
    let mut reader = Reader::new(&work, devices)?;
    // Work of each call, in order of start.
    work.sort_by_key(|timed| timed.start_ns);
    let mut work_of: HashMap<u64, Vec<&Timed>> = HashMap::new();
    for timed in &work {
        work_of
            .entry(timed.number("correlation").unwrap_or(0))
            .or_default()
            .push(timed);
    }

    let mut by_thread: HashMap<u64, Vec<&Timed>> = HashMap::new();
    for call in &calls {
        if number(&call.row.tid).is_none() || op_of(&call.row.name).is_none() {
            reader.recording.unknown_calls += 1;
            continue;
        }
        let thread = number(&call.row.tid).unwrap_or(0);
        by_thread.entry(thread).or_default().push(call);
    }
    let mut threads: Vec<u64> = by_thread.keys().copied().collect();
    threads.sort_unstable();
    for thread in threads {
        let calls = by_thread.remove(&thread).unwrap_or_default();
        reader.thread(thread, calls, &mut work_of)?;
    }
    reader.orphans(&work_of)?;
    Ok(reader.finish())
}

fn op_of(name: &str) -> Option<i32> {
    let index = op_names::HIP_RUNTIME
        .iter()
        .position(|known| *known == name)?;
    i32::try_from(index).ok()
}

struct Reader {
    recording: Recording,
    gpus: HashMap<u64, u32>,
    streams: HashMap<RecordedStream, usize>,
    kernels: HashMap<(u32, String), usize>,
    /// Kernels of each GPU, in order of first use.
    names: Vec<Vec<(usize, String)>>,
    order: u64,
}

impl Reader {
    fn new(work: &[Timed], devices: &[DeviceProperties]) -> Result<Self, String> {
        let mut numbers: Vec<u64> = work
            .iter()
            .filter_map(|timed| timed.number("device"))
            .collect();
        numbers.sort_unstable();
        numbers.dedup();
        if numbers.len() > 64 {
            return Err(format!(
                "{} GPUs; the simulation has 64 at most",
                numbers.len()
            ));
        }
        let gpus: HashMap<u64, u32> = numbers.iter().copied().zip(0..).collect();
        let count = gpus.len().max(1);
        Ok(Self {
            recording: Recording {
                format: "kineto",
                gpus: count as u32,
                gpu_name: devices
                    .first()
                    .map(|device| device.name.clone())
                    .filter(|name| !name.is_empty()),
                ..Recording::default()
            },
            gpus,
            streams: HashMap::new(),
            kernels: HashMap::new(),
            names: vec![Vec::new(); count],
            order: 0,
        })
    }

    fn event(&mut self, time_ns: u64, thread: usize, action: Action) {
        self.order += 1;
        self.recording.events.push(Event {
            time_ns,
            order: self.order,
            thread,
            action,
        });
    }

    /// The calls of one thread, properly nested, with the work that they launch.
    fn thread(
        &mut self,
        id: u64,
        mut calls: Vec<&Timed>,
        work_of: &mut HashMap<u64, Vec<&Timed>>,
    ) -> Result<(), String> {
        let thread = self.recording.threads.len();
        self.recording.threads.push(Some(id));
        calls.sort_by_key(|call| (call.start_ns, core::cmp::Reverse(call.end_ns)));
        // Ends of the calls that are open, innermost last.
        let mut open: Vec<u64> = Vec::new();
        let mut now = 0;
        for call in calls {
            while let Some(&end) = open.last() {
                if end > call.start_ns {
                    break;
                }
                open.pop();
                now = end.max(now);
                self.event(now, thread, Action::Exit);
            }
            now = call.start_ns.max(now);
            let work = work_of
                .remove(&call.number("correlation").unwrap_or(0))
                .unwrap_or_default();
            self.enter(call, now, thread, &work);
            for timed in work {
                self.submit(timed, now, thread)?;
            }
            open.push(call.end_ns);
            self.recording.api_calls += 1;
        }
        while let Some(end) = open.pop() {
            now = end.max(now);
            self.event(now, thread, Action::Exit);
        }
        Ok(())
    }

    fn enter(&mut self, call: &Timed, now: u64, thread: usize, work: &[&Timed]) {
        let op = op_of(&call.row.name).unwrap_or_default();
        let mut args = [0; 11];
        if let Some(grid) = call.dimensions("grid") {
            for name in ["numBlocks", "gridDim", "globalWorkSize"] {
                set_dimensions(&mut args, op, name, grid);
            }
        }
        if let Some(block) = call.dimensions("block") {
            for name in ["dimBlocks", "blockDim", "blockDimX", "localWorkSize"] {
                set_dimensions(&mut args, op, name, block);
            }
        }
        for (key, names) in [
            ("shared memory", ["sharedMemBytes", ""]),
            ("bytes", ["sizeBytes", "size"]),
            ("size", ["sizeBytes", "size"]),
            ("dst", ["dst", ""]),
            ("src", ["src", ""]),
            ("kind", ["kind", ""]),
        ] {
            if let Some(value) = call.number(key) {
                for name in names {
                    set_argument(&mut args, op, name, value);
                }
            }
        }
        if let Some(pointer) = call.number("ptr") {
            // An out-parameter must lead somewhere; `hipFree` has the address itself.
            let value = if op == op::hipFree {
                pointer
            } else {
                core::ptr::from_ref(Box::leak(Box::new(pointer))) as u64
            };
            set_argument(&mut args, op, "ptr", value);
        }
        let stream = work.first().map(|timed| self.stream(timed));
        let action = Action::Enter {
            op,
            args,
            stream: stream_word(op).zip(stream),
        };
        self.event(now, thread, action);
    }

    fn gpu(&self, timed: &Timed) -> u32 {
        timed
            .number("device")
            .and_then(|device| self.gpus.get(&device).copied())
            .unwrap_or(0)
    }

    fn stream(&mut self, timed: &Timed) -> usize {
        let stream = RecordedStream {
            gpu: self.gpu(timed),
            number: timed.number("stream").unwrap_or(0),
        };
        let next = self.streams.len();
        *self.streams.entry(stream).or_insert_with(|| {
            self.recording.streams.push(stream);
            next
        })
    }

    fn kernel(&mut self, gpu: u32, name: &str) -> usize {
        let next = self.kernels.len();
        let number = *self.kernels.entry((gpu, name.to_owned())).or_insert(next);
        if number == next {
            self.names[gpu as usize].push((number, name.to_owned()));
        }
        number
    }

    /// Enqueues one row of work.
    fn submit(&mut self, timed: &Timed, now: u64, thread: usize) -> Result<(), String> {
        if timed.end_ns <= timed.start_ns {
            return Err(format!(
                "`{}`: a GPU row without a duration",
                timed.row.name
            ));
        }
        let (gpu, stream) = (self.gpu(timed), self.stream(timed));
        if timed.row.cat == "gpu_memcpy" {
            self.recording.copies.push(Copy {
                stream,
                gpu,
                direction: match timed.row.args["kind"].as_str() {
                    Some("HtoH") => 1,
                    Some("HtoD") => 2,
                    Some("DtoH") => 3,
                    _ => 4,
                },
                bytes: timed.number("bytes").unwrap_or(0),
                dst: 0,
                src: 0,
                start_ns: timed.start_ns,
                end_ns: timed.end_ns,
            });
            let index = self.recording.copies.len() - 1;
            self.event(now, thread, Action::Copy(index));
            return Ok(());
        }
        let name = if timed.row.cat == "gpu_memset" {
            FILL
        } else {
            timed.row.name.as_str()
        };
        let kernel = self.kernel(gpu, name);
        let workgroup = timed.dimensions("block").unwrap_or([1; 3]);
        let grid = timed.dimensions("grid").unwrap_or([1; 3]);
        self.recording.dispatches.push(Dispatch {
            kernel,
            stream,
            gpu,
            // Queues are not recorded: one for each stream.
            queue: stream as u64,
            grid: core::array::from_fn(|axis| grid[axis].wrapping_mul(workgroup[axis].max(1))),
            workgroup,
            private_segment: 0,
            group_segment: 0,
            start_ns: timed.start_ns,
            end_ns: timed.end_ns,
        });
        let index = self.recording.dispatches.len() - 1;
        self.event(now, thread, Action::Dispatch(index));
        Ok(())
    }

    /// Work whose call is not in the file, on a thread of the runtime.
    fn orphans(&mut self, work_of: &HashMap<u64, Vec<&Timed>>) -> Result<(), String> {
        let mut orphans: Vec<&Timed> = work_of.values().flatten().copied().collect();
        if orphans.is_empty() {
            return Ok(());
        }
        orphans.sort_by_key(|timed| timed.start_ns);
        let thread = self.recording.threads.len();
        self.recording.threads.push(None);
        for timed in orphans {
            self.submit(timed, timed.start_ns, thread)?;
            self.recording.no_launch += 1;
        }
        Ok(())
    }

    fn finish(mut self) -> Recording {
        // Kernels are numbered over all code objects: one object for each GPU.
        let mut renumber = vec![0; self.kernels.len()];
        let mut next = 0;
        for (gpu, names) in self.names.into_iter().enumerate() {
            let mut object = CodeObject {
                gpu: gpu as u32,
                kernels: Vec::new(),
            };
            for (number, name) in names {
                renumber[number] = next;
                next += 1;
                object.kernels.push(Kernel {
                    name,
                    ..Kernel::default()
                });
            }
            if !object.kernels.is_empty() {
                self.recording.code_objects.push(object);
            }
        }
        for dispatch in &mut self.recording.dispatches {
            dispatch.kernel = renumber[dispatch.kernel];
        }
        self.recording
    }
}

#[cfg(test)]
mod tests {
    use super::ns_of;

    #[test]
    fn times_keep_their_last_digit() {
        assert_eq!(ns_of("6869181218001.421"), Some(6_869_181_218_001_421));
        assert_eq!(ns_of("1.5"), Some(1_500));
        assert_eq!(ns_of("7"), Some(7_000));
        assert_eq!(ns_of("\"7.001\""), Some(7_001));
        assert_eq!(ns_of("-1"), None);
    }
}
