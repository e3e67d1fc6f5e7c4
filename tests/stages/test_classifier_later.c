/* Particles that come later are of another kind than the first ones: those that are not normalised are told and
 * normalised, also after a restart; those that cannot be are told; `off` tells and takes them as they are. Averages of
 * the particles that came before stay as they would be. */
#include "kernels/alignment/alignment.h"
#include "stages/classifier/snapshot.h"
#include "stages/classifier/snapshot_restore.h"
#include "tests/stages/shapes.h"

void __wrap_alignment_forget_images(struct alignment *alignment);

static int forgotten; /* calls: a device reads images again */

void __wrap_alignment_forget_images(struct alignment *alignment) {
    assert_non_null(alignment);
    forgotten++;
}

struct run {
    struct dataset *dataset;
    struct classifier classifier;
    struct classifier_options options;
};

static void begin(struct run *r, int normalise) {
    OK(dataset_create(1 << 24, &r->dataset, &err));
    r->options = options_of(8);
    r->options.normalise = normalise;
    classifier_init(&r->classifier, &r->options, r->dataset);
    forgotten = 0;
}

static void step(struct run *r) {
    struct classifier_progress progress = {.more = true};
    while (progress.more)
        OK(classifier_step(&r->classifier, false, &progress, &err));
}

static void end(struct run *r) {
    classifier_clear(&r->classifier);
    dataset_destroy(&r->dataset);
}

typedef float change(float value, int x, int y);

static float unchanged(float value, int x, int y) {
    (void)x, (void)y;
    return value;
}

static float counts(float value, int x, int y) {
    (void)x, (void)y;
    return value * 37 + 1000;
}

static float faint(float value, int x, int y) {
    (void)x, (void)y;
    return value / 1000;
}

static float masked(float value, int x, int y) {
    return hypot(x, y) > 10 ? 500 : value;
}

/* Writes the last part anew, each value changed. */
static void spoil(change *of) {
    static float kept[BOX * BOX * COUNT];
    static bool known;
    char path[PATH_MAX];
    struct image image = {0};
    snprintf(path, sizeof path, "%.200s/part%d.mrcs", folder, PARTS - 1);
    OK(mrc_read(path, &image, &err));
    if (!known) memcpy(kept, image.data, image_count(&image) * sizeof *kept);
    known = true;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = of(kept[i], (int)(i % BOX) - BOX / 2, (int)(i / BOX % BOX) - BOX / 2);
    OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

/* All particles have a background of mean 0 and deviation 1. */
static void check_backgrounds(struct run *r) {
    static float scratch[BOX * BOX];
    const double radius = r->options.diameter / 2 / dataset_pixel_size(r->dataset);
    for (size_t i = 0; i < dataset_count(r->dataset); i++) {
        const float *image = NULL;
        double sum = 0, squares = 0, pixels = 0;
        OK(dataset_image(r->dataset, i, scratch, &image, &err));
        assert_false(dataset_at(r->dataset, i)->unusable);
        for (int p = 0; p < BOX * BOX; p++) {
            if (hypot(p % BOX - BOX / 2, p / BOX - BOX / 2) <= radius) continue;
            const double value = (double)image[p];
            sum += value, squares += value * value, pixels++;
        }
        assert_true(fabs(sum / pixels) < 1e-4 && fabs(sqrt(squares / pixels) - 1) < 1e-4);
    }
}

/* Returns the share of particles from `first` on, noise left out, that are in a class of their shape. */
static double purity(struct run *r, size_t first) {
    int table[64][SHAPES + 1] = {{0}}, pure = 0, all = 0;
    const size_t count = dataset_count(r->dataset);
    for (size_t i = 0; i < count; i++)
        table[dataset_at(r->dataset, i)->class_index][shapes_truth(r->dataset, i)]++;
    for (size_t i = first; i < count; i++) {
        const int *of = table[dataset_at(r->dataset, i)->class_index], shape = shapes_truth(r->dataset, i);
        if (shape == SHAPES || dataset_at(r->dataset, i)->class_index == r->classifier.model->class_count)
            all += shape != SHAPES;
        else
            all++, pure += of[shape] >= of[0] && of[shape] >= of[1] && of[shape] >= of[2];
    }
    return (double)pure / all;
}

static void classify_with_later(struct run *r, change *of, int normalise) {
    spoil(of);
    begin(r, normalise);
    for (int part = 0; part < PARTS; part++) {
        if (part == PARTS - 1) assert_string_equal(dataset_background(r->dataset), "");
        submit(r->dataset, part);
        step(r);
    }
    assert_int_equal(dataset_count(r->dataset), COUNT);
}

static double strongest_value(const struct run *r) {
    double most = 0;
    for (int k = 0; k < r->classifier.model->class_count; k++)
        for (int p = 0; p < BOX * BOX; p++)
            most = fmax(most, fabs((double)r->classifier.model->classes[k].map[p]));
    return most;
}

/* Faint ones: those that came before are far stronger than the others, and are of use nevertheless. */
static void later_particles_are_normalised(void **state) {
    (void)state;
    change *const kinds[] = {counts, faint};
    const size_t first = (PARTS - 1) * COUNT / PARTS;
    struct run plain, r;
    classify_with_later(&plain, unchanged, IMAGE_CHECK_AUTO);
    assert_string_equal(dataset_background(plain.dataset), "");
    assert_int_equal(forgotten, 0);
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        classify_with_later(&r, kinds[kind], IMAGE_CHECK_AUTO);
        assert_non_null(strstr(dataset_background(r.dataset), "the particles are not normalised: in "));
        assert_non_null(strstr(dataset_background(r.dataset), "each image is normalised in memory by its background"));
        assert_true(dataset_normalises(r.dataset));
        assert_int_equal(forgotten, 1);
        check_backgrounds(&r);
        print_message("pure: %.3f and %.3f of the last; without the change %.3f and %.3f; averages to %.2f and %.2f\n",
                      purity(&r, 0), purity(&r, first), purity(&plain, 0), purity(&plain, first), strongest_value(&r),
                      strongest_value(&plain));
        assert_true(purity(&r, 0) > purity(&plain, 0) - 0.05);
        assert_true(purity(&r, first) > purity(&plain, first) - 0.1);
        assert_true(strongest_value(&r) < 1.2 * strongest_value(&plain));
        end(&r);
    }
    end(&plain);
}

/* The sample of the second run shows particles that are not normalised, or none: all are normalised either way. */
static void a_restart_normalises_too(void **state) {
    (void)state;
    struct run r, again;
    bool final = false;
    struct snapshot snapshot = {.folder = folder, .relative = ".", .iteration = 1};
    classify_with_later(&r, counts, IMAGE_CHECK_AUTO);
    OK(snapshot_write(&r.classifier, &snapshot, &err));
    for (int parts = PARTS - 1; parts <= PARTS; parts++) {
        begin(&again, IMAGE_CHECK_AUTO);
        for (int part = 0; part < parts; part++)
            submit(again.dataset, part);
        OK(dataset_merge(again.dataset, NULL, &err));
        OK(classifier_start(&again.classifier, &err));
        OK(snapshot_restore(&again.classifier, &snapshot, &final, &err));
        classifier_review(&again.classifier);
        step(&again);
        assert_non_null(strstr(dataset_background(again.dataset),
                               parts == PARTS ? "the particles are not normalised: in " : "as was found before"));
        assert_true(dataset_normalises(again.dataset));
        check_backgrounds(&again);
        assert_true(purity(&again, 0) > purity(&r, 0) - 0.05);
        end(&again);
    }
    end(&r);
}

/* The others are classified as before. */
static void what_cannot_be_normalised_is_told(void **state) {
    (void)state;
    struct run r;
    classify_with_later(&r, masked, IMAGE_CHECK_AUTO);
    assert_non_null(strstr(dataset_background(r.dataset), "are constant, at 500"));
    assert_false(dataset_normalises(r.dataset));
    end(&r);
    classify_with_later(&r, counts, IMAGE_CHECK_OFF);
    assert_non_null(strstr(dataset_background(r.dataset), "since `normalise` is off, each image is taken as it is"));
    assert_false(dataset_normalises(r.dataset));
    assert_int_equal(forgotten, 0);
    end(&r);
}

/* One odd image among a few is no set that is not normalised. */
static void a_few_odd_images_change_nothing(void **state) {
    (void)state;
    struct background_values values[30];
    for (int odd = 0; odd <= 30; odd++) {
        for (int i = 0; i < 30; i++)
            values[i] = (struct background_values){.mean = i < odd ? 2 : 0, .deviation = 1};
        assert_int_equal(background_judge(values, 30).verdict,
                         odd < 8 ? BACKGROUND_NORMALISED : BACKGROUND_NOT_NORMALISED);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_particles_are_normalised),
        cmocka_unit_test(a_restart_normalises_too),
        cmocka_unit_test(what_cannot_be_normalised_is_told),
        cmocka_unit_test(a_few_odd_images_change_nothing),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
