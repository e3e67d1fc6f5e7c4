#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "common/multiversion.h"
#include "kernels/ctf/ctf.h"
#include "kernels/ctf_fit/ctf_fit_private.h"

/* Steps of the astigmatism (half of U − V, Å) and of the angle (sectors) that are tried. */
enum { HALF_STEP = 100, ANGLE_STEP = 2, PHASE_STEP = 10 };

enum status ctf_list_pixels(struct ctf_fit *fit, const struct ctf_fit_options *o, double low, double high,
                            struct err *err) {
    struct ctf_pixels *p = &fit->pixels;
    int box = fit->box, columns = box / 2 + 1, most = (int)ceil(high);
    double lambda = ctf_wavelength(o->voltage), step = 1 / (box * o->pixel_size);
    double quartic = M_PI * o->spherical_aberration * 1e7 * lambda * lambda * lambda;
    p->count = 0;
    for (int ky = -most; ky <= most; ky++)
        for (int kx = 2; kx <= most && kx < columns; kx++) { /* the axes hold what the borders leave */
            double r2 = (double)kx * kx + (double)ky * ky, u2 = r2 * step * step;
            if (r2 < low * low || r2 > high * high || abs(ky) < 2 || p->count == p->capacity) continue;
            size_t i = p->count++, row = (size_t)(ky < 0 ? ky + box : ky);
            p->radius[i] = (float)sqrt(r2);
            p->slope[i] = (float)(2 * M_PI * lambda * u2);
            p->cosine[i] = (float)(((double)kx * kx - (double)ky * ky) / r2);
            p->sine[i] = (float)(2.0 * kx * ky / r2);
            p->offset[i] = (float)(-quartic * u2 * u2 + 2 * asin(o->amplitude_contrast));
            p->value[i] = fit->flat[row * (size_t)columns + (size_t)kx];
            p->weight[i] = (float)exp(-CTF_DECAY * u2);
        }
    FAIL_IF(p->count < 500, err, STATUS_BAD_ARGUMENT,
            "%.1f to %.1f Å leave %zu of the spectrum's pixels (%d px, %.2f Å/px): widen `resolution`", o->low, o->high,
            p->count, box, o->pixel_size);
    return STATUS_OK;
}

struct tables {
    int rings, defoci; /* lengths */
    double first;      /* px of the first ring; Å of the first defocus is `start` */
    double start;
    double power; /* sum of the squares of all averages, weighted */
};

/* Averages the pixels over sectors and rings: a ring of sector a stands at rings[a * t->rings], its weight further on. */
static void fill_rings(struct ctf_fit *fit, const struct tables *t) {
    const struct ctf_pixels *p = &fit->pixels;
    float *values = fit->rings, *weights = fit->rings + (size_t)CTF_SECTORS * (size_t)t->rings;
    memset(fit->rings, 0, 2 * (size_t)CTF_SECTORS * (size_t)t->rings * sizeof *fit->rings);
    for (size_t i = 0; i < p->count; i++) {
        double angle = atan2((double)p->sine[i], (double)p->cosine[i]) / 2; /* −90° to 90° */
        int sector = (int)((angle / M_PI + 0.5) * CTF_SECTORS), ring = (int)((double)p->radius[i] - t->first);
        sector = sector >= CTF_SECTORS ? CTF_SECTORS - 1 : sector;
        if (ring < 0 || ring >= t->rings) continue;
        values[sector * t->rings + ring] += p->value[i];
        weights[sector * t->rings + ring] += 1;
    }
}

/* Returns Σ value · model and Σ weight · model² over the rings of a sector. */
MULTIVERSION static void compare_rings(const float *restrict values, const float *restrict weights,
                                       const float *restrict model, int rings, float *ret_sum, float *ret_norm) {
    float sum = 0, norm = 0;
    for (int r = 0; r < rings; r++) {
        sum += values[r] * model[r];
        norm += weights[r] * model[r] * model[r];
    }
    *ret_sum = sum;
    *ret_norm = norm;
}

/* Fills table and norm for some defoci in all sectors. scratch: two arrays of a value for each ring. */
static void fill_part(struct ctf_fit *fit, const struct ctf_fit_options *o, const struct tables *t, double phase,
                      int part, float *scratch) {
    const float *values = fit->rings, *weights = fit->rings + (size_t)CTF_SECTORS * (size_t)t->rings;
    int begin = (int)((long long)t->defoci * part / CTF_PARTS);
    int end = (int)((long long)t->defoci * (part + 1) / CTF_PARTS);
    double step = 1 / (fit->box * o->pixel_size);
    float *model = scratch, *decay = scratch + t->rings;
    for (int r = 0; r < t->rings; r++)
        decay[r] = (float)exp(-CTF_DECAY * pow((t->first + r + 0.5) * step, 2));
    for (int d = begin; d < end; d++) {
        for (int r = 0; r < t->rings; r++)
            model[r] =
                -decay[r] * (float)cos(ctf_twice_phase(o, t->start + d * CTF_STEP, phase, (t->first + r + 0.5) * step));
        for (int a = 0; a < CTF_SECTORS; a++)
            compare_rings(values + a * t->rings, weights + a * t->rings, model, t->rings,
                          &fit->table[(size_t)a * (size_t)t->defoci + (size_t)d],
                          &fit->norm[(size_t)a * (size_t)t->defoci + (size_t)d]);
    }
}

/* Fills table and norm, at one phase shift. */
static void fill_tables(struct ctf_fit *fit, const struct ctf_fit_options *o, const struct tables *t, double phase) {
#pragma omp parallel for num_threads(fit->threads) schedule(static)
    for (int part = 0; part < CTF_PARTS; part++)
        fill_part(fit, o, t, phase, part, fit->scratch + (size_t)part * 2 * (size_t)fit->box);
}

struct best {
    double score;
    struct ctf_point point;
};

MULTIVERSION static void add_to(const float *restrict values, int count, float *restrict sum) {
    for (int i = 0; i < count; i++)
        sum[i] += values[i];
}

/* Tries all means with one astigmatism (half of U − V, and the sector of its angle). */
static void try_means(const struct ctf_fit *fit, const struct ctf_fit_options *o, const struct tables *t, double half,
                      int sector, double phase, struct best *best) {
    int margin = (int)ceil(half / CTF_STEP), count = t->defoci - 2 * margin;
    float *sum = fit->trial, *norm = fit->trial + t->defoci;
    memset(fit->trial, 0, 2 * (size_t)t->defoci * sizeof *fit->trial);
    for (int a = 0; a < CTF_SECTORS && count > 0; a++) {
        int shift = (int)lround(half * cos(2 * M_PI * (a - sector) / CTF_SECTORS) / CTF_STEP);
        size_t at = (size_t)a * (size_t)t->defoci + (size_t)(margin + shift);
        add_to(fit->table + at, count, sum);
        add_to(fit->norm + at, count, norm);
    }
    for (int d = 0; d < count; d++) {
        double mean = t->start + (d + margin) * CTF_STEP;
        if (mean < o->defocus_min || mean > o->defocus_max) continue;
        double score = norm[d] > 0 ? (double)sum[d] / sqrt((double)norm[d]) : 0;
        if (score <= best->score) continue;
        double angle = M_PI * ((sector + 0.5) / CTF_SECTORS - 0.5);
        *best = (struct best){score, {mean, half * cos(2 * angle), half * sin(2 * angle), phase}};
    }
}

static enum status make_room(struct ctf_fit *fit, size_t count, struct err *err) {
    if (count <= fit->table_room) return STATUS_OK;
    mem_free(&fit->table);
    mem_free(&fit->norm);
    mem_free(&fit->trial);
    fit->table_room = 0;
    TRY(mem_new(count, sizeof *fit->table, "scores of defoci", &fit->table, err));
    TRY(mem_new(count, sizeof *fit->norm, "scores of defoci", &fit->norm, err));
    TRY(mem_new(count, sizeof *fit->trial, "scores of defoci", &fit->trial, err)); /* uses 2 of CTF_SECTORS rows */
    fit->table_room = count;
    return STATUS_OK;
}

enum status ctf_search(struct ctf_fit *fit, const struct ctf_fit_options *o, double low, double high,
                       struct ctf_point *ret_best, struct err *err) {
    double reach = o->astigmatism_max / 2;
    struct tables t = {.first = floor(low),
                       .rings = (int)(ceil(high) - floor(low)) + 1,
                       .start = CTF_STEP * floor((o->defocus_min - reach) / CTF_STEP - 1)};
    t.defoci = (int)ceil((o->defocus_max + reach - t.start) / CTF_STEP) + 2;
    TRY(make_room(fit, (size_t)CTF_SECTORS * (size_t)t.defoci, err));
    fill_rings(fit, &t);
    struct best best = {.score = -1e30,
                        .point = {.mean = (o->defocus_min + o->defocus_max) / 2, .phase = o->phase_min}};
    double last = o->find_phase ? o->phase_max : o->phase_min;
    for (double phase = o->phase_min; phase <= last + 1e-9; phase += PHASE_STEP) {
        fill_tables(fit, o, &t, phase);
        try_means(fit, o, &t, 0, 0, phase, &best);
        for (double half = HALF_STEP; half <= reach; half += HALF_STEP)
            for (int sector = 0; sector < CTF_SECTORS; sector += ANGLE_STEP)
                try_means(fit, o, &t, half, sector, phase, &best);
    }
    *ret_best = best.point;
    return STATUS_OK;
}
