/* Follows senders that move to another host. The launcher, or the agent of a host, writes where they listen now into a
 * record that all instances of the host read; an instance need not start again. The record has the form
 *
 *   {"v": 1, "number": 3, "edges": {"watcher.0>lowpass-picker": {"data": "tcp://…", "ack": "tcp://…"}}}
 *
 * The number grows with each change. The record names every edge that has moved since the run began. */
#include <string.h>

#include "common/harness/pipeline.h"
#include "common/memory.h"
#include "common/text.h"

enum { RECORD_VERSION = 1, RECORD_SIZE_MAX = 1 << 20 };

static enum status follow_edge(struct pipeline *pipeline, struct inbox *inbox, const json_t *place, struct err *err) {
    const char *data = json_string_value(json_object_get(place, "data"));
    const char *ack = json_string_value(json_object_get(place, "ack"));
    bool moved = false;
    if (place == NULL) return STATUS_OK;
    FAIL_IF(data == NULL || ack == NULL, err, STATUS_BAD_FORMAT, "the edge %s needs 'data' and 'ack'", inbox->edge);
    /* The answers go first: if only they have moved, this is done again. */
    TRY(transport_move(pipeline->transport, inbox->acks, ack, NULL, err));
    TRY(transport_move(pipeline->transport, inbox->data, data, &moved, err));
    if (!moved) return STATUS_OK;
    log_write(pipeline->stage->log, LOG_INFO, "moved", "%s now comes from %s", inbox->edge, data);
    /* Messages that nobody has taken are lost with the connection: the sender sends them again after a hello. */
    return edges_answer(pipeline, inbox, MESSAGE_HELLO, 0, "", err);
}

static enum status follow(struct pipeline *pipeline, const json_t *record, struct err *err) {
    const json_t *version = json_object_get(record, "v"), *number = json_object_get(record, "number");
    const json_t *edges = json_object_get(record, "edges");
    FAIL_IF(json_integer_value(version) != RECORD_VERSION || !json_is_integer(number) || !json_is_object(edges), err,
            STATUS_BAD_FORMAT, "a record of endpoints has 'v' %d, a 'number' and 'edges'", RECORD_VERSION);
    /* An older record may have been left by an earlier agent of this host. */
    if (json_integer_value(number) <= pipeline->endpoints.number) return STATUS_OK;
    for (int i = 0; i < pipeline->instance.input_count; i++) {
        struct inbox *inbox = &pipeline->inboxes[i];
        TRY(follow_edge(pipeline, inbox, json_object_get(edges, inbox->edge), err));
    }
    pipeline->endpoints.number = (int)json_integer_value(number);
    return STATUS_OK;
}

static enum status read_record(struct pipeline *pipeline, struct err *err) {
    _cleanup_(mem_free) char *text = NULL;
    size_t length;
    enum status status = file_read_whole(pipeline->instance.endpoints, RECORD_SIZE_MAX, &text, &length, err);
    if (status == STATUS_NOT_FOUND) return STATUS_OK; /* nothing has moved yet */
    TRY(status);
    /* By content: a time says nothing where files come from other hosts. */
    uint64_t hash = text_hash(text);
    if (hash == pipeline->endpoints.seen) return STATUS_OK;
    json_error_t error;
    json_t *record = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    FAIL_IF(record == NULL, err, STATUS_BAD_FORMAT, "line %d: %s", error.line, error.text);
    status = follow(pipeline, record, err);
    json_decref(record);
    if (status == STATUS_OK) pipeline->endpoints.seen = hash;
    return status;
}

void endpoints_follow(struct pipeline *pipeline) {
    struct err err = {0};
    if (pipeline->instance.endpoints == NULL) return;
    bool failed = read_record(pipeline, &err) != STATUS_OK;
    if (failed && !pipeline->endpoints.failed)
        stage_log(pipeline->stage, LOG_WARN, "endpoints", "%s: %s (logged once; tried again each second)",
                  pipeline->instance.endpoints, err.message);
    pipeline->endpoints.failed = failed;
}
