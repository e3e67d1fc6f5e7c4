/* Local Radon transform: means along straight strips through each pixel. Grain averages out along strips, edges of
 * crystals do not, and round objects bend away. */
#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "kernels/drop_features/drop_features_private.h"

enum { ANGLES = 24, HALVES = 3 };
static const int HALF_LENGTHS[HALVES] = {5, 10, 20}; /* strips of 11, 21 and 41 px */

MULTIVERSION static void add_shifted(float *restrict sum, const float *restrict g, int from, int to, int shift) {
    for (int i = from; i < to; i++)
        sum[i] += g[i - shift] + g[i + shift];
}

/* best: the largest |mean| over the angles so far. */
MULTIVERSION static void keep_best(float *restrict best, const float *restrict sum, int from, int to, float scale) {
    for (int i = from; i < to; i++) {
        float mean = fabsf(sum[i]) * scale;
        best[i] = mean > best[i] ? mean : best[i];
    }
}

static float *strip_features(struct drop_features *plan, const float *best, float *out) {
    double top = 0;
    int above = 0, highest = plan->count / 1000 + 1;
    drop_gather(plan, best);
    drop_sort(plan);
    struct drop_moments m = drop_moments_of(plan->values, plan->count);
    float median = drop_quantile(plan, 50);
    for (int i = 0; i < plan->count; i++)
        above += plan->values[i] > 3 * median;
    for (int i = 0; i < highest; i++)
        top += (double)plan->sorted[plan->count - 1 - i] / highest;
    *out++ = (float)m.mean;
    *out++ = (float)m.deviation;
    *out++ = (float)m.skew;
    *out++ = median;
    *out++ = drop_quantile(plan, 90);
    *out++ = drop_quantile(plan, 99);
    *out++ = (float)top;
    *out++ = median > 0 ? drop_quantile(plan, 99) / median : 0;
    *out++ = median > 0 ? (float)top / median : 0;
    *out++ = (float)above / (float)plan->count;
    return out;
}

void drop_strips(struct drop_features *plan, float *out) {
    int side = plan->side, reach = HALF_LENGTHS[HALVES - 1];
    float *g = plan->plane[0], *wide = plan->plane[1], *sum = plan->plane[2];
    drop_blur(plan, plan->grey, g, plan->plane[7], 0.7F);
    drop_blur(plan, plan->grey, wide, plan->plane[7], 8);
    for (int i = 0; i < side * side; i++)
        g[i] -= wide[i];
    /* Pixels beyond the circle, above all the rim of the well, do not belong to the drop. */
    for (int i = 0; i < side * side; i++)
        if (!plan->is_inside[i]) g[i] = 0;
    for (int h = 0; h < HALVES; h++)
        memset(plan->plane[3 + h], 0, (size_t)side * (size_t)side * sizeof(float));
    /* From the first to the last pixel of the circle, which lie DROP_MARGIN rows inside the patch: longer strips are
     * cut at its edge. */
    int from = plan->inside[0], to = plan->inside[plan->count - 1] + 1;
    for (int a = 0; a < ANGLES; a++) {
        double c = cos(M_PI * a / ANGLES), s = sin(M_PI * a / ANGLES);
        memcpy(sum, g, (size_t)side * (size_t)side * sizeof *sum);
        for (int t = 1, h = 0; t <= reach; t++) {
            int shift = (int)lrint(t * s) * side + (int)lrint(t * c), size = side * side;
            int away = shift < 0 ? -shift : shift;
            add_shifted(sum, g, from < away ? away : from, to + away > size ? size - away : to, shift);
            if (t == HALF_LENGTHS[h]) {
                keep_best(plan->plane[3 + h], sum, from, to, 1 / (float)(2 * t + 1));
                h++;
            }
        }
    }
    for (int h = 0; h < HALVES; h++)
        out = strip_features(plan, plan->plane[3 + h], out);
}
