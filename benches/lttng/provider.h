/* The tracepoint of the LTTng peer: seven words, and the time that the tracer takes itself; as many as a record of one
 * cell has beside its header. LTTng's macros read this file more than once. */
#undef LTTNG_UST_TRACEPOINT_PROVIDER
#define LTTNG_UST_TRACEPOINT_PROVIDER strandline_bench

#undef LTTNG_UST_TRACEPOINT_INCLUDE
#define LTTNG_UST_TRACEPOINT_INCLUDE "./provider.h"

#if !defined(STRANDLINE_BENCH_PROVIDER_H) || defined(LTTNG_UST_TRACEPOINT_HEADER_MULTI_READ)
#define STRANDLINE_BENCH_PROVIDER_H

#include <lttng/tracepoint.h>
#include <stdint.h>

LTTNG_UST_TRACEPOINT_EVENT(
    strandline_bench,
    mark,
    LTTNG_UST_TP_ARGS(uint64_t, producer, uint64_t, sequence),
    LTTNG_UST_TP_FIELDS(
        lttng_ust_field_integer(uint64_t, producer, producer)
        lttng_ust_field_integer(uint64_t, sequence, sequence)
        lttng_ust_field_integer(uint64_t, inverted, ~sequence)
        lttng_ust_field_integer(uint64_t, word4, sequence)
        lttng_ust_field_integer(uint64_t, word5, sequence)
        lttng_ust_field_integer(uint64_t, word6, sequence)
        lttng_ust_field_integer(uint64_t, word7, sequence)
    )
)

#endif

#include <lttng/tracepoint-event.h>
