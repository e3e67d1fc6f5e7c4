#include "common/edges/transport_keys.h"

#include <errno.h>
#include <zmq.h>

enum status transport_make_keys(char ret_public[TRANSPORT_KEY_SIZE], char ret_secret[TRANSPORT_KEY_SIZE],
                                struct err *err) {
    FAIL_IF(zmq_curve_keypair(ret_public, ret_secret) != 0, err, STATUS_UNSUPPORTED,
            "no keys for tcp can be made: %s; use `transport: ipc`", zmq_strerror(errno));
    return STATUS_OK;
}
