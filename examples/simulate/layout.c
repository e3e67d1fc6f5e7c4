#include <math.h>
#include <stdio.h>

#include "common/memory.h"
#include "examples/simulate/micrograph.h"
#include "examples/simulate/random.h"

enum { TRIES_EACH = 400 };

static bool free_place(const struct layout *layout, const struct scene *scene, double radius, double x, double y) {
    for (int i = 0; i < layout->particle_count; i++) {
        double dx = layout->particles[i].x - x, dy = layout->particles[i].y - y;
        if (dx * dx + dy * dy < scene->min_distance * scene->min_distance) return false;
    }
    for (int i = 0; i < layout->contaminant_count; i++) {
        const struct contaminant *c = &layout->contaminants[i];
        if (hypot(c->x - x, c->y - y) < 1.2 * c->radius + radius) return false;
    }
    return !layout->has_carbon || x * layout->carbon_x + y * layout->carbon_y > layout->carbon_offset + radius;
}

static void draw_contamination(const struct scene *scene, double radius, struct random *random, struct layout *layout) {
    int count = (int)floor(scene->contamination * random_uniform(random, 0.4, 1.6) + 0.5);
    layout->contaminant_count = count > LAYOUT_CONTAMINANTS ? LAYOUT_CONTAMINANTS : count;
    for (int i = 0; i < layout->contaminant_count; i++) {
        /* Every other contaminant is about as large as a particle: pickers take this kind for particles. */
        bool small = i % 2 == 0;
        double r = radius * (small ? random_uniform(random, 0.7, 1.3) : random_uniform(random, 1.5, 3));
        if (scene->facetted) r = radius * random_uniform(random, 0.7, 1.6); /* crystals of one time are alike */
        layout->contaminants[i] = (struct contaminant){
            .x = random_uniform(random, 0, scene->nx),
            .y = random_uniform(random, 0, scene->ny),
            .radius = r,
            .depth = scene->facetted ? random_uniform(random, 0.14, 0.16) : random_uniform(random, 0.06, 0.16),
            .wobble = {random_uniform(random, 0, 2 * M_PI), random_uniform(random, 0, 2 * M_PI)},
        };
    }
    layout->has_carbon = random_uniform(random, 0, 1) < scene->carbon;
    double angle = random_uniform(random, 0, 2 * M_PI), part = random_uniform(random, 0.08, 0.25);
    layout->carbon_x = cos(angle);
    layout->carbon_y = sin(angle);
    double low = fmin(0, layout->carbon_x) * scene->nx + fmin(0, layout->carbon_y) * scene->ny;
    double high = fmax(0, layout->carbon_x) * scene->nx + fmax(0, layout->carbon_y) * scene->ny;
    layout->carbon_offset = low + part * (high - low);
}

static void draw_optics(const struct scene *scene, struct random *random, struct layout *layout) {
    double mean = random_uniform(random, scene->defocus_min, scene->defocus_max);
    double difference = random_uniform(random, 0, scene->astigmatism);
    layout->defocus_u = mean + difference / 2;
    layout->defocus_v = mean - difference / 2;
    layout->defocus_angle = random_uniform(random, 0, 180);
    layout->slope_x = random_uniform(random, -0.03, 0.03);
    layout->slope_y = random_uniform(random, -0.03, 0.03);
    layout->bow = random_uniform(random, -0.03, 0.03);
    /* Drifted micrographs are spread over the session. */
    int each = scene->drifted > 0 ? scene->micrographs / scene->drifted : 0;
    if (each > 0 && layout->index % each == each - 1 && layout->index / each < scene->drifted) {
        double angle = random_uniform(random, 0, 2 * M_PI), way = 60 / scene->pixel_size;
        layout->drift_x = way * cos(angle);
        layout->drift_y = way * sin(angle);
    }
}

enum status layout_draw(const struct scene *scene, double particle_radius, int index, struct layout *ret_layout,
                        struct err *err) {
    struct random random = random_stream(scene->seed, (uint64_t)index, 2);
    struct layout layout = {.index = index};
    snprintf(layout.name, sizeof layout.name, "%s_%05d", scene->movies ? "mov" : "mic", index + 1);
    TRY(mem_new((size_t)scene->particles + 1, sizeof *layout.particles, "particles of a micrograph", &layout.particles,
                err));
    draw_contamination(scene, particle_radius, &random, &layout);
    draw_optics(scene, &random, &layout);
    double low = scene->margin, right = scene->nx - 1 - scene->margin, top = scene->ny - 1 - scene->margin;
    for (long tries = 0; tries < (long)TRIES_EACH * scene->particles && layout.particle_count < scene->particles;
         tries++) {
        double x = random_uniform(&random, low, right), y = random_uniform(&random, low, top);
        if (!free_place(&layout, scene, particle_radius, x, y)) continue;
        struct particle *p = &layout.particles[layout.particle_count++];
        p->x = x;
        p->y = y;
        p->rot = random_uniform(&random, -180, 180);
        p->tilt = acos(random_uniform(&random, -1, 1)) * 180 / M_PI;
        p->psi = random_uniform(&random, -180, 180);
    }
    *ret_layout = layout;
    return STATUS_OK;
}

void layout_move(struct layout *layout, int dx, int dy) {
    for (int i = 0; i < layout->particle_count; i++) {
        layout->particles[i].x += dx;
        layout->particles[i].y += dy;
    }
    for (int i = 0; i < layout->contaminant_count; i++) {
        layout->contaminants[i].x += dx;
        layout->contaminants[i].y += dy;
    }
    layout->carbon_offset += dx * layout->carbon_x + dy * layout->carbon_y;
}

void layout_destroy(struct layout *layout) {
    mem_free(&layout->particles);
    layout->particle_count = 0;
}
