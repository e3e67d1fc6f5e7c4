#include "kernels/alignment/turns.h"

#include <limits.h>
#include <pthread.h>

#include "common/memory.h"

struct alignment_turns {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool lock_made, changed_made;
    int next, failed; /* guarded by the lock. failed: the first turn that did; INT_MAX: none */
};

enum status alignment_turns_create(struct alignment_turns **ret_turns, struct err *err) {
    struct alignment_turns *t = NULL;
    TRY(mem_new(1, sizeof *t, "turns", &t, err));
    t->lock_made = pthread_mutex_init(&t->lock, NULL) == 0;
    t->changed_made = pthread_cond_init(&t->changed, NULL) == 0;
    if (!t->lock_made || !t->changed_made) {
        alignment_turns_destroy(&t);
        FAIL(err, STATUS_NO_MEMORY, "no lock could be made");
    }
    alignment_turns_begin(t);
    *ret_turns = t;
    return STATUS_OK;
}

void alignment_turns_destroy(struct alignment_turns **turns) {
    struct alignment_turns *t = *turns;
    if (t == NULL) return;
    if (t->changed_made) pthread_cond_destroy(&t->changed);
    if (t->lock_made) pthread_mutex_destroy(&t->lock);
    mem_free(turns);
}

void alignment_turns_begin(struct alignment_turns *t) {
    pthread_mutex_lock(&t->lock);
    t->next = 0;
    t->failed = INT_MAX;
    pthread_mutex_unlock(&t->lock);
}

enum status alignment_turns_await(struct alignment_turns *t, int turn, struct err *err) {
    pthread_mutex_lock(&t->lock);
    while (t->next < turn && t->failed > turn)
        pthread_cond_wait(&t->changed, &t->lock);
    bool abandoned = t->failed < turn;
    pthread_mutex_unlock(&t->lock);
    FAIL_IF(abandoned, err, STATUS_BAD_STATE, "particles before these could not be compared");
    return STATUS_OK;
}

void alignment_turns_end(struct alignment_turns *t, int turn, bool failed) {
    pthread_mutex_lock(&t->lock);
    if (!failed)
        t->next = turn + 1;
    else if (turn < t->failed)
        t->failed = turn;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
}
