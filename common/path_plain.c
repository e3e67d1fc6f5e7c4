#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "common/files.h"

bool path_plain(char path[PATH_SIZE]) {
    char parts[PATH_SIZE], plain[PATH_SIZE] = "", real[PATH_MAX], found[PATH_MAX];
    size_t length = 0;
    if (realpath(path, real) == NULL) return false;
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
    if (length == 0 || realpath(plain, found) == NULL || strcmp(found, real) != 0) return false;
    memcpy(path, plain, length + 1);
    return true;
}
