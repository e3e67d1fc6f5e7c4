#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/formats/structure.h"

static struct structure_model topology; /* of three atoms, for trajectories */

static void make_topology(void) {
    static const char text[] = "ATOM      1  N   GLY A   1       1.000   2.000   3.000\n"
                               "ATOM      2  CA  GLY A   1       2.000   2.000   3.000\n"
                               "ATOM      3  C   GLY A   1       3.000   2.000   3.000\n";
    struct structure_reader *reader = NULL;
    bool found = false;
    FILE *stream = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
    FUZZ_CHECK(stream != NULL && structure_open_stream(stream, "topology", NULL, &reader, NULL) == STATUS_OK);
    FUZZ_CHECK(structure_next(reader, &topology, &found, NULL) == STATUS_OK && found && topology.count == 3);
    structure_close(&reader);
}

static void check_selection(const struct structure_model *model, size_t *indices, float *xyz) {
    for (int what = STRUCTURE_CA; what <= STRUCTURE_ALL; what++) {
        struct structure_selection selection = {.what = (enum structure_what)what};
        struct err err = {0};
        size_t count = 0;
        if (structure_select(model, &selection, "fuzz", indices, &count, &err) != STATUS_OK) {
            FUZZ_CHECK(strstr(err.message, "fuzz") != NULL);
            continue;
        }
        FUZZ_CHECK(count > 0 && count <= model->count);
        for (size_t i = 0; i < count; i++)
            FUZZ_CHECK(indices[i] < model->count && (i == 0 || indices[i] > indices[i - 1]));
        if (structure_take(model, indices, count, "fuzz", xyz, &err) != STATUS_OK) continue;
        for (size_t i = 0; i < 3 * count; i++)
            FUZZ_CHECK(fabsf(xyz[i]) <= STRUCTURE_FAR);
    }
}

/* A model that can be written must be the same when it is read, atom for atom. */
static void check_round_trip(const struct structure_model *model) {
    char *text = NULL;
    size_t length = 0, whole = 0;
    bool found = false;
    FILE *out = open_memstream(&text, &length);
    FUZZ_CHECK(out != NULL);
    enum status status = structure_pdb_write(out, model, 0, NULL);
    structure_pdb_end(out);
    fclose(out);
    for (size_t i = 0; i < model->count; i++)
        whole += !isnan(model->xyz[3 * i]) && !isnan(model->xyz[3 * i + 1]) && !isnan(model->xyz[3 * i + 2]);
    /* A name may contain strange bytes, even a line end, so only plain text is compared. */
    bool plain = true;
    for (size_t i = 0; i < length; i++)
        plain = plain && (text[i] == '\n' || (text[i] >= ' ' && text[i] < 127));
    if (status == STATUS_OK && whole > 0 && plain) {
        struct structure_reader *reader = NULL;
        struct structure_model again = {0};
        struct err err = {0};
        FUZZ_CHECK(structure_open_stream(fmemopen(text, length, "r"), "again", NULL, &reader, &err) == STATUS_OK);
        FUZZ_CHECK(structure_next(reader, &again, &found, &err) == STATUS_OK && found);
        FUZZ_CHECK(again.count == whole);
        structure_model_clear(&again);
        structure_close(&reader);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    struct structure_reader *reader = NULL;
    struct structure_model model = {0};
    struct err err = {0};
    if (topology.count == 0) make_topology();
    FILE *stream = length > 0 ? fmemopen((void *)(uintptr_t)bytes, length, "r") : NULL;
    if (stream == NULL) return 0;
    if (structure_open_stream(stream, "fuzz", &topology, &reader, &err) != STATUS_OK) {
        FUZZ_CHECK(reader == NULL && strstr(err.message, "fuzz") != NULL);
        return 0;
    }
    for (int i = 0;; i++) {
        bool found = false;
        if (structure_next(reader, &model, &found, &err) != STATUS_OK) {
            FUZZ_CHECK(strstr(err.message, "fuzz") != NULL);
            break;
        }
        FUZZ_CHECK(found || i > 0);
        if (!found) break;
        FUZZ_CHECK(model.count > 0);
        size_t *indices = malloc(model.count * sizeof *indices);
        float *xyz = malloc(3 * model.count * sizeof *xyz);
        FUZZ_CHECK(indices != NULL && xyz != NULL);
        check_selection(&model, indices, xyz);
        check_round_trip(&model);
        free(indices);
        free(xyz);
    }
    structure_model_clear(&model);
    structure_close(&reader);
    return 0;
}
