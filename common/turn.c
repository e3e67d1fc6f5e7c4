#include "common/turn.h"

#include <stddef.h>

struct turn turn_at(int index) {
    return (struct turn){.rotate = index % 4, .flip = index < 4 ? TURN_NO_FLIP : TURN_FLIP_ROWS};
}

void turn_shape(struct turn turn, int nx, int ny, int *ret_nx, int *ret_ny) {
    *ret_nx = turn.rotate % 2 == 0 ? nx : ny;
    *ret_ny = turn.rotate % 2 == 0 ? ny : nx;
}

void turn_place(struct turn turn, int nx, int ny, int x, int y, int *ret_x, int *ret_y) {
    int width, height;
    turn_shape(turn, nx, ny, &width, &height);
    int to_x = turn.rotate == 0 ? x : turn.rotate == 1 ? ny - 1 - y : turn.rotate == 2 ? nx - 1 - x : y;
    int to_y = turn.rotate == 0 ? y : turn.rotate == 1 ? x : turn.rotate == 2 ? ny - 1 - y : nx - 1 - x;
    *ret_x = turn.flip == TURN_FLIP_COLUMNS ? width - 1 - to_x : to_x;
    *ret_y = turn.flip == TURN_FLIP_ROWS ? height - 1 - to_y : to_y;
}

/* Two corners of an image tell all turns apart. */
enum { CORNER = 4 };

bool turn_same(struct turn a, struct turn b) {
    int ax, ay, bx, by;
    for (int x = 0; x < 2; x++) {
        turn_place(a, CORNER, CORNER, x, 0, &ax, &ay);
        turn_place(b, CORNER, CORNER, x, 0, &bx, &by);
        if (ax != bx || ay != by) return false;
    }
    return true;
}

/* Reversed rows after half a turn are reversed columns. */
static struct turn simplest(struct turn turn) {
    if (turn.flip != TURN_FLIP_ROWS || turn.rotate < 2) return turn;
    return (struct turn){.rotate = turn.rotate - 2, .flip = TURN_FLIP_COLUMNS};
}

struct turn turn_both(struct turn first, struct turn second) {
    for (int i = 0; i < TURN_COUNT; i++) {
        bool same = true;
        for (int x = 0; x < 2; x++) {
            int once_x, once_y, twice_x, twice_y, at_x, at_y;
            turn_place(first, CORNER, CORNER, x, 0, &once_x, &once_y);
            turn_place(second, CORNER, CORNER, once_x, once_y, &twice_x, &twice_y);
            turn_place(turn_at(i), CORNER, CORNER, x, 0, &at_x, &at_y);
            same = same && twice_x == at_x && twice_y == at_y;
        }
        if (same) return simplest(turn_at(i));
    }
    return first;
}

void turn_image(struct turn turn, const float *in, int nx, int ny, float *out) {
    int width, height, x0, y0, x1, y1;
    turn_shape(turn, nx, ny, &width, &height);
    for (int y = 0; y < ny; y++) {
        turn_place(turn, nx, ny, 0, y, &x0, &y0);
        turn_place(turn, nx, ny, 1, y, &x1, &y1);
        ptrdiff_t step = (ptrdiff_t)(y1 - y0) * width + (x1 - x0);
        float *to = out + (ptrdiff_t)y0 * width + x0;
        for (int x = 0; x < nx; x++)
            to[x * step] = in[(size_t)y * (size_t)nx + (size_t)x];
    }
}
