/* Measures how fast items are finished and disks fill, from samples of the last ten minutes. */
#include <math.h>
#include <string.h>

#include "pipelines/launcher/api/api_private.h"

static const double SPAN = 600, EVERY = 10; /* s */

static struct api_sample *sample_at(struct api *api, size_t from_newest) {
    return &api->samples[(api->sample_count - 1 - from_newest) % API_SAMPLES];
}

static size_t kept(const struct api *api) {
    return api->sample_count < API_SAMPLES ? api->sample_count : API_SAMPLES;
}

static int64_t finished(const struct tally_stage *stage) {
    return stage->done + stage->rejected + stage->failed;
}

/* Puts a first sample SPAN before the present one, from the times in the ledgers. The disks were not looked at then. */
static void remember(struct serve *serve) {
    struct api *api = serve->api;
    const struct tally *tally = view_tally(serve->view);
    struct api_sample *sample = &api->samples[api->sample_count++ % API_SAMPLES];
    *sample = (struct api_sample){.time = serve->now_monotonic - SPAN};
    for (size_t i = 0; i < API_PLACES; i++)
        sample->free[i] = NAN;
    for (size_t i = 0; i < tally->count && i < API_STAGES; i++)
        sample->finished[i] = finished(&tally->stages[i]);
    for (size_t row = 0; row < view_row_count(serve->view); row++) {
        if (view_row(serve->view, row)->time_changed < serve->now - SPAN) continue;
        for (size_t i = 0; i < tally->count && i < API_STAGES; i++) {
            struct view_visit visit = view_visit(serve->view, row, i);
            if (visit.known && visit.state != LEDGER_IN_FLIGHT && visit.time_changed >= serve->now - SPAN)
                sample->finished[i]--;
        }
    }
}

void api_rates_tick(struct serve *serve) {
    struct api *api = serve->api;
    if (api->sample_count > 0 && serve->now_monotonic - sample_at(api, 0)->time < EVERY) return;
    if (api->sample_count == 0) remember(serve);
    const struct tally *tally = view_tally(serve->view);
    struct api_sample *sample = &api->samples[api->sample_count++ % API_SAMPLES];
    *sample = (struct api_sample){.time = serve->now_monotonic};
    for (size_t i = 0; i < tally->count && i < API_STAGES; i++)
        sample->finished[i] = finished(&tally->stages[i]);
    api_machine_sample(serve, sample);
}

double api_rate(struct serve *serve, size_t stage) {
    struct api *api = serve->api;
    const struct tally *tally = view_tally(serve->view);
    if (api->sample_count == 0 || stage >= API_STAGES || stage >= tally->count) return NAN;
    const struct api_sample *oldest = sample_at(api, 0);
    for (size_t i = 1; i < kept(api) && serve->now_monotonic - sample_at(api, i)->time <= SPAN + EVERY; i++)
        oldest = sample_at(api, i);
    double time = serve->now_monotonic - oldest->time;
    if (time <= 0) return NAN;
    /* A retry takes items back. */
    double rate = (double)(finished(&tally->stages[stage]) - oldest->finished[stage]) / time;
    return rate > 0 ? rate : 0;
}

double api_fill_rate(struct serve *serve, size_t place) {
    struct api *api = serve->api;
    if (place >= API_PLACES || kept(api) < 2) return NAN;
    const struct api_sample *newest = sample_at(api, 0), *oldest = newest;
    for (size_t i = 1; i < kept(api); i++)
        if (isfinite(sample_at(api, i)->free[place]) && newest->time - sample_at(api, i)->time <= SPAN + EVERY)
            oldest = sample_at(api, i);
    double time = newest->time - oldest->time;
    return time > 0 ? (oldest->free[place] - newest->free[place]) / time : NAN;
}
