/* Makes items of movies from files, for stages that take movies. */
#include <string.h>

#include "common/formats/image_formats.h"
#include "common/formats/movie.h"
#include "common/formats/star_numbers.h"
#include "common/harness/micrograph_table.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

bool stage_files_are_movies(const struct stage *stage) {
    return strstr(stage->descriptor->in, "movie") != NULL;
}

const char *stage_files_kind(const struct stage *stage) {
    return stage_files_are_movies(stage) ? "movie" : "micrograph";
}

const char *stage_files_member(const struct stage *stage) {
    return stage_files_are_movies(stage) ? "movie.path" : "micrograph.path";
}

bool stage_files_may_be_movie(const struct stage *stage, const char *path) {
    _cleanup_(movie_close) struct movie *movie = NULL;
    const struct movie_options options = {.eer_group = 1};
    if (!image_path_fits(path, IMAGE_AS_MOVIE)) return false;
    if (movie_open(path, &options, &movie, NULL) != STATUS_OK || movie_info(movie)->frames > 1) return true;
    log_write(stage->log, LOG_INFO, "no-movie", "%s: left out: it holds one image, as a gain reference or a sum does",
              path);
    return false;
}

enum status stage_files_set_movie(const struct stage *stage, struct item *item, const char *path,
                                  double *ret_pixel_size, struct err *err) {
    _cleanup_(movie_close) struct movie *movie = NULL;
    const struct movie_options options = {.eer_group = 1};
    char absolute[PATH_SIZE];
    TRY(item_set_string(item, "movie.path", path, err));
    *ret_pixel_size = 0;
    if (stage_resolve(stage, path, absolute, NULL) != STATUS_OK ||
        movie_open(absolute, &options, &movie, NULL) != STATUS_OK)
        return STATUS_OK;
    const struct movie_info *info = movie_info(movie);
    TRY(item_set_number(item, "movie.nx", info->nx, err));
    TRY(item_set_number(item, "movie.ny", info->ny, err));
    TRY(item_set_number(item, "movie.frames", info->frames, err));
    *ret_pixel_size = (double)info->pixel_size;
    return STATUS_OK;
}

enum status stage_files_set_named(const struct stage *stage, const struct star_table *table, size_t row,
                                  const char *folder, struct item *item, struct err *err) {
    char path[PATH_SIZE];
    double pre_exposure = item_number(item, "columns.rlnMicrographPreExposure", -1);
    if (stage_files_are_movies(stage))
        return pre_exposure >= 0 ? item_set_number(item, "movie.pre_exposure", pre_exposure, err) : STATUS_OK;
    for (int i = 0; i < MICROGRAPH_FILES; i++) {
        const struct micrograph_file *file = &micrograph_files[i];
        int column = star_column_find(table, file->column);
        const char *name = column >= 0 ? star_get(table, row, column) : "";
        if (name[0] == '\0' || strcmp(name, star_missing(file->column)) == 0) continue;
        TRY(stage_files_path(stage, name, folder, path, err));
        TRY(item_set_string(item, file->member, path, err));
    }
    return STATUS_OK;
}
