/* Decisions made by hand (`icestream mark`): exposures that are kept or rejected, and the particles of classes
 * that are kept or rejected. Read from SESSION/changes/NNNN.json, in their order:
 *
 *   {"v": 1, "number": 4, …, "by": "mark", "changes": [],
 *    "marks": [{"source": "watcher", "id": "mov_00003", "mark": "keep" | "reject" | null, "why": "ice"}]}
 *   {"v": 1, "number": 5, …, "by": "mark", "changes": [], "members": "changes/0005.star",
 *    "choices": [{"stage": "classifier", "iteration": 8, "classes": [1, 3], "choice": "keep" | "reject" | null}]}
 *
 * `members` lists the particles that these classes had in that snapshot: rlnImageName, rlnClassNumber, and where known
 * rlnCoordinateX and rlnCoordinateY, by which a particle of an item that was made again is told from the one before. A
 * null takes a mark back, or all choices of that snapshot for these classes (for all of them, if the list is empty). A
 * choice binds its particles until it is taken back; the last one counts. A `whole` change makes the session begin anew,
 * so that nothing before it counts. Not safe for several threads at once. */
#ifndef ICESTREAM_COMMON_HARNESS_CHOICES_H
#define ICESTREAM_COMMON_HARNESS_CHOICES_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/edges/item.h"
#include "common/status.h"

enum choice { CHOICE_NONE, CHOICE_KEEP, CHOICE_REJECT };

struct choices;

/* Prepares to read the choices of a session; reads nothing yet. stage: the stage whose choices of classes count; NULL:
 * those of no stage. */
enum status choices_create(const char *session, const char *stage, struct choices **ret_choices, struct err *err);
/* Frees the choices and sets the pointer to NULL; accepts NULL. */
void choices_destroy(struct choices **choices);
/* Reads what has come since the last call; costs one look into the folder when nothing has. ret_changed (may be NULL):
 * something here has changed. BAD_FORMAT: a file is broken; what was read before still counts, and the next call tries
 * again. */
enum status choices_poll(struct choices *choices, bool *ret_changed, struct err *err);
/* Returns the number of the last change with a mark, or with a choice of this stage; 0: none. */
int choices_number(const struct choices *choices);
/* Returns the mark of an exposure. */
enum choice choices_of_item(const struct choices *choices, struct ledger_key key);
/* Returns the entry of an exposure's mark: {"source", "id", "mark", "why", "number", "time", "user"}; NULL: no mark.
 * Valid until the next choices_poll. */
const json_t *choices_mark(const struct choices *choices, struct ledger_key key);
/* Returns all such entries, by id; the caller owns the list. NULL: no memory. */
json_t *choices_marks(const struct choices *choices);
/* Returns how many exposures are marked so. */
size_t choices_count(const struct choices *choices, enum choice choice);
/* Returns what was chosen for a particle. image: rlnImageName as in the snapshot; x, y: the texts of its coordinates, ""
 * where there are none. */
enum choice choices_of_particle(const struct choices *choices, const char *image, const char *x, const char *y);
/* Returns "keep", "reject" or NULL, and back: CHOICE_NONE for any other text. */
const char *choice_name(enum choice choice);
enum choice choice_named(const char *name);

#endif
