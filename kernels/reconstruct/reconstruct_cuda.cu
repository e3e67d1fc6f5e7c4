/* The M-step on a CUDA device: a Wiener filter over the grid, and from there to the map. */
#include "kernels/fourier/padded_cuda.cuh"
#include "kernels/reconstruct/accumulator.h"
#include "kernels/reconstruct/accumulator_cuda.cuh"

namespace {

enum { PAD = ACCUMULATOR_PAD, THREADS = 256, SHELL_THREADS = 128, TILE = 32, TILE_ROWS = 8 };
static const double MASK_EDGE = 3; /* px */

/* Sums over a shell floor(r) of the padded grid: of it the shells ROUND(r / PAD) and FLOOR(r / PAD) follow. */
enum { WEIGHT, COUNT, COVERED, FILTERED, TERMS };

struct wiener {
    accumulator_cuda sums;
    const float *tau2;
    double fudge; /* T times the oversampling of the grid */
    int minres_shell, limit;
    int map_limit; /* what goes into the map: no further than `limit` */
};

__device__ inline int rounded_shell(int radius) {
    return (radius + 1) / PAD;
}

__device__ inline double denominator(const wiener &w, double weight, int shell) {
    if (w.tau2 == NULL || shell < w.minres_shell) return weight;
    double tau2 = w.fudge * (double)w.tau2[shell];
    if (tau2 > 0) return weight + 1 / tau2;
    return weight > 1e-20 ? weight + 1000 / weight : weight;
}

/* A block for each shell of each plane: ret_sums[plane][shell][TERMS]. */
__global__ void sum_planes(wiener w, int depth, double *ret_sums) {
    int radius = (int)blockIdx.x, z = (int)blockIdx.y - depth, shell = rounded_shell(radius);
    double ssnr = w.tau2 == NULL ? 0 : w.fudge * (double)w.tau2[shell], sums[TERMS] = {0, 0, 0, 0};
    for (int y = (int)threadIdx.x - radius; y <= radius; y += SHELL_THREADS) {
        int rest = y * y + z * z, most = (radius + 1) * (radius + 1) - 1 - rest;
        int first = root_above(radius * radius - rest), last = most < 0 ? -1 : root_below(most);
        const double2 *row = accumulator_at(w.sums, z, y);
        for (int x = first; x <= last; x++) {
            double weight = row[2 * x + 1].x;
            sums[WEIGHT] += weight;
            sums[COUNT] += 1;
            sums[COVERED] += weight * ssnr >= 1;
            sums[FILTERED] += denominator(w, weight, shell);
        }
    }
    for (int i = 0; i < TERMS; i++) {
        double sum = block_sum(sums[i]);
        if (threadIdx.x == 0) ret_sums[((size_t)blockIdx.y * gridDim.x + radius) * TERMS + i] = sum;
    }
}

/* A block for each shell: planes in a fixed order. ret_totals[shell][TERMS]. */
__global__ void sum_shells(const double *sums, int planes, double *ret_totals) {
    for (int i = 0; i < TERMS; i++) {
        double total = 0;
        for (int plane = (int)threadIdx.x; plane < planes; plane += SHELL_THREADS)
            total += sums[((size_t)plane * gridDim.x + blockIdx.x) * TERMS + i];
        total = block_sum(total);
        if (threadIdx.x == 0) ret_totals[(size_t)blockIdx.x * TERMS + i] = total;
    }
}

/* Shell ROUND(r / PAD) = s: padded shells 2s − 1 and 2s. */
__device__ inline double of_rounded(const double *totals, int limit, int s, int term) {
    double sum = 0;
    for (int radius = s == 0 ? 0 : PAD * s - 1; radius <= PAD * s && radius < limit; radius++)
        sum += totals[radius * TERMS + term];
    return sum;
}

/* Any of the results may be NULL. */
__global__ void describe_shells(wiener w, const double *totals, int shells, double oversampling, float *ret_sigma2,
                                float *ret_data_vs_prior, float *ret_completeness) {
    int s = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (s >= shells) return;
    double weight = of_rounded(totals, w.limit, s, WEIGHT), count = of_rounded(totals, w.limit, s, COUNT);
    double covered = of_rounded(totals, w.limit, s, COVERED);
    if (ret_sigma2) ret_sigma2[s] = weight > 0 ? (float)(count / (oversampling * weight)) : 0;
    if (count <= 0) count = 1;
    double ssnr = w.tau2 == NULL ? 0 : weight * w.fudge * (double)w.tau2[s];
    if (ret_data_vs_prior) ret_data_vs_prior[s] = (float)(ssnr / count);
    if (ret_completeness) ret_completeness[s] = (float)(covered / count);
}

/* Data over denominator at a voxel of shell floor(r), phase origin moved from the centre. */
__device__ inline float2 filtered(const wiener &w, const double *totals, const double2 *voxel, int radius, bool odd) {
    double value = denominator(w, voxel[1].x, rounded_shell(radius)), sum = 0, count = 0;
    for (int i = radius / PAD * PAD; i < radius / PAD * PAD + PAD && i < w.limit; i++) {
        sum += totals[i * TERMS + FILTERED];
        count += totals[i * TERMS + COUNT];
    }
    /* Places that hardly any slice came near would be amplified noise. */
    double least = 0.001 * sum / count;
    if (value < least) value = least;
    double factor = value > 0 ? (odd ? -1 : 1) / value : 0;
    double2 data = voxel[0];
    return make_float2((float)(factor * data.x), (float)(factor * data.y));
}

/* ret_lines[rows][columns][n_z], rows y = first_y .. (padded_cuda.cuh). */
__global__ void fill_lines(wiener w, const double *totals, int first_y, int n_z, float2 *ret_lines) {
    __shared__ float2 tile[TILE][TILE + 1];
    int x0 = (int)blockIdx.y * TILE, z0 = (int)blockIdx.x * TILE, y = first_y + (int)blockIdx.z;
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int slot = z0 + i, x = x0 + (int)threadIdx.x, z = slot <= n_z / 2 ? slot : slot - n_z;
        int r2 = x * x + y * y + z * z;
        float2 value = make_float2(0, 0);
        if (slot < n_z && r2 < w.map_limit * w.map_limit)
            value = filtered(w, totals, accumulator_at(w.sums, z, y) + 2 * x, root_below(r2), (x + y + z) & 1);
        tile[i][threadIdx.x] = value;
    }
    __syncthreads();
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int x = x0 + i, slot = z0 + (int)threadIdx.x;
        if (x < w.limit && slot < n_z)
            ret_lines[((size_t)blockIdx.z * w.limit + x) * n_z + slot] = tile[threadIdx.x][i];
    }
}

/* What becomes of padded reals. */
struct cut {
    const float *padded; /* [depth][box][n + 2] */
    int box, depth, n, first;
    float scale;
    const float *correction;
    float *map;
};

__device__ inline double outside(const cut &c, int y, int z, int x, int *ret_r2) {
    int centre = c.box / 2, dz = c.depth == 1 ? 0 : z - centre, r2;
    r2 = dz * dz + (y - centre) * (y - centre) + (x - centre) * (x - centre);
    *ret_r2 = r2;
    if (r2 < centre * centre) return 0;
    double r = sqrt((double)r2);
    return r >= centre + MASK_EDGE ? 1 : 0.5 + 0.5 * cospi((centre + MASK_EDGE - r) / MASK_EDGE);
}

/* ret_sums[rows of the map][2]: of what is outside the sphere, and how much that is. A warp for each row. */
__global__ void sum_outside(cut c, double *ret_sums) {
    int row = (int)(blockIdx.x * (THREADS / 32) + threadIdx.x / 32), lane = (int)threadIdx.x % 32;
    if (row >= c.depth * c.box) return;
    const float *in = c.padded + (size_t)row * (c.n + 2) + c.first;
    double sum = 0, weight = 0;
    for (int x = lane; x < c.box; x += 32) {
        int r2;
        double w = outside(c, row % c.box, row / c.box, x, &r2);
        if (w > 0) sum += w * (double)(c.scale * in[x]), weight += w;
    }
    sum = warp_sum(sum), weight = warp_sum(weight);
    if (lane > 0) return;
    ret_sums[2 * (size_t)row] = sum;
    ret_sums[2 * (size_t)row + 1] = weight;
}

/* One block: sums[0] becomes the mean. */
__global__ void mean_outside(double *sums, int rows) {
    double sum = 0, weight = 0;
    for (int row = (int)threadIdx.x; row < rows; row += (int)blockDim.x) {
        sum += sums[2 * (size_t)row];
        weight += sums[2 * (size_t)row + 1];
    }
    sum = block_sum(sum), weight = block_sum(weight);
    __syncthreads();
    if (threadIdx.x == 0) sums[0] = weight > 0 ? sum / weight : 0;
}

/* The centre of the padded map, scaled, masked, with the interpolation's fall-off undone (after the mask, as the ends of
 * the box are weak there). */
__global__ void cut_map(cut c, const double *mean) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (size_t)c.depth * c.box * c.box) return;
    int row = (int)(at / c.box), x = (int)(at % c.box), r2;
    double w = outside(c, row % c.box, row / c.box, x, &r2);
    float value = c.scale * c.padded[(size_t)row * (c.n + 2) + c.first + x];
    if (w > 0) value = (float)((1 - w) * (double)value + w * *mean);
    c.map[at] = value * c.correction[r2];
}

/* Plane sums, totals. */
size_t plane_bytes(const accumulator_cuda *a) {
    size_t limit = (size_t)PAD * a->r_max, planes = a->dimensions == 3 ? 2 * limit + 1 : 1;
    return aligned(planes * limit * TERMS * sizeof(double));
}

size_t total_bytes(const accumulator_cuda *a) {
    return aligned((size_t)PAD * a->r_max * TERMS * sizeof(double));
}

double oversampling(const accumulator_cuda *a) {
    return a->dimensions == 3 ? PAD * PAD * PAD : PAD * PAD;
}

/* Totals of all shells, at the beginning of scratch. */
enum status find_totals(const wiener &w, void *scratch, cudaStream_t stream, const double **ret_totals,
                        struct err *err) {
    double *totals = (double *)scratch, *sums = (double *)((char *)scratch + total_bytes(&w.sums));
    int depth = w.sums.dimensions == 3 ? w.limit : 0, planes = 2 * depth + 1;
    sum_planes<<<dim3((unsigned)w.limit, (unsigned)planes), SHELL_THREADS, 0, stream>>>(w, depth, sums);
    sum_shells<<<(unsigned)w.limit, SHELL_THREADS, 0, stream>>>(sums, planes, totals);
    CUDA_TRY(cudaGetLastError(), err, "summing over shells");
    *ret_totals = totals;
    return STATUS_OK;
}

enum status describe(const wiener &w, const double *totals, float *ret_sigma2, float *ret_data_vs_prior,
                     float *ret_completeness, cudaStream_t stream, struct err *err) {
    int shells = w.sums.box / 2 + 1;
    describe_shells<<<blocks_for((size_t)shells, THREADS), THREADS, 0, stream>>>(
        w, totals, shells, oversampling(&w.sums), ret_sigma2, ret_data_vs_prior, ret_completeness);
    CUDA_TRY(cudaGetLastError(), err, "describing shells");
    return STATUS_OK;
}

/* Rows y = first .. last through the filter and the transforms along z. */
enum status filter_rows(const padded_cuda *p, const wiener &w, const double *totals, const padded_memory &m, int first,
                        int last, cudaStream_t stream, struct err *err) {
    for (int y = first, rows; y <= last; y += rows) {
        rows = last - y + 1 < m.rows ? last - y + 1 : m.rows;
        dim3 blocks(blocks_for((size_t)p->n_z, TILE), blocks_for((size_t)w.limit, TILE), (unsigned)rows);
        fill_lines<<<blocks, dim3(TILE, TILE_ROWS), 0, stream>>>(w, totals, y, p->n_z, m.lines);
        CUDA_TRY(cudaGetLastError(), err, "filtering a map");
        TRY(padded_lines_to_sheets(p, &m, rows, (y + p->n) % p->n, stream, err));
    }
    return STATUS_OK;
}

enum status finish_map(const padded_cuda *p, const padded_memory &m, double *sums, float *map, cudaStream_t stream,
                       struct err *err) {
    cut c = {};
    c.padded = (const float *)m.planes;
    c.box = p->box, c.depth = p->depth, c.n = p->n, c.first = p->first;
    c.scale = p->dimensions == 3 ? 1 / ((float)(PAD * PAD * PAD) * (float)p->box) : 1 / (float)(PAD * PAD);
    c.correction = p->correction, c.map = map;
    int rows = p->depth * p->box;
    sum_outside<<<blocks_for((size_t)rows, THREADS / 32), THREADS, 0, stream>>>(c, sums);
    mean_outside<<<1, 1024, 0, stream>>>(sums, rows);
    cut_map<<<blocks_for((size_t)rows * p->box, THREADS), THREADS, 0, stream>>>(c, sums);
    CUDA_TRY(cudaGetLastError(), err, "cutting a map");
    return STATUS_OK;
}

} // namespace

extern "C" size_t reconstruct_cuda_shells_scratch(const struct accumulator_cuda *a) {
    return total_bytes(a) + plane_bytes(a);
}

extern "C" enum status accumulator_cuda_sigma2(const struct accumulator_cuda *a, void *scratch, float *ret_sigma2,
                                               void *stream, struct err *err) {
    const double *totals = NULL;
    wiener w = {};
    w.sums = *a, w.limit = PAD * a->r_max;
    TRY(find_totals(w, scratch, (cudaStream_t)stream, &totals, err));
    return describe(w, totals, ret_sigma2, NULL, NULL, (cudaStream_t)stream, err);
}

extern "C" size_t reconstruct_cuda_scratch(const struct padded_cuda *p, const struct accumulator_cuda *a) {
    return padded_cuda_scratch(p, PAD * a->r_max) + reconstruct_cuda_shells_scratch(a) +
           aligned((size_t)p->depth * p->box * 2 * sizeof(double));
}

extern "C" enum status reconstruct_cuda_map(struct padded_cuda *p, const struct accumulator_cuda *a,
                                            const struct reconstruct_cuda_options *options, void *scratch, float *map,
                                            float *ret_data_vs_prior, float *ret_completeness, void *cuda_stream,
                                            struct err *err) {
    cudaStream_t stream = (cudaStream_t)cuda_stream;
    const double *totals = NULL;
    padded_memory m;
    FAIL_IF(p->dimensions != a->dimensions || p->box != a->box, err, STATUS_BAD_ARGUMENT,
            "sums in %d dimensions for %d px cannot become a map in %d of %d px", a->dimensions, a->box, p->dimensions,
            p->box);
    wiener w = {};
    w.sums = *a, w.tau2 = options->tau2, w.fudge = options->tau_fudge * oversampling(a);
    w.minres_shell = options->minres_shell, w.limit = PAD * a->r_max;
    w.map_limit = accumulator_map_limit(a->r_max, options->last_shell);
    TRY(padded_begin(p, w.limit, PAD * a->r_max, scratch, stream, &m, err));
    TRY(find_totals(w, m.rest, stream, &totals, err));
    TRY(describe(w, totals, NULL, ret_data_vs_prior, ret_completeness, stream, err));
    TRY(padded_clear_sheets(p, &m, stream, err));
    /* Slots of rows y ≥ 0 and of those below are apart. */
    TRY(filter_rows(p, w, totals, m, 0, w.limit - 1, stream, err));
    TRY(filter_rows(p, w, totals, m, 1 - w.limit, -1, stream, err));
    TRY(padded_sheets_to_planes(p, &m, stream, err));
    return finish_map(p, m, (double *)(m.rest + reconstruct_cuda_shells_scratch(a)), map, stream, err);
}
