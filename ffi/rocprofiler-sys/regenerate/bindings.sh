#!/bin/sh
# Regenerates ../src/bindings.rs from the headers named in README.md.
# usage: ./bindings.sh INCLUDE_DIR [bindgen]
set -eu
include_dir=${1:?usage: ./bindings.sh INCLUDE_DIR [bindgen]}
bindgen=${2:-bindgen}
here=$(cd "$(dirname "$0")" && pwd)
out=$here/../src/bindings.rs

# Argument unions of whole APIs stay out: nothing here needs their members by name (tables.py
# prints the offsets that a tracer reads). src/payload.rs holds unions of the same size and
# alignment, and the 32-bit words of hsakmttypes.h that rocprofiler_agent_v0_t embeds.
blocked_files='.*/(hip|rccl|ompt|rocdecode|rocjpeg|hsa)/(api_args\.h|api_trace\.h|omp-tools\.h)'
blocked_files="$blocked_files|.*/(hip|rccl|rocdecode|rocjpeg)/(details|amd_detail)/.*"
blocked_files="$blocked_files|.*/hip/[a-z_]*_types\.h|.*/hip/hip_.*\.h"
blocked='rocprofiler_callback_tracing_(hsa|ompt|rocdecode|rocjpeg)_(api_)?data_t|rocprofiler_.*ompt.*'
blocked="$blocked|rocprofiler_buffer_tracing_(hsa|ompt|rocdecode|rocjpeg|kfd)_.*"
blocked="$blocked|rocprofiler_(hsa|hip_runtime|rocdecode|rocjpeg)_.*api_id_t|rocprofiler_kfd_.*"
blocked="$blocked|rocprofiler_agent_set_profile_callback_t|rocprofiler_available_pc_.*"

# The functions used by a tracer, by kineto and by Tracy, and the rest of the 1.0.0 exports without
# device counting and PC sampling.
functions='rocprofiler_(get_(version|version_triplet|timestamp|thread_id|status_name|status_string)'
functions="$functions|is_initialized|is_finalized|force_configure|configure"
functions="$functions|(create|start|stop)_context|context_is_(active|valid)"
functions="$functions|(create|flush|destroy)_buffer|(create|assign)_callback_thread"
functions="$functions|configure_(callback|buffer)_tracing_service"
functions="$functions|(query|iterate)_(callback|buffer)_tracing_.*|iterate_buffer_tracing_record_args"
functions="$functions|query_available_agents|(push|pop)_external_correlation_id"
functions="$functions|configure_external_correlation_id_request_service"
functions="$functions|query_external_correlation_id_request_kind_name|query_intercept_table_name"
functions="$functions|at_internal_thread_create|at_intercept_table_registration"
functions="$functions|configure_(callback|buffer)_dispatch_counting_service"
functions="$functions|(create|destroy)_counter_config|create_counter|iterate_agent_supported_counters"
functions="$functions|query_counter_info|query_counter_instance_count|iterate_counter_dimensions"
functions="$functions|query_record_counter_id|query_record_dimension_position)"

types='rocprofiler_(configure_func_t|query_available_agents_cb_t)'
types="$types|rocprofiler_(status|tool|client|context|intercept|internal|external|runtime|available)_.*"
types="$types|rocprofiler_(callback|callback_tracing|buffer|buffer_tracing|record|tracing)_.*"
types="$types|rocprofiler_(kernel|dispatch|queue|stream|agent|counter|timestamp|thread)_.*"
types="$types|rocprofiler_(marker|scratch_memory|memory_copy|memory_allocation|hip_stream|code_object)_.*"
types="$types|rocprofiler_(user_data|address|dim3|uuid|version_triplet|correlation_id|async_correlation_id)_t"
types="$types|rocprofiler_(rccl_api_id|hip_compiler_api_id|scratch_alloc_flag)_t"

"$bindgen" "$here/wrapper.hpp" \
    --use-core --ctypes-prefix core::ffi --rust-edition 2024 --rust-target 1.85 \
    --default-enum-style consts --no-prepend-enum-name --no-doc-comments --no-layout-tests \
    --with-derive-default --no-recursive-allowlist \
    --allowlist-function "$functions" \
    --allowlist-type "$types" \
    --allowlist-type 'hsa_agent_s|hsa_agent_t|roctx_range_id_t|roctx_thread_id_t' \
    --allowlist-type 'hsa_amd_tool_event_kind_t|hsa_amd_event_scratch_alloc_flag_t' \
    --allowlist-var 'ROCPROFILER_(VERSION|SDK_VERSION|SOVERSION|CORRELATION|CODE_OBJECT|COUNTER).*' \
    --blocklist-file "$blocked_files" --blocklist-item "$blocked" \
    --raw-line 'use crate::payload::*;' \
    -- -x c++ -std=c++17 -D__HIP_PLATFORM_AMD__ -I"$include_dir" >"$out.raw"

python3 "$here/finish_bindings.py" "$out.raw" >"$out"
rm "$out.raw"
rustfmt --edition 2024 "$out"
