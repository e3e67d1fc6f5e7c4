/* Decides whether an item may take memory: the arithmetic alone, without looking at the machine. All in bytes;
 * SIZE_MAX: no limit. */
#ifndef ICESTREAM_COMMON_BUDGET_H
#define ICESTREAM_COMMON_BUDGET_H

#include <stdbool.h>
#include <stddef.h>

struct budget {
    size_t limit; /* of the whole stage: more than this can never be had */
    size_t share; /* of this instance, at most limit */
};

/* Divides memory. wanted: the limit that a user has set; 0: none. total: what the machine has; reserve: what is to stay
 * free of it. address: what is left of the process's address space. replicas: how many instances share the limit, >= 1.
 * The reserve takes at most half of the machine, so that a small machine can work at all. */
struct budget budget_divide(size_t wanted, size_t total, size_t reserve, size_t address, int replicas);

struct budget_item {
    size_t need;    /* of the item by itself */
    size_t held;    /* by the items that were admitted and are not done */
    size_t after;   /* what all of them would hold together with it: not always the sum, since plans are shared */
    size_t touched; /* memory of `held` that is in use already, so that the machine no longer counts it as free */
    size_t room;    /* what the machine can still give */
    bool alone;     /* no other item holds memory */
};

enum budget_verdict {
    BUDGET_FITS,
    BUDGET_FULL,  /* items before it hold the instance's share: wait for them */
    BUDGET_SHORT, /* the machine has no room now */
    BUDGET_NEVER, /* it needs more than the limit */
};

/* Judges an item. One that is alone may use more than the share, up to the limit. One that only uses the buffers of an
 * item before it, which are held already, needs no room of the machine. */
enum budget_verdict budget_judge(const struct budget *budget, const struct budget_item *item);

#endif
