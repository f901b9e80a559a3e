//! Chrome JSON in kineto's dialect, made so that the strictest of its readers has nothing to complain about.
//!
//! One event a line, in the order of time, metadata rows first. What differs from kineto's own files, on purpose:
//!
//! * Flows: one `s` on a call that launched something, one `f` on each kernel and copy; none anywhere else. kineto ends a
//!   flow on every call that starts none, and graph launches start none. Where the clocks say that work began before its
//!   call, the arrow ends when the call begins, if the work still runs then: readers take an `f` anywhere inside its
//!   event, and none that lies before the `s`.
//! * GPUs have process ids of their own (5000000 + n), which no Linux process has; `args.device` is the device number.
//! * Streams count from 1; work on a stream that nobody knows has a row of that name.
//! * Grids are work-groups, on every row.
//! * A kernel that overlaps another of its stream goes to a further row of that stream.
//! * Times are exact: no shift by a nanosecond, nothing clipped.
//!
//! Times are microseconds with three decimals since `baseTimeNanoseconds`, a multiple of a quarter year, so that
//! nanoseconds survive a double.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::io::Write;

use strandline::record::{Kind, Record, api_arg, high, low};

use crate::completeness;
use crate::export::{ExportError, ExportReport};
use crate::join::{IdMap, Ids, LaunchTable, Numbers, Recent};
use crate::lanes::{FlatLanes, NestedLanes, RangesById, Started};
use crate::memory::Memory;
use crate::model::{Device, Model, Process, StreamOut, category, copy_names};
use crate::order::Item;
use crate::out::Output;
use crate::pipeline::{Chunk, Formatter, Insert, Inserts, What, Writer};
use crate::text::{
    Line, Moments, is_utf8, push_escaped, push_f64, push_hex, push_hex_bytes, push_i64,
    push_micros, push_string, push_u64,
};

/// `baseTimeNanoseconds` is a multiple of this: three average months, kineto's own constant.
const BASE_STEP_NS: u64 = 7_889_238 * 1_000_000_000;
/// First thread id of further rows of a stream or thread.
const LANE_TID_FIRST: u32 = 1_500_000_000;
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
    /// Thread id of each lane.
    tids: Vec<u32>,
}

/// A thread's row, and lanes for what overlaps in part.
#[derive(Debug)]
struct ThreadRow {
    lanes: NestedLanes,
    tids: Vec<u32>,
}

/// A stream's texts.
#[derive(Debug)]
struct StreamText {
    gpu_pid: u64,
    /// `<pid>,"tid":<tid>,"ts":` of the lane that was used last.
    tid: u32,
    head: Vec<u8>,
    /// `"device":0,"stream":1,"stream handle":"0x..."`.
    args: Vec<u8>,
    /// The same with the queue that was used last, up to and with `"correlation":`.
    queue: u64,
    queue_args: Vec<u8>,
}

impl StreamText {
    /// Makes the texts of a lane and a queue, where they are not those of the last event.
    #[inline]
    fn turn_to(&mut self, process: &Process<'_>, tid: u32, queue: u64) {
        if self.tid != tid {
            self.tid = tid;
            self.head.clear();
            push_u64(&mut self.head, self.gpu_pid);
            self.head.extend_from_slice(b",\"tid\":");
            push_u64(&mut self.head, tid.into());
            self.head.extend_from_slice(b",\"ts\":");
        }
        if self.queue != queue {
            self.queue = queue;
            self.queue_args = queue_args(&self.args, process, queue);
        }
    }
}

#[derive(Clone, Debug, Default)]
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

/// Work that began before its call.
#[derive(Clone, Copy, Debug)]
struct Early {
    end: u64,
    pid: u64,
    tid: u32,
    /// Number of its record in the whole export.
    number: u64,
}

/// What is decided of a process's records.
#[derive(Debug)]
struct State {
    pid: u64,
    gpu_pid: u64,
    launches: LaunchTable,
    streams: IdMap<u64, u32>,
    stream_rows: Vec<StreamRow>,
    /// Rows by agent and stream id.
    newest_rows: Recent<(u64, u32), u32>,
    threads: IdMap<u32, u32>,
    thread_rows: Vec<ThreadRow>,
    newest_threads: Recent<u32, u32>,
    /// By call: work that began before it, while it runs; and when each ends.
    early: IdMap<u64, Vec<Early>>,
    early_ends: BinaryHeap<Reverse<(u64, u64)>>,
    ranges: RangesById,
    range_rows: usize,
    memory: Memory,
    next_lane_tid: u32,
}

/// What an event needs to know of those before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decision {
    tid: u32,
    /// Row of the stream, for device work.
    row: u32,
    flags: u8,
}

/// The event is written already, or there is none.
const NOTHING: u8 = 1;
/// An arrow begins or ends here.
const ARROW: u8 = 2;
/// The call that launched the work is named by its own correlation id, or by its ancestor.
const LINKED: u8 = 4;
const BY_ANCESTOR: u8 = 8;

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
    /// The metadata object without the counts, for parts that end early.
    part_end: Vec<u8>,
    /// By process: calls with an `s` in this part, when it is not the first.
    part_launched: Option<Vec<Ids>>,
    /// Records that were decided, that were stitched, and that are in earlier parts.
    decided: u64,
    stitched: u64,
    part_first: u64,
}

/// Texts of a process.
#[derive(Debug)]
struct Texts {
    operations: Vec<Text>,
    kernel_numbers: Numbers,
    kernels: Vec<KernelText>,
    /// By row.
    streams: Vec<Option<StreamText>>,
    names: HashMap<u64, Text>,
}

/// Makes events.
#[derive(Debug)]
pub(crate) struct Events {
    base_ns: u64,
    /// By process.
    texts: Vec<Texts>,
    moments: Moments,
    /// Arguments that most events do not have.
    rare_args: Vec<u8>,
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

/// The texts of a process's operations.
fn operation_texts(process: &Process<'_>) -> Vec<Text> {
    process
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
        .collect()
}

impl Texts {
    fn new(process: &Process<'_>) -> Self {
        Self {
            operations: operation_texts(process),
            kernel_numbers: Numbers::default(),
            kernels: Vec::new(),
            streams: Vec::new(),
            names: HashMap::new(),
        }
    }

    /// Takes up a kernel that was met for the first time.
    #[cold]
    fn add_kernel(&mut self, process: &Process<'_>, id: u64) {
        let kernel = process.kernel(id);
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

    /// Takes up a row that was met for the first time.
    #[cold]
    fn add_stream(&mut self, process: &Process<'_>, record: &Record<'_>, row: usize) {
        if self.streams.len() <= row {
            self.streams.resize_with(row + 1, || None);
        }
        let number = device_number(process, process.device(record));
        let stream = &process.streams[process.stream(record)];
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
        self.streams[row] = Some(StreamText {
            gpu_pid: process.gpu_pid + number,
            tid: 0,
            head: Vec::new(),
            args,
            queue: 0,
            queue_args,
        });
    }
}

/// The number of a device.
fn device_number(process: &Process<'_>, device: usize) -> u64 {
    process
        .devices
        .get(device)
        .map_or(0, |device| device.number)
}

impl State {
    fn new(process: &mut Process<'_>) -> Self {
        Self {
            pid: process.pid,
            gpu_pid: process.gpu_pid,
            launches: std::mem::take(&mut process.launches),
            streams: IdMap::default(),
            stream_rows: Vec::new(),
            newest_rows: Recent::default(),
            threads: IdMap::default(),
            thread_rows: Vec::new(),
            newest_threads: Recent::default(),
            early: IdMap::default(),
            early_ends: BinaryHeap::new(),
            ranges: RangesById::default(),
            range_rows: 0,
            memory: Memory::default(),
            next_lane_tid: LANE_TID_FIRST,
        }
    }

    /// Keeps work that began before its call, for as long as it runs.
    #[cold]
    fn add_early(&mut self, call: u64, now: u64, work: Early) {
        while let Some(&Reverse((end, call))) = self.early_ends.peek()
            && end <= now
        {
            self.early_ends.pop();
            if let Some(works) = self.early.get_mut(&call) {
                works.retain(|work| work.end > now);
                if works.is_empty() {
                    self.early.remove(&call);
                }
            }
        }
        self.early_ends.push(Reverse((work.end, call)));
        self.early.entry(call).or_default().push(work);
    }

    #[inline]
    fn thread(&mut self, process: &Process<'_>, thread: u32) -> usize {
        if let Some(at) = self.newest_threads.get(thread.into(), thread) {
            return at as usize;
        }
        let rows = &mut self.thread_rows;
        let at = *self.threads.entry(thread).or_insert_with(|| {
            let tid = process
                .threads
                .get(&thread)
                .map_or(thread, |thread| thread.tid as u32);
            rows.push(ThreadRow {
                lanes: NestedLanes::default(),
                tids: vec![tid],
            });
            rows.len() as u32 - 1
        });
        self.newest_threads.keep(thread.into(), thread, at);
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
    pub(crate) fn new(model: &mut Model<'_>, out: Output<'o>, part_bytes_max: u64) -> Self {
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
            report: model.report(),
            states: model.processes.iter_mut().map(State::new).collect(),
            header,
            rows,
            part_end: Vec::new(),
            part_launched: None,
            decided: 0,
            stitched: 0,
            part_first: 0,
        }
    }

    /// Writes the beginning. Call once, before the first event.
    pub(crate) fn begin(&mut self, model: &Model<'_>) -> Result<(), ExportError> {
        let mut end = Vec::new();
        completeness::push(&mut end, model, &self.report, 0);
        self.part_end = end;
        self.begin_part()
    }

    fn begin_part(&mut self) -> Result<(), ExportError> {
        self.out.append(&self.header)?;
        self.out.append(self.rows.get(2..).unwrap_or_default())
    }

    fn end_part(&mut self, object: &[u8]) -> Result<(), ExportError> {
        let mut text = b"\n],\n\"strandline\":".to_vec();
        text.extend_from_slice(object);
        text.extend_from_slice(b",\n\"traceName\":");
        push_string(&mut text, self.out.part_name().as_bytes());
        text.extend_from_slice(b"}\n");
        self.out.append(&text)
    }

    /// True when a part with `more` bytes more has no room left.
    fn is_full(&self, more: usize) -> bool {
        self.out.is_splittable()
            && self.out.part_bytes() + more as u64 + PART_END_BYTES > self.part_bytes_max
    }

    /// Between events: begins another part if this one holds more than what every part does.
    #[cold]
    fn split(&mut self) -> Result<(), ExportError> {
        let least = (self.header.len() + self.rows.len() + self.part_end.len()) as u64;
        if self.out.part_bytes() < least + PART_END_BYTES {
            return Err(ExportError::PartSize {
                bytes_max: self.part_bytes_max,
                needed: least + 2 * PART_END_BYTES,
            });
        }
        let object = std::mem::take(&mut self.part_end);
        self.end_part(&object)?;
        self.part_end = object;
        self.out.next_part()?;
        self.part_first = self.stitched;
        self.part_launched = Some(self.states.iter().map(|_| Ids::default()).collect());
        self.begin_part()
    }

    /// Takes a chunk event by event: there may be a part's end in it, or arrows from an earlier part.
    fn stitch_events(&mut self, chunk: &Chunk<'_, Decision>) -> Result<(), ExportError> {
        let bytes = chunk.bytes.as_bytes();
        let mut inserts = chunk.inserts().iter().peekable();
        // What lies before this is written.
        let mut written = 0;
        for (at, (item, decision)) in chunk.items.iter().zip(&chunk.decisions).enumerate() {
            while let Some(insert) = inserts.next_if(|insert| insert.before == at) {
                self.stitch_insert(insert, &mut written, bytes)?;
            }
            self.stitched += 1;
            let end = chunk.borders[at];
            if decision.flags & ARROW != 0
                && let Some(launched) = &mut self.part_launched
            {
                let launched = &mut launched[item.process()];
                if decision.flags & (LINKED | BY_ANCESTOR) == 0 {
                    launched.insert(item.record.correlation_id());
                } else if !launched.contains(target(&item.record, decision.flags)) {
                    // The call lies in an earlier part. The arrow is the last line of the event.
                    let event = &bytes[written..end];
                    let line = event.iter().rposition(|&byte| byte == b'\n');
                    let line = line.map_or(event.len(), |at| at.saturating_sub(1));
                    self.out.append(&event[..line])?;
                    written = end;
                    self.report.arrows -= 1;
                }
            }
            if self.is_full(end - written) {
                self.out.append(&bytes[written..end])?;
                written = end;
                self.split()?;
            }
        }
        for insert in inserts {
            self.stitch_insert(insert, &mut written, bytes)?;
        }
        self.out.append(&bytes[written..])
    }

    fn stitch_insert(
        &mut self,
        insert: &Insert,
        written: &mut usize,
        bytes: &[u8],
    ) -> Result<(), ExportError> {
        self.add_row(insert.what, insert.place, insert.length, bytes);
        if let What::Arrow(number) = insert.what
            && number < self.part_first
        {
            // The work lies in an earlier part.
            self.out.append(&bytes[*written..insert.place])?;
            *written = insert.place + insert.length;
            self.report.arrows -= 1;
        }
        Ok(())
    }

    /// Keeps a row for later parts.
    fn add_row(&mut self, what: What, place: usize, length: usize, bytes: &[u8]) {
        if what == What::Definition {
            self.rows.extend_from_slice(&bytes[place..place + length]);
        }
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
                let mut inserts = Inserts::default();
                self.range_by_id(process, index, &started, end, true, &mut inserts);
                let (list, texts) = inserts.take();
                let mut place = 0;
                for insert in list {
                    self.add_row(insert.what, place, insert.length, &texts);
                    place += insert.length;
                }
                self.append_event(&texts)?;
            }
            let mut notes = Vec::new();
            self.notes(process, &mut notes);
            self.append_event(&notes)?;
        }
        let part = self.out.part_number();
        let mut object = Vec::new();
        completeness::push(&mut object, model, &self.report, part);
        self.end_part(&object)?;
        *report = self.report;
        self.out.commit()
    }

    fn append_event(&mut self, text: &[u8]) -> Result<(), ExportError> {
        self.out.append(text)?;
        if self.is_full(0) {
            self.split()?;
        }
        Ok(())
    }

    fn notes(&mut self, process: &Process<'_>, block: &mut Vec<u8>) {
        let mut notes: Vec<_> = process.notes.iter().collect();
        notes.sort_by_key(|note| (note.start, Reverse(note.end)));
        let mut lanes = NestedLanes::default();
        for note in notes {
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

    /// Thread id of the lane of a span.
    #[inline]
    fn thread_lane(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> u32 {
        let state = &mut self.states[item.process()];
        let thread = item.key;
        let at = state.thread(process, thread);
        let row = &mut state.thread_rows[at];
        let lane = row.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.host_overlaps += 1;
        }
        if lane == row.tids.len() {
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            row.tids.push(tid);
            let own = process.threads.get(&thread).map_or(0, |thread| thread.tid);
            let name = format!("{} (overlap {lane})", thread_name(process, thread, own));
            inserts.add(What::Definition, |out| {
                name_thread(out, state.pid, tid.into(), &name, own);
            });
        }
        row.tids[lane]
    }

    #[inline]
    fn call(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let tid = self.thread_lane(process, item, inserts);
        let id = item.id;
        let state = &mut self.states[item.process()];
        // A second call with the same id would start the same arrows again.
        let launched = id != 0 && state.launches.claim(id);
        if launched && !state.early.is_empty() {
            self.end_early(process, item, inserts);
        }
        self.report.calls += 1;
        Decision {
            tid,
            row: 0,
            flags: if launched { ARROW } else { 0 },
        }
    }

    /// Ends the arrows of a call on work that began before it and still runs.
    #[cold]
    fn end_early(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) {
        let (id, start) = (item.record.correlation_id(), item.place.start);
        let early = self.states[item.process()].early.remove(&id);
        for work in early.unwrap_or_default() {
            // An event holds the moments before its end, not the end.
            if work.end <= start {
                continue;
            }
            self.report.arrows += 1;
            inserts.add_behind(What::Arrow(work.number), |out| {
                out.extend_from_slice(b",\n{\"ph\":\"f\",\"id\":");
                push_u64(out, process.correlation(id));
                out.extend_from_slice(b",\"pid\":");
                push_u64(out, work.pid);
                out.extend_from_slice(b",\"tid\":");
                push_u64(out, work.tid.into());
                out.extend_from_slice(b",\"ts\":");
                push_micros(out, start - self.base_ns);
                out.extend_from_slice(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
            });
        }
    }

    /// Index of the row of the device and stream that work is drawn on.
    #[inline]
    fn stream_row(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> usize {
        let state = &self.states[item.process()];
        // Where there is one device, nobody need ask which.
        let agent = if process.devices.len() > 1 {
            process.shown.work_agent(&item.record)
        } else {
            0
        };
        let key = (agent, item.key);
        match state.newest_rows.get(key.1.into(), key) {
            Some(at) => at as usize,
            None => {
                let at = self.find_row(process, item, inserts);
                let state = &mut self.states[item.process()];
                state.newest_rows.keep(key.1.into(), key, at);
                at as usize
            }
        }
    }

    fn find_row(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> u32 {
        let (device, stream) = (process.device(&item.record), process.stream(&item.record));
        let state = &mut self.states[item.process()];
        let key = (device as u64) << 32 | stream as u64;
        if let Some(&at) = state.streams.get(&key) {
            return at;
        }
        let at = state.stream_rows.len() as u32;
        state.streams.insert(key, at);
        let stream = &process.streams[stream];
        let pid = state.gpu_pid + device_number(process, device);
        state.stream_rows.push(StreamRow {
            lanes: FlatLanes::default(),
            tids: vec![stream.number as u32],
        });
        inserts.add(What::Definition, |out| {
            let name = stream_name(stream);
            name_thread(out, pid, stream.number, &name, stream.number);
        });
        at
    }

    #[inline]
    fn work(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let record = &item.record;
        let row = self.stream_row(process, item, inserts);
        let state = &mut self.states[item.process()];
        let stream_row = &mut state.stream_rows[row];
        let lane = stream_row.lanes.place(item.place.start, item.place.end);
        if lane > 0 {
            self.report.overlaps += 1;
        }
        if lane == stream_row.tids.len() {
            let pid = state.gpu_pid + device_number(process, process.device(record));
            let tid = state.next_lane_tid;
            state.next_lane_tid += 1;
            stream_row.tids.push(tid);
            let stream = &process.streams[process.stream(record)];
            let name = format!("{} (overlap {lane})", stream_name(stream).trim_end());
            inserts.add(What::Definition, |out| {
                name_thread(out, pid, tid.into(), &name, stream.number);
            });
        }
        let tid = stream_row.tids[lane];
        if item.kind == Some(Kind::Dispatch) {
            self.report.kernels += 1;
        } else {
            self.report.copies += 1;
        }
        let mut flags = 0;
        match state.launches.target(item.id, || record.ancestor_id()) {
            None => self.report.unlinked += 1,
            Some(target) => {
                flags = if target == item.id {
                    LINKED
                } else {
                    BY_ANCESTOR
                };
                if state.launches.is_claimed(target) {
                    flags |= ARROW;
                    self.report.arrows += 1;
                } else {
                    // The call comes later in time.
                    self.report.before_launch += 1;
                    let early = Early {
                        end: item.place.end,
                        pid: state.gpu_pid + device_number(process, process.device(record)),
                        tid,
                        number: self.decided - 1,
                    };
                    state.add_early(target, item.place.start, early);
                }
            }
        }
        Decision {
            tid,
            row: row as u32,
            flags,
        }
    }

    fn range_by_id(
        &mut self,
        process: &Process<'_>,
        index: usize,
        started: &Started,
        end: u64,
        open: bool,
        inserts: &mut Inserts,
    ) {
        let state = &mut self.states[index];
        while state.range_rows <= started.lane {
            let tid = RANGES_TID_FIRST + state.range_rows as u64;
            state.range_rows += 1;
            inserts.add(What::Definition, |out| {
                name_thread(out, state.pid, tid, "ranges by id", RANGES_TID_FIRST);
            });
        }
        let text = named("user_annotation", &process.name(started.name));
        inserts.add(What::Event, |block| {
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
        });
        self.report.ranges += 1;
    }

    /// What is rare, or has no event of its own.
    fn rare(&mut self, process: &Process<'_>, item: &Item<'_>, inserts: &mut Inserts) -> Decision {
        let (index, record, start) = (item.process(), &item.record, item.place.start);
        let nothing = Decision {
            tid: 0,
            row: 0,
            flags: NOTHING,
        };
        match record.kind() {
            Some(Kind::Range | Kind::OpenRange) => {
                let tid = self.thread_lane(process, item, inserts);
                self.report.ranges += 1;
                return Decision {
                    tid,
                    row: 0,
                    flags: 0,
                };
            }
            Some(Kind::Mark | Kind::Alloc | Kind::Scratch) => {
                let state = &mut self.states[index];
                let row = state.thread(process, item.key);
                let tid = state.thread_rows[row].tids[0];
                self.report.instants += 1;
                if record.kind() != Some(Kind::Alloc) {
                    return Decision {
                        tid,
                        row: 0,
                        flags: 0,
                    };
                }
                let change = state.memory.change(record);
                let (device, kind) = match process.facts.agent(record.agent()) {
                    Some(agent) if agent.is_gpu() => (i64::from(agent.type_index), 6),
                    _ => (-1, 0),
                };
                let args = format!(
                    "\"Addr\":{},\"Bytes\":{},\"Total Allocated\":{},\"Total Reserved\":{},\"Device Id\":{device},\"Device Type\":{kind},\"correlation\":{}",
                    record.word(11),
                    change.bytes,
                    change.total,
                    change.total,
                    process.correlation(record.correlation_id()),
                );
                inserts.add(What::Event, |out| {
                    let place = (state.pid, tid, start - self.base_ns);
                    instant(out, b"[memory]", place, args.as_bytes());
                });
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
                    self.range_by_id(process, index, &started, start, false, inserts);
                }
            }
            _ => {}
        }
        nothing
    }
}

/// The call that work leads to.
#[inline]
fn target(record: &Record<'_>, flags: u8) -> u64 {
    if flags & BY_ANCESTOR != 0 {
        record.ancestor_id()
    } else {
        record.correlation_id()
    }
}

/// An instant on a thread; the time is that of the output.
fn instant(out: &mut Vec<u8>, name: &[u8], (pid, tid, time): (u64, u32, u64), args: &[u8]) {
    out.extend_from_slice(
        b",\n{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"s\":\"t\",\"name\":\"",
    );
    push_escaped(out, name);
    out.extend_from_slice(b"\",\"pid\":");
    push_u64(out, pid);
    out.extend_from_slice(b",\"tid\":");
    push_u64(out, tid.into());
    out.extend_from_slice(b",\"ts\":");
    push_micros(out, time);
    out.extend_from_slice(b",\"args\":{");
    out.extend_from_slice(args);
    out.extend_from_slice(b"}}");
}

impl Events {
    fn call(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let operation = process.operation(record);
        let correlation_id = record.correlation_id();
        let text = &self.texts[item.process()].operations[operation];
        let tid = u64::from(decision.tid);
        line.text(&text.head).number(tid).put(b",\"ts\":");
        let ts = line.place();
        self.moments.put(line, start - self.base_ns);
        let ts = (ts, line.place());
        line.put(b",\"dur\":").micros(end - start);
        line.put(b",\"args\":{");
        external_id(line, record.external_id());
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
        if decision.flags & ARROW != 0 {
            line.put(b",\n{\"ph\":\"s\",\"id\":").again(correlation);
            line.put(b",\"pid\":").number(process.pid).put(b",\"tid\":");
            line.number(tid).put(b",\"ts\":").again(ts);
            line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
        }
    }

    fn kernel(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let record = &item.record;
        // Every dispatch has two cells.
        let Some(words) = record.words().first_chunk::<16>() else {
            return;
        };
        let texts = &mut self.texts[item.process()];
        let row = decision.row as usize;
        let (at, is_new) = texts.kernel_numbers.of(words[6]);
        if is_new {
            texts.add_kernel(process, words[6]);
        }
        if !matches!(texts.streams.get(row), Some(Some(_))) {
            texts.add_stream(process, record, row);
        }
        let (Some(kernel), Some(Some(stream))) =
            (texts.kernels.get_mut(at), texts.streams.get_mut(row))
        else {
            return;
        };
        let shape = [words[11], words[12], words[13], words[14], words[15]];
        if (shape.iter().zip(&kernel.shape_of)).any(|(one, other)| one != other) {
            kernel.shape_of = shape;
            shape_args(&mut kernel.shape, process, record, &kernel.name);
        }
        stream.turn_to(process, decision.tid, words[9]);
        let (start, end) = (item.place.start, item.place.end);
        line.text(&kernel.name.head).text(&stream.head);
        let ts = line.place();
        self.moments.put(line, start - self.base_ns);
        let ts = (ts, line.place());
        line.put(b",\"dur\":").micros(end - start);
        line.put(b",\"args\":{");
        external_id(line, words[7]);
        line.text(&stream.queue_args);
        let joined = target(record, decision.flags);
        let correlation = line.place();
        line.number(process.correlation(joined));
        let correlation = (correlation, line.place());
        line.text(&kernel.shape).number(words[5]);
        if !process.externals.is_empty() {
            self.rare_args.clear();
            external_args(&mut self.rare_args, process, joined);
            line.text(&self.rare_args);
        }
        end_work(line, process, (joined, words[3]));
        if decision.flags & ARROW != 0 {
            arrow_end(line, correlation, &stream.head, ts);
        }
    }

    fn copy(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        line: &mut Line,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let texts = &mut self.texts[item.process()];
        let row = decision.row as usize;
        if !matches!(texts.streams.get(row), Some(Some(_))) {
            texts.add_stream(process, record, row);
        }
        let Some(Some(stream)) = texts.streams.get_mut(row) else {
            return;
        };
        // Copies have no queue; kineto writes 0.
        stream.turn_to(process, decision.tid, 0);
        let (kind, copy_name) = copy_names(record.operation());
        line.text(b",\n{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"")
            .text(copy_name.as_bytes())
            .put(b"\",\"pid\":")
            .text(&stream.head);
        let ts = line.place();
        self.moments.put(line, start - self.base_ns);
        let ts = (ts, line.place());
        line.put(b",\"dur\":").micros(end - start);
        line.put(b",\"args\":{");
        external_id(line, record.external_id());
        line.text(&stream.queue_args);
        let joined = target(record, decision.flags);
        let correlation = line.place();
        line.number(process.correlation(joined));
        let correlation = (correlation, line.place());
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
        if !process.externals.is_empty() {
            external_args(args, process, joined);
        }
        line.text(args);
        end_work(line, process, (joined, record.correlation_id()));
        if decision.flags & ARROW != 0 {
            arrow_end(line, correlation, &stream.head, ts);
        }
    }

    fn range(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        block: &mut Vec<u8>,
    ) {
        let (record, start, end) = (&item.record, item.place.start, item.place.end);
        let open = record.kind() == Some(Kind::OpenRange) || record.end() == 0;
        let names = &mut self.texts[item.process()].names;
        let text = names
            .entry(record.name_id())
            .or_insert_with(|| named("user_annotation", &process.name(record.name_id())));
        block.extend_from_slice(&text.head);
        push_u64(block, process.pid);
        block.extend_from_slice(b",\"tid\":");
        push_u64(block, decision.tid.into());
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
    }

    fn mark(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Vec<u8>,
    ) {
        let record = &item.record;
        let place = (process.pid, decision.tid, item.place.start - self.base_ns);
        let args = &mut self.rare_args;
        args.clear();
        if record.kind() == Some(Kind::Scratch) {
            let what = match record.operation() {
                1 => "scratch alloc",
                2 => "scratch free",
                3 => "scratch reclaim",
                _ => "scratch",
            };
            let _ = write!(
                args,
                "\"bytes\":{},\"hsa_queue\":{},\"duration ns\":{}",
                record.bytes(),
                record.queue(),
                record.end().saturating_sub(record.start())
            );
            instant(out, what.as_bytes(), place, args);
            return;
        }
        let name = process.name(record.name_id());
        let _ = write!(args, "\"session\":{}", record.session());
        if !is_utf8(&name) {
            args.extend_from_slice(b",\"name bytes\":");
            push_hex_bytes(args, &name);
        }
        instant(out, &name, place, args);
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

/// The external id, if there is one.
#[inline]
fn external_id(line: &mut Line, id: u64) {
    if id != 0 {
        line.put(b"\"External id\":").number(id).put(b",");
    }
}

/// The end of device work that is joined to a call, with its own id if that is another.
#[inline]
fn end_work(line: &mut Line, process: &Process<'_>, (joined, own): (u64, u64)) {
    if joined != own {
        line.put(b",\"own correlation\":");
        line.number(process.correlation(own));
    }
    line.put(b"}}");
}

/// The end of an arrow on device work; the id and the time are those of its event.
#[inline]
fn arrow_end(line: &mut Line, id: (usize, usize), head: &[u8], time: (usize, usize)) {
    line.put(b",\n{\"ph\":\"f\",\"id\":").again(id);
    line.put(b",\"pid\":").text(head).again(time);
    line.put(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
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

impl Writer for Chrome<'_> {
    type Decision = Decision;
    type Formatter = Events;

    const DECIDES_BY_RECORDS: bool = false;

    #[inline]
    fn decide(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        inserts: &mut Inserts,
    ) -> Decision {
        self.decided += 1;
        match item.kind {
            Some(Kind::Api | Kind::OpenCall) => self.call(process, item, inserts),
            Some(Kind::Dispatch | Kind::Copy) => self.work(process, item, inserts),
            _ => self.rare(process, item, inserts),
        }
    }

    fn formatter(&self, processes: &[Process<'_>]) -> Events {
        Events {
            base_ns: self.base_ns,
            texts: processes.iter().map(Texts::new).collect(),
            moments: Moments::default(),
            rare_args: Vec::new(),
        }
    }

    fn stitch(&mut self, chunk: &mut Chunk<'_, Decision>) -> Result<(), ExportError> {
        if self.part_launched.is_some() || self.is_full(chunk.bytes.place()) {
            return self.stitch_events(chunk);
        }
        self.stitched += chunk.items.len() as u64;
        if self.out.is_splittable() {
            for at in 0..chunk.inserts().len() {
                let insert = chunk.inserts()[at];
                self.add_row(
                    insert.what,
                    insert.place,
                    insert.length,
                    chunk.bytes.as_bytes(),
                );
            }
        }
        self.out.give(chunk.bytes.finish())
    }

    fn bytes(&self) -> u64 {
        self.out.bytes()
    }
}

impl Formatter for Events {
    type Decision = Decision;

    #[inline]
    fn format(
        &mut self,
        process: &Process<'_>,
        item: &Item<'_>,
        decision: Decision,
        out: &mut Line,
    ) {
        if decision.flags & NOTHING != 0 {
            return;
        }
        match item.kind {
            Some(Kind::Api | Kind::OpenCall) => self.call(process, item, decision, out),
            Some(Kind::Dispatch) => self.kernel(process, item, decision, out),
            Some(Kind::Copy) => self.copy(process, item, decision, out),
            Some(Kind::Range | Kind::OpenRange) => {
                out.by_vec(|out| self.range(process, item, decision, out));
            }
            Some(Kind::Mark | Kind::Scratch) => {
                out.by_vec(|out| self.mark(process, item, decision, out));
            }
            _ => {}
        }
    }
}
