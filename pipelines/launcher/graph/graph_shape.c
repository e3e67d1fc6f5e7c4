/* Checks the shape of a graph's YAML before any of it is kept: depth, lengths, a single document. libyaml's time grows
 * with the square of the depth, so a small text could keep it busy for hours. */
#include <yaml.h>

#include "pipelines/launcher/graph/graph_private.h"

enum { DEPTH_MAX = 32, SCALAR_MAX = 4095 };

/* Finds what is wrong with one event, as a message in `text`; returns false for nothing. */
static bool is_wrong(const yaml_event_t *event, int *depth, int *documents, char *text, size_t size) {
    text[0] = '\0';
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (++*documents > 1) snprintf(text, size, "a second document begins here (---): a graph is one");
        break;
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT:
        if (++*depth > DEPTH_MAX) snprintf(text, size, "more than %d lists and mappings inside each other", DEPTH_MAX);
        break;
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        --*depth;
        break;
    case YAML_SCALAR_EVENT:
        if (event->data.scalar.length > SCALAR_MAX)
            snprintf(text, size, "a word of %zu bytes; at most %d are allowed", event->data.scalar.length, SCALAR_MAX);
        break;
    default:
        break;
    }
    return text[0] != '\0';
}

enum status graph_check_shape(const char *text, size_t length, struct problems *problems, bool *ret_good,
                              struct err *err) {
    yaml_parser_t parser;
    FAIL_IF(!yaml_parser_initialize(&parser), err, STATUS_NO_MEMORY, "no memory for the graph");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, length);
    int depth = 0, documents = 0;
    bool good = true, ended = false;
    while (good && !ended) {
        yaml_event_t event;
        char wrong[128];
        /* The parser that reads the text next reports text that is not YAML. */
        if (!yaml_parser_parse(&parser, &event)) break;
        if (is_wrong(&event, &depth, &documents, wrong, sizeof wrong)) {
            problems_add(problems, PROBLEM_ERROR, (int)event.start_mark.line + 1, "%s", wrong);
            good = false;
        }
        ended = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    *ret_good = good;
    return STATUS_OK;
}
