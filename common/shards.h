/* Keeps copies of images, or of any other bytes, in a folder on a local disk: a cache, never the only place.
 *
 * A folder DIR serves many owners. Each has a folder of its own in it, DIR/icestream-UID-HASH, where HASH follows
 * from the owner's name, so that the owner finds its images again in a later run. There records of one size lie in shards of
 * 4,096 (NNNNNN.shard); beside each lies its index (NNNNNN.index), with the key and the digest of each record. A record
 * that does not have its digest is not given out, so that files may be lost, cut, altered or exchanged at any time.
 *
 * A full disk, or any other trouble, ends the writing for this run and is no error. Any number of threads may read and
 * write. No memory is allocated for a record but what the table of all keys needs to grow. */
#ifndef ICESTREAM_COMMON_SHARDS_H
#define ICESTREAM_COMMON_SHARDS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/digest.h"
#include "common/status.h"

enum { SHARD_RECORDS = 4096 };

struct shards;
/* Opens the owner's part of `folder`, and makes it if it is not there. owner: the absolute path of a folder that exists
 * as long as the copies are of use. most: bytes that they may take; 0: no limit. In any case a twentieth of the file
 * system, at most 10 GiB, stays free. Removes parts of owners that no longer exist. STATUS_UNAVAILABLE: another process
 * has the owner's part open, or the folder cannot be used. */
enum status shards_open(const char *folder, const char *owner, size_t most, struct shards **ret_shards,
                        struct err *err);
/* Closes it. remove: its files are of no use any more. Accepts NULL. */
void shards_close(struct shards **shards, bool remove);

/* Reads the record of a key, of at most `room` bytes. Returns its size; 0: there is none, or it was damaged. `bytes`
 * may then be changed. */
size_t shards_read(struct shards *shards, struct digest_value key, void *bytes, size_t room);
/* Keeps a record, if there is room and none is kept under the key. */
void shards_write(struct shards *shards, struct digest_value key, const void *bytes, size_t size);

struct shards_report {
    size_t records, bytes; /* kept now */
    size_t found;          /* records that a run before had left */
    size_t damaged;        /* records that were not given out */
    bool stopped;          /* nothing more is written */
    char why[256];         /* "" if not stopped */
};
void shards_report(struct shards *shards, struct shards_report *ret_report);

#endif
