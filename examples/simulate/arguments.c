#include "examples/simulate/arguments.h"

#include <string.h>

enum status arguments_read(const struct param *table, size_t count, void *options, int argc, char **argv,
                           struct err *err) {
    for (int i = 1; i < argc; i++) {
        FAIL_IF(strncmp(argv[i], "--", 2) != 0, err, STATUS_BAD_ARGUMENT,
                "command line: '%s' is not --KEY VALUE; see --help", argv[i]);
        char key[64];
        const char *equals = strchr(argv[i], '=');
        size_t length = equals != NULL ? (size_t)(equals - argv[i] - 2) : strlen(argv[i] + 2);
        FAIL_IF(length >= sizeof key, err, STATUS_BAD_ARGUMENT, "command line: unknown parameter %s; see --help",
                argv[i]);
        memcpy(key, argv[i] + 2, length);
        key[length] = '\0';
        bool alone = equals == NULL && (i + 1 == argc || strncmp(argv[i + 1], "--", 2) == 0);
        const char *text = equals != NULL ? equals + 1 : alone ? "true" : argv[++i];
        TRY(params_set(table, count, options, key, text, "command line", err));
    }
    return params_check(table, count, options, "command line", err);
}
