//! Sessions, beyond what the tool library has: closing without waiting, the result of an earlier stop, releasing,
//! snapshots, the clock, the version.

use std::ffi::{OsStr, c_char};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use strandline::{Status, clock, embed};
use strandline_rocprofiler::c_api::{fill, runtime};
use strandline_rocprofiler::window;

use crate::abi::strandline_stop_result;
use crate::border::{answer, room, text};

/// The address of the word that holds the number of the open session.
#[derive(Debug)]
#[repr(transparent)]
pub struct SessionWord(#[allow(dead_code, reason = "C reads it")] *const AtomicU64);

// SAFETY: a constant address of an atomic that lives as long as the process.
unsafe impl Sync for SessionWord {}

/// What `STRANDLINE_HAS_SESSION` reads. An address, and not the word itself: a program that is not position-independent
/// would take a copy of the word (a copy relocation), and its copy would never change.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "its name in C")]
pub static strandline_session_word: SessionWord = SessionWord(embed::session_word().cast());

/// Closes a session without waiting: nothing new belongs to it. Its books are closed in the background, or by a later
/// strandline_session_stop. Also in a callback. Errors: NO_SUCH_SESSION.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_session_close(session: u64) -> i32 {
    answer(|| window::close(runtime()?, session))
}

/// The result of one of the newest 64 sessions that were accounted for. Errors: NOTHING, INSIDE_CALLBACK.
///
/// # Safety
/// `result` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_session_result(
    session: u64,
    result: *mut strandline_stop_result,
) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let room = unsafe { room(result) }?;
        let runtime = runtime()?;
        if runtime.must_not_wait() {
            return Err(Status::InsideCallback);
        }
        let end = runtime.session_result(session).ok_or(Status::Nothing)?;
        room.fill(&fill(&end));
        Ok(())
    })
}

/// Says that nobody needs the records of a session that was accounted for. Its memory is used again once every session in it is
/// released and no trace of this process is open; `segments` (null or where to write) gets how many segments were
/// freed at once, 0 in flight mode, where memory is used again anyway. Errors: NO_SUCH_SESSION (not accounted for, or released
/// already), INSIDE_CALLBACK, FINALIZING.
///
/// # Safety
/// `segments` is null or valid for writing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_session_release(session: u64, segments: *mut u64) -> i32 {
    answer(|| {
        let runtime = runtime()?;
        if runtime.must_not_wait() {
            return Err(if runtime.is_finalizing() {
                Status::Finalizing
            } else {
                Status::InsideCallback
            });
        }
        let freed = runtime.session_release(session)?;
        if !segments.is_null() {
            // SAFETY: as the caller promises.
            unsafe { segments.write_unaligned(freed) };
        }
        Ok(())
    })
}

/// Writes a consistent copy of everything (.slt) while appends go on, in every mode. Errors: OUTPUT_EXISTS, OUTPUT,
/// INSIDE_CALLBACK.
///
/// # Safety
/// `path` is null or terminated.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_snapshot(path: *const c_char) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let path = unsafe { text(path) }.ok_or(Status::InvalidArgument)?;
        let path = Path::new(OsStr::from_bytes(path));
        let runtime = runtime()?;
        if runtime.must_not_wait() && !runtime.is_finalizing() {
            return Err(Status::InsideCallback);
        }
        if path.exists() {
            return Err(Status::OutputExists);
        }
        runtime.snapshot(path).map_err(|_| Status::Output)?;
        Ok(())
    })
}

/// The timeline's clock now, ns.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_now_ns() -> u64 {
    clock::vendor_now()
}

/// Version of the library, 10000*major + 100*minor + patch.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_version() -> u32 {
    const fn number(text: &str) -> u32 {
        let bytes = text.as_bytes();
        let (mut at, mut value) = (0, 0);
        while at < bytes.len() {
            value = value * 10 + (bytes[at] - b'0') as u32;
            at += 1;
        }
        value
    }
    const VERSION: u32 = number(env!("CARGO_PKG_VERSION_MAJOR")) * 10_000
        + number(env!("CARGO_PKG_VERSION_MINOR")) * 100
        + number(env!("CARGO_PKG_VERSION_PATCH"));
    VERSION
}
