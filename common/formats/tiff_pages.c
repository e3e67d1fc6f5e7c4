#include <stdlib.h>
#include <string.h>

#include "common/formats/tiff.h"
#include "common/formats/tiff_private.h"
#include "common/memory.h"

struct tiff_pages {
    struct tiff_reader reader;
    struct tiff_buffers buffers;
    struct tiff_page shape;
    int count;
    uint64_t *offsets; /* [count] of the directories */
    char *path;
};

void tiff_pages_close(struct tiff_pages **pages) {
    if (pages == NULL || *pages == NULL) return;
    tiff_reader_close(&(*pages)->reader);
    tiff_buffers_free(&(*pages)->buffers);
    free((*pages)->offsets);
    free((*pages)->path);
    mem_free(pages);
}

/* Notes where the directory of each page lies, so that any page is one step away. */
static enum status find_pages(struct tiff_pages *pages) {
    struct tiff_reader *r = &pages->reader;
    TRY(tiff_survey(r, &pages->shape, &pages->count));
    TRY(mem_new((size_t)pages->count, sizeof *pages->offsets, "the pages of a movie", &pages->offsets, r->err));
    int found = 0;
    for (bool more = TIFFSetDirectory(r->tiff, 0) != 0; more && found < pages->count;
         more = TIFFReadDirectory(r->tiff) != 0)
        if (!tiff_is_extra(r->tiff)) pages->offsets[found++] = TIFFCurrentDirOffset(r->tiff);
    return found == pages->count ? STATUS_OK : tiff_bad_page(r, (uint32_t)found, "cannot be read again");
}

enum status tiff_pages_open(const char *path, struct tiff_pages **ret_pages, struct err *err) {
    _cleanup_(tiff_pages_close) struct tiff_pages *pages = calloc(1, sizeof *pages);
    FAIL_IF(pages == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    pages->reader.descriptor = -1;
    pages->path = strdup(path);
    FAIL_IF(pages->path == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    TRY(tiff_reader_open(&pages->reader, pages->path, err));
    TRY(find_pages(pages));
    *ret_pages = pages;
    pages = NULL;
    return STATUS_OK;
}

struct image_info tiff_pages_info(const struct tiff_pages *pages) {
    return (struct image_info){.format = IMAGE_TIFF,
                               .nx = (int)pages->shape.nx,
                               .ny = (int)pages->shape.ny,
                               .nz = pages->count,
                               .pixel_size = pages->shape.pixel_size};
}

/* Goes to a page and reads its shape. */
static enum status go_to(struct tiff_pages *pages, int page, struct tiff_page *ret_page, struct err *err) {
    struct tiff_reader *r = &pages->reader;
    r->err = err;
    r->message[0] = '\0';
    FAIL_IF(page < 0 || page >= pages->count, err, STATUS_NOT_FOUND, "%s: has %d pages; number %d was asked for",
            pages->path, pages->count, page + 1);
    if (!TIFFSetSubDirectory(r->tiff, pages->offsets[page]))
        return tiff_bad_page(r, (uint32_t)page, "cannot be read again");
    TRY(tiff_page_shape(r, ret_page));
    FAIL_IF(ret_page->nx != pages->shape.nx || ret_page->ny != pages->shape.ny, err, STATUS_BAD_FORMAT,
            "%s: changed while it was read", pages->path);
    return STATUS_OK;
}

enum status tiff_pages_read(struct tiff_pages *pages, int page, float *out, struct err *err) {
    struct tiff_page p = {0};
    TRY(go_to(pages, page, &p, err));
    return tiff_page_read(&pages->reader, &p, &pages->buffers, out);
}

/* Stores a row of samples that are not as wide as the counts. */
static void store_counts(const struct tiff_page *p, const unsigned char *packed, size_t count, float *row, int bytes,
                         void *out) {
    tiff_to_float(p->sample, p->bits, packed, count, row);
    for (size_t x = 0; x < count; x++)
        if (bytes == 1)
            ((uint8_t *)out)[x] = (uint8_t)row[x];
        else
            ((uint16_t *)out)[x] = (uint16_t)row[x];
}

enum status tiff_pages_read_counts(struct tiff_pages *pages, int page, void *out, struct err *err) {
    struct tiff_page p = {0};
    TRY(go_to(pages, page, &p, err));
    int bytes = tiff_count_bytes(&pages->shape), here = tiff_count_bytes(&p);
    FAIL_IF(here == 0 || here > bytes, err, STATUS_BAD_FORMAT,
            "%s: page %d has pixels of another type than the first (%u and %u bits): pages of one type are expected",
            pages->path, page + 1, p.bits, pages->shape.bits);
    TRY(tiff_buffers_fit(&pages->reader, &p, &pages->buffers));
    for (uint32_t y = 0; y < p.ny; y += p.block_ny)
        for (uint32_t x = 0; x < p.nx; x += p.block_nx) {
            size_t row_bytes = 0, columns = p.nx - x < p.block_nx ? p.nx - x : p.block_nx;
            uint32_t rows = p.ny - y < p.block_ny ? p.ny - y : p.block_ny;
            TRY(tiff_block_decode(&pages->reader, &p, &pages->buffers, x, y, 0, &row_bytes));
            for (uint32_t i = 0; i < rows; i++) {
                const unsigned char *from = pages->buffers.block + i * row_bytes;
                size_t pixel = (size_t)(p.ny - 1 - (y + i)) * p.nx + x;
                unsigned char *to = (unsigned char *)out + pixel * (size_t)bytes;
                if (p.bits == 8 * bytes)
                    memcpy(to, from, columns * (size_t)bytes);
                else
                    store_counts(&p, from, columns, pages->buffers.row, bytes, to);
            }
        }
    return STATUS_OK;
}
