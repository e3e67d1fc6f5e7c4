/* icestream-simulate: a session at the microscope that needs no microscope. A folder fills with micrographs of a
 * made-up protein at a settable pace; the truth about them lies beside it. Parameters: --help. */
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/files.h"
#include "common/harness/manual.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "examples/simulate/arguments.h"
#include "examples/simulate/output.h"
#include "examples/simulate/truth.h"

struct options {
    char *folder;
    int micrographs, size, particles, seed, format, mode, box, map_box, templates, drifted;
    double pixel_size, snr, diameter, dose, interval, map_pixel_size, min_distance, voltage, spherical_aberration;
    double amplitude_contrast, defocus_min, defocus_max, astigmatism, b_factor, ice_noise, contamination, carbon,
        lowpass;
    bool grow;
};

#define PROGRAM "icestream-simulate"
#define SUMMARY "fills a folder with micrographs of an invented protein, and writes the truth about them"

#define AT(member) offsetof(struct options, member)
static const struct param table[] = {
    {"o", PARAM_STRING, AT(folder), "", NULL, 0, 0, .required = true,
     .help = "Folder to fill: micrographs/ and truth/"},
    {"micrographs", PARAM_INT, AT(micrographs), "", "24", 1, 99999, .help = "How many"},
    {"size", PARAM_INT, AT(size), "px", "1024", 64, 16384, .help = "Width and height of a micrograph"},
    {"pixel_size", PARAM_FLOAT, AT(pixel_size), "Å", "2.5", 0.2, 20, .help = "Pixel size of the micrographs"},
    {"particles", PARAM_INT, AT(particles), "", "60", 0, 100000, .help = "On each micrograph, as far as there is room"},
    {"snr", PARAM_FLOAT, AT(snr), "", "0.08", 1e-6, 1e6,
     .help = "Variance of the signal within a particle over that of the noise, after the CTF"},
    {"diameter", PARAM_FLOAT, AT(diameter), "Å", "130", 40, 2000, .help = "Of the particle, at its widest"},
    {"dose", PARAM_FLOAT, AT(dose), "e⁻/Å²", "40", 0.1, 1000, .help = "Electrons"},
    {"interval", PARAM_FLOAT, AT(interval), "s", "1", 0, 86400, .help = "From one micrograph to the next; 0: at once"},
    {"seed", PARAM_INT, AT(seed), "", "1", 0, 2147483647, .help = "The same seed gives the same bytes"},
    {"format", PARAM_CHOICE, AT(format), "", "mrc", .choices = "mrc|tiff", .help = "File format of the micrographs"},
    {"mode", PARAM_CHOICE, AT(mode), "", "float", .choices = "float|uint16|int8",
     .help = "Number format of the pixels"},
    {"grow", PARAM_BOOL, AT(grow), "", "false", .help = "Files grow in place, instead of being renamed into it whole"},
    {"box", PARAM_INT, AT(box), "px", "96", 16, 2048, .help = "Box of a particle, and of the templates; even"},
    {"map_box", PARAM_INT, AT(map_box), "px", NULL, 16, 1024, .help = "Box of the phantom's map; default: box"},
    {"map_pixel_size", PARAM_FLOAT, AT(map_pixel_size), "Å", NULL, 0.2, 50,
     .help = "Pixel size of the phantom's map; default: pixel_size × box / map_box"},
    {"templates", PARAM_INT, AT(templates), "", "10", 1, 1000, .help = "Projections in truth/templates.mrcs"},
    {"lowpass", PARAM_FLOAT, AT(lowpass), "Å", "60", 1, 1000, .help = "Of truth/reference.mrc"},
    {"min_distance", PARAM_FLOAT, AT(min_distance), "Å", NULL, 0, 10000,
     .help = "Between centres; default: 1.15 × diameter"},
    {"voltage", PARAM_FLOAT, AT(voltage), "kV", "300", 10, 2000, .help = "Acceleration voltage"},
    {"spherical_aberration", PARAM_FLOAT, AT(spherical_aberration), "mm", "2.7", 0, 20, .help = "Of the objective"},
    {"amplitude_contrast", PARAM_FLOAT, AT(amplitude_contrast), "", "0.1", 0, 1, .help = "Fraction"},
    {"defocus_min", PARAM_FLOAT, AT(defocus_min), "Å", "10000", 0, 200000, .help = "Least underfocus"},
    {"defocus_max", PARAM_FLOAT, AT(defocus_max), "Å", "25000", 0, 200000, .help = "Largest underfocus"},
    {"astigmatism", PARAM_FLOAT, AT(astigmatism), "Å", "500", 0, 20000, .help = "Largest difference of defocus"},
    {"b_factor", PARAM_FLOAT, AT(b_factor), "Å²", "80", 0, 2000, .help = "Envelope exp(−B u²/4)"},
    {"ice_noise", PARAM_FLOAT, AT(ice_noise), "", "0.2", 0, 100,
     .help = "Variance of the ice's structure over the shot noise's"},
    {"contamination", PARAM_FLOAT, AT(contamination), "", "4", 0, 18,
     .help = "Mean number of ice lumps on a micrograph"},
    {"carbon", PARAM_FLOAT, AT(carbon), "", "0.1", 0, 1, .help = "Fraction of micrographs with a carbon edge"},
    {"drifted", PARAM_INT, AT(drifted), "", "0", 0, 99999, .help = "Number of micrographs smeared by drift"},
};
enum { TABLE_COUNT = sizeof table / sizeof *table };

static struct scene make_scene(const struct options *o) {
    double distance = isnan(o->min_distance) ? 1.15 * o->diameter : o->min_distance;
    return (struct scene){
        .seed = (uint64_t)o->seed,
        .size = o->size,
        .pixel_size = o->pixel_size,
        .particles = o->particles,
        .min_distance = distance / o->pixel_size,
        .margin = o->box / 2,
        .voltage = o->voltage,
        .spherical_aberration = o->spherical_aberration,
        .amplitude_contrast = o->amplitude_contrast,
        .b_factor = o->b_factor,
        .defocus_min = o->defocus_min,
        .defocus_max = o->defocus_max,
        .astigmatism = o->astigmatism,
        .counts = o->dose * o->pixel_size * o->pixel_size,
        .ice_noise = o->ice_noise,
        .contamination = o->contamination,
        .carbon = o->carbon,
        .drifted = o->drifted,
        .micrographs = o->micrographs,
        .signal = 1,
    };
}

/* Variance of the noise in counts²: the electrons', and what the CTF (mean square ½) lets through of the ice's. */
static double noise_variance(const struct scene *scene) {
    return scene->counts * (1 + 0.5 * scene->ice_noise);
}

/* The signal strength that gives the wanted ratio, from views at the middle of the defocus range. */
static enum status calibrate(const struct options *o, const struct phantom *phantom, struct scene *scene,
                             struct err *err) {
    enum { VIEWS = 8 };
    int box = 2 * o->box;
    _cleanup_(painter_destroy) struct painter *painter = NULL;
    _cleanup_(image_destroy) struct image view = {0};
    TRY(painter_create(box, box, &painter, err));
    TRY(image_resize(&view, box, box, 1, err));
    double focus = (o->defocus_min + o->defocus_max) / 2, variance = 0;
    struct layout layout = {.defocus_u = focus, .defocus_v = focus};
    for (int i = 0; i < VIEWS; i++) {
        double rows[3][3], sum = 0, squares = 0, count = 0;
        memset(view.data, 0, image_count(&view) * sizeof *view.data);
        truth_view(i, VIEWS, rows);
        phantom_project(phantom, rows, scene->pixel_size, box / 2, box / 2, 1, &view);
        painter_apply_ctf(painter, scene, &layout, &view);
        double radius = o->diameter / 2 / scene->pixel_size;
        for (int y = 0; y < box; y++)
            for (int x = 0; x < box; x++)
                if (hypot(x - box / 2, y - box / 2) < radius) {
                    double value = view.data[y * box + x];
                    sum += value;
                    squares += value * value;
                    count++;
                }
        variance += (squares / count - sum * sum / (count * count)) / VIEWS;
    }
    FAIL_IF(!(variance > 0), err, STATUS_BAD_ARGUMENT,
            "a particle of %g Å in a box of %d px of %g Å shows no signal: choose a larger box", o->diameter, o->box,
            o->pixel_size);
    scene->signal = sqrt(o->snr * noise_variance(scene) / variance);
    return STATUS_OK;
}

static void wait_until(double moment) {
    double seconds = moment - clock_monotonic();
    if (seconds <= 0) return;
    struct timespec time = {(time_t)seconds, (long)(1e9 * (seconds - floor(seconds)))};
    nanosleep(&time, NULL);
}

/* Each micrograph is made and lies ready, unseen, before its time comes. */
static enum status fill(const struct options *o, const struct scene *scene, const struct phantom *phantom,
                        const struct layout *layouts, struct err *err) {
    _cleanup_(painter_destroy) struct painter *painter = NULL;
    _cleanup_(image_destroy) struct image image = {0};
    TRY(painter_create(scene->size, scene->size, &painter, err));
    struct output output = {.format = (enum output_format)o->format,
                            .mode = (enum output_mode)o->mode,
                            .folder = o->folder,
                            .counts = scene->counts,
                            .grow_seconds = o->grow ? 0.5 * o->interval : 0,
                            .grow = o->grow};
    double start = clock_monotonic();
    for (int i = 0; i < scene->micrographs; i++) {
        TRY(painter_paint(painter, scene, phantom, &layouts[i], &image, err));
        TRY(output_prepare(&output, layouts[i].name, &image, err));
        wait_until(start + i * o->interval);
        TRY(output_release(&output, layouts[i].name, err));
    }
    return output_finish(&output, err);
}

static enum status simulate(const struct options *o, struct layout *layouts, struct err *err) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/truth", o->folder);
    FAIL_IF(length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", o->folder);
    FAIL_IF(o->box % 2 != 0, err, STATUS_BAD_ARGUMENT, "box is %d: an even number is needed", o->box);
    FAIL_IF(o->defocus_min > o->defocus_max, err, STATUS_BAD_ARGUMENT, "defocus_min %g is above defocus_max %g",
            o->defocus_min, o->defocus_max);
    FAIL_IF(o->size <= 2 * o->box, err, STATUS_BAD_ARGUMENT, "size %d is too small for boxes of %d px", o->size,
            o->box);
    TRY(file_make_folders(path, 0777, err));
    TRY(output_folders(o->folder, err));

    _cleanup_(phantom_destroy) struct phantom phantom = {0};
    struct scene scene = make_scene(o);
    TRY(phantom_create(scene.seed, o->diameter, &phantom, err));
    TRY(calibrate(o, &phantom, &scene, err));
    int particles = 0;
    for (int i = 0; i < scene.micrographs; i++) {
        TRY(layout_draw(&scene, phantom.radius / scene.pixel_size, i, &layouts[i], err));
        particles += layouts[i].particle_count;
    }
    int map_box = o->map_box == INT_MIN ? o->box : o->map_box;
    struct truth truth = {
        .folder = path,
        .ending = output_ending((enum output_format)o->format),
        .scene = &scene,
        .phantom = &phantom,
        .layouts = layouts,
        .box = o->box,
        .map_box = map_box,
        .map_pixel_size = isnan(o->map_pixel_size) ? o->pixel_size * o->box / map_box : o->map_pixel_size,
        .templates = o->templates,
        .lowpass = o->lowpass,
        .noise_sigma = sqrt(noise_variance(&scene)),
    };
    TRY(truth_write(&truth, err));
    printf("%d particles of %zu residues on %d micrographs; truth in %s\n", particles, phantom.count, scene.micrographs,
           path);
    fflush(stdout);
    return fill(o, &scene, &phantom, layouts, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct options options = {0};
    bool asked;
    enum status status = manual_print_plain(PROGRAM, SUMMARY, table, TABLE_COUNT, argc, argv, &asked, &err);
    if (status == STATUS_OK && asked) return 0;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s: %s\n\n", PROGRAM, SUMMARY);
        params_help(table, TABLE_COUNT, stdout);
        return 0;
    }
    if (status == STATUS_OK) status = params_defaults(table, TABLE_COUNT, &options, &err);
    if (status == STATUS_OK) status = arguments_read(table, TABLE_COUNT, &options, argc, argv, &err);
    int code = status == STATUS_OK ? 0 : 2;
    if (status == STATUS_OK) {
        struct layout *layouts = NULL;
        size_t count = (size_t)options.micrographs;
        status = mem_new(count, sizeof *layouts, "micrographs", &layouts, &err);
        if (status == STATUS_OK) status = simulate(&options, layouts, &err);
        for (size_t i = 0; layouts != NULL && i < count; i++)
            layout_destroy(&layouts[i]);
        mem_free(&layouts);
        code = status == STATUS_OK ? 0 : 1;
    }
    if (status != STATUS_OK) fprintf(stderr, "%s: %s\n", PROGRAM, err.message);
    params_clear(table, TABLE_COUNT, &options);
    return code;
}
