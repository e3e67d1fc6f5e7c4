#include "kernels/differences/shells.h"

#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"

struct shells {
    int box, threads;
    struct fft_plan *forward, *inverse;
    float *real, *spectrum; /* box³; half transform, complex */
    short *shell_of;        /* [3 (box/2)² + 1]: shell of a frequency with this square; −1: beyond the last */
    double *planes;         /* [box][box/2 + 1]: Σ |F|² of a plane of the transform */
};

static size_t voxels_of(const struct shells *s) {
    return (size_t)s->box * (size_t)s->box * (size_t)s->box;
}

static enum status list_shells(struct shells *s, struct err *err) {
    const int half = s->box / 2, most = 3 * half * half;
    TRY(mem_new((size_t)most + 1, sizeof *s->shell_of, "shells", &s->shell_of, err));
    for (int square = 0; square <= most; square++) {
        int shell = (int)lround(sqrt(square));
        s->shell_of[square] = (short)(shell <= half ? shell : -1);
    }
    return STATUS_OK;
}

static enum status take(struct shells *s, struct err *err) {
    struct fft_options options = {
        .rank = 3, .shape = {s->box, s->box, s->box}, .direction = FFT_FORWARD, .threads = s->threads};
    const size_t box = (size_t)s->box, half = box / 2 + 1;
    TRY(list_shells(s, err));
    TRY(fft_create(&options, &s->forward, err));
    options.direction = FFT_INVERSE;
    TRY(fft_create(&options, &s->inverse, err));
    TRY(mem_new_unset(voxels_of(s), sizeof *s->real, "a map", &s->real, err));
    TRY(mem_new_unset(box * box * half, 2 * sizeof *s->spectrum, "the transform of a map", &s->spectrum, err));
    return mem_new_unset(box * half, sizeof *s->planes, "spectra", &s->planes, err);
}

enum status shells_create(int box, int threads, struct shells **ret_shells, struct err *err) {
    struct shells *s = NULL;
    FAIL_IF(box < 2 || box % 2 != 0, err, STATUS_BAD_ARGUMENT, "maps of %d px have no shells: an even box is needed",
            box);
    TRY(mem_new(1, sizeof *s, "shells of maps", &s, err));
    *s = (struct shells){.box = box, .threads = threads < 1 ? 1 : threads};
    const enum status status = take(s, err);
    if (status != STATUS_OK) {
        shells_destroy(&s);
        return status;
    }
    *ret_shells = s;
    return STATUS_OK;
}

void shells_destroy(struct shells **shells) {
    struct shells *s = *shells;
    if (s == NULL) return;
    fft_destroy(&s->forward);
    fft_destroy(&s->inverse);
    mem_free(&s->real);
    mem_free(&s->spectrum);
    mem_free(&s->shell_of);
    mem_free(&s->planes);
    mem_free(shells);
}

static void transform(const struct shells *s, const float *map) {
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (size_t i = 0; i < voxels_of(s); i++)
        s->real[i] = map[i];
    fft_run(s->forward, s->real, s->spectrum);
}

/* Returns the shells of a row of the half transform: [k²] is that of column k. */
static const short *shells_of_row(const struct shells *s, int plane, int row) {
    int z = plane <= s->box / 2 ? plane : plane - s->box, y = row <= s->box / 2 ? row : row - s->box;
    return s->shell_of + z * z + y * y;
}

void shells_filter(struct shells *s, const float *gains, float *map) {
    const int box = s->box;
    const float scale = (float)(1 / pow(box, 3));
    transform(s, map);
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int plane = 0; plane < box; plane++) {
        float *f = s->spectrum + (size_t)plane * (size_t)box * (size_t)(box / 2 + 1) * 2;
        for (int row = 0; row < box; row++) {
            const short *shell = shells_of_row(s, plane, row);
            for (int x = 0; x <= box / 2; x++, f += 2) {
                float gain = shell[x * x] >= 0 ? scale * gains[shell[x * x]] : 0;
                f[0] *= gain, f[1] *= gain;
            }
        }
    }
    fft_run(s->inverse, s->spectrum, s->real);
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (size_t i = 0; i < voxels_of(s); i++)
        map[i] = s->real[i];
}

static void sum_plane(const struct shells *s, int plane) {
    const int box = s->box, half = box / 2;
    double *sums = s->planes + (size_t)plane * (size_t)(half + 1);
    const float *f = s->spectrum + (size_t)plane * (size_t)box * (size_t)(half + 1) * 2;
    memset(sums, 0, (size_t)(half + 1) * sizeof *sums);
    for (int row = 0; row < box; row++) {
        const short *shell = shells_of_row(s, plane, row);
        for (int x = 0; x <= half; x++, f += 2)
            /* Columns other than the first and the last count twice, for their conjugates. */
            if (shell[x * x] >= 0)
                sums[shell[x * x]] += (x > 0 && x < half ? 2 : 1) * ((double)f[0] * f[0] + (double)f[1] * f[1]);
    }
}

void shells_power(struct shells *s, const float *map, double *ret_power) {
    const int shells = s->box / 2 + 1;
    transform(s, map);
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int plane = 0; plane < s->box; plane++)
        sum_plane(s, plane);
    for (int shell = 0; shell < shells; shell++) {
        double sum = 0;
        for (int plane = 0; plane < s->box; plane++)
            sum += s->planes[(size_t)plane * (size_t)shells + (size_t)shell];
        ret_power[shell] = sum;
    }
}
