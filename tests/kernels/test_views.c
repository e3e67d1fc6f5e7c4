/* Projects a map of one blob off the centre along all directions: the blob lies where the matrix of the view puts it, and
 * a pixel holds the sum along the view. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/memory.h"
#include "kernels/sampling/sampling.h"
#include "kernels/views/views.h"

enum { N = 32, PIXELS = N * N };
#define SIGMA 1.7 /* px */

static const double PLACE[3] = {6, -3, 4}; /* of the blob: px from the centre, N / 2 */
static struct err err;

static float *make_map(void) {
    float *map = NULL;
    assert_int_equal(mem_new((size_t)PIXELS * N, sizeof *map, "test", &map, &err), STATUS_OK);
    for (int i = 0; i < PIXELS * N; i++) {
        const double at[3] = {i % N - N / 2, i / N % N - N / 2, i / PIXELS - N / 2};
        double square = 0;
        for (int k = 0; k < 3; k++)
            square += pow(at[k] - PLACE[k], 2);
        map[i] = (float)exp(-square / (2 * SIGMA * SIGMA));
    }
    return map;
}

/* Checks a view against the blob's projection, which is known exactly. matrix: its rows are image x, image y and the
 * direction. */
static void assert_view(const float *view, const double matrix[9]) {
    const double height = SIGMA * sqrt(2 * M_PI);
    double x = 0, y = 0, sum = 0;
    for (int k = 0; k < 3; k++) {
        x += matrix[k] * PLACE[k];
        y += matrix[3 + k] * PLACE[k];
    }
    for (int i = 0; i < PIXELS; i++) {
        double square = pow(i % N - N / 2 - x, 2) + pow(i / N - N / 2 - y, 2);
        /* Half a pixel aside would be 0.18. */
        assert_true(fabs(view[i] - height * exp(-square / (2 * SIGMA * SIGMA))) < 0.06 * height);
        sum += view[i];
    }
    assert_true(fabs(sum - pow(height, 3)) < 1e-3 * pow(height, 3));
}

static void the_blob_lies_where_it_must(void **state) {
    (void)state;
    static const char *const names[] = {"C1", "D2"};
    float *map = make_map();
    for (int i = 0; i < 2; i++) {
        struct symmetry symmetry = {0};
        struct sampling sampling = {0};
        float *views = NULL;
        int count = 0;
        assert_int_equal(symmetry_create(names[i], &symmetry, &err), STATUS_OK);
        assert_int_equal(sampling_create(1, &symmetry, 0, 1, &sampling, &err), STATUS_OK);
        assert_int_equal(views_project(map, N, names[i], 1 + i, &views, &count, &err), STATUS_OK);
        assert_int_equal(count, sampling.direction_count);
        assert_true(i == 0 ? count == VIEWS_MOST : count < VIEWS_MOST / 2);
        for (int d = 0; d < count; d++) {
            double matrix[9];
            sampling_matrix(&sampling, d * sampling.psi_count, matrix);
            assert_view(views + (size_t)d * PIXELS, matrix);
        }
        free(views);
        sampling_destroy(&sampling);
        symmetry_destroy(&symmetry);
    }
    mem_free(&map);
}

static void an_unknown_symmetry_is_refused(void **state) {
    (void)state;
    float *map = make_map(), *views = NULL;
    int count = 0;
    assert_int_equal(views_project(map, N, "Q7", 1, &views, &count, &err), STATUS_BAD_ARGUMENT);
    assert_null(views);
    mem_free(&map);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_blob_lies_where_it_must),
        cmocka_unit_test(an_unknown_symmetry_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
