/* Names the files that a user gives a stage on files. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/harness/stage_private.h"

static bool leads_to(const char *folder, const char *name, const char *real) {
    char path[PATH_SIZE], found[PATH_MAX];
    return path_join(folder, name, path, sizeof path, NULL) == STATUS_OK && realpath(path, found) != NULL &&
           strcmp(found, real) == 0;
}

/* Takes "./" and "//" away, and "..", if the path still leads to the same file: a ".." behind a link may not be taken
 * away. Else the path stays. */
static void simplify(char path[PATH_SIZE], const char *real) {
    char parts[PATH_SIZE], plain[PATH_SIZE] = "";
    size_t length = 0;
    memcpy(parts, path, strlen(path) + 1);
    for (char *rest = NULL, *part = strtok_r(parts, "/", &rest); part != NULL; part = strtok_r(NULL, "/", &rest)) {
        if (strcmp(part, ".") == 0) continue;
        if (strcmp(part, "..") == 0) {
            while (length > 0 && plain[--length] != '/') {
            }
            plain[length] = '\0';
            continue;
        }
        plain[length++] = '/';
        memcpy(plain + length, part, strlen(part) + 1);
        length += strlen(part);
    }
    if (leads_to("", plain, real)) memcpy(path, plain, length + 1);
}

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
        simplify(given, real);
        text = given;
        if ((path_is_below(given, stage->root, &rest) && *rest != '\0') || is_below_here(stage, given, here, &rest) ||
            (path_is_below(real, stage->root, &rest) && *rest != '\0') || is_below_here(stage, real, here, &rest))
            text = rest;
    }
    FAIL_IF(strlen(text) >= PATH_SIZE, err, STATUS_BAD_ARGUMENT, "the path '%.80s…' is too long", text);
    memcpy(out, text, strlen(text) + 1);
    return STATUS_OK;
}
