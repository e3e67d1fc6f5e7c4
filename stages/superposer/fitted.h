/* What is made of the structures themselves, which are read again for it: centres of clusters, and all of them on a
 * reference. Rows of atoms are those of the file, not only those that were selected. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_FITTED_H
#define ICESTREAM_STAGES_SUPERPOSER_FITTED_H

#include "stages/superposer/superposer.h"

enum fitted_format { FITTED_NONE, FITTED_PDB, FITTED_DCD, FITTED_NPY };
#define FITTED_FORMAT_CHOICES "none|pdb|dcd|npy"

/* centre_0001.pdb …: the centres of the `most` largest clusters as their files have them; those of an earlier result
 * that are no centres any more are removed. */
enum status fitted_write_centres(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                                 int most, struct err *err);

/* The selected atoms of a file's first structure into (*ret_xyz)[atoms][3], the caller's. `like`: a file of the
 * ensemble, whose atoms it must have. */
enum status fitted_read_reference(const struct ensemble_rules *rules, const char *path, const char *like,
                                  float **ret_xyz, struct err *err);

/* All structures on the reference [atoms][3]: superposed.pdb, .dcd (all atoms) or .npy (float32 [N][atoms][3], the
 * selected ones), and where rotations are asked for rotations.npy (float64 [N][3][3]) and translations.npy (float64
 * [N][3], Å): on the reference is rotation · x + translation. */
enum status fitted_write(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                         const float *reference, enum fitted_format format, bool rotations, struct err *err);

#endif
