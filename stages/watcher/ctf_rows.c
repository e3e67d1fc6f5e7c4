#include "stages/watcher/ctf_rows.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/formats/optics.h"
#include "common/formats/star.h"
#include "common/formats/star_numbers.h"
#include "common/memory.h"
#include "common/text.h"

struct ctf_rows {
    char *path;
    struct stat seen;
    bool may_grow; /* the last row is left out: it may not be whole */
    struct star_file *file;
    struct star_table *table, *optics; /* optics may be NULL */
    int name_column, group_column;     /* group_column may be -1 */
    long *buckets, *next;              /* chains of rows by the hash of their base name; -1 ends a chain */
    size_t bucket_count;
};

static const double SETTLED = 10; /* s without a change after which a last row without a line break counts as whole */

/* Returns the hash of a base name without its ending. */
static uint64_t hash_stem(const char *path) {
    size_t length;
    const char *name = path_base(path, &length);
    return text_hash_bytes(name, length);
}

static enum status index_rows(struct ctf_rows *rows, size_t count, struct err *err) {
    rows->bucket_count = 64;
    while (rows->bucket_count < 2 * count)
        rows->bucket_count *= 2;
    rows->buckets = malloc(rows->bucket_count * sizeof *rows->buckets);
    rows->next = malloc((count + 1) * sizeof *rows->next);
    FAIL_IF(rows->buckets == NULL || rows->next == NULL, err, STATUS_NO_MEMORY, "no memory for %zu rows of %s", count,
            rows->path);
    for (size_t i = 0; i < rows->bucket_count; i++)
        rows->buckets[i] = -1;
    for (size_t i = 0; i < count; i++) {
        long *bucket =
            &rows->buckets[hash_stem(star_get(rows->table, i, rows->name_column)) & (rows->bucket_count - 1)];
        rows->next[i] = *bucket;
        *bucket = (long)i;
    }
    return STATUS_OK;
}

/* Returns whether the file has been unchanged long enough to count as whole. */
static bool is_settled(const struct stat *file) {
    double age = clock_realtime() - ((double)file->st_mtim.tv_sec + 1e-9 * (double)file->st_mtim.tv_nsec);
    return age < 0 || age >= SETTLED;
}

static enum status last_row_may_grow(const struct ctf_rows *rows, bool *ret_may, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    char last = '\n';
    TRY(file_open_read(rows->path, &descriptor, &size, err));
    if (size > 0) TRY(file_read_at(descriptor, rows->path, size - 1, &last, 1, err));
    /* A file that has grown since stat may have been read in the middle of a row. */
    *ret_may = size != rows->seen.st_size || (last != '\n' && !is_settled(&rows->seen));
    return STATUS_OK;
}

static enum status load(struct ctf_rows *rows, struct err *err) {
    FAIL_IF(stat(rows->path, &rows->seen) != 0, err, STATUS_NOT_FOUND, "watcher.ctf %s is not there", rows->path);
    TRY(star_read(rows->path, &rows->file, err));
    for (size_t i = 0; i < star_table_count(rows->file) && rows->table == NULL; i++) {
        struct star_table *table = star_table_at(rows->file, i);
        rows->name_column = star_column_find(table, "rlnMicrographName");
        if (rows->name_column >= 0) rows->table = table;
    }
    FAIL_IF(rows->table == NULL, err, STATUS_BAD_FORMAT,
            "watcher.ctf %s: no table has the column rlnMicrographName: expected one row per micrograph", rows->path);
    rows->group_column = star_column_find(rows->table, "rlnOpticsGroup");
    rows->optics = star_table_find(rows->file, "optics");
    TRY(last_row_may_grow(rows, &rows->may_grow, err));
    size_t count = star_row_count(rows->table);
    return index_rows(rows, count > 0 && rows->may_grow ? count - 1 : count, err);
}

static void unload(struct ctf_rows *rows) {
    star_destroy(&rows->file);
    mem_free(&rows->buckets);
    mem_free(&rows->next);
    rows->table = rows->optics = NULL;
    rows->may_grow = false;
}

/* ret_problem NULL: an unreadable file is an error. */
static enum status open_rows(const char *path, struct ctf_rows **ret_rows, struct err *ret_problem, struct err *err) {
    _cleanup_(ctf_rows_close) struct ctf_rows *rows = calloc(1, sizeof *rows);
    FAIL_IF(rows == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    rows->path = strdup(path);
    FAIL_IF(rows->path == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    struct err own = {0};
    enum status status = load(rows, &own);
    bool may_be = status == STATUS_OK || (ret_problem != NULL && status_is_of_file(status));
    FAIL_IF(!may_be, err, status, "%s", own.message);
    if (status != STATUS_OK) unload(rows);
    if (ret_problem != NULL) *ret_problem = own;
    *ret_rows = rows;
    rows = NULL;
    return STATUS_OK;
}

enum status ctf_rows_open(const char *path, struct ctf_rows **ret_rows, struct err *err) {
    return open_rows(path, ret_rows, NULL, err);
}

enum status ctf_rows_await(const char *path, struct ctf_rows **ret_rows, struct err *ret_problem, struct err *err) {
    return open_rows(path, ret_rows, ret_problem, err);
}

bool ctf_rows_are_read(const struct ctf_rows *rows) {
    return rows->table != NULL;
}

bool ctf_rows_may_grow(const struct ctf_rows *rows) {
    return rows->may_grow;
}

size_t ctf_rows_count(const struct ctf_rows *rows) {
    return rows->table != NULL ? star_row_count(rows->table) - (rows->may_grow && star_row_count(rows->table) > 0) : 0;
}

double ctf_rows_time(const struct ctf_rows *rows) {
    return (double)rows->seen.st_mtim.tv_sec + 1e-9 * (double)rows->seen.st_mtim.tv_nsec;
}

void ctf_rows_close(struct ctf_rows **rows) {
    if (rows == NULL || *rows == NULL) return;
    unload(*rows);
    free((*rows)->path);
    free(*rows);
    *rows = NULL;
}

/* Compares the time of the inode (ctime) too: a file that could not be read may have got other permissions. */
static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_size == b->st_size && a->st_ino == b->st_ino && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec && a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

enum status ctf_rows_refresh(struct ctf_rows *rows, bool *ret_changed, struct err *err) {
    struct stat now;
    *ret_changed = false;
    if (stat(rows->path, &now) != 0) return STATUS_OK; /* deleted; a new version may be on its way */
    if (is_same(&now, &rows->seen) && !(rows->may_grow && is_settled(&now))) return STATUS_OK;
    struct ctf_rows fresh = {.path = rows->path};
    enum status status = load(&fresh, err);
    if (status != STATUS_OK) {
        unload(&fresh);
        if (status_is_of_file(status)) { /* reported once, until the file changes again */
            rows->seen = now;
            rows->may_grow = false;
        }
        return status;
    }
    unload(rows);
    *rows = fresh;
    *ret_changed = true;
    return STATUS_OK;
}

/* Copies a path without its empty parts, its "." and each ".." that follows a name: "raw/./x/../a.mrc" → "raw/a.mrc". Tables
 * hold paths of other folders, which cannot be asked for links. */
static void copy_plain(const char *path, char out[PATH_SIZE]) {
    size_t used = 0, floor = 0; /* floor: ".." goes no farther back */
    bool absolute = path[0] == '/';
    for (const char *part = path; *part != '\0';) {
        size_t length = strcspn(part, "/");
        bool up = length == 2 && part[0] == '.' && part[1] == '.';
        if (up && used > floor) {
            while (used > floor && out[--used] != '/') {
            }
        } else if (length > 0 && !(length == 1 && part[0] == '.') && used + length + 2 < PATH_SIZE) {
            if (used > 0 || absolute) out[used++] = '/';
            memcpy(out + used, part, length);
            used += length;
            if (up) floor = used;
        }
        part += length;
        part += strspn(part, "/");
    }
    out[used] = '\0';
}

/* Returns how many parts of two paths agree from the end, without the ending of the last part. *ret_whole: all parts of
 * one path agree. */
static int common_parts(const char *a, const char *b, bool *ret_whole) {
    size_t length_a, length_b;
    const char *name_a = path_base(a, &length_a), *name_b = path_base(b, &length_b);
    *ret_whole = false;
    if (length_a != length_b || memcmp(name_a, name_b, length_a) != 0) return 0;
    int parts = 1;
    const char *end_a = name_a, *end_b = name_b; /* just after the slash before the parts that agree */
    while (end_a > a && end_b > b) {
        const char *slash_a = end_a - 1, *slash_b = end_b - 1;
        const char *begin_a = slash_a, *begin_b = slash_b;
        while (begin_a > a && begin_a[-1] != '/')
            begin_a--;
        while (begin_b > b && begin_b[-1] != '/')
            begin_b--;
        if (slash_a - begin_a != slash_b - begin_b || memcmp(begin_a, begin_b, (size_t)(slash_a - begin_a)) != 0)
            return parts;
        parts++;
        end_a = begin_a;
        end_b = begin_b;
    }
    *ret_whole = true;
    return parts;
}

int ctf_rows_fit(const struct ctf_rows *rows, long row, const char *path) {
    bool whole;
    char own[PATH_SIZE], name[PATH_SIZE];
    copy_plain(path, own);
    copy_plain(ctf_rows_name(rows, row), name);
    int parts = common_parts(own, name, &whole);
    return parts == 0 ? 0 : 2 * parts + whole;
}

bool ctf_rows_fits_whole(int fit) {
    return fit % 2 != 0;
}

const char *ctf_rows_name(const struct ctf_rows *rows, long row) {
    return star_get(rows->table, (size_t)row, rows->name_column);
}

const char *ctf_rows_path(const struct ctf_rows *rows) {
    return rows->path;
}

long ctf_rows_find(const struct ctf_rows *rows, const char *path, bool *ret_several) {
    long best = -1;
    int best_fit = 0;
    *ret_several = false;
    if (rows->table == NULL) return -1;
    for (long row = rows->buckets[hash_stem(path) & (rows->bucket_count - 1)]; row >= 0; row = rows->next[row]) {
        int fit = ctf_rows_fit(rows, row, path);
        if (fit == 0 || fit < best_fit) continue;
        /* Chains run from the last row to the first: among rows of one name the latest wins. */
        bool same = best >= 0 && strcmp(ctf_rows_name(rows, row), ctf_rows_name(rows, best)) == 0;
        *ret_several = fit > best_fit ? false : *ret_several || !same;
        if (fit > best_fit) best = row;
        best_fit = fit;
    }
    return *ret_several ? -1 : best;
}

long ctf_rows_earlier(const struct ctf_rows *rows, long row) {
    for (long other = rows->next[row]; other >= 0; other = rows->next[other])
        if (strcmp(ctf_rows_name(rows, other), ctf_rows_name(rows, row)) == 0) return other;
    return -1;
}

/* Returns a finite number of the row, or NaN. */
static double number(const struct star_table *table, size_t row, const char *name) {
    int column = star_column_find(table, name);
    double value;
    return column >= 0 && star_cell_read(table, row, column, &value) == STAR_CELL_NUMBER ? value : NAN;
}

static void read_optics(const struct star_table *table, size_t row, struct ctf_optics *optics) {
    optics->pixel_size = number(table, row, "rlnMicrographPixelSize");
    optics->original_pixel_size = number(table, row, "rlnMicrographOriginalPixelSize");
    optics->voltage = number(table, row, "rlnVoltage");
    optics->spherical_aberration = number(table, row, "rlnSphericalAberration");
    optics->amplitude_contrast = number(table, row, "rlnAmplitudeContrast");
    if (isnan(optics->pixel_size))
        optics->pixel_size = optics_pixel_size_of_detector(number(table, row, "rlnDetectorPixelSize"),
                                                           number(table, row, "rlnMagnification"));
}

void ctf_rows_optics(const struct ctf_rows *rows, long row, struct ctf_optics *ret_optics) {
    struct ctf_optics optics = {"", NAN, NAN, NAN, NAN, NAN, ""};
    if (rows->optics == NULL) {
        if (row >= 0) read_optics(rows->table, (size_t)row, &optics);
        *ret_optics = optics;
        return;
    }
    size_t count = star_row_count(rows->optics);
    int id_column = star_column_find(rows->optics, "rlnOpticsGroup");
    int name_column = star_column_find(rows->optics, "rlnOpticsGroupName");
    for (size_t i = 0; i < count; i++) {
        bool ours =
            row < 0 || rows->group_column < 0 || id_column < 0 ||
            strcmp(star_get(rows->table, (size_t)row, rows->group_column), star_get(rows->optics, i, id_column)) == 0;
        if (!ours) continue;
        read_optics(rows->optics, i, &optics);
        optics_aberrations_list(rows->optics, i, optics.aberrations, sizeof optics.aberrations);
        if (name_column >= 0) snprintf(optics.group, sizeof optics.group, "%s", star_get(rows->optics, i, name_column));
        break;
    }
    *ret_optics = optics;
}

/* Values of the optics table have their own place in an item. */
static bool is_optics(const char *name) {
    static const char *const NAMES[] = {
        "rlnOpticsGroup",   "rlnVoltage",           "rlnSphericalAberration", "rlnAmplitudeContrast",
        "rlnMagnification", "rlnDetectorPixelSize", "rlnMicrographPixelSize", "rlnMicrographOriginalPixelSize"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        if (strcmp(name, NAMES[i]) == 0) return true;
    return false;
}

/* Adds the broken cells of a row to a text, as long as there is room. Returns whether one of them is of the CTF. */
static bool list_broken(const struct star_table *table, size_t row, char *text, size_t size) {
    bool of_ctf = false;
    double value;
    for (size_t column = 0; column < star_column_count(table); column++) {
        if (star_cell_read(table, row, (int)column, &value) != STAR_CELL_BROKEN) continue;
        char problem[STAR_CELL_PROBLEM];
        size_t length = strlen(text);
        star_cell_problem(table, row, (int)column, problem);
        if (length + strlen(problem) + 3 < size)
            snprintf(text + length, size - length, "%s%s", length > 0 ? ", " : "", problem);
        of_ctf = of_ctf || star_column_is_ctf(star_column_name(table, column));
    }
    return of_ctf;
}

bool ctf_rows_broken(const struct ctf_rows *rows, long row, char *ret_text, size_t size) {
    ret_text[0] = '\0';
    return list_broken(rows->table, (size_t)row, ret_text, size);
}

void ctf_rows_broken_optics(const struct ctf_rows *rows, char *ret_text, size_t size) {
    ret_text[0] = '\0';
    for (size_t row = 0; rows->optics != NULL && row < star_row_count(rows->optics); row++)
        (void)list_broken(rows->optics, row, ret_text, size);
}

enum status ctf_rows_columns(const struct ctf_rows *rows, long row, struct item *item, struct err *err) {
    char broken[STAR_CELL_PROBLEM];
    bool without_ctf = ctf_rows_broken(rows, row, broken, sizeof broken);
    for (size_t column = 0; column < star_column_count(rows->table); column++) {
        const char *name = star_column_name(rows->table, column);
        double value;
        if (is_optics(name) || (without_ctf && star_column_is_ctf(name)) ||
            star_cell_read(rows->table, (size_t)row, (int)column, &value) != STAR_CELL_NUMBER)
            continue;
        TRY(item_set_column(item, name, value, err));
    }
    return STATUS_OK;
}
