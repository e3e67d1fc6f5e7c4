/* Shared by the writers of simulated movies; movie_files.h says what the calls do. */
#ifndef ICESTREAM_EXAMPLES_SIMULATE_MOVIE_FILES_PRIVATE_H
#define ICESTREAM_EXAMPLES_SIMULATE_MOVIE_FILES_PRIVATE_H

#include "examples/simulate/movie_files.h"

struct movie_tiff; /* TIFF with LZW: one page for each frame */
enum status movie_tiff_create(const struct movie_file_task *task, struct movie_tiff **ret_tiff, struct err *err);
void movie_tiff_destroy(struct movie_tiff **tiff);
enum status movie_tiff_begin(struct movie_tiff *tiff, const char *path, struct err *err);
enum status movie_tiff_append(struct movie_tiff *tiff, const uint16_t *counts, struct err *err);
enum status movie_tiff_finish(struct movie_tiff *tiff, struct err *err);

struct movie_electrons; /* EER: the electrons of a frame fall into its detector frames at random */
enum status movie_electrons_create(const struct movie_file_task *task, struct movie_electrons **ret_electrons,
                                   struct err *err);
void movie_electrons_destroy(struct movie_electrons **electrons);
enum status movie_electrons_begin(struct movie_electrons *electrons, const char *path, uint64_t key, struct err *err);
enum status movie_electrons_append(struct movie_electrons *electrons, const uint16_t *counts, struct err *err);
enum status movie_electrons_finish(struct movie_electrons *electrons, struct err *err);

#endif
