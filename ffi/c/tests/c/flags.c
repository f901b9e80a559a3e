/* Goal: a cursor keeps odd records and says what is odd about them, as the exporters do; a subscriber gives what the writer
 * knew. Prints "ok". Method: one dispatch and one copy for each oddity, read back from the live process and from its file, twice:
 * while the session is open, when only its start is known, and after its stop. Argument: a folder. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <strandline.h>

#include "check.h"

enum { CALL = 1, ANCESTOR, ALONE, EARLY, FUTURE, UNTIMED, BACKWARDS, OPEN_CALL, BOTH, COUNT };

static uint32_t expected(uint64_t id, int stopped) {
    switch (id) {
        case ALONE: return STRANDLINE_FLAG_NO_LAUNCH;
        case EARLY: return STRANDLINE_FLAG_OUTSIDE_WINDOW;
        case FUTURE: return stopped ? STRANDLINE_FLAG_OUTSIDE_WINDOW : 0;
        case UNTIMED: return STRANDLINE_FLAG_UNTIMED;
        case BACKWARDS: return STRANDLINE_FLAG_END_BEFORE_START;
        case BOTH: return STRANDLINE_FLAG_NO_LAUNCH | STRANDLINE_FLAG_OUTSIDE_WINDOW;
        /* A call that is under way has no record yet. */
        case OPEN_CALL: return stopped ? 0 : STRANDLINE_FLAG_NO_LAUNCH;
        default: return 0;
    }
}

/* What the writer alone can know. */
static uint32_t written(uint64_t id) { return expected(id, 0) & (STRANDLINE_FLAG_UNTIMED | STRANDLINE_FLAG_END_BEFORE_START); }

static void read_back(strandline_trace *trace, int stopped) {
    strandline_cursor *cursor;
    strandline_record record;
    STRANDLINE_INIT(&record);
    uint64_t dispatches = 0, copies = 0;
    EXPECT(strandline_cursor_open(trace, STRANDLINE_KIND_BIT(STRANDLINE_KIND_DISPATCH) | STRANDLINE_KIND_BIT(STRANDLINE_KIND_COPY), 0, &cursor),
           STRANDLINE_OK);
    while (strandline_cursor_next(cursor, &record) == STRANDLINE_OK) {
        /* No call named a stream: the writer's own flag, which stays. */
        EXPECT(record.flags, expected(record.correlation_id % 100, stopped) | STRANDLINE_FLAG_UNKNOWN_STREAM);
        *(record.kind == STRANDLINE_KIND_COPY ? &copies : &dispatches) += 1;
    }
    EXPECT(dispatches, COUNT - 1);
    EXPECT(copies, COUNT - 1);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
}

static void issue(uint64_t id, uint64_t offset, uint64_t now) {
    uint64_t token, start = now, end = now + 10;
    if (id == EARLY || id == BOTH) start = 5, end = 15;
    if (id == FUTURE) start = now + UINT64_C(1000000000000), end = start + 10;
    if (id == UNTIMED) end = 0;
    if (id == BACKWARDS) end = start - 1;
    if (offset == 0) {
        strandline_dispatch dispatch;
        STRANDLINE_INIT(&dispatch);
        dispatch.correlation_id = dispatch.dispatch_id = id;
        dispatch.ancestor_id = id == ANCESTOR ? 500 : 0;
        dispatch.start_ns = start;
        dispatch.end_ns = end;
        EXPECT(strandline_dispatch_issue(&dispatch, &token), STRANDLINE_OK);
        EXPECT(strandline_dispatch_done(token, &dispatch), STRANDLINE_OK);
    } else {
        strandline_copy copy;
        STRANDLINE_INIT(&copy);
        copy.correlation_id = id + offset;
        copy.ancestor_id = id == ANCESTOR ? 500 + offset : 0;
        copy.start_ns = start;
        copy.end_ns = end;
        EXPECT(strandline_copy_issue(&copy, &token), STRANDLINE_OK);
        EXPECT(strandline_copy_done(token, &copy), STRANDLINE_OK);
    }
}

/* The call that leads to the work, unless none does. */
static strandline_api enter(uint64_t id, uint64_t offset, uint64_t *token) {
    strandline_api call;
    STRANDLINE_INIT(&call);
    call.correlation_id = id == ANCESTOR ? 500 + offset : id + offset;
    call.domain = STRANDLINE_DOMAIN_USER;
    call.operation = 1;
    EXPECT(strandline_api_enter(&call, token), STRANDLINE_OK);
    return call;
}

static atomic_int entered, over;

/* Stays inside its calls until the session is over. */
static void *inside(void *now) {
    uint64_t tokens[2];
    const strandline_api outer = enter(OPEN_CALL, 0, &tokens[0]), inner = enter(OPEN_CALL, 100, &tokens[1]);
    issue(OPEN_CALL, 0, *(uint64_t *)now);
    issue(OPEN_CALL, 100, *(uint64_t *)now);
    entered = 1;
    while (!over) sched_yield();
    EXPECT(strandline_api_exit(tokens[1], &inner), STRANDLINE_OK);
    EXPECT(strandline_api_exit(tokens[0], &outer), STRANDLINE_OK);
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    char out[4096];
    snprintf(out, sizeof out, "%s/flags.slt", argv[1]);
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.out = out;
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    settings.budget_bytes = 16 << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    strandline_subscriber *subscriber;
    EXPECT(strandline_subscribe(STRANDLINE_KIND_BIT(STRANDLINE_KIND_DISPATCH), 0, &subscriber), STRANDLINE_OK);
    uint64_t session, token, now = strandline_now_ns();
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    now = strandline_now_ns();
    for (uint64_t id = 1; id < COUNT; id++) {
        for (uint64_t offset = 0; offset <= 100 && id != OPEN_CALL; offset += 100) {
            const int has_call = id != ALONE && id != BOTH;
            strandline_api call;
            if (has_call) call = enter(id, offset, &token);
            issue(id, offset, now);
            if (has_call) EXPECT(strandline_api_exit(token, &call), STRANDLINE_OK);
        }
    }
    pthread_t thread;
    EXPECT(pthread_create(&thread, NULL, inside, &now), 0);
    while (!entered) sched_yield();
    strandline_trace *trace;
    EXPECT(strandline_trace_live(&trace), STRANDLINE_OK);
    read_back(trace, 0);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    strandline_stop_result result;
    STRANDLINE_INIT(&result);
    EXPECT(strandline_session_stop(session, 1000000000, &result), STRANDLINE_OK);
    EXPECT(result.verdict, STRANDLINE_VERDICT_COMPLETE);
    over = 1;
    EXPECT(pthread_join(thread, NULL), 0);
    EXPECT(strandline_trace_live(&trace), STRANDLINE_OK);
    read_back(trace, 1);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    EXPECT(strandline_trace_open(out, &trace), STRANDLINE_OK);
    read_back(trace, 1);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    strandline_record record;
    STRANDLINE_INIT(&record);
    uint64_t dispatches = 0;
    while (strandline_subscriber_next(subscriber, &record) == STRANDLINE_OK) {
        EXPECT(record.flags, written(record.correlation_id) | STRANDLINE_FLAG_UNKNOWN_STREAM);
        dispatches++;
    }
    EXPECT(dispatches, COUNT - 1);
    EXPECT(strandline_subscriber_close(subscriber), STRANDLINE_OK);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    return failed() != 0;
}
