/* Goal: what was declared and appended is read back: in the order of time, with names, without a copy, from the live process and
 * from its file. Prints "ok". Argument: a folder. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strandline.h>

#include "check.h"

/* True when an address lies in a mapping of a file whose name ends so. */
static int lies_in(const void *address, const char *end) {
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[4096];
    int found = 0;
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t from, to;
        line[strcspn(line, "\n")] = 0;
        size_t length = strlen(line), tail = strlen(end);
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &from, &to) == 2 && (uintptr_t)address >= from && (uintptr_t)address < to)
            found = length >= tail && strcmp(line + length - tail, end) == 0;
    }
    if (maps) fclose(maps);
    return found;
}

static void read_back(strandline_trace *trace) {
    strandline_trace_info info;
    strandline_agent agent;
    strandline_kernel kernel;
    strandline_stream stream;
    strandline_session session;
    strandline_metadata_pair pair;
    strandline_queue queue;
    STRANDLINE_INIT(&info);
    STRANDLINE_INIT(&agent);
    STRANDLINE_INIT(&kernel);
    STRANDLINE_INIT(&stream);
    STRANDLINE_INIT(&session);
    STRANDLINE_INIT(&pair);
    STRANDLINE_INIT(&queue);
    EXPECT(strandline_trace_get_info(trace, &info), STRANDLINE_OK);
    EXPECT(strcmp(info.sdk, "roundtrip (simulation)"), 0);
    EXPECT(info.simulated, 1);
    EXPECT(info.rank, 3);
    EXPECT(info.agent_count, 1);
    EXPECT(info.kernel_count, 1);
    EXPECT(info.session_count, 1);
    EXPECT(info.damage_count, 0);
    EXPECT(strandline_trace_agent(trace, 0, &agent), STRANDLINE_OK);
    EXPECT(strcmp(agent.name, "gfx942"), 0);
    EXPECT(strcmp(agent.product, ""), 0);
    EXPECT(agent.uuid[15], 15);
    EXPECT(agent.memory_bytes, UINT64_C(1) << 37);
    EXPECT(strandline_trace_kernel(trace, 0, &kernel), STRANDLINE_OK);
    EXPECT(strcmp(kernel.name, "_Z4gemmPf.kd"), 0);
    EXPECT(kernel.vgpr_count, 128);
    EXPECT(strandline_trace_stream(trace, 0, &stream), STRANDLINE_OK);
    EXPECT(strcmp(stream.label, "compute"), 0);
    EXPECT(stream.handle, UINT64_C(0x7f0000000100));
    EXPECT(strandline_trace_queue(trace, 0, &queue), STRANDLINE_OK);
    EXPECT(queue.agent, 9);
    EXPECT(strandline_trace_metadata(trace, 0, &pair), STRANDLINE_OK);
    EXPECT(strcmp(pair.key, "model") || strcmp(pair.value, "\"llama\"\n"), 0);
    EXPECT(strandline_trace_session(trace, 0, &session), STRANDLINE_OK);
    EXPECT(session.verdict, STRANDLINE_VERDICT_COMPLETE);
    EXPECT(session.proof, STRANDLINE_PROOF_PAIRS);
    EXPECT(session.dispatches_issued, 100);
    EXPECT(session.copies_recorded, 1);
    EXPECT(strandline_trace_session(trace, 1, &session), STRANDLINE_NOTHING);

    strandline_cursor *cursor;
    strandline_record record;
    STRANDLINE_INIT(&record);
    uint64_t last = 0, count = 0, kinds[64] = {0}, domains[STRANDLINE_EXTERNAL_DOMAINS] = {0};
    EXPECT(strandline_cursor_open(trace, 0, 1, &cursor), STRANDLINE_OK);
    while (strandline_cursor_next(cursor, &record) == STRANDLINE_OK) {
        EXPECT(record.start_ns >= last, 1);
        last = record.start_ns;
        kinds[record.kind]++;
        EXPECT(record.size, sizeof record);
        EXPECT(record.session, 1);
        count++;
        /* A range that was open at stop lies among the facts. */
        if (!(record.flags & STRANDLINE_FLAG_OPEN)) {
            EXPECT(record.words[0] & 0xff, record.kind);
            if (kinds[record.kind] == 1) EXPECT(lies_in(record.words, ".slt"), 1);
        }
        if (record.kind == STRANDLINE_KIND_DISPATCH) {
            EXPECT(strcmp(record.name, "_Z4gemmPf.kd"), 0);
            EXPECT(record.end_ns - record.start_ns, record.dispatch_id);
            EXPECT(record.external_id, 4000 + record.correlation_id);
            EXPECT(record.grid[2] == 3 && record.block[1] == 2 && record.stream != 0 && record.node == 5, 1);
        } else if (record.kind == STRANDLINE_KIND_API) {
            EXPECT(strcmp(record.name, "launch"), 0);
            EXPECT(record.end_ns >= record.start_ns, 1);
            EXPECT(record.external_id, 4000 + record.correlation_id);
            EXPECT(record.return_value, -7);
            EXPECT(record.bytes, 77);
        } else if (record.kind == STRANDLINE_KIND_EXTERNAL) {
            EXPECT(record.external_domain >= 1 && record.external_domain < STRANDLINE_EXTERNAL_DOMAINS, 1);
            EXPECT(record.external_id, 4000 + 1000 * record.external_domain + record.correlation_id);
            domains[record.external_domain]++;
        } else if (record.kind == STRANDLINE_KIND_RANGE || record.kind == STRANDLINE_KIND_MARK) {
            EXPECT(record.name_bytes, strlen(record.name));
        } else if (record.kind == STRANDLINE_KIND_RANGE_START) {
            EXPECT(record.range_id, 42);
        }
    }
    EXPECT(kinds[STRANDLINE_KIND_API], 100);
    EXPECT(kinds[STRANDLINE_KIND_ENQUEUE], 100);
    EXPECT(kinds[STRANDLINE_KIND_DISPATCH], 100);
    EXPECT(kinds[STRANDLINE_KIND_EXTERNAL], 300);
    for (uint32_t domain = 1; domain < STRANDLINE_EXTERNAL_DOMAINS; domain++) EXPECT(domains[domain], 100);
    EXPECT(kinds[STRANDLINE_KIND_COPY], 1);
    EXPECT(kinds[STRANDLINE_KIND_ALLOC], 1);
    EXPECT(kinds[STRANDLINE_KIND_MARK], 1);
    /* One range is closed, one was open at stop. */
    EXPECT(kinds[STRANDLINE_KIND_RANGE], 2);
    EXPECT(kinds[STRANDLINE_KIND_RANGE_START], 1);
    EXPECT(kinds[STRANDLINE_KIND_RANGE_STOP], 1);
    uint64_t all = 0;
    EXPECT(strandline_cursor_count(cursor, &all), STRANDLINE_OK);
    EXPECT(all, count);
    EXPECT(strandline_cursor_rewind(cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_next(cursor, &record), STRANDLINE_OK);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_open(trace, STRANDLINE_KIND_BIT(STRANDLINE_KIND_COPY), 0, &cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_count(cursor, &all), STRANDLINE_OK);
    EXPECT(all, 1);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    char out[4096], json[4096];
    snprintf(out, sizeof out, "%s/roundtrip.slt", argv[1]);
    snprintf(json, sizeof json, "%s/roundtrip.json", argv[1]);
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.out = out;
    settings.source_name = "roundtrip (simulation)";
    settings.flags = STRANDLINE_SETTINGS_SIMULATED | STRANDLINE_SETTINGS_RANK;
    settings.rank = 3;
    settings.budget_bytes = 64 << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);

    strandline_agent agent;
    STRANDLINE_INIT(&agent);
    agent.handle = 9;
    agent.kind = 2;
    agent.name = "gfx942";
    agent.memory_bytes = UINT64_C(1) << 37;
    for (int i = 0; i < 16; i++) agent.uuid[i] = (uint8_t)i;
    EXPECT(strandline_declare_agent(&agent), STRANDLINE_OK);
    EXPECT(strandline_declare_queue(0, 9), STRANDLINE_OK);
    strandline_kernel kernel;
    STRANDLINE_INIT(&kernel);
    kernel.kernel_id = 5;
    /* The name's memory is gone right after the call. */
    char *name = strdup("_Z4gemmPf.kd");
    kernel.name = name;
    kernel.vgpr_count = 128;
    EXPECT(strandline_declare_kernel(&kernel), STRANDLINE_OK);
    memset(name, 0xdd, strlen(name));
    free(name);
    uint32_t stream = 0, same = 0;
    EXPECT(strandline_declare_stream(UINT64_C(0x7f0000000100), STRANDLINE_STREAM_CREATED, 0, &stream), STRANDLINE_OK);
    EXPECT(strandline_declare_stream(UINT64_C(0x7f0000000100), STRANDLINE_STREAM_SEEN, 0, &same), STRANDLINE_OK);
    EXPECT(stream == same && stream != 0, 1);
    EXPECT(strandline_label(STRANDLINE_LABEL_STREAM, stream, "compute"), STRANDLINE_OK);
    EXPECT(strandline_declare_operation(STRANDLINE_DOMAIN_USER, 1, "launch"), STRANDLINE_OK);
    EXPECT(strandline_metadata("model", "x"), STRANDLINE_OK);
    EXPECT(strandline_metadata("model", "\"llama\"\n"), STRANDLINE_OK);

    uint64_t session, token;
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    EXPECT(strandline_range_push("stays open"), STRANDLINE_OK);
    EXPECT(strandline_range_push("closed"), STRANDLINE_OK);
    EXPECT(strandline_range_pop(), STRANDLINE_OK);
    EXPECT(strandline_mark("here"), STRANDLINE_OK);
    EXPECT(strandline_range_start(42, "by id"), STRANDLINE_OK);
    EXPECT(strandline_range_stop(42), STRANDLINE_OK);
    /* Completed in the reverse order: the cursor puts them right. */
    static uint64_t tokens[101];
    static strandline_dispatch work[101];
    for (uint64_t id = 1; id <= 100; id++) {
        for (uint32_t domain = 0; domain < STRANDLINE_EXTERNAL_DOMAINS; domain++)
            EXPECT(strandline_external_push(domain, 4000 + 1000 * domain + id), STRANDLINE_OK);
        const uint64_t arguments[8] = {STRANDLINE_ARG_BYTES, 77};
        strandline_api call;
        STRANDLINE_INIT(&call);
        call.correlation_id = id;
        call.domain = STRANDLINE_DOMAIN_USER;
        call.operation = 1;
        call.stream = stream;
        call.return_value = -7;
        call.arguments = arguments;
        EXPECT(strandline_api_enter(&call, &token), STRANDLINE_OK);
        strandline_dispatch *dispatch = &work[id];
        STRANDLINE_INIT(dispatch);
        dispatch->correlation_id = dispatch->dispatch_id = id;
        dispatch->kernel_id = 5;
        dispatch->agent = 9;
        dispatch->grid[2] = 3;
        dispatch->block[1] = 2;
        dispatch->node = 5;
        dispatch->start_ns = strandline_now_ns();
        dispatch->end_ns = dispatch->start_ns + id;
        EXPECT(strandline_dispatch_issue(dispatch, &tokens[id]), STRANDLINE_OK);
        EXPECT(strandline_api_exit(token, &call), STRANDLINE_OK);
        for (uint32_t domain = 0; domain < STRANDLINE_EXTERNAL_DOMAINS; domain++) {
            uint64_t popped = 0;
            EXPECT(strandline_external_pop(domain, &popped), STRANDLINE_OK);
            EXPECT(popped, 4000 + 1000 * domain + id);
        }
    }
    for (uint64_t id = 100; id >= 1; id--) EXPECT(strandline_dispatch_done(tokens[id], &work[id]), STRANDLINE_OK);
    strandline_copy copy;
    STRANDLINE_INIT(&copy);
    copy.correlation_id = 200;
    copy.bytes = 4096;
    copy.operation = 2;
    copy.start_ns = strandline_now_ns();
    copy.end_ns = copy.start_ns + 1;
    EXPECT(strandline_copy_issue(&copy, &token), STRANDLINE_OK);
    EXPECT(strandline_copy_done(token, &copy), STRANDLINE_OK);
    strandline_memory memory;
    STRANDLINE_INIT(&memory);
    memory.bytes = 1 << 20;
    memory.operation = 1;
    memory.start_ns = strandline_now_ns();
    memory.end_ns = memory.start_ns + 1;
    EXPECT(strandline_alloc_done(&memory), STRANDLINE_OK);
    strandline_stop_result result;
    STRANDLINE_INIT(&result);
    EXPECT(strandline_session_stop(session, 1000000000, &result), STRANDLINE_OK);
    EXPECT(result.verdict, STRANDLINE_VERDICT_COMPLETE);
    strandline_trace *trace;
    EXPECT(strandline_trace_live(&trace), STRANDLINE_OK);
    read_back(trace);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    EXPECT(strandline_trace_open(out, &trace), STRANDLINE_OK);
    read_back(trace);
    EXPECT(strandline_trace_export(trace, 1, json), STRANDLINE_OK);
    EXPECT(strandline_trace_export(trace, 1, json), STRANDLINE_OUTPUT_EXISTS);
    EXPECT(strandline_trace_export(trace, 9, json), STRANDLINE_NO_SUCH_SESSION);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    snprintf(json, sizeof json, "%s/snapshot.slt", argv[1]);
    EXPECT(strandline_snapshot(json), STRANDLINE_OK);
    EXPECT(strandline_snapshot(json), STRANDLINE_OUTPUT_EXISTS);
    EXPECT(strandline_trace_open(json, &trace), STRANDLINE_OK);
    read_back(trace);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
    EXPECT(strandline_session_release(session, NULL), STRANDLINE_OK);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    return failed() != 0;
}
