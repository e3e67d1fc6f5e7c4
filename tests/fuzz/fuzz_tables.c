/* Fuzzes values made from STAR files: items of stages on files, CTF values of micrographs, picks, particles, and the
 * description of kept maps. The first byte selects one. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/harness/stage_private.h"
#include "stages/classifier/dataset.h"
#include "stages/extractor/extractor.h"
#include "stages/lowpass-picker/maps_file.h"
#include "stages/watcher/record.h"

static char folder[64];

/* FOLDER holds a stack of three images, and the input under the requested name. */
static void put(const char *name, const uint8_t *bytes, size_t length, char path[PATH_SIZE]) {
    if (folder[0] == '\0') {
        char stack[PATH_SIZE];
        struct image image = {0};
        fuzz_scratch("tables", folder);
        FUZZ_CHECK(file_make_folders(folder, 0700, NULL) == STATUS_OK);
        FUZZ_CHECK(image_resize(&image, 8, 8, 5, NULL) == STATUS_OK);
        snprintf(stack, sizeof stack, "%s/stack.mrcs", folder);
        FUZZ_CHECK(mrc_write(stack, &image, MRC_STACK, MRC_FLOAT32, NULL) == STATUS_OK);
        image_destroy(&image);
    }
    snprintf(path, PATH_SIZE, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static void set_session(struct stage_session *session) {
    *session = (struct stage_session){NAN, NAN, NAN, NAN};
}

static void check_item(const struct item *item) {
    char *text = item_print(item);
    struct item *again = NULL;
    FUZZ_CHECK(text != NULL && item_parse(text, strlen(text), &again, NULL) == STATUS_OK);
    item_destroy(&again);
    free(text);
}

static void try_items(const char *path, const char *in) {
    static struct stage stage;
    const struct stage_descriptor descriptor = {.name = "fuzz", .in = in, .out = ""};
    struct item **items = NULL;
    size_t count = 0;
    struct err err = {0};
    stage.descriptor = &descriptor;
    set_session(&stage.session);
    snprintf(stage.root, sizeof stage.root, "%s", folder);
    if (stage_files_items(&stage, path, &items, &count, &err) != STATUS_OK) {
        FUZZ_CHECK(err.message[0] != '\0');
        return;
    }
    for (size_t i = 0; i < count; i++)
        check_item(items[i]);
    stage_items_free(items, count);
}

static void try_ctf(const char *path) {
    struct ctf_rows *rows = NULL;
    struct stage_session session;
    struct err err = {0};
    set_session(&session);
    if (ctf_rows_open(path, &rows, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, path) != NULL);
        return;
    }
    struct item *item = NULL;
    bool several;
    long row = ctf_rows_find(rows, "/data/grid/mic_001.mrc", &several);
    struct record_source source = {.path = "/data/grid/mic_001.mrc",
                                   .id = "mic_001",
                                   .root = "/data",
                                   .session = &session,
                                   .image = {.nx = 8, .ny = 8, .nz = 1, .pixel_size = 1.5f},
                                   .rows = rows,
                                   .row = row};
    char broken[400];
    ctf_rows_broken_optics(rows, broken, sizeof broken);
    if (row >= 0) (void)ctf_rows_broken(rows, row, broken, sizeof broken);
    FUZZ_CHECK(strlen(broken) < sizeof broken);
    /* Whatever the CTF table holds, the micrograph continues with all values that can be read. */
    if (record_make(&source, &item, &err) == STATUS_OK) {
        check_item(item);
        item_destroy(&item);
    } else {
        FUZZ_CHECK(err.message[0] != '\0' && strstr(err.message, "no memory") == NULL);
    }
    ctf_rows_close(&rows);
}

static void try_picks(const char *path) {
    struct extractor_picks picks = {0};
    struct err err = {0};
    if (extractor_read_picks(path, "mic_001.mrc", NAN, 4096, 4096, &picks, &err) == STATUS_OK)
        for (size_t i = 0; i < picks.count; i++)
            FUZZ_CHECK(picks.x[i] >= -1 && picks.x[i] <= 4096 && picks.y[i] >= -1 && picks.y[i] <= 4096);
    else
        FUZZ_CHECK(strstr(err.message, path) != NULL);
    extractor_picks_clear(&picks);
}

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    (void)context, (void)star_path, (void)name;
    return path_join(folder, "stack.mrcs", absolute, PATH_SIZE, err);
}

static void try_particles(const char *path) {
    struct dataset_batch *batch = NULL;
    struct err err = {0};
    if (dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err) == STATUS_OK)
        for (size_t i = 0; i < batch->count; i++)
            FUZZ_CHECK(batch->particles[i].slice >= 0 && batch->particles[i].slice < 5 &&
                       batch->particles[i].stack >= 0 && batch->particles[i].stack < batch->stack_count);
    else
        FUZZ_CHECK(err.message[0] != '\0');
    dataset_batch_destroy(&batch);
}

static void try_maps(void) {
    static struct pick_maps maps;
    static struct image scratch;
    char path[PATH_SIZE];
    struct err err = {0};
    snprintf(path, sizeof path, "%s/stack.mrcs", folder);
    if (maps_file_read(path, "mic_001.mrc", &maps, &scratch, &err) != STATUS_OK)
        FUZZ_CHECK(strstr(err.message, folder) != NULL || strstr(err.message, "memory") != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    static const char *const inputs[] = {"micrograph", "micrograph picks", "particles", "selection"};
    if (length == 0) return 0;
    char path[PATH_SIZE];
    int what = bytes[0] % 8;
    put(what == 7 ? "stack.json" : "input.star", bytes + 1, length - 1, path);
    if (what < 2)
        try_ctf(path);
    else if (what < 4)
        try_items(path, inputs[bytes[0] / 8 % 4]);
    else if (what == 4)
        try_picks(path);
    else if (what < 7)
        try_particles(path);
    else
        try_maps();
    return 0;
}
