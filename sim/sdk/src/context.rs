//! Contexts, and which of them want what, as bit masks.
//!
//! A context is a bit. `ACTIVE` holds the active ones; for each callback kind and operation, and
//! each buffer kind and operation, one word holds the contexts that want it. Capturing is then one
//! load and one AND, with no lock and no allocation. At most [`CONTEXTS_MAX`] contexts (the real SDK
//! has no limit).
//!
//! Services are written during initialization only (I2), by the one thread that registers.

use core::ffi::c_void;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use sim_interface::CONTEXTS_MAX;

use crate::abi::{
    CONFIGURATION_LOCKED, CONTEXT_CONFLICT, CONTEXT_ID_NOT_ZERO, CONTEXT_NOT_FOUND, CallbackFn,
    KIND_NOT_FOUND, OPERATION_NOT_FOUND, OUT_OF_RESOURCES, SERVICE_ALREADY_CONFIGURED, SUCCESS,
    Status, buffer_kind, callback_kind,
};
use crate::buffer::Buffer;
use crate::registration;

/// Operations that a kind can have in 1.0.0: its operation sets have 512 bits.
pub(crate) const OPERATIONS_MAX: usize = 512;

/// A tool's callback and what it is called with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallbackService {
    pub(crate) callback: CallbackFn,
    pub(crate) data: *mut c_void,
}

// SAFETY: the pointer is the tool's and only handed back to it.
unsafe impl Send for CallbackService {}
// SAFETY: as above.
unsafe impl Sync for CallbackService {}

/// `rocprofiler_external_correlation_id_request_cb_t`.
pub(crate) type RequestFn = unsafe extern "C" fn(
    thread_id: u64,
    context: u64,
    kind: u32,
    operation: i32,
    internal: u64,
    out: *mut u64,
    data: *mut c_void,
) -> i32;

/// External correlation id request service.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestService {
    pub(crate) callback: RequestFn,
    pub(crate) data: *mut c_void,
    /// One bit for each request kind.
    pub(crate) kinds: u32,
}

// SAFETY: the pointer is the tool's and only handed back to it.
unsafe impl Send for RequestService {}
// SAFETY: as above.
unsafe impl Sync for RequestService {}

/// One context. Never freed (I1).
#[derive(Debug)]
pub(crate) struct Context {
    pub(crate) index: usize,
    pub(crate) client: usize,
    callbacks: [OnceLock<CallbackService>; callback_kind::LAST as usize],
    buffers: [OnceLock<u64>; buffer_kind::LAST as usize],
    pub(crate) request: OnceLock<RequestService>,
    pub(crate) counting: OnceLock<crate::trace::CountingService>,
}

static CONTEXTS: [AtomicPtr<Context>; CONTEXTS_MAX] =
    [const { AtomicPtr::new(core::ptr::null_mut()) }; CONTEXTS_MAX];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ACTIVE: AtomicU64 = AtomicU64::new(0);
/// Contexts with a dispatch counting service.
static COUNTING: AtomicU64 = AtomicU64::new(0);

type Wants = [AtomicU64; OPERATIONS_MAX];
static CALLBACK_WANTS: [Wants; callback_kind::LAST as usize] =
    [const { [const { AtomicU64::new(0) }; OPERATIONS_MAX] }; callback_kind::LAST as usize];
static BUFFER_WANTS: [Wants; buffer_kind::LAST as usize] =
    [const { [const { AtomicU64::new(0) }; OPERATIONS_MAX] }; buffer_kind::LAST as usize];

/// Contexts that are active now.
#[inline]
pub(crate) fn active() -> u64 {
    // Acquire: pairs with the release in `start`, so that a context that is seen active has its
    // services.
    ACTIVE.load(Ordering::Acquire)
}

/// Contexts that want callbacks of this operation, active or not.
#[inline]
pub(crate) fn wants_callback(kind: u32, op: i32) -> u64 {
    wants(&CALLBACK_WANTS, kind, op)
}

/// Contexts that want buffer records of this operation, active or not.
#[inline]
pub(crate) fn wants_buffer(kind: u32, op: i32) -> u64 {
    wants(&BUFFER_WANTS, kind, op)
}

/// Contexts with a dispatch counting service, active or not.
pub(crate) fn wants_counting() -> u64 {
    COUNTING.load(Ordering::Relaxed)
}

#[inline]
fn wants(table: &[Wants], kind: u32, op: i32) -> u64 {
    match table
        .get(kind as usize)
        .and_then(|ops| ops.get(usize::try_from(op).ok()?))
    {
        // Relaxed: `active` ordered it; see I2.
        Some(mask) => mask.load(Ordering::Relaxed),
        None => 0,
    }
}

/// The context with this bit, which must have been created.
#[inline]
pub(crate) fn at(index: usize) -> &'static Context {
    // SAFETY: a set bit was created (`create` stored the pointer before handing out the handle), and
    // contexts are never freed (I1).
    unsafe { &*CONTEXTS[index].load(Ordering::Acquire) }
}

/// Iterates over the contexts of a mask, in order of creation.
#[inline]
pub(crate) fn each(mut mask: u64) -> impl Iterator<Item = &'static Context> {
    core::iter::from_fn(move || {
        if mask == 0 {
            return None;
        }
        let index = mask.trailing_zeros() as usize;
        mask &= mask - 1;
        Some(at(index))
    })
}

/// Random number of this process: handles are offset by it, and never 0.
pub(crate) fn handle_offset() -> u64 {
    static OFFSET: OnceLock<u64> = OnceLock::new();
    *OFFSET.get_or_init(|| {
        let random = sim_interface::settings::mix(
            sim_interface::boottime_ns(),
            u64::from(std::process::id()),
        );
        255 + random % (65536 - 255)
    })
}

impl Context {
    #[inline]
    pub(crate) fn handle(&self) -> u64 {
        handle_offset() + self.index as u64
    }

    #[inline]
    pub(crate) fn bit(&self) -> u64 {
        1 << self.index
    }

    #[inline]
    pub(crate) fn callback(&self, kind: u32) -> Option<&CallbackService> {
        self.callbacks.get(kind as usize)?.get()
    }

    /// The buffer of a buffer kind.
    #[inline]
    pub(crate) fn buffer(&self, kind: u32) -> Option<&'static Buffer> {
        crate::buffer::find(*self.buffers.get(kind as usize)?.get()?)
    }
}

/// The context of a handle.
pub(crate) fn find(handle: u64) -> Option<&'static Context> {
    let index = usize::try_from(handle.checked_sub(handle_offset())?).ok()?;
    (index < COUNT.load(Ordering::Acquire)).then(|| at(index))
}

/// `rocprofiler_create_context`; `handle` is the caller's.
pub(crate) fn create(handle: &mut u64) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    if *handle != 0 {
        return CONTEXT_ID_NOT_ZERO;
    }
    if registration::current_client() == usize::MAX {
        eprintln!(
            "stand-in SDK: rocprofiler_create_context outside a tool's initialize function: the real \
             SDK trips an assertion here; aborting"
        );
        std::process::abort();
    }
    let index = COUNT.load(Ordering::Acquire);
    if index >= CONTEXTS_MAX {
        return OUT_OF_RESOURCES;
    }
    let context = Box::leak(Box::new(Context {
        index,
        client: registration::current_client(),
        callbacks: [const { OnceLock::new() }; callback_kind::LAST as usize],
        buffers: [const { OnceLock::new() }; buffer_kind::LAST as usize],
        request: OnceLock::new(),
        counting: OnceLock::new(),
    }));
    CONTEXTS[index].store(context, Ordering::Release);
    COUNT.store(index + 1, Ordering::Release);
    *handle = context.handle();
    SUCCESS
}

/// `rocprofiler_start_context`.
pub(crate) fn start(handle: u64) -> Status {
    if registration::fini_status() != 0 {
        return CONFIGURATION_LOCKED;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    if context.counting.get().is_some() && active() & wants_counting() & !context.bit() != 0 {
        return CONTEXT_CONFLICT;
    }
    // Release: publishes the context's services to threads that see the bit.
    ACTIVE.fetch_or(context.bit(), Ordering::Release);
    SUCCESS
}

/// `rocprofiler_stop_context`: takes the bit away and waits for nothing.
pub(crate) fn stop(handle: u64) -> Status {
    if registration::fini_status() > 0 {
        return SUCCESS;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    if ACTIVE.fetch_and(!context.bit(), Ordering::AcqRel) & context.bit() == 0 {
        return CONTEXT_NOT_FOUND;
    }
    SUCCESS
}

/// Stops all contexts of a client.
pub(crate) fn stop_client(client: usize) {
    for index in 0..COUNT.load(Ordering::Acquire) {
        let context = at(index);
        if context.client == client {
            ACTIVE.fetch_and(!context.bit(), Ordering::AcqRel);
        }
    }
}

/// `rocprofiler_context_is_active`.
pub(crate) fn is_active(handle: u64) -> Option<bool> {
    find(handle).map(|context| active() & context.bit() != 0)
}

/// Adds the callback service of a kind.
pub(crate) fn configure_callback(
    handle: u64,
    kind: u32,
    operations: &[i32],
    service: CallbackService,
) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    let Some(slot) = context.callbacks.get(kind as usize) else {
        return unknown_kind(kind);
    };
    if slot.set(service).is_err() {
        return SERVICE_ALREADY_CONFIGURED;
    }
    configure_operations(&CALLBACK_WANTS, context, kind, operations)
}

/// Adds the buffer service of a kind.
pub(crate) fn configure_buffer(handle: u64, kind: u32, operations: &[i32], buffer: u64) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    if buffer == 0 {
        return crate::abi::BUFFER_NOT_FOUND;
    }
    let Some(slot) = context.buffers.get(kind as usize) else {
        return unknown_kind(kind);
    };
    if slot.set(buffer).is_err() {
        return SERVICE_ALREADY_CONFIGURED;
    }
    configure_operations(&BUFFER_WANTS, context, kind, operations)
}

/// The real SDK throws a C++ exception out of the C function here, which nobody catches.
fn unknown_kind(kind: u32) -> Status {
    eprintln!(
        "stand-in SDK: a service was configured for kind {kind}, which does not exist; the real SDK \
         throws std::out_of_range here"
    );
    std::process::abort()
}

/// On status 4 and 5 the service is left partly configured, as in the real SDK.
fn configure_operations(
    table: &[Wants],
    context: &Context,
    kind: u32,
    operations: &[i32],
) -> Status {
    if kind == 0 {
        return KIND_NOT_FOUND;
    }
    let table = &table[kind as usize];
    if operations.is_empty() {
        for mask in table {
            mask.fetch_or(context.bit(), Ordering::Relaxed);
        }
        return SUCCESS;
    }
    for &op in operations {
        let Some(mask) = usize::try_from(op).ok().and_then(|op| table.get(op)) else {
            return OPERATION_NOT_FOUND;
        };
        mask.fetch_or(context.bit(), Ordering::Relaxed);
    }
    SUCCESS
}

/// Adds the dispatch counting service.
pub(crate) fn configure_counting(handle: u64, service: crate::trace::CountingService) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    if context.counting.set(service).is_err() {
        return SERVICE_ALREADY_CONFIGURED;
    }
    COUNTING.fetch_or(context.bit(), Ordering::Relaxed);
    SUCCESS
}

/// Adds the external correlation id request service.
pub(crate) fn configure_request(handle: u64, service: RequestService) -> Status {
    if !registration::configuring() {
        return CONFIGURATION_LOCKED;
    }
    let Some(context) = find(handle) else {
        return CONTEXT_NOT_FOUND;
    };
    match context.request.set(service) {
        Ok(()) => SUCCESS,
        Err(_) => SERVICE_ALREADY_CONFIGURED,
    }
}
