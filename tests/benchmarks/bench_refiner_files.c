/* Times the files of an iteration of refinement: bench_refiner_files FOLDER [PARTICLES [BOX]]. First the table of
 * particles, from a source of a dozen columns: filling it, and writing it. The floor is a plain write and sync of as
 * many bytes. Then a map and its picture. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/formats/star.h"
#include "common/memory.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/particles.h"

static struct err err;

static void must(enum status status) {
    if (status == STATUS_OK) return;
    fprintf(stderr, "bench_refiner_files: %s\n", err.message);
    exit(1);
}

static double uniform(void) {
    return rand() / (RAND_MAX + 1.0);
}

static struct star_file *make_source(size_t count) {
    static const char *const COLUMNS[] = {"rlnCoordinateX",      "rlnCoordinateY",      "rlnDefocusU",
                                          "rlnDefocusV",         "rlnDefocusAngle",     "rlnPhaseShift",
                                          "rlnCtfMaxResolution", "rlnCtfFigureOfMerit", "rlnAutopickFigureOfMerit"};
    enum { COUNT = sizeof COLUMNS / sizeof *COLUMNS };
    struct star_file *file = NULL;
    struct star_table *t = NULL;
    char text[96];
    must(star_create(&file, &err));
    must(star_table_add(file, "particles", true, &t, &err));
    must(star_column_add(t, "rlnImageName", "", NULL, &err));
    must(star_column_add(t, "rlnMicrographName", "", NULL, &err));
    must(star_column_add(t, "rlnOpticsGroup", "1", NULL, &err));
    for (int c = 0; c < COUNT; c++)
        must(star_column_add(t, COLUMNS[c], "0", NULL, &err));
    for (size_t i = 0; i < count; i++) {
        size_t row;
        must(star_row_add(t, &row, &err));
        snprintf(text, sizeof text, "%06zu@extractor/micrograph_%05zu_particles.mrcs", i % 300 + 1, i / 300);
        must(star_set(t, row, 0, text, &err));
        snprintf(text, sizeof text, "micrographs/micrograph_%05zu.mrc", i / 300);
        must(star_set(t, row, 1, text, &err));
        must(star_set_integer(t, row, 2, 1, &err));
        for (int c = 0; c < COUNT; c++)
            must(star_set_number(t, row, 3 + c, 4000 * uniform(), &err));
    }
    return file;
}

static void make_set(size_t count, struct particle_set *set) {
    particle_set_init(set, 1, 0, 1);
    set->box = 128;
    set->pixel_size = 2.2;
    set->sources = calloc(1, sizeof *set->sources);
    set->sources[0].file = make_source(count);
    set->source_count = 1;
    set->optics = calloc(1, sizeof *set->optics);
    set->optics[0] = (struct particle_optics){.name = strdup("opticsGroup1"),
                                              .source = -1,
                                              .pixel_size = 2.2,
                                              .voltage = 300,
                                              .spherical_aberration = 2.7,
                                              .amplitude_contrast = 0.1};
    set->optics_count = 1;
    set->particles = calloc(count, sizeof *set->particles);
    set->count = set->capacity = set->present = count;
    for (size_t i = 0; i < count; i++) {
        struct particle *p = &set->particles[i];
        char name[64];
        snprintf(name, sizeof name, "%06zu@extractor/micrograph_%05zu_particles.mrcs", i % 300 + 1, i / 300);
        *p = (struct particle){.name = strdup(name),
                               .row = i,
                               .aligned = true,
                               .half = (int)(i % 2),
                               .norm = 1 + 0.1 * uniform(),
                               .pose = {1, 0, 0, 0, 1, 0, 0, 0, 1},
                               .log_likelihood = 5e4 * uniform(),
                               .max_probability = uniform(),
                               .significant = (int)(100 * uniform()),
                               .reliability = 1};
        double a = 2 * M_PI * uniform();
        p->pose[0] = p->pose[4] = cos(a), p->pose[1] = sin(a), p->pose[3] = -sin(a);
        p->origin[0] = 6 * uniform() - 3, p->origin[1] = 6 * uniform() - 3;
    }
}

static void write_plain(const char *folder, size_t bytes) {
    char path[PATH_SIZE];
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    must(path_join(folder, "plain", path, sizeof path, &err));
    must(file_write_whole(path, text, bytes, &err));
    free(text);
}

static void bench_table(const char *folder, size_t count) {
    struct particle_set set;
    char path[PATH_SIZE];
    char *text = NULL;
    size_t bytes = 0;
    make_set(count, &set);
    must(path_join(folder, "data.star", path, sizeof path, &err));
    double fill = 1e9, write = 1e9, plain = 1e9;
    for (int i = 0; i < 3; i++) {
        struct star_file *file = NULL;
        double begin = clock_monotonic();
        must(star_create(&file, &err));
        must(particle_set_export(&set, file, &err));
        double filled = clock_monotonic();
        must(star_write(file, path, &err));
        double written = clock_monotonic();
        star_destroy(&file);
        fill = fmin(fill, filled - begin);
        write = fmin(write, written - filled);
    }
    must(file_read_whole(path, (size_t)4 << 30, &text, &bytes, &err));
    free(text);
    for (int i = 0; i < 3; i++) {
        double begin = clock_monotonic();
        write_plain(folder, bytes);
        plain = fmin(plain, clock_monotonic() - begin);
    }
    printf("%zu particles, %.1f MB: filled in %.3f s (%.0f rows/s), written in %.3f s (%.0f rows/s); as many bytes, "
           "plain: %.3f s\n",
           count, (double)bytes / 1e6, fill, (double)count / fill, write, (double)count / write, plain);
    particle_set_destroy(&set);
}

static void bench_map(const char *folder, int box) {
    char path[PATH_SIZE];
    size_t voxels = (size_t)box * (size_t)box * (size_t)box, area = 3 * (size_t)box * (size_t)(box + box / 2);
    float *map = malloc(voxels * sizeof *map);
    uint8_t *pixels = malloc(area);
    for (size_t i = 0; i < voxels; i++)
        map[i] = (float)uniform();
    for (size_t i = 0; i < area; i++)
        pixels[i] = (uint8_t)(128 + 20 * uniform());
    const struct image image = {.nx = box, .ny = box, .nz = box, .pixel_size = 1, .data = map};
    double times[3] = {1e9, 1e9, 1e9};
    for (int i = 0; i < 3; i++) {
        must(path_join(folder, "map.mrc", path, sizeof path, &err));
        double begin = clock_monotonic();
        must(mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, &err));
        double written = clock_monotonic();
        write_plain(folder, voxels * sizeof *map);
        double plain = clock_monotonic();
        must(path_join(folder, "map.png", path, sizeof path, &err));
        must(picture_write_grey(path, 3 * box, box + box / 2, pixels, &err));
        times[2] = fmin(times[2], clock_monotonic() - plain);
        times[0] = fmin(times[0], written - begin);
        times[1] = fmin(times[1], plain - written);
    }
    printf("map of %d px: %.3f s; as many bytes, plain: %.3f s; picture: %.3f s\n", box, times[0], times[1], times[2]);
    free(map);
    free(pixels);
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "bench_refiner_files FOLDER [PARTICLES [BOX]]\n");
        return 2;
    }
    if (argc > 2) {
        bench_table(argv[1], strtoull(argv[2], NULL, 10));
    } else {
        bench_table(argv[1], 6496);
        bench_table(argv[1], 500000);
    }
    bench_map(argv[1], argc > 3 ? atoi(argv[3]) : 128);
    return 0;
}
