#include "common/formats/relion.h"

#include "common/formats/star_cells.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static enum status put_files(struct star_table *t, const struct relion_optimiser *o, struct err *err) {
    const struct star_cell cells[] = {
        {.column = "rlnOutputRootName", .text = o->root},
        {.column = "rlnModelStarFile", .text = o->model},
        {.column = "rlnExperimentalDataStarFile", .text = o->data},
        {.column = "rlnOrientSamplingStarFile", .text = o->sampling},
        {.column = "rlnSolventMaskName", .text = o->mask != NULL ? o->mask : "None"},
        {.column = "rlnSolventMask2Name", .text = "None"},
        {.column = "rlnTauSpectrumName", .text = "None"},
        {.column = "rlnModelStarFile2", .text = o->model2, .unless = o->model2 == NULL},
    };
    return star_cells_put(t, 0, cells, COUNT(cells), err);
}

static enum status put_model(struct star_table *t, const struct relion_optimiser *o, struct err *err) {
    const struct star_cell cells[] = {
        {.column = "rlnCurrentIteration", .value = o->iteration, .integer = true},
        {.column = "rlnNumberOfIterations", .value = o->iterations, .integer = true},
        {.column = "rlnDoSplitRandomHalves", .value = o->model2 != NULL, .integer = true},
        {.column = "rlnJoinHalvesUntilThisResolution", .value = o->join_resolution},
        {.column = "rlnAdaptiveOversampleOrder", .value = 1, .integer = true},
        {.column = "rlnAdaptiveOversampleFraction", .value = 0.999},
        {.column = "rlnRandomSeed", .value = o->seed, .integer = true},
        {.column = "rlnParticleDiameter", .value = o->diameter},
        {.column = "rlnWidthMaskEdge", .value = o->mask_edge, .integer = true},
        {.column = "rlnDoZeroMask", .value = 1, .integer = true},
        {.column = "rlnDoSolventFlattening", .value = 1, .integer = true},
        {.column = "rlnMaximumCoarseImageSize", .value = -1, .integer = true},
        {.column = "rlnHighresLimitExpectation", .value = o->finest},
        {.column = "rlnDoMapEstimation", .value = 1, .integer = true},
        {.column = "rlnDoSkipAlign", .integer = true},
        {.column = "rlnDoCorrectNorm", .value = 1, .integer = true},
        {.column = "rlnDoCorrectScale", .integer = true},
        {.column = "rlnDoCorrectCtf", .value = o->correct_ctf, .integer = true},
        {.column = "rlnDoIgnoreCtfUntilFirstPeak", .integer = true},
        {.column = "rlnCtfDataArePhaseFlipped", .integer = true},
        {.column = "rlnDoOnlyFlipCtfPhases", .integer = true},
        {.column = "rlnRefsAreCtfCorrected", .value = 1, .integer = true},
        {.column = "rlnFixSigmaNoiseEstimates", .integer = true},
        {.column = "rlnFixSigmaOffsetEstimates", .integer = true},
        {.column = "rlnMaxNumberOfPooledParticles", .value = 3, .integer = true},
    };
    return star_cells_put(t, 0, cells, COUNT(cells), err);
}

enum status relion_optimiser_put(struct star_table *t, const struct relion_optimiser *o, struct err *err) {
    const struct star_cell cells[] = {
        {.column = "rlnDoAutoRefine", .value = o->auto_refine, .integer = true},
        {.column = "rlnAutoLocalSearchesHealpixOrder", .value = o->local_order, .integer = true},
        {.column = "rlnIncrementImageSize", .value = o->increment, .integer = true},
        {.column = "rlnNumberOfIterWithoutResolutionGain", .value = o->since_resolution, .integer = true},
        {.column = "rlnBestResolutionThusFar", .value = o->best_resolution},
        {.column = "rlnNumberOfIterWithoutChangingAssignments", .value = o->since_changes, .integer = true},
        {.column = "rlnOverallAccuracyRotations", .value = o->accuracy_angle},
        {.column = "rlnOverallAccuracyTranslationsAngst", .value = o->accuracy_offset},
        {.column = "rlnChangesOptimalOrientations", .value = o->change_angle},
        {.column = "rlnChangesOptimalOffsets", .value = o->change_offset},
        {.column = "rlnChangesOptimalClasses", .value = o->change_classes},
        {.column = "rlnSmallestChangesOrientations", .value = o->smallest_angle},
        {.column = "rlnSmallestChangesOffsets", .value = o->smallest_offset},
        {.column = "rlnSmallestChangesClasses", .integer = true},
        {.column = "rlnHasConverged", .value = o->converged, .integer = true},
        {.column = "rlnHasHighFscAtResolLimit", .value = o->large_increment, .integer = true},
        {.column = "rlnHasLargeSizeIncreaseIterationsAgo", .integer = true},
    };
    TRY(put_files(t, o, err));
    TRY(put_model(t, o, err));
    return star_cells_put(t, 0, cells, COUNT(cells), err);
}

enum status relion_sampling_put(struct star_table *t, const struct relion_sampling *s, struct err *err) {
    const bool flat = !s->directions;
    const struct star_cell cells[] = {
        {.column = "rlnIs3DSampling", .value = s->directions, .integer = true},
        {.column = "rlnIs3DTranslationalSampling", .integer = true},
        {.column = "rlnPsiStep", .value = s->psi_step},
        {.column = "rlnOffsetRange", .value = s->offset_range},
        {.column = "rlnOffsetStep", .value = s->offset_step},
        {.column = "rlnSamplingPerturbInstance", .value = s->perturbation},
        {.column = "rlnSamplingPerturbFactor", .value = 0.5},
        {.column = "rlnHealpixOrder", .value = s->order, .integer = true, .unless = flat},
        {.column = "rlnSymmetryGroup", .text = s->symmetry, .unless = flat},
        {.column = "rlnTiltAngleLimit", .value = -91, .unless = flat},
    };
    return star_cells_put(t, 0, cells, COUNT(cells), err);
}
