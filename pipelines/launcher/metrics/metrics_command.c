/* `icestream metrics`: for node-exporter's folder of text files, where nobody can reach a port. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/api/gpus.h"
#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/metrics/metrics.h"
#include "pipelines/launcher/view/view.h"

/* The alarms are those that a server of the session has judged last. */
static enum status print(struct view *view, FILE *out, struct err *err) {
    _cleanup_(mem_free) struct alarm_table *table = NULL;
    unsigned changed;
    const double now = clock_realtime();
    struct metrics_source source = {.view = view, .now = now};
    TRY(mem_new(1, sizeof *table, "the alarms", &table, err));
    TRY(view_poll(view, now, &changed, err));
    if (alarms_read_folder(view_session(view)->path, table, NULL) == STATUS_OK && table->count > 0)
        source.alarms = table;
    struct gpu list[GPUS_MAX];
    struct gpus *gpus = NULL;
    if (gpus_open(NULL, &gpus, NULL) == STATUS_OK) {
        source.gpus = list;
        source.gpu_count = gpus_read(gpus, list);
        gpus_close(&gpus);
    }
    return metrics_write(&source, out, err);
}

static enum status write_metrics(const struct options *options, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length = 0;
    struct view *view = NULL;
    TRY(view_open(options->session, &view, err));
    FILE *out = open_memstream(&text, &length);
    enum status status = STATUS_OK;
    if (out == NULL) status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for the metrics");
    if (out != NULL) {
        status = print(view, out, err);
        fclose(out);
    }
    view_close(&view);
    if (status != STATUS_OK) return status;
    if (options->output != NULL) return file_write_whole(options->output, text, length, err);
    FAIL_IF(fwrite(text, 1, length, stdout) != length, err, status_of_writing(errno),
            "the metrics cannot be written: %s", status_reason(errno));
    return STATUS_OK;
}

int command_metrics(const struct options *options) {
    struct err err = {0};
    const enum status status = write_metrics(options, &err);
    if (status == STATUS_OK) return EXIT_OK;
    fprintf(stderr, "icestream: %s\n", err.message);
    return status == STATUS_NOT_FOUND || status == STATUS_BAD_ARGUMENT ? EXIT_USAGE : EXIT_ERROR;
}
