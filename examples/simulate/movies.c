#include "examples/simulate/movies.h"

#include <math.h>
#include <stdlib.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#include "common/clock.h"
#include "common/files.h"
#include "common/memory.h"
#include "examples/simulate/camera.h"
#include "examples/simulate/drift.h"
#include "examples/simulate/movie_files.h"
#include "examples/simulate/movie_truth.h"
#include "examples/simulate/random.h"

static const double DRIFTED = 60; /* Å, the way of movies that drift too far */

struct studio {
    const struct simulate_options *options;
    const struct scene *scene;
    const struct phantom *phantom;
    struct movie_truth truth;
    int margin_x, margin_y;
    struct camera camera;
    struct painter *painter;
    struct exposure *exposure;
    struct movie_file *file;
    struct exposure_shift *shifts; /* [frames] */
    struct image canvas;
    struct device device;
    uint16_t *counts; /* a frame, which the device copies at full speed */
};

static void close_studio(struct studio *s) {
    camera_destroy(&s->camera);
    painter_destroy(&s->painter);
    exposure_destroy(&s->exposure);
    movie_file_destroy(&s->file);
    image_destroy(&s->canvas);
    free(s->shifts);
    device_host_free(&s->device, &s->counts);
}

static int all_threads(int wanted) {
#ifdef _OPENMP
    return wanted > 0 ? wanted : omp_get_max_threads();
#else
    return wanted > 0 ? wanted : 1;
#endif
}

/* Returns a margin that the motion never crosses and that makes the side good to transform. */
static int margin_of(const struct simulate_options *o, int side) {
    double way = (o->drifted > 0 ? fmax(o->drift, DRIFTED) : o->drift) + 2 * o->doming + 8 * o->jitter;
    int least = EXPOSURE_REACH + (int)ceil(way / o->pixel_size);
    return (fft_good_size(side + 2 * least) - side) / 2;
}

static enum status make_camera(struct studio *s, struct err *err) {
    const struct simulate_options *o = s->options;
    const struct camera_task task = {
        .seed = (uint64_t)o->seed, .nx = s->scene->nx, .ny = s->scene->ny, .uneven = o->uneven, .defects = o->defects};
    TRY(camera_create(&task, &s->camera, err));
    TRY(movie_truth_camera(&s->truth, &s->camera, err));
    if (s->truth.gain == NULL) return STATUS_OK;
    char path[PATH_MAX];
    TRY(path_join(o->folder, s->truth.gain, path, sizeof path, err));
    return camera_write_gain(&s->camera, &s->truth.gain_file, path, err);
}

static enum status open_studio(struct studio *s, struct err *err) {
    const struct simulate_options *o = s->options;
    int nx = s->scene->nx, ny = s->scene->ny, threads = all_threads(o->threads);
    s->margin_x = margin_of(o, nx);
    s->margin_y = margin_of(o, ny);
    struct exposure_task exposure = {
        .nx = nx, .ny = ny, .margin_x = s->margin_x, .margin_y = s->margin_y, .threads = threads};
    struct movie_file_task file = {.format = (enum movie_file_format)o->format,
                                   .mode = o->mode == 1   ? MOVIE_FILE_FLOAT
                                           : o->mode == 2 ? MOVIE_FILE_UINT16
                                                          : MOVIE_FILE_INT8,
                                   .nx = nx,
                                   .ny = ny,
                                   .frames = o->frames,
                                   .pixel_size = o->pixel_size,
                                   .eer_group = o->eer_group,
                                   .threads = threads};
    TRY(device_parse(o->device, &s->device, err));
    exposure.device = s->device;
    TRY(make_camera(s, err));
    TRY(painter_create(nx + 2 * s->margin_x, ny + 2 * s->margin_y, &s->painter, err));
    TRY(exposure_create(&exposure, &s->exposure, err));
    TRY(movie_file_create(&file, &s->file, err));
    TRY(mem_new((size_t)o->frames, sizeof *s->shifts, "shifts", &s->shifts, err));
    return device_host_new(&s->device, (size_t)nx * (size_t)ny, sizeof *s->counts, "a frame", &s->counts, err);
}

/* Paints the specimen of a movie, as it lies in the first frame, in electrons of all frames. */
static enum status paint(struct studio *s, struct layout *layout, struct err *err) {
    struct layout still = *layout;
    still.drift_x = still.drift_y = 0; /* frames do not smear: the movie moves */
    layout_move(&still, s->margin_x, s->margin_y);
    enum status status = painter_expect(s->painter, s->scene, s->phantom, &still, &s->canvas, err);
    layout_move(&still, -s->margin_x, -s->margin_y);
    return status;
}

static enum status make_movie(struct studio *s, struct layout *layout, const struct output *output, struct err *err) {
    const struct simulate_options *o = s->options;
    struct random random = random_stream(s->scene->seed, (uint64_t)layout->index, 7);
    bool drifted = hypot(layout->drift_x, layout->drift_y) > 0;
    const struct drift_scene drift = {.frames = o->frames,
                                      .way = (drifted ? DRIFTED : o->drift) / o->pixel_size,
                                      .doming = o->doming / o->pixel_size,
                                      .jitter = o->jitter / o->pixel_size};
    drift_draw(&drift, &random, s->shifts);
    TRY(movie_truth_motion(&s->truth, layout, s->shifts, err));
    TRY(paint(s, layout, err));
    TRY(movie_truth_sum(&s->truth, layout, &s->canvas, err));
    size_t count = image_count(&s->canvas);
#pragma omp parallel for
    for (size_t i = 0; i < count; i++)
        s->canvas.data[i] /= (float)o->frames;
    TRY(exposure_take(s->exposure, s->canvas.data, s->camera.response, err));
    char path[PATH_MAX];
    TRY(output_hidden(output, layout->name, path, err));
    TRY(movie_file_begin(s->file, path, random_next(&random), err));
    for (int j = 0; j < o->frames; j++) {
        TRY(exposure_run(s->exposure, &s->shifts[j], random_next(&random), s->counts, err));
        TRY(movie_file_append(s->file, s->counts, err));
    }
    return movie_file_finish(s->file, err);
}

enum status movies_fill(const struct simulate_options *o, const struct scene *scene, const struct phantom *phantom,
                        struct layout *layouts, const struct output *output, struct err *err) {
    bool eer = o->format == MOVIE_FILE_EER;
    _cleanup_(close_studio) struct studio studio = {
        .options = o,
        .scene = scene,
        .phantom = phantom,
        .truth = {.folder = o->folder,
                  .ending = movie_file_ending((enum movie_file_format)o->format),
                  .scene = scene,
                  .frames = o->frames,
                  .gain = o->uneven || o->defects > 0 ? "gain.mrc" : NULL,
                  .gain_file = {.rotation = o->gain_rotation, .flip = o->gain_flip, .response = eer},
                  .eer_group = eer ? o->eer_group : 0},
    };
    TRY(open_studio(&studio, err));
    TRY(movie_truth_list(&studio.truth, layouts, err));
    double start = clock_monotonic();
    for (int i = 0; i < scene->micrographs; i++) {
        TRY(make_movie(&studio, &layouts[i], output, err));
        output_wait(start + i * o->interval);
        TRY(output_release(output, layouts[i].name, err));
    }
    return output_finish(output, err);
}
