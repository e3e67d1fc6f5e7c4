/* A micrograph that was picked again has particles of other names. After a restart those that lie where one of the former
 * lay begin in its class and pose; others are new ones. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/formats/mrc.h"
#include "stages/classifier/dataset.h"
#include "stages/classifier/snapshot_restore.h"
#include "tests/common/scratch.h"
#include "tests/stages/placed_particles.h"

enum { BOX = 16, FIRST = 4, AGAIN = 4, CLASSES = 5 };
static const double DIAMETER = 150, PIXEL = 4, MICROGRAPH_PIXEL = 2;

static struct err err;

/* Places, px; those of the second picks follow former ones, or none. */
static const double first[FIRST][2] = {{100, 100}, {300, 100}, {100, 300}, {300, 300}};
static const struct {
    double x, y;
    int follows; /* -1: none */
} again[AGAIN] = {{310, 300, 3}, {200, 200, -1}, {97, 104, 0}, {300, 116, -1}};

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *e) {
    (void)context, (void)star_path, (void)e;
    scratch_path(name, absolute);
    return STATUS_OK;
}

static struct dataset *read_particles(void) {
    char path[PATH_SIZE];
    struct dataset *dataset = NULL;
    struct dataset_batch *batch = NULL;
    scratch_path("again.star", path);
    assert_ok(dataset_create(1 << 20, &dataset, &err));
    assert_ok(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err));
    assert_ok(dataset_submit(dataset, &batch, &err));
    assert_ok(dataset_merge(dataset, NULL, &err));
    return dataset;
}

static void second_picks_begin_in_the_classes_of_the_first(void **state) {
    (void)state;
    char path[PATH_SIZE];
    struct snapshot_state snapshot = {0};
    size_t known = 0, heirs = 0;
    placed_put_stack("m1.mrcs", BOX, PIXEL, FIRST);
    placed_put_stack("m1_epoch001.mrcs", BOX, PIXEL, AGAIN);
    placed_put_stack("m2.mrcs", BOX, PIXEL, 1);
    FILE *f = placed_begin_table("data.star", PIXEL, MICROGRAPH_PIXEL,
                                 "_rlnClassNumber\n_rlnAnglePsi\n_rlnOriginXAngst\n_rlnOriginYAngst\n"
                                 "_rlnNormCorrection\n_rlnMaxValueProbDistribution\n");
    for (int i = 0; i < FIRST; i++)
        fprintf(f, "%06d@m1.mrcs m1.mrc %g %g 1 %d %d %d -8 1.1 0.7\n", i + 1, first[i][0], first[i][1], i + 1, 10 * i,
                4 * i);
    fprintf(f, "000001@m2.mrcs m2.mrc 100 100 1 5 90 0 0 1 0.5\n");
    assert_int_equal(fclose(f), 0);
    f = placed_begin_table("again.star", PIXEL, MICROGRAPH_PIXEL, "");
    for (int k = 0; k < AGAIN; k++)
        fprintf(f, "%06d@m1_epoch001.mrcs m1.mrc %g %g 1\n", k + 1, again[k].x, again[k].y);
    fprintf(f, "000001@m2.mrcs m2.mrc 100 100 1\n");
    assert_int_equal(fclose(f), 0);
    scratch_path("data.star", path);
    assert_ok(star_read(path, &snapshot.data, &err));
    struct dataset *dataset = read_particles();
    assert_ok(snapshot_particles(&snapshot, dataset, NULL, CLASSES, DIAMETER, &known, &heirs, &err));
    assert_int_equal(heirs, 2);
    assert_int_equal(known, 3);
    for (int k = 0; k < AGAIN; k++) {
        const struct dataset_particle *p = dataset_at(dataset, (size_t)k);
        int i = again[k].follows;
        assert_int_equal(p->visits, i >= 0);
        assert_int_equal(p->class_index, i);
        if (i < 0) continue;
        assert_true(fabsf(p->psi - 10.0f * (float)i) < 1e-4f);
        /* The particle lies where it lay: the pick minus its shift. */
        double scale = PIXEL / MICROGRAPH_PIXEL;
        assert_true(fabs(again[k].x - scale * (double)p->x - (first[i][0] - scale * i)) < 1e-3);
        assert_true(fabs(again[k].y - scale * (double)p->y - (first[i][1] + scale * 2)) < 1e-3);
    }
    assert_int_equal(dataset_at(dataset, AGAIN)->class_index, 4);
    dataset_destroy(&dataset);
    snapshot_state_clear(&snapshot);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_picks_begin_in_the_classes_of_the_first),
    };
    return scratch_run("classifier_heirs", tests, sizeof tests / sizeof *tests);
}
