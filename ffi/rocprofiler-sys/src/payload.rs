//! Types that the bindings refer to and that are written by hand: argument unions of whole APIs as
//! plain bytes, and the 32-bit property words of the kernel driver.
//!
//! `layout` asserts their sizes and the offsets of what follows them. The members of the HIP union
//! that a tracer reads are in the offset tables of [`crate::hip`].

#![allow(
    non_camel_case_types,
    non_snake_case,
    reason = "names as in the C headers"
)]

use core::ffi::{c_char, c_int, c_void};
use core::fmt;

/// By-value arguments of one HIP runtime or compiler call, as 88 bytes.
///
/// Which bytes are set depends on the operation; the rest is whatever was there before. Pointers
/// in it belong to the application and are valid during the callback only.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rocprofiler_hip_api_args_t {
    /// The union as bytes.
    pub bytes: [u8; 88],
    /// The union as 8-byte words: its alignment is 8.
    pub words: [u64; 11],
}

/// What a HIP call returned. Only set at EXIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rocprofiler_hip_api_retval_t {
    /// Calls that return a 64-bit number.
    pub uint64_t_retval: u64,
    /// Calls that return an `int`.
    pub int_retval: c_int,
    /// Calls that return a string.
    pub const_charp_retval: *const c_char,
    /// Calls that return a `hipError_t`: nearly all.
    pub hipError_t_retval: c_int,
    /// `__hipRegisterFatBinary`.
    pub voidpp_retval: *mut *mut c_void,
    /// The union as bytes.
    pub bytes: [u8; 24],
    /// The union as 8-byte words: its alignment is 8.
    pub words: [u64; 3],
}

/// By-value arguments of one RCCL call, as 152 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rocprofiler_rccl_api_args_t {
    /// The union as bytes.
    pub bytes: [u8; 152],
    /// The union as 8-byte words: its alignment is 8.
    pub words: [u64; 19],
}

/// What an RCCL call returned. Only set at EXIT.
#[repr(C)]
#[derive(Clone, Copy)]
pub union rocprofiler_rccl_api_retval_t {
    /// Calls that return a `ncclResult_t`: nearly all.
    pub ncclResult_t_retval: c_int,
    /// `ncclGetErrorString`, `ncclGetLastError`.
    pub const_charp_retval: *const c_char,
    /// The union as one 8-byte word: its alignment is 8.
    pub words: [u64; 1],
}

macro_rules! bytes_only {
    ($($name:ident),*) => {$(
        impl Default for $name {
            /// All bytes zero.
            fn default() -> Self {
                Self { words: [0; _] }
            }
        }

        impl fmt::Debug for $name {
            /// The name only: which bytes are initialized is known to the operation alone.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    )*};
}

bytes_only!(
    rocprofiler_hip_api_args_t,
    rocprofiler_hip_api_retval_t,
    rocprofiler_rccl_api_args_t,
    rocprofiler_rccl_api_retval_t
);

/// Version word of the GPU's microengine (`hsakmttypes.h`).
pub type HSA_ENGINE_ID = u32;
/// Firmware version word (`hsakmttypes.h`).
pub type HSA_ENGINE_VERSION = u32;
/// Capability bits of a node (`hsakmttypes.h`).
pub type HSA_CAPABILITY = u32;
/// Property bits of a memory bank (`hsakmttypes.h`).
pub type HSA_MEMORYPROPERTY = u32;
/// Kind of a memory bank (`hsakmttypes.h`).
pub type HSA_HEAPTYPE = u32;
/// Property bits of a link between nodes (`hsakmttypes.h`).
pub type HSA_LINKPROPERTY = u32;
/// Kind of a link between nodes (`hsakmttypes.h`).
pub type HSA_IOLINKTYPE = u32;
/// Kind of a cache (`hsakmttypes.h`).
pub type HsaCacheType = u32;

/// What a HIP stream handle points to: opaque.
#[repr(C)]
#[derive(Debug)]
pub struct ihipStream_t {
    _opaque: [u8; 0],
}

/// A HIP stream handle. 0 is the null stream, 1 the legacy stream, 2 the per-thread stream.
pub type hipStream_t = *mut ihipStream_t;

/// `rocprofiler_set_api_table`: how ROCm runtimes hand their tables to the SDK. Exported by the
/// library but in no public header (`source/lib/rocprofiler-sdk/registration.cpp`).
pub type rocprofiler_set_api_table_fn = unsafe extern "C" fn(
    name: *const c_char,
    lib_version: u64,
    lib_instance: u64,
    tables: *mut *mut c_void,
    num_tables: u64,
) -> c_int;
