/* The heap of files that wait for a look. */
#include <stdlib.h>

#include "stages/watcher/folder_private.h"

enum status queue_push(struct folder *folder, long file, struct err *err) {
    struct queue *queue = &folder->waiting;
    if (queue->count == queue->capacity) {
        size_t capacity = queue->capacity > 0 ? 2 * queue->capacity : 64;
        long *files = realloc(queue->files, capacity * sizeof *files);
        FAIL_IF(files == NULL, err, STATUS_NO_MEMORY, "no memory for a queue of %zu files", capacity);
        queue->files = files;
        queue->capacity = capacity;
    }
    size_t place = queue->count++;
    while (place > 0 && folder_before(folder, file, queue->files[(place - 1) / 2])) {
        queue->files[place] = queue->files[(place - 1) / 2];
        place = (place - 1) / 2;
    }
    queue->files[place] = file;
    return STATUS_OK;
}

long queue_pop(struct folder *folder) {
    struct queue *queue = &folder->waiting;
    long first = queue->files[0], last = queue->files[--queue->count];
    size_t place = 0;
    for (;;) {
        size_t child = 2 * place + 1;
        if (child >= queue->count) break;
        if (child + 1 < queue->count && folder_before(folder, queue->files[child + 1], queue->files[child])) child++;
        if (!folder_before(folder, queue->files[child], last)) break;
        queue->files[place] = queue->files[child];
        place = child;
    }
    queue->files[place] = last;
    return first;
}

void queue_destroy(struct queue *queue) {
    free(queue->files);
    *queue = (struct queue){0};
}
