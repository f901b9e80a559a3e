/* Drives the tool library through the test double of the SDK: `driver SCENARIO [NUMBER]`. The tool is named by
 * STRANDLINE_TEST_TOOL. Ends with 0 when all went as it should; otherwise says what did not and ends with 1. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "sdk_double.h"
#include "strandline_api.h"

#define FAIL(...) (fprintf(stderr, "driver: " __VA_ARGS__), fputc('\n', stderr), _exit(1))
#define CHECK(what) do { if (!(what)) FAIL("line %d: not so: %s", __LINE__, #what); } while (0)

static session_start_fn session_start;
static session_stop_fn session_stop;
static export_fn export_session;
static status_string_fn status_string;
static void (*shim_inside)(int);
static const char *tool_path;

static void guard(int inside) {
    if (shim_inside) shim_inside(inside);
}

static void find_functions(void) {
    void *tool = dlopen(tool_path, RTLD_LOCAL | RTLD_LAZY);
    if (!tool) FAIL("%s", dlerror());
    session_start = (session_start_fn)dlsym(tool, "strandline_session_start");
    session_stop = (session_stop_fn)dlsym(tool, "strandline_session_stop");
    export_session = (export_fn)dlsym(tool, "strandline_export");
    status_string = (status_string_fn)dlsym(tool, "strandline_status_string");
    CHECK(session_start && session_stop && export_session && status_string);
    shim_inside = (void (*)(int))dlsym(RTLD_DEFAULT, "shim_inside");
}

static void load(void) {
    if (!double_load(tool_path, 10000, 0)) FAIL("the tool declined");
    find_functions();
}

static uint64_t start(void) {
    uint64_t session = 0;
    int status = session_start(&session);
    if (status) FAIL("start: %d %s", status, status_string(status));
    return session;
}

static stop_result stop_status(uint64_t session, uint64_t timeout_ns, int expected) {
    stop_result result;
    memset(&result, 0, sizeof result);
    result.size = sizeof result;
    int status = session_stop(session, timeout_ns, &result);
    if (status != expected) FAIL("stop: %d %s, expected %d", status, status_string(status), expected);
    return result;
}

static stop_result stop(uint64_t session, uint64_t timeout_ns) { return stop_status(session, timeout_ns, 0); }

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t thread_id(void) { return (uint64_t)syscall(SYS_gettid); }

/* One thing between its first callback and its last. */
typedef struct { uint64_t slots[8], id, correlation, ancestor, thread; hip_data_t hip; } work_t;

static void announce_kernel(uint64_t kernel, const char *name) {
    uint64_t slots[8] = {0};
    char text[256];
    snprintf(text, sizeof text, "%s", name);
    kernel_symbol_t symbol = {.size = sizeof symbol, .kernel_id = kernel, .code_object_id = 1, .name = text};
    double_fire(CODE_OBJECT, 2, 1, thread_id(), 0, 0, &symbol, slots);
    /* The pointer dies with the callback (case B20). */
    memset(text, 0xdd, sizeof text);
}

static void enter(work_t *work, int operation, uint64_t correlation, uint64_t ancestor) {
    memset(work, 0, sizeof *work);
    work->correlation = correlation, work->ancestor = ancestor, work->thread = thread_id();
    work->hip.size = sizeof work->hip;
    if (operation == hipMemcpyAsync) work->hip.args[2] = 64, work->hip.args[4] = 0x7000;
    if (operation == hipLaunchKernel) work->hip.args[6] = 0x7000;
    double_fire(HIP_API, operation, ENTER, work->thread, correlation, ancestor, &work->hip, work->slots);
}

static void leave(work_t *work, int operation) {
    double_fire(HIP_API, operation, EXIT, work->thread, work->correlation, work->ancestor, &work->hip, work->slots);
}

static void enqueue(work_t *work, uint64_t dispatch, uint64_t correlation, uint64_t ancestor) {
    memset(work, 0, sizeof *work);
    work->id = dispatch, work->correlation = correlation, work->ancestor = ancestor, work->thread = thread_id();
    dispatch_data_t data = {.size = sizeof data, .info = {.size = 72, .agent = 2, .queue = 1, .kernel_id = 1, .dispatch_id = dispatch, .workgroup = {64, 1, 1}, .grid = {256, 1, 1}}};
    double_fire(DISPATCH, ENQUEUE, ENTER, work->thread, correlation, ancestor, &data, work->slots);
    double_fire(DISPATCH, ENQUEUE, EXIT, work->thread, correlation, ancestor, &data, work->slots);
}

static void complete(work_t *work) {
    uint64_t now = now_ns();
    dispatch_data_t data = {.size = sizeof data, .start = now - 2000, .end = now - 1000, .info = {.size = 72, .agent = 2, .queue = 1, .kernel_id = 1, .dispatch_id = work->id, .workgroup = {64, 1, 1}, .grid = {256, 1, 1}}};
    double_fire(DISPATCH, COMPLETE, NONE, work->thread, work->correlation, work->ancestor, &data, work->slots);
}

/* A handler thread of the SDK: its own for the whole test. */
static pthread_t handler_thread;
static atomic_uintptr_t handler_job;
static void *handler_run(void *unused) {
    (void)unused;
    for (;;) {
        work_t *job = (work_t *)atomic_load(&handler_job);
        if (job) {
            complete(job);
            atomic_store(&handler_job, 0);
        }
        usleep(50);
    }
    return NULL;
}
static void start_handler(void) {
    if (!handler_thread) pthread_create(&handler_thread, NULL, handler_run, NULL);
}
static void complete_elsewhere(work_t *work) {
    start_handler();
    atomic_store(&handler_job, (uintptr_t)work);
    while (atomic_load(&handler_job)) usleep(50);
}

static int save(uint64_t session, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", getenv("STRANDLINE_TEST_FOLDER"), name);
    return export_session(session, path);
}

/* --- scenarios --- */

static void launch_one(uint64_t id) {
    work_t api, kernel;
    enter(&api, hipLaunchKernel, id, 0);
    enqueue(&kernel, id, id, 0);
    leave(&api, hipLaunchKernel);
    complete_elsewhere(&kernel);
}

static void basic(void) {
    load();
    announce_kernel(1, "_Z3onePfi.kd");
    uint64_t session = start();
    for (uint64_t id = 1; id <= 10; id++) launch_one(id);
    stop_result result = stop(session, 1000000000);
    CHECK(result.verdict == 0 && result.issued == 10 && result.recorded == 10 && result.low_watermark == 10);
    CHECK(save(session, "saved.slt") == 0);
    CHECK(save(session, "saved.slt") == 14);
    CHECK(save(session + 1, "other.slt") == 3);
    double_finalize();
}

/* The SDK takes no tool any more, is too old, or is no SDK at all: statuses, no crash, nothing traced. */
static void refused(int expected) {
    double_load(tool_path, expected == 12 && getenv("DOUBLE_VERSION") ? (uint32_t)atoi(getenv("DOUBLE_VERSION")) : 10000, 0);
    find_functions();
    uint64_t session = 0;
    int status = session_start(&session);
    if (status != expected) FAIL("start: %d %s, expected %d", status, status_string(status), expected);
    CHECK(status_string(status)[0] != 0);
    stop_result result = {.size = sizeof result};
    CHECK(session_stop(1, 1000, &result) == expected);
    CHECK(export_session(0, "/dev/null/x.slt") == expected);
    work_t api;
    enter(&api, hipLaunchKernel, 1, 0);
    leave(&api, hipLaunchKernel);
    CHECK(double_active() == 0);
    double_finalize();
    /* The host's own exit code. */
    exit(7);
}

/* Case B44: another copy of the SDK, or another way to our symbol. */
static void two_copies(void) {
    load();
    void *copy = dlopen(getenv("STRANDLINE_TEST_COPY"), RTLD_LOCAL | RTLD_NOW);
    if (!copy) FAIL("%s", dlerror());
    typedef configure_result_t *(*load_fn)(const char *, uint32_t, uint32_t);
    load_fn other = (load_fn)dlsym(copy, "double_load");
    CHECK(other != double_load);
    CHECK(other(tool_path, 10000, 1) == NULL);
    uint64_t (*others_calls)(void) = (uint64_t (*)(void))dlsym(copy, "double_calls");
    CHECK(others_calls() == 0);
    announce_kernel(1, "_Z3onePfi.kd");
    uint64_t session = start();
    launch_one(1);
    CHECK(stop(session, 1000000000).verdict == 0);
    double_finalize();
}

/* The second copy in the process is the one that calls: its functions are used, not the first one's. */
static void second_copy_calls(void) {
    void *copy = dlopen(getenv("STRANDLINE_TEST_COPY"), RTLD_LOCAL | RTLD_NOW);
    if (!copy) FAIL("%s", dlerror());
    typedef configure_result_t *(*load_fn)(const char *, uint32_t, uint32_t);
    CHECK(((load_fn)dlsym(copy, "double_load"))(tool_path, 10000, 1) != NULL);
    CHECK(double_calls() == 0 && ((uint64_t (*)(void))dlsym(copy, "double_calls"))() > 0);
    find_functions();
    start();
    ((void (*)(void))dlsym(copy, "double_finalize"))();
}

/* Smaller structs are refused by name, null ones ignored; nothing is read beyond them. */
static void small(void) {
    load();
    uint64_t session = start();
    static const struct { uint32_t kind; int operation; size_t size; } kinds[] = {
        {HIP_API, hipLaunchKernel, 112}, {DISPATCH, COMPLETE, 88}, {COPY, 2, 56}, {ALLOCATION, 1, 40}, {SCRATCH, 1, 48}, {CODE_OBJECT, 1, 80}, {CODE_OBJECT, 2, 64}, {MARKER_CORE, 1, 24}, {MARKER_NAME, 0, 24}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        for (uint32_t phase = 0; phase < 3; phase++)
            for (int null = 0; null < 2; null++) {
                uint64_t slots[8] = {0};
                /* At the end of a heap block, so that a checker sees a read beyond. */
                uint64_t *payload = malloc(kinds[i].size);
                memset(payload, 0xff, kinds[i].size);
                payload[0] = kinds[i].size;
                double_fire(kinds[i].kind, kinds[i].operation, phase, thread_id(), 1, 0, null ? NULL : payload, slots);
                free(payload);
            }
    stop_result result = stop(session, 100000000);
    CHECK(result.issued == 0 && result.verdict == 3);
    CHECK(save(session, "saved.slt") == 0);
    double_finalize();
}

/* A newer SDK: structs that have grown, a HIP payload whose result has moved, operations we do not know. */
static void large(void) {
    load();
    uint64_t session = start();
    struct { dispatch_data_t data; uint64_t more[8]; } grown = {.data = {.size = sizeof grown, .start = 0, .info = {.size = 128, .agent = 2, .queue = 1, .kernel_id = 1, .dispatch_id = 5}}};
    uint64_t slots[8] = {0};
    work_t launch;
    enter(&launch, hipLaunchKernel, 5, 0);
    double_fire(DISPATCH, ENQUEUE, ENTER, thread_id(), 5, 0, &grown, slots);
    grown.data.start = 100, grown.data.end = 200;
    double_fire(DISPATCH, COMPLETE, NONE, thread_id(), 5, 0, &grown, slots);
    leave(&launch, hipLaunchKernel);
    /* Size 136: two more words of arguments, so that the result lies at 112. */
    union { hip_data_t hip; uint64_t words[17]; } call;
    memset(&call, 0, sizeof call);
    call.words[0] = sizeof call.words;
    uint64_t api[8] = {0};
    double_fire(HIP_API, hipEventRecord, ENTER, thread_id(), 6, 0, &call, api);
    call.words[14] = 98;
    double_fire(HIP_API, hipEventRecord, EXIT, thread_id(), 6, 0, &call, api);
    CHECK(stop(session, 1000000000).verdict == 0);
    CHECK(save(session, "saved.slt") == 0);
    double_finalize();
}

/* Another tool traces HSA: dispatches and copies carry the id of the HSA call, only `ancestor` leads to ours. */
static void ancestor(void) {
    load();
    announce_kernel(1, "_Z3onePfi.kd");
    uint64_t session = start();
    work_t api, kernel[3];
    enter(&api, hipLaunchKernel, 10, 0);
    enqueue(&kernel[0], 1, 11, 10);
    leave(&api, hipLaunchKernel);
    enter(&api, hipLaunchKernel, 20, 0);
    enqueue(&kernel[1], 2, 20, 0);
    leave(&api, hipLaunchKernel);
    /* The event thread's own: no launch at all. */
    enqueue(&kernel[2], 3, 30, 0);
    uint64_t slots[8] = {0};
    enter(&api, hipMemcpyAsync, 40, 0);
    copy_data_t copy = {.size = sizeof copy, .dst_agent = 2, .src_agent = 1, .bytes = 64};
    double_fire(COPY, 2, ENTER, thread_id(), 41, 40, &copy, slots);
    leave(&api, hipMemcpyAsync);
    copy.start = now_ns() - 500, copy.end = copy.start + 100;
    double_fire(COPY, 2, EXIT, thread_id(), 41, 40, &copy, slots);
    for (int i = 0; i < 3; i++) complete_elsewhere(&kernel[i]);
    CHECK(stop(session, 1000000000).verdict == 0);
    CHECK(save(session, "saved.slt") == 0 && save(session, "saved.json") == 0);
    double_finalize();
}

/* Retirement is the proof for what never gets a record; it is asked for only then, and not in callbacks. */
static void retirement(void) {
    load();
    uint64_t session = start();
    for (uint64_t id = 1; id <= 20; id++) launch_one(id);
    uint64_t before = double_flushes();
    CHECK(stop(session, 1000000000).verdict == 0);
    if (double_flushes() != before) FAIL("a stop whose pairs were complete flushed");
    session = start();
    work_t kernel[8], copy_api;
    uint64_t copy_slots[8] = {0};
    copy_data_t copy = {.size = sizeof copy};
    for (uint64_t i = 0; i < 8; i++) enqueue(&kernel[i], 100 + i, 100 + i, 0);
    enter(&copy_api, hipMemcpyAsync, 120, 0);
    double_fire(COPY, 2, ENTER, thread_id(), 120, 0, &copy, copy_slots);
    leave(&copy_api, hipMemcpyAsync);
    for (int i = 0; i < 5; i++) complete_elsewhere(&kernel[i]);
    for (uint64_t i = 0; i < 8; i++) double_retire(100 + i);
    double_retire(120);
    stop_result result = stop(session, 3000000000u);
    CHECK(result.verdict == 0 && result.issued == 9 && result.recorded == 5 && result.retired_without_record == 4);
    CHECK(result.waited_ns < 1000000000);
    /* Not retired: missing, and flushed at growing intervals only. */
    session = start();
    enqueue(&kernel[0], 200, 200, 0);
    before = double_flushes();
    result = stop(session, 400000000);
    CHECK(result.verdict == 1 && result.missing == 1 && result.low_watermark == 199);
    uint64_t flushed = double_flushes() - before;
    if (flushed < 8 || flushed > 20) FAIL("%lu flushes in 400 ms", (unsigned long)flushed);
    /* The retirement context rests when no session needs it. */
    usleep(100000);
    CHECK(double_active() == 1);
    double_finalize();
}

/* A stop inside a callback, or on a thread that delivers records, closes the session and comes back at once. */
static void inside(void) {
    load();
    uint64_t session = start();
    work_t api, kernel;
    enter(&api, hipLaunchKernel, 1, 0);
    enqueue(&kernel, 1, 1, 0);
    uint64_t began = now_ns(), flushes = double_flushes();
    stop_status(session, 5000000000u, 5);
    CHECK(now_ns() - began < 100000000);
    CHECK(save(session, "no.slt") == 5);
    if (double_flushes() != flushes) FAIL("flushed inside a callback");
    leave(&api, hipLaunchKernel);
    complete_elsewhere(&kernel);
    /* It is accounted for elsewhere; a later stop, outside, has the result. */
    usleep(100000);
    stop_result result = stop(session, 1000000000);
    CHECK(result.verdict == 0 && result.issued == 1);
    double_finalize();
}

/* A stop on a thread that delivers completions, and makes no calls of its own, does not wait: it would wait for itself. */
static atomic_int handler_status = -1;
static void *stop_on_handler(void *session) {
    work_t kernel;
    enqueue(&kernel, 2, 2, 0);
    complete(&kernel);
    stop_result result = {.size = sizeof result};
    handler_status = session_stop((uint64_t)(uintptr_t)session, 5000000000u, &result);
    return NULL;
}
static void on_handler(void) {
    load();
    uint64_t session = start();
    work_t api, kernel;
    enqueue(&kernel, 1, 1, 0);
    pthread_t thread;
    pthread_create(&thread, NULL, stop_on_handler, (void *)(uintptr_t)session);
    pthread_join(thread, NULL);
    CHECK(handler_status == 5);
    complete_elsewhere(&kernel);
    CHECK(stop(session, 1000000000).verdict == 0);
    /* An SDK that runs completions inside the application's own calls: that thread may stop sessions all the same. */
    session = start();
    enter(&api, hipLaunchKernel, 10, 0);
    enqueue(&kernel, 10, 10, 0);
    complete(&kernel);
    leave(&api, hipLaunchKernel);
    CHECK(stop(session, 1000000000).verdict == 0);
    double_finalize();
}

/* Case B05: the finalizer calls no SDK function (every one takes the mutex that is held around it), and is quick, also
 * with work outstanding and another thread in a stop. */
static void *stop_long(void *session) {
    stop_result result = {.size = sizeof result};
    session_stop((uint64_t)(uintptr_t)session, 30000000000u, &result);
    return NULL;
}
static void finalize_with_mutex(int waiting) {
    load();
    uint64_t session = start();
    work_t kernel;
    launch_one(1);
    enqueue(&kernel, 2, 2, 0);
    if (waiting) {
        pthread_t thread;
        pthread_create(&thread, NULL, stop_long, (void *)(uintptr_t)session);
        usleep(20000);
    }
    uint64_t began = now_ns();
    double_finalize();
    uint64_t took = now_ns() - began;
    if (took > 1000000000) FAIL("the finalizer took %lu ms", (unsigned long)(took / 1000000));
    /* Retirements that are forced now prove nothing; a record that comes now is late. */
    double_set_finalized(-1);
    double_retire(2);
    complete(&kernel);
    uint64_t other = 0;
    CHECK(session_start(&other) == 18);
    stop_result result = {.size = sizeof result};
    CHECK(session_stop(session, 5000000000u, &result) == 18);
    CHECK(save(0, "after.slt") == 0);
}

/* The SDK retires every id by force before it calls the finalizers, and a full buffer may be flushed then: no proof. */
status_t rocprofiler_flush_buffer(handle_t);
static void forced(void) {
    load();
    start();
    work_t kernel[5];
    for (uint64_t i = 0; i < 5; i++) enqueue(&kernel[i], i + 1, i + 1, 0);
    complete(&kernel[0]);
    double_retire(1);
    double_retire(2);
    rocprofiler_flush_buffer((handle_t){77});
    double_set_finalized(-1);
    for (uint64_t i = 3; i <= 5; i++) double_retire(i);
    rocprofiler_flush_buffer((handle_t){77});
    double_finalize();
}

/* Every record comes, some late; then its id is retired, and delivered at any moment. Nothing may be called retired
 * without a record, and no stop with time left may call anything missing. */
static work_t raced[64];
static atomic_int race_go, race_over;
static void *race_handler(void *unused) {
    (void)unused;
    while (!race_over) {
        if (!race_go) continue;
        for (int i = 0; i < 64; i++) {
            complete(&raced[i]);
            if (i % 8 == 7) double_retire(raced[i].correlation);
        }
        race_go = 0;
    }
    return NULL;
}
static void *race_flusher(void *unused) {
    (void)unused;
    while (!race_over) rocprofiler_flush_buffer((handle_t){77});
    return NULL;
}
static void race(long count) {
    load();
    pthread_t thread[2];
    pthread_create(&thread[0], NULL, race_handler, NULL);
    pthread_create(&thread[1], NULL, race_flusher, NULL);
    uint64_t id = 1, missing = 0, wrong = 0;
    for (long round = 0; round < count; round++) {
        uint64_t session = start();
        for (int i = 0; i < 64; i++) enqueue(&raced[i], id + (uint64_t)i, id + (uint64_t)i / 8 * 8, 0);
        id += 64;
        race_go = 1;
        for (volatile long spin = 0; spin < round * 37 % 3000; spin++) {}
        stop_result result = stop(session, round % 4 == 3 ? 2000000000u : 0);
        while (race_go) {}
        missing += result.missing, wrong += result.retired_without_record;
        if (round % 4 == 3 && result.missing) FAIL("round %ld: %lu missing with time left", round, (unsigned long)result.missing);
    }
    race_over = 1;
    for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
    printf("{\"missing\":%lu,\"retired_without_record\":%lu}\n", (unsigned long)missing, (unsigned long)wrong);
    double_finalize();
    CHECK(wrong == 0);
}

/* Case B06: callbacks and the finalizer come from the loader's fini phase, when main's statics are gone. */
static work_t late_work[2];
static int late_armed;
__attribute__((destructor(101))) static void fini_phase(void) {
    if (!late_armed) return;
    complete(&late_work[0]);
    complete(&late_work[1]);
    double_finalize();
    if (save(0, "after.json") != 0) _exit(1);
}
static void fini(void) {
    load();
    announce_kernel(1, "_Z3onePfi.kd");
    start();
    enqueue(&late_work[0], 1, 1, 0);
    enqueue(&late_work[1], 2, 2, 0);
    late_armed = 1;
}

/* Case B04: records from an exit handler that runs after everything, with other threads still appending. */
static void *append_for_ever(void *unused) {
    (void)unused;
    for (uint64_t id = 1000000;; id++) {
        work_t api, kernel;
        enter(&api, hipLaunchKernel, id, 0);
        enqueue(&kernel, id, id, 0);
        leave(&api, hipLaunchKernel);
        complete(&kernel);
    }
    return NULL;
}
static work_t unfinished;
static void last_handler(void) {
    complete(&unfinished);
    for (uint64_t id = 1; id <= 100; id++) launch_one(id);
}
static void exit_under_load(void) {
    atexit(last_handler);
    load();
    uint64_t session = start();
    enqueue(&unfinished, 999999, 999999, 0);
    pthread_t thread;
    for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, append_for_ever, NULL);
    usleep(3000);
    stop(session, 0);
    start();
    usleep(1000);
    double_finalize();
    usleep(1000);
}

/* Case B09: one thread is in a callback under the loader's lock, the other opens libraries and calls us too. */
static int under_lock(struct dl_phdr_info *info, size_t size, void *id) {
    (void)info, (void)size;
    launch_one((*(uint64_t *)id)++);
    return 0;
}
static void *open_in_a_loop(void *unused) {
    (void)unused;
    for (uint64_t i = 0; i < 300; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        work_t api;
        enter(&api, hipEventRecord, 500000 + i, 0);
        leave(&api, hipEventRecord);
        if (library) dlclose(library);
    }
    return NULL;
}
static void loader(void) {
    load();
    uint64_t session = start(), id = 1;
    /* The threads' first callbacks are under the lock as well. Not the handler thread's start: making a thread takes
       another lock of the loader, which the thread that opens libraries holds while it waits for the first. */
    start_handler();
    pthread_t thread;
    pthread_create(&thread, NULL, open_in_a_loop, NULL);
    for (int i = 0; i < 50; i++) dl_iterate_phdr(under_lock, &id);
    pthread_join(thread, NULL);
    CHECK(stop(session, 1000000000).verdict == 0);
    double_finalize();
}

/* A forked child: nothing is written to the parent's trace, and its finalizer touches nothing. */
static void forked(void) {
    load();
    uint64_t session = start();
    launch_one(1);
    pid_t child = fork();
    if (child == 0) {
        work_t api, kernel;
        for (uint64_t id = 100; id < 200; id++) {
            enter(&api, hipLaunchKernel, id, 0);
            enqueue(&kernel, id, id, 0);
            leave(&api, hipLaunchKernel);
            complete(&kernel);
        }
        uint64_t other = 0;
        if (session_start(&other) == 0) _exit(3);
        stop_result result = {.size = sizeof result};
        if (session_stop(session, 1000, &result) == 0) _exit(4);
        double_finalize();
        exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) FAIL("the child ended with %x", status);
    launch_one(2);
    stop_result result = stop(session, 1000000000);
    CHECK(result.verdict == 0 && result.issued == 2 && result.recorded == 2);
    CHECK(save(session, "saved.slt") == 0);
    double_finalize();
}

/* Callbacks before anything, after everything and with no session: nothing happens. */
static void *many_threads(void *unused) {
    (void)unused;
    work_t api, kernel;
    uint64_t id = thread_id() * 1000;
    enter(&api, hipLaunchKernel, id, 0);
    enqueue(&kernel, id, id, 0);
    leave(&api, hipLaunchKernel);
    complete(&kernel);
    return NULL;
}

/* More threads than lanes (case B36): one after the other no loss, at once counted. */
static void threads(long count) {
    load();
    uint64_t session = start();
    pthread_t thread;
    for (long i = 0; i < count; i++) {
        pthread_create(&thread, NULL, many_threads, NULL);
        pthread_join(thread, NULL);
    }
    stop_result result = stop(session, 1000000000);
    printf("{\"issued\":%lu,\"recorded\":%lu,\"lost\":%lu,\"verdict\":%lu}\n", (unsigned long)result.issued, (unsigned long)result.recorded, (unsigned long)result.lost, (unsigned long)result.verdict);
    CHECK(save(session, "saved.slt") == 0);
    double_finalize();
}

/* --- the hot path --- */

static callback_t api_callback, dispatch_callback;
static int api_context, dispatch_context;

__attribute__((noinline)) static void loop_api(uint64_t count, record_t *record, hip_data_t *data) {
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t slot = 0;
        record->internal = i, record->payload = data, record->phase = ENTER;
        api_callback(*record, &slot, NULL);
        record->phase = EXIT;
        api_callback(*record, &slot, NULL);
    }
}

__attribute__((noinline)) static void loop_dispatch(uint64_t count, record_t *record, dispatch_data_t *data) {
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t slot = 0;
        record->internal = i, record->payload = data, record->operation = ENQUEUE, record->phase = ENTER;
        data->info.dispatch_id = i;
        dispatch_callback(*record, &slot, NULL);
        record->operation = COMPLETE, record->phase = NONE;
        dispatch_callback(*record, &slot, NULL);
    }
}

__attribute__((noinline)) static void loop_enqueue(uint64_t count, record_t *record, dispatch_data_t *data) {
    for (uint64_t i = 1; i <= count; i++) {
        uint64_t slot = 0;
        record->internal = i, record->payload = data, record->operation = ENQUEUE, record->phase = ENTER;
        data->info.dispatch_id = i;
        dispatch_callback(*record, &slot, NULL);
    }
}

static void nothing(record_t record, uint64_t *slot, void *data) {
    (void)data;
    *slot = record.internal;
}

/* `what`: api, api-args, dispatch, enqueue, disabled, empty. The number of callbacks is twice the count (enqueue: once). */
static void hot(const char *what, uint64_t count) {
    load();
    uint64_t session = 0;
    if (strcmp(what, "disabled") != 0) session = start();
    static hip_data_t call = {.size = sizeof call};
    static dispatch_data_t dispatch = {.size = sizeof dispatch, .start = 1000, .end = 2000, .info = {.size = 72, .agent = 2, .queue = 1, .kernel_id = 1}};
    record_t record = {.context = 1000, .thread_id = thread_id(), .kind = HIP_API, .operation = strcmp(what, "api-args") == 0 ? hipMemcpyAsync : hipEventRecord};
    if (strcmp(what, "disabled") == 0) {
        /* The contexts are stopped then, but a call that was captured before still comes. */
        uint64_t other = start();
        api_callback = double_callback(HIP_API, &api_context);
        stop(other, 1000);
    } else {
        api_callback = double_callback(HIP_API, &api_context);
        dispatch_callback = double_callback(DISPATCH, &dispatch_context);
    }
    if (strcmp(what, "empty") == 0) api_callback = nothing;
    record.context = 1000 + (uint64_t)api_context;
    record_t other = {.thread_id = record.thread_id, .kind = DISPATCH};
    int dispatching = strcmp(what, "dispatch") == 0, enqueuing = strcmp(what, "enqueue") == 0;
    /* So that the main thread counts as one that makes calls. */
    work_t first;
    enter(&first, hipEventRecord, 1, 0);
    leave(&first, hipEventRecord);
    guard(1);
    if (dispatching) loop_dispatch(count, &other, &dispatch);
    else if (enqueuing) loop_enqueue(count, &other, &dispatch);
    else loop_api(count, &record, &call);
    guard(0);
    if (session) {
        stop_result result = stop(session, 1000000);
        printf("{\"issued\":%lu,\"recorded\":%lu,\"lost\":%lu}\n", (unsigned long)result.issued, (unsigned long)result.recorded, (unsigned long)result.lost);
    }
    double_finalize();
}

/* All kinds of callbacks with the guard set, also the first ones of a thread, and from several threads at once. */
static void *guarded_calls(void *unused) {
    (void)unused;
    uint64_t base = thread_id() * 1000000;
    char name[64] = "a name";
    guard(1);
    for (uint64_t i = 0; i < 2000; i++) {
        work_t api, inner, kernel;
        uint64_t slots[8] = {0}, copy_slots[8] = {0};
        int operations[] = {hipLaunchKernel, hipMemcpyAsync, hipEventRecord, 215, 90, 166, 345, 349};
        int operation = operations[i % 8];
        /* hipStreamCreate and hipMalloc read what their out parameter points to. */
        enter(&api, operation == 345 ? hipEventRecord : operation, base + i, 0);
        enter(&inner, hipEventRecord, base + i + 500000, base + i);
        enqueue(&kernel, base + i, base + i, 0);
        leave(&inner, hipEventRecord);
        leave(&api, operation == 345 ? hipEventRecord : operation);
        complete(&kernel);
        copy_data_t copy = {.size = sizeof copy, .bytes = 8};
        double_fire(COPY, 2, ENTER, thread_id(), base + i, 0, &copy, copy_slots);
        double_fire(COPY, 2, EXIT, thread_id(), base + i, 0, &copy, copy_slots);
        allocation_data_t allocation = {.size = sizeof allocation, .bytes = 8};
        memset(slots, 0, sizeof slots);
        double_fire(ALLOCATION, 1, ENTER, thread_id(), base + i, 0, &allocation, slots);
        double_fire(ALLOCATION, 1, EXIT, thread_id(), base + i, 0, &allocation, slots);
        scratch_data_t scratch = {.size = sizeof scratch, .bytes = 8};
        memset(slots, 0, sizeof slots);
        double_fire(SCRATCH, 1, ENTER, thread_id(), 0, 0, &scratch, slots);
        double_fire(SCRATCH, 1, EXIT, thread_id(), 0, 0, &scratch, slots);
        marker_data_t marker = {.size = sizeof marker, .args = {(uint64_t)(uintptr_t)name, 1}, .retval = i};
        for (int op = 0; op < 5; op++) {
            name[0] = (char)('a' + i % 26);
            memset(slots, 0, sizeof slots);
            marker.args[0] = op == 4 ? i : (uint64_t)(uintptr_t)name;
            double_fire(MARKER_CORE, op, ENTER, thread_id(), base + i, 0, &marker, slots);
            double_fire(MARKER_CORE, op, EXIT, thread_id(), base + i, 0, &marker, slots);
        }
        marker.args[0] = (uint64_t)(uintptr_t)name;
        for (int op = 0; op < 4; op++) double_fire(MARKER_NAME, op, ENTER, thread_id(), base + i, 0, &marker, slots);
        code_object_t object = {.size = sizeof object, .id = base + i, .uri = "file:///x"};
        double_fire(CODE_OBJECT, 1, 1, thread_id(), 0, 0, &object, slots);
        kernel_symbol_t symbol = {.size = sizeof symbol, .kernel_id = base + i, .name = name};
        double_fire(CODE_OBJECT, 2, 1, thread_id(), 0, 0, &symbol, slots);
        double_fire(CODE_OBJECT, 1, 2, thread_id(), 0, 0, &object, slots);
        if (i == 1000) sched_yield();
    }
    guard(0);
    return NULL;
}
static void guarded(int plant) {
    load();
    CHECK(shim_inside);
    uint64_t session = start();
    if (plant) {
        guard(1);
        void *volatile block = malloc(10);
        free(block);
        guard(0);
        return;
    }
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) pthread_create(&thread[i], NULL, guarded_calls, NULL);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    stop_result result = stop(session, 1000000000);
    CHECK(result.verdict == 0);
    printf("{\"issued\":%lu,\"recorded\":%lu,\"lost\":%lu}\n", (unsigned long)result.issued, (unsigned long)result.recorded, (unsigned long)result.lost);
    double_finalize();
}

int main(int argc, char **argv) {
    tool_path = getenv("STRANDLINE_TEST_TOOL");
    const char *what = argc > 1 ? argv[1] : "";
    long number = argc > 2 ? atol(argv[2]) : 0;
    if (!tool_path) FAIL("STRANDLINE_TEST_TOOL is not set");
#define SCENARIO(name, call) if (strcmp(what, name) == 0) { call; return 0; }
    SCENARIO("basic", basic())
    SCENARIO("refused", refused((int)number))
    SCENARIO("two-copies", two_copies())
    SCENARIO("second-copy", second_copy_calls())
    SCENARIO("small", small())
    SCENARIO("large", large())
    SCENARIO("ancestor", ancestor())
    SCENARIO("retirement", retirement())
    SCENARIO("inside", inside())
    SCENARIO("on-handler", on_handler())
    SCENARIO("finalize", finalize_with_mutex(0))
    SCENARIO("finalize-waiting", finalize_with_mutex(1))
    SCENARIO("forced", forced())
    SCENARIO("race", race(number))
    SCENARIO("fini", fini())
    SCENARIO("exit-under-load", exit_under_load())
    SCENARIO("loader", loader())
    SCENARIO("forked", forked())
    SCENARIO("threads", threads(number))
    SCENARIO("guarded", guarded(0))
    SCENARIO("planted", guarded(1))
    if (strncmp(what, "hot-", 4) == 0) {
        hot(what + 4, (uint64_t)number);
        return 0;
    }
    FAIL("unknown scenario %s", what);
}
