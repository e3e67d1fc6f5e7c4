/* Finds the images that the rows of a table name, and adds their stacks to a set. */
#ifndef ICESTREAM_STAGES_REFINER_ROW_IMAGES_H
#define ICESTREAM_STAGES_REFINER_ROW_IMAGES_H

#include "stages/refiner/particles.h"

/* The image of a row. */
struct row_image {
    long number;  /* from 1 */
    int stack;    /* of the set */
    int particle; /* the number of rows before that name other images; −1: an earlier row names the same image */
};

struct row_images {
    struct row_image *list;
    size_t count;       /* rows before the first one that names no image */
    size_t particles;   /* rows that are the first to name their image */
    enum status failed; /* STATUS_OK: all rows name images */
    struct err why;     /* what is wrong with row `count` */
};

/* Looks for the stacks that a table names, and reads their headers, several at a time. The set has no stacks yet. path:
 * of the table's file. A row that names no image is no error of this function. */
enum status row_images_find(struct particle_set *set, const struct particle_table *table, const char *path,
                            struct row_images *ret_images, struct err *err);
void row_images_clear(struct row_images *images);

#endif
