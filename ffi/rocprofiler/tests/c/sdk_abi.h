/* The part of rocprofiler-sdk 1.0.0's C ABI that the test double and the small tools use. Written from its layout
 * tables, apart from the bindings under test, so that the two check each other. */
#pragma once
#include <assert.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t status_t;
typedef struct { uint64_t handle; } handle_t;

typedef struct {
    uint64_t context, thread_id, internal, external, ancestor;
    uint32_t kind;
    int32_t operation;
    uint32_t phase, pad;
    void *payload;
} record_t;
static_assert(sizeof(record_t) == 64 && offsetof(record_t, payload) == 56, "callback record");

typedef struct { uint32_t category, kind; void *payload; } header_t;
typedef struct { size_t size; const char *name; uint32_t handle; } client_id_t;
typedef void (*client_finalize_t)(client_id_t);
typedef struct {
    size_t size;
    int (*initialize)(client_finalize_t, void *);
    void (*finalize)(void *);
    void *data;
} configure_result_t;
typedef configure_result_t *(*configure_t)(uint32_t, const char *, uint32_t, client_id_t *);

typedef struct {
    uint64_t size, start, end;
    struct { uint64_t size, agent, queue, kernel_id, dispatch_id; uint32_t private_segment, group_segment, workgroup[3], grid[3]; uint8_t reserved[56]; } info;
} dispatch_data_t;
static_assert(sizeof(dispatch_data_t) == 152, "dispatch");
typedef struct { uint64_t size, start, end, dst_agent, src_agent, bytes, dst, src; } copy_data_t;
typedef struct { uint64_t size, start, end, agent, address, bytes; } allocation_data_t;
typedef struct { uint64_t size, agent, queue; uint32_t flags, args_kind; uint64_t packet, bytes, slots; } scratch_data_t;
typedef struct { uint64_t size, id, agent, hsa_agent; const char *uri; uint64_t load_base, load_size; int64_t delta; uint32_t storage, pad; uint64_t memory_base, memory_size; } code_object_t;
typedef struct { uint64_t size, kernel_id, code_object_id; const char *name; uint64_t object; uint32_t rest[8]; int64_t entry; uint64_t address; } kernel_symbol_t;
static_assert(sizeof(code_object_t) == 88 && sizeof(kernel_symbol_t) == 88, "code object");
typedef struct { uint64_t size, args[11], retval[3]; } hip_data_t;
static_assert(sizeof(hip_data_t) == 120, "HIP");
typedef struct { uint64_t size, args[2], retval; } marker_data_t;
typedef struct { uint64_t size; uint32_t kind, pad; uint64_t timestamp, internal; } retirement_t;

typedef void (*callback_t)(record_t, uint64_t *, void *);
typedef void (*buffer_callback_t)(handle_t, handle_t, header_t **, size_t, void *, uint64_t);

enum { SUCCESS = 0, LOCKED = 16 };
enum { HIP_API = 5, MARKER_CORE = 7, MARKER_CONTROL = 8, MARKER_NAME = 9, CODE_OBJECT = 10, SCRATCH = 11, DISPATCH = 12, COPY = 13, ALLOCATION = 16, KINDS = 22 };
enum { NONE = 0, ENTER = 1, EXIT = 2 };
enum { ENQUEUE = 1, COMPLETE = 2 };
enum { hipLaunchKernel = 214, hipMemcpyAsync = 268, hipEventRecord = 81 };
