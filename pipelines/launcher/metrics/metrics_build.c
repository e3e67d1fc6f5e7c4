#include "pipelines/launcher/metrics/metrics_private.h"

const char *metrics_build(void) {
    return ICESTREAM_BUILD;
}
