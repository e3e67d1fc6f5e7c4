#include <string.h>

#include "common/memory.h"
#include "kernels/fourier/cube.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* Lines begin at multiples of so many complex values: the plans of the first line serve all. */
enum { LINE_STEP = 8 };

/* Returns the length of a line of real values, or of their transform, in floats. */
static size_t real_line(const struct fourier_cube *c) {
    return (size_t)c->padded;
}
static size_t complex_line(const struct fourier_cube *c) {
    return 2 * ((size_t)c->padded / 2 + 1);
}

/* A thread has lines along x of the map's height as real values and as their transforms, and a plane [y][x] of the
 * frequencies wanted. */
static size_t lines_floats(const struct fourier_cube *c, size_t line) {
    size_t floats = (size_t)c->box * line, step = 2 * LINE_STEP;
    return (floats + step - 1) / step * step;
}

static enum status make_plans(struct fourier_cube *c, enum fft_direction direction, struct err *err) {
    const enum fft_direction turn = direction == FFT_FORWARD ? FFT_COMPLEX : FFT_COMPLEX_INVERSE;
    struct fft_options options = {
        .rank = 1, .shape = {c->padded}, .batch = c->columns, .direction = turn, .stride = c->rows * c->columns};
    TRY(fft_create(&options, &c->along_z, err));
    options.stride = c->columns;
    TRY(fft_create(&options, &c->along_y, err));
    options = (struct fft_options){.rank = 1, .shape = {c->padded}, .batch = c->box, .direction = direction};
    return fft_create(&options, &c->along_x, err);
}

enum status fourier_cube_create(int box, int padded, int reach, enum fft_direction direction, int threads,
                                struct fourier_cube *ret_cube, struct err *err) {
    FAIL_IF(box < 2 || box % 2 != 0 || padded % 2 != 0 || padded < box || reach < 1 || reach > padded / 2 + 1, err,
            STATUS_BAD_ARGUMENT, "a map of %d voxels in a cube of %d cannot be transformed up to frequency %d", box,
            padded, reach);
    struct fourier_cube c = {.box = box, .padded = padded, .reach = reach, .threads = threads > 0 ? threads : 1};
    int columns = reach < padded / 2 ? reach + 1 : padded / 2 + 1;
    c.columns = (columns + LINE_STEP - 1) / LINE_STEP * LINE_STEP;
    c.rows = 2 * reach + 1 < padded ? 2 * reach + 1 : padded;
    c.plane_floats =
        lines_floats(&c, real_line(&c)) + lines_floats(&c, complex_line(&c)) + 2 * (size_t)padded * (size_t)c.columns;
    enum status status = make_plans(&c, direction, err);
    if (status == STATUS_OK)
        status = mem_new((size_t)padded * (size_t)c.rows * (size_t)c.columns, 2 * sizeof *c.values, "padded transform",
                         &c.values, err);
    if (status == STATUS_OK)
        status = mem_new((size_t)c.threads * c.plane_floats, sizeof *c.planes, "padded transform", &c.planes, err);
    if (status == STATUS_OK)
        *ret_cube = c;
    else
        fourier_cube_destroy(&c);
    return status;
}

void fourier_cube_destroy(struct fourier_cube *c) {
    fft_destroy(&c->along_z);
    fft_destroy(&c->along_y);
    fft_destroy(&c->along_x);
    mem_free(&c->values);
    mem_free(&c->planes);
}

/* Memory of a thread. */
struct plane {
    float *lines, *transforms, *turned;
};

static struct plane plane_of(const struct fourier_cube *c, int thread) {
    float *lines = c->planes + (size_t)thread * c->plane_floats;
    float *transforms = lines + lines_floats(c, real_line(c));
    return (struct plane){lines, transforms, transforms + lines_floats(c, complex_line(c))};
}

/* Returns the row of the cube that a stored row of frequencies belongs to. */
static size_t row_of(const struct fourier_cube *c, int stored) {
    int y = c->rows == c->padded ? stored : stored - c->reach;
    return (size_t)(y < 0 ? y + c->padded : y);
}

static size_t used_columns(const struct fourier_cube *c) {
    int most = c->padded / 2 + 1;
    return (size_t)(c->columns < most ? c->columns : most);
}

static void turn_z(const struct fourier_cube *c) {
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int row = 0; row < c->rows; row++) {
        float *lines = c->values + 2 * (size_t)row * (size_t)c->columns;
        fft_run(c->along_z, lines, lines);
    }
}

/* Does one plane of the map. */
static void plane_forward(const struct fourier_cube *c, const struct plane *p, int z, const float *map,
                          const float *factors) {
    const size_t box = (size_t)c->box, n = (size_t)c->padded, columns = (size_t)c->columns, first = (n - box) / 2;
    const int half = c->box / 2;
    const float *in = map + (size_t)z * box * box;
    memset(p->lines, 0, box * real_line(c) * sizeof *p->lines);
    for (int y = 0; y < c->box; y++) {
        const float *of_row = factors + (z - half) * (z - half) + (y - half) * (y - half);
        float *out = p->lines + (size_t)y * real_line(c) + first;
        for (int x = 0; x < c->box; x++)
            out[x] = in[(size_t)y * box + (size_t)x] * of_row[(x - half) * (x - half)];
    }
    fft_run(c->along_x, p->lines, p->transforms);
    memset(p->turned, 0, 2 * n * columns * sizeof *p->turned);
    for (size_t y = 0; y < box; y++)
        memcpy(p->turned + 2 * (y + first) * columns, p->transforms + y * complex_line(c),
               2 * used_columns(c) * sizeof *p->turned);
    fft_run(c->along_y, p->turned, p->turned);
    float *to = c->values + 2 * ((size_t)z + first) * (size_t)c->rows * columns;
    for (int row = 0; row < c->rows; row++)
        memcpy(to + 2 * (size_t)row * columns, p->turned + 2 * row_of(c, row) * columns, 2 * columns * sizeof *to);
}

void fourier_cube_forward(struct fourier_cube *c, const float *map, const float *factors) {
    memset(c->values, 0, (size_t)c->padded * (size_t)c->rows * (size_t)c->columns * 2 * sizeof *c->values);
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int z = 0; z < c->box; z++) {
        const struct plane plane = plane_of(c, omp_get_thread_num());
        plane_forward(c, &plane, z, map, factors);
    }
    turn_z(c);
}

static void plane_inverse(const struct fourier_cube *c, const struct plane *p, int z, float scale, float *map) {
    const size_t box = (size_t)c->box, n = (size_t)c->padded, columns = (size_t)c->columns, first = (n - box) / 2;
    const float *from = c->values + 2 * ((size_t)z + first) * (size_t)c->rows * columns;
    memset(p->turned, 0, 2 * n * columns * sizeof *p->turned);
    for (int row = 0; row < c->rows; row++)
        memcpy(p->turned + 2 * row_of(c, row) * columns, from + 2 * (size_t)row * columns, 2 * columns * sizeof *from);
    fft_run(c->along_y, p->turned, p->turned);
    memset(p->transforms, 0, box * complex_line(c) * sizeof *p->transforms);
    for (size_t y = 0; y < box; y++)
        memcpy(p->transforms + y * complex_line(c), p->turned + 2 * (y + first) * columns,
               2 * used_columns(c) * sizeof *p->transforms);
    fft_run(c->along_x, p->transforms, p->lines);
    for (size_t y = 0; y < box; y++)
        for (size_t x = 0; x < box; x++)
            map[((size_t)z * box + y) * box + x] = scale * p->lines[y * real_line(c) + first + x];
}

void fourier_cube_inverse(struct fourier_cube *c, float scale, float *ret_map) {
    turn_z(c);
#pragma omp parallel for schedule(static) num_threads(c->threads)
    for (int z = 0; z < c->box; z++) {
        const struct plane plane = plane_of(c, omp_get_thread_num());
        plane_inverse(c, &plane, z, scale, ret_map);
    }
}
