#include "stages/refiner/stack_headers.h"

#include <limits.h>
#include <pthread.h>
#include <stdlib.h>

#include "common/digest.h"
#include "common/memory.h"
#include "common/names.h"

/* Times of files go in steps of up to 2 s, and seconds of clocks are cut off. */
enum { SETTLED_SECONDS = 3 };

/* Identifies the content of a file. */
struct identity {
    uint64_t device, inode;
    int64_t size;
    struct timespec written, changed;
};

struct known {
    struct identity identity;
    struct particle_stack_header header;
};

struct stack_headers {
    pthread_mutex_t lock; /* guards all members */
    struct known *list;
    size_t count, capacity;
    struct names numbers; /* finds files by device and inode */
};

enum status stack_headers_create(struct stack_headers **ret_headers, struct err *err) {
    struct stack_headers *h = NULL;
    TRY(mem_new(1, sizeof *h, "the headers of stacks", &h, err));
    if (pthread_mutex_init(&h->lock, NULL) != 0) {
        mem_free(&h);
        FAIL(err, STATUS_NO_MEMORY, "no lock could be made");
    }
    *ret_headers = h;
    return STATUS_OK;
}

void stack_headers_destroy(struct stack_headers **headers) {
    struct stack_headers *h = *headers;
    if (h == NULL) return;
    pthread_mutex_destroy(&h->lock);
    free(h->list);
    names_destroy(&h->numbers);
    mem_free(headers);
}

static struct identity identity_of(const struct stat *file) {
    return (struct identity){.device = (uint64_t)file->st_dev,
                             .inode = (uint64_t)file->st_ino,
                             .size = file->st_size,
                             .written = file->st_mtim,
                             .changed = file->st_ctim};
}

static uint32_t hash_of(const struct identity *identity) {
    const uint64_t number[2] = {identity->device, identity->inode};
    return (uint32_t)digest_memory(number, sizeof number).low;
}

static bool same_time(struct timespec a, struct timespec b) {
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

static bool same(const struct identity *a, const struct identity *b) {
    return a->size == b->size && same_time(a->written, b->written) && same_time(a->changed, b->changed);
}

/* Returns what was kept of a file of this device and number, which may have been another; NULL: nothing. */
static struct known *find_number(const struct stack_headers *h, const struct identity *identity) {
    const uint32_t hash = hash_of(identity);
    size_t step = 0;
    int index;
    while ((index = names_next(&h->numbers, hash, &step)) >= 0) {
        struct known *known = &h->list[index];
        if (known->identity.device == identity->device && known->identity.inode == identity->inode) return known;
    }
    return NULL;
}

bool stack_headers_find(struct stack_headers *h, const struct stat *file, struct particle_stack_header *ret_header) {
    const struct identity identity = identity_of(file);
    if (h == NULL) return false;
    pthread_mutex_lock(&h->lock);
    const struct known *known = find_number(h, &identity);
    const bool found = known != NULL && same(&known->identity, &identity);
    if (found) *ret_header = known->header;
    pthread_mutex_unlock(&h->lock);
    return found;
}

static struct known *add(struct stack_headers *h, const struct identity *identity) {
    if (h->count == INT_MAX ||
        mem_more(h->count, sizeof *h->list, "the headers of stacks", &h->list, &h->capacity, NULL) != STATUS_OK)
        return NULL;
    if (names_put(&h->numbers, hash_of(identity), (int)h->count, NULL) != STATUS_OK) return NULL;
    return &h->list[h->count++];
}

void stack_headers_keep(struct stack_headers *h, const struct stat *file, time_t now,
                        const struct particle_stack_header *header) {
    const struct identity identity = identity_of(file);
    if (h == NULL || now - file->st_ctim.tv_sec < SETTLED_SECONDS) return;
    pthread_mutex_lock(&h->lock);
    struct known *known = find_number(h, &identity);
    if (known == NULL) known = add(h, &identity);
    if (known != NULL) *known = (struct known){identity, *header};
    pthread_mutex_unlock(&h->lock);
}
