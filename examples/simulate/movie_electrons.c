#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/formats/eer_file.h"
#include "common/memory.h"
#include "examples/simulate/movie_files_private.h"
#include "examples/simulate/random.h"

enum { GROUP_MAX = 4096 };

struct movie_electrons {
    struct movie_file_task task;
    struct eer_writer *writer;
    struct random random;
    struct eer_electron *electrons; /* [eer_group][room] */
    size_t room, reserved;
    size_t *count; /* [eer_group] */
    int *chosen;   /* [eer_group] the last pixel that put an electron into this detector frame */
};

void movie_electrons_destroy(struct movie_electrons **electrons) {
    if (electrons == NULL || *electrons == NULL) return;
    eer_writer_discard(&(*electrons)->writer);
    free((*electrons)->electrons);
    free((*electrons)->count);
    free((*electrons)->chosen);
    mem_free(electrons);
}

enum status movie_electrons_create(const struct movie_file_task *task, struct movie_electrons **ret_electrons,
                                   struct err *err) {
    FAIL_IF(task->eer_group < 1 || task->eer_group > GROUP_MAX, err, STATUS_BAD_ARGUMENT,
            "eer_group is %d; 1 to %d detector frames make a frame", task->eer_group, GROUP_MAX);
    _cleanup_(movie_electrons_destroy) struct movie_electrons *e = NULL;
    TRY(mem_new(1, sizeof *e, "an EER movie", &e, err));
    e->task = *task;
    TRY(mem_new((size_t)task->eer_group, sizeof *e->count, "electrons", &e->count, err));
    TRY(mem_new((size_t)task->eer_group, sizeof *e->chosen, "electrons", &e->chosen, err));
    *ret_electrons = e;
    e = NULL;
    return STATUS_OK;
}

enum status movie_electrons_begin(struct movie_electrons *e, const char *path, uint64_t key, struct err *err) {
    const struct eer_format format = eer_format_of(EER_COMPRESSION_7);
    char notes[400];
    snprintf(notes, sizeof notes,
             "<metadata><item name=\"sensorPixelSize.width\" unit=\"m\">%.6e</item><item "
             "name=\"sensorPixelSize.height\" unit=\"m\">%.6e</item><item name=\"numberOfFrames\">%d</item></metadata>",
             e->task.pixel_size * 1e-10, e->task.pixel_size * 1e-10, e->task.frames * e->task.eer_group);
    e->random = random_stream(key, 0, 6);
    return eer_writer_create(path, &format, e->task.nx, e->task.ny, notes, &e->writer, err);
}

/* Makes room in every detector frame for its share of a frame's electrons, and what chance may add. */
static enum status make_room(struct movie_electrons *e, const uint16_t *counts, struct err *err) {
    size_t pixels = (size_t)e->task.nx * (size_t)e->task.ny, total = 0, group = (size_t)e->task.eer_group;
    for (size_t i = 0; i < pixels; i++)
        total += counts[i];
    double share = (double)total / (double)group;
    e->room = (size_t)(share + 12 * sqrt(share) + 100);
    if (e->room > pixels) e->room = pixels;
    if (e->room <= e->reserved) {
        e->room = e->reserved;
        return STATUS_OK;
    }
    mem_free(&e->electrons);
    e->reserved = 0;
    TRY(mem_new_unset(group * e->room, sizeof *e->electrons, "electrons", &e->electrons, err));
    e->reserved = e->room;
    return STATUS_OK;
}

/* Puts an electron of a pixel into a detector frame that has none of this pixel. Leaves it out when all have one. */
static void put_electron(struct movie_electrons *e, int x, int y, int pixel) {
    uint64_t bits = random_next(&e->random);
    int group = e->task.eer_group, frame = (int)((bits >> 32) % (uint64_t)group);
    for (int tries = 0; tries < group; tries++, frame = (frame + 1) % group) {
        if (e->chosen[frame] == pixel || e->count[frame] >= e->room) continue;
        e->chosen[frame] = pixel;
        e->electrons[(size_t)frame * e->room + e->count[frame]++] = (struct eer_electron){
            (uint32_t)(4 * x) + (uint32_t)(bits & 3), (uint32_t)(4 * y) + (uint32_t)(bits >> 2 & 3)};
        return;
    }
}

enum status movie_electrons_append(struct movie_electrons *e, const uint16_t *counts, struct err *err) {
    TRY(make_room(e, counts, err));
    for (int frame = 0; frame < e->task.eer_group; frame++) {
        e->count[frame] = 0;
        e->chosen[frame] = -1;
    }
    int pixel = 0;
    for (int y = 0; y < e->task.ny; y++)
        for (int x = 0; x < e->task.nx; x++, pixel++)
            for (int k = 0; k < counts[pixel] && k < e->task.eer_group; k++)
                put_electron(e, x, y, pixel);
    for (int frame = 0; frame < e->task.eer_group; frame++)
        TRY(eer_writer_append(e->writer, e->electrons + (size_t)frame * e->room, e->count[frame], err));
    return STATUS_OK;
}

enum status movie_electrons_finish(struct movie_electrons *e, struct err *err) {
    return eer_writer_finish(&e->writer, err);
}
