/* The geometry of an alignment: binning, window, search window, patches, groups. */
#include <math.h>

#include "common/fft.h"
#include "kernels/motion/motion_align_private.h"

/* The window keeps at least these px of a side: small movies are quick, and need all their signal. */
enum { WINDOW_MIN = 256, SEARCH_MAX = 640 };

/* Frequencies beyond those of the B-factor have weak signal, but their phases tell a shift more sharply. */
static const double WIDER = 1.4;

/* Returns the largest even size ≤ n whose only prime factors are 2, 3, 5 and 7. */
static int good_below(int n) {
    int size = n & ~1;
    while (fft_good_size(size) != size)
        size -= 2;
    return size;
}

/* Returns an even size near `wanted`, at most `most`. */
static int good_near(double wanted, int most) {
    int size = fft_good_size((int)ceil(wanted));
    return size <= most ? size : most;
}

/* Returns the share of a side's frequencies that the B-factor leaves above 1 %. */
static double share_kept(double bfactor, int side) {
    double share = sqrt(log(1e8) / (2 * bfactor)), least = (double)WINDOW_MIN / side;
    share = share > least ? share : least;
    return share < 1 ? share : 1;
}

static void plan_patches(struct motion_align_plan *plan) {
    const struct motion_align_options *align = &plan->task.align;
    int groups = plan->task.frames / align->group;
    if (align->patches_x <= 2 || align->patches_y <= 2 || groups < 3) return;
    plan->patches_x = align->patches_x;
    plan->patches_y = align->patches_y;
    plan->groups = groups;
    plan->patch_x = good_near(1.1 * plan->window_x / align->patches_x, plan->window_x);
    plan->patch_y = good_near(1.1 * plan->window_y / align->patches_y, plan->window_y);
}

void motion_align_plan_make(const struct motion_task *task, struct motion_align_plan *ret_plan) {
    struct motion_align_plan plan = {.task = *task};
    double share_x = share_kept(task->align.bfactor, task->nx), share_y = share_kept(task->align.bfactor, task->ny);
    /* A sum over 2 × 2 px keeps 86 % of the amplitude at the edge of a window of 0.3 of the frequencies. */
    plan.bin = (int)(1 / (1.6 * (share_x > share_y ? share_x : share_y)));
    if (plan.bin < 1) plan.bin = 1;
    plan.binned_x = good_below(task->nx / plan.bin);
    plan.binned_y = good_below(task->ny / plan.bin);
    plan.first_x = (task->nx - plan.binned_x * plan.bin) / 2;
    plan.first_y = (task->ny - plan.binned_y * plan.bin) / 2;
    plan.window_x = good_near(WIDER * share_x * plan.binned_x * plan.bin, plan.binned_x);
    plan.window_y = good_near(WIDER * share_y * plan.binned_y * plan.bin, plan.binned_y);
    plan.search_x = plan.window_x > SEARCH_MAX ? fft_good_size(plan.window_x / 2) : plan.window_x;
    plan.search_y = plan.window_y > SEARCH_MAX ? fft_good_size(plan.window_y / 2) : plan.window_y;
    plan.pitch_x = (double)plan.binned_x * plan.bin / plan.window_x;
    plan.pitch_y = (double)plan.binned_y * plan.bin / plan.window_y;
    plan.radius = 0.5 / (plan.pitch_x > plan.pitch_y ? plan.pitch_x : plan.pitch_y);
    plan_patches(&plan);
    *ret_plan = plan;
}

int motion_align_patch_start(int window, int patches, int patch, int index) {
    int start = (int)lround((index + 0.5) * window / patches - 0.5 * patch);
    if (start < 0) return 0;
    return start + patch > window ? window - patch : start;
}

double motion_align_taper(int side, int index) {
    double from_edge = index + 0.5 < 0.5 * side ? index + 0.5 : side - index - 0.5, width = side / 12.0;
    if (from_edge >= width) return 1;
    double s = sin(0.5 * M_PI * from_edge / width);
    return s * s;
}

int motion_group_start(int frames, int groups, int group) {
    int size = frames / groups, first_larger = groups - frames % groups;
    return group * size + (group > first_larger ? group - first_larger : 0);
}

double motion_group_middle(int frames, int groups, int group) {
    return 0.5 * (motion_group_start(frames, groups, group) + motion_group_start(frames, groups, group + 1) - 1);
}

int motion_align_ring(const struct motion_align_plan *plan, double fx, double fy) {
    return (int)(sqrt(fx * fx + fy * fy) / plan->radius * MOTION_RINGS);
}

int motion_align_range(const struct motion_align_plan *plan, double step, int side) {
    int range = (int)ceil(plan->task.align.search / step);
    return range < side / 2 - 1 ? range : side / 2 - 1;
}

double motion_align_parabola(double before, double middle, double after) {
    double bend = before + after - 2 * middle;
    if (!(bend < 0)) return 0;
    double off = -0.5 * (after - before) / bend;
    return off > 0.5 ? 0.5 : off < -0.5 ? -0.5 : off;
}
