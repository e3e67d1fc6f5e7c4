/* Makes images and volumes smaller, and grey. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_SHRINK_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_SHRINK_H

#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

/* Averages squares of factor² px: in[ny][nx] → out[ny/factor][nx/factor]; a rest at the ends is left out. in and out may
 * be the same. */
void shrink_bin(const float *in, int nx, int ny, int factor, float *out);
/* Writes mean ± deviations·σ of `count` values as 0 to 255. NaN and a flat image become grey. */
void shrink_grey(const float *values, size_t count, double deviations, uint8_t *out);
/* Writes values as 0 to 255, from the lowest to the highest but for this part of them at either end: for an average whose
 * particle is far from the mean of its box. NaN and a flat image become grey. */
void shrink_grey_span(const float *values, size_t count, double left_out, uint8_t *out);

/* Cuts lines of `size` values to their `kept` lowest frequencies along one axis, so that they have `kept` values; both
 * even, kept <= size. The values keep their scale. */
struct shrink_lines;
enum status shrink_lines_create(int size, int kept, struct shrink_lines **ret_lines, struct err *err);
void shrink_lines_destroy(struct shrink_lines **lines);
/* in[i * stride], i < size, → out[i * out_stride], i < kept. */
void shrink_line(struct shrink_lines *lines, const float *in, size_t stride, float *out, size_t out_stride);

/* Cuts a volume to a cube of its kept³ lowest frequencies, slice by slice, so that a large one is never whole in memory.
 * read(context, z, slice[ny][nx]) gives the slices. out[kept][kept][kept]. All sides must be even; each at least
 * kept. */
typedef enum status shrink_read(void *context, int z, float *slice, struct err *err);
enum status shrink_volume(shrink_read *read, void *context, const int shape[3], int kept, float *out, struct err *err);

#endif
