//! The exported C functions of rocprofiler-sdk 1.0.0.
//!
//! Each body runs inside `guard`, which turns a panic into status ERROR: none crosses the C border.
//! What a simulation without counters or PC sampling cannot answer returns NOT_IMPLEMENTED.
//!
//! # Safety
//! As the C API: pointers are valid for what the function does with them, callbacks may be called
//! with their data.
#![allow(
    clippy::missing_safety_doc,
    reason = "the contract is that of the C header; see the module's Safety section"
)]

use core::ffi::{c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::abi::{
    AGENT_NOT_FOUND, BufferFn, CONTEXT_NOT_FOUND, COUNTER_NOT_FOUND, CallbackFn, CallbackRecord,
    ConfigureFn, ERROR, INVALID_ARGUMENT, NOT_IMPLEMENTED, RecordHeader, SUCCESS, Status,
    request_kind,
};
use crate::agents::{self, AgentsFn};
use crate::context::{self, CallbackService, RequestFn, RequestService};
use crate::names::{self, ArgumentFn, BufferArgumentFn, Service};
use crate::registration::{self, ThreadCreateFn};
use crate::trace::{CountingFn, CountingService};
use crate::{buffer, clock, correlation};

fn guard(body: impl FnOnce() -> Status) -> Status {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(ERROR)
}

/// Reads an operation list.
///
/// # Safety
/// `operations` is null or points to `count` numbers.
unsafe fn list<'a, T>(values: *const T, count: usize) -> &'a [T] {
    if values.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: the caller vouches for it.
    unsafe { core::slice::from_raw_parts(values, count) }
}

/// Says that this is a stand-in, so that a tool can mark its trace as simulated.
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_sdk_standin_description() -> *const c_char {
    c"stand-in SDK 1.0.0 (simulation, no GPU)".as_ptr()
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_set_api_table(
    name: *const c_char,
    version: u64,
    instance: u64,
    tables: *mut *mut c_void,
    count: u64,
) -> c_int {
    catch_unwind(|| {
        // SAFETY: module's Safety section.
        unsafe { registration::set_api_table(name, version, instance, tables, count) }
    })
    .unwrap_or(-1)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_force_configure(configure: Option<ConfigureFn>) -> Status {
    guard(|| registration::force(configure))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_is_initialized(status: *mut c_int) -> Status {
    // SAFETY: module's Safety section.
    unsafe { *status = registration::init_status() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_is_finalized(status: *mut c_int) -> Status {
    // SAFETY: module's Safety section.
    unsafe { *status = registration::fini_status() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_get_version(
    major: *mut u32,
    minor: *mut u32,
    patch: *mut u32,
) -> Status {
    for (out, value) in [(major, 1), (minor, 0), (patch, 0)] {
        if !out.is_null() {
            // SAFETY: module's Safety section.
            unsafe { *out = value };
        }
    }
    SUCCESS
}

/// `rocprofiler_version_triplet_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct VersionTriplet {
    major: u32,
    minor: u32,
    patch: u32,
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_get_version_triplet(info: *mut VersionTriplet) -> Status {
    if info.is_null() {
        return INVALID_ARGUMENT;
    }
    let version = VersionTriplet {
        major: 1,
        minor: 0,
        patch: 0,
    };
    // SAFETY: module's Safety section.
    unsafe { info.write(version) };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_get_status_name(status: Status) -> *const c_char {
    names::status_name(status)
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_get_status_string(status: Status) -> *const c_char {
    names::status_text(status)
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_get_timestamp(ns: *mut u64) -> Status {
    clock::init();
    // SAFETY: module's Safety section.
    unsafe { *ns = clock::now_ns() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_get_thread_id(id: *mut u64) -> Status {
    // SAFETY: module's Safety section.
    unsafe { *id = correlation::thread_id() };
    SUCCESS
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_create_context(handle: *mut u64) -> Status {
    // SAFETY: module's Safety section.
    guard(|| context::create(unsafe { &mut *handle }))
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_start_context(handle: u64) -> Status {
    guard(|| context::start(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_stop_context(handle: u64) -> Status {
    guard(|| context::stop(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_context_is_active(handle: u64, status: *mut c_int) -> Status {
    let active = context::is_active(handle);
    // SAFETY: module's Safety section.
    unsafe { *status = c_int::from(active == Some(true)) };
    if active.is_some() {
        SUCCESS
    } else {
        CONTEXT_NOT_FOUND
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_context_is_valid(handle: u64, status: *mut c_int) -> Status {
    let valid = context::find(handle).is_some();
    // SAFETY: module's Safety section. 1 = valid, whatever the header's comment says.
    unsafe { *status = c_int::from(valid) };
    if valid { SUCCESS } else { CONTEXT_NOT_FOUND }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure_callback_tracing_service(
    handle: u64,
    kind: u32,
    operations: *const i32,
    count: usize,
    callback: Option<CallbackFn>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    guard(|| {
        // SAFETY: module's Safety section.
        let operations = unsafe { list(operations, count) };
        context::configure_callback(handle, kind, operations, CallbackService { callback, data })
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure_buffer_tracing_service(
    handle: u64,
    kind: u32,
    operations: *const i32,
    count: usize,
    buffer: u64,
) -> Status {
    guard(|| {
        // SAFETY: module's Safety section.
        let operations = unsafe { list(operations, count) };
        context::configure_buffer(handle, kind, operations, buffer)
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_create_buffer(
    context: u64,
    size: usize,
    watermark: usize,
    policy: u32,
    callback: Option<BufferFn>,
    data: *mut c_void,
    handle: *mut u64,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    guard(|| {
        // SAFETY: module's Safety section.
        let handle = unsafe { &mut *handle };
        buffer::create(context, size, watermark, policy, callback, data, handle)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_destroy_buffer(handle: u64) -> Status {
    guard(|| buffer::destroy(handle))
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_flush_buffer(handle: u64) -> Status {
    guard(|| buffer::flush(handle))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_create_callback_thread(handle: *mut u64) -> Status {
    // SAFETY: module's Safety section.
    guard(|| buffer::create_thread(unsafe { &mut *handle }))
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_assign_callback_thread(buffer: u64, thread: u64) -> Status {
    guard(|| buffer::assign_thread(buffer, thread))
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_at_internal_thread_create(
    before: Option<ThreadCreateFn>,
    after: Option<ThreadCreateFn>,
    libraries: c_int,
    data: *mut c_void,
) -> Status {
    guard(|| registration::at_internal_thread_create(before, after, libraries, data))
}

/// Tables here are private: there is none to show to a tool.
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_at_intercept_table_registration(
    _callback: *const c_void,
    _libraries: c_int,
    _data: *mut c_void,
) -> Status {
    NOT_IMPLEMENTED
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_query_intercept_table_name(
    table: u32,
    name: *mut *const c_char,
    len: *mut u64,
) -> Status {
    // SAFETY: module's Safety section.
    guard(|| unsafe { names::table_name(table, name, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_query_available_agents(
    version: u32,
    callback: Option<AgentsFn>,
    size: usize,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: module's Safety section.
    guard(|| unsafe { agents::query(version, callback, size, data) })
}

type KindFn = unsafe extern "C" fn(u32, *mut c_void) -> c_int;
type OperationFn = unsafe extern "C" fn(u32, c_int, *mut c_void) -> c_int;

/// The name queries, which exist twice: for callback kinds and for buffer kinds.
macro_rules! name_queries {
    ($service:expr, $kind_name:ident, $operation_name:ident, $kinds:ident, $operations:ident) => {
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $kind_name(
            kind: u32,
            name: *mut *const c_char,
            len: *mut u64,
        ) -> Status {
            // SAFETY: module's Safety section.
            guard(|| unsafe { names::kind_name($service, kind, name, len) })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $operation_name(
            kind: u32,
            operation: c_int,
            name: *mut *const c_char,
            len: *mut u64,
        ) -> Status {
            // SAFETY: module's Safety section.
            guard(|| unsafe { names::operation_name($service, kind, operation, name, len) })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $kinds(callback: Option<KindFn>, data: *mut c_void) -> Status {
            let Some(callback) = callback else {
                return INVALID_ARGUMENT;
            };
            // SAFETY: module's Safety section.
            guard(|| unsafe { names::iterate_kinds($service, callback, data) })
        }

        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $operations(
            kind: u32,
            callback: Option<OperationFn>,
            data: *mut c_void,
        ) -> Status {
            let Some(callback) = callback else {
                return INVALID_ARGUMENT;
            };
            // SAFETY: module's Safety section.
            guard(|| unsafe { names::iterate_operations($service, kind, callback, data) })
        }
    };
}

name_queries!(
    Service::Callback,
    rocprofiler_query_callback_tracing_kind_name,
    rocprofiler_query_callback_tracing_kind_operation_name,
    rocprofiler_iterate_callback_tracing_kinds,
    rocprofiler_iterate_callback_tracing_kind_operations
);
name_queries!(
    Service::Buffer,
    rocprofiler_query_buffer_tracing_kind_name,
    rocprofiler_query_buffer_tracing_kind_operation_name,
    rocprofiler_iterate_buffer_tracing_kinds,
    rocprofiler_iterate_buffer_tracing_kind_operations
);

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_iterate_callback_tracing_kind_operation_args(
    record: CallbackRecord,
    callback: Option<ArgumentFn>,
    _max_dereference: i32,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: module's Safety section.
    guard(|| unsafe { names::iterate_arguments(&record, callback, data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_iterate_buffer_tracing_record_args(
    header: RecordHeader,
    callback: Option<BufferArgumentFn>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    // SAFETY: module's Safety section.
    guard(|| unsafe { names::iterate_record_arguments(&header, callback, data) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_push_external_correlation_id(
    handle: u64,
    thread_id: u64,
    value: u64,
) -> Status {
    guard(|| {
        let Some(context) = context::find(handle) else {
            return CONTEXT_NOT_FOUND;
        };
        if thread_id < u64::from(std::process::id()) {
            return INVALID_ARGUMENT;
        }
        correlation::push_external(context, thread_id, value);
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_pop_external_correlation_id(
    handle: u64,
    thread_id: u64,
    value: *mut u64,
) -> Status {
    guard(|| {
        let Some(context) = context::find(handle) else {
            return CONTEXT_NOT_FOUND;
        };
        if thread_id < u64::from(std::process::id()) {
            return INVALID_ARGUMENT;
        }
        let popped = correlation::pop_external(context, thread_id);
        if !value.is_null() {
            // SAFETY: module's Safety section.
            unsafe { *value = popped };
        }
        SUCCESS
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure_external_correlation_id_request_service(
    handle: u64,
    kinds: *const u32,
    count: usize,
    callback: Option<RequestFn>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    guard(|| {
        // SAFETY: module's Safety section.
        let kinds = unsafe { list(kinds, count) };
        let mask = if kinds.is_empty() {
            u32::MAX
        } else {
            kinds
                .iter()
                .filter(|&&kind| kind < request_kind::LAST)
                .fold(0, |mask, kind| mask | 1 << kind)
        };
        context::configure_request(
            handle,
            RequestService {
                callback,
                data,
                kinds: mask,
            },
        )
    })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_query_external_correlation_id_request_kind_name(
    kind: u32,
    name: *mut *const c_char,
    len: *mut u64,
) -> Status {
    // SAFETY: module's Safety section.
    guard(|| unsafe { names::request_kind_name(kind, name, len) })
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_configure_callback_dispatch_counting_service(
    handle: u64,
    callback: Option<CountingFn>,
    data: *mut c_void,
    _record_callback: *const c_void,
    _record_data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    guard(|| context::configure_counting(handle, CountingService { callback, data }))
}

/// `rocprofiler_available_counters_cb_t`.
pub type CountersFn = unsafe extern "C" fn(u64, *mut u64, usize, *mut c_void) -> Status;

/// The simulated GPUs have no counters: the callback gets an empty list.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_iterate_agent_supported_counters(
    agent: u64,
    callback: Option<CountersFn>,
    data: *mut c_void,
) -> Status {
    let Some(callback) = callback else {
        return INVALID_ARGUMENT;
    };
    if !agents::exists(agent) {
        return AGENT_NOT_FOUND;
    }
    let mut none = 0;
    // SAFETY: module's Safety section.
    guard(|| unsafe { callback(agent, &raw mut none, 0, data) })
}

/// Accepts the empty list only: there are no counters.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rocprofiler_create_counter_config(
    agent: u64,
    _counters: *mut u64,
    count: usize,
    config: *mut u64,
) -> Status {
    if !agents::exists(agent) {
        return AGENT_NOT_FOUND;
    }
    if count != 0 {
        return COUNTER_NOT_FOUND;
    }
    // SAFETY: module's Safety section.
    unsafe { *config = 1 };
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_destroy_counter_config(_config: u64) -> Status {
    SUCCESS
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_query_counter_info(
    _counter: u64,
    _version: u32,
    _info: *mut c_void,
) -> Status {
    COUNTER_NOT_FOUND
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_query_record_counter_id(_id: u64, _counter: *mut u64) -> Status {
    COUNTER_NOT_FOUND
}

#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_query_record_dimension_position(
    _id: u64,
    _dimension: u64,
    _position: *mut usize,
) -> Status {
    COUNTER_NOT_FOUND
}

/// Entry points without a meaning in a simulation. Their arguments stay in registers.
macro_rules! not_implemented {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> Status {
            NOT_IMPLEMENTED
        }
    )*};
}

not_implemented! {
    rocprofiler_configure_buffer_dispatch_counting_service
    rocprofiler_configure_device_counting_service
    rocprofiler_sample_device_counting_service
    rocprofiler_create_counter
    rocprofiler_query_counter_instance_count
    rocprofiler_iterate_counter_dimensions
    rocprofiler_configure_pc_sampling_service
    rocprofiler_query_pc_sampling_agent_configurations
    rocprofiler_ompt_is_initialized
    rocprofiler_ompt_is_finalized
}

/// Entry points that return a pointer: none here.
macro_rules! null_pointer {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        pub extern "C" fn $name() -> *const c_void {
            core::ptr::null()
        }
    )*};
}

null_pointer! {
    rocprofiler_get_pc_sampling_instruction_type_name
    rocprofiler_get_pc_sampling_instruction_not_issued_reason_name
    rocprofiler_ompt_start_tool
}

/// Undocumented: debuggers call it; nothing to block here.
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_debugger_block() {}

/// Undocumented: see [`rocprofiler_debugger_block`].
#[unsafe(no_mangle)]
pub extern "C" fn rocprofiler_debugger_continue() {}
