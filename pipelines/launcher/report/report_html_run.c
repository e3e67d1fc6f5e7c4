/* The second half of the page: how the session was run, and what a paper says of it. */
#include <stdlib.h>

#include "pipelines/launcher/report/report_private.h"

static const json_t *member(const json_t *object, const char *part, const char *key) {
    return json_object_get(json_object_get(object, part), key);
}

/* A table of objects: head has the cells of its first row. */
static void write_rows(struct report *r, const json_t *list, const char *table_head, const char *const *keys,
                       size_t count) {
    size_t i;
    json_t *row;
    put_format(r, "<table><tr>%s\n", table_head);
    json_array_foreach(list, i, row) {
        if (i == REPORT_ROWS_MAX) break;
        put(r, "<tr>");
        for (size_t k = 0; k < count; k++) {
            put(r, "<td>");
            put_value(r, json_object_get(row, keys[k]));
        }
        put(r, "\n");
    }
    put(r, "</table>\n");
    if (json_array_size(list) > REPORT_ROWS_MAX)
        put_format(r, "<p>The first %d of %zu; report.json has all.</p>\n", REPORT_ROWS_MAX, json_array_size(list));
}

static void write_incidents(struct report *r) {
    static const char *const keys[] = {"time", "ended", "kind", "stage", "text", "count"};
    const json_t *incidents = json_object_get(r->data, "incidents");
    put(r, "<h2 id=incidents>Incidents: warnings, alarms, restarts, changes</h2>\n");
    if (json_array_size(incidents) == 0) {
        put(r, "<p>None.</p>\n");
        return;
    }
    write_rows(r, incidents, "<th>Time (UTC)<th>Until<th>Kind<th>Stage<th>What<th>Times", keys,
               sizeof keys / sizeof keys[0]);
}

static void write_by_hand(struct report *r) {
    static const char *const keys[] = {"time", "what", "name", "mark", "why", "by"};
    const json_t *list = json_object_get(r->data, "by_hand"), *left_out = member(r->data, "particles", "left_out");
    if (json_array_size(list) == 0) return;
    put(r, "<h2 id=hand>Decided by hand</h2>\n<p>Marks stand beside the verdicts above, and change none of them.");
    if (json_integer_value(left_out) > 0)
        put_format(r, " They took %lld particles out of the selection since the classes were made.",
                   (long long)json_integer_value(left_out));
    put(r, "</p>\n");
    write_rows(r, list, "<th>Time (UTC)<th>What<th>Name<th>Decision<th>Why<th>By", keys, sizeof keys / sizeof keys[0]);
}

static void write_machines(struct report *r) {
    static const char *const keys[] = {"run", "host", "has"};
    const json_t *machines = json_object_get(r->data, "machines");
    put(r, "<h2 id=machine>Machine</h2>\n");
    if (json_array_size(machines) == 0)
        put(r, "<p>The log of the session does not say where it ran.</p>\n");
    else
        write_rows(r, machines, "<th>Run<th>Host<th>Cores and GPUs", keys, sizeof keys / sizeof keys[0]);
}

static void write_parameters(struct report *r) {
    static const char *const keys[] = {"stage", "key", "value", "default"};
    const json_t *all = json_object_get(r->data, "parameters");
    json_t *differ = json_array(), *row;
    size_t i;
    json_array_foreach(all, i, row) {
        if (json_is_true(json_object_get(row, "differs"))) json_array_append(differ, row);
    }
    put(r, "<h2 id=parameters>Parameters that differ from their defaults</h2>\n");
    write_rows(r, differ, "<th>Stage<th>Parameter<th>Value<th>Default", keys, sizeof keys / sizeof keys[0]);
    put(r, "<h3>All that the graph gives</h3>\n");
    write_rows(r, all, "<th>Stage<th>Parameter<th>Value<th>Default", keys, sizeof keys / sizeof keys[0]);
    json_decref(differ);
}

static void write_versions(struct report *r) {
    static const char *const keys[] = {"path", "what", "bytes", "xxh128"};
    const char *name;
    json_t *version;
    put(r, "<h2 id=versions>Versions and files</h2>\n<table><tr><th>Program<th>Version\n");
    json_object_foreach(json_object_get(r->data, "versions"), name, version) {
        put(r, "<tr><td>");
        put_text(r, name);
        put(r, "<td>");
        put_value(r, version);
        put(r, "\n");
    }
    put(r, "</table>\n");
    if (json_array_size(json_object_get(r->data, "products")) > 0)
        write_rows(r, json_object_get(r->data, "products"), "<th>File<th>What<th>Bytes<th>Digest (xxh128)", keys,
                   sizeof keys / sizeof keys[0]);
}

static void write_methods(struct report *r) {
    size_t i;
    json_t *value;
    put(r, "<h2 id=methods>Methods</h2>\n<p>");
    put_value(r, json_object_get(r->data, "methods"));
    put(r, "</p>\n<ol>");
    json_array_foreach(json_object_get(r->data, "citations"), i, value) {
        put(r, "<li>");
        put_value(r, value);
        put(r, "\n");
    }
    put(r, "</ol>\n<h2 id=table1>Table 1</h2>\n<table>");
    json_array_foreach(json_object_get(r->data, "table1"), i, value) {
        put(r, "<tr><th>");
        put_value(r, json_object_get(value, "label"));
        put(r, "<td>");
        if (json_is_null(json_object_get(value, "value")))
            put(r, "<em>to be filled in</em>");
        else
            put_value(r, json_object_get(value, "value"));
        put(r, "\n");
    }
    put(r, "</table>\n");
}

void report_page_run(struct report *report) {
    write_by_hand(report);
    write_machines(report);
    write_incidents(report);
    write_parameters(report);
    write_versions(report);
    write_methods(report);
}
