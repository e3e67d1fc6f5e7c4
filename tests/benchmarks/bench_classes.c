/* Times whole iterations of 2D classification, as at the end of a stream, and small batches, as within one.
 *
 *   bench_classes PARTICLES.star [CLASSES [DEVICE [THREADS [ITERATIONS [DIAMETER]]]]]
 *
 * Prints beside each iteration its M-step (which is included) and the lower bound: images over PCIe at 50 GB/s (a CUDA
 * device), the coarse product at 141 TFLOP/s (3×TF32 of an H200) or at 100 GFLOP/s per thread. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "kernels/sampling/sampling.h"
#include "stages/classifier/classifier.h"
#include "tests/benchmarks/particles.h"

/* Returns the least time (s) that an iteration can take. */
static double floor_of(const struct classifier *c) {
    struct sampling grid;
    const struct classifier_options *o = &c->options;
    const struct model *m = c->model;
    if (sampling_create_plane(o->psi_step, o->offset_range, o->offset_step, &grid, NULL) != STATUS_OK) return 0;
    double box = m->options.box, n = (double)dataset_count(c->dataset);
    double size = fmin(m->size, 2 * ceil(box * 1.5 / (M_PI * 2 * m->options.mask_radius * grid.psi_step / 360)));
    double samples = (double)m->class_count * sampling_orientation_count(&grid) * grid.shift_count;
    double operations = n * samples * 4 * M_PI / 8 * size * size;
    sampling_destroy(&grid);
    bool cuda = o->device.kind == DEVICE_CUDA;
    return operations / (cuda ? 141e12 : 1e11 * o->threads) + (cuda ? n * box * box * 4 / 50e9 : 0);
}

static enum status iterate(struct classifier *c, int iterations, struct err *err) {
    struct classifier_progress progress = {.more = true};
    printf("| iteration | classes | size, px | ms | device, ms | at work | M-step, ms | floor, ms | of it | changed "
           "|\n|---|---|---|---|---|---|---|---|---|---|\n");
    double began = clock_monotonic(), device = 0, device_before = 0;
    for (int i = 0; i < iterations && progress.more;) {
        int size = c->model != NULL ? c->model->size : 0;
        double least = c->model != NULL ? floor_of(c) : 0;
        TRY(classifier_step(c, true, &progress, err));
        if (!progress.updated && c->updates == 0 && c->batch_count == 0) {
            printf("| seeds | %d | %d | %.1f | | | | | | |\n", c->model->class_count, c->model->size,
                   1e3 * (clock_monotonic() - began));
            began = clock_monotonic();
        }
        if (!progress.updated) continue;
        double seconds = clock_monotonic() - began;
        TRY(estep_device_seconds(c->estep, &device, err));
        int after = c->model->size;
        began = clock_monotonic();
        TRY(model_maximise(c->model, err));
        double mstep = clock_monotonic() - began;
        c->model->size = after;
        printf("| %d | %d | %d | %.2f | %.2f | %.1f %% | %.2f | %.2f | %.3f | %.3f |\n", ++i, c->model->class_count,
               size, 1e3 * seconds, 1e3 * (device - device_before), 100 * (device - device_before) / seconds,
               1e3 * mstep, 1e3 * least, least / seconds, c->last_changed);
        fflush(stdout);
        TRY(estep_device_seconds(c->estep, &device_before, err)); /* without the M-step that was timed */
        c->final_done = 0;                                        /* never settled */
        began = clock_monotonic();
    }
    return STATUS_OK;
}

/* Times the E-step of small batches. */
static enum status batches(struct classifier *c, struct err *err) {
    static const size_t sizes[] = {50, 150, 400, 1000, 2000};
    size_t which[2000], n = dataset_count(c->dataset);
    printf("\n| particles in a batch | ms | µs a particle |\n|---|---|---|\n");
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes && sizes[s] <= n / 2; s++) {
        size_t count = sizes[s];
        double best = INFINITY;
        for (size_t i = 0; i < count; i++)
            which[i] = i < count / 2 ? 2 * i : 2 * (i - count / 2) + 1;
        for (int repeat = 0; repeat < 5; repeat++) {
            struct estep_result result = {0};
            double began = clock_monotonic();
            TRY(estep_begin(c->estep, c->model, 0.1, err));
            for (size_t at = 0, done; at < count; at += done)
                TRY(estep_run(c->estep, c->model, c->dataset, which + at, count - at, &result, &done, err));
            TRY(estep_end(c->estep, c->model, err));
            best = fmin(best, clock_monotonic() - began);
        }
        printf("| %zu | %.2f | %.1f |\n", count, 1e3 * best, 1e6 * best / (double)count);
    }
    return STATUS_OK;
}

static enum status bench(const char *star, const struct classifier_options *options, int iterations, struct err *err) {
    struct dataset *dataset = NULL;
    struct classifier classifier;
    TRY(dataset_create((size_t)16 << 30, &dataset, err));
    classifier_init(&classifier, options, dataset);
    enum status status = load_table(star, dataset, err);
    if (status == STATUS_OK) status = iterate(&classifier, iterations, err);
    if (status == STATUS_OK) status = batches(&classifier, err);
    classifier_clear(&classifier);
    dataset_destroy(&dataset);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    int classes = argc > 2 ? atoi(argv[2]) : 50;
    struct classifier_options options = {.classes = classes < 3 ? classes : classes + 1, /* one class is empty */
                                         .diameter = argc > 6 ? atof(argv[6]) : 220,
                                         .tau_fudge = 2,
                                         .psi_step = 12,
                                         .offset_range = 5,
                                         .offset_step = 2,
                                         .resolution = 6,
                                         .particles_per_class = 1,
                                         .minimum_particles = 10,
                                         .visits = 0,
                                         .final_passes = INT_MAX,
                                         .memory = 16,
                                         .threads = argc > 4 ? atoi(argv[4]) : 1,
                                         .seed = 1,
                                         .off_centre = NAN};
    if (argc < 2) {
        fprintf(stderr, "bench_classes PARTICLES.star [CLASSES [DEVICE [THREADS [ITERATIONS [DIAMETER]]]]]\n");
        return 2;
    }
    enum status status = device_parse(argc > 3 ? argv[3] : "auto", &options.device, &err);
    if (status == STATUS_OK) status = quality_rule_parse("all", &options.rule, &err);
    if (status == STATUS_OK) status = bench(argv[1], &options, argc > 5 ? atoi(argv[5]) : 10, &err);
    if (status == STATUS_OK) return 0;
    fprintf(stderr, "bench_classes: %s\n", err.message);
    return 1;
}
