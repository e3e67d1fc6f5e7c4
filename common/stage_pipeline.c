/* A stage in a pipeline. */
#include "common/stage_private.h"

int stage_pipeline(struct stage *stage, const char *instance_file, struct err *err) {
    err_set(err, STATUS_UNSUPPORTED, __FILE__, __LINE__, "%s: %s cannot run in a pipeline yet", instance_file,
            stage->name);
    fprintf(stderr, "%s\n", err->message);
    return 1;
}
