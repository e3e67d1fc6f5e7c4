/* Grows and evaluates a random forest (Breiman 2001) with XGBoost's C API, as one round of boosting in which no tree
 * depends on another tree. Each tree uses a random part of the examples, and each split a random part of the features.
 * Each class has trees that separate the class from all others. The probabilities of classes are the softmax of the
 * mean outputs of their trees. A forest consists of FOREST_PARTS boosters with equally many trees and different seeds,
 * so that several threads can grow parts at once; the output is the mean over the parts.
 *
 * The same examples, options and seed give the same forest, whatever the number of threads. In a build without XGBoost
 * everything here returns STATUS_UNSUPPORTED. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_FOREST_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_FOREST_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

enum { FOREST_PARTS = 10 };

struct forest_options {
    int classes, features;
    int trees;        /* of each class; 500; rounded up to a multiple of FOREST_PARTS */
    double subsample; /* part of the examples for a tree; 0.63 is the part that a draw with replacement contains */
    int seed, threads;
    const float *weights; /* [features]: relative probability that a split tries a feature; NULL: equal */
};

/* Returns whether this build has XGBoost. */
bool forest_available(void);
/* Returns the version of XGBoost; "": built without XGBoost. */
const char *forest_version(void);

struct forest;
/* Creates a forest without trees. */
enum status forest_create(const struct forest_options *options, struct forest **ret_forest, struct err *err);
/* Grows one part. rows: [count][features], finite; classes[count], each from 0 to options.classes − 1. Different parts
 * may be grown by different threads at once. */
enum status forest_grow(struct forest *forest, int part, const float *rows, const int *classes, size_t count,
                        struct err *err);
/* Computes ret_probabilities[classes], which sum to 1, from row[features]. Call it when all parts are grown, or the
 * forest is loaded. One thread at a time. */
enum status forest_predict(struct forest *forest, const float *row, float *ret_probabilities, struct err *err);
void forest_destroy(struct forest **forest);

/* Convert a forest to bytes, which the caller frees, and back. STATUS_BAD_FORMAT: the bytes are not a forest of
 * `options.classes` and `options.features`. */
enum status forest_save(struct forest *forest, char **ret_bytes, size_t *ret_length, struct err *err);
enum status forest_load(const struct forest_options *options, const char *bytes, size_t length,
                        struct forest **ret_forest, struct err *err);

#endif
