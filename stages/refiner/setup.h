/* Prepares what a refinement starts from: memory, noise, and references. */
#ifndef ICESTREAM_STAGES_REFINER_SETUP_H
#define ICESTREAM_STAGES_REFINER_SETUP_H

#include "stages/refiner/refiner_private.h"

/* Allocates maps and tools once the particles' box is known. After a failure nothing is allocated, and the function may
 * be called again. */
enum status setup_allocate(struct refiner *refiner, struct err *err);
/* Returns the share of a map's noise that a reference keeps: Σ m² / box³ of the mask m, the user's or a sphere with a
 * soft edge. */
double setup_map_share(const struct refiner *refiner);
/* Frees the maps and tools. */
void setup_release(struct refiner *refiner);
/* Replaces the alignment by a new one for the present number of threads. */
enum status setup_alignment(struct refiner *refiner, struct err *err);
/* Returns the bytes of sums and references that are compared up to this size: those of one half at least, with some
 * room for particles. */
double setup_bytes_of_maps(const struct refiner *refiner, int size);
/* Makes room for new optics groups. */
enum status setup_optics(struct refiner *refiner, struct err *err);
/* Reads a reference onto a grid of box³, as it is, in the hand of the refinement. Notes its own grid as given_box and given_pixel_size. */
enum status setup_read_map(struct refiner *refiner, const char *path, int box, double pixel_size, float *map,
                           struct err *err);
/* Reads a reference into map (box³) as below, with its own grey scale. */
enum status setup_read_reference(struct refiner *refiner, const char *path, float *map, struct err *err);
/* Reads the references, resamples them to the particles' box and pixel size, and low-pass filters them. */
enum status setup_reference(struct refiner *refiner, struct err *err);
/* Estimates noise spectra from the images. */
enum status setup_noise(struct refiner *refiner, struct err *err);
/* Brings the references to the grey scale of the particles, and finds how much better they fit than the same references
 * with inverted contrast. In grey_scale.c. */
enum status setup_scale(struct refiner *refiner, struct err *err);

#endif
