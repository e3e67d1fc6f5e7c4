/* A stage writes a record when it would make items again that it has done, because it works otherwise from now on. The
 * launcher sends them again, in a later revision, as `icestream redo` does, while nothing else is on its way to the
 * stage. The record lies in the stage's own folder:
 *
 *   again.json  {"v": 1, "number": 2, "column": "icestreamPickEpoch"}
 *
 * Items are meant that are done, and whose column is less than number, or absent. Each of them is sent again once for
 * each number; its "again" is that number then. */
#ifndef ICESTREAM_COMMON_HARNESS_AGAIN_H
#define ICESTREAM_COMMON_HARNESS_AGAIN_H

#include "common/status.h"

#define AGAIN_RECORD "again.json"

enum { AGAIN_COLUMN = 64 };

struct again {
    int number; /* from 1 */
    char column[AGAIN_COLUMN];
};

/* Writes the record into a folder, and replaces the one before. */
enum status again_write(const char *folder, const struct again *again, struct err *err);
/* Reads the record. STATUS_NOT_FOUND: there is none. STATUS_BAD_FORMAT: it is damaged. */
enum status again_read(const char *folder, struct again *ret_again, struct err *err);

#endif
