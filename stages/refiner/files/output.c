/* Writes the files of an iteration and of the end, with RELION's names. The optimiser file comes last: an iteration
 * that has one is complete. */
#include "stages/refiner/files/output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/picture.h"
#include "common/memory.h"
#include "stages/refiner/files/classes_output.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/files/tables.h"

enum status output_map(const struct refiner *r, const char *folder, const char *name, float *map, struct err *err) {
    char path[PATH_SIZE];
    const struct image image = {
        .nx = r->box, .ny = r->box, .nz = r->box, .pixel_size = (float)r->pixel_size, .data = map};
    TRY(path_join(folder, name, path, sizeof path, err));
    return mrc_write(path, &image, MRC_VOLUME, MRC_FLOAT32, err);
}

/* The content of a STAR file. */
struct content {
    const struct side *side;
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
    return tables_model(r, c->side, c->reference, file, err);
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

enum status output_files(const struct refiner *r, const struct output_place *place, const struct output_file *files,
                         int count, struct err *err) {
    enum { AT_A_TIME = 8 };
    enum status statuses[OUTPUT_FILES_MOST] = {STATUS_OK};
    struct err errs[OUTPUT_FILES_MOST] = {{0}};
    const struct file_observer *observer = file_observed_by();
    FAIL_IF(count > OUTPUT_FILES_MOST, err, STATUS_BAD_STATE, "%d files are too many at a time", count);
#pragma omp parallel for num_threads(r->context.threads < AT_A_TIME ? r->context.threads : AT_A_TIME) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        const struct file_observer *before = file_observe(observer);
        statuses[i] = files[i].write(r, place, files[i].index, &errs[i]);
        file_observe(before);
    }
    for (int i = 0; i < count; i++)
        if (statuses[i] != STATUS_OK) {
            if (err != NULL) *err = errs[i];
            return statuses[i];
        }
    return STATUS_OK;
}

/* Paths in tables: of the run, of this iteration, and of the maps. */
struct prefixes {
    char root[PATH_SIZE], all[PATH_SIZE], reference[PATH_SIZE + 128];
};

static struct content content_of(const struct output_place *place, struct prefixes *p) {
    const char *slash = *place->prefix != 0 ? "/" : "";
    snprintf(p->root, sizeof p->root, "%s%srun", place->prefix, slash);
    snprintf(p->all, sizeof p->all, "%s%s%s", place->prefix, slash, place->stem);
    return (struct content){.reference = p->reference, .root = p->root, .stem = p->all};
}

enum status output_data(const struct refiner *r, const struct output_place *place, int index, struct err *err) {
    struct prefixes p;
    struct content content = content_of(place, &p);
    (void)index;
    return write_star(r, place->folder, place->stem, "data.star", fill_data, &content, err);
}

enum status output_sampling(const struct refiner *r, const struct output_place *place, int index, struct err *err) {
    struct prefixes p;
    struct content content = content_of(place, &p);
    (void)index;
    return write_star(r, place->folder, place->stem, "sampling.star", fill_sampling, &content, err);
}

enum status output_model(const struct refiner *r, const struct output_place *place, int index, struct err *err) {
    struct prefixes p;
    struct content content = content_of(place, &p);
    content.side = &r->sides[0];
    snprintf(p.reference, sizeof p.reference, classifies(r) ? "%s" : "%s_class001.mrc", p.all);
    (void)index;
    return write_star(r, place->folder, place->stem, "model.star", fill_model, &content, err);
}

static enum status output_half_model(const struct refiner *r, const struct output_place *place, int index,
                                     struct err *err) {
    struct prefixes p;
    char ending[32];
    struct content content = content_of(place, &p);
    content.side = &r->sides[index];
    snprintf(p.reference, sizeof p.reference, "%s_half%d_%s", p.all, index + 1, place->half_map);
    snprintf(ending, sizeof ending, "half%d_model.star", index + 1);
    return write_star(r, place->folder, place->stem, ending, fill_model, &content, err);
}

enum status output_optimiser(const struct refiner *r, const struct output_place *place, struct err *err) {
    struct prefixes p;
    struct content content = content_of(place, &p);
    return write_star(r, place->folder, place->stem, "optimiser.star", fill_optimiser, &content, err);
}

static enum status output_half_map(const struct refiner *r, const struct output_place *place, int index,
                                   struct err *err) {
    const struct reference *c = r->sides[index].references;
    char name[128];
    snprintf(name, sizeof name, "%s_half%d_%s", place->stem, index + 1, place->half_map);
    return output_map(r, place->folder, name, r->schedule.final ? c->unfiltered : c->map, err);
}

static enum status output_combined(const struct refiner *r, const struct output_place *place, int index,
                                   struct err *err) {
    char name[64];
    (void)index;
    snprintf(name, sizeof name, "%s_class001.mrc", place->stem);
    return output_map(r, place->folder, name, r->combined, err);
}

static enum status output_combined_picture(const struct refiner *r, const struct output_place *place, int index,
                                           struct err *err) {
    char name[64];
    (void)index;
    snprintf(name, sizeof name, "%s_class001.png", place->stem);
    return output_picture(r, place->folder, name, r->combined, r->fsc, err);
}

static void remove_iteration(const char *folder, int iteration) {
    static const char *const PARTS[] = {
        "optimiser.star", "half1_class001.mrc", "half2_class001.mrc", "class001.mrc",  "class001.png",
        "data.star",      "half1_model.star",   "half2_model.star",   "sampling.star", "memory.csv"};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++) {
        char name[64], path[PATH_SIZE];
        snprintf(name, sizeof name, "run_it%03d_%s", iteration, PARTS[i]);
        if (path_join(folder, name, path, sizeof path, NULL) == STATUS_OK)
            (void)file_remove(path, NULL); /* a file that cannot be removed only takes room */
    }
}

enum status refiner_write(const struct refiner *r, const char *folder, const char *prefix, int keep, struct err *err) {
    FAIL_IF(r->busy || r->schedule.iteration == 0, err, STATUS_BAD_STATE, "no iteration is complete");
    if (classifies(r)) return classes_write(r, folder, prefix, keep, err);
    bool final = r->schedule.final;
    char stem[32] = "run";
    if (!final) snprintf(stem, sizeof stem, "run_it%03d", r->schedule.iteration);
    const struct output_place place = {
        .folder = folder, .prefix = prefix, .stem = stem, .half_map = final ? "class001_unfil.mrc" : "class001.mrc"};
    /* The files that take longest come first. */
    const struct output_file files[] = {{output_data, 0},       {output_half_map, 0},         {output_half_map, 1},
                                        {output_combined, 0},   {output_combined_picture, 0}, {output_half_model, 0},
                                        {output_half_model, 1}, {output_sampling, 0},         {output_model, 0}};
    int count = sizeof files / sizeof *files;
    TRY(output_files(r, &place, files, final ? count : count - 1, err));
    TRY(output_optimiser(r, &place, err));
    if (!final && keep > 0 && r->schedule.iteration > keep) remove_iteration(folder, r->schedule.iteration - keep);
    return STATUS_OK;
}
