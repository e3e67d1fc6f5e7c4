#include "common/formats/movie.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/eer_file.h"
#include "common/formats/image_formats.h"
#include "common/formats/mrc.h"
#include "common/formats/tiff.h"
#include "common/memory.h"
#include "common/multiversion.h"

struct movie {
    char *path;
    struct movie_info info;
    int group, level;
    struct mrc_reader *mrc; /* NULL, like eer, in a movie of another format */
    struct eer_file *eer;
};

struct movie_reader {
    const struct movie *movie;
    struct tiff_pages *pages;
    uint8_t *codes; /* of one detector frame */
    uint16_t *counts;
    float *values; /* of a frame that is not read in its own type; NULL until there is one */
};

void movie_close(struct movie **movie) {
    if (movie == NULL || *movie == NULL) return;
    mrc_close(&(*movie)->mrc);
    eer_file_close(&(*movie)->eer);
    free((*movie)->path);
    mem_free(movie);
}

/* A pixel of the detector has one electron a frame at most. */
static enum movie_pixels eer_pixels(int group) {
    return group <= UINT8_MAX ? MOVIE_U8 : MOVIE_U16;
}

static enum movie_pixels pixels_of(int count_bytes) {
    return count_bytes == 1 ? MOVIE_U8 : count_bytes == 2 ? MOVIE_U16 : MOVIE_F32;
}

size_t movie_pixel_bytes(enum movie_pixels pixels) {
    return pixels == MOVIE_U8 ? sizeof(uint8_t) : pixels == MOVIE_U16 ? sizeof(uint16_t) : sizeof(float);
}

static enum status open_eer(struct movie *m, const struct movie_options *options, struct err *err) {
    FAIL_IF(options->eer_group < 0 || options->eer_level < 0 || options->eer_level > EER_LEVEL_MAX, err,
            STATUS_BAD_ARGUMENT, "%s: %d EER frames a movie frame at level %d: at least 1 at level 0 to %d is expected",
            m->path, options->eer_group, options->eer_level, EER_LEVEL_MAX);
    TRY(eer_file_open(m->path, &m->eer, err));
    const struct eer_file_info *eer = eer_file_info(m->eer);
    m->group = options->eer_group == 0 ? MOVIE_EER_GROUP : options->eer_group;
    m->level = options->eer_level;
    FAIL_IF(eer->frames < m->group, err, STATUS_BAD_FORMAT,
            "%s: has %d EER frames; one frame of the movie takes %d: lower the number of EER frames in a group",
            m->path, eer->frames, m->group);
    m->info = (struct movie_info){.format = MOVIE_EER,
                                  .pixels = eer_pixels(m->group),
                                  .nx = eer->nx << m->level,
                                  .ny = eer->ny << m->level,
                                  .frames = eer->frames / m->group,
                                  .raw_frames = eer->frames,
                                  .pixel_size = eer->pixel_size / (float)(1 << m->level)};
    return STATUS_OK;
}

/* Finds the type of an MRC's pixels. */
static enum status mrc_pixels(struct mrc_reader *mrc, enum movie_pixels *ret_pixels, struct err *err) {
    const struct mrc_header *h = mrc_reader_header(mrc);
    bool is_signed = h->mode == MRC_INT16 || (h->mode == MRC_INT8 && !h->unsigned_bytes);
    enum movie_pixels pixels = pixels_of(mrc_count_bytes(h));
    if (is_signed) {
        _cleanup_(mem_free) void *frame = NULL;
        TRY(mem_new_unset((size_t)h->nx * (size_t)h->ny, movie_pixel_bytes(pixels), "a frame", &frame, err));
        enum status status = mrc_read_counts(mrc, 0, frame, err);
        if (status != STATUS_OK && status != STATUS_UNSUPPORTED) return status;
        if (status == STATUS_UNSUPPORTED) pixels = MOVIE_F32;
    }
    *ret_pixels = pixels;
    return STATUS_OK;
}

static enum status open_image(struct movie *m, struct err *err) {
    struct image_info info = {0};
    TRY(image_probe(m->path, &info, err));
    FAIL_IF(image_is_photograph(info.format), err, STATUS_UNSUPPORTED,
            "%s: a picture is no movie: MRC, TIFF or EER is expected", m->path);
    m->info = (struct movie_info){.format = info.format == IMAGE_MRC ? MOVIE_MRC : MOVIE_TIFF,
                                  .pixels = pixels_of(info.count_bytes),
                                  .nx = info.nx,
                                  .ny = info.ny,
                                  .frames = info.nz,
                                  .raw_frames = info.nz,
                                  .pixel_size = info.pixel_size};
    if (info.format != IMAGE_MRC) return STATUS_OK;
    TRY(mrc_open(m->path, &m->mrc, err));
    return mrc_pixels(m->mrc, &m->info.pixels, err);
}

enum status movie_open(const char *path, const struct movie_options *options, struct movie **ret_movie,
                       struct err *err) {
    _cleanup_(movie_close) struct movie *m = calloc(1, sizeof *m);
    char *copy = strdup(path);
    if (m == NULL || copy == NULL) {
        free(copy);
        FAIL(err, STATUS_NO_MEMORY, "%s: no memory to read it", path);
    }
    m->path = copy;
    TRY(eer_file_is_one(path) ? open_eer(m, options, err) : open_image(m, err));
    *ret_movie = m;
    m = NULL;
    return STATUS_OK;
}

const struct movie_info *movie_info(const struct movie *movie) {
    return &movie->info;
}

void movie_reader_destroy(struct movie_reader **reader) {
    if (reader == NULL || *reader == NULL) return;
    tiff_pages_close(&(*reader)->pages);
    free((*reader)->codes);
    free((*reader)->counts);
    free((*reader)->values);
    mem_free(reader);
}

enum status movie_reader_create(const struct movie *movie, struct movie_reader **ret_reader, struct err *err) {
    const struct movie_info *info = &movie->info;
    _cleanup_(movie_reader_destroy) struct movie_reader *r = calloc(1, sizeof *r);
    FAIL_IF(r == NULL, err, STATUS_NO_MEMORY, "%s: no memory to read it", movie->path);
    r->movie = movie;
    if (info->format == MOVIE_TIFF) {
        TRY(tiff_pages_open(movie->path, &r->pages, err));
        struct image_info pages = tiff_pages_info(r->pages);
        FAIL_IF(pages.nx != info->nx || pages.ny != info->ny || pages.nz < info->frames, err, STATUS_BAD_FORMAT,
                "%s: changed while it was read", movie->path);
    }
    if (info->format == MOVIE_EER) {
        TRY(mem_new_unset(eer_file_scratch(movie->eer), 1, "an EER frame", &r->codes, err));
        TRY(mem_new_unset((size_t)info->nx * (size_t)info->ny, sizeof *r->counts, "the counts of a frame", &r->counts,
                          err));
    }
    *ret_reader = r;
    r = NULL;
    return STATUS_OK;
}

/* Turns an image over, in place. */
static void flip_rows(float *image, int nx, int ny) {
    for (int y = 0; y < ny / 2; y++) {
        float *low = image + (size_t)y * (size_t)nx, *high = image + (size_t)(ny - 1 - y) * (size_t)nx;
        for (int x = 0; x < nx; x++) {
            float swap = low[x];
            low[x] = high[x];
            high[x] = swap;
        }
    }
}

MULTIVERSION static void counts_to_float(const uint16_t *restrict counts, size_t count, float *restrict out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (float)counts[i];
}

MULTIVERSION static void counts_to_bytes(const uint16_t *restrict counts, size_t count, uint8_t *restrict out) {
    for (size_t i = 0; i < count; i++)
        out[i] = (uint8_t)counts[i];
}

static enum status check_frame(const struct movie *m, int frame, struct err *err) {
    FAIL_IF(frame < 0 || frame >= m->info.frames, err, STATUS_BAD_ARGUMENT, "%s: frame %d was asked for; it has %d",
            m->path, frame + 1, m->info.frames);
    return STATUS_OK;
}

/* Sums the detector's frames of one frame of an EER movie. */
static enum status count_electrons(struct movie_reader *r, int frame, uint16_t *counts, struct err *err) {
    const struct movie *m = r->movie;
    memset(counts, 0, (size_t)m->info.nx * (size_t)m->info.ny * sizeof *counts);
    return eer_file_add(m->eer, frame * m->group, m->group, m->level, r->codes, counts, err);
}

enum status movie_reader_read(struct movie_reader *r, int frame, float *out, struct err *err) {
    const struct movie *m = r->movie;
    const struct movie_info *info = &m->info;
    TRY(check_frame(m, frame, err));
    switch (info->format) {
    case MOVIE_MRC:
        return mrc_read_slices(m->mrc, frame, 1, out, err);
    case MOVIE_TIFF:
        TRY(tiff_pages_read(r->pages, frame, out, err));
        flip_rows(out, info->nx, info->ny);
        return STATUS_OK;
    case MOVIE_EER:
        TRY(count_electrons(r, frame, r->counts, err));
        counts_to_float(r->counts, (size_t)info->nx * (size_t)info->ny, out);
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: a movie of an unknown format", m->path);
}

/* Reads a frame in the movie's own type of whole numbers. */
static enum status read_counts(struct movie_reader *r, int frame, void *out, struct err *err) {
    const struct movie *m = r->movie;
    const struct movie_info *info = &m->info;
    switch (info->format) {
    case MOVIE_MRC:
        return mrc_read_counts(m->mrc, frame, out, err);
    case MOVIE_TIFF:
        return tiff_pages_read_counts(r->pages, frame, out, err);
    case MOVIE_EER:
        if (info->pixels == MOVIE_U16) return count_electrons(r, frame, out, err);
        TRY(count_electrons(r, frame, r->counts, err));
        counts_to_bytes(r->counts, (size_t)info->nx * (size_t)info->ny, out);
        return STATUS_OK;
    }
    FAIL(err, STATUS_BAD_ARGUMENT, "%s: a movie of an unknown format", m->path);
}

/* Reads a frame as floats and stores these in a type of whole numbers. */
static enum status read_narrowed(struct movie_reader *r, int frame, enum movie_pixels pixels, void *out,
                                 struct err *err) {
    const struct movie_info *info = &r->movie->info;
    size_t count = (size_t)info->nx * (size_t)info->ny;
    float most = pixels == MOVIE_U8 ? UINT8_MAX : UINT16_MAX;
    if (r->values == NULL) TRY(mem_new_unset(count, sizeof *r->values, "a frame", &r->values, err));
    TRY(movie_reader_read(r, frame, r->values, err));
    for (size_t i = 0; i < count; i++) {
        float value = r->values[i];
        FAIL_IF(!(value >= 0 && value <= most) || value != floorf(value), err, STATUS_UNSUPPORTED,
                "%s: frame %d holds the value %g; whole numbers from 0 to %g are expected", r->movie->path, frame + 1,
                (double)value, (double)most);
        if (pixels == MOVIE_U8)
            ((uint8_t *)out)[i] = (uint8_t)value;
        else
            ((uint16_t *)out)[i] = (uint16_t)value;
    }
    return STATUS_OK;
}

enum status movie_reader_read_pixels(struct movie_reader *r, int frame, enum movie_pixels pixels, void *out,
                                     struct err *err) {
    TRY(check_frame(r->movie, frame, err));
    if (pixels == MOVIE_F32) return movie_reader_read(r, frame, out, err);
    if (pixels == r->movie->info.pixels) return read_counts(r, frame, out, err);
    return read_narrowed(r, frame, pixels, out, err);
}
