#include "common/formats/eer_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tiffio.h>

#include "common/files.h"
#include "common/formats/tiff_private.h"
#include "common/memory.h"

enum { TAG_NOTES = 65001, TAG_SKIP_BITS = 65007, TAG_COLUMN_BITS = 65008, TAG_ROW_BITS = 65009 };
enum { LARGEST_SIDE = 1 << 16, LONGEST_FRAME = 1 << 30 };

struct strip {
    uint64_t offset, bytes;
};

struct eer_file {
    int descriptor;
    char *path;
    struct eer_file_info info;
    int compression;
    struct eer_format format;
    struct strip *strips; /* of all frames, one after the other */
    int *first_strip;     /* [frames + 1] */
    size_t strip_count, strip_room, frame_room, longest;
};

static int drop_message(TIFF *tiff, void *context, const char *module, const char *format, va_list args) {
    (void)tiff;
    (void)context;
    (void)module;
    (void)format;
    (void)args;
    return 1;
}

static void close_tiff(TIFF **tiff) {
    if (*tiff != NULL) TIFFClose(*tiff);
    *tiff = NULL;
}

/* Opens the file with libtiff, which finds directories and strips but cannot decode them. */
static enum status open_tiff(const char *path, TIFF **ret_tiff, struct err *err) {
    _cleanup_(file_close) int descriptor = -1;
    int64_t size = 0;
    TRY(file_open_read(path, &descriptor, &size, err));
    TRY(tiff_walk(path, descriptor, size, err));
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    FAIL_IF(options == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    TIFFOpenOptionsSetErrorHandlerExtR(options, drop_message, NULL);
    TIFFOpenOptionsSetWarningHandlerExtR(options, drop_message, NULL);
    TIFF *tiff = TIFFFdOpenExt(descriptor, path, "rm", options); /* m: no mapping of a file that may shrink */
    TIFFOpenOptionsFree(options);
    FAIL_IF(tiff == NULL, err, STATUS_BAD_FORMAT, "%s: not a TIFF file that can be read", path);
    descriptor = -1;
    *ret_tiff = tiff;
    return STATUS_OK;
}

/* Returns the compression of the current directory if it is one of EER's, else 0. */
static int eer_compression(TIFF *tiff) {
    uint16_t compression = 0;
    TIFFGetFieldDefaulted(tiff, TIFFTAG_COMPRESSION, &compression);
    return compression >= EER_COMPRESSION_8 && compression <= EER_COMPRESSION_TAGS ? compression : 0;
}

bool eer_file_is_one(const char *path) {
    _cleanup_(close_tiff) TIFF *tiff = NULL;
    if (open_tiff(path, &tiff, NULL) != STATUS_OK) return false;
    do
        if (eer_compression(tiff) != 0) return true;
    while (TIFFReadDirectory(tiff));
    return false;
}

/* Reads a tag that libtiff does not know: it gives such a tag as a count and an array of its type. */
static int unknown_number(TIFF *tiff, uint32_t tag, int otherwise) {
    const TIFFField *field = TIFFFindField(tiff, tag, TIFF_ANY);
    uint32_t count = 0;
    const void *values = NULL;
    if (field == NULL || !TIFFGetField(tiff, tag, &count, &values) || count < 1 || values == NULL) return otherwise;
    switch (TIFFFieldDataType(field)) {
    case TIFF_BYTE:
        return *(const uint8_t *)values;
    case TIFF_SHORT:
        return *(const uint16_t *)values;
    case TIFF_LONG:
        return (int)*(const uint32_t *)values;
    default:
        return otherwise;
    }
}

/* Returns the number in <item name="NAME" …>NUMBER</item>; 0 without one. */
static double note(const char *notes, const char *name) {
    char key[64];
    snprintf(key, sizeof key, "\"%s\"", name);
    const char *at = strstr(notes, key), *value = at == NULL ? NULL : strchr(at, '>');
    double number = value == NULL ? 0 : strtod(value + 1, NULL);
    return number > 0 && number < 1e9 ? number : 0;
}

/* Reads pixel size and dose from the camera's notes. */
static enum status read_notes(struct eer_file *file, TIFF *tiff, struct err *err) {
    const TIFFField *field = TIFFFindField(tiff, TAG_NOTES, TIFF_ANY);
    uint32_t length = 0;
    const void *bytes = NULL;
    if (field == NULL || !TIFFGetField(tiff, TAG_NOTES, &length, &bytes) || length < 1 || bytes == NULL)
        return STATUS_OK;
    _cleanup_(mem_free) char *text = NULL;
    TRY(mem_new((size_t)length + 1, 1, "the notes of an EER movie", &text, err));
    memcpy(text, bytes, length);
    double metres = note(text, "sensorPixelSize.width");
    file->info.pixel_size = metres > 1e-12 && metres < 1e-7 ? (float)(metres * 1e10) : 0;
    file->info.dose = (float)note(text, "meanDoseRate") * (float)note(text, "exposureTime");
    return STATUS_OK;
}

/* Makes room for one more in an array that grows by doubling. */
static enum status grow(void *array, size_t count, size_t size, size_t *room, struct err *err) {
    if (count < *room) return STATUS_OK;
    size_t wanted = *room == 0 ? 1024 : *room * 2;
    void **pointer = array;
    void *larger = realloc(*pointer, wanted * size);
    FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the frames of an EER movie");
    *pointer = larger;
    *room = wanted;
    return STATUS_OK;
}

static enum status add_frame(struct eer_file *file, TIFF *tiff, int64_t size, struct err *err) {
    int frame = file->info.frames;
    uint64_t bytes = 0;
    TRY(grow(&file->first_strip, (size_t)frame + 1, sizeof *file->first_strip, &file->frame_room, err));
    file->first_strip[frame] = (int)file->strip_count;
    for (uint32_t i = 0; i < TIFFNumberOfStrips(tiff); i++) {
        struct strip strip = {TIFFGetStrileOffset(tiff, i), TIFFGetStrileByteCount(tiff, i)};
        FAIL_IF(strip.offset == 0 || strip.bytes == 0 || strip.offset > (uint64_t)size ||
                    strip.bytes > (uint64_t)size - strip.offset,
                err, STATUS_TRUNCATED, "%s: ends at byte %lld; frame %d has %llu bytes from byte %llu on", file->path,
                (long long)size, frame + 1, (unsigned long long)strip.bytes, (unsigned long long)strip.offset);
        bytes += strip.bytes;
        FAIL_IF(bytes > LONGEST_FRAME, err, STATUS_BAD_FORMAT, "%s: frame %d has more than %d bytes", file->path,
                frame + 1, LONGEST_FRAME);
        TRY(grow(&file->strips, file->strip_count, sizeof *file->strips, &file->strip_room, err));
        file->strips[file->strip_count++] = strip;
    }
    if (bytes > file->longest) file->longest = (size_t)bytes;
    file->first_strip[frame + 1] = (int)file->strip_count;
    file->info.frames++;
    return STATUS_OK;
}

static enum status take_shape(struct eer_file *file, TIFF *tiff, int compression, struct err *err) {
    uint32_t nx = 0, ny = 0;
    TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &nx);
    TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &ny);
    FAIL_IF(nx < 1 || ny < 1 || nx > LARGEST_SIDE || ny > LARGEST_SIDE, err, STATUS_BAD_FORMAT,
            "%s: its frames have %u × %u pixels; each side must be between 1 and %d", file->path, nx, ny, LARGEST_SIDE);
    if (file->info.frames == 0) {
        struct eer_format usual = eer_format_of(compression);
        bool tags = compression == EER_COMPRESSION_TAGS;
        file->info.nx = (int)nx;
        file->info.ny = (int)ny;
        file->compression = compression;
        file->format.skip_bits = tags ? unknown_number(tiff, TAG_SKIP_BITS, 7) : usual.skip_bits;
        file->format.column_bits = tags ? unknown_number(tiff, TAG_COLUMN_BITS, 2) : usual.column_bits;
        file->format.row_bits = tags ? unknown_number(tiff, TAG_ROW_BITS, 2) : usual.row_bits;
        return read_notes(file, tiff, err);
    }
    FAIL_IF((int)nx != file->info.nx || (int)ny != file->info.ny, err, STATUS_BAD_FORMAT,
            "%s: frame %d has %u × %u pixels, the first %d × %d: frames of one shape are expected", file->path,
            file->info.frames + 1, nx, ny, file->info.nx, file->info.ny);
    return STATUS_OK;
}

static enum status find_frames(struct eer_file *file, TIFF *tiff, int64_t size, struct err *err) {
    do {
        int compression = eer_compression(tiff);
        if (compression == 0) continue;
        TRY(take_shape(file, tiff, compression, err));
        TRY(add_frame(file, tiff, size, err));
    } while (TIFFReadDirectory(tiff));
    FAIL_IF(file->info.frames == 0, err, STATUS_BAD_FORMAT,
            "%s: holds no frame in EER's compression (65000, 65001 or 65002)", file->path);
    return STATUS_OK;
}

/* Compression 65000: finds out which of the two readings ends at the last pixel of the first frame. */
static enum status choose_reading(struct eer_file *file, struct err *err) {
    const struct eer_file_info *info = &file->info;
    _cleanup_(mem_free) uint8_t *codes = NULL;
    _cleanup_(mem_free) uint16_t *counts = NULL;
    TRY(mem_new_unset(file->longest, 1, "an EER frame", &codes, err));
    TRY(mem_new((size_t)info->nx * (size_t)info->ny, sizeof *counts, "the counts of an EER frame", &counts, err));
    if (eer_file_add(file, 0, 1, 0, codes, counts, NULL) == STATUS_OK) return STATUS_OK;
    file->format.jumps_have_parts = true;
    return eer_file_add(file, 0, 1, 0, codes, counts, err);
}

/* Refuses frames that are too large for their codes: the sides come from the file, and memory for the counts follows
 * from them. A code leads past one pixel more than its number, at most. */
static enum status check_cover(const struct eer_file *file, struct err *err) {
    const struct eer_file_info *info = &file->info;
    FAIL_IF(file->format.skip_bits < 1 || file->format.skip_bits > 32, err, STATUS_UNSUPPORTED,
            "%s: its codes have %d bits for the skip: 4 to 16 are supported", file->path, file->format.skip_bits);
    double codes = 8.0 * (double)file->longest / file->format.skip_bits + 1;
    double most = codes * (double)((uint64_t)1 << file->format.skip_bits);
    FAIL_IF((double)info->nx * info->ny > most, err, STATUS_BAD_FORMAT,
            "%s: its longest frame of %zu bytes cannot cover %d × %d pixels", file->path, file->longest, info->nx,
            info->ny);
    return STATUS_OK;
}

enum status eer_file_open(const char *path, struct eer_file **ret_file, struct err *err) {
    _cleanup_(close_tiff) TIFF *tiff = NULL;
    int64_t size = 0;
    TRY(open_tiff(path, &tiff, err));
    _cleanup_(eer_file_close) struct eer_file *file = calloc(1, sizeof *file);
    FAIL_IF(file == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    file->descriptor = -1;
    file->path = strdup(path);
    FAIL_IF(file->path == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    TRY(file_open_read(path, &file->descriptor, &size, err));
    TRY(find_frames(file, tiff, size, err));
    TRY(check_cover(file, err));
    if (file->compression == EER_COMPRESSION_8) TRY(choose_reading(file, err));
    *ret_file = file;
    file = NULL;
    return STATUS_OK;
}

const struct eer_file_info *eer_file_info(const struct eer_file *file) {
    return &file->info;
}

size_t eer_file_scratch(const struct eer_file *file) {
    return file->longest;
}

enum status eer_file_add(const struct eer_file *file, int first, int count, int level, uint8_t *scratch,
                         uint16_t *counts, struct err *err) {
    FAIL_IF(first < 0 || count < 0 || first > file->info.frames - count, err, STATUS_BAD_ARGUMENT,
            "%s: frames %d to %lld were asked for; it has %d", file->path, first + 1, (long long)first + count,
            file->info.frames);
    for (int frame = first; frame < first + count; frame++) {
        size_t bytes = 0;
        for (int i = file->first_strip[frame]; i < file->first_strip[frame + 1]; i++) {
            const struct strip *strip = &file->strips[i];
            TRY(file_read_at(file->descriptor, file->path, (int64_t)strip->offset, scratch + bytes,
                             (size_t)strip->bytes, err));
            bytes += (size_t)strip->bytes;
        }
        enum status status =
            eer_decode(&file->format, scratch, bytes, file->info.nx, file->info.ny, level, counts, NULL, err);
        if (status != STATUS_OK) return err_context(err, status, "%s: frame %d", file->path, frame + 1);
    }
    return STATUS_OK;
}

void eer_file_close(struct eer_file **file) {
    if (file == NULL || *file == NULL) return;
    file_close(&(*file)->descriptor);
    free((*file)->strips);
    free((*file)->first_strip);
    free((*file)->path);
    mem_free(file);
}
