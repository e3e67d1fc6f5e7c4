/* Tests that transforms fail with STATUS_NO_MEMORY where memory ends: FFTW by itself would end the process. Each case runs
 * in a child whose address space is limited to a little more than it has. Sanitizers reserve terabytes of addresses, so
 * that they leave this test out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/fft.h"
#include "common/machine_memory.h"
#include "common/memory.h"
#include "tests/common/scratch.h"

enum { MADE = 0, REFUSED = 1, WRONG = 2, PIECES = 4096 };

static const struct fft_options CASES[] = {
    {.rank = 2, .shape = {1024, 1024}, .direction = FFT_FORWARD},
    {.rank = 2, .shape = {1024, 1024}, .direction = FFT_INVERSE, .measure = true},
    {.rank = 3, .shape = {96, 96, 96}, .direction = FFT_FORWARD},
    {.rank = 1, .shape = {1 << 18}, .direction = FFT_COMPLEX},
    {.rank = 2, .shape = {1009, 1013}, .direction = FFT_FORWARD}, /* primes */
    {.rank = 1, .shape = {262147}, .direction = FFT_COMPLEX},     /* a large prime, by Bluestein's or Rader's method */
    {.rank = 1, .shape = {64}, .batch = 4096, .direction = FFT_INVERSE},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

/* Makes a plan, takes what memory is left in large pieces, as a stage's buffers do, and runs the plan. */
static int make_and_run(const struct fft_options *options) {
    static void *pieces[PIECES];
    struct fft_plan *plan = NULL;
    struct err err = {0};
    float *in = NULL, *out = NULL;
    size_t batch = options->batch > 0 ? (size_t)options->batch : 1;
    enum status status = fft_create(options, &plan, &err);
    if (status != STATUS_OK) return status == STATUS_NO_MEMORY ? REFUSED : WRONG;
    size_t floats = batch * (fft_real_count(plan) + fft_complex_floats(plan));
    status = mem_new(floats, sizeof *in, "reals", &in, &err);
    if (status == STATUS_OK) status = mem_new(floats, sizeof *out, "complex values", &out, &err);
    if (status != STATUS_OK) return status == STATUS_NO_MEMORY ? REFUSED : WRONG;
    for (size_t size = (size_t)64 << 20, i = 0; size >= MEM_LARGE && i < PIECES; i++)
        if (mem_new_unset(1, size, "all that is left", &pieces[i], NULL) != STATUS_OK) size /= 2;
    fft_run(plan, in, options->direction == FFT_COMPLEX ? in : out);
    fft_destroy(&plan);
    return MADE;
}

static int in_child(const struct fft_options *options, size_t more) {
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        struct machine_memory m = machine_memory_read("");
        struct rlimit limit = {.rlim_cur = m.address_used + more, .rlim_max = m.address_used + more};
        _exit(setrlimit(RLIMIT_AS, &limit) == 0 ? make_and_run(options) : WRONG);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status)) fail_msg("with %zu more bytes: signal %d", more, WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void transforms_never_end_the_process(void **state) {
    (void)state;
    for (int i = 0; i < CASE_COUNT; i++) {
        int made = 0, refused = 0;
        for (size_t more = 1 << 20; more < (size_t)200 << 20; more += (more < (size_t)80 << 20 ? 2 : 20) << 20) {
            int result = in_child(&CASES[i], more);
            if (result != MADE && result != REFUSED) fail_msg("case %d, %zu more bytes: exit %d", i, more, result);
            made += result == MADE;
            refused += result == REFUSED;
        }
        /* The limits were neither all too low nor all too high. */
        assert_true(made > 0);
        assert_true(refused > 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(transforms_never_end_the_process)};
    return scratch_run("fft-memory", tests, sizeof tests / sizeof *tests);
}
