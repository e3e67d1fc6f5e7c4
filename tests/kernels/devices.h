/* Helpers for tests of kernels on a CUDA device: finds a device, copies to and from it, and poisons outputs. */
#ifndef ICESTREAM_TESTS_KERNELS_DEVICES_H
#define ICESTREAM_TESTS_KERNELS_DEVICES_H

#include <string.h>

#include "common/arena.h"
#include "common/device.h"
#include "tests/kernels/chance.h"

static const struct device DEVICE = {DEVICE_CUDA, 0};
static struct arena *arena;

/* Returns the exit code if there is no device: 77, a skipped test. Returns 0 if there is a device. */
static inline int no_device(void) {
    int count = 0;
    struct err err = {0};
    if (device_count(&count, &err) != STATUS_OK) return fprintf(stderr, "%s\n", err.message), 1;
    return count == 0 ? (puts("skipped: no CUDA device"), 77) : 0;
}

/* Checks that every value is within `bound` of the largest; NaN fails. */
static inline void check_values(const char *what, const float *found, const float *expected, size_t count,
                                double bound) {
    double largest = 0, worst = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs((double)expected[i]));
    for (size_t i = 0; i < count; i++) {
        double error = fabs((double)found[i] - (double)expected[i]);
        if (!(error <= bound * largest))
            fail_msg("%s: value %zu is %.9g, expected %.9g (largest %.3g)", what, i, (double)found[i],
                     (double)expected[i], largest);
        worst = fmax(worst, error);
    }
    if (count > 100)
        printf("    %s: off by %.2g of the largest at most (%.2g allowed)\n", what, worst / largest, bound);
}

/* Takes device memory and fills it with the host's values, or with NaNs. */
static inline void *on_device(const void *host, size_t count, size_t size) {
    struct err err = {0};
    void *memory = NULL;
    must(arena_take(arena, count, size, "a test", &memory, &err), &err);
    if (host) {
        must(device_put(&DEVICE, memory, host, count * size, &err), &err);
        return memory;
    }
    void *poison = malloc(count * size);
    assert_non_null(poison);
    memset(poison, 0xff, count * size);
    must(device_put(&DEVICE, memory, poison, count * size, &err), &err);
    free(poison);
    return memory;
}

static inline void from_device(void *host, const void *memory, size_t bytes) {
    struct err err = {0};
    must(device_get(&DEVICE, host, memory, bytes, &err), &err);
}

static inline int open_arena(void **state) {
    (void)state;
    struct err err = {0};
    return arena_create(&DEVICE, (size_t)3 << 30, &arena, &err) == STATUS_OK ? 0 : -1;
}

static inline int close_arena(void **state) {
    (void)state;
    arena_destroy(&arena);
    return 0;
}

#endif
