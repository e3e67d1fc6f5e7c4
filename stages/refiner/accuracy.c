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
    *to = (struct accuracy_particle){
        .ctf = particle_ctf(p), .optics = p->optics, .turned = (int)(random % 3), .along_x = random / 3 % 2 == 0};
    matrix_to_euler(p->pose, &to->angles[0], &to->angles[1], &to->angles[2]);
}

/* Lists the first particles of a side; class_index −1: of any class. */
static int choose(const struct refiner *r, const struct side *side, int class_index,
                  struct accuracy_particle particles[ACCURACY_PARTICLES]) {
    int count = 0;
    for (int i = 0; i < side->member_count && count < ACCURACY_PARTICLES; i++) {
        const struct particle *p = &r->set.particles[side->members[i]];
        if (class_index < 0 || p->class_index == class_index) describe(r, p, &particles[count++]);
    }
    return count;
}

static enum status estimate(struct refiner *r, const struct side *side, int k, double *ret_angle, double *ret_offset,
                            struct err *err) {
    struct accuracy_particle particles[ACCURACY_PARTICLES];
    double angles[ACCURACY_PARTICLES], offsets[ACCURACY_PARTICLES];
    const int count = choose(r, side, classifies(r) ? k : -1, particles);
    const struct accuracy_input input = {.pixels = &r->pixels,
                                         .pixel_size = r->pixel_size,
                                         .projector = side->references[k].projector,
                                         .sigma2 = side->sigma2,
                                         .optics_count = r->sigma2_optics,
                                         .particles = particles,
                                         .count = count,
                                         .threads = r->context.threads};
    *ret_angle = *ret_offset = ACCURACY_UNKNOWN;
    if (count == 0) return STATUS_OK;
    TRY(accuracy_estimate(&input, r->placement.workspace, angles, offsets, err));
    *ret_angle = mean(angles, count);
    *ret_offset = mean(offsets, count);
    return STATUS_OK;
}

enum status accuracy_of_half(struct refiner *r, struct side *half, struct err *err) {
    return estimate(r, half, 0, &half->accuracy_angle, &half->accuracy_offset, err);
}

enum status accuracy_of_classes(struct refiner *r, struct side *side, struct err *err) {
    /* The iteration that seeds classes compares each particle with the map of one class alone. */
    if (r->at.seed_class >= 0) return STATUS_OK;
    for (int k = 0; k < r->reference_count; k++) {
        double offset;
        struct reference *c = &side->references[k];
        TRY(estimate(r, side, k, &c->accuracy_angle, &offset, err));
        c->accuracy_offset = offset < ACCURACY_UNKNOWN ? offset * r->pixel_size : ACCURACY_UNKNOWN;
    }
    return STATUS_OK;
}
