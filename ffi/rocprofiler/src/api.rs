//! The SDK's functions, found by dlsym.
//!
//! Several copies of the SDK may be in the process (case B44): a framework's own beside an external profiler's. The
//! right one is the one that called us: the version string that it passed to `rocprofiler_configure` lies in its image,
//! so the loader can name the file. Only where that fails is the global scope searched, then the sonames.
//!
//! The loader is only called here, at configure time, never in a callback.

use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use strandline_rocprofiler_sys as sys;

/// Names under which the SDK may be loaded already.
pub const SDK_NAMES: [&CStr; 2] = [c"librocprofiler-sdk.so.1", c"librocprofiler-sdk.so"];

macro_rules! table {
    (required { $($required:ident : $required_type:ident,)* } optional { $($optional:ident : $optional_type:ident,)* }) => {
        /// The functions. The optional ones may be missing in an older or a stand-in SDK; what then does not work is
        /// said in the trace.
        #[derive(Clone, Copy, Debug)]
        #[allow(missing_docs, reason = "named as in the SDK")]
        pub struct Api {
            $(pub $required: sys::$required_type,)*
            $(pub $optional: Option<sys::$optional_type>,)*
        }

        impl Api {
            /// Looks all functions up. The error names the first required one that is missing.
            fn find(find: impl Fn(&str) -> *mut c_void) -> Result<Self, &'static str> {
                Ok(Self {
                    $($required: {
                        let symbol = find(concat!("rocprofiler_", stringify!($required)));
                        if symbol.is_null() {
                            return Err(concat!("rocprofiler_", stringify!($required)));
                        }
                        // SAFETY: the SDK's function of that name has that type (its headers, checked in `sys`).
                        unsafe { std::mem::transmute::<*mut c_void, sys::$required_type>(symbol) }
                    },)*
                    $($optional: {
                        let symbol = find(concat!("rocprofiler_", stringify!($optional)));
                        // SAFETY: as above; null becomes None.
                        unsafe { std::mem::transmute::<*mut c_void, Option<sys::$optional_type>>(symbol) }
                    },)*
                })
            }
        }
    };
}

table! {
    required {
        create_context: rocprofiler_create_context_fn,
        start_context: rocprofiler_start_context_fn,
        stop_context: rocprofiler_stop_context_fn,
        configure_callback_tracing_service: rocprofiler_configure_callback_tracing_service_fn,
    }
    optional {
        get_timestamp: rocprofiler_get_timestamp_fn,
        get_status_string: rocprofiler_get_status_string_fn,
        is_finalized: rocprofiler_is_finalized_fn,
        create_buffer: rocprofiler_create_buffer_fn,
        flush_buffer: rocprofiler_flush_buffer_fn,
        configure_buffer_tracing_service: rocprofiler_configure_buffer_tracing_service_fn,
        create_callback_thread: rocprofiler_create_callback_thread_fn,
        assign_callback_thread: rocprofiler_assign_callback_thread_fn,
        query_available_agents: rocprofiler_query_available_agents_fn,
        iterate_callback_tracing_kind_operations: rocprofiler_iterate_callback_tracing_kind_operations_fn,
        query_callback_tracing_kind_operation_name: rocprofiler_query_callback_tracing_kind_operation_name_fn,
    }
}

static API: OnceLock<Api> = OnceLock::new();
static STAND_IN: OnceLock<Option<String>> = OnceLock::new();

/// The functions, once they were found.
#[inline]
pub fn api() -> Option<&'static Api> {
    API.get()
}

/// The description that a stand-in SDK gives of itself; `None` for a real one.
pub fn stand_in() -> Option<&'static str> {
    STAND_IN.get()?.as_deref()
}

/// Finds the SDK's functions in the copy that `inside_sdk` points into.
///
/// # Errors
/// A sentence that says what is missing.
pub fn find(inside_sdk: *const c_char) -> Result<&'static Api, String> {
    if let Some(api) = API.get() {
        return Ok(api);
    }
    let handle = sdk_handle(inside_sdk);
    let find = |name: &str| {
        let name = std::ffi::CString::new(name).unwrap_or_default();
        // SAFETY: a handle of the loader (or the default scope) and a terminated name.
        unsafe { libc::dlsym(handle, name.as_ptr()) }
    };
    let api = Api::find(find).map_err(|name| {
        format!("the SDK has no function {name}: it is too old, or no rocprofiler-sdk at all; run: strandline doctor")
    })?;
    let describe = find("rocprofiler_sdk_standin_description");
    let _ = STAND_IN.set((!describe.is_null()).then(|| {
        // SAFETY: a stand-in exports it as a function that returns a string that lives as long as the process.
        let describe = unsafe {
            std::mem::transmute::<*mut c_void, unsafe extern "C" fn() -> *const c_char>(describe)
        };
        // SAFETY: as above.
        let text = unsafe { describe() };
        if text.is_null() {
            String::new()
        } else {
            // SAFETY: not null, and a terminated string that lives as long as the process.
            unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned()
        }
    }));
    Ok(API.get_or_init(|| api))
}

/// A handle of the loaded SDK, or the default scope.
fn sdk_handle(inside_sdk: *const c_char) -> *mut c_void {
    let has_sdk = |handle: *mut c_void| {
        // SAFETY: a handle of the loader and a terminated name.
        !handle.is_null()
            && !unsafe { libc::dlsym(handle, c"rocprofiler_create_context".as_ptr()) }.is_null()
    };
    if !inside_sdk.is_null() {
        // SAFETY: plain data.
        let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
        // SAFETY: asks the loader which image an address lies in; `info` is valid for writing.
        if unsafe { libc::dladdr(inside_sdk.cast(), &mut info) } != 0 && !info.dli_fname.is_null() {
            // SAFETY: the loader's own string; RTLD_NOLOAD loads nothing.
            let handle =
                unsafe { libc::dlopen(info.dli_fname, libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            if has_sdk(handle) {
                return handle;
            }
        }
    }
    if has_sdk(libc::RTLD_DEFAULT) || {
        // RTLD_DEFAULT is null; ask it directly.
        // SAFETY: the default scope and a terminated name.
        !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"rocprofiler_create_context".as_ptr()) }
            .is_null()
    } {
        return libc::RTLD_DEFAULT;
    }
    SDK_NAMES
        .into_iter()
        // SAFETY: terminated names; RTLD_NOLOAD loads nothing.
        .map(|name| unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) })
        .find(|&handle| has_sdk(handle))
        .unwrap_or(libc::RTLD_DEFAULT)
}

/// The SDK's `rocprofiler_force_configure`: of a loaded SDK, else of one that the loader finds by its soname. Loads the
/// SDK, so only for a host that asked for tracing; never in a callback.
pub fn force_configure() -> Option<sys::rocprofiler_force_configure_fn> {
    let mut handle = sdk_handle(std::ptr::null());
    let find = |handle| {
        // SAFETY: a handle of the loader (or the default scope) and a terminated name.
        unsafe { libc::dlsym(handle, c"rocprofiler_force_configure".as_ptr()) }
    };
    let mut symbol = find(handle);
    for name in SDK_NAMES {
        if symbol.is_null() {
            // SAFETY: a terminated name; loading runs the SDK's constructors, which is what the host asked for.
            handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_GLOBAL) };
            if !handle.is_null() {
                symbol = find(handle);
            }
        }
    }
    // SAFETY: the SDK's function of that name has that type; null becomes None.
    unsafe {
        std::mem::transmute::<*mut c_void, Option<sys::rocprofiler_force_configure_fn>>(symbol)
    }
}

/// A status of the SDK as text.
pub fn status_text(status: sys::rocprofiler_status_t) -> String {
    let text = api().and_then(|api| api.get_status_string).map(|text| {
        // SAFETY: the SDK's function; it returns a static string or null.
        unsafe { text(status) }
    });
    match text {
        // SAFETY: not null, a static string of the SDK.
        Some(text) if !text.is_null() => unsafe { CStr::from_ptr(text) }
            .to_string_lossy()
            .into_owned(),
        _ => format!("status {status}"),
    }
}

/// The SDK's clock, ns; `CLOCK_BOOTTIME` where the SDK has no such function.
pub fn vendor_now() -> u64 {
    let mut now = 0;
    match api().and_then(|api| api.get_timestamp) {
        // SAFETY: `now` is valid for writing; the function takes no lock (facts G).
        Some(get) if unsafe { get(&mut now) } == sys::ROCPROFILER_STATUS_SUCCESS => now,
        _ => strandline::clock::kernel_ns(libc::CLOCK_BOOTTIME),
    }
}
