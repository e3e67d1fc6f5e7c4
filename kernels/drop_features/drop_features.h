/* Computes features of a crystallisation drop besides its texture: the simpler groups of Cumbaa & Jurisica, J. Struct.
 * Funct. Genomics 11 (2010) 61: image statistics, grey-level changes (Sobel, Laplacian), evidence of straight lines (a
 * Radon transform of edges alone), topology of what stands out. The definitions below are icestream's own.
 *
 * All features are computed from the pixels within diameter/2 of the centre. v is their grey level. g = (v − mean) /
 * standard deviation, or 0 if the deviation is 0, so that contrast does not count outside the first group. Filters use
 * up to 16 px around the circle; beyond the picture its outermost pixels are repeated. skew = m3 / m2^1.5, kurtosis =
 * m4 / m2² − 3 (0 where m2 = 0); qN: the value of rank floor(N/100 (count − 1)).
 *
 * [0, 30) image statistics of v: mean, standard deviation, skew, kurtosis, minimum, maximum, q1 q5 q25 q50 q75 q95 q99,
 *     entropy −Σ p ln p of a histogram of 64 levels from minimum to maximum, and one of 16 levels as shares.
 * [30, 120) grey-level changes, for g as it is and after Gaussians of sigma 1, 2 and 4 px; 18 numbers each:
 *     m = √((sx² + sy²)/2), Sobel's with kernels of sum 1 (as scikit-image): mean, standard deviation, skew, q50, q90,
 *     q99, share above 2 q50; coherence √((jxx−jyy)² + 4 jxy²)/(jxx+jyy) of the structure tensor (Gaussian of 3 px):
 *     mean, standard deviation, q90; entropy over ln 18 of 18 directions weighted by m; l = 4 g − its four neighbours:
 *     mean |l|, standard deviation, skew, kurtosis, q1, q99, and the share of pixels where l changes sign to the right
 *     or below. Then, after sigma 2 and 4, of the Hessian's eigenvalues |a| ≥ |b|: mean |a|, mean |b|, Σ|b|/Σ|a|, skew
 *     of a; and after sigma 1, 2, 4, 8, 16 standard deviation of g, its skew.
 * [120, 150) straight lines. Edges: the tenth of the pixels with the largest m after sigma 1, if m is at least a third
 *     of q99 (none where m = 0). The direction of an edge pixel is that of the gradient. Each edge pixel votes for the
 *     three lines through it whose normals (36 a half turn) are next to its direction. R is the radius. From the votes
 *     in all cells (angle, distance in px): largest count/R, mean of the ten largest/R, standard deviation over mean,
 *     kurtosis, shares of votes in cells of at least 8, 16, 32, 64 votes, standard deviation over mean of the angles'
 *     votes, largest share of an angle. Segments: six or more edge pixels that touch (eight neighbours), with
 *     directions within 15° of their common direction. Length √(12 λ1) and width √(12 λ2) are from their covariance. A
 *     segment is straight where width ≤ 1.5 px + length/16. From the segments: numbers of straight ones at least 8, 12,
 *     18, 26, 40 px long, longest/R, mean of the five longest/R, mean length, shares of edge pixels in segments and in
 *     straight ones of 12 px, mean width of those, mean of width/length, share of pairs of the 24 longest that are
 *     parallel within 4°, that meet (ends within 4 px), that meet at 30° or more; entropy of their directions over ln
 *     18, R-scaled sum of their lengths, skew of lengths, curvature: mean over segments of |bend| (deviation of the
 *     middle third from the chord, px), share of segments that are bent more than 1 px.
 * [150, 180) strips, a local Radon transform. d is g after sigma 0.7 less g after sigma 8, and 0 beyond the circle. A
 *     strip is the nearest pixels to a line through a pixel, 11, 21 or 41 px long, in one of 24 directions. For each
 *     pixel and length the largest |mean of d along a strip| counts; 10 numbers for each length: mean, standard
 *     deviation, skew, q50, q90, q99, mean of the thousandth with the largest, q99/q50, that mean/q50, share above 3
 *     q50.
 * [180, 225) what stands out: g after sigma 1, less g after sigma 10, over its robust deviation (1.4826 median |…|):
 *     below −3, above 3, and m after sigma 2 above Otsu's threshold; 15 numbers each: share of the area, components
 *     (eight neighbours) of 4 px or more, holes (four neighbours, inside the circle), Euler number, largest component's
 *     share of the circle, mean and standard deviation of area/R², area-weighted eccentricity, mean circularity 4π A/P²
 *     of components of 20 px or more (P: sides of pixels to what is not of it times π/4; at most 1), mean share of
 *     their bounding boxes that they fill, holes' share of area and holes, mean hole/R², mean circularity of holes of
 *     12 px or more, share of components longer than four times their width, number of components of 100 px or more.
 *
 * Models are trained on these numbers: a change of any of them must raise the version in models and files of features.
 *
 * On the CPU only: this takes some 50 ms, compared with seconds for the texture, and lanes run it at the same time. */
#ifndef ICESTREAM_KERNELS_DROP_FEATURES_DROP_FEATURES_H
#define ICESTREAM_KERNELS_DROP_FEATURES_DROP_FEATURES_H

#include "common/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    DROP_FEATURES_IMAGE = 0,
    DROP_FEATURES_GRADIENT = 30,
    DROP_FEATURES_LINES = 120,
    DROP_FEATURES_STRIPS = 150,
    DROP_FEATURES_TOPOLOGY = 180,
    DROP_FEATURES_COUNT = 225
};

struct drop_features;
/* Creates a plan for circles of `diameter` px, 16 to 4096. */
enum status drop_features_create(int diameter, struct drop_features **ret_plan, struct err *err);
void drop_features_destroy(struct drop_features **plan);
/* Computes the features of one picture [ny][nx], finite values; the circle around pixel (x, y) should lie in it.
 * Allocates nothing. Only one thread at a time may use a plan. */
void drop_features_run(struct drop_features *plan, const float *picture, int nx, int ny, int x, int y,
                       float features[DROP_FEATURES_COUNT]);

#ifdef __cplusplus
}
#endif

#endif
