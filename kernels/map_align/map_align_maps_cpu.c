/* Maps: centre of mass, rotational average, and the map that is turned. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/map_align/map_align_private.h"

/* Density above this part of the maximum counts for the centre of mass. */
#define STRONG 0.3f

static size_t voxel(int box, int x, int y, int z) {
    return ((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x;
}

/* Splines for each shell. Finer ones would follow a symmetric map: the few frequencies of one length may all be copies of
 * each other. */
enum { SPLINES = 2, NEIGHBOURS = 4 };

int map_align_splines(int box) {
    return (int)ceil(SPLINES * sqrt(3) * (box / 2)) + NEIGHBOURS;
}

/* Finds the splines that are not 0 at a length: `first` and the next three, and their values. */
static int splines_at(double length, double ret_values[NEIGHBOURS]) {
    const double x = SPLINES * length;
    const int first = (int)x;
    const double t = x - first, u = 1 - t;
    ret_values[0] = u * u * u / 6;
    ret_values[1] = (3 * t * t * t - 6 * t * t + 4) / 6;
    ret_values[2] = (3 * u * u * u - 6 * u * u + 4) / 6;
    ret_values[3] = t * t * t / 6;
    return first;
}

/* Goes through a half transform: adds each frequency to the normal equations of the profile, or takes the profile off. The
 * transform of a map that is round about box/2 is real, and depends on the length alone, but for the sign of the phase
 * origin. */
static void over_frequencies(int box, bool add, float *spectrum, const struct map_profile *profile) {
    const int columns = box / 2 + 1;
    double at[NEIGHBOURS];
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++) {
            const int kz = z <= box / 2 ? z : z - box, ky = y <= box / 2 ? y : y - box;
            float *line = spectrum + 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
            for (int kx = 0; kx < columns; kx++) {
                const int first = splines_at(sqrt(kx * kx + ky * ky + kz * kz), at);
                const double sign = (kx + ky + kz) % 2 == 0 ? 1 : -1;
                const int copies = kx == 0 || 2 * kx == box ? 1 : 2;
                double sum = 0;
                for (int i = 0; i < NEIGHBOURS; i++) {
                    sum += at[i] * profile->values[first + i];
                    for (int d = 0; add && i + d < NEIGHBOURS; d++)
                        profile->bands[first + i][d] += copies * at[i] * at[i + d];
                }
                for (int i = 0; add && i < NEIGHBOURS; i++)
                    profile->values[first + i] += copies * at[i] * sign * (double)line[2 * kx];
                if (!add) line[2 * kx] = (float)((double)line[2 * kx] - sign * sum);
            }
        }
}

/* Solves the normal equations by Cholesky's factors. */
static void solve(int count, const struct map_profile *profile) {
    double(*m)[4] = profile->bands, *x = profile->values, trace = 0;
    for (int i = 0; i < count; i++)
        trace += m[i][0];
    for (int i = 0; i < count; i++) { /* the shortest lengths are fewer than their splines */
        m[i][0] = sqrt(m[i][0] + 1e-9 * trace / count);
        for (int d = 1; d < NEIGHBOURS; d++)
            m[i][d] /= m[i][0];
        for (int d = 1; d < NEIGHBOURS && i + d < count; d++)
            for (int e = d; e < NEIGHBOURS; e++)
                m[i + d][e - d] -= m[i][d] * m[i][e];
    }
    for (int i = 0; i < count; i++) {
        x[i] /= m[i][0];
        for (int d = 1; d < NEIGHBOURS && i + d < count; d++)
            x[i + d] -= m[i][d] * x[i];
    }
    for (int i = count - 1; i >= 0; i--) {
        for (int d = 1; d < NEIGHBOURS && i + d < count; d++)
            x[i] -= m[i][d] * x[i + d];
        x[i] /= m[i][0];
    }
}

void map_align_subtract_radial(const struct map_radial *r, float *map) {
    const int count = map_align_splines(r->box);
    const size_t voxels = fft_real_count(r->forward);
    memset(r->profile.bands, 0, (size_t)count * sizeof *r->profile.bands);
    memset(r->profile.values, 0, (size_t)count * sizeof *r->profile.values);
    fft_run(r->forward, map, r->spectrum);
    over_frequencies(r->box, true, r->spectrum, &r->profile);
    solve(count, &r->profile);
    over_frequencies(r->box, false, r->spectrum, &r->profile);
    fft_run(r->inverse, r->spectrum, map);
    for (size_t i = 0; i < voxels; i++)
        map[i] /= (float)voxels;
}

static enum status make_radial(int box, struct map_radial *r, struct err *err) {
    static const char WHAT[] = "rotational average";
    const struct fft_options forward = {.rank = 3, .shape = {box, box, box}};
    struct fft_options inverse = forward;
    inverse.direction = FFT_INVERSE;
    r->box = box;
    TRY(fft_create(&forward, &r->forward, err));
    TRY(fft_create(&inverse, &r->inverse, err));
    TRY(mem_new(fft_complex_floats(r->forward), sizeof(float), WHAT, &r->spectrum, err));
    const size_t splines = (size_t)map_align_splines(box);
    TRY(mem_new(splines, sizeof *r->profile.bands, WHAT, &r->profile.bands, err));
    return mem_new(splines, sizeof *r->profile.values, WHAT, &r->profile.values, err);
}

enum status map_align_without_radial(int box, float *map, struct err *err) {
    FAIL_IF(box < 2 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "a map of %d px: the box must be even and between 2 and 2048 px", box);
    struct map_radial radial = {0};
    const enum status status = make_radial(box, &radial, err);
    if (status == STATUS_OK) map_align_subtract_radial(&radial, map);
    fft_destroy(&radial.forward);
    fft_destroy(&radial.inverse);
    mem_free(&radial.spectrum);
    mem_free(&radial.profile.bands);
    mem_free(&radial.profile.values);
    return status;
}

/* Multiplies a half transform by a Gaussian of the frequency that is 1/e at `shell`, and by 1/voxels. */
MULTIVERSION static void smooth(int box, int shell, float *spectrum) {
    const int columns = box / 2 + 1;
    float along[1024];
    for (int k = 0; k < box; k++) {
        const int f = k <= box / 2 ? k : k - box;
        along[k] = (float)(exp(-(double)f * f / ((double)shell * shell)) / box);
    }
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++) {
            float *line = spectrum + 2 * ((size_t)z * (size_t)box + (size_t)y) * (size_t)columns;
            const float factor = along[z] * along[y];
            for (int x = 0; x < columns; x++) {
                line[2 * x] *= factor * along[x];
                line[2 * x + 1] *= factor * along[x];
            }
        }
}

/* Returns whether a voxel lies in the sphere inside the box. */
static bool inside(int c, int x, int y, int z) {
    return (x - c) * (x - c) + (y - c) * (y - c) + (z - c) * (z - c) < c * c;
}

void map_align_centre(struct map_aligner *a, const float *map, int ret_centre[3]) {
    const int box = a->options.box, c = box / 2;
    memcpy(a->work, map, fft_real_count(a->forward) * sizeof *map);
    fft_run(a->forward, a->work, a->spectrum);
    smooth(box, a->grid_last, a->spectrum);
    fft_run(a->inverse, a->spectrum, a->work);
    float most = 0;
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++)
                if (inside(c, x, y, z)) most = fmaxf(most, a->work[voxel(box, x, y, z)]);
    double mass = 0, moment[3] = {0};
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const double value = (double)(a->work[voxel(box, x, y, z)] - STRONG * most);
                if (value <= 0 || !inside(c, x, y, z)) continue;
                mass += value;
                moment[0] += value * (x - c), moment[1] += value * (y - c), moment[2] += value * (z - c);
            }
    for (int i = 0; i < 3; i++)
        ret_centre[i] = mass > 0 ? (int)lround(moment[i] / mass) : 0;
}

void map_align_roll(int box, const float *map, const int centre[3], float *out) {
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const int fx = x + centre[0], fy = y + centre[1], fz = z + centre[2];
                const bool there = fx >= 0 && fx < box && fy >= 0 && fy < box && fz >= 0 && fz < box;
                out[voxel(box, x, y, z)] = there ? map[voxel(box, fx, fy, fz)] : 0;
            }
}

/* Reads the transform of a projector at a frequency, given in points of its grid, by trilinear interpolation. */
static inline void read_grid(const struct projector_grid *g, double x, double y, double z, float *re, float *im) {
    const bool mirrored = x < 0;
    if (mirrored) x = -x, y = -y, z = -z;
    const double fy = floor(y), fz = floor(z);
    const int gx = (int)x;
    const float dx = (float)(x - gx), dy = (float)(y - fy), dz = (float)(z - fz);
    const size_t row = 2 * (size_t)g->nx, plane = row * (size_t)g->ny;
    const float *at = g->values + (size_t)((int)fz + g->reach) * plane + (size_t)((int)fy + g->reach) * row + 2 * gx;
    float sums[2];
    for (int part = 0; part < 2; part++, at++) {
        const float low = at[0] + dx * (at[2] - at[0]), low_y = at[row] + dx * (at[row + 2] - at[row]);
        const float *up = at + plane;
        const float high = up[0] + dx * (up[2] - up[0]), high_y = up[row] + dx * (up[row + 2] - up[row]);
        const float near = low + dy * (low_y - low), far = high + dy * (high_y - high);
        sums[part] = near + dz * (far - near);
    }
    *re = sums[0], *im = mirrored ? -sums[1] : sums[1];
}

struct turn {
    const struct map_pose *pose;
    struct projector_grid grid;
    int box, last, pad;
    float scale;
};

/* Fills a line (z, y) of the half transform, with the phase origin at the first voxel. */
MULTIVERSION static void turn_line(const struct turn *t, int kz, int ky, float *line) {
    const double *r = t->pose->rotation, *shift = t->pose->shift;
    for (int kx = 0; kx < t->box / 2; kx++) {
        if (kx * kx + ky * ky + kz * kz > t->last * t->last) break;
        double from[3];
        for (int i = 0; i < 3; i++)
            from[i] = t->pad * (r[i] * kx + r[3 + i] * ky + r[6 + i] * kz);
        float re, im;
        read_grid(&t->grid, from[0], from[1], from[2], &re, &im);
        if (t->pose->inverted) im = -im;
        const double phase = -2 * M_PI * (kx * shift[0] + ky * shift[1] + kz * shift[2]) / t->box;
        const float sign = (kx + ky + kz) % 2 == 0 ? t->scale : -t->scale;
        const float c = sign * (float)cos(phase), s = sign * (float)sin(phase);
        line[2 * kx] = c * re - s * im;
        line[2 * kx + 1] = s * re + c * im;
    }
}

void map_align_turn(struct map_aligner *a, const struct projector *projector, const struct map_pose *pose, int last,
                    float *out) {
    const int box = a->options.box, columns = box / 2 + 1;
    struct turn t = {
        .pose = pose, .grid = projector_grid(projector), .box = box, .last = last, .scale = 1 / (float)box};
    t.pad = (t.grid.reach - 1) / t.grid.r_max;
#pragma omp parallel for num_threads(a->threads) schedule(static)
    for (int z = 0; z < box; z++) {
        float *plane = a->spectrum + 2 * (size_t)z * (size_t)box * (size_t)columns;
        memset(plane, 0, 2 * (size_t)box * (size_t)columns * sizeof *plane);
        for (int y = 0; y < box; y++) {
            if (2 * z == box || 2 * y == box) continue; /* Nyquist: a frequency and its mate are one there */
            turn_line(&t, z < box / 2 ? z : z - box, y < box / 2 ? y : y - box,
                      plane + 2 * (size_t)y * (size_t)columns);
        }
    }
    fft_run(a->inverse, a->spectrum, out);
}
