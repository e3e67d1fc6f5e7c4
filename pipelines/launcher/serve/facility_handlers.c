#include "pipelines/launcher/serve/facility.h"
#include "pipelines/launcher/serve/serve_handlers.h"

enum status serve_sessions(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                           struct err *err) {
    json_t *json = NULL;
    (void)serve;
    TRY(facility_sessions(request->facility, &json, err));
    return http_answer_json(answer, json, err);
}
