/* Matches file names with a list of globs, such as a watcher's `pattern`: "*.mrc,*.tif". */
#ifndef ICESTREAM_COMMON_PATTERN_H
#define ICESTREAM_COMMON_PATTERN_H

#include <stdbool.h>

#include "common/status.h"

struct pattern {
    char *text; /* the globs, each with a terminating 0 */
    int count;
};
/* Splits a list of globs with commas between them. */
enum status pattern_create(const char *globs, struct pattern *ret_pattern, struct err *err);
/* Frees the text of the globs. */
void pattern_destroy(struct pattern *pattern);
/* Returns whether one of the globs matches the name or, if the glob has a slash, the relative path. Ignores case.
 * Hidden files match no glob. */
bool pattern_match(const struct pattern *pattern, const char *relative);

#endif
