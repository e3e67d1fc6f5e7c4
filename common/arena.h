/* Memory of a device as a stack (Paper: "A faster, steadier RELION", stack-based memory manager). One piece is taken at
 * the start; memory is handed out upwards and given back in the reverse order, so what is free is always one block and
 * nothing fragments. Four scopes lie inside each other: what lives as long as the run, the iteration, a batch of
 * particles, a batch of orientations. Memory comes from the innermost scope that is open, and closing a scope gives back
 * all that was taken in it.
 *
 * Kernels run behind the host: memory of a closed scope may be taken again only by work on the same stream, which is in
 * order, or after that stream was waited for.
 *
 * One arena belongs to one thread. On the CPU it is plain memory. */
#ifndef ICESTREAM_COMMON_ARENA_H
#define ICESTREAM_COMMON_ARENA_H

#include <stddef.h>
#include <stdint.h>

#include "common/device.h"
#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum arena_scope { ARENA_RUN, ARENA_ITERATION, ARENA_PARTICLES, ARENA_ORIENTATIONS, ARENA_SCOPES };
enum { ARENA_ALIGNMENT = 256 };

struct arena;

/* The run's scope is open. */
enum status arena_create(const struct device *device, size_t bytes, struct arena **ret_arena, struct err *err);
void arena_destroy(struct arena **arena);

/* STATUS_BAD_STATE where scope does not lie inside the innermost one that is open. */
enum status arena_open(struct arena *arena, enum arena_scope scope, struct err *err);
/* Closes it and what is open inside it; the top returns to where it was when it was opened. */
void arena_close(struct arena *arena, enum arena_scope scope);

/* Closes all scopes and gives back what was taken in the run's, too. */
void arena_reset(struct arena *arena);

/* count × size bytes of the device, not zeroed, aligned to ARENA_ALIGNMENT. STATUS_NO_MEMORY where they are not left: the
 * message names what they were for, how much that is and how much there is. */
enum status arena_take(struct arena *arena, size_t count, size_t size, const char *what, void *ret_pointer,
                       struct err *err);

/* bytes from the far end of the piece, for as long as the arena lives: no scope holds them, a reset leaves them, and the
 * capacity is less from then on. What is kept last lies right below what was kept before. STATUS_NO_MEMORY where they are
 * not left. */
enum status arena_keep(struct arena *arena, size_t bytes, const char *what, void *ret_pointer, struct err *err);

/* Without what is kept. */
size_t arena_capacity(const struct arena *arena);
size_t arena_top(const struct arena *arena);
static inline size_t arena_left(const struct arena *arena) {
    return arena_capacity(arena) - arena_top(arena);
}
/* What arena_take would use for it: for plans that are made before anything is taken. */
static inline size_t arena_need(size_t count, size_t size) {
    return (count * size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}
/* The highest the top ever was while this was the innermost scope. */
size_t arena_peak(const struct arena *arena, enum arena_scope scope);

/* Where the top was after each operation, for pictures and tests: room for `capacity` of them, the caller's, of which the
 * first are kept. NULL ends it. */
enum arena_operation { ARENA_OPEN, ARENA_TAKE, ARENA_CLOSE };
struct arena_step {
    enum arena_operation operation;
    enum arena_scope scope; /* opened or closed; or taken from */
    const char *what;       /* taken, as arena_take was given it; else NULL */
    size_t top;
};
void arena_trace(struct arena *arena, struct arena_step *steps, size_t capacity);
/* How many operations there were; more than `capacity` where some were not kept. */
size_t arena_trace_count(const struct arena *arena);
/* "run", "iteration", "particles", "orientations". */
const char *arena_scope_name(enum arena_scope scope);

#ifdef __cplusplus
}
#endif
#endif
