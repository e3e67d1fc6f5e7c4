/* Writes stacks and tables of particles that have places on their micrographs, into the scratch folder. */
#ifndef ICESTREAM_TESTS_STAGES_PLACED_PARTICLES_H
#define ICESTREAM_TESTS_STAGES_PLACED_PARTICLES_H

#include <stdio.h>

/* Writes a stack of empty images of box² px of pixel_size Å. */
void placed_put_stack(const char *name, int box, double pixel_size, int slices);
/* Begins a table: image, micrograph, x, y and optics group of a particle in each row, then the columns that `more` names,
 * a line for each. The caller writes the rows, and closes the file. Pixel sizes: Å, of images and of micrographs. */
FILE *placed_begin_table(const char *name, double pixel_size, double micrograph_pixel_size, const char *more);

#endif
