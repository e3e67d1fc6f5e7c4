/* The particles that a first map is made from, on a small grid of their own: a first map shows no detail that would need
 * more, and small images are compared quickly. */
#ifndef ICESTREAM_STAGES_REFINER_INITIAL_IMAGES_H
#define ICESTREAM_STAGES_REFINER_INITIAL_IMAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"

/* The use of a particle; particles of one micrograph have the same. Starts of one half never see the other half: what
 * maps of both have in common is in the particles. Particles that are held out are in no map: they judge maps. */
enum initial_part { INITIAL_HALF_A, INITIAL_HALF_B, INITIAL_HELD_OUT, INITIAL_PARTS };

struct initial_images {
    int count, box;
    double pixel_size;            /* Å */
    int *which;                   /* [count]: index of the particle in the refinement */
    float *values;                /* [count][box²] */
    struct ctf *ctfs;             /* [count] */
    bool *with_ctf;               /* [count]; false: the CTF is 1 */
    int *members;                 /* [count]: indices of all particles, by part */
    int begin[INITIAL_PARTS + 1]; /* of each part, into members */
};

void initial_images_destroy(struct initial_images *images);

struct initial_key {
    uint64_t particle, micrograph; /* hashes; micrograph 0: not known, the particle stands for itself */
};
/* Divides images into parts: a fifth is held out, the rest is halved. keys[count] decide, and not the order in which
 * particles came: ret_images->members and ->begin are set. */
enum status initial_images_divide(struct initial_images *images, const struct initial_key *keys, unsigned seed,
                                  struct err *err);

struct refiner;
/* Gathers at most `most` particles of a refinement, chosen by their names alone, and brings their images to a grid on which
 * detail of `finest` Å can be compared. Reads images: may take a while. In gather.c. */
enum status initial_images_gather(struct refiner *refiner, int most, double finest, struct initial_images *ret_images,
                                  struct err *err);
/* Brings the images of particles which[count] to such a grid. They are not divided into parts. In gather.c. */
enum status initial_images_read(struct refiner *refiner, double finest, struct initial_images *images, struct err *err);

#endif
