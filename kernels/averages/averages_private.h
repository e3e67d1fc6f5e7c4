/* Parts and ops table of class averages. For the files of this folder only. */
#ifndef ICESTREAM_KERNELS_AVERAGES_AVERAGES_PRIVATE_H
#define ICESTREAM_KERNELS_AVERAGES_AVERAGES_PRIVATE_H

#include "kernels/averages/averages.h"

struct class_sums {
    struct accumulator *half[2], *added; /* added: sums of the running E-step, not yet in a half */
    struct projector *reference;
};

/* Memory in which one thread makes an average. */
struct average_space {
    struct accumulator *sums[3];
    float *image; /* [box²] */
};

struct averages {
    struct averages_options options;
    const struct averages_work *work;
    struct class_sums *classes;   /* [capacity] */
    struct average_space *spaces; /* [threads], on the CPU */
    struct averages_store *store; /* on a CUDA device */
};

/* Ops table of a device; members do what the functions of averages.h do. */
struct averages_work {
    enum status (*open)(struct averages *a, struct err *err); /* takes the memory of the classes, once */
    void (*close)(struct averages *a);                        /* also called after an open that failed */
    enum status (*begin)(struct averages *a, int count, int size, struct err *err);
    enum status (*end)(struct averages *a, int count, int half, struct err *err);
    enum status (*fade)(struct averages *a, int count, double factor, struct err *err);
    enum status (*split)(struct averages *a, int from, int to, struct err *err);
    enum status (*make)(struct averages *a, const struct average *list, int count, struct err *err);
    enum status (*set)(struct averages *a, const struct average *list, int count, struct err *err);
};

extern const struct averages_work averages_cpu_work;
/* Defined only in builds with CUDA. */
extern const struct averages_work averages_cuda_work;

#endif
