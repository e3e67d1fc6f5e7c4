/* The files of an ensemble, in a folder; each is whole or not there.
 *
 * structures.txt: a name a line; all else is in that order.
 *
 * rmsd.npy: float32 [N(N−1)/2] Å, the upper triangle row by row, (0,1) (0,2) … (1,2) …
 *
 * neighbours_*.npy: starts int64 [N+1], index int32, rmsd float32: of structure i, from starts[i] to starts[i+1], the
 * later structures below the cut-off: a SciPy csr_matrix((rmsd, index, starts)).
 *
 * clusters.csv: structure,cluster,is_centre: clusters from 1, the largest first; is_centre 1 or 0. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_RESULTS_H
#define ICESTREAM_STAGES_SUPERPOSER_RESULTS_H

#include "stages/superposer/superposer.h"

/* Removes what an earlier run, or an ensemble that was smaller, has left there of other structures. */
enum status results_drop(const char *folder, const char *name, struct err *err);

/* After superposer_solve. */
enum status results_write(const struct superposer *s, const char *folder, struct err *err);
/* reference_rmsd.csv: structure,rmsd in Å. */
enum status results_write_reference(const struct superposer *s, const char *folder, const float *rmsd, struct err *err);

#endif
