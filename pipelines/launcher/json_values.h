/* Values as JSON can hold them. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_JSON_VALUES_H
#define ICESTREAM_PIPELINES_LAUNCHER_JSON_VALUES_H

#include <jansson.h>

/* Returns a text as JSON. Each byte that is no UTF-8 becomes U+FFFD: a path may hold any bytes, and a damaged ledger too.
 * text NULL: "". NULL: no memory. */
json_t *json_value_text(const char *text);
/* Returns a number as JSON; null for NaN and infinity, which JSON lacks. NULL: no memory. */
json_t *json_value_number(double value);

#endif
