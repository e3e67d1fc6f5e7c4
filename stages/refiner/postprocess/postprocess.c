#include "stages/refiner/postprocess/postprocess.h"

#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "stages/refiner/files/local_resolution_write.h"
#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/files/postprocess_write.h"
#include "stages/refiner/postprocess/detector.h"
#include "stages/refiner/postprocess/directions.h"
#include "stages/refiner/postprocess/halves.h"
#include "stages/refiner/postprocess/told_map.h"
#include "stages/refiner/resample.h"

/* One run of the program. */
struct job {
    const struct wishes *wishes;
    const char *names[2];
    struct halves halves;
    int box;
    double pixel_size;
    float *mask, *mtf; /* NULL: none */
    struct postprocess_options options;
    struct postprocess_mask_shape shape;
    struct postprocess_result result;
    struct map_directions directions;
    FILE *out, *warnings;
};

/* Reads the user's mask, onto the grid of the half maps if it has another one. */
static enum status read_mask(struct job *j, struct err *err) {
    _cleanup_(image_destroy) struct image mask = {0};
    const char *path = j->wishes->mask;
    const size_t voxels = (size_t)j->box * (size_t)j->box * (size_t)j->box;
    if (path == NULL) return STATUS_OK;
    TRY(mrc_read(path, &mask, err));
    FAIL_IF(mask.nx != mask.ny || mask.nx != mask.nz || !image_values_fit(mask.data, image_count(&mask)), err,
            STATUS_BAD_FORMAT, "the mask %s is %d × %d × %d: a cube of values from 0 to 1 is expected", path, mask.nx,
            mask.ny, mask.nz);
    TRY(mem_new(voxels, sizeof *j->mask, "the mask", &j->mask, err));
    /* A mask of the same box belongs to the half maps, whatever its header says. */
    if (mask.nx == j->box) {
        memcpy(j->mask, mask.data, voxels * sizeof *j->mask);
        return STATUS_OK;
    }
    FAIL_IF(!(mask.pixel_size > 0), err, STATUS_BAD_FORMAT,
            "the mask %s has a box of %d px, the half maps one of %d, and its header gives no pixel size", path,
            mask.nx, j->box);
    TRY(resample_map(mask.data, mask.nx, (double)mask.pixel_size, j->box, j->pixel_size, j->mask, err));
    for (size_t i = 0; i < voxels; i++)
        j->mask[i] = fminf(fmaxf(j->mask[i], 0), 1);
    return STATUS_OK;
}

static enum status prepare(struct job *j, struct err *err) {
    const struct wishes *w = j->wishes;
    TRY(file_make_folders(w->folder, 0777, err));
    TRY(halves_read(j->names[0], j->names[1], w->pixel_size, &j->halves, err));
    j->box = j->halves.maps[0].nx;
    j->pixel_size = (double)j->halves.maps[0].pixel_size;
    TRY(read_mask(j, err));
    TRY(detector_curve(w->mtf, w->mtf_pixel_size, j->box, j->pixel_size, &j->mtf, err));
    j->shape = (struct postprocess_mask_shape){.threshold = w->threshold, .extend = w->extend, .edge = w->soft};
    j->options = (struct postprocess_options){.box = j->box,
                                              .pixel_size = j->pixel_size,
                                              .mask = j->mask,
                                              .automatic_mask = w->auto_mask,
                                              .shape = &j->shape,
                                              .mtf = j->mtf,
                                              .randomise_at_fsc = w->randomise_at_fsc,
                                              .bfactor_low = w->bfactor_low,
                                              .adhoc_bfactor = w->bfactor,
                                              .seed = (unsigned)w->seed};
    return STATUS_OK;
}

static void tell(const struct job *j) {
    const struct postprocess_result *r = &j->result;
    char text[TOLD_MAP_SIZE];
    fprintf(j->out, "half maps         box %d px of %.4g Å\n", j->box, j->pixel_size);
    fprintf(j->out, "unmasked          %.2f Å (FSC 0.143), %.2f Å (0.5)\n",
            fsc_resolution(r->fsc_unmasked, j->box, j->pixel_size, 0.143),
            fsc_resolution(r->fsc_unmasked, j->box, j->pixel_size, 0.5));
    if (r->mask != NULL && r->randomise_from > 0)
        fprintf(j->out, "mask              %.1f %% of the box, edge of %.1f px; phases are random from %.2f Å on\n",
                100 * r->mask_fraction, r->mask_edge, r->randomise_from);
    else if (r->mask != NULL)
        fprintf(j->out,
                "mask              %.1f %% of the box; not judged, since the unmasked maps agree beyond FSC %.2f up to "
                "Nyquist\n",
                100 * r->mask_fraction, j->wishes->randomise_at_fsc);
    told_map_resolution(r, text, sizeof text);
    fprintf(j->out, "resolution        %s\n", text);
    told_map_sharpening(r, &j->options, text, sizeof text);
    fprintf(j->out, "map               %s\n", text);
    if (directions_tell(&j->directions, text, sizeof text))
        fprintf(j->warnings, "icestream-postprocess: warning: the resolution is %s\n", text);
    else
        fprintf(j->out, "by direction      %s\n", text);
    if (told_map_doubts(r, j->wishes->mask, text, sizeof text))
        fprintf(j->warnings, "icestream-postprocess: warning: %s\n", text);
}

static enum status write_picture(const struct job *j, struct err *err) {
    const struct postprocess_result *r = &j->result;
    char path[PATH_SIZE];
    struct map_picture picture = {.box = j->box,
                                  .pixel_size = j->pixel_size,
                                  .map = r->map,
                                  .title = "postprocess",
                                  .parts = path_name(j->names[0]),
                                  .curves = {{"unmasked halves", r->fsc_unmasked,
                                              fsc_resolution(r->fsc_unmasked, j->box, j->pixel_size, 0.143), 0.143}}};
    if (r->mask != NULL) {
        const char *name = r->doubts != 0 ? "the mask is doubted" : r->unmasked_curve ? "as unmasked" : "inside a mask";
        picture.curves[1] = (struct map_curve){name, r->fsc, r->resolution, 0.143};
    }
    TRY(path_join(j->wishes->folder, "postprocess.png", path, sizeof path, err));
    return map_picture_write(&picture, path, err);
}

static enum status write_local(const struct job *j, struct err *err) {
    const struct local_maps_options options = {
        .bfactor = j->result.bfactor, .mtf = j->mtf, .mask = j->result.mask, .last_shell = j->options.last_shell};
    struct local_maps maps;
    if (!j->wishes->local_resolution) return STATUS_OK;
    TRY(local_maps_from(&j->halves.maps[0], &j->halves.maps[1], &options, NULL, &maps, err));
    enum status status = local_maps_write(&maps, j->wishes->folder, err);
    if (status == STATUS_OK)
        fprintf(j->out, "local resolution  %.1f to %.1f Å (5 to 95 %% of the voxels%s), median %.1f Å\n", maps.finest,
                maps.coarsest, j->result.mask != NULL ? " inside the mask" : "", maps.median);
    local_maps_destroy(&maps);
    return status;
}

static enum status run(struct job *j, struct err *err) {
    const struct postprocess_names names = {.half1 = j->names[0], .half2 = j->names[1], .folder = j->wishes->folder};
    TRY(prepare(j, err));
    TRY(postprocess_run(&j->options, j->halves.maps[0].data, j->halves.maps[1].data, &j->result, err));
    TRY(directions_find(&j->options, &j->result, j->halves.maps[0].data, j->halves.maps[1].data, &j->directions, err));
    tell(j);
    TRY(postprocess_write(&j->result, &j->options, j->wishes->folder, &names, &j->directions, err));
    TRY(write_picture(j, err));
    TRY(write_local(j, err));
    fprintf(j->out, "files             %s\n", j->wishes->folder);
    return STATUS_OK;
}

enum status postprocess_halves(const struct wishes *wishes, const char *half1, const char *half2, FILE *out,
                               FILE *warnings, struct err *err) {
    struct job job = {.wishes = wishes, .names = {half1, half2}, .out = out, .warnings = warnings};
    enum status status = run(&job, err);
    postprocess_result_destroy(&job.result);
    directions_destroy(&job.directions);
    halves_destroy(&job.halves);
    mem_free(&job.mask);
    mem_free(&job.mtf);
    return status;
}
