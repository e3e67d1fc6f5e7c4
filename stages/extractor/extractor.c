#include "stages/extractor/extractor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/files.h"
#include "common/harness/item_optics.h"
#include "common/harness/stage.h"
#include "common/memory.h"

static int final_size(const struct extractor_options *options) {
    return options->downscale_to == INT_MIN ? options->box : options->downscale_to;
}

void extractor_check(const struct extractor_options *options, struct stage_checks *checks) {
    int size = final_size(options), radius = options->background_radius == INT_MIN ? -1 : options->background_radius;
    if (options->box % 2 != 0)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "box", "box is %d px, but must be even: try %d", options->box,
                         options->box + 1);
    if (options->downscale_to != INT_MIN && size % 2 != 0)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "downscale_to", "downscale_to is %d px, but must be even: try %d",
                         size, size + 1);
    if (size > options->box)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "downscale_to",
                         "downscale_to is %d px, more than the box of %d px: particles are never enlarged", size,
                         options->box);
    if (2 * radius > size)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "background_radius",
                         "background_radius is %d px, but in the final box of %d px it can be %d px at most", radius,
                         size, size / 2);
}

struct extract_options extractor_cut_options(const struct extractor_options *options) {
    return (struct extract_options){.box = options->box,
                                    .size = final_size(options),
                                    .background_radius =
                                        options->background_radius == INT_MIN ? -1 : options->background_radius,
                                    .normalise = options->normalise,
                                    .invert = options->invert};
}

/* Returns whether two names mean one micrograph: the same path, or the same file name without its ending. */
static bool same_micrograph(const char *a, const char *b) {
    if (strcmp(a, b) == 0) return true;
    const char *x = path_name(a), *y = path_name(b);
    const char *dot_x = strrchr(x, '.'), *dot_y = strrchr(y, '.');
    size_t length_x = dot_x != NULL ? (size_t)(dot_x - x) : strlen(x);
    size_t length_y = dot_y != NULL ? (size_t)(dot_y - y) : strlen(y);
    return length_x == length_y && memcmp(x, y, length_x) == 0;
}

static enum status reserve_picks(struct extractor_picks *picks, size_t count, struct err *err) {
    if (count <= picks->capacity) return STATUS_OK;
    mem_free(&picks->rows);
    mem_free(&picks->x);
    mem_free(&picks->y);
    picks->capacity = 0;
    TRY(mem_new(count, sizeof *picks->rows, "picks", &picks->rows, err));
    TRY(mem_new(count, sizeof *picks->x, "picks", &picks->x, err));
    TRY(mem_new(count, sizeof *picks->y, "picks", &picks->y, err));
    picks->capacity = count;
    return STATUS_OK;
}

static struct star_table *table_of_coordinates(struct star_file *file) {
    for (size_t i = 0; i < star_table_count(file); i++) {
        struct star_table *table = star_table_at(file, i);
        if (star_column_find(table, "rlnCoordinateX") >= 0) return table;
    }
    return NULL;
}

static bool any_named(const struct star_table *table, int column, const char *micrograph_name) {
    for (size_t row = 0; row < star_row_count(table); row++)
        if (strcmp(star_get(table, row, column), micrograph_name) == 0) return true;
    return false;
}

/* Chooses rows of a table: of this micrograph (NULL: all rows are of one), above minimum_fom, and inside. */
static enum status choose_picks(struct star_table *table, const char *path, const char *micrograph_name,
                                double minimum_fom, int nx, int ny, struct extractor_picks *picks, struct err *err) {
    int column_x, column_y;
    TRY(star_column_need(table, "rlnCoordinateX", &column_x, err));
    TRY(star_column_need(table, "rlnCoordinateY", &column_y, err));
    int column_fom = star_column_find(table, "rlnAutopickFigureOfMerit");
    int column_name = micrograph_name != NULL ? star_column_find(table, "rlnMicrographName") : -1;
    bool exact = column_name >= 0 && any_named(table, column_name, micrograph_name);
    TRY(reserve_picks(picks, star_row_count(table), err));
    for (size_t row = 0; row < star_row_count(table); row++) {
        if (column_name >= 0) {
            const char *name = star_get(table, row, column_name);
            if (exact ? strcmp(name, micrograph_name) != 0 : !same_micrograph(name, micrograph_name)) continue;
        }
        double x, y, fom;
        TRY(star_get_number(table, row, column_x, &x, err));
        TRY(star_get_number(table, row, column_y, &y, err));
        FAIL_IF(!isfinite(x) || !isfinite(y), err, STATUS_BAD_FORMAT,
                "%s: row %zu: the coordinates %g, %g are not finite", path, row + 1, x, y);
        if (column_fom >= 0 && !isnan(minimum_fom)) {
            TRY(star_get_number(table, row, column_fom, &fom, err));
            FAIL_IF(
                isnan(fom), err, STATUS_BAD_FORMAT,
                "%s: row %zu: rlnAutopickFigureOfMerit is NaN: a number is expected, to compare it with minimum_fom",
                path, row + 1);
            if (!(fom > minimum_fom)) continue;
        }
        if (!extract_inside(nx, ny, x, y)) {
            picks->outside++;
            continue;
        }
        picks->rows[picks->count] = row;
        picks->x[picks->count] = x;
        picks->y[picks->count] = y;
        picks->count++;
    }
    picks->table = table;
    return STATUS_OK;
}

enum status extractor_read_picks(const char *path, const char *micrograph_name, double minimum_fom, int nx, int ny,
                                 struct extractor_picks *picks, struct err *err) {
    star_destroy(&picks->file);
    picks->table = NULL;
    picks->count = picks->outside = 0;
    TRY(star_read(path, &picks->file, err));
    struct star_table *table = table_of_coordinates(picks->file);
    if (table != NULL) return choose_picks(table, path, micrograph_name, minimum_fom, nx, ny, picks, err);
    /* A picker that found nothing may write an empty table with no columns at all. */
    for (size_t i = 0; i < star_table_count(picks->file); i++) {
        const struct star_table *other = star_table_at(picks->file, i);
        FAIL_IF(star_row_count(other) > 0 && star_column_count(other) > 0, err, STATUS_BAD_FORMAT,
                "%s: no table has a column rlnCoordinateX; a file of picks needs rlnCoordinateX and rlnCoordinateY",
                path);
    }
    return STATUS_OK;
}

static enum status may_read(const void *stage, const char *path, struct err *err) {
    return stage_may_read(stage, path, err);
}

enum status extractor_read_coordinates(const struct stage *stage, const struct extractor *extractor,
                                       const char *micrograph, double minimum_fom, int nx, int ny,
                                       struct extractor_picks *picks, struct err *err) {
    char path[PATH_MAX];
    star_destroy(&picks->file);
    picks->table = NULL;
    picks->count = picks->outside = 0;
    TRY(coordinates_read(extractor->coordinates, micrograph, may_read, stage, &picks->file, path, &picks->absent, err));
    struct star_table *table = table_of_coordinates(picks->file);
    return table != NULL ? choose_picks(table, path, NULL, minimum_fom, nx, ny, picks, err) : STATUS_OK;
}

void extractor_picks_clear(struct extractor_picks *picks) {
    star_destroy(&picks->file);
    mem_free(&picks->rows);
    mem_free(&picks->x);
    mem_free(&picks->y);
    *picks = (struct extractor_picks){0};
}

static bool is_finite(const float *image, size_t count) {
    bool finite = true;
    for (size_t i = 0; i < count; i++)
        finite = finite && isfinite(image[i]);
    return finite;
}

/* Removes particles with NaN or infinite pixels from picks and stack: one such pixel makes every average of the
 * particle NaN or infinite. */
static void leave_out_broken(struct extractor_lane *lane, size_t pixels) {
    struct extractor_picks *picks = &lane->picks;
    size_t kept = 0;
    for (size_t i = 0; i < picks->count; i++) {
        float *image = lane->stack.data + i * pixels;
        if (!is_finite(image, pixels)) continue;
        if (kept < i) {
            memcpy(lane->stack.data + kept * pixels, image, pixels * sizeof *image);
            picks->rows[kept] = picks->rows[i];
            picks->x[kept] = picks->x[i];
            picks->y[kept] = picks->y[i];
        }
        kept++;
    }
    lane->broken = picks->count - kept;
    picks->count = kept;
}

enum status extractor_cut(struct extractor *extractor, struct extractor_lane *lane, struct err *err) {
    const struct extractor_picks *picks = &lane->picks;
    lane->flat = lane->broken = 0;
    if (picks->count == 0) return STATUS_OK;
    int size = extractor->options.size;
    TRY(image_resize(&lane->stack, size, size, (int)picks->count, err));
    const struct image *micrograph = &lane->micrograph;
    size_t flat = 0, pixels = (size_t)size * (size_t)size;
#pragma omp parallel for num_threads(extractor->worker_count) schedule(static) reduction(+ : flat)
    for (size_t i = 0; i < picks->count; i++) {
#ifdef _OPENMP
        struct extract *worker = extractor->workers[omp_get_thread_num()];
#else
        struct extract *worker = extractor->workers[0];
#endif
        if (!extract_particle(worker, micrograph->data, micrograph->nx, micrograph->ny, picks->x[i], picks->y[i],
                              lane->stack.data + i * pixels))
            flat++;
    }
    leave_out_broken(lane, pixels);
    lane->flat = flat > lane->broken ? flat - lane->broken : 0;
    return STATUS_OK;
}

enum status extractor_item_optics(const struct item *item, const struct stage_session *session, double file_pixel_size,
                                  struct extractor_optics *ret_optics, struct err *err) {
    const char *group = item_string(item, "optics.group");
    const struct optics known = item_optics(item, session);
    struct extractor_optics o = {
        .group = group != NULL ? group : "opticsGroup1",
        .pixel_size = isnan(known.pixel_size) ? file_pixel_size : known.pixel_size,
        .voltage = known.voltage,
        .spherical_aberration = known.spherical_aberration,
        .amplitude_contrast = known.amplitude_contrast,
        .aberrations = item_string(item, "optics.aberrations"),
    };
    FAIL_IF(!(o.pixel_size > 0), err, STATUS_BAD_ARGUMENT,
            "the pixel size of %s is unknown: neither the session, nor a STAR file, nor its header has it; set "
            "session.pixel_size",
            item_id(item));
    o.original_pixel_size = item_number(item, "optics.original_pixel_size", o.pixel_size);
    *ret_optics = o;
    return STATUS_OK;
}
