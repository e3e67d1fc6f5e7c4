/* Writes projections of the refined map as templates for the picker (common/harness/template_set.h). Coarse ones, so that
 * nothing finer than 20 Å in later picks can come from them. */
#ifndef ICESTREAM_STAGES_REFINER_MAP_TEMPLATES_H
#define ICESTREAM_STAGES_REFINER_MAP_TEMPLATES_H

#include "common/formats/image.h"
#include "common/harness/stage.h"
#include "stages/refiner/refiner.h"

/* Starts as {0}. */
struct map_templates {
    bool looked;      /* for those of an earlier run */
    int epoch;        /* the last one that was written; 0: none */
    double particles; /* of that one */
};

/* Makes templates of the sum of both halves: low-passed at 20 Å, on a grid of 5 Å or more, masked by a sphere of `radius`
 * (Å), projected along all directions of the asymmetric unit (kernels/views), each with mean 0 and standard deviation 1
 * inside a circle of that radius. */
enum status map_templates_make(const struct refiner_maps *maps, double radius, const char *symmetry, int threads,
                               struct image *ret_templates, struct err *err);

/* Call it after an iteration. Writes templates if the map is resolved to 25 Å and not of noise, first ones or of twice as
 * many particles as the last ones. A classification has none. Trouble is logged: the next iteration tries again. */
void map_templates_step(struct map_templates *templates, struct stage *stage, const struct refiner *refiner);
/* Makes the next map that is good enough give templates, however many particles it has: the last ones are of a map that was
 * replaced. refiner_forget removes their record. */
void map_templates_renew(struct map_templates *templates);

#endif
