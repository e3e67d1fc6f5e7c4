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

/* Where files of an iteration, or of the end, go: prefix as refiner_write has it, stem "run_it003" or "run"; half_map:
 * what the map of a half is called, after the half, or NULL. */
struct output_place {
    const char *folder, *prefix, *stem, *half_map;
};
/* Files that have nothing to do with each other, several at a time. Of several that fail the first in the list is
 * told. */
enum { OUTPUT_FILES_MOST = 32 };
struct output_file {
    enum status (*write)(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
    int index; /* of the half, or of the class */
};
enum status output_files(const struct refiner *refiner, const struct output_place *place,
                         const struct output_file *files, int count, struct err *err);
enum status output_data(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
enum status output_model(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
enum status output_sampling(const struct refiner *refiner, const struct output_place *place, int index,
                            struct err *err);
/* The last: it says that the others are whole. */
enum status output_optimiser(const struct refiner *refiner, const struct output_place *place, struct err *err);

#endif
