//! roctx: ranges, marks, names, and the pause and resume that open and close sessions.
//!
//! Kind MARKER_CORE_API, pushes and pops paired here: the SDK's own range kind loses its ids when a range stops on
//! another thread (facts C.8).

use std::ffi::c_void;

use strandline::record::{Kind, StreamKind, label};
use strandline_rocprofiler_sys as sys;

use crate::callbacks::{guarded, ids, payload, text};
use crate::window;

type Marker = sys::rocprofiler_callback_tracing_marker_api_data_t;

fn marker(record: &sys::rocprofiler_callback_tracing_record_t) -> Option<&Marker> {
    payload(record, size_of::<Marker>(), 7)
}

/// The `index`-th word of the arguments: a string, an id or a handle.
fn argument(data: &Marker, index: usize) -> u64 {
    // SAFETY: the union is 16 bytes, two words, all of them readable.
    unsafe {
        (&raw const data.args)
            .cast::<u64>()
            .add(index.min(1))
            .read()
    }
}

/// Ranges and marks.
///
/// # Safety
/// Called by the SDK with a record of kind MARKER_CORE_API.
pub unsafe extern "C" fn core(
    record: sys::rocprofiler_callback_tracing_record_t,
    _: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let Some(data) = marker(&record) else { return };
        let ids = ids(&record);
        let entering = record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER;
        // SAFETY: for the operations that take a message, the first argument is it: the caller's, valid during the call.
        let message = || unsafe { text(argument(data, 0) as *const _) };
        match (record.operation, entering) {
            (sys::ROCPROFILER_MARKER_CORE_API_ID_roctxMarkA, true) => {
                runtime.mark(Kind::Mark, ids, 0, message())
            }
            (sys::ROCPROFILER_MARKER_CORE_API_ID_roctxRangePushA, true) => {
                runtime.range_push(ids, message())
            }
            (sys::ROCPROFILER_MARKER_CORE_API_ID_roctxRangePop, true) => runtime.range_pop(ids),
            (sys::ROCPROFILER_MARKER_CORE_API_ID_roctxRangeStartA, false) => {
                // The range's id is known when the call returns.
                // SAFETY: a union of numbers; at EXIT of this operation the id is set.
                let id = unsafe { data.retval.roctx_range_id_t_retval };
                runtime.mark(Kind::RangeStart, ids, id, message());
            }
            (sys::ROCPROFILER_MARKER_CORE_API_ID_roctxRangeStop, true) => {
                runtime.mark(Kind::RangeStop, ids, argument(data, 0), b"");
            }
            _ => {}
        }
    });
}

/// Names of threads, agents, devices and streams.
///
/// # Safety
/// Called by the SDK with a record of kind MARKER_NAME_API.
pub unsafe extern "C" fn name(
    record: sys::rocprofiler_callback_tracing_record_t,
    _: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        if record.phase != sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            return;
        }
        let Some(data) = marker(&record) else { return };
        // SAFETY: the first argument of these operations is the name: the caller's, valid during the call.
        let name = unsafe { text(argument(data, 0) as *const _) };
        let thread = record.thread_id as u32;
        match record.operation {
            sys::ROCPROFILER_MARKER_NAME_API_ID_roctxNameOsThread => {
                runtime.thread_name(thread, name)
            }
            sys::ROCPROFILER_MARKER_NAME_API_ID_roctxNameHipDevice => {
                runtime.label(label::DEVICE, argument(data, 1) & 0xffff_ffff, name);
            }
            sys::ROCPROFILER_MARKER_NAME_API_ID_roctxNameHipStream => {
                let handle = argument(data, 1);
                let stream = match handle {
                    0 => runtime.stream(0, StreamKind::Null, 0),
                    1 => runtime.stream(1, StreamKind::Legacy, 0),
                    2 => runtime.stream(2, StreamKind::PerThread, thread),
                    _ => runtime.stream(handle, StreamKind::Seen, 0),
                };
                runtime.label(label::STREAM, stream.into(), name);
            }
            _ => {}
        }
    });
}

/// `roctxProfilerPause` closes the session, `roctxProfilerResume` opens one. Neither waits: a closed session is accounted
/// for by the housekeeper.
///
/// # Safety
/// Called by the SDK with a record of kind MARKER_CONTROL_API.
pub unsafe extern "C" fn control(
    record: sys::rocprofiler_callback_tracing_record_t,
    _: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let entering = record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER;
        match (record.operation, entering) {
            (sys::ROCPROFILER_MARKER_CONTROL_API_ID_roctxProfilerPause, true) => {
                let _ = window::close(runtime, runtime.open_session());
            }
            // When the call returns, so that the resume itself is not the first thing in the trace.
            (sys::ROCPROFILER_MARKER_CONTROL_API_ID_roctxProfilerResume, false) => {
                window::open_or_tell(runtime);
            }
            _ => {}
        }
    });
}
