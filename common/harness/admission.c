/* Lets items take memory: a stage's lanes and replicas together stay below its limit, and leave the machine some. What
 * does not fit waits for the items before it; what never can fails. Items are admitted in the order of arrival, for in
 * this order they are processed: one that overtook another would hold memory that the other waits for. */
#include <malloc.h>
#include <math.h>
#include <stdint.h>
#include <sys/resource.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"
#include "common/machine_memory.h"
#include "common/memory.h"

static const double GIGABYTE = 1e9;
/* Seconds: how often to look at the machine, and how long an item that is alone waits for it. After that it goes ahead:
 * what holds the memory may itself wait for this item. */
static const double look_pause = 1, alone_patience = 60;
/* Seconds to wait for address space: only this process can make room there, and it gives back what it can at once. */
static const double address_patience = 1;

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

static size_t reserve_of(const struct stage *stage) {
    return (size_t)(stage->session.min_free_memory * GIGABYTE);
}

void admission_prepare(const struct stage *stage) {
    struct rlimit limit;
    if (stage->descriptor->need == NULL || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    /* Each thread would reserve 64 MiB of addresses for small allocations. The one heap grows in large steps and keeps
     * what it has, so that a stage in its stride needs no more. */
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, MEM_LARGE);
    mallopt(M_TRIM_THRESHOLD, 2 * MEM_HEADROOM);
    mallopt(M_TOP_PAD, MEM_HEADROOM / 2);
}

void admission_begin(struct stage *stage) {
    struct machine_memory m = machine_memory_read("");
    stage->admission.base = m.resident;
    stage->admission.base_address = mem_sum(m.address_used, MEM_HEADROOM);
}

/* Looks at the limits again, which may change while the stage runs. A lowered limit of the address space fails no item,
 * since the item could go on when the limit is lifted: it waits a little, and then tries. */
static void look(struct stage *stage, const struct machine_memory *m) {
    struct admission *a = &stage->admission;
    double limit = stage->common.memory_limit;
    size_t wanted = isnan(limit) ? 0 : (size_t)(limit * GIGABYTE), address = SIZE_MAX;
    a->address_most = larger(a->address_most, m->address_limit);
    if (a->address_most != SIZE_MAX)
        address = a->address_most > a->base_address ? a->address_most - a->base_address : 0;
    a->budget = budget_divide(wanted, m->total, reserve_of(stage), address, stage->replicas);
    a->limited_by = a->budget.limit == address ? "ulimit -v"
                    : wanted > 0               ? "memory_limit"
                                               : "the machine's memory, less min_free_memory";
}

/* Returns what all lanes hold, and what the plans of admitted items take, as if `slot` (may be NULL) were admitted. */
static size_t all_held(const struct stage *stage, const struct slot *slot) {
    const struct admission *a = &stage->admission;
    size_t lanes = 0, shared = larger(a->kept_shared, slot != NULL ? slot->need.shared : 0);
    for (int i = 0; i < stage->lane_count; i++) {
        bool own = slot != NULL && slot->lane->index == i;
        lanes = mem_sum(lanes, own ? larger(a->kept[i], slot->need.lane) : a->kept[i]);
    }
    return mem_sum(lanes, shared);
}

static enum budget_verdict judge(struct stage *stage, const struct slot *slot) {
    const struct admission *a = &stage->admission;
    struct machine_memory m = machine_memory_read("");
    look(stage, &m);
    return budget_judge(&a->budget, &(struct budget_item){
                                        .need = mem_sum(slot->need.lane, slot->need.shared),
                                        .held = all_held(stage, NULL),
                                        .after = all_held(stage, slot),
                                        .touched = m.resident > a->base ? m.resident - a->base : 0,
                                        .room = machine_memory_room(&m, reserve_of(stage)),
                                        .alone = a->admitted == 0,
                                    });
}

/* Gives back the buffers of the lanes without an item, except for those that the item can use. Returns whether there
 * were any. */
static bool release_lanes(struct stage *stage, struct slot *slot) {
    struct admission *a = &stage->admission;
    bool any = false;
    if (stage->descriptor->release == NULL) return false;
    for (int i = 0; i <= stage->free_lane_count; i++) {
        struct stage_lane *lane = i < stage->free_lane_count ? stage->free_lanes[i] : slot->lane;
        size_t kept = a->kept[lane->index];
        if (kept == 0 || (lane == slot->lane && kept <= slot->need.lane)) continue;
        stage->descriptor->release(stage, stage->state, lane);
        a->kept[lane->index] = 0;
        any = true;
    }
    return any;
}

/* Gives the item the lane with the largest buffers among those without an item, so that these need not be made anew. */
static void take_fullest_lane(struct stage *stage, struct slot *slot) {
    const size_t *kept = stage->admission.kept;
    struct stage_lane **fullest = &slot->lane;
    for (int i = 0; i < stage->free_lane_count; i++)
        if (kept[stage->free_lanes[i]->index] > kept[(*fullest)->index]) fullest = &stage->free_lanes[i];
    struct stage_lane *before = slot->lane;
    slot->lane = *fullest;
    *fullest = before;
    before->item = NULL;
    slot->lane->item = slot->item;
}

/* Returns what the plans of admitted items take. */
static size_t shared_in_use(const struct stage *stage) {
    size_t shared = 0;
    for (int i = 0; i < stage->slot_count; i++)
        if (stage->slots[i].admitted) shared = larger(shared, stage->slots[i].need.shared);
    return shared;
}

/* Asks the compute thread to give back what is kept for later items. */
static void want_release(struct stage *stage) {
    if (stage->descriptor->release == NULL) return;
    stage->admission.release_wanted = true;
    stage_wake(stage, PART_PROCESS);
}

/* Judges the item, and once more after memory that nobody needs now has been given back, if that is missing. */
static enum budget_verdict judge_with_release(struct stage *stage, struct slot *slot) {
    take_fullest_lane(stage, slot);
    enum budget_verdict verdict = judge(stage, slot);
    bool crowded = verdict != BUDGET_NEVER && all_held(stage, slot) > stage->admission.budget.share;
    if (!crowded && verdict != BUDGET_SHORT) return verdict;
    if (crowded && stage->admission.kept_shared > larger(shared_in_use(stage), slot->need.shared)) want_release(stage);
    return release_lanes(stage, slot) ? judge(stage, slot) : verdict;
}

static void tell(struct stage *stage, const struct slot *slot, enum budget_verdict verdict) {
    struct admission *a = &stage->admission;
    char text[400];
    double need = (double)slot->need.lane + (double)slot->need.shared;
    const char *why = verdict == BUDGET_FULL ? "items before it hold the memory of the stage"
                                             : "the machine has less than that beside min_free_memory";
    snprintf(text, sizeof text, "%.160s needs %.3g GB of memory, and %s", slot->id, need / GIGABYTE, why);
    char note[sizeof text + 16];
    snprintf(note, sizeof note, "waits: %s", text);
    metrics_trouble(&stage->metrics, note);
    bool *told = verdict == BUDGET_FULL ? &a->full_told : &a->short_told;
    if (*told) return;
    *told = true;
    static const char rest[] = "it waits (items that wait later say so in the note of the heartbeat only)";
    if (verdict == BUDGET_FULL)
        log_write(stage->log, LOG_INFO, "memory", "%s: %s", text, rest);
    else
        stage_log(stage, LOG_WARN, "memory", "%s: %s", text, rest);
}

static enum status refuse(struct stage *stage, struct slot *slot) {
    const struct admission *a = &stage->admission;
    double need = (double)slot->need.lane + (double)slot->need.shared;
    FAIL(&slot->err, STATUS_UNSUPPORTED,
         "it needs %.3g GB of memory, and %s may use %.3g GB (%s): look at the item's files; if they are right, give "
         "the stage more",
         need / GIGABYTE, stage->name, (double)a->budget.limit / GIGABYTE, a->limited_by);
}

/* Returns whether less address space is left than memory of the machine. */
static bool address_is_short(void) {
    struct machine_memory m = machine_memory_read("");
    return machine_memory_room(&m, 0) < m.available;
}

static void wait_for_room(struct stage *stage, struct slot *slot, enum budget_verdict *verdict) {
    struct admission *a = &stage->admission;
    double alone_since = INFINITY;
    while (!stage_ending(stage) && (*verdict == BUDGET_FULL || *verdict == BUDGET_SHORT)) {
        if (a->admitted > 0) alone_since = INFINITY;
        if (a->admitted == 0 && isinf(alone_since)) {
            alone_since = clock_monotonic();
            /* Nobody computes: what is kept for later items is in the way. */
            want_release(stage);
        }
        double patience = address_is_short() ? address_patience : alone_patience;
        if (clock_monotonic() - alone_since > patience) {
            *verdict = BUDGET_FITS;
            break;
        }
        tell(stage, slot, *verdict);
        stage_wait_on(stage, &a->changed, clock_monotonic() + look_pause);
        *verdict = judge_with_release(stage, slot);
    }
    metrics_trouble(&stage->metrics, "");
}

/* Decides about an item whose turn it is, and waits for its memory. Needs the lock. */
static enum status admit(struct stage *stage, struct slot *slot) {
    struct admission *a = &stage->admission;
    enum budget_verdict verdict = judge_with_release(stage, slot);
    if (verdict == BUDGET_FULL || verdict == BUDGET_SHORT) wait_for_room(stage, slot, &verdict);
    if (verdict == BUDGET_NEVER) return refuse(stage, slot);
    FAIL_IF(verdict != BUDGET_FITS, &slot->err, STATUS_CANCELLED, "the stage was asked to stop");
    a->kept[slot->lane->index] = larger(a->kept[slot->lane->index], slot->need.lane);
    a->kept_shared = larger(a->kept_shared, slot->need.shared);
    slot->admitted = true;
    a->admitted++;
    return STATUS_OK;
}

enum status admission_wait(struct stage *stage, struct slot *slot, enum status status) {
    struct admission *a = &stage->admission;
    if (stage->descriptor->need == NULL) return status;
    stage_lock(stage);
    while (!stage_ending(stage) && a->turn != slot->ticket)
        stage_wait_on(stage, &a->changed, INFINITY);
    if (status == STATUS_OK) status = admit(stage, slot);
    a->turn = slot->ticket + 1;
    pthread_cond_broadcast(&a->changed);
    stage_unlock(stage);
    return status;
}

void admission_leave(struct stage *stage, struct slot *slot) {
    struct admission *a = &stage->admission;
    if (!slot->admitted) return;
    slot->admitted = false;
    a->admitted--;
    if (stage->descriptor->release == NULL) a->kept[slot->lane->index] = 0;
    pthread_cond_broadcast(&a->changed);
}

bool admission_release(struct stage *stage) {
    struct admission *a = &stage->admission;
    if (!a->release_wanted) return false;
    a->release_wanted = false;
    a->kept_shared = shared_in_use(stage);
    stage_unlock(stage);
    stage->descriptor->release(stage, stage->state, NULL);
    stage_lock(stage);
    pthread_cond_broadcast(&a->changed);
    return true;
}
