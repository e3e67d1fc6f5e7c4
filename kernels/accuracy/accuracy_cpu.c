#include <math.h>

#include "common/memory.h"
#include "kernels/accuracy/accuracy_private.h"
#include "kernels/symmetry/symmetry.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

/* State of one particle: its slice (f1) and the slice at the moved pose (f2). */
struct accuracy {
    const struct accuracy_input *input;
    float *f1, *f2, *ctf;
    const float *sigma2;
};

void accuracy_matrix(const double angles[3], float ret_matrix[9]) {
    double m[9];
    euler_to_matrix(angles[0], angles[1], angles[2], m);
    for (int i = 0; i < 9; i++)
        ret_matrix[i] = (float)m[i];
}

static void project(const struct accuracy *a, const double angles[3], float *out) {
    const struct accuracy_input *in = a->input;
    float matrix[9];
    accuracy_matrix(angles, matrix);
    projector_slices(in->projector, in->pixels, in->pixels->count, 1, matrix, 1, out);
}

/* Returns whether noise of sigma2 lets the two slices be told apart, with the CTF on both. */
static bool tells(const struct accuracy *a) {
    const struct fourier_pixels *pixels = a->input->pixels;
    double sum = 0;
    for (int i = 0; i < pixels->count; i++) {
        double re = a->f1[2 * i] - a->f2[2 * i], im = a->f1[2 * i + 1] - a->f2[2 * i + 1];
        sum += a->ctf[i] * a->ctf[i] * (re * re + im * im) / (2 * a->sigma2[pixels->shell[i]]);
    }
    return sum > ACCURACY_TELLABLE;
}

static double angle_accuracy(const struct accuracy *a, const struct accuracy_particle *p) {
    double e = 0;
    while (e < ACCURACY_ANGLE_MOST) {
        double moved[3] = {p->angles[0], p->angles[1], p->angles[2]};
        e = accuracy_next_angle(e);
        moved[p->turned] += e;
        project(a, moved, a->f2);
        if (tells(a)) break;
    }
    return fmin(e, ACCURACY_ANGLE_MOST);
}

static double offset_accuracy(const struct accuracy *a, const struct accuracy_particle *p) {
    const struct fourier_pixels *pixels = a->input->pixels;
    double e = 0;
    while (e < ACCURACY_OFFSET_MOST) {
        e = accuracy_next_offset(e);
        fourier_pixels_shift(pixels, pixels->count, a->f1, p->along_x ? e : 0, p->along_x ? 0 : e, a->f2);
        if (tells(a)) break;
    }
    return fmin(e, ACCURACY_OFFSET_MOST);
}

static void estimate_one(struct accuracy *a, const struct accuracy_particle *p, double *ret_angle, double *ret_offset) {
    const struct accuracy_input *in = a->input;
    const struct fourier_pixels *pixels = in->pixels;
    if (p->ctf != NULL)
        ctf_at(p->ctf, pixels->box, in->pixel_size, pixels->count, pixels->kx, pixels->ky, a->ctf);
    else
        for (int j = 0; j < pixels->count; j++)
            a->ctf[j] = 1;
    a->sigma2 = in->sigma2 + (size_t)p->optics * ((size_t)pixels->box / 2 + 1);
    project(a, p->angles, a->f1);
    *ret_angle = angle_accuracy(a, p);
    *ret_offset = offset_accuracy(a, p);
}

static enum status estimate(const struct accuracy_input *in, struct workspace *workspace_or_null, double *ret_angles,
                            double *ret_offsets, struct err *err) {
    (void)workspace_or_null;
    size_t n = (size_t)in->pixels->count;
    _cleanup_(mem_free) float *space = NULL;
    TRY(mem_new_unset(5 * n * (size_t)in->threads, sizeof *space, "accuracies", &space, err));
#pragma omp parallel for num_threads(in->threads) schedule(dynamic)
    for (int i = 0; i < in->count; i++) {
        float *mine = space + 5 * n * (size_t)omp_get_thread_num();
        struct accuracy a = {.input = in, .f1 = mine, .f2 = mine + 2 * n, .ctf = mine + 4 * n};
        estimate_one(&a, &in->particles[i], &ret_angles[i], &ret_offsets[i]);
    }
    return STATUS_OK;
}

const struct accuracy_work accuracy_cpu_work = {.estimate = estimate};
