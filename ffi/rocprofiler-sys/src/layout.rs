//! The ABI of rocprofiler-sdk 1.0.0 on x86-64, asserted at compile time: struct sizes, field offsets
//! and enum values.
//!
//! The numbers were collected separately from the bindings, so each checks the other. Whoever
//! regenerates the bindings with newer headers learns here what moved; SDK structs are read by
//! their `size` field at run time, so a grown struct is no reason to change a number here.

use crate::*;
use core::mem::{offset_of, size_of};

/// `layout!(Type, size, field: offset, ...)`.
macro_rules! layout {
    ($type:ty, $size:expr $(, $($field:ident).+: $offset:expr)*) => {
        const _: () = {
            assert!(size_of::<$type>() == $size);
            $(assert!(offset_of!($type, $($field).+) == $offset);)*
        };
    };
}

/// `values! { NAME = value, ... }`.
macro_rules! values {
    ($($name:ident = $value:expr,)*) => {
        $(const _: () = assert!($name as i64 == $value);)*
    };
}

// Handles and small unions: one register each, or 12 and 16 bytes.
layout!(rocprofiler_context_id_t, 8, handle: 0);
layout!(rocprofiler_queue_id_t, 8, handle: 0);
layout!(rocprofiler_stream_id_t, 8, handle: 0);
layout!(rocprofiler_buffer_id_t, 8, handle: 0);
layout!(rocprofiler_agent_id_t, 8, handle: 0);
layout!(rocprofiler_counter_id_t, 8, handle: 0);
layout!(rocprofiler_counter_config_id_t, 8, handle: 0);
layout!(rocprofiler_callback_thread_t, 8, handle: 0);
layout!(rocprofiler_user_data_t, 8, value: 0, ptr: 0);
layout!(rocprofiler_address_t, 8, handle: 0, value: 0, ptr: 0);
layout!(rocprofiler_dim3_t, 12, x: 0, y: 4, z: 8);
layout!(rocprofiler_uuid_t, 16, bytes: 0);
layout!(rocprofiler_version_triplet_t, 12, major: 0, minor: 4, patch: 8);
layout!(rocprofiler_correlation_id_t, 24, internal: 0, external: 8, ancestor: 16);
layout!(rocprofiler_async_correlation_id_t, 16, internal: 0, external: 8);

// Registration.
layout!(
    rocprofiler_tool_configure_result_t, 32, size: 0, initialize: 8, finalize: 16, tool_data: 24
);
layout!(rocprofiler_client_id_t, 24, size: 0, name: 8, handle: 16);

// The callback record, passed by value.
layout!(
    rocprofiler_callback_tracing_record_t, 64, context_id: 0, context_id.handle: 0, thread_id:
    8, correlation_id: 16, correlation_id.internal: 16, correlation_id.external: 24,
    correlation_id.ancestor: 32, kind: 40, operation: 44, phase: 48, payload: 56
);

// HIP and RCCL payloads.
layout!(rocprofiler_callback_tracing_hip_api_data_t, 120, size: 0, args: 8, retval: 96);
layout!(rocprofiler_hip_api_args_t, 88);
layout!(rocprofiler_hip_api_retval_t, 24, hipError_t_retval: 0);
layout!(rocprofiler_callback_tracing_rccl_api_data_t, 168, size: 0, args: 8, retval: 160);
layout!(rocprofiler_rccl_api_args_t, 152);
layout!(rocprofiler_rccl_api_retval_t, 8);

// Kernel dispatch.
layout!(
    rocprofiler_callback_tracing_kernel_dispatch_data_t, 152, size: 0, start_timestamp: 8,
    end_timestamp: 16, dispatch_info: 24
);
layout!(
    rocprofiler_kernel_dispatch_info_t, 128, size: 0, agent_id: 8, queue_id: 16, kernel_id: 24,
    dispatch_id: 32, private_segment_size: 40, group_segment_size: 44, workgroup_size: 48,
    workgroup_size.x: 48, workgroup_size.y: 52, workgroup_size.z: 56, grid_size: 60,
    grid_size.x: 60, grid_size.y: 64, grid_size.z: 68, reserved_padding: 72
);

// Memory copy and allocation.
layout!(
    rocprofiler_callback_tracing_memory_copy_data_t, 64, size: 0, start_timestamp: 8,
    end_timestamp: 16, dst_agent_id: 24, src_agent_id: 32, bytes: 40, dst_address: 48,
    src_address: 56
);
layout!(
    rocprofiler_callback_tracing_memory_allocation_data_t, 48, size: 0, start_timestamp: 8,
    end_timestamp: 16, agent_id: 24, address: 32, allocation_size: 40
);

// Scratch.
layout!(
    rocprofiler_callback_tracing_scratch_memory_data_t, 56, size: 0, agent_id: 8, queue_id: 16,
    flags: 24, args_kind: 28, args: 32, args.alloc_start.dispatch_id: 32,
    args.alloc_end.dispatch_id: 32, args.alloc_end.size: 40, args.alloc_end.num_slots: 48
);

// Code objects and kernel symbols.
layout!(
    rocprofiler_callback_tracing_code_object_load_data_t, 88, size: 0, code_object_id: 8,
    __bindgen_anon_1.agent_id: 16, __bindgen_anon_1.rocp_agent: 16, hsa_agent: 24, uri: 32,
    load_base: 40, load_size: 48, load_delta: 56, storage_type: 64,
    __bindgen_anon_2.__bindgen_anon_1.storage_file: 72,
    __bindgen_anon_2.__bindgen_anon_2.memory_base: 72,
    __bindgen_anon_2.__bindgen_anon_2.memory_size: 80
);
layout!(
    rocprofiler_callback_tracing_code_object_kernel_symbol_register_data_t, 88, size: 0,
    kernel_id: 8, code_object_id: 16, kernel_name: 24, kernel_object: 32, kernarg_segment_size:
    40, kernarg_segment_alignment: 44, group_segment_size: 48, private_segment_size: 52,
    sgpr_count: 56, arch_vgpr_count: 60, accum_vgpr_count: 64, kernel_code_entry_byte_offset:
    72, kernel_address: 80
);
layout!(
    rocprofiler_callback_tracing_code_object_host_kernel_symbol_register_data_t, 120, size: 0,
    host_function_id: 8, kernel_id: 16, code_object_id: 24, host_function: 32, modules: 40,
    device_function: 48, thread_limit: 56, thread_ids: 60, block_ids: 72, block_dims: 84,
    grid_dims: 96, workgroup_size: 112
);

// Markers, streams, runtime initialization.
layout!(
    rocprofiler_callback_tracing_marker_api_data_t, 32, size: 0, args: 8,
    args.roctxMarkA.message: 8, args.roctxRangePushA.message: 8, args.roctxRangeStartA.message:
    8, args.roctxRangeStop.id: 8, args.roctxGetThreadId.tid: 8, args.roctxProfilerPause.tid: 8,
    args.roctxProfilerResume.tid: 8, args.roctxNameOsThread.name: 8,
    args.roctxNameHsaAgent.name: 8, args.roctxNameHsaAgent.agent: 16,
    args.roctxNameHipDevice.device_id: 16, args.roctxNameHipStream.stream: 16,
    args.roctxThreadRangeA.message: 8, args.roctxProcessRangeA.message: 8, retval: 24
);
layout!(rocprofiler_marker_api_args_t, 16);
layout!(rocprofiler_marker_api_retval_t, 8);
layout!(
    rocprofiler_callback_tracing_hip_stream_data_t, 24, size: 0, stream_id: 8, stream_value: 16
);
layout!(
    rocprofiler_callback_tracing_runtime_initialization_data_t, 24, size: 0, version: 8,
    instance: 16
);

// Buffer records.
layout!(
    rocprofiler_record_header_t, 16, __bindgen_anon_1.hash: 0,
    __bindgen_anon_1.__bindgen_anon_1.category: 0, __bindgen_anon_1.__bindgen_anon_1.kind: 4,
    payload: 8
);
layout!(
    rocprofiler_buffer_tracing_kernel_dispatch_record_t, 184, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, thread_id: 32, start_timestamp:
    40, end_timestamp: 48, dispatch_info: 56
);
layout!(
    rocprofiler_buffer_tracing_memory_copy_record_t, 96, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, thread_id: 32, start_timestamp:
    40, end_timestamp: 48, dst_agent_id: 56, src_agent_id: 64, bytes: 72, dst_address: 80,
    src_address: 88
);
layout!(
    rocprofiler_buffer_tracing_hip_api_record_t, 64, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    start_timestamp: 40, end_timestamp: 48, thread_id: 56
);
layout!(
    rocprofiler_buffer_tracing_marker_api_record_t, 64, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    start_timestamp: 40, end_timestamp: 48, thread_id: 56
);
layout!(
    rocprofiler_buffer_tracing_rccl_api_record_t, 64, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    start_timestamp: 40, end_timestamp: 48, thread_id: 56
);
layout!(
    rocprofiler_buffer_tracing_hip_api_ext_record_t, 176, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    start_timestamp: 40, end_timestamp: 48, thread_id: 56, args: 64, retval: 152
);
layout!(
    rocprofiler_buffer_tracing_memory_allocation_record_t, 88, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    thread_id: 40, start_timestamp: 48, end_timestamp: 56, agent_id: 64, address: 72,
    allocation_size: 80
);
layout!(
    rocprofiler_buffer_tracing_scratch_memory_record_t, 96, size: 0, kind: 8, operation: 12,
    correlation_id.internal: 16, correlation_id.external: 24, correlation_id.ancestor: 32,
    agent_id: 40, queue_id: 48, thread_id: 56, start_timestamp: 64, end_timestamp: 72, flags:
    80, allocation_size: 88
);
layout!(
    rocprofiler_buffer_tracing_correlation_id_retirement_record_t, 32, size: 0, kind: 8,
    timestamp: 16, internal_correlation_id: 24
);
layout!(
    rocprofiler_buffer_tracing_runtime_initialization_record_t, 72, size: 0, kind: 8, operation:
    12, correlation_id: 16, thread_id: 40, timestamp: 48, version: 56, instance: 64
);

// Agents.
layout!(
    rocprofiler_agent_v0_t, 312, size: 0, id: 8, id.handle: 8, type_: 16, cpu_cores_count: 20,
    simd_count: 24, mem_banks_count: 28, caches_count: 32, io_links_count: 36, wave_front_size:
    64, num_xcc: 68, cu_count: 72, gfx_target_version: 100, vendor_id: 104, device_id: 106,
    location_id: 108, domain: 112, drm_render_minor: 116, max_engine_clk_fcompute: 140,
    family_id: 164, local_mem_size: 176, hive_id: 184, gpu_id: 192, mem_banks: 224, caches: 232,
    io_links: 240, name: 248, vendor_name: 256, product_name: 264, model_name: 272, node_id:
    280, logical_node_id: 284, logical_node_type_id: 288, runtime_visibility: 292, uuid: 296
);
layout!(rocprofiler_agent_runtime_visiblity_t, 4);

// Counters, as far as Tracy uses them.
layout!(
    rocprofiler_dispatch_counting_service_data_t, 168, size: 0, correlation_id.internal: 8,
    correlation_id.external: 16, start_timestamp: 24, end_timestamp: 32, dispatch_info: 40
);
layout!(
    rocprofiler_counter_record_t, 40, id: 0, counter_value: 8, dispatch_id: 16, user_data: 24,
    agent_id: 32
);
layout!(
    rocprofiler_counter_info_v0_t, 48, id: 0, name: 8, description: 16, block: 24, expression:
    32, _bitfield_1: 40
);

// Enumerations are 4 bytes wide; operation ids are signed.
const _: () = assert!(size_of::<rocprofiler_status_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_callback_phase_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_callback_tracing_kind_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_buffer_tracing_kind_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_buffer_category_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_buffer_policy_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_agent_type_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_agent_version_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_external_correlation_id_request_kind_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_runtime_library_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_intercept_table_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_counter_info_version_id_t>() == 4);
const _: () = assert!(size_of::<rocprofiler_tracing_operation_t>() == 4);

// Statuses.
values! {
    ROCPROFILER_STATUS_SUCCESS = 0,
    ROCPROFILER_STATUS_ERROR = 1,
    ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_FOUND = 2,
    ROCPROFILER_STATUS_ERROR_BUFFER_NOT_FOUND = 3,
    ROCPROFILER_STATUS_ERROR_KIND_NOT_FOUND = 4,
    ROCPROFILER_STATUS_ERROR_OPERATION_NOT_FOUND = 5,
    ROCPROFILER_STATUS_ERROR_THREAD_NOT_FOUND = 6,
    ROCPROFILER_STATUS_ERROR_AGENT_NOT_FOUND = 7,
    ROCPROFILER_STATUS_ERROR_COUNTER_NOT_FOUND = 8,
    ROCPROFILER_STATUS_ERROR_CONTEXT_ERROR = 9,
    ROCPROFILER_STATUS_ERROR_CONTEXT_INVALID = 10,
    ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_STARTED = 11,
    ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT = 12,
    ROCPROFILER_STATUS_ERROR_CONTEXT_ID_NOT_ZERO = 13,
    ROCPROFILER_STATUS_ERROR_BUFFER_BUSY = 14,
    ROCPROFILER_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED = 15,
    ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED = 16,
    ROCPROFILER_STATUS_ERROR_NOT_IMPLEMENTED = 17,
    ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_ABI = 18,
    ROCPROFILER_STATUS_ERROR_INVALID_ARGUMENT = 19,
    ROCPROFILER_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT = 20,
    ROCPROFILER_STATUS_ERROR_FINALIZED = 21,
    ROCPROFILER_STATUS_ERROR_HSA_NOT_LOADED = 22,
    ROCPROFILER_STATUS_ERROR_DIM_NOT_FOUND = 23,
    ROCPROFILER_STATUS_ERROR_PROFILE_COUNTER_NOT_FOUND = 24,
    ROCPROFILER_STATUS_ERROR_AST_GENERATION_FAILED = 25,
    ROCPROFILER_STATUS_ERROR_AST_NOT_FOUND = 26,
    ROCPROFILER_STATUS_ERROR_AQL_NO_EVENT_COORD = 27,
    ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL = 28,
    ROCPROFILER_STATUS_ERROR_OUT_OF_RESOURCES = 29,
    ROCPROFILER_STATUS_ERROR_PROFILE_NOT_FOUND = 30,
    ROCPROFILER_STATUS_ERROR_AGENT_DISPATCH_CONFLICT = 31,
    ROCPROFILER_STATUS_INTERNAL_NO_AGENT_CONTEXT = 32,
    ROCPROFILER_STATUS_ERROR_SAMPLE_RATE_EXCEEDED = 33,
    ROCPROFILER_STATUS_ERROR_NO_PROFILE_QUEUE = 34,
    ROCPROFILER_STATUS_ERROR_NO_HARDWARE_COUNTERS = 35,
    ROCPROFILER_STATUS_ERROR_AGENT_MISMATCH = 36,
    ROCPROFILER_STATUS_ERROR_NOT_AVAILABLE = 37,
    ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT = 38,
    ROCPROFILER_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED = 39,
    ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED = 40,
    ROCPROFILER_STATUS_LAST = 41,
}

// Callback phases and kinds.
values! {
    ROCPROFILER_CALLBACK_PHASE_NONE = 0,
    ROCPROFILER_CALLBACK_PHASE_ENTER = 1,
    ROCPROFILER_CALLBACK_PHASE_LOAD = 1,
    ROCPROFILER_CALLBACK_PHASE_EXIT = 2,
    ROCPROFILER_CALLBACK_PHASE_UNLOAD = 2,
    ROCPROFILER_CALLBACK_PHASE_LAST = 3,
}
values! {
    ROCPROFILER_CALLBACK_TRACING_NONE = 0,
    ROCPROFILER_CALLBACK_TRACING_HSA_CORE_API = 1,
    ROCPROFILER_CALLBACK_TRACING_HSA_AMD_EXT_API = 2,
    ROCPROFILER_CALLBACK_TRACING_HSA_IMAGE_EXT_API = 3,
    ROCPROFILER_CALLBACK_TRACING_HSA_FINALIZE_EXT_API = 4,
    ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API = 5,
    ROCPROFILER_CALLBACK_TRACING_HIP_COMPILER_API = 6,
    ROCPROFILER_CALLBACK_TRACING_MARKER_CORE_API = 7,
    ROCPROFILER_CALLBACK_TRACING_MARKER_CONTROL_API = 8,
    ROCPROFILER_CALLBACK_TRACING_MARKER_NAME_API = 9,
    ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT = 10,
    ROCPROFILER_CALLBACK_TRACING_SCRATCH_MEMORY = 11,
    ROCPROFILER_CALLBACK_TRACING_KERNEL_DISPATCH = 12,
    ROCPROFILER_CALLBACK_TRACING_MEMORY_COPY = 13,
    ROCPROFILER_CALLBACK_TRACING_RCCL_API = 14,
    ROCPROFILER_CALLBACK_TRACING_OMPT = 15,
    ROCPROFILER_CALLBACK_TRACING_MEMORY_ALLOCATION = 16,
    ROCPROFILER_CALLBACK_TRACING_RUNTIME_INITIALIZATION = 17,
    ROCPROFILER_CALLBACK_TRACING_ROCDECODE_API = 18,
    ROCPROFILER_CALLBACK_TRACING_ROCJPEG_API = 19,
    ROCPROFILER_CALLBACK_TRACING_HIP_STREAM = 20,
    ROCPROFILER_CALLBACK_TRACING_MARKER_CORE_RANGE_API = 21,
    ROCPROFILER_CALLBACK_TRACING_LAST = 22,
}

// Buffer kinds, categories and policies.
values! {
    ROCPROFILER_BUFFER_TRACING_NONE = 0,
    ROCPROFILER_BUFFER_TRACING_HSA_CORE_API = 1,
    ROCPROFILER_BUFFER_TRACING_HSA_AMD_EXT_API = 2,
    ROCPROFILER_BUFFER_TRACING_HSA_IMAGE_EXT_API = 3,
    ROCPROFILER_BUFFER_TRACING_HSA_FINALIZE_EXT_API = 4,
    ROCPROFILER_BUFFER_TRACING_HIP_RUNTIME_API = 5,
    ROCPROFILER_BUFFER_TRACING_HIP_COMPILER_API = 6,
    ROCPROFILER_BUFFER_TRACING_MARKER_CORE_API = 7,
    ROCPROFILER_BUFFER_TRACING_MARKER_CONTROL_API = 8,
    ROCPROFILER_BUFFER_TRACING_MARKER_NAME_API = 9,
    ROCPROFILER_BUFFER_TRACING_MEMORY_COPY = 10,
    ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH = 11,
    ROCPROFILER_BUFFER_TRACING_SCRATCH_MEMORY = 12,
    ROCPROFILER_BUFFER_TRACING_CORRELATION_ID_RETIREMENT = 13,
    ROCPROFILER_BUFFER_TRACING_RCCL_API = 14,
    ROCPROFILER_BUFFER_TRACING_OMPT = 15,
    ROCPROFILER_BUFFER_TRACING_MEMORY_ALLOCATION = 16,
    ROCPROFILER_BUFFER_TRACING_RUNTIME_INITIALIZATION = 17,
    ROCPROFILER_BUFFER_TRACING_ROCDECODE_API = 18,
    ROCPROFILER_BUFFER_TRACING_ROCJPEG_API = 19,
    ROCPROFILER_BUFFER_TRACING_HIP_STREAM = 20,
    ROCPROFILER_BUFFER_TRACING_HIP_RUNTIME_API_EXT = 21,
    ROCPROFILER_BUFFER_TRACING_HIP_COMPILER_API_EXT = 22,
    ROCPROFILER_BUFFER_TRACING_ROCDECODE_API_EXT = 23,
    ROCPROFILER_BUFFER_TRACING_KFD_EVENT_PAGE_MIGRATE = 24,
    ROCPROFILER_BUFFER_TRACING_KFD_EVENT_PAGE_FAULT = 25,
    ROCPROFILER_BUFFER_TRACING_KFD_EVENT_QUEUE = 26,
    ROCPROFILER_BUFFER_TRACING_KFD_EVENT_UNMAP_FROM_GPU = 27,
    ROCPROFILER_BUFFER_TRACING_KFD_EVENT_DROPPED_EVENTS = 28,
    ROCPROFILER_BUFFER_TRACING_KFD_PAGE_MIGRATE = 29,
    ROCPROFILER_BUFFER_TRACING_KFD_PAGE_FAULT = 30,
    ROCPROFILER_BUFFER_TRACING_KFD_QUEUE = 31,
    ROCPROFILER_BUFFER_TRACING_MARKER_CORE_RANGE_API = 32,
    ROCPROFILER_BUFFER_TRACING_LAST = 33,
}
values! {
    ROCPROFILER_BUFFER_CATEGORY_NONE = 0,
    ROCPROFILER_BUFFER_CATEGORY_TRACING = 1,
    ROCPROFILER_BUFFER_CATEGORY_PC_SAMPLING = 2,
    ROCPROFILER_BUFFER_CATEGORY_COUNTERS = 3,
    ROCPROFILER_BUFFER_POLICY_NONE = 0,
    ROCPROFILER_BUFFER_POLICY_DISCARD = 1,
    ROCPROFILER_BUFFER_POLICY_LOSSLESS = 2,
}

// Operations.
values! {
    ROCPROFILER_CODE_OBJECT_LOAD = 1,
    ROCPROFILER_CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER = 2,
    ROCPROFILER_CODE_OBJECT_HOST_KERNEL_SYMBOL_REGISTER = 3,
    ROCPROFILER_SCRATCH_MEMORY_ALLOC = 1,
    ROCPROFILER_SCRATCH_MEMORY_FREE = 2,
    ROCPROFILER_SCRATCH_MEMORY_ASYNC_RECLAIM = 3,
    ROCPROFILER_KERNEL_DISPATCH_ENQUEUE = 1,
    ROCPROFILER_KERNEL_DISPATCH_COMPLETE = 2,
    ROCPROFILER_MEMORY_COPY_HOST_TO_HOST = 1,
    ROCPROFILER_MEMORY_COPY_HOST_TO_DEVICE = 2,
    ROCPROFILER_MEMORY_COPY_DEVICE_TO_HOST = 3,
    ROCPROFILER_MEMORY_COPY_DEVICE_TO_DEVICE = 4,
    ROCPROFILER_MEMORY_ALLOCATION_ALLOCATE = 1,
    ROCPROFILER_MEMORY_ALLOCATION_VMEM_ALLOCATE = 2,
    ROCPROFILER_MEMORY_ALLOCATION_FREE = 3,
    ROCPROFILER_MEMORY_ALLOCATION_VMEM_FREE = 4,
    ROCPROFILER_RUNTIME_INITIALIZATION_HSA = 1,
    ROCPROFILER_RUNTIME_INITIALIZATION_HIP = 2,
    ROCPROFILER_RUNTIME_INITIALIZATION_MARKER = 3,
    ROCPROFILER_RUNTIME_INITIALIZATION_RCCL = 4,
    ROCPROFILER_RUNTIME_INITIALIZATION_ROCDECODE = 5,
    ROCPROFILER_RUNTIME_INITIALIZATION_ROCJPEG = 6,
    ROCPROFILER_HIP_STREAM_CREATE = 1,
    ROCPROFILER_HIP_STREAM_DESTROY = 2,
    ROCPROFILER_HIP_STREAM_SET = 3,
    ROCPROFILER_CODE_OBJECT_STORAGE_TYPE_NONE = 0,
    ROCPROFILER_CODE_OBJECT_STORAGE_TYPE_FILE = 1,
    ROCPROFILER_CODE_OBJECT_STORAGE_TYPE_MEMORY = 2,
    ROCPROFILER_SCRATCH_ALLOC_FLAG_NONE = 0,
    ROCPROFILER_SCRATCH_ALLOC_FLAG_USE_ONCE = 1,
    ROCPROFILER_SCRATCH_ALLOC_FLAG_ALT = 2,
}
values! {
    HSA_AMD_TOOL_EVENT_SCRATCH_ALLOC_START = 1,
    HSA_AMD_TOOL_EVENT_SCRATCH_ALLOC_END = 2,
    HSA_AMD_TOOL_EVENT_SCRATCH_FREE_START = 3,
    HSA_AMD_TOOL_EVENT_SCRATCH_FREE_END = 4,
    HSA_AMD_TOOL_EVENT_SCRATCH_ASYNC_RECLAIM_START = 5,
    HSA_AMD_TOOL_EVENT_SCRATCH_ASYNC_RECLAIM_END = 6,
}

// API operations by id.
values! {
    ROCPROFILER_HIP_COMPILER_API_ID___hipPopCallConfiguration = 0,
    ROCPROFILER_HIP_COMPILER_API_ID___hipPushCallConfiguration = 1,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterFatBinary = 2,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterFunction = 3,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterManagedVar = 4,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterSurface = 5,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterTexture = 6,
    ROCPROFILER_HIP_COMPILER_API_ID___hipRegisterVar = 7,
    ROCPROFILER_HIP_COMPILER_API_ID___hipUnregisterFatBinary = 8,
}
values! {
    ROCPROFILER_MARKER_CORE_API_ID_roctxMarkA = 0,
    ROCPROFILER_MARKER_CORE_API_ID_roctxRangePushA = 1,
    ROCPROFILER_MARKER_CORE_API_ID_roctxRangePop = 2,
    ROCPROFILER_MARKER_CORE_API_ID_roctxRangeStartA = 3,
    ROCPROFILER_MARKER_CORE_API_ID_roctxRangeStop = 4,
    ROCPROFILER_MARKER_CORE_API_ID_roctxGetThreadId = 5,
    ROCPROFILER_MARKER_CONTROL_API_ID_roctxProfilerPause = 0,
    ROCPROFILER_MARKER_CONTROL_API_ID_roctxProfilerResume = 1,
    ROCPROFILER_MARKER_NAME_API_ID_roctxNameOsThread = 0,
    ROCPROFILER_MARKER_NAME_API_ID_roctxNameHsaAgent = 1,
    ROCPROFILER_MARKER_NAME_API_ID_roctxNameHipDevice = 2,
    ROCPROFILER_MARKER_NAME_API_ID_roctxNameHipStream = 3,
    ROCPROFILER_MARKER_CORE_RANGE_API_ID_roctxMarkA = 0,
    ROCPROFILER_MARKER_CORE_RANGE_API_ID_roctxThreadRangeA = 1,
    ROCPROFILER_MARKER_CORE_RANGE_API_ID_roctxProcessRangeA = 2,
    ROCPROFILER_MARKER_CORE_RANGE_API_ID_roctxGetThreadId = 3,
}
values! {
    ROCPROFILER_RCCL_API_ID_ncclAllGather = 0,
    ROCPROFILER_RCCL_API_ID_ncclAllReduce = 1,
    ROCPROFILER_RCCL_API_ID_ncclAllToAll = 2,
    ROCPROFILER_RCCL_API_ID_ncclAllToAllv = 3,
    ROCPROFILER_RCCL_API_ID_ncclBroadcast = 4,
    ROCPROFILER_RCCL_API_ID_ncclGather = 5,
    ROCPROFILER_RCCL_API_ID_ncclReduce = 6,
    ROCPROFILER_RCCL_API_ID_ncclReduceScatter = 7,
    ROCPROFILER_RCCL_API_ID_ncclScatter = 8,
    ROCPROFILER_RCCL_API_ID_ncclSend = 9,
    ROCPROFILER_RCCL_API_ID_ncclRecv = 10,
    ROCPROFILER_RCCL_API_ID_ncclRedOpCreatePreMulSum = 11,
    ROCPROFILER_RCCL_API_ID_ncclRedOpDestroy = 12,
    ROCPROFILER_RCCL_API_ID_ncclGroupStart = 13,
    ROCPROFILER_RCCL_API_ID_ncclGroupEnd = 14,
    ROCPROFILER_RCCL_API_ID_ncclGetVersion = 15,
    ROCPROFILER_RCCL_API_ID_ncclGetUniqueId = 16,
    ROCPROFILER_RCCL_API_ID_ncclCommInitRank = 17,
    ROCPROFILER_RCCL_API_ID_ncclCommInitAll = 18,
    ROCPROFILER_RCCL_API_ID_ncclCommInitRankConfig = 19,
    ROCPROFILER_RCCL_API_ID_ncclCommFinalize = 20,
    ROCPROFILER_RCCL_API_ID_ncclCommDestroy = 21,
    ROCPROFILER_RCCL_API_ID_ncclCommAbort = 22,
    ROCPROFILER_RCCL_API_ID_ncclCommSplit = 23,
    ROCPROFILER_RCCL_API_ID_ncclGetErrorString = 24,
    ROCPROFILER_RCCL_API_ID_ncclGetLastError = 25,
    ROCPROFILER_RCCL_API_ID_ncclCommGetAsyncError = 26,
    ROCPROFILER_RCCL_API_ID_ncclCommCount = 27,
    ROCPROFILER_RCCL_API_ID_ncclCommCuDevice = 28,
    ROCPROFILER_RCCL_API_ID_ncclCommUserRank = 29,
    ROCPROFILER_RCCL_API_ID_ncclMemAlloc = 30,
    ROCPROFILER_RCCL_API_ID_ncclMemFree = 31,
    ROCPROFILER_RCCL_API_ID_mscclLoadAlgo = 32,
    ROCPROFILER_RCCL_API_ID_mscclRunAlgo = 33,
    ROCPROFILER_RCCL_API_ID_mscclUnloadAlgo = 34,
    ROCPROFILER_RCCL_API_ID_ncclCommRegister = 35,
    ROCPROFILER_RCCL_API_ID_ncclCommDeregister = 36,
    ROCPROFILER_RCCL_API_ID_LAST = 37,
}

// External correlation requests, libraries, tables, agents, counters.
values! {
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HSA_CORE_API = 1,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HSA_AMD_EXT_API = 2,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HSA_IMAGE_EXT_API = 3,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HSA_FINALIZE_EXT_API = 4,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HIP_RUNTIME_API = 5,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_HIP_COMPILER_API = 6,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MARKER_CORE_API = 7,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MARKER_CONTROL_API = 8,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MARKER_NAME_API = 9,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MEMORY_COPY = 10,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_KERNEL_DISPATCH = 11,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_SCRATCH_MEMORY = 12,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_RCCL_API = 13,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_OMPT = 14,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MEMORY_ALLOCATION = 15,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_ROCDECODE_API = 16,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_ROCJPEG_API = 17,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_MARKER_CORE_RANGE_API = 18,
    ROCPROFILER_EXTERNAL_CORRELATION_REQUEST_LAST = 19,
}
values! {
    ROCPROFILER_LIBRARY = 1,
    ROCPROFILER_HSA_LIBRARY = 2,
    ROCPROFILER_HIP_LIBRARY = 4,
    ROCPROFILER_MARKER_LIBRARY = 8,
    ROCPROFILER_RCCL_LIBRARY = 16,
    ROCPROFILER_ROCDECODE_LIBRARY = 32,
    ROCPROFILER_ROCJPEG_LIBRARY = 64,
    ROCPROFILER_HSA_TABLE = 1,
    ROCPROFILER_HIP_RUNTIME_TABLE = 2,
    ROCPROFILER_HIP_COMPILER_TABLE = 4,
    ROCPROFILER_MARKER_CORE_TABLE = 8,
    ROCPROFILER_MARKER_CONTROL_TABLE = 16,
    ROCPROFILER_MARKER_NAME_TABLE = 32,
    ROCPROFILER_RCCL_TABLE = 64,
    ROCPROFILER_ROCDECODE_TABLE = 128,
    ROCPROFILER_ROCJPEG_TABLE = 256,
    ROCPROFILER_AGENT_INFO_VERSION_NONE = 0,
    ROCPROFILER_AGENT_INFO_VERSION_0 = 1,
    ROCPROFILER_COUNTER_INFO_VERSION_NONE = 0,
    ROCPROFILER_COUNTER_INFO_VERSION_0 = 1,
    ROCPROFILER_COUNTER_INFO_VERSION_1 = 2,
    ROCPROFILER_AGENT_TYPE_NONE = 0,
    ROCPROFILER_AGENT_TYPE_CPU = 1,
    ROCPROFILER_AGENT_TYPE_GPU = 2,
}
