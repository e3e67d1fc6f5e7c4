/* From differences to probabilities: w = exp(−(diff2 − least)) · priors, the least exponent taken out so that the
 * largest weight is 1. */
#ifndef ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_H
#define ICESTREAM_KERNELS_EXPECTATION_POSTERIOR_H

/* diff2[n_rows][n_columns] becomes weights; row_log_prior[n_rows] and column_log_prior[n_columns] may be NULL. Weights
 * below exp(−87) become 0. ret_least: the least diff2 − log prior; ret_sum: Σ w; either may be NULL. */
void posterior_weights(float *diff2, int n_rows, int n_columns, const float *row_log_prior,
                       const float *column_log_prior, double *ret_least, double *ret_sum);

#endif
