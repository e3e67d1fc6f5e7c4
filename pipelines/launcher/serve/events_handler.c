/* /api/events, and what it tells: how the session stands, rows that changed, what cumulative stages made. */
#include "pipelines/launcher/serve/events.h"
#include "pipelines/launcher/serve/serve_handlers.h"

enum status serve_events(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                         struct err *err) {
    (void)serve;
    (void)request;
    (void)err;
    answer->type = "text/event-stream";
    answer->stream = true;
    return STATUS_OK;
}
