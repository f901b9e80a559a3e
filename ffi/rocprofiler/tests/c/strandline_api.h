/* The session functions of the tool library, as an embedder that looks them up would declare them. */
#pragma once
#include <stdint.h>

typedef struct {
    uint64_t size, verdict, session, issued, recorded, retired_without_record, missing, low_watermark, high_watermark, late,
        lost, waited_ns;
} stop_result;

typedef int32_t (*session_start_fn)(uint64_t *session);
typedef int32_t (*session_stop_fn)(uint64_t session, uint64_t timeout_ns, stop_result *result);
typedef int32_t (*export_fn)(uint64_t session, const char *path);
typedef const char *(*status_string_fn)(int32_t);
