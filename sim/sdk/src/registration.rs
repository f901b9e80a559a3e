//! Tools: how they are found, in which order they are called, and how the SDK finalizes.
//!
//! Initialization starts at the first `rocprofiler_set_api_table` or at
//! `rocprofiler_force_configure`, once: all `rocprofiler_configure` functions in order of priority,
//! then all `initialize` functions, then the door is shut (init status 1, services LOCKED).
//!
//! Order = priority: the forced function, the entries of `ROCP_TOOL_LIBRARIES`, the symbol
//! `rocprofiler_configure` by `RTLD_DEFAULT` and `RTLD_NEXT`, and, only if there was one by
//! `RTLD_DEFAULT`, every loaded library that has it. As in 1.0.0 the text after the last `:` of
//! `ROCP_TOOL_LIBRARIES` is forgotten when there is a `:` at all.
//!
//! Finalization runs once, in an `exit` handler: copies drain (30 s at most), dispatches drain
//! (without limit), code objects unload, ids are retired by force, then each tool's contexts stop
//! and its `finalize` runs. No buffer is flushed. Handler A is registered before any tool is
//! configured, handler B after (or at the first buffer), so `exit` runs B first.

use core::ffi::{c_char, c_int, c_void};
use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once};
use std::time::{Duration, Instant};

use sim_interface::{MAGIC, RuntimeTable};

use crate::abi::{CONFIGURATION_LOCKED, ClientId, ConfigureFn, ConfigureResult, SUCCESS, Status};
use crate::context::handle_offset;
use crate::correlation::lock;
use crate::{buffer, clock, code_object, context, correlation, trace};

/// Version 1.0.0 as `rocprofiler_configure` gets it.
pub(crate) const VERSION: u32 = 10000;
/// Version text that `rocprofiler_configure` gets.
pub(crate) const VERSION_STRING: &CStr = c"1.0.0";
/// How long finalization waits for copies.
const COPY_DRAIN: Duration = Duration::from_secs(30);

/// 0 not yet, -1 in progress, 1 done.
static INIT: AtomicI32 = AtomicI32::new(0);
/// 0 not yet, -1 in progress, 1 done.
static FINI: AtomicI32 = AtomicI32::new(0);
static FORCED: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static FORCE_USED: AtomicBool = AtomicBool::new(false);
/// Is a runtime being registered? A second one meanwhile stays untraced.
static REGISTERING: AtomicUsize = AtomicUsize::new(0);
/// The client whose initializer runs.
static CURRENT_CLIENT: AtomicUsize = AtomicUsize::new(usize::MAX);

/// One tool.
#[derive(Debug)]
struct Client {
    /// What the tool's `rocprofiler_configure` was given; a tool may set `name` in it.
    id: ClientId,
    result: Option<ConfigureResult>,
    finalized: bool,
}

// SAFETY: the pointers are the tool's, and only handed back to it.
unsafe impl Send for Client {}

static CLIENTS: Mutex<Vec<Client>> = Mutex::new(Vec::new());

thread_local! {
    /// Is this thread inside a tool's `configure` or `initialize`?
    static CONFIGURING: Cell<bool> = const { Cell::new(false) };
}

/// 0 not yet, -1 in progress, 1 done.
#[inline]
pub(crate) fn init_status() -> i32 {
    INIT.load(Ordering::Acquire)
}

/// 0 not yet, -1 in progress, 1 done.
#[inline]
pub(crate) fn fini_status() -> i32 {
    FINI.load(Ordering::Acquire)
}

/// May contexts, buffers and services be made now?
pub(crate) fn configuring() -> bool {
    init_status() < 0
}

/// Index of the client whose initializer runs.
pub(crate) fn current_client() -> usize {
    CURRENT_CLIENT.load(Ordering::Relaxed)
}

/// Registers a runtime: initializes the tools at the first one, then gives it the hooks.
///
/// # Safety
/// `name` is NUL-terminated and `tables` holds `count` pointers as a stand-in runtime makes them.
pub(crate) unsafe fn set_api_table(
    name: *const c_char,
    version: u64,
    instance: u64,
    tables: *mut *mut c_void,
    count: u64,
) -> c_int {
    if name.is_null() || tables.is_null() || count == 0 {
        return -1;
    }
    // SAFETY: NUL-terminated (caller).
    let name = unsafe { CStr::from_ptr(name) };
    if CONFIGURING.get() {
        // A runtime call from inside a tool's initializer: refused, and that runtime stays untraced.
        return 3;
    }
    if REGISTERING.fetch_add(1, Ordering::AcqRel) > 0 {
        REGISTERING.fetch_sub(1, Ordering::AcqRel);
        return 3;
    }
    initialize();
    let (library, tables_min) = match name.to_bytes() {
        b"hip" => (2, 1),
        b"roctx" => (3, 3),
        _ => (0, 1),
    };
    if count < tables_min {
        eprintln!("stand-in SDK: {name:?} registered {count} tables, expected {tables_min}");
        std::process::abort();
    }
    // SAFETY: at least one pointer (checked above), to a table of a stand-in runtime (caller).
    let table = unsafe { (*tables).cast::<RuntimeTable>() };
    // SAFETY: non-null tables begin with a magic word in every stand-in runtime.
    let known = !table.is_null() && unsafe { (*table).magic } == MAGIC;
    if library != 0 && known {
        // SAFETY: checked above; the hooks are static.
        unsafe { ((*table).attach)(&raw const trace::HOOKS) };
        trace::runtime_initialized(library, version, instance);
    }
    REGISTERING.fetch_sub(1, Ordering::AcqRel);
    if known { 0 } else { -1 }
}

/// `rocprofiler_force_configure`.
pub(crate) fn force(configure: Option<ConfigureFn>) -> Status {
    if init_status() != 0 || FORCE_USED.swap(true, Ordering::AcqRel) {
        return CONFIGURATION_LOCKED;
    }
    if let Some(configure) = configure {
        FORCED.store(configure as *mut c_void, Ordering::Release);
    }
    // SAFETY: both strings are NUL-terminated. Races with getenv of other threads, as the real one.
    unsafe {
        libc::setenv(
            c"ROCPROFILER_REGISTER_FORCE_LOAD".as_ptr(),
            c"1".as_ptr(),
            1,
        )
    };
    initialize();
    SUCCESS
}

/// Finds and initializes the tools, once.
pub(crate) fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        clock::init();
        INIT.store(-1, Ordering::Release);
        at_exit(exit_handler_a);
        CONFIGURING.set(true);
        configure_clients();
        initialize_clients();
        CONFIGURING.set(false);
        internal_threading();
        INIT.store(1, Ordering::Release);
    });
}

fn configure_clients() {
    let functions = find_clients();
    for (index, (name, configure)) in functions.into_iter().enumerate() {
        // The name lives as long as the process: tools may keep it.
        let name = Box::leak(name.into_boxed_c_str());
        // The priority is a small index.
        let priority = index as u32;
        let mut id = ClientId {
            size: size_of::<ClientId>(),
            name: name.as_ptr(),
            handle: handle_offset() as u32 + priority,
        };
        // SAFETY: a tool's `rocprofiler_configure` has this type; `id` lives across the call.
        let result = unsafe { configure(VERSION, VERSION_STRING.as_ptr(), priority, &raw mut id) };
        let result = if result.is_null() {
            None
        } else {
            // SAFETY: not null, so it points to the tool's result, which is copied at once.
            Some(unsafe { result.read_unaligned() })
        };
        lock(&CLIENTS).push(Client {
            id,
            result,
            finalized: false,
        });
    }
}

fn initialize_clients() {
    let results: Vec<Option<ConfigureResult>> =
        lock(&CLIENTS).iter().map(|client| client.result).collect();
    for (index, result) in results.into_iter().enumerate() {
        let Some(result) = result else { continue };
        if let Some(initialize) = result.initialize {
            CURRENT_CLIENT.store(index, Ordering::Relaxed);
            // SAFETY: the tool's function, with its own data. Its return value is ignored (1.0.0).
            unsafe { initialize(client_finalize, result.tool_data) };
            CURRENT_CLIENT.store(usize::MAX, Ordering::Relaxed);
        }
    }
}

/// The ordered list of tools, without duplicates by address.
fn find_clients() -> Vec<(CString, ConfigureFn)> {
    let mut found: Vec<(CString, ConfigureFn)> = Vec::new();
    let mut add = |name: &CStr, function: *mut c_void| {
        if function.is_null() || found.iter().any(|(_, f)| *f as *mut c_void == function) {
            return;
        }
        // SAFETY: not null, and a symbol of this name is a function of this type.
        let function = unsafe { core::mem::transmute::<*mut c_void, ConfigureFn>(function) };
        found.push((name.to_owned(), function));
    };
    let symbol = c"rocprofiler_configure";

    add(c"(forced)", FORCED.load(Ordering::Acquire));
    for path in tool_libraries() {
        // SAFETY: NUL-terminated; the user chose this library.
        let mut handle =
            unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
        if handle.is_null() {
            // SAFETY: as above.
            handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LOCAL | libc::RTLD_LAZY) };
        }
        if handle.is_null() {
            // SAFETY: dlerror returns null or a NUL-terminated text of this thread.
            let why = unsafe {
                let text = libc::dlerror();
                if text.is_null() {
                    c"?"
                } else {
                    CStr::from_ptr(text)
                }
            };
            eprintln!(
                "stand-in SDK: cannot open tool library {path:?}: {why:?}; aborting, as the real SDK"
            );
            std::process::abort();
        }
        // SAFETY: a handle from dlopen that is never closed.
        let function = unsafe { libc::dlsym(handle, symbol.as_ptr()) };
        if function.is_null() {
            eprintln!("stand-in SDK: tool library {path:?} has no rocprofiler_configure");
        }
        add(&path, function);
    }
    // SAFETY: pseudo handle, NUL-terminated name.
    let default = unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) };
    add(c"(RTLD_DEFAULT)", default);
    // SAFETY: as above.
    add(c"(RTLD_NEXT)", unsafe {
        libc::dlsym(libc::RTLD_NEXT, symbol.as_ptr())
    });
    if !default.is_null() {
        for path in loaded_libraries() {
            // SAFETY: NUL-terminated; only returns what is loaded.
            let handle =
                unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) };
            if !handle.is_null() {
                // SAFETY: a handle from dlopen. It also searches dependencies; duplicates are
                // dropped by address.
                add(&path, unsafe { libc::dlsym(handle, symbol.as_ptr()) });
            }
        }
    }
    found
}

/// `ROCP_TOOL_LIBRARIES` as 1.0.0 splits it: what follows the last `:` is lost.
fn tool_libraries() -> Vec<CString> {
    let Some(value) = std::env::var_os("ROCP_TOOL_LIBRARIES") else {
        return Vec::new();
    };
    let bytes = value.as_bytes();
    let parts: Vec<&[u8]> = bytes.split(|&b| b == b':').collect();
    let kept = if parts.len() > 1 {
        &parts[..parts.len() - 1]
    } else {
        &parts[..]
    };
    kept.iter()
        .filter(|part| !part.is_empty())
        .filter_map(|part| CString::new(OsStr::from_bytes(part).as_bytes()).ok())
        .collect()
}

fn loaded_libraries() -> Vec<CString> {
    unsafe extern "C" fn note(
        info: *mut libc::dl_phdr_info,
        _size: usize,
        data: *mut c_void,
    ) -> c_int {
        // SAFETY: the loader passes a valid entry, and `data` is the vector below.
        let (info, paths) = unsafe { (&*info, &mut *data.cast::<Vec<CString>>()) };
        if !info.dlpi_name.is_null() {
            // SAFETY: a NUL-terminated name of the loader's.
            let name = unsafe { CStr::from_ptr(info.dlpi_name) };
            if !name.is_empty() {
                paths.push(name.to_owned());
            }
        }
        0
    }
    let mut paths: Vec<CString> = Vec::new();
    // SAFETY: `note` treats its data as the vector that is passed here.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut paths).cast()) };
    paths
}

fn at_exit(handler: extern "C" fn()) {
    // SAFETY: registers a plain function of a library that is never unloaded.
    unsafe { libc::atexit(handler) };
}

unsafe extern "C" fn in_child() {
    buffer::restart_threads();
}

/// Starts what the SDK needs of its own threads, once: handler B and the default callback thread.
pub(crate) fn internal_threading() {
    static STARTED: AtomicBool = AtomicBool::new(false);
    if !STARTED.swap(true, Ordering::AcqRel) {
        at_exit(exit_handler_b);
        // SAFETY: plain functions of a library that is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        buffer::start_default_thread();
    }
}

/// At load: a bad log level aborts, and `ROCPROFILER_LIBRARY_CTOR` starts the tools at once.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        if let Ok(level) = std::env::var("ROCPROFILER_LOG_LEVEL") {
            let known = ["trace", "info", "warning", "error", "fatal"];
            let level = level.to_ascii_lowercase();
            if !level.is_empty()
                && !known.contains(&level.as_str())
                && level.parse::<i32>().is_err()
            {
                eprintln!(
                    "stand-in SDK: unknown ROCPROFILER_LOG_LEVEL `{level}`: the real SDK throws at \
                     load; aborting"
                );
                std::process::abort();
            }
        }
        let start = std::env::var("ROCPROFILER_LIBRARY_CTOR").unwrap_or_default();
        if matches!(
            start.to_ascii_lowercase().as_str(),
            "1" | "on" | "true" | "yes"
        ) {
            initialize();
        }
    }
    at_load
};

extern "C" fn exit_handler_b() {
    finalize();
}

extern "C" fn exit_handler_a() {
    finalize();
    // The real SDK destroys its static objects here. Ours have no destructors.
}

/// What a tool's `initialize` gets: finalizes the SDK if it is the only tool, else only that tool.
unsafe extern "C" fn client_finalize(id: ClientId) {
    let only = lock(&CLIENTS).len() == 1;
    if only {
        finalize();
        return;
    }
    let index = lock(&CLIENTS)
        .iter()
        .position(|client| client.id.handle == id.handle);
    let Some(index) = index else { return };
    if FINI
        .compare_exchange(0, -1, Ordering::AcqRel, Ordering::Acquire)
        .is_err()
    {
        return;
    }
    // All tools lose API records meanwhile, as in the real SDK.
    finalize_client(index);
    FINI.store(0, Ordering::Release);
}

fn finalize_client(index: usize) {
    let result = {
        let mut clients = lock(&CLIENTS);
        let client = &mut clients[index];
        if core::mem::replace(&mut client.finalized, true) {
            return;
        }
        client.result
    };
    context::stop_client(index);
    trace::drain_copies(Duration::ZERO);
    trace::drain_dispatches();
    if let Some(result) = result
        && let Some(finalize) = result.finalize
    {
        // SAFETY: the tool's function with its own data.
        unsafe { finalize(result.tool_data) };
    }
}

/// Finalizes, once; a call meanwhile returns at once.
pub(crate) fn finalize() {
    if init_status() == 0
        || FINI
            .compare_exchange(0, -1, Ordering::AcqRel, Ordering::Acquire)
            .is_err()
    {
        return;
    }
    trace::drain_copies(COPY_DRAIN);
    trace::drain_dispatches();
    code_object::unload_all();
    correlation::retire_all();
    let count = lock(&CLIENTS).len();
    for index in 0..count {
        finalize_client(index);
    }
    buffer::join_threads();
    FINI.store(1, Ordering::Release);
}

/// Waits until `done` or for at most `limit`; no limit = until done.
pub(crate) fn wait_until(limit: Option<Duration>, done: impl Fn() -> bool) {
    let start = Instant::now();
    while !done() {
        if limit.is_some_and(|limit| start.elapsed() >= limit) {
            return;
        }
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// `rocprofiler_internal_thread_library_cb_t`.
pub(crate) type ThreadCreateFn = unsafe extern "C" fn(library: c_int, data: *mut c_void);

struct ThreadCreate {
    before: Option<ThreadCreateFn>,
    after: Option<ThreadCreateFn>,
    data: usize,
}

static THREAD_CREATE: Mutex<Vec<ThreadCreate>> = Mutex::new(Vec::new());
/// `ROCPROFILER_LIBRARY`.
const LIBRARY_BIT: c_int = 1;

/// `rocprofiler_at_internal_thread_create`.
pub(crate) fn at_internal_thread_create(
    before: Option<ThreadCreateFn>,
    after: Option<ThreadCreateFn>,
    libraries: c_int,
    data: *mut c_void,
) -> Status {
    if init_status() > 0 {
        return CONFIGURATION_LOCKED;
    }
    if libraries & LIBRARY_BIT != 0 || libraries == 0 {
        lock(&THREAD_CREATE).push(ThreadCreate {
            before,
            after,
            data: data as usize,
        });
    }
    SUCCESS
}

/// Tells the tools that the SDK makes (`before`) or has made a thread.
pub(crate) fn internal_thread_creation(before: bool) {
    for entry in &*lock(&THREAD_CREATE) {
        if let Some(function) = if before { entry.before } else { entry.after } {
            // SAFETY: the tool's function with its own data.
            unsafe { function(LIBRARY_BIT, entry.data as *mut c_void) };
        }
    }
}
