/* The tables of model and optimiser files. */
#ifndef ICESTREAM_STAGES_REFINER_TABLES_H
#define ICESTREAM_STAGES_REFINER_TABLES_H

#include "stages/refiner/refiner_private.h"

enum status tables_model(const struct refiner *refiner, const struct half *half, const char *reference,
                         struct star_file *file, struct err *err);
enum status tables_optimiser(const struct refiner *refiner, struct star_file *file, struct err *err);

#endif
