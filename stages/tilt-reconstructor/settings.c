#include "stages/tilt-reconstructor/settings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/tilt-reconstructor/tilt_reconstructor.h"

void settings_destroy(struct settings **settings) {
    if (settings == NULL || *settings == NULL) return;
    mdoc_clear(&(*settings)->mdoc);
    free((*settings)->mdoc_id);
    free((*settings)->devices);
    free(*settings);
    *settings = NULL;
}

enum { DEVICES_MOST = 64 };

/* Chooses the device of the stage and, with CUDA, its visible neighbours, as many as the user wants. */
static enum status choose_devices(struct stage *stage, struct settings *settings, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(stage);
    struct device devices[DEVICES_MOST];
    int count;
    TRY(stage_devices(stage, p->devices, DEVICES_MOST, devices, &count, err));
    TRY(mem_new((size_t)count, sizeof *settings->devices, "devices", &settings->devices, err));
    memcpy(settings->devices, devices, (size_t)count * sizeof *devices);
    settings->reconstruction.tomography.devices = settings->devices;
    settings->reconstruction.tomography.device_count = count;
    return STATUS_OK;
}

static enum status take_exclude(const struct tilt_reconstructor_options *p, struct settings *settings,
                                struct err *err) {
    if (p->exclude == NULL || p->exclude[0] == '\0') return STATUS_OK;
    TRY(tilts_parse_list("exclude", p->exclude, settings->excluded, &settings->reconstruction.exclude_greatest, err));
    settings->reconstruction.exclude = settings->excluded;
    return STATUS_OK;
}

/* Compares the depth of the mask; its other sides can be compared when the first images are known. */
static enum status take_mask(struct reconstruction_settings *reconstruction, struct err *err) {
    struct mrc_header header;
    if (reconstruction->mask == NULL) return STATUS_OK;
    FAIL_IF(reconstruction->tomography.method == TOMOGRAPHY_WBP, err, STATUS_BAD_ARGUMENT,
            "mask %s: weighted back-projection takes none: leave it out, or set method to sirt", reconstruction->mask);
    enum status status = mrc_read_header(reconstruction->mask, &header, err);
    if (status != STATUS_OK) return err_context(err, status, "mask");
    FAIL_IF(header.nz != reconstruction_depth(reconstruction), err, STATUS_BAD_ARGUMENT,
            "mask %s has %d × %d × %d voxels: along z it must have %d, as tomograms have with thickness %d and bin %d",
            reconstruction->mask, header.nx, header.ny, header.nz, reconstruction_depth(reconstruction),
            reconstruction->thickness, reconstruction->bin);
    reconstruction->mask_nx = header.nx;
    reconstruction->mask_ny = header.ny;
    return STATUS_OK;
}

static enum status take_mdoc(const struct tilt_reconstructor_options *p, struct settings *settings, struct err *err) {
    char id[PATH_SIZE];
    if (p->tilts == NULL || !mdoc_is_name(p->tilts)) return STATUS_OK;
    TRY(mdoc_read(p->tilts, &settings->mdoc, err));
    mdoc_series_name(path_name(p->tilts), id, sizeof id);
    settings->mdoc_id = strdup(id);
    FAIL_IF(settings->mdoc_id == NULL, err, STATUS_NO_MEMORY, "no memory for the name of a series");
    return STATUS_OK;
}

static enum status check(const struct tilt_reconstructor_options *p, struct err *err) {
    const struct reconstruction_settings *r = &p->reconstruction;
    bool beside = p->transforms != NULL && strcmp(p->transforms, "beside") == 0;
    FAIL_IF(p->transforms != NULL && !beside && !file_exists(p->transforms), err, STATUS_NOT_FOUND,
            "transforms: there is no file %s", p->transforms);
    FAIL_IF(p->transforms != NULL && r->align != RECONSTRUCTION_ALIGN_NONE, err, STATUS_BAD_ARGUMENT,
            "transforms %s says how images lie: align must be none", p->transforms);
    FAIL_IF(r->thickness < r->bin, err, STATUS_BAD_ARGUMENT,
            "a thickness of %d px leaves nothing after bin %d: it is counted in px of the images before binning",
            r->thickness, r->bin);
    return STATUS_OK;
}

void settings_check(const struct tilt_reconstructor_options *p, struct stage_checks *checks) {
    struct settings *scratch = calloc(1, sizeof *scratch);
    struct err err = {0};
    if (scratch == NULL) return; /* the start of the stage reports it */
    scratch->reconstruction = p->reconstruction;
    (void)stage_checks_result(checks, p->transforms != NULL ? "transforms" : "thickness", check(p, &err), &err);
    (void)stage_checks_result(checks, "exclude", take_exclude(p, scratch, &err), &err);
    (void)stage_checks_result(checks, "mask", take_mask(&scratch->reconstruction, &err), &err);
    settings_destroy(&scratch);
}

enum status settings_create(struct stage *stage, struct settings **ret_settings, struct err *err) {
    const struct tilt_reconstructor_options *p = stage_params(stage);
    _cleanup_(settings_destroy) struct settings *settings = calloc(1, sizeof *settings);
    FAIL_IF(settings == NULL, err, STATUS_NO_MEMORY, "no memory for settings");
    TRY(check(p, err));
    settings->reconstruction = p->reconstruction;
    settings->reconstruction.mode = p->precision == 0 ? MRC_FLOAT32 : MRC_FLOAT16;
    settings->reconstruction.tomography.threads = stage_threads(stage) > 0 ? stage_threads(stage) : 1;
    settings->reconstruction.tomography.memory = (size_t)p->memory << 20;
    TRY(choose_devices(stage, settings, err));
    TRY(take_exclude(p, settings, err));
    TRY(take_mask(&settings->reconstruction, err));
    TRY(take_mdoc(p, settings, err));
    settings->separate = stage_separate(stage);
    *ret_settings = settings;
    settings = NULL;
    return STATUS_OK;
}

struct reconstruction_settings settings_preview(const struct settings *settings, int shrink) {
    struct reconstruction_settings preview = settings->reconstruction;
    preview.bin = 1;
    preview.thickness = (settings->reconstruction.thickness + shrink - 1) / shrink;
    preview.mask = NULL;
    preview.mode = MRC_FLOAT32;
    preview.tomography.method = TOMOGRAPHY_WBP;
    preview.tomography.device_count = 1;
    return preview;
}
