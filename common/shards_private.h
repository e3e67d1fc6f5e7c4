/* Declares the parts of shards that its two files share: shards_open.c opens, loads and removes, shards.c reads and
 * writes. */
#ifndef ICESTREAM_COMMON_SHARDS_PRIVATE_H
#define ICESTREAM_COMMON_SHARDS_PRIVATE_H

#include <pthread.h>
#include <stdint.h>

#include "common/files.h"
#include "common/names.h"
#include "common/shards.h"

#define SHARDS_MAGIC "ICESHRD1"

/* The head of an index file, and its rows, as they lie on the disk of one machine. check: the low half of the digest
 * of the bytes before it. */
struct shard_head {
    char magic[8];
    uint64_t number, size, check;
};
struct shard_row {
    struct digest_value key, digest;
    uint64_t check;
};

struct shard_record {
    struct digest_value key, digest;
    int shard, slot; /* shard −1: it was damaged */
};

struct shard {
    size_t size;           /* of a record */
    int number, taken;     /* of its files; slots that are in use, or were */
    int descriptor, index; /* −1: not open */
    int users;             /* threads that read or write */
    bool gone;             /* its file cannot be opened */
};

struct shards {
    pthread_mutex_t lock; /* for all below */
    bool lock_made;
    char folder[PATH_SIZE];
    int owner;                  /* descriptor of the file whose lock keeps other processes away */
    size_t most, bytes, unseen; /* unseen: bytes written since free space was looked at */
    struct shard *list;
    int count, room, open, hand; /* hand: where the search for one to close goes on */
    struct shard_record *records;
    size_t record_count, record_room;
    struct names table; /* finds records by their keys */
    struct shards_report report;
};

/* Returns the low half of a digest, which finds a head or a row that is not whole. */
uint64_t shards_check(const void *bytes, size_t size);
/* Writes the path of a shard's file. ending: "shard" or "index". */
void shards_file(const struct shards *shards, int number, const char *ending, char path[PATH_SIZE]);
/* Returns the byte at which the row of a slot begins in its index. */
int64_t shards_row_place(int slot);
enum status shards_add_record(struct shards *shards, const struct shard_record *record, struct err *err);
enum status shards_add_shard(struct shards *shards, const struct shard *shard, struct err *err);

#endif
