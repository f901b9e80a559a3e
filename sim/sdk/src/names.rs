//! Names of kinds, operations and statuses, and the argument lists of HIP and marker calls.
//!
//! Everything here is static, ends with a NUL and lives for ever: tools keep views of it. Kinds and
//! operations are visited in ascending order, because the header-only `name_info.hpp` resizes its
//! vectors at every entry.

use core::ffi::{CStr, c_char, c_int, c_void};
use std::collections::HashMap;
use std::ffi::CString;
use std::sync::{Mutex, OnceLock};

use sim_interface::{hip_args, op_names};

use crate::abi::{
    ApiExtRecord, CallbackRecord, INVALID_ARGUMENT, KIND_NOT_FOUND, NOT_IMPLEMENTED,
    OPERATION_NOT_FOUND, RecordHeader, SUCCESS, Status, buffer_kind,
};
use crate::correlation::lock;

/// Names of the statuses; position = value.
static STATUS_NAMES: [&CStr; 41] = [
    c"ROCPROFILER_STATUS_SUCCESS",
    c"ROCPROFILER_STATUS_ERROR",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_BUFFER_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_KIND_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_OPERATION_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_THREAD_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_AGENT_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_COUNTER_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_ERROR",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_INVALID",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_NOT_STARTED",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_CONFLICT",
    c"ROCPROFILER_STATUS_ERROR_CONTEXT_ID_NOT_ZERO",
    c"ROCPROFILER_STATUS_ERROR_BUFFER_BUSY",
    c"ROCPROFILER_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED",
    c"ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED",
    c"ROCPROFILER_STATUS_ERROR_NOT_IMPLEMENTED",
    c"ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_ABI",
    c"ROCPROFILER_STATUS_ERROR_INVALID_ARGUMENT",
    c"ROCPROFILER_STATUS_ERROR_METRIC_NOT_VALID_FOR_AGENT",
    c"ROCPROFILER_STATUS_ERROR_FINALIZED",
    c"ROCPROFILER_STATUS_ERROR_HSA_NOT_LOADED",
    c"ROCPROFILER_STATUS_ERROR_DIM_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_PROFILE_COUNTER_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_AST_GENERATION_FAILED",
    c"ROCPROFILER_STATUS_ERROR_AST_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_AQL_NO_EVENT_COORD",
    c"ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_KERNEL",
    c"ROCPROFILER_STATUS_ERROR_OUT_OF_RESOURCES",
    c"ROCPROFILER_STATUS_ERROR_PROFILE_NOT_FOUND",
    c"ROCPROFILER_STATUS_ERROR_AGENT_DISPATCH_CONFLICT",
    c"ROCPROFILER_STATUS_INTERNAL_NO_AGENT_CONTEXT",
    c"ROCPROFILER_STATUS_ERROR_SAMPLE_RATE_EXCEEDED",
    c"ROCPROFILER_STATUS_ERROR_NO_PROFILE_QUEUE",
    c"ROCPROFILER_STATUS_ERROR_NO_HARDWARE_COUNTERS",
    c"ROCPROFILER_STATUS_ERROR_AGENT_MISMATCH",
    c"ROCPROFILER_STATUS_ERROR_NOT_AVAILABLE",
    c"ROCPROFILER_STATUS_ERROR_EXCEEDS_HW_LIMIT",
    c"ROCPROFILER_STATUS_ERROR_AGENT_ARCH_NOT_SUPPORTED",
    c"ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED",
];

/// Callback kinds; position = value.
static CALLBACK_KINDS: [&str; 22] = [
    "NONE",
    "HSA_CORE_API",
    "HSA_AMD_EXT_API",
    "HSA_IMAGE_EXT_API",
    "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API",
    "HIP_COMPILER_API",
    "MARKER_CORE_API",
    "MARKER_CONTROL_API",
    "MARKER_NAME_API",
    "CODE_OBJECT",
    "SCRATCH_MEMORY",
    "KERNEL_DISPATCH",
    "MEMORY_COPY",
    "RCCL_API",
    "OMPT",
    "MEMORY_ALLOCATION",
    "RUNTIME_INITIALIZATION",
    "ROCDECODE_API",
    "ROCJPEG_API",
    "HIP_STREAM",
    "MARKER_CORE_RANGE_API",
];

/// Buffer kinds; position = value.
static BUFFER_KINDS: [&str; 33] = [
    "NONE",
    "HSA_CORE_API",
    "HSA_AMD_EXT_API",
    "HSA_IMAGE_EXT_API",
    "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API",
    "HIP_COMPILER_API",
    "MARKER_CORE_API",
    "MARKER_CONTROL_API",
    "MARKER_NAME_API",
    "MEMORY_COPY",
    "KERNEL_DISPATCH",
    "SCRATCH_MEMORY",
    "CORRELATION_ID_RETIREMENT",
    "RCCL_API",
    "OMPT",
    "MEMORY_ALLOCATION",
    "RUNTIME_INITIALIZATION",
    "ROCDECODE_API",
    "ROCJPEG_API",
    "HIP_STREAM",
    "HIP_RUNTIME_API_EXT",
    "HIP_COMPILER_API_EXT",
    "ROCDECODE_API_EXT",
    "KFD_EVENT_PAGE_MIGRATE",
    "KFD_EVENT_PAGE_FAULT",
    "KFD_EVENT_QUEUE",
    "KFD_EVENT_UNMAP_FROM_GPU",
    "KFD_EVENT_DROPPED_EVENTS",
    "KFD_PAGE_MIGRATE",
    "KFD_PAGE_FAULT",
    "KFD_QUEUE",
    "MARKER_CORE_RANGE_API",
];

/// External correlation id request kinds; position = value.
static REQUEST_KINDS: [&str; 19] = [
    "NONE",
    "HSA_CORE_API",
    "HSA_AMD_EXT_API",
    "HSA_IMAGE_EXT_API",
    "HSA_FINALIZE_EXT_API",
    "HIP_RUNTIME_API",
    "HIP_COMPILER_API",
    "MARKER_CORE_API",
    "MARKER_CONTROL_API",
    "MARKER_NAME_API",
    "MEMORY_COPY",
    "KERNEL_DISPATCH",
    "SCRATCH_MEMORY",
    "RCCL_API",
    "OMPT",
    "MEMORY_ALLOCATION",
    "ROCDECODE_API",
    "ROCJPEG_API",
    "MARKER_CORE_RANGE_API",
];

/// Intercept tables, one bit each.
static TABLES: [&str; 9] = [
    "HSA",
    "HIP_RUNTIME",
    "HIP_COMPILER",
    "MARKER_CORE",
    "MARKER_CONTROL",
    "MARKER_NAME",
    "RCCL",
    "ROCDECODE",
    "ROCJPEG",
];

static CODE_OBJECT: [&str; 4] = [
    "CODE_OBJECT_NONE",
    "CODE_OBJECT_LOAD",
    "CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER",
    "CODE_OBJECT_HOST_KERNEL_SYMBOL_REGISTER",
];
static SCRATCH: [&str; 4] = [
    "SCRATCH_MEMORY_NONE",
    "SCRATCH_MEMORY_ALLOC",
    "SCRATCH_MEMORY_FREE",
    "SCRATCH_MEMORY_ASYNC_RECLAIM",
];
static DISPATCH: [&str; 3] = [
    "KERNEL_DISPATCH_NONE",
    "KERNEL_DISPATCH_ENQUEUE",
    "KERNEL_DISPATCH_COMPLETE",
];
static COPY: [&str; 5] = [
    "MEMORY_COPY_NONE",
    "MEMORY_COPY_HOST_TO_HOST",
    "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST",
    "MEMORY_COPY_DEVICE_TO_DEVICE",
];
static ALLOCATION: [&str; 5] = [
    "MEMORY_ALLOCATION_NONE",
    "MEMORY_ALLOCATION_ALLOCATE",
    "MEMORY_ALLOCATION_VMEM_ALLOCATE",
    "MEMORY_ALLOCATION_FREE",
    "MEMORY_ALLOCATION_VMEM_FREE",
];
static RUNTIME_INITIALIZATION: [&str; 7] = [
    "RUNTIME_INITIALIZATION_NONE",
    "RUNTIME_INITIALIZATION_HSA",
    "RUNTIME_INITIALIZATION_HIP",
    "RUNTIME_INITIALIZATION_MARKER",
    "RUNTIME_INITIALIZATION_RCCL",
    "RUNTIME_INITIALIZATION_ROCDECODE",
    "RUNTIME_INITIALIZATION_ROCJPEG",
];
static STREAM: [&str; 4] = [
    "HIP_STREAM_NONE",
    "HIP_STREAM_CREATE",
    "HIP_STREAM_DESTROY",
    "HIP_STREAM_SET",
];

/// Which of the two kind numberings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Service {
    Callback,
    Buffer,
}

impl Service {
    fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Callback => &CALLBACK_KINDS,
            Self::Buffer => &BUFFER_KINDS,
        }
    }

    /// Operation names of a kind; position = operation.
    fn operations(self, kind: u32) -> &'static [&'static str] {
        let Some(&name) = self.kinds().get(kind as usize) else {
            return &[];
        };
        match name {
            "HSA_CORE_API" => &op_names::HSA_CORE,
            "HSA_AMD_EXT_API" => &op_names::HSA_AMD_EXT,
            "HSA_IMAGE_EXT_API" => &op_names::HSA_IMAGE_EXT,
            "HSA_FINALIZE_EXT_API" => &op_names::HSA_FINALIZE_EXT,
            "HIP_RUNTIME_API" | "HIP_RUNTIME_API_EXT" => &op_names::HIP_RUNTIME,
            "HIP_COMPILER_API" | "HIP_COMPILER_API_EXT" => &op_names::HIP_COMPILER,
            "MARKER_CORE_API" => &op_names::MARKER_CORE,
            "MARKER_CONTROL_API" => &op_names::MARKER_CONTROL,
            "MARKER_NAME_API" => &op_names::MARKER_NAME,
            "MARKER_CORE_RANGE_API" => &op_names::MARKER_CORE_RANGE,
            "RCCL_API" => &op_names::RCCL,
            "CODE_OBJECT" => &CODE_OBJECT,
            "SCRATCH_MEMORY" => &SCRATCH,
            "KERNEL_DISPATCH" => &DISPATCH,
            "MEMORY_COPY" => &COPY,
            "MEMORY_ALLOCATION" => &ALLOCATION,
            "RUNTIME_INITIALIZATION" => &RUNTIME_INITIALIZATION,
            "HIP_STREAM" => &STREAM,
            _ => &[],
        }
    }
}

/// A C string of a static text, made once and kept for ever.
fn forever(text: &'static str) -> &'static CStr {
    static STRINGS: Mutex<Option<HashMap<&'static str, &'static CStr>>> = Mutex::new(None);
    lock(&STRINGS)
        .get_or_insert_default()
        .entry(text)
        .or_insert_with(|| Box::leak(CString::new(text).unwrap_or_default().into_boxed_c_str()))
}

/// Writes a name and its length through out-parameters that may be null.
///
/// # Safety
/// Each is null or valid for a write.
unsafe fn give(text: Option<&'static str>, name: *mut *const c_char, len: *mut u64) {
    let text = text.map(forever);
    if !name.is_null() {
        // SAFETY: valid for a write (caller).
        unsafe { *name = text.map_or(core::ptr::null(), CStr::as_ptr) };
    }
    if !len.is_null() {
        // SAFETY: valid for a write (caller).
        unsafe { *len = text.map_or(0, |text| text.count_bytes() as u64) };
    }
}

/// Name of a kind.
///
/// # Safety
/// `name` and `len` are null or valid for a write.
pub(crate) unsafe fn kind_name(
    service: Service,
    kind: u32,
    name: *mut *const c_char,
    len: *mut u64,
) -> Status {
    let text = service.kinds().get(kind as usize).copied();
    // SAFETY: as the caller says.
    unsafe { give(text, name, len) };
    if text.is_some() {
        SUCCESS
    } else {
        KIND_NOT_FOUND
    }
}

/// Name of an operation.
///
/// # Safety
/// `name` and `len` are null or valid for a write.
pub(crate) unsafe fn operation_name(
    service: Service,
    kind: u32,
    op: c_int,
    name: *mut *const c_char,
    len: *mut u64,
) -> Status {
    let text = usize::try_from(op)
        .ok()
        .and_then(|op| service.operations(kind).get(op).copied());
    // SAFETY: as the caller says.
    unsafe { give(text, name, len) };
    match (kind, text) {
        (0, _) => INVALID_ARGUMENT,
        (kind, _) if kind as usize >= service.kinds().len() => KIND_NOT_FOUND,
        (13, _) if service == Service::Buffer => NOT_IMPLEMENTED,
        (_, None) => OPERATION_NOT_FOUND,
        (_, Some(_)) => SUCCESS,
    }
}

/// Name of an external correlation id request kind.
///
/// # Safety
/// `name` and `len` are null or valid for a write.
pub(crate) unsafe fn request_kind_name(
    kind: u32,
    name: *mut *const c_char,
    len: *mut u64,
) -> Status {
    let text = REQUEST_KINDS.get(kind as usize).copied();
    // SAFETY: as the caller says.
    unsafe { give(text, name, len) };
    if text.is_some() {
        SUCCESS
    } else {
        KIND_NOT_FOUND
    }
}

/// Name of an intercept table.
///
/// # Safety
/// `name` and `len` are null or valid for a write.
pub(crate) unsafe fn table_name(table: u32, name: *mut *const c_char, len: *mut u64) -> Status {
    let text = table
        .is_power_of_two()
        .then(|| TABLES.get(table.trailing_zeros() as usize).copied())
        .flatten();
    // SAFETY: as the caller says.
    unsafe { give(text, name, len) };
    if text.is_some() {
        SUCCESS
    } else {
        KIND_NOT_FOUND
    }
}

/// Visits all kinds from NONE on, in ascending order; a non-zero answer stops.
///
/// # Safety
/// `callback` may be called with `data`.
pub(crate) unsafe fn iterate_kinds(
    service: Service,
    callback: unsafe extern "C" fn(u32, *mut c_void) -> c_int,
    data: *mut c_void,
) -> Status {
    for kind in 0..service.kinds().len() {
        // SAFETY: as the caller says. Kinds are few.
        if unsafe { callback(kind as u32, data) } != 0 {
            break;
        }
    }
    SUCCESS
}

/// Visits all operations of a kind in ascending order; a non-zero answer stops.
///
/// # Safety
/// `callback` may be called with `data`.
pub(crate) unsafe fn iterate_operations(
    service: Service,
    kind: u32,
    callback: unsafe extern "C" fn(u32, c_int, *mut c_void) -> c_int,
    data: *mut c_void,
) -> Status {
    if kind == 0 || kind as usize >= service.kinds().len() {
        return INVALID_ARGUMENT;
    }
    if kind == 13 && service == Service::Buffer {
        return NOT_IMPLEMENTED;
    }
    for op in 0..service.operations(kind).len() {
        // SAFETY: as the caller says. Operations are few.
        if unsafe { callback(kind, op as c_int, data) } != 0 {
            break;
        }
    }
    SUCCESS
}

/// Name of a status, null when out of range.
pub(crate) fn status_name(status: u32) -> *const c_char {
    STATUS_NAMES
        .get(status as usize)
        .map_or(core::ptr::null(), |name| name.as_ptr())
}

/// Text of a status, null when out of range.
pub(crate) fn status_text(status: u32) -> *const c_char {
    static TEXTS: OnceLock<Vec<CString>> = OnceLock::new();
    TEXTS
        .get_or_init(|| {
            STATUS_NAMES
                .iter()
                .map(|name| {
                    let name = name.to_str().unwrap_or_default();
                    let text = name
                        .trim_start_matches("ROCPROFILER_STATUS_")
                        .to_ascii_lowercase()
                        .replace('_', " ");
                    CString::new(text).unwrap_or_default()
                })
                .collect()
        })
        .get(status as usize)
        .map_or(core::ptr::null(), |text| text.as_ptr())
}

/// One argument of a traced function.
struct Argument {
    name: CString,
    mangled: CString,
    offset: usize,
    size: usize,
    /// Levels of pointers.
    indirection: c_int,
}

/// Argument lists by kind and operation.
type Arguments = HashMap<(u32, c_int), &'static [Argument]>;

/// Arguments of an operation of an API kind, made once and kept for ever.
fn arguments(kind: u32, op: c_int) -> Option<&'static [Argument]> {
    static ALL: Mutex<Option<Arguments>> = Mutex::new(None);
    let text = match kind {
        5 => *hip_args::HIP_RUNTIME.get(usize::try_from(op).ok()?)?,
        6 => *hip_args::HIP_COMPILER.get(usize::try_from(op).ok()?)?,
        7 | 21 => [
            "message:PKc:0:8",
            "message:PKc:0:8",
            "",
            "message:PKc:0:8",
            "id:m:0:8",
            "tid:Pm:0:8",
        ]
        .get(usize::try_from(op).ok()?)
        .copied()?,
        8 => "tid:m:0:8",
        9 => [
            "name:PKc:0:8",
            "name:PKc:0:8 agent:PK11hsa_agent_s:8:8",
            "name:PKc:0:8 device_id:i:8:4",
            "name:PKc:0:8 stream:PK12ihipStream_t:8:8",
        ]
        .get(usize::try_from(op).ok()?)
        .copied()?,
        _ => return None,
    };
    Some(
        lock(&ALL)
            .get_or_insert_default()
            .entry((kind, op))
            .or_insert_with(|| {
                let parsed: Vec<Argument> =
                    text.split_ascii_whitespace().filter_map(parse).collect();
                Box::leak(parsed.into_boxed_slice())
            }),
    )
}

fn parse(text: &str) -> Option<Argument> {
    let mut parts = text.split(':');
    let name = CString::new(parts.next()?).ok()?;
    let mangled = parts.next()?;
    let levels = mangled.bytes().take_while(|&b| b == b'P').count();
    Some(Argument {
        name,
        mangled: CString::new(mangled).ok()?,
        indirection: c_int::try_from(levels).ok()?,
        offset: parts.next()?.parse().ok()?,
        size: parts.next()?.parse().ok()?,
    })
}

/// `rocprofiler_callback_tracing_operation_args_cb_t`.
pub(crate) type ArgumentFn = unsafe extern "C" fn(
    kind: u32,
    op: c_int,
    number: u32,
    value: *const c_void,
    indirection: c_int,
    mangled: *const c_char,
    name: *const c_char,
    text: *const c_char,
    dereferences: c_int,
    data: *mut c_void,
) -> c_int;

/// Visits the arguments of a traced call. `value` points into the live payload; `text` dies when
/// the callback returns.
///
/// # Safety
/// `record` is the one that the running callback got, and `callback` may be called with `data`.
pub(crate) unsafe fn iterate_arguments(
    record: &CallbackRecord,
    callback: ArgumentFn,
    data: *mut c_void,
) -> Status {
    let (kind, op) = (record.kind, record.operation);
    match kind {
        0 => return INVALID_ARGUMENT,
        1..=9 | 15 | 18 | 21 => {}
        kind if kind as usize >= CALLBACK_KINDS.len() => return INVALID_ARGUMENT,
        _ => return NOT_IMPLEMENTED,
    }
    // The union of arguments follows the size word in each of these payloads.
    let base = record.payload.cast::<u8>().wrapping_add(8);
    // SAFETY: the payload is live (caller), and so are the strings of the running call.
    unsafe {
        visit(kind, op, base, true, |number, value, argument, text| {
            callback(
                kind,
                op,
                number,
                value,
                argument.indirection,
                argument.mangled.as_ptr(),
                argument.name.as_ptr(),
                text,
                0,
                data,
            )
        });
    };
    SUCCESS
}

/// `rocprofiler_buffer_tracing_operation_args_cb_t`.
pub(crate) type BufferArgumentFn = unsafe extern "C" fn(
    kind: u32,
    op: c_int,
    number: u32,
    value: *const c_void,
    indirection: c_int,
    mangled: *const c_char,
    name: *const c_char,
    text: *const c_char,
    data: *mut c_void,
) -> c_int;

/// Visits the arguments of a buffered HIP call with arguments (kinds 21 and 22). Strings are shown
/// as addresses: they may be gone.
///
/// # Safety
/// `header` belongs to a record that is being delivered, and `callback` may be called with `data`.
pub(crate) unsafe fn iterate_record_arguments(
    header: &RecordHeader,
    callback: BufferArgumentFn,
    data: *mut c_void,
) -> Status {
    let kind = match header.kind {
        buffer_kind::HIP_RUNTIME_EXT => 5,
        buffer_kind::HIP_COMPILER_EXT => 6,
        _ => return NOT_IMPLEMENTED,
    };
    let record = header.payload.cast::<ApiExtRecord>();
    // SAFETY: records of these kinds have this type, and the buffer holds it now (caller).
    let op = unsafe { (*record).api.operation };
    let base = record
        .cast::<u8>()
        .wrapping_add(core::mem::offset_of!(ApiExtRecord, args));
    // SAFETY: the arguments are in the record.
    unsafe {
        visit(kind, op, base, false, |number, value, argument, text| {
            callback(
                header.kind,
                op,
                number,
                value,
                argument.indirection,
                argument.mangled.as_ptr(),
                argument.name.as_ptr(),
                text,
                data,
            )
        });
    };
    SUCCESS
}

/// Calls back for each argument until the answer is not 0: number, address, argument, text.
///
/// # Safety
/// `base` leads to the arguments of this function; with `strings`, its strings are alive.
unsafe fn visit(
    kind: u32,
    op: c_int,
    base: *const u8,
    strings: bool,
    mut callback: impl FnMut(u32, *const c_void, &Argument, *const c_char) -> c_int,
) {
    for (number, argument) in arguments(kind, op).unwrap_or_default().iter().enumerate() {
        let value = base.wrapping_add(argument.offset);
        let mangled = argument.mangled.to_bytes();
        let shown: &[u8] = if strings || mangled != b"PKc" {
            mangled
        } else {
            b"PKv"
        };
        // SAFETY: the argument lies behind `base` by the tables; strings are alive if shown.
        let text = unsafe { render(shown, value, argument.size) };
        let mut text = CString::new(text).unwrap_or_default().into_bytes_with_nul();
        // Functions have at most 14 arguments.
        let answer = callback(number as u32, value.cast(), argument, text.as_ptr().cast());
        // A tool that kept the pointer reads rubbish.
        text.fill(0xdd);
        core::hint::black_box(&text);
        if answer != 0 {
            break;
        }
    }
}

/// An argument as text.
///
/// # Safety
/// `value` is valid for a read of `size` bytes; a `const char*` is null or NUL-terminated.
unsafe fn render(mangled: &[u8], value: *const u8, size: usize) -> String {
    let mut bytes = [0_u8; 16];
    let len = size.min(bytes.len());
    // SAFETY: `len` bytes are valid (caller), and `bytes` has room.
    unsafe { core::ptr::copy_nonoverlapping(value, bytes.as_mut_ptr(), len) };
    let mut word = [0_u8; 8];
    word.copy_from_slice(&bytes[..8]);
    let word = u64::from_le_bytes(word);
    let int = |i: usize| {
        let mut word = [0_u8; 4];
        word.copy_from_slice(&bytes[i..i + 4]);
        u32::from_le_bytes(word)
    };
    match mangled {
        b"PKc" if word != 0 => {
            // SAFETY: a NUL-terminated string of the application (caller).
            let text = unsafe { CStr::from_ptr(word as *const c_char) };
            text.to_string_lossy().into_owned()
        }
        [b'P', ..] if word == 0 => "(null)".to_owned(),
        [b'P', ..] => format!("{word:#x}"),
        b"18rocprofiler_dim3_t" => format!("{{z={}, y={}, x={}}}", int(8), int(4), int(0)),
        b"i" => format!("{}", int(0).cast_signed()),
        b"f" => format!("{}", f32::from_bits(int(0))),
        _ if size <= 4 => format!("{}", int(0)),
        b"l" | b"x" => format!("{}", word.cast_signed()),
        _ if size == 8 => format!("{word}"),
        _ => format!("{{{size} bytes}}"),
    }
}
