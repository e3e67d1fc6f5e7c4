/* /healthz and /readyz, for programs that watch over the server and over the run. */
#include <stdio.h>
#include <stdlib.h>

#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/serve/serve.h"
#include "pipelines/launcher/serve/serve_handlers.h"
#include "pipelines/launcher/view/view.h"

enum status serve_health(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                         struct err *err) {
    (void)serve;
    (void)request;
    return http_answer_text(answer, "text/plain; charset=utf-8", "ok\n", err);
}

enum status serve_ready(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                        struct err *err) {
    char *text = NULL;
    size_t length = 0;
    const char *reason = NULL;
    FILE *out = open_memstream(&text, &length);
    (void)request;
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    if (!view_is_running(serve->view))
        fprintf(out, "no launcher runs this session: it is %s\n", view_state_name(view_state(serve->view)));
    if (!view_adds_up(serve->view, &reason)) fprintf(out, "the counts do not add up: %s\n", reason);
    if (serve->alarms != NULL) alarms_critical(serve->alarms, out);
    if (serve->away) fputs("the session cannot be read now\n", out);
    fclose(out);
    FAIL_IF(text == NULL, err, STATUS_NO_MEMORY, "no memory for an answer");
    answer->code = length > 0 ? 503 : 200;
    if (length > 0) {
        http_answer_bytes(answer, "text/plain; charset=utf-8", text, length);
        return STATUS_OK;
    }
    free(text);
    return http_answer_text(answer, "text/plain; charset=utf-8", "ok\n", err);
}
