// The part of rocprofiler-sdk 1.0.0's C ABI that the test tools use, written by hand from its layout
// tables. Independent of the stand-in's own definitions, so that the two check each other.
#pragma once
#include <cstddef>
#include <cstdint>

extern "C" {
typedef int32_t status_t;
struct context_id { uint64_t handle; };
struct buffer_id { uint64_t handle; };
struct thread_handle { uint64_t handle; };
union user_data_t { uint64_t value; void* ptr; };

struct correlation_t { uint64_t internal; user_data_t external; uint64_t ancestor; };
struct record_t {
    context_id context;
    uint64_t thread_id;
    correlation_t correlation;
    uint32_t kind;
    int32_t operation;
    uint32_t phase;
    void* payload;
};
static_assert(sizeof(record_t) == 64, "callback record");
static_assert(offsetof(record_t, payload) == 56, "callback record");

struct header_t { uint32_t category; uint32_t kind; void* payload; };
struct client_id_t { size_t size; const char* name; const uint32_t handle; };
typedef void (*client_finalize_t)(client_id_t);
struct configure_result_t {
    size_t size;
    int (*initialize)(client_finalize_t, void*);
    void (*finalize)(void*);
    void* data;
};
static_assert(sizeof(client_id_t) == 24 && sizeof(configure_result_t) == 32, "registration");

struct dim3_t { uint32_t x, y, z; };
struct dispatch_info_t {
    uint64_t size, agent, queue, kernel_id, dispatch_id;
    uint32_t private_segment, group_segment;
    dim3_t workgroup, grid;
    uint8_t reserved[56];
};
struct dispatch_data_t { uint64_t size, start, end; dispatch_info_t info; };
struct dispatch_record_t {
    uint64_t size; uint32_t kind; int32_t operation;
    uint64_t internal, external, thread_id, start, end;
    dispatch_info_t info;
};
static_assert(sizeof(dispatch_data_t) == 152 && sizeof(dispatch_record_t) == 184, "dispatch");
struct copy_data_t { uint64_t size, start, end, dst_agent, src_agent, bytes, dst, src; };
struct allocation_data_t { uint64_t size, start, end, agent, address, bytes; };
struct scratch_data_t { uint64_t size, agent, queue; uint32_t flags, args_kind; uint64_t packet, bytes, slots; };
struct retirement_t { uint64_t size; uint32_t kind, pad; uint64_t timestamp, internal; };
struct code_object_t { uint64_t size, id, agent, hsa_agent; const char* uri; uint64_t load_base, load_size; int64_t delta; uint32_t storage, pad; uint64_t memory_base, memory_size; };
struct kernel_symbol_t { uint64_t size, kernel_id, code_object_id; const char* name; uint64_t object; uint32_t rest[8]; int64_t entry; uint64_t address; };
static_assert(sizeof(kernel_symbol_t) == 88 && sizeof(code_object_t) == 88, "code object");
struct host_symbol_t { uint64_t size, host_function_id, kernel_id, code_object_id, host_function, modules; const char* name; uint32_t rest[14]; uint64_t workgroup; };
static_assert(sizeof(host_symbol_t) == 120, "host symbol");
struct hip_data_t { uint64_t size; uint64_t args[11]; uint64_t retval[3]; };
struct marker_data_t { uint64_t size; uint64_t args[2]; uint64_t retval; };

typedef void (*callback_t)(record_t, user_data_t*, void*);
typedef void (*buffer_callback_t)(context_id, buffer_id, header_t**, size_t, void*, uint64_t);

status_t rocprofiler_create_context(context_id*);
status_t rocprofiler_start_context(context_id);
status_t rocprofiler_stop_context(context_id);
status_t rocprofiler_context_is_active(context_id, int*);
status_t rocprofiler_context_is_valid(context_id, int*);
status_t rocprofiler_configure_callback_tracing_service(context_id, uint32_t, const int32_t*, size_t, callback_t, void*);
status_t rocprofiler_configure_buffer_tracing_service(context_id, uint32_t, const int32_t*, size_t, buffer_id);
status_t rocprofiler_create_buffer(context_id, size_t, size_t, uint32_t, buffer_callback_t, void*, buffer_id*);
status_t rocprofiler_flush_buffer(buffer_id);
status_t rocprofiler_create_callback_thread(thread_handle*);
status_t rocprofiler_assign_callback_thread(buffer_id, thread_handle);
status_t rocprofiler_is_initialized(int*);
status_t rocprofiler_is_finalized(int*);
status_t rocprofiler_get_timestamp(uint64_t*);
status_t rocprofiler_get_thread_id(uint64_t*);
status_t rocprofiler_push_external_correlation_id(context_id, uint64_t, user_data_t);
status_t rocprofiler_pop_external_correlation_id(context_id, uint64_t, user_data_t*);
status_t rocprofiler_query_callback_tracing_kind_operation_name(uint32_t, int32_t, const char**, uint64_t*);
status_t rocprofiler_iterate_callback_tracing_kinds(int (*)(uint32_t, void*), void*);
status_t rocprofiler_iterate_callback_tracing_kind_operations(uint32_t, int (*)(uint32_t, int32_t, void*), void*);
status_t rocprofiler_iterate_callback_tracing_kind_operation_args(record_t, int (*)(uint32_t, int32_t, uint32_t, const void*, int32_t, const char*, const char*, const char*, int32_t, void*), int32_t, void*);
status_t rocprofiler_query_available_agents(uint32_t, status_t (*)(uint32_t, const void**, size_t, void*), size_t, void*);
status_t rocprofiler_force_configure(configure_result_t* (*)(uint32_t, const char*, uint32_t, client_id_t*));
const char* rocprofiler_sdk_standin_description();
}

enum status_values { SUCCESS = 0, CONTEXT_NOT_FOUND = 2, BUFFER_NOT_FOUND = 3, CONTEXT_ID_NOT_ZERO = 13, ALREADY_CONFIGURED = 15, LOCKED = 16, FINALIZED = 21 };
enum callback_kinds { HIP_API = 5, HIP_COMPILER = 6, MARKER_CORE = 7, MARKER_CONTROL = 8, MARKER_NAME = 9, CODE_OBJECT = 10, SCRATCH = 11, DISPATCH = 12, COPY = 13, ALLOCATION = 16 };
enum buffer_kinds { BUFFER_DISPATCH = 11, BUFFER_RETIREMENT = 13 };
enum phases { NONE = 0, ENTER = 1, EXIT = 2 };
