#include "pipelines/launcher/alarms/places.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "pipelines/launcher/view/view.h"

/* Adds the disk of a folder unless another place lies on the same. */
static size_t add(const char *name, const char *folder, size_t count, dev_t devices[ALARM_PLACES],
                  struct alarm_place places[ALARM_PLACES]) {
    struct stat info;
    struct statvfs disk;
    if (count == ALARM_PLACES || stat(folder, &info) != 0 || statvfs(folder, &disk) != 0) return count;
    for (size_t i = 0; i < count; i++)
        if (devices[i] == info.st_dev) return count;
    devices[count] = info.st_dev;
    places[count] = (struct alarm_place){.free = (double)disk.f_bavail * (double)disk.f_frsize,
                                         .size = (double)disk.f_blocks * (double)disk.f_frsize};
    snprintf(places[count].name, sizeof places[count].name, "%s", name);
    return count + 1;
}

size_t places_read(struct view *view, struct alarm_place places[ALARM_PLACES]) {
    dev_t devices[ALARM_PLACES] = {0};
    size_t count = add("session", view_session(view)->path, 0, devices, places), watched = 0;
    const char *stage;
    json_t *values;
    json_object_foreach(json_object_get(view_graph(view), "stages"), stage, values) {
        const char *folder = json_string_value(json_object_get(values, "directory"));
        char name[ALARM_NAME] = "watch";
        if (folder == NULL) continue;
        if (++watched > 1) snprintf(name, sizeof name, "watch%zu", watched);
        count = add(name, folder, count, devices, places);
    }
    return count;
}
