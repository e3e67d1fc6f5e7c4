/* Asks the kernel whether something keeps the clock right, and compares it with that of the file system. */
#include <math.h>
#include <sys/timex.h>
#include <time.h>

#include "pipelines/launcher/doctor/doctor.h"

static const double OLDEST =
    1735689600;                    /* s since 1970: the beginning of 2025. A machine without a battery is before */
static const double SKEW_MUCH = 2; /* s */

void doctor_judge_clock(struct doctor *doctor, const struct doctor_clock *clock) {
    const char *remedy = doctor->apt ? "sudo apt-get install systemd-timesyncd && sudo timedatectl set-ntp true"
                                     : "sudo timedatectl set-ntp true";
    if (clock->now < OLDEST)
        doctor_add(doctor, DOCTOR_WARNING, "clock", remedy,
                   "the clock is before 2025: times of images, logs and history will be wrong");
    else if (fabs(clock->skew) > SKEW_MUCH)
        doctor_add(doctor, DOCTOR_WARNING, "clock", remedy,
                   "the file system's clock is %.1f s %s this machine's: keep both right by NTP, since `order` and "
                   "times in status compare them",
                   fabs(clock->skew), clock->skew > 0 ? "before" : "behind");
    else if (clock->known && !clock->synchronised)
        doctor_add(doctor, DOCTOR_WARNING, "clock", remedy,
                   "nothing keeps the clock right: times of images from another computer may not fit");
    else
        doctor_add(doctor, DOCTOR_OK, "clock", NULL, "%s",
                   clock->known ? "the clock is synchronised" : "the kernel does not say whether it is synchronised");
}

void doctor_clock(struct doctor *doctor, double skew) {
    struct timex state = {.modes = 0};
    int answer = adjtimex(&state); /* only asks */
    struct timespec now = {0};
    clock_gettime(CLOCK_REALTIME, &now);
    const struct doctor_clock clock = {.now = (double)now.tv_sec,
                                       .known = answer >= 0,
                                       .synchronised = answer != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
                                       .skew = skew};
    doctor_judge_clock(doctor, &clock);
}
