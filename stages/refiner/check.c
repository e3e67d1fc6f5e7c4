#include "stages/refiner/check.h"

#include "common/files.h"
#include "common/formats/mrc.h"
#include "common/formats/mtf.h"
#include "common/harness/scratch.h"
#include "kernels/postprocess/postprocess.h"
#include "kernels/symmetry/symmetry.h"
#include "stages/refiner/classes.h"
#include "stages/refiner/refiner.h"

static const double LEAST_MEMORY = 0.25; /* GiB */

/* Checks the header of a map; its voxels are checked when it is read. A file that is away is none of its faults. */
static void check_map(const char *key, const char *path, struct stage_checks *checks) {
    struct mrc_header header;
    struct err err = {0};
    if (!file_exists(path)) return;
    enum status status = mrc_read_header(path, &header, &err);
    if (status != STATUS_OK) status = err_context(&err, status, "%s is no map", key);
    if (!stage_checks_result(checks, key, status, &err)) return;
    if (header.nx != header.ny || header.nx != header.nz || header.nx < MAP_LEAST)
        stage_checks_add(checks, STAGE_CHECK_ERROR, key,
                         "%s %s is %d × %d × %d: a map is expected, a cube of %d voxels "
                         "or more along each side",
                         key, path, header.nx, header.ny, header.nz, MAP_LEAST);
}

/* Without a reference the refiner makes its first map in a search of all poses. Poses that are given are compared with a
 * reference before they make a map. A mask lies about a reference; a first map may lie in any way. */
static void check_without_reference(const struct refiner_options *p, struct stage_checks *checks) {
    if (p->mask != NULL)
        stage_checks_add(
            checks, STAGE_CHECK_ERROR, "mask",
            "the mask %s lies about a map, and there is no reference: set `reference` to that map, or leave "
            "`mask` out; a first map lies in any way",
            p->mask);
    if (p->poses != 0 || p->skip_align)
        stage_checks_add(checks, STAGE_CHECK_ERROR, p->skip_align ? "skip_align" : "poses",
                         "poses of the table need a reference map, which gives grey scale and noise: set `reference` "
                         "to the map of these poses, or leave out `poses` and `skip_align`");
}

static void check_reference(const struct refiner_options *p, struct stage_checks *checks) {
    struct err err = {0};
    int maps = 1;
    if (p->reference == NULL)
        check_without_reference(p, checks);
    else if (!classes_are_listed(p->reference))
        check_map("reference", p->reference, checks);
    else if (file_exists(p->reference) &&
             stage_checks_result(checks, "reference", classes_count_maps(p->reference, &maps, &err), &err) &&
             p->classes > 1 && maps > 1 && maps != p->classes)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "classes",
                         "%d classes were asked for, but %s lists %d maps: set `classes` to %d, or leave it out",
                         p->classes, p->reference, maps, maps);
}

/* A mask with a hard edge spreads what the halves share at low resolution over all shells. */
static void check_mask(const char *path, struct stage_checks *checks) {
    struct image mask = {0};
    struct mrc_header header;
    check_map("mask", path, checks);
    if (mrc_read_header(path, &header, NULL) != STATUS_OK || header.nx > POSTPROCESS_BOX_MOST ||
        header.ny > POSTPROCESS_BOX_MOST || header.nz > POSTPROCESS_BOX_MOST)
        return;
    if (mrc_read(path, &mask, NULL) == STATUS_OK && mask.nx == mask.ny && mask.nx == mask.nz && mask.nx >= MAP_LEAST) {
        double edge = postprocess_mask_edge(mask.nx, mask.data);
        if (edge < POSTPROCESS_LEAST_EDGE)
            stage_checks_add(checks, STAGE_CHECK_WARNING, "mask",
                             "the edge of the mask %s is %.1f px wide: halves that share low resolution agree in it to "
                             "any resolution; give one that fades out over 5 px or more",
                             path, edge);
    }
    image_destroy(&mask);
}

static void check_mtf(const char *path, struct stage_checks *checks) {
    struct mtf mtf = {0};
    struct err err = {0};
    if (!file_exists(path)) return;
    if (stage_checks_result(checks, "mtf", mtf_read(path, &mtf, &err), &err)) mtf_clear(&mtf);
}

void refiner_check(const void *params, const struct stage_session *session, struct stage_checks *checks) {
    const struct refiner_options *p = params;
    const char *mtf = p->mtf != NULL ? p->mtf : session->mtf;
    struct symmetry symmetry = {0};
    struct err err = {0};
    scratch_check(p->scratch, checks);
    check_reference(p, checks);
    if (p->mask != NULL) check_mask(p->mask, checks);
    if (mtf != NULL) check_mtf(mtf, checks);
    if (stage_checks_result(checks, "symmetry", symmetry_create(p->symmetry, &symmetry, &err), &err))
        symmetry_destroy(&symmetry);
    if (p->memory > 0 && p->memory < LEAST_MEMORY)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "memory",
                         "memory is %g GiB: at least %g are needed, or auto for what is free", p->memory, LEAST_MEMORY);
    if (p->host_memory > 0 && p->host_memory < LEAST_MEMORY)
        stage_checks_add(checks, STAGE_CHECK_ERROR, "host_memory",
                         "host_memory is %g GiB: at least %g are needed, or auto", p->host_memory, LEAST_MEMORY);
}
