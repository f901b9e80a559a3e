/* For twice.c: linked to another version of the library than the program. */
#include <strandline.h>

int32_t plugin_marks(const strandline_settings *settings, int count);

int32_t plugin_marks(const strandline_settings *settings, int count) {
    uint64_t session;
    int32_t status = strandline_init(settings);
    if (status == STRANDLINE_OK) status = strandline_session_start(&session);
    for (int i = 0; status == STRANDLINE_OK && i < count; i++) status = strandline_mark("plugin");
    return status;
}
