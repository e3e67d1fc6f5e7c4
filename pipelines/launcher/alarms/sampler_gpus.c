/* The GPUs of a sample, and what waits for the stages on them. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "pipelines/launcher/alarms/sampler_private.h"
#include "pipelines/launcher/api/gpus.h"

enum { ENVIRONMENT_MAX = 1 << 18 };

/* Reads a file of /proc, which has no size of its own, and puts a 0 behind it. Returns its length, or 0. */
static size_t read_proc(const char *path, char *text) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    const size_t length = fread(text, 1, ENVIRONMENT_MAX - 1, file);
    fclose(file);
    text[length] = '\0';
    return length;
}

/* The launcher gives each process on GPUs their names in CUDA_VISIBLE_DEVICES. A process of another user, or of another
 * machine, shows nothing; then no GPU counts as its own. */
void sampler_see_gpus(struct sampler *sampler, const char *instance, json_int_t pid) {
    static const char name[] = "CUDA_VISIBLE_DEVICES=";
    char path[64];
    _cleanup_(mem_free) char *text = malloc(ENVIRONMENT_MAX);
    json_object_del(sampler->visible, instance);
    snprintf(path, sizeof path, "/proc/%lld/environ", (long long)pid);
    const size_t length = text != NULL ? read_proc(path, text) : 0;
    for (size_t at = 0; at < length; at += strlen(text + at) + 1)
        if (strncmp(text + at, name, sizeof name - 1) == 0)
            json_object_set_new(sampler->visible, instance, json_string(text + at + sizeof name - 1));
}

/* Finds a GPU in a list of numbers and of beginnings of UUIDs: "0,GPU-5a3f". */
static bool lists(const char *names, const struct gpu *gpu) {
    while (names != NULL && *names != '\0') {
        char *end;
        const size_t length = strcspn(names, ",");
        const long number = strtol(names, &end, 10);
        if (end == names + length && length > 0 && number == gpu->index) return true;
        if (length > 4 && strncmp(names, gpu->uuid, length) == 0) return true;
        names += length + (names[length] == ',');
    }
    return false;
}

static int64_t waits_for(const struct sampler *sampler, const struct gpu *gpu, const struct alarm_sample *sample) {
    size_t i, k;
    json_t *planned, *name;
    int64_t queue = 0;
    json_array_foreach(json_object_get(view_plan(sampler->view), "stages"), i, planned) {
        bool on_it = false;
        json_array_foreach(json_object_get(planned, "instances"), k, name) on_it |=
            lists(json_string_value(json_object_get(sampler->visible, json_string_value(name))), gpu);
        if (on_it && i < sample->stage_count) queue += sample->stages[i].queue;
    }
    return queue;
}

void sampler_gpus(struct sampler *sampler, struct alarm_sample *sample) {
    const struct gpu *list;
    if (sampler->sources.gpus == NULL) return;
    const size_t count = sampler->sources.gpus(sampler->sources.context, &list);
    for (size_t i = 0; i < count && i < ALARM_GPUS; i++) {
        if (list[i].xids > sampler->xids[i].count) sampler->xids[i].time = sample->time;
        sampler->xids[i].count = list[i].xids;
        struct alarm_gpu *gpu = &sample->gpus[sample->gpu_count++];
        *gpu = (struct alarm_gpu){.utilization = list[i].utilisation,
                                  .celsius = list[i].temperature,
                                  .queue = waits_for(sampler, &list[i], sample),
                                  .lost = list[i].lost,
                                  .xid = list[i].xid,
                                  .xid_age = list[i].xid != 0 ? sample->time - sampler->xids[i].time : NAN};
        snprintf(gpu->name, sizeof gpu->name, "GPU %d", list[i].index);
    }
}
