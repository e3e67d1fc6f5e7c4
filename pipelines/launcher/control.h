/* POST /api/control: what the page may do. Each deed calls what a command of icestream calls, and stands in the one history
 * of the session (changes.h), with who asked for it. Bodies:
 *
 *   {"do": "retry", "stage": NAME, "items": [NAME or N, …]}   as `icestream retry`; both may be left out
 *   {"do": "redo", "stage": NAME, "items": [NAME or N, …]}    as `icestream redo`, for at most REDO_AT_ONCE items
 *   {"do": "drain"}  {"do": "stop"}                            SIGINT or SIGTERM to the launcher
 *   {"do": "silence", "alarm": NAME, "until": s, "subject": TEXT, "why": TEXT}
 *   {"do": "mark", "n": [N, …], "mark": "keep" | "reject" | null, "why": TEXT}                   as `icestream mark`
 *   {"do": "rules", "stage": NAME, "text": TEXT or [TEXT, …]}  as `icestream set` of reject_if; "" takes the rules back
 *   {"do": "set", "stage": NAME, "key": KEY, "value": TEXT or number or bool}                    as `icestream set`
 *   {"do": "set", "values": ["STAGE.KEY=VALUE", …]}
 *   {"do": "invert-hand", "stage": NAME}                       as `icestream invert-hand`; the stage may be left out
 *   {"do": "classes", "iteration": N, "keep": [K, …]}          members of these classes are kept, those of all others
 *                                                             rejected; with "reject": [K, …] only those named are bound;
 *                                                             "keep": null takes the choices of this snapshot back.
 *                                                             "stage" names one of several classifiers; "why" as above
 *
 * N is the number of an exposure (view_row.number), K that of a class, from 1. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_CONTROL_H
#define ICESTREAM_PIPELINES_LAUNCHER_CONTROL_H

#include "pipelines/launcher/serve/http.h"

struct serve;

/* Does what a body says. peer: who asks. The answer is {"v": 1, "ok": true, "changed": N, "message": TEXT, "change":
 * NUMBER or null}; changed counts exposures, items, classes or values. BAD_ARGUMENT, NOT_FOUND: the body asks for what is
 * not there; nothing has changed. BAD_STATE: not now, such as drain without a run. UNAVAILABLE: others held a ledger for
 * too long. */
enum status control_do(struct serve *serve, const char *peer, const json_t *body, json_t **ret_answer, struct err *err);

/* The row of routes.c. */
http_handler control_post;

#endif
