/* Lanes hold items on their way through load, process and store. Slots hold them on until the ledger has their
 * outcome. */
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"

enum { DEFAULT_LANES = 3, DEFAULT_LOAD_THREADS = 2, DEVICE_LOAD_THREADS = 3, DEVICE_SLACK = 3 };

static int bounded(int value, int most) {
    return value > most ? most : value;
}

struct lane_plan lanes_plan(const struct stage_descriptor *descriptor, const struct device *device, int lanes) {
    bool on_device = device->kind == DEVICE_CUDA && descriptor->cuda;
    int load = descriptor->load_threads > 0 ? descriptor->load_threads
               : on_device                  ? DEVICE_LOAD_THREADS
                                            : DEFAULT_LOAD_THREADS;
    int store = descriptor->store_threads > 0 ? descriptor->store_threads : 1;
    int wanted = descriptor->lanes > 0 ? descriptor->lanes : DEFAULT_LANES;
    struct lane_plan plan = {.load_threads = bounded(load, IO_THREADS_MAX),
                             .store_threads = bounded(store, IO_THREADS_MAX)};
    /* One lane for each thread and a few that wait between them, so that the slowest part always finds its next
     * item. */
    int working = plan.load_threads + 1 + plan.store_threads + DEVICE_SLACK;
    if (on_device && wanted < working) wanted = working;
    plan.lanes = bounded(lanes > 0 ? lanes : wanted, LANES_MAX);
    return plan;
}

struct slot *lanes_at(struct stage *stage, uint64_t ticket, enum slot_phase phase) {
    struct slot *slot = &stage->slots[ticket % (uint64_t)stage->slot_count];
    return ticket < stage->next_ticket && slot->phase == phase ? slot : NULL;
}

struct slot *lanes_to_store(struct stage *stage) {
    struct slot *slot = NULL;
    for (uint64_t ticket = stage->settle_ticket; slot == NULL && ticket < stage->load_ticket; ticket++)
        slot = lanes_at(stage, ticket, SLOT_STORE);
    return slot;
}

int lanes_in_hand(const struct stage *stage) {
    return (int)(stage->next_ticket - stage->done_ticket);
}

bool lanes_empty(const struct stage *stage) {
    return lanes_in_hand(stage) == 0;
}

int lanes_room(const struct stage *stage) {
    if (stage->changing) return 0;
    int in_hand = lanes_in_hand(stage), waiting = (int)(stage->next_ticket - stage->load_ticket);
    if (stage->flush_wanted || (stage->one_by_one > 0 && in_hand > 0)) return 0;
    int room = stage->free_lane_count + stage->ahead - waiting;
    if (room > stage->slot_count - in_hand) room = stage->slot_count - in_hand;
    /* A cumulative stage may always send: no item of its input waits for the output. */
    for (int i = 0; i < stage->output_count && !stage->descriptor->cumulative; i++) {
        int64_t left = stage->outputs[i].window - stage->outputs[i].unacknowledged - in_hand;
        if (room > left) room = (int)left;
    }
    if (stage->one_by_one > 0 && room > 1) return 1;
    return room > 0 ? room : 0;
}

struct ledger_key slot_key(const struct slot *slot) {
    return (struct ledger_key){slot->source, slot->id};
}

/* Fills the next slot with an item, and consumes it. Needs the lock, and a free slot. */
static struct slot *fill_slot(struct stage *stage, struct item **item, bool replaces) {
    struct slot *slot = &stage->slots[stage->next_ticket % (uint64_t)stage->slot_count];
    slot->ticket = stage->next_ticket++;
    slot->item = *item;
    *item = NULL;
    snprintf(slot->source, sizeof slot->source, "%s", item_source(slot->item));
    snprintf(slot->id, sizeof slot->id, "%s", item_id(slot->item));
    item_mark(item_key(slot->item), slot->mark);
    slot->judged = 0;
    file_notes_empty(&slot->files.notes);
    slot->taken = clock_monotonic();
    slot->status = STATUS_OK;
    slot->err.message[0] = '\0';
    slot->settled = slot->set_aside = false;
    slot->absence = (struct absence){0};
    slot->replaces = replaces;
    slot->admitted = false;
    slot->need = (struct stage_need){0};
    slot->phase = SLOT_LOAD;
    atomic_store(&stage->metrics.queue, lanes_in_hand(stage));
    parts_begin(&stage->parts, slot->taken);
    stage_wake(stage, PART_LOAD);
    return slot;
}

void lanes_take(struct stage *stage, struct item **item, int edge, int64_t seq, bool replaces) {
    stage_lock(stage);
    if (lanes_in_hand(stage) == stage->slot_count) {
        /* The caller asked for room before. Without room the item is dropped here, and its sender sends it again. */
        stage_unlock(stage);
        item_destroy(item);
        return;
    }
    struct slot *slot = fill_slot(stage, item, replaces);
    slot->arrivals[0] = (struct arrival){edge, seq};
    slot->arrival_count = 1;
    atomic_fetch_add(&stage->metrics.in, 1);
    /* The work of idle may depend on new items. */
    stage->events++;
    if (stage->descriptor->idle != NULL) stage_wake(stage, PART_PROCESS);
    stage_unlock(stage);
}

void lanes_take_again(struct stage *stage, struct absent_item *before) {
    stage_lock(stage);
    /* Only the main thread takes items in, and it has asked for room: there is a slot. */
    struct slot *slot = fill_slot(stage, &before->item, before->replaces);
    memcpy(slot->arrivals, before->arrivals, sizeof slot->arrivals);
    slot->arrival_count = before->arrival_count;
    slot->taken = before->taken;
    slot->absence = before->absence;
    stage_unlock(stage);
}

struct slot *lanes_to_load(struct stage *stage) {
    struct slot *slot = lanes_at(stage, stage->load_ticket, SLOT_LOAD);
    if (slot == NULL || stage->free_lane_count == 0) return NULL;
    stage->load_ticket++;
    slot->lane = stage->free_lanes[--stage->free_lane_count];
    slot->lane->item = slot->item;
    return slot;
}

void lanes_let_go(struct stage *stage, struct slot *slot) {
    admission_leave(stage, slot);
    slot->lane->item = NULL;
    stage->free_lanes[stage->free_lane_count++] = slot->lane;
    slot->lane = NULL;
    /* Items may wait for this lane; or so few wait that the main thread may receive more. */
    int waiting = (int)(stage->next_ticket - stage->load_ticket);
    if (waiting > 0) stage_wake(stage, PART_LOAD);
    if (waiting <= stage->ahead / 2 && !stage->room_told) {
        stage->room_told = true;
        stage_changed(stage);
    }
}

struct slot *lanes_done(struct stage *stage) {
    return lanes_at(stage, stage->done_ticket, SLOT_DONE);
}

void lanes_free(struct stage *stage, struct slot *slot) {
    item_destroy(&slot->item);
    slot->phase = SLOT_FREE;
    stage->done_ticket++;
    if (stage->one_by_one > 0 && !slot->set_aside) stage->one_by_one--;
    atomic_store(&stage->metrics.queue, lanes_in_hand(stage));
}

static enum status start_threads(struct stage *stage, int count, void *(*run)(void *), struct err *err) {
    for (int i = 0; i < count; i++) {
        int failed = pthread_create(&stage->threads_of[stage->threads_started], NULL, run, stage);
        FAIL_IF(failed != 0, err, failed == EAGAIN ? STATUS_UNAVAILABLE : STATUS_NO_MEMORY,
                "a thread cannot be started: %s (too little memory, or too many processes?)", strerror(failed));
        stage->threads_started++;
    }
    return STATUS_OK;
}

enum status lanes_start(struct stage *stage, struct err *err) {
    int wanted = stage->common.lanes != INT_MIN ? stage->common.lanes : 0;
    struct lane_plan plan = lanes_plan(stage->descriptor, &stage->device, wanted);
    stage->lane_count = plan.lanes;
    stage->slot_count = plan.lanes + SETTLING_MAX;
    admission_prepare(stage);
    TRY(settling_create(stage->output_count, &stage->settling, err));
    for (int i = 0; i < stage->lane_count; i++) {
        struct stage_lane *lane = &stage->lanes[i];
        lane->index = i;
        if (stage->descriptor->lane_size > 0)
            TRY(mem_new(1, stage->descriptor->lane_size, "a lane", &lane->state, err));
    }
    while (stage->free_lane_count < stage->lane_count) {
        stage->free_lanes[stage->free_lane_count] = &stage->lanes[stage->lane_count - 1 - stage->free_lane_count];
        stage->free_lane_count++;
    }
    stage->parts.part[PART_LOAD].threads = plan.load_threads;
    stage->parts.part[PART_PROCESS].threads = 1;
    stage->parts.part[PART_STORE].threads = plan.store_threads;
    stage->parts.part[PART_LEDGER].threads = 1;
    TRY(start_threads(stage, 1, thread_compute, err));
    TRY(start_threads(stage, 1, thread_ledger, err));
    TRY(start_threads(stage, plan.store_threads, thread_store, err));
    TRY(start_threads(stage, plan.load_threads, thread_load, err));
    admission_begin(stage);
    return STATUS_OK;
}

void lanes_stop(struct stage *stage) {
    stage_lock(stage);
    stage->threads_end = true;
    stage_wake_all(stage);
    stage_unlock(stage);
    for (int i = 0; i < stage->threads_started; i++)
        pthread_join(stage->threads_of[i], NULL);
    stage->threads_started = 0;
}
