/* Shared by the files of the local CTF. */
#ifndef ICESTREAM_KERNELS_CTF_FIT_LOCAL_PRIVATE_H
#define ICESTREAM_KERNELS_CTF_FIT_LOCAL_PRIVATE_H

#include "kernels/ctf_fit/ctf_local.h"

/* The tables reach so far to both sides of the micrograph's defocus, in such steps. Å. */
enum { LOCAL_REACH = 6000, LOCAL_STEP = 25, LOCAL_DEFOCI = 2 * LOCAL_REACH / LOCAL_STEP + 1 };

struct ctf_local {
    int nx, ny, box, threads;
    int columns, rows, tiles; /* tiles along x and y, and all */
    int half;                 /* bins: local averages are over ±half */
    int bins;                 /* of a profile, box/2: bin i holds radii from i to i + 1 px */
    double *x, *y;            /* [columns], [rows] middles of the tiles, px */
    double *across, *up;      /* [tiles] their places from the middle of the micrograph, Å */
    double *offset;           /* [tiles] Å */
    double *surface;          /* [tiles] Å, of the surface */
    int *pixels, *bin;        /* [cells] pixels of a cell, and where it goes in the profile (−1: nowhere) */
    float *radius;            /* [cells] mean radius of a cell's pixels, px */
    double *middle;           /* [bins] mean radius of a bin's pixels, px */
    float *certainty;         /* [bins] 1 over the variance of a tile's profile */
    float *amplitude;         /* [bins] of the rings */
    float *profiles;          /* [tiles][bins] power over its local average, less 1 */
    float *rings;             /* [LOCAL_DEFOCI][bins] −cos 2γ of each defocus */
    float *models;            /* [LOCAL_DEFOCI][bins] rings less their local average */
    float *weighted;          /* [LOCAL_DEFOCI][bins] rings · amplitude, less their local average, · certainty */
    float *norms;             /* [LOCAL_DEFOCI] half the certainty of the weighted rings */
    float *table;             /* [tiles][LOCAL_DEFOCI] log-likelihood */
    double *sums;             /* [2][bins] */
    float *scratch;           /* [tiles or LOCAL_DEFOCI][bins] */
};

/* local_profiles.c: averages the tiles along the rings, and makes the rings of each defocus. */
void local_make_profiles(struct ctf_local *local, const float *cells, const struct ctf_fit_options *options,
                         const struct ctf_fit_result *fit);
/* Measures the amplitude of the rings with the tiles at surface[], and fills the table. */
void local_make_table(struct ctf_local *local);
/* Returns the log-likelihood of a tile at an offset, smooth between the entries (Catmull-Rom); beyond the table that of its end. */
double local_score(const struct ctf_local *local, int tile, double offset);

/* Terms of a surface, as bits: mean, both slopes, and the three of the bend. */
enum { LOCAL_MEAN = 1, LOCAL_SLOPES = 2, LOCAL_BEND = 4 };
/* local_surface.c: returns the best plane in the table. start: a plane to climb from; NULL: all are tried. */
struct ctf_surface local_find_plane(const struct ctf_local *local, const struct ctf_surface *start);
/* Climbs from a surface along some of its terms, and returns the log-likelihood there. */
double local_climb(const struct ctf_local *local, unsigned terms, struct ctf_surface *surface);
/* Returns minus the log of the chance that a surface without some of its terms seems to gain so much log-likelihood by
 * them. The tiles' own misfit to the surface is the noise: an F test, exact for two terms and normal errors. number: of
 * the surface's terms, all that were fitted. 0 where the tiles are too few. */
double local_certainty(const struct ctf_local *local, const struct ctf_surface *surface, int number, double gain);
/* Fills surface[]. */
void local_set_surface(struct ctf_local *local, const struct ctf_surface *surface);
/* Fills offset[] with the sheet about surface[]. */
void local_find_sheet(struct ctf_local *local);

#endif
