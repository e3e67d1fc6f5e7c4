/* Reads the two clocks of the system, in seconds. */
#ifndef ICESTREAM_COMMON_CLOCK_H
#define ICESTREAM_COMMON_CLOCK_H

double clock_monotonic(void);     /* never goes back; begins at an arbitrary moment */
double clock_realtime(void);      /* since 1970 */
void clock_pause(double seconds); /* sleeps; less long when a signal comes */

#endif
