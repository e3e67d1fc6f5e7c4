/* Tests that images of a coarser grid weigh as much as others in a classification: noise of the same power at each
 * frequency has the same norm on any grid, is no outlier, and counts for no shell that its grid does not have. */
#include "stages/classifier/estep.h"
#include "stages/classifier/model.h"
#include "tests/stages/shapes.h"

enum { EACH = 1500, COARSE = 20, CHECKS = 3 };
static const double FINE_PIXEL = 4, COARSE_PIXEL = 6.4;

static void write_noise(const char *name, int box, double pixel, unsigned *random) {
    struct image image = {0};
    char path[PATH_MAX];
    OK(image_resize(&image, box, box, EACH, &err));
    image.pixel_size = (float)pixel;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)gaussian(random);
    snprintf(path, sizeof path, "%.200s/%s.mrcs", folder, name);
    OK(mrc_write(path, &image, MRC_STACK, MRC_FLOAT32, &err));
    image_destroy(&image);
}

static void write_table(const char *path) {
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnImagePixelSize\n1 %g\n2 %g\n", FINE_PIXEL, COARSE_PIXEL);
    fprintf(f, "\ndata_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n");
    /* Halves are odd and even particles: each gets both grids. The first row decides on the grid if both are as many. */
    for (int i = 0; i < EACH; i += 2)
        fprintf(f, "%d@fine.mrcs 1\n%d@fine.mrcs 1\n%d@coarse.mrcs 2\n%d@coarse.mrcs 2\n", i + 1, i + 2, i + 1, i + 2);
    assert_int_equal(fclose(f), 0);
}

static bool is_coarse(struct dataset *dataset, size_t index) {
    return dataset_at(dataset, index)->image_box == COARSE;
}

static void check_alike(struct classifier *c) {
    const struct model *m = c->model;
    double norms[2] = {0}, empty[2] = {0}, mean = 0;
    const int half = BOX / 2, first = 6; /* averages of noise take some of it out of the first shells */
    for (size_t i = 0; i < dataset_count(c->dataset); i++) {
        const struct dataset_particle *p = dataset_at(c->dataset, i);
        norms[is_coarse(c->dataset, i)] += (double)p->norm / EACH;
        empty[is_coarse(c->dataset, i)] += (double)(p->class_index == m->class_count) / EACH;
    }
    printf("%d updates: norms %.4f and %.4f, %.2f and %.2f in the empty class\n", c->updates, norms[0], norms[1],
           empty[0], empty[1]);
    assert_true(fabs(norms[1] / norms[0] - 1) < 0.03);
    assert_true(fabs(empty[1] - empty[0]) < 0.1);
    for (int s = first; s <= half; s++)
        mean += (double)m->sigma2[s] / (half - first + 1);
    for (int s = first; s <= half; s++)
        if (!(fabs((double)m->sigma2[s] / mean - 1) < 0.03))
            fail_msg("shell %d has %.3f of the mean noise", s, (double)m->sigma2[s] / mean);
}

static void noise_is_the_same_on_both_grids(void **state) {
    (void)state;
    struct dataset *dataset = NULL;
    struct dataset_batch *batch = NULL;
    struct classifier c;
    char path[PATH_MAX];
    const char *given = getenv("ICESTREAM_SEED");
    unsigned random = given != NULL ? (unsigned)atoi(given) : 1;
    printf("seed %u\n", random);
    write_noise("fine", BOX, FINE_PIXEL, &random);
    write_noise("coarse", COARSE, COARSE_PIXEL, &random);
    snprintf(path, sizeof path, "%.200s/grids.star", folder);
    write_table(path);
    OK(dataset_create(1 << 26, &dataset, &err));
    OK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
    OK(dataset_submit(dataset, &batch, &err));
    struct classifier_options o = options_of(4);
    o.particles_per_class = 1000;
    classifier_init(&c, &o, dataset);
    struct classifier_progress progress = {.more = true};
    int checks = 0;
    while (progress.more && checks < CHECKS) {
        progress.updated = false;
        OK(classifier_step(&c, true, &progress, &err));
        assert_int_equal(dataset_box(dataset), BOX);
        if (!progress.updated || c.first_unseen < 2 * EACH) continue;
        check_alike(&c);
        checks++;
    }
    assert_int_equal(checks, CHECKS);
    classifier_clear(&c);
    dataset_destroy(&dataset);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noise_is_the_same_on_both_grids),
    };
    return cmocka_run_group_tests(tests, make_particles, remove_particles);
}
