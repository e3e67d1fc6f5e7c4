/* The files of a first map: initial_model.mrc, initial_model.png and initial_model.json; for each class that has a
 * first map of its own initial_model_classNNN.mrc and .png, and initial_model_classes.star, which lists them. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_WRITE_H
#define ICESTREAM_STAGES_REFINER_INITIAL_WRITE_H

#include "stages/refiner/initial/initial.h"

#define INITIAL_MAP "initial_model.mrc"
#define INITIAL_DECISION "initial_model.json"
#define INITIAL_CLASSES "initial_model_classes.star"

/* Says how the attempts of a session stand. */
struct initial_standing {
    int attempt;      /* the one that made the map, or the last one if there is no map; from 1 */
    int attempts;     /* that were made */
    size_t tried;     /* particles that were present at the last one */
    bool confirmed;   /* a later attempt has made the same map, or none is made */
    int junk;         /* particles that were marked (junk.h); −1: none were compared */
    const char *last; /* what an attempt after that of the map has found; NULL: there was none */
};

/* Writes initial_model.json, and for an accepted map initial_model.mrc, on the grid of the refinement, and
 * initial_model.png, and likewise the maps of classes; the maps first, so that a decision that accepts has its maps.
 * map: box³ of the small images, in place of that of the attempt; NULL: that one. */
enum status initial_write(const struct initial *initial, const float *map, const struct initial_standing *standing,
                          const char *folder, struct err *err);
/* Changes in initial_model.json how the attempts stand. The decision that made the map stays. */
enum status initial_write_standing(const struct initial_standing *standing, const char *folder, struct err *err);
/* Reads the first map onto a grid of box³. */
enum status initial_read_map(const char *path, int box, double pixel_size, float *map, struct err *err);

#endif
