#include "examples/simulate/camera.h"

#include <math.h>
#include <stdlib.h>

#include "common/formats/mrc.h"
#include "common/memory.h"
#include "examples/simulate/random.h"

enum { BLOCKS_X = 8, BLOCKS_Y = 3 };
static const double PIXELS = 0.03, BLOCKS = 0.02, TREND = 0.06; /* parts of the response */
static const float HOT = 20;

void camera_destroy(struct camera *camera) {
    mem_free(&camera->gain);
    mem_free(&camera->response);
    mem_free(&camera->defects);
}

static void draw_response(const struct camera_task *task, struct random *random, struct camera *camera) {
    double block[BLOCKS_Y][BLOCKS_X];
    for (int y = 0; y < BLOCKS_Y; y++)
        for (int x = 0; x < BLOCKS_X; x++)
            block[y][x] = BLOCKS * random_normal(random);
    for (int y = 0; y < task->ny; y++)
        for (int x = 0; x < task->nx; x++) {
            size_t i = (size_t)y * (size_t)task->nx + (size_t)x;
            double u = (double)x / task->nx, v = (double)y / task->ny, value = 1;
            if (task->uneven)
                value += PIXELS * random_normal(random) +
                         block[(int)((long)y * BLOCKS_Y / task->ny)][(int)((long)x * BLOCKS_X / task->nx)] +
                         TREND * (u - 0.5) + 0.5 * TREND * (v * v - 1.0 / 3);
            camera->response[i] = (float)fmax(value, 0.5);
            camera->gain[i] = 1 / camera->response[i];
        }
}

static void break_pixel(struct camera *camera, int x, int y, enum camera_defect_kind kind) {
    size_t i = (size_t)y * (size_t)camera->nx + (size_t)x;
    camera->response[i] = kind == CAMERA_HOT ? HOT : 0;
    if (kind == CAMERA_DEAD) camera->gain[i] = 0;
    camera->defects[camera->defect_count++] = (struct camera_defect){x, y, kind};
}

enum status camera_create(const struct camera_task *task, struct camera *ret_camera, struct err *err) {
    static const enum camera_defect_kind kinds[] = {CAMERA_DEAD, CAMERA_HOT, CAMERA_DEAD, CAMERA_DEAD_LATER};
    _cleanup_(camera_destroy) struct camera camera = {.nx = task->nx, .ny = task->ny};
    size_t pixels = (size_t)task->nx * (size_t)task->ny;
    int single = (int)ceil(task->defects * (double)pixels / 1e6), column = task->defects > 0 ? task->ny / 8 : 0;
    TRY(mem_new_unset(pixels, sizeof *camera.gain, "a gain reference", &camera.gain, err));
    TRY(mem_new_unset(pixels, sizeof *camera.response, "a camera's response", &camera.response, err));
    TRY(mem_new((size_t)(single + column) + 1, sizeof *camera.defects, "broken pixels", &camera.defects, err));
    struct random random = random_stream(task->seed, 0, 5);
    draw_response(task, &random, &camera);
    for (int i = 0; i < single; i++) {
        int x = (int)(random_next(&random) % (uint64_t)task->nx), y = (int)(random_next(&random) % (uint64_t)task->ny);
        break_pixel(&camera, x, y, kinds[i % 4]);
    }
    int x = (int)(random_next(&random) % (uint64_t)task->nx), first = task->ny / 3;
    for (int y = first; y < first + column; y++)
        break_pixel(&camera, x, y, CAMERA_DEAD);
    *ret_camera = camera;
    camera = (struct camera){0};
    return STATUS_OK;
}

/* Returns where pixel (row, column) of the file lies in the camera. The file has `rows` rows. */
static size_t place_in_camera(const struct camera *camera, const struct camera_gain_file *file, int rows, int columns,
                              int row, int column) {
    int y = row, x = column;
    if (file->rotation == 1) y = column, x = rows - 1 - row;
    if (file->rotation == 2) y = rows - 1 - row, x = columns - 1 - column;
    if (file->rotation == 3) y = columns - 1 - column, x = row;
    if (file->flip == 1) y = camera->ny - 1 - y;
    if (file->flip == 2) x = camera->nx - 1 - x;
    return (size_t)y * (size_t)camera->nx + (size_t)x;
}

enum status camera_write_gain(const struct camera *camera, const struct camera_gain_file *file, const char *path,
                              struct err *err) {
    bool turned = file->rotation % 2 != 0;
    int rows = turned ? camera->nx : camera->ny, columns = turned ? camera->ny : camera->nx;
    _cleanup_(image_destroy) struct image image = {0};
    TRY(image_resize(&image, columns, rows, 1, err));
    for (int row = 0; row < rows; row++)
        for (int column = 0; column < columns; column++) {
            float gain = camera->gain[place_in_camera(camera, file, rows, columns, row, column)];
            image.data[(size_t)row * (size_t)columns + (size_t)column] = !file->response ? gain
                                                                         : gain > 0      ? 1 / gain
                                                                                         : 0;
        }
    return mrc_write(path, &image, MRC_IMAGE, MRC_FLOAT32, err);
}
