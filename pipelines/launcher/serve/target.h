/* Reads what strangers send: the target of a request, Host, Origin, Cookie, Authorization. Everything works on bytes as
 * they came and allocates nothing. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_TARGET_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_TARGET_H

#include <stdbool.h>
#include <stddef.h>

#include "pipelines/launcher/serve/http.h"

struct target {
    char path[HTTP_PATH_SIZE]; /* decoded, begins with '/' */
    char values[HTTP_PATH_SIZE];
    struct http_pair pairs[HTTP_PAIRS]; /* point into values */
    size_t pair_count;
};

/* Reads "/path?key=value&…" (origin form alone). False for anything else: another form, a broken % sequence, a control
 * character or a zero byte in decoded text, "." or ".." or an empty part in the path, text that is no UTF-8, too many
 * values, too long a text. */
bool target_read(const char *text, struct target *ret_target);

/* Reads NAME, NAME:PORT, ADDRESS:PORT or [ADDRESS]:PORT. ret_name gets the name without port and brackets, in small
 * letters. */
bool target_host(const char *text, char *ret_name, size_t size);
/* Returns whether Origin is that of this Host: "http://HOST" or "https://HOST". */
bool target_same_origin(const char *origin, const char *host);
/* Copies the value of a cookie out of a Cookie header. False: the header lacks it, or it is too long. */
bool target_cookie(const char *header, const char *name, char *ret_value, size_t size);
/* Copies the token of "Bearer TOKEN". */
bool target_bearer(const char *header, char *ret_value, size_t size);
/* Returns whether the header, such as Accept-Encoding, lists the word and does not give it q=0. */
bool target_accepts(const char *header, const char *word);
/* Returns whether two texts are equal; takes the same time wherever they differ. */
bool target_equal(const char *a, const char *b);

#endif
