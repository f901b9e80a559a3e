//! Texts that many events share: each is made once, when its operation, kernel or stream is met for the first time.

use std::collections::HashMap;

use strandline::record::{Record, high, low};

use crate::join::Numbers;
use crate::model::{Process, category};
use crate::text::{is_utf8, push_hex, push_hex_bytes, push_string, push_u64};

#[derive(Clone, Debug, Default)]
pub(super) struct Text {
    /// Up to and with `"pid":`.
    pub(super) head: Vec<u8>,
    /// What the name alone decides of the arguments.
    pub(super) args: Vec<u8>,
}

/// A kernel's text, and the arguments of its newest shape.
#[derive(Debug)]
pub(super) struct KernelText {
    pub(super) name: Text,
    /// Words 11 to 15 of the dispatch that `shape` was made from.
    pub(super) shape_of: [u64; 5],
    pub(super) shape: Vec<u8>,
}

/// A stream's texts.
#[derive(Debug)]
pub(super) struct StreamText {
    pub(super) gpu_pid: u64,
    /// `<pid>,"tid":<tid>,"ts":` of the lane that was used last.
    pub(super) tid: u32,
    pub(super) head: Vec<u8>,
    /// `"device":0,"stream":1,"stream handle":"0x..."`.
    pub(super) args: Vec<u8>,
    /// The same with the queue that was used last, up to and with `"correlation":`.
    pub(super) queue: u64,
    pub(super) queue_args: Vec<u8>,
}

impl StreamText {
    /// Makes the texts of a lane and a queue, where they are not those of the last event.
    #[inline]
    pub(super) fn turn_to(&mut self, process: &Process<'_>, tid: u32, queue: u64) {
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

/// Texts of a process.
#[derive(Debug)]
pub(super) struct Texts {
    pub(super) operations: Vec<Text>,
    pub(super) kernel_numbers: Numbers,
    pub(super) kernels: Vec<KernelText>,
    /// By row.
    pub(super) streams: Vec<Option<StreamText>>,
    pub(super) names: HashMap<u64, Text>,
}

impl Texts {
    pub(super) fn new(process: &Process<'_>) -> Self {
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
    pub(super) fn add_kernel(&mut self, process: &Process<'_>, id: u64) {
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
    pub(super) fn add_stream(&mut self, process: &Process<'_>, record: &Record<'_>, row: usize) {
        if self.streams.len() <= row {
            self.streams.resize_with(row + 1, || None);
        }
        let number = process.device_ids(process.device(record)).0;
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

/// `{"ph":"X","cat":"...","name":"...","pid":`, and what must be kept of the name beside.
pub(super) fn named(category: &str, name: &[u8]) -> Text {
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
pub(super) fn shape_args(
    shape: &mut Vec<u8>,
    process: &Process<'_>,
    record: &Record<'_>,
    name: &Text,
) {
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

pub(super) fn triple(out: &mut Vec<u8>, key: &[u8], value: [u32; 3]) {
    out.extend_from_slice(key);
    out.push(b'[');
    push_u64(out, value[0].into());
    out.push(b',');
    push_u64(out, value[1].into());
    out.push(b',');
    push_u64(out, value[2].into());
    out.push(b']');
}
