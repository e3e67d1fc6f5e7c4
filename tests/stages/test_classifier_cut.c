/* Tests of images that are cut to the detail that is compared: their values, who cuts them, classes and noise beside
 * those of whole images, and files, which have the whole grid. */
#include <stdatomic.h>

#include "common/memory.h"
#include "stages/classifier/cut.h"
#include "stages/classifier/dataset_private.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_restore.h"
#include "tests/stages/shapes.h"

enum { CUT = 20, ROOM = 1 << 24, SLOTS = 64 }; /* px; bytes for images; images read ahead */
static const double FINEST = 16;               /* Å: 8 of 16 shells */

static void boxes_are_as_small_as_they_can_be(void **state) {
    (void)state;
    assert_int_equal(cut_box(256, 1.06, 6), 96); /* 46 shells, and 2 more */
    assert_int_equal(cut_box(BOX, 4, FINEST), CUT);
    assert_int_equal(cut_box(BOX, 4, 8), BOX);     /* all of it is compared */
    assert_int_equal(cut_box(128, 2.2, 5.5), 128); /* 106 px would hold it, which is hardly less */
    assert_int_equal(cut_box(256, 1.06, 0), 256);
    assert_int_equal(cut_box(64, 1, 100), 16); /* the smallest box of particles */
}

/* Fills a wave with its crest at pixel box/2. */
static void fill_wave(int box, int kx, int ky, double height, float *image) {
    for (int y = 0; y < box; y++)
        for (int x = 0; x < box; x++)
            image[y * box + x] = (float)(height * cos(2 * M_PI * (kx * (x - box / 2) + ky * (y - box / 2)) / box));
}

static void assert_wave(const float *image, int box, int kx, int ky, double height) {
    static float wave[BOX * BOX];
    fill_wave(box, kx, ky, height, wave);
    for (int i = 0; i < box * box; i++)
        assert_true(fabsf(image[i] - wave[i]) < 1e-5f);
}

static void frequencies_stay_or_vanish(void **state) {
    (void)state;
    static float image[BOX * BOX], back[BOX * BOX], cut[CUT * CUT];
    const float *whole = image, *small = cut;
    fill_wave(BOX, 3, -2, 1, image);
    OK(cut_convert(BOX, CUT, &whole, 1, cut, 0, &err));
    assert_wave(cut, CUT, 3, -2, 1.0 * BOX / CUT);
    OK(cut_convert(CUT, BOX, &small, 1, back, 0, &err));
    assert_wave(back, BOX, 3, -2, 1);
    fill_wave(BOX, 4, CUT / 2, 1, image); /* the first frequency that the cut image does not hold */
    OK(cut_convert(BOX, CUT, &whole, 1, cut, 0, &err));
    assert_wave(cut, CUT, 0, 0, 0);
}

static void noise_keeps_its_deviation(void **state) {
    (void)state;
    enum { IMAGES = 400 };
    static float image[BOX * BOX], cut[CUT * CUT];
    const float *whole = image;
    unsigned random = 4;
    double squares = 0;
    for (int n = 0; n < IMAGES; n++) {
        for (int i = 0; i < BOX * BOX; i++)
            image[i] = (float)gaussian(&random);
        OK(cut_convert(BOX, CUT, &whole, 1, cut, 0, &err));
        for (int i = 0; i < CUT * CUT; i++)
            squares += (double)cut[i] * cut[i] / (CUT * CUT) / IMAGES;
    }
    /* The last row and column of the transform are empty: 19 of 20 each. */
    double expected = (CUT - 1.0) * (CUT - 1.0) / (CUT * CUT);
    print_message("mean square %.4f, %.4f expected\n", squares, expected);
    assert_true(fabs(squares - expected) < 0.02);
}

static struct classifier_options options(void) {
    struct classifier_options o = options_of(8);
    o.resolution = FINEST;
    return o;
}

/* threads: that read ahead, check and cut; 0: the owner does all. */
static void begin(struct classifier *c, bool cut, int threads) {
    struct dataset *dataset = NULL;
    const struct classifier_options o = options();
    OK(dataset_create(ROOM, &dataset, &err));
    if (cut) dataset_cut(dataset, FINEST);
    if (threads > 0) OK(dataset_read_ahead(dataset, threads, SLOTS * BOX * BOX * sizeof(float), NULL, &err));
    classifier_init(c, &o, dataset);
}

static atomic_int cut_by_threads, measured_by_threads;

ahead_make __real_dataset_make, __wrap_dataset_make;
void __wrap_dataset_make(const void *context, float *image, float *scratch, bool measure, float *to,
                         struct ahead_made *ret_made) {
    cut_by_threads++;
    measured_by_threads += measure;
    __real_dataset_make(context, image, scratch, measure, to, ret_made);
}

static void threads_cut_the_same_images(void **state) {
    (void)state;
    struct classifier one, several;
    struct stack_reads ahead, asked;
    begin(&one, true, 0);
    shapes_classify(&one);
    begin(&several, true, 3);
    cut_by_threads = measured_by_threads = 0;
    shapes_classify(&several);
    assert_int_equal(dataset_box(several.dataset), CUT);
    assert_int_equal(one.updates, several.updates);
    for (size_t i = 0; i < COUNT; i++) {
        const struct dataset_particle *p = dataset_at(one.dataset, i), *q = dataset_at(several.dataset, i);
        assert_true(p->class_index == q->class_index && p->psi == q->psi && p->x == q->x && p->y == q->y);
        assert_non_null(q->image);
        assert_memory_equal(p->image, q->image, CUT * CUT * sizeof(float));
    }
    /* Images stay in memory: each is read once, but for some that are given up while they are read. */
    dataset_reads(several.dataset, &ahead, &asked);
    print_message("%zu images read ahead, %zu when asked for\n", ahead.images, asked.images);
    assert_in_range(ahead.images + asked.images, COUNT, COUNT + PARTS * SLOTS);
    print_message("%d images were cut by threads, %d measured\n", cut_by_threads, measured_by_threads);
    assert_int_equal(asked.images, 0);
    assert_in_range(cut_by_threads, COUNT, COUNT + PARTS * SLOTS);
    assert_in_range(measured_by_threads, COUNT / 2, cut_by_threads);
    shapes_end(&one);
    shapes_end(&several);
}

static void stack_of(int part, char path[PATH_MAX]) {
    snprintf(path, PATH_MAX, "%.200s/part%d.mrcs", folder, part);
}

enum { WITH_NAN = 3, STRONG = 7 }; /* images of each stack that cannot be used */

/* Damages two images of each stack, and with `scaled` the grey scale of the last stack, whose particles come last. */
static void damage_stacks(bool scaled) {
    for (int part = 0; part < PARTS; part++) {
        struct image image = {0};
        char path[PATH_MAX];
        stack_of(part, path);
        OK(mrc_read(path, &image, &err));
        for (size_t i = 0; i < image_count(&image) && scaled && part == PARTS - 1; i++)
            image.data[i] = 300 * image.data[i] + 500;
        image.data[WITH_NAN * BOX * BOX + 5] = NAN;
        for (int i = 0; i < BOX * BOX; i++)
            image.data[STRONG * BOX * BOX + i] *= 3000;
        OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
        image_destroy(&image);
    }
}

/* Writes the stacks as they were read into originals, or reads them. */
static void keep_stacks(struct image originals[PARTS], bool read) {
    for (int part = 0; part < PARTS; part++) {
        char path[PATH_MAX];
        stack_of(part, path);
        if (read)
            OK(mrc_read(path, &originals[part], &err));
        else
            OK(mrc_write(path, &originals[part], MRC_STACK, MRC_FLOAT32, &err));
    }
}

/* Threads that read ahead find the same images unusable, and normalise the same ones, also when it turns out late that
 * images are to be normalised. */
static void threads_check_as_the_owner_does(void **state) {
    (void)state;
    struct image originals[PARTS] = {{0}};
    keep_stacks(originals, true);
    for (int scaled = 0; scaled < 2; scaled++) {
        struct classifier one, several;
        size_t unusable = 0;
        damage_stacks(scaled);
        begin(&one, true, 0);
        shapes_classify(&one);
        begin(&several, true, 3);
        shapes_classify(&several);
        assert_int_equal(dataset_normalises(one.dataset), scaled);
        assert_int_equal(dataset_normalises(several.dataset), scaled);
        for (size_t i = 0; i < COUNT; i++) {
            const struct dataset_particle *p = dataset_at(one.dataset, i), *q = dataset_at(several.dataset, i);
            assert_int_equal(p->unusable, q->unusable);
            assert_memory_equal(p->image, q->image, CUT * CUT * sizeof(float));
            unusable += q->unusable;
        }
        assert_int_equal(unusable, 2 * PARTS);
        shapes_end(&one);
        shapes_end(&several);
        keep_stacks(originals, false);
    }
    for (int part = 0; part < PARTS; part++)
        image_destroy(&originals[part]);
}

/* Returns the part of the particles whose class has most of their shape. */
static double purity(struct classifier *c) {
    int table[64][SHAPES + 1] = {{0}}, pure = 0;
    for (size_t i = 0; i < COUNT; i++)
        table[dataset_at(c->dataset, i)->class_index][shapes_truth(c->dataset, i)]++;
    for (int k = 0; k < 64; k++) {
        int most = 0;
        for (int shape = 0; shape <= SHAPES; shape++)
            most = table[k][shape] > most ? table[k][shape] : most;
        pure += most;
    }
    return (double)pure / COUNT;
}

static double mean_norm(struct classifier *c) {
    double sum = 0;
    for (size_t i = 0; i < COUNT; i++)
        sum += (double)dataset_at(c->dataset, i)->norm / COUNT;
    return sum;
}

static void classes_and_noise_are_those_of_whole_images(void **state) {
    (void)state;
    struct classifier whole, cut;
    begin(&whole, false, 0);
    shapes_classify(&whole);
    begin(&cut, true, 0);
    shapes_classify(&cut);
    const double power = model_whole_power(&cut.model->options);
    print_message("purity %.3f whole, %.3f cut; norms %.4f, %.4f; %d and %d px\n", purity(&whole), purity(&cut),
                  mean_norm(&whole), mean_norm(&cut), whole.model->size, cut.model->size);
    assert_true(purity(&whole) >= 0.9 && purity(&cut) >= 0.9);
    /* Signal that no class explains is a larger part of fewer shells. */
    assert_true(fabs(mean_norm(&cut) / mean_norm(&whole) - 1) < 0.06);
    /* The mask's soft edge has 5 px on both grids, and lets more noise through where pixels are larger: here by a fifth.
     * In the first shells noise is what averages leave. */
    for (int s = 4; s <= 8; s++) {
        double there = power * (double)cut.model->sigma2[s], here = (double)whole.model->sigma2[s];
        if (!(fabs(there / here - 1) < 0.25)) fail_msg("noise in shell %d: %g, %g expected", s, there, here);
    }
    shapes_end(&whole);
    shapes_end(&cut);
}

static double likeness(const float *a, const float *b, int count) {
    double ab = 0, aa = 0, bb = 0;
    for (int i = 0; i < count; i++)
        ab += (double)a[i] * b[i], aa += (double)a[i] * a[i], bb += (double)b[i] * b[i];
    return ab / sqrt(aa * bb);
}

/* Averages are masked again when they are read. */
static const double LIKE = 0.97;

/* Goes on from the files with whole or with cut images, and compares averages with those of the files. */
static void restore(const struct classifier *from, struct snapshot *s, const struct image *stack, bool cut) {
    struct classifier again;
    bool final = false;
    begin(&again, cut, 0);
    for (int part = 0; part < PARTS; part++)
        submit(again.dataset, part);
    OK(dataset_merge(again.dataset, NULL, &err));
    OK(classifier_start(&again, &err));
    OK(snapshot_restore(&again, s, &final, &err));
    const struct model *m = again.model;
    assert_int_equal(m->options.box, cut ? CUT : BOX);
    float back[BOX * BOX];
    for (int k = 0; k < m->class_count; k++) {
        const float *map = m->classes[k].map;
        OK(cut_convert(m->options.box, BOX, &map, 1, back, 0, &err));
        double like = likeness(back, stack->data + (size_t)k * BOX * BOX, BOX * BOX);
        if (!(like > LIKE)) fail_msg("class %d: correlation %.4f", k, like);
    }
    double farthest = 0;
    for (size_t i = 0; i < COUNT; i++) { /* a shift in Å is the same */
        const struct dataset_particle *p = dataset_at(from->dataset, i), *q = dataset_at(again.dataset, i);
        const double shift = (double)p->x * p->pixel_size;
        assert_true(fabs(shift - (double)q->x * q->pixel_size) < 1e-3);
        farthest = fmax(farthest, fabs(shift));
    }
    assert_true(farthest > 1);
    assert_true(fabs((double)m->sigma2[5] * model_whole_power(&m->options) /
                         ((double)from->model->sigma2[5] * model_whole_power(&from->model->options)) -
                     1) < 1e-4);
    shapes_end(&again);
}

static void files_have_the_whole_grid(void **state) {
    (void)state;
    struct classifier c;
    struct image stack = {0};
    char path[PATH_MAX];
    int box = 0;
    double pixel_size = 0;
    begin(&c, true, 0);
    shapes_classify(&c);
    struct snapshot s = {.folder = folder, .relative = "classifier", .iteration = 3, .final = true};
    OK(snapshot_write(&c, &s, &err));
    OK(snapshot_grid(folder, 3, &box, &pixel_size, &err));
    assert_int_equal(box, BOX);
    assert_true(fabs(pixel_size - 4) < 1e-6);
    snprintf(path, sizeof path, "%.200s/run_it003_classes.mrcs", folder);
    OK(mrc_read(path, &stack, &err));
    assert_int_equal(stack.nx, BOX);
    assert_true(fabsf(stack.pixel_size - 4) < 1e-4f);
    restore(&c, &s, &stack, true);
    restore(&c, &s, &stack, false);
    image_destroy(&stack);
    shapes_end(&c);
}

/* Writes the stacks anew with another grey scale. */
static void spoil_stacks(void) {
    for (int part = 0; part < PARTS; part++) {
        struct image image = {0};
        char path[PATH_MAX];
        stack_of(part, path);
        OK(mrc_read(path, &image, &err));
        for (size_t i = 0; i < image_count(&image); i++)
            image.data[i] = 3 * image.data[i] + 5;
        OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
        image_destroy(&image);
    }
}

/* Whole images are normalised before they are cut, whoever does it. The last test: it changes the stacks. */
static void images_are_normalised_whole(void **state) {
    (void)state;
    struct classifier good, spoilt;
    begin(&good, true, 3);
    shapes_classify(&good);
    assert_false(dataset_normalises(good.dataset));
    spoil_stacks();
    for (int threads = 0; threads <= 3; threads += 3) {
        begin(&spoilt, true, threads);
        shapes_classify(&spoilt);
        assert_true(dataset_normalises(spoilt.dataset));
        for (size_t i = 0; i < COUNT; i++) {
            const float *a = dataset_at(good.dataset, i)->image, *b = dataset_at(spoilt.dataset, i)->image;
            double difference = 0, all = 0;
            for (int j = 0; j < CUT * CUT; j++)
                difference += ((double)a[j] - b[j]) * ((double)a[j] - b[j]), all += (double)a[j] * a[j];
            /* The background of an image, some 500 px with a little of the particle, has not quite mean 0. */
            if (!(difference < 0.25 * all)) fail_msg("image %zu differs by %.3f", i, sqrt(difference / all));
        }
        shapes_end(&spoilt);
    }
    shapes_end(&good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_as_small_as_they_can_be),
        cmocka_unit_test(frequencies_stay_or_vanish),
        cmocka_unit_test(noise_keeps_its_deviation),
        cmocka_unit_test(threads_cut_the_same_images),
        cmocka_unit_test(threads_check_as_the_owner_does),
        cmocka_unit_test(classes_and_noise_are_those_of_whole_images),
        cmocka_unit_test(files_have_the_whole_grid),
        cmocka_unit_test(images_are_normalised_whole),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
