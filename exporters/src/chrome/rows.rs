//! Metadata rows: the names of processes, threads and streams, and what each is sorted by.

use crate::model::{Process, StreamOut};
use crate::text::{push_string, push_u64};

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

pub(super) fn name_thread(out: &mut Vec<u8>, pid: u64, tid: u64, name: &str, sort_index: u64) {
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
pub(super) fn name_process(out: &mut Vec<u8>, pid: u64, name: &str, label: &str) {
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

pub(super) fn thread_name(process: &Process<'_>, thread: u32, tid: u64) -> String {
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

pub(super) fn stream_name(stream: &StreamOut) -> String {
    if !stream.known {
        "unknown stream".to_owned()
    } else if stream.note.is_empty() {
        // The space at the end is the dialect's.
        format!("stream {} ", stream.number)
    } else {
        format!("stream {} ({})", stream.number, stream.note)
    }
}
