/* Sockets on which the page is served: a Unix socket that only its owner may open, or a port. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_LISTEN_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_LISTEN_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Longest path that ssh and curl can open. */
enum { LISTEN_PATH_MAX = 107 };

/* Makes a Unix socket with mode 0600. A socket that nobody serves any more is replaced. BAD_STATE: somebody serves it.
 * BAD_ARGUMENT: the path is too long, or another file is there. */
enum status listen_unix(const char *path, int *ret_socket, struct err *err);
/* Makes a socket for "HOST:PORT" or "[HOST]:PORT". Port 0: any free one; `before` is tried first, 0: none. beyond:
 * addresses that others reach are allowed. ret_port: the one that it has. */
enum status listen_tcp(const char *address, bool beyond, int before, int *ret_socket, int *ret_port, struct err *err);
/* Writes the address for a URL: "127.0.0.1", "[::1]"; of all addresses, "localhost". */
enum status listen_name(const char *address, char *ret_name, size_t size, struct err *err);

#endif
