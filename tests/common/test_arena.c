/* Tests memory as a stack, on the host: its scopes, its limit, and the trace of its top (the paper's Figure 9). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/arena.h"

static const struct device CPU = {DEVICE_CPU, 0};
enum { CAPACITY = 64 * 1024, STEPS = 256 };

static int open_arena(void **state) {
    struct arena *arena = NULL;
    if (arena_create(&CPU, CAPACITY, &arena, NULL) != STATUS_OK) return -1;
    *state = arena;
    return 0;
}

static int close_arena(void **state) {
    struct arena *arena = *state;
    arena_destroy(&arena);
    return 0;
}

static char *take(struct arena *a, size_t bytes, const char *what) {
    struct err err = {0};
    char *memory = NULL;
    if (arena_take(a, bytes, 1, what, &memory, &err) != STATUS_OK) fail_msg("%s", err.message);
    memset(memory, 0xff, bytes);
    return memory;
}

static void pieces_are_aligned_and_apart(void **state) {
    char *a = take(*state, 1, "one"), *b = take(*state, 300, "two"), *c = take(*state, 256, "three");
    assert_int_equal((uintptr_t)a % ARENA_ALIGNMENT, 0);
    assert_int_equal(b - a, 256);
    assert_int_equal(c - b, 512);
    assert_int_equal(arena_top(*state), 1024);
    assert_int_equal(arena_need(300, 1), 512);
    assert_int_equal(arena_left(*state), CAPACITY - 1024);
}

static void what_is_kept_outlives_a_reset(void **state) {
    char *low = take(*state, 256, "one"), *first = NULL, *second = NULL, *none = NULL;
    struct err err = {0};
    assert_int_equal(arena_keep(*state, 300, "kept", &first, &err), STATUS_OK);
    assert_int_equal(first - low, CAPACITY - 512);
    assert_int_equal(arena_capacity(*state), CAPACITY - 512);
    memset(first, 7, 512);
    arena_reset(*state);
    assert_int_equal(arena_keep(*state, 512, "more", &second, &err), STATUS_OK);
    assert_int_equal(first - second, 512);
    assert_int_equal(arena_left(*state), CAPACITY - 1024);
    take(*state, CAPACITY - 1024, "the rest");
    for (int i = 0; i < 512; i++)
        assert_int_equal(first[i], 7);
    assert_int_equal(arena_keep(*state, 1, "too much", &none, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "too much"));
}

static void scopes_lie_inside_each_other(void **state) {
    struct err err = {0};
    assert_int_equal(arena_open(*state, ARENA_PARTICLES, &err), STATUS_OK);
    assert_int_equal(arena_open(*state, ARENA_ITERATION, &err), STATUS_BAD_STATE);
    assert_int_equal(arena_open(*state, ARENA_PARTICLES, &err), STATUS_BAD_STATE);
    assert_int_equal(arena_open(*state, ARENA_ORIENTATIONS, &err), STATUS_OK);
    take(*state, 1000, "slices");
    arena_close(*state, ARENA_PARTICLES);
    assert_int_equal(arena_top(*state), 0);
    arena_close(*state, ARENA_PARTICLES);
    assert_int_equal(arena_open(*state, ARENA_ITERATION, &err), STATUS_OK);
}

static void more_than_there_is_is_refused(void **state) {
    struct err err = {0};
    char *memory = (char *)state;
    take(*state, CAPACITY - 1024, "volumes");
    assert_int_equal(arena_take(*state, 2000, 1, "a batch of images", &memory, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "a batch of images"));
    assert_ptr_equal(memory, (char *)state);
    assert_int_equal(arena_take(*state, SIZE_MAX / 2, 4, "too much", &memory, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_take(*state, SIZE_MAX, 1, "too much", &memory, &err), STATUS_NO_MEMORY);
    assert_int_equal(arena_top(*state), CAPACITY - 1024);
    take(*state, 1024, "what is left");
    assert_int_equal(arena_left(*state), 0);
}

/* Uses memory as an iteration of the E-step does: volumes, then batches of particles, each with two batches of
 * orientations. */
static void iterate(struct arena *a, int batches, size_t volumes) {
    struct err err = {0};
    assert_int_equal(arena_open(a, ARENA_ITERATION, &err), STATUS_OK);
    take(a, volumes, "volumes");
    for (int i = 0; i < batches; i++) {
        assert_int_equal(arena_open(a, ARENA_PARTICLES, &err), STATUS_OK);
        take(a, 4000, "spectra");
        for (int k = 0; k < 2; k++) {
            assert_int_equal(arena_open(a, ARENA_ORIENTATIONS, &err), STATUS_OK);
            take(a, 3000, "slices");
            take(a, 1000, "weights");
            arena_close(a, ARENA_ORIENTATIONS);
        }
        arena_close(a, ARENA_PARTICLES);
    }
    arena_close(a, ARENA_ITERATION);
}

/* Checks a trace that begins at `top`. The top rises when memory is taken, falls to where its scope was opened, and
 * stays inside the arena. */
static void check_trace(const struct arena_step *steps, size_t count, size_t top, size_t capacity) {
    size_t mark[ARENA_SCOPES] = {0};
    for (size_t i = 0; i < count; i++) {
        const struct arena_step *s = &steps[i];
        assert_true(s->top <= capacity);
        assert_true((s->what != NULL) == (s->operation == ARENA_TAKE));
        if (s->operation == ARENA_TAKE) assert_true(s->top >= top);
        if (s->operation == ARENA_OPEN) assert_int_equal(s->top, top);
        if (s->operation == ARENA_OPEN) mark[s->scope] = top;
        if (s->operation == ARENA_CLOSE) assert_int_equal(s->top, mark[s->scope]);
        top = s->top;
    }
}

static void trace_shows_batches(void **state) {
    struct arena_step steps[STEPS];
    enum { BATCHES = 3, EACH = 11 }; /* opened, taken, (opened, taken twice, closed) twice, closed */
    take(*state, 500, "tables");
    iterate(*state, 2, 10000);
    arena_trace(*state, steps, STEPS);
    iterate(*state, BATCHES, 20000);
    size_t count = arena_trace_count(*state);
    assert_int_equal(count, 3 + BATCHES * EACH);
    check_trace(steps, count, 512, arena_capacity(*state));
    assert_string_equal(steps[1].what, "volumes");
    assert_int_equal(steps[count - 1].top, 512);
    for (size_t i = 0; i < (BATCHES - 1) * EACH; i++)
        assert_memory_equal(&steps[2 + i], &steps[2 + EACH + i], sizeof *steps);
    assert_int_equal(arena_peak(*state, ARENA_ORIENTATIONS), 512 + 20224 + 4096 + 3072 + 1024);
    assert_int_equal(arena_peak(*state, ARENA_PARTICLES), 512 + 20224 + 4096);
    arena_trace(*state, NULL, 0);
    iterate(*state, 1, 100);
    assert_int_equal(arena_trace_count(*state), 0);
}

static void trace_keeps_the_first(void **state) {
    struct arena_step steps[5];
    memset(steps, 0, sizeof steps);
    steps[4].top = 12345;
    arena_trace(*state, steps, 4);
    iterate(*state, 1, 1000);
    assert_int_equal(arena_trace_count(*state), 14);
    assert_int_equal(steps[3].operation, ARENA_TAKE);
    assert_string_equal(steps[3].what, "spectra");
    assert_string_equal(arena_scope_name(steps[3].scope), "particles");
    assert_int_equal(steps[4].top, 12345);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(pieces_are_aligned_and_apart, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(what_is_kept_outlives_a_reset, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(scopes_lie_inside_each_other, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(more_than_there_is_is_refused, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(trace_shows_batches, open_arena, close_arena),
        cmocka_unit_test_setup_teardown(trace_keeps_the_first, open_arena, close_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
