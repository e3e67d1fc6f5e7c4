/* Reads samples of a session as lines of JSON, so that tests can keep recordings of them. A line holds what
 * has changed since the line before:
 *   {"t": s, "running": true, "quality": {"defocus": [seen, recent, session, outside]}, "stages": {"watcher": {…}},
 *    "gpus": {"GPU 0": [utilization, celsius, queue, lost]}, "places": {"session": [free, size]}, …}
 * Times count from an arbitrary moment; null is NaN. */
#ifndef ICESTREAM_TESTS_PIPELINES_ALARM_SAMPLES_H
#define ICESTREAM_TESTS_PIPELINES_ALARM_SAMPLES_H

#include <jansson.h>

#include "pipelines/launcher/alarms/judge.h"

#define SAMPLES_BEGIN 1.8e9 /* s since 1970 of t = 0 */

/* Fills a sample in which nothing is known. */
void sample_clear(struct alarm_sample *sample);
/* Takes over what a line holds. Fails the test when the line has a key that means nothing. */
void sample_read(struct alarm_sample *sample, const json_t *line);

#endif
