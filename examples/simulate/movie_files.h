/* Writes the frames of a simulated movie as cameras do: MRC (signed bytes, unsigned 16-bit or float), TIFF (LZW,
 * unsigned bytes or 16-bit), EER (every electron, in frames of the detector). */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_MOVIE_FILES_H
#define ICESTREAM_EXAMPLES_SIMULATE_MOVIE_FILES_H

#include <stdint.h>

#include "common/status.h"

enum movie_file_format { MOVIE_FILE_MRC, MOVIE_FILE_TIFF, MOVIE_FILE_EER };
enum movie_file_mode { MOVIE_FILE_INT8, MOVIE_FILE_UINT16, MOVIE_FILE_FLOAT }; /* TIFF: unsigned bytes for INT8 */

struct movie_file_task {
    enum movie_file_format format;
    enum movie_file_mode mode; /* EER: not used */
    int nx, ny, frames;
    double pixel_size; /* Å */
    int eer_group;     /* frames of the detector in one frame */
    int threads;
};

/* Returns the ending of names, with its dot. */
const char *movie_file_ending(enum movie_file_format format);

/* Holds the buffers of files of one shape. */
struct movie_file;
enum status movie_file_create(const struct movie_file_task *task, struct movie_file **ret_file, struct err *err);
/* Discards a file that is not finished. */
void movie_file_destroy(struct movie_file **file);
/* Begins a file, appends counts[ny][nx] frame by frame, and completes it. Counts above what the mode holds become the
 * largest. key: makes the places of EER's electrons. */
enum status movie_file_begin(struct movie_file *file, const char *path, uint64_t key, struct err *err);
enum status movie_file_append(struct movie_file *file, const uint16_t *counts, struct err *err);
enum status movie_file_finish(struct movie_file *file, struct err *err);

#endif
