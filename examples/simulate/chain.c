#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "examples/simulate/phantom.h"
#include "examples/simulate/random.h"

enum { DOMAINS = 7, HELIX_MIN = 5, HELIX_MAX = 20, LOOP = 3, ATTEMPTS = 40000, CELLS = 48 };

static const double STEP = 3.8;            /* Å between neighbours in the chain */
static const double HELIX_RADIUS = 2.3;    /* Å; with the next two, residues of a helix are 3.8 Å apart */
static const double HELIX_RISE = 1.5;      /* Å a residue */
static const double HELIX_TURN = 1.745329; /* 100°, in radians */
static const double CLEARANCE = 4.6;       /* Å between other residues */
static const double VOLUME = 140;          /* Å³ a residue of a well-packed domain */

struct domain {
    double x, y, z, radius;
};

/* The chain so far. Its residues lie in cells as wide as the clearance, so a test for a clash looks at 27 cells. */
struct chain {
    struct residue *residues;
    size_t count, capacity;
    int *next;
    int heads[CELLS * CELLS * CELLS];
    double origin, width;
};

static int cell_of(const struct chain *chain, double coordinate) {
    int cell = (int)((coordinate - chain->origin) / chain->width);
    return cell < 0 ? 0 : cell >= CELLS ? CELLS - 1 : cell;
}

static bool clashes(const struct chain *chain, const struct residue *r) {
    int cx = cell_of(chain, r->x), cy = cell_of(chain, r->y), cz = cell_of(chain, r->z);
    for (int z = cz > 0 ? cz - 1 : 0; z <= cz + 1 && z < CELLS; z++)
        for (int y = cy > 0 ? cy - 1 : 0; y <= cy + 1 && y < CELLS; y++)
            for (int x = cx > 0 ? cx - 1 : 0; x <= cx + 1 && x < CELLS; x++)
                for (int i = chain->heads[(z * CELLS + y) * CELLS + x]; i >= 0; i = chain->next[i]) {
                    const struct residue *o = &chain->residues[i];
                    double dx = o->x - r->x, dy = o->y - r->y, dz = o->z - r->z;
                    if (dx * dx + dy * dy + dz * dz < CLEARANCE * CLEARANCE) return true;
                }
    return false;
}

static void append(struct chain *chain, const struct residue *r) {
    int cell = (cell_of(chain, r->z) * CELLS + cell_of(chain, r->y)) * CELLS + cell_of(chain, r->x);
    chain->residues[chain->count] = *r;
    chain->next[chain->count] = chain->heads[cell];
    chain->heads[cell] = (int)chain->count++;
}

/* Lays a loop of LOOP residues away from the chain's end (if there is one to go on from), then a helix. Returns the
 * number of residues in out[], or 0 if one is outside the domain or clashes. */
static int lay_segment(const struct chain *chain, const struct domain *domain, bool go_on, struct random *random,
                       struct residue out[LOOP + HELIX_MAX]) {
    double axis[3], side[3], away[3], start[3];
    random_direction(random, axis);
    random_direction(random, away);
    int length = HELIX_MIN + (int)(random_next(random) % (HELIX_MAX - HELIX_MIN + 1));
    double phase = random_uniform(random, 0, 2 * M_PI);
    int count = 0;
    if (go_on) {
        const struct residue *end = &chain->residues[chain->count - 1];
        for (int i = 1; i <= LOOP; i++)
            out[count++] = (struct residue){end->x + i * STEP * away[0], end->y + i * STEP * away[1],
                                            end->z + i * STEP * away[2], 1};
        for (int d = 0; d < 3; d++)
            start[d] = (d == 0 ? end->x : d == 1 ? end->y : end->z) + (LOOP + 1) * STEP * away[d];
    } else {
        double r = domain->radius * cbrt(random_uniform(random, 0, 1));
        start[0] = domain->x + r * away[0];
        start[1] = domain->y + r * away[1];
        start[2] = domain->z + r * away[2];
    }
    /* Two directions across the axis. */
    double reference[3] = {fabs(axis[0]) < 0.6, fabs(axis[0]) >= 0.6, 0};
    double dot = reference[0] * axis[0] + reference[1] * axis[1], norm = sqrt(1 - dot * dot);
    for (int d = 0; d < 3; d++)
        side[d] = (reference[d] - dot * axis[d]) / norm;
    double across[3] = {axis[1] * side[2] - axis[2] * side[1], axis[2] * side[0] - axis[0] * side[2],
                        axis[0] * side[1] - axis[1] * side[0]};
    for (int i = 0; i < length; i++) {
        double c = HELIX_RADIUS * cos(phase + i * HELIX_TURN), s = HELIX_RADIUS * sin(phase + i * HELIX_TURN);
        double p[3];
        for (int d = 0; d < 3; d++)
            p[d] = start[d] + i * HELIX_RISE * axis[d] + c * side[d] + s * across[d];
        out[count++] = (struct residue){p[0], p[1], p[2], 1};
    }
    for (int i = 0; i < count; i++) {
        double dx = out[i].x - domain->x, dy = out[i].y - domain->y, dz = out[i].z - domain->z;
        bool joined = go_on && i == 0; /* the first residue is nearer to the chain's end than the clearance */
        if (dx * dx + dy * dy + dz * dz > domain->radius * domain->radius || (!joined && clashes(chain, &out[i])))
            return 0;
    }
    return count;
}

static void fill_domain(struct chain *chain, const struct domain *domain, struct random *random) {
    double volume = 4 * M_PI / 3 * domain->radius * domain->radius * domain->radius;
    size_t target = chain->count + (size_t)(volume / VOLUME);
    bool started = false;
    for (int attempt = 0; attempt < ATTEMPTS && chain->count < target; attempt++) {
        struct residue segment[LOOP + HELIX_MAX];
        if (chain->count + LOOP + HELIX_MAX > chain->capacity) return;
        /* Begins afresh now and then: otherwise a chain that has walked into a corner would end the domain. */
        int count = lay_segment(chain, domain, started && attempt % 4 != 0, random, segment);
        for (int i = 0; i < count; i++) {
            segment[i].weight = random_uniform(random, 0.7, 1.3);
            append(chain, &segment[i]);
        }
        started = started || count > 0;
    }
}

/* Places balls of different sizes, each touching an earlier one, all within the diameter. */
static int place_domains(double diameter, struct random *random, struct domain domains[DOMAINS]) {
    int count = 0;
    for (int attempt = 0; attempt < 20000 && count < DOMAINS; attempt++) {
        struct domain d = {.radius = diameter * random_uniform(random, 0.14, 0.25)};
        double direction[3];
        random_direction(random, direction);
        double from[3] = {0, 0, 0}, distance = random_uniform(random, 0, diameter / 2 - d.radius);
        if (count > 0) {
            const struct domain *other = &domains[random_next(random) % (uint64_t)count];
            from[0] = other->x, from[1] = other->y, from[2] = other->z;
            distance = 0.92 * (d.radius + other->radius);
        }
        d.x = from[0] + distance * direction[0];
        d.y = from[1] + distance * direction[1];
        d.z = from[2] + distance * direction[2];
        bool fits = sqrt(d.x * d.x + d.y * d.y + d.z * d.z) + d.radius <= diameter / 2;
        for (int i = 0; i < count && fits; i++) {
            double dx = d.x - domains[i].x, dy = d.y - domains[i].y, dz = d.z - domains[i].z;
            fits = sqrt(dx * dx + dy * dy + dz * dz) >= 0.9 * (d.radius + domains[i].radius);
        }
        if (fits) domains[count++] = d;
    }
    return count;
}

static void centre(struct phantom *phantom) {
    double x = 0, y = 0, z = 0, weight = 0;
    for (size_t i = 0; i < phantom->count; i++) {
        const struct residue *r = &phantom->residues[i];
        x += r->weight * r->x;
        y += r->weight * r->y;
        z += r->weight * r->z;
        weight += r->weight;
    }
    double farthest = 0;
    for (size_t i = 0; i < phantom->count; i++) {
        struct residue *r = &phantom->residues[i];
        r->x -= x / weight;
        r->y -= y / weight;
        r->z -= z / weight;
        double square = r->x * r->x + r->y * r->y + r->z * r->z;
        farthest = square > farthest ? square : farthest;
    }
    phantom->radius = sqrt(farthest) + 2 * phantom->sigma;
}

enum status phantom_create(uint64_t seed, double diameter, struct phantom *ret_phantom, struct err *err) {
    struct random random = random_stream(seed, 0, 1);
    size_t capacity = (size_t)(M_PI / 6 * diameter * diameter * diameter / VOLUME) + LOOP + HELIX_MAX;
    struct residue *residues = NULL;
    _cleanup_(mem_free) int *next = NULL;
    _cleanup_(mem_free) struct chain *chain = NULL;
    TRY(mem_new(capacity, sizeof *next, "phantom", &next, err));
    TRY(mem_new(1, sizeof *chain, "phantom", &chain, err));
    TRY(mem_new(capacity, sizeof *residues, "phantom", &residues, err));
    chain->residues = residues;
    chain->capacity = capacity;
    chain->next = next;
    chain->origin = -diameter / 2 - 1;
    chain->width = fmax(CLEARANCE, (diameter + 2) / CELLS);
    memset(chain->heads, -1, sizeof chain->heads);
    struct domain domains[DOMAINS];
    int count = place_domains(diameter, &random, domains);
    for (int i = 0; i < count; i++)
        fill_domain(chain, &domains[i], &random);
    if (chain->count < 50) {
        free(residues);
        FAIL(err, STATUS_BAD_ARGUMENT, "a phantom of %g Å across holds only %zu residues: choose a larger diameter",
             diameter, chain->count);
    }
    struct phantom phantom = {residues, chain->count, .sigma = 2.4};
    centre(&phantom);
    *ret_phantom = phantom;
    return STATUS_OK;
}

void phantom_destroy(struct phantom *phantom) {
    mem_free(&phantom->residues);
    phantom->count = 0;
}
