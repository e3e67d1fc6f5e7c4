/* What a classification knows apart from its particles: class averages with what they are made of, and the noise.
 *
 * Each class keeps two running sums (kernels/averages), one per half of the particles, so that their Fourier shell
 * correlation tells how much of the average is reproducible. Sums fade when new batches are added (stepwise EM):
 * `effective` is how many particles they stand for. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_MODEL_H
#define ICESTREAM_STAGES_CLASSIFIER_MODEL_H

#include <stdbool.h>

#include "common/fft.h"
#include "common/status.h"
#include "kernels/averages/averages.h"

struct model_class {
    float *map;                              /* box² */
    float *tau2, *ssnr, *fsc, *completeness; /* box/2+1 */
    double weight[2];                        /* Σ posterior of each half, over what the sums hold */
    /* Filled when classes are judged (quality.h). */
    double members, resolution, evidence, detail, quality;
    bool kept;
};

struct model_options {
    int box, max_size;
    double pixel_size;  /* Å/px */
    int class_capacity; /* real classes */
    bool with_empty;    /* one class more, of nothing: what no average explains better than noise does */
    double mask_radius; /* px */
    double tau_fudge;
    int threads;
};

struct model {
    struct model_options options;
    int class_count; /* in use */
    struct model_class *classes;
    struct averages *averages; /* sums and references of them */
    struct average *made;      /* [class_capacity]: a list of them */
    bool placed;               /* averages lie on a device */
    bool empty_active;         /* the empty class takes part: once averages are good enough to compete with */
    double empty_weight;
    float *sigma2;                                 /* box/2+1: of one real or imaginary part */
    double *sigma2_sum, sigma2_count;              /* of the power of what no class explains, by shell; of particles */
    double offset_sum, offset_count, sigma_offset; /* px */
    double norm_sum, norm_count, average_norm;
    double norm_median, norm_spread; /* of all particles, robust; spread 0: not known yet */
    double effective;
    int size, coarse_size; /* Fourier px that the next comparison uses */
    int current_shell;     /* the resolution reached */
    struct fft_plan *forward, *inverse;
    float *spectrum;
};

enum status model_create(const struct model_options *options, struct model **ret_model, struct err *err);
void model_destroy(struct model **model);

/* The averages that such a model keeps, in the host's memory. */
struct averages_options model_averages(const struct model_options *options);
/* They move to the workspace, where they are not yet; their sums begin anew. */
enum status model_place(struct model *model, struct workspace *workspace, struct err *err);
/* Makes `map` (box²) class `index`'s reference: low-passed to `lowpass_shell` (0: as it is). */
enum status model_set_map(struct model *model, int index, int lowpass_shell, struct err *err);
/* What the particles of a half give to noise, priors and weights of classes, all that is not an accumulator. */
struct model_sums {
    double *values;
    size_t room;
};
enum status model_copy_sums(struct model *model, int half, struct model_sums *sums, struct err *err);
/* As it was when it was copied. */
void model_restore_sums(struct model *model, int half, const struct model_sums *sums);
/* Before a batch is added: all sums times factor (0: begin anew). */
enum status model_fade(struct model *model, double factor, struct err *err);
/* M-step: averages, tau2, noise, priors and the next size from the sums. */
enum status model_maximise(struct model *model, struct err *err);
/* Class `from` becomes two: itself from its first half, `to` from its second. */
enum status model_split(struct model *model, int from, int to, struct err *err);
/* Noise is nowhere taken for less than a hundredth of its largest value. Recorded images have no such range; in
 * denoised ones what leaks from the strong low frequencies into the empty high ones would pass for signal. */
void model_floor_noise(struct model *model);
double model_fraction(const struct model *model, int index); /* of the particles; index class_count: the empty class */

#endif
