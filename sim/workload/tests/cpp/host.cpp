// A program that uses HIP and registers its own tool with rocprofiler_force_configure, as kineto does,
// then checks the SDK's statuses before, during and after. Prints "ok", or what was wrong.
// With an argument, the tool makes a HIP call in its initializer, which it must not.
#include "sdk.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
int hipGetDeviceCount(int*);
int hipDeviceSynchronize();
int hipMalloc(void**, size_t);
int hipMemset(void*, int, size_t);
void** __hipRegisterFatBinary(const void*);
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*);
int hipLaunchKernel(const void*, dim3_t, dim3_t, void**, size_t, void*);
int hipPeekAtLastError();
int hipSetDevice(int);
}

static bool forbidden_call = false;
static int failures = 0, configured = 0, initialized = 0, finalized = 0, api = 0, dispatches = 0, kernels = 0, blits = 0;
static context_id context{}, code{};
static buffer_id buffer{};
static uint64_t fill = 0;

#define CHECK(what, value, expected) \
    do { long v = (value); if (v != (expected)) { failures++; fprintf(stdout, "%s: %ld, expected %ld\n", what, v, (long) (expected)); } } while (0)

static void on_event(record_t r, user_data_t*, void*) {
    if (r.kind == HIP_API && r.phase == ENTER) api++;
    if (r.kind == DISPATCH && r.operation == 2) {
        dispatches++;
        if (static_cast<dispatch_data_t*>(r.payload)->info.kernel_id == fill) blits++;
    }
}
static void on_code(record_t r, user_data_t*, void*) {
    if (r.operation != 2 || r.phase != 1) return;
    auto* k = static_cast<kernel_symbol_t*>(r.payload);
    kernels++;
    if (strstr(k->name, "fillBuffer")) fill = k->kernel_id;
}
static void on_buffer(context_id, buffer_id, header_t**, size_t, void*, uint64_t) {}

static int initialize(client_finalize_t, void*) {
    initialized++;
    // A HIP call in here passes through; its registration is refused and HIP stays untraced.
    int n = 0;
    if (forbidden_call) CHECK("hip call in initialize", hipGetDeviceCount(&n), 0);
    CHECK("context", rocprofiler_create_context(&context), SUCCESS);
    CHECK("context", rocprofiler_create_context(&code), SUCCESS);
    CHECK("api", rocprofiler_configure_callback_tracing_service(context, HIP_API, nullptr, 0, on_event, nullptr), SUCCESS);
    CHECK("dispatch", rocprofiler_configure_callback_tracing_service(context, DISPATCH, nullptr, 0, on_event, nullptr), SUCCESS);
    CHECK("kind 0", rocprofiler_configure_callback_tracing_service(context, 0, nullptr, 0, on_event, nullptr), 4);
    int32_t bad = 600;
    CHECK("operation 600", rocprofiler_configure_callback_tracing_service(context, COPY, &bad, 1, on_event, nullptr), 5);
    CHECK("unknown context", rocprofiler_configure_callback_tracing_service(context_id{1}, COPY, nullptr, 0, on_event, nullptr), CONTEXT_NOT_FOUND);
    CHECK("code", rocprofiler_configure_callback_tracing_service(code, CODE_OBJECT, nullptr, 0, on_code, nullptr), SUCCESS);
    CHECK("buffer", rocprofiler_create_buffer(context, 4096, 2048, 2, on_buffer, nullptr, &buffer), SUCCESS);
    CHECK("buffer again", rocprofiler_create_buffer(context, 4096, 2048, 2, on_buffer, nullptr, &buffer), ALREADY_CONFIGURED);
    CHECK("start code", rocprofiler_start_context(code), SUCCESS);
    int valid = 0;
    CHECK("valid", rocprofiler_context_is_valid(context, &valid), SUCCESS);
    CHECK("valid is 1", valid, 1);
    return 0;
}
static void finalize(void*) { finalized++; }
static configure_result_t* configure(uint32_t version, const char*, uint32_t priority, client_id_t* id) {
    configured++;
    CHECK("version", version, 10000);
    CHECK("priority", priority, 0);
    CHECK("name", strcmp(id->name, "(forced)"), 0);
    static configure_result_t result{sizeof(result), initialize, finalize, nullptr};
    return &result;
}

// Registered before the SDK's own exit handlers, so it runs after them.
static void after_everything() {
    int fini = 0;
    rocprofiler_is_finalized(&fini);
    CHECK("finalized", fini, 1);
    CHECK("finalize ran once", finalized, 1);
    CHECK("stop after finalization", rocprofiler_stop_context(context), SUCCESS);
    CHECK("start after finalization", rocprofiler_start_context(context), LOCKED);
    CHECK("flush after finalization", rocprofiler_flush_buffer(buffer), FINALIZED);
    CHECK("unknown buffer after finalization", rocprofiler_flush_buffer(buffer_id{1}), BUFFER_NOT_FOUND);
    int before = api;
    hipPeekAtLastError();
    CHECK("no records after finalization", api, before);
    puts(failures ? "failed" : "ok");
    fflush(stdout);
}

int main(int argc, char**) {
    forbidden_call = argc > 1;
    int seen = forbidden_call ? 0 : 1;
    atexit(after_everything);
    static int stub;
    static char name[] = "_Z4blurPf";
    void** modules = __hipRegisterFatBinary(&stub);
    __hipRegisterFunction(modules, &stub, name, name, ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
    int init = 7;
    rocprofiler_is_initialized(&init);
    CHECK("not initialized", init, 0);
    CHECK("force", rocprofiler_force_configure(configure), SUCCESS);
    CHECK("force twice", rocprofiler_force_configure(configure), LOCKED);
    rocprofiler_is_initialized(&init);
    CHECK("initialized", init, 1);
    CHECK("configure ran once", configured, 1);
    context_id late{};
    CHECK("create is locked", rocprofiler_create_context(&late), LOCKED);
    CHECK("service is locked", rocprofiler_configure_callback_tracing_service(context, COPY, nullptr, 0, on_event, nullptr), LOCKED);
    CHECK("stop of a stopped context", rocprofiler_stop_context(context), CONTEXT_NOT_FOUND);

    int n = 0;
    CHECK("devices", hipGetDeviceCount(&n), 0);
    CHECK("kernel symbols before any session", kernels, seen);
    CHECK("no record while stopped", api, 0);
    CHECK("start", rocprofiler_start_context(context), SUCCESS);
    CHECK("start again", rocprofiler_start_context(context), SUCCESS);
    for (int i = 0; i < 10; i++) CHECK("launch", hipLaunchKernel(&stub, dim3_t{4, 1, 1}, dim3_t{64, 1, 1}, nullptr, 0, nullptr), 0);
    CHECK("launch of nothing", hipLaunchKernel(&n, dim3_t{1, 1, 1}, dim3_t{1, 1, 1}, nullptr, 0, nullptr), 98);
    CHECK("last error", hipPeekAtLastError(), 98);
    void* block = nullptr;
    CHECK("malloc", hipMalloc(&block, 4096), 0);
    CHECK("memset", hipMemset(block, 7, 4096), 0);
    CHECK("memset did it", static_cast<unsigned char*>(block)[4095], 7);
    CHECK("sync", hipDeviceSynchronize(), 0);
    CHECK("flush of an empty buffer", rocprofiler_flush_buffer(buffer), SUCCESS);
    CHECK("stop", rocprofiler_stop_context(context), SUCCESS);
    CHECK("calls seen", api, seen * 15);
    hipSetDevice(0);
    CHECK("no record after stop", api, seen * 15);
    atexit([] {
        // Registered after the SDK's handlers, so it runs before them.
        CHECK("not finalized yet", finalized, 0);
    });
    return 0;
}
