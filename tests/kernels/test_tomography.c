/* Compares tomography on the CPU with formulas in double, weight by weight. test_tomography [SEED]. */
#include "tests/kernels/tomography_cases.h"

#include <unistd.h>

#include "kernels/tomography/blob.h"
#include "kernels/tomography/tomography_cpu.h"
#include "kernels/tomography/tomography_reference.h"

static const enum tomography_basis BASES[] = {TOMOGRAPHY_BLOB, TOMOGRAPHY_LINEAR, TOMOGRAPHY_VOXEL};
static const char *const BASIS_NAMES[] = {"blob", "linear", "voxel"};
static const enum tomography_matrix MATRICES[] = {TOMOGRAPHY_ON_THE_FLY, TOMOGRAPHY_ELLR, TOMOGRAPHY_BLOB_ELLR};

/* The error of single precision and of a table of footprints (3e-7), in sums of about a hundred weights, over up to ten
 * iterations. */
static const double SINGLE = 1e-5;

static double integral_along(double s) {
    enum { STEPS = 4000 };
    double half = sqrt(fmax(0, BLOB_RADIUS * BLOB_RADIUS - s * s)), sum = 0;
    for (int i = 0; i < STEPS; i++) {
        double l = half * ((i + 0.5) / STEPS * 2 - 1);
        sum += blob_value(sqrt(s * s + l * l));
    }
    return sum * 2 * half / STEPS;
}

static void footprint_is_the_line_integral(void **state) {
    (void)state;
    for (double s = 0; s < 2.2; s += 0.01)
        assert_below(fabs(blob_footprint(s) - integral_along(s)), 1e-6, "the footprint's distance from its integral");
    assert_true(blob_value(0) == 1 && blob_value(2) == 0 && blob_value(2.5) == 0);
}

static void weights_sum_to_one(void **state) {
    (void)state;
    struct series s = even_series(3, 60, 16, 8, 8);
    for (int b = 0; b < 3; b++) {
        struct tomography_options o = options_of(&s);
        struct tomography_setup setup = {0};
        struct err err = {0};
        o.basis = BASES[b];
        must(tomography_setup_make(&o, &setup, &err), &err);
        for (int step = 0; step <= TOMOGRAPHY_STEPS; step++) {
            double sum = 0;
            for (int k = 0; k < 4; k++)
                sum += (double)setup.weights[8 * step + k] + 2 * (double)setup.weights[8 * step + 4 + k];
            assert_below(fabs(sum - 1), 1e-6, "the sum of a voxel's weights less 1");
        }
        /* Symmetry 1 of the paper (eq. 6), in the order of the rays: (1 − f, 2 − f, 1 + f, f) / 4. */
        for (int k = 0; b == 1 && k < 4; k++) {
            double f = 0.25, expected[4] = {1 - f, 2 - f, 1 + f, f};
            assert_below(fabs((double)setup.weights[8 * (TOMOGRAPHY_STEPS / 4) + k] - expected[k] / 4), 1e-6,
                         "a weight");
        }
        tomography_setup_clear(&setup);
    }
}

static struct series odd_series(int which) {
    struct series s = which == 0 ? even_series(7, 65, 45, 67, 19) : even_series(6, 90, 40, 130, 22);
    if (which == 2) s = even_series(5, 60, 33, 5, 40);
    if (which == 3) s = even_series(4, 70, 70, 1, 1);
    if (which > 0) shift_randomly(&s, which == 2 ? 30 : 4);
    return s;
}

/* Series 1 and 4 have the same shape, with more rows than a block of the CPU. Both have a mask; series 1 is also
 * non-negative. */
static void agrees_with_reference(void **state) {
    (void)state;
    for (int which = 0; which < 5; which++)
        for (int b = 0; b < 3; b++) {
            struct series s = odd_series(which);
            struct tomography_options o = options_of(&s);
            struct err err = {0};
            double residuals[3], expected_residuals[3];
            size_t voxels = voxel_count(&s);
            o.basis = BASES[b];
            o.start = (enum tomography_start)((which + b) % 3);
            o.iterations = 3;
            o.relaxation = 1.3;
            o.non_negative = which < 2;
            unsigned char *mask = host_new(voxels, 1);
            for (size_t i = 0; i < voxels; i++)
                mask[i] = uniform() < 0.8;
            if (which == 1 || which == 4) o.mask = mask;
            float *p = random_floats(ray_count(&s));
            double *expected = host_new(voxels, sizeof *expected);
            must(tomography_reference_run(&o, p, expected, expected_residuals, &err), &err);
            float *volume = run_once(&o, p, NULL, residuals);
            double off = difference(volume, expected, voxels);
            if (!(off < SINGLE)) fail_msg("series %d, %s: off by %g", which, BASIS_NAMES[b], off);
            for (int k = 0; k < 3; k++)
                assert_below(fabs(residuals[k] / expected_residuals[k] - 1), SINGLE, "a residual's error");
            free(mask), free(p), free(expected), free(volume);
        }
}

/* Return the address of a ray and of a coefficient in the CPU's layout. */
static float *lane_of(const struct tomography_cpu *cpu, float *rays, int t, int y, int x) {
    size_t block = (size_t)y / TOMOGRAPHY_LANES, lane = (size_t)y % TOMOGRAPHY_LANES;
    return rays +
           ((block * (size_t)cpu->setup->tilts + (size_t)t) * cpu->rays + (size_t)(x + TOMOGRAPHY_PAD)) *
               TOMOGRAPHY_LANES +
           lane;
}
static float *coefficient_of(const struct tomography_cpu *cpu, int z, int y, int x) {
    const struct tomography_setup *s = cpu->setup;
    size_t block = (size_t)y / TOMOGRAPHY_LANES, lane = (size_t)y % TOMOGRAPHY_LANES;
    return cpu->coefficients + ((block * (size_t)s->nz + (size_t)z) * (size_t)s->nx + (size_t)x) * TOMOGRAPHY_LANES +
           lane;
}

static double projected(const struct tomography_cpu *cpu, int t, int y, int x) {
    double sum = (double)*lane_of(cpu, cpu->rays0, t, y, x);
    if (cpu->rays1 && y > 0) sum += (double)*lane_of(cpu, cpu->rays1, t, y - 1, x);
    if (cpu->rays1 && y + 1 < cpu->setup->ny) sum += (double)*lane_of(cpu, cpu->rays1, t, y + 1, x);
    return sum;
}

/* Adds <W c, p>, |W c|² and |p|² to ret. Leaves p in the place of W c. */
static void forward_product(struct tomography_cpu *cpu, const float *p, double ret[3]) {
    const struct tomography_setup *s = cpu->setup;
    tomography_cpu_project(cpu);
    for (int i = 0; i < s->tilts * s->ny * s->nx; i++) {
        double ray = projected(cpu, i / s->nx / s->ny, i / s->nx % s->ny, i % s->nx);
        ret[0] += ray * (double)p[i], ret[1] += ray * ray, ret[2] += (double)p[i] * (double)p[i];
    }
    for (int i = 0; i < s->tilts * s->ny * s->nx; i++)
        *lane_of(cpu, cpu->rays0, i / s->nx / s->ny, i / s->nx % s->ny, i % s->nx) = p[i];
}

static double back_product(struct tomography_cpu *cpu, const float *c) {
    const struct tomography_setup *s = cpu->setup;
    double sum = 0;
    memset(cpu->coefficients, 0, (size_t)cpu->blocks * (size_t)s->nz * (size_t)s->nx * TOMOGRAPHY_LANES * sizeof *c);
    tomography_cpu_back_project(cpu, 1, true);
    for (int i = 0; i < s->nz * s->ny * s->nx; i++)
        sum += (double)c[i] * (double)*coefficient_of(cpu, i / s->nx / s->ny, i / s->nx % s->ny, i % s->nx);
    return sum;
}

static void is_adjoint(void **state) {
    (void)state;
    for (int which = 0; which < 12; which++) {
        struct series s = odd_series(which % 4);
        struct tomography_options o = options_of(&s);
        struct tomography_setup setup = {0};
        void *work = NULL;
        struct err err = {0};
        o.basis = BASES[which / 4];
        o.matrix = MATRICES[which % 3];
        must(tomography_setup_make(&o, &setup, &err), &err);
        must(tomography_cpu_work.create(&setup, &work, &err), &err);
        struct tomography_cpu *cpu = work;
        float *c = random_floats(voxel_count(&s)), *p = random_floats(ray_count(&s));
        double *back = host_new(voxel_count(&s), sizeof *back), *wide = host_new(voxel_count(&s), sizeof *wide);
        double product[3] = {0}, exact[2] = {0}, *rays = host_new(ray_count(&s), sizeof *rays);
        double *wide_p = host_new(ray_count(&s), sizeof *wide_p);
        for (int i = 0; i < s.nz * s.ny * s.nx; i++) {
            wide[i] = (double)c[i];
            *coefficient_of(cpu, i / s.nx / s.ny, i / s.nx % s.ny, i % s.nx) = c[i];
        }
        forward_product(cpu, p, product);
        double off = fabs(product[0] - back_product(cpu, c)) / sqrt(product[1] * product[2]);
        assert_below(off, 1e-6, "the CPU's <W c, p> − <c, Wᵀ p>");
        for (size_t i = 0; i < ray_count(&s); i++)
            wide_p[i] = (double)p[i];
        tomography_reference_project(&o.geometry, o.basis, wide, rays);
        tomography_reference_back_project(&o.geometry, o.basis, wide_p, back);
        for (size_t i = 0; i < ray_count(&s); i++)
            exact[0] += rays[i] * wide_p[i];
        for (size_t i = 0; i < voxel_count(&s); i++)
            exact[1] += back[i] * wide[i];
        assert_below(fabs(exact[0] - exact[1]) / sqrt(product[1] * product[2]), 1e-13, "the reference's");
        tomography_cpu_work.destroy(work);
        tomography_setup_clear(&setup);
        free(c), free(p), free(back), free(wide), free(rays), free(wide_p);
    }
}

static void residual_falls(void **state) {
    (void)state;
    for (int which = 0; which < 6; which++) {
        struct series s = odd_series(which % 2);
        struct tomography_options o = options_of(&s);
        double residuals[20];
        o.basis = BASES[which / 2];
        o.iterations = 20;
        o.relaxation = which % 2 ? 1.9 : 1;
        o.start = (enum tomography_start)(which % 3);
        float *p = random_floats(ray_count(&s));
        float *volume = run_once(&o, p, NULL, residuals);
        for (int k = 1; k < 20; k++)
            assert_below(residuals[k], residuals[k - 1], "the residual after an iteration");
        free(p), free(volume);
    }
}

/* Tests tilts with and without an opposite tilt, shifts, and an odd number of voxels. */
static void matrices_agree(void **state) {
    (void)state;
    for (int which = 0; which < 3; which++)
        for (int b = 0; b < 3; b++) {
            struct series s = odd_series(which);
            struct tomography_options o = options_of(&s);
            float *volumes[3], *p = random_floats(ray_count(&s));
            o.basis = BASES[b];
            o.iterations = 10;
            for (int m = 0; m < 3; m++) {
                struct tomography_report report;
                o.matrix = MATRICES[m];
                volumes[m] = run_once(&o, p, &report, NULL);
                assert_int_equal(report.matrix, MATRICES[m]);
            }
            for (int m = 1; m < 3; m++)
                assert_below(difference_of_floats(volumes[m], volumes[0], voxel_count(&s)), 1e-5,
                             "a matrix's difference");
            free(volumes[0]), free(volumes[1]), free(volumes[2]), free(p);
        }
}

static void matrices_take_what_the_formula_says(void **state) {
    (void)state;
    for (int which = 0; which < 12; which++) {
        struct series s = which / 6 ? odd_series(0) : even_series(8, 60, 30, 4, 20);
        struct tomography_options o = options_of(&s);
        struct tomography_setup setup = {0};
        struct tomography_matrix_cpu *matrix = NULL;
        struct err err = {0};
        size_t tilts = (size_t)s.tilts, voxels = (size_t)s.nx * (size_t)s.nz;
        o.basis = which % 2 ? TOMOGRAPHY_LINEAR : TOMOGRAPHY_BLOB;
        enum tomography_matrix kind = MATRICES[which % 6 / 2];
        size_t expected = kind == TOMOGRAPHY_ELLR        ? (size_t)(which % 2 ? 32 : 48) * tilts * voxels
                          : kind == TOMOGRAPHY_BLOB_ELLR ? 8 * ((tilts + 1) / 2) * ((voxels + 1) / 2)
                                                         : 0;
        must(tomography_setup_make(&o, &setup, &err), &err);
        must(tomography_matrix_create(&setup, kind, &matrix, &err), &err);
        assert_int_equal(matrix->bytes, expected);
        assert_int_equal(tomography_matrix_bytes(&o.geometry, o.basis, kind), expected);
        tomography_matrix_destroy(&matrix);
        tomography_setup_clear(&setup);
    }
    /* The ratio of 1/16 from the paper. */
    struct series s = even_series(56, 60, 512, 1, 190);
    struct tomography_options o = options_of(&s);
    assert_int_equal(16 * tomography_matrix_bytes(&o.geometry, TOMOGRAPHY_LINEAR, TOMOGRAPHY_BLOB_ELLR),
                     tomography_matrix_bytes(&o.geometry, TOMOGRAPHY_LINEAR, TOMOGRAPHY_ELLR));
}

static void repeats_whatever_the_threads(void **state) {
    (void)state;
    for (int method = 0; method < 2; method++) {
        struct series s = odd_series(1);
        struct tomography_options o = options_of(&s);
        struct err err = {0};
        struct tomography *plan = NULL;
        float *p = random_floats(ray_count(&s)), *again = host_new(voxel_count(&s), sizeof *again);
        o.method = (enum tomography_method)method;
        o.iterations = 4;
        double residuals[4] = {0};
        struct tomography_report report;
        float *volume = run_once(&o, p, &report, residuals);
        assert_int_equal(report.iterations, method == 0 ? 4 : 0);
        for (int threads = 1; threads < 6; threads += 2) {
            o.threads = threads;
            must(tomography_create(&o, &plan, &err), &err);
            for (int k = 0; k < 2; k++) {
                must(tomography_run(plan, p, again, &report, &err), &err);
                assert_memory_equal(report.residuals, residuals, (size_t)report.iterations * sizeof *residuals);
                assert_memory_equal(again, volume, voxel_count(&s) * sizeof *volume);
            }
            tomography_destroy(&plan);
        }
        free(p), free(again), free(volume);
    }
}

static bool three_times(void *context, int iteration, double residual) {
    (void)residual;
    *(int *)context = iteration;
    return iteration < 3;
}

static void stops_when_told(void **state) {
    (void)state;
    struct series s = odd_series(0);
    struct tomography_options o = options_of(&s);
    struct tomography_report report;
    struct err err = {0};
    double residuals[200];
    float *p = random_floats(ray_count(&s));
    o.iterations = 200;
    o.limit = 0.005;
    o.basis = TOMOGRAPHY_VOXEL;
    float *volume = run_once(&o, p, &report, residuals);
    int k = report.iterations;
    assert_in_range(k, 3, 199);
    assert_true(residuals[k - 2] - residuals[k - 1] < 0.005 * residuals[k - 2]);
    assert_true(residuals[k - 3] - residuals[k - 2] >= 0.005 * residuals[k - 3]);
    int last = 0;
    struct tomography *plan = NULL;
    o.go_on = three_times;
    o.context = &last;
    must(tomography_create(&o, &plan, &err), &err);
    assert_int_equal(tomography_run(plan, p, volume, NULL, &err), STATUS_CANCELLED);
    assert_int_equal(last, 3);
    tomography_destroy(&plan);
    free(p), free(volume);
}

static void refuses(const struct tomography_options *o, const char *part) {
    struct err err = {0};
    struct tomography *plan = NULL;
    assert_int_equal(tomography_create(o, &plan, &err), STATUS_BAD_ARGUMENT);
    assert_null(plan);
    if (!strstr(err.message, part)) fail_msg("\"%s\" does not say \"%s\"", err.message, part);
}

static void refuses_what_is_wrong(void **state) {
    (void)state;
    struct series good = even_series(5, 60, 16, 8, 8), s = good;
    struct tomography_options o = options_of(&s);
    s.angles[2] = NAN;
    refuses(&o, "tilt 3 of 5 has the angle nan");
    s.angles[2] = 90.5;
    refuses(&o, "from -90 to 90");
    for (int t = 0; t < 5; t++)
        s.angles[t] = 12;
    refuses(&o, "all 5 tilts have the angle 12");
    s = good;
    shift_randomly(&s, 1);
    o = options_of(&s);
    s.shifts[4] = INFINITY;
    refuses(&o, "tilt 5 of 5 (60°) is shifted by inf");
    s = good;
    o = options_of(&s);
    o.geometry.tilts = 0;
    refuses(&o, "a series of 0 tilts");
    o = options_of(&s);
    o.geometry.nz = 0;
    refuses(&o, "a thickness of 0 px");
    o = options_of(&s);
    o.geometry.nx = -1;
    refuses(&o, "images of -1 x 8 px");
    o = options_of(&s);
    o.relaxation = 2;
    refuses(&o, "the relaxation is 2");
    o.relaxation = NAN;
    refuses(&o, "the relaxation is nan");
    o = options_of(&s);
    o.cutoff = 0;
    refuses(&o, "cut-off");
    o = options_of(&s);
    o.iterations = -1;
    refuses(&o, "-1 iterations");
    o.iterations = TOMOGRAPHY_MOST_ITERATIONS + 1;
    refuses(&o, "10001 iterations were asked for; from 0 to 10000");
    o = options_of(&s);
    o.limit = 1.1;
    refuses(&o, "the limit at which to stop is 1.1");
    o = options_of(&s);
    o.device_count = 0;
    refuses(&o, "at least one device");
}

static void refuses_pixels_that_are_no_numbers(void **state) {
    (void)state;
    struct series s = even_series(5, 60, 16, 8, 8);
    struct tomography_options o = options_of(&s);
    struct err err = {0};
    struct tomography *plan = NULL;
    float *p = random_floats(ray_count(&s)), volume[16 * 8 * 8];
    must(tomography_create(&o, &plan, &err), &err);
    p[(3 * 8 + 6) * 16 + 9] = -INFINITY;
    assert_int_equal(tomography_run(plan, p, volume, NULL, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "column 10 of row 7 of tilt 4 (30°) is -inf"));
    p[(3 * 8 + 6) * 16 + 9] = 0;
    must(tomography_run(plan, p, volume, NULL, &err), &err);
    tomography_destroy(&plan);
    o.memory = 1000;
    assert_int_equal(tomography_create(&o, &plan, &err), STATUS_NO_MEMORY);
    assert_non_null(strstr(err.message, "and memory allows 0 MiB"));
    free(p);
}

/* A volume of twice the machine's memory fails before any memory is allocated. */
static void refuses_what_the_machine_cannot_hold(void **state) {
    (void)state;
    enum { SIDE = 16384 }; /* px: a slice is 1 GiB */
    double gigabytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE) / (double)(1 << 30);
    struct series s = even_series(3, 60, SIDE, SIDE, (int)(2 * gigabytes) + 1);
    struct tomography_options o = options_of(&s);
    struct tomography *plan = NULL;
    struct err err = {0};
    o.basis = TOMOGRAPHY_VOXEL;
    assert_int_equal(tomography_create(&o, &plan, &err), STATUS_NO_MEMORY);
    assert_null(plan);
    assert_non_null(strstr(err.message, "and this machine has"));
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(footprint_is_the_line_integral),
        cmocka_unit_test(weights_sum_to_one),
        cmocka_unit_test(agrees_with_reference),
        cmocka_unit_test(is_adjoint),
        cmocka_unit_test(residual_falls),
        cmocka_unit_test(matrices_agree),
        cmocka_unit_test(matrices_take_what_the_formula_says),
        cmocka_unit_test(repeats_whatever_the_threads),
        cmocka_unit_test(stops_when_told),
        cmocka_unit_test(refuses_what_is_wrong),
        cmocka_unit_test(refuses_pixels_that_are_no_numbers),
        cmocka_unit_test(refuses_what_the_machine_cannot_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
