#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"
#include "common/pattern.h"

enum status pattern_create(const char *globs, struct pattern *ret_pattern, struct err *err) {
    struct pattern pattern = {.text = calloc(strlen(globs) + 2, 1)};
    FAIL_IF(pattern.text == NULL, err, STATUS_NO_MEMORY, "no memory for a pattern");
    char *out = pattern.text;
    for (const char *rest = globs; *rest != '\0';) {
        rest += strspn(rest, ", \t");
        size_t length = strcspn(rest, ",");
        size_t used = length;
        while (used > 0 && (rest[used - 1] == ' ' || rest[used - 1] == '\t'))
            used--;
        if (used > 0) {
            memcpy(out, rest, used);
            out += used + 1;
            pattern.count++;
        }
        rest += length;
    }
    if (pattern.count == 0) {
        pattern_destroy(&pattern);
        FAIL(err, STATUS_BAD_ARGUMENT, "the pattern '%s' holds no glob: expected one or more, as in \"*.mrc,*.tif\"",
             globs);
    }
    *ret_pattern = pattern;
    return STATUS_OK;
}

void pattern_destroy(struct pattern *pattern) {
    free(pattern->text);
    *pattern = (struct pattern){0};
}

bool pattern_match(const struct pattern *pattern, const char *relative) {
    const char *name = path_name(relative), *glob = pattern->text;
    if (name[0] == '.') return false;
    for (int i = 0; i < pattern->count; i++, glob += strlen(glob) + 1) {
        bool whole = strchr(glob, '/') != NULL;
        int flags = FNM_PERIOD | FNM_CASEFOLD | (whole ? FNM_PATHNAME : 0);
        if (fnmatch(glob, whole ? relative : name, flags) == 0) return true;
    }
    return false;
}
