/* Rows of frames on the host, in the type in which the camera counts. */
#include <stdint.h>

#include "common/multiversion.h"
#include "kernels/motion/motion.h"

MULTIVERSION static void add_u8(const uint8_t *restrict from, const float *restrict gain, int count,
                                float *restrict sum) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            sum[i] += (float)from[i];
    else
        for (int i = 0; i < count; i++)
            sum[i] += (float)from[i] * gain[i];
}

MULTIVERSION static void add_u16(const uint16_t *restrict from, const float *restrict gain, int count,
                                 float *restrict sum) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            sum[i] += (float)from[i];
    else
        for (int i = 0; i < count; i++)
            sum[i] += (float)from[i] * gain[i];
}

MULTIVERSION static void add_f32(const float *restrict from, const float *restrict gain, int count,
                                 float *restrict sum) {
    if (gain == NULL)
        for (int i = 0; i < count; i++)
            sum[i] += from[i];
    else
        for (int i = 0; i < count; i++)
            sum[i] += from[i] * gain[i];
}

void motion_frames_add_row(const struct motion_frames *f, int frame, int x, int y, int count, float *sum) {
    size_t at = (size_t)y * (size_t)f->nx + (size_t)x;
    const float *gain = f->gain != NULL ? f->gain + at : NULL;
    if (f->pixels == MOTION_U8)
        add_u8((const uint8_t *)f->frame[frame] + at, gain, count, sum);
    else if (f->pixels == MOTION_U16)
        add_u16((const uint16_t *)f->frame[frame] + at, gain, count, sum);
    else
        add_f32((const float *)f->frame[frame] + at, gain, count, sum);
}
