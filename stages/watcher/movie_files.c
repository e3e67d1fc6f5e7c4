#include "stages/watcher/movie_files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/files.h"
#include "common/formats/image_formats.h"
#include "common/formats/movie.h"
#include "common/formats/mrc.h"
#include "common/memory.h"

enum status movie_file_probe(const char *path, struct image_info *ret_info, struct err *err) {
    _cleanup_(movie_close) struct movie *movie = NULL;
    const struct movie_options options = {.eer_group = 1};
    TRY(movie_open(path, &options, &movie, err));
    const struct movie_info *info = movie_info(movie);
    *ret_info = (struct image_info){.format = info->format == MOVIE_MRC ? IMAGE_MRC : IMAGE_TIFF,
                                    .nx = info->nx,
                                    .ny = info->ny,
                                    .nz = info->raw_frames,
                                    .pixel_size = info->pixel_size};
    return STATUS_OK;
}

/* Returns whether a name holds one of the words of gain references, dark images and sums. */
static bool name_says_so(const char *path) {
    static const char *const words[] = {"gain", "countref", "superref", "sumref", "dark", "_sum", "-sum"};
    char name[PATH_SIZE];
    snprintf(name, sizeof name, "%s", path_name(path));
    for (char *c = name; *c != '\0'; c++)
        *c = (char)tolower((unsigned char)*c);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(name, words[i]) != NULL) return true;
    return false;
}

static bool is_same_file(const char *a, const char *b) {
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Finds a movie of several frames with the name of the file, but for what programs add to it. */
static bool has_movie_beside(const char *path, char *beside, size_t size) {
    static const char *const marks[] = {"", "_Fractions", "_fractions", "_EER", "_frames", ".frames"};
    char stem[PATH_SIZE];
    const char *ending;
    if (path_without_ending(path, stem, sizeof stem, NULL) != STATUS_OK) return false;
    for (size_t m = 0; m < sizeof marks / sizeof *marks; m++)
        for (size_t i = 0; (ending = image_ending(i, IMAGE_AS_MOVIE)) != NULL; i++) {
            struct image_info info;
            int length = snprintf(beside, size, "%s%s%s", stem, marks[m], ending);
            if (length < 0 || (size_t)length >= size || !file_exists(beside) || is_same_file(path, beside)) continue;
            if (movie_file_probe(beside, &info, NULL) == STATUS_OK && info.nz > 1) return true;
        }
    return false;
}

/* Signed integers of an MRC may be counts: SerialEM divides by two and stores such. */
static bool has_float_pixels(const char *path, const struct image_info *info) {
    _cleanup_(movie_close) struct movie *movie = NULL;
    struct mrc_header header = {0};
    if (info->format == IMAGE_MRC)
        return mrc_read_header(path, &header, NULL) == STATUS_OK &&
               (header.mode == MRC_FLOAT32 || header.mode == MRC_FLOAT16);
    const struct movie_options options = {.eer_group = 1};
    return movie_open(path, &options, &movie, NULL) == STATUS_OK && movie_info(movie)->pixels == MOVIE_F32;
}

bool movie_file_is_none(const char *path, const struct image_info *info, char *reason, size_t size) {
    char beside[PATH_SIZE];
    if (info->nz > 1) return false;
    if (name_says_so(path))
        snprintf(reason, size, "it holds one image, and its name is that of a gain reference, a dark image or a sum");
    else if (has_float_pixels(path, info))
        snprintf(reason, size, "it holds one image of fractional values: a gain reference or a sum");
    else if (has_movie_beside(path, beside, sizeof beside))
        snprintf(reason, size, "it holds one image, the sum of %s beside it", path_name(beside));
    else
        return false;
    return true;
}
