/* Finds the files of a cumulative stage's newest result, or of an earlier one, by its history. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_API_MAPS_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_API_MAPS_H

#include "pipelines/launcher/api/api_private.h"

/* One line of history.jsonl. */
struct api_product {
    int64_t iteration;
    bool final;
    char stem[PATH_SIZE]; /* "refiner/run_it014", from the first file that ends with `ending` */
};
/* Finds the last line of an iteration (−1: the newest) that has a file with this ending. NOT_FOUND: none yet. */
enum status api_product_find(struct serve *serve, const char *stage, int64_t iteration, const char *ending,
                             struct api_product *ret_product, struct err *err);
/* Builds stem + ending. */
void api_product_path(const struct api_product *product, const char *ending, char path[PATH_SIZE]);

#endif
