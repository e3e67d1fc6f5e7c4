/* Watches a folder: finds files whose names match, and tells when each is whole.
 *
 * Files become known by a sweep of the folder or by a notice about one path. Each is opened only when its turn comes. A
 * file is ready when its content shows that it is whole: an MRC as long as its header says, a TIFF whose strips lie
 * inside the file, a picture with its end marker, a PDB file with its END. A file that stops growing before that is
 * reported as failed, and handed out after all if it becomes whole later. A file with holes must rest for longer: its
 * missing part may come last. Each file is handed out once. A second name for the same file (a link) is a duplicate, as
 * is a picture beside its micrograph; another file of the same name but for its ending fails. A micrograph that comes
 * after its picture was handed out takes the picture's place, in a later revision. Costs per file are constant or
 * logarithmic.
 *
 * The caller gives the time: `now` in seconds on any clock that does not go backwards. One thread. */
#ifndef ICESTREAM_STAGES_WATCHER_FOLDER_H
#define ICESTREAM_STAGES_WATCHER_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/files.h"
#include "common/formats/image.h"
#include "common/status.h"

enum folder_order { FOLDER_OLDEST, FOLDER_NEWEST };
/* The state of an id after earlier runs: not seen; settled; failed, so that the file goes on if it is whole now. */
enum folder_past { FOLDER_UNSEEN, FOLDER_SETTLED, FOLDER_FAILED_THEN };

struct folder_options {
    const char *directory;
    /* Globs such as "*.mrc,*.tif"; case does not matter. A glob with a slash is matched with the path below
     * directory. */
    const char *pattern;
    const char *skip[2]; /* folders below directory not to enter (the session, the stage's own), or NULL */
    bool recursive;
    enum folder_order order; /* of waiting files: by time of change, then by name */
    /* s without change until a file whose format does not show its end counts as whole, or as hopeless */
    double settle;
    double stall; /* s without change until an incomplete file is reported */
    double poll;  /* s between looks at reported files */
    /* Stacks grow image by image, with a correct header each time: a stack is whole after `settle`. */
    bool stacks_grow;
    /* The files are movies. A movie is whole once it has `frames` images (0: not known), or after `settle`. */
    bool movies;
    int frames;

    void *context;
    /* Tells what an earlier run has done with this id. Called once for each file, before it is opened, and once more
     * with its ending where another file has that id. May be NULL. */
    enum status (*past)(void *context, const char *id, enum folder_past *ret_past, struct err *err);
    /* Tells of which file (absolute path) an earlier run made the item with this id, and its revision. Called for
     * micrographs whose id is settled. "" : it is not known. May be NULL. */
    enum status (*made_of)(void *context, const char *id, char ret_path[PATH_SIZE], int64_t *ret_revision,
                           struct err *err);
    /* Called before a folder (absolute path) is listed: a caller that watches the folder from now on misses nothing.
     * May be NULL. */
    void (*before_listing)(void *context, const char *path);
    /* Called in each sweep with each folder (absolute path) that is not entered, but for those of `skip`: those of
     * other sessions, and links to folders above the directory. May be NULL. */
    void (*skipped)(void *context, const char *path, const char *reason);
    /* Called when a file that was handed out is another one now (its inode or its size), or has only a later date.
     * Another file is handed out again when it is whole. May be NULL: no file is handed out twice. */
    void (*replaced)(void *context, const char *path, bool another);
};

enum folder_verdict {
    FOLDER_READY,
    FOLDER_DUPLICATE, /* of a file taken before; reported once */
    FOLDER_NO_MOVIE,  /* a gain reference, or the sum of a movie; reported once */
    FOLDER_FAILED,    /* incomplete for too long, of the name of another, or no image to come; reported once */
};

struct folder_find {
    enum folder_verdict verdict;
    const char *path;        /* absolute; this and the next two are valid until the next call */
    const char *relative;    /* below directory */
    const char *id;          /* relative without its ending, or with it if another file has that id; if a name cannot
                                be an id, its odd bytes are replaced and a hash follows */
    bool structure;          /* the file holds atoms, not an image */
    struct image_info image; /* when READY; nz: frames of a movie (of EER: those of the detector) */
    double time;             /* of its last change, s since 1970 */
    const char *instead_of;  /* READY: the picture (relative) whose place this micrograph takes; NULL: none */
    bool failed_before;      /* READY now, reported as failed before */
    char reason[512];        /* when not READY */
};

struct folder;
/* Creates a folder that has listed nothing yet. */
enum status folder_create(const struct folder_options *options, struct folder **ret_folder, struct err *err);
void folder_destroy(struct folder **folder);

/* Lists the directory and, if recursive, the folders below. STATUS_NOT_FOUND or STATUS_IO when the directory itself
 * cannot be listed. Folders below that vanish or cannot be read wait for the next sweep. */
enum status folder_sweep(struct folder *folder, double now, struct err *err);
/* Sweeps for about `seconds`; the next call goes on. The files that were seen so far can be handed out in between. */
enum status folder_sweep_for(struct folder *folder, double now, double seconds, bool *ret_done, struct err *err);
/* Returns whether a sweep is on its way, or a notice about a folder asks for one. */
bool folder_wants_sweep(const struct folder *folder);
/* Returns whether one sweep has come to its end, so that all files that were there are known. */
bool folder_is_swept(const struct folder *folder);
/* Returns an image (relative) that the pattern does not take, when it takes no file at all and one sweep has come to its
 * end; else NULL. */
const char *folder_unfitting(const struct folder *folder);
/* Takes a notice that something happened at this absolute path: looks at a file soon, asks for a sweep where a folder
 * came, ignores anything else. */
enum status folder_notice(struct folder *folder, const char *path, double now, struct err *err);
/* Finds the next file that is ready, a duplicate or failed, if there is one now. */
enum status folder_next(struct folder *folder, double now, struct folder_find *ret_find, bool *ret_found,
                        struct err *err);

/* Calls `see` with the absolute path of each folder that holds or held a known file, until it returns false. */
void folder_each_folder(const struct folder *folder, bool (*see)(void *context, const char *path), void *context);
/* Calls `see` with the absolute path of each other known file of the same base name without ending, until it returns
 * false. Leaves out files that are gone, those of the same id, and other names of the same file. */
void folder_each_namesake(const struct folder *folder, const char *relative,
                          bool (*see)(void *context, const char *path), void *context);

/* Returns how many files may still become ready by themselves: new and incomplete ones, without reported ones. */
size_t folder_pending(const struct folder *folder);
/* Returns the revision of the file that was handed out with this id: 0, or a number that grows each time the file is
 * replaced. */
int64_t folder_revision(const struct folder *folder, const char *id);
/* Writes an absolute path (PATH_SIZE) as the user would: below options.directory as it is written, links not resolved.
 * Paths elsewhere stay. */
void folder_as_given(const struct folder *folder, const char *path, char ret_path[PATH_SIZE]);
/* Makes a path below the directory absolute. */
enum status folder_path(const struct folder *folder, const char *relative, char ret_path[PATH_SIZE], struct err *err);
/* Returns when a file last appeared, grew or was handed out. */
double folder_last_change(const struct folder *folder);

#endif
