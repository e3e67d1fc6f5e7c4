/* Measures components and holes of what stands out from its surroundings. */
#include <math.h>
#include <string.h>

#include "kernels/drop_features/drop_features_private.h"
#include "kernels/quantile/quantile.h"

enum { LEAST_AREA = 4, LEAST_ROUND = 20, LEAST_HOLE_ROUND = 12, LARGE_AREA = 100, OTSU_BINS = 256 };
static const float NARROW = 1, WIDE = 10, DEVIATIONS = 3;

/* Otsu 1979: the threshold between two classes with the largest variance between them. values: sorted; ascending. */
static float otsu(const float *sorted, int count) {
    float low = sorted[0], high = sorted[count - 1];
    double bins[OTSU_BINS] = {0}, total = 0, sum = 0, below = 0, below_sum = 0, best = -1;
    int chosen = 0;
    if (!(high > low)) return high;
    for (int i = 0; i < count; i++) {
        int bin = (int)(OTSU_BINS * ((sorted[i] - low) / (high - low)));
        bins[bin < OTSU_BINS ? bin : OTSU_BINS - 1]++;
    }
    for (int i = 0; i < OTSU_BINS; i++) {
        total += bins[i];
        sum += i * bins[i];
    }
    for (int i = 0; i < OTSU_BINS - 1; i++) {
        below += bins[i];
        below_sum += i * bins[i];
        if (below == 0 || below == total) continue;
        double apart = below_sum / below - (sum - below_sum) / (total - below);
        double between = below * (total - below) * apart * apart;
        if (between > best) {
            best = between;
            chosen = i;
        }
    }
    return low + (high - low) * (float)(chosen + 1) / OTSU_BINS;
}

struct shape {
    int area, x0, x1, y0, y1, sides; /* sides: of pixels, to what is not of it */
    double eccentricity, slimness;   /* slimness: width over length */
};

/* Marks the pixels labelled `of` that are connected with the seed. eight: by eight neighbours, otherwise by four. */
static int flood(struct drop_features *plan, int seed, int of, int mark, bool eight) {
    const int side = plan->side, steps[8] = {-1, 1, -side, side, -side - 1, -side + 1, side - 1, side + 1};
    int *queue = plan->queue, count = 1;
    queue[0] = seed;
    plan->label[seed] = mark;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < (eight ? 8 : 4); k++) {
            int next = queue[i] + steps[k];
            if (plan->label[next] != of) continue;
            plan->label[next] = mark;
            queue[count++] = next;
        }
    return count;
}

static struct shape measure(const struct drop_features *plan, int count, int mark) {
    int side = plan->side;
    struct shape s = {.area = count, .x0 = side, .y0 = side};
    double x = 0, y = 0, xx = 0, xy = 0, yy = 0;
    for (int i = 0; i < count; i++) {
        int at = plan->queue[i], px = at % side, py = at / side;
        x += px;
        y += py;
        xx += (double)px * px;
        xy += (double)px * py;
        yy += (double)py * py;
        s.x0 = px < s.x0 ? px : s.x0;
        s.x1 = px > s.x1 ? px : s.x1;
        s.y0 = py < s.y0 ? py : s.y0;
        s.y1 = py > s.y1 ? py : s.y1;
        s.sides += (plan->label[at - 1] != mark) + (plan->label[at + 1] != mark) + (plan->label[at - side] != mark) +
                   (plan->label[at + side] != mark);
    }
    /* A pixel is a square: 1/12 along either side. */
    xx = xx / count - x / count * (x / count) + 1.0 / 12;
    yy = yy / count - y / count * (y / count) + 1.0 / 12;
    xy = xy / count - x / count * (y / count);
    double half = (xx + yy) / 2, root = sqrt((xx - yy) * (xx - yy) / 4 + xy * xy);
    double ratio = fmax(half - root, 0) / (half + root);
    s.eccentricity = sqrt(1 - ratio);
    s.slimness = sqrt(ratio);
    return s;
}

static double circularity(double area, int sides) {
    double perimeter = sides * M_PI / 4;
    return 4 * M_PI * area / (perimeter * perimeter);
}

struct topology {
    int area, components, holes, largest, large, slim, round_count, round_hole_count;
    double sum, squares, eccentricity, circularity, extent, hole_area, hole_circularity;
};

enum { BACKGROUND = 0, FOREGROUND = -1, OUTSIDE = -2, SEEN_HOLE = -3, FIRST_MARK = 1 };

static void count_components(struct drop_features *plan, struct topology *t) {
    for (int i = 0, mark = FIRST_MARK; i < plan->count; i++) {
        if (plan->label[plan->inside[i]] != FOREGROUND) continue;
        int count = flood(plan, plan->inside[i], FOREGROUND, mark, true);
        struct shape s = measure(plan, count, mark++);
        t->area += count;
        if (count < LEAST_AREA) continue;
        t->components++;
        t->largest = count > t->largest ? count : t->largest;
        t->large += count >= LARGE_AREA;
        t->sum += count;
        t->squares += (double)count * count;
        t->eccentricity += count * s.eccentricity;
        t->slim += s.slimness < 0.25;
        t->extent += (double)count / ((double)(s.x1 - s.x0 + 1) * (s.y1 - s.y0 + 1));
        if (count < LEAST_ROUND) continue;
        t->round_count++;
        t->circularity += fmin(circularity(count, s.sides), 1);
    }
}

/* Counts holes: background that is not connected with the background beyond the circle. The ring around the circle
 * belongs to the latter. */
static void count_holes(struct drop_features *plan, struct topology *t) {
    int middle = plan->side / 2;
    flood(plan, (middle - plan->radius - 2) * plan->side + middle, BACKGROUND, OUTSIDE, false);
    for (int i = 0; i < plan->count; i++) {
        if (plan->label[plan->inside[i]] != BACKGROUND) continue;
        int count = flood(plan, plan->inside[i], BACKGROUND, SEEN_HOLE, false);
        struct shape s = measure(plan, count, SEEN_HOLE);
        t->holes++;
        t->hole_area += count;
        if (count < LEAST_HOLE_ROUND) continue;
        t->round_hole_count++;
        t->hole_circularity += fmin(circularity(count, s.sides), 1);
    }
}

/* The mask is in plan->label: FOREGROUND in the circle, else BACKGROUND; OUTSIDE at the patch's edge, which no flood
 * passes. */
static float *mask_features(struct drop_features *plan, float *out) {
    struct topology t = {.area = 0};
    int side = plan->side;
    double square = (double)plan->radius * plan->radius;
    for (int i = 0; i < side; i++)
        plan->label[i] = plan->label[(side - 1) * side + i] = OUTSIDE;
    for (int i = 0; i < side; i++)
        plan->label[i * side] = plan->label[i * side + side - 1] = OUTSIDE;
    count_holes(plan, &t);
    count_components(plan, &t);
    double n = t.components > 0 ? t.components : 1, mean = t.sum / n;
    double variance = t.squares / n - mean * mean;
    *out++ = (float)t.area / (float)plan->count;
    *out++ = (float)t.components;
    *out++ = (float)t.holes;
    *out++ = (float)(t.components - t.holes);
    *out++ = (float)t.largest / (float)plan->count;
    *out++ = (float)(mean / square);
    *out++ = (float)(sqrt(fmax(variance, 0)) / square);
    *out++ = t.sum > 0 ? (float)(t.eccentricity / t.sum) : 0;
    *out++ = t.round_count > 0 ? (float)(t.circularity / t.round_count) : 0;
    *out++ = (float)(t.extent / n);
    *out++ = t.area > 0 ? (float)(t.hole_area / (t.area + t.hole_area)) : 0;
    *out++ = t.holes > 0 ? (float)(t.hole_area / t.holes / square) : 0;
    *out++ = t.round_hole_count > 0 ? (float)(t.hole_circularity / t.round_hole_count) : 0;
    *out++ = (float)(t.slim / n);
    *out++ = (float)t.large;
    return out;
}

/* sign 1: above the threshold, −1: below. */
static float *of_plane(struct drop_features *plan, const float *plane, float threshold, float sign, float *out) {
    memset(plan->label, 0, (size_t)plan->side * (size_t)plan->side * sizeof *plan->label);
    for (int i = 0; i < plan->count; i++)
        if (sign * plane[plan->inside[i]] > sign * threshold) plan->label[plan->inside[i]] = FOREGROUND;
    return mask_features(plan, out);
}

void drop_topology(struct drop_features *plan, float *out) {
    float *d = plan->plane[0], *wide = plan->plane[1], *m = plan->plane[4], median, deviation;
    drop_blur(plan, plan->grey, d, plan->plane[7], NARROW);
    drop_blur(plan, plan->grey, wide, plan->plane[7], WIDE);
    for (int i = 0; i < plan->side * plan->side; i++)
        d[i] -= wide[i];
    drop_gather(plan, d);
    quantile_robust(plan->values, (size_t)plan->count, &median, &deviation);
    out = of_plane(plan, d, median - DEVIATIONS * deviation, -1, out);
    out = of_plane(plan, d, median + DEVIATIONS * deviation, 1, out);
    drop_blur(plan, plan->grey, wide, plan->plane[7], 2);
    drop_sobel(plan, wide, plan->plane[2], plan->plane[3]);
    for (int i = 0; i < plan->side * plan->side; i++)
        m[i] = sqrtf(plan->plane[2][i] * plan->plane[2][i] + plan->plane[3][i] * plan->plane[3][i]);
    drop_gather(plan, m);
    drop_sort(plan);
    of_plane(plan, m, otsu(plan->sorted, plan->count), 1, out);
}
