/* Times the picking of one micrograph beside its floor: the inverse transforms, templates × rotations of them, spread
 * over the threads. bench_picker [SIZE PIXEL_SIZE TEMPLATES THREADS]: by default two micrographs of the usual sizes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/fft.h"
#include "common/memory.h"
#include "stages/lowpass-picker/choose.h"
#include "stages/lowpass-picker/lowpass_picker.h"

enum { BOX = 64, REPEATS = 3, CHOICES = 30 };

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the time (s) of one inverse transform on one thread, the best of many. */
static double transform_time(int work) {
    struct fft_plan *plan = NULL;
    struct fft_options options = {.rank = 2, .shape = {work, work}, .direction = FFT_INVERSE};
    float *in = mem_aligned((size_t)work * (work + 2), sizeof *in),
          *out = mem_aligned((size_t)work * work, sizeof *out);
    double best = INFINITY;
    if (in && out && fft_create(&options, &plan, NULL) == STATUS_OK)
        for (int i = 0; i < 20; i++) {
            double start = now();
            fft_run(plan, in, out);
            best = fmin(best, now() - start);
        }
    fft_destroy(&plan);
    free(in);
    free(out);
    return best;
}

static int bench(int size, double pixel_size, int templates, int threads) {
    float *stack = mem_aligned((size_t)templates * BOX * BOX, sizeof *stack);
    float *micrograph = mem_aligned((size_t)size * size, sizeof *micrograph);
    if (!stack || !micrograph) return 1;
    for (int i = 0; i < templates * BOX * BOX; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2;
        stack[i] = (float)exp(-(x * x + (2 + i / (BOX * BOX)) * y * y) / 200);
    }
    for (int i = 0; i < size * size; i++)
        micrograph[i] = (float)rand() / (float)RAND_MAX;
    struct lowpass_picker_options options = {.diameter = 130, .lowpass = 20, .angle_step = 5, .invert = true};
    struct lowpass_picker_task task = {.options = &options,
                                       .method = PICKER_TEMPLATE,
                                       .nx = size,
                                       .ny = size,
                                       .pixel_size = pixel_size,
                                       .threads = threads};
    struct pick_rules rules = {.threshold = NAN,
                               .min_distance = NAN,
                               .max_stddev_noise = NAN,
                               .mask_contamination = true,
                               .contamination_threshold = CONTAMINATION_THRESHOLD};
    struct search_input input = {.host = micrograph};
    struct pick_maps maps = {0};
    struct pick_scratch scratch = {0};
    struct picker_templates set = {.data = stack, .box = BOX, .count = templates, .pixel_size = 3};
    struct lowpass_picker *picker = NULL;
    struct pick_list picks = {0};
    struct err err = {0};
    struct ctf ctf = {.defocus_u = 15000,
                      .defocus_v = 14500,
                      .voltage = 300,
                      .spherical_aberration = 2.7,
                      .amplitude_contrast = 0.1,
                      .scale = 1};
    double start = now(), best = INFINITY;
    enum status status = lowpass_picker_create(&task, &set, &picker, &err);
    double create = now() - start, choice = INFINITY;
    for (int i = 0; i < REPEATS && status == STATUS_OK; i++) {
        start = now();
        status = lowpass_picker_search(picker, &input, &ctf, 1, &maps, &err);
        best = fmin(best, now() - start);
        for (int k = 0; k < CHOICES && status == STATUS_OK; k++) {
            start = now();
            status = pick_choose(&maps, &rules, &scratch, &picks, &err);
            choice = fmin(choice, now() - start);
        }
    }
    if (status == STATUS_OK) {
        const struct pick_geometry *g = &maps.geometry;
        double floor = transform_time(g->work) * templates * g->rotations / threads;
        printf(
            "%5d px %.2f A, %d templates x %d rotations at %d px, %d threads: set up %.3f s, search %.3f s, floor %.3f "
            "s, ratio %.2f, choice %.4f s\n",
            size, pixel_size, templates, g->rotations, g->work, threads, create, best, floor, best / floor, choice);
    } else {
        fprintf(stderr, "%s\n", err.message);
    }
    search_maps_clear(&maps.maps);
    pick_scratch_destroy(&scratch);
    pick_list_destroy(&picks);
    lowpass_picker_destroy(&picker);
    free(stack);
    free(micrograph);
    return status == STATUS_OK ? 0 : 1;
}

int main(int argc, char **argv) {
    if (argc == 5) return bench(atoi(argv[1]), atof(argv[2]), atoi(argv[3]), atoi(argv[4]));
    return bench(1240, 1.5, 4, 2) | bench(4096, 1.77, 8, 2);
}
