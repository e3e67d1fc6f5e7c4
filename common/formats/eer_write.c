#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/eer_file.h"
#include "common/memory.h"

/* A BigTIFF: a header of 16 bytes; then for each frame its strip and its directory, which names the next one. All
 * numbers are little-endian. */
enum { ENTRIES = 12, ENTRY_BYTES = 20, DIRECTORY_BYTES = 8 + ENTRIES * ENTRY_BYTES + 8 };
enum { TYPE_BYTE = 1, TYPE_SHORT = 3, TYPE_LONG = 4, TYPE_LONG8 = 16 };

struct eer_writer {
    struct file_output *output;
    struct eer_format format;
    int nx, ny, compression;
    uint64_t end;     /* bytes written */
    uint64_t next_at; /* where the offset of the next directory stands */
    uint64_t notes, notes_bytes;
    uint8_t *codes;
    size_t room;
};

static unsigned char *put_number(unsigned char *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++)
        *at++ = (unsigned char)(value >> 8 * i);
    return at;
}

static unsigned char *put_entry(unsigned char *at, int tag, int type, uint64_t count, uint64_t value) {
    at = put_number(at, (uint64_t)tag, 2);
    at = put_number(at, (uint64_t)type, 2);
    at = put_number(at, count, 8);
    return put_number(at, value, 8);
}

static enum status put_bytes(struct eer_writer *w, const void *bytes, size_t length, struct err *err) {
    FAIL_IF(fwrite(bytes, 1, length, file_output_stream(w->output)) != length, err, STATUS_UNAVAILABLE,
            "an EER movie cannot be written: the disk is full or away");
    w->end += length;
    return STATUS_OK;
}

void eer_writer_discard(struct eer_writer **writer) {
    if (writer == NULL || *writer == NULL) return;
    file_discard(&(*writer)->output);
    free((*writer)->codes);
    mem_free(writer);
}

enum status eer_writer_create(const char *path, const struct eer_format *format, int nx, int ny, const char *notes,
                              struct eer_writer **ret_writer, struct err *err) {
    static const unsigned char header[16] = {'I', 'I', 43, 0, 8, 0, 0, 0};
    _cleanup_(eer_writer_discard) struct eer_writer *w = calloc(1, sizeof *w);
    FAIL_IF(w == NULL, err, STATUS_NO_MEMORY, "%s: no memory to write it", path);
    bool usual = format->column_bits == 2 && format->row_bits == 2;
    w->compression = usual && format->skip_bits == 8   ? EER_COMPRESSION_8
                     : usual && format->skip_bits == 7 ? EER_COMPRESSION_7
                                                       : EER_COMPRESSION_TAGS;
    w->format = *format;
    w->nx = nx;
    w->ny = ny;
    w->next_at = 8;
    TRY(file_create(path, &w->output, err));
    TRY(put_bytes(w, header, sizeof header, err));
    w->notes = w->end;
    w->notes_bytes = notes == NULL ? 0 : strlen(notes);
    if (w->notes_bytes > 0) TRY(put_bytes(w, notes, (size_t)w->notes_bytes, err));
    *ret_writer = w;
    w = NULL;
    return STATUS_OK;
}

/* Writes the offset of the directory that comes next where the one before, or the header, has its place. */
static enum status link_directory(struct eer_writer *w, struct err *err) {
    unsigned char offset[8];
    put_number(offset, w->end, 8);
    FILE *stream = file_output_stream(w->output);
    FAIL_IF(fseek(stream, (long)w->next_at, SEEK_SET) != 0 || fwrite(offset, 1, 8, stream) != 8 ||
                fseek(stream, 0, SEEK_END) != 0,
            err, STATUS_UNAVAILABLE, "an EER movie cannot be written: the disk is full or away");
    return STATUS_OK;
}

enum status eer_writer_append(struct eer_writer *w, const struct eer_electron *electrons, size_t count,
                              struct err *err) {
    size_t bound = eer_encoded_bound(&w->format, count, w->nx, w->ny);
    if (bound > w->room) {
        mem_free(&w->codes);
        w->room = 0;
        TRY(mem_new_unset(bound, 1, "an EER frame", &w->codes, err));
        w->room = bound;
    }
    size_t length = eer_encode(&w->format, electrons, count, w->nx, w->ny, w->codes);
    uint64_t strip = w->end;
    TRY(put_bytes(w, w->codes, length, err));
    bool tags = w->compression == EER_COMPRESSION_TAGS, notes = w->notes_bytes > 0;
    unsigned char directory[DIRECTORY_BYTES], *at = directory;
    uint64_t entries = 8 + (notes ? 1 : 0) + (tags ? 3 : 0);
    at = put_number(at, entries, 8);
    at = put_entry(at, 256, TYPE_LONG, 1, (uint64_t)w->nx);
    at = put_entry(at, 257, TYPE_LONG, 1, (uint64_t)w->ny);
    at = put_entry(at, 258, TYPE_SHORT, 1, 1); /* bits a sample, as cameras write it */
    at = put_entry(at, 259, TYPE_SHORT, 1, (uint64_t)w->compression);
    at = put_entry(at, 262, TYPE_SHORT, 1, 1);
    at = put_entry(at, 273, TYPE_LONG8, 1, strip);
    at = put_entry(at, 278, TYPE_LONG, 1, (uint64_t)w->ny);
    at = put_entry(at, 279, TYPE_LONG8, 1, length);
    if (notes) at = put_entry(at, 65001, TYPE_BYTE, w->notes_bytes, w->notes);
    if (tags) {
        at = put_entry(at, 65007, TYPE_SHORT, 1, (uint64_t)w->format.skip_bits);
        at = put_entry(at, 65008, TYPE_SHORT, 1, (uint64_t)w->format.column_bits);
        at = put_entry(at, 65009, TYPE_SHORT, 1, (uint64_t)w->format.row_bits);
    }
    at = put_number(at, 0, 8);
    TRY(link_directory(w, err));
    TRY(put_bytes(w, directory, (size_t)(at - directory), err));
    w->next_at = w->end - 8;
    return STATUS_OK;
}

enum status eer_writer_finish(struct eer_writer **writer, struct err *err) {
    enum status status = file_commit(&(*writer)->output, err);
    eer_writer_discard(writer);
    return status;
}
