/* The methods paragraph, the papers behind the methods, and table 1, filled in as far as the session knows. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "pipelines/launcher/report/report_private.h"

struct writing {
    FILE *out;
    struct report *report;
    json_t *citations;
};

/* Papers behind the methods, as the stages' sources name them. */
static const struct {
    const char *kind, *text;
} papers[] = {
    {"motion-corrector", "Li et al., Nat. Methods 10, 584 (2013); Zheng et al., Nat. Methods 14, 331 (2017); Grant & "
                         "Grigorieff, eLife 4, e06980 (2015)"},
    {"ctf-estimator", "Rohou & Grigorieff, J. Struct. Biol. 192, 216 (2015); Zhang, J. Struct. Biol. 193, 1 (2016)"},
    {"lowpass-picker", "Roseman, Ultramicroscopy 94, 225 (2003)"},
    {"classifier", "Scheres, J. Struct. Biol. 180, 519 (2012)"},
    {"refiner", "Scheres, J. Struct. Biol. 180, 519 (2012); Scheres & Chen, Nat. Methods 9, 853 (2012); Rosenthal & "
                "Henderson, J. Mol. Biol. 333, 721 (2003); Chen et al., Ultramicroscopy 135, 24 (2013)"},
    {"tilt-reconstructor", "Mastronarde & Held, J. Struct. Biol. 197, 102 (2017)"},
    {"superposer", "Kabsch, Acta Cryst. A32, 922 (1976); Theobald, Acta Cryst. A61, 478 (2005)"},
};

const char *report_stage_of(const struct report *report, const char *kind) {
    size_t i;
    json_t *planned;
    json_array_foreach(json_object_get(view_plan(report->view), "stages"), i, planned) {
        const char *name = json_string_value(json_object_get(planned, "name"));
        const char *own = json_string_value(json_object_get(planned, "kind"));
        if (own == NULL) own = name;
        if (own != NULL && strcmp(own, kind) == 0 && !json_is_true(json_object_get(planned, "left_out"))) return name;
    }
    return NULL;
}

const json_t *report_value_of(const struct report *report, const char *stage, const char *key) {
    if (stage == NULL) return NULL;
    const json_t *graph = view_graph(report->view);
    const json_t *section = strcmp(stage, "session") == 0 ? json_object_get(graph, "session")
                                                          : json_object_get(json_object_get(graph, "stages"), stage);
    return json_object_get(section, key);
}

static const json_t *number_of(const struct report *report, const char *stage, const char *key) {
    const json_t *value = report_value_of(report, stage, key);
    return json_is_number(value) ? value : NULL;
}

static void say_number(FILE *out, const json_t *value, const char *before, const char *after) {
    if (value != NULL) fprintf(out, "%s%.6g%s", before, json_number_value(value), after);
}

static const json_t *quality_of(const struct report *report, const char *key) {
    size_t i;
    json_t *row;
    json_array_foreach(json_object_get(report->data, "quality"), i, row) {
        if (strcmp(json_string_value(json_object_get(row, "key")), key) == 0) return row;
    }
    return NULL;
}

double report_quality_number(const struct report *report, const char *key, const char *which) {
    const json_t *value = json_object_get(quality_of(report, key), which);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

static json_int_t count_of(const struct report *report, const char *part, const char *key) {
    return json_integer_value(json_object_get(json_object_get(report->data, part), key));
}

static void cite(struct writing *w, const char *kind) {
    for (size_t i = 0; i < sizeof papers / sizeof papers[0]; i++)
        if (strcmp(papers[i].kind, kind) == 0) json_array_append_new(w->citations, json_string(papers[i].text));
    fprintf(w->out, " [%zu]", json_array_size(w->citations));
}

static void say_recording(struct writing *w) {
    const struct report *r = w->report;
    const char *source = report_stage_of(r, "watcher"), *motion = report_stage_of(r, "motion-corrector");
    fprintf(w->out, "%lld %s were recorded", (long long)count_of(r, "exposures", "seen"),
            motion != NULL ? "movies" : "exposures");
    say_number(w->out, number_of(r, "session", "voltage"), " at ", " kV");
    say_number(w->out, number_of(r, "session", "pixel_size"), " with a pixel size of ", " Å");
    const json_t *frames = number_of(r, source, "frames"), *dose = number_of(r, motion, "dose_per_frame");
    if (dose == NULL) dose = number_of(r, source, "dose_per_frame");
    say_number(w->out, frames, " in ", " frames each");
    say_number(w->out, dose, ", with an exposure of ", " e⁻/Å² per frame");
    const char *version = json_string_value(json_object_get(json_object_get(r->data, "versions"), "icestream"));
    json_array_append_new(w->citations,
                          json_sprintf("icestream%s%s", version != NULL ? " " : "", version != NULL ? version : ""));
    fprintf(w->out, ", and processed during the recording by icestream%s%s [%zu].", version != NULL ? " " : "",
            version != NULL ? version : "", json_array_size(w->citations));
}

static void say_micrographs(struct writing *w) {
    const struct report *r = w->report;
    if (report_stage_of(r, "motion-corrector") != NULL) {
        bool weighted = number_of(r, report_stage_of(r, "motion-corrector"), "dose_per_frame") != NULL;
        fprintf(w->out, " Beam-induced motion was corrected%s",
                weighted ? ", and the frames were weighted by exposure" : "");
        cite(w, "motion-corrector");
        double motion = report_quality_number(r, "motion", "median");
        if (isfinite(motion)) fprintf(w->out, "; the total motion had a median of %.3g Å", motion);
        fputc('.', w->out);
    }
    if (report_stage_of(r, "ctf-estimator") == NULL) return;
    fprintf(w->out, " The contrast transfer function was fitted");
    cite(w, "ctf-estimator");
    double low = report_quality_number(r, "defocus", "p10"), high = report_quality_number(r, "defocus", "p90");
    double resolution = report_quality_number(r, "resolution", "median");
    if (isfinite(low)) fprintf(w->out, "; 80 %% of the defoci lie between %.3g and %.3g µm", low, high);
    if (isfinite(resolution)) fprintf(w->out, ", and the fits reach %.3g Å in the median", resolution);
    fputc('.', w->out);
    const json_t *rule;
    const char *picker = report_stage_of(r, "lowpass-picker");
    if (picker != NULL && (rule = report_value_of(r, picker, "reject_if")) != NULL && json_is_string(rule))
        fprintf(w->out, " Exposures with %s were rejected.", json_string_value(rule));
}

static void say_particles(struct writing *w) {
    const struct report *r = w->report;
    const char *picker = report_stage_of(r, "lowpass-picker"), *extractor = report_stage_of(r, "extractor");
    if (picker != NULL) {
        bool templates = report_value_of(r, picker, "templates") != NULL;
        fprintf(w->out, " %lld particles were picked %s", (long long)count_of(r, "particles", "picked"),
                templates ? "with templates" : "by Laplacian of Gaussian");
        if (templates) cite(w, "lowpass-picker");
        say_number(w->out, number_of(r, picker, "diameter"), ", with a diameter of ", " Å");
        if (extractor != NULL) {
            fprintf(w->out, ", and %lld extracted", (long long)count_of(r, "particles", "extracted"));
            say_number(w->out, number_of(r, extractor, "box"), " in boxes of ", " px");
            say_number(w->out, number_of(r, extractor, "downscale_to"), " scaled to ", " px");
        }
        fputc('.', w->out);
    }
    const json_t *classes = json_object_get(r->data, "classes");
    if (classes != NULL) {
        fprintf(w->out, " Two-dimensional classification in %lld classes",
                (long long)json_integer_value(json_object_get(classes, "classes")));
        cite(w, "classifier");
        fprintf(w->out, " kept %lld of %lld particles in %lld classes.",
                (long long)json_integer_value(json_object_get(classes, "kept")),
                (long long)json_integer_value(json_object_get(classes, "particles")),
                (long long)json_integer_value(json_object_get(classes, "kept_classes")));
    }
}

static void say_map(struct writing *w) {
    const struct report *r = w->report;
    const json_t *map = json_object_get(r->data, "map");
    if (map == NULL) return;
    const json_t *symmetry = report_value_of(r, json_string_value(json_object_get(map, "stage")), "symmetry");
    fprintf(w->out, " %lld particles were refined", (long long)json_integer_value(json_object_get(map, "particles")));
    fprintf(w->out, " with symmetry %s", json_is_string(symmetry) ? json_string_value(symmetry) : "C1");
    cite(w, "refiner");
    if (json_is_true(json_object_get(map, "noise")))
        fprintf(w->out, "; the images show no signal of the reference, and the map has no resolution");
    else if (report_unresolved(map) != NULL)
        fprintf(w->out, "; nothing shows that the map is that of the particles, and it has no resolution");
    say_number(w->out, json_object_get(map, "resolution"), " to ",
               " Å by the gold-standard Fourier shell correlation of unmasked half maps at 0.143");
    say_number(w->out, json_object_get(map, "corrected_resolution"), " (", " Å with a mask, corrected for its effect)");
    fputc('.', w->out);
}

static void say_others(struct writing *w) {
    if (report_stage_of(w->report, "tilt-reconstructor") != NULL) {
        fprintf(w->out, " Tomograms were aligned and reconstructed during the recording");
        cite(w, "tilt-reconstructor");
        fputc('.', w->out);
    }
    if (report_stage_of(w->report, "superposer") != NULL) {
        fprintf(w->out, " Structures were superposed and clustered");
        cite(w, "superposer");
        fputc('.', w->out);
    }
}

/* ---- table 1 ---- */

static void row(json_t *table, const char *label, json_t *value) {
    json_array_append_new(table, json_pack("{s:s, s:o}", "label", label, "value", value != NULL ? value : json_null()));
}

static json_t *shared(const json_t *value) {
    return value != NULL ? json_incref((json_t *)value) : NULL;
}

static json_t *range(double low, double high) {
    return isfinite(low) && isfinite(high) ? json_sprintf("%.2f to %.2f", low, high) : NULL;
}

static void add_table(struct report *report) {
    json_t *table = json_array();
    const char *source = report_stage_of(report, "watcher"), *motion = report_stage_of(report, "motion-corrector");
    const char *extractor = report_stage_of(report, "extractor");
    const json_t *map = json_object_get(report->data, "map"), *particles = json_object_get(report->data, "particles");
    const char *refiner = json_string_value(json_object_get(map, "stage"));
    const json_t *frames = number_of(report, source, "frames"), *dose = number_of(report, motion, "dose_per_frame");
    const json_t *symmetry = refiner != NULL ? report_value_of(report, refiner, "symmetry") : NULL;
    row(table, "Microscope", NULL);
    row(table, "Detector", NULL);
    row(table, "Voltage (kV)", shared(number_of(report, "session", "voltage")));
    row(table, "Spherical aberration (mm)", shared(number_of(report, "session", "spherical_aberration")));
    row(table, "Pixel size (Å)", shared(number_of(report, "session", "pixel_size")));
    row(table, "Electron exposure (e⁻/Å²)",
        frames != NULL && dose != NULL ? report_number(json_number_value(frames) * json_number_value(dose), 2) : NULL);
    row(table, "Frames per exposure", shared(frames));
    row(table, "Defocus range (µm)",
        range(report_quality_number(report, "defocus", "p10"), report_quality_number(report, "defocus", "p90")));
    row(table, "Exposures recorded", json_integer(count_of(report, "exposures", "seen")));
    row(table, "Exposures used", json_integer(count_of(report, "exposures", "done")));
    row(table, "Box (px)", shared(number_of(report, extractor, "box")));
    row(table, "Initial particles", json_integer(count_of(report, "particles", "extracted")));
    row(table, "Final particles", shared(json_object_get(particles, map != NULL ? "in_map" : "kept")));
    row(table, "Symmetry imposed", map == NULL ? NULL : symmetry != NULL ? shared(symmetry) : json_string("C1"));
    row(table, "Map resolution, unmasked (Å)", shared(json_object_get(map, "resolution")));
    row(table, "Map resolution, masked and corrected (Å)", shared(json_object_get(map, "corrected_resolution")));
    row(table, "FSC threshold", map != NULL ? json_string("0.143") : NULL);
    row(table, "Sharpening B factor (Å²)", shared(json_object_get(map, "b_factor")));
    json_object_set_new(report->data, "table1", table);
}

void report_add_methods(struct report *report) {
    char *text = NULL;
    size_t length = 0;
    struct writing w = {.out = open_memstream(&text, &length), .report = report, .citations = json_array()};
    if (w.out != NULL) {
        say_recording(&w);
        say_micrographs(&w);
        say_particles(&w);
        say_map(&w);
        say_others(&w);
        fclose(w.out);
    }
    report->failed |= text == NULL;
    json_object_set_new(report->data, "methods", json_value_text(text));
    json_object_set_new(report->data, "citations", w.citations);
    free(text);
    add_table(report);
}
