/* Fills the tables that RELION needs beside its model and data files to continue from them (relion_refine --continue).
 * They hold each label without which 3.1.3 refuses the file, and no other. Values without a meaning in icestream are
 * RELION's defaults. */
#ifndef ICESTREAM_COMMON_FORMATS_RELION_H
#define ICESTREAM_COMMON_FORMATS_RELION_H

#include "common/formats/star.h"

struct relion_optimiser {
    const char *root;                   /* the beginning of its file names: "refiner/run" */
    const char *model, *model2;         /* model2: the second half's, or NULL */
    const char *data, *sampling, *mask; /* mask: NULL for none */
    int iteration, iterations;          /* iterations: the number after which RELION stops */
    bool auto_refine, correct_ctf, converged, large_increment;
    unsigned seed;
    double diameter, join_resolution, finest; /* Å; join_resolution, finest: −1 for none */
    int mask_edge;                            /* px */
    int local_order, increment, since_resolution, since_changes;
    double best_resolution;                             /* 1/Å */
    double accuracy_angle, accuracy_offset;             /* °, Å */
    double change_angle, change_offset, change_classes; /* of the last iteration: °, Å, fraction */
    double smallest_angle, smallest_offset;             /* °, Å */
};
/* Writes the labels of data_optimiser_general. */
enum status relion_optimiser_put(struct star_table *table, const struct relion_optimiser *optimiser, struct err *err);

struct relion_sampling {
    bool directions; /* references are 3D; else the next two are not used */
    int order;       /* HEALPix */
    const char *symmetry;
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* Å */
    double perturbation;              /* fraction of a step */
};
/* Writes the labels of data_sampling_general. */
enum status relion_sampling_put(struct star_table *table, const struct relion_sampling *sampling, struct err *err);

/* Returns how many directions RELION's grid of an order has; 0: unknown. Tables of its models must have this number. */
long relion_direction_count(const char *symmetry, int order);

#endif
