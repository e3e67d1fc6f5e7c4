/* Records what an iteration takes of the device's memory, step by step. */
#include "stages/refiner/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/files.h"
#include "common/memory.h"

enum { STEPS = 1 << 16 };

enum status trace_begin(struct refiner *r, struct err *err) {
    if (!r->options.memory_trace) return STATUS_OK;
    if (r->trace == NULL) TRY(mem_new(STEPS, sizeof *r->trace, "a trace of the device's memory", &r->trace, err));
    (void)alignment_trace(r->alignment, r->trace, STEPS);
    return STATUS_OK;
}

void trace_end(struct refiner *r) {
    if (r->trace == NULL) return;
    r->trace_count = alignment_trace(r->alignment, NULL, 0);
}

enum status refiner_write_trace(const struct refiner *r, const char *folder, struct err *err) {
    static const char *const OPERATIONS[] = {"open", "take", "close"};
    char name[64], path[PATH_SIZE], *text = NULL;
    size_t length = 0, count = r->trace_count < STEPS ? r->trace_count : STEPS;
    if (r->trace == NULL || r->trace_count == 0) return STATUS_OK;
    snprintf(name, sizeof name, "run_it%03d_memory.csv", r->schedule.iteration);
    TRY(path_join(folder, name, path, sizeof path, err));
    FILE *out = open_memstream(&text, &length);
    FAIL_IF(out == NULL, err, STATUS_NO_MEMORY, "no memory for %s", name);
    fprintf(out, "step,operation,scope,top,taken\n");
    for (size_t i = 0; i < count; i++) {
        const struct arena_step *s = &r->trace[i];
        fprintf(out, "%zu,%s,%s,%zu,%s\n", i, OPERATIONS[s->operation], arena_scope_name(s->scope), s->top,
                s->what != NULL ? s->what : "");
    }
    enum status status = STATUS_OK;
    if (fclose(out) != 0) status = err_set(err, STATUS_NO_MEMORY, __FILE__, __LINE__, "no memory for %s", name);
    if (status == STATUS_OK) status = file_write_whole(path, text, length, err);
    free(text);
    return status;
}
