#include "pipelines/launcher/api/directions.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const double PI = 3.14159265358979323846;

/* ---- Point groups ---- */

struct turn {
    int fold;
    double axis[3]; /* of any length */
};

static const double GOLDEN = 1.6180339887498948482, ROOT_2 = 1.4142135623730950488;

static void turn_matrix(const struct turn *turn, double matrix[3][3]) {
    const double *a = turn->axis, length = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    const double u[3] = {a[0] / length, a[1] / length, a[2] / length};
    const double c = cos(2 * PI / turn->fold), s = sin(2 * PI / turn->fold);
    const double cross[3][3] = {{0, -u[2], u[1]}, {u[2], 0, -u[0]}, {-u[1], u[0], 0}};
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            matrix[i][j] = (1 - c) * u[i] * u[j] + s * cross[i][j] + (i == j ? c : 0);
}

/* Adds a matrix unless the list has it. */
static int add_operation(double operations[DIRECTIONS_OPERATIONS][3][3], int count, double matrix[3][3]) {
    for (int k = 0; k < count; k++) {
        double away = 0;
        for (int i = 0; i < 9; i++)
            away = fmax(away, fabs(operations[k][i / 3][i % 3] - matrix[i / 3][i % 3]));
        if (away < 1e-6) return count;
    }
    memcpy(operations[count], matrix, sizeof operations[count]);
    return count + 1;
}

/* Two turns make a group of the solids. Each operation is reached from the identity by these turns alone. */
static int solid_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]) {
    const struct {
        const char *name;
        int order;
        struct turn turns[2];
    } solids[] = {
        {"T", 12, {{3, {0, 0, 1}}, {2, {0, ROOT_2, 1}}}},  {"O", 24, {{3, {1, 1, 1}}, {4, {0, 0, 1}}}},
        {"I", 60, {{2, {0, 0, 1}}, {5, {1, 0, GOLDEN}}}},  {"I1", 60, {{2, {1, 0, 0}}, {5, {GOLDEN, 0, -1}}}},
        {"I2", 60, {{2, {0, 0, 1}}, {5, {1, 0, GOLDEN}}}}, {"I3", 60, {{5, {0, 0, 1}}, {2, {-1, 0, GOLDEN}}}},
        {"I4", 60, {{2, {1, 0, GOLDEN}}, {5, {2, 0, 1}}}},
    };
    static const double identity[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
    for (size_t solid = 0; solid < sizeof solids / sizeof *solids; solid++) {
        if (strcasecmp(symmetry, solids[solid].name) != 0) continue;
        double turns[2][3][3];
        int count = 1;
        memcpy(operations[0], identity, sizeof identity);
        for (int t = 0; t < 2; t++)
            turn_matrix(&solids[solid].turns[t], turns[t]);
        for (int k = 0; k < count; k++)
            for (int t = 0; t < 2 && count < solids[solid].order; t++) {
                double product[3][3] = {{0}};
                for (int i = 0; i < 9; i++)
                    for (int j = 0; j < 3; j++)
                        product[i / 3][i % 3] += turns[t][i / 3][j] * operations[k][j][i % 3];
                count = add_operation(operations, count, product);
            }
        return count;
    }
    return 0;
}

int directions_group(const char *symmetry, double operations[DIRECTIONS_OPERATIONS][3][3]) {
    char *end;
    const int solid = solid_group(symmetry, operations);
    if (solid > 0) return solid;
    const char kind = (char)toupper((unsigned char)symmetry[0]);
    const long order = kind == 'C' || kind == 'D' ? strtol(symmetry + 1, &end, 10) : 0;
    const int times = kind == 'D' ? 2 : 1;
    if (order < 1 || order * times > DIRECTIONS_OPERATIONS || *end != '\0') return 0;
    int count = 0;
    for (int flip = 0; flip < times; flip++)
        for (long i = 0; i < order; i++, count++) {
            const double c = cos(2 * PI * (double)i / (double)order), s = sin(2 * PI * (double)i / (double)order);
            const double sign = flip ? -1 : 1; /* half a turn about x */
            const double operation[3][3] = {{c, -s * sign, 0}, {s, c * sign, 0}, {0, 0, sign}};
            memcpy(operations[count], operation, sizeof operation);
        }
    return count;
}

void directions_add(int nside, double rot, double tilt, double operations[][3][3], int count, double *counts) {
    const double a = rot * PI / 180, b = tilt * PI / 180;
    const double view[3] = {sin(b) * cos(a), sin(b) * sin(a), cos(b)};
    for (int i = 0; i < count; i++) {
        double turned[3];
        for (int row = 0; row < 3; row++)
            turned[row] =
                operations[i][row][0] * view[0] + operations[i][row][1] * view[1] + operations[i][row][2] * view[2];
        const double z = turned[2] > 1 ? 1 : turned[2] < -1 ? -1 : turned[2];
        counts[directions_pixel(nside, z, atan2(turned[1], turned[0]))] += 1.0 / count;
    }
}
