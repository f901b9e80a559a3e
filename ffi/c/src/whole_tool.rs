//! The whole tool: rocprofiler-sdk as the source, for a host that owns `rocprofiler_configure` or that has none.

use std::ffi::{c_char, c_void};

use strandline::Status;
use strandline_rocprofiler::{own, tool};

use crate::abi::strandline_settings;
use crate::border::{answer, argument};
use crate::source;

/// Keeps settings for the source that is configured next. Before rocprofiler-sdk is configured.
/// Errors: ALREADY_THERE, BAD_SETTING (in the environment).
///
/// # Safety
/// `settings` is null or valid as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_configure(settings: *const strandline_settings) -> i32 {
    answer(|| {
        // SAFETY: as the caller promises.
        let settings = unsafe { argument(settings) }?;
        // SAFETY: as the caller promises.
        let (settings, _) = unsafe { source::settings(&settings) }?;
        own::give(settings)
    })
}

/// For a program that defines rocprofiler_configure itself: pass on the SDK's arguments, return the result (a
/// rocprofiler_tool_configure_result_t *), or call its `initialize` and `finalize` from your own. Null: the library can't
/// work, strandline_status() says why; return null, or your own result. `client_id` (a rocprofiler_client_id_t *) gets the
/// name "strandline" unless you named it before. Only the first call in a process counts.
/// Thread: the one that the SDK calls on. Ownership: the result lives as long as the process.
///
/// In a program that does not define rocprofiler_configure the first strandline_session_start configures the SDK.
///
/// # Safety
/// The arguments are those that the SDK passed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_rocprofiler_configure(
    version: u32,
    runtime_version: *const c_char,
    priority: u32,
    client_id: *mut c_void,
) -> *mut c_void {
    own::host_asks();
    // The SDK's struct: size, name, handle. A host that has named itself keeps its name.
    // SAFETY: null, or the SDK's struct, valid during the call.
    let named = !client_id.is_null()
        && !unsafe { client_id.cast::<*const c_char>().add(1).read() }.is_null();
    let client_id = if named {
        std::ptr::null_mut()
    } else {
        client_id
    };
    // SAFETY: as the caller promises; nothing unwinds out of it.
    unsafe {
        tool::rocprofiler_configure(version, runtime_version, priority, client_id.cast()).cast()
    }
}

/// Configures rocprofiler-sdk now by its rocprofiler_force_configure, loading the SDK if need be. Call it before the GPU
/// runtime starts. Not in a callback. Again: the same answer.
/// Errors: SDK_MISSING, SDK_LOCKED (configured before, without us), SDK_TOO_OLD, SDK_REFUSED, BAD_SETTING, NO_REGION.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_rocprofiler_force_configure() -> i32 {
    answer(|| {
        crate::border::not_forked()?;
        own::host_asks();
        tool::ensure()
    })
}

/// STRANDLINE_OK when the library is at work, else why it is not. Wait-free.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_status() -> i32 {
    answer(|| match tool::status() {
        Status::Ok => strandline_rocprofiler::c_api::runtime().map(drop),
        status => Err(status),
    })
}
