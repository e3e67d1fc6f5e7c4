/* Makes particles for refinement benchmarks: make_particles FOLDER [COUNT [BOX [PIXEL [SNR [SEED [WIDTH|MAP
 * [JUNK]]]]]]]
 *
 * The structure is a chain of 12,000 Gaussian atoms inside an ellipsoid of about the size of a ribosomal subunit,
 * without symmetry. Or it is a MAP of the same box. An atom's WIDTH of 2.2 Å damps its detail like a B factor of 380
 * Å²: the signal ends at about 9 Å. With 1.2 (110 Å²) there is signal beyond 6 Å.
 * Poses are uniform, shifts Gaussian of 3 px, defocus 1 to 2.5 µm with some astigmatism, B factor 60 Å², white noise.
 * SNR is the value before the CTF; SNR 0: only noise. About a share JUNK (0) of the particles is junk: half of them
 * show another chain, half nothing.
 * FOLDER gets truth.mrc, particles.mrcs, particles.star (without poses) and truth.star (poses; class 1 are good
 * particles, 2 junk with the other chain, 3 junk with nothing). Prints the resolution of maps of class 1 at the true
 * poses. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fft.h"
#include "common/formats/image.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fourier/pixels.h"
#include "kernels/projector/projector.h"
#include "kernels/symmetry/symmetry.h"
#include "tests/benchmarks/true_poses.h"
#include "tests/kernels/phantom.h"

enum { ATOMS = 12000, CHUNK = 256 };
static const double STEP = 3.8, AXES[3] = {95, 75, 60}, B_FACTOR = 60; /* Å, Å, Å² */

enum kind { GOOD, OTHER, NOTHING };

struct simulation {
    int count, box;
    double pixel, snr, width, junk; /* Å, 1, Å, 1 */
    const char *structure;          /* a map's path, or NULL */
    uint64_t seed;
    float *map;
    struct projector *projectors[NOTHING]; /* indexed by kind */
    struct fourier_pixels pixels;
    struct fft_plan *inverse;
    double noise; /* standard deviation, on the scale of the projections */
};

struct pose {
    enum kind kind;
    double angles[3], shift[2];
    struct ctf ctf;
};

static void die(enum status status, const struct err *err) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "make_particles: %s\n", err->message);
    exit(1);
}

static void add_atom(const struct simulation *s, const double at[3], float *map) {
    int reach = (int)ceil(4 * s->width / s->pixel), centre[3];
    double sigma = s->width / s->pixel, x[3];
    for (int i = 0; i < 3; i++) {
        x[i] = at[i] / s->pixel + s->box / 2;
        centre[i] = (int)lround(x[i]);
        if (centre[i] < reach || centre[i] >= s->box - reach) return;
    }
    for (int k = centre[2] - reach; k <= centre[2] + reach; k++)
        for (int j = centre[1] - reach; j <= centre[1] + reach; j++)
            for (int i = centre[0] - reach; i <= centre[0] + reach; i++) {
                double r2 = (i - x[0]) * (i - x[0]) + (j - x[1]) * (j - x[1]) + (k - x[2]) * (k - x[2]);
                map[((size_t)k * (size_t)s->box + (size_t)j) * (size_t)s->box + (size_t)i] +=
                    (float)exp(-r2 / (2 * sigma * sigma));
            }
}

static void make_map(struct simulation *s, float *map) {
    double at[3] = {0}, direction[3] = {1, 0, 0};
    double most = 0.42 * s->box * s->pixel, scale = fmin(1, most / AXES[0]);
    for (int n = 0; n < ATOMS; n++) {
        double next[3], inside = 0;
        do {
            double length = 0;
            inside = 0;
            for (int i = 0; i < 3; i++) {
                direction[i] = 0.7 * direction[i] + phantom_normal(&s->seed);
                length += direction[i] * direction[i];
            }
            for (int i = 0; i < 3; i++) {
                direction[i] /= sqrt(length);
                next[i] = at[i] + STEP * direction[i];
                inside += next[i] * next[i] / (AXES[i] * AXES[i] * scale * scale);
            }
        } while (inside > 1);
        memcpy(at, next, sizeof at);
        add_atom(s, at, map);
    }
}

/* Copies from the list to the half plane, with the phase origin moved back to the corner. */
static void to_half_plane(const struct fourier_pixels *p, const float *list, float *half) {
    int columns = p->box / 2 + 1;
    memset(half, 0, 2 * (size_t)p->box * (size_t)columns * sizeof *half);
    for (int i = 0; i < p->count; i++) {
        int kx = p->kx[i], ky = p->ky[i], sign = (kx + ky) % 2 == 0 ? 1 : -1;
        size_t at = 2 * ((size_t)((ky + p->box) % p->box) * (size_t)columns + (size_t)kx);
        half[at] = (float)sign * list[2 * i], half[at + 1] = (float)sign * list[2 * i + 1];
        if (kx == 0) {
            size_t mate = 2 * ((size_t)((p->box - ky) % p->box) * (size_t)columns);
            half[mate] = half[at], half[mate + 1] = -half[at + 1];
        }
    }
}

static void read_map(struct simulation *s) {
    struct err err = {0};
    struct image map = {0};
    die(mrc_read(s->structure, &map, &err), &err);
    if (map.nx != s->box || map.ny != s->box || map.nz != s->box)
        die(STATUS_BAD_FORMAT, &(struct err){.message = "the map has another box"});
    memcpy(s->map, map.data, (size_t)s->box * (size_t)s->box * (size_t)s->box * sizeof *s->map);
    image_destroy(&map);
}

static void choose_pose(struct simulation *s, struct pose *p) {
    p->angles[0] = 360 * phantom_uniform(&s->seed) - 180;
    p->angles[1] = acos(1 - 2 * phantom_uniform(&s->seed)) * 180 / M_PI;
    p->angles[2] = 360 * phantom_uniform(&s->seed) - 180;
    p->shift[0] = 3 * phantom_normal(&s->seed), p->shift[1] = 3 * phantom_normal(&s->seed);
    double defocus = 10000 + 15000 * phantom_uniform(&s->seed), astigmatism = 400 * phantom_uniform(&s->seed);
    p->ctf = (struct ctf){.defocus_u = defocus + astigmatism,
                          .defocus_v = defocus - astigmatism,
                          .defocus_angle = 180 * phantom_uniform(&s->seed),
                          .voltage = 300,
                          .spherical_aberration = 2.7,
                          .amplitude_contrast = 0.1,
                          .scale = 1};
}

/* space: 3·count + half plane + image floats. */
static void make_image(const struct simulation *s, const struct pose *p, uint64_t seed, bool plain, float *space,
                       float *half, float *image) {
    const struct fourier_pixels *pixels = &s->pixels;
    size_t n = (size_t)pixels->count;
    float *slice = space, *shifted = space + 2 * n, *ctf = space + 4 * n, matrix[9];
    double m[9];
    euler_to_matrix(p->angles[0], p->angles[1], p->angles[2], m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    if (p->kind == NOTHING)
        memset(slice, 0, 2 * n * sizeof *slice);
    else
        projector_slices(s->projectors[p->kind], pixels, pixels->count, 1, matrix, 1, slice);
    /* Origins are shifts that centre the image: the content lies at minus the origin. */
    fourier_pixels_shift(pixels, pixels->count, slice, -p->shift[0], -p->shift[1], shifted);
    ctf_at(&p->ctf, s->box, s->pixel, pixels->count, pixels->kx, pixels->ky, ctf);
    for (int i = 0; i < pixels->count && !plain; i++) {
        double k2 =
            (pixels->kx[i] * pixels->kx[i] + pixels->ky[i] * pixels->ky[i]) / (s->box * s->box * s->pixel * s->pixel);
        float factor = ctf[i] * (float)exp(-B_FACTOR / 4 * k2);
        shifted[2 * i] *= factor, shifted[2 * i + 1] *= factor;
    }
    to_half_plane(pixels, shifted, half);
    fft_run(s->inverse, half, image);
    for (int i = 0; i < s->box * s->box && !plain; i++)
        image[i] = (float)(image[i] / s->noise + phantom_normal(&seed));
}

static void write_stars(const struct simulation *s, const char *folder, const struct pose *poses) {
    for (int truth = 0; truth < 2; truth++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s.star", folder, truth ? "truth" : "particles");
        FILE *file = fopen(path, "w");
        if (file == NULL) die(STATUS_IO, &(struct err){.message = "the STAR files cannot be written"});
        fprintf(
            file,
            "# version 30001\n\ndata_optics\n\nloop_\n_rlnOpticsGroup #1\n_rlnOpticsGroupName #2\n_rlnVoltage #3\n"
            "_rlnSphericalAberration #4\n_rlnAmplitudeContrast #5\n_rlnImagePixelSize #6\n_rlnImageSize #7\n"
            "_rlnImageDimensionality #8\n1 opticsGroup1 300 2.7 0.1 %g %d 2\n\n# version 30001\n\ndata_particles\n\n"
            "loop_\n_rlnImageName #1\n_rlnOpticsGroup #2\n_rlnDefocusU #3\n_rlnDefocusV #4\n_rlnDefocusAngle #5\n%s",
            s->pixel, s->box,
            truth ? "_rlnAngleRot #6\n_rlnAngleTilt #7\n_rlnAnglePsi #8\n_rlnOriginXAngst #9\n_rlnOriginYAngst #10\n"
                    "_rlnClassNumber #11\n"
                  : "");
        for (int i = 0; i < s->count; i++) {
            const struct pose *p = &poses[i];
            fprintf(file, "%06d@particles.mrcs 1 %.2f %.2f %.3f", i + 1, p->ctf.defocus_u, p->ctf.defocus_v,
                    p->ctf.defocus_angle);
            if (truth)
                fprintf(file, " %.4f %.4f %.4f %.4f %.4f %d", p->angles[0], p->angles[1], p->angles[2],
                        p->shift[0] * s->pixel, p->shift[1] * s->pixel, p->kind + 1);
            fputc('\n', file);
        }
        if (fclose(file) != 0) die(STATUS_IO, &(struct err){.message = "the STAR files cannot be written"});
    }
}

static void set_projector(struct simulation *s, enum kind kind, float *map) {
    struct err err = {0};
    die(projector_create(3, s->box, 4, &s->projectors[kind], &err), &err);
    die(projector_set_map(s->projectors[kind], map, s->box, &err), &err);
}

static void prepare(struct simulation *s, const char *folder) {
    struct err err = {0};
    char path[4096];
    size_t box = (size_t)s->box;
    die(mem_new(box * box * box, sizeof *s->map, "a map", &s->map, &err), &err);
    if (s->structure != NULL)
        read_map(s);
    else
        make_map(s, s->map);
    struct image image = {.data = s->map, .nx = s->box, .ny = s->box, .nz = s->box, .pixel_size = (float)s->pixel};
    snprintf(path, sizeof path, "%s/truth.mrc", folder);
    die(mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, &err), &err);
    set_projector(s, GOOD, s->map);
    die(fourier_pixels_create(s->box, s->box, &s->pixels, &err), &err);
    const struct fft_options options = {.rank = 2, .shape = {s->box, s->box}, .direction = FFT_INVERSE};
    die(fft_create(&options, &s->inverse, &err), &err);
}

/* Call after all other random numbers are drawn, so that they stay the same. */
static void choose_junk(struct simulation *s, struct pose *poses) {
    struct err err = {0};
    size_t box = (size_t)s->box;
    float *map = NULL;
    if (!(s->junk > 0)) return;
    die(mem_new(box * box * box, sizeof *map, "a map", &map, &err), &err);
    make_map(s, map);
    set_projector(s, OTHER, map);
    free(map);
    for (int i = 0; i < s->count; i++)
        if (phantom_uniform(&s->seed) < s->junk) poses[i].kind = phantom_uniform(&s->seed) < 0.5 ? OTHER : NOTHING;
}

static float *space_new(size_t count) {
    float *space = mem_aligned(count, sizeof *space);
    if (space == NULL) die(STATUS_NO_MEMORY, &(struct err){.message = "no memory"});
    return space;
}

/* Sets the standard deviation of white noise for a signal of mean variance v: √(v / SNR). */
static void find_noise(struct simulation *s, const struct pose *poses, float *space, float *half, float *image) {
    int pixels = s->box * s->box;
    double variance = 0;
    for (int n = 0; n < 20; n++) {
        double sum = 0, squares = 0;
        struct pose pose = poses[n % s->count];
        pose.kind = GOOD;
        make_image(s, &pose, 0, true, space, half, image);
        for (int i = 0; i < pixels; i++)
            sum += image[i], squares += (double)image[i] * image[i];
        variance += (squares / pixels - sum / pixels * (sum / pixels)) / 20;
    }
    s->noise = sqrt(variance / s->snr);
}

static void write_images(struct simulation *s, const char *folder, const struct pose *poses) {
    struct err err = {0};
    char path[4096];
    struct mrc_writer *writer = NULL;
    size_t pixels = (size_t)s->box * (size_t)s->box, n = (size_t)s->pixels.count, half = 2 * pixels;
    float *images = space_new(CHUNK * pixels), *first = space_new(5 * n + half + 16);
    find_noise(s, poses, first, first + (5 * n + 15) / 16 * 16, images);
    struct true_poses known = {0};
    die(true_poses_create(&s->pixels, s->pixel, &known, &err), &err);
    snprintf(path, sizeof path, "%s/particles.mrcs", folder);
    die(mrc_writer_create(path, s->box, s->box, (float)s->pixel, MRC_STACK, MRC_FLOAT32, &writer, &err), &err);
    for (int begin = 0; begin < s->count; begin += CHUNK) {
        int count = s->count - begin < CHUNK ? s->count - begin : CHUNK;
#pragma omp parallel
        {
            float *space = space_new(5 * n), *plane = space_new(half);
#pragma omp for
            for (int i = 0; i < count; i++)
                make_image(s, &poses[begin + i], s->seed + 7919 * (uint64_t)(begin + i + 1), false, space, plane,
                           images + (size_t)i * pixels);
            free(space);
            free(plane);
        }
        for (int i = 0; i < count; i++)
            die(mrc_writer_append(writer, images + (size_t)i * pixels, &err), &err);
        for (int i = 0; i < count; i++) {
            const struct pose *p = &poses[begin + i];
            if (p->kind != GOOD) continue;
            die(true_poses_add(&known, begin + i, images + (size_t)i * pixels, p->angles, p->shift, &p->ctf, &err),
                &err);
        }
    }
    die(mrc_writer_finish(&writer, &err), &err);
    die(true_poses_tell(&known, s->map, &err), &err);
    true_poses_destroy(&known);
    free(first);
    free(images);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: make_particles FOLDER [COUNT [BOX [PIXEL [SNR [SEED [WIDTH|MAP [JUNK]]]]]]]\n", stderr);
        return 2;
    }
    struct simulation s = {.count = argc > 2 ? atoi(argv[2]) : 6496,
                           .box = argc > 3 ? atoi(argv[3]) : 128,
                           .pixel = argc > 4 ? atof(argv[4]) : 2.2,
                           .snr = argc > 5 ? atof(argv[5]) : 0.1,
                           .seed = argc > 6 ? strtoull(argv[6], NULL, 10) : 1,
                           .width = argc > 7 ? atof(argv[7]) : 2.2,
                           .junk = argc > 8 ? atof(argv[8]) : 0};
    if (argc > 7 && !(s.width > 0)) s.structure = argv[7];
    struct pose *poses = calloc((size_t)s.count, sizeof *poses);
    if (poses == NULL) return 1;
    prepare(&s, argv[1]);
    for (int i = 0; i < s.count; i++)
        choose_pose(&s, &poses[i]);
    choose_junk(&s, poses);
    write_images(&s, argv[1], poses);
    write_stars(&s, argv[1], poses);
    printf("%d particles of %d px, %g Å/px, SNR %g, in %s\n", s.count, s.box, s.pixel, s.snr, argv[1]);
    free(poses);
    free(s.map);
    for (int kind = GOOD; kind < NOTHING; kind++)
        projector_destroy(&s.projectors[kind]);
    fourier_pixels_destroy(&s.pixels);
    fft_destroy(&s.inverse);
    return 0;
}
