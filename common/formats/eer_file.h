/* Reads EER movies: TIFF files (mostly BigTIFF) with one directory for each frame of the detector, whose strips hold
 * the codes that common/formats/eer.h decodes. Directories in another compression (a preview, the sum) are passed over.
 * TIFF tag 65001 of the first frame holds the camera's notes as XML. */
#ifndef ICESTREAM_COMMON_FORMATS_EER_FILE_H
#define ICESTREAM_COMMON_FORMATS_EER_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/formats/eer.h"
#include "common/status.h"

struct eer_file;

struct eer_file_info {
    int nx, ny;       /* pixels of the detector */
    int frames;       /* as the detector read them out */
    float pixel_size; /* Å, of a detector pixel; 0: the notes do not say */
    float dose;       /* e⁻/px of a detector pixel, all frames together; 0: the notes do not say */
};

/* Returns whether a TIFF file holds EER frames. False also for a file that cannot be read. */
bool eer_file_is_one(const char *path);
/* Opens a file and finds its frames. STATUS_TRUNCATED: it may still be growing. */
enum status eer_file_open(const char *path, struct eer_file **ret_file, struct err *err);
const struct eer_file_info *eer_file_info(const struct eer_file *file);
/* Returns the bytes of the longest frame: the size of `scratch`. */
size_t eer_file_scratch(const struct eer_file *file);
/* Adds the electrons of frames first .. first+count−1 to counts[ny << level][nx << level] (see eer_decode). Several
 * threads may call it, each with a scratch of its own. */
enum status eer_file_add(const struct eer_file *file, int first, int count, int level, uint8_t *scratch,
                         uint16_t *counts, struct err *err);
void eer_file_close(struct eer_file **file);

/* Writes a BigTIFF in compression 65002 with one strip for each frame: for simulators and tests. */
struct eer_writer;
/* Begins a file of nx × ny detector pixels. format: the widths; compression 65000 or 65001 where these fit them. */
enum status eer_writer_create(const char *path, const struct eer_format *format, int nx, int ny, const char *notes,
                              struct eer_writer **ret_writer, struct err *err);
/* Appends a frame; electrons as in eer_encode. */
enum status eer_writer_append(struct eer_writer *writer, const struct eer_electron *electrons, size_t count,
                              struct err *err);
/* Completes the file and puts it in place. */
enum status eer_writer_finish(struct eer_writer **writer, struct err *err);
void eer_writer_discard(struct eer_writer **writer);

#endif
