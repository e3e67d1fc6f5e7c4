#include "common/arena.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/device_private.h"
#include "common/memory.h"

static const size_t CLOSED = SIZE_MAX;

struct arena {
    struct device device;
    char *base;
    size_t capacity, top;
    size_t mark[ARENA_SCOPES]; /* the top when the scope was opened, or CLOSED */
    size_t peak[ARENA_SCOPES];
    struct arena_step *steps;
    size_t step_capacity, step_count;
};

static enum arena_scope innermost(const struct arena *a) {
    int scope = ARENA_SCOPES - 1;
    while (scope > ARENA_RUN && a->mark[scope] == CLOSED)
        scope--;
    return (enum arena_scope)scope;
}

static void record(struct arena *a, enum arena_operation operation, enum arena_scope scope, const char *what) {
    if (a->top > a->peak[scope]) a->peak[scope] = a->top;
    if (a->steps == NULL) return;
    if (a->step_count < a->step_capacity) a->steps[a->step_count] = (struct arena_step){operation, scope, what, a->top};
    a->step_count++;
}

enum status arena_create(const struct device *device, size_t bytes, struct arena **ret_arena, struct err *err) {
    struct arena *a = calloc(1, sizeof *a);
    FAIL_IF(a == NULL, err, STATUS_NO_MEMORY, "no memory for a device's memory");
    a->device = *device;
    a->capacity = bytes / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    for (int scope = ARENA_RUN + 1; scope < ARENA_SCOPES; scope++)
        a->mark[scope] = CLOSED;
    enum status status = STATUS_OK;
    void *base = NULL;
    if (device->kind == DEVICE_CUDA) {
        status = device_cuda_memory_new(device->index, a->capacity, &base, err);
    } else {
        base = aligned_alloc(ARENA_ALIGNMENT, a->capacity);
        if (base == NULL)
            status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory: %zu MiB were asked for",
                             a->capacity >> 20);
    }
    a->base = base;
    if (status != STATUS_OK) {
        free(a);
        return status;
    }
    *ret_arena = a;
    return STATUS_OK;
}

void arena_destroy(struct arena **arena) {
    struct arena *a = *arena;
    if (a == NULL) return;
    if (a->device.kind == DEVICE_CUDA)
        device_cuda_memory_free(a->device.index, a->base);
    else
        free(a->base);
    free(a);
    *arena = NULL;
}

enum status arena_open(struct arena *a, enum arena_scope scope, struct err *err) {
    enum arena_scope open = innermost(a);
    FAIL_IF(scope <= open, err, STATUS_BAD_STATE, "a device's memory: scope %d was opened inside scope %d", (int)scope,
            (int)open);
    a->mark[scope] = a->top;
    record(a, ARENA_OPEN, scope, NULL);
    return STATUS_OK;
}

void arena_close(struct arena *a, enum arena_scope scope) {
    for (int s = ARENA_SCOPES - 1; s >= (int)scope && s > ARENA_RUN; s--) {
        if (a->mark[s] == CLOSED) continue;
        a->top = a->mark[s];
        a->mark[s] = CLOSED;
        record(a, ARENA_CLOSE, (enum arena_scope)s, NULL);
    }
}

void arena_reset(struct arena *a) {
    arena_close(a, ARENA_ITERATION);
    a->top = 0;
    record(a, ARENA_CLOSE, ARENA_RUN, NULL);
}

enum status arena_take(struct arena *a, size_t count, size_t size, const char *what, void *ret_pointer,
                       struct err *err) {
    size_t bytes = 0;
    bool over = __builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - ARENA_ALIGNMENT;
    if (!over) bytes = arena_need(bytes, 1);
    FAIL_IF(over || bytes > a->capacity - a->top, err, STATUS_NO_MEMORY,
            "not enough memory for %s: %zu MiB are needed, %zu of %zu MiB are left", what, bytes >> 20,
            (a->capacity - a->top) >> 20, a->capacity >> 20);
    *(void **)ret_pointer = a->base + a->top;
    a->top += bytes;
    record(a, ARENA_TAKE, innermost(a), what);
    return STATUS_OK;
}

enum status arena_keep(struct arena *a, size_t bytes, const char *what, void *ret_pointer, struct err *err) {
    FAIL_IF(bytes > SIZE_MAX - ARENA_ALIGNMENT || arena_need(bytes, 1) > a->capacity - a->top, err, STATUS_NO_MEMORY,
            "not enough memory for %s: %zu MiB are needed, %zu of %zu MiB are left", what, bytes >> 20,
            (a->capacity - a->top) >> 20, a->capacity >> 20);
    a->capacity -= arena_need(bytes, 1);
    *(void **)ret_pointer = a->base + a->capacity;
    return STATUS_OK;
}

size_t arena_capacity(const struct arena *a) {
    return a->capacity;
}

size_t arena_top(const struct arena *a) {
    return a->top;
}

size_t arena_peak(const struct arena *a, enum arena_scope scope) {
    return a->peak[scope];
}

void arena_trace(struct arena *a, struct arena_step *steps, size_t capacity) {
    a->steps = steps;
    a->step_capacity = steps ? capacity : 0;
    a->step_count = 0;
}

size_t arena_trace_count(const struct arena *a) {
    return a->step_count;
}

const char *arena_scope_name(enum arena_scope scope) {
    static const char *const names[ARENA_SCOPES] = {"run", "iteration", "particles", "orientations"};
    return names[scope];
}
