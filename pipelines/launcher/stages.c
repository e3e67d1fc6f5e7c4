/* `icestream stages`: lists the stage programs on this machine. */
#include <stdio.h>

#include "pipelines/launcher/commands.h"
#include "pipelines/launcher/program.h"

static enum status collect(json_t *list, struct err *err) {
    struct program_names names;
    TRY(program_list(&names, err));
    enum status status = STATUS_OK;
    for (size_t i = 0; status == STATUS_OK && i < names.count; i++) {
        char *path = NULL;
        json_t *describe = NULL;
        struct err own = {0};
        status = program_find(names.names[i], &path, err);
        if (status == STATUS_OK) status = program_describe(path, 10, &describe, &own);
        if (status == STATUS_BAD_FORMAT) {
            fprintf(stderr, "icestream: warning: %s\n", own.message);
            status = STATUS_OK;
        } else if (status != STATUS_OK && own.message[0] != '\0')
            err_set(err, status, __FILE__, __LINE__, "%s", own.message);
        /* Other programs named icestream-… (the simulator) are no stages and describe nothing. */
        if (describe != NULL) {
            json_object_set_new(describe, "program", json_string(path));
            json_array_append_new(list, describe);
        }
        free(path);
    }
    program_names_clear(&names);
    return status;
}

static const char *text(const json_t *object, const char *key) {
    const char *value = json_string_value(json_object_get(object, key));
    return value ? value : "";
}

int command_stages(const struct options *options) {
    struct err err = {0};
    json_t *list = json_array();
    if (list == NULL || collect(list, &err) != STATUS_OK) {
        fprintf(stderr, "icestream: %s\n", list ? err.message : "no memory");
        json_decref(list);
        return EXIT_ERROR;
    }
    size_t i;
    json_t *stage;
    if (options->json) {
        json_dumpf(list, stdout, JSON_INDENT(1));
        putchar('\n');
    } else {
        json_array_foreach(list, i, stage)
            printf("%-20s %-24s %-12s %s\n", text(stage, "name"), text(stage, "in")[0] ? text(stage, "in") : "(source)",
                   text(stage, "out"), text(stage, "summary"));
    }
    json_decref(list);
    return EXIT_OK;
}
