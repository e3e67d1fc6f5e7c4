/* Turns differences into probabilities: w = exp(−(diff2 − least)) · priors. Subtracting the smallest exponent makes the
 * largest weight 1. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_H
#define ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_H

/* Replaces diff2[n_rows][n_columns] by weights. row_log_prior[n_rows] and column_log_prior[n_columns] may be NULL.
 * Weights below exp(−87) become 0. ret_least: the smallest diff2 − log prior; ret_sum: Σ w; either may be NULL. */
void posterior_weights(float *diff2, int n_rows, int n_columns, const float *row_log_prior,
                       const float *column_log_prior, double *ret_least, double *ret_sum);

#endif
