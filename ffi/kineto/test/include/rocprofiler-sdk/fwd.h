// The part of rocprofiler-sdk's types that RocprofLogger.h names, so that the layer compiles where ROCm is not installed.
// Numbers as in SDK 1.0.0; ffi/rocprofiler-sys checks them against the real headers.
#pragma once
#include <stdint.h>
typedef enum {
  ROCPROFILER_CALLBACK_TRACING_NONE = 0,
  ROCPROFILER_CALLBACK_TRACING_HIP_RUNTIME_API = 5,
} rocprofiler_callback_tracing_kind_t;
typedef enum {
  ROCPROFILER_BUFFER_TRACING_NONE = 0,
  ROCPROFILER_BUFFER_TRACING_MEMORY_COPY = 10,
  ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH = 11,
} rocprofiler_buffer_tracing_kind_t;
typedef enum {
  ROCPROFILER_STATUS_SUCCESS = 0,
} rocprofiler_status_t;
typedef int32_t rocprofiler_tracing_operation_t;
