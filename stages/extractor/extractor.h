/* Cuts the picked particles out of each micrograph and writes them as stacks and STAR files that RELION reads. */
#ifndef ICESTREAM_STAGES_EXTRACTOR_EXTRACTOR_H
#define ICESTREAM_STAGES_EXTRACTOR_EXTRACTOR_H

#include <limits.h>
#include <stdbool.h>

#include "common/edges/item.h"
#include "common/formats/image.h"
#include "common/formats/star.h"
#include "kernels/extract/extract.h"
#include "stages/extractor/coordinates.h"
#include "stages/extractor/local_ctf.h"

struct stage;
struct stage_checks;
struct stage_descriptor;
struct stage_session;

/* The parameters that a user sets (parameters.c). */
struct extractor_options {
    int box, downscale_to, background_radius; /* px; INT_MIN: not set */
    double minimum_pick_fom;                  /* NaN: not set */
    bool invert, normalise;
    bool ignore_optics; /* aberrations are left out of the table */
    char *coordinates;  /* a pattern of files; NULL: the item's picks */
    double coordinates_scale;
};

/* The optics of a micrograph. Pixel sizes in Å, voltage in kV, spherical aberration in mm. */
struct extractor_optics {
    const char *group;                      /* owned by the item */
    double pixel_size, original_pixel_size; /* of the micrograph; of its movie */
    double voltage, spherical_aberration, amplitude_contrast;
    const char *aberrations; /* columns and cells (optics_aberrations.h), owned by the item; NULL: none */
};

/* The picks of one micrograph that the stage cuts out: rows of `table`. */
struct extractor_picks {
    struct star_file *file;
    struct star_table *table; /* NULL: no picks */
    size_t *rows;             /* [count] */
    double *x, *y;            /* [count], px */
    size_t count, capacity;
    bool absent;    /* the table of coordinates has no row of the micrograph */
    size_t outside; /* number of picks left out because their centre is not in the micrograph */
};

struct extractor_lane {
    struct image micrograph, stack;
    struct extractor_picks picks;
    struct local_ctf local;         /* of the micrograph's parts */
    char micrograph_name[PATH_MAX]; /* as rlnMicrographName */
    bool unread;                    /* there are no picks, so the micrograph was not read */
    size_t flat;                    /* particles whose background had no variance */
    size_t broken;                  /* particles left out because they have NaN or infinite pixels */
};

struct extractor {
    struct extract_options options;
    struct extract **workers; /* one per thread */
    int worker_count;
    struct coordinates *coordinates; /* or NULL */
    size_t unreadable;               /* tables that the last summary left out; it logs a change of this number only */
};

extern const struct stage_descriptor extractor_stage;

/* Adds the values that are odd, or do not fit together. */
void extractor_check(const struct extractor_options *options, struct stage_checks *checks);
/* Fills in values that the user has not set. */
struct extract_options extractor_cut_options(const struct extractor_options *options);

/* Reads the picks of a STAR file that have a figure of merit above `minimum_fom` (NaN: all) and a centre inside nx × ny
 * px. If the table names micrographs, reads the rows of `micrograph_name` only. Reuses the memory of `picks`. */
enum status extractor_read_picks(const char *path, const char *micrograph_name, double minimum_fom, int nx, int ny,
                                 struct extractor_picks *picks, struct err *err);
/* Does the same with coordinates that other programs have picked; `micrograph`: the path as the item has it. */
enum status extractor_read_coordinates(const struct stage *stage, const struct extractor *extractor,
                                       const char *micrograph, double minimum_fom, int nx, int ny,
                                       struct extractor_picks *picks, struct err *err);
void extractor_picks_clear(struct extractor_picks *picks);

/* Cuts all picks out of lane->micrograph into lane->stack, in order. A pick whose image has NaN or infinite pixels is
 * removed from lane->picks. */
enum status extractor_cut(struct extractor *extractor, struct extractor_lane *lane, struct err *err);

/* Returns the optics that all particles of an item share (item_optics). file_pixel_size: Å, of the micrograph's header,
 * used if neither item nor session has a pixel size. */
enum status extractor_item_optics(const struct item *item, const struct stage_session *session, double file_pixel_size,
                                  struct extractor_optics *ret_optics, struct err *err);

/* Writes MIC_extract.star: tables of optics and particles. stack_name: the part behind the "@" of rlnImageName. */
enum status extractor_write_particles(const char *path, const char *stack_name, const struct item *item,
                                      const struct extractor_optics *optics, const struct extract_options *options,
                                      const struct extractor_lane *lane, struct err *err);

/* Joins the particle tables of all items that are done into particles.star. Call note for each table, then begin, then
 * rows for each table, then commit. Between the two passes a replica may finish another table: rows leaves out a table
 * whose optics are not noted. */
struct extractor_join;
enum status extractor_join_create(struct extractor_join **ret_join, struct err *err);
enum status extractor_join_note(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_begin(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_rows(struct extractor_join *join, const char *path, struct err *err);
enum status extractor_join_commit(struct extractor_join *join, struct err *err);
void extractor_join_destroy(struct extractor_join **join);

#endif
