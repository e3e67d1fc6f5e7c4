/* How far a pose must be off before the images can tell, from which the next sampling follows: RELION's
 * estimate, over some of the particles. Beside a device it is made while the device goes on with the other half, and then
 * with the M-step. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "stages/refiner/refiner_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

enum { ACCURACY_PARTICLES = 100 };

static double next_angle(double e) {
    return e + (e < 0.2 ? 0.05 : e < 1 ? 0.1 : e < 2 ? 0.2 : e < 5 ? 0.5 : e < 10 ? 1 : e < 20 ? 2 : 5);
}

static double next_offset(double e) {
    return e + (e < 1 ? 0.1 : e < 2 ? 0.2 : e < 5 ? 0.5 : 1);
}

/* Σ |F1 − F2|²/(2σ²) with the CTF on both. */
static double difference(const float *f1, const float *f2, const float *ctf, const float *sigma2,
                         const struct fourier_pixels *pixels) {
    double sum = 0;
    for (int i = 0; i < pixels->count; i++) {
        double re = f1[2 * i] - f2[2 * i], im = f1[2 * i + 1] - f2[2 * i + 1];
        sum += ctf[i] * ctf[i] * (re * re + im * im) / (2 * sigma2[pixels->shell[i]]);
    }
    return sum;
}

static const double TELLABLE = 4.60517; /* −ln 0.01 */

struct accuracy {
    const struct refiner *r;
    const struct half *half;
    float *f1, *f2, *ctf;
    const float *noise, *sigma2; /* of all optics groups; of the particle's */
};

static void project(const struct accuracy *a, const double angles[3], float *out) {
    double m[9];
    float matrix[9];
    euler_to_matrix(angles[0], angles[1], angles[2], m);
    for (int i = 0; i < 9; i++)
        matrix[i] = (float)m[i];
    projector_slices(a->half->references->projector, &a->r->pixels, a->r->pixels.count, 1, matrix, 1, out);
}

static double angle_accuracy(const struct accuracy *a, const double angles[3], int which) {
    double e = 0;
    while (e < 30) {
        double moved[3] = {angles[0], angles[1], angles[2]};
        e = next_angle(e);
        moved[which] += e;
        project(a, moved, a->f2);
        if (difference(a->f1, a->f2, a->ctf, a->sigma2, &a->r->pixels) > TELLABLE) break;
    }
    return fmin(e, 30);
}

static double offset_accuracy(const struct accuracy *a, bool along_x) {
    double e = 0;
    while (e < 10) {
        e = next_offset(e);
        fourier_pixels_shift(&a->r->pixels, a->r->pixels.count, a->f1, along_x ? e : 0, along_x ? 0 : e, a->f2);
        if (difference(a->f1, a->f2, a->ctf, a->sigma2, &a->r->pixels) > TELLABLE) break;
    }
    return fmin(e, 10);
}

/* Of one particle; both buffers are the thread's. */
static void particle_accuracy(struct accuracy *a, const struct particle *p, double *ret_angle, double *ret_offset) {
    const struct refiner *r = a->r;
    double angles[3];
    matrix_to_euler(p->pose, &angles[0], &angles[1], &angles[2]);
    if (p->has_ctf)
        ctf_at(&p->ctf, r->box, r->pixel_size, r->pixels.count, r->pixels.kx, r->pixels.ky, a->ctf);
    else
        for (int j = 0; j < r->pixels.count; j++)
            a->ctf[j] = 1;
    a->sigma2 = a->noise + (size_t)p->optics * (size_t)r->shells;
    project(a, angles, a->f1);
    uint64_t random = particle_hash(p->name, r->options.seed + 1);
    *ret_angle = angle_accuracy(a, angles, (int)(random % 3));
    *ret_offset = offset_accuracy(a, random / 3 % 2 == 0);
}

/* Over at most 100 particles, with the map and noise of the E-step that has just been done. */
static enum status half_accuracy(struct refiner *r, struct half *half, const float *noise, int threads,
                                 struct err *err) {
    size_t n = (size_t)r->pixels.count;
    double angles[ACCURACY_PARTICLES], offsets[ACCURACY_PARTICLES];
    int count = half->member_count < ACCURACY_PARTICLES ? half->member_count : ACCURACY_PARTICLES;
    _cleanup_(mem_free) float *space = NULL;
    TRY(mem_new_unset(5 * n * (size_t)threads, sizeof *space, "accuracies", &space, err));
#pragma omp parallel for num_threads(threads) schedule(dynamic)
    for (int i = 0; i < count; i++) {
        float *mine = space + 5 * n * (size_t)omp_get_thread_num();
        struct accuracy a = {
            .r = r, .half = half, .f1 = mine, .f2 = mine + 2 * n, .ctf = mine + 4 * n, .noise = noise};
        particle_accuracy(&a, &r->set.particles[half->members[i]], &angles[i], &offsets[i]);
    }
    half->accuracy_angle = half->accuracy_offset = 0;
    for (int i = 0; i < count; i++) {
        half->accuracy_angle += angles[i];
        half->accuracy_offset += offsets[i];
    }
    half->accuracy_angle /= count;
    half->accuracy_offset /= count;
    return STATUS_OK;
}

/* On the worker's thread. The first half's beside the E-step of the second, which needs the CPU as well; the M-step,
 * beside which the second half's runs, is the device's. */
static enum status run(void *context, struct err *err) {
    struct accuracy_job *job = context;
    const struct refiner *r = job->refiner;
    bool last = job->half == &r->half[1];
    int all = r->options.threads, threads = r->schedule.final || last ? all : all / 4;
    return half_accuracy(job->refiner, job->half, job->noise, threads > 0 ? threads : 1, err);
}

enum status accuracy_begin(struct refiner *r, struct half *half, struct err *err) {
    struct accuracy_job *job = &r->accuracy;
    size_t values = (size_t)r->sigma2_optics * (size_t)r->shells;
    TRY(accuracy_wait(r, err));
    TRY(projector_to_host(half->references->projector, err));
    if (r->workspace == NULL) return half_accuracy(r, half, half->sigma2, r->options.threads, err);
    if (job->worker == NULL) TRY(worker_create(&job->worker, err));
    /* The M-step makes other noise of it. */
    mem_free(&job->noise);
    TRY(mem_new_unset(values, sizeof *job->noise, "noise spectra", &job->noise, err));
    memcpy(job->noise, half->sigma2, values * sizeof *job->noise);
    job->refiner = r;
    job->half = half;
    worker_start(job->worker, run, job);
    return STATUS_OK;
}

enum status accuracy_wait(struct refiner *r, struct err *err) {
    return r->accuracy.worker != NULL ? worker_wait(r->accuracy.worker, err) : STATUS_OK;
}

void accuracy_destroy(struct refiner *r) {
    worker_destroy(&r->accuracy.worker);
    mem_free(&r->accuracy.noise);
}
