#include "examples/simulate/movie_truth.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"

static enum status path_of(const struct movie_truth *truth, const char *name, const char *suffix, char path[PATH_MAX],
                           struct err *err) {
    int length = snprintf(path, PATH_MAX, "%s/%s%s", truth->folder, name, suffix);
    FAIL_IF(length >= PATH_MAX, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", truth->folder);
    return STATUS_OK;
}

static enum status add_general(const struct movie_truth *truth, const struct layout *layout, struct star_file *file,
                               struct err *err) {
    const struct scene *s = truth->scene;
    char movie[64];
    snprintf(movie, sizeof movie, "movies/%s%s", layout->name, truth->ending);
    bool no_gain = truth->gain == NULL;
    const struct star_cell cells[] = {
        {.column = "rlnImageSizeX", .value = s->nx, .integer = true},
        {.column = "rlnImageSizeY", .value = s->ny, .integer = true},
        {.column = "rlnImageSizeZ", .value = truth->frames, .integer = true},
        {.column = "rlnMicrographMovieName", .text = movie},
        {.column = "rlnMicrographGainName", .text = truth->gain, .unless = no_gain},
        {.column = "icestreamGainRotation", .value = truth->gain_file.rotation, .integer = true, .unless = no_gain},
        {.column = "icestreamGainFlip", .value = truth->gain_file.flip, .integer = true, .unless = no_gain},
        {.column = "rlnMicrographOriginalPixelSize", .value = s->pixel_size},
        {.column = "rlnMicrographDoseRate", .value = s->counts / (s->pixel_size * s->pixel_size) / truth->frames},
        {.column = "rlnMicrographPreExposure", .value = 0},
        {.column = "rlnVoltage", .value = s->voltage},
        {.column = "rlnDefocusU", .value = layout->defocus_u},
        {.column = "rlnDefocusV", .value = layout->defocus_v},
        {.column = "rlnDefocusAngle", .value = layout->defocus_angle},
        {.column = "rlnEERGrouping", .value = truth->eer_group, .integer = true, .unless = truth->eer_group == 0},
    };
    struct star_table *table;
    TRY(star_table_add(file, "general", false, &table, err));
    return star_cells_put(table, 0, cells, sizeof cells / sizeof *cells, err);
}

static enum status add_shifts(const struct movie_truth *truth, const struct exposure_shift *shifts,
                              struct star_file *file, struct err *err) {
    struct star_table *global, *local;
    TRY(star_table_add(file, "global_shift", true, &global, err));
    TRY(star_table_add(file, "local_shift", true, &local, err));
    for (int j = 0; j < truth->frames; j++) {
        const struct star_cell cells[] = {
            {.column = "rlnMicrographFrameNumber", .value = j + 1, .integer = true},
            {.column = "rlnMicrographShiftX", .value = shifts[j].x},
            {.column = "rlnMicrographShiftY", .value = shifts[j].y},
        };
        TRY(star_cells_row(global, cells, 3, err));
        size_t row;
        TRY(star_row_begin(local, "rlnMicrographFrameNumber", &row, err));
        TRY(star_put_integer(local, row, "rlnMicrographFrameNumber", j + 1, err));
        for (int axis = 0; axis < 2; axis++)
            for (int i = 0; i < EXPOSURE_TERMS; i++) {
                char column[32];
                snprintf(column, sizeof column, "icestreamLocal%c%d", "XY"[axis], i);
                TRY(star_put_number(local, row, column, shifts[j].local[axis][i], err));
            }
    }
    return STATUS_OK;
}

enum status movie_truth_motion(const struct movie_truth *truth, const struct layout *layout,
                               const struct exposure_shift *shifts, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "truth/%s", layout->name);
    TRY(path_of(truth, name, "_motion.star", path, err));
    TRY(star_create(&file, err));
    TRY(add_general(truth, layout, file, err));
    TRY(add_shifts(truth, shifts, file, err));
    return star_write(file, path, err);
}

enum status movie_truth_sum(const struct movie_truth *truth, const struct layout *layout, const struct image *canvas,
                            struct err *err) {
    int nx = truth->scene->nx, ny = truth->scene->ny, left = (canvas->nx - nx) / 2, top = (canvas->ny - ny) / 2;
    _cleanup_(image_destroy) struct image sum = {0};
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "truth/%s", layout->name);
    TRY(path_of(truth, name, "_sum.mrc", path, err));
    TRY(image_resize(&sum, nx, ny, 1, err));
    sum.pixel_size = (float)truth->scene->pixel_size;
    for (int y = 0; y < ny; y++)
        memcpy(sum.data + (size_t)y * (size_t)nx, canvas->data + (size_t)(y + top) * (size_t)canvas->nx + (size_t)left,
               (size_t)nx * sizeof *sum.data);
    return mrc_write(path, &sum, MRC_IMAGE, MRC_FLOAT32, err);
}

enum status movie_truth_camera(const struct movie_truth *truth, const struct camera *camera, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    char path[PATH_MAX];
    TRY(path_of(truth, "truth/defects", ".star", path, err));
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "defects", true, &table, err));
    TRY(star_column_add(table, "rlnCoordinateX", NULL, NULL, err));
    for (int i = 0; i < camera->defect_count; i++) {
        const struct camera_defect *d = &camera->defects[i];
        const struct star_cell cells[] = {
            {.column = "rlnCoordinateX", .value = d->x, .integer = true},
            {.column = "rlnCoordinateY", .value = d->y, .integer = true},
            {.column = "icestreamDefect", .value = d->kind, .integer = true},
        };
        TRY(star_cells_row(table, cells, 3, err));
    }
    return star_write(file, path, err);
}

enum status movie_truth_list(const struct movie_truth *truth, const struct layout *layouts, struct err *err) {
    const struct scene *s = truth->scene;
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *optics, *movies;
    char path[PATH_MAX];
    const struct star_cell cells[] = {
        {.column = "rlnOpticsGroupName", .text = "opticsGroup1"},
        {.column = "rlnOpticsGroup", .value = 1, .integer = true},
        {.column = "rlnMicrographOriginalPixelSize", .value = s->pixel_size},
        {.column = "rlnVoltage", .value = s->voltage},
        {.column = "rlnSphericalAberration", .value = s->spherical_aberration},
        {.column = "rlnAmplitudeContrast", .value = s->amplitude_contrast},
    };
    TRY(path_of(truth, "movies", ".star", path, err));
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "optics", true, &optics, err));
    TRY(star_cells_row(optics, cells, sizeof cells / sizeof *cells, err));
    TRY(star_table_add(file, "movies", true, &movies, err));
    for (int m = 0; m < s->micrographs; m++) {
        char movie[64];
        snprintf(movie, sizeof movie, "movies/%s%s", layouts[m].name, truth->ending);
        const struct star_cell row[] = {
            {.column = "rlnMicrographMovieName", .text = movie},
            {.column = "rlnOpticsGroup", .value = 1, .integer = true},
        };
        TRY(star_cells_row(movies, row, 2, err));
    }
    return star_write(file, path, err);
}
