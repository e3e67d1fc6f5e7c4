/* Measures the overhead of the harness around a stage: items through load, process and store, beside the lanes' own
 * counters.
 *
 *   bench_lanes [ITEMS [MIB [PROCESS_MS [STORE_MS]]]]
 *
 * nothing    the stage does nothing; ledger in memory (as on files) and on disk (as in a pipeline): floor 0
 * star       the same, but store writes a STAR file of 300 picks, synced and renamed
 * picker     load reads a float MRC of MIB MiB from the page cache, process waits PROCESS_MS as for a GPU, store
 *            computes for STORE_MS and writes the STAR file: floor is the slowest of the three
 * TMPDIR sets where the files lie. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

enum { PICKS = 300, FILES = 8 };

struct bench_params {
    bool read, star;
    double process_ms, store_ms;
};

#define AT(member) offsetof(struct bench_params, member)
static const struct param table[] = {
    {"read", PARAM_BOOL, AT(read), "", "false", 0, 0, NULL, 0, false, "load reads micrograph.path"},
    {"star", PARAM_BOOL, AT(star), "", "false", 0, 0, NULL, 0, false, "store writes a STAR file"},
    {"process_ms", PARAM_FLOAT, AT(process_ms), "ms", "0", 0, 1e5, NULL, 0, false, "process waits so long"},
    {"store_ms", PARAM_FLOAT, AT(store_ms), "ms", "0", 0, 1e5, NULL, 0, false, "store computes so long"},
};

static enum status load(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct bench_params *p = stage_params(stage);
    const char *path = NULL;
    if (!p->read) return STATUS_OK;
    TRY(item_need_string(lane->item, "micrograph.path", &path, err));
    return image_read(path, lane->state, err);
}

static enum status process(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state, (void)lane, (void)err;
    const struct bench_params *p = stage_params(stage);
    const struct timespec pause = {(time_t)(p->process_ms / 1e3), (long)(p->process_ms * 1e6) % 1000000000};
    if (p->process_ms > 0) nanosleep(&pause, NULL);
    return STATUS_OK;
}

static enum status write_star(const char *path, struct err *err) {
    struct star_file *file = NULL;
    struct star_table *picks = NULL;
    TRY(star_create(&file, err));
    enum status status = star_table_add(file, "", true, &picks, err);
    int column[3] = {0};
    static const char *const names[] = {"rlnCoordinateX", "rlnCoordinateY", "rlnAutopickFigureOfMerit"};
    for (int i = 0; status == STATUS_OK && i < 3; i++)
        status = star_column_add(picks, names[i], "", &column[i], err);
    for (int i = 0; status == STATUS_OK && i < PICKS; i++) {
        size_t row = 0;
        status = star_row_add(picks, &row, err);
        for (int k = 0; status == STATUS_OK && k < 3; k++) {
            char text[32];
            snprintf(text, sizeof text, "%.6f", 13.37 * i + k);
            status = star_set(picks, row, column[k], text, err);
        }
    }
    if (status == STATUS_OK) status = star_write(file, path, err);
    star_destroy(&file);
    return status;
}

static enum status store(struct stage *stage, void *state, struct stage_lane *lane, struct err *err) {
    (void)state;
    const struct bench_params *p = stage_params(stage);
    char relative[PATH_SIZE], absolute[PATH_SIZE];
    for (double end = clock_monotonic() + 1e-3 * p->store_ms; p->store_ms > 0 && clock_monotonic() < end;)
        continue;
    if (!p->star) return STATUS_OK;
    TRY(stage_product(stage, lane->item, "_picks.star", relative, absolute, err));
    TRY(write_star(absolute, err));
    return item_set_string(lane->item, "picks.star", relative, err);
}

static void lane_fini(struct stage *stage, void *state, struct stage_lane *lane) {
    (void)stage, (void)state;
    image_destroy(lane->state);
}

static const struct stage_descriptor bench = {
    .name = "bench",
    .summary = "a stage that costs what it is told to",
    .in = "micrograph",
    .out = "micrograph",
    .params = table,
    .param_count = sizeof table / sizeof *table,
    .params_size = sizeof(struct bench_params),
    .lane_size = sizeof(struct image),
    /* As for a stage on a device. */
    .lanes = 7,
    .load_threads = 3,
    .store_threads = 3,
    .lane_fini = lane_fini,
    .load = load,
    .process = process,
    .store = store,
};

static char folder[PATH_SIZE];

static enum status make_items(size_t count, int files, struct item ***ret_items, struct err *err) {
    struct item **items = calloc(count, sizeof *items);
    FAIL_IF(items == NULL, err, STATUS_NO_MEMORY, "no memory for %zu items", count);
    for (size_t i = 0; i < count; i++) {
        char id[32], path[PATH_SIZE + 32];
        snprintf(id, sizeof id, "grid/mic_%05zu", i);
        snprintf(path, sizeof path, "%s/%d.mrc", folder, (int)(i % (size_t)files));
        TRY(item_create(id, "micrograph", &items[i], err));
        TRY(item_set_string(items[i], "micrograph.path", path, err));
    }
    *ret_items = items;
    return STATUS_OK;
}

static enum status run(const char *what, const char *ledger, const char *const *key_values, size_t count,
                       double floor_ms, struct err *err) {
    static int runs;
    struct item **items = NULL;
    struct stage_results results = {0};
    char place[PATH_SIZE + 32], file[PATH_SIZE + 64];
    snprintf(place, sizeof place, "%s/run%d", folder, runs++);
    snprintf(file, sizeof file, "%s/ledger.sqlite", place);
    TRY(file_make_folders(place, 0777, err));
    TRY(make_items(count, FILES, &items, err));
    double begin = clock_monotonic();
    TRY(stage_run_results(&bench, place, strcmp(ledger, "disk") == 0 ? file : ":memory:", key_values, items, count,
                          &results, err));
    double took = clock_monotonic() - begin;
    printf("%-8s ledger %-6s %6zu items %8.3f s %8.3f ms each", what, ledger, results.emitted_count, took,
           1e3 * took / (double)count);
    if (floor_ms > 0) printf(", floor %.3f ms, ratio %.2f", floor_ms, 1e3 * took / (double)count / floor_ms);
    putchar('\n');
    fflush(stdout);
    stage_results_clear(&results);
    stage_items_free(items, count);
    return STATUS_OK;
}

static enum status make_micrographs(int mebibytes, double *ret_read_ms, struct err *err) {
    struct image image = {0};
    TRY(image_resize(&image, 4096, 64 * mebibytes, 1, err));
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)(i % 997);
    char path[PATH_SIZE + 32];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/%d.mrc", folder, i);
        TRY(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, err));
    }
    double best = 1e9;
    for (int i = 0; i < 2 * FILES; i++) {
        snprintf(path, sizeof path, "%s/%d.mrc", folder, i % FILES);
        double begin = clock_monotonic();
        TRY(image_read(path, &image, err));
        double took = 1e3 * (clock_monotonic() - begin);
        if (took < best) best = took;
    }
    image_destroy(&image);
    *ret_read_ms = best;
    return STATUS_OK;
}

static enum status run_all(size_t count, int mebibytes, double process_ms, double store_ms, struct err *err) {
    const char *const nothing[] = {NULL}, *const star[] = {"star", "true", NULL};
    TRY(run("nothing", "memory", nothing, count, 0, err));
    TRY(run("nothing", "disk", nothing, count, 0, err));
    TRY(run("star", "memory", star, count, 0, err));
    TRY(run("star", "disk", star, count, 0, err));
    if (mebibytes <= 0) return STATUS_OK;
    double read_ms = 0;
    TRY(make_micrographs(mebibytes, &read_ms, err));
    char process_text[32], store_text[32];
    snprintf(process_text, sizeof process_text, "%g", process_ms);
    snprintf(store_text, sizeof store_text, "%g", store_ms);
    const char *const picker[] = {"star",       "true",     "read",     "true", "process_ms",
                                  process_text, "store_ms", store_text, NULL};
    printf("picker: load %.2f ms, process %g ms, store %g ms and the STAR file\n", read_ms, process_ms, store_ms);
    TRY(run("picker", "memory", picker, count < 200 ? count : 200, process_ms, err));
    return run("picker", "disk", picker, count < 200 ? count : 200, process_ms, err);
}

int main(int argc, char **argv) {
    const char *base = getenv("TMPDIR");
    struct err err = {0};
    size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 2000;
    snprintf(folder, sizeof folder, "%s/icestream-bench-XXXXXX", base != NULL ? base : "/tmp");
    if (count == 0 || mkdtemp(folder) == NULL) {
        fprintf(stderr, "bench_lanes: %s cannot be made, or the number of items is not one\n", folder);
        return 1;
    }
    enum status status =
        run_all(count, argc > 2 ? atoi(argv[2]) : 64, argc > 3 ? atof(argv[3]) : 4, argc > 4 ? atof(argv[4]) : 5, &err);
    if (status != STATUS_OK) fprintf(stderr, "bench_lanes: %s\n", err.message);
    char command[PATH_SIZE + 32];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 || status != STATUS_OK;
}
