/* Keeps account of the files of items in a pipeline: what each item read and wrote goes into the ledger, and an input
 * that is no longer the one that an earlier stage read makes the item fail. Other modes do without. */
#ifndef ICESTREAM_COMMON_HARNESS_FILES_OF_ITEMS_H
#define ICESTREAM_COMMON_HARNESS_FILES_OF_ITEMS_H

#include "common/edges/ledger.h"
#include "common/file_notes.h"
#include "common/harness/stage.h"

struct slot;

/* The files that one item has read and written. The arrays keep their memory from item to item. */
struct slot_files {
    struct file_notes notes;
    struct ledger_file *rows;
    size_t count, capacity;
};

/* Call load and store of the descriptor, and note what they read and write. After load the function compares the files
 * with what the item says about them. Called on the thread of load or store. */
enum status files_load(struct stage *stage, struct slot *slot, struct err *err);
enum status files_store(struct stage *stage, struct slot *slot, struct err *err);
/* Makes rows for the ledger from the notes of an item that is done, or of one that is not. */
enum status files_rows(struct stage *stage, struct slot *slot, bool done, struct err *err);
/* Says in a new item of a source which files it names. */
enum status files_stamp(struct stage *stage, struct item *item, struct err *err);
/* Begin and end the account of the stage's own files: those that belong to no single item, such as joined tables and
 * maps. files_watch_own makes the calling thread note them; files_write_own writes the notes to the ledger, and tries
 * again at the next call if the ledger is not to be had now. */
void files_begin(struct stage *stage);
void files_end(struct stage *stage);
void files_watch_own(struct stage *stage);
void files_write_own(struct stage *stage);

#endif
