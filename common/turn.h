/* Turns images by quarters and flips them: the eight ways in which a reference may lie on a detector.
 *
 * The rotation comes first. 1 sends the pixel in row y and column x of an image of ny rows and nx columns to row x,
 * column ny − 1 − y; 2 to row ny − 1 − y, column nx − 1 − x; 3 to row nx − 1 − x, column y. Then the flip reverses the
 * order of the rows or of the columns. These are RELION's numbers for a gain reference. */
#ifndef ICESTREAM_COMMON_TURN_H
#define ICESTREAM_COMMON_TURN_H

#include <stdbool.h>

enum turn_flip { TURN_NO_FLIP, TURN_FLIP_ROWS, TURN_FLIP_COLUMNS };

struct turn {
    int rotate; /* 0 to 3 */
    enum turn_flip flip;
};

enum { TURN_COUNT = 8 };
/* Returns the turn at `index`, from 0 to 7: rotations by index mod 4, from 4 on with reversed rows. */
struct turn turn_at(int index);
/* Returns whether both send every pixel to the same place. */
bool turn_same(struct turn a, struct turn b);
/* Returns the one turn that has the effect of both, with the smallest rotation. */
struct turn turn_both(struct turn first, struct turn second);

/* Returns the shape of a turned image of nx × ny px. */
void turn_shape(struct turn turn, int nx, int ny, int *ret_nx, int *ret_ny);
/* Returns where pixel (x, y) of an image of nx × ny px comes to lie. */
void turn_place(struct turn turn, int nx, int ny, int x, int y, int *ret_x, int *ret_y);
/* Turns in[ny][nx] into out, which has turn_shape. */
void turn_image(struct turn turn, const float *in, int nx, int ny, float *out);

#endif
