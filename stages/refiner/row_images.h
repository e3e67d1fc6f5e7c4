/* Finds the images that the rows of a table name, and adds their stacks to a set. */
#ifndef ICESTREAM_STAGES_REFINER_ROW_IMAGES_H
#define ICESTREAM_STAGES_REFINER_ROW_IMAGES_H

#include "stages/refiner/particles.h"

/* Returns STATUS_OK if a stack may be read that the table of a file names. */
typedef enum status stack_check(const void *context, const char *star_path, const char *name, struct err *err);

/* Checks the names of images in all tables of a file, and calls `check` for their stacks, from several threads, but not
 * for each row: rows of one stack follow each other. The error is that of the first row. path: of the file. */
enum status row_images_check(struct star_file *file, const char *path, stack_check *check, const void *context,
                             struct err *err);

/* The image of a row. */
struct row_image {
    long number;  /* from 1 */
    int stack;    /* of the set */
    int particle; /* the number of rows before that name other images; −1: an earlier row names the same image */
};

struct stack_headers;
struct row_images {
    struct row_image *list;
    size_t count;       /* rows before the first one that names no image */
    size_t particles;   /* rows that are the first to name their image */
    enum status failed; /* STATUS_OK: all rows name images */
    struct err why;     /* what is wrong with row `count` */
};

/* Looks for the stacks that a table names, and reads their headers, several at a time. The set has no stacks yet. path:
 * of the table's file. headers: of stacks whose files may stay closed, unless the caller is observed; NULL: none. A row
 * that names no image is no error of this function. */
enum status row_images_find(struct particle_set *set, const struct particle_table *table, const char *path,
                            struct stack_headers *headers, struct row_images *ret_images, struct err *err);
void row_images_clear(struct row_images *images);

#endif
