/* Correlates a micrograph with every rotation of a template, keeps the best value per pixel, and derives scores.
 *
 * C_psi(x) = mean over the particle's circle of A_psi(y) I(x + y) = Σ_k conj(F_psi) · image, where `image` holds the
 * micrograph's transform times whatever is common to all rotations (CTF, 1/(size² n_o)). Only the maximum of C over psi
 * and its psi are kept: the figure of merit rises with C. When values are equal the first rotation wins, for any
 * number of threads. */
#ifndef ICESTREAM_KERNELS_CORRELATE_CORRELATE_H
#define ICESTREAM_KERNELS_CORRELATE_CORRELATE_H

#include <stdint.h>

#include "common/status.h"
#include "kernels/template_spectra/template_spectra.h"

#ifdef __cplusplus
extern "C" {
#endif

struct correlate;

/* Creates a correlator for maps of work² px. */
enum status correlate_create(int work, int threads, struct correlate **ret_correlate, struct err *err);
void correlate_destroy(struct correlate **correlate);

/* image: half plane, work × (work/2+1) complex; best: work² (max C); rotation: work² (its index). */
void correlate_best(struct correlate *correlate, const struct template_spectra *spectra, int item, int rotations,
                    const float *image, float *best, uint16_t *rotation);

/* The expected values of a template A (with its CTF) on unit noise. */
struct merit_terms {
    double mean;  /* A1 = Σ A / (n + 1) over the circle's n pixels */
    double power; /* A2 = Σ A² / (n + 1) */
};

/* Computes the scores (C − mu A1) / (sigma √A2): the correlation with the template at unit power in standard deviations
 * of the background, independent of grey scales. If sigma is NULL: (C − mu A1) / √A2. An empty template gives 0. All
 * arrays hold count values; scores may be best. */
void merit_scores(const struct merit_terms *terms, const float *best, const float *mu, const float *sigma, size_t count,
                  float *scores);
/* RELION's figure of merit: the ratio of the likelihoods of "template and noise" and "noise only" per pixel of the
 * circle, over its expectation. With d = (−2 C + 2 mu A1)/sigma + A2 = A2 − 2 score √A2 it is (exp(−d/2) − 1) /
 * (exp(A2/2) − 1); for the template times `scale`. merit_to_score is its inverse: −infinity for a figure of merit that
 * no score has. */
double merit_from_score(const struct merit_terms *terms, double scale, double score);
double merit_to_score(const struct merit_terms *terms, double scale, double merit);

/* Computes the terms by sums over the circle at full resolution. */
struct merit_window;
enum status merit_window_create(int size, int work, int box, double radius, int threads,
                                struct merit_window **ret_window, struct err *err);
void merit_window_destroy(struct merit_window **window);
/* spectrum: F of the template at psi = 0; ctf: work half plane of reals, or NULL. Only one thread at a time may use a
 * window. */
void merit_window_terms(struct merit_window *window, const float *spectrum, const float *ctf,
                        struct merit_terms *ret_terms);

#ifdef __cplusplus
}
#endif
#endif
