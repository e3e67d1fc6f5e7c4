/* Writes the files of an ensemble into a folder; each is complete or missing.
 *
 * structures.txt: one name per line; all other files are in that order.
 *
 * rmsd.npy: float32 [N(N−1)/2] Å, the upper triangle row by row, (0,1) (0,2) … (1,2) …
 *
 * neighbours_*.npy: starts int64 [N+1], index int32, rmsd float32 (Å). Entries starts[i] … starts[i+1] − 1 are the
 * later structures j > i whose RMSD to structure i is below the cut-off: a SciPy csr_matrix((rmsd, index, starts)).
 *
 * clusters.csv: structure,cluster,is_centre: clusters from 1, the largest first; is_centre 1 or 0. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_RESULTS_H
#define ICESTREAM_STAGES_SUPERPOSER_RESULTS_H

#include "stages/superposer/superposer.h"

/* Removes a file that an earlier run, or a smaller ensemble, has left there. */
enum status results_drop(const char *folder, const char *name, struct err *err);

/* Writes all files of the list above that the options ask for. Call it after superposer_solve. */
enum status results_write(const struct superposer *s, const char *folder, struct err *err);
/* Writes reference_rmsd.csv: structure,rmsd in Å. */
enum status results_write_reference(const struct superposer *s, const char *folder, const float *rmsd, struct err *err);

#endif
