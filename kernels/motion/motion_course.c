/* The course of an alignment, the same on all devices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/motion/motion_align_private.h"

enum { REFINE_MAX = 6, LOCAL_MAX = 12, ANNEALED = 2, NEAR = 11 };
static const double REFINED = 0.01;         /* px: Newton steps of the whole end below this one */
static const double LOCAL_END = 0.02;       /* px: and those of the patches */
static const double STEP_MAX = 3;           /* px: no Newton step reaches farther */
static const double STRAY = 5;              /* px: farther from the median of its neighbours, a frame has gone astray */
static const double DOUBTFUL = 0.3;         /* px: with smaller errors no frame goes astray */
static const double SEEN = 1 / (2.0 * 2.0); /* px⁻²: what a patch may show beside the model */

struct motion_course {
    const struct motion_align_plan *plan;
    float weight[MOTION_RINGS];
    bool weighed;              /* by signal: curvature is information */
    double patch_scale;        /* power of white noise in the window over that in a patch */
    float *step_x, *step_y;    /* [frames] */
    double *slope;             /* [patches · groups or frames][2] */
    double *curvature;         /* [patches][3], 1 at least */
    float *patch_x, *patch_y;  /* [patches][groups] shifts in use */
    float *seen_x, *seen_y;    /* [patches][groups] shifts that the patches show, for the report */
    double *frame_x, *frame_y; /* [groups] what the joint fit adds to the frames' shifts */
    double *scratch;           /* of the fit, or of the path of the frames */
    struct motion_patch *reported;
};

void motion_course_destroy(struct motion_course **address) {
    struct motion_course *course = *address;
    if (course == NULL) return;
    free(course->step_x);
    free(course->step_y);
    free(course->slope);
    free(course->curvature);
    free(course->patch_x);
    free(course->patch_y);
    free(course->seen_x);
    free(course->seen_y);
    free(course->frame_x);
    free(course->frame_y);
    free(course->scratch);
    free(course->reported);
    mem_free(address);
}

/* Returns the sum of the squares of a taper. */
static double taper_power(int side) {
    double sum = 0;
    for (int i = 0; i < side; i++)
        sum += pow(motion_align_taper(side, i), 2);
    return sum;
}

static enum status build(struct motion_course *course, struct err *err) {
    const struct motion_align_plan *plan = course->plan;
    const char *what = "shifts of frames";
    size_t frames = (size_t)plan->task.frames, patches = (size_t)(plan->patches_x * plan->patches_y);
    size_t groups = (size_t)plan->groups, all = patches * groups;
    TRY(mem_new(frames, sizeof(float), what, &course->step_x, err));
    TRY(mem_new(frames, sizeof(float), what, &course->step_y, err));
    TRY(mem_new(all > frames ? all : frames, 2 * sizeof(double), what, &course->slope, err));
    TRY(mem_new(patches + 1, 3 * sizeof(double), what, &course->curvature, err));
    size_t path = motion_smooth_scratch(plan->task.frames), fit = patches > 0 ? motion_fit_scratch(plan) : 0;
    TRY(mem_new(path > fit ? path : fit, sizeof(double), what, &course->scratch, err));
    if (patches == 0) return STATUS_OK;
    course->patch_scale =
        (double)plan->window_x * plan->window_y / (taper_power(plan->patch_x) * taper_power(plan->patch_y));
    TRY(mem_new(all, sizeof(float), what, &course->patch_x, err));
    TRY(mem_new(all, sizeof(float), what, &course->patch_y, err));
    TRY(mem_new(all, sizeof(float), what, &course->seen_x, err));
    TRY(mem_new(all, sizeof(float), what, &course->seen_y, err));
    TRY(mem_new(groups, sizeof(double), what, &course->frame_x, err));
    TRY(mem_new(groups, sizeof(double), what, &course->frame_y, err));
    return mem_new(patches, sizeof *course->reported, what, &course->reported, err);
}

enum status motion_course_create(const struct motion_align_plan *plan, struct motion_course **ret_course,
                                 struct err *err) {
    struct motion_course *course = NULL;
    TRY(mem_new(1, sizeof *course, "an alignment", &course, err));
    course->plan = plan;
    enum status status = build(course, err);
    if (status == STATUS_OK)
        *ret_course = course;
    else
        motion_course_destroy(&course);
    return status;
}

/* Returns the weight of a ring under a B-factor. The innermost ring has the illumination, which stays where it is. */
static double damped(const struct motion_align_plan *plan, double bfactor, int ring) {
    double f = (ring + 0.5) / MOTION_RINGS * plan->radius;
    return ring == 0 ? 0 : exp(-2 * bfactor * f * f);
}

static void weigh_by_bfactor(struct motion_course *course) {
    for (int i = 0; i < MOTION_RINGS; i++)
        course->weight[i] = (float)damped(course->plan, course->plan->task.align.bfactor, i);
}

/* Weights each ring by how much of the sum's power there the frames share: the best weights for shifts in white noise.
 * They are in units in which curvature is the information on a shift (px⁻²). Keeps the weights when the frames share
 * nothing. */
static enum status weigh_by_signal(struct motion_course *course, const struct motion_align_work *work, void *state,
                                   const struct motion_model *model, struct err *err) {
    double shared[MOTION_RINGS] = {0}, total[MOTION_RINGS] = {0}, count[MOTION_RINGS] = {0};
    double n = course->plan->task.frames, found = 0;
    float weight[MOTION_RINGS] = {0};
    TRY(work->powers(state, model->x, model->y, shared, total, count, err));
    for (int i = 1; i < MOTION_RINGS; i++) {
        if (!(count[i] > 0)) continue;
        double signal = shared[i] / (n * (n - 1) * count[i]), noise = total[i] / (n * count[i]) - signal;
        if (!(signal > 0) || !(noise > 0)) continue;
        weight[i] = (float)(2 / noise * signal / (noise + (n - 1) * signal));
        found += (double)weight[i];
    }
    course->weighed = found > 0;
    if (course->weighed) memcpy(course->weight, weight, sizeof weight);
    return STATUS_OK;
}

/* Puts the first frame's shift at 0. */
static void begin_at_zero(struct motion_model *model) {
    float x = model->x[0], y = model->y[0];
    for (int j = 0; j < model->frames; j++) {
        model->x[j] -= x;
        model->y[j] -= y;
    }
}

static enum status search(struct motion_course *course, const struct motion_align_work *work, void *state,
                          struct motion_model *model, struct motion_report *report, struct err *err) {
    const struct motion_align_options *options = &course->plan->task.align;
    int n = model->frames;
    weigh_by_bfactor(course);
    report->converged = false;
    while (!report->converged && report->iterations < options->iterations) {
        double sum = 0;
        TRY(work->search(state, model->x, model->y, course->weight, course->step_x, course->step_y, err));
        for (int j = n - 1; j >= 0; j--) {
            double x = (double)(course->step_x[j] - course->step_x[0]),
                   y = (double)(course->step_y[j] - course->step_y[0]);
            model->x[j] += (float)x;
            model->y[j] += (float)y;
            sum += x * x + y * y;
        }
        report->iterations++;
        report->converged = sqrt(sum / n) < options->tolerance;
    }
    return STATUS_OK;
}

/* Fills the Newton step of a slope; 0 without a peak. */
static void newton(const double *h, const double *g, double prior, double ret_step[2]) {
    double xx = h[0] + prior, yy = h[2] + prior, determinant = xx * yy - h[1] * h[1];
    ret_step[0] = ret_step[1] = 0;
    if (!(xx > 0) || !(yy > 0) || !(determinant > 0)) return;
    double x = (yy * g[0] - h[1] * g[1]) / determinant, y = (xx * g[1] - h[1] * g[0]) / determinant;
    double length = sqrt(x * x + y * y), shrink = length > STEP_MAX ? STEP_MAX / length : 1;
    ret_step[0] = x * shrink;
    ret_step[1] = y * shrink;
}

/* Returns the variance of the errors of a frame's shift along an axis, which follows from the curvature of all members
 * of a set; 0 while it is unknown. */
static double error_of(const struct motion_course *course, int members) {
    double xx = 0, yy = 0;
    for (int i = 0; i < members; i++) {
        xx += course->curvature[3 * i];
        yy += course->curvature[3 * i + 2];
    }
    return course->weighed && xx > 0 && yy > 0 ? 1 / sqrt(xx * yy) : 0;
}

/* Takes Newton steps, each from a path that is as smooth as the last ones showed. */
static enum status refine(struct motion_course *course, const struct motion_align_work *work, void *state,
                          struct motion_model *model, struct err *err) {
    size_t bytes = (size_t)model->frames * sizeof *model->x;
    double largest = STEP_MAX;
    for (int i = 0; i < REFINE_MAX && largest > REFINED; i++) {
        TRY(work->slopes(state, MOTION_WHOLE, model->x, model->y, course->weight, course->slope, course->curvature,
                         err));
        memcpy(course->step_x, model->x, bytes);
        memcpy(course->step_y, model->y, bytes);
        for (int j = 0; j < model->frames; j++) {
            double step[2];
            newton(course->curvature, course->slope + 2 * j, 0, step);
            model->x[j] += (float)step[0];
            model->y[j] += (float)step[1];
        }
        motion_smooth(model->x, model->y, model->frames, error_of(course, 1), course->scratch);
        largest = 0;
        for (int j = 0; j < model->frames; j++)
            largest = fmax(largest, fmax(fabs((double)(model->x[j] - course->step_x[j])),
                                         fabs((double)(model->y[j] - course->step_y[j]))));
    }
    begin_at_zero(model);
    return STATUS_OK;
}

/* Returns the median of up to NEAR values. */
static float median(const float *values, int count) {
    float sorted[NEAR];
    for (int i = 0; i < count; i++) {
        int at = i;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    return sorted[count / 2];
}

/* Puts frames that lie far from their neighbours among these: the search took a peak of noise for theirs. */
static void catch_strays(struct motion_course *course, struct motion_model *model) {
    int n = model->frames, near = n < NEAR ? n : NEAR;
    for (int j = 0; j < n; j++) {
        int first = j - near / 2;
        first = first < 0 ? 0 : first > n - near ? n - near : first;
        course->step_x[j] = median(model->x + first, near);
        course->step_y[j] = median(model->y + first, near);
    }
    for (int j = 0; j < n; j++) {
        double x = (double)(model->x[j] - course->step_x[j]), y = (double)(model->y[j] - course->step_y[j]);
        if (sqrt(x * x + y * y) < STRAY) continue;
        model->x[j] = course->step_x[j];
        model->y[j] = course->step_y[j];
    }
}

/* Weights by signal, and catches strays where single frames show so little that the search may have gone astray. */
static enum status gather(struct motion_course *course, const struct motion_align_work *work, void *state,
                          struct motion_model *model, struct err *err) {
    TRY(weigh_by_signal(course, work, state, model, err));
    TRY(work->slopes(state, MOTION_WHOLE, model->x, model->y, course->weight, course->slope, course->curvature, err));
    double error = error_of(course, 1);
    if (error > 0 && error < DOUBTFUL * DOUBTFUL) return STATUS_OK;
    catch_strays(course, model);
    return weigh_by_signal(course, work, state, model, err);
}

/* Fills the shifts of all patches from the polynomial and the joint fit's shifts of frames. Returns the root mean
 * square of the change. */
static double place_patches(struct motion_course *course, const struct motion_model *model) {
    const struct motion_align_plan *plan = course->plan;
    int patches = plan->patches_x * plan->patches_y;
    double change = 0;
    for (int p = 0; p < patches; p++) {
        double x, y, terms[MOTION_SURFACE];
        motion_fit_centre(plan, p, &x, &y);
        motion_surface_terms(x, y, terms);
        for (int g = 0; g < plan->groups; g++) {
            double z = motion_group_middle(plan->task.frames, plan->groups, g);
            double shift[2] = {course->frame_x[g], course->frame_y[g]};
            for (int axis = 0; axis < 2; axis++)
                for (int i = 0; i < MOTION_SURFACE; i++) {
                    const double *c = model->coefficients[axis] + 3 * i;
                    shift[axis] += terms[i] * z * (c[0] + z * (c[1] + z * c[2]));
                }
            size_t at = (size_t)p * (size_t)plan->groups + (size_t)g;
            change += pow(shift[0] - (double)course->patch_x[at], 2) + pow(shift[1] - (double)course->patch_y[at], 2);
            course->patch_x[at] = (float)shift[0];
            course->patch_y[at] = (float)shift[1];
        }
    }
    return sqrt(change / (patches * plan->groups));
}

/* Takes patches without a peak out of the fit. Returns how many stay. */
static int drop_flat_patches(struct motion_course *course) {
    int patches = course->plan->patches_x * course->plan->patches_y, used = 0;
    for (int p = 0; p < patches; p++) {
        double *h = course->curvature + 3 * p;
        bool peak = h[0] > 0 && h[2] > 0 && h[0] * h[2] - h[1] * h[1] > 0;
        course->reported[p].used = peak;
        used += peak;
        if (!peak) {
            memset(h, 0, 3 * sizeof *h);
            memset(course->slope + 2 * (size_t)p * (size_t)course->plan->groups, 0,
                   2 * (size_t)course->plan->groups * sizeof *course->slope);
        }
    }
    return used;
}

/* Moves the mean of the polynomial over the image into the frames' shifts: the squares alone have one, 1/12. */
static void centre(const struct motion_align_plan *plan, struct motion_course *course, struct motion_model *model) {
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < 3; i++) {
            double *c = model->coefficients[axis], mean = c[i] + (c[6 + i] + c[12 + i]) / 12;
            c[i] -= mean;
            for (int g = 0; g < plan->groups; g++)
                (axis == 0 ? course->frame_x : course->frame_y)[g] += mean * pow(g, 1 + i);
        }
}

/* Fills the report with what each patch shows: the model and a last Newton step, relative to the first group. */
static void report_patches(struct motion_course *course, struct motion_report *report) {
    const struct motion_align_plan *plan = course->plan;
    int patches = plan->patches_x * plan->patches_y;
    double sum = 0, seen = 0;
    for (int p = 0; p < patches; p++) {
        size_t first = (size_t)p * (size_t)plan->groups;
        struct motion_patch *patch = &course->reported[p];
        motion_fit_centre(plan, p, &patch->x, &patch->y);
        patch->x = (patch->x + 0.5) * plan->task.nx;
        patch->y = (patch->y + 0.5) * plan->task.ny;
        patch->shift_x = course->seen_x + first;
        patch->shift_y = course->seen_y + first;
        for (int g = plan->groups - 1; g >= 0; g--) {
            size_t at = first + (size_t)g;
            double step[2];
            newton(course->curvature + 3 * p, course->slope + 2 * at, SEEN, step);
            course->seen_x[at] = course->patch_x[at] - (float)course->frame_x[g] + (float)step[0];
            course->seen_y[at] = course->patch_y[at] - (float)course->frame_y[g] + (float)step[1];
            sum += patch->used ? step[0] * step[0] + step[1] * step[1] : 0;
            seen += patch->used;
        }
        float x = course->seen_x[first], y = course->seen_y[first];
        for (size_t at = first; at < first + (size_t)plan->groups; at++) {
            course->seen_x[at] -= x;
            course->seen_y[at] -= y;
        }
    }
    report->rmsd = seen > 0 ? sqrt(sum / seen) : 0;
    report->patch = course->reported;
    report->patches = patches;
    report->groups = plan->groups;
}

/* Smooths what the joint fit adds to the frames' shifts, together with these. */
static void smooth_frames(struct motion_course *course, const struct motion_model *model) {
    for (int j = 0; j < model->frames; j++) {
        course->step_x[j] = model->x[j] + (float)course->frame_x[j];
        course->step_y[j] = model->y[j] + (float)course->frame_y[j];
    }
    double error = error_of(course, course->plan->patches_x * course->plan->patches_y);
    motion_smooth(course->step_x, course->step_y, model->frames, error, course->scratch);
    for (int j = 0; j < model->frames; j++) {
        course->frame_x[j] = (double)(course->step_x[j] - model->x[j]);
        course->frame_y[j] = (double)(course->step_y[j] - model->y[j]);
    }
}

static enum status fit_patches(struct motion_course *course, const struct motion_align_work *work, void *state,
                               struct motion_model *model, struct motion_report *report, struct err *err) {
    const struct motion_align_plan *plan = course->plan;
    size_t all = (size_t)(plan->patches_x * plan->patches_y) * (size_t)plan->groups;
    memset(course->patch_x, 0, all * sizeof *course->patch_x);
    memset(course->patch_y, 0, all * sizeof *course->patch_y);
    memset(course->frame_x, 0, (size_t)plan->groups * sizeof *course->frame_x);
    memset(course->frame_y, 0, (size_t)plan->groups * sizeof *course->frame_y);
    TRY(work->cut(state, model->x, model->y, err));
    double change = STEP_MAX;
    int used = 0;
    for (int i = 0;; i++) {
        float weight[MOTION_RINGS];
        bool annealed = i < ANNEALED; /* low frequencies first: patches may be off by more than a wavelength */
        for (int ring = 0; ring < MOTION_RINGS; ring++)
            weight[ring] = (float)(course->patch_scale * (double)course->weight[ring] *
                                   (annealed ? damped(plan, 2 * plan->task.align.bfactor / (i + 1), ring) : 1));
        TRY(work->slopes(state, MOTION_PATCHES, course->patch_x, course->patch_y, weight, course->slope,
                         course->curvature, err));
        used = drop_flat_patches(course);
        if (i == LOCAL_MAX || (change < LOCAL_END && !annealed)) break;
        struct motion_fit fit = {.plan = plan,
                                 .slope = course->slope,
                                 .curvature = course->curvature,
                                 .frames_too = plan->task.align.group == 1 && !annealed};
        motion_fit_step(&fit, course->scratch, model->coefficients, course->frame_x, course->frame_y);
        if (fit.frames_too) smooth_frames(course, model);
        change = place_patches(course, model);
    }
    if (plan->task.align.group == 1) centre(plan, course, model);
    report_patches(course, report);
    model->local = used * plan->groups > MOTION_COEFFICIENTS;
    if (!model->local) memset(model->coefficients, 0, sizeof model->coefficients);
    return STATUS_OK;
}

enum status motion_course_run(struct motion_course *course, const struct motion_align_work *work, void *state,
                              struct motion_model *model, struct motion_report *report, struct err *err) {
    const struct motion_align_plan *plan = course->plan;
    TRY(work->spectra(state, err));
    TRY(search(course, work, state, model, report, err));
    TRY(gather(course, work, state, model, err));
    TRY(refine(course, work, state, model, err));
    TRY(weigh_by_signal(course, work, state, model, err));
    TRY(refine(course, work, state, model, err));
    if (plan->patches_x == 0) return STATUS_OK;
    TRY(fit_patches(course, work, state, model, report, err));
    if (!model->local || plan->task.align.group > 1) return STATUS_OK;
    for (int j = 0; j < model->frames; j++) {
        model->x[j] += (float)course->frame_x[j];
        model->y[j] += (float)course->frame_y[j];
    }
    begin_at_zero(model);
    return STATUS_OK;
}
