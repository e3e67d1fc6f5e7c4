/* Tells what particles can give at best, and what a refinement made of them. All resolutions are those of unmasked
 * FSCs, in Å, at the last shell before the curve first falls below 0.5, or 0.143.
 *
 *     true_poses [--symmetry GROUP] STAR MAP [REFINED]
 * STAR: particles with their true poses. MAP: the molecule. Makes maps of the even and of the odd particles at these
 * poses, without a prior or a mask, and prints how far the halves agree, and how far all agree with MAP:
 *     at the true poses: halves agree to 12.24 A (0.5), 9.39 A (0.143); all with the truth to 11.26 A (0.5), 9.08 A (0.143)
 * REFINED: the same particles with poses that a program found from MAP (rlnImageName must be the same). Prints how far
 * orientations are off, and the share that is off by more than 20°. A pose and its copies by GROUP are one (for molecules
 * that are nearly symmetric; maps are made without symmetry):
 *     6496 poses: off by 2.1° (median), 18.7 % by more than 20°
 *     true_poses --maps A B...
 * Prints for each B how far it agrees with A:
 *     run_class001.mrc: 11.26 A (0.5), 9.39 A (0.143) */
#include "tests/benchmarks/true_poses.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/formats/particle_table.h"
#include "common/formats/star.h"
#include "common/memory.h"
#include "kernels/ctf/ctf.h"
#include "kernels/symmetry/symmetry.h"

static void die(enum status status, const struct err *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "true_poses: %s\n", err->message);
    exit(1);
}

static void read_pose(const struct star_table *rows, size_t row, double pixel, double angles[3], double shift[2]) {
    static const char *const ANGLES[] = {"rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"};
    static const char *const SHIFTS[] = {"rlnOriginXAngst", "rlnOriginYAngst"};
    struct err err = {0};
    for (int i = 0; i < 3; i++)
        die(star_need_number(rows, row, ANGLES[i], -1e6, 1e6, &angles[i], &err), &err);
    for (int i = 0; i < 2; i++) {
        die(star_need_number(rows, row, SHIFTS[i], -1e6, 1e6, &shift[i], &err), &err);
        shift[i] /= pixel;
    }
}

/* Returns the angle of the rotation between two poses, the smallest over a group's copies. */
static double off(const struct symmetry *symmetry, const double a[3], const double b[3]) {
    double m[9], n[9], most = -1;
    euler_to_matrix(a[0], a[1], a[2], m);
    euler_to_matrix(b[0], b[1], b[2], n);
    for (int g = 0; g < symmetry->count; g++) {
        const double *r = symmetry->matrices[g];
        double trace = 0;
        for (int i = 0; i < 3; i++)
            for (int j = 0; j < 3; j++)
                for (int k = 0; k < 3; k++)
                    trace += m[3 * i + k] * r[3 * k + j] * n[3 * i + j];
        most = fmax(most, (trace - 1) / 2);
    }
    return acos(fmin(1, most)) * 180 / M_PI;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int by_name(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

struct named {
    const char *name; /* first, for by_name */
    size_t row;
};

static void compare(const struct star_table *truth, const char *path, const struct symmetry *symmetry) {
    struct err err = {0};
    struct star_file *file = NULL;
    die(star_read(path, &file, &err), &err);
    const struct star_table *found = particle_table_find(file);
    if (found == NULL) die(STATUS_BAD_FORMAT, &(struct err){.message = "REFINED has no table of particles"});
    int name = -1, true_name = -1;
    die(star_column_need(found, "rlnImageName", &name, &err), &err);
    die(star_column_need(truth, "rlnImageName", &true_name, &err), &err);
    size_t count = star_row_count(truth), compared = 0, lost = 0;
    struct named *names = NULL;
    double *angles = NULL;
    die(mem_new(count + 1, sizeof *names, "names", &names, &err), &err);
    die(mem_new(star_row_count(found) + 1, sizeof *angles, "angles", &angles, &err), &err);
    for (size_t i = 0; i < count; i++)
        names[i] = (struct named){star_get(truth, i, true_name), i};
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 0; i < star_row_count(found); i++) {
        struct named key = {.name = star_get(found, i, name)};
        const struct named *same = bsearch(&key, names, count, sizeof *names, by_name);
        double a[3], b[3], shift[2];
        if (same == NULL) continue;
        read_pose(found, i, 1, a, shift);
        read_pose(truth, same->row, 1, b, shift);
        angles[compared] = off(symmetry, a, b);
        lost += angles[compared++] > 20;
    }
    if (compared == 0) die(STATUS_BAD_FORMAT, &(struct err){.message = "REFINED names none of the images of STAR"});
    qsort(angles, compared, sizeof *angles, by_value);
    printf("%zu poses: off by %.1f° (median), %.1f %% by more than 20°\n", compared, angles[compared / 2],
           100.0 * (double)lost / (double)compared);
    free(names), free(angles);
    star_destroy(&file);
}

struct stack {
    char path[PATH_SIZE];
    struct mrc_reader *reader;
};

static void open_stack(struct stack *stack, const char *star, const char *name) {
    struct err err = {0};
    char path[PATH_SIZE];
    if (!particle_stack_find(NULL, star, name, path))
        die(err_set(&err, STATUS_NOT_FOUND, __FILE__, __LINE__, "%s: the stack %s is not there", star, name), &err);
    if (stack->reader != NULL && strcmp(path, stack->path) == 0) return;
    mrc_close(&stack->reader);
    die(mrc_open(path, &stack->reader, &err), &err);
    snprintf(stack->path, sizeof stack->path, "%s", path);
}

static void add_all(struct particle_table *table, const char *star, struct true_poses *t, float *image) {
    struct err err = {0};
    struct stack stack = {.reader = NULL};
    const struct star_table *rows = particle_table_rows(table);
    int box = t->pixels->box;
    for (size_t i = 0; i < star_row_count(rows); i++) {
        struct particle_image at;
        struct particle_row row;
        double angles[3], shift[2];
        die(particle_table_image(table, i, &at, &err), &err);
        die(particle_table_row(table, i, &row, &err), &err);
        open_stack(&stack, star, at.stack);
        const struct mrc_header *header = mrc_reader_header(stack.reader);
        if (header->nx != box || header->ny != box)
            die(STATUS_BAD_FORMAT, &(struct err){.message = "the images and MAP differ in size"});
        die(mrc_read_slices(stack.reader, (int)at.number - 1, 1, image, &err), &err);
        read_pose(rows, i, t->pixel, angles, shift);
        const struct ctf ctf = {.defocus_u = row.defocus_u,
                                .defocus_v = row.defocus_v,
                                .defocus_angle = row.defocus_angle,
                                .voltage = row.optics.voltage,
                                .spherical_aberration = row.optics.spherical_aberration,
                                .amplitude_contrast = row.optics.amplitude_contrast,
                                .phase_shift = row.phase_shift,
                                .b_factor = row.b_factor,
                                .scale = row.scale};
        die(true_poses_add(t, (int)i, image, angles, shift, &ctf, &err), &err);
    }
    mrc_close(&stack.reader);
}

static int compare_maps(char *const *paths, int count) {
    struct err err = {0};
    struct image truth = {0};
    float *fsc = NULL;
    die(mrc_read(paths[0], &truth, &err), &err);
    die(mem_new((size_t)truth.nx, sizeof *fsc, "a curve", &fsc, &err), &err);
    for (int i = 1; i < count; i++) {
        struct image map = {0};
        die(mrc_read(paths[i], &map, &err), &err);
        if (map.nx != truth.nx || map.ny != truth.nx || map.nz != truth.nx || truth.nz != truth.nx)
            die(STATUS_BAD_FORMAT, &(struct err){.message = "the maps must be cubes of the same size"});
        die(fsc_maps(NULL, map.nx, truth.data, map.data, fsc, &err), &err);
        double pixel = (double)truth.pixel_size;
        printf("%s: %.2f A (0.5), %.2f A (0.143)\n", paths[i], fsc_resolution(fsc, map.nx, pixel, 0.5),
               fsc_resolution(fsc, map.nx, pixel, 0.143));
        image_destroy(&map);
    }
    image_destroy(&truth);
    free(fsc);
    return 0;
}

static int tell(char *const *paths, int count, const char *group) {
    struct err err = {0};
    struct star_file *file = NULL;
    struct particle_table *table = NULL;
    struct image map = {0};
    struct symmetry symmetry = {0};
    struct fourier_pixels pixels = {0};
    struct true_poses known = {0};
    float *image = NULL;
    die(symmetry_create(group, &symmetry, &err), &err);
    die(star_read(paths[0], &file, &err), &err);
    die(mrc_read(paths[1], &map, &err), &err);
    die(particle_table_open(file, paths[0], (double)map.pixel_size, true, &table, &err), &err);
    die(fourier_pixels_create(map.nx, map.nx, &pixels, &err), &err);
    die(true_poses_create(&pixels, (double)map.pixel_size, &known, &err), &err);
    die(mem_new((size_t)map.nx * (size_t)map.nx, sizeof *image, "an image", &image, &err), &err);
    add_all(table, paths[0], &known, image);
    die(true_poses_tell(&known, map.data, &err), &err);
    if (count == 3) compare(particle_table_rows(table), paths[2], &symmetry);
    true_poses_destroy(&known);
    fourier_pixels_destroy(&pixels);
    symmetry_destroy(&symmetry);
    image_destroy(&map);
    particle_table_close(&table);
    star_destroy(&file);
    free(image);
    return 0;
}

static int usage(FILE *to, int code) {
    fputs("usage: true_poses [--symmetry GROUP] STAR MAP [REFINED]\n"
          "       true_poses --maps A B...\n"
          "The first: resolutions of maps from the particles of STAR at their true poses, halves with each other and "
          "all\n"
          "with MAP; the share of REFINED's poses that is off by more than 20 degrees (copies by symmetry are the "
          "same).\n"
          "The second: resolutions to which the maps B agree with A. Unmasked FSC, at 0.5 and 0.143.\n",
          to);
    return code;
}

int main(int argc, char **argv) {
    const char *group = "C1";
    int at = 1;
    if (argc > 1 && strcmp(argv[1], "--help") == 0) return usage(stdout, 0);
    if (argc > 3 && strcmp(argv[1], "--maps") == 0) return compare_maps(argv + 2, argc - 2);
    if (argc > 2 && strcmp(argv[1], "--symmetry") == 0) group = argv[2], at = 3;
    if (argc - at < 2 || argc - at > 3) return usage(stderr, 2);
    return tell(argv + at, argc - at, group);
}
