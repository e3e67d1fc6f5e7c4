/* Writes the files of an iteration. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_OUTPUT_H
#define ICESTREAM_STAGES_REFINER_FILES_OUTPUT_H

#include "stages/refiner/files/map_picture.h"
#include "stages/refiner/refiner_private.h"

/* Writes a map of the refiner's box as folder/name. */
enum status output_map(const struct refiner *refiner, const char *folder, const char *name, float *map,
                       struct err *err);
/* Writes a picture of a map, with its curves and the words on its particles. */
enum status output_picture(const struct refiner *refiner, const char *folder, const char *name, const float *map,
                           const struct map_curve curves[MAP_CURVES], const char *parts, struct err *err);
/* Lets latest_map.mrc and latest_map.png in the folder lead to the map and the picture of a class (0: the first). */
enum status output_latest(const char *folder, const char *stem, int class_index, struct err *err);

/* Removes the files of an iteration of a refinement. */
void output_remove_iteration(const char *folder, int iteration);

/* The place of the files of an iteration, or of the end. */
struct output_place {
    const char *folder, *prefix; /* as refiner_write has them */
    const char *stem;            /* "run_it003" or "run" */
    const char *half_map;        /* the name of a half map after "half1_", or NULL: there are no halves */
};
/* A file that may be written at the same time as others. */
enum { OUTPUT_FILES_MOST = 32 };
struct output_file {
    enum status (*write)(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
    int index; /* of the half, or of the class */
};
/* Writes several files at a time. If several fail, the error is that of the first in the list. */
enum status output_files(const struct refiner *refiner, const struct output_place *place,
                         const struct output_file *files, int count, struct err *err);
/* Write the STAR files of particles, of a half (or the only side), and of the grid. */
enum status output_data(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
enum status output_model(const struct refiner *refiner, const struct output_place *place, int index, struct err *err);
enum status output_sampling(const struct refiner *refiner, const struct output_place *place, int index,
                            struct err *err);
/* Writes the optimiser file. Call it last: the file means that all others are complete. */
enum status output_optimiser(const struct refiner *refiner, const struct output_place *place, struct err *err);

#endif
