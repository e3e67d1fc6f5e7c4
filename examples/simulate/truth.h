/* Writes the truth of a simulated session, as STAR and MRC files in DIR/truth, before the first micrograph arrives:
 *   particles.star        every particle: micrograph, centre (px, 0-based), angles, defocus; optics table; RELION 3.1
 *   MIC.star              centres and angles of one micrograph
 *   micrographs_ctf.star  defocus of every micrograph
 *   contamination.star    centres of contaminants, and their diameter in Å (rlnParticleDiameter)
 *   phantom.mrc           the density, white, at the map's box and pixel size
 *   reference.mrc         the same, with a low-pass filter (60 Å by default)
 *   templates.mrcs        projections in well-spread directions, white, at the micrographs' pixel size
 *   ready                 empty; written last
 * Maps and templates are on the grey scale of noise-normalised particles (background σ = 1). Names of micrographs are
 * relative to DIR. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_TRUTH_H
#define ICESTREAM_EXAMPLES_SIMULATE_TRUTH_H

#include "examples/simulate/micrograph.h"

struct truth {
    const char *folder; /* DIR/truth, which exists */
    const char *names;  /* folder of the micrographs or movies: "micrographs" */
    const char *ending; /* of micrographs or movies, with its dot */
    const struct scene *scene;
    const struct phantom *phantom;
    const struct layout *layouts; /* scene->micrographs of them */
    int box;                      /* of particles and templates, at the micrographs' pixel size */
    int map_box;
    double map_pixel_size;
    int templates;
    double lowpass;     /* of reference.mrc, Å */
    double noise_sigma; /* counts */
};

enum status truth_write(const struct truth *truth, struct err *err);

/* Computes direction `index` of `count`, which a spiral spreads evenly over the sphere, as rows of the rotation matrix
 * with psi 0. */
void truth_view(int index, int count, double ret_rows[3][3]);

#endif
