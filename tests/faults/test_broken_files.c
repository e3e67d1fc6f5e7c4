/* Gives the corpus of broken files to the readers. Each reader must give the status and the message of the table, name
 * the file, and leave its outputs unchanged. ICESTREAM_BROKEN is the folder that make_broken.py has written. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/edges/message.h"
#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/mdoc.h"
#include "common/formats/star.h"
#include "common/formats/tilts.h"
#include "common/memory.h"
#include "pipelines/launcher/graph/graph.h"
#include "pipelines/launcher/program.h"

static const char *const status_names[] = {
    [STATUS_OK] = "OK",
    [STATUS_TRUNCATED] = "TRUNCATED",
    [STATUS_BAD_FORMAT] = "BAD_FORMAT",
    [STATUS_UNSUPPORTED] = "UNSUPPORTED",
    [STATUS_NOT_FOUND] = "NOT_FOUND",
    [STATUS_IO] = "IO",
};

struct line {
    char *reader, *name, *status, *says;
    char path[PATH_SIZE];
};

static int check_image(const struct line *line) {
    struct image image = {0};
    struct image_info info = {0};
    struct err err = {0};
    enum status probed = image_probe(line->path, &info, &err);
    if (probed != STATUS_OK && strstr(err.message, line->path) == NULL) {
        print_error("%s: its probe does not name it: %s\n", line->name, err.message);
        return 1;
    }
    enum status read = image_read(line->path, &image, &err);
    size_t count = sizeof status_names / sizeof *status_names;
    const char *name = (size_t)read < count && status_names[read] != NULL ? status_names[read] : status_name(read);
    bool said =
        read == STATUS_OK || (strstr(err.message, line->says) != NULL && strstr(err.message, line->path) != NULL);
    bool good = strcmp(name, line->status) == 0 && (read != STATUS_OK || probed == STATUS_OK) && said;
    if (!good)
        print_error("%s: %s, \"%s\"; %s with \"%s\" is expected\n", line->name, name,
                    read == STATUS_OK ? "" : err.message, line->status, line->says);
    image_destroy(&image);
    return !good;
}

static int check_star(const struct line *line) {
    struct star_file *file = NULL;
    struct err err = {0};
    enum status status = star_read(line->path, &file, &err);
    bool good = status == STATUS_OK ? file != NULL : file == NULL && strstr(err.message, line->path) != NULL;
    if (!good) print_error("%s: %s\n", line->name, err.message);
    star_destroy(&file);
    return !good;
}

/* Reads angles, transforms, or an .mdoc, as the ending says. */
static int check_tilts(const struct line *line) {
    _cleanup_(mem_free) double *angles = NULL;
    _cleanup_(mem_free) struct tilt_transform *transforms = NULL;
    struct mdoc mdoc = {0};
    struct err err = {0};
    int count = -1;
    const char *ending = strrchr(line->name, '.');
    bool is_mdoc = strcmp(ending, ".mdoc") == 0;
    enum status status = is_mdoc                      ? mdoc_read(line->path, &mdoc, &err)
                         : strcmp(ending, ".xf") == 0 ? tilts_read_transforms(line->path, &transforms, &count, &err)
                                                      : tilts_read_angles(line->path, &angles, &count, &err);
    bool untouched = count == -1 && angles == NULL && transforms == NULL && mdoc.tilts == NULL && mdoc.count == 0;
    bool good = status == STATUS_OK
                    ? count > 0 || is_mdoc
                    : status == STATUS_BAD_FORMAT && untouched && strstr(err.message, line->path) != NULL;
    if (!good) print_error("%s: %s, %s\n", line->name, status_name(status), err.message);
    mdoc_clear(&mdoc);
    return !good;
}

static int check_graph(const struct line *line) {
    struct problems problems;
    struct graph *graph = NULL;
    struct err err = {0};
    problems_init(&problems, line->path);
    enum status status = graph_read(line->path, &problems, &graph, &err);
    bool good = status == STATUS_OK ? graph != NULL && !problems.no_memory : strstr(err.message, line->path) != NULL;
    if (!good) print_error("%s: %s\n", line->name, err.message);
    problems_clear(&problems);
    graph_destroy(&graph);
    return !good;
}

/* Reads JSON of any intent as an item, as a message and as a program's answer. Each reader must refuse it or accept it
 * whole. */
static int check_json(const struct line *line) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    struct item *item = NULL;
    struct message message = {0};
    struct err err = {0}, of_message = {0}, of_answer = {0};
    json_t *answer = NULL;
    assert_int_equal(file_read_whole(line->path, 1 << 24, &text, &length, &err), STATUS_OK);
    bool good = item_parse(text, length, &item, &err) == STATUS_OK || (item == NULL && err.message[0] != '\0');
    good = good && (message_decode(text, length, &message, &of_message) == STATUS_OK || of_message.message[0] != '\0');
    good = good && (program_answer(line->path, text, length, &answer, &of_answer) == STATUS_OK ||
                    (answer == NULL && strstr(of_answer.message, line->path) != NULL));
    if (!good) print_error("%s: %s; %s; %s\n", line->name, err.message, of_message.message, of_answer.message);
    item_destroy(&item);
    message_clear(&message);
    json_decref(answer);
    return !good;
}

static void every_file(void **state) {
    (void)state;
    const char *folder = getenv("ICESTREAM_BROKEN");
    if (folder == NULL) fail_msg("ICESTREAM_BROKEN is not set: the folder that make_broken.py has written");
    char path[PATH_SIZE];
    _cleanup_(mem_free) char *table = NULL;
    struct err err = {0};
    assert_int_equal(path_join(folder, "table.tsv", path, sizeof path, &err), STATUS_OK);
    if (file_read_whole(path, 1 << 20, &table, NULL, &err) != STATUS_OK) fail_msg("%s", err.message);
    int count = 0, bad = 0;
    char *save = NULL;
    for (char *text = strtok_r(table, "\n", &save); text != NULL; text = strtok_r(NULL, "\n", &save), count++) {
        struct line line = {0};
        line.reader = strsep(&text, "\t");
        line.name = strsep(&text, "\t");
        line.status = strsep(&text, "\t");
        line.says = text;
        assert_non_null(line.says);
        assert_int_equal(path_join(folder, line.name, line.path, sizeof line.path, &err), STATUS_OK);
        bad += strcmp(line.reader, "image") == 0   ? check_image(&line)
               : strcmp(line.reader, "star") == 0  ? check_star(&line)
               : strcmp(line.reader, "graph") == 0 ? check_graph(&line)
               : strcmp(line.reader, "tilts") == 0 ? check_tilts(&line)
                                                   : check_json(&line);
    }
    print_message("%d broken files, %d not answered as expected\n", count, bad);
    assert_true(count > 200);
    assert_int_equal(bad, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_file)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
