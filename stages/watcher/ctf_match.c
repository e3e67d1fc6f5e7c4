#include "stages/watcher/ctf_match.h"

#include <stdio.h>
#include <string.h>

#include "common/files.h"

struct search {
    const struct ctf_rows *rows;
    long row;
    int fit; /* of the file whose row is sought */
    char rival[PATH_SIZE];
    bool found;
};

/* Notes a folder whose files would fit the row better. */
static bool see_folder(void *context, const char *folder) {
    struct search *search = context;
    char path[PATH_SIZE];
    if (path_join(folder, path_name(ctf_rows_name(search->rows, search->row)), path, sizeof path, NULL) != STATUS_OK)
        return true;
    if (ctf_rows_fit(search->rows, search->row, path) <= search->fit || !file_is_folder(folder)) return true;
    snprintf(search->rival, sizeof search->rival, "%s", folder);
    search->found = true;
    return false;
}

/* Notes a file that fits the row as well. */
static bool see_file(void *context, const char *path) {
    struct search *search = context;
    if (ctf_rows_fit(search->rows, search->row, path) < search->fit) return true;
    snprintf(search->rival, sizeof search->rival, "%s", path);
    search->found = true;
    return false;
}

void ctf_match_find(const struct ctf_rows *rows, const struct folder *folder, const char *path, const char *relative,
                    struct ctf_match *ret_match) {
    struct search search = {.rows = rows};
    bool several = false;
    *ret_match = (struct ctf_match){.row = -1};
    search.row = ctf_rows_find(rows, path, &several);
    if (search.row < 0) {
        snprintf(ret_match->why, sizeof ret_match->why, "%s in %.200s",
                 several ? "has several rows that fit equally well" : "has no row", ctf_rows_path(rows));
        return;
    }
    const char *name = ctf_rows_name(rows, search.row);
    search.fit = ctf_rows_fit(rows, search.row, path);
    folder_each_folder(folder, see_folder, &search);
    if (search.found) {
        snprintf(ret_match->why, sizeof ret_match->why,
                 "has no row of its own in %.120s: the row %.120s fits the folder %.120s better", ctf_rows_path(rows),
                 name, search.rival);
        return;
    }
    folder_each_namesake(folder, relative, see_file, &search);
    if (search.found) {
        snprintf(ret_match->why, sizeof ret_match->why,
                 "has no row of its own in %.120s: the row %.120s fits %.120s as well", ctf_rows_path(rows), name,
                 search.rival);
        return;
    }
    ret_match->row = search.row;
    ret_match->whole = ctf_rows_fits_whole(search.fit);
}
