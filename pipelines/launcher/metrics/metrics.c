#include "pipelines/launcher/metrics/metrics.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "common/text.h"
#include "pipelines/launcher/alarms/exposures.h"
#include "pipelines/launcher/metrics/metrics_private.h"
#include "pipelines/launcher/view/view.h"

static void write_session(const struct metrics_source *source, struct metrics_text *text) {
    struct view *view = source->view;
    const enum view_state state = view_state(view);
    metrics_family(text, "icestream_build_info", "gauge", "The icestream that writes this.");
    metrics_sample(text, 1, "version", metrics_build(), NULL);
    metrics_family(text, "icestream_session_info", "gauge", "The session's folder and state.");
    metrics_sample(text, 1, "folder", view_session(view)->path, "state", view_state_name(state), NULL);
    metrics_family(text, "icestream_session_running", "gauge", "1 while a launcher runs the session.");
    metrics_sample(text, view_is_running(view), NULL);
    metrics_family(text, "icestream_session_runs", "gauge", "How often the session was started.");
    metrics_sample(text, view_run(view), NULL);
    metrics_family(text, "icestream_reconciled", "gauge", "1 while the counts of all ledgers agree.");
    metrics_sample(text, view_adds_up(view, NULL), NULL);
    metrics_family(text, "icestream_last_exposure_timestamp_seconds", "gauge", "When the newest exposure was found.");
    metrics_sample(text, exposures_last(view), NULL);
    metrics_family(text, "icestream_exposures_per_hour", "gauge", "Exposures found in the last 30 minutes, twice.");
    metrics_sample(text, 2.0 * (double)exposures_within(view, source->now, 1800), NULL);
}

/* The label that tells sessions apart: the folder's name and a hash of its path. */
static void label(const struct view *view, char *out, size_t size) {
    const char *path = view_session(view)->path;
    snprintf(out, size, "%.100s-%08x", path_name(path), (unsigned)text_hash(path));
    text_trim(out);
}

enum status metrics_write(const struct metrics_source *source, FILE *out, struct err *err) {
    char session[128];
    label(source->view, session, sizeof session);
    struct metrics_text text = {.out = out, .session = session};
    errno = 0;
    write_session(source, &text);
    metrics_stages(source, &text);
    metrics_instances(source, &text);
    TRY(metrics_quality(source, &text, err));
    metrics_machine(source, &text);
    FAIL_IF(fflush(out) != 0 || ferror(out), err, status_of_writing(errno), "the metrics cannot be written: %s",
            status_reason(errno));
    return STATUS_OK;
}
