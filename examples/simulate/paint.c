#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "examples/simulate/micrograph.h"
#include "examples/simulate/random.h"

enum { LARGE = 1 << 22 }; /* px: less is not worth the threads */

struct painter {
    int nx, ny;
    struct fft_plan *forward, *inverse;
    float *spectrum;
};

enum status painter_create(int nx, int ny, struct painter **ret_painter, struct err *err) {
    _cleanup_(painter_destroy) struct painter *painter = calloc(1, sizeof *painter);
    FAIL_IF(painter == NULL, err, STATUS_NO_MEMORY, "no memory for a micrograph's plans");
    painter->nx = nx;
    painter->ny = ny;
    struct fft_options options = {.rank = 2, .shape = {ny, nx}, .direction = FFT_FORWARD};
    if ((size_t)nx * (size_t)ny >= LARGE) options.threads = FFT_ALL_THREADS;
    TRY(fft_create(&options, &painter->forward, err));
    options.direction = FFT_INVERSE;
    TRY(fft_create(&options, &painter->inverse, err));
    TRY(mem_new(fft_complex_floats(painter->forward), sizeof *painter->spectrum, "a micrograph's transform",
                &painter->spectrum, err));
    *ret_painter = painter;
    painter = NULL;
    return STATUS_OK;
}

void painter_destroy(struct painter **painter) {
    if (painter == NULL || *painter == NULL) return;
    fft_destroy(&(*painter)->forward);
    fft_destroy(&(*painter)->inverse);
    free((*painter)->spectrum);
    free(*painter);
    *painter = NULL;
}

/* Multiplies by CTF = sin(π λ D(a) u² − (π/2) Cs λ³ u⁴ + asin Q0) · exp(−B u²/4). D follows from the two defocus values
 * and the angle of the first, from +x towards +y. The electron's wavelength has its relativistic correction. */
void painter_apply_ctf(struct painter *painter, const struct scene *scene, const struct layout *layout,
                       struct image *image) {
    double volts = 1e3 * scene->voltage, lambda = 12.2643247 / sqrt(volts * (1 + 0.978466e-6 * volts));
    double c = cos(layout->defocus_angle * M_PI / 180), s = sin(layout->defocus_angle * M_PI / 180);
    double cs = scene->spherical_aberration * 1e7, offset = asin(scene->amplitude_contrast);
    int nx = painter->nx, ny = painter->ny;
    double norm = 1 / ((double)nx * ny);
    fft_run(painter->forward, image->data, painter->spectrum);
#pragma omp parallel for if ((size_t)nx * (size_t)ny >= LARGE)
    for (int row = 0; row < ny; row++) {
        int ky = row <= ny / 2 ? row : row - ny;
        double y = ky / (ny * scene->pixel_size);
        float *value = painter->spectrum + 2 * (size_t)row * (size_t)(nx / 2 + 1);
        for (int kx = 0; kx <= nx / 2; kx++, value += 2) {
            double x = kx / (nx * scene->pixel_size), u2 = x * x + y * y;
            double along = x * c + y * s, across = y * c - x * s; /* the frequency on the axes of the two defoci */
            double focus = layout->defocus_u * along * along + layout->defocus_v * across * across;
            double phase = M_PI * lambda * focus - M_PI / 2 * cs * lambda * lambda * lambda * u2 * u2;
            double ctf = sin(phase + offset) * exp(-scene->b_factor / 4 * u2);
            double way = M_PI * (layout->drift_x * kx / nx + layout->drift_y * ky / ny);
            if (fabs(way) > 1e-6) ctf *= sin(way) / way;
            value[0] *= (float)(norm * ctf);
            value[1] *= (float)(norm * ctf);
        }
    }
    fft_run(painter->inverse, painter->spectrum, image->data);
}

static double carbon_here(const struct layout *layout, double x, double y) {
    if (!layout->has_carbon) return 0;
    return 1 / (1 + exp((x * layout->carbon_x + y * layout->carbon_y - layout->carbon_offset) / 2));
}

/* Adds the structure of the ice (and, stronger, of carbon) before the CTF: Thon rings come from it. Each row knows its
 * place in the stream. */
static void add_ice(const struct scene *scene, const struct layout *layout, struct random *random,
                    struct image *image) {
    float sigma = (float)sqrt(scene->ice_noise * scene->counts);
    uint64_t draws = (uint64_t)(image->nx + 1) / 2;
#pragma omp parallel for if (image_count(image) >= LARGE)
    for (int y = 0; y < image->ny; y++) {
        struct random place = random_after(random, (uint64_t)y * draws);
        float *row = image->data + (size_t)y * (size_t)image->nx;
        for (int x = 0; x < image->nx; x += 2) {
            float a, b;
            random_normal_pair(&place, &a, &b);
            float strength = sigma * (float)(1 + 2 * carbon_here(layout, x, y));
            row[x] += strength * a;
            if (x + 1 < image->nx) row[x + 1] += strength * b;
        }
    }
    *random = random_after(random, (uint64_t)image->ny * draws);
}

/* Widths of the rims, px, of the logistic function that crosses them. */
static const double SOFT_RIM = 1.5, SHARP_RIM = 0.4;

/* Returns the distance of a contaminant's outline from its centre in one direction. */
static double outline(const struct contaminant *c, bool facetted, double angle) {
    if (!facetted) return c->radius * (1 + 0.12 * cos(2 * angle + c->wobble[0]) + 0.1 * cos(3 * angle + c->wobble[1]));
    const double facet = M_PI / 3;
    double along = fmod(angle + c->wobble[0] + 2 * M_PI, facet) - facet / 2;
    return c->radius * cos(facet / 2) / cos(along) * 1.1; /* a hexagon of the circle's area */
}

/* Multiplies `light` by the transmission of a contaminant. */
static void shade(const struct contaminant *c, bool facetted, struct image *light) {
    double reach = 1.3 * c->radius + 12, rim = facetted ? SHARP_RIM : SOFT_RIM;
    int y0 = (int)fmax(0, c->y - reach), y1 = (int)fmin(light->ny - 1, c->y + reach);
    int x0 = (int)fmax(0, c->x - reach), x1 = (int)fmin(light->nx - 1, c->x + reach);
    for (int y = y0; y <= y1; y++)
        for (int x = x0; x <= x1; x++) {
            double dx = x - c->x, dy = y - c->y;
            double inside = 1 / (1 + exp((sqrt(dx * dx + dy * dy) - outline(c, facetted, atan2(dy, dx))) / rim));
            light->data[(size_t)y * (size_t)light->nx + (size_t)x] *= (float)(1 - c->depth * inside);
        }
}

/* Computes the electrons expected: background × transmission − signal. */
static void shine(const struct scene *scene, const struct layout *layout, const struct image *signal,
                  struct image *light) {
#pragma omp parallel for if (image_count(light) >= LARGE)
    for (int y = 0; y < light->ny; y++) {
        double v = 2.0 * y / light->ny - 1;
        for (int x = 0; x < light->nx; x++) {
            double u = 2.0 * x / light->nx - 1;
            double thickness = 1 + layout->slope_x * u + layout->slope_y * v + layout->bow * (u * u + v * v - 0.67);
            light->data[(size_t)y * (size_t)light->nx + (size_t)x] =
                (float)(scene->counts * thickness * (1 - 0.12 * carbon_here(layout, x, y)));
        }
    }
    for (int i = 0; i < layout->contaminant_count; i++)
        shade(&layout->contaminants[i], scene->facetted, light);
    size_t count = image_count(light);
#pragma omp parallel for if (count >= LARGE)
    for (size_t i = 0; i < count; i++)
        light->data[i] = fmaxf(light->data[i] - signal->data[i], 0);
}

/* Adds the electrons' own noise, a normal deviate of variance N. */
static void add_noise(struct random *random, struct image *image) {
    size_t count = image_count(image);
    for (size_t i = 0; i < count; i += 2) {
        float noise[2];
        random_normal_pair(random, &noise[0], &noise[1]);
        for (size_t j = i; j < i + 2 && j < count; j++) {
            float mean = image->data[j];
            image->data[j] = fmaxf(mean + sqrtf(mean) * noise[j - i], 0);
        }
    }
}

static enum status expect(struct painter *painter, const struct scene *scene, const struct phantom *phantom,
                          const struct layout *layout, struct random *random, struct image *image, struct err *err) {
    _cleanup_(image_destroy) struct image signal = {0};
    TRY(image_resize(&signal, painter->nx, painter->ny, 1, err));
    TRY(image_resize(image, painter->nx, painter->ny, 1, err));
    image->pixel_size = (float)scene->pixel_size;
    memset(signal.data, 0, image_count(&signal) * sizeof *signal.data);
    for (int i = 0; i < layout->particle_count; i++) {
        const struct particle *p = &layout->particles[i];
        double rows[3][3];
        phantom_rotation(p->rot, p->tilt, p->psi, rows);
        phantom_project(phantom, rows, scene->pixel_size, p->x, p->y, scene->signal, &signal);
    }
    add_ice(scene, layout, random, &signal);
    painter_apply_ctf(painter, scene, layout, &signal);
    shine(scene, layout, &signal, image);
    return STATUS_OK;
}

static struct random stream_of(const struct scene *scene, const struct layout *layout) {
    return random_stream(scene->seed, (uint64_t)layout->index, 3);
}

enum status painter_expect(struct painter *painter, const struct scene *scene, const struct phantom *phantom,
                           const struct layout *layout, struct image *image, struct err *err) {
    struct random random = stream_of(scene, layout);
    return expect(painter, scene, phantom, layout, &random, image, err);
}

enum status painter_paint(struct painter *painter, const struct scene *scene, const struct phantom *phantom,
                          const struct layout *layout, struct image *image, struct err *err) {
    struct random random = stream_of(scene, layout);
    TRY(expect(painter, scene, phantom, layout, &random, image, err));
    add_noise(&random, image);
    return STATUS_OK;
}
