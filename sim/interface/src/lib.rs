//! What the stand-in libraries share: the private tables between a stand-in runtime (HIP, roctx)
//! and the stand-in SDK, the discovery of tools, settings, and names.
//!
//! The public C ABI is that of rocprofiler-sdk 1.0.0 and HIP; nothing in this crate is part of it.
//! The real SDK patches dispatch tables and intercepts HSA queues. Here a runtime hands a
//! [`RuntimeTable`] to `rocprofiler_set_api_table` in place of its dispatch table, and gets
//! [`SdkHooks`] back, which it calls where the real SDK would intercept.
//!
//! Invariants:
//! - I1: hooks and runtime tables live for ever; the libraries are never unloaded (`-z nodelete`).
//! - I2: what crosses between the libraries is `repr(C)`, and its owner frees it.

pub mod hip_args;
pub mod op;
pub mod op_names;
pub mod register;
pub mod settings;

use core::ffi::{c_char, c_void};
use core::mem::MaybeUninit;

/// First word of a [`RuntimeTable`]: "ROCSIM" and the version of this interface.
pub const MAGIC: u64 = 0x524f_4353_494d_0001;

/// Contexts that a process can create, over all tools. The real SDK has no limit; a tool needs two
/// to four.
pub const CONTEXTS_MAX: usize = 32;

/// What a stand-in runtime hands to `rocprofiler_set_api_table` as `tables[0]`.
#[repr(C)]
#[derive(Debug)]
pub struct RuntimeTable {
    /// [`MAGIC`].
    pub magic: u64,
    /// Size of this struct in bytes.
    pub size: u64,
    /// Receives the hooks once, after the tools were initialized.
    pub attach: unsafe extern "C" fn(hooks: *const SdkHooks),
}

/// One traced API call, on the caller's stack from ENTER to EXIT.
///
/// The runtime fills `kind`, `op` and the payload (its first word is its size in bytes); the rest
/// belongs to the SDK.
#[repr(C)]
#[derive(Debug)]
pub struct ApiFrame {
    /// Payload as the tool sees it: HIP 120 bytes, marker 32 bytes.
    pub payload: [u64; 16],
    /// Callback kind: HIP_RUNTIME_API 5, HIP_COMPILER_API 6, markers 7 to 9.
    pub kind: u32,
    /// Operation id.
    pub op: i32,
    /// Contexts captured at ENTER, one bit each; 0 = not traced.
    pub captured: u64,
    /// The call's correlation id object.
    pub correlation: *mut c_void,
    /// Start of the call in ns of the SDK's clock.
    pub start_ns: u64,
    /// `user_data` slot of each context.
    pub user_data: [MaybeUninit<u64>; CONTEXTS_MAX],
    /// External correlation id of each context.
    pub external: [MaybeUninit<u64>; CONTEXTS_MAX],
}

impl ApiFrame {
    /// A frame for one call; the payload is still to be filled.
    #[inline]
    #[must_use]
    pub fn new(kind: u32, op: i32, payload_size: u64) -> Self {
        let mut payload = [0; 16];
        payload[0] = payload_size;
        Self {
            payload,
            kind,
            op,
            captured: 0,
            correlation: core::ptr::null_mut(),
            start_ns: 0,
            user_data: [MaybeUninit::uninit(); CONTEXTS_MAX],
            external: [MaybeUninit::uninit(); CONTEXTS_MAX],
        }
    }
}

/// One kernel packet as the queue interceptor sees it.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct DispatchRequest {
    /// Index of the agent among the GPUs.
    pub gpu: u32,
    /// Private segment in bytes per work-item.
    pub private_segment: u32,
    /// Group segment (LDS) in bytes.
    pub group_segment: u32,
    /// Work-group size.
    pub workgroup: [u32; 3],
    /// Grid in work-items.
    pub grid: [u32; 3],
    /// Queue id as the runtime numbers them, from 0.
    pub queue_id: u64,
    /// Handle of the kernel: what [`KernelDesc::kernel_object`] said.
    pub kernel_object: u64,
    /// Out: dispatch id, 0 if nobody traces it.
    pub dispatch_id: u64,
    /// Out: correlation id, 0 if nobody traces it.
    pub correlation_id: u64,
    /// Out: thread id in the record.
    pub thread_id: u64,
}

/// One asynchronous copy.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CopyRequest {
    /// `rocprofiler_memory_copy_operation_t`: H2H 1, H2D 2, D2H 3, D2D 4.
    pub direction: i32,
    /// GPU index of the destination; -1 = the CPU.
    pub dst_gpu: i32,
    /// GPU index of the source; -1 = the CPU.
    pub src_gpu: i32,
    /// Bytes.
    pub bytes: u64,
    /// Destination address.
    pub dst: u64,
    /// Source address.
    pub src: u64,
    /// Out: correlation id, 0 if nobody traces it.
    pub correlation_id: u64,
    /// Out: thread id in the record.
    pub thread_id: u64,
}

/// One allocation or free, on the caller's stack from ENTER to EXIT.
#[repr(C)]
#[derive(Debug)]
pub struct AllocFrame {
    /// `rocprofiler_memory_allocation_operation_t`: ALLOCATE 1, VMEM_ALLOCATE 2, FREE 3, VMEM_FREE 4.
    pub op: i32,
    /// GPU index, -1 = none (frees).
    pub gpu: i32,
    /// Address: for frees known at ENTER, for allocations filled before EXIT.
    pub address: u64,
    /// Bytes; 0 for frees.
    pub bytes: u64,
    /// SDK's: captured contexts.
    pub captured: u64,
    /// SDK's: correlation id object.
    pub correlation: *mut c_void,
    /// SDK's: start in ns.
    pub start_ns: u64,
    /// SDK's: `user_data` slots.
    pub user_data: [MaybeUninit<u64>; CONTEXTS_MAX],
    /// SDK's: external ids.
    pub external: [MaybeUninit<u64>; CONTEXTS_MAX],
}

/// One kernel of a code object that is being loaded.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct KernelDesc {
    /// Mangled name with its `.kd` suffix, NUL-terminated; copied by the SDK.
    pub name: *const c_char,
    /// Handle that dispatches use.
    pub kernel_object: u64,
    /// Address of the host stub; 0 = none known.
    pub host_function: u64,
    /// Device function name for the host symbol; null = none.
    pub device_function: *const c_char,
    /// Fat binary handle for the host symbol.
    pub modules: u64,
    /// Group segment in bytes.
    pub group_segment: u32,
    /// Private segment in bytes.
    pub private_segment: u32,
    /// Scalar registers.
    pub sgpr_count: u32,
    /// Vector registers.
    pub arch_vgpr_count: u32,
    /// Accumulation registers.
    pub accum_vgpr_count: u32,
}

/// A code object that is being loaded on one agent.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct CodeObjectDesc {
    /// GPU index.
    pub gpu: u32,
    /// Runtime's handle; the same value is given at unload.
    pub handle: u64,
    /// Where it came from (`memory://...` or `file://...`), NUL-terminated; copied by the SDK.
    pub uri: *const c_char,
    /// Load address.
    pub load_base: u64,
    /// Bytes loaded.
    pub load_size: u64,
    /// Address of the image in memory.
    pub memory_base: u64,
    /// Bytes of the image.
    pub memory_size: u64,
    /// Its kernels.
    pub kernels: *const KernelDesc,
    /// How many.
    pub kernels_len: u64,
}

/// Event of the scratch allocator.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ScratchRequest {
    /// `rocprofiler_scratch_memory_operation_t`: ALLOC 1, FREE 2, ASYNC_RECLAIM 3.
    pub op: i32,
    /// GPU index.
    pub gpu: u32,
    /// Queue id.
    pub queue_id: u64,
    /// 0 none, 1 use once, 2 alternative.
    pub flags: u32,
    /// 1 = start, 0 = end.
    pub start: u32,
    /// AQL packet index; not a dispatch id.
    pub packet: u64,
    /// Bytes (end of ALLOC).
    pub bytes: u64,
    /// Slots (end of ALLOC).
    pub slots: u64,
}

/// What a stand-in runtime calls where the real SDK intercepts. All may be called from any thread.
#[repr(C)]
#[derive(Debug)]
pub struct SdkHooks {
    /// Size of this struct in bytes.
    pub size: u64,
    /// Does any active context want this operation of this callback kind (or its buffer kind)?
    pub wants: extern "C" fn(kind: u32, op: i32) -> bool,
    /// Start of an API call.
    pub api_enter: unsafe extern "C" fn(frame: *mut ApiFrame),
    /// End of an API call that `api_enter` captured.
    pub api_exit: unsafe extern "C" fn(frame: *mut ApiFrame),
    /// A packet is about to be written; under the queue's intercept lock. Null = not traced.
    pub dispatch_enqueue: unsafe extern "C" fn(request: *mut DispatchRequest) -> *mut c_void,
    /// Completion handler of a traced dispatch, once; `timed` false = the device gave no times.
    pub dispatch_complete:
        unsafe extern "C" fn(token: *mut c_void, start_ns: u64, end_ns: u64, timed: bool),
    /// A copy is about to be submitted. Null = not traced.
    pub copy_enter: unsafe extern "C" fn(request: *mut CopyRequest) -> *mut c_void,
    /// The copy call returned; the copy may complete from now on.
    pub copy_submitted: unsafe extern "C" fn(token: *mut c_void),
    /// Completion handler of a traced copy, once.
    pub copy_complete:
        unsafe extern "C" fn(token: *mut c_void, start_ns: u64, end_ns: u64, timed: bool),
    /// Start of an allocation or free.
    pub alloc_enter: unsafe extern "C" fn(frame: *mut AllocFrame),
    /// End of an allocation or free.
    pub alloc_exit: unsafe extern "C" fn(frame: *mut AllocFrame),
    /// Start or end of a scratch event.
    pub scratch: unsafe extern "C" fn(request: *const ScratchRequest),
    /// An executable was frozen.
    pub code_object_load: unsafe extern "C" fn(object: *const CodeObjectDesc),
    /// An executable is about to be destroyed.
    pub code_object_unload: unsafe extern "C" fn(handle: u64),
    /// HIP stream was created (1) or destroyed (2), after the call.
    pub stream_event: unsafe extern "C" fn(op: i32, stream: u64),
    /// A HIP function with a stream argument starts (`enter` true) or has ended.
    pub stream_set: unsafe extern "C" fn(stream: u64, enter: bool),
    /// Gives the calling thread the thread id that records show. For replays.
    pub set_thread_id: extern "C" fn(thread_id: u64),
    /// Sets the SDK's clock to a fixed time in ns; 0 = back to the machine's clock. For replays.
    pub set_clock: extern "C" fn(ns: u64),
}

/// The machine's `CLOCK_BOOTTIME` in ns: the clock of all records (facts of rocprofiler-sdk 1.0.0).
#[inline]
#[must_use]
pub fn boottime_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid timespec for the call to fill; this clock exists on every Linux
    // since 2.6.39, and on failure the zeros stay.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) };
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}
