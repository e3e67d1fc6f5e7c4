/* Reads the aberrations that tables of RELION state: beam tilt (rlnBeamTiltX, rlnBeamTiltY, mrad), anisotropic
 * magnification (rlnMagMat00 to rlnMagMat11), odd and even Zernike polynomials (rlnOddZernike, rlnEvenZernike:
 * coefficients in brackets, rad). kernels/ctf/aberration.h says what they mean. */
#ifndef ICESTREAM_COMMON_FORMATS_OPTICS_ABERRATIONS_H
#define ICESTREAM_COMMON_FORMATS_OPTICS_ABERRATIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/formats/star.h"

/* Coefficients: Zernike polynomials up to the order 8 and 9. Bytes of optics_aberrations_list. */
enum { OPTICS_EVEN_MOST = 25, OPTICS_ODD_MOST = 30, OPTICS_ABERRATIONS_TEXT = 2048 };

struct optics_aberrations {
    double tilt[2];          /* x, y: mrad */
    double magnification[4]; /* a matrix, row by row */
    int even_count, odd_count;
    double even[OPTICS_EVEN_MOST], odd[OPTICS_ODD_MOST];
};

/* Returns no aberrations: tilt 0, matrix 1. */
struct optics_aberrations optics_aberrations_none(void);
/* Returns whether a table has a column of theirs. */
bool optics_aberrations_stated(const struct star_table *table);
/* Reads a row. An empty cell, "nan" and "None" state nothing. STATUS_BAD_FORMAT: a text, a magnification of less than
 * half or more than double; STATUS_UNSUPPORTED: too many coefficients. The message names `path`. */
enum status optics_aberrations_read(const struct star_table *table, size_t row, const char *path,
                                    struct optics_aberrations *ret_aberrations, struct err *err);
/* Lists the columns of a row that state an aberration or name an MTF's file, with their cells: "rlnBeamTiltX 6 rlnOddZernike [0,0,1]". Cells
 * are copied without spaces. "": there are none, or they do not fit into `text`. */
void optics_aberrations_list(const struct star_table *table, size_t row, char *text, size_t size);
/* Returns whether there is nothing to correct. Smaller values than 1e-6 move nothing by a measurable part of a pixel. */
bool optics_aberrations_are_none(const struct optics_aberrations *aberrations);
/* Convert a shift (Å) that centres the image once its magnification M is undone to one of the image as it is, and back:
 * an image magnified by M, shifted by s, is the image shifted by M⁻ᵀ s once M is undone. */
void optics_shift_to_image(const struct optics_aberrations *aberrations, const double shift[2], double ret_shift[2]);
void optics_shift_from_image(const struct optics_aberrations *aberrations, const double shift[2], double ret_shift[2]);
/* Returns whether two are equal. */
bool optics_aberrations_same(const struct optics_aberrations *a, const struct optics_aberrations *b);
/* Names what is to be corrected: "beam tilt 6, -4 mrad; odd Zernike". */
const char *optics_aberrations_name(const struct optics_aberrations *aberrations, char *text, size_t size);
/* Writes a list into a row; columns that other rows have hold what needs no correction (star_missing). */
enum status optics_aberrations_put(struct star_table *table, size_t row, const char *list, struct err *err);
/* Returns whether two rows state the same aberrations. A column that only one table has may make them differ. */
bool optics_aberrations_same_rows(const struct star_table *a, size_t row_a, const struct star_table *b, size_t row_b);

#endif
