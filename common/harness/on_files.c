/* Makes items from what a user gives a stage on files: STAR files, an image, a folder of images. */
#include <errno.h>
#include <fts.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "common/formats/image_formats.h"
#include "common/formats/optics_aberrations.h"
#include "common/formats/star.h"
#include "common/formats/star_numbers.h"
#include "common/harness/item_optics.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

static void list_clear(struct item_list *list) {
    stage_items_free(list->items, list->count);
    json_decref(list->by_id);
    *list = (struct item_list){0};
}

enum status item_list_add(struct item_list *list, struct item *item, struct err *err) {
    if (list->count == list->capacity) {
        size_t capacity = list->capacity == 0 ? 64 : 2 * list->capacity;
        struct item **items = realloc(list->items, capacity * sizeof *items);
        if (items == NULL) {
            item_destroy(&item);
            FAIL(err, STATUS_NO_MEMORY, "no memory for a list of %zu items", capacity);
        }
        list->items = items;
        list->capacity = capacity;
    }
    if (json_object_set_new(list->by_id, item_id(item), json_integer((json_int_t)list->count)) != 0) {
        item_destroy(&item);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the list of items");
    }
    list->items[list->count++] = item;
    return STATUS_OK;
}

struct item *item_list_find(const struct item_list *list, const char *id) {
    const json_t *place = json_object_get(list->by_id, id);
    return place != NULL ? list->items[json_integer_value(place)] : NULL;
}

/* Returns the item with that id, a new one when there is none yet: STAR files that are given together describe the same
 * items. */
static enum status list_need(struct item_list *list, const char *id, const char *kind, struct item **ret_item,
                             struct err *err) {
    struct item *item = item_list_find(list, id);
    if (item == NULL) {
        TRY(item_create(id, kind, &item, err));
        TRY(item_list_add(list, item, err));
    }
    *ret_item = item;
    return STATUS_OK;
}

/* Makes the id from a path in a STAR file: keeps directories, drops whatever leads upwards or to the root, drops the
 * ending. */
enum status stage_files_id(const char *path, char id[PATH_SIZE], struct err *err) {
    for (;;) {
        if (strncmp(path, "./", 2) == 0)
            path += 2;
        else if (strncmp(path, "../", 3) == 0)
            path += 3;
        else if (*path == '/')
            path++;
        else
            break;
    }
    return path_without_ending(path, id, PATH_SIZE, err);
}

/* Returns the name without what leads upwards or to the root. */
static const char *below_all(const char *name) {
    for (;;) {
        size_t skip = strncmp(name, "./", 2) == 0 ? 2 : strncmp(name, "../", 3) == 0 ? 3 : *name == '/' ? 1 : 0;
        if (skip == 0) return name;
        name += skip;
    }
}

/* Returns the item of a micrograph, a new one when there is none yet. Two files may have one id: m/x.mrc and m/x.tif,
 * or g/x.mrc and ../g/x.mrc. The second one keeps its ending in its id. path: as items hold it; name: in the table. */
static enum status list_need_file(const struct stage *stage, struct item_list *list, const char *id, const char *name,
                                  const char *path, struct item **ret_item, struct err *err) {
    const char *const ids[] = {id, below_all(name)};
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
        const struct item *other = item_list_find(list, ids[i]);
        const char *its = other != NULL ? item_string(other, stage_files_member(stage)) : NULL;
        if (its == NULL || strcmp(its, path) == 0)
            return list_need(list, ids[i], stage_files_kind(stage), ret_item, err);
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: two other files have this name but for their ending or folder: rename it",
         name);
}

static bool cell_number(const struct star_table *table, size_t row, const char *column, double *ret_value) {
    int index = table != NULL ? star_column_find(table, column) : -1;
    return index >= 0 && star_get_number(table, row, index, ret_value, NULL) == STATUS_OK && isfinite(*ret_value);
}

struct table_row {
    const struct star_table *table; /* or NULL */
    size_t row;
};

/* Reads a value from the optics table, else from the micrograph's row; NaN where neither has a number. */
static double read_optics_number(struct table_row optics, struct table_row own, const char *column) {
    double value;
    bool found =
        cell_number(optics.table, optics.row, column, &value) || cell_number(own.table, own.row, column, &value);
    return found ? value : NAN;
}

/* The session's value counts; one that is wrong shifts every result. */
static void compare_pixel_size(const struct stage *stage, const struct item *item, double header) {
    double session = stage->session.pixel_size;
    if (isnan(session) || !(header > 0) || optics_pixel_size_confirms(header, session)) return;
    stage_log(stage, LOG_WARN, "pixel-size",
              "%s: its header says %g Å/px, --pixel_size %g: the latter is used; check which is right", item_id(item),
              header, session);
}

static enum status set_optics(const struct stage *stage, struct item *item, struct table_row optics,
                              struct table_row own, double header_pixel_size, struct err *err) {
    int name = optics.table != NULL ? star_column_find(optics.table, "rlnOpticsGroupName") : -1;
    const char *group = name >= 0 ? star_get(optics.table, optics.row, name) : "opticsGroup1";
    TRY(item_set_string(item, "optics.group", item_text_fits(group) ? group : "opticsGroup1", err));
    const struct optics session = session_optics(&stage->session);
    double original = read_optics_number(optics, own, "rlnMicrographOriginalPixelSize");
    struct optics tables = {
        .pixel_size = read_optics_number(optics, own, "rlnMicrographPixelSize"),
        .voltage = read_optics_number(optics, own, "rlnVoltage"),
        .spherical_aberration = read_optics_number(optics, own, "rlnSphericalAberration"),
        .amplitude_contrast = read_optics_number(optics, own, "rlnAmplitudeContrast"),
    };
    double detector, magnification;
    if (stage_files_are_movies(stage) && !isnan(original)) tables.pixel_size = original;
    if (isnan(tables.pixel_size) && cell_number(own.table, own.row, "rlnDetectorPixelSize", &detector) &&
        cell_number(own.table, own.row, "rlnMagnification", &magnification))
        tables.pixel_size = optics_pixel_size_of_detector(detector, magnification);
    const struct optics values = optics_of_micrograph(&session, &tables, header_pixel_size);
    compare_pixel_size(stage, item, header_pixel_size);
    char aberrations[OPTICS_ABERRATIONS_TEXT] = "";
    if (optics.table != NULL) optics_aberrations_list(optics.table, optics.row, aberrations, sizeof aberrations);
    if (aberrations[0] != '\0' && item_text_fits(aberrations))
        TRY(item_set_string(item, "optics.aberrations", aberrations, err));
    return item_set_optics(item, &values, isnan(original) ? values.pixel_size : original, err);
}

/* Adds shape and pixel size when the file states them; a file that cannot be read is left for the stage to report. */
static enum status set_micrograph(const struct stage *stage, struct item *item, const char *path,
                                  double *ret_pixel_size, struct err *err) {
    char absolute[PATH_SIZE];
    struct image_info info = {0};
    if (stage_files_are_movies(stage)) return stage_files_set_movie(stage, item, path, ret_pixel_size, err);
    TRY(item_set_string(item, "micrograph.path", path, err));
    if (stage_resolve(stage, path, absolute, NULL) == STATUS_OK && image_probe(absolute, &info, NULL) == STATUS_OK) {
        TRY(item_set_number(item, "micrograph.nx", info.nx, err));
        TRY(item_set_number(item, "micrograph.ny", info.ny, err));
    }
    *ret_pixel_size = info.pixel_size;
    return STATUS_OK;
}

/* Tells which cells of a row are no numbers. Returns whether one of them is part of the CTF. */
static bool warn_of_cells(const struct stage *stage, const char *path, const struct star_table *table, size_t row) {
    char problem[STAR_CELL_PROBLEM];
    bool of_ctf = false;
    double value;
    for (size_t column = 0; column < star_column_count(table); column++) {
        if (star_cell_read(table, row, (int)column, &value) != STAR_CELL_BROKEN) continue;
        bool ctf = star_column_is_ctf(star_column_name(table, column));
        star_cell_problem(table, row, (int)column, problem);
        stage_log(stage, LOG_WARN, "cell", "%s: %s: a finite number is expected: it counts as missing%s", path, problem,
                  ctf ? ", and so does the whole CTF of this row" : "");
        of_ctf = of_ctf || ctf;
    }
    return of_ctf;
}

static enum status set_columns(struct item *item, const struct star_table *table, size_t row, bool without_ctf,
                               struct err *err) {
    for (size_t column = 0; column < star_column_count(table); column++) {
        const char *name = star_column_name(table, column);
        double value;
        if (strcmp(name, "rlnOpticsGroup") == 0 || (without_ctf && star_column_is_ctf(name)) ||
            star_cell_read(table, row, (int)column, &value) != STAR_CELL_NUMBER)
            continue;
        TRY(item_set_column(item, name, value, err));
    }
    return STATUS_OK;
}

/* Finds the row of the optics table that the micrograph's group names, or its only row when no group is named. */
static struct table_row find_optics(struct star_file *star, const struct star_table *table, size_t row) {
    struct star_table *optics = star_table_find(star, "optics");
    double group, other;
    if (optics == NULL || star_row_count(optics) == 0) return (struct table_row){NULL, 0};
    if (cell_number(table, row, "rlnOpticsGroup", &group))
        for (size_t i = 0; i < star_row_count(optics); i++)
            if (cell_number(optics, i, "rlnOpticsGroup", &other) && other == group)
                return (struct table_row){optics, i};
    return (struct table_row){optics, 0};
}

struct star_input {
    const struct stage *stage;
    struct star_file *file;
    const char *path, *folder;
};

static enum status add_micrograph(const struct star_input *input, struct star_table *table, int name_column, size_t row,
                                  struct item_list *list, struct err *err) {
    char id[PATH_SIZE], path[PATH_SIZE];
    const char *name = star_get(table, row, name_column);
    struct item *item;
    TRY(stage_files_id(name, id, err));
    TRY(stage_files_path(input->stage, name, input->folder, path, err));
    TRY(list_need_file(input->stage, list, id, name, path, &item, err));
    double pixel_size = 0;
    TRY(set_micrograph(input->stage, item, path, &pixel_size, err));
    bool without_ctf = warn_of_cells(input->stage, input->path, table, row);
    TRY(set_columns(item, table, row, without_ctf, err));
    TRY(stage_files_set_named(input->stage, table, row, input->folder, item, err));
    struct table_row optics = find_optics(input->file, table, row), own = {table, row};
    return set_optics(input->stage, item, optics, own, pixel_size, err);
}

static enum status add_micrographs(const struct star_input *input, struct star_table *table, int name_column,
                                   struct item_list *list, struct err *err) {
    FAIL_IF(star_row_count(table) == 0, err, STATUS_NOT_FOUND, "%s: data_%s has no rows: there is no micrograph in it",
            input->path, star_table_name(table));
    const struct star_table *optics = star_table_find(input->file, "optics");
    for (size_t row = 0; optics != NULL && row < star_row_count(optics); row++)
        (void)warn_of_cells(input->stage, input->path, optics, row);
    for (size_t row = 0; row < star_row_count(table); row++) {
        enum status status = add_micrograph(input, table, name_column, row, list, err);
        if (status != STATUS_OK)
            return err_context(err, status, "%s: row %zu of data_%s", input->path, row + 1, star_table_name(table));
    }
    return STATUS_OK;
}

/* A micrograph outside the project has an absolute path; its id is then the one that the picker used for its file's
 * name. */
static enum status picks_id(const struct star_input *input, const char *micrograph, const char *picks,
                            char id[PATH_SIZE], struct err *err) {
    static const char ending[] = "_autopick.star";
    char path[PATH_SIZE], folder[PATH_SIZE];
    const char *rest;
    size_t length = 0;
    TRY(stage_files_path(input->stage, picks, input->folder, path, err));
    TRY(path_join(input->stage->root, path, id, PATH_SIZE, err));
    if (micrograph[0] == '/' && realpath(input->folder, folder) != NULL && realpath(id, path) != NULL &&
        path_is_below(path, folder, &rest) && (length = strlen(rest)) >= sizeof ending &&
        strcmp(rest + length + 1 - sizeof ending, ending) == 0) {
        snprintf(id, PATH_SIZE, "%.*s", (int)(length + 1 - sizeof ending), rest);
        return STATUS_OK;
    }
    return stage_files_id(micrograph, id, err);
}

static enum status add_pick_row(const struct star_input *input, const char *name, const char *picks,
                                struct item_list *list, struct err *err) {
    char id[PATH_SIZE], path[PATH_SIZE];
    struct item *item;
    TRY(picks_id(input, name, picks, id, err));
    TRY(stage_files_path(input->stage, name, input->folder, path, err));
    TRY(list_need_file(input->stage, list, id, name, path, &item, err));
    if (!item_has(item, "micrograph.path")) {
        double pixel_size = 0;
        TRY(set_micrograph(input->stage, item, path, &pixel_size, err));
        TRY(set_optics(input->stage, item, (struct table_row){0}, (struct table_row){0}, pixel_size, err));
    }
    TRY(stage_files_path(input->stage, picks, input->folder, path, err));
    return item_set_string(item, "picks.star", path, err);
}

static enum status add_picks(const struct star_input *input, struct star_table *table, struct item_list *list,
                             struct err *err) {
    int name_column, picks_column;
    TRY(star_column_need(table, "rlnMicrographName", &name_column, err));
    TRY(star_column_need(table, "rlnMicrographCoordinates", &picks_column, err));
    for (size_t row = 0; row < star_row_count(table); row++) {
        const char *name = star_get(table, row, name_column), *picks = star_get(table, row, picks_column);
        enum status status = add_pick_row(input, name, picks, list, err);
        if (status != STATUS_OK)
            return err_context(err, status, "%s: row %zu of data_%s", input->path, row + 1, star_table_name(table));
    }
    return STATUS_OK;
}

/* A set of particles is one item: the stage reads the STAR file itself. */
static enum status add_particles(const struct star_input *input, const struct star_table *table, struct item_list *list,
                                 struct err *err) {
    bool selection = strstr(input->stage->descriptor->in, "selection") != NULL &&
                     strstr(input->stage->descriptor->in, "particles") == NULL;
    const char *kind = selection ? "selection" : "particles";
    char id[PATH_SIZE], path[PATH_SIZE], member[32];
    struct item *item;
    FAIL_IF(star_row_count(table) == 0, err, STATUS_NOT_FOUND,
            "%s: data_%s has no rows: there is no particle in it: is the file cut?", input->path,
            star_table_name(table));
    TRY(stage_files_id(path_name(input->path), id, err));
    TRY(list_need(list, id, kind, &item, err));
    TRY(stage_files_path(input->stage, path_name(input->path), input->folder, path, err));
    snprintf(member, sizeof member, "%s.star", kind);
    TRY(item_set_string(item, member, path, err));
    snprintf(member, sizeof member, "%s.count", kind);
    return item_set_number(item, member, (double)star_row_count(table), err);
}

static enum status add_star_tables(const struct star_input *input, struct item_list *list, struct err *err) {
    for (size_t i = 0; i < star_table_count(input->file); i++) {
        struct star_table *table = star_table_at(input->file, i);
        if (strcmp(star_table_name(table), "optics") == 0) continue;
        if (star_column_find(table, "rlnMicrographCoordinates") >= 0) return add_picks(input, table, list, err);
        if (star_column_find(table, "rlnImageName") >= 0) return add_particles(input, table, list, err);
        int column = star_column_find(table, "rlnMicrographMovieName");
        if (column < 0) column = star_column_find(table, "rlnMicrographName");
        if (column >= 0) return add_micrographs(input, table, column, list, err);
    }
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: no table with micrographs (rlnMicrographName), picks (rlnMicrographCoordinates) or particles "
         "(rlnImageName)",
         input->path);
}

static enum status add_star(const struct stage *stage, const char *path, struct item_list *list, struct err *err) {
    char folder[PATH_SIZE];
    struct star_input input = {.stage = stage, .path = path, .folder = folder};
    TRY(path_folder(path, folder, sizeof folder, err));
    TRY(star_read(path, &input.file, err));
    enum status status = add_star_tables(&input, list, err);
    star_destroy(&input.file);
    return status;
}

enum status stage_files_image(const struct stage *stage, const char *path, const char *name, struct item_list *list,
                              struct err *err) {
    char id[PATH_SIZE], text[PATH_SIZE];
    struct item *item;
    bool preview;
    TRY(stage_files_id(name, id, err));
    TRY(stage_files_path(stage, path, "", text, err));
    TRY(stage_files_namesake(stage, list, id, text, &preview, err));
    if (preview) return STATUS_OK;
    TRY(list_need(list, id, stage_files_kind(stage), &item, err));
    double pixel_size = 0;
    TRY(set_micrograph(stage, item, text, &pixel_size, err));
    return set_optics(stage, item, (struct table_row){0}, (struct table_row){0}, pixel_size, err);
}

int stage_files_by_name(const FTSENT **a, const FTSENT **b) {
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static bool is_taken(const struct stage *stage, const FTSENT *entry) {
    if (entry->fts_info != FTS_F || entry->fts_name[0] == '.') return false;
    return stage_files_are_movies(stage) ? stage_files_may_be_movie(stage, entry->fts_path)
                                         : image_path_fits(entry->fts_name, IMAGE_AS_ANYTHING);
}

static bool needs(const struct stage *stage, const char *member) {
    const struct stage_descriptor *d = stage->descriptor;
    return strstr(d->in, member) != NULL && !params_give(d->params, d->param_count, stage_params(stage), member);
}

/* A stage after the picker accepts the folder of the stage before it, whose STAR file lists what it contains. */
static enum status add_folder_star(const struct stage *stage, const char *path, struct item_list *list,
                                   struct err *err) {
    char star[PATH_SIZE];
    bool picks = needs(stage, "picks");
    TRY(path_join(path, picks ? "autopick.star" : "particles.star", star, sizeof star, err));
    FAIL_IF(!file_exists(star), err, STATUS_NOT_FOUND,
            "%s: there is no %s in this folder: give the STAR file of the %s itself", path,
            picks ? "autopick.star" : "particles.star", picks ? "picks" : "particles");
    return add_star(stage, star, list, err);
}

static enum status add_folder(const struct stage *stage, const char *path, struct item_list *list, struct err *err) {
    char copy[PATH_SIZE];
    if (needs(stage, "picks") || needs(stage, "particles") || needs(stage, "selection"))
        return add_folder_star(stage, path, list, err);
    TRY(path_join("", path, copy, sizeof copy, err));
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--)
        copy[length - 1] = '\0';
    char *roots[] = {copy, NULL};
    size_t skip = strlen(copy) + (strcmp(copy, "/") != 0);
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, stage_files_by_name);
    FAIL_IF(walk == NULL, err, STATUS_IO, "%s: the folder cannot be read: %s", path, strerror(errno));
    enum status status = STATUS_OK;
    for (FTSENT *entry; status == STATUS_OK && (entry = fts_read(walk)) != NULL;)
        if (is_taken(stage, entry))
            status = stage_files_name_fits(entry->fts_path + skip)
                         ? stage_files_image(stage, entry->fts_path, entry->fts_path + skip, list, err)
                         : stage_files_refuse(stage, stage_files_kind(stage), entry->fts_path + skip, err);
    fts_close(walk);
    FAIL_IF(status == STATUS_OK && list->count == 0, err, STATUS_NOT_FOUND, "%s: there is no %s in this folder", path,
            stage_files_are_movies(stage) ? "movie" : "image");
    return status;
}

static enum status add_input(const struct stage *stage, const char *path, struct item_list *list, struct err *err) {
    FAIL_IF(!file_exists(path), err, STATUS_NOT_FOUND, "%s: there is no such file or folder", path);
    if (file_is_folder(path)) return add_folder(stage, path, list, err);
    const char *dot = strrchr(path, '.');
    if (dot != NULL && strcasecmp(dot, ".star") == 0) return add_star(stage, path, list, err);
    if (dot != NULL && strcasecmp(dot, ".csv") == 0) return stage_files_list(stage, path, list, err);
    return stage_files_image(stage, path, path_name(path), list, err);
}

enum status stage_files_items(const struct stage *stage, const char *input, struct item ***ret_items, size_t *ret_count,
                              struct err *err) {
    struct item_list list = {.by_id = json_object()};
    FAIL_IF(list.by_id == NULL, err, STATUS_NO_MEMORY, "no memory for the list of items");
    _cleanup_(mem_free) char *copy = strdup(input);
    enum status status = STATUS_OK;
    if (needs(stage, "structure"))
        status = stage_files_structures(stage, input, &list, err);
    else if (copy == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the list of items");
    else if (file_exists(input))
        status = add_input(stage, input, &list, err);
    else
        for (char *save = NULL, *part = strtok_r(copy, ",", &save); part != NULL && status == STATUS_OK;
             part = strtok_r(NULL, ",", &save))
            status = add_input(stage, part, &list, err);
    if (status != STATUS_OK) {
        list_clear(&list);
        return status;
    }
    json_decref(list.by_id);
    *ret_items = list.items;
    *ret_count = list.count;
    return STATUS_OK;
}
