#include "stages/refiner/tell.h"

#include <math.h>

void tell_noise(struct stage *stage, const struct refiner_state *s, bool *told) {
    const bool noise = s->unresolved == UNRESOLVED_NOISE;
    if (noise && !*told)
        stage_log(stage, LOG_WARN, "refine-noise",
                  "the images resemble the reference no more than its negative (by %.1f deviations of chance, where 3 "
                  "are no chance): maps of them show the reference alone, and their resolution means nothing; look at "
                  "the 2D classes and the picks, and check the reference",
                  s->signal);
    if (!noise && *told)
        stage_log(stage, LOG_INFO, "refine-noise",
                  "with the images that have come since, they resemble the reference and not its negative (by %.1f "
                  "deviations of chance): they are no noise",
                  s->signal);
    *told = noise;
}

void tell_views(struct stage *stage, const struct refiner_state *s, bool *told) {
    const bool doubted = s->unresolved == REFINER_RESOLVED && s->classes == 1 && s->views_doubt > 0.5;
    if (doubted && !*told)
        stage_log(
            stage, LOG_WARN, "refine-directions",
            "the resolution is told as %.1f Å, while the halves agree to %.1f Å: the views that were found are "
            "uneven, and at this resolution images of one side may have been given others, alike in both halves; "
            "look at the projections of the map, begin from a finer reference, and add views, such as of a tilted "
            "stage",
            s->resolution, s->agreement);
    if (!doubted && *told)
        stage_log(stage, LOG_INFO, "refine-directions",
                  "the views are believed now: the resolution is told as %.1f Å, the halves agree to %.1f Å",
                  s->resolution, s->agreement);
    *told = doubted;
}

bool tell_starts_differ(const struct refiner_state *s) {
    return s->unresolved == REFINER_RESOLVED && s->starts_differ;
}

void tell_starts(struct stage *stage, const struct refiner_state *s) {
    if (s->starts_unknown)
        stage_log(
            stage, LOG_WARN, "refine-one-start",
            "the map is not compared with one from a blurred reference: there is no memory for it, or the box is too "
            "small");
    if (isnan(s->starts_agree) || s->unresolved == UNRESOLVED_NOISE) return;
    if (s->unresolved == UNRESOLVED_START)
        stage_log(
            stage, LOG_WARN, "refine-other-start",
            "the map comes from its reference: the halves agree to %.1f Å, but a refinement from the same reference, "
            "blurred, comes to a map that holds the same to %.1f Å only, which is hardly more than the blurred "
            "reference itself; no resolution is told; begin from another reference or from none, or give more or "
            "better particles",
            s->agreement, s->starts_agree);
    else if (s->starts_differ)
        stage_log(
            stage, LOG_WARN, "refine-other-start",
            "the map depends on its reference: the halves agree to %.1f Å, but a refinement from the same reference, "
            "blurred, comes to a map that holds the same to %.1f Å only; %sbegin from another reference or from none, "
            "or give more or better particles",
            s->agreement, s->starts_agree, s->unresolved == REFINER_RESOLVED ? "nothing finer is told; " : "");
    else
        stage_log(stage, LOG_INFO, "refine-other-start",
                  "the map does not depend on its reference: a refinement from a blurred one holds the same to %.1f Å",
                  s->starts_agree);
}

void tell_shared(struct stage *stage, const struct refiner_state *s) {
    if (s->unresolved == UNRESOLVED_SHARED)
        stage_log(stage, LOG_WARN, "refine-shared",
                  "the halves agree no further than they share (%.0f Å): nothing shows that the map is that of the "
                  "particles; no resolution is told",
                  s->shared);
    if (s->unresolved == UNRESOLVED_NOWHERE)
        stage_log(stage, LOG_WARN, "refine-shared",
                  "the halves agree to %.1f Å, but for the views that were found not even the first shell is believed: "
                  "no resolution is told",
                  s->agreement);
}

void tell_hand(struct stage *stage, const struct refiner_state *s, bool before, const char *mask) {
    if (s->inverted == before) return;
    stage_log(
        stage, LOG_INFO, "refine-hand",
        "iteration %d and those after it have %s: maps, masks and poses were inverted; earlier files stay as they "
        "are",
        s->iteration, s->inverted ? "the other hand than the reference" : "the hand of the reference again");
    if (mask != NULL && s->inverted)
        stage_log(stage, LOG_INFO, "refine-hand",
                  "%s is in the hand of the reference: it is inverted in memory, and the STAR files do not name it",
                  mask);
}

void tell_classes(struct stage *stage, const struct refiner_state *s) {
    if (isnan(s->difference)) return;
    if (s->alike)
        stage_log(stage, LOG_WARN, "refine-classes-alike",
                  "nothing shows that the %d classes are of different particles: they differ as parts of one class "
                  "would, by noise (what some particles differ in spreads others by %.1f deviations of chance, where 3 "
                  "are no chance); take them as one class, or classify more particles",
                  s->classes, s->difference);
    else
        stage_log(stage, LOG_INFO, "refine-classes",
                  "the particles differ by more than noise: what some differ in spreads others by %.1f deviations of "
                  "chance",
                  s->difference);
}
