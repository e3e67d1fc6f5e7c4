/* Compares a batch of particles with all classes (kernels/alignment) and sums what the next averages are made from.
 * Begin a batch, run its particles, one half after the other, and end the batch. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_ESTEP_H
#define ICESTREAM_STAGES_CLASSIFIER_ESTEP_H

#include "common/device.h"
#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

struct estep_options {
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* px */
    struct device device;
    double memory; /* bytes for comparing, of the device or of the host; 0: as kernels/alignment finds */
    int threads;
};

struct estep;
enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err);
void estep_destroy(struct estep **estep);

/* Returns the half that a particle belongs to: 0 or 1. */
static inline int estep_half(size_t particle) {
    return (int)(particle & 1);
}

/* Returns how many bytes of a device's memory images may occupy: a quarter of what the sums and references of all
 * classes, at their largest size, leave free. */
size_t estep_image_bytes(double memory, const struct model *model);
/* Call before a batch that starts from empty sums. Moves the averages to the device that compares particles, if they
 * fit; they stay there. */
enum status estep_place(struct estep *estep, struct model *model, struct err *err);

/* Begins a batch and drops one that was not ended. The model must not change until estep_end. jitter (-0.5 .. 0.5)
 * moves the grids of angles and shifts by that part of a step. */
enum status estep_begin(struct estep *estep, const struct model *model, double jitter, struct err *err);

struct estep_result {
    double changed; /* number of particles that changed class */
    double probability_sum;
};

/* Compares the next particles of which[count], count >= 1: as many as fit one batch, all from the half of the first.
 * Updates them and adds them to the model's sums. */
enum status estep_run(struct estep *estep, struct model *model, struct dataset *dataset, const size_t *which,
                      size_t count, struct estep_result *result, size_t *ret_done, struct err *err);
/* Call after estep_run has failed. Returns how many particles before these must be added again, because the sums of
 * their half were reset. 0: none of these was added, for example because an image could not be read. */
size_t estep_lost(struct estep *estep);
enum status estep_end(struct estep *estep, struct model *model, struct err *err);
/* Seconds for which the device has worked so far; 0 for the CPU. */
enum status estep_device_seconds(struct estep *estep, double *ret_seconds, struct err *err);

#endif
