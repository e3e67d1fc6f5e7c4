/* Describes the machine for /api/status: disks, GPUs, memory and load. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "pipelines/launcher/api/api_private.h"

static const double GPUS_AGE = 2; /* s: GPUs are not asked more often */

/* Adds a folder, if it lies on another file system than those that are known. */
static void add_place(struct api *api, const char *path) {
    struct stat info, other;
    if (path == NULL || api->place_count == API_PLACES || strlen(path) >= PATH_SIZE || stat(path, &info) != 0) return;
    for (size_t i = 0; i < api->place_count; i++)
        if (stat(api->places[i], &other) == 0 && other.st_dev == info.st_dev) return;
    snprintf(api->places[api->place_count++], PATH_SIZE, "%s", path);
}

static void find_places(struct serve *serve) {
    const char *name;
    const json_t *stage;
    add_place(serve->api, serve->folder);
    json_t *stages = json_object_get(view_graph(serve->view), "stages");
    json_object_foreach(stages, name, stage)
        add_place(serve->api, json_string_value(json_object_get(stage, "directory")));
}

static double free_bytes(const char *path, double *ret_total) {
    struct statvfs disk;
    if (statvfs(path, &disk) != 0) return NAN;
    if (ret_total != NULL) *ret_total = (double)disk.f_blocks * (double)disk.f_frsize;
    return (double)disk.f_bavail * (double)disk.f_frsize;
}

void api_machine_sample(struct serve *serve, struct api_sample *sample) {
    struct api *api = serve->api;
    if (api->place_count == 0) find_places(serve);
    for (size_t i = 0; i < API_PLACES; i++)
        sample->free[i] = i < api->place_count ? free_bytes(api->places[i], NULL) : NAN;
}

json_t *api_disk_json(struct serve *serve) {
    struct api *api = serve->api;
    json_t *disks = json_array();
    for (size_t i = 0; i < api->place_count; i++) {
        double total = NAN, available = free_bytes(api->places[i], &total);
        json_array_append_new(disks,
                              json_pack("{s:o, s:s, s:o, s:o, s:o}", "path", json_value_text(api->places[i]), "place",
                                        i == 0 ? "session" : "watch", "free", json_value_number(available), "total",
                                        json_value_number(total), "rate", json_value_number(api_fill_rate(serve, i))));
    }
    return disks;
}

size_t api_gpus(struct serve *serve, const struct gpu **ret_list) {
    struct api *api = serve->api;
    *ret_list = api != NULL ? api->gpu_values : NULL;
    if (api == NULL || api->gpus == NULL) return 0;
    if (!api->gpus_known || serve->now_monotonic - api->gpus_read >= GPUS_AGE) {
        api->gpu_count = gpus_read(api->gpus, api->gpu_values);
        api->gpus_read = serve->now_monotonic;
        api->gpus_known = true;
    }
    return api->gpu_count;
}

json_t *api_gpus_json(struct serve *serve) {
    const struct gpu *gpus;
    const size_t count = api_gpus(serve, &gpus);
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, json_pack("{s:i, s:s, s:s, s:b, s:o, s:o, s:o, s:o, s:o}", "index", gpus[i].index,
                                              "name", gpus[i].name, "uuid", gpus[i].uuid, "lost", gpus[i].lost, "util",
                                              json_value_number(gpus[i].utilisation), "memory_used",
                                              json_value_number(gpus[i].memory_used), "memory_total",
                                              json_value_number(gpus[i].memory_total), "temperature",
                                              json_value_number(gpus[i].temperature), "power",
                                              json_value_number(gpus[i].power)));
    return list;
}

/* Reads "NAME:  123 kB" of /proc/meminfo. */
static void read_memory(double *ret_total, double *ret_available) {
    char line[160];
    double value;
    FILE *file = fopen("/proc/meminfo", "re");
    if (file == NULL) return;
    while (fgets(line, sizeof line, file) != NULL) {
        if (sscanf(line, "MemTotal: %lf kB", &value) == 1) *ret_total = value * 1024;
        if (sscanf(line, "MemAvailable: %lf kB", &value) == 1) *ret_available = value * 1024;
    }
    fclose(file);
}

json_t *api_host_json(void) {
    double total = NAN, available = NAN, load[1] = {NAN};
    char name[256] = "";
    read_memory(&total, &available);
    if (getloadavg(load, 1) != 1) load[0] = NAN;
    if (gethostname(name, sizeof name - 1) != 0) name[0] = '\0';
    return json_pack("{s:s, s:o, s:I, s:o, s:o}", "name", name, "load", json_value_number(load[0]), "cores",
                     (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "memory_used", json_value_number(total - available),
                     "memory_total", json_value_number(total));
}
