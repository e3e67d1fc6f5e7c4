/* Tests on a CUDA device that Wᵀ is the transpose of W: <W c, p> = <c, Wᵀ p> for random c and p, with sums in double.
 * test_tomography_adjoint_devices [SEED]. */
#include "tests/kernels/tomography_cases.h"

#include "common/device_cuda.h"
#include "kernels/tomography/slab_cuda.h"

static const enum tomography_basis BASES[] = {TOMOGRAPHY_BLOB, TOMOGRAPHY_LINEAR, TOMOGRAPHY_VOXEL};
static const char *const BASIS_NAMES[] = {"blob", "linear", "voxel"};
static const enum tomography_matrix MATRICES[] = {TOMOGRAPHY_ON_THE_FLY, TOMOGRAPHY_ELLR, TOMOGRAPHY_BLOB_ELLR};
static const char *const MATRIX_NAMES[] = {"on the fly", "ELLR", "blob-ELLR"};
static const struct device DEVICE = {DEVICE_CUDA, 0};
enum { CASES = 4 };

static struct series case_series(int which) {
    struct series s = even_series(7, 65, 45, 67, 19);
    if (which == 1) s = even_series(6, 90, 40, 130, 22);
    if (which == 2) s = even_series(5, 60, 33, 5, 40);
    if (which == 3) s = even_series(21, 60, 131, 259, 50);
    if (which > 0) shift_randomly(&s, which == 2 ? 30 : 4);
    return s;
}

/* One slab of all rows. Arrays have the order of the device, rows innermost: `lines` lines of `pitch` values. */
struct bed {
    struct tomography_setup setup;
    struct tomography_place place;
    struct tomography_slab slab;
    struct tomography_chunks chunks;
    size_t pitch, rows, rays, columns; /* rays: lines of the images; columns: of the volume */
};

static void make_bed(const struct series *s, enum tomography_basis basis, enum tomography_matrix matrix,
                     struct bed *bed) {
    struct tomography_options o = options_of(s);
    struct tomography_slabs all = {&bed->setup, &bed->slab, 1};
    struct err err = {0};
    int count = (s->ny + TOMOGRAPHY_CHUNK - 1) / TOMOGRAPHY_CHUNK, pitch = count * TOMOGRAPHY_CHUNK;
    *bed = (struct bed){.place = {.device = DEVICE}, .chunks = {0, 1, count}, .pitch = (size_t)pitch};
    o.basis = basis;
    o.matrix = matrix;
    o.devices = &DEVICE;
    bed->rows = (size_t)s->ny;
    bed->rays = (size_t)s->tilts * (size_t)s->nx;
    bed->columns = (size_t)s->nz * (size_t)s->nx;
    must(tomography_setup_make(&o, &bed->setup, &err), &err);
    size_t bytes = tomography_place_bytes(&bed->setup, matrix) + tomography_slab_bytes(&bed->setup, pitch);
    must(tomography_place_make(&bed->setup, matrix, bytes, &bed->place, &err), &err);
    must(tomography_slab_make(&bed->setup, &bed->place, pitch, &bed->slab, &err), &err);
    tomography_slabs_deal(&all, 0, s->ny);
}

static void clear_bed(struct bed *bed) {
    tomography_slab_clear(&bed->slab);
    tomography_place_clear(&bed->place);
    tomography_setup_clear(&bed->setup);
}

/* Returns lines with random numbers in the rows and zeros beyond. */
static float *random_lines(const struct bed *bed, size_t lines) {
    float *values = host_new(lines * bed->pitch, sizeof *values);
    for (size_t i = 0; i < lines; i++)
        for (size_t y = 0; y < bed->pitch; y++)
            values[i * bed->pitch + y] = y < bed->rows ? (float)normal() : 0;
    return values;
}

static float *fetch(const struct bed *bed, const float *from, size_t lines) {
    struct err err = {0};
    float *values = host_new(lines * bed->pitch, sizeof *values);
    must(device_get(&DEVICE, values, from, lines * bed->pitch * sizeof *values, &err), &err);
    return values;
}

static void put(const struct bed *bed, float *to, const float *values, size_t lines) {
    struct err err = {0};
    must(device_put(&DEVICE, to, values, lines * bed->pitch * sizeof *values, &err), &err);
}

/* Adds <W c, p>, |W c|² and |p|² to ret. */
static void project(struct bed *bed, const float *c, const float *p, double ret[3]) {
    struct tomography_slab *s = &bed->slab;
    struct err err = {0};
    put(bed, s->volume, c, bed->columns);
    must(tomography_cuda_project(&bed->place.matrix, bed->chunks, (int)bed->pitch, s->volume, s->q0, s->q1, s->inside,
                                 &err),
         &err);
    must(tomography_slabs_wait(&(struct tomography_slabs){&bed->setup, s, 1}, &err), &err);
    float *q0 = fetch(bed, s->q0, bed->rays), *q1 = bed->setup.halo ? fetch(bed, s->q1, bed->rays) : NULL;
    for (size_t i = 0; i < bed->rays * bed->pitch; i++) {
        size_t y = i % bed->pitch;
        if (y >= bed->rows) continue;
        double ray = (double)q0[i];
        if (q1 && y > 0) ray += (double)q1[i - 1];
        if (q1 && y + 1 < bed->rows) ray += (double)q1[i + 1];
        ret[0] += ray * (double)p[i], ret[1] += ray * ray, ret[2] += (double)p[i] * (double)p[i];
    }
    free(q0), free(q1);
}

/* Returns <c, Wᵀ p>. */
static double back_project(struct bed *bed, const float *c, const float *p) {
    struct tomography_slab *s = &bed->slab;
    struct err err = {0};
    struct tomography_residual sizes = {
        .tilts = bed->setup.tilts, .nx = bed->setup.nx, .rows = s->rows, .pitch = s->pitch};
    struct tomography_update update = {.scale = 1, .rows = s->rows, .first_is_end = true, .last_is_end = true};
    put(bed, s->q0, p, bed->rays);
    if (bed->setup.halo)
        must(tomography_cuda_neighbours(&sizes, bed->chunks, s->q0, NULL, NULL, s->q1, s->inside, &err), &err);
    must(tomography_cuda_back_project(&bed->place.matrix, bed->chunks, s->pitch, s->q0, s->q1, &update, s->volume,
                                      s->inside, &err),
         &err);
    must(tomography_slabs_wait(&(struct tomography_slabs){&bed->setup, s, 1}, &err), &err);
    float *back = fetch(bed, s->volume, bed->columns);
    double sum = 0;
    for (size_t i = 0; i < bed->columns * bed->pitch; i++)
        if (i % bed->pitch < bed->rows) sum += (double)c[i] * (double)back[i];
    free(back);
    return sum;
}

static void is_adjoint(void **state) {
    (void)state;
    for (int form = 0; form < 9; form++) {
        double worst = 0;
        for (int which = 0; which < CASES; which++) {
            struct series s = case_series(which);
            struct bed bed;
            double product[3] = {0};
            make_bed(&s, BASES[form / 3], MATRICES[form % 3], &bed);
            float *c = random_lines(&bed, bed.columns), *p = random_lines(&bed, bed.rays);
            project(&bed, c, p, product);
            double off = fabs(product[0] - back_project(&bed, c, p)) / sqrt(product[1] * product[2]);
            if (!(off < 1e-6))
                fail_msg("%s, %s, case %d: <W c, p> and <c, Wᵀ p> differ by %.3g of |W c| |p|", BASIS_NAMES[form / 3],
                         MATRIX_NAMES[form % 3], which, off);
            worst = fmax(worst, off);
            clear_bed(&bed);
            free(c), free(p);
        }
        printf("  %-6s %-10s <W c, p> - <c, W^T p> at most %.1e of |W c| |p|\n", BASIS_NAMES[form / 3],
               MATRIX_NAMES[form % 3], worst);
    }
}

int main(int argc, char **argv) {
    struct err err = {0};
    int count = 0;
    if (device_count(&count, &err) != STATUS_OK || count == 0) {
        printf("skipped: no CUDA device here\n");
        return 77;
    }
    choose_seed(argc > 1 ? argv[1] : NULL);
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_adjoint)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
