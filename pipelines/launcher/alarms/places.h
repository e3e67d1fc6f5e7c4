/* Reads how full the disks of a session are. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_PLACES_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_PLACES_H

#include "pipelines/launcher/alarms/judge.h"

struct view;

/* Fills in "session", and "watch" for each watched folder on another disk ("watch", "watch2", …). Returns how many. A
 * disk that cannot be asked is left out. */
size_t places_read(struct view *view, struct alarm_place places[ALARM_PLACES]);

#endif
