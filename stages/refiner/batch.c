#include "stages/refiner/batch.h"

#include "common/memory.h"

static void release_particles(struct batch *b) {
    b->room = 0;
    mem_free(&b->particles);
    mem_free(&b->results);
    mem_free(&b->powers);
    mem_free(&b->weights);
    mem_free(&b->changes);
    mem_free(&b->taken);
}

enum status batch_reserve(struct batch *b, int count, int shells, int references, struct err *err) {
    if (count <= b->room) return STATUS_OK;
    size_t n = (size_t)count;
    release_particles(b);
    TRY(mem_new(n, sizeof *b->changes, "particles", &b->changes, err));
    TRY(mem_new(n, sizeof *b->taken, "particles", &b->taken, err));
    TRY(mem_new(n, sizeof *b->particles, "particles", &b->particles, err));
    TRY(mem_new(n, sizeof *b->results, "particles", &b->results, err));
    TRY(mem_new(n * (size_t)shells, sizeof *b->powers, "spectra", &b->powers, err));
    TRY(mem_new(n * (size_t)references, sizeof *b->weights, "classes", &b->weights, err));
    for (size_t i = 0; i < n; i++) {
        b->results[i].power = b->powers + i * (size_t)shells;
        b->results[i].reference_weights = b->weights + i * (size_t)references;
    }
    b->room = count;
    return STATUS_OK;
}

enum status batch_references(struct batch *b, int references, struct err *err) {
    size_t n = (size_t)references;
    if (b->projectors != NULL) return STATUS_OK;
    TRY(mem_new(n, sizeof *b->log_shares, "references", &b->log_shares, err));
    TRY(mem_new(n, sizeof(void *), "references", &b->accumulators, err));
    return mem_new(n, sizeof(void *), "references", &b->projectors, err);
}

void batch_release(struct batch *b) {
    release_particles(b);
    sampling_destroy(&b->given);
    mem_free(&b->log_shares);
    mem_free(&b->projectors);
    mem_free(&b->accumulators);
}
