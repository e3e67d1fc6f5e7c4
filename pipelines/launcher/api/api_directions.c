/* /api/directions: from where the particles of the newest map are seen. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_maps.h"
#include "pipelines/launcher/api/directions.h"

/* A table of this size is read whole; of a larger one as many pieces, evenly spread, as make PIECES · PIECE bytes. */
enum { HEAD = 256 << 10, WHOLE = 32 << 20, PIECES = 64, PIECE = 512 << 10, FEW = 5000 };

struct angles {
    int rot, tilt; /* columns */
    int64_t begin; /* of the first row, bytes */
};

/* Reads the head of a STAR file up to the first row of its particles. */
static bool find_columns(const char *head, size_t length, struct angles *ret_angles) {
    struct angles angles = {-1, -1, 0};
    bool particles = false;
    int column = 0;
    for (const char *line = head, *stop; (stop = memchr(line, '\n', length - (size_t)(line - head))) != NULL;
         line = stop + 1) {
        size_t size = (size_t)(stop - line);
        while (size > 0 && (*line == ' ' || *line == '\t'))
            line++, size--;
        if (size >= 5 && memcmp(line, "data_", 5) == 0) {
            particles = size >= 14 && memcmp(line + 5, "particles", 9) == 0;
            column = 0;
        } else if (particles && size > 1 && line[0] == '_') {
            size_t name = strcspn(line, " \t\r\n");
            if (name == 12 && memcmp(line, "_rlnAngleRot", 12) == 0) angles.rot = column;
            if (name == 13 && memcmp(line, "_rlnAngleTilt", 13) == 0) angles.tilt = column;
            column++;
        } else if (particles && column > 0 && size > 0 && line[0] != '#' && line[0] != '\r') {
            angles.begin = line - head;
            *ret_angles = angles;
            return angles.rot >= 0 && angles.tilt >= 0;
        }
    }
    return false;
}

struct spread {
    int nside, operations;
    double matrices[DIRECTIONS_OPERATIONS][3][3];
    double *counts;
    size_t particles;
};

static void add_line(const struct angles *angles, const char *line, const char *stop, struct spread *spread) {
    double rot = NAN, tilt = NAN;
    char *end;
    for (int column = 0; line < stop; column++) {
        while (line < stop && (*line == ' ' || *line == '\t'))
            line++;
        if (line == stop) break;
        if (column == angles->rot) rot = strtod(line, &end);
        if (column == angles->tilt) tilt = strtod(line, &end);
        while (line < stop && *line != ' ' && *line != '\t')
            line++;
    }
    if (!isfinite(rot) || !isfinite(tilt)) return;
    directions_add(spread->nside, rot, tilt, spread->matrices, spread->operations, spread->counts);
    spread->particles++;
}

/* Adds the whole lines of a piece. bytes end with a 0. */
static void add_piece(const struct angles *angles, const char *bytes, size_t length, bool begins_whole,
                      struct spread *spread) {
    const char *line = bytes, *end = bytes + length, *stop;
    if (!begins_whole) {
        const char *first = memchr(line, '\n', length);
        line = first != NULL ? first + 1 : end;
    }
    for (; line < end && (stop = memchr(line, '\n', (size_t)(end - line))) != NULL; line = stop + 1)
        add_line(angles, line, stop, spread);
}

static enum status read_angles(const struct api_file *file, struct spread *spread, struct err *err) {
    struct angles angles;
    const int64_t limit = file->size < WHOLE ? file->size : WHOLE;
    const size_t room = (size_t)(limit > HEAD ? limit : HEAD);
    _cleanup_(mem_free) char *bytes = NULL;
    TRY(mem_new_unset(room + 1, 1, "the particles' directions", &bytes, err));
    ssize_t got = pread(file->descriptor, bytes, room, 0);
    bytes[got > 0 ? got : 0] = '\0';
    FAIL_IF(got <= 0 || !find_columns(bytes, (size_t)got, &angles), err, STATUS_NOT_FOUND,
            "the table has no rlnAngleRot and rlnAngleTilt of particles");
    if (got == file->size) {
        add_piece(&angles, bytes + angles.begin, (size_t)(got - angles.begin), true, spread);
        return STATUS_OK;
    }
    for (int i = 0; i < PIECES; i++) {
        int64_t from = angles.begin + (file->size - angles.begin) / PIECES * i;
        got = pread(file->descriptor, bytes, room < PIECE ? room : PIECE, from);
        bytes[got > 0 ? got : 0] = '\0';
        if (got > 0) add_piece(&angles, bytes, (size_t)got, i == 0, spread);
    }
    return STATUS_OK;
}

static void put(const struct api_product *product, const char *stage, const char *symmetry, const struct spread *spread,
                bool whole, bool known, struct api_text *text) {
    const double efficiency = known ? directions_efficiency(spread->nside, spread->counts) : NAN;
    api_text_add(text, "{\"v\":1,\"stage\":");
    api_text_string(text, stage);
    api_text_add(text, ",\"iteration\":");
    api_text_integer(text, product->iteration);
    api_text_add(text, ",\"symmetry\":");
    api_text_string(text, symmetry);
    api_text_add(text, ",\"particles\":");
    api_text_integer(text, (int64_t)spread->particles);
    api_text_add(text, whole ? ",\"sampled\":false,\"nside\":" : ",\"sampled\":true,\"nside\":");
    api_text_integer(text, spread->nside);
    api_text_add(text, ",\"efficiency\":");
    api_text_number(text, efficiency, 4);
    api_text_add(text, ",\"counts\":[");
    for (size_t i = 0; i < 12 * (size_t)spread->nside * (size_t)spread->nside; i++) {
        api_text_comma(text);
        api_text_number(text, spread->counts[i], 5);
    }
    api_text_add(text, "]}");
}

static enum status make_answer(struct serve *serve, const char *stage, const struct api_product *product,
                               const struct api_file *file, const char *key, struct err *err) {
    const char *symmetry = json_string_value(
        json_object_get(json_object_get(json_object_get(view_graph(serve->view), "stages"), stage), "symmetry"));
    struct api_text text = {0};
    _cleanup_(mem_free) struct spread *spread = NULL;
    _cleanup_(mem_free) double *counts = NULL;
    if (symmetry == NULL) symmetry = "C1";
    TRY(mem_new(1, sizeof *spread, "the particles' directions", &spread, err));
    spread->nside = file->size > FEW * 300 ? 16 : 8;
    TRY(mem_new(12 * (size_t)spread->nside * (size_t)spread->nside, sizeof *counts, "the directions", &counts, err));
    spread->counts = counts;
    spread->operations = directions_group(symmetry, spread->matrices);
    bool known = spread->operations > 0;
    if (!known) spread->operations = directions_group("C1", spread->matrices);
    TRY(read_angles(file, spread, err));
    put(product, stage, symmetry, spread, file->size <= WHOLE, known, &text);
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the directions");
    api_kept_put(&serve->api->directions, key, text.bytes, text.length);
    return STATUS_OK;
}

enum status api_directions(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                           struct err *err) {
    const char *stage;
    char path[PATH_SIZE], key[160];
    struct api_product product;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_stage_of_kind(serve, request, "refiner", &stage, err));
    TRY(api_product_find(serve, stage, -1, "_class001.mrc", &product, err));
    api_product_path(&product, "_data.star", path);
    TRY(api_open(serve, path, &file, err));
    api_kept_key(&file, path, 0, key);
    if (strcmp(serve->api->directions.key, key) != 0) {
        enum status status = make_answer(serve, stage, &product, &file, key, err);
        if (status != STATUS_OK) return err_context(err, status, "%s", path);
    }
    return api_kept_answer(&serve->api->directions, "application/json", answer, err);
}
