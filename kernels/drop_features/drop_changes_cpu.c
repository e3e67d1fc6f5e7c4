/* Measures how grey levels change: Sobel, structure tensor, Laplacian, Hessian. */
#include <math.h>
#include <string.h>

#include "kernels/drop_features/drop_features_private.h"

enum { DIRECTIONS = 18 };
static const float TENSOR_SIGMA = 3;

static double direction_entropy(const struct drop_features *plan, const float *gx, const float *gy) {
    double bins[DIRECTIONS] = {0}, total = 0, entropy = 0;
    for (int i = 0; i < plan->count; i++) {
        int at = plan->inside[i];
        double m = sqrt((double)gx[at] * (double)gx[at] + (double)gy[at] * (double)gy[at]);
        double angle = atan2((double)gy[at], (double)gx[at]);
        int bin = (int)floor((angle + M_PI) / M_PI * DIRECTIONS);
        bins[((bin % DIRECTIONS) + DIRECTIONS) % DIRECTIONS] += m;
        total += m;
    }
    for (int i = 0; i < DIRECTIONS && total > 0; i++)
        if (bins[i] > 0) entropy -= bins[i] / total * log(bins[i] / total);
    return entropy / log(DIRECTIONS);
}

static float *changes_of_sobel(struct drop_features *plan, const float *g, float *out) {
    float *gx = plan->plane[2], *gy = plan->plane[3], *m = plan->plane[4];
    drop_sobel(plan, g, gx, gy);
    for (int i = 0; i < plan->side * plan->side; i++)
        m[i] = sqrtf(0.5F * (gx[i] * gx[i] + gy[i] * gy[i]));
    drop_gather(plan, m);
    drop_sort(plan);
    struct drop_moments moments = drop_moments_of(plan->values, plan->count);
    float median = drop_quantile(plan, 50);
    int above = 0;
    for (int i = 0; i < plan->count; i++)
        above += plan->values[i] > 2 * median;
    *out++ = (float)moments.mean;
    *out++ = (float)moments.deviation;
    *out++ = (float)moments.skew;
    *out++ = median;
    *out++ = drop_quantile(plan, 90);
    *out++ = drop_quantile(plan, 99);
    *out++ = (float)above / (float)plan->count;
    return out;
}

/* Runs after changes_of_sobel, which leaves the derivatives in planes 2 and 3. */
static float *changes_of_tensor(struct drop_features *plan, float *out) {
    const float *gx = plan->plane[2], *gy = plan->plane[3];
    float *xx = plan->plane[4], *xy = plan->plane[5], *yy = plan->plane[6];
    for (int i = 0; i < plan->side * plan->side; i++) {
        xx[i] = gx[i] * gx[i];
        xy[i] = gx[i] * gy[i];
        yy[i] = gy[i] * gy[i];
    }
    drop_blur(plan, xx, xx, plan->plane[7], TENSOR_SIGMA);
    drop_blur(plan, xy, xy, plan->plane[7], TENSOR_SIGMA);
    drop_blur(plan, yy, yy, plan->plane[7], TENSOR_SIGMA);
    for (int i = 0; i < plan->count; i++) {
        int at = plan->inside[i];
        float d = xx[at] - yy[at], sum = xx[at] + yy[at];
        plan->values[i] = sum > 0 ? sqrtf(d * d + 4 * xy[at] * xy[at]) / sum : 0;
    }
    drop_sort(plan);
    struct drop_moments moments = drop_moments_of(plan->values, plan->count);
    *out++ = (float)moments.mean;
    *out++ = (float)moments.deviation;
    *out++ = drop_quantile(plan, 90);
    *out++ = (float)direction_entropy(plan, gx, gy);
    return out;
}

static float *changes_of_laplacian(struct drop_features *plan, const float *g, float *out) {
    int side = plan->side, changes = 0;
    float *l = plan->plane[4];
    double sum = 0;
    memset(l, 0, (size_t)side * (size_t)side * sizeof *l);
    for (int y = 1; y < side - 1; y++)
        for (int x = 1; x < side - 1; x++) {
            const float *p = g + y * side + x;
            l[y * side + x] = 4 * p[0] - p[-1] - p[1] - p[-side] - p[side];
        }
    drop_gather(plan, l);
    drop_sort(plan);
    struct drop_moments moments = drop_moments_of(plan->values, plan->count);
    for (int i = 0; i < plan->count; i++) {
        int at = plan->inside[i];
        sum += fabs((double)l[at]);
        changes += l[at] * l[at + 1] < 0 || l[at] * l[at + side] < 0;
    }
    *out++ = (float)(sum / plan->count);
    *out++ = (float)moments.deviation;
    *out++ = (float)moments.skew;
    *out++ = (float)moments.kurtosis;
    *out++ = drop_quantile(plan, 1);
    *out++ = drop_quantile(plan, 99);
    *out++ = (float)changes / (float)plan->count;
    return out;
}

static float *changes_of_hessian(struct drop_features *plan, const float *g, float *out) {
    int side = plan->side;
    double larger = 0, smaller = 0;
    for (int i = 0; i < plan->count; i++) {
        const float *p = g + plan->inside[i];
        float xx = p[-1] - 2 * p[0] + p[1], yy = p[-side] - 2 * p[0] + p[side];
        float xy = 0.25F * (p[-side - 1] - p[-side + 1] - p[side - 1] + p[side + 1]);
        float half = 0.5F * (xx + yy), root = sqrtf(0.25F * (xx - yy) * (xx - yy) + xy * xy);
        float a = half >= 0 ? half + root : half - root, b = half >= 0 ? half - root : half + root;
        larger += fabs((double)a);
        smaller += fabs((double)b);
        plan->values[i] = a;
    }
    *out++ = (float)(larger / plan->count);
    *out++ = (float)(smaller / plan->count);
    *out++ = larger > 0 ? (float)(smaller / larger) : 0;
    *out++ = (float)drop_moments_of(plan->values, plan->count).skew;
    return out;
}

void drop_changes(struct drop_features *plan, float *out) {
    static const float sigmas[] = {0, 1, 2, 4}, wide[] = {1, 2, 4, 8, 16};
    float *smooth = plan->plane[0];
    for (int i = 0; i < 4; i++) {
        const float *g = plan->grey;
        if (sigmas[i] > 0) {
            drop_blur(plan, plan->grey, smooth, plan->plane[7], sigmas[i]);
            g = smooth;
        }
        out = changes_of_sobel(plan, g, out);
        out = changes_of_tensor(plan, out);
        out = changes_of_laplacian(plan, g, out);
    }
    for (int i = 2; i < 4; i++) {
        drop_blur(plan, plan->grey, smooth, plan->plane[7], sigmas[i]);
        out = changes_of_hessian(plan, smooth, out);
    }
    for (int i = 0; i < 5; i++) {
        drop_blur(plan, plan->grey, smooth, plan->plane[7], wide[i]);
        drop_gather(plan, smooth);
        struct drop_moments moments = drop_moments_of(plan->values, plan->count);
        *out++ = (float)moments.deviation;
        *out++ = (float)moments.skew;
    }
}
