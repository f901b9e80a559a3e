/* Goal: the API used wrongly answers with a status, each time, and never crashes. Under AddressSanitizer.
 * Method: every function before there is anything, with null, with wrong sizes, twice, after close, with foreign handles, inside
 * a call, in a forked child, after shutdown, in an exit handler. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <strandline.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static strandline_dispatch dispatch;
static strandline_api call;
static strandline_copy copy;
static strandline_memory memory;
static strandline_agent agent;
static strandline_kernel kernel;
static strandline_record record;
static strandline_stop_result result;

/* Every function that needs the runtime answers `expected`; it gets arguments that are right. */
static void everything(int32_t expected) {
    uint64_t token = 7, session = 0;
    uint32_t stream = 0;
    strandline_trace *trace = NULL;
    strandline_subscriber *subscriber = NULL;
    EXPECT(strandline_session_close(1), expected);
    EXPECT(strandline_session_stop(1, 0, &result), expected);
    EXPECT(strandline_session_result(1, &result), expected);
    EXPECT(strandline_export(0, "/nowhere/x.json"), expected);
    EXPECT(strandline_session_release(1, NULL), expected);
    EXPECT(strandline_snapshot("/proc/nowhere/x.slt"), expected);
    strandline_intern("x");
    strandline_instant(1, 2, 3);
    EXPECT(strandline_metadata("a", "b"), expected);
    EXPECT(strandline_declare_agent(&agent), expected);
    EXPECT(strandline_declare_queue(1, 1), expected);
    EXPECT(strandline_declare_kernel(&kernel), expected);
    EXPECT(strandline_declare_operation(6, 1, "x"), expected);
    EXPECT(strandline_declare_stream(1, 1, 0, &stream), expected);
    EXPECT(strandline_stream_destroyed(1), expected);
    EXPECT(strandline_name_thread(0, "x"), expected);
    EXPECT(strandline_label(1, 1, "x"), expected);
    EXPECT(strandline_api_enter(&call, &token), expected);
    EXPECT(token, 0);
    EXPECT(strandline_api_exit(0, &call), expected);
    EXPECT(strandline_dispatch_issue(&dispatch, &token), expected);
    EXPECT(token, 0);
    EXPECT(strandline_dispatch_done(0, &dispatch), expected);
    EXPECT(strandline_copy_issue(&copy, &token), expected);
    EXPECT(strandline_copy_done(0, &copy), expected);
    EXPECT(strandline_alloc_done(&memory), expected);
    EXPECT(strandline_retire(1), expected);
    EXPECT(strandline_range_push("x"), expected);
    EXPECT(strandline_range_pop(), expected);
    EXPECT(strandline_range_start(1, "x"), expected);
    EXPECT(strandline_range_stop(1), expected);
    EXPECT(strandline_mark("x"), expected);
    EXPECT(strandline_trace_live(&trace), expected);
    EXPECT(trace == NULL, 1);
    EXPECT(strandline_subscribe(0, 0, &subscriber), expected);
    EXPECT(subscriber == NULL, 1);
    (void)session;
}

static void nulls(void) {
    enum { BAD = STRANDLINE_INVALID_ARGUMENT };
    uint64_t token = 0;
    EXPECT(strandline_configure(NULL), BAD);
    EXPECT(strandline_session_start(NULL), BAD);
    EXPECT(strandline_session_result(1, NULL), BAD);
    EXPECT(strandline_export(0, NULL), BAD);
    EXPECT(strandline_snapshot(NULL), BAD);
    EXPECT(strandline_intern(NULL), 0);
    EXPECT(strandline_metadata(NULL, "x"), BAD);
    EXPECT(strandline_metadata("x", NULL), BAD);
    EXPECT(strandline_declare_agent(NULL), BAD);
    EXPECT(strandline_declare_kernel(NULL), BAD);
    EXPECT(strandline_declare_operation(6, 1, NULL), BAD);
    EXPECT(strandline_declare_operation(256, 1, "x"), BAD);
    EXPECT(strandline_declare_operation(6, 65536, "x"), BAD);
    EXPECT(strandline_declare_stream(1, 1, 0, NULL), BAD);
    EXPECT(strandline_name_thread(0, NULL), BAD);
    EXPECT(strandline_label(1, 1, NULL), BAD);
    EXPECT(strandline_label(9, 1, "x"), BAD);
    EXPECT(strandline_api_enter(NULL, &token), BAD);
    EXPECT(strandline_api_enter(&call, NULL), BAD);
    EXPECT(strandline_api_exit(0, NULL), BAD);
    EXPECT(strandline_dispatch_issue(NULL, &token), BAD);
    EXPECT(strandline_dispatch_issue(&dispatch, NULL), BAD);
    EXPECT(strandline_dispatch_done(0, NULL), BAD);
    EXPECT(strandline_copy_issue(NULL, &token), BAD);
    EXPECT(strandline_copy_done(0, NULL), BAD);
    EXPECT(strandline_alloc_done(NULL), BAD);
    EXPECT(strandline_range_push(NULL), BAD);
    EXPECT(strandline_range_start(1, NULL), BAD);
    EXPECT(strandline_mark(NULL), BAD);
    EXPECT(strandline_external_push(99, 1), BAD);
    EXPECT(strandline_external_pop(99, NULL), BAD);
    EXPECT(strandline_trace_open(NULL, NULL), BAD);
    EXPECT(strandline_trace_live(NULL), BAD);
    EXPECT(strandline_trace_close(NULL), BAD);
    EXPECT(strandline_trace_get_info(NULL, NULL), BAD);
    EXPECT(strandline_trace_export(NULL, 0, NULL), BAD);
    EXPECT(strandline_cursor_open(NULL, 0, 0, NULL), BAD);
    EXPECT(strandline_cursor_next(NULL, &record), BAD);
    EXPECT(strandline_cursor_next(NULL, NULL), BAD);
    EXPECT(strandline_cursor_count(NULL, &token), BAD);
    EXPECT(strandline_cursor_rewind(NULL), BAD);
    EXPECT(strandline_cursor_close(NULL), BAD);
    EXPECT(strandline_subscribe(0, 0, NULL), BAD);
    EXPECT(strandline_subscriber_next(NULL, &record), BAD);
    EXPECT(strandline_subscriber_close(NULL), BAD);
    EXPECT(strandline_status_string(-5) != NULL && strandline_status_string(9999) != NULL, 1);
}

static void sizes(void) {
    uint64_t token;
    strandline_dispatch small = dispatch;
    small.size = 0;
    EXPECT(strandline_dispatch_issue(&small, &token), STRANDLINE_STRUCT_TOO_SMALL);
    small.size = sizeof small - 1;
    EXPECT(strandline_dispatch_done(0, &small), STRANDLINE_STRUCT_TOO_SMALL);
    small.size = UINT64_MAX;
    EXPECT(strandline_dispatch_done(0, &small), STRANDLINE_INVALID_ARGUMENT);
    /* A newer caller: what we don't know must be zero. */
    struct { strandline_dispatch known; uint64_t unknown; } newer = {dispatch, 0};
    newer.known.size = sizeof newer;
    EXPECT(strandline_dispatch_done(0, &newer.known), STRANDLINE_OK);
    newer.unknown = 1;
    EXPECT(strandline_dispatch_done(0, &newer.known), STRANDLINE_INVALID_ARGUMENT);
    /* The heap knows its end: a struct that says more than it is would be read past it if sizes were not believed. */
    uint64_t *exact = malloc(sizeof(strandline_stop_result));
    memset(exact, 0, sizeof(strandline_stop_result));
    EXPECT(strandline_session_result(1, (strandline_stop_result *)exact), STRANDLINE_STRUCT_TOO_SMALL);
    exact[0] = 8;
    EXPECT(strandline_session_stop(1, 0, (strandline_stop_result *)exact), STRANDLINE_STRUCT_TOO_SMALL);
    free(exact);
}

static void bad_settings(void) {
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.mode = 99;
    EXPECT(strandline_init(&settings), STRANDLINE_INVALID_ARGUMENT);
    settings.mode = 0;
    settings.budget_bytes = 5;
    EXPECT(strandline_init(&settings), STRANDLINE_INVALID_ARGUMENT);
    settings.budget_bytes = 0;
    settings.flags = 1u << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_INVALID_ARGUMENT);
    settings.flags = 0;
    settings.out = "/proc/nowhere/x.slt";
    EXPECT(strandline_init(&settings), STRANDLINE_NO_REGION);
}

static void handles(void) {
    strandline_trace *trace, *nothing;
    strandline_cursor *cursor;
    strandline_subscriber *subscriber;
    strandline_trace_info info;
    STRANDLINE_INIT(&info);
    EXPECT(strandline_trace_open("/nowhere/x.slt", &nothing), STRANDLINE_NO_FILE);
    EXPECT(strandline_trace_open("/etc/passwd", &nothing), STRANDLINE_BAD_FILE);
    EXPECT(strandline_trace_open("/", &nothing), STRANDLINE_NO_FILE);
    EXPECT(strandline_trace_live(&trace), STRANDLINE_OK);
    EXPECT(strandline_trace_agent(trace, UINT64_MAX, &agent), STRANDLINE_NOTHING);
    EXPECT(strandline_cursor_open(trace, 0, 0, &cursor), STRANDLINE_OK);
    EXPECT(strandline_subscribe(0, 1u << 30, &subscriber), STRANDLINE_INVALID_ARGUMENT);
    EXPECT(strandline_subscribe(0, STRANDLINE_SUBSCRIBE_OLDEST, &subscriber), STRANDLINE_OK);
    /* Foreign. */
    EXPECT(strandline_cursor_next((strandline_cursor *)trace, &record), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_trace_close((strandline_trace *)cursor), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_subscriber_close((strandline_subscriber *)&record), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_trace_close((strandline_trace *)UINTPTR_MAX), STRANDLINE_BAD_HANDLE);
    /* The cursor keeps what it needs. */
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    EXPECT(strandline_trace_close(trace), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_trace_get_info(trace, &info), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_cursor_open(trace, 0, 0, &cursor), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_trace_live(&trace), STRANDLINE_OK);
    EXPECT(strandline_cursor_open(trace, 0, 0, &cursor), STRANDLINE_OK);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    int32_t status;
    while ((status = strandline_cursor_next(cursor, &record)) == STRANDLINE_OK) {}
    EXPECT(status, STRANDLINE_NOTHING);
    EXPECT(strandline_cursor_next(cursor, &record), STRANDLINE_NOTHING);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_cursor_next(cursor, &record), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_subscriber_close(subscriber), STRANDLINE_OK);
    EXPECT(strandline_subscriber_next(subscriber, &record), STRANDLINE_BAD_HANDLE);
    EXPECT(strandline_subscriber_close(subscriber), STRANDLINE_BAD_HANDLE);
}

static void at_exit(void) {
    uint64_t session;
    EXPECT(strandline_session_start(&session), STRANDLINE_FINALIZING);
    EXPECT(strandline_session_stop(1, 0, NULL), STRANDLINE_FINALIZING);
    EXPECT(strandline_mark("at exit"), STRANDLINE_OK);
    EXPECT(strandline_shutdown(), STRANDLINE_FINALIZING);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    fflush(stdout);
    if (failed()) _exit(1);
}

int main(void) {
    STRANDLINE_INIT(&dispatch);
    STRANDLINE_INIT(&call);
    STRANDLINE_INIT(&copy);
    STRANDLINE_INIT(&memory);
    STRANDLINE_INIT(&agent);
    STRANDLINE_INIT(&kernel);
    STRANDLINE_INIT(&record);
    STRANDLINE_INIT(&result);
    kernel.name = "kernel";
    dispatch.correlation_id = 5;
    atexit(at_exit);

    /* Before there is anything. */
    EXPECT(strandline_version(), STRANDLINE_VERSION);
    EXPECT(strandline_status(), STRANDLINE_NOT_READY);
    EXPECT(STRANDLINE_HAS_SESSION(), 0);
    everything(STRANDLINE_NOT_READY);
    nulls();
    uint64_t session = 0, again = 0, token;
    EXPECT(strandline_external_pop(0, NULL), STRANDLINE_NOTHING);
    EXPECT(strandline_shutdown(), STRANDLINE_NOT_READY);
    /* No SDK on this path: said, and no reason not to go on. */
    EXPECT(strandline_session_start(&session), STRANDLINE_SDK_MISSING);
    EXPECT(strandline_status(), STRANDLINE_SDK_MISSING);
    bad_settings();

    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(strandline_init(&settings), STRANDLINE_ALREADY_THERE);
    EXPECT(strandline_init(NULL), STRANDLINE_ALREADY_THERE);
    EXPECT(strandline_configure(&settings), STRANDLINE_ALREADY_THERE);
    EXPECT(strandline_rocprofiler_configure(10000, "1.0.0", 0, NULL) == NULL, 1);
    EXPECT(strandline_status(), STRANDLINE_OK);
    nulls();
    sizes();

    /* Sessions: start twice, stop what is not there, stop twice. */
    EXPECT(strandline_session_stop(1, 0, &result), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_session_stop(0, 0, &result), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_session_stop(UINT64_MAX, 0, &result), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    EXPECT(STRANDLINE_HAS_SESSION(), 1);
    EXPECT(strandline_session_start(&again), STRANDLINE_SESSION_OPEN);
    EXPECT(strandline_session_result(session, &result), STRANDLINE_NOTHING);

    /* Inside a call the thread must not wait. */
    EXPECT(strandline_api_enter(&call, &token), STRANDLINE_OK);
    EXPECT(token != 0, 1);
    EXPECT(strandline_session_result(session, &result), STRANDLINE_INSIDE_CALLBACK);
    EXPECT(strandline_export(0, "/nowhere/x.json"), STRANDLINE_INSIDE_CALLBACK);
    /* Tokens that nobody gave. */
    EXPECT(strandline_dispatch_done(UINT64_MAX, &dispatch), STRANDLINE_INVALID_ARGUMENT);
    EXPECT(strandline_copy_done(UINT64_C(0x1234) << 48, &copy), STRANDLINE_INVALID_ARGUMENT);
    EXPECT(strandline_api_exit(UINT64_C(0xffff) << 48, &call), STRANDLINE_INVALID_ARGUMENT);
    EXPECT(strandline_range_pop(), STRANDLINE_OK);
    EXPECT(strandline_session_release(session, NULL), STRANDLINE_INSIDE_CALLBACK);
    EXPECT(strandline_snapshot("/proc/nowhere/x.slt"), STRANDLINE_INSIDE_CALLBACK);
    EXPECT(strandline_session_stop(session, UINT64_MAX, &result), STRANDLINE_INSIDE_CALLBACK);
    EXPECT(STRANDLINE_HAS_SESSION(), 0);
    EXPECT(strandline_session_close(session), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_api_exit(token, &call), STRANDLINE_OK);
    EXPECT(strandline_api_exit(token, &call), STRANDLINE_OK);
    EXPECT(strandline_session_stop(session, 1000000000, &result), STRANDLINE_OK);
    EXPECT(result.size, sizeof result);
    EXPECT(strandline_session_stop(session, 0, &result), STRANDLINE_OK);
    EXPECT(result.session, session);
    EXPECT(strandline_session_result(session, &result), STRANDLINE_OK);
    EXPECT(strandline_session_stop(session, 0, NULL), STRANDLINE_OK);
    EXPECT(strandline_session_release(0, NULL), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_session_release(session, &again), STRANDLINE_OK);
    EXPECT(strandline_session_release(session, NULL), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_snapshot("/proc/nowhere/x.slt"), STRANDLINE_OUTPUT);
    EXPECT(strandline_snapshot("/etc/passwd"), STRANDLINE_OUTPUT_EXISTS);

    /* Issued and never done: incomplete is no error, and the second done of one issue is no crash. */
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    EXPECT(strandline_dispatch_issue(&dispatch, &token), STRANDLINE_OK);
    EXPECT(strandline_session_stop(session, 1000000, &result), STRANDLINE_OK);
    EXPECT(result.verdict, STRANDLINE_VERDICT_INCOMPLETE);
    EXPECT(result.missing, 1);
    EXPECT(strandline_dispatch_done(token, &dispatch), STRANDLINE_OK);
    EXPECT(strandline_dispatch_done(token, &dispatch), STRANDLINE_OK);
    handles();

    /* A forked child. */
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        failures = 0;
        EXPECT(STRANDLINE_HAS_SESSION(), 0);
        EXPECT(strandline_status(), STRANDLINE_NOT_READY);
        EXPECT(strandline_session_start(&again), STRANDLINE_NOT_READY);
        everything(STRANDLINE_NOT_READY);
        EXPECT(strandline_init(NULL), STRANDLINE_NOT_READY);
        EXPECT(strandline_shutdown(), STRANDLINE_NOT_READY);
        EXPECT(strandline_external_push(0, 1), STRANDLINE_NOT_READY);
        strandline_trace *trace;
        EXPECT(strandline_trace_open("/etc/passwd", &trace), STRANDLINE_NOT_READY);
        fflush(stdout);
        _exit(failed());
    }
    int how = 0;
    EXPECT(waitpid(child, &how, 0), child);
    EXPECT(how, 0);
    EXPECT(strandline_mark("the parent goes on"), STRANDLINE_OK);
    EXPECT(strandline_session_stop(session, 1000000000, &result), STRANDLINE_OK);

    EXPECT(strandline_export(99, "/nowhere/x.json"), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_export(0, "/nowhere/x.json"), STRANDLINE_OUTPUT);
    EXPECT(strandline_export(0, "/tmp/x.unknown"), STRANDLINE_INVALID_ARGUMENT);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    return 0;
}
