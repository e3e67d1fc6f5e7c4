#include "examples/simulate/movie_files.h"

#include <stdlib.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "examples/simulate/movie_files_private.h"

struct movie_file {
    struct movie_file_task task;
    struct mrc_writer *mrc;
    float *slice; /* MRC: a frame */
    struct movie_tiff *tiff;
    struct movie_electrons *electrons;
};

const char *movie_file_ending(enum movie_file_format format) {
    static const char *const endings[] = {".mrc", ".tif", ".eer"};
    return endings[format];
}

void movie_file_destroy(struct movie_file **file) {
    if (file == NULL || *file == NULL) return;
    mrc_writer_discard(&(*file)->mrc);
    free((*file)->slice);
    movie_tiff_destroy(&(*file)->tiff);
    movie_electrons_destroy(&(*file)->electrons);
    mem_free(file);
}

enum status movie_file_create(const struct movie_file_task *task, struct movie_file **ret_file, struct err *err) {
    _cleanup_(movie_file_destroy) struct movie_file *file = NULL;
    TRY(mem_new(1, sizeof *file, "a movie's writer", &file, err));
    file->task = *task;
    if (task->format == MOVIE_FILE_TIFF) {
        FAIL_IF(task->mode == MOVIE_FILE_FLOAT, err, STATUS_UNSUPPORTED,
                "TIFF movies hold counts: choose mode int8 (bytes) or uint16");
        TRY(movie_tiff_create(task, &file->tiff, err));
    } else if (task->format == MOVIE_FILE_EER) {
        TRY(movie_electrons_create(task, &file->electrons, err));
    } else {
        TRY(mem_new((size_t)task->nx * (size_t)task->ny, sizeof *file->slice, "a frame", &file->slice, err));
    }
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

enum status movie_file_begin(struct movie_file *file, const char *path, uint64_t key, struct err *err) {
    static const enum mrc_mode modes[] = {MRC_INT8, MRC_UINT16, MRC_FLOAT32};
    if (file->tiff != NULL) return movie_tiff_begin(file->tiff, path, err);
    if (file->electrons != NULL) return movie_electrons_begin(file->electrons, path, key, err);
    return mrc_writer_create(path, file->task.nx, file->task.ny, (float)file->task.pixel_size, MRC_STACK,
                             modes[file->task.mode], &file->mrc, err);
}

enum status movie_file_append(struct movie_file *file, const uint16_t *counts, struct err *err) {
    if (file->tiff != NULL) return movie_tiff_append(file->tiff, counts, err);
    if (file->electrons != NULL) return movie_electrons_append(file->electrons, counts, err);
    size_t pixels = (size_t)file->task.nx * (size_t)file->task.ny;
    for (size_t i = 0; i < pixels; i++)
        file->slice[i] = (float)counts[i];
    return mrc_writer_append(file->mrc, file->slice, err);
}

enum status movie_file_finish(struct movie_file *file, struct err *err) {
    if (file->tiff != NULL) return movie_tiff_finish(file->tiff, err);
    if (file->electrons != NULL) return movie_electrons_finish(file->electrons, err);
    return mrc_writer_finish(&file->mrc, err);
}
