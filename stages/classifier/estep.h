/* One batch of particles against all classes: posterior over class, in-plane angle and shift in two passes (99.9 %
 * rule), and the sums that the next averages are made of. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_ESTEP_H
#define ICESTREAM_STAGES_CLASSIFIER_ESTEP_H

#include "dataset.h"
#include "model.h"

enum { ESTEP_CHUNK = 48 }; /* particles at a time */

struct estep_options {
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* px */
    double adaptive_fraction;         /* 0.999 */
    int threads;
};

struct estep;
enum status estep_create(const struct estep_options *options, const struct model *model, struct estep **ret_estep,
                         struct err *err);
void estep_destroy(struct estep **estep);

/* Grids and slices for the model as it is; `jitter` (-0.5 .. 0.5) moves both grids by that part of a step. */
enum status estep_begin(struct estep *estep, const struct model *model, double jitter, struct err *err);

struct estep_result {
    double changed; /* how many went to another class than before */
    double probability_sum;
};

/* At most ESTEP_CHUNK particles: updates them and adds them to the model's sums. */
enum status estep_run(struct estep *estep, struct model *model, struct dataset *dataset, const size_t *which, int count,
                      struct estep_result *result, struct err *err);

/* Without references: each particle goes to class (position % class_count) at a random angle. Fills the noise spectrum
 * when `noise` is set; call for all seeds first with noise = true, then with false. */
enum status estep_seed(struct estep *estep, struct model *model, struct dataset *dataset, const size_t *which,
                       size_t count, bool noise, unsigned seed, struct err *err);

#endif
