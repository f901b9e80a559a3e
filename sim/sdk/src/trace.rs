//! Tracing: API calls, dispatches, copies, allocations, scratch, streams.
//!
//! A runtime calls [`HOOKS`]. Each event captures the contexts that are active at its start (I3);
//! what it captured gets all of its callbacks and records, also after a stop.
//!
//! Order of one dispatch: ENQUEUE ENTER, copy of `user_data` taken, ENQUEUE EXIT, (packet written,
//! device, handler thread), COMPLETE, buffer record, reference dropped, drain counter lowered.

use core::ffi::c_void;
use core::mem::MaybeUninit;
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use sim_interface::{
    AllocFrame, ApiFrame, CONTEXTS_MAX, CopyRequest, DispatchRequest, ScratchRequest, SdkHooks,
};

use crate::abi::{
    AllocData, AllocRecord, ApiExtRecord, ApiRecord, CallbackRecord, CopyData, CopyRecord,
    DISPATCH_INFO_SIZE, DispatchData, DispatchInfo, DispatchRecord, PHASE_ENTER, PHASE_EXIT,
    PHASE_NONE, RuntimeInitData, RuntimeInitRecord, ScratchData, ScratchRecord, StreamData,
    buffer_kind, callback_kind, request_kind,
};
use crate::context::{self, Context};
use crate::correlation::{self, Correlation, lock, thread_id};
use crate::{agents, clock, code_object, registration, settings};

/// The throttle's count: what the real SDK was seen to allow in flight before it slows down.
const THROTTLE_COUNT: i64 = 16;
/// ENQUEUE and COMPLETE operations of KERNEL_DISPATCH.
const ENQUEUE: i32 = 1;
const COMPLETE: i32 = 2;

/// What a runtime gets.
pub(crate) static HOOKS: SdkHooks = SdkHooks {
    size: size_of::<SdkHooks>() as u64,
    wants,
    api_enter,
    api_exit,
    dispatch_enqueue,
    dispatch_complete,
    copy_enter,
    copy_submitted,
    copy_complete,
    alloc_enter,
    alloc_exit,
    scratch,
    code_object_load: code_object::load,
    code_object_unload: code_object::unload,
    stream_event,
    stream_set,
    set_thread_id: correlation::set_thread_id,
    set_clock: clock::set,
};

/// Traced dispatches whose handler has not finished.
static DISPATCHES_IN_FLIGHT: AtomicU64 = AtomicU64::new(0);
/// Traced copies whose handler has not run.
static COPIES_IN_FLIGHT: AtomicU64 = AtomicU64::new(0);
static NEXT_DISPATCH: AtomicU64 = AtomicU64::new(1);
static THROTTLE: AtomicI64 = AtomicI64::new(THROTTLE_COUNT);
/// Completions so far, for the planted overflow.
static COMPLETIONS: AtomicU64 = AtomicU64::new(0);

/// Is an API call of this kind and operation traced by anybody now?
#[inline]
fn captured_api(kind: u32, op: i32) -> u64 {
    let active = context::active();
    if active == 0 {
        return 0;
    }
    // Marker wrappers do not look at the finalization status; all others pass through.
    let marker = (7..=9).contains(&kind) || kind == callback_kind::MARKER_CORE_RANGE;
    if !marker && registration::fini_status() != 0 {
        return 0;
    }
    active & api_wants(kind, op)
}

/// Buffer kind of an API callback kind: the same number, except for marker ranges.
#[inline]
fn plain_kind(kind: u32) -> u32 {
    match kind {
        callback_kind::MARKER_CORE_RANGE => buffer_kind::MARKER_CORE_RANGE,
        kind => kind,
    }
}

/// Buffer kind with arguments that belongs to an API kind; 0 = none.
#[inline]
fn ext_kind(kind: u32) -> u32 {
    match kind {
        5 => buffer_kind::HIP_RUNTIME_EXT,
        6 => buffer_kind::HIP_COMPILER_EXT,
        _ => 0,
    }
}

#[inline]
fn api_wants(kind: u32, op: i32) -> u64 {
    let mut mask = context::wants_callback(kind, op) | context::wants_buffer(plain_kind(kind), op);
    let ext = ext_kind(kind);
    if ext != 0 {
        mask |= context::wants_buffer(ext, op);
    }
    mask
}

extern "C" fn wants(kind: u32, op: i32) -> bool {
    captured_api(kind, op) != 0
}

unsafe extern "C" fn api_enter(frame: *mut ApiFrame) {
    // SAFETY: the runtime's frame, on its stack until `api_exit`.
    let frame = unsafe { &mut *frame };
    let (kind, op) = (frame.kind, frame.op);
    frame.captured = captured_api(kind, op);
    if frame.captured == 0 {
        return;
    }
    // A range holds its id from push to pop; a call lets go of one reference before its work.
    let range = kind == callback_kind::MARKER_CORE_RANGE;
    let id = Correlation::create(if range { 1 } else { 2 });
    id.push();
    frame.correlation = core::ptr::from_ref(id).cast_mut().cast();
    let request = if range {
        request_kind::MARKER_CORE_RANGE
    } else {
        kind
    };
    let requested = sample_externals(frame.captured, request, op, id.id(), &mut frame.external);
    call_back(
        frame.captured & context::wants_callback(kind, op),
        kind,
        op,
        PHASE_ENTER,
        id,
        &frame.external,
        &mut frame.user_data,
        UserData::Zeroed,
        (&raw mut frame.payload).cast(),
    );
    update_externals(frame.captured & !requested, &mut frame.external);
    let buffered =
        context::wants_buffer(plain_kind(kind), op) | context::wants_buffer(ext_kind(kind), op);
    if frame.captured & buffered != 0 {
        frame.start_ns = clock::now_ns();
    }
    if !range {
        id.drop_reference();
    }
}

unsafe extern "C" fn api_exit(frame: *mut ApiFrame) {
    // SAFETY: the runtime's frame, which `api_enter` filled.
    let frame = unsafe { &mut *frame };
    if frame.captured == 0 {
        return;
    }
    let (kind, op) = (frame.kind, frame.op);
    // SAFETY: `api_enter` stored an id object; they are never freed (I1).
    let id = unsafe { &*frame.correlation.cast::<Correlation>() };
    let wants = context::wants_buffer(plain_kind(kind), op);
    let wants_ext = context::wants_buffer(ext_kind(kind), op);
    let end_ns = if frame.captured & (wants | wants_ext) == 0 {
        0
    } else {
        clock::now_ns()
    };
    call_back(
        frame.captured & context::wants_callback(kind, op),
        kind,
        op,
        PHASE_EXIT,
        id,
        &frame.external,
        &mut frame.user_data,
        UserData::Kept,
        (&raw mut frame.payload).cast(),
    );
    let record = |context: &Context, kind: u32, size: usize| ApiRecord {
        size: size as u64,
        kind,
        operation: op,
        internal: id.id(),
        external: external_of(&frame.external, context),
        ancestor: id.ancestor(),
        start: frame.start_ns,
        end: end_ns,
        thread_id: id.thread_id(),
    };
    for context in context::each(frame.captured & wants) {
        let kind = plain_kind(kind);
        insert(
            context,
            kind,
            &record(context, kind, size_of::<ApiRecord>()),
        );
    }
    for context in context::each(frame.captured & wants_ext) {
        let mut args = [0; 11];
        args.copy_from_slice(&frame.payload[1..12]);
        let mut retval = [0; 3];
        retval.copy_from_slice(&frame.payload[12..15]);
        let api = record(context, ext_kind(kind), size_of::<ApiExtRecord>());
        insert(context, ext_kind(kind), &ApiExtRecord { api, args, retval });
    }
    id.drop_reference();
    Correlation::pop();
}

/// What becomes of the `user_data` slots before a callback.
#[derive(Clone, Copy, PartialEq)]
enum UserData {
    /// First callback of an event: zero.
    Zeroed,
    /// Later callback: as the tool left it.
    Kept,
}

type Slots = [MaybeUninit<u64>; CONTEXTS_MAX];

/// Calls the tools' callbacks of one event, context by context.
#[allow(
    clippy::too_many_arguments,
    reason = "the fields of one C record; a struct for it would only move the list"
)]
#[inline]
fn call_back(
    receivers: u64,
    kind: u32,
    op: i32,
    phase: u32,
    id: &Correlation,
    external: &Slots,
    user_data: &mut Slots,
    slots: UserData,
    payload: *mut c_void,
) {
    for context in context::each(receivers) {
        let Some(service) = context.callback(kind) else {
            continue;
        };
        let slot = &mut user_data[context.index];
        if slots == UserData::Zeroed {
            slot.write(0);
        }
        let record = CallbackRecord {
            context: context.handle(),
            thread_id: id.thread_id(),
            internal: id.id(),
            external: external_of(external, context),
            ancestor: id.ancestor(),
            kind,
            operation: op,
            phase,
            padding: 0xdddd_dddd,
            payload,
        };
        // SAFETY: the tool gave this function for this use; record and payload live until it
        // returns, and the slot until the event is over.
        unsafe { (service.callback)(record, slot.as_mut_ptr(), service.data) };
    }
}

/// Adds a record to a context's buffer of a kind, unless the buffer is another context's.
#[inline]
fn insert<T: Copy>(context: &Context, kind: u32, record: &T) {
    if let Some(buffer) = context.buffer(kind)
        && buffer.belongs_to(context)
    {
        buffer.insert(kind, record);
    }
}

#[inline]
fn external_of(external: &Slots, context: &Context) -> u64 {
    // SAFETY: `sample_externals` wrote the slot of every captured context.
    unsafe { external[context.index].assume_init() }
}

/// Samples the external ids of captured contexts. Returns those whose request service answered.
#[inline]
fn sample_externals(
    captured: u64,
    request_kind: u32,
    op: i32,
    internal: u64,
    external: &mut Slots,
) -> u64 {
    let mut requested = 0;
    for context in context::each(captured) {
        let value = match correlation::request_external(context, request_kind, op, internal) {
            Some(value) => {
                requested |= context.bit();
                value
            }
            None => correlation::external(context),
        };
        external[context.index].write(value);
    }
    requested
}

/// Reads the pushed external ids again: a tool may have pushed in its ENTER callback.
#[inline]
fn update_externals(captured: u64, external: &mut Slots) {
    for context in context::each(captured) {
        external[context.index].write(correlation::external(context));
    }
}

/// `rocprofiler_dispatch_counting_service_cb_t`; the 168-byte struct is passed by value.
pub(crate) type CountingFn = unsafe extern "C" fn(
    data: CountingData,
    config: *mut u64,
    user_data: *mut u64,
    callback_data: *mut c_void,
);

/// `rocprofiler_dispatch_counting_service_data_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountingData {
    size: u64,
    internal: u64,
    external: u64,
    start: u64,
    end: u64,
    info: DispatchInfo,
}

const _: () = assert!(size_of::<CountingData>() == 168);

/// Dispatch counting service. There are no counters: its record callback is never called.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountingService {
    pub(crate) callback: CountingFn,
    pub(crate) data: *mut c_void,
}

// SAFETY: the pointer is the tool's and only handed back to it.
unsafe impl Send for CountingService {}
// SAFETY: as above.
unsafe impl Sync for CountingService {}

/// A traced dispatch between enqueue and its handler.
struct DispatchSession {
    captured: u64,
    id: &'static Correlation,
    data: DispatchData,
    /// CPU time just before ENQUEUE EXIT: no dispatch starts earlier.
    lower_bound_ns: u64,
    external: Slots,
    user_data: Slots,
}

unsafe extern "C" fn dispatch_enqueue(request: *mut DispatchRequest) -> *mut c_void {
    // SAFETY: the runtime's request, for this call.
    let request = unsafe { &mut *request };
    request.dispatch_id = 0;
    request.correlation_id = 0;
    request.thread_id = 0;
    if registration::fini_status() > 0 {
        return core::ptr::null_mut();
    }
    let kind = callback_kind::KERNEL_DISPATCH;
    let buffered = context::wants_buffer(buffer_kind::KERNEL_DISPATCH, COMPLETE);
    let wanted = context::wants_callback(kind, ENQUEUE)
        | context::wants_callback(kind, COMPLETE)
        | buffered
        | context::wants_counting();
    let captured = context::active() & wanted;
    if captured == 0 {
        return core::ptr::null_mut();
    }
    throttle();
    DISPATCHES_IN_FLIGHT.fetch_add(1, Ordering::AcqRel);
    let (id, fresh) = match Correlation::top() {
        Some(id) => (id, false),
        None => (Correlation::create(1), true),
    };
    id.add_reference();

    let dispatch_id = NEXT_DISPATCH.fetch_add(1, Ordering::Relaxed);
    let mut session = Box::new(DispatchSession {
        captured,
        id,
        data: DispatchData {
            size: size_of::<DispatchData>() as u64,
            start: 0,
            end: 0,
            info: DispatchInfo {
                size: DISPATCH_INFO_SIZE,
                agent_id: agents::gpu_id(request.gpu),
                queue_id: request.queue_id,
                kernel_id: code_object::kernel_id(request.kernel_object),
                dispatch_id,
                private_segment_size: request.private_segment,
                group_segment_size: request.group_segment,
                workgroup_size: request.workgroup,
                grid_size: request.grid,
                reserved: [0; 56],
            },
        },
        lower_bound_ns: 0,
        external: [MaybeUninit::uninit(); CONTEXTS_MAX],
        user_data: [MaybeUninit::uninit(); CONTEXTS_MAX],
    });
    // Contexts that asked for COMPLETE only see a zero.
    for context in context::each(captured) {
        session.user_data[context.index].write(0);
    }
    let requested = sample_externals(
        captured,
        request_kind::KERNEL_DISPATCH,
        ENQUEUE,
        id.id(),
        &mut session.external,
    );
    let receivers = captured & context::wants_callback(kind, ENQUEUE);
    // The tool gets a copy of the payload: nothing it writes there reaches the record.
    let mut payload = session.data;
    call_back(
        receivers,
        kind,
        ENQUEUE,
        PHASE_ENTER,
        id,
        &session.external,
        &mut session.user_data,
        UserData::Kept,
        (&raw mut payload).cast(),
    );
    update_externals(captured & !requested, &mut session.external);
    for context in context::each(captured & context::wants_counting()) {
        count_dispatch(context, &session);
    }
    session.lower_bound_ns = clock::now_ns();
    // ENQUEUE EXIT works on its own copy of `user_data`: COMPLETE sees what ENTER left.
    let mut user_data = session.user_data;
    call_back(
        receivers,
        kind,
        ENQUEUE,
        PHASE_EXIT,
        id,
        &session.external,
        &mut user_data,
        UserData::Kept,
        (&raw mut payload).cast(),
    );
    if fresh {
        id.drop_reference();
    }
    request.dispatch_id = dispatch_id;
    request.correlation_id = id.id();
    request.thread_id = id.thread_id();
    Box::into_raw(session).cast()
}

fn count_dispatch(context: &Context, session: &DispatchSession) {
    let Some(service) = context.counting.get() else {
        return;
    };
    let data = CountingData {
        size: size_of::<CountingData>() as u64,
        internal: session.id.id(),
        external: external_of(&session.external, context),
        start: 0,
        end: 0,
        info: session.data.info,
    };
    let (mut config, mut user_data) = (0, 0);
    // SAFETY: the tool's function; the out-parameters live across the call.
    unsafe { (service.callback)(data, &raw mut config, &raw mut user_data, service.data) };
}

/// Takes one of the throttle's places; while there is none, yields and sleeps a little. It slows
/// the caller and does not block it.
fn throttle() {
    if settings().throttle && THROTTLE.fetch_sub(1, Ordering::AcqRel) <= 0 {
        std::thread::yield_now();
        std::thread::sleep(Duration::from_nanos(100));
    }
}

unsafe extern "C" fn dispatch_complete(
    token: *mut c_void,
    start_ns: u64,
    end_ns: u64,
    timed: bool,
) {
    if registration::fini_status() > 0 {
        // No record, no reference dropped, as the real SDK (which also frees the wrong type here).
        return;
    }
    let handler_ns = clock::now_ns();
    // SAFETY: a token of `dispatch_enqueue`, given back exactly once.
    let mut session = unsafe { Box::from_raw(token.cast::<DispatchSession>()) };
    let id = session.id;
    planted_overflow();
    if timed {
        let (start, end) = adjust(start_ns, end_ns, handler_ns, session.lower_bound_ns);
        session.data.start = start;
        session.data.end = end;
        let kind = callback_kind::KERNEL_DISPATCH;
        let DispatchSession {
            captured,
            external,
            user_data,
            data,
            ..
        } = &mut *session;
        let mut payload = *data;
        call_back(
            *captured & context::wants_callback(kind, COMPLETE),
            kind,
            COMPLETE,
            PHASE_NONE,
            id,
            external,
            user_data,
            UserData::Kept,
            (&raw mut payload).cast(),
        );
        let kind = buffer_kind::KERNEL_DISPATCH;
        for context in context::each(*captured & context::wants_buffer(kind, COMPLETE)) {
            insert(
                context,
                kind,
                &DispatchRecord {
                    size: size_of::<DispatchRecord>() as u64,
                    kind,
                    operation: COMPLETE,
                    internal: id.id(),
                    external: external_of(external, context),
                    thread_id: id.thread_id(),
                    start,
                    end,
                    info: data.info,
                },
            );
        }
    }
    drop(session);
    id.drop_reference();
    DISPATCHES_IN_FLIGHT.fetch_sub(1, Ordering::AcqRel);
    if settings().throttle {
        THROTTLE.fetch_add(1, Ordering::AcqRel);
    }
}

/// Moves times into the bounds that the SDK's clock gives, in its order.
fn adjust(mut start: u64, mut end: u64, handler: u64, lower_bound: u64) -> (u64, u64) {
    if start > end {
        core::mem::swap(&mut start, &mut end);
    }
    if end > handler {
        let shift = end - handler;
        start = start.saturating_sub(shift);
        end -= shift;
    }
    if start < lower_bound {
        let shift = lower_bound - start;
        start += shift;
        end += shift;
    }
    (start, end)
}

/// Writes past the end of a heap block when the settings ask for it: proof that a sanitizer arm of
/// a test would notice.
fn planted_overflow() {
    let at = settings().planted_overflow;
    if at != 0 && COMPLETIONS.fetch_add(1, Ordering::Relaxed) + 1 == at {
        let size = core::hint::black_box(24);
        // SAFETY: deliberately not: 8 bytes past the block. Only on request of a test.
        unsafe {
            let block = libc::malloc(size).cast::<u8>();
            libc::memset(block.add(size).cast(), 0x41, 8);
            libc::free(core::hint::black_box(block).cast());
        }
    }
}

/// A traced copy between submission and its handler.
struct CopySession {
    captured: u64,
    id: &'static Correlation,
    fresh: bool,
    direction: i32,
    data: CopyData,
    /// CPU time after the copy call returned: no copy starts earlier.
    lower_bound_ns: AtomicU64,
    external: Slots,
    user_data: Slots,
}

unsafe extern "C" fn copy_enter(request: *mut CopyRequest) -> *mut c_void {
    // SAFETY: the runtime's request, for this call.
    let request = unsafe { &mut *request };
    request.correlation_id = 0;
    request.thread_id = 0;
    if registration::fini_status() != 0 {
        return core::ptr::null_mut();
    }
    let kind = callback_kind::MEMORY_COPY;
    let op = request.direction;
    let wanted =
        context::wants_callback(kind, op) | context::wants_buffer(buffer_kind::MEMORY_COPY, op);
    let captured = context::active() & wanted;
    if captured == 0 {
        return core::ptr::null_mut();
    }
    let (id, fresh) = match Correlation::top() {
        Some(id) => (id, false),
        None => (Correlation::create(1), true),
    };
    id.add_reference();
    COPIES_IN_FLIGHT.fetch_add(1, Ordering::AcqRel);
    let mut session = Box::new(CopySession {
        captured,
        id,
        fresh,
        direction: op,
        data: CopyData {
            size: size_of::<CopyData>() as u64,
            start: 0,
            end: 0,
            dst_agent: agents::id(request.dst_gpu),
            src_agent: agents::id(request.src_gpu),
            bytes: request.bytes,
            dst_address: request.dst,
            src_address: request.src,
        },
        lower_bound_ns: AtomicU64::new(0),
        external: [MaybeUninit::uninit(); CONTEXTS_MAX],
        user_data: [MaybeUninit::uninit(); CONTEXTS_MAX],
    });
    sample_externals(
        captured,
        request_kind::MEMORY_COPY,
        op,
        id.id(),
        &mut session.external,
    );
    let CopySession {
        external,
        user_data,
        data,
        ..
    } = &mut *session;
    let mut payload = *data;
    call_back(
        captured & context::wants_callback(kind, op),
        kind,
        op,
        PHASE_ENTER,
        id,
        external,
        user_data,
        UserData::Zeroed,
        (&raw mut payload).cast(),
    );
    request.correlation_id = id.id();
    request.thread_id = id.thread_id();
    Box::into_raw(session).cast()
}

unsafe extern "C" fn copy_submitted(token: *mut c_void) {
    // SAFETY: a token of `copy_enter` whose handler has not run: the runtime calls this before it
    // lets the copy complete.
    let session = unsafe { &*token.cast::<CopySession>() };
    session
        .lower_bound_ns
        .store(clock::now_ns(), Ordering::Release);
    if session.fresh {
        session.id.drop_reference();
    }
}

unsafe extern "C" fn copy_complete(token: *mut c_void, start_ns: u64, end_ns: u64, timed: bool) {
    if registration::fini_status() > 0 {
        return;
    }
    let handler_ns = clock::now_ns();
    // SAFETY: a token of `copy_enter`, given back exactly once.
    let mut session = unsafe { Box::from_raw(token.cast::<CopySession>()) };
    let id = session.id;
    if timed {
        let bound = session.lower_bound_ns.load(Ordering::Acquire);
        let (start, end) = adjust(start_ns, end_ns, handler_ns, bound);
        session.data.start = start;
        session.data.end = end;
        let op = session.direction;
        let CopySession {
            captured,
            external,
            user_data,
            data,
            ..
        } = &mut *session;
        let mut payload = *data;
        let kind = callback_kind::MEMORY_COPY;
        call_back(
            *captured & context::wants_callback(kind, op),
            kind,
            op,
            PHASE_EXIT,
            id,
            external,
            user_data,
            UserData::Kept,
            (&raw mut payload).cast(),
        );
        let kind = buffer_kind::MEMORY_COPY;
        for context in context::each(*captured & context::wants_buffer(kind, op)) {
            insert(
                context,
                kind,
                &CopyRecord {
                    size: size_of::<CopyRecord>() as u64,
                    kind,
                    operation: op,
                    internal: id.id(),
                    external: external_of(external, context),
                    thread_id: id.thread_id(),
                    start,
                    end,
                    dst_agent: data.dst_agent,
                    src_agent: data.src_agent,
                    bytes: data.bytes,
                    dst_address: data.dst_address,
                    src_address: data.src_address,
                },
            );
        }
    }
    drop(session);
    // The drain counter drops before the id's reference, as in 1.0.0.
    COPIES_IN_FLIGHT.fetch_sub(1, Ordering::AcqRel);
    id.drop_reference();
}

unsafe extern "C" fn alloc_enter(frame: *mut AllocFrame) {
    // SAFETY: the runtime's frame, on its stack until `alloc_exit`.
    let frame = unsafe { &mut *frame };
    frame.captured = 0;
    if registration::fini_status() != 0 {
        return;
    }
    let kind = callback_kind::MEMORY_ALLOCATION;
    let wanted = context::wants_callback(kind, frame.op)
        | context::wants_buffer(buffer_kind::MEMORY_ALLOCATION, frame.op);
    frame.captured = context::active() & wanted;
    if frame.captured == 0 {
        return;
    }
    let id = match Correlation::top() {
        Some(id) => {
            id.add_reference();
            id
        }
        None => Correlation::create(1),
    };
    frame.correlation = core::ptr::from_ref(id).cast_mut().cast();
    let requested = sample_externals(
        frame.captured,
        request_kind::MEMORY_ALLOCATION,
        frame.op,
        id.id(),
        &mut frame.external,
    );
    let free = frame.op >= 3;
    let mut payload = AllocData {
        size: size_of::<AllocData>() as u64,
        start: 0,
        end: 0,
        agent: if free { 0 } else { agents::id(frame.gpu) },
        address: if free { frame.address } else { 0 },
        bytes: frame.bytes,
    };
    call_back(
        frame.captured & context::wants_callback(kind, frame.op),
        kind,
        frame.op,
        PHASE_ENTER,
        id,
        &frame.external,
        &mut frame.user_data,
        UserData::Zeroed,
        (&raw mut payload).cast(),
    );
    update_externals(frame.captured & !requested, &mut frame.external);
    frame.start_ns = clock::now_ns();
}

unsafe extern "C" fn alloc_exit(frame: *mut AllocFrame) {
    // SAFETY: the runtime's frame, which `alloc_enter` filled.
    let frame = unsafe { &mut *frame };
    if frame.captured == 0 {
        return;
    }
    // SAFETY: `alloc_enter` stored an id object; they are never freed (I1).
    let id = unsafe { &*frame.correlation.cast::<Correlation>() };
    let free = frame.op >= 3;
    let mut payload = AllocData {
        size: size_of::<AllocData>() as u64,
        start: frame.start_ns,
        end: clock::now_ns(),
        agent: if free { 0 } else { agents::id(frame.gpu) },
        address: frame.address,
        bytes: frame.bytes,
    };
    let kind = callback_kind::MEMORY_ALLOCATION;
    call_back(
        frame.captured & context::wants_callback(kind, frame.op),
        kind,
        frame.op,
        PHASE_EXIT,
        id,
        &frame.external,
        &mut frame.user_data,
        UserData::Kept,
        (&raw mut payload).cast(),
    );
    let kind = buffer_kind::MEMORY_ALLOCATION;
    for context in context::each(frame.captured & context::wants_buffer(kind, frame.op)) {
        insert(
            context,
            kind,
            &AllocRecord {
                size: size_of::<AllocRecord>() as u64,
                kind,
                operation: frame.op,
                internal: id.id(),
                external: external_of(&frame.external, context),
                ancestor: id.ancestor(),
                thread_id: id.thread_id(),
                start: payload.start,
                end: payload.end,
                agent: payload.agent,
                address: payload.address,
                bytes: payload.bytes,
            },
        );
    }
    id.drop_reference();
}

/// A scratch event between its start and its end, on one thread.
#[derive(Clone, Copy)]
struct ScratchState {
    captured: u64,
    start_ns: u64,
    data: ScratchData,
    user_data: Slots,
}

thread_local! {
    /// Reused from event to event: fields that one does not set keep old values. By operation.
    static SCRATCH: core::cell::RefCell<[ScratchState; 4]> = const {
        core::cell::RefCell::new([ScratchState {
            captured: 0,
            start_ns: 0,
            data: ScratchData {
                size: size_of::<ScratchData>() as u64,
                agent: 0,
                queue: 0,
                flags: 0,
                args_kind: 0,
                packet: 0,
                bytes: 0,
                slots: 0,
            },
            user_data: [MaybeUninit::uninit(); CONTEXTS_MAX],
        }; 4])
    };
}

unsafe extern "C" fn scratch(request: *const ScratchRequest) {
    // SAFETY: the runtime's request, for this call.
    let request = unsafe { &*request };
    let (op, start) = (request.op, request.start != 0);
    let Some(index) = usize::try_from(op).ok().filter(|&op| (1..=3).contains(&op)) else {
        return;
    };
    // A copy: the callback may cause another scratch event on this thread.
    let mut state = SCRATCH.with_borrow(|all| all[index]);
    let kind = callback_kind::SCRATCH_MEMORY;
    if start {
        state.captured = 0;
        if registration::fini_status() == 0 {
            state.captured = context::active()
                & (context::wants_callback(kind, op)
                    | context::wants_buffer(buffer_kind::SCRATCH_MEMORY, op));
        }
        state.start_ns = clock::now_ns();
        for context in context::each(state.captured) {
            state.user_data[context.index].write(0);
        }
    }
    let data = &mut state.data;
    data.agent = agents::gpu_id(request.gpu);
    data.queue = request.queue_id;
    data.flags = request.flags;
    data.args_kind = (op.cast_unsigned() - 1) * 2 + if start { 1 } else { 2 };
    data.packet = request.packet;
    if !start && op == 1 {
        data.bytes = request.bytes;
        data.slots = request.slots;
    }
    let (internal, external) = Correlation::top().map_or((0, 0), |id| (id.id(), 0));
    for context in context::each(state.captured & context::wants_callback(kind, op)) {
        let Some(service) = context.callback(kind) else {
            continue;
        };
        let record = CallbackRecord {
            context: context.handle(),
            thread_id: thread_id(),
            internal,
            external,
            ancestor: 0,
            kind,
            operation: op,
            phase: if start { PHASE_ENTER } else { PHASE_EXIT },
            padding: 0xdddd_dddd,
            payload: (&raw mut state.data).cast(),
        };
        let slot = state.user_data[context.index].as_mut_ptr();
        // SAFETY: the tool's function; record, payload and slot live until it returns.
        unsafe { (service.callback)(record, slot, service.data) };
    }
    if !start {
        let kind = buffer_kind::SCRATCH_MEMORY;
        for context in context::each(state.captured & context::wants_buffer(kind, op)) {
            insert(
                context,
                kind,
                &ScratchRecord {
                    size: size_of::<ScratchRecord>() as u64,
                    kind,
                    operation: op,
                    internal,
                    external,
                    ancestor: 0,
                    agent: state.data.agent,
                    queue: state.data.queue,
                    thread_id: thread_id(),
                    start: state.start_ns,
                    end: clock::now_ns(),
                    flags: state.data.flags,
                    padding: 0xdddd_dddd,
                    bytes: state.data.bytes,
                },
            );
        }
    }
    SCRATCH.with_borrow_mut(|all| all[index] = state);
}

/// Calls back for an event without a correlation id.
pub(crate) fn call_back_plain(
    context: &Context,
    kind: u32,
    op: i32,
    phase: u32,
    user_data: &mut u64,
    payload: *mut c_void,
) {
    let Some(service) = context.callback(kind) else {
        return;
    };
    let record = CallbackRecord {
        context: context.handle(),
        thread_id: thread_id(),
        internal: 0,
        external: 0,
        ancestor: 0,
        kind,
        operation: op,
        phase,
        padding: 0xdddd_dddd,
        payload,
    };
    // SAFETY: the tool's function; record, payload and slot live until it returns.
    unsafe { (service.callback)(record, user_data, service.data) };
}

/// Tells the tools that a runtime was registered.
pub(crate) fn runtime_initialized(library: i32, version: u64, instance: u64) {
    let kind = callback_kind::RUNTIME_INITIALIZATION;
    let active = context::active();
    for context in context::each(active & context::wants_callback(kind, library)) {
        let mut payload = RuntimeInitData {
            size: size_of::<RuntimeInitData>() as u64,
            version,
            instance,
        };
        call_back_plain(
            context,
            kind,
            library,
            PHASE_NONE,
            &mut 0,
            (&raw mut payload).cast(),
        );
    }
    let kind = buffer_kind::RUNTIME_INITIALIZATION;
    for context in context::each(active & context::wants_buffer(kind, library)) {
        insert(
            context,
            kind,
            &RuntimeInitRecord {
                size: size_of::<RuntimeInitRecord>() as u64,
                kind,
                operation: library,
                correlation: [0; 3],
                thread_id: thread_id(),
                timestamp: clock::now_ns(),
                version,
                instance,
            },
        );
    }
}

/// Streams that were created while a HIP_STREAM context was active, by handle.
static STREAMS: Mutex<Option<HashMap<u64, u64>>> = Mutex::new(None);
const STREAM_CREATE: i32 = 1;
const STREAM_SET: i32 = 3;

fn stream_call_back(op: i32, phase: u32, id: u64, value: u64) {
    let kind = callback_kind::HIP_STREAM;
    for context in context::each(context::active() & context::wants_callback(kind, op)) {
        let mut payload = StreamData {
            size: size_of::<StreamData>() as u64,
            stream_id: id,
            stream_value: value,
        };
        call_back_plain(context, kind, op, phase, &mut 0, (&raw mut payload).cast());
    }
}

fn stream_traced() -> bool {
    let kind = callback_kind::HIP_STREAM;
    let wanted = context::wants_callback(kind, 1)
        | context::wants_callback(kind, 2)
        | context::wants_callback(kind, 3);
    registration::fini_status() == 0 && context::active() & wanted != 0
}

unsafe extern "C" fn stream_event(op: i32, stream: u64) {
    if !stream_traced() {
        return;
    }
    let id = {
        let mut streams = lock(&STREAMS);
        let streams = streams.get_or_insert_default();
        if op == STREAM_CREATE {
            let id = streams.len() as u64 + 1;
            streams.insert(stream, id);
            id
        } else {
            streams.remove(&stream).unwrap_or(0)
        }
    };
    stream_call_back(op, PHASE_NONE, id, stream);
}

unsafe extern "C" fn stream_set(stream: u64, enter: bool) {
    if !stream_traced() {
        return;
    }
    let id = if stream == 0 {
        Some(0)
    } else {
        lock(&STREAMS).get_or_insert_default().get(&stream).copied()
    };
    let Some(id) = id else {
        eprintln!(
            "stand-in SDK: HIP_STREAM is traced and stream {stream:#x} is unknown: the real SDK throws \
             std::out_of_range through HIP here; aborting"
        );
        std::process::abort();
    };
    let phase = if enter { PHASE_ENTER } else { PHASE_EXIT };
    stream_call_back(STREAM_SET, phase, id, stream);
}

/// Waits until no traced copy is in flight, or until the limit.
pub(crate) fn drain_copies(limit: Duration) {
    registration::wait_until(Some(limit), || {
        COPIES_IN_FLIGHT.load(Ordering::Acquire) == 0
    });
}

/// Waits, without limit, until no traced dispatch is in flight.
pub(crate) fn drain_dispatches() {
    registration::wait_until(None, || DISPATCHES_IN_FLIGHT.load(Ordering::Acquire) == 0);
}
