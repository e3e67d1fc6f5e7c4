#include "examples/simulate/drift.h"

#include <math.h>

static const double FAST_SHARE = 0.75, FAST = 0.15; /* part of the way, and the time in which most of it passes */
static const double DOMING_TIME = 0.3;
static const double BEND = 0.6; /* rad, of the path */

/* Returns how much of a motion that slows down within `time` has passed at t = 0 to 1. */
static double settled(double t, double time) {
    return (1 - exp(-t / time)) / (1 - exp(-1 / time));
}

/* Draws the field of the doming, outwards from the middle and bent at random, without a mean and with the wanted
 * difference between corners. */
static void draw_field(double doming, struct random *random, double field[2][EXPOSURE_TERMS]) {
    for (int axis = 0; axis < 2; axis++) {
        double *c = field[axis];
        c[0] = 0;
        for (int i = 1; i < EXPOSURE_TERMS; i++)
            c[i] = 0.5 * random_normal(random);
        c[axis == 0 ? 1 : 3] += 1;
        c[0] = -(c[2] + c[4]) / 12; /* the mean of u² over −½ to ½ is 1/12 */
    }
    double corner[4][2], largest = 0;
    for (int k = 0; k < 4; k++) {
        double u = k % 2 == 0 ? -0.5 : 0.5, v = k / 2 == 0 ? -0.5 : 0.5;
        for (int axis = 0; axis < 2; axis++) {
            const double *c = field[axis];
            corner[k][axis] = c[0] + c[1] * u + c[2] * u * u + c[3] * v + c[4] * v * v + c[5] * u * v;
        }
        for (int other = 0; other < k; other++)
            largest = fmax(largest, hypot(corner[k][0] - corner[other][0], corner[k][1] - corner[other][1]));
    }
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < EXPOSURE_TERMS; i++)
            field[axis][i] *= largest > 0 ? doming / largest : 0;
}

void drift_draw(const struct drift_scene *scene, struct random *random, struct exposure_shift *shifts) {
    double field[2][EXPOSURE_TERMS];
    double angle = random_uniform(random, 0, 2 * M_PI), bend = random_uniform(random, -BEND, BEND);
    draw_field(scene->doming, random, field);
    for (int j = 0; j < scene->frames; j++) {
        double t = scene->frames > 1 ? (double)j / (scene->frames - 1) : 0;
        double way = scene->way * (FAST_SHARE * settled(t, FAST) + (1 - FAST_SHARE) * t);
        float jitter[2];
        random_normal_pair(random, &jitter[0], &jitter[1]);
        double shake = j > 0 ? scene->jitter : 0;
        shifts[j] = (struct exposure_shift){.x = -way * cos(angle + bend * t) - shake * (double)jitter[0],
                                            .y = -way * sin(angle + bend * t) - shake * (double)jitter[1]};
        for (int axis = 0; axis < 2; axis++)
            for (int i = 0; i < EXPOSURE_TERMS; i++)
                shifts[j].local[axis][i] = -settled(t, DOMING_TIME) * field[axis][i];
    }
}
