#include "common/formats/stack_reader.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

struct stack_reader {
    struct mrc_reader *stack; /* NULL: none is open */
    char path[PATH_SIZE];     /* of the open stack */
    struct stack_reads reads;
};

enum status stack_reader_create(struct stack_reader **ret_reader, struct err *err) {
    return mem_new(1, sizeof **ret_reader, "reading particles", ret_reader, err);
}

void stack_reader_destroy(struct stack_reader **reader) {
    if (reader == NULL || *reader == NULL) return;
    stack_reader_close(*reader);
    mem_free(reader);
}

void stack_reader_close(struct stack_reader *r) {
    mrc_close(&r->stack);
}

struct stack_reads stack_reader_reads(const struct stack_reader *r) {
    return r->reads;
}

static enum status open_stack(struct stack_reader *r, const char *path, struct err *err) {
    if (r->stack != NULL && strcmp(r->path, path) == 0) return STATUS_OK;
    mrc_close(&r->stack);
    TRY(mrc_open(path, &r->stack, err));
    snprintf(r->path, sizeof r->path, "%s", path);
    r->reads.opened++;
    return STATUS_OK;
}

enum status stack_reader_image(struct stack_reader *r, const char *path, int box, int slice, float *out,
                               struct err *err) {
    TRY(open_stack(r, path, err));
    const struct mrc_header *header = mrc_reader_header(r->stack);
    FAIL_IF(header->nx != box || header->ny != box, err, STATUS_BAD_FORMAT,
            "%s has images of %d × %d px; they were of %d px when they joined: another file has taken its place", path,
            header->nx, header->ny, box);
    /* A micrograph that is made again has other particles; the item that says so comes a moment later. */
    FAIL_IF(slice >= header->nz, err, STATUS_BAD_FORMAT,
            "%s has %d images, image %d was asked for: another file has taken its place", path, header->nz, slice + 1);
    TRY(mrc_read_slices(r->stack, slice, 1, out, err));
    r->reads.images++;
    return STATUS_OK;
}
