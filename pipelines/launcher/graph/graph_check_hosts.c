/* Checks what a graph says of several hosts. */
#include <string.h>

#include "common/text.h"
#include "pipelines/launcher/graph/graph_check_private.h"
#include "pipelines/launcher/host/placement.h"
#include "pipelines/launcher/session.h"

static const struct graph_entry *spreading_entry(const struct graph *graph) {
    const struct graph_entry *hosts = graph_entry(&graph->session, "hosts");
    const struct graph_entry *engine = graph_entry(&graph->session, "engine");
    if (hosts != NULL) return hosts;
    if (engine != NULL && !graph_value_holds(&engine->value, "local")) return engine;
    return graph_entry(&graph->session, "control_port");
}

/* ssh goes to hosts that have names. */
static void check_engine(struct graph_checks *c) {
    const struct graph_entry *engine = graph_entry(&c->graph->session, "engine");
    if (engine != NULL && graph_value_holds(&engine->value, "ssh") && graph_entry(&c->graph->session, "hosts") == NULL)
        problems_add(c->problems, PROBLEM_ERROR, engine->line,
                     "%ssession.engine: ssh needs the names of hosts, as in hosts: [node1, node2]",
                     graph_set_by(engine));
}

/* The launcher's own host may be among the names: a session whose launcher's host is lost goes on from another one. */
static void check_names(struct graph_checks *c, const struct graph_entry *entry) {
    for (size_t i = 0; i < entry->value.count; i++) {
        const char *name = entry->value.texts[i];
        bool twice = false;
        for (size_t k = 0; k < i; k++)
            twice |= strcmp(entry->value.texts[k], name) == 0;
        if (!graph_is_stage_name(name) || placement_is_kind(name))
            problems_add(c->problems, PROBLEM_ERROR, entry->line,
                         "%ssession.hosts: \"%.80s\" cannot name a host; letters, digits, - and _ can (but for cpu and "
                         "gpu), as `icestream host --name` gives it",
                         graph_set_by(entry), name);
        else if (twice)
            problems_add(c->problems, PROBLEM_ERROR, entry->line, "%ssession.hosts: %s is there twice; leave it out",
                         graph_set_by(entry), name);
    }
}

void graph_check_hosts(struct graph_checks *c) {
    const struct graph_entry *entry = spreading_entry(c->graph);
    const struct graph_entry *transport = graph_entry(&c->graph->session, "transport");
    if (entry == NULL) return;
    check_engine(c);
    if (strcmp(entry->key, "hosts") == 0) check_names(c, entry);
    if (c->graph->ledger[0] == '\0')
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%ssession.%s: several hosts share their ledgers in PostgreSQL; add ledger: postgresql://HOST/DB",
                     graph_set_by(entry), entry->key);
    if (transport != NULL && !c->graph->tcp)
        problems_add(c->problems, PROBLEM_ERROR, transport->line,
                     "%ssession.transport: several hosts speak over tcp; leave `transport` out",
                     graph_set_by(transport));
    if (graph_entry(&c->graph->session, "listen") == NULL)
        problems_add(c->problems, PROBLEM_WARNING, entry->line,
                     "session.listen is missing, so that only this machine reaches the launcher; give the address by "
                     "which the other hosts reach it");
    c->graph->tcp = true;
}

/* Returns whether the session names a host. */
static bool is_known(const struct graph *graph, const char *name) {
    const struct graph_entry *hosts = graph_entry(&graph->session, "hosts");
    return placement_is_own(name) || (hosts != NULL && graph_value_holds(&hosts->value, name));
}

static void report_unknown(struct graph_checks *c, const struct graph_stage *stage, const struct graph_entry *entry,
                           const char *name) {
    const struct graph_entry *hosts = graph_entry(&c->graph->session, "hosts");
    const char *near =
        hosts == NULL ? NULL : text_nearest(name, (const char *const *)hosts->value.texts, hosts->value.count);
    problems_add(c->problems, PROBLEM_ERROR, entry->line,
                 "%s%s.on: \"%.80s\" is neither cpu nor gpu, nor a host of session.hosts%s%s%s", graph_set_by(entry),
                 stage->section.name, name, near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

enum status graph_check_on(struct graph_checks *c, struct graph_stage *stage, const struct graph_entry *entry,
                           const char *text) {
    bool kind = placement_is_kind(text);
    if (!c->graph->spread)
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.on: the session has one host; name others in session.hosts, or leave `on` out",
                     graph_set_by(entry), stage->section.name);
    else if (!kind && !is_known(c->graph, text))
        report_unknown(c, stage, entry, text);
    else if (stage->program != NULL && !session_is_ours(stage->program) && (kind || !placement_is_own(text)))
        problems_add(c->problems, PROBLEM_ERROR, entry->line,
                     "%s%s.on: a program of others keeps its ledger in a file of the launcher's host, and runs there; "
                     "leave `on` out",
                     graph_set_by(entry), stage->section.name);
    stage->on = strdup(text);
    FAIL_IF(stage->on == NULL, c->err, STATUS_NO_MEMORY, "no memory for the graph");
    return STATUS_OK;
}
