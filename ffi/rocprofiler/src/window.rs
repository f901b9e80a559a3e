//! Opening and closing sessions, with the SDK contexts that feed them.
//!
//! The data context is active exactly while a session is open, so that nothing is intercepted for us outside one. The
//! retirement context stays active until every session is accounted for. Starting and stopping a context takes no lock
//! that a callback could hold (facts B), so both may be done inside the roctx callbacks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use strandline::{Runtime, Status};
use strandline_rocprofiler_sys as sys;

use crate::api::api;
use crate::retirement;

/// The contexts.
#[derive(Clone, Copy, Debug)]
pub struct Contexts {
    /// Code objects and the life of streams: always active.
    pub facts: sys::rocprofiler_context_id_t,
    /// roctx pause and resume: always active in that mode.
    pub control: Option<sys::rocprofiler_context_id_t>,
    /// All data.
    pub data: sys::rocprofiler_context_id_t,
    /// Retirement.
    pub retirement: Option<sys::rocprofiler_context_id_t>,
}

static CONTEXTS: OnceLock<Contexts> = OnceLock::new();
/// Sessions that could not be opened where nobody gets the status, and how many of them the trace tells.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static REFUSED_TOLD: AtomicU64 = AtomicU64::new(0);
/// The retirement context is active.
static RETIRING: AtomicBool = AtomicBool::new(false);

/// Keeps the contexts; once.
pub fn set_contexts(contexts: Contexts) {
    let _ = CONTEXTS.set(contexts);
}

fn start(context: sys::rocprofiler_context_id_t) -> sys::rocprofiler_status_t {
    match api() {
        // SAFETY: the SDK's function and a context of ours. Starting an active one is fine.
        Some(api) => unsafe { (api.start_context)(context) },
        None => sys::ROCPROFILER_STATUS_ERROR,
    }
}

fn stop(context: sys::rocprofiler_context_id_t) {
    if let Some(api) = api() {
        // SAFETY: the SDK's function and a context of ours. Stopping one that is not active is an error we don't mind.
        unsafe { (api.stop_context)(context) };
    }
}

/// Opens a session. Any thread, also in a roctx callback.
///
/// # Errors
/// As [`Runtime::session_open`], or [`Status::SdkRefused`]. [`Status::Finalizing`] already when the SDK finalizes, before our
/// finalizer runs: it starts no context from then on (facts A.4).
pub fn open(runtime: &Runtime) -> Result<u64, Status> {
    if crate::own::is_own() {
        return runtime.session_open();
    }
    let contexts = CONTEXTS.get().ok_or(Status::NotReady)?;
    if retirement::is_finalizing() {
        return Err(Status::Finalizing);
    }
    let session = runtime.session_open()?;
    if let Some(context) = contexts.retirement {
        RETIRING.store(true, Ordering::SeqCst);
        start(context);
    }
    if start(contexts.data) != sys::ROCPROFILER_STATUS_SUCCESS {
        let _ = runtime.session_close(session);
        // It may have begun to finalize meanwhile.
        return Err(if retirement::is_finalizing() {
            Status::Finalizing
        } else {
            Status::SdkRefused
        });
    }
    Ok(session)
}

/// Opens a session for a caller that gets no status: what fails is told in the trace. In a roctx callback.
pub fn open_or_tell(runtime: &Runtime) {
    match open(runtime) {
        // Resumed twice: the session goes on.
        Ok(_) | Err(Status::SessionOpen) => {}
        Err(_) => {
            REFUSED.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Closes a session. Any thread, also in a roctx callback.
///
/// # Errors
/// As [`Runtime::session_close`].
pub fn close(runtime: &Runtime, session: u64) -> Result<(), Status> {
    runtime.session_close(session)?;
    if let Some(contexts) = CONTEXTS.get() {
        stop(contexts.data);
    }
    Ok(())
}

/// Makes the SDK deliver retirements, for a session that waits. Not in a callback.
pub fn ask() {
    retirement::flush();
}

/// Says in the trace what the callbacks could not. Not in a callback.
pub fn tell(runtime: &Runtime) {
    crate::callbacks::name_refused(runtime);
    let refused = REFUSED.load(Ordering::Relaxed);
    if REFUSED_TOLD.swap(refused, Ordering::Relaxed) != refused {
        runtime.metadata(b"sessions refused", refused.to_string().as_bytes());
    }
}

/// Stops retirement once no session needs it, and says what the callbacks could not. Not in a callback.
pub fn rest(runtime: &Runtime) {
    tell(runtime);
    let Some(context) = CONTEXTS.get().and_then(|contexts| contexts.retirement) else {
        return;
    };
    if runtime.is_idle() && RETIRING.swap(false, Ordering::SeqCst) {
        stop(context);
        // A session that was opened meanwhile needs it again.
        if !runtime.is_idle() {
            RETIRING.store(true, Ordering::SeqCst);
            start(context);
        }
    }
}
