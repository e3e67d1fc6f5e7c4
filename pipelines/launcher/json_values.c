#include "pipelines/launcher/json_values.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/text.h"

json_t *json_value_text(const char *text) {
    static const char unknown[] = "\xef\xbf\xbd";
    const char *from = text != NULL ? text : "";
    json_t *plain = json_string(from);
    if (plain != NULL) return plain;
    size_t left = strlen(from), used = 0;
    char *copy = malloc(3 * left + 1);
    if (copy == NULL) return NULL;
    while (left > 0) {
        size_t length = text_character(from, left), step = length > 0 ? length : 1;
        memcpy(copy + used, length > 0 ? from : unknown, length > 0 ? length : sizeof unknown - 1);
        used += length > 0 ? length : sizeof unknown - 1;
        from += step;
        left -= step;
    }
    json_t *mended = json_stringn(copy, used);
    free(copy);
    return mended;
}

json_t *json_value_number(double value) {
    return isfinite(value) ? json_real(value) : json_null();
}
