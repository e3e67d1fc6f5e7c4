/* icestream-simulate-tilts: simulates a tilt series, and writes the phantom that the series shows. --help lists the
 * parameters. */
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/harness/manual.h"
#include "common/harness/params.h"
#include "common/memory.h"
#include "examples/simulate-tilts/balls.h"
#include "examples/simulate-tilts/series_files.h"
#include "examples/simulate/arguments.h"

struct options {
    char *folder, *name;
    int size, thickness, balls, seed, files, order;
    double from, to, step, pixel_size, snr, background, shift, interval;
};

#define PROGRAM "icestream-simulate-tilts"
#define SUMMARY "makes a tilt series of balls, and the phantom that the series shows"

#define AT(member) offsetof(struct options, member)
static const struct param table[] = {
    {.name = "o",
     .type = PARAM_STRING,
     .offset = AT(folder),
     .required = true,
     .help = "Folder to fill: tilts/ with the series, truth/ with the phantom."},
    {.name = "name",
     .type = PARAM_STRING,
     .offset = AT(name),
     .default_text = "ts",
     .help = "Name of the series, as in NAME.st and NAME.rawtlt."},
    {.name = "size",
     .type = PARAM_INT,
     .offset = AT(size),
     .unit = "px",
     .default_text = "256",
     .minimum = 16,
     .maximum = 8192,
     .help = "Width and height of the images."},
    {.name = "thickness",
     .type = PARAM_INT,
     .offset = AT(thickness),
     .unit = "px",
     .default_text = "64",
     .minimum = 4,
     .maximum = 4096,
     .help = "Thickness of the phantom."},
    {.name = "from",
     .type = PARAM_FLOAT,
     .offset = AT(from),
     .unit = "°",
     .default_text = "-60",
     .minimum = -90,
     .maximum = 90,
     .help = "Least tilt."},
    {.name = "to",
     .type = PARAM_FLOAT,
     .offset = AT(to),
     .unit = "°",
     .default_text = "60",
     .minimum = -90,
     .maximum = 90,
     .help = "Greatest tilt."},
    {.name = "step",
     .type = PARAM_FLOAT,
     .offset = AT(step),
     .unit = "°",
     .default_text = "3",
     .minimum = 0.05,
     .maximum = 90,
     .help = "Step from one tilt to the next."},
    {.name = "files",
     .type = PARAM_CHOICE,
     .offset = AT(files),
     .default_text = "stack",
     .choices = "stack|single",
     .help = "Files to write: a stack with .rawtlt and .mdoc, or a file for each tilt and an .mdoc that grows."},
    {.name = "order",
     .type = PARAM_CHOICE,
     .offset = AT(order),
     .default_text = "angle",
     .choices = "angle|dose-symmetric",
     .help = "Order in which tilts are taken."},
    {.name = "balls",
     .type = PARAM_INT,
     .offset = AT(balls),
     .default_text = "60",
     .maximum = 100000,
     .help = "Number of small balls, besides three large ones."},
    {.name = "pixel_size",
     .type = PARAM_FLOAT,
     .offset = AT(pixel_size),
     .unit = "Å",
     .default_text = "10",
     .minimum = 0.1,
     .maximum = 1000,
     .help = "Pixel size of the images."},
    {.name = "snr",
     .type = PARAM_FLOAT,
     .offset = AT(snr),
     .default_text = "0",
     .maximum = 1e9,
     .help = "Variance of the first projection over that of the noise; 0: no noise."},
    {.name = "background",
     .type = PARAM_FLOAT,
     .offset = AT(background),
     .default_text = "0",
     .minimum = -1e6,
     .maximum = 1e6,
     .help = "Value that is added to every pixel."},
    {.name = "shift",
     .type = PARAM_FLOAT,
     .offset = AT(shift),
     .unit = "px",
     .default_text = "0",
     .maximum = 4096,
     .help = "Largest shift of an image; truth/NAME.xf undoes the shifts."},
    {.name = "interval",
     .type = PARAM_FLOAT,
     .offset = AT(interval),
     .unit = "s",
     .default_text = "0",
     .maximum = 86400,
     .help = "Time from one tilt to the next."},
    {.name = "seed",
     .type = PARAM_INT,
     .offset = AT(seed),
     .default_text = "1",
     .maximum = INT_MAX,
     .help = "Seed of the random numbers: the same seed gives the same bytes."},
};
enum { TABLE_COUNT = sizeof table / sizeof *table };

static enum status write_phantom(const struct options *o, const struct balls *balls, struct err *err) {
    _cleanup_(image_destroy) struct image volume = {0};
    char path[PATH_SIZE];
    int used = snprintf(path, sizeof path, "%s/truth", o->folder);
    FAIL_IF(used >= (int)sizeof path - (int)strlen(o->name) - 8, err, STATUS_BAD_ARGUMENT, "%s: the path is too long",
            o->folder);
    TRY(file_make_folders(path, 0777, err));
    memcpy(path + used - strlen("truth"), "tilts", strlen("tilts"));
    TRY(file_make_folders(path, 0777, err));
    memcpy(path + used - strlen("truth"), "truth", strlen("truth"));
    snprintf(path + used, sizeof path - (size_t)used, "/%s.mrc", o->name);
    TRY(image_resize(&volume, o->size, o->size, o->thickness, err));
    volume.pixel_size = (float)o->pixel_size;
    balls_volume(balls, &volume);
    return mrc_write(path, &volume, MRC_VOLUME, MRC_FLOAT32, err);
}

static enum status simulate(const struct options *o, struct err *err) {
    _cleanup_(balls_destroy) struct balls balls = {0};
    _cleanup_(mem_free) double *angles = NULL;
    int count;
    FAIL_IF(o->name[0] == '\0' || strchr(o->name, '/') != NULL, err, STATUS_BAD_ARGUMENT,
            "name is '%s'; it must be a name without slashes", o->name);
    TRY(tilt_scheme(o->from, o->to, o->step, o->order == 1, &angles, &count, err));
    TRY(balls_create((uint64_t)o->seed, o->balls, o->size, o->size, o->thickness, &balls, err));
    TRY(write_phantom(o, &balls, err));
    struct series_files_options files = {.folder = o->folder,
                                         .name = o->name,
                                         .pixel_size = o->pixel_size,
                                         .interval = o->interval,
                                         .snr = o->snr,
                                         .background = o->background,
                                         .shift = o->shift,
                                         .seed = (uint64_t)o->seed,
                                         .nx = o->size,
                                         .ny = o->size,
                                         .single = o->files == 1};
    return series_files_write(&files, &balls, angles, count, err);
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
        status = simulate(&options, &err);
        code = status == STATUS_OK ? 0 : 1;
    }
    if (status != STATUS_OK) fprintf(stderr, "%s: %s\n", PROGRAM, err.message);
    params_clear(table, TABLE_COUNT, &options);
    return code;
}
