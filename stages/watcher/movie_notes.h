/* Finds how a movie was taken: in the .mdoc of SerialEM, or the XML of EPU, beside it. */
#ifndef ICESTREAM_STAGES_WATCHER_MOVIE_NOTES_H
#define ICESTREAM_STAGES_WATCHER_MOVIE_NOTES_H

#include <stdbool.h>

#include "common/formats/mdoc.h"
#include "common/status.h"

/* NaN: not known. */
struct movie_notes {
    double pixel_size;         /* Å */
    double voltage;            /* kV */
    double dose;               /* e⁻/Å², of the whole movie */
    double pre_exposure;       /* e⁻/Å², before its first frame */
    double shift_x, shift_y;   /* of the beam, in EPU's unit */
    double stage_x, stage_y;   /* of the stage, µm */
    char shot[MDOC_SHOT_SIZE]; /* hole and place in SerialEM's pattern of shots, "2_5"; "": not known */
};

/* Returns notes that say nothing. */
struct movie_notes movie_notes_unknown(void);

/* Reads the notes of the movie at this absolute path: MOVIE.tif.mdoc, MOVIE.mdoc, MOVIE.xml, or the XML of EPU's
 * exposure without the movie's "_Fractions" or "_EER". *ret_found: there is such a file, and it is whole. ret_problem
 * says why one that is there cannot be used; else its status is OK. */
enum status movie_notes_read(const char *path, struct movie_notes *ret_notes, bool *ret_found, struct err *ret_problem,
                             struct err *err);

/* Groups of beam shifts. A shift belongs to the nearest group within a radius, else it begins a new one. Beyond
 * SHIFT_GROUPS_MAX groups each shift belongs to the nearest. */
enum { SHIFT_GROUPS_MAX = 512 };
struct shift_groups {
    int count;
    double x[SHIFT_GROUPS_MAX], y[SHIFT_GROUPS_MAX];
};
/* Returns the number of the group, from 1 on. */
int shift_groups_find(struct shift_groups *groups, double radius, double x, double y);
/* Takes a group of an earlier run: number from 1 on. Other numbers than those up to SHIFT_GROUPS_MAX change nothing. */
void shift_groups_restore(struct shift_groups *groups, int number, double x, double y);

#endif
