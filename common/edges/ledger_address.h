/* Reads and prints the address of a ledger in PostgreSQL, "postgresql://HOST/DB#SCHEMA/STAGE". Each session has a schema
 * of its own there. An address may stand wherever the path of a ledger's file does. */
#ifndef ICESTREAM_COMMON_EDGES_LEDGER_ADDRESS_H
#define ICESTREAM_COMMON_EDGES_LEDGER_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"

/* Bytes: of a server's address, of the name of a schema, and of the longest name of a stage that keeps a ledger there
 * (names in PostgreSQL have 63). */
enum { LEDGER_URL_SIZE = 512, LEDGER_SCHEMA_SIZE = 64, LEDGER_STAGE_MAX = 48 };

/* A server's address, taken apart. */
struct ledger_url {
    char text[LEDGER_URL_SIZE];
    char host[256]; /* a name, an address, or the folder of a local socket, which begins with '/' */
    bool loopback;  /* this machine: no encryption is asked for */
};
/* Reads postgresql://[USER@]HOST[:PORT]/DB[?host=FOLDER&sslrootcert=FILE&connect_timeout=S]. BAD_ARGUMENT: it is none,
 * or holds a password. The message holds nothing of the text, which may be a secret. */
enum status ledger_url_read(const char *text, struct ledger_url *ret_url, struct err *err);

struct ledger_address {
    struct ledger_url url;
    char schema[LEDGER_SCHEMA_SIZE], stage[LEDGER_STAGE_MAX + 1];
};
/* Returns whether a ledger's path is such an address. */
bool ledger_is_address(const char *path);
/* Takes an address apart. */
enum status ledger_address_read(const char *path, struct ledger_address *ret_address, struct err *err);
/* Writes the address of the ledger of a stage. session: its id, letters and digits. */
enum status ledger_address_print(const char *url, const char *session, const char *stage, char *path, size_t size,
                                 struct err *err);

/* Returns whether this program was built with libpq. */
bool ledger_server_built(void);
/* Returns whether a ledger is there: its file, or its tables. */
enum status ledger_exists(const char *path, bool *ret_exists, struct err *err);
/* Connects to the server of an address, and asks whether it can hold ledgers: its version, durable commits, and, with
 * TLS, its name. UNAVAILABLE: it cannot be reached. UNSUPPORTED: it cannot hold them. */
enum status ledger_server_try(const char *url, struct err *err);
/* Whose the ledgers of a session are. mark: a random text that changes with each run, and that the folder has too: one
 * that has another is a copy of earlier. */
enum { LEDGER_HOLDER_SIZE = 4096 + 256, LEDGER_MARK_SIZE = 33 };
struct ledger_server_owner {
    bool there;                      /* the session has a schema */
    char folder[LEDGER_HOLDER_SIZE]; /* "": of none yet */
    char mark[LEDGER_MARK_SIZE];     /* "": of a version without marks */
};
/* Tells whether the schema of a session is there, and then to whose folder it belongs. */
enum status ledger_server_owner(const char *url, const char *session, struct ledger_server_owner *ret_owner,
                                struct err *err);
/* Makes the schema of a session when it is missing, as none of its ledgers does. */
enum status ledger_server_make(const char *url, const char *session, struct err *err);
/* Does the same; it belongs to `folder` from now on. mark: letters and digits. */
enum status ledger_server_take(const char *url, const char *session, const char *folder, const char *mark,
                               struct err *err);
/* Removes the schema of a session with all its ledgers. */
enum status ledger_server_forget(const char *url, const char *session, struct err *err);

#endif
