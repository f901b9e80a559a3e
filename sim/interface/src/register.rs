//! How a ROCm runtime finds the SDK and its tools: the rules of rocprofiler-register 0.5.0.
//!
//! A tool exists if `rocprofiler_configure` is visible to `dlsym(RTLD_DEFAULT)`, or
//! `ROCP_TOOL_LIBRARIES` or `ROCPROFILER_REGISTER_LIBRARY` is not empty, or
//! `ROCPROFILER_REGISTER_FORCE_LOAD` is true. Otherwise the SDK is not loaded and the runtime stays
//! untraced for the life of the process. The SDK is then looked for as a global symbol, as a loaded
//! library, and by name: from `ROCPROFILER_REGISTER_LIBRARY`, the loader's path, and this library's
//! own folder.

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// `rocprofiler_set_api_table`: name, version, instance, tables, number of tables.
type SetApiTable = unsafe extern "C" fn(*const c_char, u64, u64, *mut *mut c_void, u64) -> c_int;

/// Registers a runtime with the SDK if there is a tool. True = the SDK took the table.
///
/// # Safety
/// Each of `tables` points to what the SDK expects for a library of this name, and lives for ever.
pub unsafe fn register_library(name: &CStr, version: u64, tables: &mut [*mut c_void]) -> bool {
    if !flag("ROCPROFILER_REGISTER_ENABLED", true) || !tool_exists() {
        return false;
    }
    let Some(set_api_table) = find_set_api_table() else {
        return false;
    };
    // SAFETY: the symbol has this type in every rocprofiler-sdk; the caller vouches for the tables,
    // and `name` is NUL-terminated.
    unsafe {
        set_api_table(
            name.as_ptr(),
            version,
            0,
            tables.as_mut_ptr(),
            tables.len() as u64,
        ) == 0
    }
}

fn flag(name: &str, default: bool) -> bool {
    match env::var(name) {
        Ok(value) => !matches!(
            value.to_ascii_lowercase().as_str(),
            "" | "0" | "false" | "off" | "no" | "n" | "f"
        ),
        Err(_) => default,
    }
}

fn filled(name: &str) -> bool {
    env::var_os(name).is_some_and(|value| !value.is_empty())
}

fn tool_exists() -> bool {
    !symbol(libc::RTLD_DEFAULT, c"rocprofiler_configure").is_null()
        || filled("ROCP_TOOL_LIBRARIES")
        || filled("ROCPROFILER_REGISTER_LIBRARY")
        || flag("ROCPROFILER_REGISTER_FORCE_LOAD", false)
}

fn find_set_api_table() -> Option<SetApiTable> {
    let name = c"rocprofiler_set_api_table";
    let mut found = symbol(libc::RTLD_DEFAULT, name);
    let given = env::var_os("ROCPROFILER_REGISTER_LIBRARY").filter(|value| !value.is_empty());
    let mut candidates: Vec<PathBuf> = Vec::new();
    if let Some(given) = given {
        candidates.push(PathBuf::from(given));
    } else {
        candidates.push(PathBuf::from("librocprofiler-sdk.so"));
        candidates.push(PathBuf::from("librocprofiler-sdk.so.1"));
        if let Some(folder) = own_folder() {
            candidates.push(folder.join("librocprofiler-sdk.so"));
            candidates.push(folder.join("librocprofiler-sdk.so.1"));
            candidates.push(folder.join("libsim_rocprofiler_sdk.so"));
        }
    }
    for mode in [
        libc::RTLD_NOLOAD | libc::RTLD_LAZY,
        libc::RTLD_GLOBAL | libc::RTLD_LAZY,
    ] {
        for candidate in &candidates {
            if !found.is_null() {
                break;
            }
            let handle = open(candidate, mode);
            if !handle.is_null() {
                found = symbol(handle, name);
            }
        }
    }
    if found.is_null() {
        return None;
    }
    // SAFETY: not null, and this symbol is a function of this type in every rocprofiler-sdk.
    Some(unsafe { std::mem::transmute::<*mut c_void, SetApiTable>(found) })
}

fn symbol(handle: *mut c_void, name: &CStr) -> *mut c_void {
    // SAFETY: `handle` is a pseudo handle or came from dlopen and is never closed.
    unsafe { libc::dlsym(handle, name.as_ptr()) }
}

fn open(path: &Path, mode: c_int) -> *mut c_void {
    let Ok(path) = CString::new(path.as_os_str().as_bytes()) else {
        return std::ptr::null_mut();
    };
    // SAFETY: `path` is NUL-terminated; loading runs the constructors of a library that the user
    // chose.
    unsafe { libc::dlopen(path.as_ptr(), mode) }
}

/// Folder of the library that contains this code.
#[must_use]
pub fn own_folder() -> Option<PathBuf> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is that of a function of this library; `info` is there to be filled.
    let found = unsafe { libc::dladdr(own_folder as *const c_void, info.as_mut_ptr()) };
    if found == 0 {
        return None;
    }
    // SAFETY: zeroed is a valid value of this plain C struct, and dladdr filled it.
    let info = unsafe { info.assume_init() };
    if info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: a NUL-terminated name that the loader keeps while the library is loaded.
    let name = unsafe { CStr::from_ptr(info.dli_fname) };
    Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()))
        .parent()
        .map(Path::to_path_buf)
}
