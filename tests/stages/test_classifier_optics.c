/* Particles of different boxes, pixel sizes and optics in one classification: images of one particle, drawn on different
 * grids and through different optics, are the same when the dataset gives them out; tables that are written describe
 * images as they lie in their files; a classification sorts particles by what they show, and keeps its grid. Wrong signs
 * must fail. Seed as printed: test_classifier_optics [SEED]. */
#include <complex.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/star.h"
#include "stages/classifier/classifier.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_restore.h"
#include "tests/stages/optics_images.h"

static unsigned seed;
static struct err err;

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *e) {
    (void)context;
    char beside[PATH_MAX];
    TRY(path_folder(star_path, beside, sizeof beside, e));
    return path_join(beside, name, absolute, PATH_MAX, e);
}

static void submit(struct dataset *set, const char *path, bool ignore) {
    struct dataset_batch *batch = NULL;
    assert_ok(dataset_batch_read(path, resolve, NULL, NAN, ignore, &batch, &err));
    assert_ok(dataset_submit(set, &batch, &err));
}

/* Makes a dataset of a table of stacks with EACH images. */
static struct dataset *open_set(const char *folder, const char *optics, const char *const *stacks, int stack_count,
                                bool with_ctf, bool ignore) {
    char path[PATH_SIZE + 64];
    struct dataset *set = NULL;
    write_table(folder, optics, stacks, stack_count, EACH, with_ctf, path);
    assert_ok(dataset_create(1 << 24, &set, &err));
    submit(set, path, ignore);
    assert_ok(dataset_merge(set, NULL, &err));
    return set;
}

static const float *image_of(struct dataset *set, size_t index) {
    static float scratch[MOST];
    const float *image = NULL;
    assert_ok(dataset_image(set, index, scratch, &image, &err));
    return image;
}

static double difference(struct dataset *set, size_t index) {
    return difference_from(image_of(set, index), (int)(index % EACH), dataset_box(set), dataset_pixel_size(set));
}

/* The grid is that of most particles of the first table. */
static void images_of_two_grids_join(void **state) {
    (void)state;
    static const char OPTICS[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n1 1.5\n2 2\n3 2";
    static const char *const STACKS[] = {"fine", "coarse", "again"};
    const struct aberration none = aberration_none();
    char folder[PATH_SIZE];
    open_folder("grids", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    write_stack(folder, "again", COARSE, COARSE_PIXEL, ONE, &none);
    for (int count = 2; count <= 3; count++) {
        struct dataset *set = open_set(folder, OPTICS, STACKS, count, true, false);
        const bool coarse = count == 3;
        int box = 0;
        double pixel_size = 0;
        assert_int_equal(dataset_box(set), coarse ? COARSE : FINE);
        assert_true(dataset_pixel_size(set) == (coarse ? COARSE_PIXEL : FINE_PIXEL));
        for (size_t i = 0; i < (size_t)count * EACH; i++)
            assert_true(difference(set, i) < 2e-3);
        assert_int_equal(dataset_resampled(set, &box, &pixel_size), EACH);
        assert_int_equal(box, coarse ? FINE : COARSE);
        /* A coarse image has nothing beyond its last shell. */
        assert_true(coarse || fabs(dataset_at(set, EACH)->ctf.limit - 0.25) < 1e-9);
        assert_true(dataset_at(set, 0)->ctf.limit == 0);
        dataset_destroy(&set);
    }
}

/* Each column takes its aberration off the image; the other sign, or none, leaves or doubles it. */
static void aberrations_of_the_image_are_taken_off(void **state) {
    (void)state;
    static const char *const STACK = "coarse";
    char folder[PATH_SIZE], optics[512];
    open_folder("aberrations", folder);
    for (int c = 0; c < STATED_COUNT; c++) {
        const struct aberration odd = odd_of(&STATED[c]);
        write_stack(folder, STACK, COARSE, COARSE_PIXEL, STATED[c].magnified ? MATRIX : ONE, &odd);
        for (int how = 0; how < 3; how++) { /* right, wrong, ignored */
            const struct optics_aberrations *one = NULL;
            snprintf(optics, sizeof optics, "_rlnOpticsGroup\n_rlnImagePixelSize\n%s1 2 %s", STATED[c].columns,
                     how == 1 ? STATED[c].wrong : STATED[c].right);
            struct dataset *set = open_set(folder, optics, &STACK, 1, true, how == 2);
            double off = difference(set, 1);
            if (how == 0) assert_true(off < 2e-3);
            if (how > 0) assert_true(off > 2e-2);
            assert_int_equal(dataset_corrected(set, &one), how < 2 ? EACH : 0);
            dataset_destroy(&set);
        }
    }
}

static void even_aberrations_go_into_the_ctf(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnEvenZernike\n1 2 [0.5,0,-20,0,0,0,900]\n2 2 []";
    static const char *const STACKS[] = {"one", "two"};
    const struct aberration none = aberration_none();
    char folder[PATH_SIZE];
    open_folder("even", folder);
    for (int s = 0; s < 2; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    struct dataset *set = open_set(folder, OPTICS, STACKS, 2, true, false);
    const struct dataset_particle *with = dataset_at(set, 0), *without = dataset_at(set, EACH);
    assert_non_null(with->ctf.even);
    assert_null(without->ctf.even);
    struct ctf_terms a = ctf_prepare(&with->ctf), b = ctf_prepare(&without->ctf);
    double x = 0.05, y = 0.08, r2 = x * x + y * y;
    double offset = 0.5 - 20 * (2 * r2 - 1) + 900 * (6 * r2 * r2 - 6 * r2 + 1);
    double gamma = -(b.xx * x * x + 2 * b.xy * x * y + b.yy * y * y - b.quartic * r2 * r2 + b.offset);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma + offset)) < 1e-5);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma - offset)) > 0.1);
    dataset_destroy(&set);
}

/* Images of the second detector are brought to the MTF of the first: MTF 1 / MTF 2, at physical frequencies. A group
 * whose file is missing stays as it is, and is told. */
static void images_of_two_detectors_become_alike(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMicrographOriginalPixelSize\n_rlnMtfFileName\n"
        "1 2 1 first.star\n2 2 0.7 second.star\n3 2 1 third.star\n4 2 1 first.star";
    static const char *const STACKS[] = {"one", "two", "three", "four"};
    const struct aberration none = aberration_none();
    float first[MOST];
    char folder[PATH_SIZE];
    open_folder("detectors", folder);
    for (int s = 0; s < 4; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    write_mtf(folder, "first.star", 0.4);
    write_mtf(folder, "second.star", 0.2);
    for (int ignore = 0; ignore < 2; ignore++) {
        struct dataset *set = open_set(folder, OPTICS, STACKS, 4, true, ignore);
        if (ignore)
            assert_null(dataset_missing_mtf(set));
        else
            assert_string_equal(dataset_missing_mtf(set), "third.star");
        memcpy(first, image_of(set, 0), sizeof(float) * COARSE * COARSE);
        for (int k = 1; k < 10; k += 2) {
            double f = k / (COARSE * COARSE_PIXEL);
            double expected = ignore ? 1 : attenuation(0.4, 1, f) / attenuation(0.2, 0.7, f);
            assert_true(cabs(ratio_of(first, image_of(set, EACH), COARSE, k) - expected) < 1e-3);
            assert_true(ignore || fabs(expected - 1) > 1e-5);
            assert_true(cabs(ratio_of(first, image_of(set, 2 * EACH), COARSE, k) - 1) < 1e-3);
            assert_true(cabs(ratio_of(first, image_of(set, 3 * EACH), COARSE, k) - 1) < 1e-3);
        }
        dataset_destroy(&set);
    }
}

enum { PER_KIND = 60, COUNT = KINDS * PER_KIND };
static const double NOISE = 0.15;

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static double normal(void) {
    return sqrt(-2 * log(uniform() + 1e-12)) * cos(2 * M_PI * uniform());
}

static struct classifier_options options_of(void) {
    struct classifier_options o = {.classes = 4,
                                   .diameter = 80,
                                   .tau_fudge = 2,
                                   .psi_step = 10,
                                   .offset_range = 4,
                                   .offset_step = 2,
                                   .resolution = 9,
                                   .particles_per_class = 25,
                                   .minimum_particles = 60,
                                   .visits = 5,
                                   .final_passes = 4,
                                   .threads = 2,
                                   .device = {.kind = DEVICE_CPU},
                                   .memory = 1,
                                   .seed = 3,
                                   .off_centre = NAN};
    assert_ok(quality_rule_parse("all", &o.rule, &err));
    return o;
}

/* Particles of both kinds on two grids; those on the coarse one through aberrations. */
struct mixed {
    char folder[PATH_SIZE], star[PATH_SIZE + 64];
    struct view views[2 * COUNT]; /* fine ones, then coarse ones */
};

static const double STRONG[4] = {1.12, 0.03, 0.05, 0.9};
static const char MIXED[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMagMat00\n_rlnMagMat01\n_rlnMagMat10\n"
                            "_rlnMagMat11\n_rlnBeamTiltX\n_rlnBeamTiltY\n"
                            "1 1.5 1 0 0 1 0 0\n2 2 1.12 0.03 0.05 0.9 120 -80";
static const char *const MIXED_STACKS[] = {"fine", "coarse"};

static void make_mixed(const char *name, bool with_ctf, struct mixed *w) {
    static float data[COUNT * MOST];
    struct aberration odd[2] = {aberration_none(), aberration_none()};
    aberration_add_tilt(&odd[1], 2.7, 300, 120, -80);
    srand(seed);
    open_folder(name, w->folder);
    for (int g = 0; g < 2; g++) {
        const int box = g == 0 ? FINE : COARSE;
        const double pixel = g == 0 ? FINE_PIXEL : COARSE_PIXEL;
        const size_t pixels = (size_t)box * (size_t)box;
        for (int i = 0; i < COUNT; i++) {
            struct view *v = &w->views[g * COUNT + i];
            *v = (struct view){i % KINDS, 2 * M_PI * uniform(), 6 * uniform() - 3, 6 * uniform() - 3};
            float *image = data + (size_t)i * pixels;
            draw(v, box, pixel, g == 0 ? ONE : STRONG, &odd[g], image);
            for (size_t p = 0; p < pixels; p++)
                image[p] = (float)((double)image[p] / 4 + NOISE * normal());
        }
        write_images(w->folder, MIXED_STACKS[g], box, pixel, COUNT, data);
    }
    write_table(w->folder, MIXED, MIXED_STACKS, 2, COUNT, with_ctf, w->star);
}

static void classify(struct classifier *c, struct classifier_options *o, struct dataset *set) {
    struct classifier_progress progress = {.more = true};
    classifier_init(c, o, set);
    while (progress.more)
        assert_ok(classifier_step(c, true, &progress, &err));
}

/* How well classes go with what particles show. */
struct sorted {
    double pure;  /* share of particles whose kind is the most frequent one of their class */
    double apart; /* |share of coarse particles − ½|, mean over particles of their class */
    double turns; /* agreement of psi with the true angle, the mean over classes; 1: perfectly */
    double shift; /* Å: rms of what is left of shifts, after the best centre of each class */
};

static struct sorted measure(const struct mixed *w, struct dataset *set) {
    struct sorted r = {0};
    double all = 0;
    for (int k = 0; k < 4; k++) {
        double count = 0, kind = 0, coarse = 0;
        double complex turn = 0, centre = 0;
        for (int i = 0; i < 2 * COUNT; i++) {
            const struct dataset_particle *p = dataset_at(set, (size_t)i);
            const struct view *v = &w->views[i];
            if (p->class_index != k) continue;
            count++, kind += v->kind, coarse += i >= COUNT;
            turn += cexp(I * ((double)p->psi * M_PI / 180 + v->angle));
            /* The centre of the class, in the frame of the class: (view + correction) turned back. */
            double complex rest = v->x + (double)p->x * p->pixel_size + I * (v->y + (double)p->y * p->pixel_size);
            centre += rest * cexp(-I * v->angle);
        }
        if (count < 8) continue;
        r.pure += fmax(kind, count - kind);
        r.apart += count * fabs(coarse / count - 0.5);
        r.turns += cabs(turn);
        all += count;
        for (int i = 0; i < 2 * COUNT; i++) {
            const struct dataset_particle *p = dataset_at(set, (size_t)i);
            const struct view *v = &w->views[i];
            if (p->class_index != k) continue;
            double complex rest = v->x + (double)p->x * p->pixel_size + I * (v->y + (double)p->y * p->pixel_size);
            double off = cabs(rest * cexp(-I * v->angle) - centre / count);
            r.shift += off * off;
        }
    }
    r.pure /= all, r.apart /= all, r.turns /= all, r.shift = sqrt(r.shift / all);
    return r;
}

/* Particles are sorted by what they show, not by the grid that they come from. Ignored aberrations do it worse. */
static void two_grids_are_one_classification(void **state) {
    (void)state;
    static struct mixed w;
    struct sorted found[2];
    make_mixed("mixed", false, &w);
    for (int ignore = 0; ignore < 2; ignore++) {
        struct dataset *set = NULL;
        struct classifier c;
        struct classifier_options o = options_of();
        assert_ok(dataset_create(1 << 24, &set, &err));
        submit(set, w.star, ignore);
        classify(&c, &o, set);
        found[ignore] = measure(&w, set);
        print_message("%s: %.3f pure, %.3f apart, turns agree to %.3f, shifts to %.2f Å\n",
                      ignore ? "ignored" : "corrected", found[ignore].pure, found[ignore].apart, found[ignore].turns,
                      found[ignore].shift);
        classifier_clear(&c);
        dataset_destroy(&set);
    }
    assert_true(found[0].pure > 0.97);
    assert_true(found[0].apart < 0.2);
    assert_true(found[0].turns > 0.95);
    assert_true(found[0].shift < 1.5);
    assert_true(found[1].apart > found[0].apart + 0.1 || found[1].shift > 1.5 * found[0].shift);
}

/* Writes the files of an iteration into the folder, and returns the number of its rows. */
static size_t write_snapshot(struct classifier *c, const char *folder, struct snapshot *ret_snapshot) {
    struct snapshot s = {.folder = folder, .relative = ".", .iteration = 1, .final = true};
    assert_ok(snapshot_write(c, &s, &err));
    *ret_snapshot = s;
    return dataset_count(c->dataset);
}

static void read_snapshot(const char *folder, struct star_file **ret_file) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/run_it001_data.star", folder);
    assert_ok(star_read(path, ret_file, &err));
}

static double cell(const struct star_table *t, size_t row, const char *column) {
    double value = NAN;
    assert_ok(star_need_number(t, row, column, -1e6, 1e6, &value, &err));
    return value;
}

/* Shifts in tables are those of the image as it lies in its file: M transposed times what is left to shift once M is
 * undone. A run that continues reads them back, and keeps the grid, whichever table comes first. */
static void tables_tell_shifts_of_images(void **state) {
    (void)state;
    static struct mixed w;
    static const char *const LATER = "later";
    const struct aberration none = aberration_none();
    char path[PATH_SIZE + 64], coarse[PATH_SIZE + 64];
    struct dataset *set = NULL, *again = NULL;
    struct classifier c, restored;
    struct classifier_options o = options_of();
    struct snapshot snapshot;
    struct star_file *file = NULL;
    bool final = false;
    int box;
    double pixel_size, most = 0;
    make_mixed("shifts", true, &w);
    o.visits = 1, o.final_passes = 1;
    assert_ok(dataset_create(1 << 24, &set, &err));
    submit(set, w.star, false);
    classify(&c, &o, set);
    size_t count = write_snapshot(&c, w.folder, &snapshot);
    read_snapshot(w.folder, &file);
    const struct star_table *rows = star_table_find(file, "particles");
    assert_int_equal(star_row_count(rows), count);
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *p = dataset_at(set, i);
        const double *m = i < COUNT ? ONE : STRONG, x = p->x * FINE_PIXEL, y = p->y * FINE_PIXEL;
        assert_true(fabs(cell(rows, i, "rlnOriginXAngst") - (m[0] * x + m[2] * y)) < 1e-3);
        assert_true(fabs(cell(rows, i, "rlnOriginYAngst") - (m[1] * x + m[3] * y)) < 1e-3);
        if (i >= COUNT) most = fmax(most, fabs((m[0] - 1) * x + m[2] * y));
    }
    assert_true(most > 0.3);
    star_destroy(&file);
    /* Coarse particles come first now; without the snapshot's grid theirs would be that of all. */
    write_stack(w.folder, LATER, COARSE, COARSE_PIXEL, ONE, &none);
    write_table(w.folder, "_rlnOpticsGroup\n_rlnImagePixelSize\n1 2", &LATER, 1, EACH, true, path);
    snprintf(coarse, sizeof coarse, "%s/coarse.star", w.folder);
    assert_int_equal(rename(path, coarse), 0);
    write_table(w.folder, MIXED, MIXED_STACKS, 2, COUNT, true, path);
    assert_ok(dataset_create(1 << 24, &again, &err));
    submit(again, coarse, false);
    submit(again, path, false);
    assert_ok(snapshot_grid(w.folder, 1, &box, &pixel_size, &err));
    dataset_keep_grid(again, box, pixel_size);
    assert_ok(dataset_merge(again, NULL, &err));
    assert_int_equal(dataset_box(again), FINE);
    assert_true(fabs(dataset_pixel_size(again) - FINE_PIXEL) < 1e-6);
    classifier_init(&restored, &o, again);
    assert_ok(classifier_start(&restored, &err));
    assert_ok(snapshot_restore(&restored, &snapshot, &final, &err));
    for (size_t i = 0; i < count; i++) {
        const struct dataset_particle *a = dataset_at(set, i), *b = dataset_at(again, i + EACH);
        assert_int_equal(a->class_index, b->class_index);
        assert_true(fabsf(a->x - b->x) < 1e-3f && fabsf(a->y - b->y) < 1e-3f);
    }
    classifier_clear(&restored);
    classifier_clear(&c);
    dataset_destroy(&again);
    dataset_destroy(&set);
}

/* Images without a CTF that come from another grid get one of 1; the microscope in the table stays. */
static void optics_of_particles_without_a_ctf_stay(void **state) {
    (void)state;
    const struct aberration none = aberration_none();
    char folder[PATH_SIZE], path[PATH_SIZE + 64];
    struct dataset *set = NULL;
    struct classifier c;
    struct classifier_options o = options_of();
    struct snapshot snapshot;
    struct star_file *file = NULL;
    open_folder("flat", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    snprintf(path, sizeof path, "%s/rows.star", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnImageName\n_rlnVoltage\n_rlnSphericalAberration\n_rlnAmplitudeContrast\n"
               "_rlnImagePixelSize\n");
    for (int i = 0; i < 2 * EACH - 1; i++)
        fprintf(f, "%d@%s.mrcs 200 1.4 0.07 %g\n", i % EACH + 1, i < EACH ? "fine" : "coarse",
                i < EACH ? FINE_PIXEL : COARSE_PIXEL);
    assert_int_equal(fclose(f), 0);
    assert_ok(dataset_create(1 << 24, &set, &err));
    submit(set, path, false);
    o.minimum_particles = 2, o.classes = 1, o.visits = 1, o.final_passes = 1;
    classify(&c, &o, set);
    assert_true(dataset_at(set, EACH)->uses_ctf && !dataset_at(set, EACH)->has_ctf);
    write_snapshot(&c, folder, &snapshot);
    read_snapshot(folder, &file);
    const struct star_table *optics = star_table_find(file, "optics");
    assert_int_equal(star_row_count(optics), 2);
    for (size_t g = 0; g < 2; g++) {
        assert_true(cell(optics, g, "rlnVoltage") == 200);
        assert_true(cell(optics, g, "rlnSphericalAberration") == 1.4);
        assert_true(cell(optics, g, "rlnAmplitudeContrast") == 0.07);
        assert_true(cell(optics, g, "rlnImagePixelSize") == (g == 0 ? FINE_PIXEL : COARSE_PIXEL));
    }
    star_destroy(&file);
    classifier_clear(&c);
    dataset_destroy(&set);
}

/* Tables that differ in nothing but their aberrations are written as groups of their own: what is read back has each
 * image's own, and images come out as they should. */
static void groups_of_other_aberrations_are_not_merged(void **state) {
    (void)state;
    static const char *const NAMES[] = {"right", "wrong", "none"};
    static const char *const TILTS[] = {"_rlnBeamTiltX\n_rlnBeamTiltY\n", "_rlnBeamTiltX\n_rlnBeamTiltY\n", ""};
    static const double SIGN[] = {1, -1, 0};
    char folder[PATH_SIZE], path[PATH_SIZE + 64], own[PATH_SIZE + 64], optics[256];
    struct dataset *set = NULL, *again = NULL;
    struct classifier c;
    struct classifier_options o = options_of();
    struct snapshot snapshot;
    struct star_file *file = NULL;
    open_folder("groups", folder);
    assert_ok(dataset_create(1 << 24, &set, &err));
    for (int t = 0; t < 3; t++) {
        struct aberration odd = aberration_none();
        aberration_add_tilt(&odd, 2.7, 300, 60 * SIGN[t], -40 * SIGN[t]);
        write_stack(folder, NAMES[t], COARSE, COARSE_PIXEL, ONE, &odd);
        snprintf(optics, sizeof optics,
                 "_rlnOpticsGroup\n_rlnOpticsGroupName\n_rlnVoltage\n_rlnImagePixelSize\n%s1 og 300 2", TILTS[t]);
        if (t < 2) snprintf(optics + strlen(optics), 32, " %g %g", 60 * SIGN[t], -40 * SIGN[t]);
        write_table(folder, optics, &NAMES[t], 1, EACH, true, path);
        snprintf(own, sizeof own, "%s/%s.star", folder, NAMES[t]);
        assert_int_equal(rename(path, own), 0);
        submit(set, own, false);
    }
    o.minimum_particles = 4, o.classes = 1, o.visits = 1, o.final_passes = 1;
    classify(&c, &o, set);
    write_snapshot(&c, folder, &snapshot);
    read_snapshot(folder, &file);
    assert_int_equal(star_row_count(star_table_find(file, "optics")), 3);
    star_destroy(&file);
    snprintf(path, sizeof path, "%s/run_it001_data.star", folder);
    assert_ok(dataset_create(1 << 24, &again, &err));
    submit(again, path, false);
    assert_ok(dataset_merge(again, NULL, &err));
    assert_int_equal(dataset_count(again), 3 * EACH);
    for (size_t i = 0; i < 3 * EACH; i++)
        assert_true(difference(again, i) < 2e-3);
    classifier_clear(&c);
    dataset_destroy(&again);
    dataset_destroy(&set);
}

int main(int argc, char **argv) {
    seed = argc > 1 ? (unsigned)atoi(argv[1]) : 5;
    printf("seed %u\n", seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_two_grids_join),
        cmocka_unit_test(aberrations_of_the_image_are_taken_off),
        cmocka_unit_test(even_aberrations_go_into_the_ctf),
        cmocka_unit_test(images_of_two_detectors_become_alike),
        cmocka_unit_test(two_grids_are_one_classification),
        cmocka_unit_test(tables_tell_shifts_of_images),
        cmocka_unit_test(optics_of_particles_without_a_ctf_stay),
        cmocka_unit_test(groups_of_other_aberrations_are_not_merged),
    };
    return scratch_run("classifier_optics", tests, sizeof tests / sizeof *tests);
}
