#include "examples/drops/layers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

enum { BLUR_REACH_MAX = 96 };

static void blur_line(const float *in, float *out, int count, int stride, const float *weights, int reach) {
    for (int i = 0; i < count; i++) {
        float sum = 0;
        for (int k = -reach; k <= reach; k++) {
            int j = i + k < 0 ? 0 : i + k >= count ? count - 1 : i + k;
            sum += weights[k < 0 ? -k : k] * in[j * stride];
        }
        out[i * stride] = sum;
    }
}

void layer_blur(float *plane, float *scratch, int size, float sigma) {
    float weights[BLUR_REACH_MAX + 1], sum = 0;
    int reach = (int)ceilf(3 * sigma);
    if (reach > BLUR_REACH_MAX) reach = BLUR_REACH_MAX;
    for (int k = 0; k <= reach; k++) {
        weights[k] = expf(-0.5f * (float)(k * k) / (sigma * sigma));
        sum += k == 0 ? weights[k] : 2 * weights[k];
    }
    for (int k = 0; k <= reach; k++)
        weights[k] /= sum;
    for (int y = 0; y < size; y++)
        blur_line(plane + y * size, scratch + y * size, size, 1, weights, reach);
    for (int x = 0; x < size; x++)
        blur_line(scratch + x, plane + x, size, size, weights, reach);
}

void layer_noise(float *plane, int size, struct random *random) {
    for (int i = 0; i + 1 < size * size; i += 2)
        random_normal_pair(random, &plane[i], &plane[i + 1]);
    if (size * size % 2 != 0) plane[size * size - 1] = (float)random_normal(random);
}

/* Makes noise of one scale and brings it to variance 1. */
static void smooth_noise(const struct layer *layer, float *plane, float *scratch, struct random *random, float sigma) {
    int count = layer->size * layer->size;
    double sum = 0, squares = 0;
    layer_noise(plane, layer->size, random);
    layer_blur(plane, scratch, layer->size, sigma);
    for (int i = 0; i < count; i++) {
        sum += (double)plane[i];
        squares += (double)plane[i] * (double)plane[i];
    }
    float mean = (float)(sum / count), scale = (float)(1 / sqrt(squares / count - sum / count * (sum / count)));
    for (int i = 0; i < count; i++)
        plane[i] = (plane[i] - mean) * scale;
}

static float uniform(struct random *random, double low, double high) {
    return (float)random_uniform(random, low, high);
}

static float ramp(float value, float low, float high) {
    float t = (value - low) / (high - low);
    return t <= 0 ? 0 : t >= 1 ? 1 : t * t * (3 - 2 * t);
}

/* Draws a place inside the drop, uniform over its area up to `reach` of its radius. */
static void place(const struct layer *layer, struct random *random, float reach, float *ret_x, float *ret_y) {
    float r = layer->radius * reach * sqrtf(uniform(random, 0, 1)), angle = uniform(random, 0, 2 * M_PI);
    *ret_x = layer->x + r * cosf(angle);
    *ret_y = layer->y + r * sinf(angle);
}

struct box {
    int x0, x1, y0, y1; /* inclusive */
};

static struct box box_around(const struct layer *layer, float x, float y, float reach) {
    struct box box = {(int)floorf(x - reach), (int)ceilf(x + reach), (int)floorf(y - reach), (int)ceilf(y + reach)};
    int last = layer->size - 1;
    box.x0 = box.x0 < 0 ? 0 : box.x0;
    box.y0 = box.y0 < 0 ? 0 : box.y0;
    box.x1 = box.x1 > last ? last : box.x1;
    box.y1 = box.y1 > last ? last : box.y1;
    return box;
}

/* Adds fine grain, in clumps that cover a good part of the drop. */
void layer_grains(struct layer *layer, struct random *random, float amplitude) {
    int count = layer->size * layer->size;
    float *grain = layer->scratch[0], *where = layer->scratch[1];
    smooth_noise(layer, grain, layer->scratch[2], random, uniform(random, 0.8, 1.8));
    smooth_noise(layer, where, layer->scratch[2], random, uniform(random, 14, 40));
    float edge = uniform(random, -1.6, 0.1), skew = uniform(random, -0.3, 0.6), soft = uniform(random, 0.3, 1.2);
    for (int i = 0; i < count; i++) {
        float g = grain[i];
        g = g + skew * (1 - g * g) * 0.5f; /* darker grains than bright ones, or the other way round */
        layer->plane[i] += amplitude * 0.45f * g * ramp(where[i], edge - soft, edge + soft);
    }
}

enum { CORNERS_MAX = 8 };
static const float SEEN_SIZE = 14, SEEN_STRENGTH = 0.9f; /* px, from the middle to a face; of grain: 0.25 to 0.55 */

struct crystal {
    int corners;
    float normal[CORNERS_MAX][2], distance[CORNERS_MAX], shade[CORNERS_MAX];
    float bevel, line, body;
};

static struct crystal grow_crystal(struct random *random, float size) {
    static const int corner_choices[] = {4, 4, 4, 6, 6, 5, 3};
    struct crystal crystal = {.corners = corner_choices[random_next(random) % 7]};
    float turn = uniform(random, 0, 2 * M_PI);
    float slim = crystal.corners == 4 ? uniform(random, 0.12, 1) : uniform(random, 0.6, 1);
    for (int i = 0; i < crystal.corners; i++) {
        float angle = turn + 2 * (float)M_PI * (float)i / (float)crystal.corners + uniform(random, -0.06, 0.06);
        float along = fabsf(sinf(angle - turn));
        crystal.normal[i][0] = cosf(angle);
        crystal.normal[i][1] = sinf(angle);
        crystal.distance[i] = size * (slim + (1 - slim) * (1 - along)) * uniform(random, 0.85, 1.1);
        crystal.shade[i] = uniform(random, -0.8, 0.8);
    }
    crystal.bevel = uniform(random, 0.15, 0.5);
    crystal.line = uniform(random, 0.5, 1);
    crystal.body = uniform(random, -0.25, 0.25);
    return crystal;
}

/* Adds facets, each with a shade of its own, and dark lines where they meet and around them. */
static void draw_crystal(struct layer *layer, const struct crystal *crystal, float x0, float y0, float size,
                         float amplitude) {
    struct box box = box_around(layer, x0, y0, 2.2f * size + 3);
    for (int y = box.y0; y <= box.y1; y++)
        for (int x = box.x0; x <= box.x1; x++) {
            float dx = (float)x - x0, dy = (float)y - y0, nearest = 1e9f, second = 1e9f;
            int facet = 0;
            for (int i = 0; i < crystal->corners; i++) {
                float d = crystal->distance[i] - (dx * crystal->normal[i][0] + dy * crystal->normal[i][1]);
                if (d < nearest) {
                    second = nearest;
                    nearest = d;
                    facet = i;
                } else if (d < second) {
                    second = d;
                }
            }
            if (nearest < -2) continue;
            float inside = ramp(nearest, -0.7f, 0.7f), depth = crystal->bevel * size;
            float value = nearest < depth ? crystal->shade[facet] : crystal->body;
            value -= crystal->line * expf(-0.5f * nearest * nearest);
            if (nearest < depth) value -= 0.5f * crystal->line * expf(-0.5f * (second - nearest) * (second - nearest));
            value -= 0.4f * crystal->line * expf(-0.5f * (nearest - depth) * (nearest - depth));
            /* A crystal pushes aside, or hides, most of the other contents. */
            float *pixel = &layer->plane[y * layer->size + x];
            *pixel += inside * (amplitude * value - 0.75f * *pixel);
        }
}

/* A label is what a person has seen, so the first crystal is large and strong enough to be seen among other
 * contents. */
void layer_crystals(struct layer *layer, struct random *random, float amplitude) {
    int count = 2 + (int)(random_next(random) % 9);
    float typical = uniform(random, 9, 26);
    for (int i = 0; i < count; i++) {
        float x, y, size = typical * uniform(random, 0.6, 1.4);
        if (i == 0 && size < SEEN_SIZE) size = SEEN_SIZE;
        struct crystal crystal = grow_crystal(random, size);
        place(layer, random, 0.62f, &x, &y);
        float strength = amplitude * uniform(random, 0.7, 1.1);
        draw_crystal(layer, &crystal, x, y, size, i == 0 && strength < SEEN_STRENGTH ? SEEN_STRENGTH : strength);
    }
}

/* Adds a lens: dark rim, bright middle. */
static void draw_droplet(struct layer *layer, float x0, float y0, float r, float amplitude, float rim) {
    struct box box = box_around(layer, x0, y0, r + 4);
    for (int y = box.y0; y <= box.y1; y++)
        for (int x = box.x0; x <= box.x1; x++) {
            float d = hypotf((float)x - x0, (float)y - y0), t = d / r;
            float value = -expf(-0.5f * (d - r) * (d - r) / (rim * rim));
            if (t < 1) value += 0.6f * (1 - t * t);
            layer->plane[y * layer->size + x] += amplitude * value;
        }
}

void layer_droplets(struct layer *layer, struct random *random, float amplitude) {
    enum { MOST = 90 };
    float xs[MOST], ys[MOST], rs[MOST], typical = uniform(random, 4, 11), rim = uniform(random, 0.8, 1.8);
    int wanted = (int)(900 / (typical * typical)) + 6 + (int)(random_next(random) % 20), count = 0;
    wanted = wanted > MOST ? MOST : wanted;
    for (int i = 0; i < 6 * wanted && count < wanted; i++) {
        bool free = true;
        rs[count] = typical * uniform(random, 0.5, 1.6);
        place(layer, random, 0.75f, &xs[count], &ys[count]);
        for (int k = 0; k < count && free; k++)
            free = hypotf(xs[k] - xs[count], ys[k] - ys[count]) > rs[k] + rs[count];
        count += free;
    }
    for (int i = 0; i < count; i++)
        draw_droplet(layer, xs[i], ys[i], rs[i], amplitude * uniform(random, 0.6, 1), rim);
}

/* Adds ridges along the level lines of a smooth surface that is stretched one way. */
void layer_folds(struct layer *layer, struct random *random, float amplitude) {
    int count = layer->size * layer->size, size = layer->size;
    float *surface = layer->scratch[0], *patch = layer->scratch[1];
    float angle = uniform(random, 0, M_PI), bend = uniform(random, 0.25, 0.7), wave = uniform(random, 14, 34);
    float width = uniform(random, 0.05, 0.14), edge = uniform(random, -1.2, -0.1);
    smooth_noise(layer, surface, layer->scratch[2], random, uniform(random, 16, 30));
    smooth_noise(layer, patch, layer->scratch[2], random, 30);
    float c = cosf(angle), s = sinf(angle);
    for (int i = 0; i < count; i++) {
        float along = (float)(i % size) * c + (float)(i / size) * s;
        float phase = along / wave + bend * 2 * surface[i], d = phase - roundf(phase);
        float ridge = -expf(-0.5f * d * d / (width * width));
        float lit = 0.7f * expf(-0.5f * (d - 2 * width) * (d - 2 * width) / (width * width));
        layer->plane[i] += amplitude * (ridge + lit) * ramp(patch[i], edge - 0.5f, edge + 0.5f);
    }
}

static void stamp(struct layer *layer, float x0, float y0, float r, float value) {
    struct box box = box_around(layer, x0, y0, 3 * r + 1);
    for (int y = box.y0; y <= box.y1; y++)
        for (int x = box.x0; x <= box.x1; x++) {
            float dx = (float)x - x0, dy = (float)y - y0, *p = &layer->scratch[0][y * layer->size + x];
            float v = value * expf(-0.5f * (dx * dx + dy * dy) / (r * r));
            if (v > *p) *p = v;
        }
}

static void draw_hair(struct layer *layer, struct random *random, float thickness) {
    float x, y, angle = uniform(random, 0, 2 * M_PI), turn = uniform(random, -0.02, 0.02);
    int steps = 90 + (int)(random_next(random) % 160);
    place(layer, random, 0.6f, &x, &y);
    for (int i = 0; i < steps; i++) {
        stamp(layer, x, y, thickness, 1);
        turn = 0.97f * turn + uniform(random, -0.012, 0.012);
        angle += turn;
        x += cosf(angle);
        y += sinf(angle);
    }
}

static void draw_lump(struct layer *layer, struct random *random) {
    float x, y;
    int parts = 6 + (int)(random_next(random) % 14);
    place(layer, random, 0.6f, &x, &y);
    for (int i = 0; i < parts; i++)
        stamp(layer, x + uniform(random, -9, 9), y + uniform(random, -9, 9), uniform(random, 1.5, 5), 1);
}

/* Adds one large bubble: a broad black ring, which droplets do not have. */
static void draw_bubble(struct layer *layer, struct random *random) {
    float x0, y0, r = uniform(random, 22, 45), width = uniform(random, 2.5, 5);
    place(layer, random, 0.45f, &x0, &y0);
    struct box box = box_around(layer, x0, y0, r + 4 * width);
    for (int y = box.y0; y <= box.y1; y++)
        for (int x = box.x0; x <= box.x1; x++) {
            float d = hypotf((float)x - x0, (float)y - y0) - r, *p = &layer->scratch[0][y * layer->size + x];
            float v = expf(-0.5f * d * d / (width * width));
            if (v > *p) *p = v;
        }
}

void layer_junk(struct layer *layer, struct random *random, float amplitude) {
    int count = layer->size * layer->size, what = (int)(random_next(random) % 3);
    memset(layer->scratch[0], 0, (size_t)count * sizeof(float));
    int hairs = what == 0 ? 2 + (int)(random_next(random) % 3) : (int)(random_next(random) % 2);
    int lumps = what == 1 ? 3 + (int)(random_next(random) % 4) : (int)(random_next(random) % 2);
    float thickness = uniform(random, 0.9, 1.7);
    for (int i = 0; i < hairs; i++)
        draw_hair(layer, random, thickness);
    for (int i = 0; i < lumps; i++)
        draw_lump(layer, random);
    for (int i = 0; what == 2 && i < 1 + (int)(random_next(random) % 2); i++)
        draw_bubble(layer, random);
    for (int i = 0; i < count; i++)
        layer->plane[i] -= 1.3f * amplitude * layer->scratch[0][i];
}

void layer_spherulites(struct layer *layer, struct random *random, float amplitude) {
    int count = 1 + (int)(random_next(random) % 5);
    for (int n = 0; n < count; n++) {
        float x0, y0, r = uniform(random, 16, 42), phase = uniform(random, 0, 2 * M_PI);
        float twist = uniform(random, -0.02, 0.02);
        float fibres = roundf(uniform(random, 14, 34)), second = roundf(uniform(random, 5, 11));
        place(layer, random, 0.55f, &x0, &y0);
        struct box box = box_around(layer, x0, y0, r + 4);
        for (int y = box.y0; y <= box.y1; y++)
            for (int x = box.x0; x <= box.x1; x++) {
                float dx = (float)x - x0, dy = (float)y - y0, d = hypotf(dx, dy);
                float angle = atan2f(dy, dx) + phase + twist * d;
                float value = 0.6f * sinf(fibres * angle) + 0.5f * sinf(second * angle + 1);
                /* Near the centre fibres are finer than a pixel. */
                value *= ramp(d, 0.1f * fibres, 0.35f * fibres) * ramp(r - d, -1, 2);
                layer->plane[y * layer->size + x] += amplitude * (value - 0.2f * ramp(r - d, -2, 2));
            }
    }
}

void layer_specks(struct layer *layer, struct random *random, int count) {
    memset(layer->scratch[0], 0, (size_t)layer->size * (size_t)layer->size * sizeof(float));
    for (int i = 0; i < count; i++) {
        float x, y;
        place(layer, random, 0.9f, &x, &y);
        stamp(layer, x, y, uniform(random, 0.7, 2.2), uniform(random, 0.3, 1));
    }
    for (int i = 0; i < layer->size * layer->size; i++)
        layer->plane[i] -= layer->scratch[0][i];
}
