/* Bring your own source, in C: trace, stop, print the top kernels.
 *
 * The "GPU" is a thread that completes dispatches some time after they were issued; the stop waits for it.
 *
 *   cc -std=c11 top_kernels.c $(pkg-config --cflags --libs strandline) -lpthread -o top_kernels && ./top_kernels
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <strandline.h>
#include <time.h>

enum { DISPATCHES = 300, KERNELS = 3 };

static const char *const names[KERNELS] = {"_Z4axpyPf.kd", "_Z4gemmPf.kd", "_Z6reducePf.kd"};

static struct work {
    uint64_t token;
    strandline_dispatch dispatch;
} queue[DISPATCHES];
static int issued;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;

static void check(int32_t status, const char *what) {
    if (status == STRANDLINE_OK) return;
    fprintf(stderr, "%s: %s\n", what, strandline_status_string(status));
    exit(1);
}

/* What a driver would do: runs each dispatch, then reports it with its times and the token that it was issued with. */
static void *gpu(void *unused) {
    (void)unused;
    for (int i = 0; i < DISPATCHES; i++) {
        pthread_mutex_lock(&lock);
        while (issued <= i) pthread_cond_wait(&more, &lock);
        struct work work = queue[i];
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        work.dispatch.start_ns = strandline_now_ns();
        work.dispatch.end_ns = work.dispatch.start_ns + 100 * work.dispatch.kernel_id;
        check(strandline_dispatch_done(work.token, &work.dispatch), "dispatch done");
    }
    return NULL;
}

static void launch(uint64_t id) {
    strandline_api call;
    STRANDLINE_INIT(&call);
    call.correlation_id = id;
    call.domain = STRANDLINE_DOMAIN_USER;
    call.operation = 1;
    uint64_t token;
    check(strandline_api_enter(&call, &token), "enter");

    struct work work;
    STRANDLINE_INIT(&work.dispatch);
    work.dispatch.correlation_id = work.dispatch.dispatch_id = id;
    work.dispatch.kernel_id = 1 + id % KERNELS;
    work.dispatch.agent = 7;
    check(strandline_dispatch_issue(&work.dispatch, &work.token), "issue");
    pthread_mutex_lock(&lock);
    queue[issued++] = work;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);

    check(strandline_api_exit(token, &call), "exit");
}

int main(void) {
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.source_name = "an example without a GPU (simulation)";
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    check(strandline_init(&settings), "init");
    check(strandline_declare_operation(STRANDLINE_DOMAIN_USER, 1, "launch"), "operation");
    for (uint64_t id = 1; id <= KERNELS; id++) {
        strandline_kernel kernel;
        STRANDLINE_INIT(&kernel);
        kernel.kernel_id = id;
        kernel.name = names[id - 1];
        check(strandline_declare_kernel(&kernel), "kernel");
    }

    pthread_t thread;
    pthread_create(&thread, NULL, gpu, NULL);
    uint64_t session;
    check(strandline_session_start(&session), "start");
    for (uint64_t id = 1; id <= DISPATCHES; id++) launch(id);
    strandline_stop_result end;
    STRANDLINE_INIT(&end);
    check(strandline_session_stop(session, 5000000000u, &end), "stop");
    printf("%s: %llu of %llu dispatches (a simulation)\n", end.verdict == STRANDLINE_VERDICT_COMPLETE ? "complete" : "incomplete",
           (unsigned long long)end.recorded, (unsigned long long)end.issued);

    struct total { const char *name; uint64_t count, ns; } totals[KERNELS] = {{0}};
    strandline_trace *trace;
    strandline_cursor *cursor;
    strandline_record record;
    STRANDLINE_INIT(&record);
    check(strandline_trace_live(&trace), "trace");
    check(strandline_cursor_open(trace, STRANDLINE_KIND_BIT(STRANDLINE_KIND_DISPATCH), session, &cursor), "cursor");
    int32_t status;
    while ((status = strandline_cursor_next(cursor, &record)) == STRANDLINE_OK) {
        struct total *total = &totals[record.kernel_id - 1];
        total->name = record.name;
        total->count++;
        total->ns += record.end_ns - record.start_ns;
    }
    if (status != STRANDLINE_NOTHING) check(status, "next");
    for (int i = KERNELS - 1; i >= 0; i--)
        printf("%6llu x %8llu ns  %s\n", (unsigned long long)totals[i].count, (unsigned long long)totals[i].ns, totals[i].name);
    check(strandline_cursor_close(cursor), "close cursor");
    check(strandline_trace_close(trace), "close trace");
    pthread_join(thread, NULL);
    check(strandline_shutdown(), "shutdown");
    return 0;
}
