/* The files of one micrograph: the numbers of its fit as JSON, the picture, and the defocus of its parts. */
#ifndef ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_FILES_H
#define ICESTREAM_STAGES_CTF_ESTIMATOR_CTF_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/ctf_fit/ctf_fit.h"
#include "kernels/ctf_fit/ctf_local.h"

/* A fit that waits to be written: the buffers of a lane. */
struct ctf_record {
    struct ctf_fit_result result;
    struct ctf_fit_profile profile; /* owns its arrays, of `room` floats */
    int room;
    float *spectrum; /* [box][box/2+1], a copy; NULL without a picture */
    int box;
    uint8_t *pixels; /* [side][side] of the picture */
    size_t pixel_room;
    int side;
    bool tilted;             /* the tilt was looked for */
    double tilt, axis;       /* ° */
    bool significant;        /* the tilt is; else it is 0 */
    double gain, chance;     /* log-likelihood of the best tilt, and the chance that a level sample seems to have it */
    const char *reason;      /* why the CTF means nothing; NULL: it does mean something */
    double *grid;            /* [grid_rows][grid_columns] Å: offset of the defocus on a grid, owned */
    double *grid_x, *grid_y; /* [grid_columns], [grid_rows] px, owned */
    size_t grid_room;
    int grid_columns, grid_rows; /* 0: no grid */
};

/* Copies result and profile of the fit, and where a picture will be drawn the spectrum: the next micrograph overwrites
 * them. */
enum status ctf_record_take(struct ctf_record *record, const struct ctf_fit *fit, const struct ctf_fit_result *result,
                            int box, bool picture, struct err *err);
/* Copies tilt and defocus of the parts, for a micrograph of nx × ny px. local->columns 0: there are none. The grid has the
 * middles of the tiles and the borders of the micrograph, so that a reader only interpolates. */
enum status ctf_record_take_local(struct ctf_record *record, const struct ctf_local_result *local, int nx, int ny,
                                  struct err *err);
/* Draws the spectrum with low frequencies in the middle: the right half as measured, the left half as fitted. finest: the
 * resolution at the edge, Å; most: of the picture's side, px. */
enum status ctf_record_draw(struct ctf_record *record, const struct ctf *fit, double pixel_size, double finest,
                            int most, struct err *err);
void ctf_record_clear(struct ctf_record *record);

/* Writes {"v": 1, "defocus_u", "defocus_v", "angle", "phase_shift", "figure_of_merit", "significance", "resolution",
 * "ice", "k": […], "background": […], "data": […], "fit": […], "score": […]} in Å, °, 1/Å: the profile up to Nyquist.
 * data: amplitude over its local average, less 1; score: how well data and fit agree locally. Where the tilt was looked
 * for also "tilt": {"significant", "angle", "axis", "gain", "chance"}, where the fit holds nowhere
 * also "reason". */
enum status ctf_record_write(const struct ctf_record *record, const char *path, struct err *err);
/* Writes MIC_local.star: rlnCoordinateX/Y (px), rlnDefocusU/V (Å), rlnDefocusAngle (°) of the grid's points, row by
 * row. */
enum status ctf_record_write_local(const struct ctf_record *record, const char *path, struct err *err);

#endif
