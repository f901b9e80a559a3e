//! Configured late: a host whose first session configured the SDK when HIP was in the process already (case B38).
//!
//! SDK 1.0.0 hands nothing over to a tool that comes after HIP's first runtime call, and says nothing about it (facts
//! A.1, M9); later SDKs do hand over. Which of the two it is can't be asked, so the trace says what was seen: that the
//! tool came late, and whether anything came at all.

use std::sync::atomic::{AtomicBool, Ordering};

use strandline::{Runtime, SessionEnd, Verdict};

static LATE: AtomicBool = AtomicBool::new(false);

/// Sonames of the HIP runtime.
const HIP_NAMES: [&std::ffi::CStr; 4] = [
    c"libamdhip64.so.7",
    c"libamdhip64.so.6",
    c"libamdhip64.so.5",
    c"libamdhip64.so",
];

/// True when a HIP runtime is loaded. Asks the loader; never in a callback.
pub fn hip_is_loaded() -> bool {
    HIP_NAMES.into_iter().any(|name| {
        // SAFETY: a terminated name; RTLD_NOLOAD loads nothing.
        let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if !handle.is_null() {
            // SAFETY: gives back the reference that the look took.
            unsafe { libc::dlclose(handle) };
        }
        !handle.is_null()
    })
}

/// Notes that the tool was configured when HIP was loaded already.
pub fn note(runtime: &Runtime) {
    LATE.store(true, Ordering::Relaxed);
    runtime.metadata(
        b"configured late",
        b"HIP was in the process before the tool was configured",
    );
}

/// Warns in the trace when a session of a tool that came late holds nothing at all.
pub fn judge(runtime: &Runtime, end: &SessionEnd) {
    if LATE.load(Ordering::Relaxed) && end.verdict == Verdict::Empty && end.api_recorded == 0 {
        runtime.metadata(
            b"warning",
            b"no record came: the tool was configured after HIP was initialised, and this SDK hands nothing over to late \
              tools; set ROCP_TOOL_LIBRARIES, or open the first session before the first HIP call",
        );
    }
}
