#include "stages/classifier/ahead.h"

#include <pthread.h>
#include <string.h>

#include "common/memory.h"
#include "common/worker.h"
#include "kernels/regrid/regrid.h"

/* A thread takes up to RUN images of one stack at a time, so that it opens the stack once for them. */
enum { THREADS_MOST = 64, SLOTS_MOST = 8192, RUN = 8 };

enum slot_state { SLOT_FREE, SLOT_QUEUED, SLOT_READING, SLOT_ABANDONED, SLOT_READY, SLOT_FAILED };

/* Members but the state are the owner's while the slot is free or ready, and the reading thread's in between. */
struct slot {
    enum slot_state state; /* guarded by the lock */
    size_t particle;
    const char *stack;
    int box, slice;
    float *image;
    size_t floats;           /* room in image */
    struct image_pool *pool; /* that image comes from; NULL: it is the slot's own */
    bool made;               /* else the image is as its stack has it */
    size_t scratch;
    bool measure;
    struct ahead_made outcome;
};

struct reading_thread {
    struct ahead *ahead;
    struct worker *worker;
    struct stack_reader *reader;
    float *space;             /* an image of which something is made, and the scratch for that */
    size_t room;              /* floats */
    struct stack_reads reads; /* guarded by the lock */
    bool runs;                /* guarded by the lock */
};

struct ahead {
    struct ahead_owner owner;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the image that the owner waits for was read, or could not be */
    int awaited;            /* its slot; −1: none. Guarded by the lock */
    bool lock_made, changed_made;
    struct reading_thread threads[THREADS_MOST];
    int thread_count;

    size_t bytes, used; /* limit, and what all slots hold */
    struct slot *slots;
    int slot_count;
    int *queue; /* [slot_count] slots to read, first come first served; guarded by the lock */
    int queue_first, queue_count;
    int *spare; /* [slot_count] free slots; the owner's */
    int spare_count;
    int taken; /* slot of the image that the owner looks at; −1: none */

    size_t *expected; /* [AHEAD_MOST] */
    size_t expected_count, expected_next;
};

static struct ahead_image look(const struct ahead *a, size_t particle) {
    return a->owner.look(a->owner.context, particle);
}

/* Returns how many values a slot keeps of an image. */
static size_t image_floats(const struct ahead_image *image) {
    return image->pool != NULL ? image_pool_floats(image->pool) : (size_t)image->box * (size_t)image->box;
}

static enum status start_thread(struct ahead *a, struct shards *cache, struct reading_thread *t, struct err *err) {
    t->ahead = a;
    TRY(stack_reader_create(cache, &t->reader, err));
    return worker_create(&t->worker, err);
}

static enum status start(struct ahead *a, int threads, struct shards *cache, struct err *err) {
    a->lock_made = pthread_mutex_init(&a->lock, NULL) == 0;
    a->changed_made = pthread_cond_init(&a->changed, NULL) == 0;
    FAIL_IF(!a->lock_made || !a->changed_made, err, STATUS_NO_MEMORY, "no lock could be made");
    a->thread_count = threads < 1 ? 1 : threads > THREADS_MOST ? THREADS_MOST : threads;
    for (int i = 0; i < a->thread_count; i++)
        TRY(start_thread(a, cache, &a->threads[i], err));
    return STATUS_OK;
}

enum status ahead_create(int threads, size_t bytes, struct shards *cache, const struct ahead_owner *owner,
                         struct ahead **ret_ahead, struct err *err) {
    struct ahead *a = NULL;
    TRY(mem_new(1, sizeof *a, "reading particles", &a, err));
    *a = (struct ahead){.owner = *owner, .bytes = bytes, .awaited = -1, .taken = -1};
    enum status status = start(a, threads, cache, err);
    if (status != STATUS_OK) {
        ahead_destroy(&a);
        return status;
    }
    *ret_ahead = a;
    return STATUS_OK;
}

static void free_image(struct ahead *a, struct slot *s) {
    a->used -= s->floats * sizeof *s->image;
    if (s->pool != NULL)
        image_pool_give(s->pool, s->image);
    else
        free(s->image);
    s->image = NULL;
    s->floats = 0;
    s->pool = NULL;
}

void ahead_destroy(struct ahead **ahead) {
    if (ahead == NULL || *ahead == NULL) return;
    struct ahead *a = *ahead;
    if (a->lock_made) {
        pthread_mutex_lock(&a->lock);
        a->queue_count = 0;
        pthread_mutex_unlock(&a->lock);
    }
    for (int i = 0; i < a->thread_count; i++) {
        worker_destroy(&a->threads[i].worker);
        stack_reader_destroy(&a->threads[i].reader);
        mem_free(&a->threads[i].space);
    }
    for (int i = 0; i < a->slot_count; i++)
        free_image(a, &a->slots[i]);
    if (a->changed_made) pthread_cond_destroy(&a->changed);
    if (a->lock_made) pthread_mutex_destroy(&a->lock);
    mem_free(&a->slots);
    mem_free(&a->queue);
    mem_free(&a->spare);
    mem_free(&a->expected);
    mem_free(ahead);
}

/* Takes the next images of one stack from the queue. Called with the lock. */
static int take_run(struct ahead *a, int run[RUN]) {
    int count = 0;
    while (count < RUN && a->queue_count > 0) {
        struct slot *slot = &a->slots[a->queue[a->queue_first]];
        if (count > 0 && slot->stack != a->slots[run[0]].stack) break;
        slot->state = SLOT_READING;
        run[count++] = a->queue[a->queue_first];
        a->queue_first = (a->queue_first + 1) % a->slot_count;
        a->queue_count--;
    }
    return count;
}

/* Reads an image, and makes of it what is kept. Errors are the owner's to find when it reads the image itself. */
static bool read_slot(struct reading_thread *t, struct slot *s) {
    const size_t image = regrid_before_scratch(s->box);
    float *to = s->image;
    s->outcome = (struct ahead_made){0};
    if (s->made) {
        if (mem_renew(image + s->scratch, sizeof *to, "a particle", &t->space, &t->room, NULL) != STATUS_OK)
            return false;
        to = t->space;
    }
    if (stack_reader_image(t->reader, s->stack, s->box, s->slice, to, NULL) != STATUS_OK) return false;
    if (s->made) t->ahead->owner.make(t->ahead->owner.context, to, to + image, s->measure, s->image, &s->outcome);
    return true;
}

/* Runs on a worker's thread until the queue is empty. */
static enum status read_queue(void *context, struct err *err) {
    (void)err;
    struct reading_thread *t = context;
    struct ahead *a = t->ahead;
    int run[RUN], count;
    pthread_mutex_lock(&a->lock);
    while ((count = take_run(a, run)) > 0)
        for (int i = 0; i < count; i++) {
            struct slot *s = &a->slots[run[i]];
            pthread_mutex_unlock(&a->lock);
            bool read = read_slot(t, s);
            pthread_mutex_lock(&a->lock);
            s->state = s->state == SLOT_ABANDONED || !read ? SLOT_FAILED : SLOT_READY;
            t->reads = stack_reader_reads(t->reader);
            if (a->awaited == run[i]) pthread_cond_signal(&a->changed);
        }
    t->runs = false;
    pthread_mutex_unlock(&a->lock);
    stack_reader_close(t->reader); /* another file may take the stack's place before the next call */
    return STATUS_OK;
}

/* Wakes threads that rest, if there is work. */
static void wake(struct ahead *a) {
    bool needed[THREADS_MOST];
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->thread_count; i++) {
        needed[i] = a->queue_count > i * RUN && !a->threads[i].runs;
        if (needed[i]) a->threads[i].runs = true;
    }
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->thread_count; i++)
        if (needed[i]) worker_start(a->threads[i].worker, read_queue, &a->threads[i]);
}

/* Makes the slots, as many as images of this size fit. */
static enum status make_slots(struct ahead *a, size_t image_bytes, struct err *err) {
    size_t fit = a->bytes / image_bytes, n = fit < SLOTS_MOST ? fit : SLOTS_MOST;
    if (a->expected == NULL) TRY(mem_new(AHEAD_MOST, sizeof *a->expected, "particle images", &a->expected, err));
    if (a->slots != NULL || n == 0) return STATUS_OK;
    if (a->queue == NULL) TRY(mem_new(SLOTS_MOST, sizeof *a->queue, "particle images", &a->queue, err));
    if (a->spare == NULL) TRY(mem_new(SLOTS_MOST, sizeof *a->spare, "particle images", &a->spare, err));
    TRY(mem_new(n, sizeof *a->slots, "particle images", &a->slots, err));
    a->slot_count = (int)n;
    for (int i = 0; i < a->slot_count; i++)
        a->spare[a->spare_count++] = a->slot_count - 1 - i;
    return STATUS_OK;
}

/* Gives a slot back that no thread reads. */
static void free_slot(struct ahead *a, int slot) {
    *look(a, a->slots[slot].particle).slot = 0;
    a->slots[slot].state = SLOT_FREE;
    a->spare[a->spare_count++] = slot;
}

/* Makes room for an image in a spare slot, of that which other spare slots hold if need be. false: the limit, or memory,
 * does not allow it. */
static bool fit(struct ahead *a, struct slot *slot, const struct ahead_image *image) {
    const size_t floats = image_floats(image), bytes = floats * sizeof *slot->image;
    if (floats <= slot->floats && image->pool == slot->pool) return true;
    free_image(a, slot);
    for (int i = 0; i < a->spare_count && a->used + bytes > a->bytes; i++)
        free_image(a, &a->slots[a->spare[i]]);
    if (a->used + bytes > a->bytes) return false;
    if (image->pool != NULL)
        slot->image = image_pool_take(image->pool);
    else
        (void)mem_new_unset(floats, sizeof *slot->image, "particle images", &slot->image, NULL);
    if (slot->image == NULL) return false;
    slot->pool = image->pool;
    slot->floats = floats;
    a->used += bytes;
    return true;
}

/* Queues the image in a spare slot, unless it is in memory or has a slot, or there will never be room for it. false: there
 * is no room now. */
static bool queue_image(struct ahead *a, size_t particle) {
    struct ahead_image image = look(a, particle);
    int slot = a->spare[a->spare_count - 1];
    struct slot *s = &a->slots[slot];
    if (image.in_memory || *image.slot != 0 || image_floats(&image) * sizeof *s->image > a->bytes) return true;
    if (!fit(a, s, &image)) return false;
    s->particle = particle;
    s->stack = image.stack;
    s->box = image.box;
    s->slice = image.slice;
    s->made = image.pool != NULL;
    s->scratch = image.scratch;
    s->measure = image.measure;
    *image.slot = slot + 1;
    a->spare_count--;
    pthread_mutex_lock(&a->lock);
    s->state = SLOT_QUEUED;
    a->queue[(a->queue_first + a->queue_count++) % a->slot_count] = slot;
    pthread_mutex_unlock(&a->lock);
    return true;
}

/* Queues images that are expected next, as slots and room allow. */
static void feed(struct ahead *a) {
    if (a->expected_next == a->expected_count) return;
    while (a->spare_count > 0 && a->expected_next < a->expected_count && queue_image(a, a->expected[a->expected_next]))
        a->expected_next++;
    wake(a);
}

/* Goes on behind an image that had no room until its turn came: the owner reads it. */
static void pass_over(struct ahead *a, size_t particle) {
    if (a->expected_next < a->expected_count && a->expected[a->expected_next] == particle) a->expected_next++;
    feed(a);
}

/* Takes back what is queued. Abandons what is read, or being read, but not among the next images. */
static void drop_unexpected(struct ahead *a) {
    size_t soon = (size_t)a->slot_count < a->expected_count ? (size_t)a->slot_count : a->expected_count;
    for (size_t i = 0; i < soon; i++) { /* marks what stays: no slot has a negative number */
        int *slot = look(a, a->expected[i]).slot;
        if (*slot > 0) *slot = -*slot;
    }
    pthread_mutex_lock(&a->lock);
    a->queue_count = 0;
    for (int i = 0; i < a->slot_count; i++) {
        struct slot *s = &a->slots[i];
        if (s->state == SLOT_FREE) continue;
        bool stays = *look(a, s->particle).slot < 0;
        if (s->state == SLOT_QUEUED || s->state == SLOT_FAILED || (s->state == SLOT_READY && !stays))
            free_slot(a, i);
        else
            *look(a, s->particle).slot = i + 1;
        if (s->state == SLOT_READING && !stays) s->state = SLOT_ABANDONED;
        if (s->state == SLOT_ABANDONED && stays) s->state = SLOT_READING;
    }
    pthread_mutex_unlock(&a->lock);
}

static void release_taken(struct ahead *a) {
    if (a->taken < 0) return;
    pthread_mutex_lock(&a->lock);
    free_slot(a, a->taken);
    pthread_mutex_unlock(&a->lock);
    a->taken = -1;
}

static void add_expected(struct ahead *a, const size_t *which, size_t count) {
    size_t room = AHEAD_MOST - a->expected_count, n = count < room ? count : room;
    if (n > 0) memcpy(a->expected + a->expected_count, which, n * sizeof *which);
    a->expected_count += n;
}

void ahead_expect(struct ahead *a, const size_t *which, size_t count, const size_t *next, size_t next_count) {
    const size_t *any = count > 0 ? which : next;
    if (count + next_count == 0) return;
    const struct ahead_image image = look(a, *any);
    if (make_slots(a, image_floats(&image) * sizeof(float), NULL) != STATUS_OK || a->slots == NULL) return;
    release_taken(a);
    a->expected_count = a->expected_next = 0;
    add_expected(a, which, count);
    add_expected(a, next, next_count);
    drop_unexpected(a);
    feed(a);
}

/* Waits until a slot is read, or cannot be. Returns whether it is read. */
static bool wait_for(struct ahead *a, int slot) {
    const struct slot *s = &a->slots[slot];
    pthread_mutex_lock(&a->lock);
    a->awaited = slot;
    while (s->state != SLOT_READY && s->state != SLOT_FAILED)
        pthread_cond_wait(&a->changed, &a->lock);
    a->awaited = -1;
    const bool read = s->state == SLOT_READY;
    pthread_mutex_unlock(&a->lock);
    return read;
}

const float *ahead_take(struct ahead *a, size_t particle, struct ahead_made *ret_made) {
    *ret_made = (struct ahead_made){0};
    release_taken(a);
    int slot = *look(a, particle).slot - 1;
    if (slot < 0) {
        pass_over(a, particle);
        return NULL;
    }
    const bool read = wait_for(a, slot);
    a->taken = slot;
    if (read) *ret_made = a->slots[slot].outcome;
    if (!read) release_taken(a);
    feed(a);
    return read ? a->slots[slot].image : NULL;
}

float *ahead_hand_over(struct ahead *a) {
    struct slot *s = &a->slots[a->taken];
    float *image = s->image;
    a->used -= s->floats * sizeof *image;
    s->image = NULL;
    s->floats = 0;
    s->pool = NULL;
    return image;
}

void ahead_forget(struct ahead *a) {
    release_taken(a);
    a->expected_count = a->expected_next = 0;
    pthread_mutex_lock(&a->lock);
    a->queue_count = 0;
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->thread_count; i++)
        (void)worker_wait(a->threads[i].worker, NULL); /* its jobs do not fail */
    for (int i = 0; i < a->slot_count; i++)
        if (a->slots[i].state != SLOT_FREE) free_slot(a, i);
}

struct stack_reads ahead_reads(struct ahead *a) {
    struct stack_reads sum = {0};
    pthread_mutex_lock(&a->lock);
    for (int i = 0; i < a->thread_count; i++) {
        sum.opened += a->threads[i].reads.opened;
        sum.images += a->threads[i].reads.images;
        sum.cached += a->threads[i].reads.cached;
    }
    pthread_mutex_unlock(&a->lock);
    return sum;
}
