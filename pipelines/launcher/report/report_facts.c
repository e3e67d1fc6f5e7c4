/* The session in a table, as a facility hands it out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/report/report_private.h"

static void fact(json_t *facts, const char *label, json_t *value) {
    if (value == NULL || json_is_null(value)) {
        json_decref(value);
        return;
    }
    json_array_append_new(facts, json_pack("{s:s, s:o}", "label", label, "value", value));
}

static json_t *shared(const json_t *value) {
    return value != NULL ? json_incref((json_t *)value) : NULL;
}

static json_t *with_unit(const json_t *value, const char *unit) {
    return json_is_number(value) ? json_sprintf("%.6g %s", json_number_value(value), unit) : NULL;
}

/* The shape of the first exposure. */
static void add_shape(struct report *report, json_t *facts) {
    json_t *json = NULL;
    if (view_row_count(report->view) == 0 || view_item(report->view, 0, &json, NULL) != STATUS_OK) return;
    const json_t *item = json_object_get(json, "item"), *movie = json_object_get(item, "movie");
    const json_t *shape = movie != NULL ? movie : json_object_get(item, "micrograph");
    json_int_t nx = json_integer_value(json_object_get(shape, "nx")),
               ny = json_integer_value(json_object_get(shape, "ny"));
    if (nx > 0 && ny > 0) fact(facts, "Size", json_sprintf("%lld × %lld px", (long long)nx, (long long)ny));
    if (json_is_integer(json_object_get(movie, "frames")))
        fact(facts, "Frames", shared(json_object_get(movie, "frames")));
    json_decref(json);
}

static json_t *three(const struct report *report, const char *key, const char *unit) {
    double least = report_quality_number(report, key, "least"), median = report_quality_number(report, key, "median"),
           most = report_quality_number(report, key, "most");
    return isfinite(median) ? json_sprintf("%.4g, %.4g, %.4g %s", least, median, most, unit) : NULL;
}

static void add_particles(struct report *report, json_t *facts) {
    const char *picker = report_stage_of(report, "lowpass-picker"), *extractor = report_stage_of(report, "extractor");
    const json_t *particles = json_object_get(report->data, "particles");
    const json_t *classes = json_object_get(report->data, "classes");
    if (picker != NULL) {
        fact(facts, "Picked by",
             json_string(report_value_of(report, picker, "templates") != NULL ? "templates" : "Laplacian of Gaussian"));
        fact(facts, "Diameter", with_unit(report_value_of(report, picker, "diameter"), "Å"));
        fact(facts, "Picks", shared(json_object_get(particles, "picked")));
    }
    if (extractor != NULL) fact(facts, "Particles extracted", shared(json_object_get(particles, "extracted")));
    if (classes != NULL) {
        fact(facts, "Particles kept", shared(json_object_get(particles, "kept")));
        fact(facts, "Classes kept",
             json_sprintf("%lld of %lld", (long long)json_integer_value(json_object_get(classes, "kept_classes")),
                          (long long)json_integer_value(json_object_get(classes, "classes"))));
    }
}

void report_add_facts(struct report *report) {
    json_t *facts = json_array();
    const json_t *session = json_object_get(report->data, "session"),
                 *exposures = json_object_get(report->data, "exposures");
    const json_t *version = json_object_get(json_object_get(report->data, "versions"), "icestream");
    const char *motion = report_stage_of(report, "motion-corrector");
    fact(facts, "Session", shared(json_object_get(session, "name")));
    fact(facts, "Folder", shared(json_object_get(session, "path")));
    fact(facts, "Begin (UTC)", shared(json_object_get(session, "first")));
    fact(facts, "End (UTC)", shared(json_object_get(session, "last")));
    fact(facts, "Hours", shared(json_object_get(session, "hours")));
    if (version != NULL) fact(facts, "Version", json_sprintf("icestream %s", json_string_value(version)));
    add_shape(report, facts);
    fact(facts, "Pixel size", with_unit(report_value_of(report, "session", "pixel_size"), "Å"));
    fact(facts, "Exposure of a frame", with_unit(report_value_of(report, motion, "dose_per_frame"), "e⁻/Å²"));
    fact(facts, "Voltage", with_unit(report_value_of(report, "session", "voltage"), "kV"));
    fact(facts, "Spherical aberration", with_unit(report_value_of(report, "session", "spherical_aberration"), "mm"));
    fact(facts, "Exposures used, rejected, failed",
         json_sprintf("%lld, %lld, %lld", (long long)json_integer_value(json_object_get(exposures, "done")),
                      (long long)json_integer_value(json_object_get(exposures, "rejected")),
                      (long long)json_integer_value(json_object_get(exposures, "failed"))));
    fact(facts, "CTF resolution: best, median, worst", three(report, "resolution", "Å"));
    fact(facts, "Defocus: least, median, most", three(report, "defocus", "µm"));
    add_particles(report, facts);
    json_object_set_new(report->data, "facts", facts);
}
