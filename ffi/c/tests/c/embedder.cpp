// Goal: programs that use HIP and bring the SDK's tool themselves. Prints "ok".
//   own     this program defines rocprofiler_configure and returns what the library gives it; a forked child gets a status
//   chain   it defines rocprofiler_configure with a tool of its own, and calls the library's initialize and finalize from there
//   second  as own, and another tool comes first (ROCP_TOOL_LIBRARIES)
//   force   it defines none, and hands the library to the SDK's own rocprofiler_force_configure
//   foreign the same with a tool that is not the library: a status, and neither HIP nor that tool is touched
//   beside  it knows nothing of the library, which the SDK loads as the second of two tools
//   forced  it defines none, and configures the SDK before it uses HIP
//   session it defines none; the first session configures the SDK
//   late    it defines none, and HIP is used before the first session: a status, and HIP is untouched
//   inside  as chain; sessions are started, stopped and exported in SDK callbacks, a buffer callback and the finalizer
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <string>
#include <strandline.hpp>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

// The part of rocprofiler-sdk's ABI that is used here.
struct client_id { size_t size; const char *name; uint32_t handle; };
struct configure_result { size_t size; int (*initialize)(void (*)(client_id), void *); void (*finalize)(void *); void *tool_data; };
struct handle { uint64_t value; };
struct record { uint64_t context, thread_id, internal, external, ancestor; uint32_t kind; int32_t operation; uint32_t phase, pad; void *payload; };
enum : uint32_t { HIP_API = 5, DISPATCH = 12, RETIREMENT = 13 };
struct dim3_t { uint32_t x, y, z; };

extern "C" {
int hipGetDeviceCount(int *);
int hipDeviceSynchronize();
int hipLaunchKernel(const void *, dim3_t, dim3_t, void **, size_t, void *);
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, char *, const char *, unsigned, void *, void *, void *, void *, int *);
#if defined(OWN) || defined(FORCE)
int rocprofiler_force_configure(configure_result *(*)(uint32_t, const char *, uint32_t, client_id *));
int rocprofiler_create_context(handle *);
int rocprofiler_start_context(handle);
int rocprofiler_configure_callback_tracing_service(handle, uint32_t, const int32_t *, size_t, void (*)(record, void *, void *), void *);
int rocprofiler_create_buffer(handle, size_t, size_t, uint32_t, void (*)(handle, handle, void **, size_t, void *, uint64_t), void *, handle *);
int rocprofiler_configure_buffer_tracing_service(handle, uint32_t, const int32_t *, size_t, handle);
int rocprofiler_flush_buffer(handle);
#endif
}

static const char *mode = "";
static int own_initialized, own_finalized;
static configure_result *ours;
static uint32_t own_priority;
static char kernel_stub;

/// Reads what there is, a little of it.
static void iterate() {
    strandline_trace *trace = nullptr;
    strandline_cursor *cursor = nullptr;
    auto record = strandline::make<strandline_record>();
    if (strandline_trace_live(&trace) != STRANDLINE_OK) return;
    EXPECT(strandline_cursor_open(trace, 0, 0, &cursor), STRANDLINE_OK);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    for (int i = 0; i < 10; i++) {
        const int32_t status = strandline_cursor_next(cursor, &record);
        EXPECT(status == STRANDLINE_OK || status == STRANDLINE_NOTHING, 1);
    }
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_next(cursor, &record), STRANDLINE_BAD_HANDLE);
}

static void finalizing() {
    uint64_t session;
    auto result = strandline::make<strandline_stop_result>();
    // Never a wait.
    EXPECT(strandline_session_start(&session), STRANDLINE_FINALIZING);
    const int32_t stopped = strandline_session_stop(1, 1000000, &result);
    EXPECT(stopped == STRANDLINE_OK || stopped == STRANDLINE_FINALIZING, 1);
    iterate();
    const std::string path = std::string(std::getenv("EMBEDDER_OUT")) + "/finalizer.json";
    const int32_t exported = strandline_export(0, path.c_str());
    EXPECT(exported == STRANDLINE_OK || exported == STRANDLINE_INSIDE_CALLBACK || exported == STRANDLINE_FINALIZING, 1);
    std::fflush(stdout);
    // main has returned its code.
    if (failed()) _exit(1);
}

/// What may be answered inside a callback. Whether the library's own callback ran before this one decides between them; a wait is
/// as long as it was allowed to be, and nothing crashes.
static std::atomic<int> inside_calls{0}, refused{0};
static void inside() {
    if (std::strcmp(mode, "inside") != 0) return;
    const int call = ++inside_calls;
    const uint64_t number = *strandline_session_word;
    auto result = strandline::make<strandline_stop_result>();
    if (call % 50 == 0) {
        const std::string path = std::string(std::getenv("EMBEDDER_OUT")) + "/inside-" + std::to_string(call) + ".json";
        const int32_t exported = strandline_export(0, path.c_str());
        EXPECT(exported == STRANDLINE_OK || exported == STRANDLINE_INSIDE_CALLBACK, 1);
        refused += exported == STRANDLINE_INSIDE_CALLBACK;
    }
    if (call % 7 == 0) {
        const int32_t stopped = strandline_session_stop(number, 1000000, &result);
        EXPECT(stopped == STRANDLINE_OK || stopped == STRANDLINE_INSIDE_CALLBACK || stopped == STRANDLINE_NO_SUCH_SESSION || stopped == STRANDLINE_FINALIZING, 1);
        refused += stopped == STRANDLINE_INSIDE_CALLBACK;
    }
    if (call % 40 == 0) iterate();
    uint64_t session = 0;
    // The last callbacks come while the process ends.
    const int32_t started = strandline_session_start(&session);
    EXPECT(started == STRANDLINE_OK || started == STRANDLINE_SESSION_OPEN || started == STRANDLINE_TOO_MANY_PENDING || started == STRANDLINE_FINALIZING, 1);
}

#if defined(OWN) || defined(FORCE)
static handle context, buffer;
static std::atomic<int> foreign_calls{0};
static void on_record(record, void *, void *) {
    foreign_calls++;
    inside();
}
static void on_buffer(handle, handle, void **, size_t, void *, uint64_t) { inside(); }
#endif

static int initialize(void (*fini)(client_id), void *) {
    own_initialized++;
    const int status = ours ? ours->initialize(fini, ours->tool_data) : 0;
#if defined(OWN) || defined(FORCE)
    EXPECT(rocprofiler_create_context(&context), 0);
    EXPECT(rocprofiler_configure_callback_tracing_service(context, HIP_API, nullptr, 0, on_record, nullptr), 0);
    EXPECT(rocprofiler_configure_callback_tracing_service(context, DISPATCH, nullptr, 0, on_record, nullptr), 0);
    EXPECT(rocprofiler_create_buffer(context, 4096, 64, 2, on_buffer, nullptr, &buffer), 0);
    EXPECT(rocprofiler_configure_buffer_tracing_service(context, RETIREMENT, nullptr, 0, buffer), 0);
    EXPECT(rocprofiler_start_context(context), 0);
#endif
    return status;
}

static void finalize(void *) {
    own_finalized++;
    if (!ours) return;
    // The SDK is ending and the library's own finalizer has not run: the SDK opens no session any more.
    uint64_t session = 0;
    EXPECT(strandline_session_start(&session), STRANDLINE_FINALIZING);
    ours->finalize(ours->tool_data);
    finalizing();
}

#ifdef OWN
extern "C" __attribute__((visibility("default"))) configure_result *rocprofiler_configure(uint32_t version, const char *runtime, uint32_t priority, client_id *id) {
    if (std::strcmp(mode, "") == 0) mode = std::getenv("EMBEDDER_MODE");
    id->name = "embedder";
    own_priority = priority;
    ours = static_cast<configure_result *>(strandline_rocprofiler_configure(version, runtime, priority, id));
    EXPECT(ours != nullptr, 1);
    EXPECT(std::strcmp(id->name, "embedder"), 0);
    EXPECT(strandline_rocprofiler_configure(version, runtime, priority, id) == nullptr, 1);
    if (std::strcmp(mode, "own") == 0 || std::strcmp(mode, "second") == 0) return ours;
    static configure_result result{sizeof(result), initialize, finalize, nullptr};
    return &result;
}
#endif

#ifdef FORCE
/// What a program gives to rocprofiler_force_configure: the library, or a tool that knows nothing of it.
static configure_result *forced(uint32_t version, const char *runtime, uint32_t priority, client_id *id) {
    static configure_result result{sizeof(result), initialize, finalize, nullptr};
    id->name = "embedder";
    if (std::strcmp(mode, "foreign") == 0) return &result;
    ours = static_cast<configure_result *>(strandline_rocprofiler_configure(version, runtime, priority, id));
    EXPECT(ours != nullptr, 1);
    return ours;
}
#endif

/// A forked child has the parent's handles and none of its sessions.
static void fork_now(const strandline::trace &trace) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        failures = 0;
        uint64_t session = 0;
        strandline_trace *live = nullptr;
        strandline_cursor *cursor = nullptr;
        auto settings = strandline::make<strandline_settings>();
        EXPECT(strandline_status(), STRANDLINE_NOT_READY);
        EXPECT(strandline_configure(&settings) != STRANDLINE_OK, 1);
        EXPECT(strandline_rocprofiler_force_configure(), STRANDLINE_NOT_READY);
        EXPECT(strandline_session_start(&session), STRANDLINE_NOT_READY);
        EXPECT(strandline_session_stop(1, 1000000, nullptr), STRANDLINE_NOT_READY);
        EXPECT(strandline_export(0, "/nowhere/x.json"), STRANDLINE_NOT_READY);
        EXPECT(strandline_trace_live(&live), STRANDLINE_NOT_READY);
        EXPECT(strandline_cursor_open(trace.get(), 0, 0, &cursor), STRANDLINE_NOT_READY);
        std::fflush(stdout);
        _exit(failed());
    }
    int how = 0;
    EXPECT(waitpid(child, &how, 0), child);
    EXPECT(how, 0);
}

static void launch(int count) {
    for (int i = 0; i < count; i++) EXPECT(hipLaunchKernel(&kernel_stub, {64, 1, 1}, {64, 1, 1}, nullptr, 0, nullptr), 0);
}

static void use_hip() {
    int devices = 0;
    EXPECT(hipGetDeviceCount(&devices), 0);
    EXPECT(devices > 0, 1);
    static const uint32_t wrapper[6] = {0x48495046, 1};
    void **binary = __hipRegisterFatBinary(wrapper);
    static char name[] = "_Z4nodev";
    __hipRegisterFunction(binary, &kernel_stub, name, name, ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
}

int main() try {
    mode = std::getenv("EMBEDDER_MODE");
    const std::string what = mode, out = std::string(std::getenv("EMBEDDER_OUT"));
    if (what == "late") {
        use_hip();
        launch(3);
        EXPECT(hipDeviceSynchronize(), 0);
        uint64_t session = 0;
        const int32_t status = strandline_session_start(&session);
        // Which of the two depends on whether the SDK was configured without any tool.
        std::printf("late: %s\n", strandline_status_string(status));
        launch(3);
        EXPECT(hipDeviceSynchronize(), 0);
        std::printf(failed() ? "%d failures\n" : "ok\n", failed());
        return failed() != 0;
    }
    if (what == "beside") {
        use_hip();
        launch(300);
        EXPECT(hipDeviceSynchronize(), 0);
        EXPECT(strandline_status(), STRANDLINE_NOT_READY);
        std::printf(failed() ? "%d failures\n" : "ok\n", failed());
        return failed() != 0;
    }
#ifdef FORCE
    EXPECT(rocprofiler_force_configure(forced), 0);
    if (what == "foreign") {
        use_hip();
        uint64_t session = 0;
        EXPECT(strandline_session_start(&session), STRANDLINE_SDK_LOCKED);
        EXPECT(strandline_rocprofiler_force_configure(), STRANDLINE_SDK_LOCKED);
        EXPECT(strandline_status(), STRANDLINE_SDK_LOCKED);
        launch(10);
        EXPECT(hipDeviceSynchronize(), 0);
        EXPECT(own_initialized, 1);
        // Every launch is a call and a dispatch to that tool.
        EXPECT(foreign_calls >= 20, 1);
        std::printf(failed() ? "%d failures\n" : "ok\n", failed());
        return failed() != 0;
    }
#endif
    if (what == "forced") {
        strandline::check(strandline_rocprofiler_force_configure());
        strandline::check(strandline_rocprofiler_force_configure());
    }
    if (what == "session") {
        strandline::session first;
        EXPECT(first.stop().verdict, STRANDLINE_VERDICT_EMPTY);
    }
    use_hip();
#ifdef OWN
    if (what == "inside") {
        for (int window = 0; window < 8; window++) {
            uint64_t session = 0;
            const int32_t started = strandline_session_start(&session);
            EXPECT(started == STRANDLINE_OK || started == STRANDLINE_SESSION_OPEN || started == STRANDLINE_TOO_MANY_PENDING, 1);
            launch(50);
            EXPECT(hipDeviceSynchronize(), 0);
            EXPECT(rocprofiler_flush_buffer(buffer), 0);
            auto result = strandline::make<strandline_stop_result>();
            const int32_t stopped = strandline_session_stop(*strandline_session_word, 1000000000, &result);
            EXPECT(stopped == STRANDLINE_OK || stopped == STRANDLINE_NO_SUCH_SESSION, 1);
        }
        EXPECT(inside_calls > 100, 1);
        EXPECT(refused > 0, 1);
        std::printf("inside: %d calls, %d refused\n", inside_calls.load(), refused.load());
        std::printf(failed() ? "%d failures\n" : "ok\n", failed());
        std::fflush(stdout);
        return failed() != 0;
    }
#endif
    uint64_t total = 0;
    for (int window = 1; window <= 3; window++) {
        strandline::session session;
        uint64_t again = 0;
        EXPECT(strandline_session_start(&again), STRANDLINE_SESSION_OPEN);
        const uint64_t number = session.number();
        strandline::external_id step(0, 70 + number), user(1, 90 + number);
        launch(100);
        const auto end = session.stop(std::chrono::seconds(20));
        EXPECT(end.session > 0, 1);
        EXPECT(end.session, number);
        EXPECT(end.verdict, STRANDLINE_VERDICT_COMPLETE);
        EXPECT(end.issued, 100);
        EXPECT(end.recorded, 100);
        total += end.recorded;
    }
    const auto trace = strandline::trace::live();
    EXPECT(trace.info().simulated, 1);
    EXPECT(trace.info().agent_count > 0, 1);
    std::map<std::string, uint64_t> kernels;
    uint64_t launches = 0, with_external = 0, users = 0, joined = 0;
    for (const auto &record : trace.records()) {
        if (record.kind == STRANDLINE_KIND_DISPATCH) {
            kernels[std::string(strandline::name(record))]++;
            joined += record.external_id == 70 + record.session;
        }
        if (record.kind == STRANDLINE_KIND_EXTERNAL) users += record.external_domain == 1 && record.external_id == 90 + record.session;
        if (record.kind == STRANDLINE_KIND_API && strandline::name(record) == "hipLaunchKernel") {
            launches++;
            with_external += record.external_id == 70 + record.session;
        }
    }
    EXPECT(launches, 300);
    EXPECT(with_external, 300);
    EXPECT(joined, 300);
    EXPECT(users >= 300, 1);
    EXPECT(kernels.size(), 1);
    for (const auto &[name, count] : kernels) std::printf("%" PRIu64 " x %s\n", count, name.c_str());
    EXPECT(total, 300);
    if (what == "second") {
        EXPECT(own_priority > 0, 1);
        std::string said;
        for (uint64_t i = 0; i < trace.info().metadata_count; i++)
            if (std::string(trace.metadata(i).key) == "tool priority") said = trace.metadata(i).value;
        EXPECT(said == std::to_string(own_priority), 1);
    }
    if (what == "own") fork_now(trace);
    trace.export_to(out + "/" + what + ".json");
    EXPECT(own_initialized, what == "chain");
    std::printf(failed() ? "%d failures\n" : "ok\n", failed());
    std::fflush(stdout);
    return failed() != 0;
} catch (const strandline::error &error) {
    std::printf("%d: %s\n", error.status(), error.what());
    return 1;
}
