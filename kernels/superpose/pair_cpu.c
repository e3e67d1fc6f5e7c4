/* Superposes one pair by each of three methods, in double: the reference for the tests of the tiles. */
#include <math.h>
#include <string.h>

#include "kernels/superpose/superpose_private.h"
#include "kernels/superpose/superpose_solve.h"

/* Σ w of both structures, their centroids, G_p + G_q and R. */
struct sums {
    double total, norms, r[9], centre_p[3], centre_q[3];
};

static double weight_of(const float *weights, int k, float most) {
    return weights ? (double)weights[k] / most : 1;
}

static void add_up(const float *p, const float *q, int atoms, const float *weights, float most, struct sums *s) {
    *s = (struct sums){0};
    for (int k = 0; k < atoms; k++) {
        double w = weight_of(weights, k, most);
        s->total += w;
        for (int a = 0; a < 3; a++) {
            s->centre_p[a] += w * p[3 * k + a];
            s->centre_q[a] += w * q[3 * k + a];
        }
    }
    for (int a = 0; a < 3; a++) {
        s->centre_p[a] /= s->total;
        s->centre_q[a] /= s->total;
    }
    for (int k = 0; k < atoms; k++) {
        double w = weight_of(weights, k, most), x[3], y[3];
        for (int a = 0; a < 3; a++) {
            x[a] = p[3 * k + a] - s->centre_p[a];
            y[a] = q[3 * k + a] - s->centre_q[a];
            s->norms += w * (x[a] * x[a] + y[a] * y[a]);
        }
        for (int c = 0; c < 9; c++)
            s->r[c] += w * x[c / 3] * y[c % 3];
    }
}

/* The quaternion rotates p onto q; the inverse is wanted. */
static void rotation_of(const double *quaternion, double rotation[3][3]) {
    double length = 0;
    for (int k = 0; k < 4; k++)
        length += quaternion[k] * quaternion[k];
    length = sqrt(length);
    double w = quaternion[0] / length, x = quaternion[1] / length, y = quaternion[2] / length,
           z = quaternion[3] / length;
    double forth[3][3] = {{w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)},
                          {2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)},
                          {2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z}};
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            rotation[a][b] = forth[b][a];
}

/* Returns the cofactor of a[row][column]. */
static double cofactor(double a[4][4], int row, int column) {
    double m[3][3];
    for (int i = 0, k = 0; i < 4; i++) {
        if (i == row) continue;
        for (int j = 0, l = 0; j < 4; j++)
            if (j != column) m[k][l++] = a[i][j];
        k++;
    }
    double det = m[0][0] * (m[1][1] * m[2][2] - m[1][2] * m[2][1]) - m[0][1] * (m[1][0] * m[2][2] - m[1][2] * m[2][0]) +
                 m[0][2] * (m[1][0] * m[2][1] - m[1][1] * m[2][0]);
    return (row + column) % 2 ? -det : det;
}

/* Finds the eigenvector of λ: the longest column of the adjugate of F − λ. Returns false if all columns are too short
 * to trust. */
static bool adjugate_vector(const double *r, double lambda, double *vector) {
    double a[4][4], most = 0;
    superpose_quaternion_matrix(r, a);
    for (int k = 0; k < 4; k++)
        a[k][k] -= lambda;
    for (int column = 0; column < 4; column++) {
        double v[4], length = 0;
        for (int k = 0; k < 4; k++) {
            v[k] = cofactor(a, column, k);
            length += v[k] * v[k];
        }
        if (length <= most) continue;
        most = length;
        memcpy(vector, v, sizeof v);
    }
    return most > 1e-16 * lambda * lambda * lambda * lambda * lambda * lambda;
}

static double fit_qcp(const struct sums *s, double rotation[3][3]) {
    double vector[4];
    int steep = 0;
    double lambda = superpose_qcp(s->r, 0.5 * s->norms, &steep);
    if (!steep || lambda <= 0 || !adjugate_vector(s->r, lambda, vector)) lambda = superpose_jacobi(s->r, vector);
    rotation_of(vector, rotation);
    return lambda;
}

static double dot(const double *a, const double *b) {
    return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}

static void cross(const double *a, const double *b, double *c) {
    c[0] = a[1] * b[2] - a[2] * b[1];
    c[1] = a[2] * b[0] - a[0] * b[2];
    c[2] = a[0] * b[1] - a[1] * b[0];
}

/* Makes a a unit vector perpendicular to the unit vector b (or NULL); an arbitrary one if less than `least` of a is
 * left. */
static void straighten(double *a, const double *b, double least) {
    double across = b ? dot(a, b) : 0;
    for (int k = 0; b && k < 3; k++)
        a[k] -= across * b[k];
    double length = sqrt(dot(a, a));
    if (!(length > least)) {
        /* The axis on which b has the smallest component. */
        int axis = 0;
        for (int k = 1; b && k < 3; k++)
            if (fabs(b[k]) < fabs(b[axis])) axis = k;
        for (int k = 0; k < 3; k++)
            a[k] = (k == axis) - (b ? b[axis] * b[k] : 0);
        length = sqrt(dot(a, a));
    }
    for (int k = 0; k < 3; k++)
        a[k] /= length;
}

/* Takes the two longest columns and where they came from; the third pair of axes follows, so that the result is a
 * rotation. */
static double fit_kabsch(const struct sums *s, double rotation[3][3]) {
    double columns[9], turns[9], u[3][3], v[3][3], length[3];
    double lambda = superpose_kabsch(s->r, columns, turns);
    int order[3] = {0, 1, 2};
    for (int k = 0; k < 3; k++)
        length[k] = columns[k] * columns[k] + columns[k + 3] * columns[k + 3] + columns[k + 6] * columns[k + 6];
    for (int k = 0; k < 2; k++)
        for (int l = 0; l < 2 - k; l++)
            if (length[order[l]] < length[order[l + 1]]) {
                int swap = order[l];
                order[l] = order[l + 1];
                order[l + 1] = swap;
            }
    for (int k = 0; k < 2; k++)
        for (int a = 0; a < 3; a++) {
            u[k][a] = columns[3 * a + order[k]];
            v[k][a] = turns[3 * a + order[k]];
        }
    double least = 1e-13 * sqrt(length[order[0]]);
    straighten(u[0], NULL, 0);
    straighten(v[0], NULL, 0);
    straighten(u[1], u[0], least);
    straighten(v[1], v[0], 0.5);
    cross(u[0], u[1], u[2]);
    cross(v[0], v[1], v[2]);
    for (int a = 0; a < 3; a++)
        for (int b = 0; b < 3; b++)
            rotation[a][b] = u[0][a] * v[0][b] + u[1][a] * v[1][b] + u[2][a] * v[2][b];
    return lambda;
}

static enum status check(const float *xyz, int64_t structure, int atoms, struct err *err) {
    for (int k = 0; k < 3 * atoms; k++)
        if (!(fabsf(xyz[k]) <= SUPERPOSE_FARTHEST))
            return superpose_bad_coordinate(xyz + k / 3 * 3, structure, k / 3, err);
    return STATUS_OK;
}

enum status superpose_pair(enum superpose_method method, const float *reference, const float *moving, int atoms,
                           const float *weights, struct superpose_fit *ret_fit, struct err *err) {
    double vector[4], lambda = 0;
    float most = 0;
    TRY(superpose_most_weight(weights, atoms, &most, err));
    TRY(check(reference, 0, atoms, err));
    TRY(check(moving, 1, atoms, err));
    struct sums s;
    struct superpose_fit fit;
    add_up(reference, moving, atoms, weights, most, &s);
    switch (method) {
    case SUPERPOSE_QCP:
        lambda = fit_qcp(&s, fit.rotation);
        break;
    case SUPERPOSE_KABSCH:
        lambda = fit_kabsch(&s, fit.rotation);
        break;
    case SUPERPOSE_JACOBI:
        lambda = superpose_jacobi(s.r, vector);
        rotation_of(vector, fit.rotation);
        break;
    default:
        FAIL(err, STATUS_BAD_ARGUMENT, "there is no method %d of superposition", (int)method);
    }
    fit.rmsd = superpose_rmsd(s.norms, lambda, s.total);
    for (int a = 0; a < 3; a++)
        fit.translation[a] = s.centre_p[a] - dot(fit.rotation[a], s.centre_q);
    *ret_fit = fit;
    return STATUS_OK;
}

void superpose_apply(const struct superpose_fit *fit, const float *xyz, int atoms, float *ret_xyz) {
    for (int k = 0; k < atoms; k++) {
        double x[3] = {xyz[3 * k], xyz[3 * k + 1], xyz[3 * k + 2]};
        for (int a = 0; a < 3; a++)
            ret_xyz[3 * k + a] = (float)(dot(fit->rotation[a], x) + fit->translation[a]);
    }
}
