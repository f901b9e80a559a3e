/* Goal: no sequence of calls crashes. Method: random calls with random arguments, right and wrong, on three threads, under
 * AddressSanitizer. Prints the seed, and "ok". Arguments: a folder, a seed, how many calls. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strandline.h>

#include "check.h"

enum { THREADS = 3, HELD = 8 };

/* Handles are shared: what one thread closes another still uses. */
static void *volatile held[HELD];
static const char *folder;
static unsigned long calls;

static uint64_t next(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static uint64_t number(uint64_t *state) {
    static const uint64_t odd[] = {0, 1, 2, 3, 7, 64, 255, 65536, UINT64_C(1) << 48, UINT64_MAX, INT64_MAX};
    uint64_t pick = next(state);
    return pick % 4 ? odd[pick / 4 % (sizeof odd / sizeof *odd)] : next(state);
}

static void *work(void *seed) {
    uint64_t state = (uint64_t)(uintptr_t)seed, token = 0, session = 0, id = 0;
    uint32_t stream = 0;
    const char *text;
    for (unsigned long i = 0; i < calls; i++) {
        union {
            uint64_t size;
            strandline_api api;
            strandline_dispatch dispatch;
            strandline_copy copy;
            strandline_memory memory;
            strandline_agent agent;
            strandline_kernel kernel;
            strandline_record record;
            strandline_session session;
            strandline_trace_info info;
            strandline_stop_result result;
            strandline_stream stream;
            strandline_lost lost;
            uint64_t words[64];
        } any;
        memset(&any, 0, sizeof any);
        any.size = next(&state) % 8 ? sizeof any : next(&state) % sizeof any;
        any.dispatch.correlation_id = number(&state);
        void **slot = (void **)&held[next(&state) % HELD];
        void *handle = next(&state) % 16 ? *slot : (void *)(uintptr_t)number(&state);
        void *opened = NULL;
        char path[512];
        switch (next(&state) % 36) {
        case 0: strandline_session_start(&session); break;
        case 1: strandline_session_stop(next(&state) % 2 ? session : number(&state), next(&state) % 1000000, &any.result); break;
        case 2: strandline_session_close(next(&state) % 2 ? session : number(&state)); break;
        case 3: strandline_session_result(session, &any.result); strandline_session_release(session, next(&state) % 2 ? &id : NULL); break;
        case 4: case 5: any.size = sizeof any.api; strandline_api_enter(&any.api, &token); break;
        case 6: case 7: strandline_api_exit(next(&state) % 8 ? token : number(&state), &any.api); break;
        case 8: case 9: strandline_dispatch_issue(&any.dispatch, &token); break;
        case 10: case 11: strandline_dispatch_done(next(&state) % 8 ? token : number(&state), &any.dispatch); break;
        case 12: strandline_copy_issue(&any.copy, &token); break;
        case 13: strandline_copy_done(next(&state) % 8 ? token : number(&state), &any.copy); break;
        case 14: strandline_alloc_done(&any.memory); break;
        case 15: strandline_range_push("range"); break;
        case 16: strandline_range_pop(); break;
        case 17: strandline_range_start(number(&state), "started"); break;
        case 18: strandline_range_stop(number(&state)); break;
        case 19: strandline_mark("mark"); strandline_instant(next(&state) % 2 ? strandline_intern("instant") : number(&state), 1, 2); break;
        case 20: strandline_external_push((uint32_t)(next(&state) % 6), number(&state)); break;
        case 21: strandline_external_pop((uint32_t)(next(&state) % 6), &id); break;
        case 22: any.kernel.name = "kernel"; strandline_declare_kernel(&any.kernel); break;
        case 23: any.kernel.name = NULL; strandline_declare_agent(&any.agent); break;
        case 24: strandline_declare_stream(number(&state), (uint32_t)(next(&state) % 7), 0, &stream); break;
        case 25: strandline_stream_destroyed(number(&state)); break;
        case 26: strandline_declare_queue(number(&state), number(&state)); break;
        case 27: strandline_retire(number(&state)); break;
        case 28: if (strandline_trace_live((strandline_trace **)&opened) == STRANDLINE_OK) { void *old = *slot; *slot = opened; strandline_trace_close(old); } break;
        case 29: if (strandline_cursor_open(handle, number(&state), number(&state) % 4, (strandline_cursor **)&opened) == STRANDLINE_OK) { void *old = *slot; *slot = opened; strandline_cursor_close(old); } break;
        case 30: if (strandline_subscribe(number(&state), (uint32_t)(next(&state) % 3), (strandline_subscriber **)&opened) == STRANDLINE_OK) { void *old = *slot; *slot = opened; strandline_subscriber_close(old); } break;
        case 31: for (int n = 0; n < 20; n++) strandline_cursor_next(handle, &any.record); break;
        case 32: for (int n = 0; n < 20; n++) strandline_subscriber_next(handle, &any.record); break;
        case 33:
            strandline_trace_get_info(handle, &any.info);
            strandline_trace_session(handle, number(&state) % 3, &any.session);
            strandline_trace_kernel(handle, number(&state) % 3, &any.kernel);
            strandline_trace_stream(handle, number(&state) % 3, &any.stream);
            strandline_trace_text(handle, number(&state), &text, &id);
            strandline_subscriber_text(handle, number(&state), &text, &id);
            strandline_subscriber_lost(handle, &any.lost);
            break;
        case 34: strandline_trace_close(handle); strandline_cursor_close(handle); strandline_subscriber_close(handle); break;
        case 35:
            if (next(&state) % 50) break;
            snprintf(path, sizeof path, "%s/%llu.json", folder, (unsigned long long)next(&state));
            strandline_export(number(&state) % 4, path);
            remove(path);
            snprintf(path, sizeof path, "%s/%llu.slt", folder, (unsigned long long)next(&state));
            strandline_snapshot(path);
            remove(path);
            break;
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    folder = argv[1];
    uint64_t seed = strtoull(argv[2], NULL, 10);
    calls = strtoul(argv[3], NULL, 10);
    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.dir = folder;
    settings.budget_bytes = 4 << 20;
    settings.lane_count = 4;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    pthread_t threads[THREADS];
    for (uint64_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)(seed * THREADS + i + 1));
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    return failed() != 0;
}
