/* Goal: a subscriber gets each record once, or a count of it. Prints "ok".
 * Method: flight mode in a small region; three subscribers of different pace; what is handed out and what is lost is what was
 * appended, to the record. A program of the first version, whose struct ends before `records`, gets what it knows. */
#include <strandline.h>

#include "check.h"

enum { ROUNDS = 40, EACH = 1000, PACES = 3 };

static uint64_t handed(strandline_subscriber *subscriber, uint64_t most) {
    strandline_record record;
    STRANDLINE_INIT(&record);
    uint64_t count = 0, last = 0;
    while (count < most && strandline_subscriber_next(subscriber, &record) == STRANDLINE_OK) {
        if (record.kind >= 64 || record.kind == STRANDLINE_KIND_THREAD) continue;
        if (record.kind == STRANDLINE_KIND_DISPATCH) {
            EXPECT(record.dispatch_id > last, 1);
            last = record.dispatch_id;
        }
        count++;
    }
    return count;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.dir = argv[1];
    settings.mode = 2;
    settings.flags = STRANDLINE_SETTINGS_SIMULATED;
    settings.budget_bytes = 2 << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    uint64_t session, id = 0, got[PACES] = {0};
    const uint64_t most[PACES] = {UINT64_MAX, 500, 0};
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    EXPECT(strandline_mark("before any subscription"), STRANDLINE_OK);
    strandline_subscriber *subscribers[PACES];
    for (int pace = 0; pace < PACES; pace++) EXPECT(strandline_subscribe(0, 0, &subscribers[pace]), STRANDLINE_OK);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < EACH; i++) {
            strandline_dispatch dispatch;
            STRANDLINE_INIT(&dispatch);
            dispatch.correlation_id = dispatch.dispatch_id = ++id;
            dispatch.start_ns = strandline_now_ns();
            dispatch.end_ns = dispatch.start_ns + 1;
            uint64_t token;
            EXPECT(strandline_dispatch_issue(&dispatch, &token), STRANDLINE_OK);
            EXPECT(strandline_dispatch_done(token, &dispatch), STRANDLINE_OK);
            EXPECT(strandline_mark("mark"), STRANDLINE_OK);
        }
        for (int pace = 0; pace < PACES; pace++) got[pace] += handed(subscribers[pace], most[pace]);
    }
    for (int pace = 0; pace < PACES; pace++) {
        got[pace] += handed(subscribers[pace], UINT64_MAX);
        strandline_lost lost;
        STRANDLINE_INIT(&lost);
        EXPECT(strandline_subscriber_lost(subscribers[pace], &lost), STRANDLINE_OK);
        EXPECT(got[pace] + lost.records, 3 * ROUNDS * EACH);
        if (most[pace] != UINT64_MAX) EXPECT(lost.records > 0, 1);
        /* Between the records and 16 cells for each. */
        EXPECT(lost.cells >= lost.records && lost.cells <= 16 * lost.records, 1);
        struct { uint64_t size, segments, cells, beyond; } first = {24, 0, 0, 77};
        EXPECT(strandline_subscriber_lost(subscribers[pace], (strandline_lost *)(void *)&first), STRANDLINE_OK);
        EXPECT(first.cells == lost.cells && first.segments == lost.segments && first.beyond == 77, 1);
        first.size = 23;
        EXPECT(strandline_subscriber_lost(subscribers[pace], (strandline_lost *)(void *)&first), STRANDLINE_STRUCT_TOO_SMALL);
        EXPECT(strandline_subscriber_close(subscribers[pace]), STRANDLINE_OK);
    }
    EXPECT(strandline_session_close(session), STRANDLINE_OK);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    return failed() != 0;
}
