/* Chooses the seed of a test's random numbers. */
#ifndef ICESTREAM_TESTS_KERNELS_SEED_H
#define ICESTREAM_TESTS_KERNELS_SEED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Returns the given seed, else that of ICESTREAM_SEED (tests/run.sh sets it), else another one each time. Prints it. */
static inline uint64_t chosen_seed(const char *given_or_null) {
    const char *text = given_or_null != NULL ? given_or_null : getenv("ICESTREAM_SEED");
    uint64_t chosen = text != NULL ? strtoull(text, NULL, 10) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)chosen);
    return chosen;
}

#endif
