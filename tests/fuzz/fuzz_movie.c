#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/formats/movie.h"

/* Larger frames take memory and show nothing more. */
enum { MOST_PIXELS = 1 << 20, MOST_FRAMES = 4 };

/* Reads a frame as floats and in the movie's own type: both are the same numbers, or both fail. */
static void read_twice(struct movie_reader *reader, const struct movie_info *info, int frame, float *floats, void *own,
                       const char *path) {
    struct err err = {0};
    size_t pixels = (size_t)info->nx * (size_t)info->ny;
    enum status as_floats = movie_reader_read(reader, frame, floats, &err);
    FUZZ_CHECK(as_floats == STATUS_OK || strstr(err.message, path) != NULL);
    enum status as_own = movie_reader_read_pixels(reader, frame, info->pixels, own, &err);
    FUZZ_CHECK(as_own == STATUS_OK || strstr(err.message, path) != NULL);
    if (info->pixels == MOVIE_F32 || as_own != STATUS_OK) return;
    FUZZ_CHECK(as_floats == STATUS_OK);
    for (size_t i = 0; i < pixels; i++)
        FUZZ_CHECK(floats[i] ==
                   (float)(info->pixels == MOVIE_U8 ? ((const uint8_t *)own)[i] : ((const uint16_t *)own)[i]));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    char path[64];
    int descriptor = fuzz_file(bytes, length, path);
    struct err err = {0};
    struct movie *movie = NULL;
    struct movie_reader *reader = NULL;
    const struct movie_options options = {.eer_group = 1 + (int)(length % 2), .eer_level = (int)(length % 3)};
    enum status opened = movie_open(path, &options, &movie, &err);
    FUZZ_CHECK(opened == STATUS_OK || strstr(err.message, path) != NULL);
    const struct movie_info *info = opened == STATUS_OK ? movie_info(movie) : NULL;
    if (info != NULL && (size_t)info->nx * (size_t)info->ny <= MOST_PIXELS &&
        movie_reader_create(movie, &reader, &err) == STATUS_OK) {
        size_t pixels = (size_t)info->nx * (size_t)info->ny;
        float *floats = calloc(pixels, sizeof *floats);
        void *own = calloc(pixels, movie_pixel_bytes(info->pixels));
        FUZZ_CHECK(floats != NULL && own != NULL);
        for (int f = 0; f < info->frames && f < MOST_FRAMES; f++)
            read_twice(reader, info, f, floats, own, path);
        free(floats);
        free(own);
    }
    movie_reader_destroy(&reader);
    movie_close(&movie);
    close(descriptor);
    return 0;
}
