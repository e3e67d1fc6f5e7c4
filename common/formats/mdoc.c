#include "common/formats/mdoc.h"

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/tilts.h"
#include "common/memory.h"

enum { TEXT_LIMIT = 64 << 20 };

struct parser {
    const char *name;
    int line;
    int capacity;
    bool in_tilt; /* inside the section of an image; else values belong to the file */
    struct mdoc mdoc;
};

struct span {
    const char *at;
    size_t length;
};

static struct span trim(const char *at, const char *end) {
    while (at < end && isspace((unsigned char)*at))
        at++;
    while (end > at && isspace((unsigned char)end[-1]))
        end--;
    return (struct span){at, (size_t)(end - at)};
}

static bool is(struct span span, const char *word) {
    return span.length == strlen(word) && memcmp(span.at, word, span.length) == 0;
}

/* Reads a number at the beginning of a text. */
static bool number_of(struct span text, double *ret_value) {
    char word[64], *end;
    size_t length = text.length < sizeof word - 1 ? text.length : sizeof word - 1;
    memcpy(word, text.at, length);
    word[length] = '\0';
    *ret_value = strtod(word, &end);
    return end != word;
}

/* Reads a number that ends at a blank or at the end of the text: the beginning of "0,5" would be another number. */
static bool whole_number_of(struct span text, double *ret_value) {
    char word[64], *end;
    size_t length = 0;
    while (length < text.length && !isspace((unsigned char)text.at[length]))
        length++;
    if (length == 0 || length >= sizeof word) return false;
    memcpy(word, text.at, length);
    word[length] = '\0';
    double value = strtod(word, &end);
    if (*end != '\0' || strpbrk(word, "xX") != NULL) return false;
    *ret_value = value;
    return true;
}

/* Takes a value that may be missing, if the whole text is a finite number. */
static void take_finite(struct span text, double *value) {
    double number;
    if (whole_number_of(text, &number) && isfinite(number)) *value = number;
}

static enum status need_number(const struct parser *parser, const char *key, struct span text, double *ret_value,
                               struct err *err) {
    double value;
    FAIL_IF(!whole_number_of(text, &value) || !isfinite(value), err, STATUS_BAD_FORMAT,
            "%s: line %d: %s = '%.*s' is not a number", parser->name, parser->line, key,
            (int)(text.length < 40 ? text.length : 40), text.at);
    *ret_value = value;
    return STATUS_OK;
}

static enum status keep_text(struct span text, char **target, struct err *err) {
    free(*target);
    *target = strndup(text.at, text.length);
    FAIL_IF(*target == NULL, err, STATUS_NO_MEMORY, "no memory for a text of an .mdoc file");
    return STATUS_OK;
}

static long days_since_1970(int year, int month, int day) {
    static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
    long leap_years = (year - 1969) / 4; /* that are over; years up to 2099 */
    bool leap = year % 4 == 0 && month > 2;
    return 365L * (year - 1970) + leap_years + before[month - 1] + leap + day - 1;
}

/* Returns the time of "08-Oct-21  07:39:08", or with four digits for the year; NaN for any other text. */
static double time_of(struct span text) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    char word[40], month[4];
    int day, year, hour, minute, second;
    if (text.length >= sizeof word) return NAN;
    memcpy(word, text.at, text.length);
    word[text.length] = '\0';
    if (sscanf(word, "%2d-%3[A-Za-z]-%4d %2d:%2d:%2d", &day, month, &year, &hour, &minute, &second) != 6) return NAN;
    const char *place = strlen(month) == 3 ? strstr(months, month) : NULL;
    if (year >= 0 && year < 100) year += 2000;
    if (place == NULL || (place - months) % 3 != 0 || year < 1970 || year > 2099 || day < 1 || day > 31) return NAN;
    if (hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 60) return NAN;
    long days = days_since_1970(year, (int)(place - months) / 3 + 1, day);
    return 86400.0 * (double)days + 3600.0 * hour + 60.0 * minute + second;
}

static enum status begin_tilt(struct parser *parser, struct span number, struct err *err) {
    struct mdoc *mdoc = &parser->mdoc;
    double z = NAN;
    TRY(need_number(parser, "ZValue", number, &z, err));
    FAIL_IF(!(z >= 0 && z < TILTS_MAX) || floor(z) < z, err, STATUS_BAD_FORMAT,
            "%s: line %d: ZValue %g is not the number of an image: 0 to %d is expected", parser->name, parser->line, z,
            TILTS_MAX - 1);
    FAIL_IF(mdoc->count == TILTS_MAX, err, STATUS_BAD_FORMAT, "%s: more than %d sections", parser->name, TILTS_MAX);
    if (mdoc->count == parser->capacity) {
        int capacity = parser->capacity > 0 ? 2 * parser->capacity : 64;
        struct mdoc_tilt *tilts = realloc(mdoc->tilts, (size_t)capacity * sizeof *tilts);
        FAIL_IF(tilts == NULL, err, STATUS_NO_MEMORY, "no memory for %d tilts", capacity);
        mdoc->tilts = tilts;
        parser->capacity = capacity;
    }
    mdoc->tilts[mdoc->count++] = (struct mdoc_tilt){
        .z = (int)z, .angle = NAN, .dose = NAN, .prior = NAN, .time = NAN, .stage_x = NAN, .stage_y = NAN};
    parser->in_tilt = true;
    return STATUS_OK;
}

/* Looks for "Tilt axis angle = 85.3, binning = 4 …" in a title. */
static void take_title(struct parser *parser, struct span text) {
    static const char words[] = "Tilt axis angle";
    for (size_t i = 0; i + sizeof words - 1 < text.length; i++) {
        if (memcmp(text.at + i, words, sizeof words - 1) != 0) continue;
        const char *sign = memchr(text.at + i, '=', text.length - i);
        double angle;
        if (sign == NULL) return;
        if (number_of(trim(sign + 1, text.at + text.length), &angle) && isfinite(angle) && fabs(angle) <= 360)
            parser->mdoc.tilt_axis = angle;
        return;
    }
}

static enum status take_section(struct parser *parser, struct span inside, struct err *err) {
    const char *sign = memchr(inside.at, '=', inside.length);
    struct span key = trim(inside.at, sign != NULL ? sign : inside.at + inside.length);
    parser->in_tilt = false;
    if (sign == NULL) return STATUS_OK;
    struct span value = trim(sign + 1, inside.at + inside.length);
    if (is(key, "FrameSet")) parser->mdoc.frames = true;
    if (is(key, "ZValue") || is(key, "FrameSet")) return begin_tilt(parser, value, err);
    if (is(key, "T")) take_title(parser, value);
    return STATUS_OK;
}

/* Sums "dose number dose number …" of FrameDosesAndNumber: the doses of so many frames each. */
static void take_frame_doses(struct span text, double *dose) {
    double sum = 0, values[2];
    const char *end = text.at + text.length;
    for (int count = 0; text.length > 0; count++) {
        if (!whole_number_of(text, &values[count % 2]) || !(values[count % 2] >= 0 && values[count % 2] < 1e6)) return;
        if (count % 2 == 1) sum += values[0] * values[1];
        while (text.length > 0 && !isspace((unsigned char)*text.at)) {
            text.at++;
            text.length--;
        }
        text = trim(text.at, end);
    }
    if (sum > 0) *dose = sum;
}

/* Keeps "2 5", the fifth place in the second hole of a pattern, as "2_5". Leaves out what are no whole numbers. */
static void take_shot(struct span text, struct mdoc_tilt *tilt) {
    char shot[MDOC_SHOT_SIZE];
    size_t length = 0;
    for (size_t i = 0; i < text.length; i++) {
        bool blank = isspace((unsigned char)text.at[i]);
        if (!blank && !isdigit((unsigned char)text.at[i]) && text.at[i] != '-') return;
        if (blank && shot[length - 1] == '_') continue;
        if (length == sizeof shot - 1) return;
        shot[length++] = blank ? '_' : text.at[i];
    }
    shot[length] = '\0';
    memcpy(tilt->shot, shot, length + 1);
}

/* Reads "X Y". */
static void take_stage(struct span text, struct mdoc_tilt *tilt) {
    const char *end = text.at + text.length, *at = text.at;
    double x, y;
    while (at < end && !isspace((unsigned char)*at))
        at++;
    if (!whole_number_of(text, &x) || !whole_number_of(trim(at, end), &y) || !isfinite(x) || !isfinite(y)) return;
    tilt->stage_x = x;
    tilt->stage_y = y;
}

static enum status take_tilt_value(struct parser *parser, struct span key, struct span value, struct err *err) {
    struct mdoc_tilt *tilt = &parser->mdoc.tilts[parser->mdoc.count - 1];
    if (is(key, "TiltAngle")) {
        double angle = NAN;
        TRY(need_number(parser, "TiltAngle", value, &angle, err));
        FAIL_IF(fabs(angle) > TILT_ANGLE_MAX, err, STATUS_BAD_FORMAT, "%s: line %d: a tilt of %g° lies beyond ±90°",
                parser->name, parser->line, angle);
        tilt->angle = angle;
    } else if (is(key, "ExposureDose"))
        take_finite(value, &tilt->dose);
    else if (is(key, "PriorRecordDose"))
        take_finite(value, &tilt->prior);
    else if (is(key, "FrameDosesAndNumber") && !(tilt->dose > 0))
        take_frame_doses(value, &tilt->dose);
    else if (is(key, "MultishotHoleAndPosition"))
        take_shot(value, tilt);
    else if (is(key, "StagePosition"))
        take_stage(value, tilt);
    else if (is(key, "Voltage") && isnan(parser->mdoc.voltage))
        take_finite(value, &parser->mdoc.voltage);
    else if (is(key, "DateTime"))
        tilt->time = time_of(value);
    else if (is(key, "PixelSpacing") && isnan(parser->mdoc.pixel_size))
        take_finite(value, &parser->mdoc.pixel_size);
    else if (is(key, "SubFramePath") && value.length > 0)
        return keep_text(value, &tilt->file, err);
    else if (is(key, "PieceCoordinates"))
        parser->mdoc.montage = true;
    return STATUS_OK;
}

static enum status take_file_value(struct parser *parser, struct span key, struct span value, struct err *err) {
    double number;
    if (is(key, "T"))
        take_title(parser, value);
    else if (is(key, "Voltage"))
        take_finite(value, &parser->mdoc.voltage);
    else if (is(key, "PixelSpacing"))
        (void)whole_number_of(value, &parser->mdoc.pixel_size);
    else if (is(key, "ImageFile") && value.length > 0)
        return keep_text(value, &parser->mdoc.image_file, err);
    else if (is(key, "Montage") && whole_number_of(value, &number) && number > 0)
        parser->mdoc.montage = true;
    return STATUS_OK;
}

static enum status take_line(struct parser *parser, struct span line, struct err *err) {
    if (line.length == 0) return STATUS_OK;
    FAIL_IF(memchr(line.at, 0, line.length) != NULL, err, STATUS_BAD_FORMAT,
            "%s: line %d holds a zero byte: this is not an .mdoc file", parser->name, parser->line);
    if (line.at[0] == '[') {
        const char *end = line.at[line.length - 1] == ']' ? line.at + line.length - 1 : line.at + line.length;
        return take_section(parser, trim(line.at + 1, end), err);
    }
    const char *sign = memchr(line.at, '=', line.length);
    FAIL_IF(sign == NULL && parser->line == 1, err, STATUS_BAD_FORMAT,
            "%s: line 1 is not 'KEY = VALUE': this is not an .mdoc file", parser->name);
    if (sign == NULL) return STATUS_OK; /* a note by the user */
    struct span key = trim(line.at, sign), value = trim(sign + 1, line.at + line.length);
    return parser->in_tilt ? take_tilt_value(parser, key, value, err) : take_file_value(parser, key, value, err);
}

static void parser_clear(struct parser *parser) {
    mdoc_clear(&parser->mdoc);
}

enum status mdoc_parse(const char *name, const char *text, size_t length, struct mdoc *ret_mdoc, struct err *err) {
    _cleanup_(parser_clear) struct parser parser = {.name = name,
                                                    .mdoc = {.pixel_size = NAN, .voltage = NAN, .tilt_axis = NAN}};
    const char *end = text + length;
    /* Windows editors begin a text with a byte order mark. */
    if (length >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) text += 3;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (stop == NULL) stop = end;
        parser.line++;
        TRY(take_line(&parser, trim(at, stop), err));
        at = stop < end ? stop + 1 : end;
    }
    if (!(parser.mdoc.pixel_size > 0) || isinf(parser.mdoc.pixel_size)) parser.mdoc.pixel_size = NAN;
    if (!(parser.mdoc.voltage > 0)) parser.mdoc.voltage = NAN;
    *ret_mdoc = parser.mdoc;
    parser.mdoc = (struct mdoc){0};
    return STATUS_OK;
}

enum status mdoc_read(const char *path, struct mdoc *ret_mdoc, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    TRY(file_read_whole(path, TEXT_LIMIT, &text, &length, err));
    return mdoc_parse(path, text, length, ret_mdoc, err);
}

void mdoc_clear(struct mdoc *mdoc) {
    for (int i = 0; i < mdoc->count; i++)
        free(mdoc->tilts[i].file);
    free(mdoc->tilts);
    free(mdoc->image_file);
    *mdoc = (struct mdoc){0};
}

static const char ENDING[] = ".mdoc";

bool mdoc_is_name(const char *path) {
    size_t length = strlen(path), tail = strlen(ENDING);
    return length > tail && strcasecmp(path + length - tail, ENDING) == 0;
}

void mdoc_series_name(const char *path, char *out, size_t size) {
    snprintf(out, size, "%s", path);
    if (mdoc_is_name(out)) out[strlen(out) - strlen(ENDING)] = '\0';
    out[image_path_stem(out, IMAGE_AS_TILT_STACK)] = '\0';
}

const char *mdoc_file_name(const char *path) {
    const char *name = path;
    for (; *path != '\0'; path++)
        if (*path == '/' || *path == '\\') name = path + 1;
    return name;
}

bool mdoc_is_later(double first_time, double second_time, bool comes_second) {
    if (first_time < second_time || first_time > second_time) return second_time > first_time;
    return comes_second;
}

size_t mdoc_stem_length(const char *name) {
    const char *dot = strrchr(name, '.');
    bool ending = dot != NULL && dot != name && !isdigit((unsigned char)dot[1]);
    return ending ? (size_t)(dot - name) : strlen(name);
}

enum { UNLIKE, POINTS_CHANGED, ENDING_CHANGED, SAME_NAME };

/* named: the name in the .mdoc. */
static int likeness(const char *named, const char *file) {
    size_t length = mdoc_stem_length(named);
    bool points = false;
    if (strcmp(named, file) == 0) return SAME_NAME;
    if (length != mdoc_stem_length(file)) return UNLIKE;
    for (size_t i = 0; i < length; i++) {
        if (named[i] == file[i]) continue;
        if (named[i] != '.' || file[i] != '_') return UNLIKE;
        points = true;
    }
    return points ? POINTS_CHANGED : ENDING_CHANGED;
}

int mdoc_find(const struct mdoc *mdoc, const char *file) {
    const char *name = mdoc_file_name(file);
    int found = -1, best = UNLIKE;
    for (int i = 0; i < mdoc->count; i++) {
        const struct mdoc_tilt *tilt = &mdoc->tilts[i];
        int like = tilt->file != NULL ? likeness(mdoc_file_name(tilt->file), name) : UNLIKE;
        if (like == UNLIKE || like < best) continue;
        if (like == best && !mdoc_is_later(mdoc->tilts[found].time, tilt->time, true)) continue;
        found = i;
        best = like;
    }
    return found;
}
