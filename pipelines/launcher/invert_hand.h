/* Gives the maps of a refiner the other hand: what `icestream invert-hand` and the page do. It is a change of the session, of
 * the parameter invert_hand, as `icestream set` makes it: a second one takes it back. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_INVERT_HAND_H
#define ICESTREAM_PIPELINES_LAUNCHER_INVERT_HAND_H

#include "pipelines/launcher/set.h"

/* stage: the refiner; NULL: the only one of the session. The other arguments are those of set_values. BAD_ARGUMENT: there is
 * no such refiner, or there are several. */
enum status invert_hand(const struct session *session, const char *stage_or_null, const char *peer, FILE *problems,
                        struct set_result *ret_result, struct err *err);

#endif
