/* Reads and writes MRC2014 files: images, stacks and volumes.
 *
 * Modes 0 (int8, or uint8 with IMOD's mark), 1 (int16), 2 (float32), 6 (uint16), 12 (float16) and, for reading, 101
 * (two 4-bit counts a byte, the first in the lower half; rows of whole bytes), in both byte orders.
 * The byte order comes from the machine stamp; if the stamp is nonsense, from the order that makes a sane header.
 * Extended headers are skipped, but FEI's pixel size in one is used when the header has none. Rows, columns and
 * sections stay as stored; MAPC, MAPR and MAPS are not applied. Complex data are STATUS_UNSUPPORTED. Source: the
 * MRC2014 specification (Cheng et al., JSB 192:146). */
#ifndef ICESTREAM_COMMON_FORMATS_MRC_H
#define ICESTREAM_COMMON_FORMATS_MRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/formats/image.h"
#include "common/status.h"

enum mrc_kind { MRC_IMAGE, MRC_STACK, MRC_VOLUME }; /* image, stack: ispg 0, mz 1; volume: ispg 1, mz = nz */
enum mrc_mode { MRC_INT8 = 0, MRC_INT16 = 1, MRC_FLOAT32 = 2, MRC_UINT16 = 6, MRC_FLOAT16 = 12, MRC_UINT4 = 101 };

struct mrc_header {
    int nx, ny, nz;
    enum mrc_mode mode;
    int space_group;  /* 0: image or stack, 1 and more: volume, 401: volumes one after the other */
    float pixel_size; /* along x, Å; 0 when unknown */
    float minimum, maximum, mean, rms;
    int64_t data_offset; /* bytes */
    bool swapped;        /* the byte order of the file is not this machine's */
    bool unsigned_bytes; /* mode 0 holds 0 to 255 (IMOD's mark in bytes 152 to 159) */
};

struct mrc_reader;
/* Opens a file for reading and checks its header. */
enum status mrc_open(const char *path, struct mrc_reader **ret_reader, struct err *err);
/* Returns the header, which the reader owns. */
const struct mrc_header *mrc_reader_header(const struct mrc_reader *reader);
/* Reads slices first .. first+count-1 as float32 into out[count * ny * nx]. Several threads may call it. */
enum status mrc_read_slices(struct mrc_reader *reader, int first, int count, float *out, struct err *err);
/* Reads `length` bytes of the pixels as they lie in the file. offset: bytes from the first pixel. Several threads may
 * call it. */
enum status mrc_read_stored(struct mrc_reader *reader, size_t offset, void *bytes, size_t length, struct err *err);
/* Returns the bytes of a pixel that can be a count: 1 in modes 0 and 101, 2 in modes 1 and 6; 0 in all other modes. */
int mrc_count_bytes(const struct mrc_header *header);
/* Reads one slice of such a mode into out[ny * nx] of uint8_t or uint16_t. Several threads may call it.
 * STATUS_UNSUPPORTED: a pixel is negative. */
enum status mrc_read_counts(struct mrc_reader *reader, int slice, void *out, struct err *err);
void mrc_close(struct mrc_reader **reader);

/* Returns whether the first bytes of a file can be an MRC header; needs 1024 bytes. */
bool mrc_looks_like_one(const unsigned char *bytes, size_t length);
/* Reads the header only. STATUS_TRUNCATED when the file is shorter than its header says. */
enum status mrc_read_header(const char *path, struct mrc_header *ret_header, struct err *err);
/* Reads all pixels as float32 into `image` and reuses its memory. */
enum status mrc_read(const char *path, struct image *image, struct err *err);

/* Writes a whole file: under another name first, then synced and renamed. Integer modes round values, integers and
 * float16 clamp them to the range of the mode, and NaN becomes 0 in integers. The statistics in the header are those of
 * the stored values. */
enum status mrc_write(const char *path, const struct image *image, enum mrc_kind kind, enum mrc_mode mode,
                      struct err *err);

/* Writes a file slice by slice. mrc_writer_finish completes statistics and nz, syncs, and renames into place;
 * mrc_writer_discard deletes an unfinished file. */
struct mrc_writer;
/* Begins a file of nx × ny px. pixel_size: Å. */
enum status mrc_writer_create(const char *path, int nx, int ny, float pixel_size, enum mrc_kind kind,
                              enum mrc_mode mode, struct mrc_writer **ret_writer, struct err *err);
/* Adds a line of ASCII text to the header, after the line that names icestream; cuts it to 80 characters. Further lines
 * after the ninth are left out. */
enum { MRC_LABEL_SIZE = 81 };
void mrc_writer_label(struct mrc_writer *writer, const char *text);
/* Appends one slice, [ny][nx], converted to the mode. */
enum status mrc_writer_append(struct mrc_writer *writer, const float *slice, struct err *err);
enum status mrc_writer_finish(struct mrc_writer **writer, struct err *err);
void mrc_writer_discard(struct mrc_writer **writer);

#endif
