//! SDK callbacks to runtime events.
//!
//! These run on API threads, on ROCr's event thread and under ROCr's queue locks (facts C.2, K.1): nothing here takes a
//! lock, allocates, makes a system call or calls the loader. Nothing unwinds into the SDK. Before the runtime exists,
//! after finalize and in a forked child they do nothing, or count.
//!
//! SDK structs are read by their `size`: a larger one is a newer SDK's and is read as far as we know it, a smaller one is
//! refused and named in the trace (`refused`).

use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use strandline::events::{
    CodeObjectFact, CopyEvent, DispatchDone, DispatchIssue, Ids, KernelFact, MemoryEvent, Operation,
};
use strandline::record::domain;
use strandline::{Runtime, Token};
use strandline_rocprofiler_sys as sys;

use crate::hip;

/// One bit for each kind of payload that was refused because it is smaller than ours.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Names of the payloads of [`REFUSED`], by bit.
const PAYLOADS: [&str; 8] = [
    "rocprofiler_callback_tracing_hip_api_data_t",
    "rocprofiler_callback_tracing_kernel_dispatch_data_t",
    "rocprofiler_callback_tracing_memory_copy_data_t",
    "rocprofiler_callback_tracing_memory_allocation_data_t",
    "rocprofiler_callback_tracing_scratch_memory_data_t",
    "rocprofiler_callback_tracing_code_object_load_data_t",
    "rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t",
    "rocprofiler_callback_tracing_marker_api_data_t",
];

/// Those of [`REFUSED`] that the trace names already.
static REFUSED_NAMED: AtomicU64 = AtomicU64::new(0);

/// Names in the trace the SDK structs that were refused because they are smaller than this tool needs. Not in a
/// callback.
pub fn name_refused(runtime: &Runtime) {
    let bits = REFUSED.load(Ordering::Relaxed);
    let new = bits & !REFUSED_NAMED.fetch_or(bits, Ordering::Relaxed);
    for (bit, name) in PAYLOADS.iter().enumerate() {
        if new >> bit & 1 != 0 {
            runtime.metadata(b"refused struct", name.as_bytes());
        }
    }
}

/// The payload of a record as `T`, when it is there and at least `bytes` long. `T` starts with its size.
#[inline(always)]
pub(crate) fn payload<T>(
    record: &sys::rocprofiler_callback_tracing_record_t,
    bytes: usize,
    which: usize,
) -> Option<&T> {
    let pointer = record.payload.cast::<T>();
    if pointer.is_null() {
        return None;
    }
    // SAFETY: every payload begins with its size, a u64 (facts C).
    let size = unsafe { *pointer.cast::<u64>() };
    if size < bytes as u64 {
        REFUSED.fetch_or(1 << which, Ordering::Relaxed);
        return None;
    }
    // SAFETY: the SDK says that the struct has at least the bytes that are read; it is valid during the callback.
    Some(unsafe { &*pointer })
}

/// A C string's bytes; empty for null.
///
/// # Safety
/// `text` is null or points to a terminated string that lives as long as `'a`.
#[inline]
pub(crate) unsafe fn text<'a>(text: *const c_char) -> &'a [u8] {
    if text.is_null() {
        return b"";
    }
    // SAFETY: as the caller promises.
    unsafe { CStr::from_ptr(text) }.to_bytes()
}

/// The ids of a record.
#[inline(always)]
pub(crate) fn ids(record: &sys::rocprofiler_callback_tracing_record_t) -> Ids {
    Ids {
        correlation: record.correlation_id.internal,
        ancestor: record.correlation_id.ancestor,
        // SAFETY: a union of a number and a pointer of the same size.
        external: unsafe { record.correlation_id.external.value },
        thread: record.thread_id as u32,
    }
}

/// The ids of an API call on its own thread: its external id is the SDK's, else what the host pushed.
#[inline(always)]
fn call_ids(record: &sys::rocprofiler_callback_tracing_record_t) -> Ids {
    let mut ids = ids(record);
    if ids.external == 0 {
        ids.external = strandline::embed::top(0).unwrap_or(0);
    }
    ids
}

#[inline(always)]
unsafe fn token(user_data: *mut sys::rocprofiler_user_data_t) -> Token {
    // SAFETY: the SDK's slot for this record, valid during the callback; never null (facts C.2).
    Token(unsafe { (*user_data).value })
}

#[inline(always)]
unsafe fn set_token(user_data: *mut sys::rocprofiler_user_data_t, token: Token) {
    // SAFETY: as for `token`.
    unsafe { (*user_data).value = token.0 };
}

/// Runs a callback's body so that nothing unwinds into the SDK.
#[inline(always)]
pub(crate) fn guarded(body: impl FnOnce(&'static Runtime)) {
    let Some(runtime) = Runtime::global() else {
        return;
    };
    let _ = catch_unwind(AssertUnwindSafe(|| body(runtime)));
}

/// Names of the traced operations, by HIP operation id: copied at configure time, so that no callback asks the SDK.
static NAMES: OnceLock<Vec<Box<[u8]>>> = OnceLock::new();
/// Operations whose name is in the sticky log, one bit each.
static NAMED: [AtomicU64; 16] = [const { AtomicU64::new(0) }; 16];

/// Sets the names of the HIP operations.
pub fn set_names(names: Vec<Box<[u8]>>) {
    let _ = NAMES.set(names);
}

#[inline(always)]
fn name_once(runtime: &Runtime, operation: Operation) {
    let number = usize::from(operation.number);
    let Some(word) = NAMED.get(number / 64) else {
        return;
    };
    let bit = 1 << (number % 64);
    if word.load(Ordering::Relaxed) & bit == 0
        && let Some(name) = NAMES.get().and_then(|names| names.get(number))
    {
        runtime.operation(operation, name);
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// HIP runtime API: one record a call, from ENTER to EXIT.
///
/// # Safety
/// Called by the SDK with a record of kind HIP_RUNTIME_API.
pub unsafe extern "C" fn hip_api(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let operation = Operation {
            domain: domain::RUNTIME,
            number: record.operation as u16,
        };
        if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            if runtime.open_session() == 0 {
                return;
            }
            let Some(data) = hip_payload(&record) else {
                return;
            };
            name_once(runtime, operation);
            let op = record.operation as u32;
            let stream = hip::stream(runtime, op, hip::Args::new(data), record.thread_id as u32);
            let token = runtime.api_enter(operation, ids(&record), stream);
            runtime.external_ids(record.correlation_id.internal);
            // SAFETY: the slot of this call.
            unsafe { set_token(user_data, token) };
        } else if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_EXIT {
            // SAFETY: the slot of this call.
            let token = unsafe { token(user_data) };
            if token.is_none() {
                return;
            }
            let Some(data) = hip_payload(&record) else {
                return;
            };
            let arguments = hip::arguments(record.operation as u32, hip::Args::new(data));
            runtime.api_exit(
                token,
                operation,
                call_ids(&record),
                return_value(data),
                arguments.as_ref(),
            );
        }
    });
}

#[inline(always)]
fn hip_payload(
    record: &sys::rocprofiler_callback_tracing_record_t,
) -> Option<&sys::rocprofiler_callback_tracing_hip_api_data_t> {
    payload(
        record,
        size_of::<sys::rocprofiler_callback_tracing_hip_api_data_t>(),
        0,
    )
}

/// The call's result. It lies behind the argument union, which a newer SDK may have made larger (facts J): counted from
/// the end of the struct.
#[inline(always)]
fn return_value(data: &sys::rocprofiler_callback_tracing_hip_api_data_t) -> i32 {
    let grown = (data.size as usize)
        .saturating_sub(size_of::<sys::rocprofiler_callback_tracing_hip_api_data_t>());
    // SAFETY: `size` bytes are there (checked in `payload`), and the union of 24 bytes is the struct's last field.
    unsafe {
        (&raw const data.retval)
            .cast::<u8>()
            .add(grown)
            .cast::<i32>()
            .read_unaligned()
    }
}

/// Stream creation and destruction, in a context that is always active: a handle's generation must not depend on
/// whether a session is open.
///
/// # Safety
/// Called by the SDK with a record of kind HIP_RUNTIME_API.
pub unsafe extern "C" fn stream_life(
    record: sys::rocprofiler_callback_tracing_record_t,
    _: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let Some(data) = hip_payload(&record) else {
            return;
        };
        let entering = record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER;
        hip::stream_life(
            runtime,
            record.operation as u32,
            hip::Args::new(data),
            entering,
            return_value(data),
        );
    });
}

/// HIP compiler API: names and times only.
///
/// # Safety
/// Called by the SDK with a record of kind HIP_COMPILER_API.
pub unsafe extern "C" fn compiler_api(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let operation = Operation {
            domain: domain::COMPILER,
            number: record.operation as u16,
        };
        if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            let names = sys::hip::HIP_COMPILER_OPERATION_NAMES;
            if let Some(name) = names.get(record.operation as usize) {
                runtime.operation(operation, name.as_bytes());
            }
            // SAFETY: the slot of this call.
            unsafe { set_token(user_data, runtime.api_enter(operation, ids(&record), 0)) };
        } else {
            // SAFETY: the slot of this call.
            runtime.api_exit(
                unsafe { token(user_data) },
                operation,
                ids(&record),
                0,
                None,
            );
        }
    });
}

/// Kernel dispatches: ENQUEUE (enter) and COMPLETE.
///
/// # Safety
/// Called by the SDK with a record of kind KERNEL_DISPATCH.
pub unsafe extern "C" fn dispatch(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let enqueue = record.operation == sys::ROCPROFILER_KERNEL_DISPATCH_ENQUEUE as i32;
        if enqueue && record.phase != sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            return;
        }
        // The info's own size is what is used of it, without the padding that later fields will take (facts C.4).
        const BYTES: usize =
            std::mem::offset_of!(
                sys::rocprofiler_callback_tracing_kernel_dispatch_data_t,
                dispatch_info
            ) + std::mem::offset_of!(sys::rocprofiler_kernel_dispatch_info_t, reserved_padding);
        let data: Option<&sys::rocprofiler_callback_tracing_kernel_dispatch_data_t> =
            payload(&record, BYTES, 1);
        let Some(data) = data else { return };
        let info = &data.dispatch_info;
        if enqueue {
            let issue = DispatchIssue {
                ids: ids(&record),
                dispatch_id: info.dispatch_id,
                kernel_id: info.kernel_id,
                agent: info.agent_id.handle,
                queue: info.queue_id.handle,
            };
            // SAFETY: the slot of this dispatch; what is written in ENQUEUE ENTER is what COMPLETE sees (facts C.2).
            unsafe { set_token(user_data, runtime.dispatch_issue(&issue)) };
        } else if record.operation == sys::ROCPROFILER_KERNEL_DISPATCH_COMPLETE as i32 {
            let done = DispatchDone {
                ids: ids(&record),
                dispatch_id: info.dispatch_id,
                kernel_id: info.kernel_id,
                agent: info.agent_id.handle,
                queue: info.queue_id.handle,
                start_ns: data.start_timestamp,
                end_ns: data.end_timestamp,
                block: [
                    info.workgroup_size.x,
                    info.workgroup_size.y,
                    info.workgroup_size.z,
                ],
                grid: [info.grid_size.x, info.grid_size.y, info.grid_size.z],
                private_bytes: info.private_segment_size,
                group_bytes: info.group_segment_size,
                graph: 0,
                node: 0,
            };
            // SAFETY: the slot of this dispatch.
            runtime.dispatch_done(unsafe { token(user_data) }, &done);
        }
    });
}

/// Memory copies: ENTER on the thread that asked, EXIT on the event thread.
///
/// # Safety
/// Called by the SDK with a record of kind MEMORY_COPY.
pub unsafe extern "C" fn copy(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let bytes = size_of::<sys::rocprofiler_callback_tracing_memory_copy_data_t>();
        let data: Option<&sys::rocprofiler_callback_tracing_memory_copy_data_t> =
            payload(&record, bytes, 2);
        let Some(data) = data else { return };
        let event = CopyEvent {
            ids: ids(&record),
            operation: record.operation as u32,
            bytes: data.bytes,
            source_agent: data.src_agent_id.handle,
            destination_agent: data.dst_agent_id.handle,
            // SAFETY: unions of a number and a pointer of the same size.
            source: unsafe { data.src_address.value },
            // SAFETY: as above.
            destination: unsafe { data.dst_address.value },
            start_ns: data.start_timestamp,
            end_ns: data.end_timestamp,
        };
        if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            // SAFETY: the slot of this copy, the same at EXIT.
            unsafe { set_token(user_data, runtime.copy_issue(&event)) };
        } else if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_EXIT {
            // SAFETY: the slot of this copy.
            runtime.copy_done(unsafe { token(user_data) }, &event);
        }
    });
}

/// Device memory allocations and frees.
///
/// # Safety
/// Called by the SDK with a record of kind MEMORY_ALLOCATION.
pub unsafe extern "C" fn allocation(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            // SAFETY: the slot of this event.
            unsafe { set_token(user_data, runtime.token(1)) };
            return;
        }
        let bytes = size_of::<sys::rocprofiler_callback_tracing_memory_allocation_data_t>();
        let data: Option<&sys::rocprofiler_callback_tracing_memory_allocation_data_t> =
            payload(&record, bytes, 3);
        let Some(data) = data else { return };
        let event = MemoryEvent {
            ids: ids(&record),
            operation: record.operation as u32,
            bytes: data.allocation_size,
            agent: data.agent_id.handle,
            // SAFETY: a union of a number and a pointer of the same size.
            address: unsafe { data.address.value },
            start_ns: data.start_timestamp,
            end_ns: data.end_timestamp,
            ..MemoryEvent::default()
        };
        // SAFETY: the slot of this event.
        runtime.alloc_done(unsafe { token(user_data) }, &event);
    });
}

/// Scratch memory of queues. The payload has no times: ours, in the vendor's clock.
///
/// # Safety
/// Called by the SDK with a record of kind SCRATCH_MEMORY.
pub unsafe extern "C" fn scratch(
    record: sys::rocprofiler_callback_tracing_record_t,
    user_data: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let now = crate::api::vendor_now();
        if record.phase == sys::ROCPROFILER_CALLBACK_PHASE_ENTER {
            // SAFETY: the slot of this event.
            unsafe { set_token(user_data, runtime.token(now)) };
            return;
        }
        // SAFETY: the slot of this event.
        let token = unsafe { token(user_data) };
        let bytes = size_of::<sys::rocprofiler_callback_tracing_scratch_memory_data_t>();
        let data: Option<&sys::rocprofiler_callback_tracing_scratch_memory_data_t> =
            payload(&record, bytes, 4);
        let Some(data) = data else { return };
        // The 48 bits of the start that travelled, completed by now.
        let start_ns = now.wrapping_sub(now.wrapping_sub(token.payload()) & 0xffff_ffff_ffff);
        let allocated = record.operation == sys::ROCPROFILER_SCRATCH_MEMORY_ALLOC as i32;
        // Fields that an event does not set keep old values (facts C.6): the size is only read where it is set.
        let bytes = if allocated {
            // SAFETY: at the end of an allocation `args` is its alloc_end member.
            unsafe { data.args.alloc_end.size }
        } else {
            0
        };
        let event = MemoryEvent {
            ids: ids(&record),
            operation: record.operation as u32,
            flags: data.flags,
            bytes: bytes as u64,
            agent: data.agent_id.handle,
            queue: data.queue_id.handle,
            start_ns,
            end_ns: now,
            ..MemoryEvent::default()
        };
        runtime.scratch_done(token, &event);
    });
}

/// Code objects and kernel symbols: facts, kept from load on.
///
/// # Safety
/// Called by the SDK with a record of kind CODE_OBJECT.
pub unsafe extern "C" fn code_object(
    record: sys::rocprofiler_callback_tracing_record_t,
    _: *mut sys::rocprofiler_user_data_t,
    _: *mut c_void,
) {
    guarded(|runtime| {
        let loading = record.phase == sys::ROCPROFILER_CALLBACK_PHASE_LOAD;
        // Host symbols come whether asked for or not (facts C.7): the operation is always tested.
        if record.operation == sys::ROCPROFILER_CODE_OBJECT_LOAD as i32 {
            let bytes = size_of::<sys::rocprofiler_callback_tracing_code_object_load_data_t>();
            let data: Option<&sys::rocprofiler_callback_tracing_code_object_load_data_t> =
                payload(&record, bytes, 5);
            let Some(data) = data else { return };
            if !loading {
                runtime.code_object_unloaded(data.code_object_id);
                return;
            }
            runtime.code_object(&CodeObjectFact {
                id: data.code_object_id,
                // SAFETY: a union of two names for the same handle.
                agent: unsafe { data.__bindgen_anon_1.agent_id.handle },
                // SAFETY: a terminated string or null, valid during the callback.
                uri: unsafe { text(data.uri) },
                load_base: data.load_base,
                load_size: data.load_size,
                load_delta: data.load_delta,
                storage_type: data.storage_type,
            });
        } else if record.operation
            == sys::ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER as i32
            && loading
        {
            type Symbol =
                sys::rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t;
            // What is read ends before the entry offset, which older SDKs lack.
            let bytes = std::mem::offset_of!(Symbol, kernel_code_entry_byte_offset);
            let data: Option<&Symbol> = payload(&record, bytes, 6);
            let Some(data) = data else { return };
            runtime.kernel(&KernelFact {
                kernel_id: data.kernel_id,
                code_object_id: data.code_object_id,
                // SAFETY: a terminated string or null, valid during the callback (case B20): copied now.
                name: unsafe { text(data.kernel_name) },
                kernel_object: data.kernel_object,
                group_bytes: data.group_segment_size,
                private_bytes: data.private_segment_size,
                sgpr_count: data.sgpr_count,
                vgpr_count: data.arch_vgpr_count,
                accum_vgpr_count: data.accum_vgpr_count,
                kernarg_bytes: data.kernarg_segment_size,
            });
        }
    });
}
