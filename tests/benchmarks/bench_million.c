/* Times a 2D classification of many particles as the stage does it: from the table to the last passes, and particles
 * that join later.
 *
 *   bench_million PARTICLES.star LATER.star DEVICE THREADS IMAGE_MIB CUT [VISITS [PASSES [DIAMETER [CLASSES]]]]
 *
 * CUT 1: images are cut to 6 Å; 0: they stay whole. VISITS (2) of each particle come before PASSES (5) final ones.
 * LATER.star joins when all particles have been visited once. Each row is a part of the work: its time, how many images
 * were read from stacks since the start, and the memory of the process, as a whole and without images that stay. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "stages/classifier/classifier.h"
#include "tests/benchmarks/particles.h"

enum { TOLD = 200000, READING_THREADS = 4, AHEAD_BYTES = 128 << 20 }; /* as the stage has them */

static double images_mib(struct classifier *c) {
    double pixels = (double)dataset_box(c->dataset) * dataset_box(c->dataset), count = 0;
    for (size_t i = 0; i < dataset_count(c->dataset); i++)
        count += dataset_at(c->dataset, i)->image != NULL;
    return count * pixels * sizeof(float) / 0x1p20;
}

static void report(struct classifier *c, const char *what, double began) {
    struct stack_reads ahead, asked;
    dataset_reads(c->dataset, &ahead, &asked);
    double seconds = clock_monotonic() - began, resident = resident_mib();
    printf("| %s | %.2f | %d | %d | %zu | %.0f | %.0f |\n", what, seconds, c->updates,
           c->model != NULL ? c->model->size : 0, ahead.images + asked.images, resident, resident - images_mib(c));
    fflush(stdout);
}

/* Takes steps until all particles have been visited. */
static enum status visit_all(struct classifier *c, struct err *err) {
    struct classifier_progress progress = {.more = true};
    size_t told = c->first_unseen;
    double began = clock_monotonic();
    do {
        TRY(classifier_step(c, false, &progress, err));
        if (c->first_unseen < told + TOLD || !progress.updated) continue;
        told = c->first_unseen;
        report(c, "…", began);
    } while (progress.more && (c->model == NULL || c->first_unseen < dataset_count(c->dataset) || !progress.updated));
    return STATUS_OK;
}

static enum status visit_again(struct classifier *c, struct err *err) {
    struct classifier_progress progress = {.more = true};
    while (progress.more)
        TRY(classifier_step(c, false, &progress, err));
    return STATUS_OK;
}

static enum status final_passes(struct classifier *c, struct err *err) {
    struct classifier_progress progress = {.more = true};
    for (double began = clock_monotonic(); progress.more;) {
        TRY(classifier_step(c, true, &progress, err));
        if (!progress.updated) continue;
        char what[64];
        snprintf(what, sizeof what, "final pass %d, %.1f %% change class", c->final_done, 100 * c->last_changed);
        report(c, what, began);
        began = clock_monotonic();
    }
    return STATUS_OK;
}

static enum status run(struct classifier *c, const char *star, const char *later, struct err *err) {
    double began = clock_monotonic(), finals;
    printf("| part | s | updates | size, px | images read | MiB | without images |\n|---|---|---|---|---|---|---|\n");
    TRY(load_table(star, c->dataset, err));
    report(c, "table", began);
    began = clock_monotonic();
    TRY(visit_all(c, err));
    report(c, "first visits", began);
    printf("%zu particles of %d px, compared with %d px of %.3f Å\n", dataset_count(c->dataset),
           dataset_whole_box(c->dataset), dataset_box(c->dataset), dataset_pixel_size(c->dataset));
    began = clock_monotonic();
    TRY(load_table(later, c->dataset, err));
    TRY(visit_all(c, err));
    report(c, "later ones read and visited", began);
    began = clock_monotonic();
    TRY(visit_again(c, err));
    report(c, "more visits", began);
    finals = clock_monotonic();
    TRY(final_passes(c, err));
    report(c, "final passes together", finals);
    return STATUS_OK;
}

static enum status bench(char **argv, const struct classifier_options *options, struct err *err) {
    struct dataset *dataset = NULL;
    struct classifier classifier;
    TRY(dataset_create((size_t)options->image_memory << 20, &dataset, err));
    classifier_init(&classifier, options, dataset);
    if (options->cut) dataset_cut(dataset, options->resolution);
    const bool all = (options->cut && options->device.kind == DEVICE_CUDA) || options->threads < READING_THREADS;
    enum status status = dataset_read_ahead(dataset, all ? options->threads : READING_THREADS, AHEAD_BYTES, NULL, err);
    if (status == STATUS_OK) status = run(&classifier, argv[1], argv[2], err);
    classifier_clear(&classifier);
    dataset_destroy(&dataset);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc < 7) {
        fprintf(stderr, "bench_million PARTICLES.star LATER.star DEVICE THREADS IMAGE_MIB CUT "
                        "[VISITS [PASSES [DIAMETER [CLASSES]]]]\n");
        return 2;
    }
    struct classifier_options options = {.classes = argc > 10 ? atoi(argv[10]) : 50,
                                         .diameter = argc > 9 ? atof(argv[9]) : 170,
                                         .tau_fudge = 2,
                                         .psi_step = 12,
                                         .offset_range = 5,
                                         .offset_step = 2,
                                         .resolution = 6,
                                         .cut = atoi(argv[6]) != 0,
                                         .particles_per_class = 25,
                                         .minimum_particles = 150,
                                         .visits = argc > 7 ? atof(argv[7]) : 2,
                                         .final_passes = argc > 8 ? atoi(argv[8]) : 5,
                                         .image_memory = atoi(argv[5]),
                                         .threads = atoi(argv[4]),
                                         .seed = 1,
                                         .off_centre = NAN};
    enum status status = device_parse(argv[3], &options.device, &err);
    if (status == STATUS_OK) status = quality_rule_parse("auto", &options.rule, &err);
    if (status == STATUS_OK) status = bench(argv, &options, &err);
    if (status == STATUS_OK) return 0;
    fprintf(stderr, "bench_million: %s\n", err.message);
    return 1;
}
