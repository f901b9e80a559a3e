//! Chrome JSON in kineto's dialect, made so that the strictest of its readers has nothing to complain about.
//!
//! One event a line, in the order of time, metadata rows first. What differs from kineto's own files, on purpose:
//!
//! * Flows: one `s` on a call that launched something, one `f` on each kernel and copy; none anywhere else. kineto ends a
//!   flow on every call that starts none, and graph launches start none.
//! * GPUs have process ids of their own (5000000 + n), which no Linux process has; `args.device` is the device number.
//! * Streams count from 1; work on a stream that nobody knows has a row of that name.
//! * Grids are work-groups, on every row.
//! * A kernel that overlaps another of its stream goes to a further row of that stream.
//! * Times are exact: no shift by a nanosecond, nothing clipped.
//!
//! Times are microseconds with three decimals since `baseTimeNanoseconds`, a multiple of a quarter year, so that
//! nanoseconds survive a double.

use std::collections::HashMap;
use std::io::Write;

use strandline::record::{Kind, Record, api_arg, high, low};

use crate::completeness;
use crate::export::{ExportError, ExportReport};
use crate::join::{IdMap, Ids};
use crate::lanes::{FlatLanes, NestedLanes, RangesById, Started};
use crate::memory::Memory;
use crate::model::{Device, Model, Process, StreamOut, category, copy_names};
use crate::order::Visitor;
use crate::out::Output;
use crate::text::{
    Line, is_utf8, push_escaped, push_f64, push_hex, push_hex_bytes, push_i64, push_micros,
    push_string, push_u64,
};

/// `baseTimeNanoseconds` is a multiple of this: three average months, kineto's own constant.
const BASE_STEP_NS: u64 = 7_889_238 * 1_000_000_000;
/// First thread id of further rows of a stream or thread.
const LANE_TID_FIRST: u64 = 1_500_000_000;
/// First thread id of the rows for ranges by id.
const RANGES_TID_FIRST: u64 = 1_900_000_000;
/// Thread id of the row for what the trace says of itself.
const QUALITY_TID: u64 = 2_100_000_000;
/// Room kept free in a part for its last lines.
const PART_END_BYTES: u64 = 64 << 10;

/// A row of a GPU: one stream, and lanes for what overlaps.
#[derive(Debug)]
struct StreamRow {
    lanes: FlatLanes,
    /// For each lane `<pid>,"tid":<tid>,"ts":`.
    heads: Vec<Vec<u8>>,
    /// `"device":0,"stream":1,"stream handle":"0x..."`.
    args: Vec<u8>,
    /// The same with the queue that was used last, up to and with `"correlation":`.
    queue: u64,
    queue_args: Vec<u8>,
}

/// A thread's row, and lanes for what overlaps in part.
#[derive(Debug)]
struct ThreadRow {
    lanes: NestedLanes,
    tids: Vec<Vec<u8>>,
}

#[derive(Debug, Default)]
struct Text {
    /// Up to and with `"pid":`.
    head: Vec<u8>,
    /// What the name alone decides of the arguments.
    args: Vec<u8>,
}

/// A kernel's text, and the arguments of its newest shape.
#[derive(Debug)]
struct KernelText {
    name: Text,
    /// Words 11 to 15 of the dispatch that `shape` was made from.
    shape_of: [u64; 5],
    shape: Vec<u8>,
}

#[derive(Debug)]
struct State {
    pid: u64,
    gpu_pid: u64,
    operations: Vec<Text>,
    kernels: Vec<KernelText>,
    streams: IdMap<u64, u32>,
    stream_rows: Vec<StreamRow>,
    newest_stream: (u64, u32),
    threads: IdMap<u32, u32>,
    thread_rows: Vec<ThreadRow>,
    newest_thread: (u32, u32),
    /// Calls with an `s` in this part, and in earlier ones.
    launched: Ids,
    launched_earlier: Ids,
    ranges: RangesById,
    range_rows: usize,
    names: HashMap<u64, Text>,
    memory: Memory,
    next_lane_tid: u64,
}

/// Writes Chrome JSON.
#[derive(Debug)]
pub(crate) struct Chrome<'o> {
    out: Output<'o>,
    part_bytes_max: u64,
    base_ns: u64,
    states: Vec<State>,
    /// Everything before the first event of a part.
    header: Vec<u8>,
    /// Rows that name processes, threads and streams, each with `,\n` before it; every part begins with them.
    rows: Vec<u8>,
    report: ExportReport,
    line: Line,
    /// Arguments that most events do not have.
    rare_args: Vec<u8>,
    /// The metadata object without the counts, for parts that end early.
    part_end: Vec<u8>,
}

fn metadata_row(out: &mut Vec<u8>, name: &str, pid: u64, tid: u64, key: &str, value: &[u8]) {
    out.extend_from_slice(b",\n{\"ph\":\"M\",\"name\":\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\",\"pid\":");
    push_u64(out, pid);
    out.extend_from_slice(b",\"tid\":");
    push_u64(out, tid);
    out.extend_from_slice(b",\"args\":{\"");
    out.extend_from_slice(key.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(value);
    out.extend_from_slice(b"}}");
}

fn quoted(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    push_string(&mut out, text.as_bytes());
    out
}

fn name_thread(out: &mut Vec<u8>, pid: u64, tid: u64, name: &str, sort_index: u64) {
    metadata_row(out, "thread_name", pid, tid, "name", &quoted(name));
    let index = sort_index.to_string();
    metadata_row(
        out,
        "thread_sort_index",
        pid,
        tid,
        "sort_index",
        index.as_bytes(),
    );
}

/// Rows about a process. Their thread id is the process's own: 0 is no id.
fn name_process(out: &mut Vec<u8>, pid: u64, name: &str, label: &str) {
    metadata_row(out, "process_name", pid, pid, "name", &quoted(name));
    metadata_row(out, "process_labels", pid, pid, "labels", &quoted(label));
    let index = pid.to_string();
    metadata_row(
        out,
        "process_sort_index",
        pid,
        pid,
        "sort_index",
        index.as_bytes(),
    );
}

/// `{"ph":"X","cat":"...","name":"...","pid":`, and what must be kept of the name beside.
fn named(category: &str, name: &[u8]) -> Text {
    let mut head = Vec::new();
    head.extend_from_slice(b",\n{\"ph\":\"X\",\"cat\":\"");
    head.extend_from_slice(category.as_bytes());
    head.extend_from_slice(b"\",\"name\":");
    push_string(&mut head, name);
    head.extend_from_slice(b",\"pid\":");
    let mut args = Vec::new();
    if !is_utf8(name) {
        args.extend_from_slice(b",\"name bytes\":");
        push_hex_bytes(&mut args, name);
    }
    Text { head, args }
}

fn triple(out: &mut Vec<u8>, key: &[u8], value: [u32; 3]) {
    out.extend_from_slice(key);
    out.push(b'[');
    push_u64(out, value[0].into());
    out.push(b',');
    push_u64(out, value[1].into());
    out.push(b',');
    push_u64(out, value[2].into());
    out.push(b']');
}

impl State {
    fn new(process: &Process<'_>) -> Self {
        let operations = process
            .operations
            .iter()
            .map(|operation| {
                let mut text = named(category(operation.domain), &operation.name);
                push_u64(&mut text.head, process.pid);
                text.head.extend_from_slice(b",\"tid\":");
                let id = if process.is_cuda() { "cbid" } else { "cid" };
                let mut args = format!("\"{id}\":{}", operation.number).into_bytes();
                args.append(&mut text.args);
                args.extend_from_slice(b",\"correlation\":");
                Text {
                    head: text.head,
                    args,
                }
            })
            .collect();
        Self {
            pid: process.pid,
            gpu_pid: process.gpu_pid,
            operations,
            kernels: Vec::new(),
            streams: IdMap::default(),
            stream_rows: Vec::new(),
            newest_stream: (u64::MAX, 0),
            threads: IdMap::default(),
            thread_rows: Vec::new(),
            newest_thread: (0, u32::MAX),
            launched: Ids::default(),
            launched_earlier: Ids::default(),
            ranges: RangesById::default(),
            range_rows: 0,
            names: HashMap::new(),
            memory: Memory::default(),
            next_lane_tid: LANE_TID_FIRST,
        }
    }

    /// Takes up kernels that were met for the first time.
    #[cold]
    fn add_kernels(&mut self, process: &Process<'_>) {
        for kernel in &process.kernels[self.kernels.len()..] {
            let mut name = named("kernel", &kernel.display);
            if kernel.mangled != kernel.display {
                name.args.extend_from_slice(b",\"mangled\":");
                push_string(&mut name.args, &kernel.mangled);
            }
            if !kernel.named {
                name.args.extend_from_slice(b",\"name kept\":false");
            }
            self.kernels.push(KernelText {
                name,
                shape_of: [u64::MAX; 5],
                shape: Vec::new(),
            });
        }
    }

    #[inline]
    fn thread(&mut self, process: &Process<'_>, thread: u32) -> usize {
        if self.newest_thread.1 != u32::MAX && self.newest_thread.0 == thread {
            return self.newest_thread.1 as usize;
        }
        let rows = &mut self.thread_rows;
        let at = *self.threads.entry(thread).or_insert_with(|| {
            let tid = process
                .threads
                .get(&thread)
                .map_or(u64::from(thread), |thread| thread.tid);
            rows.push(ThreadRow {
                lanes: NestedLanes::default(),
                tids: vec![tid.to_string().into_bytes()],
            });
            rows.len() as u32 - 1
        });
        self.newest_thread = (thread, at);
        at as usize
    }
}

fn thread_name(process: &Process<'_>, thread: u32, tid: u64) -> String {
    let own = process
        .threads
        .get(&thread)
        .and_then(|thread| thread.name.as_deref());
    match own {
        Some(name) => format!("thread {thread} ({name})"),
        None if tid == process.pid => format!("thread {thread} ({})", process.program()),
        None if thread == 0 => "unknown thread".to_owned(),
        None => format!("thread {thread}"),
    }
}

fn stream_name(stream: &StreamOut) -> String {
    if !stream.known {
        "unknown stream".to_owned()
    } else if stream.note.is_empty() {
        // The space at the end is the dialect's.
        format!("stream {} ", stream.number)
    } else {
        format!("stream {} ({})", stream.number, stream.note)
    }
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

impl<'o> Chrome<'o> {
    pub(crate) fn new(model: &Model<'_>, out: Output<'o>, part_bytes_max: u64) -> Self {
        let base_ns = model.first / BASE_STEP_NS * BASE_STEP_NS;
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
            if !process.notes.is_empty() {
                let pid = process.pid;
                name_thread(
                    &mut rows,
                    pid,
                    QUALITY_TID,
                    "Recording quality",
                    QUALITY_TID,
                );
            }
        }
        Self {
            out,
            part_bytes_max,
            base_ns,
            states: model.processes.iter().map(State::new).collect(),
            header,
            rows,
            report: model.report(),
            line: Line::new(),
            rare_args: Vec::new(),
            part_end: Vec::new(),
        }
    }

    /// Writes the beginning. Call once, before the first event.
    pub(crate) fn begin(&mut self, model: &Model<'_>) -> Result<(), ExportError> {
        let mut end = Vec::new();
        completeness::push(&mut end, model, &self.report, 0);
        self.part_end = end;
        self.begin_part();
        self.out.flow()
    }

    fn begin_part(&mut self) {
        self.out.block.extend_from_slice(&self.header);
        self.out
            .block
            .extend_from_slice(self.rows.get(2..).unwrap_or_default());
    }

    fn end_part(&mut self, object: &[u8]) {
        let name = self.out.part_name();
        let block = &mut self.out.block;
        block.extend_from_slice(b"\n],\n\"strandline\":");
        block.extend_from_slice(object);
        block.extend_from_slice(b",\n\"traceName\":");
        push_string(block, name.as_bytes());
        block.extend_from_slice(b"}\n");
    }

    /// Between events: hands full blocks on, and begins another part when this one is full.
    #[inline]
    fn flow(&mut self) -> Result<(), ExportError> {
        if self.out.part_bytes() + PART_END_BYTES > self.part_bytes_max {
            self.split()?;
        }
        self.out.flow()
    }

    #[cold]
    fn split(&mut self) -> Result<(), ExportError> {
        let least = (self.header.len() + self.rows.len() + self.part_end.len()) as u64;
        if !self.out.is_splittable() || self.out.part_bytes() < least + PART_END_BYTES {
            return Ok(());
        }
        let object = std::mem::take(&mut self.part_end);
        self.end_part(&object);
        self.part_end = object;
        self.out.next_part()?;
        for state in &mut self.states {
            state.launched_earlier.take(&mut state.launched);
        }
        self.begin_part();
        Ok(())
    }

    /// Writes what is left and names the files.
    pub(crate) fn finish(
        mut self,
        model: &mut Model<'_>,
        report: &mut ExportReport,
    ) -> Result<(Vec<std::path::PathBuf>, u64), ExportError> {
        for (index, process) in model.processes.iter().enumerate() {
            for started in self.states[index].ranges.drain() {
                let end = process
                    .out_ns(process.close_ns(started.session))
                    .max(started.start);
                self.range_by_id(process, index, &started, end, true);
                self.flow()?;
            }
            self.notes(process);
            self.flow()?;
        }
        let part = self.out.part_number();
        let mut object = Vec::new();
        completeness::push(&mut object, model, &self.report, part);
        self.end_part(&object);
        *report = self.report;
        self.out.commit()
    }

    fn notes(&mut self, process: &Process<'_>) {
        let mut notes: Vec<_> = process.notes.iter().collect();
        notes.sort_by_key(|note| (note.start, std::cmp::Reverse(note.end)));
        let mut lanes = NestedLanes::default();
        for note in notes {
            let block = &mut self.out.block;
            let start = process.out_ns(note.start).saturating_sub(self.base_ns);
            let mut tid = QUALITY_TID;
            match note.end {
                Some(end) => {
                    let end = process.out_ns(end).saturating_sub(self.base_ns).max(start);
                    tid += lanes.place(start, end) as u64;
                    block.extend_from_slice(b",\n{\"ph\":\"X\",\"cat\":\"strandline\",\"dur\":");
                    push_micros(block, end - start);
                }
                None => {
                    block.extend_from_slice(b",\n{\"ph\":\"i\",\"cat\":\"strandline\",\"s\":\"p\"");
                }
            }
            block.extend_from_slice(b",\"name\":");
            push_string(block, note.text.as_bytes());
            block.extend_from_slice(b",\"pid\":");
            push_u64(block, process.pid);
            block.extend_from_slice(b",\"tid\":");
            push_u64(block, tid);
            block.extend_from_slice(b",\"ts\":");
            push_micros(block, start);
            block.extend_from_slice(b",\"args\":{\"count\":");
            push_u64(block, note.count);
            block.extend_from_slice(b"}}");
        }
    }

    fn thread_lane(
        &mut self,
        process: &Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) -> (usize, usize) {
        let state = &mut self.states[index];
        let at = state.thread(process, record.thread());
        let row = &mut state.thread_rows[at];
        let lane = row.lanes.place(start, end);
        if lane > 0 {
            self.report.host_overlaps += 1;
        }
        if lane == row.tids.len() {
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            row.tids.push(tid.to_string().into_bytes());
            let own = process
                .threads
                .get(&record.thread())
                .map_or(0, |thread| thread.tid);
            let name = format!(
                "{} (overlap {lane})",
                thread_name(process, record.thread(), own)
            );
            let mut rows = Vec::new();
            name_thread(&mut rows, state.pid, tid, &name, own);
            self.rows.extend_from_slice(&rows);
            self.out.block.extend_from_slice(&rows);
        }
        (at, lane)
    }

    fn call(
        &mut self,
        process: &mut Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) {
        let (row, lane) = self.thread_lane(process, index, record, start, end);
        let operation = process.operation(record);
        let correlation_id = record.correlation_id();
        let state = &mut self.states[index];
        // A second call with the same id would start the same arrows again.
        let launched = correlation_id != 0
            && process.launches.has_work(correlation_id)
            && !state.launched.contains(correlation_id);
        let text = &state.operations[operation];
        let tid = &state.thread_rows[row].tids[lane];
        let line = &mut self.line;
        line.begin().text(&text.head).text(tid).put(b",\"ts\":");
        let ts = line.place();
        line.micros(start - self.base_ns);
        let ts = (ts, line.place());
        duration_and_external(line, record, end - start);
        line.text(&text.args);
        let correlation = line.place();
        line.number(process.correlation(correlation_id));
        let correlation = (correlation, line.place());
        if record.word(8) & api_arg::LAUNCH != 0 && process.externals.is_empty() {
            launch_args(line, record);
        }
        let rare = record.word(8) & !(api_arg::LAUNCH | api_arg::GRID_IN_ITEMS);
        if rare != 0
            || record.return_value() != 0
            || record.end() == 0
            || !process.externals.is_empty()
        {
            self.rare_args.clear();
            external_args(&mut self.rare_args, process, correlation_id);
            line.text(&self.rare_args);
            self.rare_args.clear();
            if record.word(8) & api_arg::LAUNCH != 0 && !process.externals.is_empty() {
                launch_args(line, record);
            }
            call_args(&mut self.rare_args, record);
            line.text(&self.rare_args);
        }
        line.put(b"}}");
        if launched {
            state.launched.insert(correlation_id);
            line.put(b",\n{\"ph\":\"s\",\"id\":").again(correlation);
            line.put(b",\"pid\":").number(state.pid).put(b",\"tid\":");
            line.text(tid).put(b",\"ts\":").again(ts);
            line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
        }
        self.out.block.extend_from_slice(line.as_bytes());
        self.report.calls += 1;
    }

    /// Index of the row of a device and stream.
    #[inline]
    fn stream_row(
        &mut self,
        process: &Process<'_>,
        index: usize,
        device: usize,
        stream: usize,
    ) -> usize {
        let state = &mut self.states[index];
        let key = (device as u64) << 32 | stream as u64;
        if state.newest_stream.0 == key {
            return state.newest_stream.1 as usize;
        }
        let at = match state.streams.get(&key) {
            Some(&at) => at,
            None => {
                let at = state.stream_rows.len() as u32;
                state.streams.insert(key, at);
                let number = process
                    .devices
                    .get(device)
                    .map_or(0, |device| device.number);
                let stream = &process.streams[stream];
                let pid = state.gpu_pid + number;
                let mut args = b"\"device\":".to_vec();
                push_u64(&mut args, number);
                args.extend_from_slice(b",\"stream\":");
                push_u64(&mut args, stream.number);
                if stream.handle != 0 {
                    args.extend_from_slice(b",\"stream handle\":");
                    push_hex(&mut args, stream.handle);
                }
                if !stream.known {
                    args.extend_from_slice(b",\"stream known\":false");
                }
                let queue_args = queue_args(&args, process, 0);
                state.stream_rows.push(StreamRow {
                    lanes: FlatLanes::default(),
                    heads: vec![format!("{pid},\"tid\":{},\"ts\":", stream.number).into_bytes()],
                    args,
                    queue: 0,
                    queue_args,
                });
                let mut rows = Vec::new();
                name_thread(
                    &mut rows,
                    pid,
                    stream.number,
                    &stream_name(stream),
                    stream.number,
                );
                self.rows.extend_from_slice(&rows);
                self.out.block.extend_from_slice(&rows);
                at
            }
        };
        state.newest_stream = (key, at);
        at as usize
    }

    fn work(
        &mut self,
        process: &mut Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) {
        let (device, stream) = (process.device(record), process.stream(record));
        let row = self.stream_row(process, index, device, stream);
        let state = &mut self.states[index];
        let stream_row = &mut state.stream_rows[row];
        let lane = stream_row.lanes.place(start, end);
        if lane > 0 {
            self.report.overlaps += 1;
        }
        if lane == stream_row.heads.len() {
            let number = process
                .devices
                .get(device)
                .map_or(0, |device| device.number);
            let pid = state.gpu_pid + number;
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            stream_row
                .heads
                .push(format!("{pid},\"tid\":{tid},\"ts\":").into_bytes());
            let stream = &process.streams[stream];
            let name = format!("{} (overlap {lane})", stream_name(stream).trim_end());
            let mut rows = Vec::new();
            name_thread(&mut rows, pid, tid, &name, stream.number);
            self.rows.extend_from_slice(&rows);
            self.out.block.extend_from_slice(&rows);
        }
        let target = process
            .launches
            .target(record.correlation_id(), record.ancestor_id());
        let is_kernel = record.kind() == Some(Kind::Dispatch);
        // Copies have no queue; kineto writes 0.
        let queue = if is_kernel { record.queue() } else { 0 };
        if stream_row.queue != queue {
            stream_row.queue = queue;
            stream_row.queue_args = queue_args(&stream_row.args, process, queue);
        }
        let kernel = if is_kernel {
            let at = process.kernel(record.kernel_id());
            if at >= state.kernels.len() {
                state.add_kernels(process);
            }
            let text = &mut state.kernels[at];
            let words = record.words();
            if words[11..16] != text.shape_of {
                text.shape_of.copy_from_slice(&words[11..16]);
                shape_args(&mut text.shape, process, record, &text.name);
            }
            Some(&state.kernels[at])
        } else {
            None
        };
        let stream_row = &state.stream_rows[row];
        let line = &mut self.line;
        let (kind, copy_name) = copy_names(record.operation());
        line.begin();
        match kernel {
            Some(text) => line.text(&text.name.head),
            None => line
                .put(b",\n{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"")
                .text(copy_name.as_bytes())
                .put(b"\",\"pid\":"),
        };
        let head = &stream_row.heads[lane];
        line.text(head);
        let ts = line.place();
        line.micros(start - self.base_ns);
        let ts = (ts, line.place());
        duration_and_external(line, record, end - start);
        line.text(&stream_row.queue_args);
        let joined = target.unwrap_or(record.correlation_id());
        let correlation = line.place();
        line.number(process.correlation(joined));
        let correlation = (correlation, line.place());
        if let Some(text) = kernel {
            line.text(&text.shape).number(record.dispatch_id());
        } else {
            let args = &mut self.rare_args;
            args.clear();
            args.extend_from_slice(b",\"kind\":\"");
            args.extend_from_slice(kind.as_bytes());
            args.extend_from_slice(b"\",\"bytes\":");
            push_u64(args, record.bytes());
            if end > start {
                args.extend_from_slice(b",\"memory bandwidth (GB/s)\":");
                push_f64(args, record.bytes() as f64 / (end - start) as f64);
            }
            if record.word(11) != 0 || record.word(12) != 0 {
                args.extend_from_slice(b",\"src\":");
                push_hex(args, record.word(11));
                args.extend_from_slice(b",\"dst\":");
                push_hex(args, record.word(12));
            }
            line.text(args);
        }
        if !process.externals.is_empty() {
            self.rare_args.clear();
            external_args(&mut self.rare_args, process, joined);
            line.text(&self.rare_args);
        }
        if joined != record.correlation_id() {
            line.put(b",\"own correlation\":");
            line.number(process.correlation(record.correlation_id()));
        }
        line.put(b"}}");
        if is_kernel {
            self.report.kernels += 1;
        } else {
            self.report.copies += 1;
        }
        let launched = target.is_some_and(|target| state.launched.contains(target));
        match target {
            None => self.report.unlinked += 1,
            Some(_) if launched => self.report.arrows += 1,
            // The call comes later in time, or lies in an earlier part.
            Some(target) => {
                self.report.before_launch += u64::from(!state.launched_earlier.contains(target));
            }
        }
        if launched {
            line.put(b",\n{\"ph\":\"f\",\"id\":").again(correlation);
            line.put(b",\"pid\":").text(head).again(ts);
            line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
        }
        self.out.block.extend_from_slice(line.as_bytes());
    }

    /// The text of a string fact, once for all.
    fn name(&mut self, process: &Process<'_>, index: usize, id: u64) {
        self.states[index]
            .names
            .entry(id)
            .or_insert_with(|| named("user_annotation", &process.name(id)));
    }

    fn range(
        &mut self,
        process: &Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) {
        let (row, lane) = self.thread_lane(process, index, record, start, end);
        let open = record.kind() == Some(Kind::OpenRange) || record.end() == 0;
        self.name(process, index, record.name_id());
        let state = &self.states[index];
        let text = &state.names[&record.name_id()];
        let block = &mut self.out.block;
        block.extend_from_slice(&text.head);
        push_u64(block, state.pid);
        block.extend_from_slice(b",\"tid\":");
        block.extend_from_slice(&state.thread_rows[row].tids[lane]);
        block.extend_from_slice(b",\"ts\":");
        push_micros(block, start - self.base_ns);
        block.extend_from_slice(b",\"dur\":");
        push_micros(block, end - start);
        block.extend_from_slice(b",\"args\":{\"session\":");
        push_u64(block, record.session().into());
        block.extend_from_slice(&text.args);
        if open {
            block.extend_from_slice(b",\"open\":true");
        }
        block.extend_from_slice(b"}}");
        self.report.ranges += 1;
    }

    fn range_by_id(
        &mut self,
        process: &Process<'_>,
        index: usize,
        started: &Started,
        end: u64,
        open: bool,
    ) {
        self.name(process, index, started.name);
        let state = &mut self.states[index];
        while state.range_rows <= started.lane {
            let tid = RANGES_TID_FIRST + state.range_rows as u64;
            state.range_rows += 1;
            let mut rows = Vec::new();
            name_thread(&mut rows, state.pid, tid, "ranges by id", RANGES_TID_FIRST);
            self.rows.extend_from_slice(&rows);
            self.out.block.extend_from_slice(&rows);
        }
        let text = &state.names[&started.name];
        let block = &mut self.out.block;
        block.extend_from_slice(&text.head);
        push_u64(block, state.pid);
        block.extend_from_slice(b",\"tid\":");
        push_u64(block, RANGES_TID_FIRST + started.lane as u64);
        block.extend_from_slice(b",\"ts\":");
        push_micros(block, started.start - self.base_ns);
        block.extend_from_slice(b",\"dur\":");
        push_micros(block, end.saturating_sub(started.start));
        block.extend_from_slice(b",\"args\":{\"thread\":");
        push_u64(block, started.thread.into());
        block.extend_from_slice(&text.args);
        if open {
            block.extend_from_slice(b",\"open\":true");
        }
        block.extend_from_slice(b"}}");
        self.report.ranges += 1;
    }

    fn instant(&mut self, process: &Process<'_>, index: usize, record: &Record<'_>, start: u64) {
        let row = self.states[index].thread(process, record.thread());
        let state = &mut self.states[index];
        let block = &mut self.out.block;
        block.extend_from_slice(
            b",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"",
        );
        let mut args: Vec<u8> = Vec::new();
        match record.kind() {
            Some(Kind::Alloc) => {
                block.extend_from_slice(b"[memory]");
                let change = state.memory.change(record);
                let (device, kind) = match process.facts.agent(record.agent()) {
                    Some(agent) if agent.is_gpu() => (i64::from(agent.type_index), 6),
                    _ => (-1, 0),
                };
                let _ = write!(
                    args,
                    "\"Addr\":{},\"Bytes\":{},\"Total Allocated\":{},\"Total Reserved\":{},\"Device Id\":{device},\"Device Type\":{kind},\"correlation\":{}",
                    record.word(11),
                    change.bytes,
                    change.total,
                    change.total,
                    process.correlation(record.correlation_id()),
                );
            }
            Some(Kind::Scratch) => {
                let what = match record.operation() {
                    1 => "scratch alloc",
                    2 => "scratch free",
                    3 => "scratch reclaim",
                    _ => "scratch",
                };
                block.extend_from_slice(what.as_bytes());
                let _ = write!(
                    args,
                    "\"bytes\":{},\"hsa_queue\":{},\"duration ns\":{}",
                    record.bytes(),
                    record.queue(),
                    record.end().saturating_sub(record.start())
                );
            }
            _ => {
                let name = process.name(record.name_id());
                push_escaped(block, &name);
                let _ = write!(args, "\"session\":{}", record.session());
                if !is_utf8(&name) {
                    args.extend_from_slice(b",\"name bytes\":");
                    push_hex_bytes(&mut args, &name);
                }
            }
        }
        block.extend_from_slice(b"\",\"pid\":");
        push_u64(block, state.pid);
        block.extend_from_slice(b",\"tid\":");
        block.extend_from_slice(&state.thread_rows[row].tids[0]);
        block.extend_from_slice(b",\"ts\":");
        push_micros(block, start - self.base_ns);
        block.extend_from_slice(b",\"args\":{");
        block.extend_from_slice(&args);
        block.extend_from_slice(b"}}");
        self.report.instants += 1;
    }
}

/// A stream's arguments with a queue, up to and with the key of the correlation.
fn queue_args(args: &[u8], process: &Process<'_>, queue: u64) -> Vec<u8> {
    let mut out = args.to_vec();
    if !process.is_cuda() {
        out.extend_from_slice(b",\"hsa_queue\":");
        push_u64(&mut out, queue);
    }
    out.extend_from_slice(b",\"correlation\":");
    out
}

/// What a dispatch's size says, and what goes with its kernel.
fn shape_args(shape: &mut Vec<u8>, process: &Process<'_>, record: &Record<'_>, name: &Text) {
    shape.clear();
    shape.extend_from_slice(b",\"kind\":\"Dispatch Kernel\"");
    triple(shape, b",\"grid\":", process.grid(record));
    triple(shape, b",\"block\":", record.block());
    let (private, group) = (low(record.word(14)), high(record.word(14)));
    if group != 0 {
        shape.extend_from_slice(b",\"shared memory\":");
        push_u64(shape, group.into());
    }
    if private != 0 {
        shape.extend_from_slice(b",\"scratch\":");
        push_u64(shape, private.into());
    }
    let graph = record.word(15);
    if graph != 0 {
        shape.extend_from_slice(b",\"graph id\":");
        push_u64(shape, low(graph).into());
        shape.extend_from_slice(b",\"graph node id\":");
        push_u64(shape, high(graph).into());
    }
    shape.extend_from_slice(&name.args);
    shape.extend_from_slice(b",\"dispatch\":");
}

/// External ids of the domains that kineto's dialect has no name for.
#[inline]
fn external_args(block: &mut Vec<u8>, process: &Process<'_>, correlation_id: u64) {
    for (domain, id) in process.externals.of(correlation_id) {
        block.extend_from_slice(b",\"External id (domain ");
        push_u64(block, domain.into());
        block.extend_from_slice(b")\":");
        push_u64(block, id);
    }
}

/// The duration, the key of the arguments, and the external id if there is one.
#[inline]
fn duration_and_external(line: &mut Line, record: &Record<'_>, duration: u64) {
    line.put(b",\"dur\":").micros(duration);
    line.put(b",\"args\":{");
    if record.external_id() != 0 {
        line.put(b"\"External id\":").number(record.external_id());
        line.put(b",");
    }
}

/// Sizes of a launch, in work-groups.
#[inline]
fn launch_args(line: &mut Line, record: &Record<'_>) {
    let word = record.word(15);
    let size = [word as u16, (word >> 16) as u16, (word >> 32) as u16].map(u32::from);
    let mut grid = [
        low(record.word(13)),
        high(record.word(13)),
        low(record.word(14)),
    ];
    if record.word(8) & api_arg::GRID_IN_ITEMS != 0 {
        grid = std::array::from_fn(|axis| grid[axis].div_ceil(size[axis].max(1)));
    }
    line.put(b",\"grid\":").triple(grid);
    line.put(b",\"block\":").triple(size);
    line.put(b",\"shared memory\":");
    line.number(high(record.word(14)).into());
}

/// What a call's other arguments say.
fn call_args(block: &mut Vec<u8>, record: &Record<'_>) {
    let mask = record.word(8);
    if mask & api_arg::BYTES != 0 {
        block.extend_from_slice(b",\"bytes\":");
        push_u64(block, record.word(9));
    }
    if mask & api_arg::COPY_KIND != 0 {
        block.extend_from_slice(b",\"copy kind\":");
        push_u64(block, low(record.word(12)).into());
    }
    if mask & api_arg::SOURCE != 0 {
        block.extend_from_slice(b",\"src\":");
        push_hex(block, record.word(11));
    }
    for (bit, key) in [
        (api_arg::DESTINATION, &b",\"dst\":"[..]),
        (api_arg::GRAPH, b",\"graph\":"),
        (api_arg::EVENT, b",\"event\":"),
    ] {
        if mask & bit != 0 {
            block.extend_from_slice(key);
            push_hex(block, record.word(10));
        }
    }
    if record.return_value() != 0 {
        block.extend_from_slice(b",\"return\":");
        push_i64(block, record.return_value().into());
    }
    if matches!(record.kind(), Some(Kind::OpenCall)) || record.end() == 0 {
        block.extend_from_slice(b",\"open\":true");
    }
}

impl Visitor for Chrome<'_> {
    #[inline]
    fn item(
        &mut self,
        process: &mut Process<'_>,
        index: usize,
        record: &Record<'_>,
        start: u64,
        end: u64,
    ) -> Result<(), ExportError> {
        match record.kind() {
            Some(Kind::Api | Kind::OpenCall) => self.call(process, index, record, start, end),
            Some(Kind::Dispatch | Kind::Copy) => self.work(process, index, record, start, end),
            Some(Kind::Range | Kind::OpenRange) => self.range(process, index, record, start, end),
            Some(Kind::Mark | Kind::Alloc | Kind::Scratch) => {
                self.instant(process, index, record, start);
            }
            Some(Kind::RangeStart) => self.states[index].ranges.start(
                record.word(5),
                start,
                record.name_id(),
                record.session(),
                record.thread(),
            ),
            Some(Kind::RangeStop) => {
                if let Some(started) = self.states[index].ranges.stop(record.word(5)) {
                    self.range_by_id(process, index, &started, start, false);
                }
            }
            _ => return Ok(()),
        }
        self.flow()
    }

    fn bytes(&self) -> u64 {
        self.out.bytes()
    }
}
