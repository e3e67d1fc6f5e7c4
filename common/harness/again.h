/* A stage writes a record when it would make items again that it has done, because it works otherwise from now on. The
 * launcher sends them again, in a later revision, as `icestream redo` does, while nothing else is on its way to the
 * stage. The record lies in the stage's own folder:
 *
 *   again.json  {"v": 1, "number": 2, "column": "icestreamPickEpoch", "spared": 20}
 *
 * Items are meant that are done, and whose column is less than number, or absent. Each of them is sent again once for
 * each number; its "again" is that number then. One item in `spared`, by its id, is not meant: the stage goes on making
 * it as before (again_spares). */
#ifndef ICESTREAM_COMMON_HARNESS_AGAIN_H
#define ICESTREAM_COMMON_HARNESS_AGAIN_H

#include <stdbool.h>

#include "common/status.h"

#define AGAIN_RECORD "again.json"

enum { AGAIN_COLUMN = 64 };

struct again {
    int number; /* from 1 */
    char column[AGAIN_COLUMN];
    int spared; /* 0: no item is */
};

/* Returns whether an item is spared: the same ones whenever and wherever it is asked. */
bool again_spares(int spared, const char *id);

/* Writes the record into a folder, and replaces the one before. */
enum status again_write(const char *folder, const struct again *again, struct err *err);
/* Reads the record. STATUS_NOT_FOUND: there is none. STATUS_BAD_FORMAT: it is damaged. */
enum status again_read(const char *folder, struct again *ret_again, struct err *err);

#endif
