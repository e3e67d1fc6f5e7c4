#include "examples/drops/drops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "examples/drops/layers.h"

static const struct {
    const char *name, *stem;
} KINDS[DROP_KINDS] = {
    {"clear", "clear"},
    {"precipitate", "precipitate"},
    {"crystal", "crystal"},
    {"phase separation", "phase"},
    {"precip & crystal", "precip_crystal"},
    {"precip & skin", "precip_skin"},
    {"phase & crystal", "phase_crystal"},
    {"phase & precip", "phase_precip"},
    {"skin", "skin"},
    {"junk", "junk"},
    {"other", "other"},
};

const char *drop_kind_name(enum drop_kind kind) {
    return KINDS[kind].name;
}

const char *drop_kind_stem(enum drop_kind kind) {
    return KINDS[kind].stem;
}

enum { PLANES = 5, LEVELS = 1024 };

struct drop_painter {
    struct drop_scene scene;
    float *plane[PLANES]; /* the picture, a layer, three of workspace */
};

enum status drop_painter_create(const struct drop_scene *scene, struct drop_painter **ret_painter, struct err *err) {
    FAIL_IF(scene->size < 256 || scene->size > 4096, err, STATUS_BAD_ARGUMENT, "size is %d px; it must be 256 to 4096",
            scene->size);
    _cleanup_(drop_painter_destroy) struct drop_painter *painter = calloc(1, sizeof *painter);
    FAIL_IF(painter == NULL, err, STATUS_NO_MEMORY, "no memory for a picture");
    painter->scene = *scene;
    for (int i = 0; i < PLANES; i++)
        TRY(mem_new((size_t)scene->size * (size_t)scene->size, sizeof(float), "a picture", &painter->plane[i], err));
    *ret_painter = painter;
    painter = NULL;
    return STATUS_OK;
}

void drop_painter_destroy(struct drop_painter **painter) {
    if (*painter == NULL) return;
    for (int i = 0; i < PLANES; i++)
        free((*painter)->plane[i]);
    free(*painter);
    *painter = NULL;
}

static float uniform(struct random *random, double low, double high) {
    return (float)random_uniform(random, low, high);
}

static void paint_outcome(struct layer *layer, enum drop_kind kind, struct random *random) {
    /* If a drop has two contents, each is as strong as alone. */
    float first = uniform(random, 0.55, 1.2), second = uniform(random, 0.55, 1.2);
    bool grains = kind == DROP_PRECIPITATE || kind == DROP_PRECIPITATE_CRYSTAL || kind == DROP_PRECIPITATE_SKIN ||
                  kind == DROP_PHASE_PRECIPITATE;
    bool crystals = kind == DROP_CRYSTAL || kind == DROP_PRECIPITATE_CRYSTAL || kind == DROP_PHASE_CRYSTAL;
    bool droplets = kind == DROP_PHASE || kind == DROP_PHASE_CRYSTAL || kind == DROP_PHASE_PRECIPITATE;
    if (grains) layer_grains(layer, random, first);
    if (droplets) layer_droplets(layer, random, second);
    if (crystals) layer_crystals(layer, random, grains ? second : first);
    if (kind == DROP_SKIN || kind == DROP_PRECIPITATE_SKIN) layer_folds(layer, random, second);
    if (kind == DROP_JUNK) layer_junk(layer, random, first);
    if (kind == DROP_OTHER) layer_spherulites(layer, random, first);
}

/* Paints the background: light from one side, the drop as a weak lens, dark edges of drop and well. */
static void paint_well(const struct drop_painter *painter, const struct drop_truth *truth, struct random *random) {
    int size = painter->scene.size;
    float *out = painter->plane[0], coefficients[5], scale = 2 / (float)size;
    for (int i = 0; i < 5; i++)
        coefficients[i] = uniform(random, -0.35, 0.35);
    float lens = uniform(random, -0.4, 0.4), rim = uniform(random, 1.2, 3);
    float well = truth->radius * uniform(random, 1.12, 1.25);
    float dark = uniform(random, 1.5, 3);
    for (int y = 0; y < size; y++)
        for (int x = 0; x < size; x++) {
            float u = (float)x * scale - 1, v = (float)y * scale - 1;
            float d = hypotf((float)x - truth->x, (float)y - truth->y), t = d / truth->radius;
            float value = coefficients[0] * u + coefficients[1] * v + coefficients[2] * u * u +
                          coefficients[3] * u * v + coefficients[4] * v * v;
            if (t < 1) value += lens * (1 - t * t);
            value -= dark * expf(-0.5f * (d - truth->radius) * (d - truth->radius) / (rim * rim));
            if (d > well) value -= 1.2f * dark * (1 - expf(-(d - well) / 3));
            out[y * size + x] = value;
        }
}

static int by_value(const void *a, const void *b) {
    float p = *(const float *)a, q = *(const float *)b;
    return (p > q) - (p < q);
}

/* Draws the inverse of a histogram: a few normal distributions with random places, widths and weights. */
static void draw_target(float target[LEVELS], struct random *random) {
    enum { PARTS = 3, DRAWS = 4 * LEVELS };
    float places[PARTS], widths[PARTS], weights[PARTS], total = 0, draws[DRAWS];
    float middle = uniform(random, 90, 165), width = uniform(random, 14, 36);
    for (int i = 0; i < PARTS; i++) {
        places[i] = middle + width * uniform(random, -1, 1);
        widths[i] = width * uniform(random, 0.3, 1.1);
        weights[i] = uniform(random, 0.1, 1);
        total += weights[i];
    }
    for (int i = 0; i < DRAWS; i++) {
        float pick = uniform(random, 0, (double)total);
        int part = pick < weights[0] ? 0 : pick < weights[0] + weights[1] ? 1 : 2;
        draws[i] = places[part] + widths[part] * (float)random_normal(random);
    }
    qsort(draws, DRAWS, sizeof *draws, by_value);
    for (int i = 0; i < LEVELS; i++)
        target[i] = draws[i * (DRAWS / LEVELS) + DRAWS / LEVELS / 2];
}

/* Applies the rising curve that brings the drop's inside close to the target's histogram. */
static void map_levels(struct drop_painter *painter, const struct drop_truth *truth, struct random *random,
                       uint8_t *pixels) {
    int size = painter->scene.size, count = 0;
    float *values = painter->plane[0], *inside = painter->plane[1], target[LEVELS];
    for (int i = 0; i < size * size; i++)
        if (hypotf((float)(i % size) - truth->x, (float)(i / size) - truth->y) < 0.85f * truth->radius)
            inside[count++] = values[i];
    qsort(inside, (size_t)count, sizeof *inside, by_value);
    draw_target(target, random);
    float low = inside[count / 100], high = inside[count - 1 - count / 100], share = uniform(random, 0.75, 1);
    float wide = target[LEVELS - 1 - LEVELS / 100] - target[LEVELS / 100];
    for (int i = 0; i < size * size; i++) {
        int below = 0, above = count; /* the rank of the value among the values of the drop */
        while (below < above) {
            int middle = (below + above) / 2;
            if (inside[middle] < values[i])
                below = middle + 1;
            else
                above = middle;
        }
        float rank = (float)below / (float)count * (LEVELS - 1), straight = (values[i] - low) / (high - low);
        float matched = target[(int)rank], linear = target[LEVELS / 100] + wide * straight;
        if (straight < 0 || straight > 1) matched += wide * (straight < 0 ? straight : straight - 1);
        float level = share * matched + (1 - share) * linear + 0.5f;
        pixels[i] = level < 0 ? 0 : level > 255 ? 255 : (uint8_t)level;
    }
}

void drop_paint(struct drop_painter *painter, enum drop_kind kind, uint64_t index, uint8_t *pixels,
                struct drop_truth *ret_truth) {
    int size = painter->scene.size, count = size * size;
    struct random random = random_stream(painter->scene.seed, index, (uint64_t)kind);
    float middle = 0.5f * (float)(size - 1), room = 0.06f * (float)size;
    struct drop_truth truth = {middle + uniform(&random, -1, 1) * room, middle + uniform(&random, -1, 1) * room, 0};
    truth.radius = (float)size * uniform(&random, 0.35, 0.4);
    struct layer layer = {.size = size,
                          .x = truth.x,
                          .y = truth.y,
                          .radius = truth.radius,
                          .plane = painter->plane[1],
                          .scratch = {painter->plane[2], painter->plane[3], painter->plane[4]}};
    paint_well(painter, &truth, &random);
    memset(layer.plane, 0, (size_t)count * sizeof(float));
    paint_outcome(&layer, kind, &random);
    layer_specks(&layer, &random, (int)(random_next(&random) % 6));
    layer_blur(layer.plane, layer.scratch[0], size, uniform(&random, 0.4, 1));
    for (int i = 0; i < count; i++) {
        float d = hypotf((float)(i % size) - truth.x, (float)(i / size) - truth.y);
        if (d < truth.radius) painter->plane[0][i] += layer.plane[i];
    }
    layer_noise(layer.scratch[0], size, &random);
    float noise = uniform(&random, 0.02, 0.07);
    for (int i = 0; i < count; i++)
        painter->plane[0][i] += noise * layer.scratch[0][i];
    map_levels(painter, &truth, &random, pixels);
    if (ret_truth != NULL) *ret_truth = truth;
}

enum drop_kind drop_next(enum drop_kind kind, struct random *random) {
    double u = random_uniform(random, 0, 1);
    if (u < 0.75) return kind;
    u = (u - 0.75) * 4;
    switch (kind) {
    case DROP_CLEAR:
        return u < 0.4 ? DROP_PRECIPITATE : u < 0.6 ? DROP_PHASE : u < 0.85 ? DROP_CRYSTAL : DROP_SKIN;
    case DROP_PRECIPITATE:
        return u < 0.6 ? DROP_PRECIPITATE_CRYSTAL : DROP_PRECIPITATE_SKIN;
    case DROP_PHASE:
        return u < 0.6 ? DROP_PHASE_CRYSTAL : DROP_PHASE_PRECIPITATE;
    case DROP_SKIN:
        return u < 0.5 ? DROP_PRECIPITATE_SKIN : DROP_SKIN;
    default:
        return kind;
    }
}
