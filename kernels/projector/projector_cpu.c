#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/projector/projector_private.h"

/* Processes BLOCK pixels at a time. If the grid is larger than the cache next to the core, prefetches their corners
 * AHEAD of use. */
enum { PAD = PROJECTOR_PAD, BLOCK = 256, AHEAD = 48, NEAR_CACHE_BYTES = 1 << 22 };

/* Four floats: two neighbours along x, re im re im. */
typedef float quad __attribute__((vector_size(16)));

/* Fills the factors that cancel, in advance, the effect of trilinear interpolation on the map, by squared distance from
 * the centre. */
static void fill_correction(int box, int dimensions, float *table) {
    int most = dimensions * (box / 2) * (box / 2);
    table[0] = 1;
    for (int r2 = 1; r2 <= most; r2++) {
        double x = M_PI * sqrt(r2) / (box * PAD);
        double sinc = sin(x) / x;
        table[r2] = (float)(1 / (sinc * sinc));
    }
}

/* 2D; a cube pads a 3D map itself. */
static void pad_map(struct projector *p, const float *map, const float *correction) {
    int box = p->box, n = PAD * box, first = (n - box) / 2, c = box / 2;
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int y = 0; y < box; y++) {
        float *out = p->padded + (size_t)(y + first) * (size_t)n + first;
        const float *in = map + (size_t)y * (size_t)box;
        for (int x = 0; x < box; x++)
            out[x] = in[x] * correction[(y - c) * (y - c) + (x - c) * (x - c)];
    }
}

/* Returns the line x = 0 .. of the transform at these frequencies, which are not beyond Nyquist by more than one. */
static const float *line_of(const struct projector *p, int z, int y) {
    int n = PAD * p->box;
    if (p->dimensions == 3) return fourier_cube_line(&p->cube, z, y);
    return p->spectrum + 2 * (size_t)((y + n) % n) * (size_t)(n / 2 + 1);
}

/* Copies the grid points within this radius from the transform: about the origin, with the phase origin moved to the
 * centre and the scale of a slice (norm 1/box²). */
static void copy_grid(struct projector *p, int radius) {
    int n = PAD * p->box;
    float scale = 1 / ((float)p->box * (float)p->box);
#pragma omp parallel for schedule(static) num_threads(p->threads)
    for (int row = 0; row < p->nz * p->ny; row++) {
        int z = p->dimensions == 3 ? row / p->ny - p->reach : 0, y = row % p->ny - p->reach;
        float *out = p->grid + 2 * (size_t)row * (size_t)p->nx;
        for (int x = 0; x < p->nx && x * x + y * y + z * z <= radius * radius; x++) {
            /* At full size the last points lie beyond Nyquist: the transform is periodic and Hermitian. */
            bool mirrored = x > n / 2;
            const float *in = line_of(p, mirrored ? -z : z, mirrored ? -y : y) + 2 * (mirrored ? n - x : x);
            float sign = (x + y + z) % 2 == 0 ? scale : -scale;
            out[2 * x] = sign * in[0];
            out[2 * x + 1] = mirrored ? -sign * in[1] : sign * in[1];
        }
    }
}

/* Makes plans and takes memory for the current shape. */
static enum status make_plan(struct projector *p, struct err *err) {
    int n = PAD * p->box;
    if (p->dimensions == 3) {
        if (p->cube.values != NULL && p->cube.reach == p->reach) return STATUS_OK;
        fourier_cube_destroy(&p->cube);
        return fourier_cube_create(p->box, n, p->reach, FFT_FORWARD, p->threads, &p->cube, err);
    }
    const struct fft_options options = {.rank = 2, .shape = {n, n}, .direction = FFT_FORWARD, .threads = p->threads};
    if (p->plan == NULL) TRY(fft_create(&options, &p->plan, err));
    if (p->padded == NULL)
        TRY(mem_new(fft_real_count(p->plan), sizeof *p->padded, "padded reference", &p->padded, err));
    if (p->spectrum == NULL)
        TRY(mem_new(fft_complex_floats(p->plan), sizeof *p->spectrum, "reference transform", &p->spectrum, err));
    return STATUS_OK;
}

static enum status transform(struct projector *p, const float *map, struct err *err) {
    TRY(make_plan(p, err));
    if (p->correction == NULL) {
        size_t count = (size_t)(p->dimensions * (p->box / 2) * (p->box / 2) + 1);
        TRY(mem_new(count, sizeof *p->correction, "gridding correction", &p->correction, err));
        fill_correction(p->box, p->dimensions, p->correction);
    }
    if (p->dimensions == 3) {
        fourier_cube_forward(&p->cube, map, p->correction);
        return STATUS_OK;
    }
    pad_map(p, map, p->correction);
    fft_run(p->plan, p->padded, p->spectrum);
    return STATUS_OK;
}

static enum status set_map(struct projector *p, struct workspace *workspace, const float *map, int size,
                           struct err *err) {
    projector_shape(p, size);
    TRY(projector_reserve(p, err));
    TRY(transform(p, map, err));
    p->workspace = workspace;
    copy_grid(p, 2 * p->reach); /* the corners of the grid too */
    return STATUS_OK;
}

static enum status set_shells(struct projector *p, const float *map, int last_shell, struct err *err) {
    TRY(transform(p, map, err));
    copy_grid(p, PAD * last_shell);
    return STATUS_OK;
}

static enum status power(const struct projector *p, float *ret_power, struct err *err) {
    (void)err;
    int shells = p->box / 2 + 1, limit = PAD * p->r_max;
    double sum[1025] = {0}, count[1025] = {0};
    for (int row = 0; row < p->nz * p->ny; row++) {
        int z = p->dimensions == 3 ? row / p->ny - p->reach : 0, y = row % p->ny - p->reach;
        const float *in = p->grid + 2 * (size_t)row * (size_t)p->nx;
        for (int x = 0; x <= limit; x++) {
            double r = sqrt((double)x * x + (double)y * y + (double)z * z);
            if (r > limit) break;
            int shell = (int)(r / PAD + 0.5);
            sum[shell] += (double)(in[2 * x] * in[2 * x] + in[2 * x + 1] * in[2 * x + 1]);
            count[shell] += 1;
        }
    }
    for (int s = 0; s < shells; s++)
        ret_power[s] = count[s] > 0 ? (float)(sum[s] / count[s] / 2) : 0;
    return STATUS_OK;
}

/* The transform is in the host's memory already. */
static enum status to_host(struct projector *p, struct err *err) {
    (void)p, (void)err;
    return STATUS_OK;
}

const struct projector_work projector_cpu_work = {
    .set_map = set_map,
    .set_shells = set_shells,
    .to_host = to_host,
    .power = power,
};

/* Places of a block's pixels in the grid. */
struct places {
    unsigned index[BLOCK];                  /* of the lowest corner, in complex values */
    float fx[BLOCK], fy[BLOCK], fz[BLOCK];  /* fractions beyond the corner */
    float re_scale[BLOCK], im_scale[BLOCK]; /* 0 beyond r_max; im is negative where the conjugate is sampled */
};

/* Locates pixels. m: columns 1 and 2 of pad · Aᵀ, that is rows 1 and 2 of A. Pixels beyond r_max are placed at the
 * origin. */
static inline __attribute__((always_inline)) void locate(const struct projector *p, const short *kx, const short *ky,
                                                         int count, const float m[6], bool is_3d,
                                                         struct places *places) {
    const float reach = (float)p->reach;
    const int r2_max = p->r_max * p->r_max;
    const unsigned ny = (unsigned)p->ny, nx = (unsigned)p->nx;
    const int bias = p->reach;
    for (int i = 0; i < count; i++) {
        int ix = kx[i], iy = ky[i];
        float inside = ix * ix + iy * iy <= r2_max ? 1.0f : 0.0f;
        float u = inside * (float)ix, v = inside * (float)iy;
        float x = m[0] * u + m[3] * v, y = m[1] * u + m[4] * v, z = is_3d ? m[2] * u + m[5] * v : 0;
        float turn = x < 0 ? -1.0f : 1.0f;
        x *= turn, y *= turn, z *= turn;
        /* Adding reach makes the values positive, so that truncation is the floor. */
        int gx = (int)x, gy = (int)(y + reach), gz = is_3d ? (int)(z + reach) : 0;
        places->fx[i] = x - (float)gx;
        places->fy[i] = y - (float)(gy - bias);
        places->fz[i] = is_3d ? z - (float)(gz - bias) : 0;
        places->index[i] = ((unsigned)gz * ny + (unsigned)gy) * nx + (unsigned)gx;
        places->re_scale[i] = inside;
        places->im_scale[i] = inside * turn;
    }
}

static inline __attribute__((always_inline)) quad load(const float *at) {
    quad q;
    memcpy(&q, at, sizeof q);
    return q;
}

MULTIVERSION static void slice_3d(const struct projector *p, const struct fourier_pixels *pixels, int count,
                                  const float m[6], float *out) {
    struct places at;
    const size_t sy = 2 * (size_t)p->nx, sz = sy * (size_t)p->ny;
    const int ahead = sz * (size_t)p->nz * sizeof *p->grid > NEAR_CACHE_BYTES ? AHEAD : BLOCK;
    for (int begin = 0; begin < count; begin += BLOCK) {
        int n = count - begin < BLOCK ? count - begin : BLOCK;
        locate(p, pixels->kx + begin, pixels->ky + begin, n, m, true, &at);
        float *o = out + 2 * (size_t)begin;
        for (int i = 0; i < n; i++) {
            if (i + ahead < n) {
                const float *soon = p->grid + 2 * (size_t)at.index[i + ahead];
                __builtin_prefetch(soon);
                __builtin_prefetch(soon + sy);
                __builtin_prefetch(soon + sz);
                __builtin_prefetch(soon + sz + sy);
            }
            const float *corner = p->grid + 2 * (size_t)at.index[i];
            quad low = load(corner), low_y = load(corner + sy);
            quad high = load(corner + sz), high_y = load(corner + sz + sy);
            low += at.fy[i] * (low_y - low);
            high += at.fy[i] * (high_y - high);
            low += at.fz[i] * (high - low);
            o[2 * i] = at.re_scale[i] * (low[0] + at.fx[i] * (low[2] - low[0]));
            o[2 * i + 1] = at.im_scale[i] * (low[1] + at.fx[i] * (low[3] - low[1]));
        }
    }
}

MULTIVERSION static void slice_2d(const struct projector *p, const struct fourier_pixels *pixels, int count,
                                  const float m[6], float *out) {
    struct places at;
    const size_t sy = 2 * (size_t)p->nx;
    for (int begin = 0; begin < count; begin += BLOCK) {
        int n = count - begin < BLOCK ? count - begin : BLOCK;
        locate(p, pixels->kx + begin, pixels->ky + begin, n, m, false, &at);
        float *o = out + 2 * (size_t)begin;
        for (int i = 0; i < n; i++) {
            const float *corner = p->grid + 2 * (size_t)at.index[i];
            quad low = load(corner), high = load(corner + sy);
            low += at.fy[i] * (high - low);
            o[2 * i] = at.re_scale[i] * (low[0] + at.fx[i] * (low[2] - low[0]));
            o[2 * i + 1] = at.im_scale[i] * (low[1] + at.fx[i] * (low[3] - low[1]));
        }
    }
}

static void one_slice(const struct projector *p, const struct fourier_pixels *pixels, int count, const float *matrix,
                      float *out) {
    float m[6];
    for (int i = 0; i < 6; i++)
        m[i] = PAD * matrix[i];
    if (p->dimensions == 3)
        slice_3d(p, pixels, count, m, out);
    else
        slice_2d(p, pixels, count, m, out);
}

void projector_slices(const struct projector *p, const struct fourier_pixels *pixels, int count, int n,
                      const float *matrices, int threads, float *out) {
#pragma omp parallel for schedule(static) num_threads(threads > 0 ? threads : 1) if (threads > 1 && n > 1)
    for (int i = 0; i < n; i++)
        one_slice(p, pixels, count, matrices + 9 * (size_t)i, out + 2 * (size_t)count * (size_t)i);
}
