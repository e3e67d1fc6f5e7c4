/* Particles of different boxes, pixel sizes and optics in one refinement: images of one particle, drawn on different
 * grids and through different optics, are the same when the loader gives them out. Wrong signs must fail. */
#include <complex.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "stages/refiner/detectors.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/loader.h"
#include "tests/common/scratch.h"

enum { FINE = 64, COARSE = 48, EACH = 3, MOST = FINE * FINE };
static const double FINE_PIXEL = 1.5, COARSE_PIXEL = 2;

/* The transform of the particle at a frequency in 1/Å: Gaussians, which no grid here cuts. */
static double complex particle(int number, double x, double y) {
    static const double BLOBS[][4] = {{0, 0, 7, 1}, {11, -6, 6, 1.5}, {-9, 10, 6.5, -0.7}};
    double complex sum = 0;
    for (int i = 0; i < 3; i++) {
        double s = BLOBS[i][2], px = BLOBS[i][0] + 3 * number, py = BLOBS[i][1];
        sum += BLOBS[i][3] * 2 * M_PI * s * s * exp(-2 * M_PI * M_PI * s * s * (x * x + y * y)) *
               cexp(-2 * M_PI * I * (x * px + y * py));
    }
    return sum;
}

/* Draws the image of a particle seen through optics: X(k) = exp(iφ(Mk)) P(Mk), divided by the pixel size, so that white
 * noise of a detector would have the deviation 1 on any grid. */
static void draw(int number, int box, double pixel, const double m[4], const struct aberration *odd, float *image) {
    enum { REACH = 14 };
    for (int p = 0; p < box * box; p++)
        image[p] = 0;
    double step = 1 / (box * pixel);
    double complex waves[2 * REACH + 1][FINE]; /* of each frequency: at each pixel of a row */
    for (int k = -REACH; k <= REACH; k++)
        for (int i = 0; i < box; i++)
            waves[k + REACH][i] = cexp(2 * M_PI * I * k * (i - box / 2) / box);
    for (int ky = -REACH; ky <= REACH; ky++)
        for (int kx = -REACH; kx <= REACH; kx++) {
            double x = m[0] * kx * step + m[1] * ky * step, y = m[2] * kx * step + m[3] * ky * step;
            double complex value = particle(number, x, y) * cexp(I * aberration_phase(odd, x, y)) * step * step * pixel;
            for (int iy = 0; iy < box; iy++) {
                const double complex row = value * waves[ky + REACH][iy];
                for (int ix = 0; ix < box; ix++)
                    image[iy * box + ix] +=
                        (float)(creal(row) * creal(waves[kx + REACH][ix]) - cimag(row) * cimag(waves[kx + REACH][ix]));
            }
        }
}

static void write_stack(const char *folder, const char *name, int box, double pixel, const double m[4],
                        const struct aberration *odd) {
    static float data[EACH * MOST];
    char path[PATH_SIZE + 64];
    const struct image images = {.nx = box, .ny = box, .nz = EACH, .pixel_size = (float)pixel, .data = data};
    for (int i = 0; i < EACH; i++)
        draw(i, box, pixel, m, odd, data + (size_t)i * (size_t)box * (size_t)box);
    snprintf(path, sizeof path, "%s/%s.mrcs", folder, name);
    assert_int_equal(mrc_write(path, &images, MRC_STACK, MRC_FLOAT32, NULL), STATUS_OK);
}

static const double ONE[4] = {1, 0, 0, 1};

static void open_folder(const char *name, char folder[PATH_SIZE]) {
    scratch_path(name, folder);
    assert_int_equal(file_make_folders(folder, 0755, NULL), STATUS_OK);
}

/* optics: columns and rows of the optics table. Rows of stacks: groups follow each other from 1 on. */
static void merge(struct particle_set *set, const char *folder, const char *optics, const char *const *stacks,
                  int stack_count) {
    char path[PATH_SIZE + 64];
    struct star_file *file = NULL;
    struct err err = {0};
    snprintf(path, sizeof path, "%s/particles.star", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_optics\n\nloop_\n%s\n\ndata_particles\n\nloop_\n_rlnImageName\n_rlnOpticsGroup\n_rlnDefocusU\n",
            optics);
    for (int s = 0; s < stack_count; s++)
        for (int i = 0; i < EACH; i++)
            fprintf(f, "%d@%s.mrcs %d 12000\n", i + 1, stacks[s], s + 1);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(star_read(path, &file, NULL), STATUS_OK);
    if (particle_set_merge(set, &file, path, false, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
}

/* Returns the largest difference of an image that the loader gives out from the particle drawn on the set's grid, over
 * the greatest value. */
static double difference(struct particle_set *set, int index, int number) {
    float expected[MOST];
    const float *const *images;
    struct loader *loader = NULL;
    struct err err = {0};
    const struct aberration none = aberration_none();
    double most = 0, greatest = 0;
    draw(number, set->box, set->pixel_size, ONE, &none, expected);
    assert_int_equal(loader_create(set, 2, &loader, NULL), STATUS_OK);
    if (loader_take(loader, NULL, &index, 1, &images, &err) != STATUS_OK) fail_msg("%s", err.message);
    for (int p = 0; p < set->box * set->box; p++) {
        most = fmax(most, fabs((double)(images[0][p] - expected[p])));
        greatest = fmax(greatest, fabs((double)expected[p]));
    }
    loader_destroy(&loader);
    return most / greatest;
}

static void images_of_two_grids_join(void **state) {
    (void)state;
    static const char OPTICS[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n1 1.5\n2 2";
    static const char *const STACKS[] = {"fine", "coarse"};
    const struct aberration none = aberration_none();
    char folder[PATH_SIZE];
    open_folder("grids", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    for (int preferred = 0; preferred < 2; preferred++) {
        struct particle_set set;
        particle_set_init(&set, 1, 1 << 20, NAN);
        if (preferred) set.preferred_box = COARSE, set.preferred_pixel_size = COARSE_PIXEL;
        merge(&set, folder, OPTICS, STACKS, 2);
        assert_int_equal(set.box, preferred ? COARSE : FINE);
        assert_true(set.pixel_size == (preferred ? COARSE_PIXEL : FINE_PIXEL));
        for (int i = 0; i < 2 * EACH; i++) {
            assert_true(difference(&set, i, i % EACH) < 2e-3);
            assert_int_equal(grids_resample(&set, &set.particles[i]), (i < EACH) == preferred);
        }
        /* The coarse image has nothing beyond its last shell. */
        assert_true(preferred || fabs(set.particles[EACH].ctf.limit - 0.25) < 1e-9);
        assert_true(set.particles[0].ctf.limit == 0);
        particle_set_destroy(&set);
    }
}

/* The tables that are written describe the images as they lie in their files. */
static void tables_keep_the_grids_of_images(void **state) {
    (void)state;
    static const char OPTICS[] = "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMagMat00\n_rlnMagMat01\n"
                                 "1 1.5 1 0\n2 2 1.02 0.01";
    static const char *const STACKS[] = {"fine", "coarse"};
    const struct aberration none = aberration_none();
    struct star_file *file = NULL;
    struct particle_set set;
    char folder[PATH_SIZE];
    double value, shift[2];
    open_folder("tables", folder);
    write_stack(folder, "fine", FINE, FINE_PIXEL, ONE, &none);
    write_stack(folder, "coarse", COARSE, COARSE_PIXEL, ONE, &none);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 2);
    for (int i = 0; i < 2 * EACH; i++) {
        struct particle *p = &set.particles[i];
        p->aligned = true;
        p->origin[0] = 2, p->origin[1] = -1;
        grids_shift_to_table(&set, p, shift);
        p->origin[0] = p->origin[1] = 0;
        grids_shift_from_table(&set, p, shift);
        assert_true(fabs(p->origin[0] - 2) < 1e-9 && fabs(p->origin[1] + 1) < 1e-9);
    }
    assert_int_equal(star_create(&file, NULL), STATUS_OK);
    assert_int_equal(particle_set_export(&set, file, NULL), STATUS_OK);
    const struct star_table *optics = star_table_find(file, "optics"), *rows = star_table_find(file, "particles");
    for (size_t g = 0; g < 2; g++) {
        assert_int_equal(star_need_number(optics, g, "rlnImagePixelSize", 0, 10, &value, NULL), STATUS_OK);
        assert_true(value == (g == 0 ? FINE_PIXEL : COARSE_PIXEL));
        assert_int_equal(star_need_number(optics, g, "rlnImageSize", 0, 100, &value, NULL), STATUS_OK);
        assert_true(value == (g == 0 ? FINE : COARSE));
    }
    /* Shifts are those of the image: M transposed times (3, −1.5) Å. */
    assert_int_equal(star_need_number(rows, 0, "rlnOriginXAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value - 3) < 1e-4);
    assert_int_equal(star_need_number(rows, EACH, "rlnOriginXAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value - 3.06) < 1e-4);
    assert_int_equal(star_need_number(rows, EACH, "rlnOriginYAngst", -9, 9, &value, NULL), STATUS_OK);
    assert_true(fabs(value + 1.5 - 0.03) < 1e-4);
    star_destroy(&file);
    particle_set_destroy(&set);
}

/* Each column takes its aberration off the image; the other sign, or none, leaves or doubles it. */
static void aberrations_of_the_image_are_taken_off(void **state) {
    (void)state;
    static const double ODD[] = {-1600, 1200, 300, -800, 600, 250}, MATRIX[4] = {1.03, 0.015, 0.01, 0.98};
    static const struct {
        const char *columns, *right, *wrong;
        double tilt[2];
        bool odd, magnified;
    } CASES[] = {
        {"_rlnBeamTiltX\n_rlnBeamTiltY\n", "60 -40", "-60 40", {60, -40}, false, false},
        {"_rlnOddZernike\n", "[-1600,1200,300,-800,600,250]", "[1600,-1200,-300,800,-600,-250]", {0, 0}, true, false},
        {"_rlnMagMat00\n_rlnMagMat01\n_rlnMagMat10\n_rlnMagMat11\n",
         "1.03 0.015 0.01 0.98",
         "0.971 -0.0149 -0.0099 1.0206",
         {0, 0},
         false,
         true},
        {"_rlnOddZernike\n_rlnMagMat00\n_rlnMagMat01\n_rlnMagMat10\n_rlnMagMat11\n",
         "[-1600,1200,300,-800,600,250] 1.03 0.015 0.01 0.98",
         "[1600,-1200,-300,800,-600,-250] 1.03 0.015 0.01 0.98",
         {0, 0},
         true,
         true},
    };
    static const char *const STACK = "coarse";
    char folder[PATH_SIZE], optics[512];
    open_folder("aberrations", folder);
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        struct aberration odd = aberration_none();
        if (CASES[c].odd) aberration_add_odd(&odd, ODD, 6);
        aberration_add_tilt(&odd, 2.7, 300, CASES[c].tilt[0], CASES[c].tilt[1]);
        write_stack(folder, STACK, COARSE, COARSE_PIXEL, CASES[c].magnified ? MATRIX : ONE, &odd);
        for (int how = 0; how < 3; how++) { /* right, wrong, ignored */
            struct particle_set set;
            particle_set_init(&set, 1, 0, NAN);
            set.ignore_optics = how == 2;
            snprintf(optics, sizeof optics, "_rlnOpticsGroup\n_rlnImagePixelSize\n%s1 2 %s", CASES[c].columns,
                     how == 1 ? CASES[c].wrong : CASES[c].right);
            merge(&set, folder, optics, &STACK, 1);
            double off = difference(&set, 1, 1);
            if (how == 0) assert_true(off < 2e-3);
            if (how > 0) assert_true(off > 2e-2);
            assert_int_equal(grids_correct(&set, &set.particles[1]), how < 2);
            particle_set_destroy(&set);
        }
    }
}

static void even_aberrations_go_into_the_ctf(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnEvenZernike\n1 2 [0.5,0,-20,0,0,0,900]\n2 2 []";
    static const char *const STACKS[] = {"one", "two"};
    const struct aberration none = aberration_none();
    struct particle_set set;
    char folder[PATH_SIZE];
    open_folder("even", folder);
    for (int s = 0; s < 2; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 2);
    const struct ctf *with = particle_ctf(&set.particles[0]), *without = particle_ctf(&set.particles[EACH]);
    assert_non_null(with->even);
    assert_null(without->even);
    struct ctf_terms a = ctf_prepare(with), b = ctf_prepare(without);
    double x = 0.05, y = 0.08, r2 = x * x + y * y;
    double offset = 0.5 - 20 * (2 * r2 - 1) + 900 * (6 * r2 * r2 - 6 * r2 + 1);
    double gamma = -(b.xx * x * x + 2 * b.xy * x * y + b.yy * y * y - b.quartic * r2 * r2 + b.offset);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma + offset)) < 1e-5);
    assert_true(fabs((double)ctf_value(&a, x, y) + sin(gamma - offset)) > 0.1);
    particle_set_destroy(&set);
}

static void write_mtf(const char *folder, const char *name, double last) {
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "data_\n\nloop_\n_rlnResolutionInversePixel\n_rlnMtfValue\n0 1\n0.5 %g\n", last);
    assert_int_equal(fclose(f), 0);
}

static double attenuation(double last, double detector, double frequency) {
    return 1 + (last - 1) * fmin(frequency * detector / 0.5, 1);
}

/* Images of the second detector are brought to the MTF of the first: MTF 1 / MTF 2, at physical frequencies. A group
 * whose file is missing stays as it is, and is told. */
static void images_of_two_detectors_become_alike(void **state) {
    (void)state;
    static const char OPTICS[] =
        "_rlnOpticsGroup\n_rlnImagePixelSize\n_rlnMicrographOriginalPixelSize\n_rlnMtfFileName\n"
        "1 2 1 first.star\n2 2 0.7 second.star\n3 2 1 third.star";
    static const char *const STACKS[] = {"one", "two", "three"};
    const struct aberration none = aberration_none();
    struct particle_set set;
    struct loader *loader = NULL;
    char folder[PATH_SIZE];
    const float *const *images;
    const int indices[] = {0, EACH, 2 * EACH};
    open_folder("detectors", folder);
    for (int s = 0; s < 3; s++)
        write_stack(folder, STACKS[s], COARSE, COARSE_PIXEL, ONE, &none);
    write_mtf(folder, "first.star", 0.4);
    write_mtf(folder, "second.star", 0.2);
    particle_set_init(&set, 1, 0, NAN);
    merge(&set, folder, OPTICS, STACKS, 3);
    assert_string_equal(detectors_missing(&set), "third.star");
    assert_ptr_equal(detectors_first(&set), set.optics[0].detector);
    assert_int_equal(loader_create(&set, 1, &loader, NULL), STATUS_OK);
    assert_int_equal(loader_take(loader, NULL, indices, 3, &images, NULL), STATUS_OK);
    for (int k = 1; k < 10; k += 2) {
        double complex sums[3] = {0};
        for (int i = 0; i < 3; i++)
            for (int p = 0; p < COARSE * COARSE; p++)
                sums[i] += (double)images[i][p] * cexp(-2 * M_PI * I * k * (p % COARSE) / COARSE);
        double f = k / (COARSE * COARSE_PIXEL);
        double expected = attenuation(0.4, 1, f) / attenuation(0.2, 0.7, f);
        assert_true(cabs(sums[1] / sums[0] - expected) < 1e-3 && fabs(expected - 1) > 1e-5);
        assert_true(cabs(sums[2] / sums[0] - 1) < 1e-3);
    }
    loader_destroy(&loader);
    particle_set_destroy(&set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(images_of_two_grids_join),
        cmocka_unit_test(tables_keep_the_grids_of_images),
        cmocka_unit_test(aberrations_of_the_image_are_taken_off),
        cmocka_unit_test(even_aberrations_go_into_the_ctf),
        cmocka_unit_test(images_of_two_detectors_become_alike),
    };
    return scratch_run("refiner_optics", tests, sizeof tests / sizeof *tests);
}
