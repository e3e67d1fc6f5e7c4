#include "pipelines/launcher/graph/graph_glob.h"

#include <string.h>
#include <unistd.h>

#include "common/files.h"
#include "pipelines/launcher/graph/graph_check_private.h"

enum status graph_glob_folder(const char *glob, char *folder, struct err *err) {
    size_t fixed = strcspn(glob, "*?[");
    char prefix[PATH_SIZE];
    FAIL_IF(fixed + 2 > sizeof prefix, err, STATUS_BAD_ARGUMENT, "the path '%.80s…' is too long", glob);
    memcpy(prefix, glob, fixed);
    memcpy(prefix + fixed, "x", 2); /* the part with the wildcard counts as a name */
    return path_folder(prefix, folder, PATH_SIZE, err);
}

enum status graph_glob_check(const struct graph *graph, struct graph_stage *stage, struct graph_entry *entry,
                             struct problems *problems, struct err *err) {
    const char *text = entry->value.count == 1 ? entry->value.texts[0] : "";
    char beside[PATH_SIZE], folder[PATH_SIZE], here[PATH_SIZE], absolute[PATH_SIZE];
    if (text[0] == '\0') {
        problems_add(problems, PROBLEM_ERROR, entry->line, "%s%s.%s: one path is expected, such as /data/picks/*.box",
                     graph_set_by(entry), stage->section.name, entry->key);
        return STATUS_OK;
    }
    if (text[0] == '/') return STATUS_OK;
    FAIL_IF(getcwd(here, sizeof here) == NULL, err, STATUS_IO, "the working directory is gone");
    TRY(path_join(graph->folder, text, beside, sizeof beside, err));
    TRY(graph_glob_folder(beside, folder, err));
    TRY(path_join(here, file_is_folder(folder) ? beside : text, absolute, sizeof absolute, err));
    return graph_put(&stage->section, entry->key, absolute, false, err);
}
