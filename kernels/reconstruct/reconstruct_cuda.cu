/* The M-step on a CUDA device: applies a Wiener filter to the grid and makes the map. */
#include "kernels/fourier/padded.cuh"
#include "kernels/reconstruct/wiener.cuh"

namespace {

enum { PAD = ACCUMULATOR_PAD, THREADS = 256, SHELL_THREADS = 128, TILE = 32, TILE_ROWS = 8 };
static const double MASK_EDGE = 3; /* px */

/* Sums one shell of one plane per block: ret_sums[reference][plane][shell][SHELL_TERMS]. */
__global__ void sum_planes(wiener all, int depth, double *ret_sums) {
    wiener w = wiener_of(all, (int)blockIdx.z);
    int radius = (int)blockIdx.x, z = (int)blockIdx.y - depth, shell = wiener_shell(radius);
    double ssnr = w.tau2 == NULL ? 0 : w.fudge * (double)w.tau2[shell], sums[SHELL_TERMS] = {0, 0, 0, 0};
    for (int y = (int)threadIdx.x - radius; y <= radius; y += SHELL_THREADS) {
        int rest = y * y + z * z, most = (radius + 1) * (radius + 1) - 1 - rest;
        int first = root_above(radius * radius - rest), last = most < 0 ? -1 : root_below(most);
        const double2 *row = accumulator_at(w.sums, z, y);
        for (int x = first; x <= last; x++) {
            double weight = row[2 * x + 1].x;
            sums[SHELL_WEIGHT] += weight;
            sums[SHELL_COUNT] += 1;
            sums[SHELL_COVERED] += weight * ssnr >= 1;
            sums[SHELL_FILTERED] += wiener_denominator(w, weight, shell);
        }
    }
    for (int i = 0; i < SHELL_TERMS; i++) {
        double sum = block_sum(sums[i]);
        size_t plane = (size_t)blockIdx.z * gridDim.y + blockIdx.y;
        if (threadIdx.x == 0) ret_sums[(plane * gridDim.x + radius) * SHELL_TERMS + i] = sum;
    }
}

/* Sums one shell of one reference per block, over planes in a fixed order:
 * ret_totals[reference][shell][SHELL_TERMS]. */
__global__ void sum_shells(const double *all, int planes, double *ret_totals) {
    const double *sums = all + (size_t)blockIdx.y * planes * gridDim.x * SHELL_TERMS;
    for (int i = 0; i < SHELL_TERMS; i++) {
        double total = 0;
        for (int plane = (int)threadIdx.x; plane < planes; plane += SHELL_THREADS)
            total += sums[((size_t)plane * gridDim.x + blockIdx.x) * SHELL_TERMS + i];
        total = block_sum(total);
        size_t shell = (size_t)blockIdx.y * gridDim.x + blockIdx.x;
        if (threadIdx.x == 0) ret_totals[shell * SHELL_TERMS + i] = total;
    }
}

/* Returns the sum over shell ROUND(r / PAD) = s: padded shells 2s − 1 and 2s. */
__device__ inline double of_rounded(const double *totals, int limit, int s, int term) {
    double sum = 0;
    for (int radius = s == 0 ? 0 : PAD * s - 1; radius <= PAD * s && radius < limit; radius++)
        sum += totals[radius * SHELL_TERMS + term];
    return sum;
}

/* Computes curves from totals. Each result may be NULL. */
__global__ void describe_shells(wiener all, const double *totals_of_all, int shells, double oversampling,
                                float *ret_sigma2, float *ret_data_vs_prior, float *ret_completeness) {
    const wiener w = wiener_of(all, (int)blockIdx.y);
    const double *totals = wiener_totals_of(all, totals_of_all, (int)blockIdx.y);
    int s = (int)(blockIdx.x * THREADS + threadIdx.x);
    if (s >= shells) return;
    size_t at = (size_t)blockIdx.y * shells + s;
    double weight = of_rounded(totals, w.limit, s, SHELL_WEIGHT), count = of_rounded(totals, w.limit, s, SHELL_COUNT);
    double covered = of_rounded(totals, w.limit, s, SHELL_COVERED);
    if (ret_sigma2) ret_sigma2[at] = weight > 0 ? (float)(count / (oversampling * weight)) : 0;
    if (count <= 0) count = 1;
    double ssnr = w.tau2 == NULL ? 0 : weight * w.fudge * (double)w.tau2[s];
    if (ret_data_vs_prior) ret_data_vs_prior[at] = (float)(ssnr / count);
    if (ret_completeness) ret_completeness[at] = (float)(covered / count);
}

/* Fills ret_lines[rows][columns][n_z], rows y = first_y .. (padded.cuh). */
__global__ void fill_lines(wiener w, const double *totals, int first_y, int n_z, float2 *ret_lines) {
    __shared__ float2 tile[TILE][TILE + 1];
    int x0 = (int)blockIdx.y * TILE, z0 = (int)blockIdx.x * TILE, y = first_y + (int)blockIdx.z;
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int slot = z0 + i, x = x0 + (int)threadIdx.x, z = slot <= n_z / 2 ? slot : slot - n_z;
        int r2 = x * x + y * y + z * z;
        float2 value = make_float2(0, 0);
        if (slot < n_z && r2 < w.map_limit * w.map_limit)
            value = wiener_value(w, totals, accumulator_at(w.sums, z, y) + 2 * x, root_below(r2), (x + y + z) & 1);
        tile[i][threadIdx.x] = value;
    }
    __syncthreads();
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int x = x0 + i, slot = z0 + (int)threadIdx.x;
        if (x < w.limit && slot < n_z)
            ret_lines[((size_t)blockIdx.z * w.limit + x) * n_z + slot] = tile[threadIdx.x][i];
    }
}

/* Parameters for cutting the map out of the padded reals. */
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

/* Fills ret_sums[rows of the map][2]: the sum outside the sphere, and its weight. One warp per row. */
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

/* Replaces sums[0] by the mean. One block. */
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

/* Cuts the centre out of the padded map, scales and masks it. The fall-off of interpolation is corrected after the
 * mask, because the corners of the box are weak there. */
__global__ void cut_map(cut c, const double *mean) {
    size_t at = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (at >= (size_t)c.depth * c.box * c.box) return;
    int row = (int)(at / c.box), x = (int)(at % c.box), r2;
    double w = outside(c, row % c.box, row / c.box, x, &r2);
    float value = c.scale * c.padded[(size_t)row * (c.n + 2) + c.first + x];
    if (w > 0) value = (float)((1 - w) * (double)value + w * *mean);
    c.map[at] = value * c.correction[r2];
}

/* Return the bytes of plane sums, and of totals. */
size_t plane_bytes(const accumulator_cuda *a) {
    size_t limit = (size_t)PAD * a->r_max, planes = a->dimensions == 3 ? 2 * limit + 1 : 1;
    return aligned((size_t)a->count * planes * limit * SHELL_TERMS * sizeof(double));
}

size_t total_bytes(const accumulator_cuda *a) {
    return aligned((size_t)a->count * PAD * a->r_max * SHELL_TERMS * sizeof(double));
}

double oversampling(const accumulator_cuda *a) {
    return a->dimensions == 3 ? PAD * PAD * PAD : PAD * PAD;
}

/* Filters rows y = first .. last and transforms them along z. */
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

struct wiener wiener_filter(const accumulator_cuda *sums, const float *tau2, double tau_fudge, int minres_shell,
                            int last_shell) {
    struct wiener w = {};
    w.sums = *sums, w.tau2 = tau2, w.fudge = tau_fudge * oversampling(sums);
    w.minres_shell = minres_shell, w.limit = PAD * sums->r_max;
    w.map_limit = accumulator_map_limit(sums->r_max, last_shell);
    return w;
}

enum status wiener_totals(const wiener &w, void *scratch, cudaStream_t stream, const double **ret_totals,
                          struct err *err) {
    double *totals = (double *)scratch, *sums = (double *)((char *)scratch + total_bytes(&w.sums));
    int depth = w.sums.dimensions == 3 ? w.limit : 0, planes = 2 * depth + 1;
    unsigned limit = (unsigned)w.limit, count = (unsigned)w.sums.count;
    sum_planes<<<dim3(limit, (unsigned)planes, count), SHELL_THREADS, 0, stream>>>(w, depth, sums);
    sum_shells<<<dim3(limit, count), SHELL_THREADS, 0, stream>>>(sums, planes, totals);
    CUDA_TRY(cudaGetLastError(), err, "summing over shells");
    *ret_totals = totals;
    return STATUS_OK;
}

enum status wiener_describe(const wiener &w, const double *totals, float *ret_sigma2, float *ret_data_vs_prior,
                            float *ret_completeness, cudaStream_t stream, struct err *err) {
    int shells = w.sums.box / 2 + 1;
    dim3 blocks(blocks_for((size_t)shells, THREADS), (unsigned)w.sums.count);
    describe_shells<<<blocks, THREADS, 0, stream>>>(w, totals, shells, oversampling(&w.sums), ret_sigma2,
                                                    ret_data_vs_prior, ret_completeness);
    CUDA_TRY(cudaGetLastError(), err, "describing shells");
    return STATUS_OK;
}

extern "C" size_t reconstruct_cuda_shells_scratch(const struct accumulator_cuda *a) {
    return total_bytes(a) + plane_bytes(a);
}

extern "C" enum status accumulator_cuda_sigma2(const struct accumulator_cuda *a, void *scratch, float *ret_sigma2,
                                               void *stream, struct err *err) {
    const double *totals = NULL;
    const wiener w = wiener_filter(a, NULL, 0, 0, 0);
    TRY(wiener_totals(w, scratch, (cudaStream_t)stream, &totals, err));
    return wiener_describe(w, totals, ret_sigma2, NULL, NULL, (cudaStream_t)stream, err);
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
    const wiener w = wiener_filter(a, options->tau2, options->tau_fudge, options->minres_shell, options->last_shell);
    TRY(padded_begin(p, w.limit, PAD * a->r_max, scratch, stream, &m, err));
    TRY(wiener_totals(w, m.rest, stream, &totals, err));
    TRY(wiener_describe(w, totals, NULL, ret_data_vs_prior, ret_completeness, stream, err));
    TRY(padded_clear_sheets(p, &m, stream, err));
    /* Slots of rows y ≥ 0 are apart from those of rows y < 0. */
    TRY(filter_rows(p, w, totals, m, 0, w.limit - 1, stream, err));
    TRY(filter_rows(p, w, totals, m, 1 - w.limit, -1, stream, err));
    TRY(padded_sheets_to_planes(p, &m, stream, err));
    return finish_map(p, m, (double *)(m.rest + reconstruct_cuda_shells_scratch(a)), map, stream, err);
}
