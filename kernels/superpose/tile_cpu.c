#include "kernels/superpose/tile_cpu.h"

#include <stdint.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/superpose/superpose_solve.h"

/* Atoms summed in single precision before the sum is added in double; their part of a panel stays in the first-level
 * cache. */
enum { CHUNK = 128, HALF = SUPERPOSE_LANES / 2 };

typedef float lanes_f __attribute__((vector_size(4 * SUPERPOSE_LANES)));
typedef double lanes_d __attribute__((vector_size(8 * SUPERPOSE_LANES)));
typedef float half_f __attribute__((vector_size(4 * HALF), aligned(4 * HALF)));
typedef double half_d __attribute__((vector_size(8 * HALF)));

/* Adds the products of `count` atoms to r. Nine vectors for the nine elements of R: enough sums at once to hide the
 * latency of a multiply-add, and few enough for 16 registers. */
MULTIVERSION static void multiply_one(const float *p, const float *q, int count, int lane,
                                      double (*r)[SUPERPOSE_BATCH]) {
    const lanes_f *b = (const lanes_f *)q;
    lanes_f xx = {0}, xy = {0}, xz = {0}, yx = {0}, yy = {0}, yz = {0}, zx = {0}, zy = {0}, zz = {0};
    p += lane;
    for (int k = 0; k < count; k++, p += 3 * SUPERPOSE_LANES, b += 3) {
        lanes_f x = b[0], y = b[1], z = b[2];
        float ax = p[0], ay = p[SUPERPOSE_LANES], az = p[2 * SUPERPOSE_LANES];
        xx += ax * x, xy += ax * y, xz += ax * z;
        yx += ay * x, yy += ay * y, yz += ay * z;
        zx += az * x, zy += az * y, zz += az * z;
    }
    lanes_f sums[9] = {xx, xy, xz, yx, yy, yz, zx, zy, zz};
    for (int c = 0; c < 9; c++)
        *(lanes_d *)(r[c] + lane * SUPERPOSE_LANES) += __builtin_convertvector(sums[c], lanes_d);
}

/* The same for two structures at a time, for 32 registers: each loaded vector of q serves both. */
MULTIVERSION static void multiply_two(const float *p, const float *q, int count, int lane,
                                      double (*r)[SUPERPOSE_BATCH]) {
    const lanes_f *b = (const lanes_f *)q;
    lanes_f xx = {0}, xy = {0}, xz = {0}, yx = {0}, yy = {0}, yz = {0}, zx = {0}, zy = {0}, zz = {0};
    lanes_f ux = {0}, uy = {0}, uz = {0}, vx = {0}, vy = {0}, vz = {0}, wx = {0}, wy = {0}, wz = {0};
    p += lane;
    for (int k = 0; k < count; k++, p += 3 * SUPERPOSE_LANES, b += 3) {
        lanes_f x = b[0], y = b[1], z = b[2];
        float ax = p[0], ay = p[SUPERPOSE_LANES], az = p[2 * SUPERPOSE_LANES];
        float au = p[1], av = p[SUPERPOSE_LANES + 1], aw = p[2 * SUPERPOSE_LANES + 1];
        xx += ax * x, xy += ax * y, xz += ax * z;
        yx += ay * x, yy += ay * y, yz += ay * z;
        zx += az * x, zy += az * y, zz += az * z;
        ux += au * x, uy += au * y, uz += au * z;
        vx += av * x, vy += av * y, vz += av * z;
        wx += aw * x, wy += aw * y, wz += aw * z;
    }
    lanes_f sums[18] = {xx, xy, xz, yx, yy, yz, zx, zy, zz, ux, uy, uz, vx, vy, vz, wx, wy, wz};
    for (int c = 0; c < 18; c++)
        *(lanes_d *)(r[c % 9] + (lane + c / 9) * SUPERPOSE_LANES) += __builtin_convertvector(sums[c], lanes_d);
}

/* The same for one structure with half a panel. */
MULTIVERSION static void multiply_half(const float *p, const float *q, int count, int lane, int half,
                                       double (*r)[SUPERPOSE_BATCH]) {
    half_f xx = {0}, xy = {0}, xz = {0}, yx = {0}, yy = {0}, yz = {0}, zx = {0}, zy = {0}, zz = {0};
    p += lane;
    q += half * HALF;
    for (int k = 0; k < count; k++, p += 3 * SUPERPOSE_LANES, q += 3 * SUPERPOSE_LANES) {
        half_f x = *(const half_f *)q, y = *(const half_f *)(q + SUPERPOSE_LANES);
        half_f z = *(const half_f *)(q + 2 * SUPERPOSE_LANES);
        float ax = p[0], ay = p[SUPERPOSE_LANES], az = p[2 * SUPERPOSE_LANES];
        xx += ax * x, xy += ax * y, xz += ax * z;
        yx += ay * x, yy += ay * y, yz += ay * z;
        zx += az * x, zy += az * y, zz += az * z;
    }
    half_f sums[9] = {xx, xy, xz, yx, yy, yz, zx, zy, zz};
    for (int c = 0; c < 9; c++)
        for (int k = 0; k < HALF; k++)
            r[c][lane * SUPERPOSE_LANES + half * HALF + k] += sums[c][k];
}

static enum superpose_width fitting_width(void) {
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(ICESTREAM_NO_MULTIVERSION)
    if (__builtin_cpu_supports("avx512vl")) return SUPERPOSE_TWO;
    return __builtin_cpu_supports("avx2") ? SUPERPOSE_ONE : SUPERPOSE_HALVES;
#elif defined(__AVX2__)
    return SUPERPOSE_ONE;
#else
    return SUPERPOSE_HALVES;
#endif
}

static void multiply(const float *p, const float *q, int atoms, enum superpose_width width,
                     double (*r)[SUPERPOSE_BATCH]) {
    if (width == SUPERPOSE_WIDTH_FITTING) width = fitting_width();
    memset(r, 0, 9 * sizeof *r);
    for (int from = 0; from < atoms; from += CHUNK) {
        int count = atoms - from < CHUNK ? atoms - from : CHUNK;
        size_t at = (size_t)from * 3 * SUPERPOSE_LANES;
        for (int lane = 0; lane < SUPERPOSE_LANES; lane += width == SUPERPOSE_TWO ? 2 : 1)
            if (width == SUPERPOSE_TWO)
                multiply_two(p + at, q + at, count, lane, r);
            else if (width == SUPERPOSE_ONE)
                multiply_one(p + at, q + at, count, lane, r);
            else
                for (int half = 0; half < 2; half++)
                    multiply_half(p + at, q + at, count, lane, half, r);
    }
}

/* The same in double, for the structure at p's lane with half a panel; into r[c][0 … HALF − 1]. */
MULTIVERSION static void multiply_double(const float *p, const float *q, int atoms, double (*r)[SUPERPOSE_BATCH]) {
    half_d xx = {0}, xy = {0}, xz = {0}, yx = {0}, yy = {0}, yz = {0}, zx = {0}, zy = {0}, zz = {0};
    for (int k = 0; k < atoms; k++, p += 3 * SUPERPOSE_LANES, q += 3 * SUPERPOSE_LANES) {
        half_d x = __builtin_convertvector(*(const half_f *)q, half_d);
        half_d y = __builtin_convertvector(*(const half_f *)(q + SUPERPOSE_LANES), half_d);
        half_d z = __builtin_convertvector(*(const half_f *)(q + 2 * SUPERPOSE_LANES), half_d);
        double ax = p[0], ay = p[SUPERPOSE_LANES], az = p[2 * SUPERPOSE_LANES];
        xx += ax * x, xy += ax * y, xz += ax * z;
        yx += ay * x, yy += ay * y, yz += ay * z;
        zx += az * x, zy += az * y, zz += az * z;
    }
    half_d sums[9] = {xx, xy, xz, yx, yy, yz, zx, zy, zz};
    for (int c = 0; c < 9; c++)
        memcpy(r[c], &sums[c], sizeof sums[c]);
}

/* Runs superpose_qcp on a whole batch: all pairs step together, each for its own number of steps. */
MULTIVERSION static void newton(const struct superpose_batch *batch, double *lambda, int64_t *steep) {
    double unit[SUPERPOSE_BATCH], d8[SUPERPOSE_BATCH], c[SUPERPOSE_BATCH], x[SUPERPOSE_BATCH];
    int64_t going[SUPERPOSE_BATCH], left = 1;
    const double(*r)[SUPERPOSE_BATCH] = batch->r;
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double a = r[0][k], b = r[1][k], g = r[2][k], d = r[3][k], e = r[4][k], f = r[5][k], l = r[6][k], m = r[7][k],
               n = r[8][k];
        double m0 = e * n - f * m, m1 = f * l - d * n, m2 = d * m - e * l;
        double m3 = g * m - b * n, m4 = a * n - g * l, m5 = b * l - a * m;
        double m6 = b * f - g * e, m7 = g * d - a * f, m8 = a * e - b * d;
        double t = a * a + b * b + g * g + d * d + e * e + f * f + l * l + m * m + n * n;
        double minors = m0 * m0 + m1 * m1 + m2 * m2 + m3 * m3 + m4 * m4 + m5 * m5 + m6 * m6 + m7 * m7 + m8 * m8;
        double det = a * m0 + b * m1 + g * m2;
        /* R is 0: any polynomial will do, and λ becomes 0 below. */
        int64_t some = t > SUPERPOSE_NOTHING;
        t = some ? t : 1;
        double u = sqrt(t), over = 1 / t;
        d8[k] = 8 * det * over / u;
        c[k] = 1 - 4 * minors * over * over;
        double start = 0.5 * batch->norms[k] / u;
        x[k] = start < 1.7320508075688774 ? start : 1.7320508075688774;
        unit[k] = some ? u : 0;
        going[k] = 1;
    }
    for (int step = 0; step < SUPERPOSE_STEPS && left; step++) {
        left = 0;
        for (int k = 0; k < SUPERPOSE_BATCH; k++) {
            double square = x[k] * x[k], value = square * square - 2 * square - d8[k] * x[k] + c[k];
            double slope = 4 * x[k] * square - 4 * x[k] - d8[k], change = value / slope;
            int64_t moves = going[k] & (int64_t)(slope > 1e-6);
            change = moves ? change : 0;
            x[k] -= change;
            going[k] = change > 1e-14;
            left |= going[k];
        }
    }
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double slope = 4 * x[k] * x[k] * x[k] - 4 * x[k] - d8[k];
        lambda[k] = x[k] * unit[k];
        steep[k] = (slope > SUPERPOSE_STEEP) | (unit[k] == 0);
    }
}

/* One turn of cyclic Jacobi in every pair of a batch: makes a[pq] 0; u and v are the other two rows. */
MULTIVERSION static void turn_all(double *restrict pp, double *restrict qq, double *restrict pq, double *restrict up,
                                  double *restrict uq, double *restrict vp, double *restrict vq) {
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double off = pq[k], apart = qq[k] - pp[k];
        /* tan of the angle as off · 2 / (apart ± √(apart² + 4 off²)), which never divides by 0. */
        double root = sqrt(apart * apart + 4 * off * off), below = apart < 0 ? apart - root : apart + root;
        double t = below == 0 ? 0 : 2 * off / below, c = 1 / sqrt(t * t + 1), s = t * c;
        pp[k] -= t * off;
        qq[k] += t * off;
        pq[k] = 0;
        double a = up[k], b = uq[k];
        up[k] = c * a - s * b;
        uq[k] = s * a + c * b;
        a = vp[k];
        b = vq[k];
        vp[k] = c * a - s * b;
        vq[k] = s * a + c * b;
    }
}

/* Returns whether nothing off the diagonal could still change it. */
MULTIVERSION static bool is_diagonal(double (*a)[4][SUPERPOSE_BATCH]) {
    int64_t left = 0;
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double off = a[0][1][k] * a[0][1][k] + a[0][2][k] * a[0][2][k] + a[0][3][k] * a[0][3][k] +
                     a[1][2][k] * a[1][2][k] + a[1][3][k] * a[1][3][k] + a[2][3][k] * a[2][3][k];
        double on =
            a[0][0][k] * a[0][0][k] + a[1][1][k] * a[1][1][k] + a[2][2][k] * a[2][2][k] + a[3][3][k] * a[3][3][k];
        left |= off > 1e-40 * on;
    }
    return !left;
}

static void jacobi(const struct superpose_batch *batch, double *lambda) {
    double a[4][4][SUPERPOSE_BATCH]; /* the upper triangle is used */
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double r[9], full[4][4];
        for (int c = 0; c < 9; c++)
            r[c] = batch->r[c][k];
        superpose_quaternion_matrix(r, full);
        for (int i = 0; i < 4; i++)
            for (int j = i; j < 4; j++)
                a[i][j][k] = full[i][j];
    }
    for (int sweep = 0; sweep < SUPERPOSE_SWEEPS && !is_diagonal(a); sweep++) {
        turn_all(a[0][0], a[1][1], a[0][1], a[0][2], a[1][2], a[0][3], a[1][3]);
        turn_all(a[0][0], a[2][2], a[0][2], a[0][1], a[1][2], a[0][3], a[2][3]);
        turn_all(a[0][0], a[3][3], a[0][3], a[0][1], a[1][3], a[0][2], a[2][3]);
        turn_all(a[1][1], a[2][2], a[1][2], a[0][1], a[0][2], a[1][3], a[2][3]);
        turn_all(a[1][1], a[3][3], a[1][3], a[0][1], a[0][3], a[1][2], a[2][3]);
        turn_all(a[2][2], a[3][3], a[2][3], a[0][2], a[0][3], a[1][2], a[1][3]);
    }
    for (int k = 0; k < SUPERPOSE_BATCH; k++)
        lambda[k] = fmax(fmax(a[0][0][k], a[1][1][k]), fmax(a[2][2][k], a[3][3][k]));
}

static void take_r(const struct superpose_batch *batch, int k, double *r) {
    for (int c = 0; c < 9; c++)
        r[c] = batch->r[c][k];
}

MULTIVERSION static void finish(const double *norms, const double *lambda, double total, double *rmsd) {
    for (int k = 0; k < SUPERPOSE_BATCH; k++) {
        double square = (norms[k] - 2 * lambda[k]) / total;
        rmsd[k] = sqrt(square > 0 ? square : 0);
    }
}

static void solve(enum superpose_method method, double total, struct superpose_batch *batch) {
    double lambda[SUPERPOSE_BATCH], r[9];
    int64_t steep[SUPERPOSE_BATCH];
    if (method == SUPERPOSE_QCP) {
        newton(batch, lambda, steep);
        for (int k = 0; k < SUPERPOSE_BATCH; k++)
            if (!steep[k]) {
                take_r(batch, k, r);
                lambda[k] = superpose_jacobi(r, NULL);
            }
    } else if (method == SUPERPOSE_JACOBI)
        jacobi(batch, lambda);
    else
        for (int k = 0; k < SUPERPOSE_BATCH; k++) {
            take_r(batch, k, r);
            lambda[k] = superpose_kabsch(r, NULL, NULL);
        }
    finish(batch->norms, lambda, total, batch->rmsd);
}

/* Sums those pairs of half a panel again in double whose products in single precision are not good enough. */
static void sum_again(const struct superpose_tile *t, int p, int half, struct superpose_batch *batch) {
    int first = p * SUPERPOSE_LANES + half * HALF, close[HALF], any = 0;
    for (int lane = 0; lane < HALF; lane++) {
        int q = half * HALF + lane, wanted = p < t->p_count && q < t->q_count && q - p >= t->least;
        close[lane] = wanted && superpose_is_close(batch->norms[first + lane], batch->rmsd[first + lane], t->total);
        any |= close[lane];
    }
    if (!any) return;
    double r[9][SUPERPOSE_BATCH], one[9];
    multiply_double(t->p + p, t->q + half * HALF, t->atoms, r);
    for (int lane = 0; lane < HALF; lane++) {
        if (!close[lane]) continue;
        for (int c = 0; c < 9; c++)
            one[c] = r[c][lane];
        double norms = batch->norms[first + lane], lambda = superpose_lambda(t->method, one, 0.5 * norms);
        batch->rmsd[first + lane] = superpose_rmsd(norms, lambda, t->total);
    }
}

void superpose_tile_run(const struct superpose_tile *tile, struct superpose_batch *batch) {
    multiply(tile->p, tile->q, tile->atoms, tile->width, batch->r);
    for (int p = 0; p < SUPERPOSE_LANES; p++)
        for (int q = 0; q < SUPERPOSE_LANES; q++)
            batch->norms[p * SUPERPOSE_LANES + q] = tile->norm_p[p] + tile->norm_q[q];
    solve(tile->method, tile->total, batch);
    for (int p = 0; p < SUPERPOSE_LANES; p++)
        for (int half = 0; half < 2; half++)
            sum_again(tile, p, half, batch);
}

void superpose_tile_row(const float *p, int lane, double norm, const float *q, const double *norm_q, int panels,
                        int atoms, double total, enum superpose_method method, struct superpose_batch *batch) {
    double r[9][SUPERPOSE_BATCH];
    memset(batch->r, 0, sizeof batch->r);
    memset(batch->norms, 0, sizeof batch->norms);
    for (int k = 0; k < 2 * panels; k++) {
        multiply_double(p + lane, q + (size_t)(k / 2) * atoms * 3 * SUPERPOSE_LANES + k % 2 * HALF, atoms, r);
        for (int c = 0; c < 9; c++)
            memcpy(batch->r[c] + k * HALF, r[c], HALF * sizeof **r);
    }
    for (int k = 0; k < panels * SUPERPOSE_LANES; k++)
        batch->norms[k] = norm + norm_q[k];
    solve(method, total, batch);
}
