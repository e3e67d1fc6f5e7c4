#include "common/edges/ledger_address.h"

#include <stdio.h>
#include <string.h>

static const char scheme[] = "postgresql://", schema_prefix[] = "icestream_";

#define EXPECTED                                                                                                       \
    "postgresql://HOST/DB is expected, such as postgresql://localhost/icestream or "                                   \
    "postgresql:///icestream?host=/run/postgresql"

static bool is_plain(const char *text, const char *further) {
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') || (*text >= '0' && *text <= '9');
        if (!plain && strchr(further, *text) == NULL) return false;
    }
    return true;
}

static bool is_loopback(const char *host) {
    return host[0] == '/' || strcmp(host, "localhost") == 0 || strcmp(host, "::1") == 0 ||
           (strncmp(host, "127.", 4) == 0 && strspn(host, "0123456789.") == strlen(host));
}

static enum status take_option(const char *key, const char *value, struct ledger_url *url, struct err *err) {
    static const char *const known[] = {"sslrootcert", "sslcert", "sslkey", "connect_timeout"};
    FAIL_IF(strcmp(key, "password") == 0 || strcmp(key, "sslpassword") == 0, err, STATUS_BAD_ARGUMENT,
            "it holds a password, which a graph must not: write it to ~/.pgpass, or to the file that PGPASSFILE names");
    if (strcmp(key, "host") == 0) {
        FAIL_IF(url->host[0] != '\0' || value[0] != '/', err, STATUS_BAD_ARGUMENT,
                "its option host is for the folder of a local socket: " EXPECTED);
        snprintf(url->host, sizeof url->host, "%s", value);
        return STATUS_OK;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(key, known[i]) == 0) return STATUS_OK;
    FAIL(err, STATUS_BAD_ARGUMENT,
         "it has an option that is not known: host, sslrootcert, sslcert, sslkey and connect_timeout are");
}

/* key=value&key=value */
static enum status take_options(char *text, struct ledger_url *url, struct err *err) {
    for (char *save = NULL, *option = strtok_r(text, "&", &save); option; option = strtok_r(NULL, "&", &save)) {
        char *value = strchr(option, '=');
        FAIL_IF(value == NULL, err, STATUS_BAD_ARGUMENT, "an option after the ? has no value: " EXPECTED);
        *value++ = '\0';
        TRY(take_option(option, value, url, err));
    }
    return STATUS_OK;
}

/* [USER@]HOST[:PORT] */
static enum status take_host(char *text, struct ledger_url *url, struct err *err) {
    char *at = strrchr(text, '@');
    if (at != NULL) {
        *at = '\0';
        FAIL_IF(strchr(text, ':') != NULL || strchr(text, '@') != NULL, err, STATUS_BAD_ARGUMENT,
                "it holds a password, which a graph must not: write it to ~/.pgpass, or to the file that PGPASSFILE "
                "names");
        FAIL_IF(!is_plain(text, "._+%-"), err, STATUS_BAD_ARGUMENT,
                "its user has other than letters, digits, ., _, +, - and %%XX: " EXPECTED);
        text = at + 1;
    }
    char *port = NULL;
    if (text[0] == '[') {
        char *close = strchr(text, ']');
        FAIL_IF(close == NULL, err, STATUS_BAD_ARGUMENT, "its host has a [ without a ]: " EXPECTED);
        *close = '\0';
        text++;
        port = close[1] == ':' ? close + 2 : NULL;
    } else if ((port = strchr(text, ':')) != NULL)
        *port++ = '\0';
    FAIL_IF(port != NULL && (port[0] == '\0' || !is_plain(port, "") || strspn(port, "0123456789") != strlen(port)), err,
            STATUS_BAD_ARGUMENT, "its port is not a number: " EXPECTED);
    FAIL_IF(!is_plain(text, ".-_:"), err, STATUS_BAD_ARGUMENT, "it names no single host: " EXPECTED);
    snprintf(url->host, sizeof url->host, "%s", text);
    return STATUS_OK;
}

enum status ledger_url_read(const char *text, struct ledger_url *ret_url, struct err *err) {
    struct ledger_url url = {0};
    char rest[LEDGER_URL_SIZE];
    FAIL_IF(strncmp(text, scheme, strlen(scheme)) != 0, err, STATUS_BAD_ARGUMENT, EXPECTED);
    FAIL_IF(strlen(text) >= sizeof url.text, err, STATUS_BAD_ARGUMENT, "it is longer than %d bytes",
            LEDGER_URL_SIZE - 1);
    snprintf(url.text, sizeof url.text, "%s", text);
    snprintf(rest, sizeof rest, "%s", text + strlen(scheme));
    char *options = strchr(rest, '?');
    if (options != NULL) *options++ = '\0';
    char *at = strrchr(rest, '@'), *base = strchr(at != NULL ? at : rest, '/');
    FAIL_IF(base == NULL || base[1] == '\0', err, STATUS_BAD_ARGUMENT, "it names no database: " EXPECTED);
    *base++ = '\0';
    FAIL_IF(!is_plain(base, "_-.%"), err, STATUS_BAD_ARGUMENT,
            "its database has other than letters, digits, _, - and .: " EXPECTED);
    TRY(take_host(rest, &url, err));
    if (options != NULL) TRY(take_options(options, &url, err));
    FAIL_IF(strchr(text, '#') != NULL, err, STATUS_BAD_ARGUMENT, "it has a #: " EXPECTED);
    FAIL_IF(url.host[0] == '\0', err, STATUS_BAD_ARGUMENT, "it names no host: " EXPECTED);
    url.loopback = is_loopback(url.host);
    *ret_url = url;
    return STATUS_OK;
}

bool ledger_is_address(const char *path) {
    return strncmp(path, scheme, strlen(scheme)) == 0;
}

enum status ledger_address_read(const char *path, struct ledger_address *ret_address, struct err *err) {
    struct ledger_address address;
    char url[LEDGER_URL_SIZE];
    const char *schema = strchr(path, '#'), *stage = schema != NULL ? strchr(schema, '/') : NULL;
    bool good = stage != NULL && (size_t)(schema - path) < sizeof url && strlen(stage + 1) <= LEDGER_STAGE_MAX &&
                (size_t)(stage - schema - 1) < sizeof address.schema;
    FAIL_IF(!good, err, STATUS_BAD_ARGUMENT,
            "the address of a ledger in PostgreSQL is URL#SCHEMA/STAGE, with at most %d bytes for the stage",
            LEDGER_STAGE_MAX);
    snprintf(url, sizeof url, "%.*s", (int)(schema - path), path);
    snprintf(address.schema, sizeof address.schema, "%.*s", (int)(stage - schema - 1), schema + 1);
    snprintf(address.stage, sizeof address.stage, "%s", stage + 1);
    FAIL_IF(!is_plain(address.schema, "_") || !is_plain(address.stage, "_-"), err, STATUS_BAD_ARGUMENT,
            "the schema and the stage in the address of a ledger have letters, digits, _ and -");
    TRY(ledger_url_read(url, &address.url, err));
    *ret_address = address;
    return STATUS_OK;
}

enum status ledger_address_print(const char *url, const char *session, const char *stage, char *path, size_t size,
                                 struct err *err) {
    FAIL_IF(strlen(stage) > LEDGER_STAGE_MAX, err, STATUS_BAD_ARGUMENT,
            "%.100s: the name of a stage that keeps its ledger in PostgreSQL has at most %d bytes", stage,
            LEDGER_STAGE_MAX);
    int length = snprintf(path, size, "%s#%s%s/%s", url, schema_prefix, session, stage);
    FAIL_IF(length < 0 || (size_t)length >= size, err, STATUS_BAD_ARGUMENT, "the address of the ledger is too long");
    return STATUS_OK;
}
