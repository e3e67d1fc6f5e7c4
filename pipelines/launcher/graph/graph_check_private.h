/* Declares the functions that the files of the check share. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_PRIVATE_H
#define ICESTREAM_PIPELINES_LAUNCHER_GRAPH_GRAPH_CHECK_PRIVATE_H

#include <stdbool.h>

#include "pipelines/launcher/graph/graph_check.h"
#include "pipelines/launcher/program.h"

struct graph_checks {
    struct graph *graph;
    const struct machine *machine;
    struct problems *problems;
    struct program_names programs;
    json_t *common_params; /* descriptions of the keys that any stage may have */
    struct err *err;
};

/* Returns "--set " for an entry that is not from the graph's text, else "". */
const char *graph_set_by(const struct graph_entry *entry);
/* Returns the description of a key, or NULL. */
const json_t *graph_find_param(const json_t *described, const char *key);
/* Checks one value against a description; adds a problem when it does not fit. */
void graph_check_value(struct graph_checks *c, const json_t *described, const struct graph_section *section,
                       const struct graph_entry *entry, const char *text);
/* Returns whether a key has a value; adds the problem of one that has none, with what was probably meant. with_common:
 * as for graph_unknown_key. */
bool graph_check_has_value(struct graph_checks *c, const json_t *described, bool with_common,
                           const struct graph_section *section, const struct graph_entry *entry);
/* Adds the problem of an unknown key. advice: printed when no known key is near. with_common: also looks among the keys
 * that any stage may have. */
void graph_unknown_key(struct graph_checks *c, const json_t *described, bool with_common,
                       const struct graph_section *section, const struct graph_entry *entry, const char *advice);

/* The session (graph_check_session.c): checks its keys; once programs are described and edges known, its pixel size. */
enum status graph_check_session(struct graph_checks *c);
void graph_check_pixel_size(struct graph_checks *c);

/* Several hosts (graph_check_hosts.c): checks what a session needs for them, which sets graph->tcp; and the `on` of a
 * stage, whose program is known. */
void graph_check_hosts(struct graph_checks *c);
enum status graph_check_on(struct graph_checks *c, struct graph_stage *stage, const struct graph_entry *entry,
                           const char *text);

/* Asks each program that knows --check whether its values make sense together (graph_check_ask.c). Adds the problems
 * that the programs find. */
enum status graph_check_ask(struct graph_checks *c);
/* Warns of rules (reject_if) on columns that no stage on the way gives an item (graph_check_rules.c). */
void graph_check_rules(struct graph_checks *c);
/* Warns of refiners that take poses from tables in which there are none, and notes those that make a first map
 * (graph_check_poses.c). */
void graph_check_poses(struct graph_checks *c);
/* Checks the stages whose templates a picker adopts (graph_check_templates.c). */
void graph_check_templates(struct graph_checks *c);

#endif
