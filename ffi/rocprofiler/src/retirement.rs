//! Correlation-id retirement: the proof for work that the SDK could not time, and the only use of an SDK buffer.
//!
//! A retirement record goes to the contexts that are active at that very moment (facts E.3), so it has a context of its
//! own, active from a session's start until the session is accounted for. The buffer is LOSSLESS (DISCARD loses records
//! without counting them, facts D.2) and has its own callback thread, so that no other tool's buffer waits for ours.

use std::ffi::c_void;
use std::sync::OnceLock;

use strandline_rocprofiler_sys as sys;

use crate::api::{Api, api};
use crate::callbacks::guarded;

/// Bytes of the buffer: 2,048 records. The SDK allocates 16 bytes of headers for each byte, twice, and clears them at
/// each flush (facts D.1: 64 KiB take 37 us), so larger is not better.
const BUFFER_BYTES: usize = 64 * 1024;
/// Fill level at which the SDK flushes by itself.
const FLUSH_THRESHOLD_BYTES: usize = BUFFER_BYTES / 2;

static BUFFER: OnceLock<sys::rocprofiler_buffer_id_t> = OnceLock::new();

/// True once the buffer is configured.
pub fn is_on() -> bool {
    BUFFER.get().is_some()
}

/// Makes the buffer and the service, in `context`. In the SDK's initialize only.
///
/// # Errors
/// The SDK's status; `None` when it has no such functions.
pub fn configure(
    api: &Api,
    context: sys::rocprofiler_context_id_t,
) -> Result<(), Option<sys::rocprofiler_status_t>> {
    let (Some(create), Some(service), Some(_)) = (
        api.create_buffer,
        api.configure_buffer_tracing_service,
        api.flush_buffer,
    ) else {
        return Err(None);
    };
    let mut buffer = sys::rocprofiler_buffer_id_t { handle: 0 };
    // SAFETY: the SDK's function, called in initialize; the callback lives as long as the process.
    let status = unsafe {
        create(
            context,
            BUFFER_BYTES,
            FLUSH_THRESHOLD_BYTES,
            sys::ROCPROFILER_BUFFER_POLICY_LOSSLESS,
            Some(retired),
            std::ptr::null_mut(),
            &mut buffer,
        )
    };
    if status != sys::ROCPROFILER_STATUS_SUCCESS {
        return Err(Some(status));
    }
    if let (Some(make), Some(assign)) = (api.create_callback_thread, api.assign_callback_thread) {
        let mut thread = sys::rocprofiler_callback_thread_t { handle: 0 };
        // SAFETY: as above. Without a thread of its own the buffer uses the SDK's default one.
        if unsafe { make(&mut thread) } == sys::ROCPROFILER_STATUS_SUCCESS {
            // SAFETY: as above.
            unsafe { assign(buffer, thread) };
        }
    }
    let kind = sys::ROCPROFILER_BUFFER_TRACING_CORRELATION_ID_RETIREMENT;
    // SAFETY: as above; an empty list of operations means all.
    let status = unsafe { service(context, kind, std::ptr::null(), 0, buffer) };
    if status != sys::ROCPROFILER_STATUS_SUCCESS {
        return Err(Some(status));
    }
    let _ = BUFFER.set(buffer);
    Ok(())
}

/// Makes the SDK deliver what it has. Never in a callback or finalizer: it waits for the SDK's callback thread.
pub fn flush() {
    let (Some(buffer), Some(flush)) = (BUFFER.get(), api().and_then(|api| api.flush_buffer)) else {
        return;
    };
    if is_finalizing() {
        return;
    }
    // SAFETY: the SDK's function and its own buffer.
    unsafe { flush(*buffer) };
}

/// True once the SDK finalizes: before any tool's finalizer runs. Any thread, also in a callback.
pub fn is_finalizing() -> bool {
    let Some(is_finalized) = api().and_then(|api| api.is_finalized) else {
        return false;
    };
    let mut finalized = 0;
    // SAFETY: the SDK's function; the argument is valid for writing. It reads one word (facts A.4).
    unsafe { is_finalized(&mut finalized) == sys::ROCPROFILER_STATUS_SUCCESS && finalized != 0 }
}

/// The buffer's callback, on its own thread; one call at a time.
unsafe extern "C" fn retired(
    _: sys::rocprofiler_context_id_t,
    _: sys::rocprofiler_buffer_id_t,
    headers: *mut *mut sys::rocprofiler_record_header_t,
    count: usize,
    _: *mut c_void,
    dropped: u64,
) {
    type Retirement = sys::rocprofiler_buffer_tracing_correlation_id_retirement_record_t;
    guarded(|runtime| {
        if dropped != 0 {
            runtime.set_sdk_dropped(dropped);
        }
        // Before the SDK calls finalizers it retires every id by force (facts A.5): that proves nothing.
        if headers.is_null() || is_finalizing() {
            return;
        }
        // SAFETY: the SDK passes `count` pointers, valid during the callback.
        for &header in unsafe { std::slice::from_raw_parts(headers, count) } {
            // SAFETY: each points to a header of the buffer.
            let header = unsafe { &*header };
            // SAFETY: a union of the pair and its hash; tracing records use the pair.
            let kind = unsafe { header.__bindgen_anon_1.__bindgen_anon_1 };
            if kind.category != sys::ROCPROFILER_BUFFER_CATEGORY_TRACING
                || kind.kind != sys::ROCPROFILER_BUFFER_TRACING_CORRELATION_ID_RETIREMENT
                || header.payload.is_null()
            {
                continue;
            }
            // SAFETY: a record of that kind.
            let record = unsafe { &*header.payload.cast::<Retirement>() };
            if record.size >= size_of::<Retirement>() as u64 {
                runtime.retire(record.internal_correlation_id);
            }
        }
    });
}
