#include "stages/extractor/coordinates.h"

#include <ctype.h>
#include <glob.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/star_cells.h"
#include "common/memory.h"
#include "stages/extractor/coordinate_files.h"

enum { NAME = 512, UID_LEAST = 15 };

/* A row of the table of all micrographs, and its micrograph's name as it is compared. */
struct row {
    char *key;
    size_t row;
};

struct coordinates {
    char *pattern;
    double scale;
    pthread_mutex_t lock;
    /* guarded by the lock: the table of all micrographs that was read last */
    char path[PATH_MAX];
    struct stat info;
    struct star_file *file;
    struct star_table *table;
    struct row *rows; /* [count], sorted by key */
    size_t count;
};

enum status coordinates_create(const char *pattern, double scale, struct coordinates **ret_coordinates,
                               struct err *err) {
    struct coordinates *c = NULL;
    TRY(mem_new(1, sizeof *c, "coordinates", &c, err));
    c->pattern = strdup(pattern);
    c->scale = scale;
    if (c->pattern == NULL || pthread_mutex_init(&c->lock, NULL) != 0) {
        mem_free(&c->pattern);
        mem_free(&c);
        FAIL(err, STATUS_NO_MEMORY, "no memory for coordinates");
    }
    *ret_coordinates = c;
    return STATUS_OK;
}

static void forget(struct coordinates *c) {
    for (size_t i = 0; i < c->count; i++)
        free(c->rows[i].key);
    mem_free(&c->rows);
    c->count = 0;
    c->table = NULL;
    c->path[0] = '\0';
    star_destroy(&c->file);
}

void coordinates_destroy(struct coordinates **coordinates) {
    struct coordinates *c = *coordinates;
    if (c == NULL) return;
    forget(c);
    (void)pthread_mutex_destroy(&c->lock);
    mem_free(&c->pattern);
    mem_free(coordinates);
}

/* Returns the name behind the number that cryoSPARC writes before it: "012345678901234567890_mic_1" → "mic_1". */
static const char *without_uid(const char *name) {
    size_t digits = 0;
    while (isdigit((unsigned char)name[digits]))
        digits++;
    return digits >= UID_LEAST && name[digits] == '_' && name[digits + 1] != '\0' ? name + digits + 1 : name;
}

/* Writes a micrograph's name without folder and ending. A name of Topaz has no ending, and its last dot may be part of
 * it: only the endings of images are taken away. */
static void stem_of(const char *path, char stem[NAME]) {
    const char *name = path_name(path);
    snprintf(stem, NAME, "%.*s", (int)image_path_stem(name, IMAGE_AS_ANYTHING), name);
}

/* Takes away what programs add to a name on its way from the microscope: a number before it, and cryoSPARC's words
 * behind it. */
static void key_of(const char *path, char key[NAME]) {
    static const char *const ENDINGS[] = {"_patch_aligned_doseweighted", "_rigid_aligned_doseweighted",
                                          "_patch_aligned", "_rigid_aligned"};
    char stem[NAME];
    stem_of(path, stem);
    snprintf(key, NAME, "%s", without_uid(stem));
    size_t length = strlen(key);
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++) {
        size_t ending = strlen(ENDINGS[i]);
        if (length > ending && strcmp(key + length - ending, ENDINGS[i]) == 0) {
            key[length - ending] = '\0';
            return;
        }
    }
}

/* Returns how well the name of a file fits a micrograph: 0 not at all, 1 it begins with the micrograph's name, 2 it is
 * the name. A number that follows belongs to another micrograph: mic_1_2.box. */
static int file_fits(const char *file, const char *name) {
    const char *own = path_name(file);
    size_t length = strlen(name), stem = 0;
    (void)path_base(own, &stem);
    if (strncmp(own, name, length) != 0 || stem < length) return 0;
    if (stem == length) return 2;
    return strchr("_-.", own[length]) != NULL && !isdigit((unsigned char)own[length + 1]) ? 1 : 0;
}

/* Finds the one file that fits best; *ret_file NULL: none does. */
static enum status find_file(const glob_t *files, const char *name, const char *micrograph, const char **ret_file,
                             struct err *err) {
    int best = 0;
    const char *other = NULL;
    *ret_file = NULL;
    for (size_t i = 0; i < files->gl_pathc; i++) {
        int fits = file_fits(files->gl_pathv[i], name);
        if (fits == 0 || fits < best) continue;
        other = fits == best ? *ret_file : NULL;
        *ret_file = files->gl_pathv[i];
        best = fits;
    }
    FAIL_IF(other != NULL, err, STATUS_BAD_FORMAT,
            "%s: two files of coordinates are named after this micrograph: %s and %s; give `coordinates` a pattern "
            "that fits one of them",
            micrograph, *ret_file, other);
    return STATUS_OK;
}

static int by_key(const void *a, const void *b) {
    const struct row *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order != 0 ? order : (x->row > y->row) - (x->row < y->row);
}

static bool is_same(const struct coordinates *c, const char *path, const struct stat *info) {
    return strcmp(c->path, path) == 0 && c->info.st_size == info->st_size && c->info.st_ino == info->st_ino &&
           file_mtime_ns(&c->info) == file_mtime_ns(info);
}

/* Reads the table of all micrographs, unless it is in memory and has not changed. */
static enum status read_all(struct coordinates *c, const char *path, struct err *err) {
    struct stat info;
    FAIL_IF(stat(path, &info) != 0, err, STATUS_NOT_FOUND, "%s: cannot be reached", path);
    if (is_same(c, path, &info)) return STATUS_OK;
    forget(c);
    TRY(coordinate_file_read(path, &c->file, &c->table, err));
    int column = c->table != NULL ? star_column_find(c->table, "rlnMicrographName") : -1;
    size_t count = column >= 0 ? star_row_count(c->table) : 0;
    TRY(mem_new(count + 1, sizeof *c->rows, "coordinates", &c->rows, err));
    for (size_t row = 0; row < count; row++) {
        char key[NAME];
        key_of(star_get(c->table, row, column), key);
        c->rows[row] = (struct row){strdup(key), row};
        FAIL_IF(c->rows[row].key == NULL, err, STATUS_NO_MEMORY, "no memory for %zu coordinates", count);
        c->count++;
    }
    qsort(c->rows, c->count, sizeof *c->rows, by_key);
    c->info = info;
    snprintf(c->path, sizeof c->path, "%s", path);
    return STATUS_OK;
}

/* Adds a row's coordinates to `to`, multiplied, and the other columns that stay true of a particle that is cut again. */
static enum status add_row(const struct star_table *from, size_t row, const char *path, double scale,
                           struct star_table *to, struct err *err) {
    static const char *const KEPT[] = {
        "rlnAutopickFigureOfMerit", "rlnClassNumber", "rlnAnglePsi", "rlnHelicalTubeID", "rlnHelicalTrackLengthAngst",
        /* A refiner may begin with these poses: origins in Å are those of any box. */
        "rlnAngleRot", "rlnAngleTilt", "rlnOriginXAngst", "rlnOriginYAngst", "rlnRandomSubset"};
    double x, y;
    int column_x, column_y;
    size_t added;
    TRY(star_column_need(from, "rlnCoordinateX", &column_x, err));
    TRY(star_column_need(from, "rlnCoordinateY", &column_y, err));
    TRY(star_get_number(from, row, column_x, &x, err));
    TRY(star_get_number(from, row, column_y, &y, err));
    FAIL_IF(!isfinite(x) || !isfinite(y), err, STATUS_BAD_FORMAT, "%s: row %zu: the coordinates %g, %g are not finite",
            path, row + 1, x, y);
    TRY(star_row_begin(to, "rlnCoordinateX", &added, err));
    TRY(star_put_number(to, added, "rlnCoordinateX", scale * x, err));
    TRY(star_put_number(to, added, "rlnCoordinateY", scale * y, err));
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++) {
        int column = star_column_find(from, KEPT[i]);
        if (column >= 0) TRY(star_put_text(to, added, KEPT[i], star_get(from, row, column), err));
    }
    return STATUS_OK;
}

/* Makes the table of rows[count] of `from`; rows NULL: of all. */
static enum status take_rows(const struct star_table *from, const struct row *rows, size_t count, const char *path,
                             double scale, struct star_file **ret_file, struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table;
    TRY(star_create(&file, err));
    TRY(star_table_add(file, "", true, &table, err));
    for (size_t i = 0; i < count; i++)
        TRY(add_row(from, rows != NULL ? rows[i].row : i, path, scale, table, err));
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

/* Reads all coordinates of a file that belongs to one micrograph. */
static enum status read_own(const struct coordinates *c, const char *path, struct star_file **ret_file,
                            struct err *err) {
    _cleanup_(star_destroy) struct star_file *file = NULL;
    struct star_table *table = NULL;
    TRY(coordinate_file_read(path, &file, &table, err));
    FAIL_IF(table != NULL && star_column_find(table, "rlnCoordinateX") < 0, err, STATUS_BAD_FORMAT,
            "%s: rlnCoordinateX and rlnCoordinateY are expected in the file of a micrograph", path);
    return take_rows(table, NULL, table != NULL ? star_row_count(table) : 0, path, c->scale, ret_file, err);
}

/* Finds the rows of a micrograph. */
static enum status find_rows(const struct coordinates *c, const char *micrograph, const struct row **ret_rows,
                             size_t *ret_count, struct err *err) {
    char key[NAME];
    key_of(micrograph, key);
    int column = star_column_find(c->table, "rlnMicrographName");
    size_t first = 0, end = c->count;
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if (strcmp(c->rows[middle].key, key) < 0)
            first = middle + 1;
        else
            end = middle;
    }
    const char *name = NULL;
    *ret_rows = c->rows + first;
    *ret_count = 0;
    for (size_t i = first; i < c->count && strcmp(c->rows[i].key, key) == 0; i++) {
        const char *its = star_get(c->table, c->rows[i].row, column);
        FAIL_IF(name != NULL && strcmp(name, its) != 0, err, STATUS_BAD_FORMAT,
                "%s: two names of micrographs fit %s: %s and %s; remove the rows of one of them", c->path, micrograph,
                name, its);
        name = its;
        ++*ret_count;
    }
    return STATUS_OK;
}

/* Reads the file of coordinates that a table of RELION names for a micrograph. */
static enum status read_named(const struct coordinates *c, const char *name, coordinates_may_read *may_read,
                              const void *context, struct star_file **ret_file, char *ret_path, struct err *err) {
    char folder[PATH_MAX];
    TRY(path_folder(c->path, folder, sizeof folder, err));
    /* Names count from RELION's project, which is above the table. */
    for (;;) {
        TRY(path_join(folder, name, ret_path, PATH_MAX, err));
        if (file_exists(ret_path) || name[0] == '/' || strcmp(folder, "/") == 0 || strcmp(folder, ".") == 0) break;
        TRY(path_folder(folder, folder, sizeof folder, err));
    }
    TRY(may_read(context, ret_path, err));
    return read_own(c, ret_path, ret_file, err);
}

static enum status read_joint(struct coordinates *c, const char *path, const char *micrograph,
                              coordinates_may_read *may_read, const void *context, struct star_file **ret_file,
                              char *ret_path, bool *ret_absent, struct err *err) {
    const struct row *rows;
    size_t count;
    enum status status = read_all(c, path, err);
    if (status != STATUS_OK) forget(c);
    TRY(status);
    FAIL_IF(c->table != NULL && star_column_find(c->table, "rlnMicrographName") < 0, err, STATUS_NOT_FOUND,
            "no file of coordinates is named after %s: `coordinates` fits %s alone, which names no micrographs",
            micrograph, path);
    if (c->table == NULL) return take_rows(NULL, NULL, 0, path, c->scale, ret_file, err);
    TRY(find_rows(c, micrograph, &rows, &count, err));
    int named = star_column_find(c->table, "rlnMicrographCoordinates");
    FAIL_IF(named >= 0 && count == 0, err, STATUS_NOT_FOUND, "%s: names no file of coordinates for %s", path,
            micrograph);
    if (named >= 0)
        return read_named(c, star_get(c->table, rows[0].row, named), may_read, context, ret_file, ret_path, err);
    *ret_absent = count == 0;
    return take_rows(c->table, rows, count, path, c->scale, ret_file, err);
}

static enum status read_fitting(struct coordinates *c, const glob_t *files, const char *micrograph,
                                coordinates_may_read *may_read, const void *context, struct star_file **ret_file,
                                char *ret_path, bool *ret_absent, struct err *err) {
    char stem[NAME];
    const char *file = NULL;
    stem_of(micrograph, stem);
    TRY(find_file(files, stem, micrograph, &file, err));
    if (file == NULL && without_uid(stem) != stem) TRY(find_file(files, without_uid(stem), micrograph, &file, err));
    bool joint = file == NULL && files->gl_pathc == 1;
    if (joint) file = files->gl_pathv[0];
    FAIL_IF(
        file == NULL, err, STATUS_NOT_FOUND,
        "%s: no file of coordinates is named after it: %zu files fit \"%s\"; `icestream retry` takes the micrograph "
        "again once there is one",
        micrograph, (size_t)files->gl_pathc, c->pattern);
    snprintf(ret_path, PATH_MAX, "%s", file);
    TRY(may_read(context, file, err));
    *ret_absent = false;
    if (!joint) return read_own(c, file, ret_file, err);
    FAIL_IF(pthread_mutex_lock(&c->lock) != 0, err, STATUS_BAD_STATE, "no lock could be taken");
    enum status status = read_joint(c, file, micrograph, may_read, context, ret_file, ret_path, ret_absent, err);
    (void)pthread_mutex_unlock(&c->lock);
    return status;
}

enum status coordinates_read(struct coordinates *c, const char *micrograph, coordinates_may_read *may_read,
                             const void *context, struct star_file **ret_file, char *ret_path, bool *ret_absent,
                             struct err *err) {
    glob_t files = {0};
    int failed = glob(c->pattern, GLOB_NOSORT | GLOB_ERR, NULL, &files);
    enum status status;
    if (failed == GLOB_NOSPACE)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the files of coordinates");
    else if (failed == GLOB_ABORTED)
        status = err_set(err, STATUS_NOT_FOUND, __FILE__, __LINE__,
                         "a folder of \"%s\" cannot be read: does it exist, and may it be read?", c->pattern);
    else
        status = read_fitting(c, &files, micrograph, may_read, context, ret_file, ret_path, ret_absent, err);
    globfree(&files);
    return status;
}
