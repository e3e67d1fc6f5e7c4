/* Makes the bands, the windows' weights, and the tables over the radius. */
#include <math.h>
#include <string.h>

#include "common/fft.h"
#include "common/memory.h"
#include "kernels/local_resolution/local_resolution_private.h"

/* A band reaches from k (1 − HALF) to k (1 + HALF); the next one is STEP times further out. The window's standard
 * deviation is WINDOW periods, and its positions are half a deviation apart. */
static const double FIRST = 4, STEP = 1.125, HALF = 0.25, LEAST_HALF = 2, WINDOW = 1.5, CUT = 3;
static const double LEAST_POWER = 1e-10; /* of the strongest shell: less is rounding */

static double raised_cosine(const struct local_band *b, double middle, double half, double r) {
    if (r < b->first || r > b->last) return 0;
    return 0.5 + 0.5 * cos(M_PI * (r - middle) / half);
}

/* Chooses a box in which the band fits, and whose products do not fold back into what the window keeps of them. Few
 * sizes occur, so that few plans are needed. */
static int grid_of(int box, double k, double last) {
    static const double parts[] = {0.125, 0.1875, 0.25, 0.375, 0.5, 0.75};
    double least = fmax(2.6 * k, 2 * last + 2);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        int grid = fft_good_size((int)ceil(parts[i] * box));
        if (grid >= least && grid < box) return grid;
    }
    return box;
}

static struct local_band band_of(int box, double k) {
    const double half = fmax(HALF * k, LEAST_HALF);
    struct local_band b = {.first = fmax(k - half, 1), .last = fmin(k + half, box / 2)};
    enum { STEPS = 400 };
    double power = 0, moment = 0;
    for (int i = 0; i < STEPS; i++) {
        double r = b.first + (b.last - b.first) * (i + 0.5) / STEPS, gain = raised_cosine(&b, k, half, r) * r;
        power += gain * gain;
        moment += gain * gain * r;
    }
    b.centre = moment / power;
    b.grid = grid_of(box, k, b.last);
    b.sigma = WINDOW * b.grid / b.centre;
    b.points = (int)ceil(2 * b.centre / WINDOW) + 1;
    return b;
}

/* Bands beyond the first one that reaches the last shell are left out, and the finest low-pass ends there. */
static void end_at(int last_shell, struct local_plan *p) {
    while (p->count > 1 && p->bands[p->count - 2].centre >= last_shell)
        p->count--;
    while (p->level_count > 0 && p->levels[p->level_count - 1] >= last_shell)
        p->level_count--;
    p->levels[p->level_count++] = p->last_shell = last_shell;
}

void local_plan_make(int box, int last_shell, struct local_plan *ret_plan) {
    struct local_plan *p = ret_plan;
    *p = (struct local_plan){.box = box, .last_shell = box / 2};
    for (double k = FIRST; k * (1 - HALF / 2) < box / 2 && p->count < LOCAL_BANDS; k *= STEP)
        p->bands[p->count++] = band_of(box, k);
    for (int i = 0; i < p->count; i += 2)
        p->levels[p->level_count++] = p->bands[i].centre;
    p->levels[p->level_count - 1] = box / 2;
    if (last_shell > 0 && last_shell < box / 2) end_at(last_shell, p);
}

int local_table_size(int box) {
    return LOCAL_FINE * box + 1; /* the corner is at √3/2 box */
}

void local_band_gains(const struct local_plan *plan, int band, const double *power, float *ret_gains) {
    const struct local_band *b = &plan->bands[band];
    const double k = FIRST * pow(STEP, band), half = fmax(HALF * k, LEAST_HALF);
    double most = 0;
    for (int s = 1; s <= plan->box / 2; s++)
        most = fmax(most, power[s]);
    for (int i = 0; i < local_table_size(plan->box); i++) {
        double r = (double)i / LOCAL_FINE;
        int shell = (int)(r + 0.5);
        bool used = shell <= plan->box / 2 && power[shell] > LEAST_POWER * most;
        ret_gains[i] = used ? (float)(raised_cosine(b, k, half, r) / sqrt(power[shell])) : 0;
    }
}

/* Returns the MTF at radius r: between shells by a line, beyond the last one its value. */
static double passed(const struct local_resolution_options *o, double r) {
    int shell = (int)r;
    if (o->mtf == NULL) return 1;
    if (shell >= o->box / 2) return (double)o->mtf[o->box / 2];
    return (double)o->mtf[shell] + (r - shell) * ((double)o->mtf[shell + 1] - (double)o->mtf[shell]);
}

void local_level_gains(const struct local_plan *plan, int level, const struct local_resolution_options *o,
                       float *ret_gains) {
    const double limit = plan->levels[level], length = o->box * o->pixel_size;
    const bool whole = limit >= plan->box / 2; /* up to the rim of the box, as a shell */
    for (int i = 0; i < local_table_size(plan->box); i++) {
        double r = (double)i / LOCAL_FINE, over = r - (limit - 1), s = r / length;
        double keep = over <= 0 ? 1 : over >= 2 ? 0 : 0.5 + 0.5 * cos(M_PI * over / 2);
        if (whole) keep = r < limit + 0.5 ? 1 : 0;
        ret_gains[i] = (float)(keep * exp(-o->bfactor / 4 * s * s) / passed(o, r) / pow(o->box, 3));
    }
}

enum status local_taps_make(int line, int points, double pitch, double sigma, struct local_taps *ret_taps,
                            struct err *err) {
    const int reach = (int)ceil(CUT * sigma), length = 2 * reach + 1;
    struct local_taps t = {.points = points, .length = length < line ? length : line};
    enum status status = mem_new((size_t)points, sizeof *t.starts, "windows", &t.starts, err);
    if (status == STATUS_OK)
        status = mem_new((size_t)points * (size_t)t.length, sizeof *t.weights, "windows", &t.weights, err);
    if (status != STATUS_OK) {
        local_taps_destroy(&t);
        return status;
    }
    const double whole = sigma * sqrt(2 * M_PI);
    for (int i = 0; i < points; i++) {
        const double at = i * pitch;
        const int first = (int)floor(at + 0.5) - reach;
        float *weights = t.weights + (size_t)i * (size_t)t.length;
        t.starts[i] = ((first % line) + line) % line;
        for (int j = 0; j < length; j++) {
            double away = (first + j - at) / sigma;
            weights[j % line] += (float)(exp(-away * away / 2) / whole);
        }
    }
    *ret_taps = t;
    return STATUS_OK;
}

void local_taps_destroy(struct local_taps *t) {
    mem_free(&t->starts);
    mem_free(&t->weights);
}
