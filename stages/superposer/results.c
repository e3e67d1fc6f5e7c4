#include "stages/superposer/results.h"

#include <string.h>

#include "common/files.h"
#include "common/formats/npy.h"
#include "common/memory.h"

static enum status write_names(const struct superposer *s, const char *folder, struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, "structures.txt", path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    for (int i = 0; i < s->count; i++)
        fprintf(out, "%s\n", s->names[i]);
    return file_commit(&output, err);
}

/* Writes a field, in quotation marks if it holds a comma or a quotation mark. */
static void put_field(FILE *out, const char *text) {
    bool quote = strpbrk(text, ",\"") != NULL;
    if (quote) putc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"') putc('"', out);
        putc(*c, out);
    }
    if (quote) putc('"', out);
}

static enum status write_clusters(const struct superposer *s, const char *folder, struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, "clusters.csv", path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("structure,cluster,is_centre\n", out);
    for (int i = 0; i < s->count; i++) {
        int cluster = s->clusters.cluster[i];
        put_field(out, s->names[i]);
        fprintf(out, ",%d,%d\n", cluster + 1, s->clusters.centre[cluster] == i);
    }
    return file_commit(&output, err);
}

static enum status write_array(const char *folder, const char *name, enum npy_type type, size_t count,
                               const void *values, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    return npy_write(path, type, 1, &count, values, err);
}

enum status results_drop(const char *folder, const char *name, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    return file_remove(path, err);
}

static enum status write_neighbours(const struct superposer *s, const char *folder, struct err *err) {
    const struct superpose_neighbours *n = &s->neighbours;
    size_t count = n->starts[n->count];
    _Static_assert(sizeof *n->starts == 8, "starts are written as they are");
    TRY(write_array(folder, "neighbours_starts.npy", NPY_INT64, (size_t)n->count + 1, n->starts, err));
    TRY(write_array(folder, "neighbours_index.npy", NPY_INT32, count, n->index, err));
    return write_array(folder, "neighbours_rmsd.npy", NPY_FLOAT32, count, n->rmsd, err);
}

static enum status drop_neighbours(const char *folder, struct err *err) {
    static const char *const names[] = {"neighbours_starts.npy", "neighbours_index.npy", "neighbours_rmsd.npy"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        TRY(results_drop(folder, names[i], err));
    return STATUS_OK;
}

enum status results_write(const struct superposer *s, const char *folder, struct err *err) {
    TRY(write_names(s, folder, err));
    if (superposer_has_matrix(s, s->count))
        TRY(write_array(folder, "rmsd.npy", NPY_FLOAT32, superpose_pairs(s->count), s->rmsd, err));
    else
        TRY(results_drop(folder, "rmsd.npy", err));
    if (superposer_has_neighbours(s, s->count))
        TRY(write_neighbours(s, folder, err));
    else
        TRY(drop_neighbours(folder, err));
    return write_clusters(s, folder, err);
}

enum status results_write_reference(const struct superposer *s, const char *folder, const float *rmsd,
                                    struct err *err) {
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, "reference_rmsd.csv", path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fputs("structure,rmsd\n", out);
    for (int i = 0; i < s->count; i++) {
        put_field(out, s->names[i]);
        fprintf(out, ",%.6f\n", (double)rmsd[i]);
    }
    return file_commit(&output, err);
}
