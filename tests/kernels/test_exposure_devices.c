/* Frames that a CUDA device exposes equal the CPU's, but for counts that the rounding of the expectation decides; times
 * both. */
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
#include "kernels/exposure/exposure.h"
#include "tests/kernels/devices.h"

/* Runs three frames of one shape; counts: [ny][nx] of the last. */
static void run(const struct exposure_task *task, const float *canvas, const float *response,
                const struct exposure_shift *shift, uint16_t *counts, double *ret_seconds) {
    struct err err = {0};
    struct exposure *exposure = NULL;
    must(exposure_create(task, &exposure, &err), &err);
    must(exposure_take(exposure, canvas, response, &err), &err);
    for (uint64_t round = 0; round < 3; round++) {
        /* The first frame does not dome, so that the second needs room for more tiles. */
        const struct exposure_shift whole = {.x = shift->x, .y = shift->y};
        double start = clock_monotonic();
        must(exposure_run(exposure, round == 0 ? &whole : shift, 7 + (round << 40), counts, &err), &err);
        *ret_seconds = clock_monotonic() - start;
    }
    exposure_destroy(&exposure);
}

static void the_devices_agree(void **state) {
    (void)state;
    static const struct {
        int nx, ny;
        double mean;
    } cases[] = {{4096, 4096, 1}, {5760, 4092, 0.7}, {250, 186, 0.05}, {333, 512, 30}, {301, 100, 500}};
    enum { MARGIN = 30 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct exposure_task task = {
            .nx = cases[i].nx, .ny = cases[i].ny, .margin_x = MARGIN, .margin_y = MARGIN + 3, .threads = 8};
        size_t pixels = (size_t)task.nx * (size_t)task.ny, differ = 0;
        size_t room = (size_t)(task.nx + 2 * task.margin_x) * (size_t)(task.ny + 2 * task.margin_y);
        _cleanup_(mem_free) float *canvas = host_new(room, sizeof *canvas);
        _cleanup_(mem_free) float *response = host_new(pixels, sizeof *response);
        _cleanup_(mem_free) uint16_t *cpu = host_new(pixels, sizeof *cpu);
        _cleanup_(mem_free) uint16_t *cuda = host_new(pixels, sizeof *cuda);
        for (size_t k = 0; k < room; k++)
            canvas[k] = (float)(cases[i].mean * (0.5 + uniform()));
        for (size_t k = 0; k < pixels; k++)
            response[k] = k % 997 == 0 ? 0 : k % 1009 == 0 ? 20 : 1;
        struct exposure_shift shift = {.x = 9 * uniform() - 4, .y = 9 * uniform() - 4};
        for (int axis = 0; axis < 2; axis++)
            for (int term = 0; term < EXPOSURE_TERMS; term++)
                shift.local[axis][term] = 2 * uniform() - 1;
        memset(cuda, 0xff, pixels * sizeof *cuda);
        double cpu_seconds = 0, cuda_seconds = 0;
        run(&task, canvas, response, &shift, cpu, &cpu_seconds);
        task.device.kind = DEVICE_CUDA;
        run(&task, canvas, response, &shift, cuda, &cuda_seconds);
        for (size_t k = 0; k < pixels; k++) {
            differ += cpu[k] != cuda[k];
            if (abs(cpu[k] - cuda[k]) > 1) fail_msg("pixel %zu: %d on the CPU, %d on the device", k, cpu[k], cuda[k]);
        }
        /* A rounding of 1e-6 of the expectation moves the edge between two counts by as much: one pixel in a million
         * times the expectation's root, and ten times that for the series of many counts. */
        print_message("%d × %d px, %g electrons: %zu counts differ; CPU %.1f ms, CUDA %.2f ms\n", task.nx, task.ny,
                      cases[i].mean, differ, 1e3 * cpu_seconds, 1e3 * cuda_seconds);
        assert_true((double)differ <= 3 + 3e-4 * (double)pixels);
    }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_devices_agree)};
    int code = no_device();
    if (code != 0) return code;
    choose_seed(argc > 1 ? argv[1] : "1");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
