//! Structs and numbers of the C ABI of rocprofiler-sdk 1.0.0, as far as the stand-in uses them.
//!
//! Written from the ABI's layout tables (sizes and offsets measured on the public headers) and
//! asserted below. Handle structs of one u64 are plain `u64` here: the same register on x86-64.

use core::ffi::{c_char, c_int, c_void};

/// `rocprofiler_status_t`.
pub(crate) type Status = u32;

pub(crate) const SUCCESS: Status = 0;
pub(crate) const ERROR: Status = 1;
pub(crate) const CONTEXT_NOT_FOUND: Status = 2;
pub(crate) const BUFFER_NOT_FOUND: Status = 3;
pub(crate) const KIND_NOT_FOUND: Status = 4;
pub(crate) const OPERATION_NOT_FOUND: Status = 5;
pub(crate) const THREAD_NOT_FOUND: Status = 6;
pub(crate) const AGENT_NOT_FOUND: Status = 7;
pub(crate) const COUNTER_NOT_FOUND: Status = 8;
pub(crate) const CONTEXT_CONFLICT: Status = 12;
pub(crate) const CONTEXT_ID_NOT_ZERO: Status = 13;
pub(crate) const BUFFER_BUSY: Status = 14;
pub(crate) const SERVICE_ALREADY_CONFIGURED: Status = 15;
pub(crate) const CONFIGURATION_LOCKED: Status = 16;
pub(crate) const NOT_IMPLEMENTED: Status = 17;
pub(crate) const INCOMPATIBLE_ABI: Status = 18;
pub(crate) const INVALID_ARGUMENT: Status = 19;
pub(crate) const FINALIZED: Status = 21;
pub(crate) const OUT_OF_RESOURCES: Status = 29;

/// Callback kinds (`rocprofiler_callback_tracing_kind_t`).
pub(crate) mod callback_kind {
    pub(crate) const CODE_OBJECT: u32 = 10;
    pub(crate) const SCRATCH_MEMORY: u32 = 11;
    pub(crate) const KERNEL_DISPATCH: u32 = 12;
    pub(crate) const MEMORY_COPY: u32 = 13;
    pub(crate) const MEMORY_ALLOCATION: u32 = 16;
    pub(crate) const RUNTIME_INITIALIZATION: u32 = 17;
    pub(crate) const HIP_STREAM: u32 = 20;
    pub(crate) const MARKER_CORE_RANGE: u32 = 21;
    pub(crate) const LAST: u32 = 22;
}

/// Buffer kinds (`rocprofiler_buffer_tracing_kind_t`).
pub(crate) mod buffer_kind {
    pub(crate) const MEMORY_COPY: u32 = 10;
    pub(crate) const KERNEL_DISPATCH: u32 = 11;
    pub(crate) const SCRATCH_MEMORY: u32 = 12;
    pub(crate) const RETIREMENT: u32 = 13;
    pub(crate) const MEMORY_ALLOCATION: u32 = 16;
    pub(crate) const RUNTIME_INITIALIZATION: u32 = 17;
    pub(crate) const HIP_RUNTIME_EXT: u32 = 21;
    pub(crate) const HIP_COMPILER_EXT: u32 = 22;
    pub(crate) const MARKER_CORE_RANGE: u32 = 32;
    pub(crate) const LAST: u32 = 33;
}

/// External correlation id request kinds.
pub(crate) mod request_kind {
    pub(crate) const MEMORY_COPY: u32 = 10;
    pub(crate) const KERNEL_DISPATCH: u32 = 11;
    pub(crate) const MEMORY_ALLOCATION: u32 = 15;
    pub(crate) const MARKER_CORE_RANGE: u32 = 18;
    pub(crate) const LAST: u32 = 19;
}

pub(crate) const PHASE_NONE: u32 = 0;
/// ENTER, and LOAD of code objects.
pub(crate) const PHASE_ENTER: u32 = 1;
/// EXIT, and UNLOAD of code objects.
pub(crate) const PHASE_EXIT: u32 = 2;

/// `rocprofiler_callback_tracing_record_t`, passed by value on the stack.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CallbackRecord {
    pub(crate) context: u64,
    pub(crate) thread_id: u64,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) ancestor: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) phase: u32,
    pub(crate) padding: u32,
    pub(crate) payload: *mut c_void,
}

pub(crate) type CallbackFn =
    unsafe extern "C" fn(record: CallbackRecord, user_data: *mut u64, data: *mut c_void);

/// `rocprofiler_record_header_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordHeader {
    pub(crate) category: u32,
    pub(crate) kind: u32,
    pub(crate) payload: *mut c_void,
}

/// Category of tracing records.
pub(crate) const CATEGORY_TRACING: u32 = 1;

pub(crate) type BufferFn = unsafe extern "C" fn(
    context: u64,
    buffer: u64,
    headers: *mut *mut RecordHeader,
    count: usize,
    data: *mut c_void,
    drop_count: u64,
);

/// `rocprofiler_client_id_t`, by value on the stack.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClientId {
    pub(crate) size: usize,
    pub(crate) name: *const c_char,
    pub(crate) handle: u32,
}

/// `rocprofiler_tool_configure_result_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ConfigureResult {
    pub(crate) size: usize,
    pub(crate) initialize:
        Option<unsafe extern "C" fn(unsafe extern "C" fn(ClientId), *mut c_void) -> c_int>,
    pub(crate) finalize: Option<unsafe extern "C" fn(*mut c_void)>,
    pub(crate) tool_data: *mut c_void,
}

pub(crate) type ConfigureFn =
    unsafe extern "C" fn(u32, *const c_char, u32, *mut ClientId) -> *mut ConfigureResult;

/// `rocprofiler_kernel_dispatch_info_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchInfo {
    pub(crate) size: u64,
    pub(crate) agent_id: u64,
    pub(crate) queue_id: u64,
    pub(crate) kernel_id: u64,
    pub(crate) dispatch_id: u64,
    pub(crate) private_segment_size: u32,
    pub(crate) group_segment_size: u32,
    pub(crate) workgroup_size: [u32; 3],
    pub(crate) grid_size: [u32; 3],
    pub(crate) reserved: [u8; 56],
}

/// Bytes of [`DispatchInfo`] that are in use: what its `size` says.
pub(crate) const DISPATCH_INFO_SIZE: u64 = 72;

/// Payload of KERNEL_DISPATCH callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchData {
    pub(crate) size: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) info: DispatchInfo,
}

/// Buffer record of a dispatch.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct DispatchRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) thread_id: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) info: DispatchInfo,
}

/// Payload of MEMORY_COPY callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyData {
    pub(crate) size: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) dst_agent: u64,
    pub(crate) src_agent: u64,
    pub(crate) bytes: u64,
    pub(crate) dst_address: u64,
    pub(crate) src_address: u64,
}

/// Buffer record of a copy.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CopyRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) thread_id: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) dst_agent: u64,
    pub(crate) src_agent: u64,
    pub(crate) bytes: u64,
    pub(crate) dst_address: u64,
    pub(crate) src_address: u64,
}

/// Payload of MEMORY_ALLOCATION callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocData {
    pub(crate) size: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) agent: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Buffer record of an allocation or free.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct AllocRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) ancestor: u64,
    pub(crate) thread_id: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) agent: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
}

/// Buffer record of an API call.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) ancestor: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) thread_id: u64,
}

/// Buffer record of a HIP call with its arguments (kinds 21 and 22).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ApiExtRecord {
    pub(crate) api: ApiRecord,
    pub(crate) args: [u64; 11],
    pub(crate) retval: [u64; 3],
}

/// Payload of SCRATCH_MEMORY callbacks. Fields that an event does not set keep old values.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScratchData {
    pub(crate) size: u64,
    pub(crate) agent: u64,
    pub(crate) queue: u64,
    pub(crate) flags: u32,
    pub(crate) args_kind: u32,
    pub(crate) packet: u64,
    pub(crate) bytes: u64,
    pub(crate) slots: u64,
}

/// Buffer record of a scratch event.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScratchRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) internal: u64,
    pub(crate) external: u64,
    pub(crate) ancestor: u64,
    pub(crate) agent: u64,
    pub(crate) queue: u64,
    pub(crate) thread_id: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) flags: u32,
    pub(crate) padding: u32,
    pub(crate) bytes: u64,
}

/// Buffer record of a retirement.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RetirementRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) padding: u32,
    pub(crate) timestamp: u64,
    pub(crate) internal: u64,
}

/// Payload of RUNTIME_INITIALIZATION callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuntimeInitData {
    pub(crate) size: u64,
    pub(crate) version: u64,
    pub(crate) instance: u64,
}

/// Buffer record of a runtime initialization.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct RuntimeInitRecord {
    pub(crate) size: u64,
    pub(crate) kind: u32,
    pub(crate) operation: i32,
    pub(crate) correlation: [u64; 3],
    pub(crate) thread_id: u64,
    pub(crate) timestamp: u64,
    pub(crate) version: u64,
    pub(crate) instance: u64,
}

/// Payload of HIP_STREAM callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamData {
    pub(crate) size: u64,
    pub(crate) stream_id: u64,
    pub(crate) stream_value: u64,
}

/// Payload of CODE_OBJECT LOAD callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct CodeObjectData {
    pub(crate) size: u64,
    pub(crate) code_object_id: u64,
    pub(crate) agent_id: u64,
    pub(crate) hsa_agent: u64,
    pub(crate) uri: *const c_char,
    pub(crate) load_base: u64,
    pub(crate) load_size: u64,
    pub(crate) load_delta: i64,
    pub(crate) storage_type: u32,
    pub(crate) padding: u32,
    pub(crate) memory_base: u64,
    pub(crate) memory_size: u64,
}

/// Payload of DEVICE_KERNEL_SYMBOL_REGISTER callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct KernelSymbolData {
    pub(crate) size: u64,
    pub(crate) kernel_id: u64,
    pub(crate) code_object_id: u64,
    pub(crate) kernel_name: *const c_char,
    pub(crate) kernel_object: u64,
    pub(crate) kernarg_segment_size: u32,
    pub(crate) kernarg_segment_alignment: u32,
    pub(crate) group_segment_size: u32,
    pub(crate) private_segment_size: u32,
    pub(crate) sgpr_count: u32,
    pub(crate) arch_vgpr_count: u32,
    pub(crate) accum_vgpr_count: u32,
    pub(crate) padding: u32,
    pub(crate) kernel_code_entry_byte_offset: i64,
    pub(crate) kernel_address: u64,
}

/// Payload of HOST_KERNEL_SYMBOL_REGISTER callbacks.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostSymbolData {
    pub(crate) size: u64,
    pub(crate) host_function_id: u64,
    pub(crate) kernel_id: u64,
    pub(crate) code_object_id: u64,
    pub(crate) host_function: u64,
    pub(crate) modules: u64,
    pub(crate) device_function: *const c_char,
    pub(crate) thread_limit: u32,
    pub(crate) thread_ids: [u32; 3],
    pub(crate) block_ids: [u32; 3],
    pub(crate) block_dims: [u32; 3],
    pub(crate) grid_dims: [u32; 3],
    pub(crate) padding: u32,
    pub(crate) workgroup_size: u64,
}

/// `rocprofiler_agent_v0_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agent {
    pub(crate) size: u64,
    pub(crate) id: u64,
    pub(crate) kind: u32,
    pub(crate) cpu_cores_count: u32,
    pub(crate) simd_count: u32,
    pub(crate) mem_banks_count: u32,
    pub(crate) caches_count: u32,
    pub(crate) io_links_count: u32,
    pub(crate) cpu_core_id_base: u32,
    pub(crate) simd_id_base: u32,
    pub(crate) max_waves_per_simd: u32,
    pub(crate) lds_size_in_kb: u32,
    pub(crate) gds_size_in_kb: u32,
    pub(crate) num_gws: u32,
    pub(crate) wave_front_size: u32,
    pub(crate) num_xcc: u32,
    pub(crate) cu_count: u32,
    pub(crate) array_count: u32,
    pub(crate) num_shader_banks: u32,
    pub(crate) simd_arrays_per_engine: u32,
    pub(crate) cu_per_simd_array: u32,
    pub(crate) simd_per_cu: u32,
    pub(crate) max_slots_scratch_cu: u32,
    pub(crate) gfx_target_version: u32,
    pub(crate) vendor_id: u16,
    pub(crate) device_id: u16,
    pub(crate) location_id: u32,
    pub(crate) domain: u32,
    pub(crate) drm_render_minor: u32,
    pub(crate) num_sdma_engines: u32,
    pub(crate) num_sdma_xgmi_engines: u32,
    pub(crate) num_sdma_queues_per_engine: u32,
    pub(crate) num_cp_queues: u32,
    pub(crate) max_engine_clk_ccompute: u32,
    pub(crate) max_engine_clk_fcompute: u32,
    pub(crate) words_144: [u32; 5],
    pub(crate) family_id: u32,
    pub(crate) words_168: [u32; 2],
    pub(crate) local_mem_size: u64,
    pub(crate) hive_id: u64,
    pub(crate) gpu_id: u64,
    pub(crate) words_200: [u32; 6],
    pub(crate) mem_banks: *const c_void,
    pub(crate) caches: *const c_void,
    pub(crate) io_links: *const c_void,
    pub(crate) name: *const c_char,
    pub(crate) vendor_name: *const c_char,
    pub(crate) product_name: *const c_char,
    pub(crate) model_name: *const c_char,
    pub(crate) node_id: u32,
    pub(crate) logical_node_id: i32,
    pub(crate) logical_node_type_id: i32,
    pub(crate) runtime_visibility: u32,
    pub(crate) uuid: [u8; 16],
}

/// Checks sizes and offsets at compile time.
macro_rules! layout {
    ($($t:ty: $size:literal $(, $field:ident $offset:literal)*;)*) => {$(
        const _: () = {
            assert!(size_of::<$t>() == $size);
            $(assert!(core::mem::offset_of!($t, $field) == $offset);)*
        };
    )*};
}

layout! {
    CallbackRecord: 64, thread_id 8, internal 16, external 24, ancestor 32, kind 40, operation 44, phase 48, payload 56;
    RecordHeader: 16, kind 4, payload 8;
    ClientId: 24, name 8, handle 16;
    ConfigureResult: 32, initialize 8, finalize 16, tool_data 24;
    DispatchInfo: 128, agent_id 8, kernel_id 24, dispatch_id 32, private_segment_size 40, workgroup_size 48, grid_size 60, reserved 72;
    DispatchData: 152, start 8, end 16, info 24;
    DispatchRecord: 184, internal 16, thread_id 32, start 40, info 56;
    CopyData: 64, dst_agent 24, bytes 40, src_address 56;
    CopyRecord: 96, thread_id 32, dst_agent 56, bytes 72, src_address 88;
    AllocData: 48, agent 24, address 32, bytes 40;
    AllocRecord: 88, ancestor 32, thread_id 40, agent 64, address 72, bytes 80;
    ApiRecord: 64, ancestor 32, start 40, thread_id 56;
    ApiExtRecord: 176, args 64, retval 152;
    ScratchData: 56, flags 24, args_kind 28, packet 32;
    ScratchRecord: 96, agent 40, queue 48, thread_id 56, flags 80, bytes 88;
    RetirementRecord: 32, timestamp 16, internal 24;
    RuntimeInitData: 24;
    RuntimeInitRecord: 72, thread_id 40, timestamp 48, instance 64;
    StreamData: 24;
    CodeObjectData: 88, uri 32, load_delta 56, storage_type 64, memory_base 72;
    KernelSymbolData: 88, kernel_name 24, kernel_object 32, group_segment_size 48, sgpr_count 56, kernel_address 80;
    HostSymbolData: 120, host_function 32, device_function 48, thread_limit 56, grid_dims 96, workgroup_size 112;
    Agent: 312, kind 16, cpu_cores_count 20, simd_count 24, wave_front_size 64, num_xcc 68, cu_count 72,
        gfx_target_version 100, vendor_id 104, location_id 108, domain 112, drm_render_minor 116,
        max_engine_clk_fcompute 140, family_id 164, local_mem_size 176, gpu_id 192, mem_banks 224,
        name 248, product_name 264, node_id 280, logical_node_type_id 288, runtime_visibility 292, uuid 296;
}
