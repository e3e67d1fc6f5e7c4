#include <math.h>
#include <string.h>

#include "common/multiversion.h"
#include "estep_private.h"

#ifdef _OPENMP
#include <omp.h>
#else
static int omp_get_thread_num(void) {
    return 0;
}
#endif

MULTIVERSION static void add_pose(int count, float weight, const float *shifted, const float *ctf,
                                  const float *inverse_noise, float *data, float *weights) {
    for (int i = 0; i < count; i++) {
        float f = weight * ctf[i] * inverse_noise[i];
        data[2 * i] += f * shifted[2 * i];
        data[2 * i + 1] += f * shifted[2 * i + 1];
        weights[i] += f * ctf[i];
    }
}

void estep_fine_matrix(const struct estep *e, int fine_psi, float *out) {
    double psi = e->psi_offset + e->psi_step * (fine_psi / 2 + (fine_psi % 2 == 0 ? -0.25 : 0.25));
    double c = cos(psi * M_PI / 180), s = sin(psi * M_PI / 180);
    const double matrix[9] = {c, s, 0, -s, c, 0, 0, 0, 1};
    for (int i = 0; i < 9; i++)
        out[i] = (float)matrix[i];
}

/* All poses of one class from one half of the chunk: summed per angle first, then each angle is scattered once. */
static enum status add_half(struct estep *e, struct estep_worker *w, struct model_class *c, int class_index, int half,
                            const size_t *which, int count, struct err *err) {
    size_t n = (size_t)e->count;
    int used = 0;
    for (int psi = 0; psi < 2 * e->n_psi; psi++)
        w->slot[psi] = -1;
    for (int i = 0; i < count; i++) {
        const struct estep_particle *p = &e->particles[i];
        if ((int)(which[i] & 1) != half) continue;
        for (int j = 0; j < p->pose_count; j++) {
            const struct estep_pose *pose = &p->poses[j];
            if (pose->class_index != class_index || pose->weight <= 0) continue;
            if (w->slot[pose->psi] < 0) {
                w->slot[pose->psi] = used;
                memset(w->slices + (size_t)used * 2 * n, 0, 2 * n * sizeof *w->slices);
                memset(w->slice_weights + (size_t)used * n, 0, n * sizeof *w->slice_weights);
                estep_fine_matrix(e, pose->psi, w->matrices + 9 * (size_t)used);
                used++;
            }
            size_t slot = (size_t)w->slot[pose->psi];
            fourier_pixels_shift(&e->pixels, e->count, p->unmasked, e->fine_shifts[pose->shift][0],
                                 e->fine_shifts[pose->shift][1], w->shifted);
            add_pose(e->count, pose->weight, w->shifted, p->ctf, p->inverse_noise, w->slices + slot * 2 * n,
                     w->slice_weights + slot * n);
            c->weight[half] += pose->weight;
        }
    }
    if (used == 0) return STATUS_OK;
    return accumulator_add(c->half[half], &e->pixels, e->count, used, w->matrices, w->slices, w->slice_weights, 1, err);
}

enum status estep_add(struct estep *e, struct model *m, const size_t *which, int count, struct err *err) {
    enum status failed = STATUS_OK;
#pragma omp parallel for num_threads(e->options.threads) schedule(dynamic)
    for (int k = 0; k < e->class_count; k++) {
        struct estep_worker *w = &e->workers[omp_get_thread_num()];
        for (int half = 0; half < 2; half++) {
            struct err own = {0};
            enum status status = add_half(e, w, &m->classes[k], k, half, which, count, &own);
            if (status != STATUS_OK) {
#pragma omp critical(estep_add_failed)
                if (failed == STATUS_OK) {
                    failed = status;
                    if (err != NULL) *err = own;
                }
            }
        }
    }
    if (failed != STATUS_OK) return failed;
    for (int i = 0; i < count; i++) {
        const struct estep_particle *p = &e->particles[i];
        for (int s = 1; s <= e->box / 2 && !p->outlier; s++) {
            m->sigma2_sum[s] += p->residual[s];
            m->sigma2_count[s] += e->shell_count[s];
        }
        m->empty_weight += p->empty;
        if (p->empty < 0.5f) {
            m->offset_sum += p->offset2;
            m->offset_count++;
        }
        m->effective++;
    }
    return STATUS_OK;
}
