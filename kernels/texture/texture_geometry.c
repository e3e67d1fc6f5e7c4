/* Prepares everything that is settled before any pair is counted: displacements, pixels, tables, grey levels. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/texture/texture_private.h"

/* The radius of evaluated pixels is smaller than the circle's by half a window and this: the paper's 100 − 84.26 px at
 * a window of 31. */
static const double MARGIN = 0.24;

static enum status check(const struct texture_options *o, struct err *err) {
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++)
        FAIL_IF(o->levels[q] < 2 || o->levels[q] > TEXTURE_LEVELS, err, STATUS_BAD_ARGUMENT,
                "%d grey levels: texture has 2 to %d", o->levels[q], TEXTURE_LEVELS);
    FAIL_IF(o->lengths < 1 || o->lengths > TEXTURE_LENGTHS, err, STATUS_BAD_ARGUMENT,
            "displacements of up to %d px: texture has 1 to %d", o->lengths, TEXTURE_LENGTHS);
    FAIL_IF(o->window % 2 == 0 || o->window <= o->lengths || o->window > TEXTURE_WINDOW, err, STATUS_BAD_ARGUMENT,
            "a texture window of %d px: it must be odd, larger than the longest displacement (%d px) and at most %d px",
            o->window, o->lengths, TEXTURE_WINDOW);
    FAIL_IF(
        !(o->diameter >= o->window + 2 * MARGIN && o->diameter <= TEXTURE_DIAMETER), err, STATUS_BAD_ARGUMENT,
        "a circle of %g px with windows of %d px: its diameter must be at least %g px, so that a window fits, and at "
        "most %d px",
        o->diameter, o->window, o->window + 2 * MARGIN, TEXTURE_DIAMETER);
    FAIL_IF(o->stride < 1 || o->stride > TEXTURE_DIAMETER, err, STATUS_BAD_ARGUMENT,
            "a stride of %d px: it must be 1 to %d", o->stride, TEXTURE_DIAMETER);
    FAIL_IF(o->slots < 1 || o->slots > TEXTURE_SLOTS, err, STATUS_BAD_ARGUMENT,
            "%d images in flight: there can be 1 to %d", o->slots, TEXTURE_SLOTS);
    FAIL_IF(o->threads < 1, err, STATUS_BAD_ARGUMENT, "%d threads: at least 1 is needed", o->threads);
    return STATUS_OK;
}

/* Lists the displacements of the half-plane y > 0, or y = 0 and x > 0, whose length rounds to `length`, in reading
 * order. NULL: only counts them. */
static int displacements_of(int length, struct texture_displacement *to) {
    int count = 0;
    for (int dy = 0; dy <= length; dy++)
        for (int dx = dy > 0 ? -length : 1; dx <= length; dx++) {
            /* (length − 1/2)² ≤ x² + y² < (length + 1/2)²: squares of whole numbers are never the bounds. */
            int square = dx * dx + dy * dy;
            if (square <= length * (length - 1) || square > length * (length + 1)) continue;
            if (to) to[count] = (struct texture_displacement){dx, dy, length};
            count++;
        }
    return count;
}

static enum status make_displacements(struct texture_geometry *g, struct err *err) {
    for (int length = 0; length <= TEXTURE_LENGTHS; length++)
        g->first[length + 1] = g->first[length] + (length <= g->options.lengths ? displacements_of(length, NULL) : 0);
    TRY(mem_new((size_t)g->first[TEXTURE_LENGTHS + 1], sizeof *g->displacements, "displacements", &g->displacements,
                err));
    for (int length = 1; length <= g->options.lengths; length++)
        (void)displacements_of(length, g->displacements + g->first[length]);
    return STATUS_OK;
}

static enum status make_pixels(struct texture_geometry *g, struct err *err) {
    const struct texture_options *o = &g->options;
    double radius = o->diameter / 2 - o->window / 2.0 - MARGIN;
    /* Rounding of the subtraction must not lose the pixel at the radius itself. */
    double square = radius * radius * (1 + 1e-12);
    g->steps = (int)(sqrt(square) / o->stride);
    g->positions = 2 * g->steps + 1;
    g->half = g->steps * o->stride + o->window / 2;
    g->side = 2 * g->half + 1;
    TRY(mem_new((size_t)g->positions, sizeof *g->reach, "evaluated pixels", &g->reach, err));
    for (int y = 0; y < g->positions; y++) {
        double dy = (double)(y - g->steps) * o->stride;
        g->reach[y] = (int)(sqrt(square - dy * dy) / o->stride);
        g->pixels += 2 * g->reach[y] + 1;
    }
    return STATUS_OK;
}

static enum status make_tables(struct texture_geometry *g, struct err *err) {
    TRY(mem_new(1, sizeof *g->tables, "logarithms", &g->tables, err));
    struct texture_tables *t = g->tables;
    for (int n = 1; n <= 2 * TEXTURE_PAIRS; n++) {
        t->log[n] = llroundl((long double)n * logl((long double)n) / (long double)TEXTURE_LOG_UNIT);
        t->step[n - 1] = t->log[n] - t->log[n - 1];
    }
    t->log_2 = llroundl(logl(2) / (long double)TEXTURE_LOG_UNIT);
    for (int d = 0; d < TEXTURE_LEVELS; d++)
        t->closeness[d] = llround(1 / TEXTURE_CLOSENESS_UNIT / (1 + d * d));
    for (uint64_t k = 0; k < 2 * TEXTURE_LEVELS; k++)
        t->powers[k] = k + (k * k << 32);
    return STATUS_OK;
}

static enum status build(struct texture_geometry *g, struct err *err) {
    TRY(make_displacements(g, err));
    TRY(make_pixels(g, err));
    return make_tables(g, err);
}

enum status texture_geometry_create(const struct texture_options *options, struct texture_geometry *ret_geometry,
                                    struct err *err) {
    TRY(check(options, err));
    struct texture_geometry g = {.options = *options};
    enum status status = build(&g, err);
    if (status != STATUS_OK)
        texture_geometry_destroy(&g);
    else
        *ret_geometry = g;
    return status;
}

void texture_geometry_destroy(struct texture_geometry *geometry) {
    mem_free(&geometry->displacements);
    mem_free(&geometry->reach);
    mem_free(&geometry->tables);
}

static double value_at(const struct texture_image *image, int x, int y) {
    ptrdiff_t at = y * image->pitch + x;
    return image->bytes ? image->bytes[at] : (double)image->floats[at];
}

struct range {
    double low, high;
};

static enum status check_place(const struct texture_geometry *g, const struct texture_image *image, struct err *err) {
    double radius = g->options.diameter / 2;
    const int *c = image->centre;
    FAIL_IF((image->bytes == NULL) == (image->floats == NULL), err, STATUS_BAD_ARGUMENT,
            "an image for texture is bytes or floats, one of them");
    FAIL_IF(image->nx < 1 || image->ny < 1 || image->pitch < image->nx, err, STATUS_BAD_ARGUMENT,
            "an image of %d x %d px in rows of %td cannot be read", image->nx, image->ny, image->pitch);
    FAIL_IF(
        c[0] < radius - 1 || c[1] < radius - 1 || c[0] > image->nx - radius || c[1] > image->ny - radius, err,
        STATUS_BAD_ARGUMENT,
        "a circle of %g px around (%d, %d) does not lie inside the image of %d x %d px: choose a smaller diameter or "
        "another centre",
        g->options.diameter, c[0], c[1], image->nx, image->ny);
    return STATUS_OK;
}

/* Finds the range of values in the circle. All values of the plane, whose corners lie outside the circle, must be
 * finite. */
static enum status find_range(const struct texture_geometry *g, const struct texture_image *image, struct range *ret,
                              struct err *err) {
    double square = g->options.diameter * g->options.diameter / 4;
    int reach = (int)(g->options.diameter / 2), cx = image->centre[0], cy = image->centre[1];
    struct range range = {INFINITY, -INFINITY};
    for (int dy = -reach; dy <= reach; dy++)
        for (int dx = -reach; dx <= reach; dx++) {
            bool inside = (double)dx * dx + (double)dy * dy <= square;
            bool used = abs(dx) <= g->half && abs(dy) <= g->half;
            int x = cx + dx, y = cy + dy;
            /* An even number of pixels has no middle pixel: the circle may leave the image by half a pixel. */
            if (!(inside || used) || x < 0 || y < 0 || x >= image->nx || y >= image->ny) continue;
            double v = value_at(image, x, y);
            FAIL_IF(!isfinite(v), err, STATUS_BAD_ARGUMENT,
                    "pixel (%d, %d) is %g: texture needs finite numbers in the whole circle", x, y, v);
            if (!inside) continue;
            range.low = fmin(range.low, v);
            range.high = fmax(range.high, v);
        }
    if (g->options.fixed_range) range = (struct range){0, 255};
    *ret = range;
    return STATUS_OK;
}

static uint8_t level_of(double v, struct range range, int levels) {
    if (!(range.high > range.low)) return 0;
    v = fmin(fmax(v, range.low), range.high);
    double level = floor(levels * (v - range.low) / (range.high - range.low));
    return (uint8_t)fmin(level, levels - 1);
}

enum status texture_quantise(const struct texture_geometry *geometry, const struct texture_image *image,
                             uint8_t *ret_planes, struct err *err) {
    const struct texture_geometry *g = geometry;
    struct range range = {0, 0};
    TRY(check_place(g, image, err));
    TRY(find_range(g, image, &range, err));
    int left = image->centre[0] - g->half, top = image->centre[1] - g->half;
    for (int q = 0; q < TEXTURE_QUANTISATIONS; q++) {
        int levels = g->options.levels[q];
        uint8_t of_byte[256];
        for (int v = 0; v < 256; v++)
            of_byte[v] = level_of(v, range, levels);
        for (int y = 0; y < g->side; y++)
            for (int x = 0; x < g->side; x++, ret_planes++)
                *ret_planes = image->bytes ? of_byte[image->bytes[(top + y) * image->pitch + left + x]]
                                           : level_of(value_at(image, left + x, top + y), range, levels);
    }
    return STATUS_OK;
}
