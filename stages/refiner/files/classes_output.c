/* Writes the files of a classification, with RELION's names: run_itNNN_class00K.mrc, data, model, sampling and
 * optimiser; after the last iteration the same as run_*. The optimiser file comes last: an iteration that has one is
 * complete. */
#include "stages/refiner/files/classes_output.h"

#include <stdio.h>

#include "common/files.h"
#include "common/memory.h"
#include "stages/refiner/files/output.h"

static enum status write_map(const struct refiner *r, const struct output_place *place, int k, struct err *err) {
    char name[64];
    snprintf(name, sizeof name, "%s_class%03d.mrc", place->stem, k + 1);
    return output_map(r, place->folder, name, r->sides[0].references[k].map, err);
}

/* Writes a picture of the map with the curve that stands for an FSC: SSNR/(1 + SSNR). */
static enum status write_picture(const struct refiner *r, const struct output_place *place, int k, struct err *err) {
    const struct reference *c = &r->sides[0].references[k];
    char name[64], parts[96];
    _cleanup_(mem_free) float *curve = NULL;
    TRY(mem_new((size_t)r->shells, sizeof *curve, "a curve", &curve, err));
    for (int s = 0; s < r->shells; s++)
        curve[s] = s == 0 ? 1 : c->ssnr[s] / (1 + c->ssnr[s]);
    const struct map_curve curves[MAP_CURVES] = {{"signal / (signal + noise)", curve, c->resolution, 0.5}};
    snprintf(name, sizeof name, "%s_class%03d.png", place->stem, k + 1);
    snprintf(parts, sizeof parts, "class %d of %d: %.1f %% of %zu particles", k + 1, r->reference_count, 100 * c->share,
             r->set.count);
    return output_picture(r, place->folder, name, c->map, curves, parts, err);
}

static enum status write_as(const struct refiner *r, const char *folder, const char *prefix, const char *stem,
                            struct err *err) {
    const struct output_place place = {.folder = folder, .prefix = prefix, .stem = stem};
    struct output_file files[OUTPUT_FILES_MOST] = {{output_data, 0}, {output_model, 0}, {output_sampling, 0}};
    for (int k = 0, count = 3; k < r->reference_count; count = 0) {
        for (; k < r->reference_count && count + 2 <= OUTPUT_FILES_MOST; k++) {
            files[count++] = (struct output_file){write_map, k};
            files[count++] = (struct output_file){write_picture, k};
        }
        TRY(output_files(r, &place, files, count, err));
    }
    return output_optimiser(r, &place, err);
}

static int largest_class(const struct refiner *r) {
    int largest = 0;
    for (int k = 1; k < r->reference_count; k++)
        if (r->sides[0].references[k].share > r->sides[0].references[largest].share) largest = k;
    return largest;
}

static void remove_file(const char *folder, int iteration, const char *part) {
    char name[96], path[PATH_SIZE];
    snprintf(name, sizeof name, "run_it%03d_%s", iteration, part);
    if (path_join(folder, name, path, sizeof path, NULL) == STATUS_OK)
        (void)file_remove(path, NULL); /* a file that cannot be removed only takes room */
}

void classes_remove_iteration(const struct refiner *r, const char *folder, int iteration) {
    char part[64];
    remove_file(folder, iteration, "optimiser.star");
    remove_file(folder, iteration, "data.star");
    remove_file(folder, iteration, "model.star");
    remove_file(folder, iteration, "sampling.star");
    remove_file(folder, iteration, "memory.csv");
    for (int k = 0; k < r->reference_count; k++) {
        snprintf(part, sizeof part, "class%03d.mrc", k + 1);
        remove_file(folder, iteration, part);
        snprintf(part, sizeof part, "class%03d.png", k + 1);
        remove_file(folder, iteration, part);
    }
}

enum status classes_write(const struct refiner *r, const char *folder, const char *prefix, int keep, struct err *err) {
    char stem[32];
    snprintf(stem, sizeof stem, "run_it%03d", r->schedule.iteration);
    TRY(write_as(r, folder, prefix, stem, err));
    if (r->schedule.converged) TRY(write_as(r, folder, prefix, "run", err));
    TRY(output_latest(folder, r->schedule.converged ? "run" : stem, largest_class(r), err));
    if (keep > 0 && r->schedule.iteration > keep) classes_remove_iteration(r, folder, r->schedule.iteration - keep);
    return STATUS_OK;
}
