/* The CUDA periodogram equals the CPU's, and times both. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/ctf_fit/ctf_fit.h"
#include "kernels/periodogram/periodogram.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/spectrum_cases.h"

/* cells: room for those of all tiles. */
static void run(const struct periodogram_task *task, const float *image, float *power, float *cells, size_t cell_count,
                double *ret_seconds) {
    struct err err = {0};
    struct periodogram *periodogram = NULL;
    if (periodogram_create(task, &periodogram, &err) != STATUS_OK) fail_msg("%s", err.message);
    for (int round = 0; round < 3; round++) {
        double start = clock_monotonic();
        if (periodogram_run(periodogram, image, NULL, power, &err) != STATUS_OK) fail_msg("%s", err.message);
        *ret_seconds = clock_monotonic() - start;
    }
    memcpy(cells, periodogram_cells(periodogram), cell_count * sizeof *cells);
    periodogram_destroy(&periodogram);
}

static void the_devices_agree(void **state) {
    (void)state;
    static const struct {
        int nx, ny, box;
    } cases[] = {{4096, 4096, 1024}, {1240, 1200, 672}, {300, 221, 64}, {512, 512, 512}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct periodogram_task task = {
            .nx = cases[i].nx, .ny = cases[i].ny, .box = cases[i].box, .threads = 8, .tiles = true};
        size_t pixels = (size_t)task.nx * (size_t)task.ny, half = (size_t)task.box * (size_t)(task.box / 2 + 1);
        _cleanup_(mem_free) float *image = malloc(pixels * sizeof *image);
        _cleanup_(mem_free) float *cpu = malloc(half * sizeof *cpu), *cuda = malloc(half * sizeof *cuda);
        size_t tiles = (size_t)periodogram_tiles(task.nx, task.box) * (size_t)periodogram_tiles(task.ny, task.box);
        size_t cells = tiles * PERIODOGRAM_SECTORS * (size_t)(task.box / 2);
        _cleanup_(mem_free) float *cpu_cells = malloc(cells * sizeof *cpu_cells);
        _cleanup_(mem_free) float *cuda_cells = malloc(cells * sizeof *cuda_cells);
        assert_true(cpu_cells != NULL && cuda_cells != NULL);
        assert_true(image != NULL && cpu != NULL && cuda != NULL);
        for (size_t k = 0; k < pixels; k++)
            image[k] = spectrum_noise() + (k % (size_t)task.nx < (size_t)task.nx / 4 ? 0 : 500);
        for (size_t k = 0; k < (size_t)task.nx * (size_t)task.ny / 3; k++)
            image[k] = 3; /* tiles without variance */
        memset(cuda, 0xff, half * sizeof *cuda);
        double cpu_seconds = 0, cuda_seconds = 0, worst = 0, worst_cell = 0;
        run(&task, image, cpu, cpu_cells, cells, &cpu_seconds);
        task.device.kind = DEVICE_CUDA;
        run(&task, image, cuda, cuda_cells, cells, &cuda_seconds);
        for (size_t k = 0; k < half; k++)
            worst = fmax(worst, fabs((double)(cpu[k] - cuda[k])) / (double)(cpu[k] + 0.05f));
        for (size_t k = 0; k < cells; k++)
            worst_cell =
                fmax(worst_cell, fabs((double)(cpu_cells[k] - cuda_cells[k])) / (double)(cpu_cells[k] + 0.05f));
        print_message("%d × %d px, tiles of %d: worst difference %.1e, of a cell %.1e; CPU %.1f ms, CUDA %.2f ms\n",
                      task.nx, task.ny, task.box, worst, worst_cell, 1e3 * cpu_seconds, 1e3 * cuda_seconds);
        /* A tile across the edge of 500 deviations rounds each of its cells by 1e-3 (float transforms against double). */
        assert_true(worst < 2e-3 && worst_cell < 1e-2);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_devices_agree)};
    int code = no_device();
    if (code != 0) return code;
    choose_seed(argc > 1 ? argv[1] : NULL);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
