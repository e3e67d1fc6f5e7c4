/* Finds particles in micrographs of one shape with one set of templates, in two steps: the search computes maps of
 * scores (kernels/search), and the choice (choose.h) takes picks from these maps. This header is the search: it chooses
 * sizes, brings the templates to the micrograph's pixel size, and runs kernels/search. Lengths are in Å unless
 * noted. */
#ifndef ICESTREAM_STAGES_LOWPASS_PICKER_LOWPASS_PICKER_H
#define ICESTREAM_STAGES_LOWPASS_PICKER_LOWPASS_PICKER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/harness/params.h"
#include "common/status.h"
#include "kernels/search/search.h"
#include "stages/lowpass-picker/choose.h"
#include "stages/lowpass-picker/geometry.h"
#include "stages/lowpass-picker/templates.h"

struct stage_descriptor;

/* In the order of the parameters' choices. */
enum lowpass_picker_method { METHOD_AUTO, METHOD_TEMPLATE, METHOD_LOG };
enum lowpass_picker_whiten { WHITEN_AUTO, WHITEN_ON, WHITEN_OFF };

/* The options that a user sets (parameters.c). NULL or NaN: not set. */
struct lowpass_picker_options {
    enum lowpass_picker_method method;
    char *templates, *symmetry;
    char *templates_from;                  /* names of stages, with commas; NULL: none */
    char *templates_history;               /* of another session, to be repeated; NULL: none */
    double templates_pixel_size, diameter; /* Å */
    double lowpass;                        /* Å; 0: none */
    double angle_step;                     /* ° */
    char *threshold, *max_stddev_noise;    /* a number, or "auto" */
    struct param_floats log_diameter;      /* Å; none, or least and greatest */
    struct pick_rules rules;               /* all but the two numbers that may be "auto" */
    bool invert, ctf, write_png, keep_maps;
    char *from_maps;
    enum pick_size_rule size_rule;
    enum lowpass_picker_whiten whiten;
};

/* The task of one search: the user's options, and what the stage has settled. */
struct lowpass_picker_task {
    const struct lowpass_picker_options *options; /* not needed after lowpass_picker_create */
    enum picker_method method;
    bool whiten;       /* give all resolutions the same weight (kernels/search) */
    bool per_template; /* keep the maps of each template as well */
    int nx, ny;        /* micrograph, px */
    double pixel_size; /* Å, of the micrograph */
    int threads;       /* CPU */
    struct device device;
};

struct lowpass_picker;

/* Checks by the header alone that a micrograph can be picked: one image, with sides from PICK_WORK_LEAST to
 * PICK_SIDE_MOST px. */
enum status lowpass_picker_check_size(const char *path, int nx, int ny, int nz, struct err *err);

/* Memory of the host that a micrograph takes beside its pixels, in bytes. */
struct lowpass_picker_bytes {
    size_t maps;   /* for each micrograph in hand: its maps, and what the choice of picks works with */
    size_t search; /* for the search, once */
};
/* Estimates that memory, rather too much than too little. templates: their number; 0: round ones. */
struct lowpass_picker_bytes lowpass_picker_estimate(const struct lowpass_picker_task *task, int templates);

/* Creates a search. templates: used with PICKER_TEMPLATE only, and only during the call. PICKER_LOG searches with round
 * shapes (round_templates.h) instead. */
enum status lowpass_picker_create(const struct lowpass_picker_task *task, const struct picker_templates *templates,
                                  struct lowpass_picker **ret_picker, struct err *err);
void lowpass_picker_destroy(struct lowpass_picker **picker);
/* Returns the particle's diameter in Å: as set, or as measured in the templates. */
double lowpass_picker_diameter(const struct lowpass_picker *picker);

/* Fills `maps`, which starts as {0} and keeps its memory from search to search. input: ny × nx. ctf: NULL if not known;
 * LoG mode ignores it. seed: of the noise that fills the square around a micrograph that is not square. */
enum status lowpass_picker_search(struct lowpass_picker *picker, const struct search_input *input,
                                  const struct ctf *ctf, uint64_t seed, struct pick_maps *maps, struct err *err);

/* The stage as main.c and the tests run it (stage.c). */
extern const struct stage_descriptor lowpass_picker_stage;

#endif
