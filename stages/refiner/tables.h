/* The tables of model and optimiser files. */
#ifndef ICESTREAM_STAGES_REFINER_TABLES_H
#define ICESTREAM_STAGES_REFINER_TABLES_H

#include "stages/refiner/refiner_private.h"

/* map: its path; of a classification what the paths of its maps begin with ("refiner/run_it003"). */
enum status tables_model(const struct refiner *refiner, const struct half *half, const char *map,
                         struct star_file *file, struct err *err);
/* root: what all names of files begin with ("refiner/run"); stem: those of this iteration ("refiner/run_it003"). */
enum status tables_optimiser(const struct refiner *refiner, const char *root, const char *stem, struct star_file *file,
                             struct err *err);
/* Of the next iteration. */
enum status tables_sampling(const struct refiner *refiner, struct star_file *file, struct err *err);

/* output.c */
enum status output_map(const struct refiner *refiner, const char *folder, const char *name, float *map,
                       struct err *err);
/* Three central sections side by side, and a curve of shells[refiner->shells] below them, from 1 (top) to 0. */
enum status output_picture(const struct refiner *refiner, const char *folder, const char *name, const float *map,
                           const float *curve, struct err *err);
/* All STAR files of an iteration, or of the end. map: what the map of a half is called, after the half. */
enum status output_tables(const struct refiner *refiner, const char *folder, const char *prefix, const char *stem,
                          const char *map, struct err *err);

#endif
