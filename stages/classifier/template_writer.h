/* Writes the classes that can serve the picker as templates (common/harness/template_set.h), beside the snapshots. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_TEMPLATE_WRITER_H
#define ICESTREAM_STAGES_CLASSIFIER_TEMPLATE_WRITER_H

#include "stages/classifier/class_templates.h"
#include "stages/classifier/snapshot.h"

/* Holds the state of the writer from snapshot to snapshot. Starts as {0}. */
struct template_writer {
    struct class_templates last;    /* of the last snapshot */
    struct class_templates written; /* of the last epoch */
    int epoch;                      /* the last one; 0: none */
    double particles;               /* that it had */
    bool looked;                    /* for the files of an earlier run */
};
void template_writer_clear(struct template_writer *writer);

/* Looks at the classes of a snapshot that is complete, and writes a new epoch of templates if they are settled: each
 * template has its like in the snapshot before, or the stream has ended (snapshot->final). An epoch is written only if
 * it differs from the last one, and, before the end of the stream, only from twice as many particles. name: of the
 * stage. *ret_count: the number of templates that were written; 0: none. */
enum status template_writer_step(struct template_writer *writer, const struct classifier *classifier,
                                 const struct snapshot *snapshot, const char *name, int *ret_count, struct err *err);

#endif
