#include "pipelines/launcher/run/deaths.h"

#include <limits.h>
#include <string.h>

#include "common/text.h"

/* Forgets the suspects once the stage goes on. */
static void note_progress(struct deaths *deaths, const struct death *death) {
    int64_t finished = death->finished - deaths->finished;
    deaths->finished = death->finished;
    if (finished <= 0) return;
    if (finished >= deaths->one_by_one) deaths->one_by_one = 0;
    if (death->memory) return;
    deaths->row = 0;
    deaths->idle = 0;
    memset(deaths->suspects, 0, sizeof deaths->suspects);
}

/* Returns the entry of an item, perhaps a new one; when all are taken, the one with the fewest deaths gives way. */
static struct deaths_suspect *suspect(struct deaths *deaths, const char *name) {
    uint64_t item = text_hash(name);
    struct deaths_suspect *least = &deaths->suspects[0];
    for (int i = 0; i < DEATHS_SUSPECTS; i++) {
        struct deaths_suspect *one = &deaths->suspects[i];
        if (one->count > 0 && one->item == item) return one;
        if (one->count < least->count) least = one;
    }
    *least = (struct deaths_suspect){.item = item};
    return least;
}

enum deaths_verdict deaths_count(struct deaths *deaths, const struct death *death) {
    note_progress(deaths, death);
    if (death->begun == 0 || (death->own_work && deaths->idle < DEATHS_IDLE)) {
        deaths->idle++;
        return DEATHS_NONE;
    }
    deaths->row++;
    /* The cause is among the items that were together when the stage died. */
    int together = death->begun < INT_MAX ? (int)death->begun : INT_MAX;
    bool begins = deaths->one_by_one == 0 && deaths->row >= DEATHS_IN_A_ROW;
    if (deaths->row >= DEATHS_IN_A_ROW && deaths->one_by_one < together) deaths->one_by_one = together;
    deaths->steps += begins || death->begun == 1;
    if (death->begun > 1) return begins ? DEATHS_ONE_BY_ONE : DEATHS_NONE;
    struct deaths_suspect *alone = suspect(deaths, death->alone);
    if (++alone->count < DEATHS_ALONE) return DEATHS_SUSPECT;
    alone->count = 0;
    /* The item counts as finished from now on, which clears no other suspect. */
    deaths->finished += DEATHS_ASIDE;
    return DEATHS_SET_ASIDE;
}
