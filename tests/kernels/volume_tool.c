/* The volume kernels on raw float32 files, for scripts that compare them with other programs:
 *   volume_tool project BOX MAP ANGLES HALVES           map → half-plane transforms of its slices
 *   volume_tool reconstruct BOX SYMMETRY ANGLES HALVES MAP
 *   volume_tool fsc BOX MAP MAP                         one value a line
 *   volume_tool postprocess BOX PIXEL MAP MAP MASK|none|auto BFACTOR|fit FOLDER
 *   volume_tool local BOX PIXEL MAP MAP BFACTOR RESOLUTION FILTERED
 *   volume_tool symmetry NAME                           one matrix a line
 * ANGLES: rot tilt psi in a line each. HALVES: [n][box][box/2+1] complex, 1/box² norm, phase origin at index 0. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/local_resolution/local_resolution.h"
#include "kernels/postprocess/postprocess.h"
#include "kernels/projector/projector.h"
#include "kernels/reconstruct/reconstruct.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/files/postprocess_write.h"

enum { MAX_VIEWS = 10000 };

static enum status read_floats(const char *path, size_t count, float **ret_values, struct err *err) {
    FILE *file = fopen(path, "rb");
    FAIL_IF(file == NULL, err, STATUS_IO, "%s cannot be opened", path);
    float *values = NULL;
    enum status status = mem_new(count, sizeof *values, path, &values, err);
    size_t got = status == STATUS_OK ? fread(values, sizeof *values, count, file) : 0;
    fclose(file);
    if (status != STATUS_OK) return status;
    if (got != count) {
        free(values);
        FAIL(err, STATUS_TRUNCATED, "%s holds %zu values, not %zu", path, got, count);
    }
    *ret_values = values;
    return STATUS_OK;
}

static enum status write_floats(const char *path, size_t count, const float *values, struct err *err) {
    FILE *file = fopen(path, "wb");
    FAIL_IF(file == NULL, err, STATUS_IO, "%s cannot be written", path);
    size_t written = fwrite(values, sizeof *values, count, file);
    FAIL_IF(fclose(file) != 0 || written != count, err, STATUS_IO, "%s was not written whole", path);
    return STATUS_OK;
}

static enum status read_views(const char *path, float (**ret_matrices)[9], int *ret_count, struct err *err) {
    float(*matrices)[9] = NULL;
    FILE *file = fopen(path, "r");
    FAIL_IF(file == NULL, err, STATUS_IO, "%s cannot be opened", path);
    enum status status = mem_new(MAX_VIEWS, sizeof *matrices, "views", &matrices, err);
    double rot, tilt, psi, m[9];
    int n = 0;
    while (status == STATUS_OK && n < MAX_VIEWS && fscanf(file, "%lf %lf %lf", &rot, &tilt, &psi) == 3) {
        euler_to_matrix(rot, tilt, psi, m);
        for (int i = 0; i < 9; i++)
            matrices[n][i] = (float)m[i];
        n++;
    }
    fclose(file);
    if (status == STATUS_OK) {
        *ret_matrices = matrices;
        *ret_count = n;
    }
    return status;
}

/* Does the opposite of fourier_pixels_gather. */
static void spread(const struct fourier_pixels *pixels, const float *values, float *half) {
    int box = pixels->box, columns = box / 2 + 1;
    for (int i = 0; i < pixels->count; i++) {
        int kx = pixels->kx[i], ky = pixels->ky[i], row = (ky + box) % box;
        float sign = (kx + ky) % 2 == 0 ? 1.0f : -1.0f;
        float *out = half + 2 * ((size_t)row * (size_t)columns + (size_t)kx);
        out[0] = sign * values[2 * i], out[1] = sign * values[2 * i + 1];
        if (kx == 0 || 2 * kx == box) {
            out = half + 2 * ((size_t)((box - row) % box) * (size_t)columns + (size_t)kx);
            out[0] = sign * values[2 * i], out[1] = -sign * values[2 * i + 1];
        }
    }
}

static enum status project(int box, char **argv, struct err *err) {
    size_t plane = 2 * (size_t)box * (size_t)(box / 2 + 1);
    float *map = NULL, *slices = NULL, *halves = NULL, (*matrices)[9] = NULL;
    int n = 0;
    struct fourier_pixels pixels = {0};
    struct projector *projector = NULL;
    TRY(read_floats(argv[0], (size_t)box * (size_t)box * (size_t)box, &map, err));
    TRY(read_views(argv[1], &matrices, &n, err));
    TRY(fourier_pixels_create(box, box, &pixels, err));
    TRY(projector_create(3, box, 1, &projector, err));
    TRY(projector_set_map(projector, map, box, err));
    TRY(mem_new((size_t)n * (size_t)pixels.count, 2 * sizeof *slices, "slices", &slices, err));
    TRY(mem_new((size_t)n * plane, sizeof *halves, "transforms", &halves, err));
    projector_slices(projector, &pixels, pixels.count, n, &matrices[0][0], 1, slices);
    for (int i = 0; i < n; i++)
        spread(&pixels, slices + 2 * (size_t)pixels.count * (size_t)i, halves + plane * (size_t)i);
    TRY(write_floats(argv[2], plane * (size_t)n, halves, err));
    projector_destroy(&projector);
    fourier_pixels_destroy(&pixels);
    free(map), free(slices), free(halves), free(matrices);
    return STATUS_OK;
}

static enum status reconstruct(int box, char **argv, struct err *err) {
    size_t plane = 2 * (size_t)box * (size_t)(box / 2 + 1), voxels = (size_t)box * (size_t)box * (size_t)box;
    float *map = NULL, *slices = NULL, *weights = NULL, *halves = NULL, (*matrices)[9] = NULL;
    int n = 0;
    struct fourier_pixels pixels = {0};
    struct accumulator *accumulator = NULL;
    struct symmetry symmetry;
    TRY(symmetry_create(argv[0], &symmetry, err));
    TRY(read_views(argv[1], &matrices, &n, err));
    TRY(read_floats(argv[2], plane * (size_t)n, &halves, err));
    TRY(fourier_pixels_create(box, box, &pixels, err));
    TRY(accumulator_create(3, box, box, &accumulator, err));
    size_t values = (size_t)n * (size_t)pixels.count;
    TRY(mem_new(values, 2 * sizeof *slices, "slices", &slices, err));
    TRY(mem_new(values, sizeof *weights, "weights", &weights, err));
    TRY(mem_new(voxels, sizeof *map, "map", &map, err));
    for (int i = 0; i < n; i++)
        fourier_pixels_gather(&pixels, halves + plane * (size_t)i, slices + 2 * (size_t)pixels.count * (size_t)i);
    for (size_t i = 0; i < values; i++)
        weights[i] = 1;
    TRY(accumulator_add(accumulator, &pixels, pixels.count, n, &matrices[0][0], slices, weights, 1, err));
    TRY(accumulator_finish(accumulator, &symmetry, 1, err));
    const struct reconstruct_options options = {.threads = 1};
    TRY(reconstruct_map(accumulator, &options, map, NULL, NULL, err));
    TRY(write_floats(argv[3], voxels, map, err));
    accumulator_destroy(&accumulator);
    fourier_pixels_destroy(&pixels);
    symmetry_destroy(&symmetry);
    free(map), free(slices), free(weights), free(halves), free(matrices);
    return STATUS_OK;
}

static enum status correlate(int box, char **argv, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    float *a = NULL, *b = NULL, *fsc = NULL;
    TRY(read_floats(argv[0], voxels, &a, err));
    TRY(read_floats(argv[1], voxels, &b, err));
    TRY(mem_new((size_t)box / 2 + 1, sizeof *fsc, "curve", &fsc, err));
    TRY(fsc_maps(NULL, box, a, b, fsc, err));
    for (int i = 0; i <= box / 2; i++)
        printf("%.6f\n", (double)fsc[i]);
    free(a), free(b), free(fsc);
    return STATUS_OK;
}

/* argv: PIXEL MAP MAP MASK|none|auto BFACTOR|fit FOLDER */
static enum status postprocess(int box, char **argv, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    float *a = NULL, *b = NULL, *mask = NULL;
    TRY(read_floats(argv[1], voxels, &a, err));
    TRY(read_floats(argv[2], voxels, &b, err));
    bool automatic = strcmp(argv[3], "auto") == 0;
    if (!automatic && strcmp(argv[3], "none") != 0) TRY(read_floats(argv[3], voxels, &mask, err));
    const struct postprocess_options options = {
        .box = box,
        .pixel_size = atof(argv[0]),
        .mask = mask,
        .automatic_mask = automatic,
        .randomise_at_fsc = 0.8,
        .bfactor_low = 10,
        .adhoc_bfactor = strcmp(argv[4], "fit") == 0 ? NAN : atof(argv[4]),
    };
    const struct postprocess_names names = {.half1 = "run_half1.mrc", .half2 = "run_half2.mrc", .folder = ""};
    struct postprocess_result result;
    TRY(postprocess_run(&options, a, b, &result, err));
    enum status status = postprocess_write(&result, &options, argv[5], &names, NULL, err);
    postprocess_result_destroy(&result);
    free(a), free(b), free(mask);
    return status;
}

/* argv: PIXEL MAP MAP BFACTOR RESOLUTION FILTERED. Prints the seconds. */
static enum status local(int box, char **argv, struct err *err) {
    size_t voxels = (size_t)box * (size_t)box * (size_t)box;
    float *a = NULL, *b = NULL, *resolution = NULL, *filtered = NULL;
    TRY(read_floats(argv[1], voxels, &a, err));
    TRY(read_floats(argv[2], voxels, &b, err));
    TRY(mem_new(voxels, sizeof *resolution, "map", &resolution, err));
    TRY(mem_new(voxels, sizeof *filtered, "map", &filtered, err));
    const struct local_resolution_options options = {.box = box, .pixel_size = atof(argv[0]), .bfactor = atof(argv[3])};
    double began = clock_monotonic();
    TRY(local_resolution_run(NULL, &options, a, b, resolution, filtered, err));
    printf("%.3f s\n", clock_monotonic() - began);
    TRY(write_floats(argv[4], voxels, resolution, err));
    TRY(write_floats(argv[5], voxels, filtered, err));
    free(a), free(b), free(resolution), free(filtered);
    return STATUS_OK;
}

static enum status print_symmetry(const char *name, struct err *err) {
    struct symmetry symmetry;
    TRY(symmetry_create(name, &symmetry, err));
    for (int i = 0; i < symmetry.count; i++)
        for (int j = 0; j < 9; j++)
            printf("%.6f%c", symmetry.matrices[i][j], j < 8 ? ' ' : '\n');
    symmetry_destroy(&symmetry);
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {.message = "wrong arguments"};
    enum status status = STATUS_BAD_ARGUMENT;
    int box = argc > 2 ? atoi(argv[2]) : 0;
    if (argc == 6 && strcmp(argv[1], "project") == 0)
        status = project(box, argv + 3, &err);
    else if (argc == 7 && strcmp(argv[1], "reconstruct") == 0)
        status = reconstruct(box, argv + 3, &err);
    else if (argc == 5 && strcmp(argv[1], "fsc") == 0)
        status = correlate(box, argv + 3, &err);
    else if (argc == 9 && strcmp(argv[1], "postprocess") == 0)
        status = postprocess(box, argv + 3, &err);
    else if (argc == 9 && strcmp(argv[1], "local") == 0)
        status = local(box, argv + 3, &err);
    else if (argc == 3 && strcmp(argv[1], "symmetry") == 0)
        status = print_symmetry(argv[2], &err);
    if (status != STATUS_OK) fprintf(stderr, "volume_tool: %s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
