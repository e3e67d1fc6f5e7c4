#include "stages/motion-corrector/motion_tables.h"

#include <math.h>

#include "common/formats/star.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

enum { NO_MODEL = 0, THIRD_ORDER = 1 }; /* rlnMotionModelVersion */

static enum status put_general(const struct motion_tables *t, struct star_file *file, struct err *err) {
    struct star_table *table;
    bool eer = t->info->format == MOVIE_EER, dose = t->exposure->dose_per_frame > 0;
    const struct star_cell cells[] = {
        {.column = "rlnImageSizeX", .value = t->info->nx, .integer = true},
        {.column = "rlnImageSizeY", .value = t->info->ny, .integer = true},
        {.column = "rlnImageSizeZ", .value = t->info->frames, .integer = true},
        {.column = "rlnMicrographMovieName", .text = t->movie},
        {.column = "rlnMicrographGainName", .text = t->gain, .unless = t->gain == NULL},
        {.column = "rlnMicrographDefectFile", .text = t->defects, .unless = t->defects == NULL},
        {.column = "rlnMicrographBinning", .value = t->options->bin},
        {.column = "rlnMicrographOriginalPixelSize", .value = t->exposure->pixel_size},
        {.column = "rlnMicrographDoseRate", .value = t->exposure->dose_per_frame, .unless = !dose},
        {.column = "rlnMicrographPreExposure", .value = t->exposure->pre_exposure},
        {.column = "rlnVoltage", .value = t->exposure->voltage},
        {.column = "rlnMicrographStartFrame", .value = t->exposure->first_frame, .integer = true},
        {.column = "rlnEERUpsampling", .value = t->options->eer_upsampling, .integer = true, .unless = !eer},
        {.column = "rlnEERGrouping", .value = t->options->eer_grouping, .integer = true, .unless = !eer},
        {.column = "rlnMotionModelVersion",
         .value = t->corrected->model.local ? THIRD_ORDER : NO_MODEL,
         .integer = true},
    };
    TRY(star_table_add(file, "general", false, &table, err));
    return star_cells_put(table, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status put_global(const struct motion_tables *t, struct star_file *file, struct err *err) {
    const struct motion_model *model = &t->corrected->model;
    struct star_table *table;
    TRY(star_table_add(file, "global_shift", true, &table, err));
    for (int j = 0; j < model->frames; j++) {
        const struct star_cell cells[] = {
            {.column = "rlnMicrographFrameNumber", .value = t->exposure->first_frame + j, .integer = true},
            {.column = "rlnMicrographShiftX", .value = (double)model->x[j]},
            {.column = "rlnMicrographShiftY", .value = (double)model->y[j]},
        };
        TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status put_local_model(const struct motion_model *model, struct star_file *file, struct err *err) {
    struct star_table *table;
    if (!model->local) return STATUS_OK;
    TRY(star_table_add(file, "local_motion_model", true, &table, err));
    for (int i = 0; i < 2 * MOTION_COEFFICIENTS; i++) {
        const struct star_cell cells[] = {
            {.column = "rlnMotionModelCoeffsIdx", .value = i, .integer = true},
            {.column = "rlnMotionModelCoeff",
             .value = model->coefficients[i / MOTION_COEFFICIENTS][i % MOTION_COEFFICIENTS]},
        };
        TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status put_patches(const struct motion_tables *t, struct star_file *file, struct err *err) {
    const struct motion_report *report = &t->corrected->report;
    struct star_table *table;
    if (report->patches == 0 || report->groups == 0) return STATUS_OK;
    TRY(star_table_add(file, "local_shift", true, &table, err));
    for (int i = 0; i < report->patches; i++)
        for (int g = 0; g < report->groups && report->patch[i].used; g++) {
            double middle = motion_group_middle(t->corrected->model.frames, report->groups, g);
            const struct star_cell cells[] = {
                {.column = "rlnMicrographFrameNumber", .value = t->exposure->first_frame + middle},
                {.column = "rlnCoordinateX", .value = report->patch[i].x},
                {.column = "rlnCoordinateY", .value = report->patch[i].y},
                {.column = "rlnMicrographShiftX", .value = (double)report->patch[i].shift_x[g]},
                {.column = "rlnMicrographShiftY", .value = (double)report->patch[i].shift_y[g]},
            };
            TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
        }
    return STATUS_OK;
}

static enum status put_hot_pixels(const struct hot_pixels *hot, struct star_file *file, struct err *err) {
    struct star_table *table;
    if (hot->count == 0) return STATUS_OK;
    TRY(star_table_add(file, "hot_pixels", true, &table, err));
    for (size_t i = 0; i < hot->count; i++) {
        const struct star_cell cells[] = {{.column = "rlnCoordinateX", .value = hot->x[i]},
                                          {.column = "rlnCoordinateY", .value = hot->y[i]}};
        TRY(star_cells_row(table, cells, sizeof cells / sizeof *cells, err));
    }
    return STATUS_OK;
}

static enum status fill(const struct motion_tables *t, struct star_file *file, struct err *err) {
    TRY(put_general(t, file, err));
    TRY(put_global(t, file, err));
    TRY(put_local_model(&t->corrected->model, file, err));
    TRY(put_hot_pixels(t->hot, file, err));
    return put_patches(t, file, err);
}

enum status motion_tables_write(const struct motion_tables *tables, const char *path, struct err *err) {
    struct star_file *file;
    TRY(star_create(&file, err));
    enum status status = fill(tables, file, err);
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}
