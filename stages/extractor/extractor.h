/* Cuts the picked particles out of each micrograph and writes them as stacks and STAR files that RELION reads. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_EXTRACTOR_H
#define ICESTREAM_STAGES_EXTRACTOR_EXTRACTOR_H

#include <limits.h>
#include <stdbool.h>

#include "common/edges/item.h"
#include "common/formats/image.h"
#include "common/formats/star.h"
#include "kernels/extract/extract.h"

struct stage_descriptor;
struct stage_session;

/* What a user sets (parameters.c). */
struct extractor_options {
    int box, downscale_to, background_radius; /* px; INT_MIN: not set */
    double minimum_pick_fom;                  /* NaN: not set */
    bool invert, normalise;
};

struct extractor_optics {
    const char *group; /* owned by the item */
    double pixel_size, original_pixel_size, voltage, spherical_aberration, amplitude_contrast;
};

/* The picks of one micrograph that are to be cut out: rows of `table`. */
struct extractor_picks {
    struct star_file *file;
    struct star_table *table; /* NULL: no picks */
    size_t *rows;
    double *x, *y;
    size_t count, capacity;
    size_t outside; /* how many were left out because their centre is not in the micrograph */
};

struct extractor_lane {
    struct image micrograph, stack;
    struct extractor_picks picks;
    char micrograph_name[PATH_MAX]; /* as rlnMicrographName */
    size_t flat;                    /* particles whose background had no variance */
    size_t broken;                  /* left out: with pixels that are no numbers */
};

struct extractor {
    struct extract_options options;
    struct extract **workers; /* one per thread */
    int worker_count;
    size_t unreadable; /* tables that the last summary had to leave out */
};

extern const struct stage_descriptor extractor_stage;

/* Fills in what the user left open and checks that box, size and radius fit together. STATUS_BAD_ARGUMENT names the value
 * that does not. */
enum status extractor_cut_options(const struct extractor_options *options, struct extract_options *ret_options,
                                  struct err *err);

/* Reads rlnCoordinateX/Y of `path` (only rows of `micrograph_name`, where the table names micrographs) with a figure of
 * merit above `minimum_fom` (NaN: all) and a centre inside nx × ny. Memory of `picks` is reused. */
enum status extractor_read_picks(const char *path, const char *micrograph_name, double minimum_fom, int nx, int ny,
                                 struct extractor_picks *picks, struct err *err);
void extractor_picks_clear(struct extractor_picks *picks);

/* All picks into lane->stack, in order; those whose image is not finite leave the picks. */
enum status extractor_cut(struct extractor *extractor, struct extractor_lane *lane, struct err *err);

/* What an item's particles share: from the item, else the session, else 300 kV, 2.7 mm, 0.1. */
enum status extractor_item_optics(const struct item *item, const struct stage_session *session, double file_pixel_size,
                                  struct extractor_optics *ret_optics, struct err *err);

/* MIC_extract.star: optics and particles. stack_name as it stands behind the "@" of rlnImageName. */
enum status extractor_write_particles(const char *path, const char *stack_name, const struct item *item,
                                      const struct extractor_optics *optics, const struct extract_options *options,
                                      const struct extractor_lane *lane, struct err *err);

/* particles.star from the particle tables of all items that are done: all of them are noted, then begin, then the rows of
 * all of them, then commit. A file whose optics were not noted (it was done in between, by a replica) is left out. */
struct extractor_join;
enum status extractor_join_create(struct extractor_join **ret_join, struct err *err);
enum status extractor_join_note(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_begin(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_rows(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_commit(struct extractor_join *join, struct err *err);
void extractor_join_destroy(struct extractor_join **join);

#endif
