//! Traces and cursors: reading a region file, or what this process has recorded so far, without copying a record.
//!
//! A trace handle owns the mapping; a cursor shares it, so closing the trace under a cursor is fine. Opening a cursor reads
//! each record once and sorts 16 bytes for each that it will hand out; handing one out is a look at its words.

use std::collections::HashMap;
use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use strandline::header::Mode;
use strandline::record::{Kind, Record, flag, label};
use strandline::report::{self, IdSet, SessionReport};
use strandline::{Status, Trace, TraceError, hash};
use strandline_exporters::{ExportError, Options};
use strandline_rocprofiler::c_api::runtime;

use crate::abi::{
    kind_bit, strandline_agent, strandline_kernel, strandline_metadata_pair, strandline_queue,
    strandline_record, strandline_session, strandline_stream, strandline_trace_info,
};
use crate::border::{answer, not_forked, out, room, text};
use crate::handles::Handles;
use crate::records::{Resolve, Texts, describe, is_ns, kind_number};

static TRACES: Handles<Opened> = Handles::new(0x51);
static CURSORS: Handles<Cursor> = Handles::new(0x53);

/// A trace: a region file, or what this process has recorded.
// Never followed, see `crate::handles`. In a form in which cbindgen does not see that it has a layout.
#[derive(Debug)]
#[cfg_attr(all(), repr(C))]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct strandline_trace([u8; 0]);

/// A place in a trace.
// Never followed, see `crate::handles`. In a form in which cbindgen does not see that it has a layout.
#[derive(Debug)]
#[cfg_attr(all(), repr(C))]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct strandline_cursor([u8; 0]);

/// An open trace.
#[derive(Debug)]
struct Opened {
    trace: Trace,
    texts: Mutex<Texts>,
    kernels: OnceLock<Vec<u64>>,
    sessions: OnceLock<Vec<SessionReport>>,
    /// External id by the correlation id of the API call that carries it.
    externals: OnceLock<HashMap<u64, u64>>,
    /// What a dispatch or copy can be joined to.
    launches: OnceLock<IdSet>,
    /// Windows of the sessions, vendor ns.
    windows: OnceLock<HashMap<u32, (u64, u64)>>,
}

impl Opened {
    fn new(trace: Trace) -> Self {
        Self {
            trace,
            texts: Mutex::default(),
            kernels: OnceLock::new(),
            sessions: OnceLock::new(),
            externals: OnceLock::new(),
            launches: OnceLock::new(),
            windows: OnceLock::new(),
        }
    }

    /// See [`SessionReport::window`]. A session that was not accounted for is open to the end.
    fn window(&self, session: u32) -> (u64, u64) {
        let windows = self.windows.get_or_init(|| {
            let facts = self.trace.facts();
            let begins = facts
                .session_begins
                .iter()
                .map(|begin| (begin.session as u32, (begin.vendor_ns, u64::MAX)));
            let ends = facts
                .session_ends
                .iter()
                .filter(|end| end.returned_ns != 0)
                .map(|end| (end.session as u32, (end.begin_ns, end.returned_ns)));
            begins.chain(ends).collect()
        });
        windows.get(&session).copied().unwrap_or((0, u64::MAX))
    }

    /// A terminated copy of a text that is no string of the sticky log; one for each content.
    fn own_text(&self, text: &str) -> *const c_char {
        let id = hash::bytes(text.as_bytes());
        let mut texts = self
            .texts
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let found = texts.get_or(id, || Some(text.as_bytes().to_vec()));
        found.map_or(c"".as_ptr(), |(text, _)| text)
    }

    fn kernels(&self) -> &[u64] {
        self.kernels.get_or_init(|| {
            let mut ids: Vec<u64> = self.trace.facts().kernels.keys().copied().collect();
            ids.sort_unstable();
            ids
        })
    }

    fn sessions(&self) -> &[SessionReport] {
        self.sessions.get_or_init(|| report::sessions(&self.trace))
    }
}

impl Resolve for Opened {
    fn text(&self, id: u64) -> Option<(*const c_char, u64)> {
        let mut texts = self
            .texts
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        texts.get_or(id, || self.trace.facts().bytes(id).map(<[u8]>::to_vec))
    }

    fn kernel_name(&self, kernel_id: u64) -> Option<u64> {
        Some(self.trace.facts().kernels.get(&kernel_id)?.name)
    }

    fn operation_name(&self, domain: u8, operation: u16) -> Option<u64> {
        self.trace
            .facts()
            .operations
            .get(&(domain, operation))
            .copied()
    }

    fn ns(&self, ticks: u64) -> u64 {
        self.trace.clock().vendor_ns(ticks)
    }

    fn external_id(&self, correlation: u64) -> u64 {
        let externals = self.externals.get_or_init(|| {
            self.trace
                .entries()
                .map(|entry| entry.record)
                .filter(|record| record.kind() == Some(Kind::Api) && record.external_id() != 0)
                .map(|record| (record.correlation_id(), record.external_id()))
                .collect()
        });
        externals.get(&correlation).copied().unwrap_or(0)
    }

    fn device_flags(&self, record: &Record<'_>) -> u16 {
        let launches = self
            .launches
            .get_or_init(|| report::launch_ids(&self.trace));
        let joined = [record.correlation_id(), record.ancestor_id()]
            .into_iter()
            .any(|id| id != 0 && launches.contains(id));
        let window = self.window(record.session());
        record.flags()
            | report::device_flags(record.flags(), record.start(), record.end(), window)
            | if joined { 0 } else { flag::NO_LAUNCH }
    }
}

/// A cursor over a trace.
#[derive(Debug)]
struct Cursor {
    opened: Arc<Opened>,
    index: Vec<Place>,
    next: AtomicUsize,
}

/// Where a record lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    start_ns: u64,
    words: *const u64,
    cells: u8,
    lane: u16,
}

// SAFETY: the pointer leads into the mapping, or the facts, of the `Opened` that the cursor shares; both are only read.
unsafe impl Send for Cursor {}
// SAFETY: as above; `next` is atomic.
unsafe impl Sync for Cursor {}

fn status_of(error: &TraceError) -> Status {
    match error {
        TraceError::Io { .. } => Status::NoFile,
        _ => Status::BadFile,
    }
}

/// Opens a region file (.slt): also one that a process still writes to, or that a dead one left.
/// Errors: NO_FILE, BAD_FILE, TOO_MANY_HANDLES.
///
/// # Safety
/// `path` is null or terminated, `trace` null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_open(
    path: *const c_char,
    trace: *mut *mut strandline_trace,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(trace, std::ptr::null_mut()) }?;
        // SAFETY: as the caller promises.
        let path = unsafe { text(path) }.ok_or(Status::InvalidArgument)?;
        not_forked()?;
        let opened =
            Trace::open(Path::new(OsStr::from_bytes(path))).map_err(|error| status_of(&error))?;
        let handle = TRACES.open(Arc::new(Opened::new(opened)))?;
        // SAFETY: as the caller promises.
        unsafe { out(trace, std::ptr::without_provenance_mut(handle)) }
    })
}

/// What this process has recorded up to now: in window mode the live memory, which no release reuses while the trace or a cursor
/// on it is open; in flight mode a copy.
///
/// # Safety
/// `trace` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_live(trace: *mut *mut strandline_trace) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(trace, std::ptr::null_mut()) }?;
        let opened = runtime()?.trace().map_err(|error| status_of(&error))?;
        let handle = TRACES.open(Arc::new(Opened::new(opened)))?;
        // SAFETY: as the caller promises.
        unsafe { out(trace, std::ptr::without_provenance_mut(handle)) }
    })
}

/// Closes a trace. Its cursors keep what they need.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_trace_close(trace: *mut strandline_trace) -> i32 {
    answer(|| TRACES.close(trace.addr()))
}

/// What a trace says of itself, and how many facts it has.
///
/// # Safety
/// `info` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_get_info(
    trace: *mut strandline_trace,
    info: *mut strandline_trace_info,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(info) }?;
        let opened = TRACES.get(trace.addr())?;
        let (header, facts) = (opened.trace.header(), opened.trace.facts());
        room.fill(&strandline_trace_info {
            path: opened.own_text(&opened.trace.path().to_string_lossy()),
            program: opened.own_text(&header.program),
            host: opened.own_text(&header.host),
            sdk: opened.own_text(&header.sdk),
            pid: header.pid,
            rank: header.rank,
            simulated: header.simulated.into(),
            mode: match header.mode {
                Mode::Window => 1,
                Mode::Flight => 2,
                Mode::Stream => 3,
            },
            process_start_ns: header.process_start_ns,
            created_unix_ns: header.created_unix_ns,
            agent_count: facts.agents.len() as u64,
            queue_count: facts.queues.len() as u64,
            stream_count: facts.streams.len() as u64,
            kernel_count: opened.kernels().len() as u64,
            session_count: opened.sessions().len() as u64,
            metadata_count: facts.metadata.len() as u32,
            damage_count: opened.trace.damage().len() as u32,
            ..strandline_trace_info::default()
        });
        Ok(())
    })
}

fn at<T>(all: &[T], index: u64) -> Result<&T, Status> {
    usize::try_from(index)
        .ok()
        .and_then(|index| all.get(index))
        .ok_or(Status::Nothing)
}

/// Agent number `index`, from 0. Errors: NOTHING past the last one.
///
/// # Safety
/// `agent` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_agent(
    trace: *mut strandline_trace,
    index: u64,
    agent: *mut strandline_agent,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(agent) }?;
        let opened = TRACES.get(trace.addr())?;
        let agent = at(&opened.trace.facts().agents, index)?;
        room.fill(&strandline_agent {
            handle: agent.handle,
            kind: agent.kind,
            node: agent.node,
            logical_node: agent.logical_node,
            type_index: agent.type_index,
            name: opened.own_text(&agent.name),
            vendor: opened.own_text(&agent.vendor),
            product: opened.own_text(&agent.product),
            model: opened.own_text(&agent.model),
            compute_units: agent.compute_units,
            wave_front: agent.wave_front,
            pci_domain: agent.pci_domain,
            pci_location: agent.pci_location,
            memory_bytes: agent.memory_bytes,
            uuid: agent.uuid,
            gfx_target: agent.gfx_target,
            simd_count: agent.simd_count,
            ..strandline_agent::default()
        });
        Ok(())
    })
}

/// Queue number `index`, from 0. Errors: NOTHING past the last one.
///
/// # Safety
/// `queue` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_queue(
    trace: *mut strandline_trace,
    index: u64,
    queue: *mut strandline_queue,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(queue) }?;
        let opened = TRACES.get(trace.addr())?;
        let &(queue, agent) = at(&opened.trace.facts().queues, index)?;
        room.fill(&strandline_queue {
            queue,
            agent,
            ..strandline_queue::default()
        });
        Ok(())
    })
}

/// Stream number `index`, from 0. Errors: NOTHING past the last one.
///
/// # Safety
/// `stream` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_stream(
    trace: *mut strandline_trace,
    index: u64,
    stream: *mut strandline_stream,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(stream) }?;
        let opened = TRACES.get(trace.addr())?;
        let facts = opened.trace.facts();
        let stream = at(&facts.streams, index)?;
        let named = facts
            .labels
            .iter()
            .rev()
            .find(|named| named.what == label::STREAM && named.handle == u64::from(stream.id));
        let text = named.and_then(|named| opened.text(named.name));
        room.fill(&strandline_stream {
            handle: stream.handle,
            id: stream.id,
            kind: stream.kind as u32,
            generation: stream.generation,
            thread: stream.thread,
            label: text.map_or(std::ptr::null(), |(text, _)| text),
            ..strandline_stream::default()
        });
        Ok(())
    })
}

/// Kernel number `index`, from 0, in the order of their ids. Errors: NOTHING past the last one.
///
/// # Safety
/// `kernel` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_kernel(
    trace: *mut strandline_trace,
    index: u64,
    kernel: *mut strandline_kernel,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(kernel) }?;
        let opened = TRACES.get(trace.addr())?;
        let id = at(opened.kernels(), index)?;
        let kernel = opened
            .trace
            .facts()
            .kernels
            .get(id)
            .ok_or(Status::Nothing)?;
        room.fill(&strandline_kernel {
            kernel_id: kernel.kernel_id,
            code_object_id: kernel.code_object_id,
            name: opened
                .text(kernel.name)
                .map_or(std::ptr::null(), |(text, _)| text),
            kernel_object: kernel.kernel_object,
            group_bytes: kernel.group_bytes,
            private_bytes: kernel.private_bytes,
            sgpr_count: kernel.sgpr_count,
            vgpr_count: kernel.vgpr_count,
            accum_vgpr_count: kernel.accum_vgpr_count,
            kernarg_bytes: kernel.kernarg_bytes,
            ..strandline_kernel::default()
        });
        Ok(())
    })
}

/// Pair number `index` of the metadata, from 0. Errors: NOTHING past the last one.
///
/// # Safety
/// `pair` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_metadata(
    trace: *mut strandline_trace,
    index: u64,
    pair: *mut strandline_metadata_pair,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(pair) }?;
        let opened = TRACES.get(trace.addr())?;
        let (key, value) = at(&opened.trace.facts().metadata, index)?;
        room.fill(&strandline_metadata_pair {
            key: opened.own_text(key),
            value: opened.own_text(value),
            ..strandline_metadata_pair::default()
        });
        Ok(())
    })
}

/// Session number `index`, from 0, in the order of their numbers. Errors: NOTHING past the last one.
///
/// # Safety
/// `session` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_session(
    trace: *mut strandline_trace,
    index: u64,
    session: *mut strandline_session,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(session) }?;
        let opened = TRACES.get(trace.addr())?;
        let report = at(opened.sessions(), index)?;
        room.fill(&strandline_session {
            session: report.id,
            verdict: report.verdict as u32,
            proof: report.proof as u32,
            unfinished: report.unfinished.into(),
            dispatches_issued: report.dispatches.issued,
            dispatches_recorded: report.dispatches.recorded,
            dispatches_retired_without_record: report.dispatches.retired_without_record,
            dispatches_missing: report.dispatches.missing(),
            copies_issued: report.copies.issued,
            copies_recorded: report.copies.recorded,
            copies_retired_without_record: report.copies.retired_without_record,
            copies_missing: report.copies.missing(),
            api_recorded: report.api_recorded,
            open_at_stop: report.open_at_stop,
            low_watermark: report.low_watermark,
            high_watermark: report.high_watermark,
            late: report.late,
            lost_no_segment: report.lost.0[0],
            lost_no_lane: report.lost.0[1],
            lost_after_close: report.lost.0[2],
            lost_reentry: report.lost.0[3],
            lost_sdk_dropped: report.lost.0[4],
            lost_sticky_full: report.lost.0[5],
            begin_ns: report.begin_ns,
            requested_ns: report.requested_ns,
            returned_ns: report.returned_ns,
            ..strandline_session::default()
        });
        Ok(())
    })
}

/// String `id` (as words of records name it). `bytes` may be null. Errors: NOTHING.
///
/// # Safety
/// `name` and `bytes` are null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_text(
    trace: *mut strandline_trace,
    id: u64,
    name: *mut *const c_char,
    bytes: *mut u64,
) -> i32 {
    answer(|| {
        let opened = TRACES.get(trace.addr())?;
        let (found, length) = opened.text(id).ok_or(Status::Nothing)?;
        // SAFETY: as the caller promises.
        unsafe { out(name, found) }?;
        if !bytes.is_null() {
            // SAFETY: as the caller promises.
            unsafe { bytes.write_unaligned(length) };
        }
        Ok(())
    })
}

/// Writes one session (0 = all) of a trace to a file, as strandline_export does.
///
/// # Safety
/// `path` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_trace_export(
    trace: *mut strandline_trace,
    session: u64,
    path: *const c_char,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let path = unsafe { text(path) }.ok_or(Status::InvalidArgument)?;
        let opened = TRACES.get(trace.addr())?;
        if session != 0 && !opened.sessions().iter().any(|report| report.id == session) {
            return Err(Status::NoSuchSession);
        }
        let options = Options {
            session: (session != 0).then_some(session),
            ..Options::default()
        };
        let traces = std::slice::from_ref(&opened.trace);
        match strandline_exporters::export(traces, Path::new(OsStr::from_bytes(path)), &options) {
            Ok(_) => Ok(()),
            Err(ExportError::Exists { .. }) => Err(Status::OutputExists),
            Err(ExportError::Extension { .. }) => Err(Status::InvalidArgument),
            Err(_) => Err(Status::Output),
        }
    })
}

fn index(opened: &Opened, kinds: u64, session: u64) -> Vec<Place> {
    let wanted = |record: &Record<'_>| {
        (kinds == 0 || kinds & kind_bit(kind_number(record)) != 0)
            && (session == 0 || u64::from(record.session()) == session)
    };
    let place = |record: &Record<'_>, lane| Place {
        start_ns: if is_ns(kind_number(record)) {
            record.start()
        } else {
            opened.ns(record.start())
        },
        words: record.words().as_ptr(),
        cells: record.cells() as u8,
        lane,
    };
    let written = opened
        .trace
        .entries()
        .filter(|entry| wanted(&entry.record))
        .map(|entry| place(&entry.record, entry.lane));
    let open = opened.trace.facts().open.iter().filter_map(|words| {
        let record = Record::parse(words).ok()?;
        wanted(&record).then(|| place(&record, u16::MAX))
    });
    let mut index: Vec<Place> = written.chain(open).collect();
    index.sort_by_key(|place| (place.start_ns, place.words));
    index
}

/// Opens a cursor over the records of some kinds (a mask, 0 = all) and one session (0 = all), in the order of their start.
/// Reads each record once and takes 24 bytes for each that it will hand out. Calls and ranges that were open at stop are
/// among them. A cursor keeps its trace's memory until it is closed.
///
/// # Safety
/// `cursor` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_cursor_open(
    trace: *mut strandline_trace,
    kinds: u64,
    session: u64,
    cursor: *mut *mut strandline_cursor,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { out(cursor, std::ptr::null_mut()) }?;
        let opened = TRACES.get(trace.addr())?;
        let index = index(&opened, kinds, session);
        let handle = CURSORS.open(Arc::new(Cursor {
            opened,
            index,
            next: AtomicUsize::new(0),
        }))?;
        // SAFETY: as the caller promises.
        unsafe { out(cursor, std::ptr::without_provenance_mut(handle)) }
    })
}

/// The next record. Errors: NOTHING at the end. Threads that share a cursor get each record once.
///
/// # Safety
/// `record` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_cursor_next(
    cursor: *mut strandline_cursor,
    record: *mut strandline_record,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(record) }?;
        let cursor = CURSORS.get(cursor.addr())?;
        loop {
            let next = cursor.next.load(Ordering::Relaxed);
            let place = cursor.index.get(next).ok_or(Status::Nothing)?;
            if cursor
                .next
                .compare_exchange(next, next + 1, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
            {
                // Another thread took it.
                continue;
            }
            let words = usize::from(place.cells) * strandline::limits::CELL_WORDS;
            // SAFETY: that many words of the mapping, or of the facts, which `opened` keeps (`index`).
            let words = unsafe { std::slice::from_raw_parts(place.words, words) };
            // A live region may reuse a segment under a cursor: what is no record any more is left out.
            let Ok(found) = Record::parse(words) else {
                continue;
            };
            room.fill(&describe(&found, place.lane, &*cursor.opened));
            return Ok(());
        }
    })
}

/// How many records it hands out from first to last.
///
/// # Safety
/// `count` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_cursor_count(
    cursor: *mut strandline_cursor,
    count: *mut u64,
) -> i32 {
    answer(|| {
        let cursor = CURSORS.get(cursor.addr())?;
        // SAFETY: as the caller promises.
        unsafe { out(count, cursor.index.len() as u64) }
    })
}

/// Goes back to the first record.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_cursor_rewind(cursor: *mut strandline_cursor) -> i32 {
    answer(|| {
        CURSORS.get(cursor.addr())?.next.store(0, Ordering::Relaxed);
        Ok(())
    })
}

/// Closes a cursor.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_cursor_close(cursor: *mut strandline_cursor) -> i32 {
    answer(|| CURSORS.close(cursor.addr()))
}
