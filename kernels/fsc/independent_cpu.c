#include "kernels/fsc/independent.h"

#include <math.h>
#include <stdint.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/fsc/fsc_private.h"

/* Voxels k of a half shell; each stands for −k too, whose value is the conjugate. */
enum { MOST = 500 };

struct half_shell {
    int count, looked; /* voxels there are, and in the arrays */
    double direction[MOST][3], value[MOST][2];
    int bins;
    double (*sums)[2]; /* [bins]: products of pairs, and their number */
};

/* Returns a random number below `below`, the same ones in each run. */
static int draw(uint64_t *state, int below) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (int)((*state >> 33) % (uint64_t)below);
}

/* Offers a voxel to a sample in which each voxel of the shell has the same chance (reservoir sampling). */
static void offer(struct half_shell *shell, uint64_t *state, const int k[3], double radius, const float value[2]) {
    int at = shell->count++;
    if (at >= MOST) at = draw(state, shell->count);
    if (at >= MOST) return;
    /* The phase origin is the map's centre: half a box away. */
    double sign = (k[0] + k[1] + k[2]) % 2 == 0 ? 1 : -1;
    for (int i = 0; i < 3; i++)
        shell->direction[at][i] = k[i] / radius;
    for (int i = 0; i < 2; i++)
        shell->value[at][i] = sign * (double)value[i];
    shell->looked = shell->count < MOST ? shell->count : MOST;
}

/* Returns whether of all copies of voxel k by symmetry, and of −k, this one is the nearest to a line. The line lies on
 * no axis or mirror plane of a group. */
static bool stands_for_copies(const struct symmetry *symmetry_or_null, const int k[3]) {
    static const double LINE[3] = {0.3217, 0.1733, 0.9308};
    if (symmetry_or_null == NULL) return true;
    const double own = fabs(LINE[0] * k[0] + LINE[1] * k[1] + LINE[2] * k[2]);
    for (int g = 1; g < symmetry_or_null->count; g++) {
        const double *m = symmetry_or_null->matrices[g];
        double along = 0;
        for (int i = 0; i < 3; i++)
            along += LINE[i] * (m[3 * i] * k[0] + m[3 * i + 1] * k[1] + m[3 * i + 2] * k[2]);
        if (fabs(along) > own + 1e-6) return false;
    }
    return true;
}

/* Looks only near the shell: all of its ball has s times as many voxels. */
static void gather(const struct independent_shells *wanted, const float *spectrum, int s, struct half_shell *shell) {
    const int box = wanted->box;
    uint64_t state = (uint64_t)s;
    size_t columns = (size_t)box / 2 + 1, n = (size_t)box;
    for (int kz = -s; kz <= s; kz++)
        for (int ky = -s; ky <= s; ky++) {
            size_t z = (size_t)(kz < 0 ? kz + box : kz), y = (size_t)(ky < 0 ? ky + box : ky);
            const int across = ky * ky + kz * kz, inside = (s - 1) * (s - 1) - across;
            if (across > s * s + s) continue;
            for (int kx = inside > 0 ? (int)sqrt(inside) : 0; kx <= s; kx++) {
                double radius = sqrt(kx * kx + ky * ky + kz * kz);
                bool half = kx > 0 || ky > 0 || (ky == 0 && kz > 0);
                const int k[3] = {kx, ky, kz};
                if (!half || (int)(radius + 0.5) != s || !stands_for_copies(wanted->symmetry, k)) continue;
                offer(shell, &state, k, radius, spectrum + 2 * ((z * n + y) * columns + (size_t)kx));
            }
        }
}

static int bin_of(double cosine, int bins) {
    int bin = (int)(acos(fmax(-1, fmin(1, cosine))) / M_PI * bins);
    return bin < bins ? bin : bins - 1;
}

/* Adds the products of voxel i with those after it and with their conjugates. */
static void add_pairs(struct half_shell *shell, int i) {
    const double *u = shell->direction[i], *d = shell->value[i];
    for (int j = i; j < shell->looked; j++) {
        const double *v = shell->direction[j], *e = shell->value[j];
        double cosine = u[0] * v[0] + u[1] * v[1] + u[2] * v[2], re = d[0] * e[0], im = d[1] * e[1];
        double weight = i == j ? 1 : 2; /* (i, −i) stands for two pairs, (i, ±j) for four each */
        int opposite = bin_of(-cosine, shell->bins);
        shell->sums[opposite][0] += weight * (re - im), shell->sums[opposite][1] += weight;
        if (i == j) continue;
        int same = bin_of(cosine, shell->bins);
        shell->sums[same][0] += weight * (re + im), shell->sums[same][1] += weight;
    }
}

static double independent_of(struct half_shell *shell) {
    double power = 0, pairs = 0, squares = 0, voxels = 2 * shell->count;
    for (int i = 0; i < shell->looked; i++) {
        power += shell->value[i][0] * shell->value[i][0] + shell->value[i][1] * shell->value[i][1];
        add_pairs(shell, i);
    }
    power /= shell->looked;
    if (!(power > 0)) return voxels;
    for (int b = 0; b < shell->bins; b++) {
        const double *sum = shell->sums[b];
        if (sum[1] == 0) continue;
        double alike = sum[0] / sum[1] / power;
        pairs += sum[1];
        /* Products that have nothing in common make a sum whose square is the number of pairs. */
        squares += sum[1] * alike * alike - 1;
    }
    return 1 / (1 / voxels + (1 - 1 / voxels) * fmax(squares, 0) / pairs);
}

enum status fsc_cpu_difference(struct workspace *workspace_or_null, int box, const float *a, const float *b, int last,
                               float *ret_spectrum, struct err *err) {
    (void)workspace_or_null, (void)last;
    const struct fft_options options = {
        .rank = 3, .shape = {box, box, box}, .direction = FFT_FORWARD, .threads = FFT_ALL_THREADS};
    _cleanup_(mem_free) float *real = NULL;
    struct fft_plan *plan = NULL;
    TRY(fft_create(&options, &plan, err));
    size_t voxels = fft_real_count(plan);
    enum status status = mem_new_unset(voxels, sizeof *real, "a map", &real, err);
    if (status == STATUS_OK) {
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < voxels; i++)
            real[i] = a[i] - b[i];
        fft_run(plan, real, ret_spectrum);
    }
    fft_destroy(&plan);
    return status;
}

enum status fsc_independent(struct workspace *workspace_or_null, const struct independent_shells *wanted,
                            const float *a, const float *b, double *ret_numbers, struct err *err) {
    enum { FEWEST_BINS = 4 };
    const struct fsc_work *work = fsc_work_on(workspace_or_null);
    const int box = wanted->box, first = wanted->first, last = wanted->last;
    FAIL_IF(box < 4 || box % 2 != 0 || box > 2048 || first < 1 || last >= box / 2, err, STATUS_BAD_ARGUMENT,
            "the noise of shells %d to %d of maps of %d px cannot be counted: the box must be even and between 4 and "
            "2048 px, the shells between 1 and box/2 - 1",
            first, last, box);
    FAIL_IF(work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: only the CPU can compare maps");
    if (first > last) return STATUS_OK;
    size_t count = (size_t)(last - first + 1), bins = (size_t)ceil(M_PI * last) + FEWEST_BINS;
    size_t floats = 2 * (size_t)box * (size_t)box * ((size_t)box / 2 + 1);
    _cleanup_(mem_free) float *spectrum = NULL;
    _cleanup_(mem_free) struct half_shell *shells = NULL;
    _cleanup_(mem_free) double(*sums)[2] = NULL;
    TRY(mem_new(count, sizeof *shells, "shells", &shells, err));
    TRY(mem_new(count * bins, sizeof *sums, "sums of shells", &sums, err));
    TRY(mem_new_unset(floats, sizeof *spectrum, "map transform", &spectrum, err));
    TRY(work->difference(workspace_or_null, box, a, b, last, spectrum, err));
#pragma omp parallel for schedule(dynamic)
    for (int s = first; s <= last; s++) {
        struct half_shell *shell = &shells[s - first];
        int about = (int)lround(M_PI * s);
        shell->bins = about < FEWEST_BINS ? FEWEST_BINS : about;
        shell->sums = sums + (size_t)(s - first) * bins;
        gather(wanted, spectrum, s, shell);
        ret_numbers[s] = independent_of(shell);
    }
    return STATUS_OK;
}
