//! Private functions by which a recording is played back; not part of HIP.
//!
//! The player (crate `sim-workload`) walks the recording in time order, sets the clock, and calls
//! these from one thread for each recorded thread. Nothing here waits for device time: starts and
//! ends are the recording's. Completions go to the handler threads like all others, with the
//! lateness, stalls and failures of the settings.
//!
//! # Safety
//! Pointers are valid for what each function does with them; handles come from these functions and
//! are given back once.
#![allow(clippy::missing_safety_doc, reason = "see the module's Safety section")]

use core::ffi::{c_char, c_void};
use std::ffi::CStr;
use std::sync::atomic::{AtomicU64, Ordering};

use sim_interface::settings::{mix, unit};
use sim_interface::{ApiFrame, CopyRequest, DispatchRequest};

use crate::device::{self, Stream};
use crate::handlers::{self, Copied, Dispatched, Work};
use crate::kernels::{self, Kernel};
use crate::ledger::{self, Entry};
use crate::runtime::{self, settings, thread};

/// Sequence numbers of replayed work: apart from those of the simulated device.
static SEQUENCE: AtomicU64 = AtomicU64::new(0);

/// One recorded kernel.
#[repr(C)]
#[derive(Debug)]
pub struct RecordedKernel {
    name: *const c_char,
    private_segment: u32,
    group_segment: u32,
}

/// One recorded dispatch.
#[repr(C)]
#[derive(Debug)]
pub struct RecordedDispatch {
    kernel: *mut c_void,
    stream: *mut c_void,
    queue_id: u64,
    start_ns: u64,
    end_ns: u64,
    gpu: u32,
    /// In work-items.
    grid: [u32; 3],
    workgroup: [u32; 3],
    private_segment: u32,
    group_segment: u32,
}

/// One recorded copy.
#[repr(C)]
#[derive(Debug)]
pub struct RecordedCopy {
    stream: *mut c_void,
    start_ns: u64,
    end_ns: u64,
    bytes: u64,
    dst: u64,
    src: u64,
    /// H2H 1, H2D 2, D2H 3, D2D 4.
    direction: i32,
    gpu: u32,
}

/// Registers with the SDK, so that tools are initialized, and sets the clock. True = traced.
#[unsafe(no_mangle)]
pub extern "C" fn rocsim_replay_begin(clock_ns: u64) -> bool {
    runtime::ensure();
    rocsim_set_clock(clock_ns);
    runtime::hooks().is_some()
}

/// Sets the clock of the runtime and the SDK.
#[unsafe(no_mangle)]
pub extern "C" fn rocsim_set_clock(ns: u64) {
    device::set_clock(ns);
    if let Some(hooks) = runtime::hooks() {
        (hooks.set_clock)(ns);
    }
}

/// Gives the calling thread the thread id that records show.
#[unsafe(no_mangle)]
pub extern "C" fn rocsim_set_thread(id: u64) {
    thread(|thread| thread.thread_id.set(id));
    if let Some(hooks) = runtime::hooks() {
        (hooks.set_thread_id)(id);
    }
}

/// Loads a code object with these kernels on a GPU; `out` gets a handle for each.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_load(
    gpu: u32,
    list: *const RecordedKernel,
    count: usize,
    out: *mut *mut c_void,
) {
    if count == 0 {
        return;
    }
    // SAFETY: module's Safety section.
    let list = unsafe { core::slice::from_raw_parts(list, count) };
    let named: Vec<_> = list
        .iter()
        .map(|kernel| {
            // SAFETY: module's Safety section.
            let name = unsafe { CStr::from_ptr(kernel.name) }.to_owned();
            (name, kernel.private_segment, kernel.group_segment)
        })
        .collect();
    let (_, loaded) = kernels::load_recorded(&named, gpu);
    for (index, kernel) in loaded.into_iter().enumerate() {
        // SAFETY: `out` has room for `count` handles.
        unsafe {
            out.add(index)
                .write(core::ptr::from_ref(kernel).cast_mut().cast())
        };
    }
}

/// Makes a stream without an API call.
#[unsafe(no_mangle)]
pub extern "C" fn rocsim_stream(gpu: u32) -> *mut c_void {
    device::get(gpu).map_or(core::ptr::null_mut(), |device| {
        device.create_stream(0).handle as *mut c_void
    })
}

/// ENTER of an API call; null if nobody traces it. `args` are 11 words.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_api_enter(kind: u32, op: i32, args: *const u64) -> *mut c_void {
    ledger::count(kind, op);
    let Some(hooks) = runtime::hooks() else {
        return core::ptr::null_mut();
    };
    let mut frame = Box::new(ApiFrame::new(kind, op, 120));
    // SAFETY: module's Safety section.
    let args = unsafe { core::slice::from_raw_parts(args, 11) };
    frame.payload[1..12].copy_from_slice(args);
    let frame = Box::into_raw(frame);
    // SAFETY: the frame lives until `rocsim_api_exit`.
    unsafe { (hooks.api_enter)(frame) };
    frame.cast()
}

/// EXIT of an API call, on the same thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_api_exit(frame: *mut c_void, retval: i32) {
    let Some(hooks) = runtime::hooks() else {
        return;
    };
    if frame.is_null() {
        return;
    }
    // SAFETY: a frame of `rocsim_api_enter`, given back once.
    let mut frame = unsafe { Box::from_raw(frame.cast::<ApiFrame>()) };
    frame.payload[12] = u64::from(retval.cast_unsigned());
    // SAFETY: `api_enter` filled it.
    unsafe { (hooks.api_exit)(&raw mut *frame) };
}

/// Enqueues a dispatch; null if nobody traces it. Its completion is `rocsim_complete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_dispatch(recorded: *const RecordedDispatch) -> *mut c_void {
    // SAFETY: module's Safety section.
    let recorded = unsafe { &*recorded };
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let Some(kernel) = Kernel::of_handle(recorded.kernel) else {
        return core::ptr::null_mut();
    };
    let mut request = DispatchRequest {
        gpu: recorded.gpu,
        private_segment: recorded.private_segment,
        group_segment: recorded.group_segment,
        workgroup: recorded.workgroup,
        grid: recorded.grid,
        queue_id: recorded.queue_id,
        kernel_object: kernel.object(recorded.gpu),
        dispatch_id: 0,
        correlation_id: 0,
        thread_id: 0,
    };
    let token = match runtime::hooks() {
        // SAFETY: the request lives across the call.
        Some(hooks) => unsafe { (hooks.dispatch_enqueue)(&raw mut request) },
        None => core::ptr::null_mut(),
    };
    let random = Random::new(sequence, !token.is_null());
    let entry = ledger::enabled().then(|| {
        Box::new(Entry {
            kind: "dispatch",
            sequence,
            traced: !token.is_null(),
            dispatch_id: request.dispatch_id,
            correlation_id: request.correlation_id,
            thread_id: if token.is_null() {
                runtime::thread_id()
            } else {
                request.thread_id
            },
            name: kernel.symbol.clone(),
            gpu: recorded.gpu,
            queue: recorded.queue_id,
            stream: recorded.stream as u64,
            bytes: 0,
            start: recorded.start_ns,
            end: recorded.end_ns,
            timed: random.timed,
        })
    });
    if token.is_null() {
        if let Some(entry) = entry {
            ledger::write(&entry, false);
        }
        return core::ptr::null_mut();
    }
    let work = Work::Dispatch(Dispatched {
        token: token as usize,
        start: recorded.start_ns,
        end: recorded.end_ns,
        timed: random.timed,
        stall_ns: random.stall_ns,
        scratch: false,
        gpu: recorded.gpu,
        queue_id: recorded.queue_id,
        sequence,
        entry: entry.map(ledger::outstanding),
    });
    Box::into_raw(Box::new((sequence, random.late_ns, work))).cast()
}

/// Submits a copy; null if nobody traces it. Its completion is `rocsim_complete`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_copy(recorded: *const RecordedCopy) -> *mut c_void {
    // SAFETY: module's Safety section.
    let recorded = unsafe { &*recorded };
    let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
    let gpu = recorded.gpu.cast_signed();
    let (src_gpu, dst_gpu) = match recorded.direction {
        2 => (-1, gpu),
        3 => (gpu, -1),
        4 => (gpu, gpu),
        _ => (-1, -1),
    };
    let Some(stream) = Stream::of(recorded.stream) else {
        return core::ptr::null_mut();
    };
    let mut request = CopyRequest {
        direction: recorded.direction,
        dst_gpu,
        src_gpu,
        bytes: recorded.bytes,
        dst: recorded.dst,
        src: recorded.src,
        correlation_id: 0,
        thread_id: 0,
    };
    let Some(hooks) = runtime::hooks() else {
        return core::ptr::null_mut();
    };
    // SAFETY: the request lives across the call.
    let token = unsafe { (hooks.copy_enter)(&raw mut request) };
    let random = Random::new(sequence, !token.is_null());
    let entry = ledger::enabled().then(|| {
        Box::new(Entry {
            kind: "copy",
            sequence,
            traced: !token.is_null(),
            dispatch_id: 0,
            correlation_id: request.correlation_id,
            thread_id: if token.is_null() {
                runtime::thread_id()
            } else {
                request.thread_id
            },
            name: c"".to_owned(),
            gpu: recorded.gpu,
            queue: u64::from(recorded.direction.unsigned_abs()),
            stream: recorded.stream as u64,
            bytes: recorded.bytes,
            start: recorded.start_ns,
            end: recorded.end_ns,
            timed: random.timed,
        })
    });
    if token.is_null() {
        if let Some(entry) = entry {
            ledger::write(&entry, false);
        }
        return core::ptr::null_mut();
    }
    // SAFETY: a token of `copy_enter` that is not completed yet.
    unsafe { (hooks.copy_submitted)(token) };
    device::copy_begun(stream);
    let work = Work::Copy(Copied {
        token: token as usize,
        start: recorded.start_ns,
        end: recorded.end_ns,
        timed: random.timed,
        stall_ns: random.stall_ns,
        stream,
        entry: entry.map(ledger::outstanding),
    });
    Box::into_raw(Box::new((sequence, random.late_ns, work))).cast()
}

/// The device has finished a dispatch or copy: its handler may run.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocsim_complete(pending: *mut c_void) {
    if pending.is_null() {
        return;
    }
    // SAFETY: a handle of `rocsim_dispatch` or `rocsim_copy`, given back once.
    let pending = unsafe { Box::from_raw(pending.cast::<(u64, u64, Work)>()) };
    let (sequence, late_ns, work) = *pending;
    handlers::push(device::now_ns() + late_ns, sequence, work);
}

/// Completions that wait for a handler thread: a workload at full rate slows down by it.
#[unsafe(no_mangle)]
pub extern "C" fn rocsim_backlog() -> u64 {
    handlers::backlog()
}

/// What the settings make of one record.
struct Random {
    timed: bool,
    late_ns: u64,
    stall_ns: u64,
}

impl Random {
    fn new(sequence: u64, traced: bool) -> Self {
        let settings = settings();
        let random = |salt| mix(settings.seed ^ salt, sequence);
        Self {
            timed: !traced
                || settings.fail_timing == 0.0
                || unit(random(device::SALT_FAIL)) >= settings.fail_timing,
            late_ns: settings.late.sample(random(device::SALT_LATE)),
            stall_ns: settings.stall.sample(random(device::SALT_STALL)),
        }
    }
}
