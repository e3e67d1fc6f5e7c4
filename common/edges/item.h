/* The item: the record of one exposure (or of a set of particles) on its way through the pipeline. It is small,
 * versioned JSON, and refers to products instead of holding pixels. Paths are relative to the session folder, or
 * absolute when they lie outside it.
 *
 *   { "v": 1,
 *     "source": "watcher",                 stage that first emitted it; with the id, this is the item's identity
 *     "id": "grid1/mic_0001",              the path below watcher.directory without its ending (MIC)
 *     "revision": 2,                       replaces what went before under this identity; 0 when left out
 *     "kind": "micrograph",                movie | micrograph | particles | selection | structure | clusters | tomogram
 *     "time": 1732170000.25,               when the watcher found it, s since 1970
 *     "movie": {"path", "nx", "ny", "frames", "dose_per_frame", "pre_exposure"},   e⁻/Å², of one of the frames
 *                                          and before all, where known; frames: images in the file (EER: of the detector)
 *     "micrograph": {"path", "nx", "ny", "nz"},       nz: of a stack
 *     "optics":  {"group": "opticsGroup1", "pixel_size", "original_pixel_size", "voltage", "spherical_aberration",
 *                 "amplitude_contrast"},
 *     "columns": {"rlnDefocusU": 15000, …},   numbers of the micrograph, by RELION's names; reject_if looks here
 *     "ctf":       {"data", "picture"},       files of the fit whose values stand in `columns`
 *     "display":   {"thumb", "spectrum", "ctf", "motion"},   small files for a page (common/harness/display.h)
 *     "picks":     {"star", "count"},
 *     "particles": {"stack", "star", "count", "box", "pixel_size"},
 *     "selection": {"star", "count", "iteration", "changes"},   a cumulative set of particles that replaces earlier ones
 *     "structure": {"path"},                           a file of one or more structures of the same atoms
 *     "score":     {"csv", "outcome", "crystal"},      of a drop's photograph; crystal: its probability
 *     "clusters":  {"csv", "count", "structures", "largest", "centre"},    of all structures so far; replaces the last
 *     "tilt":      {"series", "angle", "number", "taken", "axis"},   of a micrograph: its place in a series; °
 *     "tomogram":  {"path", "series", "tilts", "pixel_size"} }       of that many tilts; replaces the one of fewer
 *
 * (source, id) identifies an item. Source names obey the rules of stage names. A selection, clusters or a tomogram
 * begins at the cumulative stage that made it. The receiver gives an item without "source" the name of the stage that
 * sent it. An empty source is that of an item from a session before there were sources: it is not known.
 *
 * "files" says what the files that the item names were like when they were read or written (item_files.h).
 *
 * A stage passes on unchanged every member that it does not know. Code names members by path: "micrograph.path". */
#ifndef ICESTREAM_COMMON_EDGES_ITEM_H
#define ICESTREAM_COMMON_EDGES_ITEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/status.h"

struct item;

/* Identifies an item. source: "" when it is not known. Both texts are borrowed. */
struct ledger_key {
    const char *source, *id;
};

enum {
    ITEM_VERSION = 1,
    ITEM_ID_MAX = 1024,
    ITEM_SOURCE_SIZE = 65,
    ITEM_TEXT_MAX = 1 << 20,
    ITEM_SEND_MAX = ITEM_TEXT_MAX - 1024
};

/* Makes an item with an id, a kind and the present time. */
enum status item_create(const char *id, const char *kind, struct item **ret_item, struct err *err);
/* Parses and checks an item; any bytes are safe. */
enum status item_parse(const char *text, size_t length, struct item **ret_item, struct err *err);
/* Makes an item from a JSON object, which is copied. */
enum status item_from_json(const json_t *object, struct item **ret_item, struct err *err);
/* Makes an item that shares a JSON object, and adds a reference to the object. */
enum status item_adopt(json_t *object, struct item **ret_item, struct err *err);
/* Copies an item. */
enum status item_clone(const struct item *item, struct item **ret_item, struct err *err);
/* Frees an item and sets the pointer to NULL; accepts NULL. */
void item_destroy(struct item **item);

/* Returns the item's JSON object, which the item owns. */
const json_t *item_json(const struct item *item);
/* Returns the number of bytes of the item's text. An item longer than ITEM_SEND_MAX does not fit into a message. */
size_t item_size(const struct item *item);
/* Returns the item as compact JSON; the caller frees the text. NULL: no memory. */
char *item_print(const struct item *item);

/* Returns whether an item can hold the text: whether it is valid UTF-8. */
bool item_text_fits(const char *text);

/* Returns the id, which is valid as long as the item. */
const char *item_id(const struct item *item);
/* Returns the name of the stage that first emitted the item, which is valid as long as the item; "" when the item has
 * none. */
const char *item_source(const struct item *item);
/* Returns source and id, which are valid as long as the item. */
struct ledger_key item_key(const struct item *item);
/* Returns how often the item was replaced under its source and id; 0 for the first. */
int64_t item_revision(const struct item *item);
/* Sets the source. "": records that it is not known, so that no receiver takes the sender for it. */
enum status item_set_source(struct item *item, const char *source, struct err *err);
/* Sets the revision, from 0 on. */
enum status item_set_revision(struct item *item, int64_t revision, struct err *err);
/* Returns whether a text can be a source: letters, digits, _ and - (not as the first), at most 64 of them. */
bool item_is_source(const char *text);
/* Writes a key as it stands in the file `current`: the source, a tab, the id; without a source the id alone. Reads it
 * back: `mark` then holds both texts, and the key borrows them. */
enum { ITEM_MARK_SIZE = ITEM_SOURCE_SIZE + ITEM_ID_MAX + 1 };
void item_mark(struct ledger_key key, char mark[ITEM_MARK_SIZE]);
struct ledger_key item_key_of_mark(char *mark);
/* Returns whether two keys may mean the same item: the ids are equal, and so are the sources unless one is "". */
bool item_keys_match(struct ledger_key a, struct ledger_key b);
/* Returns the kind, such as "micrograph", which is valid as long as the item. */
const char *item_kind(const struct item *item);
/* Returns whether the item has the member. */
bool item_has(const struct item *item, const char *path);
/* Returns the text of a member, which is valid until the item changes. NULL: the member is absent or not a text. */
const char *item_string(const struct item *item, const char *path);
/* Returns the number of a member, or `fallback` when the member is absent or not a number. */
double item_number(const struct item *item, const char *path, double fallback);
/* Gets the text of a member; STATUS_NOT_FOUND, with the item's id, when there is none. */
enum status item_need_string(const struct item *item, const char *path, const char **ret_value, struct err *err);
/* Gets the number of a member; STATUS_NOT_FOUND, with the item's id, when there is none. */
enum status item_need_number(const struct item *item, const char *path, double *ret_value, struct err *err);
/* Sets a member to a text in UTF-8, and makes the objects on its path. */
enum status item_set_string(struct item *item, const char *path, const char *value, struct err *err);
/* Sets columns.NAME to a table's number. Leaves out names that cannot stand in an item (not UTF-8, with a dot, longer
 * than 100 bytes) and columns beyond the 500th: no stage looks for them. */
enum status item_set_column(struct item *item, const char *name, double value, struct err *err);
/* Sets a member to a finite number, and makes the objects on its path. */
enum status item_set_number(struct item *item, const char *path, double value, struct err *err);

#endif
