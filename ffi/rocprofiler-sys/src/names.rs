//! Names of kinds, of the operations of each kind, and of statuses, as the SDK's query functions
//! return them.
//!
//! Each table exists twice: `X_C` holds C strings, which a stand-in SDK hands out as
//! `const char*`, and `X` the same text as Rust strings. Callback and buffer kinds are numbered
//! differently from 10 to 13.

use crate::hip::{HIP_COMPILER_OPERATION_NAMES_C, HIP_OPERATION_NAMES_C};
use crate::{rocprofiler_buffer_tracing_kind_t, rocprofiler_callback_tracing_kind_t};
use crate::{rocprofiler_status_t, rocprofiler_tracing_operation_t};
use core::ffi::CStr;

#[rustfmt::skip]
mod tables;

pub use tables::*;

/// Status 41 of SDK 1.2.1 (there LAST is 42): late start needs a newer rocprofiler-register.
pub const ROCPROFILER_STATUS_ERROR_INCOMPATIBLE_REGISTER_VERSION: rocprofiler_status_t = 41;

/// The same strings without their terminators.
pub(crate) const fn rust_strings<const N: usize>(c: &[&'static CStr; N]) -> [&'static str; N] {
    let mut strings = [""; N];
    let mut i = 0;
    while i < N {
        strings[i] = match c[i].to_str() {
            Ok(string) => string,
            Err(_) => panic!("a name is not UTF-8"),
        };
        i += 1;
    }
    strings
}

/// The name of a callback kind, e.g. `HIP_RUNTIME_API`; kind 0 is `NONE`.
pub fn callback_kind_name(kind: rocprofiler_callback_tracing_kind_t) -> Option<&'static str> {
    CALLBACK_KIND_NAMES.get(kind as usize).copied()
}

/// The name of a buffer kind, e.g. `KERNEL_DISPATCH`; kind 0 is `NONE`.
pub fn buffer_kind_name(kind: rocprofiler_buffer_tracing_kind_t) -> Option<&'static str> {
    BUFFER_KIND_NAMES.get(kind as usize).copied()
}

/// Names of all operations of a callback kind, by operation id. Empty for the kinds that are not
/// covered here: NONE, OMPT, rocDecode, rocJPEG, and unknown ones.
///
/// HIP runtime operations are listed up to 516; SDK 1.0.0 itself knows the first 477.
pub fn callback_operation_names(
    kind: rocprofiler_callback_tracing_kind_t,
) -> &'static [&'static CStr] {
    match kind {
        crate::ROCPROFILER_CALLBACK_TRACING_HSA_CORE_API => &HSA_CORE_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_HSA_AMD_EXT_API => &HSA_AMD_EXT_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_HSA_IMAGE_EXT_API => &HSA_IMAGE_EXT_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_HSA_FINALIZE_EXT_API => {
            &HSA_FINALIZE_EXT_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API => &HIP_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_HIP_COMPILER_API => &HIP_COMPILER_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MARKER_CORE_API => &MARKER_CORE_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MARKER_CONTROL_API => &MARKER_CONTROL_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MARKER_NAME_API => &MARKER_NAME_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MARKER_CORE_RANGE_API => {
            &MARKER_CORE_RANGE_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_CALLBACK_TRACING_CODE_OBJECT => &CODE_OBJECT_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_SCRATCH_MEMORY => &SCRATCH_MEMORY_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_KERNEL_DISPATCH => &KERNEL_DISPATCH_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MEMORY_COPY => &MEMORY_COPY_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_RCCL_API => &RCCL_OPERATION_NAMES_C,
        crate::ROCPROFILER_CALLBACK_TRACING_MEMORY_ALLOCATION => {
            &MEMORY_ALLOCATION_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_CALLBACK_TRACING_RUNTIME_INITIALIZATION => {
            &RUNTIME_INITIALIZATION_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_CALLBACK_TRACING_HIP_STREAM => &HIP_STREAM_OPERATION_NAMES_C,
        _ => &[],
    }
}

/// Names of all operations of a buffer kind, by operation id. Empty for the kinds that are not
/// covered here: NONE, retirement (it has none), OMPT, rocDecode, rocJPEG, KFD, and unknown ones.
pub fn buffer_operation_names(kind: rocprofiler_buffer_tracing_kind_t) -> &'static [&'static CStr] {
    match kind {
        // 1 to 9 have the same numbers on both sides.
        crate::ROCPROFILER_BUFFER_TRACING_HSA_CORE_API
            ..=crate::ROCPROFILER_BUFFER_TRACING_MARKER_NAME_API => callback_operation_names(kind),
        crate::ROCPROFILER_BUFFER_TRACING_MARKER_CORE_RANGE_API => {
            &MARKER_CORE_RANGE_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_BUFFER_TRACING_SCRATCH_MEMORY => &SCRATCH_MEMORY_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH => &KERNEL_DISPATCH_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_MEMORY_COPY => &MEMORY_COPY_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_RCCL_API => &RCCL_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_MEMORY_ALLOCATION => &MEMORY_ALLOCATION_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_RUNTIME_INITIALIZATION => {
            &RUNTIME_INITIALIZATION_OPERATION_NAMES_C
        }
        crate::ROCPROFILER_BUFFER_TRACING_HIP_STREAM => &HIP_STREAM_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_HIP_RUNTIME_API_EXT => &HIP_OPERATION_NAMES_C,
        crate::ROCPROFILER_BUFFER_TRACING_HIP_COMPILER_API_EXT => &HIP_COMPILER_OPERATION_NAMES_C,
        _ => &[],
    }
}

/// The name of one operation of a callback kind.
pub fn callback_operation_name(
    kind: rocprofiler_callback_tracing_kind_t,
    op: rocprofiler_tracing_operation_t,
) -> Option<&'static CStr> {
    callback_operation_names(kind)
        .get(usize::try_from(op).ok()?)
        .copied()
}

/// The name of one operation of a buffer kind.
pub fn buffer_operation_name(
    kind: rocprofiler_buffer_tracing_kind_t,
    op: rocprofiler_tracing_operation_t,
) -> Option<&'static CStr> {
    buffer_operation_names(kind)
        .get(usize::try_from(op).ok()?)
        .copied()
}

/// The enumerator of a status, e.g. `ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED`.
pub fn status_name(status: rocprofiler_status_t) -> Option<&'static str> {
    STATUS_NAMES.get(status as usize).copied()
}

/// What SDK 1.0.0 says about a status.
pub fn status_string(status: rocprofiler_status_t) -> Option<&'static str> {
    STATUS_STRINGS.get(status as usize).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_differently_on_the_two_sides() {
        assert_eq!(callback_kind_name(0), Some("NONE"));
        assert_eq!(callback_kind_name(10), Some("CODE_OBJECT"));
        assert_eq!(callback_kind_name(11), Some("SCRATCH_MEMORY"));
        assert_eq!(callback_kind_name(12), Some("KERNEL_DISPATCH"));
        assert_eq!(callback_kind_name(13), Some("MEMORY_COPY"));
        assert_eq!(callback_kind_name(21), Some("MARKER_CORE_RANGE_API"));
        assert_eq!(callback_kind_name(22), None);
        assert_eq!(buffer_kind_name(10), Some("MEMORY_COPY"));
        assert_eq!(buffer_kind_name(11), Some("KERNEL_DISPATCH"));
        assert_eq!(buffer_kind_name(12), Some("SCRATCH_MEMORY"));
        assert_eq!(buffer_kind_name(13), Some("CORRELATION_ID_RETIREMENT"));
        assert_eq!(buffer_kind_name(32), Some("MARKER_CORE_RANGE_API"));
        assert_eq!(buffer_kind_name(33), None);
    }

    #[test]
    fn operations_of_each_kind() {
        for (kind, op, name) in [
            (5, 214, c"hipLaunchKernel"),
            (6, 3, c"__hipRegisterFunction"),
            (7, 1, c"roctxRangePushA"),
            (7, 5, c"roctxGetThreadId"),
            (8, 1, c"roctxProfilerResume"),
            (9, 3, c"roctxNameHipStream"),
            (10, 2, c"CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER"),
            (11, 3, c"SCRATCH_MEMORY_ASYNC_RECLAIM"),
            (12, 0, c"KERNEL_DISPATCH_NONE"),
            (12, 1, c"KERNEL_DISPATCH_ENQUEUE"),
            (12, 2, c"KERNEL_DISPATCH_COMPLETE"),
            (13, 3, c"MEMORY_COPY_DEVICE_TO_HOST"),
            (14, 1, c"ncclAllReduce"),
            (14, 36, c"ncclCommDeregister"),
            (16, 4, c"MEMORY_ALLOCATION_VMEM_FREE"),
            (17, 6, c"RUNTIME_INITIALIZATION_ROCJPEG"),
            (20, 3, c"HIP_STREAM_SET"),
            (21, 2, c"roctxProcessRangeA"),
        ] {
            assert_eq!(callback_operation_name(kind, op), Some(name));
        }
        assert_eq!(callback_operation_name(5, -1), None);
        assert_eq!(callback_operation_name(14, 37), None);
        assert_eq!(callback_operation_name(0, 0), None);
        assert_eq!(callback_operation_name(22, 0), None);
        assert_eq!(
            buffer_operation_name(10, 1),
            Some(c"MEMORY_COPY_HOST_TO_HOST")
        );
        assert_eq!(
            buffer_operation_name(11, 2),
            Some(c"KERNEL_DISPATCH_COMPLETE")
        );
        assert_eq!(buffer_operation_name(13, 0), None);
        assert_eq!(buffer_operation_name(21, 268), Some(c"hipMemcpyAsync"));
        assert_eq!(buffer_operation_name(32, 1), Some(c"roctxThreadRangeA"));
    }

    #[test]
    fn statuses() {
        assert_eq!(status_name(0), Some("ROCPROFILER_STATUS_SUCCESS"));
        assert_eq!(
            status_name(16),
            Some("ROCPROFILER_STATUS_ERROR_CONFIGURATION_LOCKED")
        );
        assert_eq!(
            status_string(16),
            Some(
                "Configuration request occurred outside of valid rocprofiler configuration period"
            )
        );
        assert_eq!(
            status_name(40),
            Some("ROCPROFILER_STATUS_ERROR_PERMISSION_DENIED")
        );
        assert_eq!(status_name(41), None);
        assert_eq!(status_string(41), None);
    }

    #[test]
    fn rccl_stream_offsets() {
        for (op, offset) in [(0, 40), (1, 40), (4, 40), (7, 40), (9, 32), (13, 255)] {
            assert_eq!(
                RCCL_STREAM_OFFSET[op], offset,
                "{}",
                RCCL_OPERATION_NAMES[op]
            );
        }
    }
}
