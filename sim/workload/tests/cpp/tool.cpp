// A tool that checks the rules of the SDK from the inside and prints one line of JSON when it is
// finalized, to the file that TOOL_OUT names (TOOL_OUT2 for a second copy of the tool).
//
//   TOOL_STOP=1      stop the data context at the EXIT of hipDeviceSynchronize
//   TOOL_RETIRE=0    stop the retirement context there too
//   TOOL_POLICY=1|2  dispatch records also into a 4 KiB DISCARD or LOSSLESS buffer
//   TOOL_WATERMARK=N its watermark in bytes
//   TOOL_FLUSH=0     no flush of any buffer in finalize
//   TOOL_HANG=1      flush a buffer inside its callback
//   TOOL_TID=1       push external ids
//   TOOL_DUMP=FILE   also write what came: `A thread name`, `D id start end agent queue thread stream
//                    ancestor kernel`, `C direction start end bytes`
//   TOOL_REPLAY=1    thread ids and streams are a recording's: do not check them
#include "sdk.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <unistd.h>
#include <vector>

namespace {
#ifndef TOOL_NAME
#define TOOL_NAME "tool"
#define TOOL_ENV "TOOL_OUT"
#endif

int env(const char* name, int fallback) {
    const char* text = getenv(name);
    return text ? atoi(text) : fallback;
}

struct State {
    std::mutex lock;
    std::map<std::string, long> counts;      // what happened how often
    std::set<std::string> violations;        // rules that were broken
    std::map<uint64_t, int> dispatches;      // dispatch id -> 1 enter, 2 exit, 3 complete
    std::map<uint64_t, uint64_t> enter_data; // dispatch id -> user data given at ENQUEUE ENTER
    std::map<uint64_t, std::string> kernels; // kernel id -> name
    std::map<std::string, long> nodes;       // kernel name -> completions
    std::set<uint64_t> api_ids, open_ids, retired;
    std::map<uint64_t, uint64_t> dispatch_corr; // dispatch id -> correlation
    std::vector<const char*> kept;           // name pointers kept against the rules
    std::set<uint64_t> handler_threads;
    std::vector<uint64_t> completion_order;
    std::set<uint64_t> launched_with_api;
    uint64_t last_discarded = 0, buffered = 0;
    unsigned priority = 99;
    bool stopped = false, finalized = false;
    FILE* dump = nullptr;
    std::map<uint64_t, uint64_t> streams;    // correlation -> stream, with TOOL_DUMP
    context_id code{}, data{}, retire{};
    buffer_id retire_buffer{}, dispatch_buffer{};
};
State& s = *new State;

void check(bool ok, const char* rule) {
    if (!ok) s.violations.insert(rule);
}

const char* op_name(uint32_t kind, int32_t op) {
    const char* name = nullptr;
    uint64_t len = 0;
    rocprofiler_query_callback_tracing_kind_operation_name(kind, op, &name, &len);
    if (name) check(strlen(name) == len, "name length");
    return name ? name : "?";
}

struct Args { std::string names; std::string stream; const void* stream_at = nullptr; };
int on_arg(uint32_t, int32_t, uint32_t, const void* value, int32_t, const char*, const char* name, const char* text, int32_t, void* user) {
    auto* a = static_cast<Args*>(user);
    a->names += name;
    a->names += ',';
    if (!strcmp(name, "stream") || !strcmp(name, "hStream")) { a->stream = text; a->stream_at = value; }
    return 0;
}

void on_code(record_t r, user_data_t* user, void*) {
    std::lock_guard<std::mutex> g(s.lock);
    const char* what = r.operation == 1 ? "object" : r.operation == 2 ? "symbol" : "host";
    s.counts[std::string(what) + (r.phase == 1 ? "_load" : "_unload")]++;
    check(r.correlation.internal == 0, "code objects have no correlation id");
    if (r.operation == 1) check(static_cast<code_object_t*>(r.payload)->size == 88, "code object size");
    if (r.operation == 2) {
        auto* k = static_cast<kernel_symbol_t*>(r.payload);
        check(k->size == 88, "symbol size");
        if (r.phase == 1) {
            check(!s.kernels.count(k->kernel_id), "kernel announced once");
            s.kernels[k->kernel_id] = k->name;
            s.kept.push_back(k->name);
            user->value = k->kernel_id + 1000;
        } else {
            check(user->value == k->kernel_id + 1000, "symbol user data from load to unload");
        }
    }
    if (r.operation == 3) {
        auto* h = static_cast<host_symbol_t*>(r.payload);
        check(h->host_function != 0 && s.kernels.count(h->kernel_id), "host symbol after device symbol");
    }
}

void on_api(record_t r, user_data_t* user, void*) {
    std::string name = op_name(r.kind, r.operation);
    bool stop = false;
    {
        std::lock_guard<std::mutex> g(s.lock);
        bool replay = env("TOOL_REPLAY", 0);
        if (!replay) check(r.thread_id == (uint64_t) gettid(), "API thread id");
        check(r.correlation.internal != 0, "API correlation id");
        if (r.phase == ENTER) {
            s.counts["enter_" + name]++;
            check(user->value == 0, "API user data zeroed");
            user->value = r.correlation.internal * 7;
            s.api_ids.insert(r.correlation.internal);
            s.open_ids.insert(r.correlation.internal);
            if (r.correlation.ancestor) {
                s.counts["nested"]++;
                check(s.open_ids.count(r.correlation.ancestor), "ancestor is open");
            }
            if (s.finalized) s.counts["after_finalize"]++;
            if (s.dump) {
                fprintf(s.dump, "A %lu %s\n", r.thread_id, name.c_str());
                Args a;
                rocprofiler_iterate_callback_tracing_kind_operation_args(r, on_arg, 0, &a);
                if (a.stream_at) s.streams[r.correlation.internal] = *static_cast<const uint64_t*>(a.stream_at);
            }
        } else {
            s.counts["exit_" + name]++;
            check(user->value == r.correlation.internal * 7, "API user data kept");
            s.open_ids.erase(r.correlation.internal);
            check(!s.retired.count(r.correlation.internal), "API id retired before EXIT");
        }
        if (r.kind == HIP_API) {
            auto* p = static_cast<hip_data_t*>(r.payload);
            check(p->size == 120, "HIP payload size");
            if (!replay && (name == "hipLaunchKernel" || name == "hipGraphLaunch")) {
                Args a;
                rocprofiler_iterate_callback_tracing_kind_operation_args(r, on_arg, 1, &a);
                uint64_t at = name == "hipLaunchKernel" ? 6 : 1;
                check(a.stream_at == &p->args[at], "argument address is live");
                check(name != "hipLaunchKernel" || a.names == "function_address,numBlocks,dimBlocks,args,sharedMemBytes,stream,", "argument names");
                check(p->args[at] > 2, "stream handle");
            }
        }
        if (r.phase == EXIT && name == "hipDeviceSynchronize" && env("TOOL_STOP", 0)) stop = true;
    }
    if (stop) {
        check(rocprofiler_stop_context(s.data) == SUCCESS, "stop");
        check(rocprofiler_stop_context(s.data) == CONTEXT_NOT_FOUND, "second stop says not found");
        if (!env("TOOL_RETIRE", 1)) rocprofiler_stop_context(s.retire);
        std::lock_guard<std::mutex> g(s.lock);
        s.stopped = true;
    }
}

void on_dispatch(record_t r, user_data_t* user, void*) {
    auto* p = static_cast<dispatch_data_t*>(r.payload);
    std::lock_guard<std::mutex> g(s.lock);
    uint64_t id = p->info.dispatch_id;
    check(p->size == 152 && p->info.size == 72, "dispatch sizes");
    if (r.operation == 1 && r.phase == ENTER) {
        s.counts["enqueue"]++;
        if (s.stopped) s.counts["enqueue_after_stop"]++;
        check(p->start == 0 && p->end == 0, "no times at enqueue");
        check(s.dispatches[id]++ == 0, "ENQUEUE ENTER first");
        check(user->value == 0, "dispatch user data zeroed");
        user->value = s.enter_data[id] = id * 3 + 1;
        s.dispatch_corr[id] = r.correlation.internal;
        if (s.open_ids.count(r.correlation.internal)) {
            if (r.thread_id == (uint64_t) gettid()) s.launched_with_api.insert(r.correlation.internal);
        } else {
            s.counts["no_launch"]++;
        }
    } else if (r.operation == 1) {
        check(s.dispatches[id]++ == 1, "ENQUEUE EXIT after ENTER");
        check(user->value == s.enter_data[id], "user data at ENQUEUE EXIT");
        user->value = 666;
    } else {
        s.counts["complete"]++;
        if (s.stopped) s.counts["complete_after_stop"]++;
        if (s.finalized) s.counts["after_finalize"]++;
        check(r.phase == NONE, "COMPLETE has no phase");
        check(s.dispatches[id]++ == 2, "COMPLETE after ENQUEUE EXIT");
        check(user->value == s.enter_data[id], "COMPLETE sees ENTER's user data");
        check(p->start > 0 && p->start < p->end, "times");
        check(r.correlation.internal == s.dispatch_corr[id], "same id");
        check(!s.retired.count(r.correlation.internal), "COMPLETE before retirement");
        s.handler_threads.insert(gettid());
        s.completion_order.push_back(id);
        uint64_t now;
        rocprofiler_get_timestamp(&now);
        check(p->end <= now, "end is past");
        auto k = s.kernels.find(p->info.kernel_id);
        check(k != s.kernels.end(), "kernel has a name");
        if (k != s.kernels.end()) s.nodes[k->second]++;
        if (s.dump) {
            auto st = s.streams.find(r.correlation.internal);
            fprintf(s.dump, "D %lu %lu %lu %lu %lu %lu %ld %lu %u,%u,%u %u,%u,%u %s\n", id, p->start, p->end, p->info.agent, p->info.queue, r.thread_id,
                    st == s.streams.end() ? -1L : (long) st->second, r.correlation.ancestor, p->info.grid.x, p->info.grid.y, p->info.grid.z, p->info.workgroup.x, p->info.workgroup.y, p->info.workgroup.z,
                    k != s.kernels.end() ? k->second.c_str() : "?");
        }
    }
}

void on_copy(record_t r, user_data_t* user, void*) {
    auto* p = static_cast<copy_data_t*>(r.payload);
    std::lock_guard<std::mutex> g(s.lock);
    if (r.phase == ENTER) {
        s.counts["copy_enter"]++;
        check(p->start == 0, "no times at copy enter");
        user->value = r.correlation.internal + 5;
    } else {
        s.counts["copy_exit"]++;
        check(user->value == r.correlation.internal + 5, "copy user data across threads");
        check(p->size == 64 && p->start < p->end, "copy payload");
        if (!env("TOOL_REPLAY", 0)) check(p->bytes == 4096 && p->dst_agent != p->src_agent, "copy agents and bytes");
        if (s.dump) fprintf(s.dump, "C %d %lu %lu %lu\n", r.operation, p->start, p->end, p->bytes);
    }
}

void on_allocation(record_t r, user_data_t*, void*) {
    auto* p = static_cast<allocation_data_t*>(r.payload);
    std::lock_guard<std::mutex> g(s.lock);
    s.counts[r.phase == ENTER ? "allocation_enter" : "allocation_exit"]++;
    if (r.phase == EXIT && r.operation == 1) check(p->address != 0 && p->bytes > 0, "allocation payload");
}

void on_scratch(record_t r, user_data_t*, void*) {
    auto* p = static_cast<scratch_data_t*>(r.payload);
    std::lock_guard<std::mutex> g(s.lock);
    s.counts[r.phase == ENTER ? "scratch_enter" : "scratch_exit"]++;
    check(p->size == 56 && p->args_kind == (r.phase == ENTER ? 1u : 2u), "scratch payload");
}

void on_marker(record_t r, user_data_t*, void*) {
    std::lock_guard<std::mutex> g(s.lock);
    s.counts[std::string(r.phase == ENTER ? "enter_" : "exit_") + op_name(r.kind, r.operation)]++;
    check(static_cast<marker_data_t*>(r.payload)->size == 32, "marker size");
}

void on_buffer(context_id, buffer_id buffer, header_t** headers, size_t n, void* which, uint64_t dropped) {
    if (env("TOOL_HANG", 0)) rocprofiler_flush_buffer(buffer);
    std::lock_guard<std::mutex> g(s.lock);
    s.counts["buffer_callbacks"]++;
    for (size_t i = 0; i < n; i++) {
        check(headers[i]->category == 1, "category");
        if (headers[i]->kind == BUFFER_RETIREMENT) {
            auto* p = static_cast<retirement_t*>(headers[i]->payload);
            check(p->size == 32 && p->kind == 13, "retirement size");
            check(s.retired.insert(p->internal).second, "retired once");
            s.counts["retired"]++;
        } else {
            auto* p = static_cast<dispatch_record_t*>(headers[i]->payload);
            check(p->size == 184 && p->kind == 11 && p->operation == 2, "dispatch record");
            s.buffered++;
            s.last_discarded = dropped;
        }
    }
    (void) which;
}

int on_kind(uint32_t kind, void* last) {
    auto* l = static_cast<int*>(last);
    check(static_cast<int>(kind) == *l + 1, "kinds ascend");
    *l = kind;
    return 0;
}

status_t on_agents(uint32_t, const void** agents, size_t n, void* user) {
    for (size_t i = 0; i < n; i++) {
        auto* a = static_cast<const char*>(agents[i]);
        check(*reinterpret_cast<const uint64_t*>(a) == 312, "agent size");
        check(strlen(*reinterpret_cast<char* const*>(a + 264)) > 0, "agent name");
    }
    *static_cast<size_t*>(user) = n;
    return 0;
}

int initialize(client_finalize_t, void*) {
    if (const char* path = getenv("TOOL_DUMP")) s.dump = fopen(path, "w");
    int status = 0;
    rocprofiler_is_initialized(&status);
    check(status == -1, "initializing is -1");
    int last = -1;
    rocprofiler_iterate_callback_tracing_kinds(on_kind, &last);
    check(last == 21, "22 kinds");
    size_t agents = 0;
    check(rocprofiler_query_available_agents(1, on_agents, 312, &agents) == SUCCESS, "agents");
    s.counts["agents"] = agents;
    check(rocprofiler_create_context(&s.code) == SUCCESS, "context");
    check(rocprofiler_create_context(&s.code) == CONTEXT_ID_NOT_ZERO, "handle must be zero");
    check(rocprofiler_create_context(&s.data) == SUCCESS, "context");
    check(rocprofiler_create_context(&s.retire) == SUCCESS, "context");
    auto service = [](context_id c, uint32_t kind, callback_t cb) {
        check(rocprofiler_configure_callback_tracing_service(c, kind, nullptr, 0, cb, nullptr) == SUCCESS, "configure");
    };
    service(s.code, CODE_OBJECT, on_code);
    check(rocprofiler_configure_callback_tracing_service(s.code, CODE_OBJECT, nullptr, 0, on_code, nullptr) == ALREADY_CONFIGURED, "configured once");
    service(s.data, HIP_API, on_api);
    service(s.data, DISPATCH, on_dispatch);
    service(s.data, COPY, on_copy);
    service(s.data, ALLOCATION, on_allocation);
    service(s.data, SCRATCH, on_scratch);
    service(s.data, MARKER_CORE, on_marker);
    service(s.data, MARKER_CONTROL, on_marker);
    check(rocprofiler_create_buffer(s.retire, 1 << 16, 1 << 15, 2, on_buffer, nullptr, &s.retire_buffer) == SUCCESS, "buffer");
    check(rocprofiler_configure_buffer_tracing_service(s.retire, BUFFER_RETIREMENT, nullptr, 0, s.retire_buffer) == SUCCESS, "retirement");
    if (int policy = env("TOOL_POLICY", 0)) {
        check(rocprofiler_create_buffer(s.data, 4096, env("TOOL_WATERMARK", 2048), policy, on_buffer, &s, &s.dispatch_buffer) == SUCCESS, "buffer");
        check(rocprofiler_configure_buffer_tracing_service(s.data, BUFFER_DISPATCH, nullptr, 0, s.dispatch_buffer) == SUCCESS, "dispatch buffer");
    }
    for (auto c : {s.code, s.data, s.retire}) {
        if (c.handle == s.data.handle && env("TOOL_IDLE", 0)) continue;
        check(rocprofiler_start_context(c) == SUCCESS, "start");
    }
    if (env("TOOL_TID", 0)) {
        uint64_t tid;
        rocprofiler_get_thread_id(&tid);
        user_data_t value;
        value.value = 4242;
        check(rocprofiler_push_external_correlation_id(s.data, tid, value) == SUCCESS, "push");
    }
    return 0;
}

void finalize(void*) {
    int fini = 0;
    rocprofiler_is_finalized(&fini);
    check(fini == -1, "finalizing is -1");
    int active = 1;
    rocprofiler_context_is_active(s.data, &active);
    check(active == 0, "contexts are stopped before finalize");
    check(rocprofiler_start_context(s.data) == LOCKED, "start is locked in finalize");
    if (env("TOOL_FLUSH", 1)) {
        check(rocprofiler_flush_buffer(s.retire_buffer) == SUCCESS, "flush in finalize");
        if (s.dispatch_buffer.handle) rocprofiler_flush_buffer(s.dispatch_buffer);
    }
    context_id late{};
    check(rocprofiler_create_context(&late) == LOCKED, "create is locked");
    check(rocprofiler_flush_buffer(buffer_id{1}) == BUFFER_NOT_FOUND, "unknown buffer");
    std::lock_guard<std::mutex> g(s.lock);
    s.finalized = true;
    if (s.dump) fclose(s.dump);
    s.dump = nullptr;
    long poisoned = 0;
    for (auto* name : s.kept) poisoned += static_cast<unsigned char>(name[0]) == 0xdd;
    long unretired = 0;
    for (auto id : s.api_ids) unretired += !s.retired.count(id);
    long inversions = 0;
    for (size_t i = 1; i < s.completion_order.size(); i++) inversions += s.completion_order[i] < s.completion_order[i - 1];
    long lo = -1, hi = -1;
    for (auto& n : s.nodes) {
        if (lo < 0 || n.second < lo) lo = n.second;
        if (n.second > hi) hi = n.second;
    }
    const char* path = getenv(TOOL_ENV);
    FILE* f = path ? fopen(path, "w") : nullptr;
    if (!f) return;
    fprintf(f, "{\"name\":\"%s\",\"priority\":%u,\"kernels\":%zu,\"poisoned\":%ld,\"unretired\":%ld,\"inversions\":%ld,\"handler_threads\":%zu,\"nodes\":%zu,\"node_min\":%ld,\"node_max\":%ld,\"buffered\":%lu,\"discarded\":%lu,\"launches_with_dispatch\":%zu",
            TOOL_NAME, s.priority, s.kernels.size(), poisoned, unretired, inversions, s.handler_threads.size(), s.nodes.size(), lo, hi, s.buffered, s.last_discarded, s.launched_with_api.size());
    for (auto& c : s.counts) fprintf(f, ",\"%s\":%ld", c.first.c_str(), c.second);
    fprintf(f, ",\"violations\":[");
    const char* sep = "";
    for (auto& v : s.violations) { fprintf(f, "%s\"%s\"", sep, v.c_str()); sep = ","; }
    fprintf(f, "]}\n");
    fclose(f);
}
}  // namespace

// Session functions for `--window api`: they start and stop the data context (TOOL_IDLE=1: it is not
// started at load), and report what came between.
extern "C" int32_t tool_start(uint64_t* session) {
    static std::atomic<uint64_t> next{1};
    *session = next++;
    return rocprofiler_start_context(s.data);
}
extern "C" int32_t tool_stop(uint64_t session, uint64_t timeout_ns, uint64_t* result) {
    static long before = 0;
    int32_t status = rocprofiler_stop_context(s.data);
    std::lock_guard<std::mutex> g(s.lock);
    if (result[0] != 96) return -1;
    result[2] = session;
    result[3] = s.counts["enqueue"] - before;
    result[11] = timeout_ns;
    before = s.counts["enqueue"];
    return status;
}
extern "C" int32_t tool_save(uint64_t session, const char* path) {
    FILE* f = fopen(path, "w");
    if (!f) return 1;
    fprintf(f, "%lu", session);
    return fclose(f);
}

extern "C" __attribute__((visibility("default"))) configure_result_t*
rocprofiler_configure(uint32_t version, const char* text, uint32_t priority, client_id_t* id) {
    check(version == 10000 && !strcmp(text, "1.0.0") && id->size == 24, "configure arguments");
    id->name = TOOL_NAME;
    s.priority = priority;
    context_id early{};
    (void) early;
    static configure_result_t result{sizeof(configure_result_t), initialize, finalize, nullptr};
    return &result;
}
