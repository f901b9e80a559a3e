//! The whole tool: rocprofiler-sdk as the source, for a host that owns `rocprofiler_configure` or that has none.

use std::ffi::{c_char, c_void};

use strandline::Status;
use strandline_rocprofiler::{own, tool};

use crate::abi::strandline_settings;
use crate::border::{answer, argument};
use crate::source;

/// Keeps settings for the source that is configured next. See the header.
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

/// What a host's own `rocprofiler_configure` calls and returns. See the header.
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

/// Configures rocprofiler-sdk now, by its `rocprofiler_force_configure`. See the header.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_rocprofiler_force_configure() -> i32 {
    answer(|| {
        crate::border::not_forked()?;
        own::host_asks();
        tool::ensure()
    })
}

/// Whether the library is at work, and if not, why.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_status() -> i32 {
    answer(|| match tool::status() {
        Status::Ok => strandline_rocprofiler::c_api::runtime().map(drop),
        status => Err(status),
    })
}
