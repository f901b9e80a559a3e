/* Goal: the library loaded twice, and under two versions, in one process: each keeps its own runtime, and a call goes to the
 * library that it was linked to. Prints "ok".
 * Usage: twice COPY OTHER PLUGIN FOLDER. COPY: the same library under another name. OTHER: one with another soname and symbol
 * version. PLUGIN: a shared library that is linked to OTHER and defines `plugin_marks`. This program is linked to the first. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>
#include <strandline.h>
#include <unistd.h>

#include "check.h"

#define FIND(library, name) ((__typeof__(&name))dlsym(library, #name))

static uint64_t marks(const char *path) {
    strandline_trace *trace = NULL;
    strandline_cursor *cursor = NULL;
    uint64_t count = 0;
    EXPECT(strandline_trace_open(path, &trace), STRANDLINE_OK);
    EXPECT(strandline_cursor_open(trace, STRANDLINE_KIND_BIT(STRANDLINE_KIND_MARK), 0, &cursor), STRANDLINE_OK);
    EXPECT(strandline_cursor_count(cursor, &count), STRANDLINE_OK);
    strandline_cursor_close(cursor);
    strandline_trace_close(trace);
    return count;
}

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    char out[3][4096];
    for (int i = 0; i < 3; i++) snprintf(out[i], sizeof out[i], "%s/%d.slt", argv[4], i);
    strandline_settings settings;
    STRANDLINE_INIT(&settings);
    settings.budget_bytes = 8 << 20;

    /* RTLD_GLOBAL: what another library defines is offered to everybody, and must change nothing. */
    void *copy = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    void *other = dlopen(argv[2], RTLD_NOW | RTLD_GLOBAL);
    void *plugin = dlopen(argv[3], RTLD_NOW);
    if (!copy || !other || !plugin) {
        printf("%s\n", dlerror());
        return 1;
    }
    EXPECT(FIND(copy, strandline_init) != &strandline_init, 1);
    EXPECT(FIND(other, strandline_init) != &strandline_init, 1);

    uint64_t session;
    settings.out = out[0];
    EXPECT(strandline_init(&settings), STRANDLINE_OK);
    EXPECT(strandline_session_start(&session), STRANDLINE_OK);
    EXPECT(FIND(copy, strandline_status)(), STRANDLINE_NOT_READY);
    EXPECT(FIND(other, strandline_status)(), STRANDLINE_NOT_READY);

    settings.out = out[1];
    EXPECT(FIND(copy, strandline_init)(&settings), STRANDLINE_OK);
    EXPECT(**FIND(copy, strandline_session_word), 0);
    EXPECT(STRANDLINE_HAS_SESSION(), 1);
    EXPECT(FIND(copy, strandline_session_start)(&session), STRANDLINE_OK);

    settings.out = out[2];
    int32_t (*plugin_marks)(const strandline_settings *, int) = (int32_t (*)(const strandline_settings *, int))dlsym(plugin, "plugin_marks");
    EXPECT(plugin_marks(&settings, 3), STRANDLINE_OK);
    for (int i = 0; i < 2; i++) EXPECT(FIND(copy, strandline_mark)("copy"), STRANDLINE_OK);
    EXPECT(strandline_mark("own"), STRANDLINE_OK);

    /* Closing and unloading one of them changes nothing for the others. It stays mapped: a callback may still come. */
    EXPECT(dlclose(copy), 0);
    EXPECT(strandline_mark("own"), STRANDLINE_OK);
    EXPECT(strandline_mark("own"), STRANDLINE_OK);
    EXPECT(strandline_mark("own"), STRANDLINE_OK);
    EXPECT(marks(out[0]), 4);
    EXPECT(marks(out[1]), 2);
    EXPECT(marks(out[2]), 3);
    printf(failed() ? "%d failures\n" : "ok\n", failed());
    fflush(stdout);
    return failed() != 0;
}
