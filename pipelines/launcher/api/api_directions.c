/* /api/directions: from where the particles of the newest map are seen. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/api/api_maps.h"
#include "pipelines/launcher/api/directions_read.h"

enum { FEW = 5000 };

static void put(const struct api_product *product, const char *stage, const char *symmetry,
                const struct directions_spread *spread, bool whole, bool known, struct api_text *text) {
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
    put(product, stage, symmetry, spread, file->size <= DIRECTIONS_WHOLE, known, &text);
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
