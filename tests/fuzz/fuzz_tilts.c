/* Fuzzes files beside tilts and movies: angles, transforms, lists of views, .mdoc, patterns of names, the XML of EPU. The
 * first byte selects one. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/formats/epu.h"
#include "common/formats/mdoc.h"
#include "common/formats/tilts.h"
#include "stages/watcher/tilt_names.h"

static void angles(const char *text, size_t length) {
    double *found = NULL;
    int count = -1;
    struct err err = {0};
    if (tilts_parse_angles("fuzz.tlt", text, length, &found, &count, &err) != STATUS_OK) {
        FUZZ_CHECK(found == NULL && count == -1 && strstr(err.message, "fuzz.tlt") != NULL);
        return;
    }
    FUZZ_CHECK(count > 0 && count <= TILTS_MAX);
    for (int i = 0; i < count; i++)
        FUZZ_CHECK(fabs(found[i]) <= TILT_ANGLE_MAX);
    free(found);
}

static void transforms(const char *text, size_t length) {
    struct tilt_transform *found = NULL;
    int count = -1;
    struct err err = {0};
    if (tilts_parse_transforms("fuzz.xf", text, length, &found, &count, &err) != STATUS_OK) {
        FUZZ_CHECK(found == NULL && count == -1 && strstr(err.message, "fuzz.xf") != NULL);
        return;
    }
    for (int i = 0; i < count; i++)
        FUZZ_CHECK(fabs(found[i].a11 * found[i].a22 - found[i].a12 * found[i].a21) > 0 &&
                   isfinite(found[i].dx + found[i].dy));
    free(found);
}

static void list(const char *text) {
    static bool listed[TILTS_MAX + 1];
    int greatest = -1, last = 0;
    if (tilts_parse_list("exclude", text, listed, &greatest, NULL) != STATUS_OK) return;
    FUZZ_CHECK(!listed[0]);
    for (int i = 1; i <= TILTS_MAX; i++)
        if (listed[i]) last = i;
    FUZZ_CHECK(last == greatest);
}

static void mdoc(const char *text, size_t length) {
    struct mdoc found;
    struct err err = {0};
    if (mdoc_parse("fuzz.mdoc", text, length, &found, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, "fuzz.mdoc") != NULL);
        return;
    }
    FUZZ_CHECK(isnan(found.pixel_size) || found.pixel_size > 0);
    for (int i = 0; i < found.count; i++) {
        const struct mdoc_tilt *tilt = &found.tilts[i];
        FUZZ_CHECK(tilt->z >= 0 && tilt->z < TILTS_MAX && (isnan(tilt->angle) || fabs(tilt->angle) <= TILT_ANGLE_MAX));
        FUZZ_CHECK(!isinf(tilt->stage_x) && isnan(tilt->stage_x) == isnan(tilt->stage_y));
        if (tilt->file == NULL) continue;
        int place = mdoc_find(&found, tilt->file);
        FUZZ_CHECK(place >= 0 && strcmp(mdoc_file_name(found.tilts[place].file), mdoc_file_name(tilt->file)) == 0);
        FUZZ_CHECK(place >= i || mdoc_is_later(tilt->time, found.tilts[place].time, false));
    }
    mdoc_clear(&found);
}

static void pattern(char *text) {
    struct tilt_place place;
    char *name = strchr(text, '\n');
    if (name == NULL) return;
    *name++ = '\0';
    if (strlen(text) > 200 || strlen(name) > 255) return;
    if (tilt_pattern_match(text, name, &place)) FUZZ_CHECK(isfinite(place.angle) && strstr(name, place.series) != NULL);
}

static void epu(const char *text, size_t length) {
    struct epu_image found = {0};
    struct err err = {0};
    if (epu_parse("fuzz.xml", text, length, &found, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, "fuzz.xml") != NULL);
        return;
    }
    FUZZ_CHECK(isnan(found.pixel_size) || found.pixel_size > 0);
    FUZZ_CHECK(!isinf(found.voltage) && !isinf(found.dose) && !isinf(found.shift_x) && !isinf(found.shift_y));
    FUZZ_CHECK(!isinf(found.stage_x) && !isinf(found.stage_y));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (length == 0) return 0;
    char *text = malloc(length);
    if (text == NULL) return 0;
    memcpy(text, bytes + 1, length - 1);
    text[length - 1] = '\0';
    if (bytes[0] == 'E') {
        epu(text, length - 1);
        free(text);
        return 0;
    }
    switch (bytes[0] % 5) {
    case 0:
        angles(text, length - 1);
        break;
    case 1:
        transforms(text, length - 1);
        break;
    case 2:
        list(text);
        break;
    case 3:
        mdoc(text, length - 1);
        break;
    default:
        pattern(text);
        break;
    }
    free(text);
    return 0;
}
