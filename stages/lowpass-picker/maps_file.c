#include "stages/lowpass-picker/maps_file.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

enum { VERSION = 2, COMMON_MAPS = 3, WORK_MOST = 32768, TEMPLATES_MOST = 10000, DESCRIPTION_MOST = 1 << 24 };

static void json_free(json_t **json) {
    json_decref(*json);
}

/* Returns the path of MIC_maps.json beside MIC_maps.mrcs. */
static enum status json_path(const char *path, char *out, struct err *err) {
    size_t length = strlen(path), suffix = strlen("mrcs");
    FAIL_IF(length < suffix || length + 1 > PATH_SIZE, err, STATUS_BAD_ARGUMENT, "%s: not a path of maps", path);
    memcpy(out, path, length - suffix);
    memcpy(out + length - suffix, "json", sizeof "json");
    return STATUS_OK;
}

static json_t *describe(const char *micrograph, const struct pick_maps *maps) {
    const struct pick_geometry *g = &maps->geometry;
    json_t *terms = json_array();
    for (int t = 0; t < maps->maps.count; t++)
        json_array_append_new(
            terms, json_pack("{s:f, s:f}", "mean", maps->maps.terms[t].mean, "power", maps->maps.terms[t].power));
    return json_pack(
        "{s:i, s:s, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:i, s:b, s:b, s:f, s:f, s:o, "
        "s:[iiii], s:[fff]}",
        "v", VERSION, "micrograph", micrograph, "method", g->method == PICKER_LOG ? "log" : "template", "size_rule",
        g->size_rule == PICK_SIZES_RELION ? "relion" : "smooth", "nx", g->nx, "ny", g->ny, "size", g->size, "work",
        g->work, "border", g->border, "pixel_size", g->pixel_size, "radius", g->radius, "diameter", g->diameter,
        "lowpass", g->lowpass, "angle_step", g->angle_step, "rotations", g->rotations, "whiten", g->whiten, "bright",
        g->bright, "deviation", (double)maps->maps.deviation, "noise", (double)maps->maps.noise, "terms", terms, "data",
        g->data.x0, g->data.y0, g->data.x1, g->data.y1, "noise_peaks", g->peaks.mode, g->peaks.below, g->peaks.above);
}

static void fill(const struct search_maps *m, struct image *stack) {
    size_t pixels = (size_t)m->work * m->work;
    const float *common[COMMON_MAPS] = {m->image, m->mu, m->sigma};
    for (int i = 0; i < COMMON_MAPS; i++)
        memcpy(stack->data + i * pixels, common[i], pixels * sizeof(float));
    for (int t = 0; t < m->count; t++) {
        float *score = stack->data + (COMMON_MAPS + 2 * (size_t)t) * pixels, *rotation = score + pixels;
        memcpy(score, m->scores + t * pixels, pixels * sizeof(float));
        for (size_t i = 0; i < pixels; i++)
            rotation[i] = m->rotations[t * pixels + i];
    }
}

enum status maps_file_write(const char *path, const char *micrograph, const struct pick_maps *maps,
                            struct image *scratch, struct err *err) {
    const struct search_maps *m = &maps->maps;
    char beside[PATH_SIZE];
    FAIL_IF(m->scores == NULL, err, STATUS_BAD_ARGUMENT, "%s: maps of each template are needed to be kept", path);
    TRY(json_path(path, beside, err));
    TRY(image_resize(scratch, m->work, m->work, COMMON_MAPS + 2 * m->count, err));
    scratch->pixel_size = (float)(maps->geometry.pixel_size * maps->geometry.size / maps->geometry.work);
    fill(m, scratch);
    TRY(mrc_write(path, scratch, MRC_STACK, MRC_FLOAT32, err));
    _cleanup_(json_free) json_t *json = describe(micrograph, maps);
    FAIL_IF(json == NULL, err, STATUS_NO_MEMORY, "no memory for the description of %s", path);
    char *text = json_dumps(json, JSON_INDENT(1) | JSON_REAL_PRECISION(17));
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for the description of %s", path);
    enum status status = file_write_whole(beside, text, strlen(text), err);
    free(text);
    return status;
}

static enum status read_terms(const char *path, const json_t *json, struct search_maps *m, struct err *err) {
    for (int t = 0; t < m->count; t++) {
        const json_t *term = json_array_get(json_object_get(json, "terms"), (size_t)t);
        m->terms[t] = (struct merit_terms){.mean = json_number_value(json_object_get(term, "mean")),
                                           .power = json_number_value(json_object_get(term, "power"))};
        FAIL_IF(!isfinite(m->terms[t].mean) || !(m->terms[t].power >= 0), err, STATUS_BAD_FORMAT,
                "%s: terms[%d] has no mean and power: search the micrograph again with keep_maps", path, t);
    }
    return STATUS_OK;
}

static enum status read_description(const char *path, json_t *json, struct pick_maps *maps, int *ret_count,
                                    struct err *err) {
    struct pick_geometry g = {0};
    const char *method = NULL, *size_rule = NULL;
    int version = 0, whiten = 0, bright = 0;
    double deviation = 0, noise = 0;
    json_error_t error;
    int failed = json_unpack_ex(json, &error, 0,
                                "{s:i, s:s, s:s, s:i, s:i, s:i, s:i, s:i, s:F, s:F, s:F, s:F, s:F, s:i, s:b, "
                                "s:b, s:F, s:F, s:[iiii], s?[FFF]}",
                                "v", &version, "method", &method, "size_rule", &size_rule, "nx", &g.nx, "ny", &g.ny,
                                "size", &g.size, "work", &g.work, "border", &g.border, "pixel_size", &g.pixel_size,
                                "radius", &g.radius, "diameter", &g.diameter, "lowpass", &g.lowpass, "angle_step",
                                &g.angle_step, "rotations", &g.rotations, "whiten", &whiten, "bright", &bright,
                                "deviation", &deviation, "noise", &noise, "data", &g.data.x0, &g.data.y0, &g.data.x1,
                                &g.data.y1, "noise_peaks", &g.peaks.mode, &g.peaks.below, &g.peaks.above);
    FAIL_IF(failed, err, STATUS_BAD_FORMAT, "%s: %s: not a description of maps that this program kept", path,
            error.text);
    FAIL_IF(version != VERSION, err, STATUS_UNSUPPORTED, "%s: version %d; %d is known: search the micrograph again",
            path, version, VERSION);
    size_t count = json_array_size(json_object_get(json, "terms"));
    FAIL_IF(g.work < 2 || g.work > WORK_MOST || g.size < g.work || g.nx < 1 || g.ny < 1 || g.nx > g.size ||
                g.ny > g.size || g.data.x0 < 0 || g.data.y0 < 0 || g.data.x1 < g.data.x0 || g.data.y1 < g.data.y0 ||
                g.data.x1 > g.nx || g.data.y1 > g.ny || g.border < 0 || g.rotations < 1 || !(g.pixel_size > 0) ||
                !(g.radius > 0) || !(g.diameter > 0) || count < 1 || count > TEMPLATES_MOST,
            err, STATUS_BAD_FORMAT,
            "%s: %d × %d px in %d at %d, border %d px, %zu templates in %d rotations: not sizes of "
            "maps that this program kept",
            path, g.nx, g.ny, g.size, g.work, g.border, count, g.rotations);
    g.size_rule = strcmp(size_rule, "relion") == 0 ? PICK_SIZES_RELION : PICK_SIZES_SMOOTH;
    g.method = strcmp(method, "log") == 0 ? PICKER_LOG : PICKER_TEMPLATE;
    g.whiten = whiten;
    g.bright = bright;
    maps->geometry = g;
    maps->maps.deviation = (float)deviation;
    maps->maps.noise = (float)noise;
    *ret_count = (int)count;
    return STATUS_OK;
}

static void take(const struct image *stack, struct search_maps *m) {
    size_t pixels = (size_t)m->work * m->work;
    float *common[COMMON_MAPS] = {m->image, m->mu, m->sigma};
    for (int i = 0; i < COMMON_MAPS; i++)
        memcpy(common[i], stack->data + i * pixels, pixels * sizeof(float));
    for (int t = 0; t < m->count; t++) {
        const float *score = stack->data + (COMMON_MAPS + 2 * (size_t)t) * pixels, *rotation = score + pixels;
        memcpy(m->scores + t * pixels, score, pixels * sizeof(float));
        for (size_t i = 0; i < pixels; i++)
            m->rotations[t * pixels + i] = rotation[i] >= 0 && rotation[i] <= UINT16_MAX ? (uint16_t)rotation[i] : 0;
    }
    search_maps_combine(m);
}

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

enum status maps_file_read(const char *path, const char *micrograph, struct pick_maps *maps, struct image *scratch,
                           struct err *err) {
    const struct device cpu = {DEVICE_CPU, 0};
    char beside[PATH_SIZE];
    TRY(json_path(path, beside, err));
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    json_error_t error;
    FAIL_IF(!file_exists(path) || !file_exists(beside), err, STATUS_NOT_FOUND,
            "%s: no maps were kept of this micrograph: search it with keep_maps first", path);
    TRY(file_read_whole(beside, DESCRIPTION_MOST, &text, &length, err));
    _cleanup_(json_free) json_t *json = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(json == NULL, err, STATUS_BAD_FORMAT, "%s: line %d: %s", beside, error.line, error.text);
    const char *searched = json_string_value(json_object_get(json, "micrograph"));
    FAIL_IF(searched && strcmp(name_of(searched), name_of(micrograph)) != 0, err, STATUS_BAD_ARGUMENT,
            "%s: these are maps of %s, not of %s: search it with keep_maps first", beside, searched, micrograph);
    int count = 0;
    TRY(read_description(beside, json, maps, &count, err));
    /* Checks the sizes in the image file before allocating memory for those in the description. */
    struct image_info info = {0};
    TRY(image_probe(path, &info, err));
    FAIL_IF(info.nx != maps->geometry.work || info.ny != maps->geometry.work || info.nz != COMMON_MAPS + 2 * count, err,
            STATUS_BAD_FORMAT, "%s: %d × %d × %d; %s says %d × %d × %d: search the micrograph again", path, info.nx,
            info.ny, info.nz, beside, maps->geometry.work, maps->geometry.work, COMMON_MAPS + 2 * count);
    float deviation = maps->maps.deviation, noise = maps->maps.noise;
    TRY(search_maps_shape(&cpu, maps->geometry.work, count, true, &maps->maps, err));
    maps->maps.deviation = deviation;
    maps->maps.noise = noise;
    TRY(read_terms(beside, json, &maps->maps, err));
    TRY(image_read(path, scratch, err));
    FAIL_IF(scratch->nx != maps->geometry.work || scratch->ny != maps->geometry.work ||
                scratch->nz != COMMON_MAPS + 2 * count,
            err, STATUS_BAD_FORMAT, "%s: %d × %d × %d; %s says %d × %d × %d: search the micrograph again", path,
            scratch->nx, scratch->ny, scratch->nz, beside, maps->geometry.work, maps->geometry.work,
            COMMON_MAPS + 2 * count);
    take(scratch, &maps->maps);
    return STATUS_OK;
}
