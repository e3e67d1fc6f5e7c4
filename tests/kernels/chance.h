/* Helpers for tests of kernels: random numbers from a seed, and checks of calls that must not fail. */
#ifndef ICESTREAM_TESTS_KERNELS_CHANCE_H
#define ICESTREAM_TESTS_KERNELS_CHANCE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/memory.h"
#include "tests/kernels/seed.h"

static uint64_t seed;

/* Sets the seed, and prints it. */
static inline void choose_seed(const char *given_or_null) {
    seed = chosen_seed(given_or_null);
}

static inline double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static inline double normal(void) {
    return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static inline void must(enum status status, const struct err *err) {
    if (status != STATUS_OK) fail_msg("%s", err->message);
}

static inline void *host_new(size_t count, size_t size) {
    void *memory = mem_aligned(count, size);
    assert_non_null(memory);
    return memory;
}

#endif
