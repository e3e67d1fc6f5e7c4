/* Writes the files of a corrected movie and names them in its item. */
#ifndef ICESTREAM_STAGES_MOTION_CORRECTOR_PRODUCTS_H
#define ICESTREAM_STAGES_MOTION_CORRECTOR_PRODUCTS_H

#include "common/formats/movie.h"
#include "common/formats/optics.h"
#include "common/harness/stage.h"
#include "stages/motion-corrector/corrected.h"
#include "stages/motion-corrector/motion_corrector.h"
#include "stages/motion-corrector/reference.h"

struct products {
    const struct movie_info *info;
    const float *gain; /* NULL: none */
    const struct exposure *exposure;
    const struct optics *optics; /* of the movie's pixels */
    const struct corrected *corrected;
    const struct hot_pixels *hot;
};

/* Writes MIC.mrc, MIC_noDW.mrc where there are doses, MIC_PS.mrc, the half sets where they are wanted, MIC.star,
 * MIC_motion.json, MIC_motion.png, MIC_thumb.jpg; sets members and columns of the item. */
enum status products_write(struct stage *stage, struct item *item, const struct products *products, struct err *err);
/* Returns the name of the gain reference in the stage's folder. */
const char *products_gain_name(bool eer);
/* Writes a gain reference. That of EER movies becomes the response, 1 / gain, in place. */
enum status products_write_gain(const char *path, struct image *gain, bool eer, struct err *err);
/* Writes gain.mrc, the gain reference as it lies on the frames, for programs that go on from MIC.star; gain_eer.mrc
 * holds the response, since RELION expects that of EER. Does nothing for those that are written. */
enum status products_write_gains(struct stage *stage, struct references *references, struct err *err);

#endif
