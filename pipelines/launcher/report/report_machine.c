/* The machines that the session ran on, as the launcher noted them in its log: "TIME icestream INFO machine HOST; 32
 * cores; GPUs: NAME, NAME". */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/report/report_private.h"

enum { LOG_MAX = 64 << 20 };

void report_add_machines(struct report *report) {
    static const char mark[] = " icestream INFO machine ", start[] = " icestream INFO start run ";
    char path[PATH_SIZE], *text = NULL, *state = NULL;
    json_t *machines = json_array();
    int run = 0;
    if (path_join(view_session(report->view)->path, "log/icestream.log", path, sizeof path, NULL) == STATUS_OK)
        (void)file_read_whole(path, LOG_MAX, &text, NULL, NULL);
    for (char *line = text != NULL ? strtok_r(text, "\n", &state) : NULL; line != NULL;
         line = strtok_r(NULL, "\n", &state)) {
        const char *begins = strstr(line, start);
        char *said = strstr(line, mark);
        if (begins != NULL) run = atoi(begins + strlen(start));
        if (said == NULL) continue;
        said += strlen(mark);
        char *rest = strstr(said, "; ");
        if (rest == NULL) continue;
        *rest = '\0';
        json_array_append_new(machines, json_pack("{s:i, s:o, s:o}", "run", run, "host", json_value_text(said), "has",
                                                  json_value_text(rest + 2)));
    }
    free(text);
    json_object_set_new(report->data, "machines", machines);
}
