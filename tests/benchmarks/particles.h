/* Particles for benchmarks of the classifier: tables as the extractor writes them, with stacks beside them. */
#ifndef ICESTREAM_TESTS_BENCHMARKS_PARTICLES_H
#define ICESTREAM_TESTS_BENCHMARKS_PARTICLES_H

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "common/files.h"
#include "stages/classifier/dataset.h"

/* Finds a stack beside its table. */
static inline enum status beside_table(void *context, const char *star_path, const char *name, char *absolute,
                                       struct err *err) {
    char folder[PATH_MAX];
    (void)context;
    TRY(path_folder(star_path, folder, sizeof folder, err));
    return path_join(folder, name, absolute, PATH_MAX, err);
}

static inline enum status load_table(const char *star, struct dataset *dataset, struct err *err) {
    struct dataset_batch *batch = NULL;
    TRY(dataset_batch_read(star, beside_table, NULL, NAN, false, &batch, err));
    enum status status = dataset_submit(dataset, &batch, err);
    dataset_batch_destroy(&batch);
    return status;
}

static inline double resident_mib(void) {
    long size = 0, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f == NULL || fscanf(f, "%ld %ld", &size, &resident) != 2) resident = 0;
    if (f != NULL) fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 0x1p20;
}

#endif
