#include "kernels/fourier/window.h"

#include <stddef.h>
#include <string.h>

#include "common/multiversion.h"

MULTIVERSION static void scaled(const float *in, size_t count, float factor, float *out) {
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * factor;
}

void fourier_window_crop(const float *in, int from, int to, float factor, float *out) {
    fourier_window_crop_columns(in, from, from / 2 + 1, to, factor, out);
}

void fourier_window_crop_columns(const float *in, int from, int columns, int to, float factor, float *out) {
    size_t stride_in = 2 * (size_t)columns, stride_out = 2 * ((size_t)to / 2 + 1);
    for (int row = 0; row < to; row++) {
        int source = row <= to / 2 ? row : row - to + from;
        scaled(in + source * stride_in, stride_out, factor, out + row * stride_out);
    }
}

void fourier_window_fill(const float *in, int from, int to, float factor, float *out) {
    size_t stride_in = 2 * ((size_t)from / 2 + 1), stride_out = 2 * ((size_t)to / 2 + 1);
    memset(out, 0, (size_t)to * stride_out * sizeof *out);
    for (int row = 0; row < from; row++) {
        int target = row <= from / 2 ? row : row - from + to;
        scaled(in + row * stride_in, stride_in, factor, out + target * stride_out);
    }
}
