//! The HIP runtime and compiler operations: names, and where each argument lies in the argument
//! union of the callback payload.
//!
//! Ids 0 to 476 are those of rocprofiler-sdk 1.0.0; 477 to 516 come from the headers of 1.2.1. Ids
//! are append-only (compared: all 477 have the same names and arguments in both). A newer SDK can
//! send ids that are unknown here, so every lookup by id is checked.
//!
//! All offsets are in bytes from the start of the union `args`, which itself lies at offset 8 of
//! [`rocprofiler_callback_tracing_hip_api_data_t`](crate::rocprofiler_callback_tracing_hip_api_data_t).
//! They were printed by `offsetof` on the SDK's own union. Lookups neither allocate nor lock.

use core::ffi::CStr;

#[rustfmt::skip]
mod tables;
#[cfg(test)]
mod tests;

pub use tables::*;

/// How many of the operations SDK 1.0.0 knows: ids 0 to 476.
pub const HIP_OPERATION_COUNT_1_0_0: usize = 477;

/// In an offset table: the operation has no such argument.
pub const NO_OFFSET: u8 = 255;

/// Operations that kineto never traces (`RocprofLogger.cpp`): calls that only query or select a
/// device, and are frequent. Ascending.
pub static KINETO_EXCLUDED_OPERATIONS: [u32; 10] = [
    op::hipCtxSetCurrent,
    op::hipDeviceGetAttribute,
    op::hipGetDevice,
    op::hipGetDeviceCount,
    op::hipGetDevicePropertiesR0600,
    op::hipGetLastError,
    op::hipModuleGetFunction,
    op::hipPeekAtLastError,
    op::hipRuntimeGetVersion,
    op::hipSetDevice,
];

/// One argument of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its name in the argument union.
    pub name: &'static CStr,
    /// The mangled `typeid` name of its type, as `iterate_..._operation_args` reports it.
    pub type_id: &'static CStr,
    /// Offset in the union.
    pub offset: u8,
    /// Size in bytes.
    pub size: u8,
    /// How many pointers deep it is: 0 for `int`, 1 for `int*` and for opaque handles.
    pub indirection: u8,
}

pub(crate) const fn argument(
    name: &'static CStr,
    type_id: &'static CStr,
    offset: u8,
    size: u8,
    indirection: u8,
) -> Argument {
    Argument {
        name,
        type_id,
        offset,
        size,
        indirection,
    }
}

/// What an operation with an entry in [`HIP_ARGS`] does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HipArgsClass {
    /// Launches a kernel, or several on several devices.
    Launch,
    /// Launches a graph.
    GraphLaunch,
    /// Copies memory.
    Copy,
    /// Fills memory.
    Set,
    /// Allocates; the address is behind `ptr` and set at EXIT.
    Alloc,
    /// Frees `ptr`.
    Free,
    /// Records, waits for or queries an event.
    Event,
}

/// Where one operation keeps the arguments that a tracer reads.
///
/// Each field is an offset in the argument union, or [`NO_OFFSET`], unless its text says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HipArgs {
    /// The operation id (not an offset).
    pub op: u32,
    /// What the operation does (not an offset).
    pub class: HipArgsClass,
    /// Kernel: a host function address, or a `hipFunction_t`. 8 bytes.
    pub function: u8,
    /// Grid size: three `u32`, in blocks unless `grid_in_work_items`.
    pub grid: u8,
    /// Block size: three `u32`, in threads.
    pub block: u8,
    /// Dynamic shared memory in bytes; `shared_size` bytes wide.
    pub shared: u8,
    /// Pointer to a struct that holds the rest: [`launch_config`], [`drv_launch_config`], an array
    /// of [`launch_params`] or [`function_launch_params`], or a copy's parameters.
    pub params: u8,
    /// Length of the array behind `params`: a `u32`.
    pub param_count: u8,
    /// Destination: an address, a symbol or an array. 8 bytes.
    pub dst: u8,
    /// Source: an address, a symbol or an array. 8 bytes.
    pub src: u8,
    /// Length, 8 bytes wide: in bytes, for fills in elements of `element_bytes`.
    pub bytes: u8,
    /// Width of a two-dimensional copy or fill, in bytes or elements. 8 bytes.
    pub width: u8,
    /// Its height in rows. 8 bytes.
    pub height: u8,
    /// `hipMemcpyKind`: 0 host to host, 1 to device, 2 to host, 3 device to device, 4 by address.
    /// 4 bytes. If absent, see `implied_copy_kind`.
    pub copy_kind: u8,
    /// Fill value; `value_size` bytes wide.
    pub value: u8,
    /// Address that is freed, or pointer to where the allocated address goes. 8 bytes.
    pub ptr: u8,
    /// `hipGraphExec_t`. 8 bytes.
    pub graph_exec: u8,
    /// `hipEvent_t`. 8 bytes.
    pub event: u8,
    /// `hipStream_t`. 8 bytes. The same as in [`HIP_STREAM_OFFSET`].
    pub stream: u8,
    /// Width of `shared`: 4, 8, or 0 if absent (not an offset).
    pub shared_size: u8,
    /// Width of `value`: 1, 2, 4, or 0 if absent (not an offset).
    pub value_size: u8,
    /// Bytes that a fill writes per element: 1, 2, 4, or 0 if no fill (not an offset).
    pub element_bytes: u8,
    /// The `hipMemcpyKind` that the operation's name implies, or [`NO_OFFSET`] (not an offset).
    pub implied_copy_kind: u8,
    /// Whether `grid` counts work-items instead of blocks.
    pub grid_in_work_items: bool,
}

impl HipArgs {
    const NONE: Self = Self {
        op: u32::MAX,
        class: HipArgsClass::Event,
        function: NO_OFFSET,
        grid: NO_OFFSET,
        block: NO_OFFSET,
        shared: NO_OFFSET,
        params: NO_OFFSET,
        param_count: NO_OFFSET,
        dst: NO_OFFSET,
        src: NO_OFFSET,
        bytes: NO_OFFSET,
        width: NO_OFFSET,
        height: NO_OFFSET,
        copy_kind: NO_OFFSET,
        value: NO_OFFSET,
        ptr: NO_OFFSET,
        graph_exec: NO_OFFSET,
        event: NO_OFFSET,
        stream: NO_OFFSET,
        shared_size: 0,
        value_size: 0,
        element_bytes: 0,
        implied_copy_kind: NO_OFFSET,
        grid_in_work_items: false,
    };
}

/// The name of a HIP runtime operation, or `None` for ids above [`HIP_OPERATION_COUNT`].
pub fn hip_operation_name(op: u32) -> Option<&'static str> {
    HIP_OPERATION_NAMES.get(op as usize).copied()
}

/// The id of the HIP runtime operation of that name. Searches the whole table.
pub fn hip_operation_id(name: &str) -> Option<u32> {
    let index = HIP_OPERATION_NAMES.iter().position(|&n| n == name)?;
    u32::try_from(index).ok()
}

/// The name of a HIP compiler operation (kind 6).
pub fn hip_compiler_operation_name(op: u32) -> Option<&'static str> {
    HIP_COMPILER_OPERATION_NAMES.get(op as usize).copied()
}

/// Where the operation's `hipStream_t` argument lies. `None`: it has none, or is unknown.
///
/// `hipLaunchKernelExC`, `hipDrvLaunchKernelEx` and the multi-device launches keep their streams
/// behind the pointer at [`HipArgs::params`].
#[inline]
pub fn hip_stream_offset(op: u32) -> Option<usize> {
    offset(&HIP_STREAM_OFFSET, op)
}

/// Where the operation's `hipStream_t*` argument lies: the four calls that create a stream. The
/// handle behind it is set at EXIT.
#[inline]
pub fn hip_stream_out_offset(op: u32) -> Option<usize> {
    offset(&HIP_STREAM_OUT_OFFSET, op)
}

/// The offsets of what a tracer reads, for the operations that have an entry.
#[inline]
pub fn hip_args(op: u32) -> Option<&'static HipArgs> {
    HIP_ARGS.get(offset(&HIP_ARGS_INDEX, op)?)
}

/// All arguments of an operation. Empty for `hipCtxSynchronize()` and the like.
pub fn hip_arguments(op: u32) -> Option<&'static [Argument]> {
    HIP_ARGUMENTS.get(op as usize).copied()
}

/// Whether the operation's null stream, or its lack of a stream argument, means the calling
/// thread's own stream: the functions that end in `_spt`.
#[inline]
pub fn hip_is_per_thread_variant(op: u32) -> bool {
    HIP_STREAM_PER_THREAD_VARIANTS.binary_search(&op).is_ok()
}

/// Whether the operation destroys the stream at its [`hip_stream_offset`].
#[inline]
pub fn hip_destroys_stream(op: u32) -> bool {
    op == op::hipStreamDestroy
}

#[inline]
fn offset(table: &[u8], op: u32) -> Option<usize> {
    match table.get(op as usize) {
        None | Some(&NO_OFFSET) => None,
        Some(&offset) => Some(offset.into()),
    }
}
