#include "pipelines/launcher/run/environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void environment_add_gpu(char *text, size_t size, int gpu) {
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    size_t used = strlen(text);
    for (int i = 0; visible != NULL && i < gpu && *visible != '\0'; i++)
        visible += strcspn(visible, ",") + (strchr(visible, ',') != NULL);
    if (visible != NULL)
        snprintf(text + used, size - used, "%s%.*s", used ? "," : "", (int)strcspn(visible, ","), visible);
    else
        snprintf(text + used, size - used, "%s%d", used ? "," : "", gpu);
}
