/* icestream-simulate-drops: paints crystallisation drops of known outcome and writes their labels. --help lists the
 * parameters. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/picture.h"
#include "common/harness/manual.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "examples/drops/drops.h"

struct options {
    char *folder;
    int count, size, seed, series;
};

#define PROGRAM "icestream-simulate-drops"
#define SUMMARY "paints crystallisation drops of known outcome"

#define AT(member) offsetof(struct options, member)
static const struct param table[] = {
    {.name = "o",
     .type = PARAM_STRING,
     .offset = AT(folder),
     .required = true,
     .help = "Folder to fill: pictures and labels.csv."},
    {.name = "count",
     .type = PARAM_INT,
     .offset = AT(count),
     .default_text = "20",
     .minimum = 1,
     .maximum = 99999,
     .help = "Pictures of each outcome; with series, the number of drops."},
    {.name = "size",
     .type = PARAM_INT,
     .offset = AT(size),
     .unit = "px",
     .default_text = "320",
     .minimum = 256,
     .maximum = 4096,
     .help = "Width and height of a picture."},
    {.name = "seed",
     .type = PARAM_INT,
     .offset = AT(seed),
     .default_text = "1",
     .maximum = 2147483647,
     .help = "Seed of the random numbers: the same seed gives the same bytes."},
    {.name = "series",
     .type = PARAM_INT,
     .offset = AT(series),
     .default_text = "1",
     .minimum = 1,
     .maximum = 999,
     .help = "Photographs of each drop, DROP_tNN.png, whose outcomes follow each other as in real drops."},
};
#undef AT
enum { TABLE_COUNT = sizeof table / sizeof *table };

/* Reads "--key value" and "--key=value". */
static enum status read_arguments(int argc, char **argv, struct options *options, struct err *err) {
    for (int i = 1; i < argc; i++) {
        const char *equals = strchr(argv[i], '=');
        char key[64];
        size_t length = equals != NULL ? (size_t)(equals - argv[i]) : strlen(argv[i]);
        FAIL_IF(strncmp(argv[i], "--", 2) != 0 || length - 2 >= sizeof key, err, STATUS_BAD_ARGUMENT,
                "command line: '%s' is not --KEY VALUE; see --help", argv[i]);
        snprintf(key, sizeof key, "%.*s", (int)(length - 2), argv[i] + 2);
        FAIL_IF(equals == NULL && i + 1 == argc, err, STATUS_BAD_ARGUMENT, "command line: --%s needs a value", key);
        const char *text = equals != NULL ? equals + 1 : argv[++i];
        TRY(params_set(table, TABLE_COUNT, options, key, text, "command line", err));
    }
    return params_check(table, TABLE_COUNT, options, "command line", err);
}

struct picture {
    char name[64];
    enum drop_kind kind;
    uint64_t index;
};

static void plan_set(const struct options *options, struct picture *pictures) {
    for (int kind = 0; kind < DROP_KINDS; kind++)
        for (int i = 0; i < options->count; i++, pictures++) {
            *pictures = (struct picture){.kind = (enum drop_kind)kind, .index = (uint64_t)i};
            snprintf(pictures->name, sizeof pictures->name, "%s_%04d.png", drop_kind_stem(pictures->kind), i + 1);
        }
}

static void plan_series(const struct options *options, struct picture *pictures) {
    static const enum drop_kind beginnings[] = {DROP_CLEAR, DROP_CLEAR, DROP_CLEAR, DROP_PRECIPITATE, DROP_PRECIPITATE,
                                                DROP_PHASE, DROP_SKIN,  DROP_JUNK,  DROP_OTHER};
    for (int drop = 0; drop < options->count; drop++) {
        struct random random = random_stream((uint64_t)options->seed, (uint64_t)drop, 77);
        enum drop_kind kind = beginnings[random_next(&random) % (sizeof beginnings / sizeof *beginnings)];
        for (int t = 0; t < options->series; t++, pictures++) {
            *pictures = (struct picture){.kind = kind, .index = (uint64_t)(1000000 + (int64_t)drop * 1000 + t)};
            snprintf(pictures->name, sizeof pictures->name, "drop%05d_t%02d.png", drop + 1, t + 1);
            kind = drop_next(kind, &random);
        }
    }
}

static enum status write_one(const struct options *options, const struct picture *picture, struct err *err) {
    _cleanup_(drop_painter_destroy) struct drop_painter *painter = NULL;
    _cleanup_(mem_free) uint8_t *pixels = NULL;
    struct drop_scene scene = {options->size, (uint64_t)options->seed};
    char path[PATH_SIZE];
    TRY(drop_painter_create(&scene, &painter, err));
    TRY(mem_new((size_t)options->size * (size_t)options->size, 1, "a picture", &pixels, err));
    TRY(path_join(options->folder, picture->name, path, sizeof path, err));
    drop_paint(painter, picture->kind, picture->index, pixels, NULL);
    return picture_write_grey(path, options->size, options->size, pixels, err);
}

static enum status write_pictures(const struct options *options, const struct picture *pictures, int count,
                                  struct err *err) {
    enum status status = STATUS_OK;
#pragma omp parallel for schedule(dynamic, 1)
    for (int i = 0; i < count; i++) {
        struct err own = {0};
        enum status came = write_one(options, &pictures[i], &own);
#pragma omp critical
        if (came != STATUS_OK && status == STATUS_OK) {
            status = came;
            *err = own;
        }
    }
    return status;
}

static enum status write_all(const struct options *options, struct err *err) {
    _cleanup_(mem_free) struct picture *pictures = NULL;
    _cleanup_(file_discard) struct file_output *labels = NULL;
    int count = options->count * (options->series > 1 ? options->series : DROP_KINDS);
    char path[PATH_SIZE];
    TRY(mem_new((size_t)count, sizeof *pictures, "pictures", &pictures, err));
    (options->series > 1 ? plan_series : plan_set)(options, pictures);
    TRY(file_make_folders(options->folder, 0777, err));
    TRY(write_pictures(options, pictures, count, err));
    TRY(path_join(options->folder, "labels.csv", path, sizeof path, err));
    TRY(file_create(path, &labels, err));
    FILE *out = file_output_stream(labels);
    fputs("path,label\n", out);
    for (int i = 0; i < count; i++)
        fprintf(out, "%s,%s\n", pictures[i].name, drop_kind_name(pictures[i].kind));
    return file_commit(&labels, err);
}

int main(int argc, char **argv) {
    struct options options = {0};
    struct err err = {0};
    bool asked;
    enum status status = manual_print_plain(PROGRAM, SUMMARY, table, TABLE_COUNT, argc, argv, &asked, &err);
    if (status == STATUS_OK && asked) return 0;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s: %s\n\n", PROGRAM, SUMMARY);
        params_help(table, TABLE_COUNT, stdout);
        return 0;
    }
    if (status == STATUS_OK) status = params_defaults(table, TABLE_COUNT, &options, &err);
    if (status == STATUS_OK) status = read_arguments(argc, argv, &options, &err);
    int code = status == STATUS_OK ? 1 : 2;
    if (status == STATUS_OK) status = write_all(&options, &err);
    params_clear(table, TABLE_COUNT, &options);
    if (status == STATUS_OK) return 0;
    fprintf(stderr, "%s: %s\n", PROGRAM, err.message);
    return code;
}
