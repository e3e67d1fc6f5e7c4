/* Writes the structures themselves: centres of clusters, and all structures superposed on a reference. The structures are
 * read again from their files, with all atoms of the file, not only the selected ones. */
#ifndef ICESTREAM_STAGES_SUPERPOSER_FITTED_H
#define ICESTREAM_STAGES_SUPERPOSER_FITTED_H

#include "stages/superposer/superposer.h"

/* Writes centre_0001.pdb …: the centres of the `most` largest clusters as their files have them. Removes files of an
 * earlier result beyond these. */
enum status fitted_write_centres(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                                 int most, struct err *err);

/* Reads the selected atoms of a file's first structure into (*ret_xyz)[atoms][3], which the caller frees. The file must
 * have the atoms of `like`, a file of the ensemble. */
enum status fitted_read_reference(const struct ensemble_rules *rules, const char *path, const char *like,
                                  float **ret_xyz, struct err *err);

/* Writes all structures superposed on the reference [atoms][3]: superposed.pdb, .dcd (all atoms) or .npy (float32
 * [N][atoms][3], the selected atoms). With `rotations` writes rotations.npy (float64 [N][3][3]) and translations.npy
 * (float64 [N][3], Å): the superposed position is rotation · x + translation. */
enum status fitted_write(const struct superposer *s, const struct ensemble_rules *rules, const char *folder,
                         const float *reference, enum fitted_format format, bool rotations, struct err *err);

#endif
