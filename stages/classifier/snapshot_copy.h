/* Copies what a snapshot says of a classification, so that its files can be written while the classification goes on. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_COPY_H
#define ICESTREAM_STAGES_CLASSIFIER_SNAPSHOT_COPY_H

#include "stages/classifier/classifier.h"

/* Begin with a struct of zeros. The memory is used again. */
struct snapshot_copy {
    struct classifier classifier; /* the copy: particles, classes, noise; no sums */
    struct model model;
    struct dataset *dataset;
    struct model_class *classes;
    size_t class_room;
    float *values; /* maps and spectra of the classes, and the noise */
    size_t value_room;
};

/* Judges the classes, and copies. Particles do not arrive meanwhile: the computing thread calls it. */
enum status snapshot_copy_take(struct snapshot_copy *copy, struct classifier *classifier, struct err *err);
void snapshot_copy_clear(struct snapshot_copy *copy);

#endif
