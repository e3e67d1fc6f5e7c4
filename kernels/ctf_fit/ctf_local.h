/* Finds how the defocus changes over a micrograph: the tilt of the sample, and the height of its parts.
 *
 * Each tile of the periodogram is averaged along the rings of the micrograph's CTF (equiphase average). With the known
 * amplitude and noise of the rings at each frequency, a table holds the log-likelihood of each defocus of each tile.
 *   1. The plane: the slopes along x and y that maximise the sum of all tiles' log-likelihoods. Tiles that show nothing
 *      by themselves still count. The amplitude of the rings is then measured again along the plane, where they are sharp.
 *   2. The bend: three quadratic terms. Bend and tilt count only where they are significant: what the log-likelihood gains
 *      by them is compared with what single tiles would still gain by heights of their own (F test). A few tiles over
 *      uneven ice always lie near some plane.
 *   3. The sheet: each tile may lie above or below this surface where its log-likelihood outweighs the distance from its
 *      neighbours (normal, deviation SHEET_BEND) and from the surface (SHEET_HEIGHT): a maximum a posteriori estimate.
 * Astigmatism, its angle and phase shift stay those of the micrograph. The result does not depend on the number of
 * threads. Source of the joint search: Su, J. Struct. Biol. 205:22 (2019); Elferich et al., eLife 13:RP97227 (2024). */
#ifndef ICESTREAM_KERNELS_CTF_FIT_CTF_LOCAL_H
#define ICESTREAM_KERNELS_CTF_FIT_CTF_LOCAL_H

#include "kernels/ctf_fit/ctf_fit.h"

/* value(X, Y) = mean + x X + y Y + xx X² + xy X Y + yy Y², Å; X, Y: Å from the middle of the micrograph. */
struct ctf_surface {
    double mean, x, y, xx, xy, yy;
};

struct ctf_local_result {
    bool significant;           /* the tilt is: chance gives one as good in fewer than 1 of 3,000 level samples */
    double tilt;                /* °, 0 to 60; 0 where it is not significant */
    double axis;                /* °, 0 to 360, from x towards y: the defocus grows towards axis + 90° */
    double gain;                /* log-likelihood of the best tilt over that of none */
    double chance;              /* that a level sample whose tiles scatter as these do seems to have one as good */
    int columns, rows;          /* tiles along x and y */
    const double *x, *y;        /* [columns], [rows] their middles, px */
    const double *offset;       /* [rows][columns] Å: defocus of the sheet less that of the micrograph */
    struct ctf_surface surface; /* of the offsets, without the sheet's heights */
    double middle_x, middle_y;  /* px: the middle of the micrograph */
    double pixel_size;          /* Å */
};

struct ctf_local;
/* Makes buffers for micrographs of nx × ny px with tiles of box px (periodogram_task.tiles). */
enum status ctf_local_create(int nx, int ny, int box, int threads, struct ctf_local **ret_local, struct err *err);
void ctf_local_destroy(struct ctf_local **local);
/* cells: periodogram_cells. options: as for the fit, with the micrograph's pixel size. Arrays of the result live until
 * the next run. */
void ctf_local_run(struct ctf_local *local, const float *cells, const struct ctf_fit_options *options,
                   const struct ctf_fit_result *fit, struct ctf_local_result *ret_result);
/* Returns the offset of a point (px): that of the surface, and the sheet's height there, bilinear between tiles. */
double ctf_local_at(const struct ctf_local_result *result, double x, double y);
/* Returns the surface at a place, Å from the middle of the micrograph. */
double ctf_surface_at(const struct ctf_surface *surface, double x, double y);
/* Returns the bytes that ctf_local_create takes. */
size_t ctf_local_bytes(int nx, int ny, int box);

#endif
