/* The numbers of exposures that the page shows: those that the field knows by name, and all others as they are. */
#include <math.h>
#include <string.h>

#include "pipelines/launcher/api/api_private.h"

struct known {
    const char *column; /* as the item has it; or that of which a derived one is made */
    const char *key, *label, *unit;
    double factor;    /* from the item's unit to `unit` */
    const char *good; /* "low", "high" or NULL */
    const char *same; /* key of the column that says the same, and is shown where an exposure has both; or NULL */
};
/* Motion in Å: RELION's columns of it are in pixels of the movie. */
static const struct known known[] = {
    {"rlnCtfMaxResolution", "res", "CTF resolution", "Å", 1, "low", NULL},
    {"rlnCtfAstigmatism", "astig", "Astigmatism", "nm", 0.1, "low", NULL},
    {"icestreamMotionTotal", "motion", "Total motion", "Å", 1, "low", NULL},
    {"icestreamMotionEarly", "early", "Early motion", "Å", 1, "low", NULL},
    {"icestreamMotionLate", "late", "Late motion", "Å", 1, "low", NULL},
    {"rlnAccumMotionTotal", "motionpx", "Total motion in pixels", "px", 1, "low", "motion"},
    {"rlnAccumMotionEarly", "earlypx", "Early motion in pixels", "px", 1, "low", "early"},
    {"rlnAccumMotionLate", "latepx", "Late motion in pixels", "px", 1, "low", "late"},
    {"rlnCtfIceRingDensity", "ice", "Ice ring density", "", 1, "low", NULL},
    {"picks.count", "picks", "Picks", "", 1, "high", NULL},
    {"icestreamPickCount", "pickcount", "Picks counted", "", 1, "high", "picks"},
    {"particles.count", "particles", "Particles", "", 1, "high", NULL},
    {"rlnCtfFigureOfMerit", "score", "CTF score", "", 1, "high", NULL},
    {"rlnDefocusU", "defocusu", "Defocus U", "µm", 1e-4, NULL, NULL},
    {"rlnDefocusV", "defocusv", "Defocus V", "µm", 1e-4, NULL, NULL},
    {"rlnDefocusAngle", "angle", "Astigmatism angle", "°", 1, NULL, NULL},
    {"rlnPhaseShift", "phase", "Phase shift", "°", 1, NULL, NULL},
    {"icestreamGainResidualSd", "gain", "Gain residual", "", 1, "low", NULL},
    {"icestreamPickThreshold", "threshold", "Pick threshold", "", 1, NULL, NULL},
    {"icestreamMaskedFraction", "masked", "Masked share", "%", 100, "low", NULL},
    {"icestreamTiltAngle", "tilt", "Tilt angle", "°", 1, "low", NULL},
    {"icestreamTiltAxis", "tiltaxis", "Tilt axis", "°", 1, NULL, NULL},
    {"tilt.angle", "stagetilt", "Tilt of the stage", "°", 1, NULL, NULL},
    {"score.crystal", "crystal", "Crystal score", "", 1, "high", NULL},
};
/* The first one, made of rlnDefocusU and V, where an item has both. */
static const struct known defocus = {NULL, "defocus", "Defocus", "µm", 1e-4, NULL, NULL};

static const struct known *find(const char *column) {
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].column, column) == 0) return &known[i];
    return NULL;
}

static bool has_defocus(const struct view *view) {
    return view_column_find(view, "rlnDefocusU") >= 0 && view_column_find(view, "rlnDefocusV") >= 0;
}

size_t api_column_count(const struct view *view) {
    return view_column_count(view) + (has_defocus(view) ? 1 : 0);
}

const char *api_column_key(const struct view *view, size_t column) {
    if (column == view_column_count(view)) return defocus.key;
    const char *name = view_column_name(view, column);
    const struct known *of = find(name);
    return of != NULL ? of->key : name;
}

double api_column_value(const struct view *view, size_t row, size_t column) {
    if (column < view_column_count(view)) return view_value(view, row, column);
    double u = view_value(view, row, (size_t)view_column_find(view, "rlnDefocusU"));
    double v = view_value(view, row, (size_t)view_column_find(view, "rlnDefocusV"));
    return (u + v) / 2;
}

/* Places are for the map of the grid; as a series they say nothing. */
bool api_column_shown(const struct view *view, size_t column) {
    return column >= view_column_count(view) || strncmp(view_column_name(view, column), "movie.stage_", 12) != 0;
}

static json_t *about(const struct known *of, const char *column) {
    return json_pack("{s:s, s:s?, s:s, s:s, s:f, s:s?, s:s?}", "key", of->key, "column", column, "label", of->label,
                     "unit", of->unit, "factor", of->factor, "good", of->good, "same", of->same);
}

json_t *api_columns_json(struct serve *serve) {
    const struct view *view = serve->view;
    json_t *columns = json_array();
    if (has_defocus(view)) json_array_append_new(columns, about(&defocus, NULL));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (view_column_find(view, known[i].column) >= 0)
            json_array_append_new(columns, about(&known[i], known[i].column));
    for (size_t i = 0; i < view_column_count(view); i++) {
        const char *name = view_column_name(view, i);
        const struct known other = {name, name, name, "", 1, NULL, NULL};
        if (find(name) == NULL && api_column_shown(view, i)) json_array_append_new(columns, about(&other, name));
    }
    return columns;
}
