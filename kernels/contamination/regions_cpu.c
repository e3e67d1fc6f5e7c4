#include <string.h>

#include "kernels/contamination/contamination_private.h"

int regions_label(const uint8_t *set, uint8_t value, int nx, int ny, int *labels, int *stack) {
    int count = 0, pixels = nx * ny;
    memset(labels, 0, (size_t)pixels * sizeof *labels);
    for (int start = 0; start < pixels; start++) {
        if (set[start] != value || labels[start]) continue;
        int depth = 0;
        labels[start] = ++count;
        stack[depth++] = start;
        while (depth > 0) {
            int at = stack[--depth], x = at % nx;
            int neighbour[4] = {x > 0 ? at - 1 : -1, x + 1 < nx ? at + 1 : -1, at - nx,
                                at + nx < pixels ? at + nx : -1};
            for (int k = 0; k < 4; k++) {
                int to = neighbour[k];
                if (to < 0 || set[to] != value || labels[to]) continue;
                labels[to] = count;
                stack[depth++] = to;
            }
        }
    }
    return count;
}

/* The queue holds each pixel once: those of the set first, then what is added, step by step. */
void regions_grow(uint8_t *set, const uint8_t *grown, int nx, int ny, int steps, int *stack) {
    int first = 0, end = 0;
    for (int at = 0; at < nx * ny; at++)
        if (set[at]) stack[end++] = at;
    for (int step = 0; step < steps; step++) {
        int last = end;
        for (; first < last; first++) {
            int x = stack[first] % nx, y = stack[first] / nx;
            for (int j = y > 0 ? y - 1 : y; j <= y + 1 && j < ny; j++)
                for (int i = x > 0 ? x - 1 : x; i <= x + 1 && i < nx; i++) {
                    int to = j * nx + i;
                    if (set[to] || !grown[to]) continue;
                    set[to] = 1;
                    stack[end++] = to;
                }
        }
    }
}
