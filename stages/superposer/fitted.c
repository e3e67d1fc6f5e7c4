#include "stages/superposer/fitted.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/npy.h"
#include "common/memory.h"

/* Refuses a file that has changed since and now has other atoms. */
static enum status check_atoms(const struct superposer *s, const struct ensemble_view *view, const char *name,
                               struct err *err) {
    FAIL_IF(view->atoms != (size_t)s->atoms, err, STATUS_BAD_FORMAT,
            "%s: %zu atoms are selected now, and %d when it was read first: the file has changed since", name,
            view->atoms, s->atoms);
    return STATUS_OK;
}

struct centres {
    const struct superposer *s;
    const char *folder;
    const int *cluster_of; /* [structures] the cluster whose centre it is; −1: none */
    int begin, last;       /* first structure of the file, and last one wanted */
};

static enum status write_centre(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                                struct err *err) {
    const struct centres *centres = context;
    int structure = centres->begin + ordinal;
    if (structure > centres->last) FAIL(err, STATUS_CANCELLED, "no more are wanted");
    int cluster = centres->cluster_of[structure];
    if (cluster < 0) return STATUS_OK;
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE], file[32];
    snprintf(file, sizeof file, "centre_%04d.pdb", cluster + 1);
    TRY(path_join(centres->folder, file, path, sizeof path, err));
    TRY(file_create(path, &output, err));
    FILE *out = file_output_stream(output);
    fprintf(out, "REMARK   1 CENTRE OF CLUSTER %d: %.200s\n", cluster + 1, centres->s->names[structure]);
    enum status status = structure_pdb_write(out, view->model, 0, err);
    if (status != STATUS_OK) return err_context(err, status, "%s", name);
    structure_pdb_end(out);
    return file_place(&output, err);
}

static enum status drop_others(const char *folder, int kept, struct err *err) {
    char path[PATH_SIZE], name[32];
    for (int number; (number = file_last_number(folder, "centre_", ".pdb", INT_MAX)) > kept;) {
        snprintf(name, sizeof name, "centre_%04d.pdb", number);
        TRY(path_join(folder, name, path, sizeof path, err));
        TRY(file_remove(path, err));
    }
    return STATUS_OK;
}

enum status fitted_write_centres(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                                 int most, struct err *err) {
    _cleanup_(mem_free) int *cluster_of = NULL;
    int count = s->clusters.count < most ? s->clusters.count : most;
    TRY(mem_new((size_t)s->count, sizeof *cluster_of, "centres", &cluster_of, err));
    for (int i = 0; i < s->count; i++)
        cluster_of[i] = -1;
    for (int cluster = 0; cluster < count; cluster++)
        cluster_of[s->clusters.centre[cluster]] = cluster;
    for (int f = 0; f < s->file_count; f++) {
        const struct superposer_file *file = &s->files[f];
        struct centres centres = {s, folder, cluster_of, file->begin, -1};
        for (int i = file->begin; i < file->begin + file->count; i++)
            if (cluster_of[i] >= 0) centres.last = i;
        if (centres.last >= 0) TRY(ensemble_walk(rules, file->path, write_centre, &centres, err));
    }
    TRY(drop_others(folder, count, err));
    return file_sync_folder(folder, err);
}

static enum status take_first(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                              struct err *err) {
    (void)name;
    float **xyz = context;
    if (ordinal > 0) FAIL(err, STATUS_CANCELLED, "one is enough");
    TRY(mem_new(3 * view->atoms, sizeof **xyz, "the reference", xyz, err));
    memcpy(*xyz, view->xyz, 3 * view->atoms * sizeof **xyz);
    return STATUS_OK;
}

struct identities {
    struct structure_identity *list;
    size_t count;
};

static enum status take_identities(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                                   struct err *err) {
    (void)name;
    struct identities *identities = context;
    if (ordinal > 0) FAIL(err, STATUS_CANCELLED, "one is enough");
    TRY(mem_new(view->atoms, sizeof *identities->list, "names of atoms", &identities->list, err));
    identities->count = view->atoms;
    for (size_t i = 0; i < view->atoms; i++)
        identities->list[i] = view->model->atoms[view->indices[i]].id;
    return STATUS_OK;
}

static enum status compare(const struct ensemble_rules *rules, const char *path, const char *like, struct identities *a,
                           struct identities *b, struct err *err) {
    TRY(ensemble_walk(rules, like, take_identities, a, err));
    TRY(ensemble_walk(rules, path, take_identities, b, err));
    return structure_same(a->list, a->count, like, b->list, b->count, path, err);
}

enum status fitted_read_reference(const struct ensemble_rules *rules, const char *path, const char *like,
                                  float **ret_xyz, struct err *err) {
    struct identities expected = {0}, found = {0};
    enum status status = compare(rules, path, like, &expected, &found, err);
    free(expected.list);
    free(found.list);
    TRY(status);
    *ret_xyz = NULL;
    return ensemble_walk(rules, path, take_first, ret_xyz, err);
}

struct fitting {
    const struct superposer *s;
    const float *reference;
    enum fitted_format format;
    FILE *out;                        /* NULL: FITTED_NONE */
    struct structure_model moved;     /* all atoms of a structure */
    size_t all_atoms;                 /* of the first */
    float *scratch;                   /* [all_atoms] */
    int begin, end;                   /* structures of the file */
    double *rotations, *translations; /* [N][3][3], [N][3]; NULL: not asked for */
};

static void fitting_clear(struct fitting *f) {
    structure_model_clear(&f->moved);
    mem_free(&f->scratch);
    mem_free(&f->rotations);
    mem_free(&f->translations);
}

static enum status copy_model(struct structure_model *to, const struct structure_model *from, struct err *err) {
    if (to->capacity < from->count) {
        structure_model_clear(to);
        TRY(mem_new(from->count, sizeof *to->atoms, "a structure", &to->atoms, err));
        TRY(mem_new(3 * from->count, sizeof *to->xyz, "a structure", &to->xyz, err));
        to->capacity = from->count;
    }
    to->count = from->count;
    memcpy(to->atoms, from->atoms, from->count * sizeof *to->atoms);
    return STATUS_OK;
}

static enum status put_dcd(struct fitting *f, const char *name, struct err *err) {
    if (f->scratch == NULL) {
        f->all_atoms = f->moved.count;
        TRY(mem_new(f->all_atoms, sizeof *f->scratch, "a frame", &f->scratch, err));
        TRY(structure_dcd_begin(f->out, (size_t)f->s->count, f->all_atoms, err));
    }
    FAIL_IF(
        f->moved.count != f->all_atoms, err, STATUS_BAD_FORMAT,
        "%s: has %zu atoms in all, and the first structure %zu, so that they cannot be frames of one DCD file: choose "
        "superposed: pdb",
        name, f->moved.count, f->all_atoms);
    structure_dcd_frame(f->out, f->moved.xyz, f->all_atoms, f->scratch);
    return STATUS_OK;
}

static enum status put(struct fitting *f, int structure, const struct ensemble_view *view,
                       const struct superpose_fit *fit, const char *name, struct err *err) {
    if (f->format == FITTED_NPY) {
        superpose_apply(fit, view->xyz, f->s->atoms, view->xyz);
        fwrite(view->xyz, sizeof *view->xyz, 3 * view->atoms, f->out);
        return STATUS_OK;
    }
    TRY(copy_model(&f->moved, view->model, err));
    superpose_apply(fit, view->model->xyz, (int)view->model->count, f->moved.xyz);
    if (f->format == FITTED_DCD) return put_dcd(f, name, err);
    enum status status = structure_pdb_write(f->out, &f->moved, structure + 1, err);
    return status == STATUS_OK ? STATUS_OK : err_context(err, status, "%s", name);
}

static enum status fit_one(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                           struct err *err) {
    struct fitting *f = context;
    struct superpose_fit fit;
    int structure = f->begin + ordinal;
    FAIL_IF(structure >= f->end, err, STATUS_BAD_FORMAT,
            "%s: the file holds more structures than when it was read first", name);
    TRY(check_atoms(f->s, view, name, err));
    TRY(superpose_pair(superposer_method(f->s), f->reference, view->xyz, f->s->atoms, f->s->weights, &fit, err));
    if (f->rotations != NULL) {
        memcpy(f->rotations + 9 * (size_t)structure, fit.rotation, sizeof fit.rotation);
        memcpy(f->translations + 3 * (size_t)structure, fit.translation, sizeof fit.translation);
    }
    return f->out != NULL ? put(f, structure, view, &fit, name, err) : STATUS_OK;
}

static enum status fit_all(struct fitting *f, const struct ensemble_rules *rules, struct err *err) {
    for (int i = 0; i < f->s->file_count; i++) {
        const struct superposer_file *file = &f->s->files[i];
        f->begin = file->begin;
        f->end = file->begin + file->count;
        TRY(ensemble_walk(rules, file->path, fit_one, f, err));
    }
    return STATUS_OK;
}

static enum status write_rotations(const struct fitting *f, const char *folder, struct err *err) {
    char path[PATH_SIZE];
    const size_t shape[] = {(size_t)f->s->count, 3, 3};
    TRY(path_join(folder, "rotations.npy", path, sizeof path, err));
    TRY(npy_write(path, NPY_FLOAT64, 3, shape, f->rotations, err));
    TRY(path_join(folder, "translations.npy", path, sizeof path, err));
    return npy_write(path, NPY_FLOAT64, 2, shape, f->translations, err);
}

static enum status write_superposed(struct fitting *f, const struct ensemble_rules *rules, const char *folder,
                                    struct err *err) {
    static const char *const names[] = {"", "superposed.pdb", "superposed.dcd", "superposed.npy"};
    _cleanup_(file_discard) struct file_output *output = NULL;
    char path[PATH_SIZE];
    TRY(path_join(folder, names[f->format], path, sizeof path, err));
    TRY(file_create(path, &output, err));
    f->out = file_output_stream(output);
    const size_t shape[] = {(size_t)f->s->count, (size_t)f->s->atoms, 3};
    if (f->format == FITTED_NPY) npy_header(f->out, NPY_FLOAT32, 3, shape);
    TRY(fit_all(f, rules, err));
    if (f->format == FITTED_PDB) structure_pdb_end(f->out);
    return file_commit(&output, err);
}

enum status fitted_write(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                         const float *reference, enum fitted_format format, bool rotations, struct err *err) {
    _cleanup_(fitting_clear) struct fitting f = {.s = s, .reference = reference, .format = format};
    if (rotations) {
        TRY(mem_new(9 * (size_t)s->count, sizeof *f.rotations, "rotations", &f.rotations, err));
        TRY(mem_new(3 * (size_t)s->count, sizeof *f.translations, "translations", &f.translations, err));
    }
    if (format != FITTED_NONE)
        TRY(write_superposed(&f, rules, folder, err));
    else if (rotations)
        TRY(fit_all(&f, rules, err));
    return rotations ? write_rotations(&f, folder, err) : STATUS_OK;
}
