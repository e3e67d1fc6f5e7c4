/* Lists of neighbours that grow as rows come. */
#include <stdlib.h>
#include <string.h>

#include "common/memory.h"
#include "kernels/superpose/superpose_private.h"

void superpose_neighbours_clear(struct superpose_neighbours *neighbours) {
    mem_free(&neighbours->starts);
    mem_free(&neighbours->index);
    mem_free(&neighbours->rmsd);
    *neighbours = (struct superpose_neighbours){0};
}

enum status superpose_neighbours_begin(struct superpose_neighbours *neighbours, int count, struct err *err) {
    if (neighbours->starts == NULL || neighbours->count != count) {
        superpose_neighbours_clear(neighbours);
        TRY(mem_new((size_t)count + 1, sizeof *neighbours->starts, "lists of neighbours", &neighbours->starts, err));
        neighbours->count = count;
    }
    memset(neighbours->starts, 0, ((size_t)count + 1) * sizeof *neighbours->starts);
    return STATUS_OK;
}

enum status superpose_neighbours_room(struct superpose_neighbours *neighbours, size_t entries, float cutoff,
                                      size_t limit, struct err *err) {
    const size_t each = sizeof *neighbours->index + sizeof *neighbours->rmsd;
    size_t most = limit ? limit / each : SIZE_MAX / each;
    FAIL_IF(
        entries > most, err, STATUS_NO_MEMORY,
        "more than %zu pairs have an RMSD below %g Å: their lists take more than the %zu bytes that they may; lower "
        "the cut-off or give more memory",
        most, (double)cutoff, limit);
    if (entries <= neighbours->capacity) return STATUS_OK;
    size_t capacity = entries + entries / 2 + 1024;
    if (capacity > most) capacity = most;
    int32_t *index = realloc(neighbours->index, capacity * sizeof *index);
    if (index) neighbours->index = index;
    float *rmsd = index ? realloc(neighbours->rmsd, capacity * sizeof *rmsd) : NULL;
    if (rmsd) neighbours->rmsd = rmsd;
    FAIL_IF(rmsd == NULL, err, STATUS_NO_MEMORY,
            "no memory for lists of %zu pairs with an RMSD below %g Å: lower the cut-off", entries, (double)cutoff);
    neighbours->capacity = capacity;
    return STATUS_OK;
}
