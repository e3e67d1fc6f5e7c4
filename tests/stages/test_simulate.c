/* Checks the simulator against the conventions of all other programs: truth, signs and handedness. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/memory.h"
#include "examples/simulate/micrograph.h"
#include "tests/common/scratch.h"

enum { BOX = 96 };

static const double PIXEL = 2.5;

static struct scene bright_scene(void) {
    return (struct scene){.seed = 5,
                          .nx = 512,
                          .ny = 512,
                          .pixel_size = PIXEL,
                          .particles = 9,
                          .min_distance = 60,
                          .margin = BOX / 2,
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .defocus_min = 12000,
                          .defocus_max = 16000,
                          .astigmatism = 300,
                          .counts = 250,
                          .micrographs = 4,
                          .signal = 2000};
}

/* Projects by sums along row 3 of the matrix of the angles, trilinear between voxels. Image x and y lie along rows 1
 * and 2. */
static void project_map(const struct image *map, double rot, double tilt, double psi, float *out) {
    double ca = cos(rot * M_PI / 180), sa = sin(rot * M_PI / 180), cb = cos(tilt * M_PI / 180),
           sb = sin(tilt * M_PI / 180), cg = cos(psi * M_PI / 180), sg = sin(psi * M_PI / 180);
    double rows[3][3] = {{cg * cb * ca - sg * sa, cg * cb * sa + sg * ca, -cg * sb},
                         {-sg * cb * ca - cg * sa, -sg * cb * sa + cg * ca, sg * sb},
                         {sb * ca, sb * sa, cb}};
    memset(out, 0, BOX * BOX * sizeof *out);
    for (int i = 0; i < BOX * BOX * BOX; i++) {
        double x = i % BOX - BOX / 2, y = i / BOX % BOX - BOX / 2, z = i / (BOX * BOX) - BOX / 2;
        double p[3];
        for (int d = 0; d < 3; d++) /* position = x·row1 + y·row2 + z·row3 */
            p[d] = x * rows[0][d] + y * rows[1][d] + z * rows[2][d] + BOX / 2;
        int b[3] = {(int)floor(p[0]), (int)floor(p[1]), (int)floor(p[2])};
        if (b[0] < 0 || b[1] < 0 || b[2] < 0 || b[0] > BOX - 2 || b[1] > BOX - 2 || b[2] > BOX - 2) continue;
        double value = 0;
        for (int corner = 0; corner < 8; corner++) {
            int cx = corner & 1, cy = corner >> 1 & 1, cz = corner >> 2;
            double fx = p[0] - b[0], fy = p[1] - b[1], fz = p[2] - b[2];
            value += (cx ? fx : 1 - fx) * (cy ? fy : 1 - fy) * (cz ? fz : 1 - fz) *
                     (double)map->data[((b[2] + cz) * BOX + b[1] + cy) * BOX + b[0] + cx];
        }
        out[i % (BOX * BOX)] += (float)value;
    }
}

/* Returns the correlation within the particle's circle after a shift by whole pixels. */
static double correlate(const float *a, const struct image *image, int x0, int y0, bool mirrored) {
    double sums[5] = {0}, count = 0;
    for (int y = -30; y <= 30; y++)
        for (int x = -30; x <= 30; x++) {
            if (x * x + y * y > 900) continue;
            double u = (double)a[(y + BOX / 2) * BOX + (mirrored ? -x : x) + BOX / 2];
            double v = (double)image->data[(y0 + y) * image->nx + x0 + x];
            sums[0] += u, sums[1] += v, sums[2] += u * u, sums[3] += v * v, sums[4] += u * v;
            count++;
        }
    double covariance = sums[4] / count - sums[0] * sums[1] / (count * count);
    double of_u = sums[2] / count - sums[0] * sums[0] / (count * count);
    double of_v = sums[3] / count - sums[1] * sums[1] / (count * count);
    return covariance / sqrt(of_u * of_v);
}

static void projections_are_slices_of_the_map(void **state) {
    (void)state;
    struct err err = {0};
    struct phantom phantom = {0};
    struct image map = {0}, view = {0};
    assert_ok(phantom_create(5, 130, &phantom, &err));
    assert_ok(phantom_map(&phantom, BOX, PIXEL, 1, &map, &err));
    assert_ok(image_resize(&view, BOX, BOX, 1, &err));
    static float sums[BOX * BOX];
    const double angles[][3] = {{0, 0, 0}, {40, 0, 0}, {0, 50, 0}, {0, 0, 70}, {-130, 75, 20}, {95, 140, -160}};
    for (size_t i = 0; i < sizeof angles / sizeof *angles; i++) {
        double rows[3][3];
        memset(view.data, 0, image_count(&view) * sizeof *view.data);
        phantom_rotation(angles[i][0], angles[i][1], angles[i][2], rows);
        phantom_project(&phantom, (const double(*)[3])rows, PIXEL, BOX / 2, BOX / 2, 1, &view);
        project_map(&map, angles[i][0], angles[i][1], angles[i][2], sums);
        double same = correlate(sums, &view, BOX / 2, BOX / 2, false);
        double mirrored = correlate(sums, &view, BOX / 2, BOX / 2, true);
        assert_true(same > 0.98 && mirrored < 0.9);
        /* Sums along z equal the projection, on the same grey scale. */
        double of_map = 0, of_view = 0;
        for (int p = 0; p < BOX * BOX; p++)
            of_map += (double)sums[p], of_view += (double)view.data[p];
        assert_float_equal(of_map / of_view, 1, 0.01);
    }
    image_destroy(&map);
    image_destroy(&view);
    phantom_destroy(&phantom);
}

static void particles_lie_dark_where_the_truth_says(void **state) {
    (void)state;
    struct err err = {0};
    struct phantom phantom = {0};
    struct image map = {0}, image = {0}, clean = {0};
    struct scene scene = bright_scene();
    struct layout layout = {0};
    struct painter *painter = NULL;
    assert_ok(phantom_create(scene.seed, 130, &phantom, &err));
    assert_ok(phantom_map(&phantom, BOX, PIXEL, 1, &map, &err));
    assert_ok(phantom_lowpass(&map, 12, &err));
    assert_ok(layout_draw(&scene, phantom.radius / PIXEL, 0, &layout, &err));
    assert_int_equal(layout.particle_count, scene.particles);
    assert_ok(painter_create(scene.nx, scene.ny, &painter, &err));
    assert_ok(painter_paint(painter, &scene, &phantom, &layout, &image, &err));
    static float sums[BOX * BOX];
    assert_ok(image_resize(&clean, BOX, BOX, 1, &err));
    struct painter *small = NULL;
    assert_ok(painter_create(BOX, BOX, &small, &err));
    for (int i = 0; i < layout.particle_count; i++) {
        const struct particle *p = &layout.particles[i];
        project_map(&map, p->rot, p->tilt, p->psi, sums);
        memcpy(clean.data, sums, sizeof sums);
        painter_apply_ctf(small, &scene, &layout, &clean);
        double same = -correlate(clean.data, &image, (int)lround(p->x), (int)lround(p->y), false);
        double mirrored = -correlate(clean.data, &image, (int)lround(p->x), (int)lround(p->y), true);
        assert_true(same > 0.8 && same > mirrored + 0.1);
    }
    painter_destroy(&small);
    painter_destroy(&painter);
    layout_destroy(&layout);
    image_destroy(&clean);
    image_destroy(&image);
    image_destroy(&map);
    phantom_destroy(&phantom);
}

/* At the origin the CTF equals the amplitude contrast, and it rises from there: white protein stays white. */
static void contrast_has_the_sign_of_underfocus(void **state) {
    (void)state;
    struct err err = {0};
    struct scene scene = bright_scene();
    struct layout layout = {.defocus_u = 14000, .defocus_v = 14000};
    struct painter *painter = NULL;
    struct image image = {0};
    enum { N = 256 };
    assert_ok(painter_create(N, N, &painter, &err));
    assert_ok(image_resize(&image, N, N, 1, &err));
    for (int k = 0; k <= 8; k += 4) {
        for (int i = 0; i < N * N; i++)
            image.data[i] = (float)cos(2 * M_PI * k * (i % N) / N);
        painter_apply_ctf(painter, &scene, &layout, &image);
        double u = k / (N * PIXEL), lambda = 0.0196876;
        double expected =
            sin(M_PI * lambda * 14000 * u * u - M_PI / 2 * 2.7e7 * pow(lambda, 3) * pow(u, 4) + asin(0.1));
        assert_float_equal(image.data[0], expected, 1e-3);
    }
    painter_destroy(&painter);
    image_destroy(&image);
}

static void same_seed_same_bytes(void **state) {
    (void)state;
    char a[PATH_SIZE], b[PATH_SIZE], c[PATH_SIZE];
    const char *bin = getenv("ICESTREAM_BIN");
    if (bin == NULL) skip();
    scratch_path("a", a);
    scratch_path("b", b);
    scratch_path("c", c);
    const char *rest = "--micrographs 2 --size 256 --particles 4 --interval 0 --mode uint16 --box 64";
    assert_int_equal(scratch_shell("'%s/icestream-simulate' --o '%s' --seed 3 %s", bin, a, rest), 0);
    assert_int_equal(scratch_shell("'%s/icestream-simulate' --o '%s' --seed 3 --grow %s", bin, b, rest), 0);
    assert_int_equal(scratch_shell("'%s/icestream-simulate' --o '%s' --seed 4 %s", bin, c, rest), 0);
    assert_int_equal(scratch_shell("diff -r '%s' '%s'", a, b), 0);
    assert_int_not_equal(scratch_shell("diff -rq '%s' '%s'", a, c), 0);
    assert_int_equal(scratch_shell("'%s/icestream-simulate' --o '%s/tiff' --format tiff %s", bin, a, rest), 0);
    struct image_info info;
    struct err err = {0};
    char path[PATH_SIZE];
    scratch_path("a/tiff/micrographs/mic_00002.tif", path);
    assert_ok(image_probe(path, &info, &err));
    assert_int_equal(info.nx, 256);
    assert_float_equal(info.pixel_size, 2.5, 1e-3);
}

/* The true coordinates hold for both formats. */
static void formats_show_the_same(void **state) {
    (void)state;
    char folder[PATH_SIZE], path[PATH_SIZE];
    struct image mrc = {0}, tiff = {0};
    struct err err = {0};
    const char *bin = getenv("ICESTREAM_BIN");
    if (bin == NULL) skip();
    scratch_path("formats", folder);
    for (int i = 0; i < 2; i++)
        assert_int_equal(
            scratch_shell("'%s/icestream-simulate' --o '%s/%s' --format %s --seed 3 --micrographs 1 --size 256 "
                          "--particles 4 --interval 0 --box 64",
                          bin, folder, i ? "tiff" : "mrc", i ? "tiff" : "mrc"),
            0);
    scratch_path("formats/mrc/micrographs/mic_00001.mrc", path);
    assert_ok(image_read_micrograph(path, &mrc, &err));
    scratch_path("formats/tiff/micrographs/mic_00001.tif", path);
    assert_ok(image_read_micrograph(path, &tiff, &err));
    assert_int_equal(image_count(&mrc), image_count(&tiff));
    assert_memory_equal(mrc.data, tiff.data, image_count(&mrc) * sizeof *mrc.data);
    image_destroy(&mrc);
    image_destroy(&tiff);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(projections_are_slices_of_the_map),
        cmocka_unit_test(particles_lie_dark_where_the_truth_says),
        cmocka_unit_test(contrast_has_the_sign_of_underfocus),
        cmocka_unit_test(same_seed_same_bytes),
        cmocka_unit_test(formats_show_the_same),
    };
    return scratch_run("simulate", tests, sizeof tests / sizeof *tests);
}
