/* Judges the alarms of a session from samples. The judge is pure: its result follows from the samples, the settings,
 * the time and the table that it made before. It reads no file and no clock, so recorded samples test it.
 *
 * An alarm has a kind and a subject: stage_silent of "refiner.0". It fires when its condition has held for the rule's
 * `hold` seconds, and clears when the condition has not held for as long. An unknown value (NaN) raises no alarm. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_ALARMS_JUDGE_H
#define ICESTREAM_PIPELINES_LAUNCHER_ALARMS_JUDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipelines/launcher/alarms/rules.h"

enum {
    ALARM_TEXT = 384,       /* bytes of a text for people */
    ALARM_NAME = 64,        /* bytes of a subject */
    ALARM_STAGES = 24,      /* stages of a sample; further ones are not judged */
    ALARM_GPUS = 16,        /* GPUs of a sample */
    ALARM_PLACES = 4,       /* disks of a sample */
    ALARM_RECENT = 25,      /* exposures whose median is compared */
    ALARM_PARTICLES = 5000, /* a map of fewer is not judged */
    ALARM_TABLE = 128,      /* alarms that a table holds */
    ALARM_SILENCES = 64     /* kinds and subjects that are silenced at a time */
};

/* A quantity that each exposure has. */
enum alarm_quantity {
    QUANTITY_DEFOCUS,      /* µm, underfocus is positive */
    QUANTITY_ASTIGMATISM,  /* Å */
    QUANTITY_RESOLUTION,   /* Å, to which the CTF fits */
    QUANTITY_MOTION,       /* Å, total */
    QUANTITY_ICE,          /* density of the ice ring */
    QUANTITY_PICKS,        /* particles on an image */
    QUANTITY_GAIN,         /* standard deviation of what the gain reference leaves, relative */
    QUANTITY_GAIN_SPREAD,  /* percentile 97.5 over percentile 2.5 of the same */
    QUANTITY_GAIN_MAXIMUM, /* maximum over percentile 97.5 of the same */
    QUANTITIES
};
struct alarm_quality {
    size_t seen;            /* exposures that have the value */
    double recent, session; /* medians of the last ALARM_RECENT and of all; NaN: none */
    double outside;         /* share of the last ALARM_RECENT outside the session's target; NaN: no target */
};

struct alarm_stage {
    char name[ALARM_NAME];     /* of the stage */
    char instance[ALARM_NAME]; /* that is silent, or in trouble */
    char trouble[160];         /* what the machine lacks; "": nothing */
    double silent;             /* s without a heartbeat of a process that should work; 0: it answers */
    double oldest;             /* s that the oldest item waits; 0: none waits */
    int64_t queue;             /* items that wait */
    int64_t restarts;          /* of its instances so far; grows only */
    bool gave_up;              /* the launcher no longer starts it */
};

struct alarm_gpu {
    char name[ALARM_NAME]; /* "GPU 0" */
    double utilization;    /* 0 to 1 */
    double celsius;
    int64_t queue;          /* items that wait for the stages on it */
    bool lost;              /* was there before and answers no longer */
    unsigned long long xid; /* code of its last error (Xid); 0: none */
    double xid_age;         /* s since that error */
};

struct alarm_place {
    char name[ALARM_NAME]; /* session, watch */
    double free, size;     /* bytes */
};

/* One look at a session. */
struct alarm_sample {
    double time;                         /* s since 1970 */
    bool running, draining;              /* a launcher runs the session; takes in nothing new */
    bool gone;                           /* no launcher runs it, and the last one did not end by itself */
    bool adds_up;                        /* the counts of all ledgers agree */
    double begun;                        /* when this run began, s since 1970; NaN: not known */
    double last_exposure;                /* s since 1970; NaN: none yet */
    double interval;                     /* s between two exposures, median; NaN: not known */
    int failures_in_row;                 /* exposures, up to the last one finished */
    int recent_count, recent_failed;     /* of the last 50 finished exposures */
    int hundred_count, hundred_rejected; /* of the last 100 */
    char failure[160], rejection[160];   /* the most frequent reason among these, with its stage; "": none */
    char paused[160];                    /* why the watcher takes in nothing; "": it does */
    struct alarm_quality quality[QUANTITIES];
    double beam_tilt;                                 /* mrad, as refinement estimates it; NaN: not known */
    double efficiency;                                /* of the orientations, 0 to 1; NaN: not known */
    double particles, resolution, resolution_at_half; /* of the last map; Å with half the particles; NaN: none */
    struct alarm_stage stages[ALARM_STAGES];
    struct alarm_gpu gpus[ALARM_GPUS];
    struct alarm_place places[ALARM_PLACES];
    size_t stage_count, gpu_count, place_count;
};

struct alarm {
    enum alarm_kind kind;
    enum alarm_severity severity;
    char subject[ALARM_NAME]; /* a stage, an instance, a GPU, a disk; "": the session */
    char text[ALARM_TEXT];    /* what is wrong and what to do */
    double value;             /* the number that was compared; NaN: none */
    double holds;             /* since when the condition holds without a break; 0: it does not */
    double fine;              /* since when it does not hold; 0: it holds */
    double started;           /* when the alarm fired; 0: it never did */
    double ended;             /* when it cleared; 0: it fires */
    double told;              /* when somebody was last told; 0: never since it fired */
    enum alarm_severity told_severity;
    double until;       /* silenced until then; 0: not */
    bool due;           /* somebody should be told now: it fires, grew worse, fires still, or has cleared */
    bool until_changed; /* it fires, and was silenced or woken since the last call */
    bool changed;       /* it fired, cleared or changed its severity in this call */
};

struct alarm_silence {
    char name[ALARM_NAME];    /* of a rule, or "all" */
    char subject[ALARM_NAME]; /* "": every subject */
    double until;             /* s since 1970 */
};

struct alarm_table {
    struct alarm alarms[ALARM_TABLE];
    size_t count;
    struct alarm_silence silences[ALARM_SILENCES];
    size_t silence_count;
    double judged; /* time of the newest sample that was judged */
};

/* Judges the samples that are newer than table->judged, oldest first; earlier ones serve for comparison. samples: in the
 * order of time, at least those of the last hour if there are so many. Then decides who is due at `now`. Sets `due` and
 * `changed` anew in each call. A sample that is older than the one before it is left out. */
void alarms_judge(const struct alarm_sample *samples, size_t count, double now, const struct alarm_settings *settings,
                  struct alarm_table *table);
/* Moves what the table has of the time after `now` to now, so that alarms go on where a clock was set back. */
void alarms_set_back(struct alarm_table *table, double now);
/* Notes that those that were due have been told. */
void alarms_told(struct alarm_table *table, double now);
/* Silences a rule, or "all", until a time; until 0 or earlier than now takes the silence back. subject "": every subject
 * of the rule. BAD_ARGUMENT: no rule has this name. */
enum status alarms_table_silence(struct alarm_table *table, const char *name, const char *subject, double until,
                                 double now, struct err *err);
/* Returns until when an alarm is silenced, by whichever silence lasts longest; 0: it is not. */
double alarms_silenced_until(const struct alarm_table *table, const struct alarm *alarm, double now);
/* Returns whether an alarm fires. */
static inline bool alarm_fires(const struct alarm *alarm) {
    return alarm->started > 0 && alarm->ended == 0;
}
/* Returns a short text that names an alarm for good: 16 hexadecimal digits. */
void alarm_fingerprint(const struct alarm *alarm, char ret_text[17]);

#endif
