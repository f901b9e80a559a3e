/* Another tool for rocprofiler-sdk: counts what it is told and writes the count to $OTHER_OUT when it ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct { uint64_t value; } handle_t;
typedef struct { size_t size; const char *name; uint32_t handle; } client_id_t;
typedef struct { size_t size; int (*initialize)(void (*)(client_id_t), void *); void (*finalize)(void *); void *data; } result_t;
typedef struct { uint64_t context, thread_id, internal, external, ancestor; uint32_t kind; int32_t operation; uint32_t phase, pad; void *payload; } record_t;
enum { DISPATCH = 12, ENQUEUE = 1, ENTER = 1 };

int rocprofiler_create_context(handle_t *);
int rocprofiler_start_context(handle_t);
int rocprofiler_configure_callback_tracing_service(handle_t, uint32_t, const int32_t *, size_t, void (*)(record_t, void *, void *), void *);
result_t *rocprofiler_configure(uint32_t version, const char *runtime, uint32_t priority, client_id_t *id);

static uint64_t count;
static uint32_t own_priority;

static void on_record(record_t record, void *user, void *data) {
    (void)user, (void)data;
    if (record.operation == ENQUEUE && record.phase == ENTER) __atomic_add_fetch(&count, 1, __ATOMIC_RELAXED);
}

static int initialize(void (*finish)(client_id_t), void *data) {
    (void)finish, (void)data;
    handle_t context = {0};
    return rocprofiler_create_context(&context) || rocprofiler_configure_callback_tracing_service(context, DISPATCH, NULL, 0, on_record, NULL) ||
           rocprofiler_start_context(context);
}

static void finalize(void *data) {
    (void)data;
    FILE *out = fopen(getenv("OTHER_OUT"), "w");
    if (!out) return;
    fprintf(out, "priority %u, %llu enqueued", own_priority, (unsigned long long)count);
    fclose(out);
}

result_t *rocprofiler_configure(uint32_t version, const char *runtime, uint32_t priority, client_id_t *id) {
    static result_t result = {sizeof(result_t), initialize, finalize, NULL};
    (void)version, (void)runtime;
    own_priority = priority;
    id->name = "other";
    return &result;
}
