#include "common/formats/stack_reader.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/mrc_pixels.h"
#include "common/memory.h"

/* The state of a stack when it was opened, or when it was asked for. */
struct stack_state {
    int64_t size, mtime_ns;
};

struct stack_reader {
    struct shards *cache;
    struct mrc_reader *stack; /* NULL: none is open */
    char path[PATH_SIZE];     /* of the open stack */
    struct stack_state state; /* of the open stack, where there is a cache */
    uint16_t *halves;         /* an image as the cache has it */
    size_t room;              /* pixels */
    struct stack_reads reads;
};

enum status stack_reader_create(struct shards *cache, struct stack_reader **ret_reader, struct err *err) {
    TRY(mem_new(1, sizeof **ret_reader, "reading particles", ret_reader, err));
    (*ret_reader)->cache = cache;
    return STATUS_OK;
}

void stack_reader_destroy(struct stack_reader **reader) {
    if (reader == NULL || *reader == NULL) return;
    stack_reader_close(*reader);
    mem_free(&(*reader)->halves);
    mem_free(reader);
}

void stack_reader_close(struct stack_reader *r) {
    mrc_close(&r->stack);
}

struct stack_reads stack_reader_reads(const struct stack_reader *r) {
    return r->reads;
}

static bool is_open(const struct stack_reader *r, const char *path) {
    return r->stack != NULL && strcmp(r->path, path) == 0;
}

static enum status open_stack(struct stack_reader *r, const char *path, struct err *err) {
    if (is_open(r, path)) return STATUS_OK;
    mrc_close(&r->stack);
    TRY(mrc_open(path, &r->stack, err));
    snprintf(r->path, sizeof r->path, "%s", path);
    r->reads.opened++;
    return STATUS_OK;
}

static enum status read_image(struct stack_reader *r, const char *path, int box, int slice, float *out,
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

static bool state_of(const char *path, struct stack_state *ret_state) {
    struct stat info;
    if (stat(path, &info) != 0) return false;
    *ret_state = (struct stack_state){.size = info.st_size, .mtime_ns = file_mtime_ns(&info)};
    return true;
}

/* Returns the name of an image in the cache. Whatever changes the image changes the name. */
static struct digest_value key_of(const char *path, const struct stack_state *state, int box, int slice) {
    char text[PATH_SIZE + 100];
    int length = snprintf(text, sizeof text, "%lld %lld %d %d %s", (long long)state->size, (long long)state->mtime_ns,
                          box, slice, path);
    return digest_memory(text, (size_t)length);
}

/* Makes room for an image of so many halves. */
static bool reserve(struct stack_reader *r, size_t pixels) {
    return mem_renew(pixels, sizeof *r->halves, "a particle", &r->halves, &r->room, NULL) == STATUS_OK;
}

/* The cache has images of mode 12 as float16, which loses nothing, and all others as float32. */
static void keep(struct stack_reader *r, struct digest_value key, const float *image, size_t pixels) {
    if (mrc_reader_header(r->stack)->mode != MRC_FLOAT16) {
        shards_write(r->cache, key, image, pixels * sizeof *image);
        return;
    }
    if (!reserve(r, pixels)) return;
    for (size_t i = 0; i < pixels; i++)
        r->halves[i] = mrc_float_to_half(image[i]);
    shards_write(r->cache, key, r->halves, pixels * sizeof *r->halves);
}

static bool find(struct stack_reader *r, struct digest_value key, float *out, size_t pixels) {
    size_t size = shards_read(r->cache, key, out, pixels * sizeof *out);
    if (size == pixels * sizeof *out) return true;
    if (size != pixels * sizeof *r->halves || !reserve(r, pixels)) return false;
    memcpy(r->halves, out, size);
    for (size_t i = 0; i < pixels; i++)
        out[i] = mrc_half_to_float(r->halves[i]);
    return true;
}

enum status stack_reader_image(struct stack_reader *r, const char *path, int box, int slice, float *out,
                               struct err *err) {
    const size_t pixels = (size_t)box * (size_t)box;
    struct stack_state state;
    if (r->cache == NULL) return read_image(r, path, box, slice, out, err);
    if (!state_of(path, &state)) { /* a stack that is away is an error, even if the cache has the image */
        mrc_close(&r->stack);
        return read_image(r, path, box, slice, out, err);
    }
    struct digest_value key = key_of(path, &state, box, slice);
    if (find(r, key, out, pixels)) {
        r->reads.cached++;
        return STATUS_OK;
    }
    /* The copy under this key must come from the file that has this state. */
    if (is_open(r, path) && memcmp(&r->state, &state, sizeof state) != 0) mrc_close(&r->stack);
    if (!is_open(r, path)) r->state = state;
    TRY(read_image(r, path, box, slice, out, err));
    keep(r, key, out, pixels);
    return STATUS_OK;
}
