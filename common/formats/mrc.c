#include "common/formats/mrc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc_pixels.h"
#include "common/memory.h"

enum { HEADER_BYTES = 1024, LARGEST_SIDE = 1 << 24 };

struct mrc_reader {
    int descriptor;
    char *path;
    struct mrc_header header;
};

static int32_t word_at(const unsigned char *bytes, size_t offset, bool swapped) {
    uint32_t word;
    memcpy(&word, bytes + offset, sizeof word);
    if (swapped) word = __builtin_bswap32(word);
    int32_t value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float float_at(const unsigned char *bytes, size_t offset, bool swapped) {
    int32_t word = word_at(bytes, offset, swapped);
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static bool known_mode(int mode) {
    return (mode >= 0 && mode <= 4) || mode == MRC_UINT16 || mode == MRC_FLOAT16 || mode == 16 || mode == MRC_UINT4;
}

static bool side_fits(int side) {
    return side >= 1 && side <= LARGEST_SIDE;
}

static bool sane(const unsigned char *bytes, bool swapped) {
    return side_fits(word_at(bytes, 0, swapped)) && side_fits(word_at(bytes, 4, swapped)) &&
           side_fits(word_at(bytes, 8, swapped)) && known_mode(word_at(bytes, 12, swapped));
}

/* Returns whether to swap bytes: as the machine stamp says, unless only the other order makes sense. Files with stamps
 * 0000, 4444 or 00004444 exist. */
static bool order_is_swapped(const unsigned char *bytes) {
    const uint16_t one = 1;
    bool big_machine = *(const unsigned char *)&one == 0;
    bool little_file = bytes[212] == 0x44, big_file = bytes[212] == 0x11;
    bool said = big_machine ? little_file : big_file;
    return sane(bytes, !said) && !sane(bytes, said) ? !said : said;
}

bool mrc_looks_like_one(const unsigned char *bytes, size_t length) {
    if (length < HEADER_BYTES) return false;
    return memcmp(bytes + 208, "MAP", 3) == 0 || sane(bytes, order_is_swapped(bytes));
}

static const char *mode_name(int mode) {
    switch (mode) {
    case 3:
        return "complex int16";
    case 4:
        return "complex float32";
    case 16:
        return "RGB bytes";
    default:
        return "unknown";
    }
}

static enum status check_header(const char *path, const unsigned char *bytes, const struct mrc_header *h, int nsymbt,
                                int64_t size, struct err *err) {
    bool marked = memcmp(bytes + 208, "MAP", 3) == 0;
    if (!side_fits(h->nx) || !side_fits(h->ny) || !side_fits(h->nz) || !known_mode((int)h->mode)) {
        FAIL_IF(!marked, err, STATUS_BAD_FORMAT,
                "%s: not an MRC file: no \"MAP\" at byte 208, and as a header its first words would mean %d × %d × %d "
                "in mode %d",
                path, h->nx, h->ny, h->nz, (int)h->mode);
        FAIL_IF(known_mode((int)h->mode), err, STATUS_BAD_FORMAT,
                "%s: the header gives %d × %d × %d (bytes 0 to 11); each must be between 1 and %d", path, h->nx, h->ny,
                h->nz, LARGEST_SIDE);
        FAIL(err, STATUS_BAD_FORMAT, "%s: mode %d (byte 12) is not one of MRC: 0, 1, 2, 6, 12 or 101 is expected", path,
             (int)h->mode);
    }
    FAIL_IF(mrc_row_bytes((int)h->mode, h->nx) == 0, err, STATUS_UNSUPPORTED,
            "%s: mode %d (%s; byte 12) is not supported: convert it to mode 0, 1, 2, 6 or 12", path, (int)h->mode,
            mode_name((int)h->mode));
    FAIL_IF(nsymbt < 0, err, STATUS_BAD_FORMAT, "%s: the extended header would have %d bytes (byte 92)", path, nsymbt);
    int64_t rows = (int64_t)h->ny * h->nz, bytes_needed = 0;
    FAIL_IF(__builtin_mul_overflow(rows, (int64_t)mrc_row_bytes((int)h->mode, h->nx), &bytes_needed) ||
                __builtin_add_overflow(bytes_needed, h->data_offset, &bytes_needed),
            err, STATUS_BAD_FORMAT, "%s: the header gives %d × %d × %d pixels (bytes 0 to 11): no file is that large",
            path, h->nx, h->ny, h->nz);
    FAIL_IF(bytes_needed > size, err, STATUS_TRUNCATED,
            "%s: ends at byte %lld; its header (%d × %d × %d, mode %d, extended header of %d bytes) says %lld", path,
            (long long)size, h->nx, h->ny, h->nz, (int)h->mode, nsymbt, (long long)bytes_needed);
    return STATUS_OK;
}

static float meaningful(double pixel_size) {
    return isfinite(pixel_size) && pixel_size > 1e-6 && pixel_size < 1e6 ? (float)pixel_size : 0.0f;
}

/* Reads the pixel size from an extended header FEI1 or FEI2, which has one record an image. Byte 8 holds a mask of
 * filled fields; bit 14 stands for the pixel size along x, in metres, float64 at byte 156. Records are little-endian
 * whatever the order of the main header. */
static float fei_pixel_size(int descriptor, const char *path, const unsigned char *bytes, int nsymbt) {
    enum { RECORD_BYTES = 164 };
    unsigned char record[RECORD_BYTES];
    if (memcmp(bytes + 104, "FEI", 3) != 0 || nsymbt < RECORD_BYTES ||
        file_read_at(descriptor, path, HEADER_BYTES, record, sizeof record, NULL) != STATUS_OK)
        return 0.0f;
    if ((record[9] & 1 << 6) == 0) return 0.0f;
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--)
        word = word << 8 | record[156 + i];
    double metres;
    memcpy(&metres, &word, sizeof metres);
    return meaningful(metres * 1e10);
}

/* Returns whether bytes of mode 0 are unsigned. Only files of IMOD can say so (imodStamp in its mrc_format.txt). */
static bool has_unsigned_bytes(const unsigned char *bytes, bool swapped) {
    enum { IMOD_STAMP = 1146047817, SIGNED_BYTES = 1 };
    return word_at(bytes, 152, swapped) == IMOD_STAMP && (word_at(bytes, 156, swapped) & SIGNED_BYTES) == 0;
}

static enum status read_header(int descriptor, const char *path, int64_t size, struct mrc_header *ret_header,
                               struct err *err) {
    unsigned char bytes[HEADER_BYTES], zeros[HEADER_BYTES] = {0};
    FAIL_IF(size == 0, err, STATUS_TRUNCATED, "%s: the file is empty", path);
    FAIL_IF(size < HEADER_BYTES, err, STATUS_TRUNCATED, "%s: ends at byte %lld, inside the MRC header of %d bytes",
            path, (long long)size, HEADER_BYTES);
    TRY(file_read_at(descriptor, path, 0, bytes, sizeof bytes, err));
    FAIL_IF(memcmp(bytes, zeros, sizeof bytes) == 0, err, STATUS_TRUNCATED,
            "%s: its header (bytes 0 to 1023) is zeros only: it is not written yet", path);
    bool swapped = order_is_swapped(bytes);
    int nsymbt = word_at(bytes, 92, swapped);
    struct mrc_header h = {
        .nx = word_at(bytes, 0, swapped),
        .ny = word_at(bytes, 4, swapped),
        .nz = word_at(bytes, 8, swapped),
        .mode = (enum mrc_mode)word_at(bytes, 12, swapped),
        .space_group = word_at(bytes, 88, swapped),
        .minimum = float_at(bytes, 76, swapped),
        .maximum = float_at(bytes, 80, swapped),
        .mean = float_at(bytes, 84, swapped),
        .rms = float_at(bytes, 216, swapped),
        .data_offset = (int64_t)HEADER_BYTES + nsymbt,
        .swapped = swapped,
        .unsigned_bytes = has_unsigned_bytes(bytes, swapped),
    };
    TRY(check_header(path, bytes, &h, nsymbt, size, err));
    int mx = word_at(bytes, 28, swapped);
    h.pixel_size = meaningful((double)float_at(bytes, 40, swapped) / (mx > 0 ? mx : h.nx));
    if (h.pixel_size == 0) h.pixel_size = fei_pixel_size(descriptor, path, bytes, nsymbt);
    *ret_header = h;
    return STATUS_OK;
}

enum status mrc_read_header(const char *path, struct mrc_header *ret_header, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    TRY(file_open_read(path, &descriptor, &size, err));
    return read_header(descriptor, path, size, ret_header, err);
}

enum status mrc_open(const char *path, struct mrc_reader **ret_reader, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    TRY(file_open_read(path, &descriptor, &size, err));
    struct mrc_header header = {0};
    TRY(read_header(descriptor, path, size, &header, err));
    struct mrc_reader *reader = calloc(1, sizeof *reader);
    char *copy = strdup(path);
    if (reader == NULL || copy == NULL) {
        free(reader);
        free(copy);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    }
    *reader = (struct mrc_reader){.descriptor = descriptor, .path = copy, .header = header};
    descriptor = -1;
    *ret_reader = reader;
    return STATUS_OK;
}

const struct mrc_header *mrc_reader_header(const struct mrc_reader *reader) {
    return &reader->header;
}

void mrc_close(struct mrc_reader **reader) {
    if (reader == NULL || *reader == NULL) return;
    file_close(&(*reader)->descriptor);
    free((*reader)->path);
    mem_free(reader);
}

/* Reads `count` pixels of mode 101 that lie side by side from byte `offset` on. */
static enum status read_nibbles(struct mrc_reader *reader, int64_t offset, size_t count, float *out, struct err *err) {
    _Alignas(64) unsigned char chunk[MRC_CHUNK];
    for (size_t done = 0; done < count; done += 2 * MRC_CHUNK) {
        size_t part = count - done < 2 * MRC_CHUNK ? count - done : 2 * MRC_CHUNK;
        TRY(file_read_at(reader->descriptor, reader->path, offset + (int64_t)(done / 2), chunk, (part + 1) / 2, err));
        mrc_nibbles_to_float(chunk, part, out + done);
    }
    return STATUS_OK;
}

/* Rows of an odd number of pixels begin at whole bytes; all others follow each other without a gap. */
static enum status read_packed(struct mrc_reader *reader, int first, int count, float *out, struct err *err) {
    const struct mrc_header *h = &reader->header;
    size_t rows = (size_t)h->ny * (size_t)count, nx = (size_t)h->nx, row_bytes = mrc_row_bytes(MRC_UINT4, h->nx);
    int64_t offset = h->data_offset + (int64_t)(row_bytes * (size_t)h->ny * (size_t)first);
    if (nx % 2 == 0) return read_nibbles(reader, offset, nx * rows, out, err);
    for (size_t row = 0; row < rows; row++)
        TRY(read_nibbles(reader, offset + (int64_t)(row * row_bytes), nx, out + row * nx, err));
    return STATUS_OK;
}

enum status mrc_read_slices(struct mrc_reader *reader, int first, int count, float *out, struct err *err) {
    const struct mrc_header *h = &reader->header;
    FAIL_IF(first < 0 || count < 0 || first > h->nz - count, err, STATUS_BAD_ARGUMENT,
            "%s: slices %d to %lld were asked for; it has %d", reader->path, first + 1, (long long)first + count,
            h->nz);
    if (h->mode == MRC_UINT4) return read_packed(reader, first, count, out, err);
    size_t size = mrc_pixel_bytes((int)h->mode), pixels = (size_t)h->nx * (size_t)h->ny;
    size_t total = pixels * (size_t)count;
    int64_t offset = h->data_offset + (int64_t)(pixels * (size_t)first * size);
    if (h->mode == MRC_FLOAT32) {
        TRY(file_read_at(reader->descriptor, reader->path, offset, out, total * size, err));
        if (h->swapped) mrc_swap(out, total, size);
        return STATUS_OK;
    }
    _Alignas(64) unsigned char chunk[MRC_CHUNK * 2];
    for (size_t done = 0; done < total; done += MRC_CHUNK) {
        size_t part = total - done < MRC_CHUNK ? total - done : MRC_CHUNK;
        TRY(file_read_at(reader->descriptor, reader->path, offset + (int64_t)(done * size), chunk, part * size, err));
        if (h->swapped) mrc_swap(chunk, part, size);
        if (h->mode == MRC_INT8 && h->unsigned_bytes)
            mrc_unsigned_to_float(chunk, part, out + done);
        else
            mrc_to_float(h->mode, chunk, part, out + done);
    }
    return STATUS_OK;
}

enum status mrc_read_stored(struct mrc_reader *reader, size_t offset, void *bytes, size_t length, struct err *err) {
    int64_t first = reader->header.data_offset + (int64_t)offset;
    return file_read_at(reader->descriptor, reader->path, first, bytes, length, err);
}

int mrc_count_bytes(const struct mrc_header *h) {
    bool bytes = h->mode == MRC_INT8 || h->mode == MRC_UINT4;
    return bytes ? 1 : h->mode == MRC_INT16 || h->mode == MRC_UINT16 ? 2 : 0;
}

/* Unpacks rows of mode 101 into bytes. */
static enum status read_packed_counts(struct mrc_reader *reader, int64_t offset, uint8_t *out, struct err *err) {
    const struct mrc_header *h = &reader->header;
    unsigned char chunk[MRC_CHUNK];
    size_t nx = (size_t)h->nx, row_bytes = mrc_row_bytes(MRC_UINT4, h->nx);
    for (size_t y = 0; y < (size_t)h->ny; y++)
        for (size_t done = 0; done < row_bytes; done += sizeof chunk) {
            size_t part = row_bytes - done < sizeof chunk ? row_bytes - done : sizeof chunk;
            TRY(file_read_at(reader->descriptor, reader->path, offset + (int64_t)(y * row_bytes + done), chunk, part,
                             err));
            mrc_nibbles_to_bytes(chunk, nx - 2 * done < 2 * part ? nx - 2 * done : 2 * part, out + y * nx + 2 * done);
        }
    return STATUS_OK;
}

enum status mrc_read_counts(struct mrc_reader *reader, int slice, void *out, struct err *err) {
    const struct mrc_header *h = &reader->header;
    int bytes = mrc_count_bytes(h);
    FAIL_IF(slice < 0 || slice >= h->nz || bytes == 0, err, STATUS_BAD_ARGUMENT,
            "%s: the counts of slice %d were asked for; it has %d in mode %d", reader->path, slice + 1, h->nz,
            (int)h->mode);
    size_t pixels = (size_t)h->nx * (size_t)h->ny, length = mrc_row_bytes((int)h->mode, h->nx) * (size_t)h->ny;
    int64_t offset = h->data_offset + (int64_t)(length * (size_t)slice);
    if (h->mode == MRC_UINT4) return read_packed_counts(reader, offset, out, err);
    TRY(file_read_at(reader->descriptor, reader->path, offset, out, length, err));
    if (h->swapped) mrc_swap(out, pixels, (size_t)bytes);
    bool is_signed = h->mode == MRC_INT16 || (h->mode == MRC_INT8 && !h->unsigned_bytes);
    FAIL_IF(is_signed && mrc_has_negative(out, pixels, (size_t)bytes), err, STATUS_UNSUPPORTED,
            "%s: slice %d holds negative values: they are no counts", reader->path, slice + 1);
    return STATUS_OK;
}

enum status mrc_read(const char *path, struct image *image, struct err *err) {
    _cleanup_(mrc_close) struct mrc_reader *reader = NULL;
    TRY(mrc_open(path, &reader, err));
    const struct mrc_header *h = &reader->header;
    TRY(image_resize_unset(image, h->nx, h->ny, h->nz, err));
    image->pixel_size = h->pixel_size;
    return mrc_read_slices(reader, 0, h->nz, image->data, err);
}
