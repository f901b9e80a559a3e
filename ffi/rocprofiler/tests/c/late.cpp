// A HIP program that was not started with the tool: opens a session by itself, before or after its first HIP call.
//
//   late TOOL [late]     prints the statuses of start, stop and export, and the stop's verdict
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>

extern "C" int hipMalloc(void **, std::size_t);

int main(int count, char **words) {
    void *memory = nullptr;
    if (count > 3) {
        hipMalloc(&memory, 4096);
    }
    void *tool = dlopen(words[1], RTLD_NOW);
    if (!tool) {
        return 1;
    }
    auto start = reinterpret_cast<int32_t (*)(uint64_t *)>(dlsym(tool, "strandline_session_start"));
    auto stop = reinterpret_cast<int32_t (*)(uint64_t, uint64_t, void *)>(dlsym(tool, "strandline_session_stop"));
    auto save = reinterpret_cast<int32_t (*)(uint64_t, const char *)>(dlsym(tool, "strandline_export"));
    uint64_t session = 0;
    int started = start(&session);
    for (int at = 0; at < 5; ++at) {
        hipMalloc(&memory, 4096);
    }
    uint64_t result[12] = {sizeof result};
    int stopped = stop(session, 1000000000, result);
    std::printf("%d %d %d\n", started, stopped, save(0, words[2]));
    return 0;
}
