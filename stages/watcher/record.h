/* Makes the item of a micrograph or a movie (path, optics, CTF values) and the table of all micrographs. */
#ifndef ICESTREAM_STAGES_WATCHER_RECORD_H
#define ICESTREAM_STAGES_WATCHER_RECORD_H

#include "common/edges/item.h"
#include "common/formats/image.h"
#include "common/harness/stage.h"
#include "stages/watcher/ctf_rows.h"
#include "stages/watcher/movie_notes.h"
#include "stages/watcher/tilt_names.h"

struct record_source {
    const char *path, *id; /* path absolute */
    const char *root;      /* the session folder; paths inside it are written relative to it */
    struct image_info image;
    const struct stage_session *session;
    const struct ctf_rows *rows;   /* NULL: none */
    long row;                      /* the micrograph's, or -1 */
    const struct tilt_place *tilt; /* which tilt of which series the image is; NULL: no tilt */
    bool unscaled;                 /* no following stage needs the pixel size: the item has no optics */
    bool movie;                    /* the image is a movie of image.nz frames */
    struct movie_notes notes;      /* of a movie */
    int shift_group;               /* of the beam, from 1 on; 0: unknown */
};

/* Makes the item of a micrograph, or of a movie: kind "movie", movie.path, nx, ny and frames, and its dose
 * where it is known. Its optics come from the session, else from the table of the CTF file, else as
 * optics_of_micrograph says. STATUS_NOT_FOUND: no source has a pixel size, and source->unscaled is false. */
enum status record_make(const struct record_source *source, struct item **ret_item, struct err *err);
/* Makes the item of a structure: kind "structure", structure.path. */
enum status record_structure(const char *id, const char *path, const char *root, struct item **ret_item,
                             struct err *err);
/* Makes the item of a micrograph or movie that failed: id and path alone. */
enum status record_failed(const char *id, const char *path, const char *root, bool movie, struct item **ret_item,
                          struct err *err);

/* Returns the part of path below root ("…/SESSION/a/b" → "a/b"), or path itself when it lies elsewhere; points into
 * path. */
const char *record_relative(const char *path, const char *root);

#endif
