/* Finds which particles of an earlier table those of a later one follow. A particle follows the one of its name. A
 * micrograph that was picked again has particles of other names; each follows the one at its place. */
#ifndef ICESTREAM_COMMON_FORMATS_PARTICLE_HEIRS_H
#define ICESTREAM_COMMON_FORMATS_PARTICLE_HEIRS_H

#include "common/formats/particle_place.h"

/* Part of the particle's diameter by which the two may lie apart. */
#define PARTICLE_HEIR_REACH 0.2

/* Finds for each place of later[later_count] the nearest one of earlier[earlier_count] in the same micrograph, at most
 * `reach` (Å) away. Places of an unknown micrograph (0) are near none. Of several that are near the same earlier place
 * only the nearest gets it. heir_of: [later_count], index of the earlier place; -1: none. */
enum status particle_heirs_find(const struct particle_place *earlier, size_t earlier_count,
                                const struct particle_place *later, size_t later_count, double reach, int *heir_of,
                                struct err *err);

#endif
