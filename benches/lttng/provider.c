/* The LTTng peer's append, as a library of its own: a process that does not load it has nothing of LTTng in it. */
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "provider.h"

void strandline_bench_mark(uint64_t producer, uint64_t sequence)
{
    lttng_ust_tracepoint(strandline_bench, mark, producer, sequence);
}
