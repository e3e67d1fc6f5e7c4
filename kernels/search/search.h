/* Searches a micrograph with every rotation of every template, on the CPU or on a CUDA device.
 *
 * The micrograph is normalised to z-scores in a square (kernels/normalise), cropped to the work size in Fourier space
 * (its low-pass), and correlated with the masked templates. Maps are work × work; map pixel p is pixel p · size / work
 * of the square.
 *
 *   score(x) = max over templates and psi of (C − mu A1) / (sigma √A2)
 *
 * The score is the correlation with a template of unit power, in standard deviations of the local background. C is the
 * mean of template × micrograph over the particle's circle, mu and sigma are the background's mean and deviation
 * (kernels/local_stats), A1 and A2 are the template's mean and power in the circle, with the micrograph's CTF. The
 * score does not depend on grey scales; RELION's figure of merit follows from the score (merit_from_score,
 * kernels/correlate).
 *
 * With `whiten` the search uses the whitened micrograph (kernels/whiten): the cropped transform times the weight of
 * each coefficient's ring. The maps mu, sigma and image are computed before and stay unweighted. C and mu in the score
 * belong to the weighted micrograph (mu: the same mean over the same background), and sigma is 1, as for white noise:
 *
 *   score(x) = max over templates and psi of (C − mu A1) / √A2
 *
 * CPU and CUDA give the same maps to 1e-4 of their standard deviation. When scores are equal the first template
 * wins, and the first of its rotations. */
#ifndef ICESTREAM_KERNELS_SEARCH_SEARCH_H
#define ICESTREAM_KERNELS_SEARCH_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/device.h"
#include "common/status.h"
#include "kernels/correlate/correlate.h"
#include "kernels/ctf/ctf.h"

#ifdef __cplusplus
extern "C" {
#endif

struct search_options {
    int nx, ny;          /* of the micrographs, px */
    int size, work;      /* the square and the maps, px, even; work ≤ size */
    int band;            /* templates are zero beyond this frequency, px of the transform; 0: work/2 */
    double pixel_size;   /* Å, of the micrographs */
    int box;             /* of the templates, in pixels of the micrograph, even */
    double radius;       /* of the particle's circle, px of the micrograph */
    int count;           /* templates */
    int rotations;       /* of a full turn */
    bool invert;         /* particles are dark, templates white */
    bool whiten;         /* give all resolutions the same weight */
    bool per_template;   /* keep each template's maps as well */
    double clip;         /* pixels with |z| beyond it count as no data */
    size_t memory_limit; /* bytes for rotated templates; beyond it they are computed as they are used */
    int threads;         /* CPU */
    struct device device;
};

struct search;

/* The maps of one micrograph, in host memory (page-locked beside a CUDA device). Starts as {0}; kept from micrograph to
 * micrograph. */
struct search_maps {
    struct device device; /* whose page-locked memory this is */
    void *block;          /* the one allocation that holds all maps */
    size_t bytes;         /* of block */
    int work, count;
    bool per_template;
    float deviation;           /* standard deviation of the micrograph in its own units; 0: the micrograph is constant,
                                  and only `image` (zeros) is valid */
    float noise;               /* standard deviation of the scores of white noise where sigma is 1: √(variance of the
                                  noise in z-scores / pixels of the circle), the variance from the quietest ring; with
                                  `whiten`: that times whiten_noise (kernels/whiten) */
    float *image;              /* [work²] the low-passed micrograph */
    float *mu, *sigma;         /* [work²] mean and deviation of the local background */
    float *score;              /* [work²] best score of all templates and rotations */
    uint16_t *best_template;   /* [work²] from 0 */
    uint16_t *best_rotation;   /* [work²] psi = rotation · 360° / rotations */
    float *scores;             /* [count][work²], or NULL */
    uint16_t *rotations;       /* [count][work²], or NULL */
    struct merit_terms *terms; /* [count], with the micrograph's CTF */
};

/* Creates a search. templates: [count][box][box] at the micrograph's pixel size; the caller may free them after the
 * call. STATUS_BAD_ARGUMENT: a template is empty inside the circle, or box and circle leave no background. */
enum status search_create(const struct search_options *options, const float *templates, struct search **ret_search,
                          struct err *err);
void search_destroy(struct search **search);
/* Returns the options that the search was created with. */
const struct search_options *search_options(const struct search *search);

/* Allocates maps in the shape that search_run fills. */
enum status search_maps_fit(const struct search *search, struct search_maps *maps, struct err *err);
/* Allocates maps without a search, for maps that are read from a file. */
enum status search_maps_shape(const struct device *device, int work, int count, bool per_template,
                              struct search_maps *maps, struct err *err);
/* Frees the maps, which become {0}. */
void search_maps_clear(struct search_maps *maps);
/* Computes score, best_template and best_rotation from the maps of each template. */
void search_maps_combine(struct search_maps *maps);

/* A micrograph. Exactly one is needed: host; or device: [ny][nx] in the memory of the search's CUDA device, complete
 * before the call (host may then be NULL). device NULL: search_run uploads host. */
struct search_input {
    const float *host;
    const void *device;
};

/* Searches one micrograph; returns when all maps are complete. ctf: NULL if not known. seed: of the noise around a
 * micrograph that is not square. Only one thread at a time may use a search. */
enum status search_run(struct search *search, const struct search_input *input, const struct ctf *ctf, uint64_t seed,
                       struct search_maps *maps, struct err *err);

#ifdef __cplusplus
}
#endif
#endif
