#include "stages/refiner/map_templates.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/harness/template_set.h"
#include "common/memory.h"
#include "kernels/fsc/soft_edge.h"
#include "kernels/views/views.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/resample.h"

/* Å: the map is resolved to this; what templates keep; pixels that hold it well. Shells: the soft edge of the filter. */
static const double RESOLUTION_MOST = 25, LOWPASS = 20, PIXEL = 5, LOWPASS_EDGE = 2;
/* Each epoch makes the picker try its templates, so they do not come often. */
static const double GROWTH = 2;
/* Part of the radius over which the sphere ends. */
static const double EDGE = 0.1;
/* Epochs whose images are kept; px of the smallest templates. */
enum { KEPT_EPOCHS = 3, BOX_LEAST = 16 };

/* Adds the halves, on a grid that is coarse enough for templates, and yet has the map's extent. */
static enum status join_halves(const struct refiner_maps *maps, struct image *map, struct err *err) {
    size_t voxels = (size_t)maps->box * (size_t)maps->box * (size_t)maps->box;
    double side = maps->box * maps->pixel_size;
    int box = (int)lround(side / PIXEL / 2) * 2;
    _cleanup_(mem_free) float *sum = NULL;
    if (box < BOX_LEAST) box = BOX_LEAST;
    if (box > maps->box) box = maps->box;
    TRY(mem_new_unset(voxels, sizeof *sum, "templates", &sum, err));
    for (size_t i = 0; i < voxels; i++)
        sum[i] = (maps->half1[i] + maps->half2[i]) / 2;
    TRY(image_resize(map, box, box, box, err));
    map->pixel_size = (float)(side / box);
    TRY(resample_map(sum, maps->box, maps->pixel_size, box, side / box, map->data, err));
    return lowpass_map(map->data, box, fmin(side / LOWPASS + LOWPASS_EDGE, box / 2 - 1), LOWPASS_EDGE, err);
}

/* Masks a map by a sphere, and takes its mean at the sphere's edge off, so that the edge is none of the density. radius:
 * px. */
static void mask_from_edge(struct image *map, double radius) {
    int n = map->nx;
    double edge = fmax(EDGE * radius, 2), sum = 0, count = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int z = 0; z < n; z++)
            for (int y = 0; y < n; y++)
                for (int x = 0; x < n; x++) {
                    float *value = map->data + ((size_t)z * (size_t)n + (size_t)y) * (size_t)n + (size_t)x;
                    double r = sqrt(pow(x - n / 2, 2) + pow(y - n / 2, 2) + pow(z - n / 2, 2));
                    double weight = 1 - soft_edge_outside(r, radius - edge, edge);
                    if (pass == 1)
                        *value = (float)(weight * (*value - (count > 0 ? sum / count : 0)));
                    else if (weight > 0 && weight < 1) {
                        sum += *value;
                        count++;
                    }
                }
}

static enum status project(const struct refiner_maps *maps, double radius, const char *symmetry, int threads,
                           struct image *map, struct image *ret_templates, struct err *err) {
    TRY(join_halves(maps, map, err));
    double px = fmin(radius / (double)map->pixel_size, map->nx / 2 - 1);
    mask_from_edge(map, px);
    _cleanup_(mem_free) float *views = NULL;
    int count = 0;
    TRY(views_project(map->data, map->nx, symmetry, threads, &views, &count, err));
    TRY(image_resize(ret_templates, map->nx, map->nx, count, err));
    ret_templates->pixel_size = map->pixel_size;
    bool contrast = true;
    size_t pixels = (size_t)map->nx * (size_t)map->nx;
    memcpy(ret_templates->data, views, (size_t)count * pixels * sizeof *views);
    for (int i = 0; i < ret_templates->nz; i++)
        contrast = template_normalise(ret_templates->data + (size_t)i * pixels, map->nx, px) && contrast;
    FAIL_IF(!contrast, err, STATUS_BAD_FORMAT, "the map is empty");
    return STATUS_OK;
}

enum status map_templates_make(const struct refiner_maps *maps, double radius, const char *symmetry, int threads,
                               struct image *ret_templates, struct err *err) {
    struct image map = {0}, templates = {0};
    enum status status = project(maps, radius, symmetry, threads, &map, &templates, err);
    image_destroy(&map);
    if (status != STATUS_OK)
        image_destroy(&templates);
    else
        *ret_templates = templates;
    return status;
}

/* Goes on after the last epoch of an earlier run. A damaged one is no reason to stop, but its number is not used again. */
static void look(struct map_templates *t, const char *folder) {
    struct template_set set = {0};
    t->looked = true;
    t->epoch = file_last_number(folder, "templates_e", ".mrcs", INT_MAX);
    if (template_set_read(folder, &set, NULL) != STATUS_OK) return;
    if (set.epoch > t->epoch) t->epoch = set.epoch;
    t->particles = set.particles;
    template_set_clear(&set);
}

void map_templates_renew(struct map_templates *t) {
    t->particles = 0;
}

static enum status write(struct map_templates *t, struct stage *stage, const struct refiner *r,
                         const struct refiner_state *s, struct err *err) {
    char path[PATH_SIZE], old[TEMPLATE_SET_NAME];
    const struct refiner_maps maps = refiner_maps(r);
    struct template_set set = {.epoch = t->epoch + 1, .iteration = s->iteration, .particles = (double)s->particles};
    snprintf(set.stage, sizeof set.stage, "%s", stage_name(stage));
    TRY(map_templates_make(&maps, r->mask_radius * r->pixel_size, r->options.symmetry, stage_threads(stage),
                           &set.images, err));
    for (int i = 0; i < set.images.nz; i++)
        set.classes[i] = 1;
    enum status status = template_set_write(stage_folder(stage), &set, err);
    int count = set.images.nz;
    template_set_clear(&set);
    TRY(status);
    t->epoch++;
    t->particles = (double)s->particles;
    stage_log(stage, LOG_INFO, "templates", "iteration %d: %d projections of the map are templates of epoch %d",
              s->iteration, count, t->epoch);
    snprintf(old, sizeof old, "templates_e%03d.mrcs", t->epoch - KEPT_EPOCHS);
    /* A file that cannot be removed only takes room. */
    if (t->epoch > KEPT_EPOCHS && path_join(stage_folder(stage), old, path, sizeof path, NULL) == STATUS_OK)
        (void)file_remove(path, NULL);
    return STATUS_OK;
}

void map_templates_step(struct map_templates *t, struct stage *stage, const struct refiner *refiner) {
    const struct refiner_state s = refiner_state(refiner);
    struct err err = {0};
    bool good =
        s.classes < 2 && s.unresolved == REFINER_RESOLVED && s.resolution > 0 && s.resolution <= RESOLUTION_MOST;
    if (!stage_in_pipeline(stage) || !good) return;
    if (!t->looked) look(t, stage_folder(stage));
    if ((double)s.particles < GROWTH * t->particles) return;
    if (write(t, stage, refiner, &s, &err) != STATUS_OK)
        stage_log(stage, LOG_WARN, "templates", "the map cannot be made templates now: %s", err.message);
}
