#include "stages/motion-corrector/estimate.h"

#include <limits.h>
#include <stdio.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/motion-corrector/motion_corrector.h"
#include "stages/motion-corrector/products.h"

void estimate_clear(struct estimate *estimate) {
    gain_estimate_destroy(&estimate->sums);
}

enum status estimate_check(const struct stage *stage, struct err *err) {
    FAIL_IF(stage_in_pipeline(stage), err, STATUS_BAD_ARGUMENT,
            "estimate_gain works on files only: icestream-motion-corrector --estimate-gain --i MOVIES --o FOLDER makes "
            "FOLDER/gain.mrc, for `gain`");
    return STATUS_OK;
}

enum status estimate_add(struct estimate *e, const char *path, const struct frames *frames, int threads,
                         struct err *err) {
    const struct motion_frames *data = &frames->data;
    if (e->sums == NULL) {
        TRY(gain_estimate_create(data->nx, data->ny, &e->sums, err));
        e->nx = data->nx;
        e->ny = data->ny;
        e->eer = frames->info.format == MOVIE_EER;
    }
    enum status status = gain_estimate_add(e->sums, data, threads, err);
    return status == STATUS_OK ? STATUS_OK : err_context(err, status, "%s", path);
}

static void tell(struct stage *stage, const char *path, const struct gain_estimate_report *r) {
    char text[300];
    snprintf(
        text, sizeof text,
        "from %d movies with %.0f counts a pixel; pixels differ by %.1f %%, and the noise of the movies is %.1f %%; "
        "%zu bad pixels",
        r->movies, r->counts, 100 * r->variation, 100 * r->noise, r->bad);
    if (r->noise > r->variation)
        stage_log(stage, LOG_WARN, "gain-poor", "%s: %s. More movies make it better", path, text);
    else
        stage_log(stage, LOG_INFO, "gain-estimated", "%s: %s", path, text);
}

enum status estimate_write(struct stage *stage, struct estimate *e, struct err *err) {
    _cleanup_(image_destroy) struct image image = {0};
    struct gain_estimate_report report;
    char path[PATH_MAX];
    FAIL_IF(e->sums == NULL, err, STATUS_BAD_STATE, "no movie was read, so there is no gain reference");
    TRY(path_join(stage_folder(stage), products_gain_name(e->eer), path, sizeof path, err));
    TRY(image_resize_unset(&image, e->nx, e->ny, 1, err));
    TRY(gain_estimate_finish(e->sums, image.data, &report, err));
    TRY(products_write_gain(path, &image, e->eer, err));
    tell(stage, path, &report);
    return STATUS_OK;
}
