#include "common/together.h"

#include <pthread.h>
#include <stdbool.h>

#include "common/files.h"

struct team {
    together_work *work;
    void *context;
    size_t count;
    const struct file_observer *observer; /* of the caller */
    pthread_mutex_t lock;                 /* guards the members below */
    size_t next;                          /* the first index that nobody has taken */
    size_t failed;                        /* the lowest index that failed, with its error */
    enum status status;
    struct err err;
};

/* Returns whether there is a piece to do, and which. Lower ones were taken before, so that the lowest one that fails is
 * always tried. */
static bool take(struct team *team, size_t *ret_index) {
    pthread_mutex_lock(&team->lock);
    const bool more = team->status == STATUS_OK && team->next < team->count;
    *ret_index = team->next;
    team->next += more;
    pthread_mutex_unlock(&team->lock);
    return more;
}

static void note_failure(struct team *team, size_t index, enum status status, const struct err *err) {
    pthread_mutex_lock(&team->lock);
    if (team->status == STATUS_OK || index < team->failed) {
        team->failed = index;
        team->status = status;
        team->err = *err;
    }
    pthread_mutex_unlock(&team->lock);
}

static void *help(void *context) {
    struct team *team = context;
    const struct file_observer *before = file_observe(team->observer);
    size_t index;
    while (take(team, &index)) {
        struct err err = {0};
        const enum status status = team->work(team->context, index, &err);
        if (status != STATUS_OK) note_failure(team, index, status, &err);
    }
    file_observe(before);
    return NULL;
}

enum status work_together(size_t count, int threads, together_work *work, void *context, struct err *err) {
    struct team team = {.work = work,
                        .context = context,
                        .count = count,
                        .observer = file_observed_by(),
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .status = STATUS_OK};
    pthread_t helpers[TOGETHER_MOST];
    int started = 0;
    while (started + 1 < threads && started + 1 < TOGETHER_MOST && (size_t)started + 1 < count &&
           pthread_create(&helpers[started], NULL, help, &team) == 0)
        started++;
    (void)help(&team);
    for (int i = 0; i < started; i++)
        (void)pthread_join(helpers[i], NULL);
    (void)pthread_mutex_destroy(&team.lock);
    if (team.status != STATUS_OK && err != NULL) *err = team.err;
    return team.status;
}
