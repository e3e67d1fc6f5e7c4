/* The tables that RELION needs beside its model and data files to go on from them (relion_refine --continue): every
 * label without which 3.1.3 refuses the file, and no other. Where a value is no concern of ours it is what RELION
 * writes by default. */
#ifndef ICESTREAM_COMMON_FORMATS_RELION_H
#define ICESTREAM_COMMON_FORMATS_RELION_H

#include "common/formats/star.h"

struct relion_optimiser {
    const char *root;                   /* what the names of its files begin with: "refiner/run" */
    const char *model, *model2;         /* model2: of the second half, or NULL */
    const char *data, *sampling, *mask; /* mask: NULL for none */
    int iteration, iterations;          /* iterations: it stops after so many */
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
enum status relion_optimiser_put(struct star_table *table, const struct relion_optimiser *optimiser, struct err *err);

struct relion_sampling {
    bool directions; /* of 3-D references; else the next two are not used */
    int order;       /* HEALPix */
    const char *symmetry;
    double psi_step;                  /* ° */
    double offset_range, offset_step; /* Å */
    double perturbation;              /* fraction of a step */
};
enum status relion_sampling_put(struct star_table *table, const struct relion_sampling *sampling, struct err *err);

/* How many directions its grid of an order has, which tables of its models must agree with; 0: not known. */
long relion_direction_count(const char *symmetry, int order);

#endif
