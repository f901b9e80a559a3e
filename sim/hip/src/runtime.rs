//! Settings, registration at the first HIP call, hooks, and what each thread has.

use core::cell::Cell;
use core::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};

use sim_interface::settings::Settings;
use sim_interface::{ApiFrame, MAGIC, RuntimeTable, SdkHooks, register};

use crate::{device, kernels, ledger};

/// HIP 7.1.25424: what `hipRuntimeGetVersion` says.
pub(crate) const HIP_VERSION: i32 = 70_125_424;

/// Callback kind HIP_RUNTIME_API.
pub(crate) const KIND_RUNTIME: u32 = 5;
/// Callback kind HIP_COMPILER_API.
pub(crate) const KIND_COMPILER: u32 = 6;
/// Callback kind HIP_STREAM.
const KIND_STREAM: u32 = 20;
/// Size of the HIP payload in bytes.
const PAYLOAD_SIZE: u64 = 120;

static HOOKS: AtomicPtr<SdkHooks> = AtomicPtr::new(core::ptr::null_mut());
/// Is registration over? Until then every call takes the slow path.
static READY: AtomicBool = AtomicBool::new(false);

/// State of a thread. No destructors.
pub(crate) struct Thread {
    /// Current device.
    pub(crate) device: Cell<u32>,
    /// Error of the last call that had one.
    pub(crate) last_error: Cell<i32>,
    /// Its own stream (`hipStreamPerThread`), made at first use; by device.
    pub(crate) stream: Cell<Option<&'static device::Stream>>,
    /// Innermost launch configuration pushed by `__hipPushCallConfiguration`.
    pub(crate) configurations: [Cell<Configuration>; 8],
    pub(crate) configuration_depth: Cell<usize>,
    /// Is this thread inside the registration?
    registering: Cell<bool>,
    /// Does this thread intercept a packet, inside the tools' ENQUEUE callbacks?
    pub(crate) intercepting: Cell<bool>,
    /// Its Linux thread id, for the ledger; 0 = not asked yet.
    pub(crate) thread_id: Cell<u64>,
}

/// Launch configuration between `<<<>>>` and the launch.
#[derive(Clone, Copy)]
pub(crate) struct Configuration {
    pub(crate) grid: Dim3,
    pub(crate) block: Dim3,
    pub(crate) shared_bytes: usize,
    pub(crate) stream: *mut c_void,
}

/// HIP's `dim3`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Dim3 {
    /// Width.
    pub x: u32,
    /// Height.
    pub y: u32,
    /// Depth.
    pub z: u32,
}

thread_local! {
    static THREAD: Thread = const {
        Thread {
            device: Cell::new(0),
            last_error: Cell::new(0),
            stream: Cell::new(None),
            configurations: [const {
                Cell::new(Configuration {
                    grid: Dim3 { x: 1, y: 1, z: 1 },
                    block: Dim3 { x: 1, y: 1, z: 1 },
                    shared_bytes: 0,
                    stream: core::ptr::null_mut(),
                })
            }; 8],
            configuration_depth: Cell::new(0),
            registering: Cell::new(false),
            intercepting: Cell::new(false),
            thread_id: Cell::new(0),
        }
    };
}

/// Runs with the calling thread's state.
#[inline]
pub(crate) fn thread<R>(body: impl FnOnce(&Thread) -> R) -> R {
    THREAD.with(body)
}

/// Linux thread id of the caller.
pub(crate) fn thread_id() -> u64 {
    thread(|thread| {
        if thread.thread_id.get() == 0 {
            // SAFETY: gettid takes nothing and cannot fail.
            let id = unsafe { libc::gettid() };
            thread.thread_id.set(u64::from(id.cast_unsigned()));
        }
        thread.thread_id.get()
    })
}

/// The settings of this process; complains once about bad ones.
#[inline]
pub(crate) fn settings() -> &'static Settings {
    static SETTINGS: OnceLock<Settings> = OnceLock::new();
    SETTINGS.get_or_init(|| {
        let (mut settings, problems) = Settings::from_env();
        for problem in problems {
            eprintln!("stand-in HIP: {problem}");
        }
        // A small ring only fills when kernels are slower than the threads that launch them.
        if settings.ring > 0 && std::env::var_os("ROCSIM_KERNEL_NS").is_none() {
            settings.kernel_ns = sim_interface::settings::Delay::Fixed(5_000);
        }
        settings
    })
}

/// The SDK's hooks, if a tool is present.
#[inline]
pub(crate) fn hooks() -> Option<&'static SdkHooks> {
    // Acquire: pairs with the store in `attach`.
    let hooks = HOOKS.load(Ordering::Acquire);
    // SAFETY: null or the SDK's static table.
    unsafe { hooks.as_ref() }
}

unsafe extern "C" fn attach(hooks: *const SdkHooks) {
    HOOKS.store(hooks.cast_mut(), Ordering::Release);
}

static TABLE: RuntimeTable = RuntimeTable {
    magic: MAGIC,
    size: size_of::<RuntimeTable>() as u64,
    attach,
};

/// Registers with the SDK at the first call; later only a load.
#[inline]
pub(crate) fn ensure() {
    // Acquire: pairs with the store at the end of `initialize`.
    if !READY.load(Ordering::Acquire) {
        initialize();
    }
}

#[cold]
fn initialize() {
    static ONCE: Once = Once::new();
    // A HIP call from a tool's initializer passes through, untraced.
    if thread(|thread| thread.registering.get()) {
        return;
    }
    ONCE.call_once(|| {
        thread(|thread| thread.registering.set(true));
        let settings = settings();
        device::set_clock(settings.clock_ns);
        ledger::open(settings.ledger.as_deref());
        let mut tables = [(&raw const TABLE).cast_mut().cast::<c_void>()];
        // SAFETY: the table is static and what a stand-in SDK expects for "hip".
        let traced = unsafe {
            register::register_library(c"hip", HIP_VERSION.unsigned_abs().into(), &mut tables)
        };
        if !traced {
            HOOKS.store(core::ptr::null_mut(), Ordering::Release);
        }
        if settings.devices > 0 {
            kernels::load_registered(0);
        }
        thread(|thread| thread.registering.set(false));
        READY.store(true, Ordering::Release);
    });
}

/// Locks, also after a panic of another holder: the data here is valid between any two statements.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs one HIP function: registration, trace, error state.
///
/// `args` makes the argument struct as the tool sees it: C layout, at most 88 bytes. `stream` is
/// the function's stream argument.
#[inline]
pub(crate) fn call<A: Copy>(
    kind: u32,
    op: i32,
    stream: Option<*mut c_void>,
    args: impl FnOnce() -> A,
    body: impl FnOnce() -> i32,
) -> i32 {
    const { assert!(size_of::<A>() <= 88) };
    ensure();
    ledger::count(kind, op);
    let Some(hooks) = hooks() else {
        return finish(body());
    };
    let stream = stream.filter(|_| (hooks.wants)(KIND_STREAM, 3));
    if stream.is_none() && !(hooks.wants)(kind, op) {
        return finish(body());
    }
    let set = |enter| {
        if let Some(stream) = stream {
            // SAFETY: takes any value.
            unsafe { (hooks.stream_set)(stream as u64, enter) };
        }
    };
    set(true);
    let mut frame = ApiFrame::new(kind, op, PAYLOAD_SIZE);
    // SAFETY: the union begins after the size word and has 88 bytes (asserted); A is a plain C
    // struct and at most 8-aligned.
    unsafe { frame.payload.as_mut_ptr().add(1).cast::<A>().write(args()) };
    // SAFETY: the frame lives until `api_exit`.
    unsafe { (hooks.api_enter)(&raw mut frame) };
    let error = finish(body());
    // `retval` follows the 88-byte union.
    frame.payload[12] = u64::from(error.cast_unsigned());
    // SAFETY: `api_enter` filled this frame.
    unsafe { (hooks.api_exit)(&raw mut frame) };
    set(false);
    error
}

#[inline]
fn finish(error: i32) -> i32 {
    if error != 0 {
        thread(|thread| thread.last_error.set(error));
    }
    error
}
