/* Reads single images of stacks. Keeps the stack that it read last open, because images of one stack follow each other.
 * A reader with a cache on a local disk reads each image from its stack once and writes a copy. It then reads the copy as
 * long as the stack's path, size and time stay the same. One thread at a time. */
#ifndef ICESTREAM_COMMON_FORMATS_STACK_READER_H
#define ICESTREAM_COMMON_FORMATS_STACK_READER_H

#include <stddef.h>

#include "common/shards.h"
#include "common/status.h"

/* Counts what a reader has read so far. */
struct stack_reads {
    size_t opened; /* stacks */
    size_t images; /* read from stacks */
    size_t cached; /* read from the cache */
};

struct stack_reader;
/* cache: serves any number of readers, and must outlive them; NULL: there is none. */
enum status stack_reader_create(struct shards *cache, struct stack_reader **ret_reader, struct err *err);
void stack_reader_destroy(struct stack_reader **reader);

/* Reads image `slice` (from 0) of a stack of box × box px into out[box²], as float32. STATUS_BAD_FORMAT: the stack has
 * another box now, or fewer images. Other errors are those of mrc_open and mrc_read_slices. */
enum status stack_reader_image(struct stack_reader *reader, const char *path, int box, int slice, float *out,
                               struct err *err);
/* Closes the stack that is open, so that the next image is read from the file that has the name then. */
void stack_reader_close(struct stack_reader *reader);
struct stack_reads stack_reader_reads(const struct stack_reader *reader);

#endif
