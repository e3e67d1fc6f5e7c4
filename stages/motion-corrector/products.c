#include "stages/motion-corrector/products.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/harness/display.h"
#include "common/harness/item_optics.h"
#include "common/memory.h"
#include "stages/motion-corrector/motion_record.h"
#include "stages/motion-corrector/motion_tables.h"

const char *products_gain_name(bool eer) {
    return eer ? "gain_eer.mrc" : "gain.mrc";
}

struct picture {
    const char *suffix, *member;
    const struct image *image;
    bool wanted;
};

static enum status write_images(struct stage *stage, struct item *item, const struct corrected *c, struct err *err) {
    const struct motion_corrector_options *o = stage_params(stage);
    const struct picture pictures[] = {
        {".mrc", "micrograph.path", c->weighted ? &c->weighted_sum : &c->unweighted_sum, true},
        {"_noDW.mrc", "micrograph.unweighted", &c->unweighted_sum, c->weighted},
        {"_EVN.mrc", "micrograph.even", &c->even, c->halves},
        {"_ODD.mrc", "micrograph.odd", &c->odd, c->halves},
        {"_PS.mrc", "spectrum.path", &c->spectrum, true},
    };
    char relative[PATH_MAX], path[PATH_MAX];
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures; i++) {
        const struct picture *p = &pictures[i];
        if (!p->wanted) continue;
        bool half = o->float16 && p->image != &c->spectrum;
        TRY(stage_product(stage, item, p->suffix, relative, path, err));
        TRY(mrc_write(path, p->image, MRC_IMAGE, half ? MRC_FLOAT16 : MRC_FLOAT32, err));
        TRY(item_set_string(item, p->member, relative, err));
    }
    return STATUS_OK;
}

/* Names a file from the folder of the session where it lies there, else absolute. */
static void name_from_root(const struct stage *stage, const char *path, char name[PATH_MAX]) {
    char absolute[PATH_MAX];
    const char *rest = path;
    if (realpath(path, absolute) != NULL && (!path_is_below(absolute, stage_root(stage), &rest) || rest[0] == '\0'))
        rest = absolute;
    memmove(name, rest, strlen(rest) + 1);
}

static enum status write_tables(struct stage *stage, struct item *item, const struct products *p, struct err *err) {
    const struct motion_corrector_options *o = stage_params(stage);
    char relative[PATH_MAX], path[PATH_MAX], gain[PATH_MAX] = "", defects[PATH_MAX] = "";
    const char *movie = NULL, *rest;
    TRY(item_need_string(item, "movie.path", &movie, err));
    if (p->gain != NULL) {
        TRY(path_join(stage_folder(stage), products_gain_name(p->info->format == MOVIE_EER), path, sizeof path, err));
        snprintf(gain, sizeof gain, "%s", path_is_below(path, stage_root(stage), &rest) ? rest : path);
    }
    if (o->defects != NULL) name_from_root(stage, o->defects, defects);
    const struct motion_tables tables = {.info = p->info,
                                         .movie = movie,
                                         .gain = gain[0] != '\0' ? gain : NULL,
                                         .defects = defects[0] != '\0' ? defects : NULL,
                                         .options = o,
                                         .exposure = p->exposure,
                                         .corrected = p->corrected,
                                         .hot = p->hot};
    TRY(stage_product(stage, item, ".star", relative, path, err));
    TRY(motion_tables_write(&tables, path, err));
    return item_set_string(item, "motion.star", relative, err);
}

static enum status write_record(struct stage *stage, struct item *item, const struct products *p, struct err *err) {
    const struct motion_corrector_options *o = stage_params(stage);
    char relative[PATH_MAX], path[PATH_MAX];
    TRY(stage_product(stage, item, "_motion.json", relative, path, err));
    TRY(motion_record_write(p->corrected, p->exposure, p->hot->count, path, err));
    TRY(item_set_string(item, "motion.data", relative, err));
    TRY(item_set_string(item, "display.motion", relative, err));
    if (!o->write_png) return STATUS_OK;
    TRY(stage_product(stage, item, "_motion.png", relative, path, err));
    TRY(motion_picture_write(p->corrected, path, err));
    return item_set_string(item, "motion.picture", relative, err);
}

/* RELION's three columns are in pixels of the movie, whatever their description says; ours are in Å. */
static enum status set_columns(struct item *item, const struct products *p, struct err *err) {
    const struct motion_lengths *l = &p->corrected->lengths;
    const double pixel = p->exposure->pixel_size;
    const struct {
        const char *name;
        double value;
    } columns[] = {{"rlnAccumMotionTotal", l->total / pixel}, {"rlnAccumMotionEarly", l->early / pixel},
                   {"rlnAccumMotionLate", l->late / pixel},   {"icestreamMotionTotal", l->total},
                   {"icestreamMotionEarly", l->early},        {"icestreamMotionLate", l->late}};
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        TRY(item_set_column(item, columns[i].name, columns[i].value, err));
    if (!isfinite(p->corrected->gain_residual)) return STATUS_OK;
    return item_set_column(item, "icestreamGainResidualSd", p->corrected->gain_residual, err);
}

enum status products_write(struct stage *stage, struct item *item, const struct products *p, struct err *err) {
    const struct motion_corrector_options *o = stage_params(stage);
    struct optics optics = *p->optics;
    TRY(write_images(stage, item, p->corrected, err));
    TRY(display_micrograph(stage, item,
                           p->corrected->weighted ? &p->corrected->weighted_sum : &p->corrected->unweighted_sum, err));
    TRY(write_tables(stage, item, p, err));
    TRY(write_record(stage, item, p, err));
    TRY(item_set_number(item, "movie.frames", p->info->frames, err));
    TRY(item_set_number(item, "micrograph.nx", p->corrected->unweighted_sum.nx, err));
    TRY(item_set_number(item, "micrograph.ny", p->corrected->unweighted_sum.ny, err));
    optics.pixel_size *= o->bin;
    TRY(item_set_optics(item, &optics, p->optics->pixel_size, err));
    return set_columns(item, p, err);
}

enum status products_write_gain(const char *path, struct image *gain, bool eer, struct err *err) {
    for (size_t i = 0; eer && i < image_count(gain); i++)
        gain->data[i] = gain->data[i] > 0 ? 1 / gain->data[i] : 0;
    return mrc_write(path, gain, MRC_IMAGE, MRC_FLOAT32, err);
}

static enum status write_reference(const struct stage *stage, struct reference *r, struct err *err) {
    _cleanup_(image_destroy) struct image image = {0};
    char path[PATH_MAX];
    TRY(path_join(stage_folder(stage), products_gain_name(r->eer), path, sizeof path, err));
    TRY(image_resize_unset(&image, r->nx, r->ny, 1, err));
    memcpy(image.data, r->gain, image_count(&image) * sizeof *image.data);
    TRY(products_write_gain(path, &image, r->eer, err));
    r->gain_written = true;
    return STATUS_OK;
}

enum status products_write_gains(struct stage *stage, struct references *references, struct err *err) {
    enum status status = STATUS_OK;
    pthread_mutex_lock(&references->lock);
    struct reference *first = references->first;
    pthread_mutex_unlock(&references->lock);
    /* References are added in front and never go away before fini; gain_written belongs to this thread. */
    for (struct reference *r = first; r != NULL && status == STATUS_OK; r = r->next)
        if (r->gain != NULL && !r->gain_written) status = write_reference(stage, r, err);
    return status;
}
