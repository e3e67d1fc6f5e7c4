/* The tables of model and optimiser files. */
#ifndef ICESTREAM_STAGES_REFINER_TABLES_H
#define ICESTREAM_STAGES_REFINER_TABLES_H

#include "stages/refiner/refiner_private.h"

enum status tables_model(const struct refiner *refiner, const struct half *half, const char *reference,
                         struct star_file *file, struct err *err);
/* root: what all names of files begin with ("refiner/run"); stem: those of this iteration ("refiner/run_it003"). */
enum status tables_optimiser(const struct refiner *refiner, const char *root, const char *stem, struct star_file *file,
                             struct err *err);
/* Of the next iteration. */
enum status tables_sampling(const struct refiner *refiner, struct star_file *file, struct err *err);

#endif
