/* What averages.c, which both devices share, asks of each. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_PRIVATE_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_PRIVATE_H

#include "kernels/averages/averages.h"

struct class_sums {
    struct accumulator *half[2], *added; /* added: by the E-step at work, not in a half yet */
    struct projector *reference;
};

/* What a thread makes an average in. */
struct average_space {
    struct accumulator *sums[3];
    float *image; /* [box²] */
};

struct averages {
    struct averages_options options;
    const struct averages_work *work;
    struct class_sums *classes;   /* [capacity] */
    struct average_space *spaces; /* [threads], of the CPU */
    struct averages_device *device;
};

/* As the functions of averages.h. */
struct averages_work {
    enum status (*begin)(struct averages *a, int count, int size, struct err *err);
    enum status (*end)(struct averages *a, int count, int half, struct err *err);
    enum status (*fade)(struct averages *a, int count, double factor, struct err *err);
    enum status (*split)(struct averages *a, int from, int to, struct err *err);
    enum status (*make)(struct averages *a, const struct average *list, int count, struct err *err);
    enum status (*set)(struct averages *a, const struct average *list, int count, struct err *err);
};

enum status averages_host_open(struct averages *a, struct err *err);
extern const struct averages_work averages_host_work;
/* Built where CUDA is. */
enum status averages_device_open(struct averages *a, struct err *err);
void averages_device_close(struct averages *a);
extern const struct averages_work averages_device_work;

#endif
