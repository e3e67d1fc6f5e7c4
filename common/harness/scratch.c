#include "common/harness/scratch.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/harness/stage_private.h"

void scratch_check(const char *folder, struct stage_checks *checks) {
    if (folder != NULL && folder[0] != '\0' && folder[0] != '/')
        stage_checks_add(checks, STAGE_CHECK_ERROR, "scratch",
                         "scratch is %s: a folder on a disk of the machine is expected, with its whole path, such as "
                         "/scratch",
                         folder);
}

void scratch_open(struct scratch *s, struct stage *stage, const char *folder, double gib) {
    char owner[PATH_MAX];
    struct err err = {0};
    struct shards_report report;
    if (folder == NULL || folder[0] == '\0') return;
    snprintf(s->folder, sizeof s->folder, "%s", folder);
    /* With a lease the folder is another one in each process, and the promised name stays. */
    bool leased = stage->lease != NULL &&
                  path_join(stage_root(stage), stage_promised(stage), owner, sizeof owner, NULL) == STATUS_OK;
    if (!leased && realpath(stage_folder(stage), owner) == NULL)
        snprintf(owner, sizeof owner, "%s", stage_folder(stage));
    if (shards_open(folder, owner, gib > 0 ? (size_t)(gib * 0x1p30) : 0, &s->shards, &err) != STATUS_OK) {
        stage_log(stage, LOG_WARN, "scratch", "images are not kept in scratch: %s", err.message);
        return;
    }
    shards_report(s->shards, &report);
    if (report.found > 0)
        stage_log(stage, LOG_INFO, "scratch-found", "%s has %zu images (%.1f GiB) of the run before", folder,
                  report.found, (double)report.bytes / 0x1p30);
}

void scratch_look(struct scratch *s, struct stage *stage) {
    struct shards_report report;
    if (s->shards == NULL || s->told) return;
    shards_report(s->shards, &report);
    if (!report.stopped) return;
    s->told = true;
    stage_log(stage, LOG_WARN, "scratch",
              "no more images are kept in scratch %s, which has %zu (%.1f GiB): %s; others are read from their stacks",
              s->folder, report.records, (double)report.bytes / 0x1p30, report.why);
}

void scratch_note(const struct scratch *s, char note[SCRATCH_NOTE_SIZE]) {
    struct shards_report report;
    note[0] = '\0';
    if (s->shards == NULL) return;
    shards_report(s->shards, &report);
    snprintf(note, SCRATCH_NOTE_SIZE, ", %.1f GiB in scratch", (double)report.bytes / 0x1p30);
}

void scratch_close(struct scratch *s, struct stage *stage, bool ended) {
    struct shards_report report;
    if (s->shards == NULL) return;
    scratch_look(s, stage);
    shards_report(s->shards, &report);
    if (report.damaged > 0)
        stage_log(stage, LOG_WARN, "scratch-damaged",
                  "%zu images in scratch %s were damaged or lost, and were read from their stacks", report.damaged,
                  s->folder);
    shards_close(&s->shards, ended);
}
