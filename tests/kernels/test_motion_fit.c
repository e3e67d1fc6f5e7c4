/* The joint fit of patches: slopes that are made from a known motion give it back. */
#include "kernels/motion/motion_align_private.h"
#include "tests/kernels/chance.h"

enum { FRAMES = 20, SIDE = 5, PATCHES = SIDE * SIDE };

struct fit_case {
    struct motion_align_plan plan;
    double slope[2 * PATCHES * FRAMES], curvature[3 * PATCHES];
    double coefficients[2][MOTION_COEFFICIENTS], frame_x[FRAMES], frame_y[FRAMES];
    double *scratch;
};

static double shift_at(const double *c, int patch, int frame, const struct motion_align_plan *plan) {
    double x, y, terms[MOTION_SURFACE], sum = 0, z = frame;
    motion_fit_centre(plan, patch, &x, &y);
    motion_surface_terms(x, y, terms);
    for (int i = 0; i < MOTION_SURFACE; i++)
        sum += terms[i] * z * (c[3 * i] + z * (c[3 * i + 1] + z * c[3 * i + 2]));
    return sum;
}

/* Draws a motion, and the slopes of patches that stand at 0 under it. Each patch has another curvature and another place
 * for its sum. noise: of a slope, over what its curvature tells. */
static void draw(struct fit_case *fit, double motion, bool frames_too, double noise) {
    struct motion_task task = {.nx = 1024,
                               .ny = 900,
                               .frames = FRAMES,
                               .align = {.bfactor = 150,
                                         .patches_x = SIDE,
                                         .patches_y = SIDE,
                                         .group = 1,
                                         .search = 50,
                                         .iterations = 5,
                                         .tolerance = 0.5}};
    memset(fit, 0, sizeof *fit);
    motion_align_plan_make(&task, &fit->plan);
    fit->scratch = host_new(motion_fit_scratch(&fit->plan), sizeof *fit->scratch);
    for (int axis = 0; axis < 2; axis++)
        for (int i = frames_too ? 3 : 0; i < MOTION_COEFFICIENTS; i++)
            fit->coefficients[axis][i] = motion * normal() / pow(FRAMES, 1 + i % 3);
    for (int j = 0; frames_too && j < FRAMES; j++) {
        fit->frame_x[j] = normal();
        fit->frame_y[j] = normal();
    }
    for (int p = 0; p < PATCHES; p++) {
        double *h = fit->curvature + 3 * p, size = p % 7 == 0 ? 0 : 50 * (1 + uniform());
        double offset[2] = {normal(), normal()};
        h[0] = size;
        h[1] = 0.2 * size;
        h[2] = 1.3 * size;
        for (int j = 0; j < FRAMES; j++) {
            double u = offset[0] + shift_at(fit->coefficients[0], p, j, &fit->plan) + fit->frame_x[j];
            double v = offset[1] + shift_at(fit->coefficients[1], p, j, &fit->plan) + fit->frame_y[j];
            double *g = fit->slope + 2 * (p * FRAMES + j);
            g[0] = h[0] * u + h[1] * v + noise * sqrt(h[0]) * normal();
            g[1] = h[1] * u + h[2] * v + noise * sqrt(h[2]) * normal();
        }
    }
}

/* Returns the RMS distance of what is found from the motion that was drawn, in px, over patches and frames, relative to
 * each patch's first frame. */
static double error_after_a_step(struct fit_case *fit, bool frames_too) {
    double found[2][MOTION_COEFFICIENTS] = {{0}}, x[FRAMES] = {0}, y[FRAMES] = {0}, squares = 0;
    struct motion_fit step = {&fit->plan, fit->slope, fit->curvature, frames_too};
    motion_fit_step(&step, fit->scratch, found, x, y);
    for (int p = 0; p < PATCHES; p++)
        for (int j = 0; j < FRAMES; j++) {
            double u = shift_at(found[0], p, j, &fit->plan) - shift_at(fit->coefficients[0], p, j, &fit->plan);
            double v = shift_at(found[1], p, j, &fit->plan) - shift_at(fit->coefficients[1], p, j, &fit->plan);
            u += x[j] - fit->frame_x[j] - x[0] + fit->frame_x[0];
            v += y[j] - fit->frame_y[j] - y[0] + fit->frame_y[0];
            squares += u * u + v * v;
        }
    free(fit->scratch);
    return sqrt(squares / (PATCHES * FRAMES));
}

static void exact_slopes_give_the_motion_back(void **state) {
    (void)state;
    struct fit_case fit;
    for (int frames_too = 0; frames_too < 2; frames_too++) {
        draw(&fit, 5, frames_too, 0);
        double error = error_after_a_step(&fit, frames_too);
        printf("    off by %.4f px\n", error);
        assert_true(error < 0.08); /* what the variance of the coefficients costs */
    }
}

/* Patches of 50 px⁻² tell a shift to 0.14 px each; the fit of a specimen at rest must be far better than that. */
static void noise_is_not_fitted(void **state) {
    (void)state;
    struct fit_case fit;
    double sum = 0;
    for (int trial = 0; trial < 10; trial++) {
        draw(&fit, 0, false, 1);
        sum += error_after_a_step(&fit, false) / 10;
    }
    printf("    off by %.4f px\n", sum);
    assert_true(sum < 0.06);
}

int main(int argc, char **argv) {
    choose_seed(argc > 1 ? argv[1] : "6");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_slopes_give_the_motion_back),
        cmocka_unit_test(noise_is_not_fitted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
