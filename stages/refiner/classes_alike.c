/* Do particles differ at all? Two classes can always be made: particles then lie apart along the difference of the
 * classes, because their own noise has made it. So this test finds the difference of some particles, and looks at how
 * far others lie apart along it.
 *
 * Poses are kept. Y is a particle's image less the projection of the map of all. A difference D and the particles'
 * coordinates along it, t = Σ Re(Y conj cD)/σ², make each other better in turn (the power method for the first
 * principal component), from coordinates by chance, in all blocks of particles but one. The particles of that block
 * have had no part in D: if they are alike, t has the variance Σ |cD|²/σ². If they are of two kinds, their coordinates
 * are spread by that as well.
 *
 * Poses are not quite right, and grey scales neither: what the map would change by if a particle were turned, shifted or
 * scaled a little is taken out of Y and D. Noise that is not quite as assumed spreads particles too. Along D turned about the
 * centre, which is as strong a map of the same spectrum, they do so as well, and differences of the particles do not. */
#include <math.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/fsc/fsc.h"
#include "kernels/prepare/prepare.h"
#include "stages/refiner/refiner_private.h"

enum { PARTICLES_MOST = 1000, BLOCKS = 4, PASSES = 15, TURNS = 4, IMAGES_AT_A_TIME = 64, MOVES = 6 };
/* Slices are small: more threads would wait for each other longer than they work. */
enum { THREADS_MOST = 16 };
enum { SHELLS_LEAST = 6, SHELLS_MOST = 16, MARGIN = 8 };

static const double LEAST = 3;     /* deviations: so many are no chance */
static const double PRIOR = 0.1;   /* power of a difference over that of the map */
static const double OUTLIER = 2.5; /* a coordinate counts up to so many deviations */
static const double EMPTY = 1e-30;

/* Slices that are added to a map together. */
struct some_slices {
    int count;
    float (*poses)[9];    /* [particles] */
    float *data, *weight; /* [particles][2·pixels]; [particles][pixels] */
};

struct work {
    struct refiner *r;
    int box, size, count, threads;  /* px; compared up to size/2; particles */
    double radius;                  /* px of `box` */
    struct fourier_pixels all, own; /* the same pixels in the particles' box, and in `box` */
    float *data, *weight;           /* [count][2·pixels]: c/σ² Y; [count][pixels]: c²/σ² */
    float *moves;                   /* [count][MOVES][2·pixels]: orthonormal changes of the map's projection */
    double *coordinates;            /* [count] */
    float (*poses)[9];              /* [count] */
    float *slices;                  /* [PARTICLES_MOST][2·pixels]; of each thread: [1 + MOVES] */
    struct some_slices some;
    struct accumulator *sum;
    struct projector *projector;
    float *map; /* box³ */
};

static void release(struct work *w) {
    mem_free(&w->data);
    mem_free(&w->weight);
    mem_free(&w->moves);
    mem_free(&w->coordinates);
    mem_free(&w->poses);
    mem_free(&w->slices);
    mem_free(&w->some.poses);
    mem_free(&w->some.data);
    mem_free(&w->some.weight);
    mem_free(&w->map);
    accumulator_destroy(&w->sum);
    projector_destroy(&w->projector);
    fourier_pixels_destroy(&w->all);
    fourier_pixels_destroy(&w->own);
}

static enum status allocate(struct work *w, struct err *err) {
    size_t voxels = (size_t)w->box * (size_t)w->box * (size_t)w->box, count = (size_t)w->count;
    TRY(fourier_pixels_create(w->r->box, w->size, &w->all, err));
    TRY(fourier_pixels_create(w->box, w->size, &w->own, err));
    size_t n = (size_t)w->own.count;
    TRY(mem_new(count * 2 * n, sizeof *w->data, "particles", &w->data, err));
    TRY(mem_new(count * n, sizeof *w->weight, "particles", &w->weight, err));
    TRY(mem_new(count * MOVES * 2 * n, sizeof *w->moves, "particles", &w->moves, err));
    TRY(mem_new(count, sizeof *w->coordinates, "particles", &w->coordinates, err));
    TRY(mem_new(count, sizeof *w->poses, "poses", &w->poses, err));
    TRY(mem_new(PARTICLES_MOST * 2 * n, sizeof *w->slices, "slices", &w->slices, err));
    TRY(mem_new(count, sizeof *w->some.poses, "slices", &w->some.poses, err));
    TRY(mem_new(count * 2 * n, sizeof *w->some.data, "slices", &w->some.data, err));
    TRY(mem_new(count * n, sizeof *w->some.weight, "slices", &w->some.weight, err));
    TRY(mem_new(voxels, sizeof *w->map, "a map", &w->map, err));
    TRY(projector_create(3, w->box, w->threads, &w->projector, err));
    return accumulator_create(3, w->box, w->size, &w->sum, err);
}

/* Turns that are in no point group: about (1, 2, 3), (−3, 1, 2), (2, −3, 1) and (1, 1, −2) by 77°, 101°, 131° and
 * 149°. */
static void turn(int which, double ret[9]) {
    static const double AXES[TURNS][3] = {{1, 2, 3}, {-3, 1, 2}, {2, -3, 1}, {1, 1, -2}};
    static const double ANGLES[TURNS] = {77, 101, 131, 149};
    const double *a = AXES[which], length = sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2]);
    const double u[3] = {a[0] / length, a[1] / length, a[2] / length};
    const double s = sin(ANGLES[which] * M_PI / 180), c = cos(ANGLES[which] * M_PI / 180);
    const double cross[9] = {0, -u[2], u[1], u[2], 0, -u[0], -u[1], u[0], 0};
    for (int i = 0; i < 9; i++)
        ret[i] = (i % 4 == 0 ? c : 0) + s * cross[i] + (1 - c) * u[i / 3] * u[i % 3];
}

/* Fills the poses in which a particle sees a map, and the turned maps. */
static void see(const float pose[9], float ret[1 + TURNS][9]) {
    memcpy(ret[0], pose, sizeof ret[0]);
    for (int k = 0; k < TURNS; k++) {
        double b[9];
        turn(k, b);
        for (int i = 0; i < 9; i++)
            ret[1 + k][i] = (float)(pose[i / 3 * 3] * b[i % 3] + pose[i / 3 * 3 + 1] * b[3 + i % 3] +
                                    pose[i / 3 * 3 + 2] * b[6 + i % 3]);
    }
}

/* Prepares particle i as the E-step does. */
static void prepare_one(struct work *w, int i, const float *image, struct prepare *prepare, float *spectrum,
                        float *ctf) {
    const struct refiner *r = w->r;
    const struct side *side = &r->sides[0];
    const struct particle *p = &r->set.particles[side->members[i]];
    size_t n = (size_t)w->all.count, at = (size_t)i * n;
    const struct prepare_options options = {.shift_x = (int)lround(p->origin[0]),
                                            .shift_y = (int)lround(p->origin[1]),
                                            .scale = side->average_norm / p->norm,
                                            .mask_radius = r->mask_radius};
    prepare_image(prepare, image, &options, &w->all, spectrum, NULL, NULL);
    fourier_pixels_shift(&w->all, w->all.count, spectrum, p->origin[0] - options.shift_x,
                         p->origin[1] - options.shift_y, w->data + 2 * at);
    const struct ctf *of_particle = particle_ctf(p);
    if (of_particle != NULL) ctf_at(of_particle, r->box, r->pixel_size, w->all.count, w->all.kx, w->all.ky, ctf);
    const float *sigma2 = side->sigma2 + (size_t)p->optics * (size_t)r->shells;
    for (size_t j = 0; j < n; j++) {
        float c = of_particle != NULL ? ctf[j] : 1, over = (float)r->mask_share / sigma2[w->all.shell[j]];
        w->data[2 * (at + j)] *= c * over;
        w->data[2 * (at + j) + 1] *= c * over;
        w->weight[at + j] = c * c * over;
    }
    for (int k = 0; k < 9; k++)
        w->poses[i][k] = (float)p->pose[k];
}

/* A thread prepares images with its own. */
struct preparing {
    struct prepare *prepare;
    float *spectrum, *ctf;
};

static void release_preparing(struct preparing *p, int threads) {
    for (int t = 0; p != NULL && t < threads; t++) {
        prepare_destroy(&p[t].prepare);
        mem_free(&p[t].spectrum);
        mem_free(&p[t].ctf);
    }
}

static enum status prepare_with(struct work *w, struct preparing *p, int threads, struct err *err) {
    const size_t n = (size_t)w->all.count;
    for (int t = 0; t < threads; t++) {
        TRY(prepare_create(w->r->box, &p[t].prepare, err));
        TRY(mem_new(2 * n, sizeof *p[t].spectrum, "a spectrum", &p[t].spectrum, err));
        TRY(mem_new(n, sizeof *p[t].ctf, "a CTF", &p[t].ctf, err));
    }
    for (int first = 0, count; first < w->count; first += count) {
        const float *const *images;
        count = w->count - first < IMAGES_AT_A_TIME ? w->count - first : IMAGES_AT_A_TIME;
        TRY(loader_take(w->r->loader, NULL, w->r->sides[0].members + first, count, &images, err));
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int t = 0; t < threads; t++)
            for (int i = t; i < count; i += threads)
                prepare_one(w, first + i, images[i], p[t].prepare, p[t].spectrum, p[t].ctf);
    }
    return STATUS_OK;
}

static enum status prepare_all(struct work *w, struct err *err) {
    const int threads = w->r->context.threads;
    _cleanup_(mem_free) struct preparing *p = NULL;
    TRY(mem_new((size_t)threads, sizeof *p, "preparing particles", &p, err));
    const enum status status = prepare_with(w, p, threads, err);
    release_preparing(p, threads);
    return status;
}

/* Sums the particles outside a block, each times its coordinate. */
static enum status sum_particles(struct work *w, int block, struct err *err) {
    const size_t n = (size_t)w->own.count;
    struct some_slices *some = &w->some;
    some->count = 0;
    for (int i = 0; i < w->count; i++) {
        const float *data = w->data + 2 * n * (size_t)i, *weight = w->weight + n * (size_t)i;
        float a = (float)w->coordinates[i];
        const size_t at = (size_t)some->count;
        if (i % BLOCKS == block) continue;
        for (size_t j = 0; j < 2 * n; j++)
            some->data[2 * n * at + j] = a * data[j];
        for (size_t j = 0; j < n; j++)
            some->weight[n * at + j] = a * a * weight[j];
        memcpy(some->poses[at], w->poses[i], sizeof *some->poses);
        some->count++;
    }
    TRY(accumulator_clear(w->sum, w->size, err));
    return accumulator_add(w->sum, &w->own, w->own.count, some->count, some->poses[0], some->data, some->weight,
                           w->threads, err);
}

/* Makes the map of the particles outside a block, each times its coordinate; ready for slices. block −1: of all. */
static enum status make_map(struct work *w, int block, const float *tau2, double fudge, struct err *err) {
    TRY(sum_particles(w, block, err));
    const struct reconstruct_options options = {
        .tau2 = tau2, .tau_fudge = fudge, .minres_shell = 1, .threads = w->threads};
    TRY(accumulator_finish(w->sum, NULL, w->threads, err));
    TRY(reconstruct_map(w->sum, &options, w->map, NULL, NULL, err));
    mask_sphere(3, w->box, w->map, w->radius, 2, 0);
    return projector_set_map(w->projector, w->map, w->size, err);
}

/* Returns Σ Re(a conj b) · weight. */
static double product(size_t n, const float *a, const float *b, const float *weight) {
    double sum = 0;
    for (size_t j = 0; j < n; j++)
        sum += ((double)a[2 * j] * b[2 * j] + (double)a[2 * j + 1] * b[2 * j + 1]) * weight[j];
    return sum;
}

/* Turns a pose by a small angle about axis x, y or z of the image. */
static void nudge(const float pose[9], int axis, double angle, float ret[9]) {
    int p = (axis + 1) % 3, q = (axis + 2) % 3;
    memcpy(ret, pose, 9 * sizeof *ret);
    for (int i = 0; i < 3; i++) {
        ret[3 * p + i] = (float)(cos(angle) * pose[3 * p + i] - sin(angle) * pose[3 * q + i]);
        ret[3 * q + i] = (float)(sin(angle) * pose[3 * p + i] + cos(angle) * pose[3 * q + i]);
    }
}

/* Fills the changes of a particle's projection, slices[0], with its scale, shifts and angles. slices: [1 + MOVES]. */
static void find_moves(const struct work *w, int i, const float *slices, float *moves) {
    size_t n = (size_t)w->own.count, size = 2 * n;
    memcpy(moves, slices, size * sizeof *moves);
    for (size_t j = 0; j < n; j++)
        for (int part = 0; part < 2; part++) {
            float turned = part == 0 ? -slices[2 * j + 1] : slices[2 * j];
            moves[size + 2 * j + (size_t)part] = (float)w->own.kx[j] * turned;
            moves[2 * size + 2 * j + (size_t)part] = (float)w->own.ky[j] * turned;
        }
    for (size_t axis = 0; axis < 3; axis++)
        for (size_t j = 0; j < size; j++)
            moves[(3 + axis) * size + j] = slices[(1 + 2 * axis) * size + j] - slices[(2 + 2 * axis) * size + j];
    const float *weight = w->weight + n * (size_t)i;
    for (size_t m = 0; m < MOVES; m++) {
        float *own = moves + m * size;
        double before = product(n, own, own, weight);
        for (size_t k = 0; k < m; k++) {
            const float *other = moves + k * size;
            float dot = (float)product(n, own, other, weight);
            for (size_t j = 0; j < size; j++)
                own[j] -= dot * other[j];
        }
        double norm = product(n, own, own, weight);
        float scale =
            norm > 1e-6 * before ? (float)(1 / sqrt(norm)) : 0; /* a sphere looks the same when it is turned */
        for (size_t j = 0; j < size; j++)
            own[j] *= scale;
    }
}

/* Takes the projection of the map of all away from a particle, and what a small move would change. slices: [1 + MOVES].
 * */
static void subtract_from(struct work *w, int i, float *slices) {
    static const double SMALL = 0.05; /* radians */
    const size_t n = (size_t)w->own.count, size = 2 * n;
    float *data = w->data + size * (size_t)i, *moves = w->moves + MOVES * size * (size_t)i, poses[1 + MOVES][9];
    const float *weight = w->weight + n * (size_t)i;
    memcpy(poses[0], w->poses[i], sizeof poses[0]);
    for (int k = 0; k < MOVES; k++)
        nudge(w->poses[i], k / 2, k % 2 == 0 ? SMALL : -SMALL, poses[1 + k]);
    projector_slices(w->projector, &w->own, w->own.count, 1 + MOVES, poses[0], 1, slices);
    find_moves(w, i, slices, moves);
    for (size_t j = 0; j < size; j++)
        data[j] -= weight[j / 2] * slices[j];
    for (size_t m = 0; m < MOVES; m++) {
        const float *move = moves + m * size;
        double dot = 0;
        for (size_t j = 0; j < size; j++)
            dot += (double)move[j] * data[j];
        for (size_t j = 0; j < size; j++)
            data[j] -= (float)dot * weight[j / 2] * move[j];
    }
}

/* Returns where thread t may keep up to 1 + MOVES slices. */
static float *slices_of(const struct work *w, int t) {
    return w->slices + (size_t)t * (1 + MOVES) * 2 * (size_t)w->own.count;
}

static void subtract_map(struct work *w) {
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int t = 0; t < w->threads; t++)
        for (int i = t; i < w->count; i += w->threads)
            subtract_from(w, i, slices_of(w, t));
}

/* Returns the coordinate of particle i along a slice, and its variance if particles are alike. */
static double coordinate(const struct work *w, int i, const float *slice, double *ret_variance) {
    size_t n = (size_t)w->own.count;
    const float *data = w->data + 2 * n * (size_t)i, *weight = w->weight + n * (size_t)i;
    double dot = 0;
    for (size_t j = 0; j < 2 * n; j++)
        dot += (double)slice[j] * data[j];
    if (ret_variance == NULL) return dot;
    *ret_variance = product(n, slice, slice, weight);
    for (size_t m = 0; m < MOVES; m++)
        *ret_variance -= pow(product(n, slice, w->moves + (MOVES * (size_t)i + m) * 2 * n, weight), 2);
    return dot;
}

/* Finds the coordinates of the particles outside a block anew, with the mean 0 and the variance 1. */
static void find_coordinates(struct work *w, int block) {
    double sum = 0, squares = 0;
    int count = 0;
    size_t n = (size_t)w->own.count;
    projector_slices(w->projector, &w->own, w->own.count, w->count, w->poses[0], w->threads, w->slices);
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int i = 0; i < w->count; i++)
        w->coordinates[i] = coordinate(w, i, w->slices + 2 * n * (size_t)i, NULL);
    for (int i = 0; i < w->count; i++)
        if (i % BLOCKS != block) sum += w->coordinates[i], squares += pow(w->coordinates[i], 2), count++;
    double mean = sum / count, deviation = sqrt(fmax(squares / count - mean * mean, EMPTY));
    for (int i = 0; i < w->count; i++)
        w->coordinates[i] = fmax(fmin((w->coordinates[i] - mean) / deviation, OUTLIER), -OUTLIER);
}

/* A particle's spread along D, and on average along D turned. */
struct spread {
    double along, turned;
};

static struct spread spread_of(const struct work *w, int i, float *slices) {
    float poses[1 + TURNS][9];
    struct spread found = {0};
    see(w->poses[i], poses);
    projector_slices(w->projector, &w->own, w->own.count, 1 + TURNS, poses[0], 1, slices);
    for (int k = 0; k <= TURNS; k++) {
        double variance, t = coordinate(w, i, slices + (size_t)k * 2 * (size_t)w->own.count, &variance);
        const double spread = t * t / fmax(variance, EMPTY);
        *(k == 0 ? &found.along : &found.turned) += k == 0 ? spread : spread / TURNS;
    }
    return found;
}

/* Adds the spreads of the particles of a block, in their order. */
static void add_spreads(const struct work *w, int block, struct spread *sum) {
    struct spread of[PARTICLES_MOST];
#pragma omp parallel for num_threads(w->threads) schedule(static)
    for (int t = 0; t < w->threads; t++)
        for (int i = block + t * BLOCKS; i < w->count; i += w->threads * BLOCKS)
            of[i] = spread_of(w, i, slices_of(w, t));
    for (int i = block; i < w->count; i += BLOCKS)
        sum->along += of[i].along, sum->turned += of[i].turned;
}

static enum status find_spreads(struct work *w, struct spread *sum, struct err *err) {
    const struct reference *c = w->r->sides[0].references;
    const struct particle *particles = w->r->set.particles;
    TRY(allocate(w, err));
    TRY(prepare_all(w, err));
    for (int i = 0; i < w->count; i++)
        w->coordinates[i] = 1;
    TRY(make_map(w, -1, NULL, 1, err));
    subtract_map(w);
    for (int block = 0; block < BLOCKS; block++) {
        for (int i = 0; i < w->count; i++)
            w->coordinates[i] = particle_hash(particles[w->r->sides[0].members[i]].name, 79) % 2 == 0 ? 1 : -1;
        for (int pass = 0; pass < PASSES; pass++) {
            if (pass > 0) find_coordinates(w, block);
            TRY(make_map(w, block, c->tau2, PRIOR, err));
        }
        add_spreads(w, block, sum);
    }
    return STATUS_OK;
}

enum status refiner_compare_classes(struct refiner *r, struct err *err) {
    const double side = r->box * r->pixel_size;
    struct spread sum = {0};
    if (!classifies(r) || r->busy || r->box == 0) return STATUS_OK;
    int shell = (int)lround(side / r->resolution), last = r->box / 2 - 1, members = r->sides[0].member_count;
    shell = shell < SHELLS_LEAST ? SHELLS_LEAST : shell > SHELLS_MOST ? SHELLS_MOST : shell;
    if (shell > last) shell = last;
    struct work w = {.r = r,
                     .size = 2 * shell,
                     .box = 2 * shell + MARGIN,
                     .count = members < PARTICLES_MOST ? members : PARTICLES_MOST,
                     .threads = r->context.threads < THREADS_MOST ? r->context.threads : THREADS_MOST};
    if (w.box > r->box) w.box = r->box;
    w.radius = r->mask_radius * w.box / r->box;
    enum status status = find_spreads(&w, &sum, err);
    release(&w);
    TRY(status);
    double deviation = sqrt(2.0 / w.count * (1 + 1.0 / TURNS));
    r->difference = (struct difference){
        .particles = (size_t)w.count, .spread = sum.along / fmax(sum.turned, EMPTY), .null = sum.turned / w.count};
    r->difference.deviations = (r->difference.spread - 1) / deviation;
    r->difference.alike = !(r->difference.deviations >= LEAST);
    return STATUS_OK;
}
