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

/// The result of a stop. The caller fills `size`; all other fields are written as far as `size` reaches.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
#[allow(non_camel_case_types, reason = "its name in C")]
pub struct strandline_stop_result {
    /// Bytes of the caller's struct.
    pub size: u64,
    /// 0 complete, 1 incomplete, 2 heuristic, 3 empty.
    pub verdict: u64,
    /// The session.
    pub session: u64,
    /// Dispatches and copies that were issued in it.
    pub issued: u64,
    /// Dispatches and copies that are recorded.
    pub recorded: u64,
    /// Those that the SDK could not time.
    pub retired_without_record: u64,
    /// Those that are missing.
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

/// Opens a session and writes its number to `*session`. In a program that was not started with this library as a tool,
/// the first call configures the SDK, if it can still be configured.
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

/// Closes a session, waits up to `timeout_ns` until it is accounted for, and says how complete it is. An incomplete
/// session is no error. Called inside an SDK callback or finalizer it closes the session and returns at once; the session
/// is then accounted for in the background.
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

/// Writes one session to a file, or all with session 0; the format goes by the extension (`.json`, `.json.gz`,
/// `.pftrace`, `.slt`). An existing file is not overwritten.
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

/// Adds a pair to the trace; a key that is set again takes the new value.
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

/// A sentence for a status; never null, lives as long as the process.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_status_string(status: i32) -> *const c_char {
    Status::from_i32(status)
        .map_or(c"unknown status", Status::c_text)
        .as_ptr()
}
