/* /api/ensemble and /api/ensemble/matrix: RMSDs of all pairs of structures, and their clusters. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/formats/csv.h"
#include "common/memory.h"
#include "pipelines/launcher/api/api_private.h"

enum { TABLE_MAX = 256 << 20, SIDE_MOST = 1024, SIDE_USUAL = 512, NPY_HEAD = 65536 };

/* clusters.csv: structures in their order. */
struct ensemble {
    const char *stage;
    struct csv csv;
    size_t count;
    int *cluster; /* from 1 */
    int *order;   /* structures by cluster, then as they came */
    int clusters;
};

static void ensemble_clear(struct ensemble *ensemble) {
    csv_clear(&ensemble->csv);
    mem_free(&ensemble->cluster);
    mem_free(&ensemble->order);
}

static enum status read_ensemble(struct serve *serve, const struct http_request *request, struct ensemble *e,
                                 struct err *err) {
    char path[PATH_SIZE];
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    TRY(api_stage_of_kind(serve, request, "superposer", &e->stage, err));
    snprintf(path, sizeof path, "%s/clusters.csv", e->stage);
    TRY(api_open(serve, path, &file, err));
    FAIL_IF(file.size > TABLE_MAX, err, STATUS_UNSUPPORTED, "%s: too long to be shown", path);
    TRY(csv_read(file.path, &e->csv, err));
    e->count = e->csv.count > 0 ? e->csv.count - 1 : 0;
    TRY(mem_new(e->count + 1, sizeof *e->cluster, "the clusters", &e->cluster, err));
    TRY(mem_new(e->count + 1, sizeof *e->order, "the clusters", &e->order, err));
    for (size_t i = 0; i < e->count; i++) {
        const struct csv_row *row = &e->csv.rows[i + 1];
        char *end = NULL;
        long cluster = row->count == 3 ? strtol(row->cells[1], &end, 10) : 0;
        FAIL_IF(row->count != 3 || *end != '\0' || cluster < 1 || cluster > (long)e->count, err, STATUS_BAD_FORMAT,
                "%s: line %d: structure, cluster and is_centre were expected", path, row->line);
        e->cluster[i] = (int)cluster;
        if (cluster > e->clusters) e->clusters = (int)cluster;
    }
    return STATUS_OK;
}

/* Sorts structures by cluster; sizes[clusters + 1] are the counts, index 0 unused. */
static enum status sort(struct ensemble *e, int **ret_sizes, struct err *err) {
    _cleanup_(mem_free) size_t *starts = NULL;
    TRY(mem_new((size_t)e->clusters + 1, sizeof **ret_sizes, "the clusters", ret_sizes, err));
    TRY(mem_new((size_t)e->clusters + 2, sizeof *starts, "the clusters", &starts, err));
    for (size_t i = 0; i < e->count; i++)
        (*ret_sizes)[e->cluster[i]]++;
    for (int k = 1; k <= e->clusters; k++)
        starts[k + 1] = starts[k] + (size_t)(*ret_sizes)[k];
    for (size_t i = 0; i < e->count; i++)
        e->order[starts[e->cluster[i]]++] = (int)i;
    return STATUS_OK;
}

static void put(struct serve *serve, const struct ensemble *e, const int *sizes, struct api_text *text) {
    const json_t *graph = json_object_get(json_object_get(view_graph(serve->view), "stages"), e->stage);
    const json_t *cutoff = json_object_get(graph, "cutoff");
    api_text_add(text, "{\"v\":1,\"stage\":");
    api_text_string(text, e->stage);
    api_text_add(text, ",\"count\":");
    api_text_integer(text, (int64_t)e->count);
    api_text_add(text, ",\"cutoff\":");
    api_text_number(text, json_is_number(cutoff) ? json_number_value(cutoff) : NAN, 6);
    api_text_add(text, ",\"names\":[");
    for (size_t i = 0; i < e->count; i++) {
        api_text_comma(text);
        api_text_string(text, e->csv.rows[i + 1].cells[0]);
    }
    api_text_add(text, "],\"order\":[");
    for (size_t i = 0; i < e->count; i++) {
        api_text_comma(text);
        api_text_integer(text, e->order[i]);
    }
    api_text_add(text, "],\"clusters\":[");
    for (size_t i = 0; i < e->count; i++) {
        int cluster = e->cluster[e->order[i]];
        if (strcmp(e->csv.rows[e->order[i] + 1].cells[2], "1") != 0) continue;
        api_text_comma(text);
        api_text_add(text, "{\"number\":");
        api_text_integer(text, cluster);
        api_text_add(text, ",\"size\":");
        api_text_integer(text, sizes[cluster]);
        api_text_add(text, ",\"centre\":");
        api_text_integer(text, e->order[i]);
        api_text_add(text, "}");
    }
    api_text_add(text, "]}");
}

enum status api_ensemble(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                         struct err *err) {
    _cleanup_(ensemble_clear) struct ensemble e = {0};
    _cleanup_(mem_free) int *sizes = NULL;
    struct api_text text = {0};
    TRY(read_ensemble(serve, request, &e, err));
    TRY(sort(&e, &sizes, err));
    put(serve, &e, sizes, &text);
    if (text.failed) free(text.bytes);
    FAIL_IF(text.failed, err, STATUS_NO_MEMORY, "no memory for the clusters");
    http_answer_bytes(answer, "application/json", text.bytes, text.length);
    return STATUS_OK;
}

/* ---- Matrix ---- */

/* Finds where the numbers of a NumPy file begin; −1: it is none of version 1 with float32 of this count. */
static int64_t npy_begin(const struct api_file *file, size_t count) {
    unsigned char head[NPY_HEAD];
    ssize_t got = pread(file->descriptor, head, sizeof head, 0);
    if (got < 10 || memcmp(head, "\x93NUMPY\x01", 7) != 0) return -1;
    int64_t begin = 10 + head[8] + 256 * head[9];
    bool fits = begin <= got && memmem(head, (size_t)begin, "'<f4'", 5) != NULL;
    return fits && file->size == begin + 4 * (int64_t)count ? begin : -1;
}

/* Reads the pairs of structures places[n]; values[n][n], Å. The file holds the upper triangle, row by row. */
static enum status read_pairs(const struct api_file *file, int64_t begin, const struct ensemble *e, const int *places,
                              int n, float *values, struct err *err) {
    _cleanup_(mem_free) float *row = NULL;
    TRY(mem_new(e->count + 1, sizeof *row, "RMSDs", &row, err));
    for (int i = 0; i < n; i++) {
        const size_t a = (size_t)places[i], left = e->count - 1 - a;
        const int64_t at = begin + 4 * ((int64_t)a * (2 * (int64_t)e->count - (int64_t)a - 1) / 2);
        if (left > 0) TRY(file_read_at(file->descriptor, "rmsd.npy", at, row, left * sizeof *row, err));
        for (int j = 0; j < n; j++)
            if (places[j] > places[i]) values[i * n + j] = values[j * n + i] = row[(size_t)places[j] - a - 1];
    }
    return STATUS_OK;
}

static uint8_t *to_bytes(const float *values, size_t count, double *ret_most) {
    uint8_t *bytes = malloc(count);
    double most = 0;
    for (size_t i = 0; i < count; i++)
        if (isfinite(values[i]) && (double)values[i] > most) most = (double)values[i];
    for (size_t i = 0; bytes != NULL && i < count; i++) {
        double level = most > 0 && isfinite(values[i]) ? 255 * (double)values[i] / most : 0;
        bytes[i] = (uint8_t)lround(level > 0 ? level : 0);
    }
    *ret_most = most;
    return bytes;
}

enum status api_matrix(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    _cleanup_(ensemble_clear) struct ensemble e = {0};
    _cleanup_(mem_free) int *sizes = NULL;
    _cleanup_(mem_free) int *places = NULL;
    _cleanup_(mem_free) float *values = NULL;
    _cleanup_(api_close) struct api_file file = {.descriptor = -1};
    char path[PATH_SIZE], about[128];
    int64_t side;
    double most;
    TRY(http_query_number(request, "n", 1, SIDE_MOST, SIDE_USUAL, &side, err));
    TRY(read_ensemble(serve, request, &e, err));
    TRY(sort(&e, &sizes, err));
    snprintf(path, sizeof path, "%s/rmsd.npy", e.stage);
    TRY(api_open(serve, path, &file, err));
    const int64_t begin = npy_begin(&file, e.count * (e.count - (e.count > 0)) / 2);
    /* Its writer puts one file after the other into place. */
    FAIL_IF(begin < 0 || e.count == 0, err, STATUS_UNAVAILABLE, "%s: not of the structures of clusters.csv; ask again",
            path);
    const int n = (int64_t)e.count < side ? (int)e.count : (int)side;
    TRY(mem_new((size_t)n, sizeof *places, "RMSDs", &places, err));
    TRY(mem_new((size_t)n * (size_t)n, sizeof *values, "RMSDs", &values, err));
    for (int i = 0; i < n; i++)
        places[i] = e.order[(size_t)i * e.count / (size_t)n];
    TRY(read_pairs(&file, begin, &e, places, n, values, err));
    uint8_t *bytes = to_bytes(values, (size_t)n * (size_t)n, &most);
    FAIL_IF(bytes == NULL, err, STATUS_NO_MEMORY, "no memory for the matrix");
    http_answer_bytes(answer, "application/octet-stream", bytes, (size_t)n * (size_t)n);
    snprintf(about, sizeof about, "{\"n\":%d,\"count\":%zu,\"max\":%.6g}", n, e.count, most);
    return http_answer_header(answer, "X-Matrix", about, err);
}
