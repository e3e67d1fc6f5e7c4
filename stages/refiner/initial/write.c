#include "stages/refiner/initial/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/files/output.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/resample.h"

static void put_number(FILE *f, const char *key, double value) {
    if (isfinite(value))
        fprintf(f, "  \"%s\": %.4f,\n", key, value);
    else
        fprintf(f, "  \"%s\": null,\n", key);
}

static void put_start(FILE *f, const struct initial_decision *d, int i) {
    const struct initial_start *s = &d->starts[i];
    fprintf(f,
            "    {\"half\": \"%c\", \"gain\": %.4f, \"deviation\": %.4f, \"pmax\": %.4f, \"likeness\": %.3f, "
            "\"alike\": %s, \"best\": %s}%s\n",
            s->half == 0 ? 'A' : 'B', s->gain, s->deviation, s->pmax, s->likeness, s->alike ? "true" : "false",
            i == d->best[s->half] ? "true" : "false", i + 1 < d->start_count ? "," : "");
}

/* The first and the last key of the standing, which has a line for each key. */
#define STANDING_FIRST "  \"attempt\": "
#define STANDING_LAST "  \"last\": "

static void put_standing(FILE *f, const struct initial_standing *s) {
    fprintf(f, STANDING_FIRST "%d,\n  \"attempts\": %d,\n  \"tried\": %zu,\n  \"confirmed\": %s,\n", s->attempt,
            s->attempts, s->tried, s->confirmed ? "true" : "false");
    if (s->junk < 0)
        fprintf(f, "  \"junk\": null,\n" STANDING_LAST);
    else
        fprintf(f, "  \"junk\": %d,\n" STANDING_LAST, s->junk);
    if (s->last != NULL)
        fprintf(f, "\"%s\",\n", s->last);
    else
        fprintf(f, "null,\n");
}

static void put_decision(FILE *f, const struct initial *initial, const struct initial_standing *standing) {
    const struct initial_decision *d = initial_decision(initial);
    const struct refiner *r = initial_refiner(initial);
    fprintf(f, "{\n");
    put_standing(f, standing);
    fprintf(f, "  \"accepted\": %s,\n  \"failed\": ", d->failed == INITIAL_ACCEPTED ? "true" : "false");
    if (d->failed == INITIAL_ACCEPTED)
        fprintf(f, "null,\n");
    else
        fprintf(f, "\"%s\",\n", initial_test_name(d->failed));
    fprintf(f, "  \"text\": \"%s\",\n  \"hand\": \"not known\",\n  \"symmetry\": \"%s\",\n", d->text, r->symmetry.name);
    fprintf(f,
            "  \"present\": %zu,\n  \"particles\": %zu,\n  \"half_a\": %d,\n  \"half_b\": %d,\n  \"held_out\": %d,\n  "
            "\"box\": %d,\n",
            d->present, d->particles, d->parts[0], d->parts[1], d->parts[2], d->box);
    put_number(f, "pixel_size", d->pixel_size);
    put_number(f, "diameter", d->diameter);
    put_number(f, "agreement", d->agreement);
    put_number(f, "agreement_least", d->least);
    put_number(f, "agreement_mean", d->mean);
    put_number(f, "wanted", d->wanted);
    put_number(f, "gain_a", d->gains[0]);
    put_number(f, "gain_a_deviation", d->gain_deviations[0]);
    put_number(f, "gain_b", d->gains[1]);
    put_number(f, "gain_b_deviation", d->gain_deviations[1]);
    put_number(f, "rival", d->rival);
    put_number(f, "contest", d->contest);
    put_number(f, "contest_limit", d->contest_limit);
    put_number(f, "contest_diameter", d->contest_diameter);
    put_number(f, "lowpass", d->lowpass);
    put_number(f, "seconds", d->seconds);
    fprintf(f, "  \"starts\": [\n");
    for (int i = 0; i < d->start_count; i++)
        put_start(f, d, i);
    fprintf(f, "  ]\n}\n");
}

static enum status write_decision(const struct initial *initial, const struct initial_standing *standing,
                                  const char *path, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&text, &length);
    FAIL_IF(f == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    put_decision(f, initial, standing);
    FAIL_IF(fclose(f) != 0, err, STATUS_NO_MEMORY, "no memory for %s", path);
    return file_write_whole(path, text, length, err);
}

static enum status write_map(const struct initial *initial, const float *small, const char *folder, struct err *err) {
    const struct initial_decision *d = initial_decision(initial);
    const struct refiner *r = initial_refiner(initial);
    char path[PATH_SIZE], parts[64];
    _cleanup_(mem_free) float *map = NULL;
    TRY(mem_new((size_t)r->box * (size_t)r->box * (size_t)r->box, sizeof *map, "a map", &map, err));
    TRY(resample_map(small != NULL ? small : initial_map(initial), d->box, d->pixel_size, r->box, r->pixel_size, map,
                     err));
    TRY(output_map(r, folder, INITIAL_MAP, map, err));
    snprintf(parts, sizeof parts, "%zu particles", d->particles);
    const struct map_picture picture = {.box = r->box,
                                        .pixel_size = r->pixel_size,
                                        .map = map,
                                        .curves = {{.name = "halves", .resolution = d->agreement, .threshold = 0.5}},
                                        .title = "first map, hand not known",
                                        .parts = parts};
    TRY(path_join(folder, "initial_model.png", path, sizeof path, err));
    return map_picture_write(&picture, path, err);
}

enum status initial_write(const struct initial *initial, const float *map, const struct initial_standing *standing,
                          const char *folder, struct err *err) {
    char path[PATH_SIZE];
    static const char *const maps[] = {INITIAL_MAP, "initial_model.png"};
    const bool accepted = initial_decision(initial)->failed == INITIAL_ACCEPTED;
    if (accepted) TRY(write_map(initial, map, folder, err));
    TRY(path_join(folder, INITIAL_DECISION, path, sizeof path, err));
    TRY(write_decision(initial, standing, path, err));
    for (size_t i = 0; i < sizeof maps / sizeof *maps && !accepted; i++) { /* of an attempt before */
        TRY(path_join(folder, maps[i], path, sizeof path, err));
        if (file_exists(path)) TRY(file_remove(path, err));
    }
    return STATUS_OK;
}

/* Finds the lines of the standing. A file of an older version has none: they follow its first line. */
static void find_standing(const char *text, const char **ret_begin, const char **ret_end) {
    const char *first = strstr(text, STANDING_FIRST), *last = strstr(text, STANDING_LAST);
    const char *line = strchr(last != NULL ? last : text, '\n');
    *ret_end = line != NULL ? line + 1 : text + strlen(text);
    *ret_begin = first != NULL && last != NULL ? first : *ret_end;
}

enum status initial_write_standing(const struct initial_standing *standing, const char *folder, struct err *err) {
    enum { DECISION_BYTES = 65536 };
    char path[PATH_SIZE];
    const char *begin, *end;
    _cleanup_(mem_free) char *text = NULL;
    _cleanup_(mem_free) char *changed = NULL;
    size_t length = 0;
    TRY(path_join(folder, INITIAL_DECISION, path, sizeof path, err));
    TRY(file_read_whole(path, DECISION_BYTES, &text, NULL, err));
    find_standing(text, &begin, &end);
    FILE *f = open_memstream(&changed, &length);
    FAIL_IF(f == NULL, err, STATUS_NO_MEMORY, "no memory for %s", path);
    fwrite(text, 1, (size_t)(begin - text), f);
    put_standing(f, standing);
    fputs(end, f);
    FAIL_IF(fclose(f) != 0, err, STATUS_NO_MEMORY, "no memory for %s", path);
    return file_write_whole(path, changed, length, err);
}

enum status initial_read_map(const char *path, int box, double pixel_size, float *map, struct err *err) {
    struct image first = {0};
    TRY(mrc_read(path, &first, err));
    enum status status = STATUS_OK;
    if (first.nx != first.ny || first.nx != first.nz || !(first.pixel_size > 0) ||
        !image_values_fit(first.data, image_count(&first)))
        status = err_set(err, STATUS_BAD_FORMAT, __FILE__, __LINE__, "%s is no map any more: remove it", path);
    if (status == STATUS_OK) status = resample_map(first.data, first.nx, first.pixel_size, box, pixel_size, map, err);
    image_destroy(&first);
    return status;
}
