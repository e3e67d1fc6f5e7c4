#include "stages/superposer/ensemble.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/memory.h"

enum status ensemble_rules_topology(struct ensemble_rules *rules, const char *path, struct err *err) {
    rules->topology_path = path;
    return structure_read_first(path, &rules->topology, err);
}

void ensemble_rules_clear(struct ensemble_rules *rules) {
    structure_model_clear(&rules->topology);
}

struct walk {
    struct structure_model model;
    size_t *indices, capacity; /* capacity of indices and xyz, in atoms */
    float *xyz;
};

static void walk_clear(struct walk *walk) {
    structure_model_clear(&walk->model);
    mem_free(&walk->indices);
    mem_free(&walk->xyz);
}

static enum status walk_room(struct walk *walk, size_t atoms, struct err *err) {
    if (walk->capacity >= atoms) return STATUS_OK;
    mem_free(&walk->indices);
    mem_free(&walk->xyz);
    walk->capacity = 0;
    TRY(mem_new_unset(atoms, sizeof *walk->indices, "selected atoms", &walk->indices, err));
    TRY(mem_new_unset(3 * atoms, sizeof *walk->xyz, "selected atoms", &walk->xyz, err));
    walk->capacity = atoms;
    return STATUS_OK;
}

enum status ensemble_walk(const struct ensemble_rules *rules, const char *path, ensemble_visit *visit, void *context,
                          struct err *err) {
    _cleanup_(structure_close) struct structure_reader *reader = NULL;
    _cleanup_(walk_clear) struct walk walk = {0};
    const struct structure_model *topology = rules->topology_path != NULL ? &rules->topology : NULL;
    size_t atoms = 0;
    TRY(structure_open(path, topology, &reader, err));
    for (int ordinal = 0;; ordinal++) {
        char name[PATH_SIZE + 32];
        bool found;
        TRY(structure_next(reader, &walk.model, &found, err));
        if (!found) return STATUS_OK;
        FAIL_IF(ordinal == INT_MAX, err, STATUS_UNSUPPORTED, "%s: holds too many structures", path);
        snprintf(name, sizeof name, "%s (structure %d)", path, walk.model.number);
        /* All frames of a trajectory have the topology's atoms. */
        if (ordinal == 0 || structure_reader_format(reader) != STRUCTURE_DCD) {
            TRY(walk_room(&walk, walk.model.count, err));
            TRY(structure_select(&walk.model, &rules->selection, name, walk.indices, &atoms, err));
        }
        TRY(structure_take(&walk.model, walk.indices, atoms, name, walk.xyz, err));
        struct ensemble_view view = {&walk.model, walk.indices, atoms, walk.xyz, structure_reader_count(reader)};
        enum status status = visit(ordinal, &view, name, context, err);
        if (status == STATUS_CANCELLED) return STATUS_OK; /* seen enough */
        TRY(status);
    }
}

void ensemble_batch_destroy(struct ensemble_batch **batch) {
    if (*batch == NULL) return;
    free((*batch)->path);
    free((*batch)->name);
    free((*batch)->identities);
    free((*batch)->weights);
    free((*batch)->numbers);
    free((*batch)->xyz);
    free(*batch);
    *batch = NULL;
}

static enum status set_weights(const struct ensemble_view *view, enum ensemble_weights kind, const char *name,
                               float *weights, struct err *err) {
    double sum = 0;
    for (size_t i = 0; i < view->atoms; i++) {
        const struct structure_atom *atom = &view->model->atoms[view->indices[i]];
        char text[64];
        weights[i] = kind == WEIGHTS_MASS        ? structure_mass(atom->element)
                     : kind == WEIGHTS_OCCUPANCY ? atom->occupancy
                                                 : atom->b_factor;
        FAIL_IF(kind == WEIGHTS_MASS && !(weights[i] > 0), err, STATUS_BAD_FORMAT,
                "%s: the mass of %s is not known, whose element is '%s': mend the element's column, or choose other "
                "weights",
                name, structure_describe(&atom->id, text), atom->element);
        FAIL_IF(!(weights[i] >= 0 && weights[i] <= 1e6F), err, STATUS_BAD_FORMAT,
                "%s: the weight of %s is %g: 0 or more was expected", name, structure_describe(&atom->id, text),
                (double)weights[i]);
        sum += (double)weights[i];
    }
    FAIL_IF(!(sum > 0), err, STATUS_BAD_FORMAT, "%s: all atoms have the weight 0", name);
    return STATUS_OK;
}

static enum status set_identities(const struct ensemble_view *view, struct structure_identity *identities) {
    for (size_t i = 0; i < view->atoms; i++)
        identities[i] = view->model->atoms[view->indices[i]].id;
    return STATUS_OK;
}

struct reading {
    const struct ensemble_rules *rules;
    struct ensemble_batch *batch;
    struct structure_identity *scratch;
    size_t scratch_capacity;
    bool rising;
};

static enum status begin_batch(struct reading *reading, const struct ensemble_view *view, const char *name,
                               struct err *err) {
    struct ensemble_batch *batch = reading->batch;
    batch->atoms = view->atoms;
    TRY(mem_new(view->atoms, sizeof *batch->identities, "names of atoms", &batch->identities, err));
    set_identities(view, batch->identities);
    if (reading->rules->weights == WEIGHTS_NONE) return STATUS_OK;
    TRY(mem_new(view->atoms, sizeof *batch->weights, "weights of atoms", &batch->weights, err));
    return set_weights(view, reading->rules->weights, name, batch->weights, err);
}

static enum status compare(struct reading *reading, const struct ensemble_view *view, const char *name,
                           struct err *err) {
    struct ensemble_batch *batch = reading->batch;
    char first[PATH_SIZE + 32];
    if (reading->scratch_capacity < view->atoms) {
        mem_free(&reading->scratch);
        TRY(mem_new(view->atoms, sizeof *reading->scratch, "names of atoms", &reading->scratch, err));
        reading->scratch_capacity = view->atoms;
    }
    set_identities(view, reading->scratch);
    snprintf(first, sizeof first, "structure %d", batch->numbers[0]);
    return structure_same(batch->identities, batch->atoms, first, reading->scratch, view->atoms, name, err);
}

static enum status grow(struct ensemble_batch *batch, int64_t expected, struct err *err) {
    if (batch->count < batch->capacity) return STATUS_OK;
    int capacity = batch->capacity == 0 ? 1 : batch->capacity < INT_MAX / 2 ? 2 * batch->capacity : INT_MAX;
    if (expected > batch->count && expected <= INT_MAX) capacity = (int)expected;
    int *numbers = realloc(batch->numbers, (size_t)capacity * sizeof *numbers);
    if (numbers != NULL) batch->numbers = numbers;
    float *xyz = numbers != NULL ? realloc(batch->xyz, (size_t)capacity * batch->atoms * 3 * sizeof *xyz) : NULL;
    FAIL_IF(xyz == NULL, err, STATUS_NO_MEMORY, "no memory for %d structures of %zu atoms", capacity, batch->atoms);
    batch->xyz = xyz;
    batch->capacity = capacity;
    return STATUS_OK;
}

static enum status add_structure(int ordinal, const struct ensemble_view *view, const char *name, void *context,
                                 struct err *err) {
    struct reading *reading = context;
    struct ensemble_batch *batch = reading->batch;
    if (ordinal == 0)
        TRY(begin_batch(reading, view, name, err));
    else
        TRY(compare(reading, view, name, err));
    TRY(grow(batch, view->expected, err));
    memcpy(batch->xyz + (size_t)batch->count * batch->atoms * 3, view->xyz, 3 * batch->atoms * sizeof *view->xyz);
    batch->numbers[batch->count] = view->model->number;
    reading->rising = reading->rising && (ordinal == 0 || batch->numbers[ordinal] > batch->numbers[ordinal - 1]);
    batch->count++;
    return STATUS_OK;
}

enum status ensemble_batch_read(const struct ensemble_rules *rules, const char *path, const char *name,
                                struct ensemble_batch **ret_batch, struct err *err) {
    _cleanup_(ensemble_batch_destroy) struct ensemble_batch *batch = calloc(1, sizeof *batch);
    FAIL_IF(batch == NULL, err, STATUS_NO_MEMORY, "no memory for a structure");
    batch->path = strdup(path);
    batch->name = strdup(name);
    FAIL_IF(batch->path == NULL || batch->name == NULL, err, STATUS_NO_MEMORY, "no memory for a structure");
    struct reading reading = {.rules = rules, .batch = batch, .rising = true};
    enum status status = ensemble_walk(rules, path, add_structure, &reading, err);
    mem_free(&reading.scratch);
    TRY(status);
    for (int i = 0; !reading.rising && i < batch->count; i++)
        batch->numbers[i] = i + 1;
    *ret_batch = batch;
    batch = NULL;
    return STATUS_OK;
}

struct ensemble {
    pthread_mutex_t mutex;
    struct ensemble_batch *first, **last;
    struct structure_identity *identities; /* the atoms that every file must have; NULL: no file yet */
    size_t atoms;
    char *name; /* the file they come from */
};

/* Settles the atoms once, from the first file. */
static enum status settle(struct ensemble *ensemble, const struct structure_identity *identities, size_t atoms,
                          const char *name, struct err *err) {
    struct structure_identity *copy = NULL;
    TRY(mem_new(atoms, sizeof *copy, "names of atoms", &copy, err));
    memcpy(copy, identities, atoms * sizeof *copy);
    ensemble->name = strdup(name);
    if (ensemble->name == NULL) {
        mem_free(&copy);
        FAIL(err, STATUS_NO_MEMORY, "no memory for the name %s", name);
    }
    ensemble->identities = copy;
    ensemble->atoms = atoms;
    return STATUS_OK;
}

static enum status settle_topology(struct ensemble *ensemble, const struct ensemble_rules *rules, struct err *err) {
    _cleanup_(mem_free) size_t *indices = NULL;
    _cleanup_(mem_free) struct structure_identity *identities = NULL;
    const struct structure_model *topology = &rules->topology;
    size_t atoms;
    TRY(mem_new(topology->count, sizeof *indices, "selected atoms", &indices, err));
    TRY(structure_select(topology, &rules->selection, rules->topology_path, indices, &atoms, err));
    TRY(mem_new(atoms, sizeof *identities, "names of atoms", &identities, err));
    struct ensemble_view view = {.model = topology, .indices = indices, .atoms = atoms};
    set_identities(&view, identities);
    return settle(ensemble, identities, atoms, rules->topology_path, err);
}

enum status ensemble_create(const struct ensemble_rules *rules, struct ensemble **ret_ensemble, struct err *err) {
    _cleanup_(ensemble_destroy) struct ensemble *ensemble = calloc(1, sizeof *ensemble);
    FAIL_IF(ensemble == NULL, err, STATUS_NO_MEMORY, "no memory for an ensemble");
    ensemble->last = &ensemble->first;
    int refused = pthread_mutex_init(&ensemble->mutex, NULL);
    if (refused != 0) {
        free(ensemble);
        ensemble = NULL;
        FAIL(err, STATUS_NO_MEMORY, "no lock for an ensemble: %s", strerror(refused));
    }
    if (rules->topology_path != NULL) TRY(settle_topology(ensemble, rules, err));
    *ret_ensemble = ensemble;
    ensemble = NULL;
    return STATUS_OK;
}

void ensemble_destroy(struct ensemble **ensemble) {
    if (*ensemble == NULL) return;
    for (struct ensemble_batch *batch; (batch = ensemble_next(*ensemble)) != NULL;)
        ensemble_batch_destroy(&batch);
    pthread_mutex_destroy(&(*ensemble)->mutex);
    free((*ensemble)->identities);
    free((*ensemble)->name);
    free(*ensemble);
    *ensemble = NULL;
}

static enum status submit(struct ensemble *ensemble, struct ensemble_batch **batch, struct err *err) {
    struct ensemble_batch *own = *batch;
    if (ensemble->identities == NULL)
        TRY(settle(ensemble, own->identities, own->atoms, own->path, err));
    else
        TRY(structure_same(ensemble->identities, ensemble->atoms, ensemble->name, own->identities, own->atoms,
                           own->path, err));
    *ensemble->last = own;
    ensemble->last = &own->next;
    *batch = NULL;
    return STATUS_OK;
}

enum status ensemble_submit(struct ensemble *ensemble, struct ensemble_batch **batch, struct err *err) {
    pthread_mutex_lock(&ensemble->mutex);
    enum status status = submit(ensemble, batch, err);
    pthread_mutex_unlock(&ensemble->mutex);
    return status;
}

struct ensemble_batch *ensemble_next(struct ensemble *ensemble) {
    pthread_mutex_lock(&ensemble->mutex);
    struct ensemble_batch *batch = ensemble->first;
    if (batch != NULL) {
        ensemble->first = batch->next;
        if (ensemble->first == NULL) ensemble->last = &ensemble->first;
        batch->next = NULL;
    }
    pthread_mutex_unlock(&ensemble->mutex);
    return batch;
}

void ensemble_put_back(struct ensemble *ensemble, struct ensemble_batch *batch) {
    pthread_mutex_lock(&ensemble->mutex);
    batch->next = ensemble->first;
    if (ensemble->first == NULL) ensemble->last = &batch->next;
    ensemble->first = batch;
    pthread_mutex_unlock(&ensemble->mutex);
}
