/* dev driver */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "kernels/fsc/fsc.h"
#include "kernels/map_align/map_align.h"
#include "stages/refiner/initial/starts.h"
#include "stages/refiner/resample.h"
#include "stages/refiner/refiner.h"
#include "stages/refiner/refiner_private.h"

static struct err err;
static void must(enum status status) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "bench_initial: %s\n", err.message);
    exit(1);
}
static double env(const char *name, double value) {
    return getenv(name) ? atof(getenv(name)) : value;
}

static float *agree(const char *name, const struct map_align_options *ao, const float *fixed, const float *moved) {
    struct map_aligner *aligner = NULL;
    struct map_alignment a;
    size_t n = (size_t)ao->box * (size_t)ao->box * (size_t)ao->box;
    float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y), *z = malloc(n * sizeof *z), fsc[1000];
    must(map_align_create(ao, &aligner, &err));
    must(map_align_find(aligner, fixed, moved, &a, &err));
    must(map_align_apply(aligner, &a, moved, x, &err));
    map_align_destroy(&aligner);
    memcpy(y, fixed, n * sizeof *y);
    memcpy(z, x, n * sizeof *x);
    mask_sphere(3, ao->box, z, ao->diameter / 2 / ao->pixel_size, 5, 0);
    mask_sphere(3, ao->box, y, ao->diameter / 2 / ao->pixel_size, 5, 0);
    must(map_align_without_radial(ao->box, z, &err));
    must(map_align_without_radial(ao->box, y, &err));
    must(fsc_maps(NULL, ao->box, y, z, fsc, &err));
    printf("   %s: score %.3f inverted %d shift %.1f %.1f %.1f FSC 0.5 at %.1f, 0.143 at %.1f:", name, a.score, a.inverted, a.shift[0], a.shift[1], a.shift[2],
           fsc_resolution(fsc, ao->box, ao->pixel_size, 0.5), fsc_resolution(fsc, ao->box, ao->pixel_size, 0.143));
    for (int i = 2; i < 20; i++) printf(" %.0f:%.2f", ao->box * ao->pixel_size / i, fsc[i]);
    printf("\n");
    free(y); free(z);
    return x;
}

int main(int argc, char **argv) {
    if (argc < 7) return 2;
    const char *path = argv[1], *out = argv[6];
    double diameter = atof(argv[2]);
    int count = atoi(argv[4]), seed = atoi(argv[5]);
    struct refiner_options o = {.classes = 1, .symmetry = argv[3], .diameter = diameter, .initial_lowpass = 60,
        .healpix_order = 2, .local_order = 4, .local_range = 10, .offset_range = 5, .offset_step = 1, .iterations = 25,
        .tau_fudge = NAN, .join_resolution = 40, .part_particles = 30000, .max_significant = 60, .seed = seed,
        .memory = 4, .host_memory = 4};
    struct refiner_context context = {.threads = 1, .device = {.kind = DEVICE_CPU}, .fallback_pixel_size = NAN};
    struct refiner *r = NULL;
    struct star_file *file = NULL;
    struct initial_images images = {0};
    struct starts *starts = NULL;
    size_t joined;
    mkdir(out, 0755);
    must(refiner_create(&o, &context, &r, &err));
    must(star_read(path, &file, &err));
    must(refiner_merge(r, &file, path, false, &joined, &err));
    must(refiner_look(r, &err));
    double d0 = env("D0", fmin(fmax(diameter / 6, 15), 35)), d1 = env("D1", fmin(fmax(diameter / 15, 8), 12));
    double t = clock_monotonic();
    must(initial_images_gather(r, 16384, d1, &images, &err));
    printf("%zu particles, box %d px of %.3f A, parts %d %d %d, read %.2f s, limits %.1f %.1f\n", joined, images.box,
           images.pixel_size, images.begin[1], images.begin[2] - images.begin[1], images.count - images.begin[2],
           clock_monotonic() - t, d0, d1);
    struct symmetry symmetry;
    must(symmetry_create(argv[3], &symmetry, &err));
    struct starts_options so = {.device = context.device, .threads = 1, .memory = 4, .diameter = diameter, .symmetry = &symmetry, .seed = seed};
    must(starts_create(&images, &so, count, &starts, &err));
    int iterations = (int)env("ITER", 60), particles = (int)env("PART", 200);
    int final = (int)env("FINAL", 5), held = images.begin[3] - images.begin[2];
    double *gains = calloc((size_t)held + 1, sizeof *gains);
    for (int i = 0; i < count; i++) {
        t = clock_monotonic();
        must(starts_random(starts, i, &err));
        if (getenv("INIT")) {
            struct image given = {0};
            must(mrc_read(getenv("INIT"), &given, &err));
            struct starts_state st = starts_state(starts, i);
            double a = 0, b = 0;
            size_t n = image_count(&given);
            for (size_t j = 0; j < n; j++) a += st.map[j] * st.map[j], b += given.data[j] * given.data[j];
            for (size_t j = 0; j < n; j++) given.data[j] *= (float)(env("SCALE", 1) * sqrt(a / b));
            starts_give(starts, i, given.data);
            image_destroy(&given);
        }
        for (int k = 0; k < iterations + final; k++) {
            double x = k < iterations ? (double)k / (iterations - 1) : 1;
            double limit = 1 / ((1 - x) / d0 + x / d1);
            double noise = pow(env("NOISE", 1), 1 - fmin(1, 2 * x));
            struct starts_step step = {.particles = k < iterations ? particles : 100000,
                .order = k >= iterations ? (int)env("FORD", 2) : limit > diameter / env("ORD", 7.6) ? 1 : 2, .limit = limit,
                .gain = k < iterations ? env("GAIN", 0.5) : 1, .noise = noise, .fudge = env("T0", 1) + (env("T1", 4) - env("T0", 1)) * x};
            must(starts_iterate(starts, i, &step, &err));
            struct starts_state st = starts_state(starts, i);
            if (env("VERBOSE", 0) > 0 && (k % 10 == 0 || k >= iterations))
                printf("  %d it %d limit %.1f pmax %.3f sig %.1f ev %.3f off %.2f  %.1f s\n", i, k, limit, st.pmax,
                       st.significant, st.evidence, st.sigma_offset, clock_monotonic() - t);
        }
        double sum = 0, sq = 0;
        struct starts_state st = starts_state(starts, i);
        double took = clock_monotonic() - t;
        must(starts_judge(starts, st.map, INITIAL_HELD_OUT, (int)env("JORD", 2), env("JUDGE", d1), gains, &err));
        for (int j = 0; j < held; j++)
            sum += gains[j], sq += gains[j] * gains[j];
        double mean = sum / held;
        printf("start %d half %d: train %.3f held %.3f +- %.3f pmax %.3f took %.1f s judge %.1f s\n", i, st.half, st.evidence, mean,
               sqrt((sq / held - mean * mean) / held), st.pmax, took, clock_monotonic() - t - took);
        static float *kept[100];
        {
            size_t n = (size_t)images.box * (size_t)images.box * (size_t)images.box;
            struct map_align_options ao = {.box = images.box, .pixel_size = images.pixel_size, .diameter = diameter, .coarsest = diameter / 2, .finest = env("FINEST", fmin(fmax(diameter / 10, 10), 20)), .hands = true, .symmetry = &symmetry, .threads = 1};
            kept[i] = malloc(n * sizeof(float));
            memcpy(kept[i], st.map, n * sizeof(float));
            if (getenv("TRUTH")) {
                struct image given = {0};
                must(mrc_read(getenv("TRUTH"), &given, &err));
                float *truth = malloc(n * sizeof *truth);
                must(resample_map(given.data, given.nx, given.pixel_size, images.box, images.pixel_size, truth, &err));
                free(agree("truth", &ao, truth, st.map));
                free(truth);
                image_destroy(&given);
            }
            for (int j = 0; j < i && env("PAIRS", 0) > 0; j++) {
                char nm[30];
                snprintf(nm, sizeof nm, "start %d", j);
                free(agree(nm, &ao, kept[j], st.map));
            }
        }
        fflush(stdout);
        char name[PATH_SIZE];
        struct image image = {0};
        must(image_resize(&image, images.box, images.box, images.box, &err));
        image.pixel_size = (float)images.pixel_size;
        memcpy(image.data, st.map, sizeof(float) * (size_t)images.box * (size_t)images.box * (size_t)images.box);
        snprintf(name, sizeof name, "%s/start%02d.mrc", out, i);
        must(mrc_write(name, &image, MRC_VOLUME, MRC_FLOAT32, &err));
        image_destroy(&image);
    }
    starts_destroy(&starts);
    initial_images_destroy(&images);
    symmetry_destroy(&symmetry);
    refiner_destroy(&r);
    free(gains);
}
