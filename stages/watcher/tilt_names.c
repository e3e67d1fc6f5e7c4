#include "stages/watcher/tilt_names.h"

#include <ctype.h>
#include <errno.h>
#include <fts.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/formats/mdoc.h"
#include "common/formats/tilts.h"
#include "common/memory.h"

struct known_mdoc {
    char *path;   /* absolute */
    char *series; /* below the folder, without endings */
    int64_t size, seconds, nanoseconds;
    struct mdoc mdoc;
};

struct tilt_names {
    char *pattern; /* NULL: .mdoc */
    char *directory;
    bool recursive;
    struct known_mdoc *list;
    int count, capacity;
};

static const char SERIES[] = "{series}", ANGLE[] = "{angle}", ORDER[] = "{order}";
enum { STEPS_MAX = 20000 }; /* in the search for a match: names are short, but a pattern with many * may take long */

struct match {
    const char *series, *angle, *order; /* where they begin in the name */
    size_t series_length, angle_length, order_length;
    long steps;
};

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns the length of a number at the beginning of a text: digits, in an angle maybe with a sign before and one point
 * inside. */
static size_t number_length(const char *text, bool is_angle) {
    size_t n = 0;
    bool point = false;
    if (is_angle && (*text == '-' || *text == '+')) n++;
    size_t begin = n;
    while (isdigit((unsigned char)text[n]) ||
           (is_angle && text[n] == '.' && !point && n > begin && isdigit((unsigned char)text[n + 1]))) {
        point = point || text[n] == '.';
        n++;
    }
    return n > begin ? n : 0;
}

static bool match_here(const char *pattern, const char *name, struct match *match);

/* Tries the longest text first: the name of a series may contain the characters that separate the parts. */
static bool match_text(const char *rest, const char *name, const char **begin, size_t *length, struct match *match) {
    for (size_t n = strlen(name);; n--) {
        if (match_here(rest, name + n, match)) {
            if (begin != NULL) *begin = name;
            if (length != NULL) *length = n;
            return begin == NULL || n > 0;
        }
        if (n == 0) return false;
    }
}

static bool match_number(const char *rest, const char *name, bool is_angle, const char **begin, size_t *length,
                         struct match *match) {
    size_t n = number_length(name, is_angle);
    if (n == 0 || !match_here(rest, name + n, match)) return false;
    *begin = name;
    *length = n;
    return true;
}

static bool match_here(const char *pattern, const char *name, struct match *match) {
    if (++match->steps > STEPS_MAX) return false;
    if (begins(pattern, SERIES))
        return match_text(pattern + strlen(SERIES), name, &match->series, &match->series_length, match);
    if (begins(pattern, ANGLE))
        return match_number(pattern + strlen(ANGLE), name, true, &match->angle, &match->angle_length, match);
    if (begins(pattern, ORDER))
        return match_number(pattern + strlen(ORDER), name, false, &match->order, &match->order_length, match);
    if (*pattern == '*') return match_text(pattern + 1, name, NULL, NULL, match);
    if (*pattern == '\0' || *name == '\0') return *pattern == *name;
    return *pattern == *name && match_here(pattern + 1, name + 1, match);
}

bool tilt_pattern_match(const char *pattern, const char *name, struct tilt_place *ret_place) {
    struct match match = {0};
    if (!match_here(pattern, name, &match) || match.series == NULL || match.angle == NULL) return false;
    if (match.series_length >= sizeof ret_place->series) return false;
    double angle = strtod(match.angle, NULL);
    long order = match.order != NULL ? strtol(match.order, NULL, 10) : 0;
    if (!isfinite(angle) || order < 0 || order > TILTS_MAX) return false;
    *ret_place = (struct tilt_place){.angle = angle,
                                     .number = (int)order,
                                     .taken = (int)order,
                                     .time = NAN,
                                     .axis = NAN,
                                     .pixel_size = NAN,
                                     .dose = NAN,
                                     .prior_dose = NAN};
    memcpy(ret_place->series, match.series, match.series_length);
    return true;
}

static int count_of(const char *text, const char *word) {
    int count = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at++)
        count++;
    return count;
}

enum status tilt_names_check(const char *how, struct err *err) {
    FAIL_IF(strcmp(how, "mdoc") != 0 && (count_of(how, SERIES) != 1 || count_of(how, ANGLE) != 1 ||
                                         count_of(how, ORDER) > 1 || strchr(how, '/') != NULL || strlen(how) > 200),
            err, STATUS_BAD_ARGUMENT,
            "watcher.series '%.200s': mdoc is expected, or a pattern of names with {series} and {angle} once each, as "
            "{series}_{order}_{angle}.mrc",
            how);
    return STATUS_OK;
}

enum status tilt_names_create(const char *how, const char *directory, bool recursive, struct tilt_names **ret_names,
                              struct err *err) {
    bool mdoc = strcmp(how, "mdoc") == 0;
    TRY(tilt_names_check(how, err));
    _cleanup_(tilt_names_destroy) struct tilt_names *names = calloc(1, sizeof *names);
    FAIL_IF(names == NULL, err, STATUS_NO_MEMORY, "no memory for names of tilts");
    names->recursive = recursive;
    names->directory = realpath(directory, NULL);
    FAIL_IF(names->directory == NULL, err, errno == ENOENT ? STATUS_NOT_FOUND : STATUS_IO, "watcher.directory %s: %s",
            directory, strerror(errno));
    if (!mdoc) names->pattern = strdup(how);
    FAIL_IF(!mdoc && names->pattern == NULL, err, STATUS_NO_MEMORY, "no memory for names of tilts");
    *ret_names = names;
    names = NULL;
    return STATUS_OK;
}

static void known_clear(struct known_mdoc *known) {
    mdoc_clear(&known->mdoc);
    free(known->path);
    free(known->series);
}

void tilt_names_destroy(struct tilt_names **names) {
    if (names == NULL || *names == NULL) return;
    for (int i = 0; i < (*names)->count; i++)
        known_clear(&(*names)->list[i]);
    free((*names)->list);
    free((*names)->pattern);
    free((*names)->directory);
    free(*names);
    *names = NULL;
}

bool tilt_names_may_come(const struct tilt_names *names) {
    return names->pattern == NULL;
}

static enum status add_known(struct tilt_names *names, const char *path, struct known_mdoc **ret_known,
                             struct err *err) {
    if (names->count == names->capacity) {
        int capacity = names->capacity > 0 ? 2 * names->capacity : 16;
        struct known_mdoc *list = realloc(names->list, (size_t)capacity * sizeof *list);
        FAIL_IF(list == NULL, err, STATUS_NO_MEMORY, "no memory for %d .mdoc files", capacity);
        names->list = list;
        names->capacity = capacity;
    }
    const char *relative = path;
    char series[PATH_SIZE];
    (void)path_is_below(path, names->directory, &relative);
    mdoc_series_name(relative, series, sizeof series);
    struct known_mdoc known = {.path = strdup(path), .series = strdup(series), .size = -1};
    if (known.path == NULL || known.series == NULL) {
        known_clear(&known);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the name %s", path);
    }
    names->list[names->count] = known;
    *ret_known = &names->list[names->count++];
    return STATUS_OK;
}

static enum status look_at(struct tilt_names *names, const char *path, const struct stat *now, bool *ret_changed,
                           struct err *ret_problem, struct err *err) {
    struct known_mdoc *known = NULL;
    for (int i = 0; i < names->count && known == NULL; i++)
        if (strcmp(names->list[i].path, path) == 0) known = &names->list[i];
    if (known == NULL) TRY(add_known(names, path, &known, err));
    if (known->size == now->st_size && known->seconds == now->st_mtim.tv_sec &&
        known->nanoseconds == now->st_mtim.tv_nsec)
        return STATUS_OK;
    known->size = now->st_size;
    known->seconds = now->st_mtim.tv_sec;
    known->nanoseconds = now->st_mtim.tv_nsec;
    struct mdoc mdoc;
    struct err own = {0};
    enum status status = mdoc_read(path, &mdoc, &own);
    FAIL_IF(status == STATUS_NO_MEMORY, err, status, "%s", own.message);
    if (status != STATUS_OK) {
        *ret_problem = own;
        ret_problem->status = status;
        return STATUS_OK;
    }
    mdoc_clear(&known->mdoc);
    known->mdoc = mdoc;
    *ret_changed = true;
    return STATUS_OK;
}

enum status tilt_names_refresh(struct tilt_names *names, bool *ret_changed, struct err *ret_problem, struct err *err) {
    *ret_changed = false;
    *ret_problem = (struct err){0};
    if (names->pattern != NULL) return STATUS_OK;
    char *roots[] = {names->directory, NULL};
    FTS *walk = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
    if (walk == NULL) return STATUS_OK; /* the folder is away: the sweep reports it */
    enum status status = STATUS_OK;
    for (FTSENT *entry; status == STATUS_OK && (entry = fts_read(walk)) != NULL;) {
        if (entry->fts_info == FTS_D && entry->fts_level > 0 && (!names->recursive || entry->fts_name[0] == '.'))
            (void)fts_set(walk, entry, FTS_SKIP);
        if (entry->fts_info == FTS_F && entry->fts_name[0] != '.' && mdoc_is_name(entry->fts_name))
            status = look_at(names, entry->fts_path, entry->fts_statp, ret_changed, ret_problem, err);
    }
    fts_close(walk);
    return status;
}

/* Returns the dose of a series before a tilt was taken: as the .mdoc says, else the sum over all earlier tilts. NaN: one
 * of these has no dose. */
static double prior_dose(const struct mdoc *mdoc, int tilt) {
    const struct mdoc_tilt *tilts = mdoc->tilts;
    double sum = 0;
    if (tilts[tilt].prior >= 0) return tilts[tilt].prior;
    for (int i = 0; i < mdoc->count; i++)
        if (i != tilt && mdoc_is_later(tilts[i].time, tilts[tilt].time, i < tilt))
            sum += tilts[i].dose > 0 ? tilts[i].dose : NAN;
    return tilts[tilt].dose > 0 ? sum : NAN;
}

/* Takes the .mdoc with the most tilts among those that name the image: the others may be earlier copies of it. */
static bool find_in_mdocs(const struct tilt_names *names, const char *relative, struct tilt_place *ret_place) {
    const struct known_mdoc *best = NULL;
    int tilt = -1;
    for (int i = 0; i < names->count; i++) {
        const struct known_mdoc *known = &names->list[i];
        if (known->mdoc.frames || known->mdoc.montage) continue;
        int found = mdoc_find(&known->mdoc, relative);
        if (found < 0 || isnan(known->mdoc.tilts[found].angle)) continue;
        if (best != NULL && known->mdoc.count <= best->mdoc.count) continue;
        best = known;
        tilt = found;
    }
    if (best == NULL) return false;
    const struct mdoc_tilt *found = &best->mdoc.tilts[tilt];
    *ret_place = (struct tilt_place){.angle = found->angle,
                                     .number = found->z + 1,
                                     .taken = tilt,
                                     .time = found->time,
                                     .axis = best->mdoc.tilt_axis,
                                     .pixel_size = best->mdoc.pixel_size,
                                     .dose = found->dose > 0 ? found->dose : NAN,
                                     .prior_dose = prior_dose(&best->mdoc, tilt)};
    snprintf(ret_place->series, sizeof ret_place->series, "%s", best->series);
    return true;
}

bool tilt_names_find(const struct tilt_names *names, const char *relative, struct tilt_place *ret_place) {
    if (names->pattern == NULL) return find_in_mdocs(names, relative, ret_place);
    const char *name = path_name(relative);
    size_t folder = (size_t)(name - relative);
    struct tilt_place place;
    if (!tilt_pattern_match(names->pattern, name, &place)) return false;
    size_t length = strlen(place.series);
    if (folder + length >= sizeof place.series) return false;
    memmove(place.series + folder, place.series, length + 1);
    memcpy(place.series, relative, folder);
    *ret_place = place;
    return true;
}
