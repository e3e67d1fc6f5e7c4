/* Globs of the files that are taken, as a watcher's `pattern` has them: "*.mrc,*.tif". */
#ifndef ICESTREAM_COMMON_PATTERN_H
#define ICESTREAM_COMMON_PATTERN_H

#include <stdbool.h>

#include "common/status.h"

struct pattern {
    char *text; /* the globs, each ended by 0 */
    int count;
};
enum status pattern_create(const char *globs, struct pattern *ret_pattern, struct err *err);
void pattern_destroy(struct pattern *pattern);
/* Whether one of the globs matches the name, or, if it has a slash, the relative path. Case does not matter. Hidden files
 * match none. */
bool pattern_match(const struct pattern *pattern, const char *relative);

#endif
