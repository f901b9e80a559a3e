//! The C functions of the tool library.
//!
//! Every function may be called from any thread at any time, also before the SDK is there, in a callback, in a finalizer
//! and in a forked child: it then answers with a status. Nothing panics across the border.

use std::ffi::{CStr, OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::Duration;

use strandline::{Runtime, SessionEnd, Status};

use crate::{tool, window};

/// How complete a session is. Dispatches and copies together.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "its name in C")]
#[allow(missing_docs, reason = "what the name says")]
pub struct strandline_stop_result {
    pub size: u64,
    /// enum strandline_verdict.
    pub verdict: u64,
    pub session: u64,
    /// issued = recorded + retired_without_record + missing.
    pub issued: u64,
    pub recorded: u64,
    /// The SDK could not time them and said that they are over.
    pub retired_without_record: u64,
    pub missing: u64,
    /// Every correlation id at or below it is accounted for.
    pub low_watermark: u64,
    /// The highest correlation id under which work was issued.
    pub high_watermark: u64,
    /// Records that came after the session was accounted for, so far.
    pub late: u64,
    /// Records that are not in the trace, all reasons.
    pub lost: u64,
    /// How long the stop waited, ns.
    pub waited_ns: u64,
}

/// A session's closing record as C gets it.
pub fn fill(end: &SessionEnd) -> strandline_stop_result {
    strandline_stop_result {
        size: size_of::<strandline_stop_result>() as u64,
        verdict: end.verdict as u64,
        session: end.session,
        issued: end.dispatches.issued + end.copies.issued,
        recorded: end.dispatches.recorded + end.copies.recorded,
        retired_without_record: end.dispatches.retired_without_record
            + end.copies.retired_without_record,
        missing: end.dispatches.missing() + end.copies.missing(),
        low_watermark: end.low_watermark,
        high_watermark: end.high_watermark,
        late: end.late,
        lost: end.lost.total(),
        waited_ns: end.waited_ns,
    }
}

/// Runs a function's body so that nothing unwinds into the caller.
pub fn answer(body: impl FnOnce() -> Result<(), Status>) -> i32 {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => Status::Ok as i32,
        Ok(Err(status)) => status as i32,
        Err(_) => Status::Internal as i32,
    }
}

/// The runtime, or why there is none. A forked child has none.
pub fn runtime() -> Result<&'static Runtime, Status> {
    match Runtime::global() {
        Some(runtime) if tool::status() == Status::Ok => {
            if runtime.is_armed() {
                Ok(runtime)
            } else {
                Err(Status::NotReady)
            }
        }
        _ => Err(tool::status()),
    }
}

/// Opens a session and writes its number (from 1) to *session. In a program that configured nothing, the first call
/// configures rocprofiler-sdk (not in a callback then, and before the GPU runtime starts: the SDK intercepts that when it
/// starts, so that a session opened later stays empty); else any thread, also in a callback.
/// Errors: SESSION_OPEN, TOO_MANY_PENDING (the session 8 before still waits for its proof), FINALIZING, and those of
/// strandline_rocprofiler_force_configure.
///
/// # Safety
/// `session` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_session_start(session: *mut u64) -> i32 {
    answer(|| {
        if session.is_null() {
            return Err(Status::InvalidArgument);
        }
        tool::ensure()?;
        let number = window::open(runtime()?)?;
        // SAFETY: not null, and valid as the caller promises.
        unsafe { *session = number };
        Ok(())
    })
}

/// Closes a session, waits up to timeout_ns (0 = do not wait) until it is accounted for, closes its books and says how
/// complete it is; an incomplete session is no error. `result` may be null. A session that was stopped before gives the
/// same result again (the newest 64). Never waits inside a callback.
/// Errors: NO_SUCH_SESSION, INSIDE_CALLBACK (closed; accounted for in the background), FINALIZING.
///
/// # Safety
/// `result` is null or valid for reading and writing the bytes that its `size` says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_session_stop(
    session: u64,
    timeout_ns: u64,
    result: *mut strandline_stop_result,
) -> i32 {
    answer(|| {
        let runtime = runtime()?;
        let mut room = 0;
        if !result.is_null() {
            // SAFETY: not null, and its first field is valid as the caller promises.
            room = unsafe { (*result).size };
            if room < size_of::<strandline_stop_result>() as u64 {
                return Err(Status::StructTooSmall);
            }
        }
        if runtime.is_finalizing() {
            return Err(Status::Finalizing);
        }
        let closed = window::close(runtime, session);
        if runtime.must_not_wait() {
            return Err(closed.err().unwrap_or(Status::InsideCallback));
        }
        let mut ask = window::ask;
        let end =
            runtime.session_stop(session, Duration::from_nanos(timeout_ns), Some(&mut ask))?;
        window::rest(runtime);
        crate::late::judge(runtime, &end);
        if room != 0 {
            let mut filled = fill(&end);
            filled.size = room;
            // SAFETY: not null, and at least that many bytes are the caller's (checked above).
            unsafe { result.write(filled) };
        }
        Ok(())
    })
}

/// Writes one session (0 = all) of this process to a file; the format goes by the extension: .json, .json.gz (Chrome
/// JSON), .pftrace (Perfetto), .slt (region). Reads memory only, waits for nobody.
/// Errors: NO_SUCH_SESSION, OUTPUT_EXISTS, OUTPUT, INSIDE_CALLBACK.
///
/// # Safety
/// `path` is null or a terminated string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_export(session: u64, path: *const c_char) -> i32 {
    answer(|| {
        if path.is_null() {
            return Err(Status::InvalidArgument);
        }
        let runtime = runtime()?;
        // While the process finalizes it works on every thread (case B06): nothing is left that it could hold up.
        if runtime.must_not_wait() && !runtime.is_finalizing() {
            return Err(Status::InsideCallback);
        }
        // SAFETY: not null, and terminated as the caller promises.
        let path = Path::new(OsStr::from_bytes(
            unsafe { CStr::from_ptr(path) }.to_bytes(),
        ));
        crate::export::export(runtime, session, path)
    })
}

/// Adds a pair to the trace; a key that is set again takes the new value. Both are copied.
///
/// # Safety
/// Both are null or terminated strings; they are copied.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_metadata(key: *const c_char, value: *const c_char) -> i32 {
    answer(|| {
        if key.is_null() || value.is_null() {
            return Err(Status::InvalidArgument);
        }
        // SAFETY: not null, and terminated as the caller promises.
        let [key, value] = [key, value].map(|text| unsafe { CStr::from_ptr(text) }.to_bytes());
        runtime()?.metadata(key, value);
        Ok(())
    })
}

/// A sentence for a status; never null, lives as long as the process. Wait-free.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_status_string(status: i32) -> *const c_char {
    Status::from_i32(status)
        .map_or(c"unknown status", Status::c_text)
        .as_ptr()
}
