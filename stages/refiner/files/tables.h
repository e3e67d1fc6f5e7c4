/* Fills the tables of model, optimiser and sampling files. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_TABLES_H
#define ICESTREAM_STAGES_REFINER_FILES_TABLES_H

#include "stages/refiner/refiner_private.h"

/* Fills the tables of a model file. map: the path of the half's map; in a classification the beginning of the paths of
 * all maps ("refiner/run_it003"). */
enum status tables_model(const struct refiner *refiner, const struct side *side, const char *map,
                         struct star_file *file, struct err *err);
/* Fills the tables of the optimiser file. root: the beginning of all file names ("refiner/run"). stem: the beginning of
 * the file names of this iteration ("refiner/run_it003"). */
enum status tables_optimiser(const struct refiner *refiner, const char *root, const char *stem, struct star_file *file,
                             struct err *err);
/* Fills the tables of the sampling file, with the sampling of the next iteration. */
enum status tables_sampling(const struct refiner *refiner, struct star_file *file, struct err *err);

#endif
