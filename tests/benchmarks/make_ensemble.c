/* Makes a simulated ensemble for timing icestream-superposer, and compares two results.
 *   make_ensemble FOLDER STRUCTURES ATOMS SHAPES NOISE   writes FOLDER/top.pdb and FOLDER/frames.dcd (alpha carbons)
 *   make_ensemble --compare A.npy B.npy                  prints the largest difference of two arrays of float32;
 *                                                        exits with 1 above 0.005
 * SHAPES: number of random coils, which fit a radius of gyration of 20 Å. Each structure is one of the coils, with
 * noise (Å) on each atom, in a random place. With 100 shapes, 1 % of the pairs are alike. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/structure.h"
#include "common/memory.h"

static unsigned long long random_state = 20261121;

static double uniform(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 11) / 9007199254740992.0;
}

static double gaussian(void) {
    return sqrt(-2 * log(1 - uniform())) * cos(2 * M_PI * uniform());
}

static void make_shape(float *xyz, int atoms) {
    double mean[3] = {0}, radius = 0, at[3] = {0};
    for (int i = 0; i < atoms; i++)
        for (int axis = 0; axis < 3; axis++) {
            at[axis] += gaussian();
            xyz[3 * i + axis] = (float)at[axis];
            mean[axis] += at[axis] / atoms;
        }
    for (int i = 0; i < 3 * atoms; i++)
        radius += pow((double)xyz[i] - mean[i % 3], 2) / atoms;
    for (int i = 0; i < 3 * atoms; i++)
        xyz[i] = (float)(((double)xyz[i] - mean[i % 3]) * 20 / sqrt(radius));
}

static void make_structure(const float *shape, int atoms, double noise, float *xyz) {
    double q[4], norm = 0, shift[3];
    for (int i = 0; i < 4; i++)
        norm += pow(q[i] = gaussian(), 2);
    for (int i = 0; i < 4; i++)
        q[i] /= sqrt(norm);
    for (int axis = 0; axis < 3; axis++)
        shift[axis] = 20 * gaussian();
    const double w = q[0], x = q[1], y = q[2], z = q[3];
    const double r[3][3] = {{1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)},
                            {2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)},
                            {2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)}};
    for (int i = 0; i < atoms; i++) {
        double p[3];
        for (int axis = 0; axis < 3; axis++)
            p[axis] = (double)shape[3 * i + axis] + noise * (uniform() + uniform() + uniform() - 1.5) * 2;
        for (int axis = 0; axis < 3; axis++)
            xyz[3 * i + axis] = (float)(r[axis][0] * p[0] + r[axis][1] * p[1] + r[axis][2] * p[2] + shift[axis]);
    }
}

static enum status write_topology(const char *folder, const float *xyz, int atoms, struct err *err) {
    struct structure_model model = {.count = (size_t)atoms};
    char path[PATH_SIZE];
    TRY(mem_new((size_t)atoms, sizeof *model.atoms, "atoms", &model.atoms, err));
    TRY(mem_new(3 * (size_t)atoms, sizeof *model.xyz, "atoms", &model.xyz, err));
    memcpy(model.xyz, xyz, 3 * (size_t)atoms * sizeof *xyz);
    for (int i = 0; i < atoms; i++)
        model.atoms[i] = (struct structure_atom){.id = {.name = "CA", .residue = "ALA", .chain = "A", .number = i + 1},
                                                 .element = "C",
                                                 .altloc = ' ',
                                                 .occupancy = 1};
    TRY(path_join(folder, "top.pdb", path, sizeof path, err));
    FILE *out = fopen(path, "w");
    FAIL_IF(out == NULL, err, STATUS_IO, "%s cannot be written", path);
    enum status status = structure_pdb_write(out, &model, 0, err);
    structure_pdb_end(out);
    fclose(out);
    structure_model_clear(&model);
    return status;
}

static enum status make(const char *folder, int structures, int atoms, int shapes, double noise, struct err *err) {
    _cleanup_(mem_free) float *shape = NULL, *xyz = NULL, *scratch = NULL;
    char path[PATH_SIZE];
    size_t values = 3 * (size_t)atoms;
    TRY(file_make_folders(folder, 0777, err));
    TRY(mem_new(values * (size_t)shapes, sizeof *shape, "shapes", &shape, err));
    TRY(mem_new(values, sizeof *xyz, "a structure", &xyz, err));
    TRY(mem_new((size_t)atoms, sizeof *scratch, "a structure", &scratch, err));
    for (int i = 0; i < shapes; i++)
        make_shape(shape + values * (size_t)i, atoms);
    TRY(write_topology(folder, shape, atoms, err));
    TRY(path_join(folder, "frames.dcd", path, sizeof path, err));
    FILE *out = fopen(path, "w");
    FAIL_IF(out == NULL, err, STATUS_IO, "%s cannot be written", path);
    enum status status = structure_dcd_begin(out, (size_t)structures, (size_t)atoms, err);
    for (int i = 0; status == STATUS_OK && i < structures; i++) {
        make_structure(shape + values * (size_t)(i % shapes), atoms, noise, xyz);
        structure_dcd_frame(out, xyz, (size_t)atoms, scratch);
    }
    bool bad = ferror(out) != 0;
    FAIL_IF(fclose(out) != 0 || bad, err, STATUS_IO, "%s cannot be written", path);
    return status;
}

static enum status read_array(const char *path, float **ret_values, size_t *ret_count, struct err *err) {
    char *text;
    size_t length;
    TRY(file_read_whole(path, (size_t)1 << 36, &text, &length, err));
    size_t header = length > 10 ? 10 + (unsigned char)text[8] + 256 * (size_t)(unsigned char)text[9] : length;
    FAIL_IF(header >= length, err, STATUS_BAD_FORMAT, "%s: no array", path);
    memmove(text, text + header, length - header);
    *ret_values = (float *)(void *)text;
    *ret_count = (length - header) / sizeof(float);
    return STATUS_OK;
}

static enum status compare(const char *a_path, const char *b_path, struct err *err) {
    _cleanup_(mem_free) float *a = NULL, *b = NULL;
    size_t a_count, b_count;
    double worst = 0;
    TRY(read_array(a_path, &a, &a_count, err));
    TRY(read_array(b_path, &b, &b_count, err));
    FAIL_IF(a_count != b_count, err, STATUS_BAD_FORMAT, "%zu numbers and %zu", a_count, b_count);
    for (size_t i = 0; i < a_count; i++)
        worst = fmax(worst, isfinite(a[i]) && isfinite(b[i]) ? fabs((double)a[i] - (double)b[i]) : INFINITY);
    printf("%zu numbers differ by %.2g at most\n", a_count, worst);
    FAIL_IF(!(worst <= 0.005), err, STATUS_BAD_STATE, "more than 0.005");
    return STATUS_OK;
}

int main(int argc, char **argv) {
    struct err err = {0};
    enum status status = STATUS_BAD_ARGUMENT;
    if (argc == 4 && strcmp(argv[1], "--compare") == 0)
        status = compare(argv[2], argv[3], &err);
    else if (argc == 6 && atoi(argv[2]) > 0 && atoi(argv[3]) > 0 && atoi(argv[4]) > 0)
        status = make(argv[1], atoi(argv[2]), atoi(argv[3]), atoi(argv[4]), atof(argv[5]), &err);
    else
        snprintf(err.message, sizeof err.message, "FOLDER STRUCTURES ATOMS SHAPES NOISE, or --compare A.npy B.npy");
    if (status != STATUS_OK) fprintf(stderr, "make_ensemble: %s\n", err.message);
    return status == STATUS_OK ? 0 : 1;
}
