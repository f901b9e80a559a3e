// One hazard of the real SDK for each mode, by a forced tool. Prints "ok" at the end; the modes that
// abort the real SDK must not get there.
#include "sdk.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

extern "C" {
int hipGetDeviceCount(int*);
int hipDeviceSynchronize();
int hipStreamCreate(void**);
int hipModuleLoadData(void**, const void*);
int hipModuleUnload(void*);
int hipStreamSynchronize(void*);
int hipLaunchKernel(const void*, dim3_t, dim3_t, void**, size_t, void*);
void** __hipRegisterFatBinary(const void*);
void __hipRegisterFunction(void**, const void*, char*, const char*, unsigned, void*, void*, void*, void*, int*);
int roctxRangePushA(const char*);
int roctxRangePop();
uint64_t roctxRangeStartA(const char*);
void roctxRangeStop(uint64_t);
void roctxMarkA(const char*);
}

static std::string mode, seen;
static context_id first{}, second{};
static int wrong = 0;
static uint64_t thread_id = 0;

static void on_code(record_t, user_data_t*, void*) {}
static void on_range(record_t r, user_data_t*, void*) {
    auto* p = static_cast<marker_data_t*>(r.payload);
    const char* text = reinterpret_cast<const char*>(p->args[0]);
    seen += std::string(r.phase == ENTER ? "<" : ">") + std::to_string(r.operation) + (text ? text : "?");
}
static void on_api(record_t r, user_data_t*, void*) {
    // Pushed on this thread before the call, or asked for by the request service.
    uint64_t expected = mode == "request" ? r.correlation.internal + 100 : 77;
    if (r.correlation.external.value != expected) wrong++;
    seen += "x";
}
static void on_stream(record_t r, user_data_t*, void*) { seen += "s" + std::to_string(r.operation) + "p" + std::to_string(r.phase); }
static int request(uint64_t, context_id, uint32_t, int32_t, uint64_t internal, user_data_t* out, void*) {
    out->value = internal + 100;
    return 0;
}

extern "C" status_t rocprofiler_configure_external_correlation_id_request_service(context_id, const uint32_t*, size_t, int (*)(uint64_t, context_id, uint32_t, int32_t, uint64_t, user_data_t*, void*), void*);

static char stub, kernel_name[] = "_Z1kv";
static uint64_t launching_thread = 0, outer_id = 0;
static void on_dispatch(record_t r, user_data_t*, void*) {
    uint64_t tid = 0;
    rocprofiler_get_thread_id(&tid);
    if (r.operation == 2) { seen += "c"; return; }
    if (r.phase != ENTER) { seen += ">"; return; }
    seen += "<";
    if (!outer_id) {
        // A launch inside ENQUEUE: taken up by the event thread, with an id of its own.
        outer_id = r.correlation.internal;
        if (hipLaunchKernel(&stub, dim3_t{1, 1, 1}, dim3_t{64, 1, 1}, nullptr, 0, nullptr)) wrong++;
        if (tid != launching_thread) wrong++;
    } else if (tid == launching_thread || r.correlation.internal == outer_id) {
        wrong++;
    }
}

static int initialize(client_finalize_t, void*) {
    rocprofiler_create_context(&first);
    rocprofiler_create_context(&second);
    auto service = [](context_id c, uint32_t kind, callback_t cb) { rocprofiler_configure_callback_tracing_service(c, kind, nullptr, 0, cb, nullptr); };
    if (mode == "second-code-context") {
        service(first, CODE_OBJECT, on_code);
        service(second, CODE_OBJECT, on_code);
    } else if (mode == "launch-in-enqueue") {
        service(first, DISPATCH, on_dispatch);
    } else if (mode == "ranges") {
        service(first, 21, on_range);
    } else if (mode.substr(0, 6) == "stream") {
        service(first, 20, on_stream);
    } else {
        int32_t op = 346;  // hipStreamSynchronize
        rocprofiler_configure_callback_tracing_service(first, HIP_API, &op, 1, on_api, nullptr);
        if (mode == "request") rocprofiler_configure_external_correlation_id_request_service(first, nullptr, 0, request, nullptr);
    }
    rocprofiler_start_context(first);
    return 0;
}
static configure_result_t* configure(uint32_t, const char*, uint32_t, client_id_t*) {
    if (mode == "context-in-configure") rocprofiler_create_context(&first);
    static configure_result_t result{sizeof(result), initialize, nullptr, nullptr};
    return &result;
}

int main(int, char** argv) {
    mode = argv[1];
    rocprofiler_force_configure(configure);
    int n = 0;
    hipGetDeviceCount(&n);
    rocprofiler_get_thread_id(&thread_id);
    std::string expected;
    if (mode == "second-code-context") {
        void *a = nullptr, *b = nullptr;
        hipModuleLoadData(&a, "ROCSIM\n_Z1av\n");
        rocprofiler_start_context(second);
        hipModuleLoadData(&b, "ROCSIM\n_Z1bv\n");
        // Aborts at exit, when the older object is unloaded.
    } else if (mode == "ranges") {
        roctxRangePushA("a");
        roctxMarkA("m");
        uint64_t id = roctxRangeStartA("p");
        roctxRangePop();
        roctxRangeStop(id);
        expected = "<1a<0m>0m<2p>1a>2p";
    } else if (mode == "launch-in-enqueue") {
        __hipRegisterFunction(__hipRegisterFatBinary(&stub), &stub, kernel_name, kernel_name, ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
        launching_thread = thread_id;
        if (hipLaunchKernel(&stub, dim3_t{1, 1, 1}, dim3_t{64, 1, 1}, nullptr, 0, nullptr)) wrong++;
        hipDeviceSynchronize();
        for (int i = 0; i < 200 && seen.size() < 6; i++) usleep(10000);
        int marks[3] = {0, 0, 0};
        for (char c : seen) marks[c == '<' ? 0 : c == '>' ? 1 : 2]++;
        if (marks[0] != 2 || marks[1] != 2 || marks[2] != 2) wrong++;
        expected = seen;
    } else if (mode == "stream" || mode == "stream-unknown") {
        void* stream = nullptr;
        hipStreamCreate(&stream);
        hipStreamSynchronize(stream);
        hipStreamSynchronize(nullptr);
        expected = "s1p0s3p1s3p2s3p1s3p2";
        if (mode == "stream-unknown") hipStreamSynchronize(reinterpret_cast<void*>(2));
    } else {
        user_data_t value;
        value.value = 77;
        if (rocprofiler_push_external_correlation_id(first, thread_id, value) != SUCCESS) wrong++;
        if (rocprofiler_push_external_correlation_id(first, 1, value) != 19) wrong++;
        hipStreamSynchronize(nullptr);
        user_data_t popped{};
        rocprofiler_pop_external_correlation_id(first, thread_id, &popped);
        if (popped.value != 77) wrong++;
        rocprofiler_pop_external_correlation_id(first, thread_id, &popped);
        if (popped.value != 0) wrong++;
        expected = "xx";
    }
    if (wrong || (seen != expected && mode != "second-code-context")) printf("%d wrong, saw %s, expected %s\n", wrong, seen.c_str(), expected.c_str());
    else puts("ok");
    fflush(stdout);
    return 0;
}
