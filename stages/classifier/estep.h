/* A batch of particles against all classes (kernels/alignment), and the sums that the next averages are made of. A batch
 * is begun, particles are added, all of one half before those of the other, and it is ended. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_ESTEP_H
#define ICESTREAM_STAGES_CLASSIFIER_ESTEP_H

#include "common/device.h"
#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

struct estep_options {
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* px */
    struct device device;
    double memory; /* bytes to compare in, of the device, or of the host; 0: as kernels/alignment finds */
    int threads;
};

struct estep;
enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err);
void estep_destroy(struct estep **estep);

/* Averages in every half are told apart by this. */
static inline int estep_half(size_t particle) {
    return (int)(particle & 1);
}

/* Bytes of a device's memory that images may stay in: a quarter of what sums and references of all classes, at their
 * largest, leave of it. */
size_t estep_image_bytes(double memory, const struct model *model);
/* Before a batch before which all sums are given up: the model's averages go where particles are compared, if there is
 * room, and stay there. */
enum status estep_place(struct estep *estep, struct model *model, struct err *err);

/* A batch with the model as it is, which must not change until estep_end; `jitter` (-0.5 .. 0.5) moves the grids of
 * angles and shifts by that part of a step. A batch that was not ended is given up. */
enum status estep_begin(struct estep *estep, const struct model *model, double jitter, struct err *err);

struct estep_result {
    double changed; /* how many went to another class than before */
    double probability_sum;
};

/* As many of which[count], count >= 1, as are compared at a time and are of the first one's half: updates them and adds
 * them to the model's sums. */
enum status estep_run(struct estep *estep, struct model *model, struct dataset *dataset, const size_t *which,
                      size_t count, struct estep_result *result, size_t *ret_done, struct err *err);
/* After estep_run has failed: how many particles before these are to be added again, because what they gave is lost with
 * what these may have given. 0 where nothing of these was added, as where an image could not be read. */
size_t estep_lost(struct estep *estep);
enum status estep_end(struct estep *estep, struct model *model, struct err *err);
/* s that the device has been at work so far; of the CPU 0. */
enum status estep_device_seconds(struct estep *estep, double *ret_seconds, struct err *err);

#endif
