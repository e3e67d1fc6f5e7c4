/* The folders of a cumulative stage whose ledger is in PostgreSQL. Each lease writes into a folder of its own,
 * SESSION/leases/STAGE.N/STAGE, and SESSION/STAGE is a symbolic link to that of the lease that counts: whoever reads
 * products finds them under their promised names, and a process whose lease is over writes where nobody reads. */
#ifndef ICESTREAM_COMMON_HARNESS_LEASE_FOLDERS_H
#define ICESTREAM_COMMON_HARNESS_LEASE_FOLDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/files.h"
#include "common/status.h"

/* Writes the path of SESSION/leases/STAGE.N, below which the products have their promised names. */
enum status lease_folders_root(const char *session, const char *stage, int64_t number, char root[PATH_SIZE],
                               struct err *err);
/* Returns the greatest number of a lease that has a folder; 0: none has. */
int64_t lease_folders_last(const char *session, const char *stage);
/* Makes the folder of lease `number`, with all that the folder of lease `before` holds; where that one has none, what
 * SESSION/STAGE holds. Files, which are only ever replaced, become hard links where the file system has these; those to
 * which lines are appended (.jsonl) are copied. On failure nothing of the folder stays. BAD_ARGUMENT: SESSION/STAGE is a
 * link that leads elsewhere. */
enum status lease_folders_make(const char *session, const char *stage, int64_t number, int64_t before, struct err *err);
/* Lets SESSION/STAGE lead to the folder of this lease. A folder that stands there, of a session that had its ledgers in
 * files, moves into the folder of the lease (STAGE.N/before). */
enum status lease_folders_promise(const char *session, const char *stage, int64_t number, struct err *err);
/* Asks which lease's folder counts; 0: none does. */
typedef enum status lease_counts(void *context, int64_t *ret_number, struct err *err);
/* Lets SESSION/STAGE lead to the folder that counts, and asks again after each change: a process that stood still after
 * it had asked changes the link when another's folder counts, and that other may have ended. */
enum status lease_folders_lead(const char *session, const char *stage, lease_counts *counts, void *context,
                               struct err *err);
/* Returns whether SESSION/STAGE leads to the folder of this lease. */
bool lease_folders_promised(const char *session, const char *stage, int64_t number);
/* Removes the folders of all leases before `number`, but that of lease `before`. What cannot be removed only takes
 * room. */
void lease_folders_clear(const char *session, const char *stage, int64_t number, int64_t before);

#endif
