#include <math.h>
#include <stdlib.h>

#include "kernels/fourier/padded.cuh"

namespace {

enum { PAD = 2, TILE = 32, TILE_ROWS = 8, CACHED = 16 << 20 };

__global__ void move_lines(padded_move m) {
    __shared__ float2 tile[TILE][TILE + 1];
    int row0 = (int)blockIdx.y * TILE, column0 = (int)blockIdx.x * TILE;
    const float2 *in = m.in + blockIdx.z * m.in_outer;
    float2 *out = m.out + blockIdx.z * m.out_outer;
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int line = column0 + i - m.first_column, row = row0 + (int)threadIdx.x;
        bool there = line >= 0 && line < m.in_lines && row < m.rows;
        tile[i][threadIdx.x] = there ? in[(size_t)line * m.in_line + (row + m.first) % m.wrap] : make_float2(0, 0);
    }
    __syncthreads();
    for (int i = (int)threadIdx.y; i < TILE; i += TILE_ROWS) {
        int row = row0 + i, column = column0 + (int)threadIdx.x;
        if (row >= m.rows || column >= m.columns) continue;
        float2 value = tile[threadIdx.x][i];
        float factor = m.alternating && (((int)blockIdx.z + row + column + m.parity) & 1) ? -m.factor : m.factor;
        if (m.real_ends && (column == 0 || column == m.columns - 1)) value.y = 0;
        out[(size_t)row * m.out_row + column] = make_float2(factor * value.x, factor * value.y);
    }
}

size_t rounded(size_t lines, int batch) {
    return (lines + batch - 1) / batch * batch;
}

int columns_most(const padded_cuda *p, int size) {
    int columns = PAD * (size / 2) + 2;
    return columns < p->n / 2 + 1 ? columns : p->n / 2 + 1;
}

/* cuFFT fails if its work area begins where the data begins, even if it needs none. Therefore it gets memory of its
 * own. */
size_t work_bytes(const padded_cuda *p) {
    return aligned(p->work + 1);
}

size_t lines_bytes(const padded_cuda *p) {
    return aligned((size_t)p->batch * p->n * sizeof(float2));
}

size_t sheets_bytes(const padded_cuda *p, int columns) {
    return aligned(rounded((size_t)p->depth * columns, p->batch) * p->n * sizeof(float2));
}

size_t planes_bytes(const padded_cuda *p) {
    return aligned(rounded((size_t)p->depth * p->box, p->batch) * (p->n / 2 + 1) * sizeof(float2));
}

/* Makes a plan with the default layout: rows of reals are n + 2 apart for transforms in place. */
enum status make_plan(int n, cufftType type, int batch, cufftHandle *ret_plan, size_t *work, struct err *err) {
    size_t needed = 0;
    CUFFT_TRY(cufftCreate(ret_plan), err, "making a Fourier plan");
    CUFFT_TRY(cufftSetAutoAllocation(*ret_plan, 0), err, "making a Fourier plan");
    CUFFT_TRY(cufftMakePlanMany(*ret_plan, 1, &n, NULL, 1, 0, NULL, 1, 0, type, batch, &needed), err,
              "making a Fourier plan");
    if (needed > *work) *work = needed;
    return STATUS_OK;
}

enum status make_correction(padded_cuda *p, struct err *err) {
    size_t count = (size_t)p->dimensions * (p->box / 2) * (p->box / 2) + 1;
    float *table = (float *)malloc(count * sizeof *table);
    FAIL_IF(table == NULL, err, STATUS_NO_MEMORY, "no memory for a gridding correction");
    table[0] = 1;
    for (size_t r2 = 1; r2 < count; r2++) {
        double x = M_PI * sqrt((double)r2) / p->n, sinc = sin(x) / x;
        table[r2] = (float)(1 / (sinc * sinc));
    }
    cudaError_t made = cudaMalloc(&p->correction, count * sizeof *table);
    if (made == cudaSuccess) made = cuda_copy(p->correction, table, count * sizeof *table);
    free(table);
    CUDA_TRY(made, err, "making a gridding correction");
    return STATUS_OK;
}

enum status build(padded_cuda *p, struct err *err) {
    TRY(make_plan(p->n, CUFFT_C2C, p->batch, &p->complex, &p->work, err));
    TRY(make_plan(p->n, CUFFT_C2R, p->batch, &p->to_real, &p->work, err));
    TRY(make_plan(p->n, CUFFT_R2C, p->batch, &p->from_real, &p->work, err));
    return make_correction(p, err);
}

/* Transforms all lines of an array, including those that fill up the last batch. */
enum status transform(const padded_cuda *p, float2 *values, size_t lines, int direction, struct err *err) {
    for (size_t i = 0; i < lines; i += p->batch)
        CUFFT_TRY(cufftExecC2C(p->complex, values + i * p->n, values + i * p->n, direction), err,
                  "transforming a padded map");
    return STATUS_OK;
}

} // namespace

extern "C" enum status padded_cuda_create(int dimensions, int box, struct padded_cuda **ret_padded, struct err *err) {
    FAIL_IF((dimensions != 2 && dimensions != 3) || box < 4 || box % 2 != 0 || box > 2048, err, STATUS_BAD_ARGUMENT,
            "a map of %d dimensions and %d px cannot be transformed: 2 or 3, an even box between 4 and 2048 px",
            dimensions, box);
    struct padded_cuda *p = (struct padded_cuda *)calloc(1, sizeof *p);
    FAIL_IF(p == NULL, err, STATUS_NO_MEMORY, "no memory for the transform of maps");
    bool flat = dimensions == 2;
    p->dimensions = dimensions, p->box = box, p->n = PAD * box;
    p->depth = flat ? 1 : box, p->n_z = flat ? 1 : p->n;
    p->first = (p->n - box) / 2, p->first_z = flat ? 0 : p->first;
    /* A batch is small enough to stay in the device's cache between passes, and holds whole rows. */
    int cached = CACHED / (p->n * (int)sizeof(float2)), most = box * box;
    p->batch = cached < most ? cached : most;
    if (flat || p->batch < p->n / 2 + 1) p->batch = p->n / 2 + 1;
    enum status status = build(p, err);
    if (status != STATUS_OK) {
        padded_cuda_destroy(&p);
        return status;
    }
    *ret_padded = p;
    return STATUS_OK;
}

extern "C" void padded_cuda_destroy(struct padded_cuda **padded) {
    struct padded_cuda *p = *padded;
    if (p == NULL) return;
    cufftHandle plans[] = {p->complex, p->to_real, p->from_real};
    for (int i = 0; i < 3; i++)
        if (plans[i]) (void)cufftDestroy(plans[i]);
    (void)cudaFree(p->correction);
    free(p);
    *padded = NULL;
}

extern "C" size_t padded_cuda_scratch(const struct padded_cuda *p, int size) {
    return work_bytes(p) + lines_bytes(p) + sheets_bytes(p, columns_most(p, size)) + planes_bytes(p);
}

enum status padded_begin(struct padded_cuda *p, int columns, int size, void *scratch, cudaStream_t stream,
                         struct padded_memory *ret_memory, struct err *err) {
    char *at = (char *)scratch;
    cufftHandle plans[] = {p->complex, p->to_real, p->from_real};
    FAIL_IF(columns > columns_most(p, size), err, STATUS_BAD_ARGUMENT, "%d columns do not fit a Fourier size of %d px",
            columns, size);
    for (int i = 0; i < 3; i++) {
        CUFFT_TRY(cufftSetStream(plans[i], stream), err, "choosing a stream");
        CUFFT_TRY(cufftSetWorkArea(plans[i], at), err, "giving memory to a Fourier plan");
    }
    padded_memory m;
    m.columns = columns;
    m.rows = (int)((size_t)p->batch * (p->n / p->n_z) / columns);
    at += work_bytes(p);
    m.lines = (float2 *)at, at += lines_bytes(p);
    m.sheets = (float2 *)at, at += sheets_bytes(p, columns_most(p, size));
    m.planes = (float2 *)at, at += planes_bytes(p);
    m.rest = at;
    *ret_memory = m;
    return STATUS_OK;
}

enum status padded_clear_sheets(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                struct err *err) {
    CUDA_TRY(cudaMemsetAsync(m->sheets, 0, (size_t)p->depth * m->columns * p->n * sizeof(float2), stream), err,
             "clearing a padded map");
    return STATUS_OK;
}

enum status padded_run_move(const struct padded_move *move, cudaStream_t stream, struct err *err) {
    dim3 blocks(blocks_for((size_t)move->columns, TILE), blocks_for((size_t)move->rows, TILE), (unsigned)move->outer);
    move_lines<<<blocks, dim3(TILE, TILE_ROWS), 0, stream>>>(*move);
    CUDA_TRY(cudaGetLastError(), err, "turning a padded map");
    return STATUS_OK;
}

enum status padded_lines_to_sheets(const struct padded_cuda *p, const struct padded_memory *m, int rows, int slot,
                                   cudaStream_t stream, struct err *err) {
    size_t n = (size_t)p->n, n_z = (size_t)p->n_z, columns = (size_t)m->columns;
    if (p->depth > 1) TRY(transform(p, m->lines, (size_t)rows * columns, CUFFT_INVERSE, err));
    padded_move move = {};
    move.in = m->lines, move.in_outer = n_z, move.in_line = columns * n_z, move.in_lines = rows;
    move.out = m->sheets + slot, move.out_outer = n, move.out_row = columns * n;
    move.outer = m->columns, move.rows = p->depth, move.columns = rows;
    move.first = p->first_z, move.wrap = p->n, move.factor = 1;
    return padded_run_move(&move, stream, err);
}

enum status padded_sheets_to_planes(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                    struct err *err) {
    size_t n = (size_t)p->n, half = n / 2 + 1, columns = (size_t)m->columns, rows = (size_t)p->depth * p->box;
    TRY(transform(p, m->sheets, (size_t)p->depth * columns, CUFFT_INVERSE, err));
    padded_move move = {};
    move.in = m->sheets, move.in_outer = columns * n, move.in_line = n, move.in_lines = m->columns;
    move.out = m->planes, move.out_outer = (size_t)p->box * half, move.out_row = half;
    move.outer = p->depth, move.rows = p->box, move.columns = (int)half;
    move.first = p->first, move.wrap = p->n, move.factor = 1, move.real_ends = true;
    TRY(padded_run_move(&move, stream, err));
    for (size_t i = 0; i < rows; i += p->batch)
        CUFFT_TRY(cufftExecC2R(p->to_real, m->planes + i * half, (float *)(m->planes + i * half)), err,
                  "transforming rows of a padded map");
    return STATUS_OK;
}

enum status padded_planes_to_sheets(const struct padded_cuda *p, const struct padded_memory *m, cudaStream_t stream,
                                    struct err *err) {
    size_t n = (size_t)p->n, half = n / 2 + 1, columns = (size_t)m->columns, rows = (size_t)p->depth * p->box;
    for (size_t i = 0; i < rows; i += p->batch)
        CUFFT_TRY(cufftExecR2C(p->from_real, (float *)(m->planes + i * half), m->planes + i * half), err,
                  "transforming rows of a padded map");
    padded_move move = {};
    move.in = m->planes, move.in_outer = (size_t)p->box * half, move.in_line = half, move.in_lines = p->box;
    move.out = m->sheets, move.out_outer = columns * n, move.out_row = n;
    move.outer = p->depth, move.rows = m->columns, move.columns = p->n;
    move.first_column = p->first, move.wrap = (int)half, move.factor = 1;
    TRY(padded_run_move(&move, stream, err));
    return transform(p, m->sheets, (size_t)p->depth * columns, CUFFT_FORWARD, err);
}

enum status padded_sheets_to_lines(const struct padded_cuda *p, const struct padded_memory *m, int rows, int slot,
                                   cudaStream_t stream, struct err *err) {
    size_t n = (size_t)p->n, n_z = (size_t)p->n_z, columns = (size_t)m->columns;
    padded_move move = {};
    move.in = m->sheets, move.in_outer = n, move.in_line = columns * n, move.in_lines = p->depth;
    move.out = m->lines, move.out_outer = n_z, move.out_row = columns * n_z;
    move.outer = m->columns, move.rows = rows, move.columns = p->n_z;
    move.first_column = p->first_z, move.first = slot, move.wrap = p->n, move.factor = 1;
    TRY(padded_run_move(&move, stream, err));
    return p->depth > 1 ? transform(p, m->lines, (size_t)rows * columns, CUFFT_FORWARD, err) : STATUS_OK;
}
