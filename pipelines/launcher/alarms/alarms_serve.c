#include "pipelines/launcher/alarms/alarms_serve.h"

#include "pipelines/launcher/alarms/alarms.h"
#include "pipelines/launcher/api/api.h"
#include "pipelines/launcher/serve/serve.h"

static void publish(void *context, json_t *alarm) {
    serve_publish(context, "alarm", alarm);
}

static size_t gpus(void *context, const struct gpu **ret_list) {
    return api_gpus(context, ret_list);
}

static double efficiency(void *context, const char *stage) {
    return api_efficiency(context, stage);
}

static double beam_tilt(void *context, const char *stage) {
    return api_beam_tilt(context, stage);
}

enum status alarms_serve_begin(struct serve *serve, struct err *err) {
    const struct alarms_options options = {.folder = serve->folder,
                                           .view = serve->view,
                                           .read_only = serve->read_only,
                                           .context = serve,
                                           .publish = publish,
                                           .gpus = gpus,
                                           .efficiency = efficiency,
                                           .beam_tilt = beam_tilt};
    return alarms_open(&options, &serve->alarms, err);
}

void alarms_serve_tick(struct serve *serve) {
    if (serve->alarms == NULL) return;
    alarms_show_only(serve->alarms, serve->one_of_many);
    alarms_step(serve->alarms, serve->now, serve->now_monotonic);
}

void alarms_serve_end(struct serve *serve) {
    alarms_close(&serve->alarms);
}

enum status alarms_get(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    (void)request;
    FAIL_IF(serve->alarms == NULL, err, STATUS_UNAVAILABLE, "%s: its alarms cannot be read", serve->folder);
    return http_answer_json(answer, alarms_answer(serve->alarms, serve->now), err);
}
