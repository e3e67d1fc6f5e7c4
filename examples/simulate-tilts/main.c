/* icestream-simulate-tilts: a tilt series that needs no microscope, and the phantom that it was made of. Parameters:
 * --help. */
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
    {"o", PARAM_STRING, AT(folder), "", NULL, .required = true,
     .help = "Folder to fill: tilts/ with the series, truth/ with the phantom"},
    {"name", PARAM_STRING, AT(name), "", "ts", .help = "Of the series: NAME.st, NAME.rawtlt …"},
    {"size", PARAM_INT, AT(size), "px", "256", 16, 8192, .help = "Width and height of the images"},
    {"thickness", PARAM_INT, AT(thickness), "px", "64", 4, 4096, .help = "Of the phantom"},
    {"from", PARAM_FLOAT, AT(from), "°", "-60", -90, 90, .help = "Least tilt"},
    {"to", PARAM_FLOAT, AT(to), "°", "60", -90, 90, .help = "Greatest tilt"},
    {"step", PARAM_FLOAT, AT(step), "°", "3", 0.05, 90, .help = "From one tilt to the next"},
    {"files", PARAM_CHOICE, AT(files), "", "stack", .choices = "stack|single",
     .help = "A stack with .rawtlt and .mdoc, or a file for each tilt and an .mdoc that grows"},
    {"order", PARAM_CHOICE, AT(order), "", "angle", .choices = "angle|dose-symmetric",
     .help = "In which tilts are taken"},
    {"balls", PARAM_INT, AT(balls), "", "60", 0, 100000, .help = "Small balls, besides three large ones"},
    {"pixel_size", PARAM_FLOAT, AT(pixel_size), "Å", "10", 0.1, 1000, .help = "Of the images"},
    {"snr", PARAM_FLOAT, AT(snr), "", "0", 0, 1e9,
     .help = "Variance of the first projection over that of the noise; 0: no noise"},
    {"background", PARAM_FLOAT, AT(background), "", "0", -1e6, 1e6, .help = "Added to every pixel"},
    {"shift", PARAM_FLOAT, AT(shift), "px", "0", 0, 4096,
     .help = "Images lie up to so many px off; truth/NAME.xf undoes it"},
    {"interval", PARAM_FLOAT, AT(interval), "s", "0", 0, 86400, .help = "From one tilt to the next"},
    {"seed", PARAM_INT, AT(seed), "", "1", 0, INT_MAX, .help = "The same seed gives the same bytes"},
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
            "name '%s': a name without slashes is expected", o->name);
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
