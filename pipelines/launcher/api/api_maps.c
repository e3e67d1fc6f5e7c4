/* /api/fsc and /api/map: what a refinement has put out. */
#include "pipelines/launcher/api/api_maps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "pipelines/launcher/api/shrink.h"

enum { STAR_MAX = 64 << 20, SIDE_LEAST = 16, SIDE_MOST = 128, SIDE_USUAL = 96, LEVEL = 4 };

static bool ends_with(const char *text, const char *ending) {
    size_t length = strlen(text), size = strlen(ending);
    return length > size && strcmp(text + length - size, ending) == 0;
}

enum status api_product_find(struct serve *serve, const char *stage, int64_t iteration, const char *ending,
                             struct api_product *ret_product, struct err *err) {
    const json_t *history = view_history(serve->view, stage), *file;
    for (size_t i = json_array_size(history); i > 0; i--) {
        const json_t *line = json_array_get(history, i - 1);
        int64_t of = json_integer_value(json_object_get(line, "iteration"));
        size_t k;
        if (iteration >= 0 && of != iteration) continue;
        json_array_foreach(json_object_get(line, "files"), k, file) {
            const char *path = json_string_value(file);
            if (path == NULL || !ends_with(path, ending) || strlen(path) >= PATH_SIZE) continue;
            *ret_product = (struct api_product){.iteration = of, .final = json_is_true(json_object_get(line, "final"))};
            memcpy(ret_product->stem, path, strlen(path) - strlen(ending));
            return STATUS_OK;
        }
    }
    if (iteration >= 0) FAIL(err, STATUS_NOT_FOUND, "%s has no iteration %lld", stage, (long long)iteration);
    FAIL(err, STATUS_NOT_FOUND, "%s has put out nothing yet", stage);
}

void api_product_path(const struct api_product *product, const char *ending, char path[PATH_SIZE]) {
    snprintf(path, PATH_SIZE, "%.*s%s", PATH_SIZE - 64, product->stem, ending);
}

/* ---- Curves ---- */

/* Returns a column as a list; null where the table lacks it. */
static json_t *column_json(const struct star_table *table, const char *name) {
    int column = table != NULL ? star_column_find(table, name) : -1;
    if (column < 0) return json_null();
    json_t *list = json_array();
    for (size_t i = 0; i < star_row_count(table); i++) {
        double value;
        bool good = star_get_number(table, i, column, &value, NULL) == STATUS_OK && isfinite(value);
        json_array_append_new(list, good ? json_real(value) : json_null());
    }
    return list;
}

/* Returns the resolution (Å) of the last shell before the curve falls below a threshold; null: it never does. */
static json_t *resolution_json(const json_t *k, const json_t *curve, double threshold) {
    for (size_t i = 1; i < json_array_size(curve); i++) {
        const json_t *value = json_array_get(curve, i);
        if (!json_is_number(value) || json_number_value(value) >= threshold) continue;
        double frequency = json_number_value(json_array_get(k, i - 1));
        return frequency > 0 ? json_real(1 / frequency) : json_null();
    }
    return json_null();
}

static json_t *at_json(const json_t *k, const json_t *curve) {
    return json_pack("{s:o, s:o}", "0.143", resolution_json(k, curve, 0.143), "0.5", resolution_json(k, curve, 0.5));
}

/* Opens the model of a product: of both halves together, or that of the first. */
static enum status read_model(struct serve *serve, const struct api_product *product, struct star_file **ret_star,
                              struct err *err) {
    char path[PATH_SIZE];
    api_product_path(product, "_model.star", path);
    if (api_read_star(serve, path, STAR_MAX, ret_star, NULL) == STATUS_OK) return STATUS_OK;
    api_product_path(product, "_half1_model.star", path);
    return api_read_star(serve, path, STAR_MAX, ret_star, err);
}

/* Returns the time of a file, ns since 1970; 0: it is not there. */
static int64_t time_of(struct serve *serve, const char *path) {
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    return api_open(serve, path, &file, NULL) == STATUS_OK ? file.mtime_ns : 0;
}

enum status api_fsc(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                    struct err *err) {
    const char *stage;
    struct api_product product;
    struct star_file *model = NULL, *post = NULL;
    char path[PATH_SIZE], map[PATH_SIZE];
    TRY(api_stage_of_kind(serve, request, "refiner", &stage, err));
    TRY(api_product_find(serve, stage, -1, "_class001.mrc", &product, err));
    TRY(read_model(serve, &product, &model, err));
    /* Post-processing of an earlier end is not of this map. */
    snprintf(path, sizeof path, "%s/postprocess.star", stage);
    api_product_path(&product, "_class001.mrc", map);
    if (time_of(serve, path) + 60000000000 < time_of(serve, map) ||
        api_read_star(serve, path, STAR_MAX, &post, NULL) != STATUS_OK)
        post = NULL;
    const struct star_table *class = star_table_find(model, "model_class_1");
    const struct star_table *fsc = post != NULL ? star_table_find(post, "fsc") : NULL;
    json_t *k = column_json(fsc != NULL ? fsc : class, "rlnResolution");
    json_t *unmasked = fsc != NULL ? column_json(fsc, "rlnFourierShellCorrelationUnmaskedMaps")
                                   : column_json(class, "rlnGoldStandardFsc");
    json_t *corrected = column_json(fsc, "rlnFourierShellCorrelationCorrected");
    json_t *json = json_pack("{s:i, s:s, s:I, s:b, s:O, s:O, s:o, s:o, s:O, s:o, s:o}", "v", 1, "stage", stage,
                             "iteration", (json_int_t)product.iteration, "final", product.final, "k", k, "unmasked",
                             unmasked, "masked", column_json(fsc, "rlnFourierShellCorrelationMaskedMaps"), "randomised",
                             column_json(fsc, "rlnCorrectedFourierShellCorrelationPhaseRandomizedMaskedMaps"),
                             "corrected", corrected, "at", at_json(k, unmasked), "at_corrected",
                             fsc != NULL ? at_json(k, corrected) : json_null());
    json_decref(k);
    json_decref(unmasked);
    json_decref(corrected);
    star_destroy(&model);
    star_destroy(&post);
    return http_answer_json(answer, json, err);
}

/* ---- Maps ---- */

/* Finds the file that a name of a map stands for. */
static enum status find_map(struct serve *serve, const char *stage, const char *name, struct api_product *product,
                            char path[PATH_SIZE], struct err *err) {
    int64_t number = -1;
    char ending[32];
    if (strncmp(name, "it", 2) == 0) TRY(http_number(name + 2, 0, 1000000, &number, err));
    TRY(api_product_find(serve, stage, number, "_class001.mrc", product, err));
    if (strncmp(name, "class", 5) == 0) {
        TRY(http_number(name + 5, 1, 999, &number, err));
        snprintf(ending, sizeof ending, "_class%03d.mrc", (int)number);
        api_product_path(product, ending, path);
    } else if (strcmp(name, "latest") == 0 || number >= 0) {
        api_product_path(product, "_class001.mrc", path);
    } else if (strcmp(name, "half1") == 0 || strcmp(name, "half2") == 0) {
        snprintf(ending, sizeof ending, "_%s_class001_unfil.mrc", name);
        api_product_path(product, ending, path);
        if (time_of(serve, path) != 0) return STATUS_OK;
        snprintf(ending, sizeof ending, "_%s_class001.mrc", name);
        api_product_path(product, ending, path);
    } else if (strcmp(name, "postprocess") == 0) {
        snprintf(path, PATH_SIZE, "%s/postprocess.mrc", stage);
    } else if (strcmp(name, "mask") == 0) {
        snprintf(path, PATH_SIZE, "%s/postprocess_mask.mrc", stage);
    } else {
        FAIL(err, STATUS_NOT_FOUND,
             "there is no map '%.40s': latest, half1, half2, postprocess, mask, class002 … or it012 …", name);
    }
    return STATUS_OK;
}

static enum status read_slice(void *context, int z, float *slice, struct err *err) {
    return mrc_read_slices(context, z, 1, slice, err);
}

/* Writes values as bytes: 60 is the mean, 12 are a standard deviation. */
static void to_bytes(const float *values, size_t count, uint8_t *bytes, double *ret_mean, double *ret_sigma) {
    double sum = 0, squares = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)values[i];
    const double mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += ((double)values[i] - mean) * ((double)values[i] - mean);
    const double sigma = sqrt(squares / (double)count);
    for (size_t i = 0; i < count; i++) {
        double level = sigma > 0 ? 60 + 12 * ((double)values[i] - mean) / sigma : 60;
        bytes[i] = (uint8_t)(level > 0 ? (level < 255 ? lround(level) : 255) : 0);
    }
    *ret_mean = mean;
    *ret_sigma = sigma;
}

static enum status make_map(const struct api_file *file, int64_t wanted, const struct api_product *product,
                            const char *key, struct api_kept *kept, struct err *err) {
    struct mrc_reader *reader = NULL;
    _cleanup_(mem_free) float *values = NULL;
    TRY(mrc_open(file->path, &reader, err));
    const struct mrc_header header = *mrc_reader_header(reader);
    int side = header.nx < header.ny ? header.nx : header.ny;
    if (header.nz < side) side = header.nz;
    if (wanted < side) side = (int)wanted;
    side -= side % 2;
    const size_t count = (size_t)side * (size_t)side * (size_t)side;
    double mean, sigma;
    enum status status = mem_new(count, sizeof *values, "a map", &values, err);
    uint8_t *bytes = status == STATUS_OK ? malloc(count > 0 ? count : 1) : NULL;
    if (status == STATUS_OK && bytes == NULL)
        status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for a map");
    if (status == STATUS_OK)
        status = shrink_volume(read_slice, reader, (const int[]){header.nz, header.ny, header.nx}, side, values, err);
    mrc_close(&reader);
    if (status != STATUS_OK) {
        free(bytes);
        return status;
    }
    to_bytes(values, count, bytes, &mean, &sigma);
    if (!isfinite(sigma)) free(bytes);
    FAIL_IF(!isfinite(sigma), err, STATUS_UNSUPPORTED,
            "the map holds NaN or infinite values, so it cannot be shown; look at the refinement's log");
    api_kept_put(kept, key, bytes, count);
    snprintf(kept->header, sizeof kept->header,
             "{\"n\":%d,\"pixel\":%.6g,\"mean\":%.6g,\"sigma\":%.6g,\"level\":%d,\"iteration\":%lld,\"final\":%s}",
             side, (double)header.pixel_size * header.nx / side, mean, sigma, LEVEL, (long long)product->iteration,
             product->final ? "true" : "false");
    return STATUS_OK;
}

enum status api_map(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                    struct err *err) {
    const char *stage;
    int64_t side;
    struct api_product product;
    char path[PATH_SIZE], key[160];
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(http_query_number(request, "n", SIDE_LEAST, SIDE_MOST, SIDE_USUAL, &side, err));
    TRY(api_stage_of_kind(serve, request, "refiner", &stage, err));
    TRY(find_map(serve, stage, request->words[0], &product, path, err));
    TRY(api_open(serve, path, &file, err));
    api_kept_key(&file, path, side, key);
    struct api_kept *kept = api_kept_find(serve->api->maps, API_MAPS, key, serve->requests);
    if (strcmp(kept->key, key) != 0) {
        enum status status = make_map(&file, side, &product, key, kept, err);
        if (status != STATUS_OK) return err_context(err, status, "%s", path);
    }
    TRY(http_answer_header(answer, "X-Map", kept->header, err));
    return api_kept_answer(kept, "application/octet-stream", answer, err);
}
