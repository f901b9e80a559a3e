//! Stand-in for AMD's `librocprofiler-sdk-roctx.so.1`: markers, ranges, pause and resume, names.
//!
//! Registers with the SDK at the first call, by the same rules as the HIP stand-in, and then
//! reports every call. Pause and resume do nothing by themselves: tools see them as calls.
//!
//! # Safety
//! As the C API: strings are NUL-terminated, out-parameters null or valid.
#![allow(
    non_snake_case,
    clippy::missing_safety_doc,
    missing_docs,
    reason = "C functions with their own names and contracts; see the module's Safety section"
)]

use core::cell::{Cell, RefCell};
use core::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use sim_interface::{ApiFrame, MAGIC, RuntimeTable, SdkHooks, op, register};

/// Callback kinds.
const CORE: u32 = 7;
const CONTROL: u32 = 8;
const NAME: u32 = 9;
/// Ranges as one event from push to pop.
const RANGE: u32 = 21;
/// Operations of that kind.
const RANGE_MARK: i32 = 0;
const RANGE_THREAD: i32 = 1;
const RANGE_PROCESS: i32 = 2;
/// Size of the marker payload in bytes: size, two argument words, return value.
const PAYLOAD_SIZE: u64 = 32;
/// roctx 1.0.0.
const VERSION: u64 = 10000;

static HOOKS: AtomicPtr<SdkHooks> = AtomicPtr::new(core::ptr::null_mut());
static READY: AtomicBool = AtomicBool::new(false);
static NEXT_RANGE: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static DEPTH: Cell<c_int> = const { Cell::new(0) };
    static REGISTERING: Cell<bool> = const { Cell::new(false) };
}

unsafe extern "C" fn attach(hooks: *const SdkHooks) {
    HOOKS.store(hooks.cast_mut(), Ordering::Release);
}

static TABLE: RuntimeTable = RuntimeTable {
    magic: MAGIC,
    size: size_of::<RuntimeTable>() as u64,
    attach,
};

fn hooks() -> Option<&'static SdkHooks> {
    // Acquire: pairs with the store in `initialize`.
    if !READY.load(Ordering::Acquire) {
        initialize();
    }
    // SAFETY: null or the SDK's static table.
    unsafe { HOOKS.load(Ordering::Acquire).as_ref() }
}

#[cold]
fn initialize() {
    static ONCE: Once = Once::new();
    if REGISTERING.get() {
        return;
    }
    ONCE.call_once(|| {
        REGISTERING.set(true);
        let table = (&raw const TABLE).cast_mut().cast::<c_void>();
        let mut tables = [table; 3];
        // SAFETY: three static tables, as the SDK expects for "roctx".
        unsafe { register::register_library(c"roctx", VERSION, &mut tables) };
        REGISTERING.set(false);
        READY.store(true, Ordering::Release);
    });
}

/// Reports one call around its body.
fn call(kind: u32, op: i32, args: [u64; 2], body: impl FnOnce() -> u64) -> u64 {
    let Some(hooks) = hooks().filter(|hooks| (hooks.wants)(kind, op)) else {
        return body();
    };
    let mut frame = ApiFrame::new(kind, op, PAYLOAD_SIZE);
    frame.payload[1..3].copy_from_slice(&args);
    // SAFETY: the frame lives until `api_exit`.
    unsafe { (hooks.api_enter)(&raw mut frame) };
    let result = body();
    frame.payload[3] = result;
    // SAFETY: `api_enter` filled this frame.
    unsafe { (hooks.api_exit)(&raw mut frame) };
    result
}

/// An open range: its frame lives from push to pop.
struct Open(Box<ApiFrame>);

// SAFETY: the frame's pointers are the SDK's, which allows its end on another thread.
unsafe impl Send for Open {}

thread_local! {
    /// Ranges pushed on this thread; `None` = not traced.
    static PUSHED: RefCell<Vec<Option<Open>>> = const { RefCell::new(Vec::new()) };
}

/// Process ranges that are open, by id.
static STARTED: Mutex<Vec<(u64, Open)>> = Mutex::new(Vec::new());

fn open_range(op: i32, message: *const c_char) -> Option<Open> {
    let hooks = hooks().filter(|hooks| (hooks.wants)(RANGE, op))?;
    let mut frame = Box::new(ApiFrame::new(RANGE, op, PAYLOAD_SIZE));
    frame.payload[1] = message as u64;
    // SAFETY: the frame lives until `close_range`.
    unsafe { (hooks.api_enter)(&raw mut *frame) };
    Some(Open(frame))
}

fn close_range(range: Option<Open>) {
    if let (Some(Open(mut frame)), Some(hooks)) = (range, hooks()) {
        // SAFETY: `api_enter` filled this frame, and it is taken, so this happens once.
        unsafe { (hooks.api_exit)(&raw mut *frame) };
    }
}

/// An `int` as it lies in the return-value word.
fn word(value: c_int) -> u64 {
    u64::from(value.cast_unsigned())
}

fn started() -> MutexGuard<'static, Vec<(u64, Open)>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The `int` in a return-value word.
fn int(word: u64) -> c_int {
    // Only the low half was set.
    (word as u32).cast_signed()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxMarkA(message: *const c_char) {
    call(CORE, op::roctxMarkA, [message as u64, 0], || 0);
    close_range(open_range(RANGE_MARK, message));
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangePushA(message: *const c_char) -> c_int {
    let level = int(call(CORE, op::roctxRangePushA, [message as u64, 0], || {
        word(DEPTH.replace(DEPTH.get() + 1))
    }));
    let range = open_range(RANGE_THREAD, message);
    PUSHED.with_borrow_mut(|pushed| pushed.push(range));
    level
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangePop() -> c_int {
    close_range(PUSHED.with_borrow_mut(Vec::pop).flatten());
    int(call(CORE, op::roctxRangePop, [0, 0], || {
        let depth = DEPTH.get() - 1;
        if depth < 0 {
            return word(-1);
        }
        DEPTH.set(depth);
        word(depth)
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangeStartA(message: *const c_char) -> u64 {
    let id = call(CORE, op::roctxRangeStartA, [message as u64, 0], || {
        NEXT_RANGE.fetch_add(1, Ordering::Relaxed)
    });
    if let Some(range) = open_range(RANGE_PROCESS, message) {
        started().push((id, range));
    }
    id
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxRangeStop(id: u64) {
    call(CORE, op::roctxRangeStop, [id, 0], || 0);
    let range = {
        let mut started = started();
        let index = started.iter().position(|(started, _)| *started == id);
        index.map(|index| started.swap_remove(index).1)
    };
    close_range(range);
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxGetThreadId(tid: *mut u64) -> c_int {
    int(call(CORE, op::roctxGetThreadId, [tid as u64, 0], || {
        if tid.is_null() {
            return word(-1);
        }
        // SAFETY: gettid takes nothing and cannot fail.
        let id = unsafe { libc::gettid() };
        // SAFETY: not null; module's Safety section.
        unsafe { tid.write(u64::from(id.cast_unsigned())) };
        0
    }))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxProfilerPause(tid: u64) -> c_int {
    int(call(CONTROL, op::roctxProfilerPause, [tid, 0], || 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxProfilerResume(tid: u64) -> c_int {
    int(call(CONTROL, op::roctxProfilerResume, [tid, 0], || 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxNameOsThread(name: *const c_char) -> c_int {
    int(call(NAME, op::roctxNameOsThread, [name as u64, 0], || 0))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxNameHsaAgent(name: *const c_char, agent: *const c_void) -> c_int {
    int(call(
        NAME,
        op::roctxNameHsaAgent,
        [name as u64, agent as u64],
        || 0,
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxNameHipDevice(name: *const c_char, device: c_int) -> c_int {
    int(call(
        NAME,
        op::roctxNameHipDevice,
        [name as u64, word(device)],
        || 0,
    ))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn roctxNameHipStream(name: *const c_char, stream: *const c_void) -> c_int {
    int(call(
        NAME,
        op::roctxNameHipStream,
        [name as u64, stream as u64],
        || 0,
    ))
}
