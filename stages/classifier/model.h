/* Holds the model of a classification: class averages, the sums that they are made from, and the noise.
 *
 * Each class keeps two running sums (kernels/averages), one per half of the particles: their Fourier shell correlation
 * shows how much of the average is reproducible. Sums fade when new batches are added (stepwise EM): `effective` is the
 * number of particles that they stand for. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_MODEL_H
#define ICESTREAM_STAGES_CLASSIFIER_MODEL_H

#include <stdbool.h>

#include "common/fft.h"
#include "common/status.h"
#include "kernels/averages/averages.h"

struct model_class {
    float *map;                              /* box² */
    float *tau2, *ssnr, *fsc, *completeness; /* box/2+1 */
    double weight[2];                        /* Σ posterior of each half, over the particles in the sums */
    /* Filled when classes are judged (quality.h). */
    double members, resolution, evidence, detail, quality;
    bool kept;
};

struct model_options {
    int box, max_size;
    double pixel_size; /* Å/px */
    int whole_box;     /* px, of the particles if their images are cut to `box` (cut.h), and of files; else box, or 0 */
    int class_capacity; /* real classes */
    bool with_empty;    /* one class more, for images that noise alone explains best */
    double mask_radius; /* px */
    double tau_fudge;
    int threads;
};

struct model {
    struct model_options options;
    int class_count; /* in use */
    struct model_class *classes;
    struct averages *averages; /* sums and references of the classes */
    struct average *made;      /* [class_capacity]: space for a list of averages */
    bool placed;               /* averages lie on a device */
    bool empty_active;         /* the empty class takes part: once averages are good enough to compete with it */
    double empty_weight;
    float *sigma2;                                 /* box/2+1: of one real or imaginary part */
    double *sigma2_sum, sigma2_count;              /* power of residuals, by shell; number of particles */
    double *sigma2_lacking;                        /* by shell: those of them whose images end below it */
    double offset_sum, offset_count, sigma_offset; /* px */
    double norm_sum, norm_count, average_norm;
    double norm_median, norm_spread; /* of all particles, robust; spread 0: unknown */
    double effective;
    int size, coarse_size; /* Fourier px of the next comparison */
    int current_shell;     /* resolution that is reached */
    struct fft_plan *forward, *inverse;
    float *spectrum;
};

/* Creates a model with the sizes of the options. */
enum status model_create(const struct model_options *options, struct model **ret_model, struct err *err);
void model_destroy(struct model **model);

/* Returns the options of the averages of such a model, in the host's memory. */
struct averages_options model_averages(const struct model_options *options);
/* Moves the averages to the workspace, unless they are there. Their sums begin anew. */
enum status model_place(struct model *model, struct workspace *workspace, struct err *err);
/* Makes a reference from the map (box²) of a class, low-pass filtered to lowpass_shell (0: unfiltered). */
enum status model_set_map(struct model *model, int index, int lowpass_shell, struct err *err);
/* The sums of a half for noise, priors and weights of classes: all but accumulators. */
struct model_sums {
    double *values;
    size_t room;
};
/* Copies the sums of a half; reuses the memory of `sums`. */
enum status model_copy_sums(struct model *model, int half, struct model_sums *sums, struct err *err);
/* Puts the copied sums back. */
void model_restore_sums(struct model *model, int half, const struct model_sums *sums);
/* Multiplies all sums by a factor before a batch is added (0: begin anew). */
enum status model_fade(struct model *model, double factor, struct err *err);
/* Does the M-step: makes averages, tau2, noise, priors and the next size from the sums. */
enum status model_maximise(struct model *model, struct err *err);
/* Splits class `from`: its first half stays, its second half becomes class `to`. */
enum status model_split(struct model *model, int from, int to, struct err *err);
/* Raises the noise to at least a hundredth of its largest value. Recorded images have no such range. In denoised
 * images, power that leaks from strong low into empty high frequencies would otherwise count as signal. */
void model_floor_noise(struct model *model);
/* Returns the box of the particles, and of averages in files. Rules that count shells by the box mean this one. */
static inline int model_whole_box(const struct model_options *options) {
    return options->whole_box > 0 ? options->whole_box : options->box;
}
/* Returns by how much spectra are smaller on the whole grid, (box / whole box)². */
static inline double model_whole_power(const struct model_options *options) {
    double ratio = 1.0 * options->box / model_whole_box(options);
    return ratio * ratio;
}
double model_fraction(const struct model *model,
                      int index); /* share of the particles; index class_count: the empty class */

#endif
