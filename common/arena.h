/* Manages memory of a device as a stack (paper "A faster, steadier RELION", stack-based memory manager). The arena
 * takes one piece of memory at its start. It hands memory out upwards and takes it back in the reverse order, so free
 * memory is always one block and nothing fragments. Four scopes lie inside each other; they live as long as the run,
 * the iteration, a batch of particles, a batch of orientations. Memory comes from the innermost open scope, and closing
 * a scope gives back all that was taken in it.
 *
 * Kernels run later than the host queues them. Memory of a closed scope may be taken again only by work on the same
 * stream, which keeps its order, or after the host has waited for that stream.
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

/* Makes an arena of `bytes`; the run's scope is open. */
enum status arena_create(const struct device *device, size_t bytes, struct arena **ret_arena, struct err *err);
/* Frees the arena and its piece of memory; accepts NULL. */
void arena_destroy(struct arena **arena);

/* Opens a scope. STATUS_BAD_STATE when the scope does not lie inside the innermost open scope. */
enum status arena_open(struct arena *arena, enum arena_scope scope, struct err *err);
/* Closes a scope and the scopes inside it; the top returns to where it was when the scope was opened. */
void arena_close(struct arena *arena, enum arena_scope scope);

/* Closes all scopes, and gives back what was taken in the run's scope too. */
void arena_reset(struct arena *arena);

/* Takes count × size bytes of the device, not zeroed, aligned to ARENA_ALIGNMENT. STATUS_NO_MEMORY when they are not
 * left: the message names the purpose, the size, and what is left. */
enum status arena_take(struct arena *arena, size_t count, size_t size, const char *what, void *ret_pointer,
                       struct err *err);

/* Takes bytes from the far end of the piece, for as long as the arena lives: no scope holds them, a reset leaves them,
 * and the capacity shrinks by them. Each piece lies right below the one that was kept before. STATUS_NO_MEMORY when
 * they are not left. */
enum status arena_keep(struct arena *arena, size_t bytes, const char *what, void *ret_pointer, struct err *err);

/* Returns the capacity, without the bytes that are kept. */
size_t arena_capacity(const struct arena *arena);
/* Returns how many bytes are taken from the beginning of the piece. */
size_t arena_top(const struct arena *arena);
/* Returns how many bytes arena_take could still hand out. */
static inline size_t arena_left(const struct arena *arena) {
    return arena_capacity(arena) - arena_top(arena);
}
/* Returns what arena_take would use, for plans made before anything is taken. */
static inline size_t arena_need(size_t count, size_t size) {
    return (count * size + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}
/* Returns the highest top while this scope was the innermost one. */
size_t arena_peak(const struct arena *arena, enum arena_scope scope);

/* Records the top after each operation, for pictures and tests. The caller owns `steps`, which has room for the first
 * `capacity` operations. steps NULL: stops recording. */
enum arena_operation { ARENA_OPEN, ARENA_TAKE, ARENA_CLOSE };
struct arena_step {
    enum arena_operation operation;
    enum arena_scope scope; /* the scope that was opened, closed or taken from */
    const char *what;       /* the name given to arena_take; else NULL */
    size_t top;
};
void arena_trace(struct arena *arena, struct arena_step *steps, size_t capacity);
/* Returns how many operations there were; more than `capacity` when some were not recorded. */
size_t arena_trace_count(const struct arena *arena);
/* Returns "run", "iteration", "particles" or "orientations". */
const char *arena_scope_name(enum arena_scope scope);

#ifdef __cplusplus
}
#endif
#endif
