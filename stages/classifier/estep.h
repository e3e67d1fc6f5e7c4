/* Compares a batch of particles with all classes (kernels/alignment) and adds the particles to the sums of the next
 * averages. Calls for a batch: estep_begin, estep_run for all particles of one half, estep_run for all particles of the
 * other half, estep_end. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_ESTEP_H
#define ICESTREAM_STAGES_CLASSIFIER_ESTEP_H

#include "common/device.h"
#include "kernels/alignment/alignment.h"
#include "stages/classifier/dataset.h"
#include "stages/classifier/model.h"

struct estep_options {
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* px */
    struct device device;
    struct device devices[ALIGNMENT_DEVICES_MOST]; /* that share the particles, the first of them `device` */
    int device_count;                              /* 0: `device` alone */
    double memory; /* bytes for the comparison, of each device or of the host; 0: kernels/alignment decides */
    int threads;
};

struct estep;
/* Creates an E-step for the sizes of the model. */
enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err);
void estep_destroy(struct estep **estep);

/* Returns the half (0 or 1) of a particle. particle: index into the dataset. */
static inline int estep_half(size_t particle) {
    return (int)(particle & 1);
}

/* Returns the number of chunks of a half of which a batch holds `count` particles: a power of two, so that a chunk has
 * 512 particles at most, on average. */
size_t estep_chunks(size_t count);
/* Returns the chunk of a particle, from 0 on. A device compares all particles of a chunk. On CUDA devices the sums
 * follow from the chunks, and the particles of a half must come in their order. */
size_t estep_chunk(size_t particle, size_t chunks);

/* Returns the last shell in which the image of a particle has the noise of others (regrid_last_shell). */
int estep_last_shell(const struct model *model, const struct dataset_particle *particle);

/* Returns how many bytes particle images may occupy in a device's memory. That is a quarter of the bytes that remain of
 * `memory` after the sums and references of all classes at their largest size. */
size_t estep_image_bytes(double memory, const struct model *model);
/* Moves the averages for good to the device that compares particles. The averages stay in host memory if they do not
 * fit, or on the CPU. Call it before a batch that starts from empty sums. */
enum status estep_place(struct estep *estep, struct model *model, struct err *err);

/* Begins a batch. Drops a batch that was not ended. The model must not change until estep_end. jitter: part of a step
 * (−0.5 .. 0.5) by which the grids of angles and shifts are moved. */
enum status estep_begin(struct estep *estep, const struct model *model, double jitter, struct err *err);

struct estep_result {
    double changed;         /* number of particles that changed class */
    double probability_sum; /* over particles: probability of the likeliest pose, or of the empty class if chosen */
};

/* Compares the first particles of which[count] (indices into the dataset), count ≥ 1: all of one half, and as many as
 * fit the memory. Updates these particles, adds them to the model's sums and adds to *result. *ret_done: how many
 * particles were compared; call again with the others. */
enum status estep_run(struct estep *estep, struct model *model, struct dataset *dataset, const size_t *which,
                      size_t count, struct estep_result *result, size_t *ret_done, struct err *err);
/* Call after estep_run has failed. Returns how many particles of earlier calls must be added again, because the failure
 * reset the sums and the result of their half. 0: no sums were reset, for example if an image could not be read. */
size_t estep_lost(struct estep *estep);
/* Returns whether the device that would compare a particle keeps its image, which need not be read then. */
bool estep_keeps(const struct estep *estep, size_t particle);
/* Call between batches when images have other values than before: a device reads them again. */
void estep_forget_images(struct estep *estep);
/* Ends the batch: completes the sums of its last half. */
enum status estep_end(struct estep *estep, struct model *model, struct err *err);
/* Returns how many seconds the device has worked so far; 0 for the CPU. */
enum status estep_device_seconds(struct estep *estep, double *ret_seconds, struct err *err);

#endif
