#include "kernels/symmetry/symmetry.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const double DEGREES = M_PI / 180;
enum { ICOSAHEDRAL_ORDER = 60, MAX_FOLD = 99 };

struct axis {
    int fold;
    double x, y, z;
};

#define GOLDEN 1.6180339887498948482
#define ROOT_2 1.4142135623730950488

/* Two axes generate each of the polyhedral groups. Their lengths do not matter. */
static const struct {
    const char *name;
    int order;
    struct axis axes[2];
} solids[] = {
    {"T", 12, {{3, 0, 0, 1}, {2, 0, ROOT_2, 1}}},  {"O", 24, {{3, 1, 1, 1}, {4, 0, 0, 1}}},
    {"I", 60, {{2, 0, 0, 1}, {5, 1, 0, GOLDEN}}},  {"I1", 60, {{2, 1, 0, 0}, {5, GOLDEN, 0, -1}}},
    {"I2", 60, {{2, 0, 0, 1}, {5, 1, 0, GOLDEN}}}, {"I3", 60, {{5, 0, 0, 1}, {2, -1, 0, GOLDEN}}},
    {"I4", 60, {{2, 1, 0, GOLDEN}, {5, 2, 0, 1}}},
};

static void multiply(const double a[9], const double b[9], double ret[9]) {
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            ret[3 * i + j] = a[3 * i] * b[j] + a[3 * i + 1] * b[3 + j] + a[3 * i + 2] * b[6 + j];
}

static void rotate(const double m[9], const double v[3], double ret[3]) {
    for (int i = 0; i < 3; i++)
        ret[i] = m[3 * i] * v[0] + m[3 * i + 1] * v[1] + m[3 * i + 2] * v[2];
}

/* Computes the rotation by 360°/fold about the axis (Rodrigues' formula). */
static void axis_matrix(const struct axis *axis, double ret[9]) {
    double length = sqrt(axis->x * axis->x + axis->y * axis->y + axis->z * axis->z);
    double x = axis->x / length, y = axis->y / length, z = axis->z / length;
    double c = cos(2 * M_PI / axis->fold), s = sin(2 * M_PI / axis->fold), t = 1 - c;
    const double matrix[9] = {t * x * x + c,     t * x * y - s * z, t * x * z + s * y, t * x * y + s * z, t * y * y + c,
                              t * y * z - s * x, t * x * z - s * y, t * y * z + s * x, t * z * z + c};
    memcpy(ret, matrix, sizeof matrix);
}

static bool same(const double a[9], const double b[9]) {
    for (int i = 0; i < 9; i++)
        if (fabs(a[i] - b[i]) > 1e-6) return false;
    return true;
}

static bool contains(const struct symmetry *s, const double matrix[9]) {
    for (int i = 0; i < s->count; i++)
        if (same(s->matrices[i], matrix)) return true;
    return false;
}

/* Completes the group. Multiplying by the generators reaches every element from the identity, so one pass over a
 * growing list is enough. */
static enum status close_group(struct symmetry *s, const struct axis *axes, int n_axes, int order, struct err *err) {
    static const double identity[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    TRY(mem_new((size_t)order, sizeof *s->matrices, "symmetry operators", &s->matrices, err));
    memcpy(s->matrices[0], identity, sizeof identity);
    s->count = 1;
    for (int i = 0; i < s->count; i++)
        for (int g = 0; g < n_axes; g++) {
            double generator[9], product[9];
            axis_matrix(&axes[g], generator);
            multiply(generator, s->matrices[i], product);
            if (!contains(s, product) && s->count < order) memcpy(s->matrices[s->count++], product, sizeof product);
        }
    return STATUS_OK;
}

static enum status unknown(const char *name, struct err *err) {
    FAIL(err, STATUS_BAD_ARGUMENT,
         "\"%s\" is not a point group: expected C1 to C%d, D1 to D%d, T, O, I, I1, I2, I3 or I4", name, MAX_FOLD,
         MAX_FOLD);
}

enum status symmetry_create(const char *name, struct symmetry *ret_symmetry, struct err *err) {
    struct symmetry s = {0};
    size_t length = strlen(name);
    if (length == 0 || length > 3) return unknown(name, err);
    for (size_t i = 0; i < length; i++)
        s.name[i] = (char)toupper((unsigned char)name[i]);
    for (size_t i = 0; i < sizeof solids / sizeof *solids; i++)
        if (strcmp(s.name, solids[i].name) == 0) {
            TRY(close_group(&s, solids[i].axes, 2, solids[i].order, err));
            *ret_symmetry = s;
            return STATUS_OK;
        }
    if ((s.name[0] != 'C' && s.name[0] != 'D') || strspn(s.name + 1, "0123456789") != length - 1 || length == 1)
        return unknown(name, err);
    int fold = (int)strtol(s.name + 1, NULL, 10);
    if (fold < 1) return unknown(name, err);
    bool dihedral = s.name[0] == 'D';
    const struct axis axes[2] = {{fold, 0, 0, 1}, {2, 1, 0, 0}};
    TRY(close_group(&s, axes, dihedral ? 2 : 1, dihedral ? 2 * fold : fold, err));
    *ret_symmetry = s;
    return STATUS_OK;
}

void symmetry_destroy(struct symmetry *symmetry) {
    if (symmetry == NULL) return;
    mem_free(&symmetry->matrices);
    *symmetry = (struct symmetry){0};
}

/* Tests RELION's ranges of rot and tilt for Cn and Dn, borders included. T, O and I have no ranges. */
static bool in_range(const struct symmetry *s, const double d[3]) {
    const double slack = 1e-7;
    bool dihedral = s->name[0] == 'D';
    if ((!dihedral && s->name[0] != 'C') || s->count == 1) return true;
    if (dihedral && d[2] < -slack) return false;
    int fold = dihedral ? s->count / 2 : s->count;
    if (fold == 1 || hypot(d[0], d[1]) < slack) return true;
    double off = atan2(d[1], d[0]) - (dihedral ? M_PI / 2 : 0);
    if (off < -M_PI) off += 2 * M_PI;
    return fabs(off) <= M_PI / fold + slack;
}

/* Chooses, of the mates within range, the one nearest to a direction that lies on no symmetry element. For Cn and Dn
 * this decides on borders only; for T, O and I it defines the unit alone, which is then one Dirichlet cell. */
bool symmetry_in_unit(const struct symmetry *symmetry, const double direction[3]) {
    static const double preferred[3] = {0.2347, 0.1129, 0.9655};
    if (!in_range(symmetry, direction)) return false;
    double own = direction[0] * preferred[0] + direction[1] * preferred[1] + direction[2] * preferred[2];
    for (int i = 1; i < symmetry->count; i++) {
        double mate[3];
        rotate(symmetry->matrices[i], direction, mate);
        double other = mate[0] * preferred[0] + mate[1] * preferred[1] + mate[2] * preferred[2];
        if (other > own + 1e-9 && in_range(symmetry, mate)) return false;
    }
    return true;
}

void euler_to_matrix(double rot, double tilt, double psi, double ret_matrix[9]) {
    double ca = cos(rot * DEGREES), sa = sin(rot * DEGREES);
    double cb = cos(tilt * DEGREES), sb = sin(tilt * DEGREES);
    double cg = cos(psi * DEGREES), sg = sin(psi * DEGREES);
    const double matrix[9] = {cg * cb * ca - sg * sa,
                              cg * cb * sa + sg * ca,
                              -cg * sb,
                              -sg * cb * ca - cg * sa,
                              -sg * cb * sa + cg * ca,
                              sg * sb,
                              sb * ca,
                              sb * sa,
                              cb};
    memcpy(ret_matrix, matrix, sizeof matrix);
}

void matrix_to_euler(const double m[9], double *ret_rot, double *ret_tilt, double *ret_psi) {
    double sine = sqrt(m[2] * m[2] + m[5] * m[5]);
    double rot = 0, tilt, psi;
    if (sine > 1e-9) {
        psi = atan2(m[5], -m[2]);
        rot = atan2(m[7], m[6]);
        tilt = atan2(sine, m[8]);
    } else if (m[8] > 0) {
        tilt = 0;
        psi = atan2(-m[3], m[0]);
    } else {
        tilt = M_PI;
        psi = atan2(m[3], -m[0]);
    }
    *ret_rot = rot / DEGREES;
    *ret_tilt = tilt / DEGREES;
    *ret_psi = psi / DEGREES;
}

static double row_angle(const double a[3], const double b[3]) {
    double cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
    return acos(cosine > 1 ? 1 : cosine < -1 ? -1 : cosine);
}

double symmetry_distance(const struct symmetry *symmetry, const double a[9], const double b[9]) {
    double least = INFINITY;
    for (int i = 0; i < symmetry->count; i++) {
        double mate[9];
        multiply(b, symmetry->matrices[i], mate);
        double sum = 0;
        for (int row = 0; row < 9; row += 3)
            sum += row_angle(a + row, mate + row);
        if (sum < least) least = sum;
    }
    return least / 3 / DEGREES;
}

/* Returns the trilinear value at a point relative to the centre of the box; 0 outside the box. */
static float sample(const float *map, int box, const double p[3]) {
    double at[3], f[3];
    int corner[3];
    for (int d = 0; d < 3; d++) {
        at[d] = p[d] + box / 2;
        corner[d] = (int)floor(at[d]);
        f[d] = at[d] - corner[d];
    }
    double sum = 0;
    for (int i = 0; i < 8; i++) {
        int x = corner[0] + (i & 1), y = corner[1] + (i >> 1 & 1), z = corner[2] + (i >> 2);
        if (x < 0 || y < 0 || z < 0 || x >= box || y >= box || z >= box) continue;
        double weight = (i & 1 ? f[0] : 1 - f[0]) * (i & 2 ? f[1] : 1 - f[1]) * (i & 4 ? f[2] : 1 - f[2]);
        sum += weight * map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x];
    }
    return (float)sum;
}

enum status symmetry_average_map(const struct symmetry *symmetry, int box, float *map, struct err *err) {
    if (symmetry->count == 1) return STATUS_OK;
    size_t n = (size_t)box * (size_t)box * (size_t)box;
    _cleanup_(mem_free) float *copy = NULL;
    TRY(mem_new(n, sizeof *copy, "map to be symmetrised", &copy, err));
    memcpy(copy, map, n * sizeof *copy);
#pragma omp parallel for schedule(static)
    for (int z = 0; z < box; z++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                const double from[3] = {x - box / 2, y - box / 2, z - box / 2};
                double sum = 0;
                for (int i = 0; i < symmetry->count; i++) {
                    double at[3];
                    rotate(symmetry->matrices[i], from, at);
                    sum += (double)sample(copy, box, at);
                }
                map[((size_t)z * (size_t)box + (size_t)y) * (size_t)box + (size_t)x] = (float)(sum / symmetry->count);
            }
    return STATUS_OK;
}
