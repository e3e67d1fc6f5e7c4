/* Files of an iteration and of the end, with RELION's names. The optimiser file is written last: an iteration that has
 * one is whole. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"
#include "common/mrc.h"
#include "common/picture.h"
#include "stages/refiner/tables.h"

enum status output_map(const struct refiner *r, const char *folder, const char *name, float *map, struct err *err) {
    char path[PATH_SIZE];
    const struct image image = {
        .nx = r->box, .ny = r->box, .nz = r->box, .pixel_size = (float)r->pixel_size, .data = map};
    TRY(path_join(folder, name, path, sizeof path, err));
    return mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, err);
}

/* What a file is filled with, and whose. */
struct content {
    const struct half *half;
    const char *reference, *root, *stem;
};
typedef enum status fill_file(const struct refiner *r, const struct content *content, struct star_file *file,
                              struct err *err);

static enum status fill_data(const struct refiner *r, const struct content *c, struct star_file *file,
                             struct err *err) {
    (void)c;
    return particle_set_export(&r->set, file, err);
}

static enum status fill_model(const struct refiner *r, const struct content *c, struct star_file *file,
                              struct err *err) {
    return tables_model(r, c->half, c->reference, file, err);
}

static enum status fill_sampling(const struct refiner *r, const struct content *c, struct star_file *file,
                                 struct err *err) {
    (void)c;
    return tables_sampling(r, file, err);
}

static enum status fill_optimiser(const struct refiner *r, const struct content *c, struct star_file *file,
                                  struct err *err) {
    return tables_optimiser(r, c->root, c->stem, file, err);
}

static enum status write_star(const struct refiner *r, const char *folder, const char *stem, const char *ending,
                              fill_file *fill, const struct content *content, struct err *err) {
    struct star_file *file = NULL;
    char name[64], path[PATH_SIZE];
    snprintf(name, sizeof name, "%s_%s", stem, ending);
    TRY(path_join(folder, name, path, sizeof path, err));
    TRY(star_create(&file, err));
    enum status status = fill(r, content, file, err);
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}

static uint8_t grey(float value, float low, float high) {
    float scaled = 255 * (value - low) / (high - low);
    return (uint8_t)(scaled < 0 ? 0 : scaled > 255 ? 255 : scaled);
}

enum status output_picture(const struct refiner *r, const char *folder, const char *name, const float *map,
                           const float *curve, struct err *err) {
    char path[PATH_SIZE];
    int n = r->box, width = 3 * n, height = n + n / 2;
    size_t voxels = (size_t)n * (size_t)n * (size_t)n;
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    TRY(mem_new((size_t)width * (size_t)height, 1, "a picture", &pixels, err));
    double sum = 0, squares = 0;
    for (size_t i = 0; i < voxels; i++) {
        sum += map[i];
        squares += (double)map[i] * map[i];
    }
    double mean = sum / (double)voxels, deviation = sqrt(fmax(squares / (double)voxels - mean * mean, 1e-30));
    float low = (float)(mean - 2 * deviation), high = (float)(mean + 8 * deviation);
    for (int y = 0; y < n; y++)
        for (int x = 0; x < n; x++) {
            size_t c = (size_t)n / 2, N = (size_t)n, a = (size_t)y, b = (size_t)x;
            const size_t sections[3] = {(c * N + a) * N + b, (a * N + c) * N + b, (a * N + b) * N + c};
            for (int i = 0; i < 3; i++)
                pixels[y * width + i * n + x] = grey(map[sections[i]], low, high);
        }
    for (int x = 0; x < width; x++) {
        double shell = (double)x * (r->shells - 1) / width;
        int s = (int)shell;
        double f = curve[s] + (shell - s) * (curve[s + 1 < r->shells ? s + 1 : s] - curve[s]);
        int y = n + 1 + (int)lround((1 - fmin(fmax(f, 0), 1)) * (n / 2 - 3));
        pixels[(n + 1 + (int)lround((1 - 0.143) * (n / 2 - 3))) * width + x] = 80;
        pixels[y * width + x] = 255;
    }
    TRY(path_join(folder, name, path, sizeof path, err));
    return picture_write_grey(path, width, height, pixels, err);
}

enum status output_tables(const struct refiner *r, const char *folder, const char *prefix, const char *stem,
                          const char *map, struct err *err) {
    const char *slash = *prefix != 0 ? "/" : "";
    char root[PATH_SIZE], all[PATH_SIZE], reference[PATH_SIZE + 128], ending[32];
    snprintf(root, sizeof root, "%s%srun", prefix, slash);
    snprintf(all, sizeof all, "%s%s%s", prefix, slash, stem);
    struct content content = {.reference = reference, .root = root, .stem = all};
    TRY(write_star(r, folder, stem, "data.star", fill_data, &content, err));
    for (int h = 0; h < r->half_count && !classifies(r); h++) {
        content.half = &r->half[h];
        snprintf(reference, sizeof reference, "%s_half%d_%s", all, h + 1, map);
        snprintf(ending, sizeof ending, "half%d_model.star", h + 1);
        TRY(write_star(r, folder, stem, ending, fill_model, &content, err));
    }
    if (r->schedule.final || classifies(r)) {
        content.half = &r->half[0];
        snprintf(reference, sizeof reference, classifies(r) ? "%s" : "%s_class001.mrc", all);
        TRY(write_star(r, folder, stem, "model.star", fill_model, &content, err));
    }
    TRY(write_star(r, folder, stem, "sampling.star", fill_sampling, &content, err));
    return write_star(r, folder, stem, "optimiser.star", fill_optimiser, &content, err);
}

static void remove_iteration(const char *folder, int iteration) {
    static const char *const PARTS[] = {"optimiser.star",   "half1_class001.mrc", "half2_class001.mrc",
                                        "class001.mrc",     "class001.png",       "data.star",
                                        "half1_model.star", "half2_model.star",   "sampling.star",
                                        "memory.csv"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        char name[64], path[PATH_SIZE];
        snprintf(name, sizeof name, "run_it%03d_%s", iteration, PARTS[i]);
        if (path_join(folder, name, path, sizeof path, NULL) == STATUS_OK)
            unlink(path); /* what cannot be removed only takes room */
    }
}

static enum status write_final(const struct refiner *r, const char *folder, const char *prefix, struct err *err) {
    TRY(output_map(r, folder, "run_half1_class001_unfil.mrc", r->half[0].references->unfiltered, err));
    TRY(output_map(r, folder, "run_half2_class001_unfil.mrc", r->half[1].references->unfiltered, err));
    TRY(output_map(r, folder, "run_class001.mrc", r->combined, err));
    TRY(output_picture(r, folder, "run_class001.png", r->combined, r->fsc, err));
    return output_tables(r, folder, prefix, "run", "class001_unfil.mrc", err);
}

enum status refiner_write(const struct refiner *r, const char *folder, const char *prefix, int keep, struct err *err) {
    FAIL_IF(r->busy || r->schedule.iteration == 0, err, STATUS_BAD_STATE, "no iteration is complete");
    if (classifies(r)) return classes_write(r, folder, prefix, keep, err);
    if (r->schedule.final) return write_final(r, folder, prefix, err);
    char stem[32], name[64];
    snprintf(stem, sizeof stem, "run_it%03d", r->schedule.iteration);
    for (int h = 0; h < 2; h++) {
        snprintf(name, sizeof name, "%s_half%d_class001.mrc", stem, h + 1);
        TRY(output_map(r, folder, name, r->half[h].references->map, err));
    }
    snprintf(name, sizeof name, "%s_class001.mrc", stem);
    TRY(output_map(r, folder, name, r->combined, err));
    snprintf(name, sizeof name, "%s_class001.png", stem);
    TRY(output_picture(r, folder, name, r->combined, r->fsc, err));
    TRY(output_tables(r, folder, prefix, stem, "class001.mrc", err));
    if (keep > 0 && r->schedule.iteration > keep) remove_iteration(folder, r->schedule.iteration - keep);
    return STATUS_OK;
}
