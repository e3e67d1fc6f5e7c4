/* Shared by folder.c (looks at files), folder_content.c (what is in a file), folder_sweep.c (lists folders) and
 * folder_queue.c (files that wait for a look). */
#ifndef ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H
#define ICESTREAM_STAGES_WATCHER_FOLDER_PRIVATE_H

#include <dirent.h>

#include "common/files.h"
#include "common/pattern.h"
#include "stages/watcher/folder.h"
#include "stages/watcher/known.h"

/* A binary heap of files, each an index into known.files. The file to look at next is at the top (folder_before). */
struct queue {
    long *files; /* [capacity] */
    size_t count, capacity;
};

/* A folder to list. */
struct sweep_folder {
    char *relative; /* below the directory, owned */
    int depth;
};

struct sweep_list {
    struct sweep_folder *folders; /* [capacity]; those before `next` were taken */
    size_t next, count, capacity;
};

struct sweep_place {
    dev_t device;
    ino_t inode;
    bool used;
};

/* A sweep on its way. */
struct sweep {
    bool is_active;
    struct sweep_list real, links; /* folders to list; links to folders */
    struct sweep_folder here;      /* relative: NULL: none */
    DIR *listing;                  /* of `here`, or NULL */
    struct sweep_place *visited;   /* [visited_capacity, a power of two or 0] by the hash of the place */
    size_t visited_count, visited_capacity;
};

struct folder {
    struct folder_options options;
    struct pattern pattern;
    char *directory;       /* absolute, without links */
    char given[PATH_SIZE]; /* the same as the user wrote it, absolute, with its links */
    dev_t skip_device[2];  /* device and inode of each folder in options.skip */
    ino_t skip_inode[2];   /* 0: no folder */
    struct known known;
    struct queue waiting;    /* files that are new or due for another look */
    size_t waiting_reported; /* files in `waiting` that were reported as failed */
    long *growing;           /* [growing_capacity] indices of incomplete files that wait for their next look */
    size_t growing_count, growing_capacity;
    struct sweep sweep;
    bool sweep_wanted, is_swept; /* is_swept: one sweep at least has come to its end */
    double wake_at;              /* time (as `now`) at which the next file of `growing` is due; INFINITY: none */
    double last_change; /* time (as `now`) at which a file last appeared, changed or became ready; −INFINITY: none */
    char unfitting[PATH_SIZE]; /* the first image that the pattern does not take, below the directory; "": none */
    char path[PATH_SIZE], id[PATH_SIZE]; /* of the file of the last look; folder_find points to these */
    /* The picture whose place the micrograph of the last look takes, below the directory ("": none), and the revision of
     * its item. */
    char picture[PATH_SIZE];
    int64_t picture_revision;
};

/* The reason why a picture is left out. */
#define FOLDER_PICTURE "it is a picture of the micrograph beside it"

enum look { LOOK_REPORT, LOOK_AGAIN, LOOK_DROP };

/* Judges the file at folder->path by its content: to be reported with the verdict, or to be looked at again. */
enum look folder_look_inside(const struct folder *folder, const struct known_file *file, double now,
                             struct folder_find *find);
/* Returns whether movies are watched and the file at folder->path is none; find->reason then says why. */
bool folder_is_no_movie(const struct folder *folder, struct folder_find *find);
/* Sets the verdict FOLDER_FAILED, with its reason. */
void folder_set_failed(struct folder_find *find, const char *reason);
/* folder_siblings.c: returns whether a file is a picture with a micrograph (or movie) beside it that the pattern takes:
 * acquisition software writes a small picture of each micrograph, often before the micrograph. */
bool folder_is_thumbnail(const struct folder *folder, const struct known_file *file);
/* Returns whether the file is a micrograph whose id belongs to a picture so far, and notes this picture in
 * folder->picture. */
bool folder_follows_picture(struct folder *folder, long index);
/* The same for a file whose id was settled by an earlier run; sets file->follows. */
enum status folder_follows_settled(struct folder *folder, struct known_file *file, struct err *err);
/* Tells whether a file is a picture that an earlier run left out: its item was made of the micrograph beside it. */
enum status folder_left_picture(const struct folder *folder, const struct known_file *file, bool *ret_left,
                                struct err *err);
/* Gives the id of the picture in folder->picture to the file, in a later revision. */
void folder_take_over(struct folder *folder, struct known_file *file, struct folder_find *find);

/* Returns whether file a is looked at before file b: by options.order, then by path. */
bool folder_before(const struct folder *folder, long a, long b);
/* Frees what a sweep on its way holds, and forgets the sweep. */
void sweep_end(struct sweep *sweep);
/* Adds a file to folder->waiting. */
enum status queue_push(struct folder *folder, long file, struct err *err);
/* Removes the next file from folder->waiting and returns its index. The queue must not be empty. */
long queue_pop(struct folder *folder);
/* Frees the list inside the queue, and empties the queue. */
void queue_destroy(struct queue *queue);

#endif
