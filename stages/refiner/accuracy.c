/* Estimates how far a pose must be off until the images show it; the step of the next sampling follows from this.
 * Takes some particles of a half (kernels/accuracy/accuracy.h), with the map of the E-step that has just been done, and
 * with the noise of masked images. With that of whole images (estep.c) poses would seem less well known, and grids
 * would end earlier: maps came out the same, or half an angstrom coarser. */
#include "stages/refiner/accuracy.h"

#include <string.h>

#include "kernels/accuracy/accuracy.h"

enum { ACCURACY_PARTICLES = 100 };

static double mean(const double *values, int count) {
    double sum = 0;
    for (int i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

static void describe(const struct refiner *r, const struct particle *p, struct accuracy_particle *to) {
    uint64_t random = particle_hash(p->name, (unsigned)r->options.seed + 1);
    *to = (struct accuracy_particle){.ctf = p->has_ctf ? &p->ctf : NULL,
                                     .optics = p->optics,
                                     .turned = (int)(random % 3),
                                     .along_x = random / 3 % 2 == 0};
    matrix_to_euler(p->pose, &to->angles[0], &to->angles[1], &to->angles[2]);
}

enum status accuracy_of_half(struct refiner *r, struct side *half, struct err *err) {
    struct accuracy_particle particles[ACCURACY_PARTICLES];
    double angles[ACCURACY_PARTICLES], offsets[ACCURACY_PARTICLES];
    int count = half->member_count < ACCURACY_PARTICLES ? half->member_count : ACCURACY_PARTICLES;
    for (int i = 0; i < count; i++)
        describe(r, &r->set.particles[half->members[i]], &particles[i]);
    const struct accuracy_input input = {.pixels = &r->pixels,
                                         .pixel_size = r->pixel_size,
                                         .projector = half->references->projector,
                                         .sigma2 = half->sigma2,
                                         .optics_count = r->sigma2_optics,
                                         .particles = particles,
                                         .count = count,
                                         .threads = r->context.threads};
    TRY(accuracy_estimate(&input, r->placement.workspace, angles, offsets, err));
    half->accuracy_angle = mean(angles, count);
    half->accuracy_offset = mean(offsets, count);
    return STATUS_OK;
}
