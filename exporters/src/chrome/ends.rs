//! What a part begins with, and notes of what the trace says of its own quality.

use crate::model::{Device, Model};
use crate::notes::{self, Placed};
use crate::text::{push_i64, push_micros, push_string, push_u64};

use super::QUALITY_TID;
use super::rows::{name_process, name_thread, thread_name};

/// Everything before the first event of a part.
pub(super) fn header(model: &Model<'_>, base_ns: u64) -> Vec<u8> {
    let mut header = b"{\"schemaVersion\":1,\n".to_vec();
    if let [process] = &model.processes[..]
        && process.trace.header().rank >= 0
    {
        // First and on a line of its own, with a space: a widespread reader finds the rank by a search for this text.
        let world = process
            .facts
            .metadata
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case("world_size"))
            .and_then(|(_, value)| value.parse::<u64>().ok());
        header.extend_from_slice(b"\"distributedInfo\": {\"rank\": ");
        push_i64(&mut header, process.trace.header().rank.into());
        if let Some(world) = world {
            header.extend_from_slice(b", \"world_size\": ");
            push_u64(&mut header, world);
        }
        header.extend_from_slice(b"},\n");
    }
    header.extend_from_slice(b"\"deviceProperties\":[");
    let mut listed = Vec::new();
    for process in &model.processes {
        for device in &process.devices {
            let id = if model.is_several() {
                device.gpu_id
            } else {
                device.number
            };
            if !listed.contains(&id) {
                if !listed.is_empty() {
                    header.push(b',');
                }
                listed.push(id);
                device_properties(&mut header, id, device);
            }
        }
    }
    header.extend_from_slice(b"],\n");
    if let Some(process) = model.processes.first() {
        let trace = process.trace.header();
        if trace.sdk_version != 0 {
            let version = trace.sdk_version;
            let key = if process.is_cuda() {
                "cupti_version"
            } else {
                "rocprofiler-sdk_version"
            };
            push_string(&mut header, key.as_bytes());
            header.push(b':');
            let text = format!(
                "{}.{}.{}",
                version / 10_000,
                version / 100 % 100,
                version % 100
            );
            push_string(&mut header, text.as_bytes());
            header.extend_from_slice(b",\n");
        }
    }
    header.extend_from_slice(b"\"displayTimeUnit\":\"ms\",\"baseTimeNanoseconds\":");
    push_u64(&mut header, base_ns);
    header.extend_from_slice(b",\n\"traceEvents\":[\n");
    header
}

/// The rows that are known before the first event, each with `,\n` before it.
pub(super) fn first_rows(model: &Model<'_>) -> Vec<u8> {
    let mut rows = Vec::new();
    for process in &model.processes {
        let rank = match process.trace.header().rank {
            rank if rank >= 0 && model.is_several() => format!(" rank {rank}"),
            _ => String::new(),
        };
        name_process(
            &mut rows,
            process.pid,
            process.program(),
            &format!("CPU{rank}"),
        );
        for (&thread, out) in &process.threads {
            let name = thread_name(process, thread, out.tid);
            name_thread(&mut rows, process.pid, out.tid, &name, out.tid);
        }
        for device in &process.devices {
            let label = format!("GPU {}{rank}", device.number);
            name_process(
                &mut rows,
                process.gpu_pid + device.number,
                process.program(),
                &label,
            );
        }
        for lane in 0..notes::lanes(process) as u64 {
            // Spans of one row nest.
            let name = match lane {
                0 => "Recording quality".to_owned(),
                _ => format!("Recording quality (overlap {lane})"),
            };
            name_thread(
                &mut rows,
                process.pid,
                QUALITY_TID + lane,
                &name,
                QUALITY_TID,
            );
        }
    }
    rows
}

fn device_properties(out: &mut Vec<u8>, id: u64, device: &Device<'_>) {
    out.extend_from_slice(b"{\"id\":");
    push_u64(out, id);
    out.extend_from_slice(b",\"name\":");
    push_string(out, device.name().as_bytes());
    if let Some(agent) = device.agent {
        let mut number = |key: &str, value: u64| {
            push_key(out, key);
            push_u64(out, value);
        };
        number("totalGlobalMem", agent.memory_bytes);
        if agent.gfx_target != 0 {
            number("computeMajor", (agent.gfx_target / 10_000).into());
            number("computeMinor", (agent.gfx_target / 100 % 100).into());
        }
        number("warpSize", agent.wave_front.into());
        number("numSms", agent.compute_units.into());
    }
    out.push(b'}');
}

fn push_key(out: &mut Vec<u8>, key: &str) {
    out.push(b',');
    push_string(out, key.as_bytes());
    out.push(b':');
}

/// A note of quality.
pub(super) fn note(out: &mut Vec<u8>, pid: u64, base_ns: u64, placed: &Placed<'_>) {
    let start = placed.start.saturating_sub(base_ns);
    match placed.end {
        Some(end) => {
            let end = end.saturating_sub(base_ns);
            out.extend_from_slice(b",\n{\"ph\":\"X\",\"cat\":\"strandline\",\"dur\":");
            push_micros(out, end - start);
        }
        None => {
            out.extend_from_slice(b",\n{\"ph\":\"i\",\"cat\":\"strandline\",\"s\":\"p\"");
        }
    }
    out.extend_from_slice(b",\"name\":");
    push_string(out, placed.note.text.as_bytes());
    out.extend_from_slice(b",\"pid\":");
    push_u64(out, pid);
    out.extend_from_slice(b",\"tid\":");
    push_u64(out, QUALITY_TID + placed.lane as u64);
    out.extend_from_slice(b",\"ts\":");
    push_micros(out, start);
    out.extend_from_slice(b",\"args\":{\"count\":");
    push_u64(out, placed.note.count);
    out.extend_from_slice(b"}}");
}
