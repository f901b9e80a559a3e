// A HIP program for the tests: work on other threads while sessions start and stop, and while the process exits.
//
//   host cycles N FOLDER     N sessions, one after the other, while two threads launch
//   host exit HOW FOLDER     one session, and an end with records still to come; HOW chooses what happens at exit
//   host unload              kernels of a module that is unloaded before their records come
//   host return CODE         uses HIP and returns CODE; `host abort` aborts
//   host overflow            writes past a heap block
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "strandline_api.h"

struct dim3 { uint32_t x, y, z; };
extern "C" {
int hipSetDevice(int);
int hipStreamCreateWithFlags(void **, unsigned);
int hipStreamSynchronize(void *);
int hipDeviceSynchronize();
int hipLaunchKernel(const void *, dim3, dim3, void **, size_t, void *);
int hipMalloc(void **, size_t);
int hipHostMalloc(void **, size_t, unsigned);
int hipMemcpyAsync(void *, const void *, size_t, int, void *);
int hipModuleLoadData(void **, const void *);
int hipModuleUnload(void *);
int hipModuleGetFunction(void **, void *, const char *);
int hipModuleLaunchKernel(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
void **__hipRegisterFatBinary(const void *);
void __hipRegisterFunction(void **, const void *, char *, const char *, unsigned, void *, void *, void *, void *, int *);
}

namespace {

[[noreturn]] void die(const char *what, long code) {
    std::fprintf(stderr, "host: %s: %ld\n", what, code);
    std::_Exit(9);
}

void check(const char *what, int code) {
    if (code != 0) die(what, code);
}

// As the compiler does for a __global__ function, before main.
char stub;
const struct { uint32_t magic, version; const void *binary, *unused; } fat_binary = {0x48495046, 1, nullptr, nullptr};
struct Registered {
    Registered() {
        static char name[] = "_Z9host_kernPfi";
        void **modules = __hipRegisterFatBinary(&fat_binary);
        __hipRegisterFunction(modules, &stub, name, name, ~0u, nullptr, nullptr, nullptr, nullptr, nullptr);
    }
} registered;

session_start_fn session_start;
session_stop_fn session_stop;
export_fn export_session;
status_string_fn status_string;

// The tool is loaded by the SDK at the first HIP call.
void find_tool() {
    check("hipSetDevice", hipSetDevice(0));
    const char *path = std::getenv("ROCP_TOOL_LIBRARIES");
    void *tool = path ? dlopen(path, RTLD_NOLOAD | RTLD_LAZY) : nullptr;
    if (!tool) die("the tool library is not loaded", 0);
    session_start = reinterpret_cast<session_start_fn>(dlsym(tool, "strandline_session_start"));
    session_stop = reinterpret_cast<session_stop_fn>(dlsym(tool, "strandline_session_stop"));
    export_session = reinterpret_cast<export_fn>(dlsym(tool, "strandline_export"));
    status_string = reinterpret_cast<status_string_fn>(dlsym(tool, "strandline_status_string"));
    if (!session_start || !session_stop || !export_session || !status_string) die("the tool lacks functions", 0);
}

struct Worker {
    void *stream = nullptr, *device = nullptr, *host = nullptr;
    Worker() {
        check("hipStreamCreateWithFlags", hipStreamCreateWithFlags(&stream, 1));
        check("hipMalloc", hipMalloc(&device, 4096));
        check("hipHostMalloc", hipHostMalloc(&host, 4096, 0));
    }
    void burst(int kernels) {
        for (int i = 0; i < kernels; i++)
            check("hipLaunchKernel", hipLaunchKernel(&stub, {4, 1, 1}, {64, 1, 1}, nullptr, 0, stream));
        check("hipMemcpyAsync", hipMemcpyAsync(device, host, 4096, 1, stream));
    }
};

std::atomic<bool> stopping{false};
std::atomic<uint64_t> launched{0};

// Bursts with rests between them, in which the SDK's queues run dry: its finalization waits for that.
void launch_for_ever() {
    Worker worker;
    while (!stopping.load()) {
        worker.burst(16);
        launched += 16;
        usleep(3000);
    }
}

std::string folder;

void export_to(uint64_t session, const char *extension, int number) {
    std::string path = folder + "/export" + std::to_string(number) + extension;
    check("strandline_export", export_session(session, path.c_str()));
    if (unlink(path.c_str()) != 0) die("the export is not there", number);
}

int cycles(long count) {
    find_tool();
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; i++) threads.emplace_back(launch_for_ever);
    Worker worker;
    uint64_t late = 0, missing = 0, issued = 0, incomplete = 0;
    for (long cycle = 0; cycle < count; cycle++) {
        uint64_t session = 0;
        check("strandline_session_start", session_start(&session));
        worker.burst(4);
        stop_result result;
        std::memset(&result, 0, sizeof result);
        result.size = sizeof result;
        // Half of the stops do not wait: the records of those sessions come late.
        check("strandline_session_stop", session_stop(session, cycle % 2 ? 2000000000ull : 0, &result));
        if (result.session != session) die("a result of another session", static_cast<long>(result.session));
        if (result.recorded + result.retired_without_record + result.missing != result.issued) die("the books do not balance", cycle);
        if (cycle % 2 && result.missing) die("missing although the stop waited", cycle);
        issued += result.issued, missing += result.missing, late += result.late, incomplete += result.verdict == 1;
        const char *extensions[] = {".slt", ".json", ".pftrace"};
        if (cycle % 64 == 0) export_to(session, extensions[cycle / 64 % 3], static_cast<int>(cycle));
    }
    stopping = true;
    for (auto &thread : threads) thread.join();
    std::printf("{\"cycles\":%ld,\"launched\":%lu,\"issued\":%lu,\"missing\":%lu,\"incomplete\":%lu}\n", count,
                static_cast<unsigned long>(launched.load()), static_cast<unsigned long>(issued),
                static_cast<unsigned long>(missing), static_cast<unsigned long>(incomplete));
    return 0;
}

uint64_t open_session_number;

// Runs before the SDK's own exit handler, with work under way.
void stop_at_exit() {
    stop_result result;
    std::memset(&result, 0, sizeof result);
    result.size = sizeof result;
    int status = session_stop(open_session_number, 200000000, &result);
    if (status != 0) die("stop in an exit handler", status);
    export_to(open_session_number, ".json", 1);
}

// Registered before the SDK came: runs after it has finalized.
void late_handler() {
    if (!session_stop) return;
    uint64_t session = 0;
    stop_result result;
    std::memset(&result, 0, sizeof result);
    result.size = sizeof result;
    // Statuses, not crashes: the process is finalizing.
    if (session_start(&session) == 0) die("a session was opened after finalization", 0);
    if (session_stop(1, 1000000000, &result) == 0 && result.session != 1) die("a wrong result", 0);
    std::string path = folder + "/after.json";
    export_session(0, path.c_str());
    void *stream = nullptr;
    hipLaunchKernel(&stub, {1, 1, 1}, {64, 1, 1}, nullptr, 0, stream);
}

// Works in a static destructor, as GPU libraries do.
struct Destroyed {
    void *stream = nullptr;
    bool armed = false;
    ~Destroyed() {
        if (armed) hipLaunchKernel(&stub, {1, 1, 1}, {64, 1, 1}, nullptr, 0, stream);
    }
} destroyed;

int exit_with(const std::string &how) {
    std::atexit(late_handler);
    find_tool();
    check("strandline_session_start", session_start(&open_session_number));
    destroyed.armed = true;
    if (how != "destroy") std::thread(launch_for_ever).detach();
    // A call that is still running at exit.
    std::thread([] {
        Worker worker;
        for (;;) {
            worker.burst(4);
            hipStreamSynchronize(worker.stream);
            usleep(2000);
        }
    }).detach();
    Worker worker;
    worker.burst(64);
    usleep(2000);
    if (how == "handler") std::atexit(stop_at_exit);
    if (how == "stop" || how == "export") {
        stop_result result;
        std::memset(&result, 0, sizeof result);
        result.size = sizeof result;
        check("strandline_session_stop", session_stop(open_session_number, how == "stop" ? 0 : 1000000000, &result));
        if (how == "export") export_to(open_session_number, ".pftrace", 2);
    }
    if (how == "waiting") {
        // Another thread waits for records that come only later.
        std::thread([] {
            stop_result result;
            result.size = sizeof result;
            session_stop(open_session_number, 30000000000ull, &result);
        }).detach();
        usleep(500);
    }
    worker.burst(64);
    std::exit(0);
}

// The kernels' symbols are gone, and their addresses used again, before their records come.
int unload() {
    find_tool();
    uint64_t session = 0;
    check("strandline_session_start", session_start(&session));
    Worker worker;
    const char *images[] = {"ROCSIM\n_Z7alpha_1Pfi\n_Z7alpha_2Pfi\n", "ROCSIM\n_Z6beta_1Pfi\n_Z6beta_2Pfi\n",
                            "ROCSIM\n_Z7gamma_1Pfi\n_Z7gamma_2Pfi\n"};
    const char *names[][2] = {{"_Z7alpha_1Pfi", "_Z7alpha_2Pfi"}, {"_Z6beta_1Pfi", "_Z6beta_2Pfi"}, {"_Z7gamma_1Pfi", "_Z7gamma_2Pfi"}};
    for (int round = 0; round < 10; round++)
        for (int which = 0; which < 3; which++) {
            // The image's memory is the caller's, and is overwritten as soon as it is loaded.
            std::vector<char> image(images[which], images[which] + std::strlen(images[which]) + 1);
            void *module = nullptr;
            check("hipModuleLoadData", hipModuleLoadData(&module, image.data()));
            std::fill(image.begin(), image.end(), '\xdd');
            for (const char *name : names[which]) {
                void *function = nullptr;
                check("hipModuleGetFunction", hipModuleGetFunction(&function, module, name));
                check("hipModuleLaunchKernel", hipModuleLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, worker.stream, nullptr, nullptr));
            }
            check("hipModuleUnload", hipModuleUnload(module));
        }
    stop_result result;
    result.size = sizeof result;
    check("strandline_session_stop", session_stop(session, 5000000000ull, &result));
    return result.verdict == 0 ? 0 : 4;
}

}  // namespace

int main(int argc, char **argv) {
    std::string what = argc > 1 ? argv[1] : "";
    if (argc > 3) folder = argv[3];
    if (what == "cycles" && argc > 3) return cycles(std::atol(argv[2]));
    if (what == "exit" && argc > 3) return exit_with(argv[2]);
    if (what == "unload") return unload();
    if (what == "return" && argc > 2) {
        Worker worker;
        worker.burst(32);
        return std::atoi(argv[2]);
    }
    if (what == "abort") {
        Worker worker;
        worker.burst(32);
        std::abort();
    }
    if (what == "overflow") {
        auto *block = static_cast<volatile char *>(std::malloc(24));
        for (int i = 0; i < 32; i++) block[i] = 'A';
        std::free(const_cast<char *>(block));
        return 0;
    }
    std::fprintf(stderr, "host: unknown arguments\n");
    return 2;
}
