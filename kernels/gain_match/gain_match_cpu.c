#include "kernels/gain_match/gain_match.h"

#include <math.h>
#include <stdbool.h>

enum { SAMPLES = 400000, BANDS = 64 };

struct maps {
    const float *sum, *gain;
    const uint8_t *bad;
    int nx, ny;
};

/* Returns the difference between a pixel and the mean of its four neighbours. */
static float detail(const float values[5]) {
    return values[0] - 0.25f * (values[1] + values[2] + values[3] + values[4]);
}

static void five_places(int nx, size_t at, size_t places[5]) {
    places[0] = at;
    places[1] = at - 1;
    places[2] = at + 1;
    places[3] = at - (size_t)nx;
    places[4] = at + (size_t)nx;
}

/* Returns NaN at and beside a bad pixel, like the function below. */
static float detail_of_sum(const struct maps *m, int x, int y) {
    size_t places[5];
    float values[5];
    five_places(m->nx, (size_t)y * (size_t)m->nx + (size_t)x, places);
    for (int i = 0; i < 5; i++) {
        if (m->bad != NULL && m->bad[places[i]] != 0) return NAN;
        values[i] = m->sum[places[i]];
    }
    return detail(values);
}

static float detail_of_response(const struct maps *m, int x, int y) {
    size_t places[5];
    float values[5];
    five_places(m->nx, (size_t)y * (size_t)m->nx + (size_t)x, places);
    for (int i = 0; i < 5; i++) {
        float gain = m->gain[places[i]];
        if (!(gain > 0)) return NAN;
        values[i] = 1 / gain;
    }
    return detail(values);
}

struct products {
    double aa[TURN_COUNT], bb[TURN_COUNT], ab[TURN_COUNT];
    size_t count[TURN_COUNT];
};

/* Adds one pixel of the reference, in all turns. */
static void add_pixel(const struct maps *m, int x, int y, struct products *p) {
    float response = detail_of_response(m, x, y);
    if (!isfinite(response)) return;
    for (int i = 0; i < TURN_COUNT; i++) {
        struct turn turn = turn_at(i);
        int to_x, to_y;
        if (turn.rotate % 2 == 1 && m->nx != m->ny) continue;
        turn_place(turn, m->nx, m->ny, x, y, &to_x, &to_y);
        float sum = detail_of_sum(m, to_x, to_y);
        if (!isfinite(sum)) continue;
        p->aa[i] += (double)sum * (double)sum;
        p->bb[i] += (double)response * (double)response;
        p->ab[i] += (double)sum * (double)response;
        p->count[i]++;
    }
}

void gain_match(const float *sum, const uint8_t *bad, const float *gain, int nx, int ny, int threads,
                struct gain_match *ret_match) {
    const struct maps maps = {.sum = sum, .gain = gain, .bad = bad, .nx = nx, .ny = ny};
    struct products bands[BANDS] = {0};
    int step = (int)sqrt((double)nx * ny / SAMPLES);
    if (step < 1) step = 1;
    *ret_match = (struct gain_match){0};
    int rows = nx < 3 || ny < 3 ? 0 : (ny - 2 + step - 1) / step;
#pragma omp parallel for num_threads(threads)
    for (int b = 0; b < BANDS; b++)
        for (int row = rows * b / BANDS; row < rows * (b + 1) / BANDS; row++)
            for (int x = 1; x < nx - 1; x += step)
                add_pixel(&maps, x, 1 + row * step, &bands[b]);
    for (int i = 0; i < TURN_COUNT; i++) {
        double aa = 0, bb = 0, ab = 0;
        for (int b = 0; b < BANDS; b++) {
            aa += bands[b].aa[i];
            bb += bands[b].bb[i];
            ab += bands[b].ab[i];
            ret_match->pixels[i] += bands[b].count[i];
        }
        ret_match->correlation[i] = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 0;
    }
}

enum gain_verdict gain_match_judge(const struct gain_match *match, struct turn *ret_turn) {
    /* The neighbours of neighbours are shared, so that the values are not quite independent. */
    const double certain = 10, clearly = 1.5;
    int best = 0;
    for (int i = 1; i < TURN_COUNT; i++)
        if (fabs(match->correlation[i]) > fabs(match->correlation[best])) best = i;
    double most = match->correlation[best];
    *ret_turn = turn_at(0);
    if (match->pixels[best] == 0 || !(fabs(most) * sqrt((double)match->pixels[best]) > certain)) return GAIN_UNCERTAIN;
    /* A reference that looks nearly the same after a turn stays as it is. */
    if (fabs(most) < clearly * fabs(match->correlation[0])) {
        best = 0;
        most = match->correlation[0];
    }
    *ret_turn = turn_at(best);
    return most < 0 ? GAIN_INVERSE : best == 0 ? GAIN_RIGHT : GAIN_TURNED;
}
