/* The commands of icestream. Each one runs with the parsed options and returns the exit code (options.h). */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_COMMANDS_H
#define ICESTREAM_PIPELINES_LAUNCHER_COMMANDS_H

#include "pipelines/launcher/options.h"

int command_check(const struct options *options);       /* check.c */
int command_stages(const struct options *options);      /* stages.c */
int command_run(const struct options *options);         /* run/run.c */
int command_replay(const struct options *options);      /* replay_command.c */
int command_status(const struct options *options);      /* status.c */
int command_set(const struct options *options);         /* set.c */
int command_invert_hand(const struct options *options); /* invert_hand.c */
int command_redo(const struct options *options);        /* redo.c */
int command_retry(const struct options *options);       /* retry.c */
int command_mark(const struct options *options);        /* mark_command.c */
int command_serve(const struct options *options);       /* serve/serve_command.c */
int command_report(const struct options *options);      /* report/report_command.c */
int command_verify(const struct options *options);      /* verify.c */
int command_repair(const struct options *options);      /* repair.c */
int command_backup(const struct options *options);      /* backup.c */
int command_host(const struct options *options);        /* host/host_command.c */
int command_metrics(const struct options *options);     /* metrics/metrics_command.c */
int command_silence(const struct options *options);     /* alarms/silence_command.c */
int command_doctor(const struct options *options);      /* doctor/doctor.c */

#endif
