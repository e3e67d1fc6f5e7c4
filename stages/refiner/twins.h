/* Leaves out particles that are there twice, so that no two halves share an image. Twins are particles of one micrograph
 * (rlnMicrographName) whose coordinates are at most a tenth of the particle's diameter apart, and particles whose images
 * have equal pixels, whatever their names. Images that count as empty are no twins of each other.
 *
 * The first of them stays. The order is that of the rows; rows of different tables follow each other as the paths of
 * their tables do in the alphabet, so that it does not matter which table came first. A particle that is near one that is
 * left out, but near none that stays, stays. If the first is withdrawn, the next one counts again.
 *
 * Places are known before an iteration. Pixels are compared as images are read for the E-step, in the order of the
 * members, which depends on names alone: the second of two equal images is not compared in this iteration already. From
 * the next one on the order of rows decides which of them stays; that one takes over pose and half of the one that was
 * compared. So no iteration compares two equal images, no image is read for this alone, and an image stays in the half
 * that has met it: an iteration that has compared it in the other one begins anew. So does one in which the second half
 * loses more than a tenth, after which twins with rows in different halves (rlnRandomSubset), none of which is in a map
 * yet, go to the half that the name of the first chooses. */
#ifndef ICESTREAM_STAGES_REFINER_TWINS_H
#define ICESTREAM_STAGES_REFINER_TWINS_H

#include "stages/refiner/particles.h"

/* Parts of the diameter: twins in one micrograph lie this far apart at most. */
#define TWIN_DISTANCE 0.1

/* Finds the twins among the present particles. Does nothing if they are known. */
enum status twins_settle(struct particle_set *set, struct err *err);

/* The images that the E-step of an iteration has met, by their digests. Open addressing: index of the particle + 1. */
struct twins_met {
    int *slots;
    size_t size, room;
};
/* Begins an iteration with `members` particles at most. */
enum status twins_begin(struct twins_met *met, size_t members, struct err *err);
/* Notes the particle, whose image was read. Returns true if the iteration has met an image with equal pixels: the
 * particle is left out from now on. *crossed: set if the image was compared in the other half, though the last maps hold
 * it in this one; the iteration must begin anew. */
bool twins_meet(struct twins_met *met, struct particle_set *set, int index, bool *crossed);
void twins_release(struct twins_met *met);

/* Takes a particle and its twin of an earlier run. digest: text, of the pixels of both. Does nothing if the text is
 * none. */
void twins_restore(struct particle_set *set, struct particle *particle, struct particle *twin, const char *digest);

#endif
