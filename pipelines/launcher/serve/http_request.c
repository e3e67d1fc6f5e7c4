/* Takes a request from libmicrohttpd: headers, body, and who sent it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "pipelines/launcher/serve/http_server_private.h"

/* Copies a text into the exchange; NULL: no room. */
static const char *keep(struct http_exchange *exchange, const char *text) {
    size_t length = strlen(text) + 1;
    if (length > sizeof exchange->text - exchange->text_length) return NULL;
    char *copy = exchange->text + exchange->text_length;
    memcpy(copy, text, length);
    exchange->text_length += length;
    return copy;
}

static void name_peer(struct http_exchange *exchange) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(exchange->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct sockaddr_storage address;
    struct ucred who;
    socklen_t length = sizeof address, credentials = sizeof who;
    snprintf(exchange->peer, sizeof exchange->peer, "unknown");
    exchange->raw.peer = exchange->peer;
    if (info == NULL || getpeername(info->connect_fd, (struct sockaddr *)&address, &length) != 0) return;
    char text[INET6_ADDRSTRLEN];
    if (address.ss_family == AF_INET &&
        inet_ntop(AF_INET, &((struct sockaddr_in *)&address)->sin_addr, text, sizeof text) != NULL)
        snprintf(exchange->peer, sizeof exchange->peer, "%s", text);
    else if (address.ss_family == AF_INET6 &&
             inet_ntop(AF_INET6, &((struct sockaddr_in6 *)&address)->sin6_addr, text, sizeof text) != NULL)
        snprintf(exchange->peer, sizeof exchange->peer, "%s", text);
    else if (address.ss_family == AF_UNIX &&
             getsockopt(info->connect_fd, SOL_SOCKET, SO_PEERCRED, &who, &credentials) == 0)
        snprintf(exchange->peer, sizeof exchange->peer, "uid %u", (unsigned)who.uid);
}

bool http_take_headers(struct http_exchange *exchange) {
    struct http_raw *raw = &exchange->raw;
    const struct {
        const char *name, **value;
    } wanted[] = {{"Host", &raw->host},
                  {"Origin", &raw->origin},
                  {"Sec-Fetch-Site", &raw->site},
                  {"Cookie", &raw->cookie},
                  {"Authorization", &raw->authorization},
                  {"Content-Type", &raw->type},
                  {"X-Icestream", &raw->mark},
                  {"Accept-Encoding", &raw->encodings},
                  {"If-None-Match", &raw->tag},
                  {"Last-Event-ID", &raw->last_id}};
    name_peer(exchange);
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++)
        *wanted[i].value = "";
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const char *found = MHD_lookup_connection_value(exchange->connection, MHD_HEADER_KIND, wanted[i].name);
        if (found == NULL) continue;
        const char *copy = keep(exchange, found);
        if (copy == NULL) return false;
        *wanted[i].value = copy;
    }
    return true;
}
