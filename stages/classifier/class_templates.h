/* Chooses class averages that can serve the picker as templates: good ones, each unlike the others. */
#ifndef ICESTREAM_STAGES_CLASSIFIER_CLASS_TEMPLATES_H
#define ICESTREAM_STAGES_CLASSIFIER_CLASS_TEMPLATES_H

#include <stdbool.h>

#include "common/harness/template_set.h"
#include "stages/classifier/model.h"

/* Fewer do not show enough views to pick by; more show hardly others. */
enum { CLASS_TEMPLATES_LEAST = 4, CLASS_TEMPLATES_MOST = 16 };

/* Templates, and what tells them apart. Starts as {0}. */
struct class_templates {
    struct image images;               /* [count][box][box]; nz: their number */
    int classes[CLASS_TEMPLATES_MOST]; /* from 0 */
    float *rings;                      /* of each: samples on circles around its centre, with mean 0 and length 1 */
};
void class_templates_clear(struct class_templates *templates);

/* Chooses from the classes of a model that are judged (quality.h), the best one first, and of equal quality the one
 * with the most members. A class is chosen if it is kept, has a quality of 0.5 or more, halves that agree (FRC 0.143)
 * to 25 Å, or to 0.23 of the mask's diameter where that is more, and half as many members as the average or more, if
 * its density lies in the middle, without a neighbour, if no side of its rim is darker than the median of the rim by
 * more than a standard deviation of the image, and if no turn or mirror image of it correlates with a chosen class by
 * more than 0.9. At most CLASS_TEMPLATES_MOST are chosen; fewer than CLASS_TEMPLATES_LEAST count as none. Templates are
 * low-passed at 20 Å, centred, masked softly by the model's mask, with mean 0 and standard deviation 1 inside it. Uses
 * the model's transforms. */
enum status class_templates_choose(struct model *model, struct class_templates *ret_templates, struct err *err);

/* Makes templates from images that were templates before (read from a file). Takes the images over, and nulls them.
 * mask_radius: px. */
enum status class_templates_of(struct image *images, double mask_radius, struct class_templates *ret_templates,
                               struct err *err);

/* Returns whether each template of `some` correlates with one of `others` by more than 0.9, turned or mirrored. False
 * if either has none. */
bool class_templates_within(const struct class_templates *some, const struct class_templates *others);

#endif
