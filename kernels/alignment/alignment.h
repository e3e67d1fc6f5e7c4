/* The E-step as a whole: particles compared with references at the poses of a grid, their probabilities, and the sums
 * that the M-step needs. 2-D classes and 3-D references alike, on the CPU or on a CUDA device. Source: Scheres 2012;
 * what is computed: kernels/expectation/expectation.h.
 *
 * Two passes. Coarse: every orientation of the grid × every shift × every reference (or, `local`, those near the
 * particle's last pose), over the first coarse_pixels of the list; the samples that hold 99.9 % of the probability are
 * kept. Fine: the children of these, over all pixels; those that hold 99.9 % contribute.
 *
 * Both devices give the same poses and weights but for rounding. Results do not depend on the number of threads and, on
 * one device, repeat bit for bit. */
#ifndef ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_H
#define ICESTREAM_KERNELS_ALIGNMENT_ALIGNMENT_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/arena.h"
#include "common/device.h"
#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/fourier/pixels.h"
#include "kernels/fourier/workspace.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/sampling/sampling.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The norm of paper 001's diff: its formula and its text differ. The square changes twice as much where little does. */
enum alignment_norm {
    ALIGNMENT_NORM_NONE, /* all images weigh alike */
    ALIGNMENT_NORM_L2,   /* √Σ |X − c P|² */
    ALIGNMENT_NORM_L2SQ, /* Σ |X − c P|² */
};

struct alignment_options {
    struct device device;
    int threads; /* CPU */
    /* Bytes that may be used, of the device where it is one, beside libraries' own. 0: of a CUDA device what is free
     * when the alignment is created, less 1 GiB or a quarter of it for libraries; on the CPU 4 GiB. */
    double memory;
    int box;                         /* px; shells are 0 .. box/2 */
    double pixel_size;               /* Å */
    double mask_radius;              /* px; edge 5 px */
    int max_significant;             /* coarse samples of a particle whose children are compared: the best, so many at
                                      * most but for ties with the last. 2^25 or less */
    enum alignment_norm reliability; /* what an image gives to the map is weighed by how its residual has changed */
};

/* Weight of an image in the map (paper 001): 1 where nothing is known of it, more where its fit grows better. before,
 * now: residuals √Σ |X − c P|² at the best pose, over the same shells; before < 0: not known. */
static inline double alignment_reliability(enum alignment_norm norm, double before, double now) {
    if (norm == ALIGNMENT_NORM_NONE || !(before >= 0 && now > 0)) return 1;
    double ratio = before / now, change = (norm == ALIGNMENT_NORM_L2SQ ? ratio * ratio : ratio) - 1;
    return 0.75 + 0.5 / (1 + exp(-change));
}

struct alignment; /* memory and plans, kept from iteration to iteration */
enum status alignment_create(const struct alignment_options *options, struct alignment **ret_alignment,
                             struct err *err);
void alignment_destroy(struct alignment **alignment);

enum { ALIGNMENT_REFERENCES_MOST = 256 }; /* on a CUDA device */

/* What is the same for all particles of an iteration (of one half). It stays valid until alignment_finish. */
struct alignment_iteration {
    const struct fourier_pixels *pixels; /* of the fine pass */
    int coarse_pixels;
    const struct sampling *sampling; /* perturbed */
    bool local;                      /* only near each particle's pose: sampling_near with sigma = its angle step */
    bool oversampled;                /* else the fine pass compares the coarse samples themselves */
    int particle_count;              /* that will be added, at most; 0 to 10^6: sums have room for so many */
    int reference_count;
    struct projector *const *references; /* their maps set for pixels->size */
    struct accumulator *const *sums;     /* of each reference; cleared for pixels->size */
    bool add_to; /* sums are those of the workspace, of at least that size, and hold something: alignment_finish adds to
                  * them, and nothing does before */
    const float *reference_log_prior; /* [reference_count], or NULL: all alike */
    double sigma_offset;              /* px: of the prior of shifts about 0 */
    bool doubtful;                    /* images may show nothing, or what should not count: see the particle */
    const float *sigma2;              /* [optics groups][box/2 + 1] */
    int optics_count;
    /* The last shell that references share with those of an independent half: images are masked in two bands, up to it
     * and beyond it (kernels/prepare). 0: one band. */
    int shared_shell;
};

/* Bytes that may be used: options.memory, or what was found for it. */
double alignment_memory(const struct alignment *alignment);

/* Memory of the device, for references and sums that are kept there: the E-step then takes and adds to them where they
 * are. It is what alignment_memory leaves to all of this together. NULL: the CPU does it. Lives as long as the
 * alignment. */
struct workspace *alignment_workspace(const struct alignment *alignment);

/* Between iterations, before memory of the workspace is taken: images with numbers up to `count` stay on the device once
 * they have been brought, as many as take most_bytes of its memory, for as long as the alignment lives. A number then
 * means one image for good: where it is kept already, that image is not looked at again. Only more of them have an
 * effect. On the CPU nothing is kept. */
enum status alignment_keep_images(struct alignment *alignment, int count, size_t most_bytes, struct err *err);

/* Whether so many orientations of each reference are poses that an E-step can number; one that is `local` can then
 * search them, one of the whole grid may still find its samples too many (STATUS_UNSUPPORTED of alignment_begin). */
bool alignment_can_number(double orientations, int references);

/* Plans memory; an iteration that was not finished is given up. STATUS_NO_MEMORY where the least that the iteration
 * needs is more than may be used; the message says how much that is. On the CPU references and sums, which are the
 * caller's, come on top; those of the workspace are part of it. Of references in the host's memory a device takes copies,
 * to sums there it copies what it has added. */
enum status alignment_begin(struct alignment *alignment, const struct alignment_iteration *iteration, struct err *err);
/* How many particles alignment_add takes at a time. */
int alignment_batch(const struct alignment *alignment);

struct alignment_particle {
    const float *image;    /* box² */
    const struct ctf *ctf; /* NULL: 1 */
    int optics;
    int shift[2];    /* px: applied first; shifts of the grid are relative to it */
    double scale;    /* multiplies the image (average norm / norm) */
    double pose[9];  /* local: where to look */
    double residual; /* of the last iteration (results' residual), up to known_shell; < 0: not known */
    int known_shell;
    int number; /* of the image, from 1 on, by which a device knows it again (alignment_keep_images); 0: it does not */
    /* doubtful: the log prior of there being nothing in the image, on the scale of those of poses (alignment_log_poses);
     * and where norm_sum must lie for the image to give anything to sums. */
    double nothing, norm_least, norm_most;
};

/* ln of the sum over all poses of a reference of their prior, which is not normalised, for a particle whose own shift is
 * this. An E-step that is not `local`. */
double alignment_log_poses(const struct alignment_iteration *iteration, const int shift[2]);

struct alignment_result {
    double pose[9], shift[2]; /* of the most probable sample; shift in px with the particle's own */
    int reference;
    int significant; /* coarse samples that hold 99.9 % */
    double pmax;     /* its probability */
    double log_likelihood;
    double evidence;    /* ln Σ over poses of prior · likelihood, over the likelihood of an image of nothing */
    double nothing;     /* doubtful: probability that there is nothing in it. Weights of poses sum to what is left */
    bool left_out;      /* doubtful: norm_sum is out of bounds, nothing contributes */
    double weight_sum;  /* Σ w of what contributes: about 0.999 (1 − nothing) */
    double offset2;     /* Σ w |shift|², px² */
    double norm_sum;    /* Σ w |c P − X|² over the half plane, and |X|² beyond the current size */
    double reliability; /* what the image gave to the map was multiplied by it */
    double residual;    /* with options.reliability: √Σ |c P − X|² at the best pose, up to the current size */
    float *power; /* [box/2 + 1], the caller's: per shell mean Σ w |c P − X|²/2, |X|²/2 beyond; P = 0 counts with
                         * the weight of nothing */
    float *reference_weights; /* [reference_count], the caller's, or NULL: Σ w of each, of all that contributes */
};

/* How well particles fit the first reference at any grey scale, over all orientations and shifts of the coarse grid:
 * D = Σ Re(P conj cX)/σ² and N = Σ c²|P|²/σ² of each, at the pose where D²/N is largest, are added to *dots and *norms;
 * the scale that fits best is ΣD/ΣN. ret_mean: N/2 of the first particle, mean over orientations; without dots and
 * norms (NULL) only that is computed. An E-step that is not `local`. */
enum status alignment_scale(struct alignment *alignment, const struct alignment_particle *particles, int count,
                            double *ret_mean, double *dots, double *norms, struct err *err);

/* Adds `count` particles to the sums; results in the order of particles, which is also the order of the sums. */
enum status alignment_add(struct alignment *alignment, const struct alignment_particle *particles, int count,
                          struct alignment_result *results, struct err *err);
/* The accumulators hold everything when it returns. */
enum status alignment_finish(struct alignment *alignment, struct err *err);
/* s that the device has been at work on E-steps so far, by its own clock; of the CPU 0. */
enum status alignment_device_seconds(struct alignment *alignment, double *ret_seconds, struct err *err);

/* What becomes of a device's memory (arena_trace, common/arena.h), from now on: steps[capacity] are the caller's; NULL
 * ends it. On the CPU there is nothing to see. Returns how many operations there were since it was called last. */
size_t alignment_trace(struct alignment *alignment, struct arena_step *steps, size_t capacity);

#ifdef __cplusplus
}
#endif
#endif
