//! The ground truth, as JSON lines: what the simulation really did, to compare a trace with.
//!
//! Off unless `ROCSIM_LEDGER` names a file. One line for each dispatch and copy, written when its
//! handler has run (`"delivered":true`), when nobody traces it, or at the end of the process if it
//! was still outstanding (`"delivered":false`); then one line for each HIP function with its number
//! of calls. Lines are buffered and written in blocks, at every device synchronization, and when
//! the library's destructors run, which is after all `exit` handlers.

use std::collections::HashMap;
use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sim_interface::op_names;

use crate::runtime::{KIND_RUNTIME, lock};

/// Bytes that are collected before a write.
const BLOCK: usize = 1 << 16;

static ENABLED: AtomicBool = AtomicBool::new(false);
static STATE: Mutex<Option<State>> = Mutex::new(None);
static CALLS: [AtomicU64; 512] = [const { AtomicU64::new(0) }; 512];
static COMPILER_CALLS: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

struct State {
    file: File,
    text: Vec<u8>,
    /// Lines of what was not delivered yet, by sequence number.
    outstanding: HashMap<u64, Vec<u8>>,
    ended: bool,
}

/// One dispatch or copy.
pub(crate) struct Entry {
    pub(crate) kind: &'static str,
    pub(crate) sequence: u64,
    pub(crate) traced: bool,
    pub(crate) dispatch_id: u64,
    pub(crate) correlation_id: u64,
    pub(crate) thread_id: u64,
    pub(crate) name: CString,
    pub(crate) gpu: u32,
    /// Queue id; for copies the direction (1 H2H, 2 H2D, 3 D2H, 4 D2D).
    pub(crate) queue: u64,
    pub(crate) stream: u64,
    pub(crate) bytes: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) timed: bool,
}

impl Entry {
    fn line(&self, delivered: bool) -> Vec<u8> {
        let queue = if self.kind == "copy" {
            "direction"
        } else {
            "queue"
        };
        format!(
            "{{\"kind\":\"{}\",\"seq\":{},\"traced\":{},\"delivered\":{},\"timed\":{},\"dispatch_id\":{},\
             \"correlation_id\":{},\"thread\":{},\"kernel\":{},\"gpu\":{},\"{}\":{},\"stream\":{},\
             \"bytes\":{},\"start_ns\":{},\"end_ns\":{}}}\n",
            self.kind,
            self.sequence,
            self.traced,
            delivered,
            self.timed,
            self.dispatch_id,
            self.correlation_id,
            self.thread_id,
            json_string(&self.name.to_string_lossy()),
            self.gpu,
            queue,
            self.queue,
            self.stream,
            self.bytes,
            self.start,
            self.end,
        )
        .into_bytes()
    }
}

fn json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Is there a ledger?
#[inline]
pub(crate) fn enabled() -> bool {
    // Relaxed: set once, before the first packet.
    ENABLED.load(Ordering::Relaxed)
}

/// Opens the file, if one was asked for.
pub(crate) fn open(path: Option<&str>) {
    let Some(path) = path else { return };
    match File::create(path) {
        Ok(file) => {
            *lock(&STATE) = Some(State {
                file,
                text: Vec::with_capacity(BLOCK * 2),
                outstanding: HashMap::new(),
                ended: false,
            });
            ENABLED.store(true, Ordering::Relaxed);
        }
        Err(error) => eprintln!("stand-in HIP: cannot write ledger {path}: {error}"),
    }
}

/// Counts one HIP call.
#[inline]
pub(crate) fn count(kind: u32, op: i32) {
    if enabled() {
        let calls: &[AtomicU64] = if kind == KIND_RUNTIME {
            &CALLS
        } else {
            &COMPILER_CALLS
        };
        if let Some(counter) = usize::try_from(op).ok().and_then(|op| calls.get(op)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Remembers an entry until it is delivered.
pub(crate) fn outstanding(entry: Box<Entry>) -> Box<Entry> {
    if let Some(state) = &mut *lock(&STATE) {
        state.outstanding.insert(entry.sequence, entry.line(false));
    }
    entry
}

/// Its handler has run.
pub(crate) fn delivered(entry: &Entry) {
    if let Some(state) = &mut *lock(&STATE) {
        state.outstanding.remove(&entry.sequence);
    }
    write(entry, true);
}

/// Writes an entry.
pub(crate) fn write(entry: &Entry, delivered: bool) {
    if let Some(state) = &mut *lock(&STATE) {
        state.text.extend_from_slice(&entry.line(delivered));
        if state.text.len() >= BLOCK || state.ended {
            state.flush();
        }
    }
}

/// Writes what was collected.
pub(crate) fn flush() {
    if enabled()
        && let Some(state) = &mut *lock(&STATE)
    {
        state.flush();
    }
}

impl State {
    fn flush(&mut self) {
        if let Err(error) = self.file.write_all(&self.text) {
            eprintln!("stand-in HIP: cannot write the ledger: {error}");
        }
        self.text.clear();
    }
}

/// Runs after all `exit` handlers.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = {
    extern "C" fn end() {
        if !enabled() {
            return;
        }
        if let Some(state) = &mut *lock(&STATE) {
            let mut lines: Vec<(u64, Vec<u8>)> = state.outstanding.drain().collect();
            lines.sort();
            for (_, line) in lines {
                state.text.extend_from_slice(&line);
            }
            let named = CALLS.iter().zip(op_names::HIP_RUNTIME);
            let named = named.chain(COMPILER_CALLS.iter().zip(op_names::HIP_COMPILER));
            for (calls, name) in named {
                let calls = calls.load(Ordering::Relaxed);
                if calls > 0 {
                    let line =
                        format!("{{\"kind\":\"api\",\"name\":\"{name}\",\"calls\":{calls}}}\n");
                    state.text.extend_from_slice(line.as_bytes());
                }
            }
            state.flush();
            state.ended = true;
        }
    }
    end
};
