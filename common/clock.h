/* Seconds on the two clocks of the system. */
#ifndef ICESTREAM_COMMON_CLOCK_H
#define ICESTREAM_COMMON_CLOCK_H

double clock_monotonic(void);     /* never goes back; from an arbitrary moment */
double clock_realtime(void);      /* since 1970 */
void clock_pause(double seconds); /* shorter where a signal comes */

#endif
