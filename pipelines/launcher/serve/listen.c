#include "pipelines/launcher/serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/files.h"
#include "common/memory.h"

enum { BACKLOG = 128 };

/* Returns whether somebody accepts connections at the address. */
static bool is_served(const struct sockaddr_un *address) {
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return false;
    bool served = connect(descriptor, (const struct sockaddr *)address, sizeof *address) == 0 || errno == EAGAIN;
    close(descriptor);
    return served;
}

enum status listen_unix(const char *path, int *ret_socket, struct err *err) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct stat about;
    FAIL_IF(strlen(path) > LISTEN_PATH_MAX, err, STATUS_BAD_ARGUMENT,
            "%s: the path of a socket may have %d bytes: give a shorter one with --socket, or a port with --listen",
            path, LISTEN_PATH_MAX);
    memcpy(address.sun_path, path, strlen(path) + 1);
    if (lstat(path, &about) == 0) {
        FAIL_IF(!S_ISSOCK(about.st_mode), err, STATUS_BAD_ARGUMENT, "%s is there and is no socket: give another path",
                path);
        FAIL_IF(is_served(&address), err, STATUS_BAD_STATE,
                "%s: another icestream serves there; end it, or give another path with --socket", path);
        unlink(path);
    }
    _cleanup_(file_close) int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    FAIL_IF(descriptor < 0, err, STATUS_UNAVAILABLE, "no socket: %s", strerror(errno));
    mode_t before = umask(0177);
    bool bound = bind(descriptor, (const struct sockaddr *)&address, sizeof address) == 0;
    int reason = errno;
    umask(before);
    FAIL_IF(!bound, err, status_of_writing(reason),
            "%s: no socket can be made there: %s; give another path with --socket, or a port with --listen", path,
            strerror(reason));
    if (listen(descriptor, BACKLOG) != 0) {
        reason = errno;
        unlink(path);
        FAIL(err, STATUS_IO, "%s: %s", path, strerror(reason));
    }
    *ret_socket = descriptor;
    descriptor = -1;
    return STATUS_OK;
}

/* Cuts "HOST:PORT" or "[HOST]:PORT". */
static enum status cut(const char *text, char *host, size_t size, char port[8], struct err *err) {
    bool bracket = text[0] == '[';
    const char *name = text + bracket, *colon = strrchr(text, ':');
    const char *end = bracket ? strchr(text, ']') : colon;
    bool well = colon != NULL && end != NULL && end > name && (!bracket || colon == end + 1) &&
                (size_t)(end - name) < size && (bracket || memchr(name, ':', (size_t)(end - name)) == NULL);
    size_t digits = well ? strspn(colon + 1, "0123456789") : 0;
    FAIL_IF(!well || digits == 0 || digits > 5 || colon[1 + digits] != '\0' || atoi(colon + 1) > 65535, err,
            STATUS_BAD_ARGUMENT, "--listen %s: HOST:PORT is expected, such as 127.0.0.1:0 or [::1]:8080", text);
    memcpy(host, name, (size_t)(end - name));
    host[end - name] = '\0';
    snprintf(port, 8, "%s", colon + 1);
    return STATUS_OK;
}

static bool is_loopback(const struct sockaddr *address) {
    if (address->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
    return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static in_port_t *port_of(struct sockaddr *address) {
    return address->sa_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port
                                         : &((struct sockaddr_in6 *)address)->sin6_port;
}

static int bind_to(const struct addrinfo *found) {
    int one = 1, descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) return -1;
    if (setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
        bind(descriptor, found->ai_addr, found->ai_addrlen) == 0 && listen(descriptor, BACKLOG) == 0)
        return descriptor;
    int reason = errno;
    close(descriptor);
    errno = reason;
    return -1;
}

enum status listen_tcp(const char *address, bool beyond, int before, int *ret_socket, int *ret_port, struct err *err) {
    char host[256], port[8];
    struct addrinfo *found = NULL;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    TRY(cut(address, host, sizeof host, port, err));
    int failed = getaddrinfo(host, port, &hints, &found);
    FAIL_IF(failed != 0, err, STATUS_BAD_ARGUMENT, "--listen %s: no such address: %s", address, gai_strerror(failed));
    enum status status = STATUS_OK;
    _cleanup_(file_close) int descriptor = -1;
    if (!beyond && !is_loopback(found->ai_addr))
        status = err_set(err, STATUS_BAD_ARGUMENT, __FILE__, __LINE__,
                         "--listen %s: others reach this address, and what is sent there is not encrypted: listen on "
                         "127.0.0.1 and use ssh -L, or add --behind-proxy when a proxy with TLS stands before it",
                         address);
    if (status == STATUS_OK && atoi(port) == 0 && before > 0) {
        *port_of(found->ai_addr) = htons((uint16_t)before);
        descriptor = bind_to(found);
        *port_of(found->ai_addr) = 0;
    }
    if (status == STATUS_OK && descriptor < 0) descriptor = bind_to(found);
    int reason = errno;
    struct sockaddr_storage own;
    socklen_t size = sizeof own;
    freeaddrinfo(found);
    TRY(status);
    FAIL_IF(descriptor < 0, err, reason == EADDRINUSE ? STATUS_BAD_STATE : STATUS_IO,
            "--listen %s: %s; give another port, or 0 for any free one", address, strerror(reason));
    FAIL_IF(getsockname(descriptor, (struct sockaddr *)&own, &size) != 0, err, STATUS_IO, "--listen %s: %s", address,
            strerror(errno));
    *ret_port = ntohs(*port_of((struct sockaddr *)&own));
    *ret_socket = descriptor;
    descriptor = -1;
    return STATUS_OK;
}

enum status listen_name(const char *address, char *ret_name, size_t size, struct err *err) {
    char host[256], port[8];
    TRY(cut(address, host, sizeof host, port, err));
    bool all = strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
    int length = snprintf(ret_name, size, strchr(host, ':') != NULL && !all ? "[%s]" : "%s", all ? "localhost" : host);
    FAIL_IF(length < 0 || (size_t)length >= size, err, STATUS_BAD_ARGUMENT, "--listen %s: too long", address);
    return STATUS_OK;
}
