#include "pipelines/launcher/metrics/metrics_serve.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/machine_memory.h"
#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/metrics/metrics.h"
#include "pipelines/launcher/serve/serve.h"

enum status metrics_get(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    struct timespec cpu = {0};
    char *text = NULL;
    size_t length = 0;
    (void)request;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    const struct metrics_server server = {.cpu = (double)cpu.tv_sec + (double)cpu.tv_nsec * 1e-9,
                                          .resident = (double)machine_memory_read("").resident,
                                          .requests = serve->requests,
                                          .listeners = serve_listeners(serve)};
    const struct gpu *gpus;
    const size_t gpu_count = api_gpus(serve, &gpus);
    const struct metrics_source source = {
        .view = serve->view,
        .now = serve->now,
        .alarms = serve->alarms != NULL ? alarms_table(serve->alarms) : NULL,
        .restarts = serve->alarms != NULL ? alarms_restarts(serve->alarms) : NULL,
        .server = &server,
        .gpus = gpus,
        .gpu_count = gpu_count,
    };
    FILE *out = open_memstream(&text, &length);
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory for the metrics");
    const enum status status = metrics_write(&source, out, err);
    fclose(out);
    if (status != STATUS_OK) {
        free(text);
        return status;
    }
    http_answer_bytes(answer, METRICS_TYPE, text, length);
    return STATUS_OK;
}
