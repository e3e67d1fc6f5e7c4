#include "common/formats/epu.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

enum { TEXT_LIMIT = 8 << 20 };
static const double STAGE_MOST = 1e5; /* µm: no stage goes so far */

struct span {
    const char *at, *end;
};

/* Returns the length of <NAME or <PREFIX:NAME at the beginning of a text; 0: it is another tag. */
static size_t tag_length(struct span in, const char *name) {
    const char *at = in.at + 1, *colon = at;
    size_t length = strlen(name);
    while (colon < in.end && (isalnum((unsigned char)*colon) || *colon == '_'))
        colon++;
    if (colon < in.end && *colon == ':') at = colon + 1;
    if ((size_t)(in.end - at) <= length || memcmp(at, name, length) != 0) return 0;
    bool ends = at[length] == '>' || at[length] == '/' || isspace((unsigned char)at[length]);
    return ends ? (size_t)(at - in.at) + length : 0;
}

/* Finds the first element of a name, in whatever namespace. Elements of EPU do not hold elements of their own name. */
static bool find(struct span in, const char *name, struct span *ret_inside, const char **ret_after) {
    for (const char *at = in.at; (at = memchr(at, '<', (size_t)(in.end - at))) != NULL; at++) {
        size_t length = tag_length((struct span){at, in.end}, name);
        if (length == 0) continue;
        const char *inside = memchr(at + length, '>', (size_t)(in.end - at) - length);
        if (inside == NULL) return false;
        if (inside[-1] == '/') continue;
        struct span inner = {inside + 1, inside + 1};
        for (const char *close = inner.at; (close = memmem(close, (size_t)(in.end - close), "</", 2)) != NULL;
             close++) {
            size_t closing = tag_length((struct span){close + 1, in.end}, name);
            if (closing == 0) continue;
            inner.end = close;
            *ret_inside = inner;
            if (ret_after != NULL) *ret_after = close + 1 + closing;
            return true;
        }
        return false;
    }
    return false;
}

/* Returns the number that a text is, with blanks around it; NaN for any other text. */
static double number(struct span text) {
    char word[64], *end;
    while (text.at < text.end && isspace((unsigned char)*text.at))
        text.at++;
    while (text.end > text.at && isspace((unsigned char)text.end[-1]))
        text.end--;
    size_t length = (size_t)(text.end - text.at);
    if (length == 0 || length >= sizeof word) return NAN;
    memcpy(word, text.at, length);
    word[length] = '\0';
    double value = strtod(word, &end);
    return *end == '\0' && isfinite(value) ? value : NAN;
}

static double number_in(struct span in, const char *name) {
    struct span inside;
    return find(in, name, &inside, NULL) ? number(inside) : NAN;
}

/* Returns the number of <Key>KEY</Key><Value>NUMBER</Value>. */
static double custom_number(struct span in, const char *key) {
    struct span found, value;
    const char *after;
    while (find(in, "Key", &found, &after)) {
        in.at = after;
        if ((size_t)(found.end - found.at) == strlen(key) && memcmp(found.at, key, strlen(key)) == 0)
            return find(in, "Value", &value, NULL) ? number(value) : NAN;
    }
    return NAN;
}

static double within(double value, double least, double most) {
    return value >= least && value <= most ? value : NAN;
}

enum status epu_parse(const char *name, const char *text, size_t length, struct epu_image *ret_image, struct err *err) {
    struct span all = {text, text + length}, image, part;
    const bool begins = memmem(text, length, "<MicroscopeImage", strlen("<MicroscopeImage")) != NULL;
    FAIL_IF(!begins && length > 0 && memmem(text, length, "</", 2) != NULL, err, STATUS_BAD_FORMAT,
            "%s: has no element MicroscopeImage: it is not an XML file that EPU wrote beside an image", name);
    FAIL_IF(!find(all, "MicroscopeImage", &image, NULL), err, STATUS_TRUNCATED,
            "%s: ends at byte %zu, before the end of MicroscopeImage", name, length);
    struct epu_image found = {NAN, NAN, NAN, NAN, NAN, NAN, NAN};
    if (find(image, "pixelSize", &part, NULL)) /* m */
        found.pixel_size = within(1e10 * number_in(part, "numericValue"), 0.01, 1000);
    found.voltage = within(1e-3 * number_in(image, "AccelerationVoltage"), 1, 3000);
    found.dose = within(1e-20 * custom_number(image, "Dose"), 1e-3, 1e5); /* e⁻/m² */
    if (find(image, "BeamShift", &part, NULL)) {
        found.shift_x = number_in(part, "_x");
        found.shift_y = number_in(part, "_y");
    }
    if (find(image, "stage", &part, NULL) && find(part, "Position", &part, NULL)) { /* m */
        found.stage_x = within(1e6 * number_in(part, "X"), -STAGE_MOST, STAGE_MOST);
        found.stage_y = within(1e6 * number_in(part, "Y"), -STAGE_MOST, STAGE_MOST);
    }
    *ret_image = found;
    return STATUS_OK;
}

enum status epu_read(const char *path, struct epu_image *ret_image, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    TRY(file_read_whole(path, TEXT_LIMIT, &text, &length, err));
    return epu_parse(path, text, length, ret_image, err);
}
