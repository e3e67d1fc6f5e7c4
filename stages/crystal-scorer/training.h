/* Trains a model from labelled images: collects their features, checks the forest on held-out images, and grows it from
 * all images. */
#ifndef ICESTREAM_STAGES_CRYSTAL_SCORER_TRAINING_H
#define ICESTREAM_STAGES_CRYSTAL_SCORER_TRAINING_H

#include "stages/crystal-scorer/model.h"

struct example {
    char *image;          /* its name in results */
    enum outcome outcome; /* as labelled */
    bool in_series;
    struct series_name series;
    size_t row; /* of its features */
};

struct training {
    struct features_options features;
    const char *pattern;       /* of time series, or NULL */
    int folds, trees, threads; /* trees of each class */
    struct example *examples;
    float *rows; /* [count][features_count] */
    size_t count, capacity;
};

/* Adds an example; the order does not matter. id: matched with the pattern. */
enum status training_add(struct training *training, const char *image, const char *id, enum outcome outcome,
                         const float *vector, struct err *err);
void training_clear(struct training *training);

struct confusion {
    int classes;
    enum outcome outcomes[OUTCOMES];
    size_t counts[OUTCOMES][OUTCOMES]; /* [as labelled][as predicted] */
};
/* Returns which part of the images predicted as class k are of class k. NaN: class k was never predicted. */
double confusion_precision(const struct confusion *confusion, int k);
/* Returns which part of the images of class k were predicted as class k. */
double confusion_recall(const struct confusion *confusion, int k);
/* Returns the mean recall of all classes. */
double confusion_macro_recall(const struct confusion *confusion);
/* Returns which part of the images with a crystal were predicted as an outcome with a crystal. NaN: there is none. */
double confusion_crystal_recall(const struct confusion *confusion);

/* Cross-validates, then grows the forest of all examples. `folds` times a forest grows from all but one part of the
 * examples and predicts that part. Classes are spread evenly over the parts; with a pattern all images of a drop are in
 * one part. ret_predicted [count][classes]: the probabilities of each example while it was held out. */
enum status training_run(struct training *training, struct model *ret_model, struct confusion *ret_confusion,
                         float **ret_predicted, struct err *err);

/* Writes into `folder`: confusion.csv, validation.csv (class, examples, precision, recall), cross_validation.csv (each
 * example as labelled and predicted), and validation.txt, the first two for people. */
enum status training_report(const struct training *training, const struct confusion *confusion, const float *predicted,
                            const char *folder, struct err *err);

#endif
