#include "kernels/superpose/superpose.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/superpose/superpose_private.h"

struct superpose {
    struct superpose_options options;
    int count;
    float *roots;
    double total;
    const struct superpose_work *work; /* for the kind of device */
    void *state;                       /* of the work */
};

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct superpose_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &superpose_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &superpose_cuda_work;
#else
    return NULL;
#endif
}

enum status superpose_most_weight(const float *weights, int atoms, float *ret_most, struct err *err) {
    FAIL_IF(atoms < 1, err, STATUS_BAD_ARGUMENT, "no atoms are selected: structures of %d atoms cannot be superposed",
            atoms);
    float most = weights ? 0 : 1;
    for (int k = 0; weights && k < atoms; k++) {
        FAIL_IF(!(weights[k] >= 0) || isinf(weights[k]), err, STATUS_BAD_ARGUMENT,
                "the weight of atom %d is %g; weights are numbers of 0 or more", k + 1, (double)weights[k]);
        most = fmaxf(most, weights[k]);
    }
    FAIL_IF(most == 0, err, STATUS_BAD_ARGUMENT, "the weights of all %d atoms are 0: at least one must be more", atoms);
    *ret_most = most;
    return STATUS_OK;
}

/* Computes √(w / the largest w) [atoms], and the sum of their squares. */
static enum status make_roots(struct superpose *s, struct err *err) {
    const float *weights = s->options.weights;
    float most = 0;
    TRY(superpose_most_weight(weights, s->options.atoms, &most, err));
    TRY(mem_new((size_t)s->options.atoms, sizeof *s->roots, "weights", &s->roots, err));
    for (int k = 0; k < s->options.atoms; k++) {
        s->roots[k] = weights ? sqrtf(weights[k] / most) : 1;
        s->total += (double)s->roots[k] * s->roots[k];
    }
    s->options.weights = NULL;
    return STATUS_OK;
}

enum status superpose_bad_coordinate(const float *xyz, int64_t structure, int at, struct err *err) {
    FAIL(err, STATUS_BAD_ARGUMENT,
         "atom %d of structure %lld stands at (%g, %g, %g) Å; coordinates must be finite numbers within 1 mm of the "
         "origin: leave the structure out or mend it",
         at + 1, (long long)structure + 1, (double)xyz[0], (double)xyz[1], (double)xyz[2]);
}

static enum status build(struct superpose *s, enum superpose_product product, struct err *err) {
    TRY(make_roots(s, err));
    s->work = work_on(&s->options.device);
    FAIL_IF(s->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: structures can be superposed on the CPU only");
    return s->work->create(&s->options, product, s->roots, s->total, &s->state, err);
}

enum status superpose_create_as(const struct superpose_options *options, enum superpose_product product,
                                struct superpose **ret_superpose, struct err *err) {
    struct superpose *s = NULL;
    TRY(mem_new(1, sizeof *s, "an ensemble", &s, err));
    s->options = *options;
    if (s->options.threads < 1) s->options.threads = 1;
    enum status status = build(s, product, err);
    if (status != STATUS_OK) {
        superpose_destroy(&s);
        return status;
    }
    *ret_superpose = s;
    return STATUS_OK;
}

enum status superpose_create(const struct superpose_options *options, struct superpose **ret_superpose,
                             struct err *err) {
    return superpose_create_as(options, SUPERPOSE_BEST, ret_superpose, err);
}

void superpose_destroy(struct superpose **superpose) {
    if (!*superpose) return;
    if ((*superpose)->state) (*superpose)->work->destroy((*superpose)->state);
    mem_free(&(*superpose)->roots);
    mem_free(superpose);
}

int superpose_count(const struct superpose *superpose) {
    return superpose->count;
}

void *superpose_state(struct superpose *superpose) {
    return superpose->state;
}

enum status superpose_add(struct superpose *superpose, const float *xyz, int count, struct err *err) {
    /* Room for whole tiles. */
    FAIL_IF(count < 0 || superpose->count > INT32_MAX - 64 - count, err, STATUS_BAD_ARGUMENT,
            "%d structures cannot be added to %d", count, superpose->count);
    if (count == 0) return STATUS_OK;
    TRY(superpose->work->add(superpose->state, xyz, count, err));
    superpose->count += count;
    return STATUS_OK;
}

enum status superpose_matrix(struct superpose *superpose, float *ret_rmsd, struct err *err) {
    if (superpose->count < 2) return STATUS_OK;
    return superpose->work->matrix(superpose->state, ret_rmsd, err);
}

enum status superpose_row(struct superpose *superpose, int index, float *ret_rmsd, struct err *err) {
    FAIL_IF(index < 0 || index >= superpose->count, err, STATUS_BAD_ARGUMENT, "there is no structure %d among %d",
            index + 1, superpose->count);
    if (index == 0) return STATUS_OK;
    return superpose->work->row(superpose->state, index, ret_rmsd, err);
}

enum status superpose_to_reference(struct superpose *superpose, const float *reference, float *ret_rmsd,
                                   struct err *err) {
    if (superpose->count == 0) return STATUS_OK;
    return superpose->work->to_reference(superpose->state, reference, ret_rmsd, err);
}

static enum status find_neighbours(struct superpose *s, float cutoff, size_t limit, struct superpose_neighbours *n,
                                   struct err *err) {
    TRY(superpose_neighbours_begin(n, s->count, err));
    if (s->count < 2) return STATUS_OK;
    return s->work->neighbours(s->state, cutoff, limit, n, err);
}

enum status superpose_neighbours(struct superpose *superpose, float cutoff, size_t limit,
                                 struct superpose_neighbours *neighbours, struct err *err) {
    FAIL_IF(!(cutoff > 0), err, STATUS_BAD_ARGUMENT, "the cut-off is %g Å; it must be more than 0", (double)cutoff);
    enum status status = find_neighbours(superpose, cutoff, limit, neighbours, err);
    if (status != STATUS_OK) superpose_neighbours_clear(neighbours);
    return status;
}
