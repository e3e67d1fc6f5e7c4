#include "pipelines/launcher/view/view_path.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DIGITS_MAX = 24 };

/* Returns the length of the digits at p; 0 for more than a number can have. */
static size_t digits(const char *p) {
    size_t length = strspn(p, "0123456789");
    return length <= DIGITS_MAX ? length : 0;
}

static bool begins_word(const char *path, const char *p) {
    return p == path || !isalnum((unsigned char)p[-1]);
}

/* Finds the last "WORD123", "WORD_123" or "WORD-123", WORD in any case, and writes the number. */
static bool labelled(const char *path, const char *word, char out[VIEW_PLACE_SIZE]) {
    const char *found = NULL;
    size_t length = strlen(word), found_length = 0;
    for (const char *p = path; *p != '\0'; p++) {
        if (!begins_word(path, p) || strncasecmp(p, word, length) != 0) continue;
        const char *number = p + length;
        if (*number == '_' || *number == '-') number++;
        size_t count = digits(number);
        if (count == 0) continue;
        found = number;
        found_length = count;
    }
    if (found == NULL) return false;
    snprintf(out, VIEW_PLACE_SIZE, "%.*s", (int)found_length, found);
    return true;
}

/* SerialEM's names of several shots: "_12-3_", the navigator's item and the hole, as a part of the file's name. The
 * first such part counts; dates ("2026-11-23") and times have more numbers or longer ones. */
static bool multi_shot(const char *path, struct view_place *place) {
    const char *slash = strrchr(path, '/');
    for (const char *p = slash != NULL ? slash + 1 : path; (p = strchr(p, '_')) != NULL;) {
        p++;
        size_t item = digits(p);
        if (item == 0 || item > 4 || p[item] != '-') continue;
        const char *hole = p + item + 1;
        size_t length = digits(hole);
        if (length == 0 || length > 3 || (hole[length] != '_' && hole[length] != '.' && hole[length] != '\0')) continue;
        snprintf(place->square, VIEW_PLACE_SIZE, "%.*s", (int)item, p);
        snprintf(place->hole, VIEW_PLACE_SIZE, "%.*s", (int)length, hole);
        return true;
    }
    return false;
}

struct view_place view_place(const char *path) {
    struct view_place place = {0};
    bool square = labelled(path, "GridSquare", place.square);
    labelled(path, "FoilHole", place.hole);
    if (square || place.hole[0] != '\0') return place;
    square = labelled(path, "square", place.square) || labelled(path, "sq", place.square);
    if (square)
        labelled(path, "hole", place.hole);
    else
        multi_shot(path, &place);
    return place;
}
