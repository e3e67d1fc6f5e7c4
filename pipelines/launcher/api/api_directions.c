/* /api/directions: from where the particles of the newest map are seen. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_maps.h"
#include "pipelines/launcher/api/directions_read.h"

enum { FEW = 5000, HEAD = 256 << 10 };

static void put(const struct api_product *product, const char *stage, const char *symmetry,
                const struct directions_spread *spread, bool whole, double efficiency, struct api_text *text) {
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
    _cleanup_(mem_free) struct directions_spread *spread = NULL;
    _cleanup_(mem_free) double *counts = NULL;
    if (symmetry == NULL) symmetry = "C1";
    TRY(mem_new(1, sizeof *spread, "the particles' directions", &spread, err));
    spread->nside = file->size > FEW * 300 ? 16 : 8;
    TRY(mem_new(12 * (size_t)spread->nside * (size_t)spread->nside, sizeof *counts, "the directions", &counts, err));
    spread->counts = counts;
    spread->operations = directions_group(symmetry, spread->matrices);
    bool known = spread->operations > 0;
    if (!known) spread->operations = directions_group("C1", spread->matrices);
    TRY(directions_read(file->descriptor, file->size, spread, err));
    const double efficiency = known ? directions_efficiency(spread->nside, spread->counts) : NAN;
    put(product, stage, symmetry, spread, file->size <= DIRECTIONS_WHOLE, efficiency, &text);
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the directions");
    api_kept_put(&serve->api->directions, key, text.bytes, text.length);
    serve->api->efficiency = efficiency;
    return STATUS_OK;
}

/* Opens the table of the particles of a refiner's newest map. key: of the kept answer. */
static enum status open_table(struct serve *serve, const char *stage, struct api_product *product, char path[PATH_SIZE],
                              struct api_file *file, char key[160], struct err *err) {
    TRY(api_product_find(serve, stage, -1, "_class001.mrc", product, err));
    api_product_path(product, "_data.star", path);
    TRY(api_open(serve, path, file, err));
    api_kept_key(file, path, 0, key);
    return STATUS_OK;
}

double api_efficiency(struct serve *serve, const char *stage) {
    char path[PATH_SIZE], key[160];
    struct api_product product;
    struct api *api = serve->api;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    if (api == NULL || open_table(serve, stage, &product, path, &file, key, NULL) != STATUS_OK) return NAN;
    if (strcmp(api->directions.key, key) == 0) return api->efficiency;
    if (strcmp(api->efficiency_key, key) == 0) return NAN; /* it has no directions */
    snprintf(api->efficiency_key, sizeof api->efficiency_key, "%s", key);
    return make_answer(serve, stage, &product, &file, key, NULL) == STATUS_OK ? api->efficiency : NAN;
}

/* Takes the largest beam tilt of the rows of the optics table at the beginning of a STAR file. */
static double read_beam_tilt(const char *head) {
    bool optics = false;
    int column = 0, x = -1, y = -1;
    double most = NAN;
    for (const char *line = head, *stop; (stop = strchr(line, '\n')) != NULL; line = stop + 1) {
        line += strspn(line, " \t");
        if (strncmp(line, "data_", 5) == 0) {
            if (optics) break;
            optics = strncmp(line, "data_optics", 11) == 0;
        } else if (optics && line[0] == '_') {
            if (strncmp(line, "_rlnBeamTiltX", 13) == 0) x = column;
            if (strncmp(line, "_rlnBeamTiltY", 13) == 0) y = column;
            column++;
        } else if (optics && column > 0 && line[0] != '#' && line[0] != '\r' && line[0] != '\n') {
            double tilt[2] = {NAN, NAN};
            for (int i = 0; line < stop; i++, line += strspn(line, " \t")) {
                if (i == x) tilt[0] = strtod(line, NULL);
                if (i == y) tilt[1] = strtod(line, NULL);
                line += strcspn(line, " \t\n");
            }
            most = fmax(most, hypot(tilt[0], tilt[1]));
        }
    }
    return most;
}

double api_beam_tilt(struct serve *serve, const char *stage) {
    char path[PATH_SIZE], key[160];
    struct api_product product;
    struct api *api = serve->api;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    if (api == NULL || open_table(serve, stage, &product, path, &file, key, NULL) != STATUS_OK) return NAN;
    if (strcmp(api->beam_tilt_key, key) == 0) return api->beam_tilt;
    _cleanup_(mem_free) char *head = malloc(HEAD + 1);
    const ssize_t got = head != NULL ? pread(file.descriptor, head, HEAD, 0) : -1;
    if (got < 0) return NAN;
    head[got] = '\0';
    snprintf(api->beam_tilt_key, sizeof api->beam_tilt_key, "%s", key);
    api->beam_tilt = read_beam_tilt(head);
    return api->beam_tilt;
}

enum status api_directions(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                           struct err *err) {
    const char *stage;
    char path[PATH_SIZE], key[160];
    struct api_product product;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_stage_of_kind(serve, request, "refiner", &stage, err));
    TRY(open_table(serve, stage, &product, path, &file, key, err));
    if (strcmp(serve->api->directions.key, key) != 0) {
        enum status status = make_answer(serve, stage, &product, &file, key, err);
        if (status != STATUS_OK) return err_context(err, status, "%s", path);
    }
    return api_kept_answer(&serve->api->directions, "application/json", answer, err);
}
