/* For the test programs: counts what is not as expected, and says where. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>

static int failures;

#define EXPECT(call, expected)                                                                                           \
    do {                                                                                                                 \
        long long got_ = (long long)(call);                                                                              \
        if (got_ != (long long)(expected)) {                                                                             \
            failures++;                                                                                                  \
            if (failures <= 20) printf("%s:%d: %s: %lld, expected %lld\n", __FILE__, __LINE__, #call, got_, (long long)(expected));          \
        }                                                                                                                \
    } while (0)

#endif
