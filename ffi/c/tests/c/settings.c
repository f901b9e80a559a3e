/* Goal: what the settings' newer fields say is done, what cannot be is refused, and a program of the first version, whose struct
 * ends before them, gets the defaults whatever lies behind it. Prints "ok".
 * Method: a child for each case, since a process has one runtime; the region's header and the trace's metadata say what came
 * of it. */
#define _GNU_SOURCE

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <strandline.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

enum { FIRST_BYTES = 88, OFFSET_SEGMENT_BYTES = 80, OFFSET_CLOCK = 160 };

static char out[PATH_MAX];

/* A number of the region's header; docs/format.md has the places. */
static uint32_t number(long offset) {
    uint32_t value = UINT32_MAX;
    FILE *file = fopen(out, "rb");
    if (!file) return value;
    if (fseek(file, offset, SEEK_SET) != 0 || fread(&value, sizeof value, 1, file) != 1) value = UINT32_MAX;
    fclose(file);
    return value;
}

/* What the trace says of memory; nothing of what was not asked for. */
static void memory(char *text, size_t bytes) {
    text[0] = 0;
    strandline_trace *trace;
    EXPECT(strandline_trace_open(out, &trace), STRANDLINE_OK);
    strandline_metadata_pair pair;
    STRANDLINE_INIT(&pair);
    for (uint64_t i = 0; strandline_trace_metadata(trace, i, &pair) == STRANDLINE_OK; i++)
        if (strcmp(pair.key, "strandline.memory") == 0) snprintf(text, bytes, "%s", pair.value);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
}

/* Files of this process that have no name. */
static int memfds(void) {
    int count = 0;
    DIR *dir = opendir("/proc/self/fd");
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[PATH_MAX], target[PATH_MAX];
        snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        ssize_t length = readlink(name, target, sizeof target - 1);
        if (length > 0) {
            target[length] = 0;
            count += strncmp(target, "/memfd:strandline", 17) == 0;
        }
    }
    if (dir) closedir(dir);
    return count;
}

static strandline_settings with_out(void) {
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.out = out;
    settings.budget_bytes = 64 << 20;
    return settings;
}

static void defaults(void) {
    strandline_settings settings = with_out();
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 64 << 10);
    char text[1000];
    memory(text, sizeof text);
    EXPECT(strstr(text, "lock") == NULL, 1);
    EXPECT(strstr(text, "huge") == NULL, 1);
    EXPECT(memfds(), 0);
}

static void large_budget(void) {
    strandline_settings settings = with_out();
    settings.budget_bytes = 256 << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 256 << 10);
}

static void first_version(void) {
    strandline_settings settings = with_out();
    memset((char *)&settings + FIRST_BYTES, 0x5a, sizeof settings - FIRST_BYTES);
    settings.size = FIRST_BYTES;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 64 << 10);
    EXPECT(strandline_mark("mark"), STRANDLINE_OK);
}

static void segments_of_a_mebibyte(void) {
    strandline_settings settings = with_out();
    settings.segment_bytes = 1 << 20;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 1 << 20);
    uint64_t session;
    strandline_session end;
    STRANDLINE_INIT(&end);
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    for (int i = 0; i < 40000; i++) EXPECT(strandline_mark("mark"), STRANDLINE_OK);
    EXPECT(strandline_session_stop(session, 1000000000, NULL), STRANDLINE_OK);
    strandline_trace *trace;
    strandline_trace_info info;
    STRANDLINE_INIT(&info);
    EXPECT(strandline_trace_open(out, &trace), STRANDLINE_OK);
    EXPECT(strandline_trace_get_info(trace, &info), STRANDLINE_OK);
    EXPECT(info.damage_count, 0);
    strandline_cursor *cursor;
    strandline_record record;
    STRANDLINE_INIT(&record);
    EXPECT(strandline_cursor_open(trace, 0, 0, &cursor), STRANDLINE_OK);
    int marks = 0;
    while (strandline_cursor_next(cursor, &record) == STRANDLINE_OK) marks += record.kind == STRANDLINE_KIND_MARK;
    EXPECT(marks, 40000);
    EXPECT(strandline_cursor_close(cursor), STRANDLINE_OK);
    EXPECT(strandline_trace_close(trace), STRANDLINE_OK);
}

static void of_the_environment(void) {
    setenv("STRANDLINE_SEGMENT", "128K", 1);
    setenv("STRANDLINE_LOCK", "on", 1);
    setenv("STRANDLINE_BACKING", "memfd", 1);
    strandline_settings settings = with_out();
    settings.backing = 1;
    settings.lock = 2;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 128 << 10);
    char text[1000];
    memory(text, sizeof text);
    EXPECT(strstr(text, "lock") == NULL, 1);
    EXPECT(strstr(text, "huge") == NULL, 1);
    EXPECT(memfds(), 0);
}

static void over_the_environment(void) {
    setenv("STRANDLINE_SEGMENT", "1M", 1);
    strandline_settings settings = with_out();
    settings.budget_bytes = 8 << 20;
    /* For the environment's own budget, 512 MiB, that size is right. */
    EXPECT(strandline_init(&settings), STRANDLINE_BAD_SETTING);
    settings.segment_bytes = 512 << 10;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_SEGMENT_BYTES), 512 << 10);
}

static void memory_is_asked_for(void) {
    strandline_settings settings = with_out();
    settings.lock = settings.huge_pages = 1;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    char text[1000];
    memory(text, sizeof text);
    EXPECT(strstr(text, "lock") != NULL, 1);
    EXPECT(strstr(text, "huge") != NULL, 1);
}

static void without_a_name(void) {
    strandline_settings settings = with_out();
    settings.backing = 2;
    settings.mode = 3;
    EXPECT(strandline_init(&settings), STRANDLINE_BAD_SETTING);
    settings.mode = 0;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(memfds(), 1);
    EXPECT(access(out, F_OK), -1);
    EXPECT(strandline_mark("mark"), STRANDLINE_OK);
    EXPECT(strandline_shutdown(), STRANDLINE_OK);
    EXPECT(access(out, F_OK), 0);
}

static void raw_clock(void) {
    strandline_settings settings = with_out();
    settings.clock = 2;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(number(OFFSET_CLOCK), 1);
}

/* Bytes of the file that are backed. */
static long long backed(uint32_t prefault) {
    strandline_settings settings = with_out();
    settings.prefault = prefault;
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    struct stat file;
    EXPECT(stat(out, &file), 0);
    return (long long)file.st_blocks * 512;
}

static void all_memory_at_start(void) { EXPECT(backed(1) >= 64 << 20, 1); }

static void memory_in_steps(void) {
    setenv("STRANDLINE_PREFAULT", "on", 1);
    EXPECT(backed(2) < 48 << 20, 1);
}

static void what_cannot_be(void) {
    static const uint64_t odd[] = {1, 32 << 10, 96 << 10, (64 << 10) + 1, 2 << 20, UINT64_MAX};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        strandline_settings settings = with_out();
        settings.segment_bytes = odd[i];
        EXPECT(strandline_init(&settings), STRANDLINE_INVALID_ARGUMENT);
    }
    strandline_settings few = with_out();
    few.segment_bytes = 1 << 20;
    few.budget_bytes = 15 << 20;
    EXPECT(strandline_init(&few), STRANDLINE_INVALID_ARGUMENT);
    for (int field = 0; field < 6; field++) {
        strandline_settings settings = with_out();
        uint32_t *fields[] = {&settings.prefault, &settings.huge_pages, &settings.lock,
                              &settings.backing,  &settings.clock,      &settings.reserved3};
        *fields[field] = 3;
        EXPECT(strandline_init(&settings), STRANDLINE_INVALID_ARGUMENT);
    }
    EXPECT(access(out, F_OK), -1);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    static const struct {
        const char *name;
        void (*body)(void);
    } cases[] = {
        {"defaults", defaults},
        {"large_budget", large_budget},
        {"first_version", first_version},
        {"segments_of_a_mebibyte", segments_of_a_mebibyte},
        {"of_the_environment", of_the_environment},
        {"over_the_environment", over_the_environment},
        {"memory_is_asked_for", memory_is_asked_for},
        {"without_a_name", without_a_name},
        {"raw_clock", raw_clock},
        {"all_memory_at_start", all_memory_at_start},
        {"memory_in_steps", memory_in_steps},
        {"what_cannot_be", what_cannot_be},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        snprintf(out, sizeof out, "%s/%s.slt", argv[1], cases[i].name);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            cases[i].body();
            if (failed()) printf("%s: %d failures\n", cases[i].name, failed());
            exit(failed() != 0);
        }
        int status = -1;
        EXPECT(waitpid(child, &status, 0), child);
        EXPECT(status, 0);
        if (status != 0) printf("%s: status %d\n", cases[i].name, status);
        unlink(out);
    }
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    fflush(stdout);
    return failed() != 0;
}
