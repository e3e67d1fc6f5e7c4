/* The JSON and picture endpoints of `icestream serve`. All that they know of a session comes through view.h, and from
 * files that its items name.
 *
 * JSON has "v": 1; unknown values are null. N in a path is a row's number (view.h). Lists of rows are columnar. Their
 * `reason` and `square` are indices into `reasons` and `squares` of the same answer; −1: none. `stage` is an index into
 * the stages of /api/session. Values of `columns` are as the items have them (Å); times `factor` they are in `unit`. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_API_API_H
#define ICESTREAM_PIPELINES_LAUNCHER_API_API_H

#include "pipelines/launcher/serve/http.h"

struct gpu;
struct serve;

/* The part of a server that keeps what answers need from one request to the next, and publishes events "rows",
 * "status" and "product" when the view has changed. */
enum status api_begin(struct serve *serve, struct err *err);
void api_tick(struct serve *serve);
void api_end(struct serve *serve);
/* Makes the next /api/status read anew what seldom changes: somebody has just changed it. */
void api_forget(struct serve *serve);
/* Returns how many GPUs this machine has, as read at most 2 s ago. *ret_list: theirs, borrowed until the next call. */
size_t api_gpus(struct serve *serve, const struct gpu **ret_list);
/* Returns the efficiency of the directions of a refiner's newest map (directions.h); NaN: not known. */
double api_efficiency(struct serve *serve, const char *stage);
/* Returns the largest beam tilt (mrad) of the optics of a refiner's newest map: rlnBeamTiltX and rlnBeamTiltY of its
 * table, as a refinement estimates them; NaN: the table has none. */
double api_beam_tilt(struct serve *serve, const char *stage);

http_handler api_session; /* /api/session */
http_handler api_status;  /* /api/status */
http_handler api_items;   /* /api/items, ?since=REV&epoch=EPOCH */
http_handler api_item;    /* /api/item/N */
http_handler api_picks;   /* /api/picks/N */
http_handler api_ctf;     /* /api/ctf/N */
http_handler api_motion;  /* /api/motion/N */
http_handler
    api_picture;       /* /pic/STAGE/N/FILE: thumb.jpg, micrograph.jpg, spectrum.png; any stage of the plan will do */
http_handler api_grid; /* /api/grid */
http_handler api_history;    /* /api/history/STAGE */
http_handler api_classes;    /* /api/classes, ?it=N&stage=NAME */
http_handler api_sprite;     /* /pic/classes/NNN.png, ?stage=NAME */
http_handler api_fsc;        /* /api/fsc, ?stage=NAME */
http_handler api_directions; /* /api/directions, ?stage=NAME */
http_handler api_map; /* /api/map/NAME, ?n=96&stage=NAME: latest, half1, half2, postprocess, mask, it012, class002 */
http_handler api_tomograms; /* /api/tomograms, ?stage=NAME */
http_handler api_slice;     /* /pic/tomogram/N/Z.jpg, ?stage=NAME; Z from 0 */
http_handler api_drops;     /* /api/drops, ?stage=NAME */
http_handler api_ensemble;  /* /api/ensemble, ?stage=NAME */
http_handler api_matrix;    /* /api/ensemble/matrix, ?n=512&stage=NAME: bytes; the largest RMSD is 255 */
http_handler api_log;       /* /api/log?instance=NAME&after=BYTES */

#endif
