/* The table of parts that do something at regular times. */
#include "pipelines/launcher/serve/serve.h"

const struct serve_part serve_parts[] = {
    {0},
};
