/* The parameters `scratch` and `scratch_size` of a stage that reads images of particles again and again: copies on a
 * local disk (common/shards.h). Trouble with the copies is logged, and is never an error of the stage. */
#ifndef ICESTREAM_COMMON_HARNESS_SCRATCH_H
#define ICESTREAM_COMMON_HARNESS_SCRATCH_H

#include <stddef.h>

#include "common/files.h"
#include "common/harness/stage.h"
#include "common/shards.h"

/* The two rows of a stage's table of parameters. options: its struct, with members char *scratch; double scratch_size. */
#define SCRATCH_PARAMETERS(options)                                                                                    \
    {.name = "scratch",                                                                                                \
     .type = PARAM_STRING,                                                                                             \
     .changes = PARAM_RESTART,                                                                                         \
     .offset = offsetof(options, scratch),                                                                             \
     .help = "Folder on a local disk for copies of the images, which are made as images are first read; by default "   \
             "there is none."},                                                                                        \
    {                                                                                                                  \
        .name = "scratch_size", .type = PARAM_FLOAT, .changes = PARAM_RESTART,                                         \
        .offset = offsetof(options, scratch_size), .unit = "GiB", .default_text = "auto", .minimum = 0.001,            \
        .maximum = 1e6,                                                                                                \
        .help = "Most that the copies take; auto: what the disk has free. A twentieth of the disk, at most 10 GiB, "   \
                "stays free in any case."                                                                              \
    }

/* All zeros: there is none. */
struct scratch {
    struct shards *shards; /* for stack_reader.h; NULL: none */
    char folder[PATH_SIZE];
    bool told; /* that nothing more is kept */
};

/* For the callback check: complains about a folder that does not begin with a slash. folder: NULL or "": none. */
void scratch_check(const char *folder, struct stage_checks *checks);
/* Opens the stage's part of the folder. gib: most of it; 0 or NaN: what is free. */
void scratch_open(struct scratch *scratch, struct stage *stage, const char *folder, double gib);
/* Logs once that nothing more is kept, and why. Call it from time to time. */
void scratch_look(struct scratch *scratch, struct stage *stage);
/* Writes what there is, for stage_note: ", 1.2 GiB in scratch", or "". */
enum { SCRATCH_NOTE_SIZE = 48 };
void scratch_note(const struct scratch *scratch, char note[SCRATCH_NOTE_SIZE]);
/* Closes it. ended: the stage has done all of its work, so that the copies are removed; else the next run uses them. */
void scratch_close(struct scratch *scratch, struct stage *stage, bool ended);

#endif
