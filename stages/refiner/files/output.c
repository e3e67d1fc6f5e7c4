/* Writes the files of an iteration and of the end, with RELION's names. The optimiser file comes last: an iteration
 * that has one is complete. */
#include "stages/refiner/files/output.h"

#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/together.h"
#include "stages/refiner/files/classes_output.h"
#include "stages/refiner/files/particles_export.h"
#include "stages/refiner/files/tables.h"
#include "stages/refiner/told.h"
#include "stages/refiner/unresolved.h"

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

/* Returns in a clause why the map has no resolution; NULL: it has one. */
static const char *doubt_of(const struct refiner *r) {
    return unresolved_clause(told_why(r));
}

enum status output_picture(const struct refiner *r, const char *folder, const char *name, const float *map,
                           const struct map_curve curves[MAP_CURVES], const char *parts, struct err *err) {
    char path[PATH_SIZE], title[48];
    snprintf(title, sizeof title, "iteration %d%s", r->schedule.iteration, r->schedule.final ? " (final)" : "");
    struct map_picture picture = {
        .box = r->box, .pixel_size = r->pixel_size, .map = map, .title = title, .doubt = doubt_of(r), .parts = parts};
    memcpy(picture.curves, curves, sizeof picture.curves);
    TRY(path_join(folder, name, path, sizeof path, err));
    return map_picture_write(&picture, path, err);
}

struct output_list {
    const struct refiner *refiner;
    const struct output_place *place;
    const struct output_file *files;
};

static enum status write_listed(void *context, size_t index, struct err *err) {
    const struct output_list *list = context;
    const struct output_file *file = &list->files[index];
    return file->write(list->refiner, list->place, file->index, err);
}

enum status output_files(const struct refiner *r, const struct output_place *place, const struct output_file *files,
                         int count, struct err *err) {
    enum { AT_A_TIME = 8 };
    struct output_list list = {r, place, files};
    const int threads = r->context.threads < AT_A_TIME ? r->context.threads : AT_A_TIME;
    return work_together((size_t)count, threads, write_listed, &list, err);
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

/* Writes the picture of the map of both halves. masked: NULL while there is no curve inside a mask. */
static enum status write_combined_picture(const struct refiner *r, const char *folder, const char *stem,
                                          const struct map_curve *masked, struct err *err) {
    char name[64], parts[48];
    const struct map_curve curves[MAP_CURVES] = {
        {"unmasked halves", r->fsc, r->told, 0.143},
        masked != NULL ? *masked : (struct map_curve){.name = "inside a mask"},
    };
    snprintf(name, sizeof name, "%s_class001.png", stem);
    snprintf(parts, sizeof parts, "%zu particles", r->set.count);
    return output_picture(r, folder, name, r->combined, curves, parts, err);
}

static enum status output_combined_picture(const struct refiner *r, const struct output_place *place, int index,
                                           struct err *err) {
    (void)index;
    return write_combined_picture(r, place->folder, place->stem, NULL, err);
}

enum status refiner_write_masked(const struct refiner *r, const char *folder, const struct map_curve *masked,
                                 struct err *err) {
    FAIL_IF(classifies(r) || !r->schedule.final, err, STATUS_BAD_STATE, "only the final map has a curve in a mask");
    return write_combined_picture(r, folder, "run", masked, err);
}

enum status output_latest(const char *folder, const char *stem, int class_index, struct err *err) {
    static const char *const ENDINGS[] = {"mrc", "png"};
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        char target[64], name[32], path[PATH_SIZE];
        snprintf(target, sizeof target, "%s_class%03d.%s", stem, class_index + 1, ENDINGS[i]);
        snprintf(name, sizeof name, "latest_map.%s", ENDINGS[i]);
        TRY(path_join(folder, name, path, sizeof path, err));
        TRY(file_link(target, path, err));
    }
    return STATUS_OK;
}

void output_remove_iteration(const char *folder, int iteration) {
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
    TRY(output_latest(folder, stem, 0, err)); /* before the files go to which the link has led so far */
    if (!final && keep > 0 && r->schedule.iteration > keep)
        output_remove_iteration(folder, r->schedule.iteration - keep);
    return STATUS_OK;
}
