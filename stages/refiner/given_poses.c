#include "stages/refiner/given_poses.h"

#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/grids.h"
#include "stages/refiner/hand.h"

static const char *const ANGLES[3] = {"rlnAngleRot", "rlnAngleTilt", "rlnAnglePsi"};
static const char *const ORIGINS[2] = {"rlnOriginXAngst", "rlnOriginYAngst"};
static const char *const PIXEL_ORIGINS[2] = {"rlnOriginX", "rlnOriginY"};

enum status given_poses_find(const struct star_table *rows, const char *path, struct given_columns *ret_columns,
                             struct err *err) {
    struct given_columns c = {0};
    for (int i = 0; i < 3; i++) {
        c.angles[i] = star_column_find(rows, ANGLES[i]);
        FAIL_IF(c.angles[i] < 0, err, STATUS_BAD_FORMAT,
                "%s has no column %s, but poses are to be those of the table: give a table with %s, %s and %s (and "
                "%s, %s), such as a run_data.star; or set `poses` to search, and `skip_align` to false",
                path, ANGLES[i], ANGLES[0], ANGLES[1], ANGLES[2], ORIGINS[0], ORIGINS[1]);
    }
    c.angstrom = star_column_find(rows, ORIGINS[0]) >= 0 || star_column_find(rows, ORIGINS[1]) >= 0;
    const char *const *names = c.angstrom ? ORIGINS : PIXEL_ORIGINS;
    for (int i = 0; i < 2; i++)
        c.origins[i] = star_column_find(rows, names[i]);
    FAIL_IF((c.origins[0] < 0) != (c.origins[1] < 0), err, STATUS_BAD_FORMAT,
            "%s has the column %s, but not %s: both were expected, or neither for origins of 0", path,
            names[c.origins[0] < 0], names[c.origins[0] >= 0]);
    *ret_columns = c;
    return STATUS_OK;
}

/* Reads a number whose size no pose exceeds. */
static enum status read_number(const struct star_table *rows, size_t row, int column, const char *path,
                               const char *name, double most, double *ret_value, struct err *err) {
    bool good = star_get_number(rows, row, column, ret_value, NULL) == STATUS_OK && fabs(*ret_value) <= most;
    FAIL_IF(!good, err, STATUS_BAD_FORMAT, "%s, particle %zu: %s is '%s', a number from %g to %g was expected", path,
            row + 1, name, star_get(rows, row, column), -most, most);
    return STATUS_OK;
}

/* Origins in pixels are those of the particle's own image. */
static enum status take_row(const struct particle_set *set, const struct star_table *rows,
                            const struct given_columns *c, const char *path, struct particle *p, struct err *err) {
    static const double ANGLE_MOST = 1e4, ORIGIN_MOST = 1e5; /* °; Å or px */
    double angles[3], origins[2] = {0};
    for (int i = 0; i < 3; i++)
        TRY(read_number(rows, p->row, c->angles[i], path, ANGLES[i], ANGLE_MOST, &angles[i], err));
    for (int i = 0; i < 2 && c->origins[i] >= 0; i++)
        TRY(read_number(rows, p->row, c->origins[i], path, c->angstrom ? ORIGINS[i] : PIXEL_ORIGINS[i], ORIGIN_MOST,
                        &origins[i], err));
    for (int i = 0; i < 2 && !c->angstrom; i++)
        origins[i] *= set->optics[p->optics].pixel_size;
    euler_to_matrix(angles[0], angles[1], angles[2], p->pose);
    if (set->inverted) hand_turn_pose(p->pose);
    grids_shift_from_table(set, p, origins);
    memcpy(p->given_origin, p->origin, sizeof p->given_origin);
    p->given = true;
    return STATUS_OK;
}

enum status given_poses_take(struct particle_set *set, const int *which, size_t count, const struct star_table *rows,
                             const struct given_columns *columns, const char *path, struct err *err) {
    for (size_t i = 0; i < count; i++) {
        struct particle *p = &set->particles[which[i]];
        if (!p->aligned) TRY(take_row(set, rows, columns, path, p, err));
    }
    return STATUS_OK;
}

double given_poses_deviation(const struct particle_set *set) {
    double sum = 0;
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++) {
        const struct particle *p = &set->particles[i];
        if (!particle_counts(p) || !p->given) continue;
        sum += p->given_origin[0] * p->given_origin[0] + p->given_origin[1] * p->given_origin[1];
        count++;
    }
    return count > 0 ? sqrt(sum / (2 * (double)count)) : 0;
}

enum status given_poses_list(const struct particle_set *set, struct sampling *ret_list, struct err *err) {
    _cleanup_(mem_free) double(*poses)[9] = NULL;
    TRY(mem_new_unset(set->count, sizeof *poses, "poses", &poses, err));
    for (size_t i = 0; i < set->count; i++)
        memcpy(poses[i], set->particles[i].pose, sizeof *poses);
    sampling_destroy(ret_list);
    return sampling_create_list((const double(*)[9])poses, (int)set->count, ret_list, err);
}
