/* Makes and tells what follows the last iteration: post-processed maps, local resolution, the result of the stage. */
#ifndef ICESTREAM_STAGES_REFINER_ENDING_H
#define ICESTREAM_STAGES_REFINER_ENDING_H

#include "common/harness/stage.h"
#include "stages/refiner/files/writer.h"
#include "stages/refiner/refiner.h"

/* Tells the result of a classification. */
void ending_of_classes(struct stage *stage, const struct refiner *refiner);
/* Makes the files that belong to the final map of a refinement, and tells its result. Waits for the writer. */
enum status ending_of_halves(struct stage *stage, struct refiner *refiner, struct writer *writer, struct err *err);
/* Makes the maps of the local resolution from the final files, unless they exist. They come after all others, and a run
 * that is started again makes them if they are missing. Without memory for them the refinement is still complete. */
enum status ending_local_maps(struct stage *stage, const struct refiner *refiner, struct workspace *workspace_or_null,
                              struct err *err);

#endif
