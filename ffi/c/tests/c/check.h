/* For the test programs: counts what is not as expected, and says where. On any thread, also while the process ends. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>

static int failures;

/* How many so far. */
static inline int failed(void) { return __atomic_load_n(&failures, __ATOMIC_RELAXED); }

#define EXPECT(call, expected)                                                                                           \
    do {                                                                                                                 \
        long long got_ = (long long)(call);                                                                              \
        if (got_ != (long long)(expected)) {                                                                             \
            if (__atomic_add_fetch(&failures, 1, __ATOMIC_RELAXED) <= 20) printf("%s:%d: %s: %lld, expected %lld\n", __FILE__, __LINE__, #call, got_, (long long)(expected));          \
        }                                                                                                                \
    } while (0)

#endif
