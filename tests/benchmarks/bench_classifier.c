/* Measures 2D classification of an endless stream: memory, and time of an update and of a snapshot, while particles
 * grow from 10,000 to 100,000. Neither time should depend on the number of earlier particles, except for the rows that
 * a snapshot writes.
 *
 *   bench_classifier FOLDER [PARTICLES [IMAGE_MIB [CLASSES]]]
 *   bench_classifier FOLDER snapshots [PARTICLES]
 *
 * 4,000 simulated images of 48² px lie in 20 stacks. Micrographs of 200 particles list them again and again under other
 * names. Each particle is used twice. The times are processor time, so other processes on the machine do not count.
 *
 * `snapshots` classifies a few particles only, and gives the others (1,000,000) a class and a pose: it tells what the
 * computing thread does for a snapshot, the first time and again, and what all of the snapshot takes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_copy.h"
#include "tests/benchmarks/particles.h"

enum { BOX = 48, STACKS = 20, PER_MICROGRAPH = 200, STEP = 10000, PATH = 4096 };

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static double normal(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

/* Draws three blobs of one of six shapes, turned and shifted, and noise. */
static void draw(int i, float *image) {
    double psi = 2 * M_PI * uniform(), sx = 4 * uniform() - 2, sy = 4 * uniform() - 2;
    for (int y = 0; y < BOX; y++)
        for (int x = 0; x < BOX; x++) {
            double value = 0;
            for (int b = 0; b < 3; b++) {
                double r = 3 + 1.5 * (i % 6) * (b + 1) / 3, a = psi + b * (1.2 + 0.3 * (i % 3));
                double dx = x - BOX / 2 - sx - r * cos(a), dy = y - BOX / 2 - sy - r * sin(a);
                value += exp(-(dx * dx + dy * dy) / (2 * (2 + b) * (2 + b)));
            }
            image[y * BOX + x] = (float)(2 * value + normal());
        }
}

static enum status write_stacks(const char *folder, struct err *err) {
    struct image stack = {0};
    TRY(image_resize(&stack, BOX, BOX, PER_MICROGRAPH, err));
    stack.pixel_size = 4;
    enum status status = STATUS_OK;
    for (int s = 0; s < STACKS && status == STATUS_OK; s++) {
        char path[PATH];
        for (int i = 0; i < PER_MICROGRAPH; i++)
            draw(s * PER_MICROGRAPH + i, stack.data + (size_t)i * BOX * BOX);
        snprintf(path, sizeof path, "%s/stack%d.mrcs", folder, s);
        status = mrc_write(path, &stack, MRC_STACK, MRC_FLOAT32, err);
    }
    image_destroy(&stack);
    return status;
}

static enum status write_rows(const char *path, int micrograph, struct err *err) {
    FILE *f = fopen(path, "w");
    FAIL_IF(f == NULL, err, STATUS_IO, "%s cannot be written", path);
    fprintf(f, "\n# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n"
               "_rlnSphericalAberration\n_rlnAmplitudeContrast\n_rlnImagePixelSize\n_rlnImageSize\n"
               "_rlnImageDimensionality\n1 opticsGroup1 300 2.7 0.1 4 48 2\n\n\n# version 30001\n\ndata_particles\n\n"
               "loop_\n_rlnCoordinateX\n_rlnCoordinateY\n_rlnAutopickFigureOfMerit\n_rlnImageName\n_rlnMicrographName\n"
               "_rlnOpticsGroup\n_rlnDefocusU\n_rlnDefocusV\n_rlnDefocusAngle\n_rlnCtfMaxResolution\n");
    for (int i = 0; i < PER_MICROGRAPH; i++)
        fprintf(
            f,
            "%.6f %.6f %.6f %06d@extractor/micrographs/mic_%05d.mrcs micrographs/mic_%05d.mrc 1 %.6f %.6f %.6f %.6f\n",
            4000 * uniform(), 4000 * uniform(), uniform(), i + 1, micrograph, micrograph, 15000 + 1e-3 * micrograph,
            14800.0, 31.5, 4.2);
    fclose(f);
    return STATUS_OK;
}

/* "…/mic_00042.mrcs" lies in stack 42 % 20. */
static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    int micrograph = 0;
    (void)star_path;
    FAIL_IF(sscanf(name, "extractor/micrographs/mic_%d.mrcs", &micrograph) != 1, err, STATUS_NOT_FOUND, "%s?", name);
    snprintf(absolute, PATH, "%s/stack%d.mrcs", (const char *)context, micrograph % STACKS);
    return STATUS_OK;
}

static enum status arrive(struct dataset *dataset, char *folder, int micrograph, struct err *err) {
    char path[PATH];
    struct dataset_batch *batch = NULL;
    snprintf(path, sizeof path, "%s/micrograph.star", folder);
    TRY(write_rows(path, micrograph, err));
    TRY(dataset_batch_read(path, resolve, folder, NAN, false, &batch, err));
    enum status status = dataset_submit(dataset, &batch, err);
    dataset_batch_destroy(&batch);
    return status;
}

static double cpu_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

struct tally {
    double seconds, longest, began;
    int updates;
};

/* Runs until no particle is left to update. */
static enum status work(struct classifier *c, struct tally *t, struct err *err) {
    struct classifier_progress progress = {.more = true};
    t->began = cpu_seconds();
    while (progress.more) {
        TRY(classifier_step(c, false, &progress, err));
        double now = cpu_seconds();
        if (!progress.updated) continue;
        t->seconds += now - t->began;
        t->longest = fmax(t->longest, now - t->began);
        t->began = now;
        t->updates++;
    }
    return STATUS_OK;
}

static enum status report(struct classifier *c, const char *folder, const struct tally *t, int iteration,
                          struct err *err) {
    double resident = resident_mib(), before = cpu_seconds();
    struct snapshot snapshot = {.folder = folder, .relative = "classifier", .iteration = iteration};
    TRY(snapshot_write(c, &snapshot, err));
    double written = cpu_seconds() - before;
    snapshot_remove(&snapshot, iteration, false);
    snapshot_remove(&snapshot, iteration, true);
    printf("| %zu | %.0f | %d | %.0f | %.0f | %.2f | %.1f |\n", dataset_count(c->dataset), resident, t->updates,
           1e3 * t->seconds / t->updates, 1e3 * t->longest, written, 1e6 * written / (double)dataset_count(c->dataset));
    fflush(stdout);
    return STATUS_OK;
}

static struct classifier_options options_of(int classes) {
    return (struct classifier_options){.classes = classes,
                                       .diameter = 140,
                                       .tau_fudge = 2,
                                       .psi_step = 24,
                                       .offset_range = 3,
                                       .offset_step = 2,
                                       .resolution = 16,
                                       .particles_per_class = 25,
                                       .minimum_particles = 150,
                                       .visits = 2,
                                       .final_passes = 1,
                                       .threads = 1,
                                       .device = {.kind = DEVICE_CPU},
                                       .memory = 1,
                                       .seed = 1,
                                       .off_centre = NAN};
}

static enum status bench(char *folder, int particles, int image_mib, int classes, struct err *err) {
    struct classifier_options options = options_of(classes);
    struct dataset *dataset = NULL;
    struct classifier classifier;
    TRY(quality_rule_parse("auto", &options.rule, err));
    TRY(write_stacks(folder, err));
    TRY(dataset_create((size_t)image_mib << 20, &dataset, err));
    classifier_init(&classifier, &options, dataset);
    printf("| particles | resident, MiB | updates | ms an update | the longest | s a snapshot | µs a particle |\n"
           "|---|---|---|---|---|---|---|\n");
    struct tally tally = {0};
    enum status status = STATUS_OK;
    for (int m = 1; m * PER_MICROGRAPH <= particles && status == STATUS_OK; m++) {
        status = arrive(dataset, folder, m, err);
        if (status == STATUS_OK) status = work(&classifier, &tally, err);
        if (status != STATUS_OK || m * PER_MICROGRAPH % STEP != 0) continue;
        status = report(&classifier, folder, &tally, m * PER_MICROGRAPH / STEP, err);
        tally = (struct tally){0};
    }
    classifier_clear(&classifier);
    dataset_destroy(&dataset);
    return status;
}

/* Particles that no image was read of, as if they had been compared. */
static void pretend(struct classifier *c) {
    for (size_t i = 0; i < dataset_count(c->dataset); i++) {
        struct dataset_particle *p = dataset_at(c->dataset, i);
        if (p->visits > 0) continue;
        p->class_index = (int)(uniform() * c->model->class_count);
        p->psi = (float)(360 * uniform());
        p->x = (float)(4 * uniform() - 2);
        p->y = (float)(4 * uniform() - 2);
        p->norm = 1;
        p->log_likelihood = (float)(-1000 * uniform());
        p->evidence = 50;
        p->probability = (float)uniform();
        p->significant = 3;
        p->visits = 1;
    }
}

static enum status time_snapshots(struct classifier *c, const char *folder, struct err *err) {
    struct snapshot_copy copy = {0};
    struct selection sent = {0}, next = {0};
    for (int i = 1; i < 4; i++) {
        const double before = cpu_seconds(), before_clock = clock_monotonic();
        TRY(snapshot_copy_take(&copy, c, err));
        printf("copied: %.3f s of the processor, %.3f s; resident %.0f MiB\n", cpu_seconds() - before,
               clock_monotonic() - before_clock, resident_mib());
        const double copied = cpu_seconds(), copied_clock = clock_monotonic();
        struct snapshot snapshot = {
            .folder = folder, .relative = "classifier", .iteration = i, .sent = &sent, .selection = &next};
        TRY(snapshot_write_judged(&copy.classifier, &snapshot, err));
        printf("written: %.2f s of the processor, %.2f s; resident %.0f MiB; %zu of %zu selected%s\n",
               cpu_seconds() - copied, clock_monotonic() - copied_clock, resident_mib(), snapshot.kept,
               dataset_count(c->dataset), snapshot.changes[0] != '\0' ? ", with changes" : "");
        (void)fflush(stdout);
        const struct selection last = sent;
        sent = next;
        next = last;
        snapshot_remove(&snapshot, i, false);
        snapshot_remove(&snapshot, i, true);
    }
    selection_clear(&sent);
    selection_clear(&next);
    snapshot_copy_clear(&copy);
    return STATUS_OK;
}

static enum status snapshots(char *folder, int particles, struct err *err) {
    enum { CLASSIFIED = 4000, CLASSES = 50 };
    struct classifier_options options = options_of(CLASSES);
    struct dataset *dataset = NULL;
    struct classifier classifier;
    struct tally tally = {0};
    TRY(quality_rule_parse("auto", &options.rule, err));
    TRY(write_stacks(folder, err));
    TRY(dataset_create((size_t)64 << 20, &dataset, err));
    classifier_init(&classifier, &options, dataset);
    enum status status = STATUS_OK;
    for (int m = 1; m * PER_MICROGRAPH <= particles && status == STATUS_OK; m++) {
        status = arrive(dataset, folder, m, err);
        if (status == STATUS_OK && m * PER_MICROGRAPH <= CLASSIFIED) status = work(&classifier, &tally, err);
    }
    if (status == STATUS_OK) status = dataset_merge(dataset, NULL, err);
    if (status == STATUS_OK) pretend(&classifier);
    printf("%zu particles, resident %.0f MiB\n", dataset_count(dataset), resident_mib());
    if (status == STATUS_OK) status = time_snapshots(&classifier, folder, err);
    classifier_clear(&classifier);
    dataset_destroy(&dataset);
    return status;
}

int main(int argc, char **argv) {
    struct err err = {0};
    if (argc < 2) {
        fprintf(stderr, "bench_classifier FOLDER [PARTICLES [IMAGE_MIB [CLASSES]]]\n       bench_classifier FOLDER "
                        "snapshots [PARTICLES]\n");
        return 2;
    }
    srand(1);
    const bool copies = argc > 2 && strcmp(argv[2], "snapshots") == 0;
    if (copies && snapshots(argv[1], argc > 3 ? atoi(argv[3]) : 1000000, &err) == STATUS_OK) return 0;
    if (!copies && bench(argv[1], argc > 2 ? atoi(argv[2]) : 100000, argc > 3 ? atoi(argv[3]) : 256,
                         argc > 4 ? atoi(argv[4]) : 10, &err) == STATUS_OK)
        return 0;
    fprintf(stderr, "bench_classifier: %s\n", err.message);
    return 1;
}
