/* Decides which row of the CTF file belongs to a micrograph.
 *
 * Tables name a micrograph as their program saw it: by an absolute path, by a path in a project, or by its base name,
 * and copies lie in another folder. So the row is the one whose path agrees with the file's in the most parts from the
 * end. The base name alone is enough if one row and one file have it. A row is not taken
 *  - if several rows fit equally well,
 *  - if it fits another folder with known files better, also when the file there is not known yet, or
 *  - if it fits another known file as well.
 * The micrograph then waits for a row of its own. */
#ifndef ICESTREAM_STAGES_WATCHER_CTF_MATCH_H
#define ICESTREAM_STAGES_WATCHER_CTF_MATCH_H

#include "stages/watcher/ctf_rows.h"
#include "stages/watcher/folder.h"

struct ctf_match {
    long row;      /* -1: none */
    bool whole;    /* all parts of the row's path, or of the file's, agree: no file to come can fit better */
    char why[512]; /* why there is no row; a clause such as "has no row in ctf.star" */
};

/* Finds the row of the file at `path` (absolute), which is `relative` in the folder. */
void ctf_match_find(const struct ctf_rows *rows, const struct folder *folder, const char *path, const char *relative,
                    struct ctf_match *ret_match);

#endif
