/* The polynomial model of motion. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/motion/motion_private.h"

void motion_model_clear(struct motion_model *model) {
    free(model->x);
    free(model->y);
    *model = (struct motion_model){0};
}

enum status motion_model_resize(struct motion_model *model, int nx, int ny, int frames, struct err *err) {
    if (model->frames != frames) {
        motion_model_clear(model);
        TRY(mem_new((size_t)frames, sizeof *model->x, "shifts of a movie", &model->x, err));
        TRY(mem_new((size_t)frames, sizeof *model->y, "shifts of a movie", &model->y, err));
        model->frames = frames;
    }
    model->nx = nx;
    model->ny = ny;
    model->local = false;
    memset(model->x, 0, (size_t)frames * sizeof *model->x);
    memset(model->y, 0, (size_t)frames * sizeof *model->y);
    memset(model->coefficients, 0, sizeof model->coefficients);
    return STATUS_OK;
}

void motion_surface_terms(double x, double y, double ret_terms[MOTION_SURFACE]) {
    const double terms[MOTION_SURFACE] = {1, x, x * x, y, y * y, x * y};
    memcpy(ret_terms, terms, sizeof terms);
}

void motion_model_surface(const struct motion_model *model, int frame, double ret_surface[2][MOTION_SURFACE]) {
    double z = frame;
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < MOTION_SURFACE; i++) {
            const double *c = model->coefficients[axis] + 3 * i;
            ret_surface[axis][i] = model->local ? z * (c[0] + z * (c[1] + z * c[2])) : 0;
        }
}

enum status motion_model_surfaces(const struct motion_model *model, struct motion_surface *ret_surfaces,
                                  struct err *err) {
    for (int j = 0; j < model->frames; j++) {
        struct motion_surface *surface = &ret_surfaces[j];
        motion_model_surface(model, j, surface->c);
        surface->c[0][0] += (double)model->x[j];
        surface->c[1][0] += (double)model->y[j];
        for (int axis = 0; axis < 2; axis++) {
            double most = 0, side = axis == 0 ? model->nx : model->ny;
            for (int i = 0; i < MOTION_SURFACE; i++)
                most += fabs(surface->c[axis][i]);
            FAIL_IF(!(most < side), err, STATUS_BAD_ARGUMENT,
                    "the shift of frame %d along %s reaches %g px: less than the frame's %g px are expected", j + 1,
                    axis == 0 ? "x" : "y", most, side);
        }
    }
    return STATUS_OK;
}

void motion_model_at(const struct motion_model *model, double x, double y, int frame, double ret_shift[2]) {
    double surface[2][MOTION_SURFACE], terms[MOTION_SURFACE];
    motion_model_surface(model, frame, surface);
    motion_surface_terms(x / model->nx - 0.5, y / model->ny - 0.5, terms);
    ret_shift[0] = (double)model->x[frame];
    ret_shift[1] = (double)model->y[frame];
    for (int axis = 0; axis < 2; axis++)
        for (int i = 0; i < MOTION_SURFACE; i++)
            ret_shift[axis] += surface[axis][i] * terms[i];
}
