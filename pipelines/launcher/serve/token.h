/* The secret that opens a page: 32 random bytes as 64 hexadecimal digits, in a file that only its owner reads. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_TOKEN_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_TOKEN_H

#include <stdbool.h>

#include "common/status.h"

enum { TOKEN_SIZE = 65 };

/* Makes a token that is kept nowhere. */
enum status token_make(char ret_token[TOKEN_SIZE], struct err *err);
/* Reads the token of a file, or makes it with mode 0600 where the file is not there or anew is set. BAD_STATE: others
 * may read the file, or it is a link. BAD_FORMAT: it holds something else. */
enum status token_load(const char *path, bool anew, char ret_token[TOKEN_SIZE], struct err *err);

#endif
