/* Finds particles that were cut from the same place of the same micrograph. */
#ifndef ICESTREAM_COMMON_FORMATS_PARTICLE_PLACE_H
#define ICESTREAM_COMMON_FORMATS_PARTICLE_PLACE_H

#include <stddef.h>
#include <stdint.h>

#include "common/formats/star.h"
#include "common/status.h"

struct particle_place {
    uint64_t micrograph; /* hash of its name; 0: the place is not known */
    double x, y;         /* Å, of the micrograph; origin shifts are not counted */
};

/* The columns of a table of particles that tell places; indices of columns, -1: absent. */
struct particle_places {
    const struct star_table *rows, *optics; /* optics: NULL without groups */
    int micrograph, x, y;
    int pixel_sizes[2], group_pixel_sizes[2]; /* of the rows; of the optics table */
    const char *last;                         /* the micrograph of the last row, and its hash; NULL before */
    uint64_t last_hash;
};

/* Looks the columns up: rlnMicrographName, rlnCoordinateX and rlnCoordinateY (px of the micrograph). A table with
 * rlnCoordinateZ or rlnTomoName is of sub-volumes, which have no place here. The tables must outlive ret_places. */
void particle_places_open(const struct star_table *rows, const struct star_table *optics,
                          struct particle_places *ret_places);
/* Returns the place of a row. Its micrograph's pixel is rlnMicrographPixelSize, else rlnMicrographOriginalPixelSize, of
 * the row or of its optics group (`group`: row of the optics table, -1: none), else image_pixel_size (Å). Coordinates
 * that are no numbers, and 0, 0, where no particle can be, are unknown. */
struct particle_place particle_places_row(struct particle_places *places, size_t row, int group,
                                          double image_pixel_size);

/* Goes through places[count] in their order and finds for each the first one before it, not itself left out, that is of
 * the same micrograph and at most `distance` (Å) away. twins: [count], index of that one; -1: there is none, the
 * particle stays. The time grows with count alone. */
enum status particle_places_twins(const struct particle_place *places, size_t count, double distance, int *twins,
                                  struct err *err);

#endif
