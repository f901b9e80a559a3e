/* A test double of rocprofiler-sdk: its functions do as little as they can, and the test drives the tool's callbacks
 * itself. Built in variants:
 *   (none)           all functions that the tool uses
 *   -DONLY_REQUIRED  without the optional ones
 *   -DINCOMPLETE     without rocprofiler_start_context
 * DOUBLE_STATUS=N in the environment: every configuring function answers N. */
#define _GNU_SOURCE
#include "sdk_double.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CONTEXTS 8
#define RETIRED_MAX 65536

static struct {
    int active;
    struct { callback_t callback; void *data; uint64_t operations[8]; int all; } kinds[KINDS];
} contexts[CONTEXTS];
static int context_count;
/* As the real one: plain, not recursive; taken in every function, and held around a finalizer (case B05). */
static pthread_mutex_t registration = PTHREAD_MUTEX_INITIALIZER;
static atomic_uint_fast64_t calls, flushes;
static buffer_callback_t buffer_callback;
static int retirement_context = -1;
static pthread_mutex_t buffer_lock = PTHREAD_MUTEX_INITIALIZER;
static retirement_t retired[RETIRED_MAX];
static header_t headers[RETIRED_MAX];
static header_t *pointers[RETIRED_MAX];
static size_t retired_count;
static atomic_int finalized;
static configure_result_t tool;

static status_t entry(void) {
    calls++;
    pthread_mutex_lock(&registration);
    pthread_mutex_unlock(&registration);
    return 0;
}

static status_t configuring(void) {
    entry();
    const char *status = getenv("DOUBLE_STATUS");
    return status ? atoi(status) : SUCCESS;
}

status_t rocprofiler_create_context(handle_t *context) {
    status_t status = configuring();
    if (status == SUCCESS) context->handle = 1000 + (uint64_t)context_count++;
    return status;
}

#ifndef INCOMPLETE
status_t rocprofiler_start_context(handle_t context) {
    entry();
    if (context.handle - 1000 >= (uint64_t)context_count) return 2;
    contexts[context.handle - 1000].active = 1;
    return SUCCESS;
}
#endif

status_t rocprofiler_stop_context(handle_t context) {
    entry();
    if (context.handle - 1000 >= (uint64_t)context_count) return 2;
    contexts[context.handle - 1000].active = 0;
    return SUCCESS;
}

status_t rocprofiler_configure_callback_tracing_service(handle_t context, uint32_t kind, const int32_t *operations, size_t count, callback_t callback, void *data) {
    status_t status = configuring();
    if (status != SUCCESS) return status;
    if (context.handle - 1000 >= (uint64_t)context_count || kind >= KINDS) return 2;
    if (contexts[context.handle - 1000].kinds[kind].callback) return 15;
    contexts[context.handle - 1000].kinds[kind].callback = callback;
    contexts[context.handle - 1000].kinds[kind].data = data;
    contexts[context.handle - 1000].kinds[kind].all = count == 0;
    for (size_t i = 0; i < count; i++) {
        if (operations[i] < 0 || operations[i] >= 512) return 5;
        contexts[context.handle - 1000].kinds[kind].operations[operations[i] / 64] |= 1ull << (operations[i] % 64);
    }
    return SUCCESS;
}

#ifndef ONLY_REQUIRED
status_t rocprofiler_get_timestamp(uint64_t *ns) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    *ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    return SUCCESS;
}

const char *rocprofiler_get_status_string(status_t status) { return status == LOCKED ? "Configuration locked" : "Some status"; }

status_t rocprofiler_is_finalized(int *status) {
    calls++;
    *status = finalized;
    return SUCCESS;
}

status_t rocprofiler_create_buffer(handle_t context, size_t size, size_t threshold, uint32_t policy, buffer_callback_t callback, void *data, handle_t *buffer) {
    (void)size, (void)threshold, (void)policy, (void)data, (void)context;
    status_t status = configuring();
    if (status != SUCCESS) return status;
    buffer_callback = callback;
    buffer->handle = 77;
    return SUCCESS;
}

status_t rocprofiler_configure_buffer_tracing_service(handle_t context, uint32_t kind, const int32_t *operations, size_t count, handle_t buffer) {
    (void)operations, (void)count;
    status_t status = configuring();
    if (status != SUCCESS) return status;
    if (kind != 13 || buffer.handle != 77) return 3;
    retirement_context = (int)(context.handle - 1000);
    return SUCCESS;
}

status_t rocprofiler_flush_buffer(handle_t buffer) {
    entry();
    flushes++;
    if (buffer.handle != 77) return 3;
    if (finalized > 0) return 21;
    pthread_mutex_lock(&buffer_lock);
    for (size_t i = 0; i < retired_count; i++) {
        headers[i] = (header_t){.category = 1, .kind = 13, .payload = &retired[i]};
        pointers[i] = &headers[i];
    }
    if (retired_count) buffer_callback((handle_t){1000}, buffer, pointers, retired_count, NULL, 0);
    memset(retired, 0xdd, sizeof retired[0] * retired_count);
    retired_count = 0;
    pthread_mutex_unlock(&buffer_lock);
    return SUCCESS;
}
#endif

configure_result_t *double_load(const char *tool_path, uint32_t version, uint32_t priority) {
    static const char text[] = "1.0.0";
    void *library = dlopen(tool_path, RTLD_LOCAL | RTLD_LAZY);
    configure_t configure = library ? (configure_t)dlsym(library, "rocprofiler_configure") : NULL;
    if (!configure) return NULL;
    client_id_t client = {sizeof client, NULL, 5 + priority};
    configure_result_t *result = configure(version, text, priority, &client);
    if (!result) return NULL;
    tool = *result;
    /* The SDK ignores what initialize returns. */
    if (tool.initialize) tool.initialize(NULL, tool.data);
    return &tool;
}

void double_finalize(void) {
    if (!tool.finalize) return;
    finalized = -1;
    pthread_mutex_lock(&registration);
    tool.finalize(tool.data);
    pthread_mutex_unlock(&registration);
    finalized = 1;
}

void double_set_finalized(int status) { finalized = status; }

static int wanted(int context, uint32_t kind, int32_t operation) {
    if (!contexts[context].active || !contexts[context].kinds[kind].callback) return 0;
    return contexts[context].kinds[kind].all || contexts[context].kinds[kind].operations[operation / 64] >> (operation % 64) & 1;
}

void double_fire(uint32_t kind, int32_t operation, uint32_t phase, uint64_t thread, uint64_t internal, uint64_t ancestor, void *payload, uint64_t *slots) {
    for (int i = 0; i < context_count; i++) {
        /* Captured at the first phase: delivered also when the context was stopped meanwhile (facts B). */
        int late = phase != ENTER && slots[i] != 0 && contexts[i].kinds[kind].callback != NULL;
        if (!late && !wanted(i, kind, operation)) continue;
        record_t record = {.context = 1000 + (uint64_t)i, .thread_id = thread, .internal = internal, .ancestor = ancestor, .kind = kind, .operation = operation, .phase = phase, .payload = payload};
        contexts[i].kinds[kind].callback(record, &slots[i], contexts[i].kinds[kind].data);
    }
}

callback_t double_callback(uint32_t kind, int *context) {
    for (int i = context_count - 1; i >= 0; i--)
        if (contexts[i].active && contexts[i].kinds[kind].callback) {
            if (context) *context = i;
            return contexts[i].kinds[kind].callback;
        }
    return NULL;
}

void double_retire(uint64_t id) {
    if (retirement_context < 0 || !contexts[retirement_context].active) return;
    pthread_mutex_lock(&buffer_lock);
    if (retired_count < RETIRED_MAX) retired[retired_count++] = (retirement_t){.size = sizeof(retirement_t), .kind = 13, .internal = id};
    pthread_mutex_unlock(&buffer_lock);
}

uint64_t double_calls(void) { return calls; }
uint64_t double_flushes(void) { return flushes; }

int double_active(void) {
    int active = 0;
    for (int i = 0; i < context_count; i++) active += contexts[i].active;
    return active;
}
