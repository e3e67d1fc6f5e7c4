/* icestream-simulate: simulates a session at the microscope. A folder fills with micrographs, or movies, of an invented
 * protein at a pace that the user sets; the truth about them lies beside it. --help lists the parameters. */
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
#include "examples/simulate/movie_files.h"
#include "examples/simulate/movies.h"
#include "examples/simulate/output.h"
#include "examples/simulate/parameters.h"
#include "examples/simulate/truth.h"

#define PROGRAM "icestream-simulate"
#define SUMMARY "fills a folder with micrographs, or movies, of an invented protein, and writes the truth about them"

static struct scene make_scene(const struct simulate_options *o) {
    double distance = isnan(o->min_distance) ? 1.15 * o->diameter : o->min_distance;
    return (struct scene){
        .seed = (uint64_t)o->seed,
        .nx = o->size,
        .ny = o->height,
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
        .facetted = o->facetted,
        .carbon = o->carbon,
        .drifted = o->drifted,
        .micrographs = o->micrographs,
        .movies = o->movies,
        .signal = 1,
    };
}

/* Returns the variance of the noise in counts²: the electrons' own, and the part of the ice's that passes the CTF (mean
 * square ½). */
static double noise_variance(const struct scene *scene) {
    return scene->counts * (1 + 0.5 * scene->ice_noise);
}

/* Sets the signal strength that gives the wanted ratio, from views at the middle of the defocus range. */
static enum status calibrate(const struct simulate_options *o, const struct phantom *phantom, struct scene *scene,
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

/* Makes each micrograph before its time comes; until then the file lies ready in a hidden folder. */
static enum status fill(const struct simulate_options *o, const struct scene *scene, const struct phantom *phantom,
                        const struct layout *layouts, const struct output *output, struct err *err) {
    _cleanup_(painter_destroy) struct painter *painter = NULL;
    _cleanup_(image_destroy) struct image image = {0};
    TRY(painter_create(scene->nx, scene->ny, &painter, err));
    double start = clock_monotonic();
    for (int i = 0; i < scene->micrographs; i++) {
        TRY(painter_paint(painter, scene, phantom, &layouts[i], &image, err));
        TRY(output_prepare(output, layouts[i].name, &image, err));
        output_wait(start + i * o->interval);
        TRY(output_release(output, layouts[i].name, err));
    }
    return output_finish(output, err);
}

/* Fills in what was not given. */
static void choose_defaults(struct simulate_options *o) {
    if (isnan(o->pixel_size)) o->pixel_size = o->movies ? 1 : 2.5;
    if (o->height == INT_MIN) o->height = o->size;
    if (o->box != INT_MIN) return;
    int least = o->size < o->height ? o->size : o->height, wanted = (int)lround(120 / o->pixel_size) * 2;
    int fits = (least / 2 - 1) / 2 * 2;
    o->box = !o->movies ? 96 : wanted < fits ? wanted : fits;
}

static enum status simulate(const struct simulate_options *o, struct layout *layouts, struct err *err) {
    char path[PATH_MAX];
    int length = snprintf(path, sizeof path, "%s/truth", o->folder);
    FAIL_IF(length >= (int)sizeof path, err, STATUS_BAD_ARGUMENT, "%s: the path is too long", o->folder);
    FAIL_IF(o->box % 2 != 0, err, STATUS_BAD_ARGUMENT, "box is %d; it must be even", o->box);
    FAIL_IF(o->defocus_min > o->defocus_max, err, STATUS_BAD_ARGUMENT, "defocus_min %g is above defocus_max %g",
            o->defocus_min, o->defocus_max);
    int least = o->size < o->height ? o->size : o->height;
    FAIL_IF(least <= 2 * o->box, err, STATUS_BAD_ARGUMENT, "size %d is too small for boxes of %d px", least, o->box);
    FAIL_IF(o->movies && (o->size % 2 != 0 || o->height % 2 != 0), err, STATUS_BAD_ARGUMENT,
            "movies of %d × %d px: both sides must be even", o->size, o->height);
    FAIL_IF(!o->movies && o->format == MOVIE_FILE_EER, err, STATUS_BAD_ARGUMENT,
            "format eer is for movies: add --movies");

    _cleanup_(phantom_destroy) struct phantom phantom = {0};
    struct scene scene = make_scene(o);
    struct output output = {.format = (enum output_format)o->format,
                            .mode = o->mode > 0 ? (enum output_mode)(o->mode - 1) : OUTPUT_FLOAT,
                            .folder = o->folder,
                            .names = o->movies ? "movies" : "micrographs",
                            .ending = o->movies ? movie_file_ending((enum movie_file_format)o->format)
                                                : output_ending((enum output_format)o->format),
                            .counts = scene.counts,
                            .grow_seconds = o->grow ? 0.5 * o->interval : 0,
                            .grow = o->grow};
    TRY(file_make_folders(path, 0777, err));
    TRY(output_folders(&output, err));
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
        .names = output.names,
        .ending = output.ending,
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
    printf("%d particles of %zu residues on %d %s; truth in %s\n", particles, phantom.count, scene.micrographs,
           output.names, path);
    fflush(stdout);
    if (o->movies) return movies_fill(o, &scene, &phantom, layouts, &output, err);
    return fill(o, &scene, &phantom, layouts, &output, err);
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct simulate_options options = {0};
    bool asked;
    enum status status =
        manual_print_plain(PROGRAM, SUMMARY, simulate_parameters, SIMULATE_PARAMETERS, argc, argv, &asked, &err);
    if (status == STATUS_OK && asked) return 0;
    if (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        printf("%s: %s\n\n", PROGRAM, SUMMARY);
        params_help(simulate_parameters, SIMULATE_PARAMETERS, stdout);
        return 0;
    }
    if (status == STATUS_OK) status = params_defaults(simulate_parameters, SIMULATE_PARAMETERS, &options, &err);
    if (status == STATUS_OK)
        status = arguments_read(simulate_parameters, SIMULATE_PARAMETERS, &options, argc, argv, &err);
    int code = status == STATUS_OK ? 0 : 2;
    if (status == STATUS_OK) {
        struct layout *layouts = NULL;
        choose_defaults(&options);
        size_t count = (size_t)options.micrographs;
        status = mem_new(count, sizeof *layouts, "micrographs", &layouts, &err);
        if (status == STATUS_OK) status = simulate(&options, layouts, &err);
        for (size_t i = 0; layouts != NULL && i < count; i++)
            layout_destroy(&layouts[i]);
        mem_free(&layouts);
        code = status == STATUS_OK ? 0 : 1;
    }
    if (status != STATUS_OK) fprintf(stderr, "%s: %s\n", PROGRAM, err.message);
    params_clear(simulate_parameters, SIMULATE_PARAMETERS, &options);
    return code;
}
