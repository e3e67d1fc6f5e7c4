#include "pipelines/launcher/view/view_scan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/view/view.h"

/* A member of a JSON object: its name as written, without the quotes, and where its value begins. */
struct member {
    const char *name, *value;
    size_t length;
};

static const char *blanks(const char *p) {
    return p + strspn(p, " \t\r\n");
}

/* p at the opening quote; returns what follows the closing one. NULL: there is none. */
static const char *string_end(const char *p) {
    for (p++;; p++) {
        p += strcspn(p, "\"\\");
        if (*p == '"') return p + 1;
        if (*p == '\0' || p[1] == '\0') return NULL;
        p++;
    }
}

/* Returns what follows a value, or NULL. */
static const char *value_end(const char *p) {
    if (*p == '"') return string_end(p);
    if (*p != '{' && *p != '[') return p + strcspn(p, ",}] \t\r\n");
    for (size_t depth = 0;;) {
        p += strcspn(p, "\"{}[]");
        if (*p == '\0') return NULL;
        if (*p == '"') {
            p = string_end(p);
            if (p == NULL) return NULL;
            continue;
        }
        depth = *p == '{' || *p == '[' ? depth + 1 : depth - 1;
        p++;
        if (depth == 0) return p;
    }
}

/* Reads the next member of an object; *at: behind its opening brace, or behind the member before. */
static bool next(const char **at, struct member *member) {
    const char *p = blanks(*at);
    if (*p == ',') p = blanks(p + 1);
    if (*p != '"') return false;
    const char *end = string_end(p);
    if (end == NULL) return false;
    *member = (struct member){.name = p + 1, .length = (size_t)(end - p) - 2};
    p = blanks(end);
    if (*p != ':') return false;
    member->value = blanks(p + 1);
    *at = value_end(member->value);
    return *at != NULL;
}

static bool is(const struct member *member, const char *name) {
    return member->length == strlen(name) && memcmp(member->name, name, member->length) == 0;
}

/* A number, if the value is one. */
static bool number(const char *value, double *ret_number) {
    if (*value != '-' && (*value < '0' || *value > '9')) return false;
    *ret_number = strtod(value, NULL);
    return isfinite(*ret_number) != 0;
}

static enum status columns(const char *at, view_number *visit, void *context, struct err *err) {
    struct member member;
    double value;
    while (next(&at, &member))
        if (number(member.value, &value)) TRY(visit(member.name, member.length, value, context, err));
    return STATUS_OK;
}

/* Numbers of other members that are worth a column. */
static const struct {
    const char *object, *name, *column;
} others[] = {{"picks", "count", "picks.count"},     {"particles", "count", "particles.count"},
              {"score", "crystal", "score.crystal"}, {"tilt", "angle", "tilt.angle"},
              {"movie", "stage_x", "movie.stage_x"}, {"movie", "stage_y", "movie.stage_y"}};

static enum status other(const struct member *object, view_number *visit, void *context, struct err *err) {
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (!is(object, others[i].object)) continue;
        const char *at = object->value + 1;
        struct member member;
        double value;
        while (next(&at, &member))
            if (is(&member, others[i].name) && number(member.value, &value))
                TRY(visit(others[i].column, strlen(others[i].column), value, context, err));
    }
    return STATUS_OK;
}

enum status view_scan(const char *text, view_number *visit, void *context, struct err *err) {
    const char *at = blanks(text);
    struct member member;
    if (*at++ != '{') return STATUS_OK;
    while (next(&at, &member)) {
        if (*member.value != '{') continue;
        if (is(&member, "columns"))
            TRY(columns(member.value + 1, visit, context, err));
        else
            TRY(other(&member, visit, context, err));
    }
    return STATUS_OK;
}

/* Texts of an item that name pictures and data of its exposure. */
static const struct {
    const char *object, *name;
    enum view_shows shows;
} shown[] = {{"display", "thumb", VIEW_THUMB}, {"display", "spectrum", VIEW_SPECTRUM},
             {"display", "ctf", VIEW_CTF},     {"display", "motion", VIEW_MOTION},
             {"picks", "star", VIEW_PICKS},    {"micrograph", "path", VIEW_MICROGRAPH}};

unsigned view_scan_shows(const char *text) {
    const char *at = blanks(text);
    struct member outer, inner;
    unsigned shows = 0;
    if (*at++ != '{') return 0;
    while (next(&at, &outer)) {
        if (*outer.value != '{') continue;
        for (size_t i = 0; i < sizeof shown / sizeof shown[0]; i++) {
            if (!is(&outer, shown[i].object)) continue;
            const char *within = outer.value + 1;
            while (next(&within, &inner))
                if (is(&inner, shown[i].name) && *inner.value == '"') shows |= (unsigned)shown[i].shows;
        }
    }
    return shows;
}

bool view_scan_text(const char *text, const char *object, const char *name, char *out, size_t size) {
    const char *at = blanks(text);
    struct member outer, inner;
    if (*at++ != '{') return false;
    while (next(&at, &outer)) {
        if (!is(&outer, object) || *outer.value != '{') continue;
        const char *within = outer.value + 1;
        while (next(&within, &inner)) {
            if (!is(&inner, name) || *inner.value != '"') continue;
            size_t length = (size_t)(within - inner.value) - 2;
            if (length >= size) return false;
            memcpy(out, inner.value + 1, length);
            out[length] = '\0';
            return true;
        }
    }
    return false;
}
