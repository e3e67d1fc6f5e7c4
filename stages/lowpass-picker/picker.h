/* The picking of one micrograph: what the kernels do, in order, for one shape of micrograph.
 * Template mode: normalise, transform, cut at the low-pass, local statistics, correlate, figure of merit, peaks.
 * LoG mode: the same with round shapes, Laplacians of Gaussians and high-passed spheres, as templates.
 * Lengths in Å unless said. */
#ifndef ICESTREAM_PICKER_H
#define ICESTREAM_PICKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "kernels/ctf/ctf.h"
#include "kernels/peaks/peaks.h"

enum picker_method { PICKER_TEMPLATE, PICKER_LOG };
enum picker_prune { PICKER_PRUNE_GREEDY, PICKER_PRUNE_RELION };

struct picker_settings {
    enum picker_method method;
    double pixel_size;
    double diameter;         /* of the particle; template mode: NaN takes it from the templates */
    double lowpass;          /* 0: none */
    double angle_step;       /* ° */
    double threshold;        /* NaN: from the micrograph's own peaks */
    double min_distance;     /* NaN: from the diameter */
    double max_stddev_noise; /* NaN: from the micrograph's own statistics; ≤ 0: off */
    double log_minimum, log_maximum;
    bool invert; /* particles darker than the ice, templates white */
    enum picker_prune prune;
    int threads;
};

struct picker_templates {
    const float *data; /* [count][box][box] */
    int box, count;
    double pixel_size;
};

/* A pick: centre in px of the micrograph (0-based), class from 1 (0: LoG), psi in degrees. */
struct pick {
    float x, y, merit, psi;
    int class_number;
};

struct pick_list {
    struct pick *items;
    size_t count, capacity;
    double threshold; /* that was used */
    double scale;     /* of the templates, that an automatic threshold found; else 1 */
};

void pick_list_destroy(struct pick_list *list);

struct picker;

/* templates: NULL in LoG mode; not needed any more when the call returns. */
enum status picker_create(const struct picker_settings *settings, const struct picker_templates *templates, int nx,
                          int ny, struct picker **ret_picker, struct err *err);
void picker_destroy(struct picker **picker);

/* micrograph: ny × nx; ctf may be NULL; seed: for the noise around a micrograph that is not square. `picks` keeps its
 * memory from call to call. */
enum status picker_run(struct picker *picker, const float *micrograph, const struct ctf *ctf, uint64_t seed,
                       struct pick_list *picks, struct err *err);

/* Of the last run, for pictures and tests. */
struct picker_view {
    int size, work;          /* square of the micrograph, and of the maps, px */
    int offset_x, offset_y;  /* of the micrograph in its square, px */
    double diameter;         /* px of the micrograph */
    double min_distance;     /* px of the micrograph */
    int template_count;
    const float *spectrum;   /* low-passed micrograph, work half plane, complex, factor 1/size² */
    const float *merit;      /* [template][work][work]: what peaks were sought in */
    const uint16_t *rotation; /* as merit */
    const float *mu, *sigma; /* work², or NULL in LoG mode */
    int rotations;
};
struct picker_view picker_view(const struct picker *picker);

#endif
