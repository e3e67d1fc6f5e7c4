/* What tests of kernels on a CUDA device share: memory of the device from an arena, poisoned outputs. */
#ifndef ICESTREAM_TESTS_KERNELS_DEVICES_H
#define ICESTREAM_TESTS_KERNELS_DEVICES_H

#include <string.h>

#include "common/arena.h"
#include "common/device.h"
#include "tests/kernels/chance.h"

static const struct device DEVICE = {DEVICE_CUDA, 0};
static struct arena *arena;

/* Memory of the device that holds what the host's does, or NaNs. */
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
