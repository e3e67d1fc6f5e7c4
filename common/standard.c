#include "common/standard.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

void standard_begin(void) {
    int descriptor;
    /* open() returns the lowest number that is free: one of the standard streams, as long as one is closed. */
    do
        descriptor = open("/dev/null", O_RDWR);
    while (descriptor >= 0 && descriptor <= STDERR_FILENO);
    if (descriptor > STDERR_FILENO) close(descriptor);
    signal(SIGXFSZ, SIG_IGN);
}
