// See fwd.h.
#pragma once
#include <rocprofiler-sdk/fwd.h>
#ifdef __cplusplus
extern "C"
#endif
rocprofiler_status_t rocprofiler_query_callback_tracing_kind_operation_name(
    rocprofiler_callback_tracing_kind_t kind,
    rocprofiler_tracing_operation_t operation,
    const char** name,
    uint64_t* bytes);
