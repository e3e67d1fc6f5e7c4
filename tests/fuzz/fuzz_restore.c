/* Fuzzes files that the classifier and the refiner read when they start again. The input replaces or changes one of the
 * files of a good iteration. The first byte selects the file and how. */
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/memory.h"
#include "kernels/sampling/sampling.h"
#include "stages/classifier/snapshot_restore.h"
#include "stages/refiner/files/kept_state.h"
#include "stages/refiner/twins.h"

/* Iteration 7 belongs to the classifier and to a refinement, iteration 8 to a classification by the refiner. */
enum { BOX = 16, SHELLS = BOX / 2 + 1, SLICES = 5, CLASSES = 3, MAPS = 2, REFINED = 7, SORTED = 8, TEXT_MAX = 8192 };
static const double PIXEL = 2;

static char folder[64];

struct part {
    const char *name;
    char *bytes;
    size_t length;
};
static struct part parts[] = {{"run_it007_model.star"},
                              {"run_it007_data.star"},
                              {"run_it007_classes.mrcs"},
                              {"run_it007_half1_model.star"},
                              {"run_it007_half1_class001.mrc"},
                              {"run_it007_optimiser.star"},
                              {"run_it007_sampling.star"},
                              {"run_it008_optimiser.star"},
                              {"run_it008_sampling.star"},
                              {"run_it008_model.star"},
                              {"run_it008_class002.mrc"},
                              {"run_it008_data.star"},
                              {"history.jsonl"}};
enum {
    MODEL,
    DATA,
    CLASS_STACK,
    HALF_MODEL,
    HALF_MAP,
    OPTIMISER,
    SAMPLING,
    SORTED_OPTIMISER,
    SORTED_SAMPLING,
    SORTED_MODEL,
    SORTED_MAP,
    SORTED_DATA,
    HISTORY,
    PARTS
};
/* Indexed by the lower half of the first byte. */
static const int PART_OF[16] = {
    MODEL, DATA,        CLASS_STACK,      HALF_MODEL,   HALF_MAP,   OPTIMISER,       HISTORY,     SAMPLING,
    DATA,  CLASS_STACK, SORTED_OPTIMISER, SORTED_MODEL, SORTED_MAP, SORTED_SAMPLING, SORTED_DATA, DATA};

static void put(const char *name, const void *bytes, size_t length) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static void put_image(const char *name, int slices, enum mrc_kind kind) {
    char path[PATH_SIZE];
    struct image image = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FUZZ_CHECK(image_resize(&image, BOX, BOX, slices, NULL) == STATUS_OK);
    image.pixel_size = (float)PIXEL;
    for (size_t i = 0; i < image_count(&image); i++)
        image.data[i] = (float)(i % 7);
    FUZZ_CHECK(mrc_write(path, &image, kind, MRC_FLOAT32, NULL) == STATUS_OK);
    image_destroy(&image);
}

static size_t noise(char *text, size_t at) {
    at += (size_t)snprintf(text + at, TEXT_MAX - at,
                           "data_model_optics_group_1\n\nloop_\n_rlnSpectralIndex\n_rlnSigma2Noise\n");
    for (int s = 0; s < SHELLS; s++)
        at += (size_t)snprintf(text + at, TEXT_MAX - at, "%d %g\n", s, 0.1 / (s + 1));
    return at + (size_t)snprintf(text + at, TEXT_MAX - at, "\n");
}

/* Writes the model file of one map or of several. */
static void put_model(const char *name, int classes) {
    static char text[TEXT_MAX];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "data_model_general\n\n_rlnOriginalImageSize %d\n_rlnPixelSize %g\n_rlnNrClasses %d\n"
                                 "_rlnSigmaOffsetsAngst 5\n_rlnNormCorrectionAverage 1\n\n"
                                 "data_model_classes\n\nloop_\n_rlnReferenceImage\n_rlnClassDistribution\n",
                                 BOX, PIXEL, classes);
    for (int k = 0; k < classes; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "class%03d.mrc %g\n", k + 1, 1.0 / classes);
    at += (size_t)snprintf(text + at, sizeof text - at, "\n");
    put(name, text, noise(text, at));
}

static void put_optimiser(int iteration, bool halves) {
    char text[TEXT_MAX], name[64];
    size_t at = (size_t)snprintf(
        text, sizeof text,
        "data_optimiser_general\n\n_rlnCurrentIteration %d\n_rlnDoSplitRandomHalves %d\n_rlnDoAutoRefine %d\n"
        "_rlnIncrementImageSize 10\n_rlnHasHighFscAtResolLimit 0\n_rlnNumberOfIterWithoutResolutionGain 1\n"
        "_rlnNumberOfIterWithoutChangingAssignments 0\n_icestreamResolutionShell 4\n"
        "_rlnBestResolutionThusFar 0.1\n_rlnSmallestChangesOrientations 5\n_rlnSmallestChangesOffsets 1\n"
        "_rlnAveragePmax 0.3\n_rlnCurrentResolution 8\n",
        iteration, halves, halves);
    if (!halves)
        at += (size_t)snprintf(text + at, sizeof text - at,
                               "_icestreamWholeIterations 6\n_icestreamWholeParticles %d\n", SLICES);
    snprintf(name, sizeof name, "run_it%03d_optimiser.star", iteration);
    put(name, text, at);
    at = (size_t)snprintf(text, sizeof text,
                          "data_sampling_general\n\n_rlnOffsetRange 10\n_rlnOffsetStep 4\n"
                          "_rlnSamplingPerturbInstance 0.2\n_rlnHealpixOrder 2\n");
    snprintf(name, sizeof name, "run_it%03d_sampling.star", iteration);
    put(name, text, at);
}

static void put_texts(void) {
    static char text[TEXT_MAX];
    size_t at = (size_t)snprintf(text, sizeof text,
                                 "data_model_general\n\n_rlnOriginalImageSize %d\n_rlnCurrentImageSize 12\n"
                                 "_rlnPixelSize %g\n"
                                 "_rlnSigmaOffsetsAngst 5\n_rlnNormCorrectionAverage 1\n_icestreamFinal 1\n"
                                 "_icestreamParticles %d\n_icestreamKeptParticles 3\n\n"
                                 "data_model_classes\n\nloop_\n_rlnReferenceImage\n_rlnClassDistribution\n",
                                 BOX, PIXEL, SLICES);
    for (int k = 0; k < CLASSES; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%06d@classes.mrcs 0.3\n", k + 1);
    at += (size_t)snprintf(text + at, sizeof text - at, "\n");
    at = noise(text, at);
    put("run_it007_model.star", text, at);
    put_model("run_it007_half1_model.star", 1);
    put_model("run_it007_half2_model.star", 1);
    put_model("run_it008_model.star", MAPS);
    put_optimiser(REFINED, true);
    put_optimiser(SORTED, false);
    at =
        (size_t)snprintf(text, sizeof text,
                         "data_optics\n\nloop_\n_rlnOpticsGroup\n_rlnImagePixelSize\n1 %g\n\ndata_particles\n\nloop_\n"
                         "_rlnImageName\n_rlnOpticsGroup\n_rlnAngleRot\n_rlnAngleTilt\n_rlnAnglePsi\n_rlnOriginXAngst\n"
                         "_rlnOriginYAngst\n_rlnNormCorrection\n_rlnRandomSubset\n_rlnClassNumber\n"
                         "_rlnMaxValueProbDistribution\n",
                         PIXEL);
    for (int i = 0; i < SLICES; i++)
        at += (size_t)snprintf(text + at, sizeof text - at, "%06d@stack.mrcs 1 10 20 %d -3 4 1.1 %d %d 0.8\n", i + 1,
                               30 * i, i % 2 + 1, i % CLASSES + 1);
    put("particles.star", text, at);
    at += (size_t)snprintf(text + at, sizeof text - at,
                           "\ndata_twins\n\nloop_\n_icestreamLeftOut\n_icestreamTwinOf\n_icestreamDigest\n"
                           "000003@stack.mrcs 000001@stack.mrcs 0123456789abcdef0123456789abcdef\n"
                           "000004@stack.mrcs 000001@stack.mrcs none\n");
    put("run_it007_data.star", text, at);
    put("run_it008_data.star", text, at);
    static const char history[] = "{\"iteration\": 6}\n{\"iteration\": 7}\n";
    put("history.jsonl", history, strlen(history));
}

/* Fills FOLDER with the files of these iterations and the particles. `parts` gets their bytes. */
static void prepare(void) {
    char path[PATH_SIZE];
    fuzz_scratch("restore", folder);
    FUZZ_CHECK(file_make_folders(folder, 0700, NULL) == STATUS_OK);
    put_image("stack.mrcs", SLICES, MRC_STACK);
    put_image("run_it007_classes.mrcs", CLASSES, MRC_STACK);
    put_image("run_it007_half1_class001.mrc", BOX, MRC_VOLUME);
    put_image("run_it007_half2_class001.mrc", BOX, MRC_VOLUME);
    put_image("run_it008_class001.mrc", BOX, MRC_VOLUME);
    put_image("run_it008_class002.mrc", BOX, MRC_VOLUME);
    put_texts();
    for (int i = 0; i < PARTS; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, parts[i].name);
        FUZZ_CHECK(file_read_whole(path, 1 << 20, &parts[i].bytes, &parts[i].length, NULL) == STATUS_OK);
    }
}

/* Changes a file as a bad disk would: cut, and with other bytes here and there. */
static void put_changed(const struct part *part, const uint8_t *bytes, size_t length) {
    static uint8_t copy[1 << 16];
    size_t kept = part->length;
    FUZZ_CHECK(kept <= sizeof copy);
    memcpy(copy, part->bytes, kept);
    if (length > 2 && bytes[0] % 4 == 0) kept = kept * (bytes[1] * 256u + bytes[2]) / 65536;
    for (size_t i = 3; i + 3 <= length && kept > 0; i += 3)
        copy[(bytes[i] * 256u + bytes[i + 1]) % kept] ^= bytes[i + 2];
    put(part->name, copy, kept);
}

static enum status resolve(void *context, const char *star_path, const char *name, char *absolute, struct err *err) {
    (void)context, (void)star_path;
    return path_join(folder, name, absolute, PATH_SIZE, err);
}

static void check_classified(struct dataset *dataset, int classes, size_t known) {
    size_t visited = 0;
    for (size_t i = 0; i < dataset_count(dataset); i++) {
        const struct dataset_particle *p = dataset_at(dataset, i);
        visited += p->visits > 0;
        FUZZ_CHECK(p->class_index >= -1 && p->class_index < classes && p->norm > 0 && p->norm < 1e7f);
        FUZZ_CHECK(fabsf(p->x) <= BOX && fabsf(p->y) <= BOX && isfinite(p->psi) && isfinite(p->probability));
    }
    FUZZ_CHECK(visited == known);
}

static bool classifier_goes_on(void) {
    const struct model_options options = {
        .box = BOX, .max_size = BOX, .pixel_size = PIXEL, .class_capacity = CLASSES, .with_empty = true};
    struct snapshot_state state = {0};
    struct dataset *dataset = NULL;
    struct dataset_batch *batch = NULL;
    char path[PATH_SIZE];
    struct err err = {0};
    size_t known = 0;
    if (snapshot_read(folder, 7, &options, &state, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, "run_it007") != NULL);
        return false;
    }
    FUZZ_CHECK(state.class_count >= 1 && state.class_count <= CLASSES && state.size >= 4 && state.size <= BOX);
    FUZZ_CHECK(state.average_norm > 0 && state.sigma_offset > 0 && state.kept <= state.particles);
    FUZZ_CHECK(image_count(&state.stack) >= (size_t)(state.class_count * BOX * BOX));
    for (int s = 1; s < SHELLS; s++)
        FUZZ_CHECK(state.sigma2[s] > 0 && isfinite(state.sigma2[s]));
    snprintf(path, sizeof path, "%s/particles.star", folder);
    FUZZ_CHECK(dataset_create(0, &dataset, NULL) == STATUS_OK);
    FUZZ_CHECK(dataset_batch_read(path, resolve, NULL, NAN, false, &batch, &err) == STATUS_OK);
    FUZZ_CHECK(dataset_submit(dataset, &batch, &err) == STATUS_OK && dataset_merge(dataset, NULL, &err) == STATUS_OK);
    FUZZ_CHECK(snapshot_particles(&state, dataset, NULL, state.class_count + 1, 40, &known, NULL, &err) == STATUS_OK);
    check_classified(dataset, state.class_count + 1, known);
    dataset_destroy(&dataset);
    snapshot_state_clear(&state);
    return true;
}

static void check_poses(const struct star_file *data, int classes) {
    struct particle_set set;
    struct star_file *file = NULL;
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/particles.star", folder);
    particle_set_init(&set, 1, 0, NAN);
    set.root = strdup(folder);
    FUZZ_CHECK(star_read(path, &file, NULL) == STATUS_OK);
    FUZZ_CHECK(particle_set_merge(&set, &file, path, false, NULL, NULL) == STATUS_OK && set.count == SLICES);
    kept_state_poses(data, &set, classes);
    FUZZ_CHECK(twins_settle(&set, NULL) == STATUS_OK && (set.left_out == 0 || set.left_out < set.present));
    for (size_t i = 0; i < set.count; i++) {
        const struct particle *p = &set.particles[i];
        for (int j = 0; j < 9; j++)
            FUZZ_CHECK(fabs(p->pose[j]) <= 1.0001);
        FUZZ_CHECK(fabs(p->origin[0]) <= BOX && fabs(p->origin[1]) <= BOX && p->norm > 0 && p->norm < 1e6);
        FUZZ_CHECK((p->half == 0 || p->half == 1) && p->class_index >= 0 && p->class_index < classes);
    }
    particle_set_destroy(&set);
}

static void check_half(const struct kept_state *r, const struct kept_side *side) {
    FUZZ_CHECK(side->average_norm > 0 && side->sigma_offset > 0);
    for (int i = 0; i < r->groups * SHELLS; i++)
        FUZZ_CHECK(isfinite(side->sigma2[i]) && (i % SHELLS == 0 || side->sigma2[i] > 0));
    for (int k = 0; k < r->classes; k++) {
        FUZZ_CHECK(side->shares[k] >= 0 && side->shares[k] < 1.01);
        for (int i = 0; i < BOX * BOX * BOX; i++)
            FUZZ_CHECK(isfinite(side->maps[k].data[i]));
    }
}

static bool refiner_goes_on(int iteration) {
    const int classes = iteration == SORTED ? MAPS : 1;
    char name[32];
    struct kept_state r = {0};
    struct err err = {0};
    FUZZ_CHECK(kept_state_last(folder, 1000) == SORTED && kept_state_last(folder, SORTED) == REFINED &&
               kept_state_last(folder, REFINED) == 0);
    snprintf(name, sizeof name, "run_it%03d", iteration);
    if (kept_state_read(folder, iteration, classes, &r, &err) != STATUS_OK) {
        FUZZ_CHECK(strstr(err.message, name) != NULL);
        return false;
    }
    const struct schedule *s = &r.schedule;
    FUZZ_CHECK(r.box == BOX && r.shells == SHELLS && r.groups >= 1 && fabs(r.pixel_size / PIXEL - 1) < 0.01);
    FUZZ_CHECK(r.classes == classes && r.side_count == (iteration == SORTED ? 1 : 2) &&
               r.schedule.whole_iterations >= 0);
    FUZZ_CHECK(s->iteration == iteration && s->order >= 0 && s->order <= SAMPLING_MAX_ORDER &&
               s->resolution_shell < SHELLS);
    FUZZ_CHECK(s->offset_step > 0 && s->offset_range / s->offset_step <= 301 && s->offset_range <= BOX);
    for (int h = 0; h < r.side_count; h++)
        check_half(&r, &r.sides[h]);
    check_poses(r.data, classes);
    kept_state_clear(&r);
    return true;
}

/* Whatever the file holds, an added line must be a line of its own. */
static void history_goes_on(void) {
    static const char line[] = "{\"iteration\": 8}\n";
    char path[PATH_SIZE], *text = NULL;
    size_t length;
    snprintf(path, sizeof path, "%s/history.jsonl", folder);
    FUZZ_CHECK(file_append_line(path, "{\"iteration\": 8}", NULL) == STATUS_OK);
    FUZZ_CHECK(file_read_whole(path, 1 << 20, &text, &length, NULL) == STATUS_OK && length >= sizeof line - 1);
    FUZZ_CHECK(strcmp(text + length - (sizeof line - 1), line) == 0);
    FUZZ_CHECK(length == sizeof line - 1 || text[length - sizeof line] == '\n');
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    if (folder[0] == '\0') {
        prepare();
        FUZZ_CHECK(classifier_goes_on() && refiner_goes_on(REFINED) && refiner_goes_on(SORTED));
    }
    if (length == 0) return 0;
    const int which = PART_OF[bytes[0] % 16];
    const struct part *part = &parts[which];
    if (bytes[0] & 16)
        put(part->name, bytes + 1, length - 1);
    else
        put_changed(part, bytes + 1, length - 1);
    if (which <= CLASS_STACK) (void)classifier_goes_on();
    if (which == DATA || (which > CLASS_STACK && which <= SAMPLING)) (void)refiner_goes_on(REFINED);
    if (which >= SORTED_OPTIMISER && which < HISTORY) (void)refiner_goes_on(SORTED);
    if (which == HISTORY) history_goes_on();
    put(part->name, part->bytes, part->length);
    return 0;
}
