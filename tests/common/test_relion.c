/* Tests RELION's optimiser and sampling files: they hold the labels without which relion_refine 3.1.3 refuses one of
 * its own files. tests/stages/relion_continues.py shows that RELION continues from icestream's files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "common/formats/relion.h"
#include "common/formats/star_cells.h"

static const char *const OPTIMISER[] = {"OutputRootName",
                                        "ModelStarFile",
                                        "ExperimentalDataStarFile",
                                        "OrientSamplingStarFile",
                                        "CurrentIteration",
                                        "NumberOfIterations",
                                        "DoSplitRandomHalves",
                                        "JoinHalvesUntilThisResolution",
                                        "AdaptiveOversampleOrder",
                                        "AdaptiveOversampleFraction",
                                        "RandomSeed",
                                        "ParticleDiameter",
                                        "WidthMaskEdge",
                                        "DoZeroMask",
                                        "DoSolventFlattening",
                                        "SolventMaskName",
                                        "SolventMask2Name",
                                        "TauSpectrumName",
                                        "MaximumCoarseImageSize",
                                        "HighresLimitExpectation",
                                        "IncrementImageSize",
                                        "DoMapEstimation",
                                        "DoAutoRefine",
                                        "AutoLocalSearchesHealpixOrder",
                                        "NumberOfIterWithoutResolutionGain",
                                        "BestResolutionThusFar",
                                        "NumberOfIterWithoutChangingAssignments",
                                        "DoSkipAlign",
                                        "OverallAccuracyRotations",
                                        "OverallAccuracyTranslationsAngst",
                                        "ChangesOptimalOrientations",
                                        "ChangesOptimalOffsets",
                                        "ChangesOptimalClasses",
                                        "SmallestChangesOrientations",
                                        "SmallestChangesOffsets",
                                        "SmallestChangesClasses",
                                        "HasConverged",
                                        "HasHighFscAtResolLimit",
                                        "HasLargeSizeIncreaseIterationsAgo",
                                        "DoCorrectNorm",
                                        "DoCorrectScale",
                                        "DoCorrectCtf",
                                        "DoIgnoreCtfUntilFirstPeak",
                                        "CtfDataArePhaseFlipped",
                                        "DoOnlyFlipCtfPhases",
                                        "RefsAreCtfCorrected",
                                        "FixSigmaNoiseEstimates",
                                        "FixSigmaOffsetEstimates",
                                        "MaxNumberOfPooledParticles"};
static const char *const SAMPLING[] = {"Is3DSampling",  "Is3DTranslationalSampling", "PsiStep",      "OffsetRange",
                                       "OffsetStep",    "SamplingPerturbFactor",     "HealpixOrder", "SymmetryGroup",
                                       "TiltAngleLimit"};

static void must_have(const struct star_table *t, const char *const *labels, size_t count) {
    for (size_t i = 0; i < count; i++) {
        char label[80];
        snprintf(label, sizeof label, "rln%s", labels[i]);
        int column = star_column_find(t, label);
        if (column < 0 || *star_get(t, 0, column) == 0) fail_msg("%s is not there", label);
    }
}

static const char *text(const struct star_table *t, const char *label) {
    return star_get(t, 0, star_column_find(t, label));
}

static void tables_are_whole(void **state) {
    (void)state;
    struct star_file *file = NULL;
    struct star_table *halves, *classes, *sampling;
    struct relion_optimiser o = {.root = "refiner/run",
                                 .model = "refiner/run_it003_half1_model.star",
                                 .model2 = "refiner/run_it003_half2_model.star",
                                 .data = "refiner/run_it003_data.star",
                                 .sampling = "refiner/run_it003_sampling.star",
                                 .mask = "mask.mrc",
                                 .iteration = 3,
                                 .diameter = 123.5};
    const struct relion_sampling s = {.directions = true, .order = 3, .symmetry = "D2", .psi_step = 7.5};
    assert_int_equal(star_create(&file, NULL), STATUS_OK);
    assert_int_equal(star_table_add(file, "optimiser_general", false, &halves, NULL), STATUS_OK);
    assert_int_equal(star_table_add(file, "optimiser_general_of_classes", false, &classes, NULL), STATUS_OK);
    assert_int_equal(star_table_add(file, "sampling_general", false, &sampling, NULL), STATUS_OK);
    assert_int_equal(relion_optimiser_put(halves, &o, NULL), STATUS_OK);
    assert_int_equal(relion_sampling_put(sampling, &s, NULL), STATUS_OK);
    must_have(halves, OPTIMISER, sizeof OPTIMISER / sizeof *OPTIMISER);
    must_have(sampling, SAMPLING, sizeof SAMPLING / sizeof *SAMPLING);
    assert_string_equal(text(halves, "rlnModelStarFile2"), o.model2);
    assert_string_equal(text(halves, "rlnDoSplitRandomHalves"), "1");
    assert_string_equal(text(halves, "rlnSolventMaskName"), "mask.mrc");
    assert_string_equal(text(halves, "rlnCurrentIteration"), "3");
    o.model2 = o.mask = NULL;
    assert_int_equal(relion_optimiser_put(classes, &o, NULL), STATUS_OK);
    must_have(classes, OPTIMISER, sizeof OPTIMISER / sizeof *OPTIMISER);
    assert_int_equal(star_column_find(classes, "rlnModelStarFile2"), -1);
    assert_string_equal(text(classes, "rlnDoSplitRandomHalves"), "0");
    assert_string_equal(text(classes, "rlnSolventMaskName"), "None");
    star_destroy(&file);
}

static void directions_are_those_of_relion(void **state) {
    (void)state;
    assert_int_equal(relion_direction_count("C1", 0), 12);
    assert_int_equal(relion_direction_count("C1", 3), 768);
    assert_int_equal(relion_direction_count("C3", 2), 60);
    assert_int_equal(relion_direction_count("D2", 3), 192);
    assert_int_equal(relion_direction_count("O", 2), 7);
    assert_int_equal(relion_direction_count("O", 9), 0);
    assert_int_equal(relion_direction_count("O", -1), 0);
    assert_int_equal(relion_direction_count("C37", 2), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_whole),
        cmocka_unit_test(directions_are_those_of_relion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
