#include "stages/classifier/class_templates.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static const double QUALITY_LEAST = 0.5, AGREES = 0.143, SAME = 0.9;
/* Halves agree to so many Å, or to this part of the mask's diameter: a template with fewer parts is a blob. */
static const double RESOLUTION_MOST = 25, DETAIL_LEAST = 0.23;
/* Å; and the width of its soft edge, shells. */
static const double LOWPASS = 20, LOWPASS_EDGE = 2;
/* Part of the mask's diameter: a density farther from the middle is no centred particle. */
static const double OFF_CENTRE = 0.1;
/* A class of fewer members than this part of the average is chance. */
static const double MEMBERS_LEAST = 0.5;
/* Parts of the mask's radius: what is dense between the outer two is a neighbour if it reaches a part of the density
 * inside CORE, and if there is a gap, less than a part of it, between the two. */
static const double CORE = 0.6, GAP_FROM = 0.25, RIM_FROM = 0.75, RIM_TO = 0.92, DENSE = 0.6, GAP = 0.3;
/* Standard deviations of the image inside the mask: the darkest sector of the rim lies no farther below the median one.
 * Around a particle there is even ice, while edges, gradients and parts of neighbours have a dark side. Measured on
 * classes of β-galactosidase with 20 to 300 members: 0.27 to 0.84 where nine in ten members are particles, 1.4 to 2.6
 * where two in five are or fewer. */
static const double DARKER = 1;
/* Samples of an image: circles, and angles on each. */
enum { RINGS = 24, ANGLES = 128, SAMPLES = RINGS * ANGLES, SECTORS = 16 };

void class_templates_clear(struct class_templates *t) {
    image_destroy(&t->images);
    mem_free(&t->rings);
    *t = (struct class_templates){0};
}

/* Returns the resolution (Å) of the last shell in which the halves of a class agree. Two shells in a row end it, as in
 * its detail (quality.c); the first shell says little. */
static double agreed_resolution(const struct model *m, const struct model_class *c) {
    int last = 0;
    for (int s = 2; 2 * s <= m->size; s++) {
        if (c->fsc[s] >= AGREES)
            last = s;
        else if (2 * s + 2 > m->size || c->fsc[s + 1] < AGREES)
            break;
    }
    return last > 0 ? m->options.box * m->options.pixel_size / last : INFINITY;
}

/* Returns the number of members of an average class that is kept. */
static double average_members(const struct model *m) {
    double members = 0, kept = 0;
    for (int k = 0; k < m->class_count; k++) {
        if (!m->classes[k].kept) continue;
        members += m->classes[k].members;
        kept++;
    }
    return kept > 0 ? members / kept : 0;
}

static bool is_good(const struct model *m, const struct model_class *c, double average) {
    double coarse = DETAIL_LEAST * 2 * m->options.mask_radius * m->options.pixel_size;
    return c->kept && c->members > 0 && c->members >= MEMBERS_LEAST * average && c->quality >= QUALITY_LEAST &&
           agreed_resolution(m, c) <= fmax(RESOLUTION_MOST, coarse);
}

/* Returns whether a class comes before another: quality ends at 1, where the average of more images is the better
 * one. */
static bool is_better(const struct model_class *c, const struct model_class *other) {
    return c->quality > other->quality || (c->quality == other->quality && c->members > other->members);
}

/* Lists the good classes, the best first. */
static int list_good(const struct model *m, int *order) {
    double average = average_members(m);
    int count = 0;
    for (int k = 0; k < m->class_count; k++) {
        if (!is_good(m, &m->classes[k], average)) continue;
        int at = count++;
        while (at > 0 && is_better(&m->classes[k], &m->classes[order[at - 1]])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = k;
    }
    return count;
}

/* Low-passes an image (box²) and moves it by (dx, dy) px. */
static void filter(struct model *m, float *image, double dx, double dy) {
    int box = m->options.box, half = box / 2;
    double limit = box * m->options.pixel_size / LOWPASS;
    float *spectrum = m->spectrum;
    fft_run(m->forward, image, spectrum);
    for (int y = 0; y < box; y++)
        for (int x = 0; x <= half; x++) {
            int ky = y <= half ? y : y - box;
            double over = (hypot(x, ky) - limit) / LOWPASS_EDGE, phase = -2 * M_PI * (x * dx + ky * dy) / box;
            double pass = over <= 0 ? 1 : over >= 1 ? 0 : 0.5 + 0.5 * cos(M_PI * over);
            float *v = spectrum + 2 * ((size_t)y * (size_t)(half + 1) + (size_t)x), re = v[0], im = v[1];
            pass /= (double)box * box;
            v[0] = (float)(pass * (re * cos(phase) - im * sin(phase)));
            v[1] = (float)(pass * (re * sin(phase) + im * cos(phase)));
        }
    fft_run(m->inverse, spectrum, image);
}

/* Finds how far the density above the average of the mask lies from the middle, px. */
static void centre_of(const float *image, int box, double radius, double *ret_x, double *ret_y) {
    double sum = 0, pixels = 0, weight = 0, x_sum = 0, y_sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++) {
                double dx = x - box / 2, dy = y - box / 2, value = image[(size_t)y * (size_t)box + (size_t)x];
                if (hypot(dx, dy) >= radius) continue;
                double over = pass == 1 ? fmax(value - sum / pixels, 0) : 0;
                if (pass == 0) {
                    sum += value;
                    pixels++;
                }
                weight += over;
                x_sum += over * dx;
                y_sum += over * dy;
            }
    *ret_x = weight > 0 ? x_sum / weight : 0;
    *ret_y = weight > 0 ? y_sum / weight : 0;
}

static double sample(const float *image, int box, double x, double y) {
    int x0 = (int)floor(x), y0 = (int)floor(y);
    if (x0 < 0 || y0 < 0 || x0 + 1 >= box || y0 + 1 >= box) return 0;
    const float *at = image + (size_t)y0 * (size_t)box + (size_t)x0;
    double fx = x - x0, fy = y - y0;
    return (1 - fy) * ((1 - fx) * at[0] + fx * at[1]) + fy * ((1 - fx) * at[box] + fx * at[box + 1]);
}

/* Returns the image at a circle (part of the radius) and an angle (number). */
static double on_circle(const float *image, int box, double radius, double part, int number) {
    double angle = 2 * M_PI * number / ANGLES;
    return sample(image, box, box / 2 + part * radius * cos(angle), box / 2 + part * radius * sin(angle));
}

/* Returns whether an image shows a neighbour beside its particle. An elongated particle reaches the rim without a
 * gap. */
static bool has_neighbour(const float *image, int box, double radius) {
    double core = -INFINITY, rim = -INFINITY, gap = INFINITY, sum = 0, samples = 0;
    int at = 0;
    for (int r = 0; r < RINGS; r++) {
        double part = (r + 0.5) / RINGS;
        for (int a = 0; a < ANGLES; a++) {
            double value = on_circle(image, box, radius, part, a);
            if (part < CORE) core = fmax(core, value);
            if (part < RIM_FROM || part > RIM_TO) continue;
            sum += value;
            samples++;
            if (value > rim) at = a;
            rim = fmax(rim, value);
        }
    }
    for (int r = 0; r < RINGS; r++) {
        double part = (r + 0.5) / RINGS;
        if (part > GAP_FROM && part < RIM_FROM) gap = fmin(gap, on_circle(image, box, radius, part, at));
    }
    double mean = sum / samples;
    return rim - mean > DENSE * (core - mean) && gap - mean < GAP * (rim - mean);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Returns whether one side of an image's rim is much darker than the rest. The bright ends of an elongated particle
 * leave the median as it is. */
static bool has_dark_side(const float *image, int box, double radius) {
    double sectors[SECTORS] = {0}, area = 0, sum = 0, squares = 0;
    int circles = 0;
    for (int r = 0; r < RINGS; r++) {
        double part = (r + 0.5) / RINGS;
        bool rim = part > RIM_FROM && part < RIM_TO;
        circles += rim;
        for (int a = 0; a < ANGLES; a++) {
            double value = on_circle(image, box, radius, part, a);
            area += part;
            sum += part * value;
            squares += part * value * value;
            if (rim) sectors[a / (ANGLES / SECTORS)] += value;
        }
    }
    qsort(sectors, SECTORS, sizeof *sectors, by_value);
    double mean = sum / area, deviation = sqrt(fmax(squares / area - mean * mean, 0));
    double median = (sectors[SECTORS / 2 - 1] + sectors[SECTORS / 2]) / 2;
    return (median - sectors[0]) * SECTORS / (ANGLES * circles) > DARKER * deviation;
}

/* Samples an image on circles, each sample with the root of its area, so that products of samples are those of images.
 * Their mean over the area is 0 and their length 1. */
static void take_rings(const float *image, int box, double radius, float *rings) {
    double area = 0, sum = 0, squares = 0;
    for (int r = 0; r < RINGS; r++) {
        double distance = radius * (r + 0.5) / RINGS;
        for (int a = 0; a < ANGLES; a++) {
            double value = on_circle(image, box, radius, (r + 0.5) / RINGS, a);
            rings[r * ANGLES + a] = (float)value;
            area += distance;
            sum += distance * value;
            squares += distance * value * value;
        }
    }
    double mean = sum / area, length = sqrt(fmax(squares - sum * mean, 1e-30));
    for (int i = 0; i < SAMPLES; i++)
        rings[i] = (float)((rings[i] - mean) * sqrt(radius * (i / ANGLES + 0.5) / RINGS) / length);
}

/* Adds the products of one circle with all turns of another. twice: the other circle, twice in a row. */
static void add_turns(const float *one, const float *twice, double *sums) {
    for (int turn = 0; turn < ANGLES; turn++) {
        float sum = 0;
        for (int a = 0; a < ANGLES; a++)
            sum += one[a] * twice[a + turn];
        sums[turn] += (double)sum;
    }
}

/* Returns the best correlation of two images over turns of one of them and of its mirror image. */
static double correlate(const float *one, const float *two) {
    double plain[ANGLES] = {0}, mirrored[ANGLES] = {0}, best = -1;
    float twice[2 * ANGLES], back[2 * ANGLES];
    for (int r = 0; r < RINGS; r++) {
        for (int a = 0; a < 2 * ANGLES; a++) {
            twice[a] = two[r * ANGLES + a % ANGLES];
            back[a] = two[r * ANGLES + (2 * ANGLES - a) % ANGLES];
        }
        add_turns(one + (size_t)r * ANGLES, twice, plain);
        add_turns(one + (size_t)r * ANGLES, back, mirrored);
    }
    for (int turn = 0; turn < ANGLES; turn++)
        best = fmax(best, fmax(plain[turn], mirrored[turn]));
    return best;
}

static bool is_among(const float *rings, const struct class_templates *others) {
    for (int i = 0; i < others->images.nz; i++)
        if (correlate(rings, others->rings + (size_t)i * SAMPLES) > SAME) return true;
    return false;
}

/* Makes the template of a class as the next one of t, which has room for it. Counts it if it is centred, and unlike the
 * others. image: space for one, as transforms need it. */
static void add(struct model *m, int class_index, float *image, struct class_templates *t) {
    int box = m->options.box, at = t->images.nz;
    size_t pixels = (size_t)box * (size_t)box;
    double radius = m->options.mask_radius, x = 0, y = 0;
    float *rings = t->rings + (size_t)at * SAMPLES;
    memcpy(image, m->classes[class_index].map, pixels * sizeof *image);
    filter(m, image, 0, 0);
    centre_of(image, box, radius, &x, &y);
    if (hypot(x, y) > OFF_CENTRE * 2 * radius || has_neighbour(image, box, radius) || has_dark_side(image, box, radius))
        return;
    filter(m, image, -x, -y);
    if (!template_normalise(image, box, radius)) return;
    take_rings(image, box, radius, rings);
    if (is_among(rings, t)) return;
    memcpy(t->images.data + (size_t)at * pixels, image, pixels * sizeof *image);
    t->classes[at] = class_index;
    t->images.nz++;
}

enum status class_templates_choose(struct model *m, struct class_templates *ret_templates, struct err *err) {
    struct class_templates t = {0};
    _cleanup_(mem_free) int *order = NULL;
    _cleanup_(mem_free) float *image = NULL;
    int box = m->options.box;
    TRY(mem_new((size_t)m->class_count, sizeof *order, "templates", &order, err));
    TRY(mem_new((size_t)box * (size_t)box, sizeof *image, "templates", &image, err));
    int good = list_good(m, order);
    *ret_templates = t;
    if (good < CLASS_TEMPLATES_LEAST) return STATUS_OK;
    enum status status = mem_new((size_t)CLASS_TEMPLATES_MOST * SAMPLES, sizeof *t.rings, "templates", &t.rings, err);
    if (status == STATUS_OK) status = image_resize(&t.images, box, box, CLASS_TEMPLATES_MOST, err);
    if (status == STATUS_OK) {
        t.images.nz = 0;
        t.images.pixel_size = (float)m->options.pixel_size;
        for (int i = 0; i < good && t.images.nz < CLASS_TEMPLATES_MOST; i++)
            add(m, order[i], image, &t);
    }
    if (status != STATUS_OK || t.images.nz < CLASS_TEMPLATES_LEAST) class_templates_clear(&t);
    *ret_templates = t;
    return status;
}

enum status class_templates_of(struct image *images, double mask_radius, struct class_templates *ret_templates,
                               struct err *err) {
    struct class_templates t = {.images = *images};
    *images = (struct image){0};
    size_t pixels = (size_t)t.images.nx * (size_t)t.images.ny;
    enum status status = mem_new((size_t)t.images.nz * SAMPLES, sizeof *t.rings, "templates", &t.rings, err);
    if (status != STATUS_OK) {
        class_templates_clear(&t);
        return status;
    }
    for (int i = 0; i < t.images.nz; i++)
        take_rings(t.images.data + (size_t)i * pixels, t.images.nx, mask_radius, t.rings + (size_t)i * SAMPLES);
    *ret_templates = t;
    return STATUS_OK;
}

bool class_templates_within(const struct class_templates *some, const struct class_templates *others) {
    if (some->images.nz == 0 || others->images.nz == 0) return false;
    for (int i = 0; i < some->images.nz; i++)
        if (!is_among(some->rings + (size_t)i * SAMPLES, others)) return false;
    return true;
}
