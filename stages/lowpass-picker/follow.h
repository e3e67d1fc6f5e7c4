/* Follows the templates that other stages of the session make (`templates_from`): looks for new ones between two items,
 * tries them on micrographs that are done, and adopts those that find more. The history (template_history.h) makes a
 * restart go on with what was adopted, and a replay (`templates_history`) adopt the same at the same items. All
 * functions belong to the compute thread; create and destroy to the main thread. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_FOLLOW_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_FOLLOW_H

#include "common/harness/stage.h"
#include "stages/lowpass-picker/picker_set.h"

/* One micrograph in FOLLOW_KEPT, by its id, is always picked as at the beginning, so that particles which templates
 * miss can still show as a class of their own. */
enum { FOLLOW_STAGES_MOST = 4, FOLLOW_KEPT = 20 };

struct follow;

/* Checks the text of `templates_from`. STATUS_BAD_ARGUMENT: no names of stages, or too many. */
enum status follow_check(const char *names, struct err *err);

/* Creates a follower, and puts the templates that an earlier run adopted last into the set. */
enum status follow_create(const struct stage *stage, struct picker_set *set, struct follow **ret_follow,
                          struct err *err);
void follow_destroy(struct follow **follow);
/* Call before an item is searched: puts other templates into the set if they are to be used from this item on, because
 * another instance has adopted them, or a recorded session had. */
enum status follow_before(struct follow *follow, struct stage *stage, struct picker_set *set, const struct item *item,
                          struct err *err);
/* Returns the searches of an item: those of the set, or those of the beginning. The follower or the caller owns
 * them. */
struct picker_set *follow_choose(struct follow *follow, struct picker_set *set, const struct item *item);
/* Call after an item was searched, before follow_step: an adoption is noted with the last item before it. */
void follow_after(struct follow *follow, const struct item *item);
/* Call after an item, and when idle: tries new templates on one micrograph, adopts them if they have won, and asks for
 * earlier items again (common/harness/again.h). Fails with STATUS_DEVICE only: other troubles must not cost an item
 * that is picked; they are logged, and the next call tries again. */
enum status follow_step(struct follow *follow, struct stage *stage, struct picker_set *set, enum stage_work *ret_work,
                        struct err *err);
/* Gives back the memory of searches that can be made anew. */
void follow_forget(struct follow *follow);

#endif
