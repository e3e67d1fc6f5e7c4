/* The item of a micrograph: where it is, its optics and its CTF values. */
#ifndef ICESTREAM_STAGES_WATCHER_RECORD_H
#define ICESTREAM_STAGES_WATCHER_RECORD_H

#include "common/edges/item.h"
#include "common/formats/image.h"
#include "common/harness/stage.h"
#include "stages/watcher/ctf_rows.h"
#include "stages/watcher/tilt_names.h"

struct record_source {
    const char *path, *id; /* path absolute */
    const char *root;      /* the session folder: what lies in it is named relative to it */
    struct image_info image;
    const struct stage_session *session;
    const struct ctf_rows *rows;   /* NULL: none */
    long row;                      /* of the micrograph, or -1 */
    const struct tilt_place *tilt; /* which tilt of which series it is; NULL: none is looked for */
    bool unscaled;                 /* nobody asks what a pixel measures: the item has no optics */
};

/* The session's values stand first, then those of the CTF file's optics table, then 300 kV, 2.7 mm, 0.1, and for the
 * pixel size the image's own header. STATUS_NOT_FOUND when nothing tells the pixel size, unless it is unscaled. */
enum status record_make(const struct record_source *source, struct item **ret_item, struct err *err);
/* The item of a structure: kind "structure", structure.path. */
enum status record_structure(const char *id, const char *path, const char *root, struct item **ret_item,
                             struct err *err);
/* With path and shape alone: for a file that does not go on. */
enum status record_failed(const char *id, const char *path, const char *root, struct item **ret_item, struct err *err);

/* "…/SESSION/a/b" → "a/b" when path lies in root, else path itself; points into path. */
const char *record_relative(const char *path, const char *root);

/* watcher/micrographs.star: an optics table and a row per micrograph with all numbers that are known of it. Groups and
 * columns are noted first, then come the rows, which are written in pieces, so that a long session needs no more memory.
 * An item whose optics were not noted is left out. */
struct record_table;
enum status record_table_create(struct record_table **ret_table, struct err *err);
void record_table_destroy(struct record_table **table);
enum status record_table_note(struct record_table *table, const struct item *item, struct err *err);
enum status record_table_begin(struct record_table *table, const char *path, struct err *err);
enum status record_table_add(struct record_table *table, const struct item *item, struct err *err);
enum status record_table_commit(struct record_table *table, struct err *err);

#endif
