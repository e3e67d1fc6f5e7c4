#include "stages/refiner/initial/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/files/output.h"
#include "stages/refiner/initial/several.h"
#include "stages/refiner/refiner_private.h"
#include "stages/refiner/resample.h"

#define CLASS_STEM "initial_model_class%03d"

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

static void put_class(FILE *f, const struct several_class *c, bool last) {
    fprintf(f, "    {\n");
    put_number(f, "share", c->share);
    put_number(f, "agreement", c->agreement);
    put_number(f, "mean", c->mean);
    put_number(f, "least", c->least);
    put_number(f, "gain", c->gain);
    fprintf(f, "  \"gain_deviation\": %.4f}%s\n", c->deviation, last ? "" : ",");
}

/* test: the name of the one that failed, "" if all passed. */
static void put_verdict(FILE *f, const char *passed_key, const char *test_key, const char *test) {
    const bool passed = *test == 0;
    fprintf(f, "  \"%s\": %s,\n  \"%s\": ", passed_key, passed ? "true" : "false", test_key);
    if (passed)
        fprintf(f, "null,\n");
    else
        fprintf(f, "\"%s\",\n", test);
}

static void put_classes(FILE *f, const struct several_decision *d) {
    if (d == NULL) {
        fprintf(f, "  \"classes\": null,\n");
        return;
    }
    fprintf(f, "  \"classes\": {\n    \"count\": %d,\n", d->classes);
    put_verdict(f, "own", "refused", several_test_name(d->failed));
    fprintf(f, "    \"found\": \"%s\",\n    \"starts\": %d,\n", d->text, d->starts);
    put_number(f, "gain_a", d->gains[0]);
    put_number(f, "gain_a_deviation", d->deviations[0]);
    put_number(f, "gain_b", d->gains[1]);
    put_number(f, "gain_b_deviation", d->deviations[1]);
    put_number(f, "alike", d->alike);
    put_number(f, "rival", d->rival);
    put_number(f, "seconds", d->seconds);
    fprintf(f, "  \"maps\": [\n");
    for (int k = 0; k < d->classes && d->failed != SEVERAL_EMPTY; k++)
        put_class(f, &d->maps[k], k + 1 == d->classes);
    fprintf(f, "  ]},\n");
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
    put_verdict(f, "accepted", "failed", initial_test_name(d->failed));
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
    put_classes(f, initial_classes(initial));
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

/* A map on the small grid, and what its picture says. */
struct written {
    const float *map;
    double agreement; /* Å */
    const char *stem, *title;
};

static enum status write_map(const struct initial *initial, const struct written *w, const char *folder,
                             struct err *err) {
    const struct initial_decision *d = initial_decision(initial);
    const struct refiner *r = initial_refiner(initial);
    char name[64], path[PATH_SIZE], parts[64];
    _cleanup_(mem_free) float *map = NULL;
    TRY(mem_new((size_t)r->box * (size_t)r->box * (size_t)r->box, sizeof *map, "a map", &map, err));
    TRY(resample_map(w->map, d->box, d->pixel_size, r->box, r->pixel_size, map, err));
    snprintf(name, sizeof name, "%s.mrc", w->stem);
    TRY(output_map(r, folder, name, map, err));
    snprintf(parts, sizeof parts, "%zu particles", d->particles);
    const struct map_picture picture = {.box = r->box,
                                        .pixel_size = r->pixel_size,
                                        .map = map,
                                        .curves = {{.name = "halves", .resolution = w->agreement, .threshold = 0.5}},
                                        .title = w->title,
                                        .parts = parts};
    snprintf(name, sizeof name, "%s.png", w->stem);
    TRY(path_join(folder, name, path, sizeof path, err));
    return map_picture_write(&picture, path, err);
}

static enum status remove_file(const char *folder, const char *name, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    return file_exists(path) ? file_remove(path, err) : STATUS_OK;
}

/* Removes the maps of classes of an attempt before. The list goes first: without it they are not looked for. */
static enum status remove_classes(const char *folder, struct err *err) {
    char name[64];
    TRY(remove_file(folder, INITIAL_CLASSES, err));
    for (int k = 0; k < SEVERAL_MOST; k++) {
        snprintf(name, sizeof name, CLASS_STEM ".mrc", k + 1);
        TRY(remove_file(folder, name, err));
        snprintf(name, sizeof name, CLASS_STEM ".png", k + 1);
        TRY(remove_file(folder, name, err));
    }
    return STATUS_OK;
}

static enum status write_list(const struct several_decision *d, const char *folder, struct err *err) {
    char path[PATH_SIZE], text[1024];
    int length = snprintf(text, sizeof text,
                          "# version 30001\n\ndata_model_classes\n\nloop_\n_rlnReferenceImage #1\n"
                          "_rlnClassDistribution #2\n");
    for (int k = 0; k < d->classes; k++)
        length +=
            snprintf(text + length, sizeof text - (size_t)length, CLASS_STEM ".mrc %.6f\n", k + 1, d->maps[k].share);
    TRY(path_join(folder, INITIAL_CLASSES, path, sizeof path, err));
    return file_write_whole(path, text, (size_t)length, err);
}

static enum status write_classes(const struct initial *initial, const char *folder, struct err *err) {
    const struct several_decision *d = initial_classes(initial);
    TRY(remove_classes(folder, err));
    if (d == NULL || d->failed != SEVERAL_ACCEPTED) return STATUS_OK;
    for (int k = 0; k < d->classes; k++) {
        char stem[64], title[64];
        snprintf(stem, sizeof stem, CLASS_STEM, k + 1);
        snprintf(title, sizeof title, "first map of class %d, hand not known", k + 1);
        const struct written w = {initial_class_map(initial, k), d->maps[k].agreement, stem, title};
        TRY(write_map(initial, &w, folder, err));
    }
    return write_list(d, folder, err);
}

enum status initial_write(const struct initial *initial, const float *map, const struct initial_standing *standing,
                          const char *folder, struct err *err) {
    char path[PATH_SIZE];
    const struct initial_decision *d = initial_decision(initial);
    const bool accepted = d->failed == INITIAL_ACCEPTED;
    if (accepted) {
        const struct written w = {map != NULL ? map : initial_map(initial), d->agreement, "initial_model",
                                  "first map, hand not known"};
        TRY(write_map(initial, &w, folder, err));
    }
    TRY(write_classes(initial, folder, err));
    TRY(path_join(folder, INITIAL_DECISION, path, sizeof path, err));
    TRY(write_decision(initial, standing, path, err));
    if (accepted) return STATUS_OK;
    TRY(remove_file(folder, INITIAL_MAP, err)); /* of an attempt before */
    return remove_file(folder, "initial_model.png", err);
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
