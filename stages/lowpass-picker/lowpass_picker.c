#include "stages/lowpass-picker/lowpass_picker.h"

#include <math.h>

#include "common/memory.h"
#include "stages/lowpass-picker/even_scores.h"
#include "stages/lowpass-picker/noise_search.h"
#include "stages/lowpass-picker/round_templates.h"
#include "stages/lowpass-picker/template_noise.h"

/* Rotated templates are kept up to this size; beyond it they are rotated as they are used, which costs a fifth of the
 * transform. */
static const size_t ROTATED_LIMIT = (size_t)512 << 20, ROTATED_LIMIT_CUDA = (size_t)1200 << 20;
/* RELION's reduction of the mask radius, px. */
enum { SHRINK_MASK = 2 };
/* Micrographs of noise have particles of so many px, or more, and a side of so many diameters. */
static const double NOISE_DIAMETER = 64, NOISE_FIELD = 24;
/* Larger maps than these px, or than the micrograph's, take too much memory. A side of fewer diameters holds no peaks. */
static const double NOISE_MAP_MOST = 1024, NOISE_FIELD_LEAST = 4;
/* With templates and their rotations a search takes longer, so its noise is in smaller maps, with fewer templates, and
 * turned by so many steps for each pixel of resolution along the rim. */
static const double TEMPLATE_MAP_MOST = 512, TEMPLATE_FIELD_LEAST = 8, TURNS = 1.5;
enum { NOISE_TEMPLATES = 64 };
/* z-scores beyond this are dead pixels and gold. */
static const double OUTLIERS = 8;

struct lowpass_picker {
    struct pick_geometry geometry;
    struct search *search;
    struct even_scores *even;        /* NULL with templates, or if the search whitens */
    bool seldom;                     /* used so seldom that rotated templates are not kept, nor the maps of each */
    struct lowpass_picker *of_noise; /* searches micrographs of noise with the templates; NULL: heights are not used */
    struct template_noise heights;   /* that it found */
};

/* Without templates the choice of picks looks at all shapes. */
static bool per_template(const struct lowpass_picker_task *task) {
    return task->per_template || task->method == PICKER_LOG;
}

/* Creates the search of `templates`. diameter: Å, NaN to measure it in the templates. Sets the geometry's diameter,
 * radius and border. */
static enum status create_search(struct lowpass_picker *p, const struct lowpass_picker_task *task,
                                 const struct picker_templates *templates, double diameter, struct err *err) {
    struct pick_geometry *g = &p->geometry;
    _cleanup_(mem_free) float *data = NULL;
    int box = 0;
    TRY(templates_check(templates, err));
    TRY(templates_resize(templates, g, &box, &data, err));
    g->diameter = diameter;
    if (isnan(diameter)) TRY(templates_diameter(templates, &g->diameter, err));
    double radius = lround(g->diameter / g->pixel_size / 2) - SHRINK_MASK;
    FAIL_IF(radius < 2, err, STATUS_BAD_ARGUMENT, "a diameter of %.3g Å is only %.1f px of %.3g Å: check pixel_size",
            g->diameter, g->diameter / g->pixel_size, g->pixel_size);
    /* Unmasked templates without a diameter: the largest circle that leaves a background. */
    if (isnan(diameter) && radius > box / 2 - SHRINK_MASK) radius = box / 2 - SHRINK_MASK;
    g->radius = radius;
    /* A whole particle must fit, however much room its template has around it. */
    g->border = g->size_rule == PICK_SIZES_RELION ? box / 2 : (int)ceil(g->diameter / g->pixel_size / 2);
    struct search_options options = {
        .nx = g->nx,
        .ny = g->ny,
        .size = g->size,
        .work = g->work,
        .band = g->band,
        .pixel_size = g->pixel_size,
        .box = box,
        .radius = radius,
        .count = templates->count,
        .rotations = g->rotations,
        .invert = task->options->invert,
        .whiten = g->whiten,
        .per_template = per_template(task) && !p->seldom,
        .clip = OUTLIERS,
        .memory_limit = p->seldom                         ? 0
                        : task->device.kind == DEVICE_CPU ? ROTATED_LIMIT
                                                          : ROTATED_LIMIT_CUDA,
        .threads = task->threads > 0 ? task->threads : 1,
        .device = task->device,
    };
    TRY(search_create(&options, data, &p->search, err));
    if (g->method != PICKER_LOG || g->whiten) return STATUS_OK;
    return even_scores_create(g, data, box, templates->count, &p->even, err);
}

/* Returns the diameters in Å of the smallest and the largest shape of a search without templates. */
static void shape_range(const struct lowpass_picker_options *o, double *ret_low, double *ret_high) {
    bool listed = o->log_diameter.count == 2;
    *ret_low = listed ? o->log_diameter.values[0] : 0.8 * o->diameter;
    *ret_high = listed ? o->log_diameter.values[1] : 1.2 * o->diameter;
}

/* Blobs are searched for with round templates; one circle and one background serve all sizes, so that scores
 * compare. */
static enum status create_round(struct lowpass_picker *p, const struct lowpass_picker_task *task, struct err *err) {
    const struct lowpass_picker_options *o = task->options;
    double low, high;
    shape_range(o, &low, &high);
    _cleanup_(mem_free) float *shapes = NULL;
    struct picker_templates templates = {0};
    TRY(round_templates_draw(low, high, &p->geometry, &shapes, &templates, err));
    TRY(create_search(p, task, &templates, high, err));
    p->geometry.diameter = isnan(o->diameter) ? (low + high) / 2 : o->diameter;
    return STATUS_OK;
}

static struct pick_geometry geometry_of(const struct lowpass_picker_task *task);

/* Returns the side of a micrograph of noise in Å. coarse: pixel size (Å) of the maps. */
static double noise_field(const struct lowpass_picker_task *task, double diameter, double coarse) {
    bool templates = task->method == PICKER_TEMPLATE;
    double own = templates ? 0 : fmax(task->nx, task->ny) * task->pixel_size;
    double map = (templates ? TEMPLATE_MAP_MOST : NOISE_MAP_MOST) * coarse;
    double most = fmax(fmax(own, map), (templates ? TEMPLATE_FIELD_LEAST : NOISE_FIELD_LEAST) * diameter);
    return fmin(NOISE_FIELD * diameter, most);
}

/* Returns the task of a search in noise for particles of the diameter in Å. Always on the CPU, so that all devices go by
 * the same heights. */
static struct lowpass_picker_task noise_task(const struct lowpass_picker_task *task, double diameter) {
    struct lowpass_picker_task small = *task;
    double coarse = fmax(task->pixel_size, task->options->lowpass / 2);
    small.pixel_size = fmin(fmax(task->pixel_size, diameter / NOISE_DIAMETER), coarse);
    small.nx = small.ny = (int)ceil(noise_field(task, diameter, coarse) / small.pixel_size);
    small.device = (struct device){.kind = DEVICE_CPU};
    return small;
}

/* Creates the search of noise with templates. They fit into it, as they fit into the micrograph. */
static enum status create_noise(struct lowpass_picker *p, const struct lowpass_picker_task *task,
                                const struct picker_templates *templates, struct err *err) {
    struct lowpass_picker_task small = noise_task(task, p->geometry.diameter);
    struct picker_templates some = *templates;
    if (some.count > NOISE_TEMPLATES) some.count = NOISE_TEMPLATES;
    int side = (int)ceil(2 * some.box * some.pixel_size / small.pixel_size);
    if (small.nx < side) small.nx = small.ny = side;
    TRY(mem_new(1, sizeof *p->of_noise, "picker", &p->of_noise, err));
    struct pick_geometry *g = &p->of_noise->geometry;
    p->of_noise->seldom = true;
    *g = geometry_of(&small);
    double turns = TURNS * M_PI * p->geometry.diameter / fmax(task->options->lowpass, 2 * small.pixel_size);
    g->rotations = (int)fmax(1, fmin(g->rotations, ceil(turns)));
    return create_search(p->of_noise, &small, &some, p->geometry.diameter, err);
}

/* Finds the heights of the peaks of noise by a search of small micrographs of noise with the same shapes. */
static enum status find_noise_peaks(struct lowpass_picker *p, const struct lowpass_picker_task *task, struct err *err) {
    struct lowpass_picker_task small = noise_task(task, p->geometry.diameter);
    struct lowpass_picker noise = {.geometry = geometry_of(&small)};
    enum status status = create_round(&noise, &small, err);
    if (status == STATUS_OK)
        status = noise_search(noise.search, noise.even, &noise.geometry, NULL, &p->geometry.peaks, err);
    search_destroy(&noise.search);
    even_scores_destroy(&noise.even);
    return status;
}

static enum status check_sides(int nx, int ny, struct err *err) {
    FAIL_IF(nx < PICK_WORK_LEAST || ny < PICK_WORK_LEAST || nx > PICK_SIDE_MOST || ny > PICK_SIDE_MOST, err,
            STATUS_UNSUPPORTED, "a micrograph of %d × %d px: from %d to %d can be picked", nx, ny, PICK_WORK_LEAST,
            PICK_SIDE_MOST);
    return STATUS_OK;
}

enum status lowpass_picker_check_size(const char *path, int nx, int ny, int nz, struct err *err) {
    FAIL_IF(nz != 1, err, STATUS_BAD_FORMAT,
            "%s holds %d images; expected one micrograph (is it a movie that has not been corrected?)", path, nz);
    enum status status = check_sides(nx, ny, err);
    return status == STATUS_OK ? STATUS_OK : err_context(err, status, "%s", path);
}

static struct pick_geometry geometry_of(const struct lowpass_picker_task *task) {
    const struct lowpass_picker_options *o = task->options;
    struct pick_geometry geometry = {
        .method = task->method,
        .size_rule = o->size_rule,
        .nx = task->nx,
        .ny = task->ny,
        .data = {0, 0, task->nx, task->ny},
        .pixel_size = task->pixel_size,
        .lowpass = o->lowpass,
        .angle_step = o->angle_step,
        .rotations = task->method == PICKER_LOG ? 1 : (int)fmax(1, lround(360 / o->angle_step)),
        .whiten = task->whiten,
        .bright = task->method == PICKER_LOG && !o->invert,
    };
    geometry_choose_sizes(&geometry);
    return geometry;
}

/* Bytes for each pixel, as counted in the sources and checked against the peak of runs from 2048² to 8192² px: of the
 * square around the micrograph, of the maps for each micrograph, and of the maps for the search and each of its
 * threads. Maps of single templates take 6 more. */
enum { SQUARE_BYTES = 16, MAP_BYTES = 56, SEARCH_BYTES = 56, THREAD_BYTES = 24, TEMPLATE_BYTES = 6 };

/* Estimates the memory of the search of noise, which keeps no rotated templates. */
static size_t noise_bytes(const struct lowpass_picker_task *task) {
    double diameter = isnan(task->options->diameter) ? NOISE_DIAMETER * task->pixel_size : task->options->diameter;
    struct lowpass_picker_task small = noise_task(task, diameter);
    struct pick_geometry g = geometry_of(&small);
    size_t square = mem_bytes((size_t)g.size, (size_t)g.size), map = mem_bytes((size_t)g.work, (size_t)g.work);
    size_t threads = (size_t)(task->threads > 0 ? task->threads : 1);
    return mem_sum(mem_bytes(square, SQUARE_BYTES), mem_bytes(map, MAP_BYTES + SEARCH_BYTES + THREAD_BYTES * threads));
}

struct lowpass_picker_bytes lowpass_picker_estimate(const struct lowpass_picker_task *task, int templates) {
    struct pick_geometry g = geometry_of(task);
    size_t square = mem_bytes((size_t)g.size, (size_t)g.size), map = mem_bytes((size_t)g.work, (size_t)g.work);
    double low, high;
    shape_range(task->options, &low, &high);
    size_t count = (size_t)(templates > 0 ? templates : round_templates_count(low, high));
    struct lowpass_picker_bytes bytes = {
        .maps = mem_bytes(map, MAP_BYTES + (per_template(task) ? TEMPLATE_BYTES * count : 0))};
    if (task->method == PICKER_LOG && !task->whiten) bytes.search = mem_bytes(map, EVEN_SCORES_BYTES);
    if (task->method == PICKER_TEMPLATE && task->whiten) bytes.search = noise_bytes(task);
    /* On a GPU the search lies in the device's memory. */
    if (task->device.kind != DEVICE_CPU) return bytes;
    size_t threads = (size_t)(task->threads > 0 ? task->threads : 1);
    size_t rotated = mem_bytes(mem_bytes(map, sizeof(float)), count * (size_t)g.rotations);
    bytes.search = mem_sum(bytes.search, mem_bytes(square, SQUARE_BYTES));
    bytes.search = mem_sum(bytes.search, mem_bytes(map, SEARCH_BYTES + THREAD_BYTES * threads));
    bytes.search = mem_sum(bytes.search, rotated < ROTATED_LIMIT ? rotated : ROTATED_LIMIT);
    return bytes;
}

static enum status build(struct lowpass_picker *p, const struct lowpass_picker_task *task,
                         const struct picker_templates *templates, struct err *err) {
    const struct lowpass_picker_options *o = task->options;
    FAIL_IF(!(task->pixel_size > 0), err, STATUS_BAD_ARGUMENT, "the micrographs' pixel size is %g Å: set pixel_size",
            task->pixel_size);
    TRY(check_sides(task->nx, task->ny, err));
    p->geometry = geometry_of(task);
    if (task->method == PICKER_LOG) {
        TRY(create_round(p, task, err));
        return find_noise_peaks(p, task, err);
    }
    TRY(create_search(p, task, templates, o->diameter, err));
    return task->whiten ? create_noise(p, task, templates, err) : STATUS_OK;
}

enum status lowpass_picker_create(const struct lowpass_picker_task *task, const struct picker_templates *templates,
                                  struct lowpass_picker **ret_picker, struct err *err) {
    struct lowpass_picker *p = NULL;
    TRY(mem_new(1, sizeof *p, "picker", &p, err));
    enum status status = build(p, task, templates, err);
    if (status != STATUS_OK) {
        lowpass_picker_destroy(&p);
        return status;
    }
    *ret_picker = p;
    return STATUS_OK;
}

void lowpass_picker_destroy(struct lowpass_picker **picker) {
    if (!*picker) return;
    lowpass_picker_destroy(&(*picker)->of_noise);
    search_destroy(&(*picker)->search);
    even_scores_destroy(&(*picker)->even);
    mem_free(picker);
}

double lowpass_picker_diameter(const struct lowpass_picker *p) {
    return p->geometry.diameter;
}

enum status lowpass_picker_search(struct lowpass_picker *p, const struct search_input *input, const struct ctf *ctf,
                                  uint64_t seed, struct pick_maps *maps, struct err *err) {
    const struct ctf *used = p->geometry.method == PICKER_TEMPLATE ? ctf : NULL;
    maps->geometry = p->geometry;
    if (p->of_noise)
        TRY(template_noise_find(&p->heights, p->of_noise->search, &p->of_noise->geometry, used, &maps->geometry.peaks,
                                err));
    TRY(search_run(p->search, input, used, seed, &maps->maps, err));
    if (p->even) even_scores_run(p->even, maps);
    return STATUS_OK;
}
