/* Begins a refinement again, when another map turns out to be the better reference. */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/device.h"
#include "common/files.h"
#include "common/harness/template_set.h"
#include "common/memory.h"
#include "stages/refiner/files/classes_output.h"
#include "stages/refiner/files/output.h"
#include "stages/refiner/other_start.h"
#include "stages/refiner/refiner_private.h"

static void forget_particle(struct particle *p) {
    p->aligned = p->mapped = p->compared = p->junk = false;
    p->class_index = p->significant = 0;
    p->norm = p->reliability = 1;
    p->log_likelihood = p->max_probability = 0;
    p->residual = -1;
    p->residual_shell = 0;
    for (int i = 0; i < 9; i++)
        p->pose[i] = i % 4 == 0;
    memset(p->origin, 0, sizeof p->origin); /* images are moved by it before they are compared */
}

void refiner_forget_reference(struct refiner *r) {
    mem_free(&r->reference_path);
    for (int i = 0; r->map_paths != NULL && i < r->map_count; i++)
        mem_free(&r->map_paths[i]);
    mem_free(&r->map_paths);
    r->map_count = 0;
}

/* Forgets what iterations have found. It keeps what the images themselves say: their backgrounds, whether they are
 * normalised, which are twins. */
static void forget_findings(struct refiner *r) {
    r->started = r->agree_beyond = r->crossed = false;
    r->schedule = (struct schedule){0};
    r->signal = (struct signal){0};
    r->difference = (struct difference){0};
    r->cut = (struct refiner_cut){0};
    r->resolution = r->told = r->views_doubt = r->contrast = 0;
    r->sure_shell = 0;
    r->unresolved = REFINER_RESOLVED;
    r->efficiency = NAN;
    *r->remark = 0;
    r->at.seed_class = -1;
    for (int side = 0; side < 2; side++)
        r->sides[side].member_count = r->sides[side].changed = 0;
    other_start_release(r);
    device_host_free(&r->context.device, &r->solvent);
    mem_free(&r->held);
    star_destroy(&r->kept_poses);
}

enum status refiner_begin_anew(struct refiner *r, const char *path, double lowpass, struct err *err) {
    FAIL_IF(r->busy, err, STATUS_BAD_STATE, "a refinement cannot begin again in the middle of an iteration");
    refiner_forget_reference(r);
    forget_findings(r);
    for (size_t i = 0; i < r->set.count; i++)
        forget_particle(&r->set.particles[i]);
    r->set.settled = false; /* no map holds an image any more: each may go to the half of its name */
    return refiner_give_reference(r, path, lowpass, err);
}

static enum status remove_part(const char *folder, const char *name, struct err *err) {
    char path[PATH_SIZE];
    TRY(path_join(folder, name, path, sizeof path, err));
    return file_remove(path, err);
}

/* The optimiser file goes first: an iteration without it is not continued. */
enum status refiner_forget(const struct refiner *r, const char *folder, struct err *err) {
    char name[64];
    int last = 0;
    for (int i = INT_MAX; (i = refiner_last(folder, i)) > 0;) {
        snprintf(name, sizeof name, "run_it%03d_optimiser.star", i);
        TRY(remove_part(folder, name, err));
        if (last == 0)
            last = i;
        else if (classifies(r))
            classes_remove_iteration(r, folder, i);
        else
            output_remove_iteration(folder, i);
    }
    TRY(remove_part(folder, TEMPLATE_SET_RECORD, err)); /* of the map that is given up */
    /* refiner_is_final looks for these. */
    return remove_part(folder, classifies(r) ? "run_optimiser.star" : "postprocess.star", err);
}
