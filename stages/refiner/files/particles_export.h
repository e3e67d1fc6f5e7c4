/* Writes a set of particles as tables. */
#ifndef ICESTREAM_STAGES_REFINER_FILES_PARTICLES_EXPORT_H
#define ICESTREAM_STAGES_REFINER_FILES_PARTICLES_EXPORT_H

#include "stages/refiner/particles.h"

/* Adds the tables "optics" and "particles" of RELION 3.1 to a file, with every column of the particles' own files.
 * Particles that have no pose yet are left out, and so are twins (twins.h): RELION must not put them into two halves. The
 * table "twins", if there are any, names them: icestreamLeftOut; icestreamTwinOf, the particle that stays; and
 * icestreamDigest, that of both images' pixels (as XXH3 with 128 bits), or "none" if their places are the same. */
enum status particle_set_export(const struct particle_set *set, struct star_file *file, struct err *err);
/* Returns whether the tables have the particle: it is present and has a pose. */
bool particle_is_exported(const struct particle *particle);

#endif
