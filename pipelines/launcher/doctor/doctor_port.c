/* Tries the two kinds of sockets that join stages: those of Unix, and a port of TCP on this host. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "pipelines/launcher/doctor/doctor.h"

/* Returns the number of a port that took a connection; 0, and errno, if none did. */
static int try_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    int server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool well = server >= 0 && client >= 0 && bind(server, (struct sockaddr *)&address, size) == 0 &&
                listen(server, 1) == 0 && getsockname(server, (struct sockaddr *)&address, &size) == 0 &&
                connect(client, (struct sockaddr *)&address, size) == 0;
    int reason = errno;
    if (client >= 0) close(client);
    if (server >= 0) close(server);
    errno = reason;
    return well ? ntohs(address.sin_port) : 0;
}

void doctor_port(struct doctor *doctor, bool folder_takes_sockets) {
    if (folder_takes_sockets)
        doctor_add(doctor, DOCTOR_OK, "sockets", NULL, "the folder takes sockets of Unix");
    else
        doctor_add(doctor, DOCTOR_OK, "sockets", NULL,
                   "the folder takes no sockets of Unix, or its path is too long for them: they will lie in /tmp");
    int port = try_port();
    if (port > 0)
        doctor_add(doctor, DOCTOR_OK, "port", NULL, "ports of 127.0.0.1 can be opened and reached");
    else
        doctor_add(doctor, DOCTOR_WARNING, "port", "sudo ip link set lo up",
                   "no port of 127.0.0.1 can be opened and reached (%s): `session: {transport: tcp}` will not work",
                   strerror(errno));
}
