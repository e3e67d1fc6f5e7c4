/* Finds evidence of straight lines: votes of edges for lines, and regions of edges that share a direction. */
#include <math.h>
#include <string.h>

#include "kernels/drop_features/drop_features_private.h"

enum { ANGLES = 36, LONGEST = 24, LEAST_PIXELS = 6, DIRECTIONS = 18, SIZES = 5 };
static const float SAME_DIRECTION = 0.9659258F; /* cos 15° */

struct edges {
    const float *gx, *gy;
    int count;
};

/* Label 0: an edge that belongs to no segment yet; −1: no edge. */
static struct edges find_edges(struct drop_features *plan) {
    float *smooth = plan->plane[0], *gx = plan->plane[2], *gy = plan->plane[3], *m = plan->plane[4];
    drop_blur(plan, plan->grey, smooth, plan->plane[7], 1);
    drop_sobel(plan, smooth, gx, gy);
    for (int i = 0; i < plan->side * plan->side; i++) {
        m[i] = sqrtf(gx[i] * gx[i] + gy[i] * gy[i]);
        plan->label[i] = -1;
    }
    drop_gather(plan, m);
    drop_sort(plan);
    /* If there is little to see, the tenth reaches far down the flanks of edges. */
    float least = fmaxf(drop_quantile(plan, 90), drop_quantile(plan, 99) / 3);
    struct edges edges = {gx, gy, 0};
    for (int i = 0; i < plan->count; i++) {
        int at = plan->inside[i];
        if (m[at] < least || !(m[at] > 0)) continue;
        plan->label[at] = 0;
        edges.count++;
    }
    return edges;
}

static void vote(struct drop_features *plan, const struct edges *edges) {
    int middle = plan->side / 2, distances = plan->side + 2;
    float c[ANGLES], s[ANGLES];
    for (int a = 0; a < ANGLES; a++) {
        c[a] = cosf((float)M_PI * (float)a / ANGLES);
        s[a] = sinf((float)M_PI * (float)a / ANGLES);
    }
    memset(plan->votes, 0, (size_t)ANGLES * (size_t)distances * sizeof *plan->votes);
    for (int i = 0; i < plan->count; i++) {
        int at = plan->inside[i];
        if (plan->label[at] != 0) continue;
        float dx = (float)(at % plan->side - middle), dy = (float)(at / plan->side - middle);
        int nearest = (int)lrintf(atan2f(edges->gy[at], edges->gx[at]) / (float)M_PI * ANGLES) + 2 * ANGLES;
        for (int k = nearest - 1; k <= nearest + 1; k++) {
            int a = k % ANGLES;
            int distance = (int)lrintf(dx * c[a] + dy * s[a]) + plan->radius + 1;
            plan->votes[a * distances + distance]++;
        }
    }
}

static float *radon_features(struct drop_features *plan, const struct edges *edges, float *out) {
    enum { TOP = 10 };
    static const int least[] = {8, 16, 32, 64};
    int distances = plan->side + 2, used = 2 * plan->radius + 3, top[TOP] = {0}, votes = 3 * edges->count;
    double shares[4] = {0}, cells = (double)ANGLES * used, squares = 0, of_angle_max = 0, of_angle_squares = 0;
    double mean = votes / cells, fourth = 0, top_sum = 0;
    for (int a = 0; a < ANGLES; a++) {
        double of_angle = 0;
        for (int d = 0; d < used; d++) {
            int v = plan->votes[a * distances + d];
            double deviation = v - mean;
            squares += deviation * deviation;
            fourth += deviation * deviation * deviation * deviation;
            of_angle += v;
            for (int k = 0; k < 4; k++)
                if (v >= least[k]) shares[k] += v;
            if (v <= top[TOP - 1]) continue;
            int place = TOP - 1;
            for (; place > 0 && top[place - 1] < v; place--)
                top[place] = top[place - 1];
            top[place] = v;
        }
        of_angle_max = fmax(of_angle_max, of_angle);
        of_angle_squares += (of_angle - votes / (double)ANGLES) * (of_angle - votes / (double)ANGLES);
    }
    for (int k = 0; k < TOP; k++)
        top_sum += top[k];
    double variance = squares / cells;
    *out++ = (float)top[0] / (float)plan->radius;
    *out++ = (float)(top_sum / TOP / plan->radius);
    *out++ = votes > 0 ? (float)(sqrt(variance) / mean) : 0;
    *out++ = variance > 0 ? (float)(fourth / cells / (variance * variance) - 3) : 0;
    for (int k = 0; k < 4; k++)
        *out++ = votes > 0 ? (float)(shares[k] / votes) : 0;
    *out++ = votes > 0 ? (float)(sqrt(of_angle_squares / ANGLES) * ANGLES / votes) : 0;
    *out++ = votes > 0 ? (float)(of_angle_max / votes) : 0;
    return out;
}

struct segment {
    int pixels;
    float x, y, angle, length, width, bend; /* angle of the line, 0 to π; bend of the middle, px */
};

/* Collects the pixels that are connected with this one and point the same way; they are in queue[0 … count). */
static int grow(struct drop_features *plan, const struct edges *edges, int seed, int mark) {
    static const int around[8][2] = {{-1, -1}, {0, -1}, {1, -1}, {-1, 0}, {1, 0}, {-1, 1}, {0, 1}, {1, 1}};
    int *queue = plan->queue, count = 1;
    float sum_x = 0, sum_y = 0;
    queue[0] = seed;
    plan->label[seed] = mark;
    for (int i = 0; i < count; i++) {
        float gx = edges->gx[queue[i]], gy = edges->gy[queue[i]], m = sqrtf(gx * gx + gy * gy);
        sum_x += gx / m;
        sum_y += gy / m;
        for (int k = 0; k < 8; k++) {
            /* The circle is DROP_MARGIN away from the patch's edge. */
            int next = queue[i] + around[k][1] * plan->side + around[k][0];
            if (plan->label[next] != 0) continue;
            float nx = edges->gx[next], ny = edges->gy[next];
            float least = SAME_DIRECTION * sqrtf((nx * nx + ny * ny) * (sum_x * sum_x + sum_y * sum_y));
            if (nx * sum_x + ny * sum_y < least) continue;
            plan->label[next] = mark;
            queue[count++] = next;
        }
    }
    return count;
}

static struct segment measure(const struct drop_features *plan, int count) {
    struct segment s = {.pixels = count};
    double x = 0, y = 0, xx = 0, xy = 0, yy = 0, inner = 0, outer = 0;
    int inner_count = 0, outer_count = 0;
    for (int i = 0; i < count; i++) {
        x += plan->queue[i] % plan->side;
        y += (double)(plan->queue[i] / plan->side);
    }
    x /= count;
    y /= count;
    for (int i = 0; i < count; i++) {
        double dx = plan->queue[i] % plan->side - x, dy = (double)(plan->queue[i] / plan->side) - y;
        xx += dx * dx;
        xy += dx * dy;
        yy += dy * dy;
    }
    double half = (xx + yy) / 2, root = sqrt((xx - yy) * (xx - yy) / 4 + xy * xy);
    double angle = 0.5 * atan2(2 * xy, xx - yy), c = cos(angle), sine = sin(angle);
    s.x = (float)x;
    s.y = (float)y;
    s.angle = (float)(angle < 0 ? angle + M_PI : angle);
    s.length = (float)sqrt(12 * (half + root) / count);
    s.width = (float)sqrt(12 * fmax(half - root, 0) / count);
    for (int i = 0; i < count; i++) {
        double dx = plan->queue[i] % plan->side - x, dy = (double)(plan->queue[i] / plan->side) - y;
        double along = fabs(dx * c + dy * sine), across = dy * c - dx * sine;
        if (along < (double)s.length / 6) {
            inner += across;
            inner_count++;
        } else if (along > (double)s.length / 3) {
            outer += across;
            outer_count++;
        }
    }
    if (inner_count > 0 && outer_count > 0) s.bend = (float)fabs(inner / inner_count - outer / outer_count);
    return s;
}

struct segments {
    struct segment longest[LONGEST]; /* straight ones, the longest first */
    int kept, count, bent;           /* count: all of LEAST_PIXELS and more */
    int of_size[SIZES], of_direction[DIRECTIONS], straight_count;
    double pixels, straight_pixels, width, slimness, bend, sum, squares, cubes; /* sums; the last three of lengths */
};

static void note(struct segments *all, const struct segment *s) {
    static const float sizes[SIZES] = {8, 12, 18, 26, 40};
    double length = (double)s->length;
    all->count++;
    all->pixels += s->pixels;
    all->sum += length;
    all->squares += length * length;
    all->cubes += length * length * length;
    all->bend += (double)s->bend;
    all->bent += s->bend > 1;
    all->slimness += (double)(s->width / fmaxf(s->length, 1));
    if (s->width > 1.5F + s->length / 16) return;
    for (int k = 0; k < SIZES; k++)
        all->of_size[k] += s->length >= sizes[k];
    if (s->length < sizes[1]) return;
    all->straight_count++;
    all->straight_pixels += s->pixels;
    all->width += (double)s->width;
    all->of_direction[(int)(s->angle / (float)M_PI * DIRECTIONS) % DIRECTIONS]++;
    int place = all->kept < LONGEST ? all->kept++ : LONGEST - 1;
    if (place == LONGEST - 1 && all->kept == LONGEST && all->longest[place].length >= s->length) return;
    for (; place > 0 && all->longest[place - 1].length < s->length; place--)
        all->longest[place] = all->longest[place - 1];
    all->longest[place] = *s;
}

static bool meet(const struct segment *a, const struct segment *b) {
    for (int i = -1; i <= 1; i += 2)
        for (int k = -1; k <= 1; k += 2) {
            float u = 0.5F * (float)i * a->length, v = 0.5F * (float)k * b->length;
            float dx = a->x + u * cosf(a->angle) - (b->x + v * cosf(b->angle));
            float dy = a->y + u * sinf(a->angle) - (b->y + v * sinf(b->angle));
            if (dx * dx + dy * dy <= 16) return true;
        }
    return false;
}

static float *pair_features(const struct segments *all, float *out) {
    int pairs = 0, parallel = 0, meeting = 0, corners = 0;
    for (int i = 0; i < all->kept; i++)
        for (int k = i + 1; k < all->kept; k++) {
            float d = fabsf(all->longest[i].angle - all->longest[k].angle);
            d = fminf(d, (float)M_PI - d) * (float)(180 / M_PI);
            bool together = meet(&all->longest[i], &all->longest[k]);
            pairs++;
            parallel += d <= 4;
            meeting += together;
            corners += together && d >= 30;
        }
    float scale = pairs > 0 ? 1 / (float)pairs : 0;
    *out++ = (float)parallel * scale;
    *out++ = (float)meeting * scale;
    *out++ = (float)corners * scale;
    return out;
}

static float *segment_features(const struct segments *all, int edges, int radius, float *out) {
    double top = 0, entropy = 0, n = all->count > 0 ? all->count : 1, straight = all->straight_count;
    double mean = all->sum / n, variance = all->squares / n - mean * mean;
    for (int k = 0; k < SIZES; k++)
        *out++ = (float)all->of_size[k];
    for (int k = 0; k < 5 && k < all->kept; k++)
        top += (double)all->longest[k].length / 5;
    *out++ = all->kept > 0 ? all->longest[0].length / (float)radius : 0;
    *out++ = (float)(top / radius);
    *out++ = (float)mean;
    *out++ = edges > 0 ? (float)(all->pixels / edges) : 0;
    *out++ = edges > 0 ? (float)(all->straight_pixels / edges) : 0;
    *out++ = straight > 0 ? (float)(all->width / straight) : 0;
    *out++ = (float)(all->slimness / n);
    out = pair_features(all, out);
    for (int k = 0; k < DIRECTIONS; k++)
        if (all->of_direction[k] > 0) entropy -= all->of_direction[k] / straight * log(all->of_direction[k] / straight);
    double third = all->cubes / n - 3 * mean * all->squares / n + 2 * mean * mean * mean;
    *out++ = (float)(entropy / log(DIRECTIONS));
    *out++ = (float)(all->sum / radius);
    *out++ = variance > 1e-9 ? (float)(third / (variance * sqrt(variance))) : 0;
    *out++ = (float)(all->bend / n);
    *out++ = (float)(all->bent / n);
    return out;
}

void drop_lines(struct drop_features *plan, float *out) {
    struct edges edges = find_edges(plan);
    struct segments all = {.kept = 0};
    vote(plan, &edges);
    out = radon_features(plan, &edges, out);
    for (int i = 0, mark = 1; i < plan->count; i++) {
        if (plan->label[plan->inside[i]] != 0) continue;
        int count = grow(plan, &edges, plan->inside[i], mark++);
        if (count < LEAST_PIXELS) continue;
        struct segment segment = measure(plan, count);
        note(&all, &segment);
    }
    segment_features(&all, edges.count, plan->radius, out);
}
