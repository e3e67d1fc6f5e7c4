/* Tells and writes what follows the last iteration. A map may have no resolution (unresolved.h): its images are noise to
 * their reference, say. What its halves agree to is then told nowhere as that of the map. */
#include "stages/refiner/ending.h"

#include <math.h>
#include <stdio.h>

#include "common/clock.h"
#include "common/directions.h"
#include "common/files.h"
#include "common/memory.h"
#include "kernels/postprocess/postprocess.h"
#include "stages/refiner/files/local_resolution_write.h"
#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/files/postprocess_write.h"
#include "stages/refiner/orientations.h"
#include "stages/refiner/postprocess/detector.h"
#include "stages/refiner/postprocess/told_map.h"
#include "stages/refiner/tell.h"
#include "stages/refiner/unresolved.h"
#include "stages/refiner/warnings.h"

/* quality: what the maps are worth. */
static void set_result(struct stage *stage, const struct refiner_state *s, const char *quality) {
    char unresolved[UNRESOLVED_SIZE];
    unresolved_describe(s, unresolved);
    static const char *const files[] = {"postprocess.mrc", "postprocess.star", "locres.mrc", "locres_filtered.mrc",
                                        "latest_map.mrc",  "latest_map.png",   NULL};
    stage_result(stage, files, "%s, %zu particles%s, iteration %d%s%s", *unresolved != 0 ? unresolved : quality,
                 s->particles, s->inverted ? ", hand inverted" : "", s->iteration,
                 s->unresolved == REFINER_RESOLVED && s->views_doubt > 0.5 ? "; the views are doubted" : "",
                 tell_starts_differ(s) ? "; the map depends on its reference" : "");
}

void ending_of_classes(struct stage *stage, const struct refiner *refiner) {
    const struct refiner_state s = refiner_state(refiner);
    char quality[128];
    snprintf(quality, sizeof quality, "%d classes, %.1f Å%s", s.classes, s.resolution,
             s.alike ? " (alike: no difference found)" : "");
    set_result(stage, &s, quality);
}

static void tell_result(struct stage *stage, const struct refiner *refiner, const struct postprocess_result *final,
                        const struct orientations *views) {
    const struct refiner_state s = refiner_state(refiner);
    char quality[256], noted[128];
    orientations_note(views, noted, sizeof noted);
    if (final->doubts != 0)
        snprintf(quality, sizeof quality, "%.1f Å unmasked (the mask is doubted), %s", s.resolution, noted);
    else
        snprintf(quality, sizeof quality, "%.1f Å masked, %.1f Å unmasked, %s", final->resolution, s.resolution, noted);
    set_result(stage, &s, quality);
}

/* Says how the views of the particles are spread, and what to do about it. */
static enum status tell_orientations(struct stage *stage, const struct refiner *refiner, struct orientations *ret_views,
                                     struct err *err) {
    struct orientations o;
    char text[256];
    TRY(orientations_advise(refiner, &o, err));
    *ret_views = o;
    if (isnan(o.efficiency)) return STATUS_OK;
    orientations_describe(&o, text, sizeof text);
    if (o.efficiency < DIRECTIONS_POOR)
        stage_log(stage, LOG_WARN, "refine-orientations", "efficiency of the directions of view: %s", text);
    else
        stage_log(stage, LOG_INFO, "refine-orientations", "efficiency of the directions of view: %s", text);
    return STATUS_OK;
}

/* Reads the MTF at the shells of a map: the user's, else the session's, else that of the particles' optics groups;
 * *ret_curve NULL: none. */
static enum status read_mtf(const struct stage *stage, const struct refiner *refiner, int box, double pixel_size,
                            float **ret_curve, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    const struct stage_session *session = stage_session(stage);
    const char *path = p->mtf != NULL ? p->mtf : session->mtf;
    double detector = isnan(p->mtf_pixel_size) ? session->pixel_size : p->mtf_pixel_size;
    if (path == NULL) path = refiner_mtf(refiner, &detector);
    return detector_curve(path, detector, box, pixel_size, ret_curve, err);
}

enum status ending_local_maps(struct stage *stage, const struct refiner *refiner, struct workspace *workspace_or_null,
                              struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    const double began = clock_monotonic();
    struct local_maps maps;
    struct err own = {0};
    /* A run that goes on here knows only of the iteration before the final one: the files tell. */
    if (!p->local_resolution || local_maps_exist(stage_folder(stage)) || !local_maps_wanted(stage_folder(stage)))
        return STATUS_OK;
    stage_doing(stage, "computing the local resolution");
    _cleanup_(mem_free) float *mtf = NULL;
    const struct refiner_grid grid = refiner_grid(refiner);
    TRY(read_mtf(stage, refiner, grid.box, grid.pixel_size, &mtf, err));
    if (local_maps_make(stage_folder(stage), mtf, workspace_or_null, &maps, &own) != STATUS_OK) {
        stage_log(stage, LOG_WARN, "refine-local", "there is no local resolution: %s", own.message);
        return STATUS_OK;
    }
    const double seconds = clock_monotonic() - began;
    enum status status;
    STAGE_PERSIST(stage, status, err, local_maps_write(&maps, stage_folder(stage), err));
    char bound[64] = "";
    if (maps.bound > 0) snprintf(bound, sizeof bound, "; as for the whole map, none finer than %.1f Å", maps.bound);
    if (status == STATUS_OK)
        stage_log(stage, LOG_INFO, "refine-local",
                  "local resolution %.1f to %.1f Å (5 to 95 %% of the voxels inside the mask), median %.1f Å%s, %.2f s",
                  maps.finest, maps.coarsest, maps.median, bound, seconds);
    local_maps_destroy(&maps);
    return status;
}

/* Halves agree on what one reference has given them. */
static void tell_unresolved(struct stage *stage, const struct refiner_state *s) {
    char text[UNRESOLVED_SIZE];
    unresolved_describe(s, text);
    stage_log(stage, LOG_INFO, "refine-postprocess",
              "%s; both halves were made with one reference, and they agree to %.2f Å; there is no local resolution",
              text, s->agreement);
}

static void tell_postprocessed(struct stage *stage, const struct postprocess_result *result,
                               const struct postprocess_options *options, const struct map_directions *directions) {
    const char *mask = ((const struct refiner_options *)stage_params(stage))->mask;
    char text[TOLD_MAP_SIZE], sharpening[TOLD_MAP_SIZE];
    /* A mask that was made is none of the user's faults: the resolution says enough. */
    if (told_map_doubts(result, mask, text, sizeof text) && mask != NULL)
        stage_log(stage, LOG_WARN, "refine-mask-doubted", "%s", text);
    else if (*text != 0)
        stage_log(stage, LOG_INFO, "refine-postprocess", "%s", text);
    told_map_resolution(result, text, sizeof text);
    told_map_sharpening(result, options, sharpening, sizeof sharpening);
    stage_log(stage, LOG_INFO, "refine-postprocess", "%s, %s", text, sharpening);
    if (directions_tell(directions, text, sizeof text))
        stage_log(stage, LOG_WARN, "refine-directions", "the resolution is %s", text);
    else
        stage_log(stage, LOG_INFO, "refine-directions", "the resolution is %s", text);
}

enum status ending_of_halves(struct stage *stage, struct refiner *refiner, struct writer *writer, struct err *err) {
    const struct refiner_options *p = stage_params(stage);
    struct refiner_maps maps = refiner_maps(refiner);
    char half1[PATH_SIZE], half2[PATH_SIZE];
    _cleanup_(mem_free) float *mtf = NULL;
    TRY(read_mtf(stage, refiner, maps.box, maps.pixel_size, &mtf, err));
    const struct postprocess_options options = {.box = maps.box,
                                                .pixel_size = maps.pixel_size,
                                                .mask = maps.mask,
                                                .held = maps.held,
                                                .last_shell = maps.last_shell,
                                                .automatic_mask = true,
                                                .mtf = mtf,
                                                .randomise_at_fsc = 0.8,
                                                .bfactor_low = 10,
                                                .adhoc_bfactor = p->bfactor,
                                                .seed = 1};
    const struct refiner_state ended = refiner_state(refiner);
    const bool resolved = ended.unresolved == REFINER_RESOLVED;
    const struct postprocess_names names = {
        .half1 = half1, .half2 = half2, .folder = writer_prefix(stage), .unresolved = ended.unresolved};
    struct postprocess_result result = {0};
    warnings_of_map(stage, refiner);
    TRY(path_join(writer_prefix(stage), "run_half1_class001_unfil.mrc", half1, sizeof half1, err));
    TRY(path_join(writer_prefix(stage), "run_half2_class001_unfil.mrc", half2, sizeof half2, err));
    struct map_directions directions = {0};
    TRY(postprocess_run(&options, maps.half1, maps.half2, &result, err));
    const struct map_curve masked = {result.doubts != 0 ? "the mask is doubted" : "inside a mask", result.fsc,
                                     result.resolution, 0.143};
    enum status status = directions_find(&options, &result, maps.half1, maps.half2, &directions, err);
    if (status == STATUS_OK) status = writer_wait(writer, err);
    if (status == STATUS_OK) status = local_maps_remove(stage_folder(stage), err);
    if (status == STATUS_OK)
        STAGE_PERSIST(stage, status, err, refiner_write_masked(refiner, stage_folder(stage), &masked, err));
    /* These files mean that all is done: they come last. */
    if (status == STATUS_OK)
        STAGE_PERSIST(stage, status, err,
                      postprocess_write(&result, &options, stage_folder(stage), &names, &directions, err));
    if (status == STATUS_OK) tell_starts(stage, &ended);
    if (status == STATUS_OK) tell_shared(stage, &ended);
    if (status == STATUS_OK && !resolved) tell_unresolved(stage, &ended);
    if (status == STATUS_OK && resolved) tell_postprocessed(stage, &result, &options, &directions);
    struct orientations views;
    if (status == STATUS_OK) status = tell_orientations(stage, refiner, &views, err);
    if (status == STATUS_OK) tell_result(stage, refiner, &result, &views);
    postprocess_result_destroy(&result);
    directions_destroy(&directions);
    return status == STATUS_OK ? ending_local_maps(stage, refiner, refiner_workspace(refiner), err) : status;
}
