#include "stages/refiner/tell.h"

void tell_noise(struct stage *stage, const struct refiner_state *s, bool *told) {
    if (s->noise && !*told)
        stage_log(stage, LOG_WARN, "refine-noise",
                  "the images resemble the reference no more than its negative (by %.1f deviations of chance, where 3 "
                  "are no chance): maps of them show the reference alone, and their resolution means nothing; look at "
                  "the 2D classes and the picks, and check the reference",
                  s->signal);
    if (!s->noise && *told)
        stage_log(stage, LOG_INFO, "refine-noise",
                  "with the images that have come since, they resemble the reference and not its negative (by %.1f "
                  "deviations of chance): they are no noise",
                  s->signal);
    *told = s->noise;
}
