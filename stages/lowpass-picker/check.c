#include "stages/lowpass-picker/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/image_formats.h"
#include "stages/lowpass-picker/follow.h"
#include "stages/lowpass-picker/from_maps.h"
#include "stages/lowpass-picker/lowpass_picker.h"
#include "stages/lowpass-picker/parameters.h"

enum status check_number_or_auto(const char *name, const char *text, double *ret_value, struct err *err) {
    if (text == NULL || strcmp(text, "auto") == 0) {
        *ret_value = NAN;
        return STATUS_OK;
    }
    char *end = NULL;
    double value = strtod(text, &end);
    FAIL_IF(end == text || *end != '\0' || !isfinite(value), err, STATUS_BAD_ARGUMENT,
            "%s is \"%s\": expected a number or auto", name, text);
    *ret_value = value;
    return STATUS_OK;
}

/* Checks the header of the templates; their pixels are read at the start. */
static void check_templates(const char *path, struct stage_checks *checks) {
    struct image_info info;
    struct err err = {0};
    enum status status = image_probe(path, &info, &err);
    if (status != STATUS_OK) status = err_context(&err, status, "templates");
    if (!stage_checks_result(checks, "templates", status, &err)) return;
    if (info.nx != info.ny || info.nx < 8)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "templates",
                         "templates %s have %d × %d px: square images of 8 px or more are expected", path, info.nx,
                         info.ny);
}

/* Templates that come later change the scale of all scores, and are compared by whitened ones. */
static void check_followed(const struct lowpass_picker_options *p, struct stage_checks *checks) {
    struct err err = {0};
    if (p->templates_from == NULL) {
        if (p->templates_history != NULL)
            stage_checks_add(checks, STAGE_CHECK_ERROR, "templates_history",
                             "templates_history repeats what templates_from has done: set templates_from too");
        return;
    }
    (void)stage_checks_result(checks, "templates_from", follow_check(p->templates_from, &err), &err);
    if (p->method == METHOD_LOG)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "templates_from",
                         "templates_from replaces LoG by templates, but method is log: leave one of them out");
    if (p->threshold != NULL && strcmp(p->threshold, "auto") != 0)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "threshold",
                         "threshold is %s, but with templates_from the scale of scores changes: leave it at auto",
                         p->threshold);
    if (p->whiten == WHITEN_OFF || p->rules.prune == PICK_PRUNE_RELION || p->size_rule == PICK_SIZES_RELION)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "templates_from",
                         "templates_from needs whitened micrographs: leave out whiten: off, prune: relion and "
                         "size_rule: relion");
}

void lowpass_picker_check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    (void)session;
    const struct lowpass_picker_options *p = params;
    double value;
    struct err err = {0};
    (void)stage_checks_result(checks, "threshold", check_number_or_auto("threshold", p->threshold, &value, &err), &err);
    (void)stage_checks_result(checks, "max_stddev_noise",
                              check_number_or_auto("max_stddev_noise", p->max_stddev_noise, &value, &err), &err);
    check_followed(p, checks);
    if (p->from_maps != NULL) {
        (void)stage_checks_result(checks, "from_maps", from_maps_check(p, &err), &err);
        return;
    }
    if (p->method == METHOD_TEMPLATE && p->templates == NULL)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "method",
                         "method is template but there are no templates: set templates, or method: log");
    if (p->templates != NULL && p->method != METHOD_LOG) check_templates(p->templates, checks);
    if (p->method == METHOD_TEMPLATE || (p->method == METHOD_AUTO && p->templates != NULL)) return;
    if (p->log_diameter.count == 0 && isnan(p->diameter))
        stage_checks_add(checks, STAGE_CHECK_ERROR, "diameter",
                         "without templates the particle's size must be known: set diameter, or log_diameter: [least, "
                         "greatest], in Å");
    if (p->log_diameter.count == 2 && p->log_diameter.values[0] > p->log_diameter.values[1])
        stage_checks_add(checks, STAGE_CHECK_ERROR, "log_diameter", "log_diameter is [%g, %g]: the least comes first",
                         p->log_diameter.values[0], p->log_diameter.values[1]);
}
