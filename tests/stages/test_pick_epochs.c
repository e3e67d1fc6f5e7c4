/* The picker adopts templates that another stage of the session makes: only if they find more than the picks so far, at
 * an item that its history names; a restart goes on with them, and a replay adopts them at the same item. Templates of
 * random phases are refused. Trouble of the machine is neither a refusal nor the fault of an item. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/fft.h"
#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/star.h"
#include "common/harness/again.h"
#include "common/harness/stage.h"
#include "common/harness/template_set.h"
#include "common/memory.h"
#include "stages/lowpass-picker/follow.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/noise_twin.h"
#include "stages/lowpass-picker/picker_set.h"
#include "stages/lowpass-picker/template_history.h"
#include "stages/lowpass-picker/trial.h"

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        struct err err = {0};                                                                                          \
        if ((call) != STATUS_OK) fail_msg("%s:%d: %s", err.file, err.line, err.message);                               \
    } while (0)

enum { BOX = 64, SIDE = 420, MICROGRAPHS = 12 };

static uint64_t seed = 2718;
static char folder[128];

/* Results of the trial's searches, call by call. The compute thread takes them while a stage runs. */
static struct {
    enum status trouble[4];   /* of its first calls */
    const char *other_folder; /* another instance adopts its templates at the second call; NULL: there is none */
    int calls;
} trial;

enum status __real_picker_set_get(const struct stage *stage, struct picker_set *set, const int shape[3],
                                  struct lowpass_picker **ret_picker, struct err *err);
enum status __wrap_picker_set_get(const struct stage *stage, struct picker_set *set, const int shape[3],
                                  struct lowpass_picker **ret_picker, struct err *err);

enum status __wrap_picker_set_get(const struct stage *stage, struct picker_set *set, const int shape[3],
                                  struct lowpass_picker **ret_picker, struct err *err) {
    if (set->templates.nz == 0 || set->epoch > 0) return __real_picker_set_get(stage, set, shape, ret_picker, err);
    int call = trial.calls++;
    if (call < 4 && trial.trouble[call] != STATUS_OK)
        return err_set(err, trial.trouble[call], __FILE__, __LINE__, "trouble");
    if (call == 1 && trial.other_folder != NULL) {
        struct template_history history = {0};
        struct adoption a = {.adopted = true, .stage = "other", .stage_epoch = 9, .item = "elsewhere"};
        enum status status = template_history_add(trial.other_folder, &a, &set->templates, &history, err);
        template_history_clear(&history);
        if (status != STATUS_OK) return status;
    }
    return __real_picker_set_get(stage, set, shape, ret_picker, err);
}

/* True: a micrograph of noise is the micrograph itself, and templates find as much in it. */
static bool same_twin;

enum status __real_noise_twin(float *image, int nx, int ny, uint64_t phases, struct err *err);
enum status __wrap_noise_twin(float *image, int nx, int ny, uint64_t phases, struct err *err);

enum status __wrap_noise_twin(float *image, int nx, int ny, uint64_t phases, struct err *err) {
    return same_twin ? STATUS_OK : __real_noise_twin(image, nx, ny, phases, err);
}

/* True: another host has the instance that decides. */
static bool decided_elsewhere;

bool __wrap_stage_decides(const struct stage *stage);

bool __wrap_stage_decides(const struct stage *stage) {
    (void)stage;
    return !decided_elsewhere;
}

static double uniform(void) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return ((double)(seed >> 40) + 0.5) * 0x1p-24;
}

static double gauss(void) {
    double u = uniform(), v = uniform();
    return sqrt(-2 * log(u)) * cos(2 * M_PI * v);
}

/* Returns a shape that no disc resembles: four blobs, 84 Å apart at 2 Å/px. */
static double shape(double x, double y) {
    static const double BLOBS[4][2] = {{-15, -8}, {-4, 13}, {15, 6}, {6, -14}};
    double value = 0;
    for (int i = 0; i < 4; i++)
        value += exp(-(pow(x - BLOBS[i][0], 2) + pow(y - BLOBS[i][1], 2)) / (2 * 2.5 * 2.5));
    return 3 * value;
}

static void path_of(char path[256], int index) {
    snprintf(path, 256, "%s/mic%d.mrc", folder, index);
}

static void write_micrograph(int index) {
    struct image image = {0};
    char path[256];
    OK(image_resize(&image, SIDE, SIDE, 1, &err));
    image.pixel_size = 2;
    for (int i = 0; i < SIDE * SIDE; i++)
        image.data[i] = (float)(1.1 * gauss());
    for (int gy = 45; gy < SIDE - 40; gy += 50)
        for (int gx = 45; gx < SIDE - 40; gx += 50) {
            double psi = 2 * M_PI * uniform(), c = cos(psi), s = sin(psi);
            double x0 = gx + 10 * uniform(), y0 = gy + 10 * uniform();
            for (int y = gy - 30; y < gy + 42 && y < SIDE; y++)
                for (int x = gx - 30; x < gx + 42 && x < SIDE; x++) {
                    double dx = x - x0, dy = y - y0;
                    image.data[y * SIDE + x] -= (float)shape(c * dx + s * dy, c * dy - s * dx);
                }
        }
    path_of(path, index);
    OK(mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, &err));
    image_destroy(&image);
}

/* Gives an image the phases of noise, and keeps its amplitudes. */
static void scatter(float *image) {
    struct fft_plan *forward = NULL, *inverse = NULL;
    struct fft_options options = {.rank = 2, .shape = {BOX, BOX}, .direction = FFT_FORWARD};
    float *noise = mem_aligned(BOX * BOX, sizeof *noise), *one = mem_aligned(BOX * (BOX + 2), sizeof *one);
    float *two = mem_aligned(BOX * (BOX + 2), sizeof *two);
    assert_true(noise != NULL && one != NULL && two != NULL);
    OK(fft_create(&options, &forward, &err));
    options.direction = FFT_INVERSE;
    OK(fft_create(&options, &inverse, &err));
    for (int i = 0; i < BOX * BOX; i++)
        noise[i] = (float)gauss();
    fft_run(forward, image, one);
    fft_run(forward, noise, two);
    for (int i = 0; i < BOX * (BOX + 2); i += 2) {
        float amplitude = hypotf(one[i], one[i + 1]), length = hypotf(two[i], two[i + 1]);
        one[i] = two[i] / length * amplitude;
        one[i + 1] = two[i + 1] / length * amplitude;
    }
    fft_run(inverse, one, image);
    fft_destroy(&forward);
    fft_destroy(&inverse);
    free(noise);
    free(one);
    free(two);
}

/* Writes what a classifier would write. maker: its folder. */
static void write_templates(const char *maker, int epoch, bool random) {
    struct template_set set = {.epoch = epoch, .stage = "classifier", .iteration = 7, .classes = {3}, .particles = 400};
    OK(file_make_folders(maker, 0777, &err));
    OK(image_resize(&set.images, BOX, BOX, 1, &err));
    set.images.pixel_size = 2;
    for (int i = 0; i < BOX * BOX; i++)
        set.images.data[i] = (float)shape(i % BOX - BOX / 2, i / BOX - BOX / 2);
    if (random) scatter(set.images.data);
    double sum = 0, pixels = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < BOX * BOX; i++) {
            bool inside = hypot(i % BOX - BOX / 2, i / BOX - BOX / 2) < 25;
            if (pass == 1) set.images.data[i] = inside ? set.images.data[i] - (float)(sum / pixels) : 0;
            sum += pass == 0 && inside ? set.images.data[i] : 0;
            pixels += pass == 0 && inside;
        }
    OK(template_set_write(maker, &set, &err));
    template_set_clear(&set);
}

static const char *prefix = "mic"; /* of the items' names */

/* Picks all micrographs, one after the other, so that the same ones are done at each step of a trial. ret_epochs[i]:
 * that of micrograph i, in its table. */
static void pick(const char *place, const char *history, int ret_epochs[MICROGRAPHS]) {
    const char *keys[] = {"diameter",
                          "80",
                          "lowpass",
                          "12",
                          "write_png",
                          "false",
                          "lanes",
                          "1",
                          "templates_from",
                          "classifier,second",
                          "templates_history",
                          history,
                          NULL};
    struct item *items[MICROGRAPHS] = {0}, **out = NULL;
    size_t count = 0;
    if (history == NULL) keys[10] = NULL;
    for (int i = 0; i < MICROGRAPHS; i++) {
        char id[24], path[256];
        snprintf(id, sizeof id, "%s%d", prefix, i);
        path_of(path, i);
        OK(item_create(id, "micrograph", &items[i], &err));
        OK(item_set_string(items[i], "micrograph.path", path, &err));
        OK(item_set_number(items[i], "optics.pixel_size", 2, &err));
    }
    OK(stage_run_in_process(&lowpass_picker_stage, place, keys, items, MICROGRAPHS, &out, &count, &err));
    assert_int_equal(count, MICROGRAPHS);
    for (int i = 0; i < MICROGRAPHS; i++) {
        char path[512];
        struct star_file *file = NULL;
        double epoch = -1;
        snprintf(path, sizeof path, "%s/%s", place, item_string(out[i], "picks.star"));
        OK(star_read(path, &file, &err));
        const struct star_table *table = star_table_find(file, "");
        int column = star_column_find(table, "icestreamPickEpoch");
        epoch = item_number(out[i], "columns.icestreamPickEpoch", -1);
        assert_true(column >= 0 && epoch >= 0);
        for (size_t row = 0; row < star_row_count(table); row++) {
            double own = -1;
            OK(star_get_number(table, row, column, &own, &err));
            assert_true(own == epoch);
        }
        ret_epochs[i] = (int)epoch;
        star_destroy(&file);
        item_destroy(&out[i]);
        item_destroy(&items[i]);
    }
    free(out);
}

static void history_of(const char *place, struct template_history *history, char path[256]) {
    snprintf(path, 256, "%s/lowpass-picker/" TEMPLATE_HISTORY, place);
    *history = (struct template_history){0};
    OK(template_history_read(path, history, &err));
}

/* Checks that items of an epoch before this one were asked for again; 0: none were. */
static void assert_asked(const char *place, int epoch) {
    char own[256];
    struct again again = {0};
    struct err err = {0};
    snprintf(own, sizeof own, "%s/lowpass-picker", place);
    assert_int_equal(again_read(own, &again, &err), epoch > 0 ? STATUS_OK : STATUS_NOT_FOUND);
    assert_int_equal(again.number, epoch);
    if (epoch > 0) assert_string_equal(again.column, "icestreamPickEpoch");
}

/* A history of an earlier version names the first item that was picked with the templates. */
static void replays_a_history_of_an_earlier_version(const char *path, int first, const int expected[MICROGRAPHS]) {
    char place[160], command[600];
    int epochs[MICROGRAPHS];
    snprintf(place, sizeof place, "%s/earlier", folder);
    OK(file_make_folders(place, 0777, &err));
    snprintf(command, sizeof command,
             "sed 's/,\"after_item\":true//; s/\"item\":\"mic%d\"/\"item\":\"mic%d\"/' '%s' > '%s/history.jsonl' && cp "
             "'%s/lowpass-picker/templates_e001.mrcs' '%s'",
             first - 1, first, path, place, folder, place);
    assert_int_equal(system(command), 0);
    snprintf(command, sizeof command, "%s/history.jsonl", place);
    pick(place, command, epochs);
    assert_memory_equal(epochs, expected, sizeof epochs);
}

static void without_templates_nothing_changes(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    pick(folder, NULL, epochs);
    for (int i = 0; i < MICROGRAPHS; i++)
        assert_int_equal(epochs[i], 0);
}

static void random_phases_are_refused(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    struct template_history history;
    char path[256], maker[160];
    snprintf(maker, sizeof maker, "%s/classifier", folder);
    write_templates(maker, 1, true);
    pick(folder, NULL, epochs);
    for (int i = 0; i < MICROGRAPHS; i++)
        assert_int_equal(epochs[i], 0);
    history_of(folder, &history, path);
    assert_int_equal(history.count, 1);
    assert_false(history.lines[0].adopted);
    assert_true(template_history_knows(&history, "classifier", 1));
    template_history_clear(&history);
    assert_asked(folder, 0);
}

static void adopts_what_finds_more(void **state) {
    (void)state;
    int epochs[MICROGRAPHS], first = 0;
    struct template_history history;
    char path[256], place[160], id[16];
    snprintf(place, sizeof place, "%s/classifier", folder);
    write_templates(place, 2, false);
    decided_elsewhere = true;
    pick(folder, NULL, epochs);
    decided_elsewhere = false;
    assert_int_equal(epochs[MICROGRAPHS - 1], 0);
    pick(folder, NULL, epochs);
    while (first < MICROGRAPHS && epochs[first] == 0)
        first++;
    print_message("adopted at micrograph %d\n", first);
    assert_in_range(first, 3, MICROGRAPHS - 1);
    for (int i = first; i < MICROGRAPHS; i++)
        assert_int_equal(epochs[i], 1);
    history_of(folder, &history, path);
    assert_int_equal(history.count, 2);
    const struct adoption *last = template_history_last(&history);
    snprintf(id, sizeof id, "mic%d", first - 1);
    assert_string_equal(last->item, id);
    assert_true(last->after_item);
    assert_string_equal(last->file, "templates_e001.mrcs");
    assert_int_equal(last->stage_epoch, 2);
    print_message("%.0f picks per µm², %.0f in noise\n", last->density, last->noise);
    assert_true(last->density > 0 && last->noise < 0.05 * last->density);
    template_history_clear(&history);
    assert_asked(folder, 1);

    /* A replay: in another folder, where nothing makes templates. */
    snprintf(place, sizeof place, "%s/again", folder);
    OK(file_make_folders(place, 0777, &err));
    int again[MICROGRAPHS];
    pick(place, path, again);
    assert_memory_equal(again, epochs, sizeof epochs);
    assert_asked(place, 1);
    char a[400], b[400], command[900];
    for (int i = 0; i < MICROGRAPHS; i++) {
        snprintf(a, sizeof a, "%s/lowpass-picker/mic%d_autopick.star", folder, i);
        snprintf(b, sizeof b, "%s/lowpass-picker/mic%d_autopick.star", place, i);
        snprintf(command, sizeof command, "cmp '%s' '%s'", a, b);
        assert_int_equal(system(command), 0);
    }

    replays_a_history_of_an_earlier_version(path, first, epochs);

    /* A restart goes on with what was adopted, although its maker is gone; what was tried is not tried again. */
    snprintf(command, sizeof command, "rm '%s/classifier/templates_e002.mrcs'", folder);
    assert_int_equal(system(command), 0);
    pick(folder, NULL, again);
    for (int i = 0; i < MICROGRAPHS; i++)
        assert_int_equal(again[i], 1);
    history_of(folder, &history, path);
    assert_int_equal(history.count, 2);
    template_history_clear(&history);

    /* Without its copy it begins anew, and asks for no item that would be picked as before. */
    snprintf(command, sizeof command, "cd '%s/lowpass-picker' && rm templates_e001.mrcs " AGAIN_RECORD, folder);
    assert_int_equal(system(command), 0);
    pick(folder, NULL, again);
    assert_int_equal(again[MICROGRAPHS - 1], 0);
    assert_asked(folder, 0);

    /* So does a replay. */
    snprintf(place, sizeof place, "%s/lost", folder);
    OK(file_make_folders(place, 0777, &err));
    pick(place, path, again);
    for (int i = 0; i < MICROGRAPHS; i++)
        assert_int_equal(again[i], 0);
}

/* Writes what a session would that has adopted templates after three micrographs. Removes those of the second
 * adoption. */
static void record_three(const char *place) {
    static const char *const after[] = {"mic1", "mic3", "mic6"};
    struct template_history history = {0};
    struct image images = {0};
    char path[256];
    snprintf(path, sizeof path, "%s/classifier", place);
    write_templates(path, 1, false);
    snprintf(path, sizeof path, "%s/classifier/templates_e001.mrcs", place);
    OK(mrc_read(path, &images, &err));
    images.nz = 1;
    for (int i = 0; i < 3; i++) {
        struct adoption a = {.adopted = true, .stage = "classifier", .stage_epoch = i + 1, .after_item = true};
        strcpy(a.item, after[i]);
        OK(template_history_add(place, &a, &images, &history, &err));
    }
    template_history_clear(&history);
    image_destroy(&images);
    snprintf(path, sizeof path, "%s/templates_e002.mrcs", place);
    assert_int_equal(unlink(path), 0);
}

static void a_replay_repeats_what_comes_after_lost_templates(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    char record[160], place[200], path[256];
    snprintf(record, sizeof record, "%s/three", folder);
    snprintf(place, sizeof place, "%s/replay", record);
    OK(file_make_folders(place, 0777, &err));
    record_three(record);
    snprintf(path, sizeof path, "%s/" TEMPLATE_HISTORY, record);
    pick(place, path, epochs);
    for (int i = 0; i < MICROGRAPHS; i++)
        assert_int_equal(epochs[i], i <= 1 ? 0 : i <= 6 ? 1 : 2);
    assert_asked(place, 2);
}

/* Makes a folder for a session. ret_maker: of the stage that makes good templates there. */
static void begin_session(const char *name, char ret_place[160], char ret_maker[200]) {
    snprintf(ret_place, 160, "%s/%s", folder, name);
    snprintf(ret_maker, 200, "%s/classifier", ret_place);
    write_templates(ret_maker, 1, false);
}

static void trouble_is_no_refusal(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    struct template_history history;
    char place[160], maker[200], path[256];
    begin_session("trouble", place, maker);
    /* A second maker's templates wait until those of the first are decided on. */
    snprintf(path, sizeof path, "%s/second", place);
    write_templates(path, 1, true);
    memset(&trial, 0, sizeof trial);
    trial.trouble[0] = STATUS_NO_MEMORY;
    trial.trouble[1] = STATUS_UNAVAILABLE;
    trial.trouble[2] = STATUS_CANCELLED;
    pick(place, NULL, epochs);
    assert_in_range(trial.calls, 6, MICROGRAPHS + 2 * TRIAL_TWINS);
    history_of(place, &history, path);
    assert_true(history.count >= 1 && history.lines[0].adopted && epochs[MICROGRAPHS - 1] == 1);
    assert_string_equal(history.lines[0].stage, "classifier");
    template_history_clear(&history);
    memset(&trial, 0, sizeof trial);
}

static void a_history_that_cannot_be_written_costs_no_item(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    struct template_history history;
    char place[160], maker[200], path[256];
    for (int random = 0; random < 2; random++) {
        begin_session(random ? "no_refusal" : "no_adoption", place, maker);
        if (random) write_templates(maker, 1, true);
        snprintf(path, sizeof path, "%s/lowpass-picker/.history.lock", place);
        OK(file_make_folders(path, 0777, &err));
        pick(place, NULL, epochs);
        for (int i = 0; i < MICROGRAPHS; i++)
            assert_int_equal(epochs[i], 0);
        history_of(place, &history, path);
        assert_int_equal(history.count, 0);
        template_history_clear(&history);
    }
}

/* Templates that find as much in noise of the micrographs' spectrum as in the micrographs are refused. */
static void templates_that_find_as_much_in_noise_are_refused(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    struct template_history history;
    char place[160], maker[200], path[256];
    begin_session("noise", place, maker);
    same_twin = true;
    pick(place, NULL, epochs);
    same_twin = false;
    assert_int_equal(epochs[MICROGRAPHS - 1], 0);
    history_of(place, &history, path);
    assert_int_equal(history.count, 1);
    assert_false(history.lines[0].adopted);
    assert_true(history.lines[0].density > 0 && history.lines[0].noise > 0.9 * history.lines[0].density);
    assert_non_null(strstr(history.lines[0].reason, "noise"));
    template_history_clear(&history);
}

enum { TWIN_X = 30, TWIN_Y = 21 };

/* Transforms an image by the definition, and returns the amplitude of one coefficient, and its phase. */
static double coefficient(const float *image, int kx, int ky, double *ret_phase) {
    double re = 0, im = 0;
    for (int y = 0; y < TWIN_Y; y++)
        for (int x = 0; x < TWIN_X; x++) {
            double angle = -2 * M_PI * ((double)kx * x / TWIN_X + (double)ky * y / TWIN_Y);
            re += (double)image[y * TWIN_X + x] * cos(angle);
            im += (double)image[y * TWIN_X + x] * sin(angle);
        }
    *ret_phase = atan2(im, re);
    return hypot(re, im);
}

static void a_twin_has_the_amplitudes_and_other_phases(void **state) {
    (void)state;
    float image[TWIN_X * TWIN_Y], twin[TWIN_X * TWIN_Y], again[TWIN_X * TWIN_Y];
    double mean = 0, same = 0;
    for (int i = 0; i < TWIN_X * TWIN_Y; i++)
        twin[i] = again[i] = image[i] = (float)(5 + gauss());
    OK(__real_noise_twin(twin, TWIN_X, TWIN_Y, 3, &err));
    OK(__real_noise_twin(again, TWIN_X, TWIN_Y, 3, &err));
    assert_memory_equal(twin, again, sizeof twin);
    for (int i = 0; i < TWIN_X * TWIN_Y; i++)
        mean += (double)(twin[i] - image[i]) / (TWIN_X * TWIN_Y);
    assert_true(fabs(mean) < 1e-4);
    for (int ky = 0; ky < TWIN_Y; ky++)
        for (int kx = 0; kx <= TWIN_X / 2; kx++) {
            double phases[2], one = coefficient(image, kx, ky, &phases[0]);
            assert_true(fabs(coefficient(twin, kx, ky, &phases[1]) - one) < 1e-3 * one + 1e-2);
            same += cos(phases[0] - phases[1]) / (TWIN_Y * (TWIN_X / 2 + 1));
        }
    assert_true(fabs(same) < 0.2); /* 3.6 standard deviations of a mean over 336 random phases */
}

/* One micrograph in FOLLOW_KEPT goes on being picked as at the beginning, after a restart too. */
static void some_micrographs_keep_the_picks_of_the_beginning(void **state) {
    (void)state;
    enum { KEPT = MICROGRAPHS - 2 };
    char own[16];
    int epochs[MICROGRAPHS], kept = 0;
    char place[160], maker[200], id[24];
    for (int k = 0; k < 999 && kept != 1; k++) {
        snprintf(own, sizeof own, "s%d_", k);
        kept = 0;
        for (int i = 0; i < MICROGRAPHS; i++) {
            snprintf(id, sizeof id, "%s%d", own, i);
            if (again_spares(FOLLOW_KEPT, id)) kept = i == KEPT && kept == 0 ? 1 : 2;
        }
    }
    assert_int_equal(kept, 1);
    begin_session("kept", place, maker);
    prefix = own;
    for (int run = 0; run < 2; run++) {
        pick(place, NULL, epochs);
        for (int i = run == 0 ? KEPT - 1 : 0; i < MICROGRAPHS; i++)
            assert_int_equal(epochs[i], i != KEPT);
    }
    prefix = "mic";
}

/* Picks that were compared with those of other templates do not count. */
static void another_instance_s_adoption_ends_the_trial(void **state) {
    (void)state;
    int epochs[MICROGRAPHS];
    struct template_history history;
    char place[160], maker[200], path[256];
    begin_session("instances", place, maker);
    snprintf(path, sizeof path, "%s/lowpass-picker", place);
    memset(&trial, 0, sizeof trial);
    trial.other_folder = path;
    pick(place, NULL, epochs);
    memset(&trial, 0, sizeof trial);
    history_of(place, &history, path);
    assert_int_equal(epochs[MICROGRAPHS - 1], 1);
    assert_int_equal(history.count, 2);
    assert_string_equal(history.lines[0].stage, "other");
    assert_string_equal(history.lines[1].stage, "classifier");
    assert_false(history.lines[1].adopted); /* they are the same templates */
    template_history_clear(&history);
}

static void separation_sees_what_overlaps(void **state) {
    (void)state;
    float heights[3][600];
    struct separation found[3];
    for (int k = 0; k < 3; k++) {
        for (int i = 0; i < 600; i++) /* two bells, 2, 4 and 8 deviations apart */
            heights[k][i] = (float)(gauss() + (i < 200 ? 2 << k : 0));
        for (int i = 1; i < 600; i++)
            for (int j = i; j > 0 && heights[k][j - 1] < heights[k][j]; j--) {
                float other = heights[k][j];
                heights[k][j] = heights[k][j - 1];
                heights[k][j - 1] = other;
            }
        found[k] = separation_of(heights[k], 600);
        print_message("%d apart: %.0f sure, F1 %.3f\n", 2 << k, found[k].sure, found[k].f1);
    }
    assert_true(found[2].f1 > 0.99 && fabs(found[2].sure - 200) < 10);
    assert_true(found[1].f1 > 0.9 && found[1].f1 < found[2].f1 && found[1].sure > 150);
    assert_true(found[0].f1 < found[1].f1 - 0.03 && found[0].sure < found[1].sure - 20);
    assert_true(separation_of(heights[0], 20).sure == 0);
}

static int make_folder(void **state) {
    (void)state;
    strcpy(folder, "/tmp/pick_epochs_XXXXXX");
    if (mkdtemp(folder) == NULL) return -1;
    print_message("seed %llu\n", (unsigned long long)seed);
    for (int i = 0; i < MICROGRAPHS; i++)
        write_micrograph(i);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    char command[160];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) == 0 ? 0 : -1;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(separation_sees_what_overlaps),
        cmocka_unit_test(a_twin_has_the_amplitudes_and_other_phases),
        cmocka_unit_test(without_templates_nothing_changes),
        cmocka_unit_test(random_phases_are_refused),
        cmocka_unit_test(adopts_what_finds_more),
        cmocka_unit_test(a_replay_repeats_what_comes_after_lost_templates),
        cmocka_unit_test(trouble_is_no_refusal),
        cmocka_unit_test(a_history_that_cannot_be_written_costs_no_item),
        cmocka_unit_test(another_instance_s_adoption_ends_the_trial),
        cmocka_unit_test(templates_that_find_as_much_in_noise_are_refused),
        cmocka_unit_test(some_micrographs_keep_the_picks_of_the_beginning),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
