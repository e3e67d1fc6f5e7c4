/* Makes the keys for sockets that leave the host (CURVE): one pair for each session, which all its stages share. */
#ifndef ICESTREAM_COMMON_EDGES_TRANSPORT_KEYS_H
#define ICESTREAM_COMMON_EDGES_TRANSPORT_KEYS_H

#include "common/status.h"

enum { TRANSPORT_KEY_SIZE = 41 }; /* 40 characters of Z85 and a terminating 0 */

/* Makes a new pair of keys. */
enum status transport_make_keys(char ret_public[TRANSPORT_KEY_SIZE], char ret_secret[TRANSPORT_KEY_SIZE],
                                struct err *err);

#endif
