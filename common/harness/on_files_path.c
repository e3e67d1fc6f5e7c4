/* Names the files that a user gives a stage on files. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/harness/stage_private.h"

/* Returns whether the path lies below the working directory, and its name there does not mean another file in the
 * root. */
static bool is_below_here(const struct stage *stage, const char *path, const char *here, const char **ret_rest) {
    char other[PATH_SIZE];
    return path_is_below(path, here, ret_rest) && **ret_rest != '\0' &&
           path_join(stage->root, *ret_rest, other, sizeof other, NULL) == STATUS_OK && !file_exists(other);
}

/* Links stay as the user gave them: tables with the names of an archive's disks could not be joined with others of the
 * project. */
enum status stage_files_path(const struct stage *stage, const char *path, const char *beside, char out[PATH_SIZE],
                             struct err *err) {
    char joined[PATH_SIZE], given[PATH_SIZE], real[PATH_MAX], here[PATH_SIZE];
    const char *text = path, *rest;
    TRY(path_join(beside, path, joined, sizeof joined, err));
    if (!file_exists(joined)) TRY(path_join("", path, joined, sizeof joined, err));
    if (realpath(joined, real) != NULL && getcwd(here, sizeof here) != NULL &&
        path_join(here, joined, given, sizeof given, NULL) == STATUS_OK) {
        path_plain(given);
        text = given;
        if ((path_is_below(given, stage->root, &rest) && *rest != '\0') || is_below_here(stage, given, here, &rest) ||
            (path_is_below(real, stage->root, &rest) && *rest != '\0') || is_below_here(stage, real, here, &rest))
            text = rest;
    }
    FAIL_IF(strlen(text) >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "the path '%.80s…' is too long", text);
    memcpy(out, text, strlen(text) + 1);
    return STATUS_OK;
}
