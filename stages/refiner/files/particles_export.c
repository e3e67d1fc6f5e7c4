#include "stages/refiner/files/particles_export.h"

#include <stdio.h>

#include "common/formats/particle_table.h"
#include "common/formats/star_cells.h"
#include "kernels/sampling/sampling.h"
#include "stages/refiner/grids.h"

static enum status export_optics(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(star_table_add(file, "optics", true, &t, err));
    for (int i = 0; i < set->optics_count; i++) {
        const struct particle_optics *o = &set->optics[i];
        size_t row;
        TRY(star_row_begin(t, "rlnOpticsGroup", &row, err));
        if (o->source >= 0 && set->sources[o->source].file != NULL)
            TRY(star_row_copy(star_table_find(set->sources[o->source].file, "optics"), o->row, t, row, err));
        const struct star_cell cells[] = {
            {.column = "rlnOpticsGroup", .value = i + 1, .integer = true},
            {.column = "rlnVoltage", .value = o->voltage},
            {.column = "rlnSphericalAberration", .value = o->spherical_aberration},
            {.column = "rlnAmplitudeContrast", .value = o->amplitude_contrast},
            {.column = "rlnImagePixelSize", .value = o->pixel_size},
            {.column = "rlnImageSize", .value = o->box > 0 ? o->box : set->box, .integer = true},
            {.column = "rlnImageDimensionality", .value = 2, .integer = true},
            /* The set takes no others, whatever the row says that described the group first. */
            {.column = "rlnCtfDataAreCtfPremultiplied",
             .value = 0,
             .integer = true,
             .unless = star_column_find(t, "rlnCtfDataAreCtfPremultiplied") < 0},
        };
        TRY(star_put_text(t, row, "rlnOpticsGroupName", o->name, err));
        TRY(star_cells_put(t, row, cells, sizeof cells / sizeof *cells, err));
        TRY(star_row_fill(t, row, err));
    }
    return STATUS_OK;
}

bool particle_is_exported(const struct particle *p) {
    return particle_counts(p) && p->aligned;
}

static enum status export_particle(const struct particle_set *set, const struct particle *p, struct star_table *t,
                                   struct err *err) {
    size_t row;
    double rot, tilt, psi, shift[2];
    TRY(star_row_begin(t, "rlnImageName", &row, err));
    TRY(star_row_copy(particle_table_find(set->sources[p->source].file), p->row, t, row, err));
    matrix_to_euler(p->pose, &rot, &tilt, &psi);
    grids_shift_to_table(set, p, shift);
    const struct star_cell cells[] = {
        {.column = "rlnOpticsGroup", .value = p->optics + 1, .integer = true},
        {.column = "rlnAngleRot", .value = rot},
        {.column = "rlnAngleTilt", .value = tilt},
        {.column = "rlnAnglePsi", .value = psi},
        {.column = "rlnOriginXAngst", .value = shift[0]},
        {.column = "rlnOriginYAngst", .value = shift[1]},
        {.column = "rlnClassNumber", .value = p->class_index + 1, .integer = true},
        {.column = "rlnNormCorrection", .value = p->norm},
        {.column = "rlnLogLikeliContribution", .value = p->log_likelihood},
        {.column = "rlnMaxValueProbDistribution", .value = p->max_probability},
        {.column = "rlnNrOfSignificantSamples", .value = p->significant, .integer = true},
        {.column = "rlnRandomSubset", .value = p->half + 1, .integer = true},
        {.column = "icestreamJunk", .value = p->junk, .integer = true, .unless = !set->marked},
        {.column = "rlnParticleReliability",
         .value = p->reliability,
         .unless = p->reliability == 1 && star_column_find(t, "rlnParticleReliability") < 0},
    };
    char group[32];
    snprintf(group, sizeof group, "group_%d", p->optics + 1);
    TRY(star_put_text(t, row, "rlnGroupName", group, err));
    TRY(star_put_text(t, row, "rlnImageName", p->name, err));
    TRY(star_cells_put(t, row, cells, sizeof cells / sizeof *cells, err));
    return star_row_fill(t, row, err);
}

static enum status export_twin(const struct particle_set *set, const struct particle *p, struct star_table *t,
                               struct err *err) {
    const struct particle *first = &set->particles[p->twin - 1];
    char digest[DIGEST_SIZE] = "none";
    if (particle_twins_by_pixels(p, first)) digest_print(p->digest, digest);
    const struct star_cell cells[] = {
        {.column = "icestreamLeftOut", .text = p->name},
        {.column = "icestreamTwinOf", .text = first->name},
        {.column = "icestreamDigest", .text = digest},
    };
    return star_cells_row(t, cells, sizeof cells / sizeof *cells, err);
}

static enum status export_twins(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    if (set->left_out == 0) return STATUS_OK;
    TRY(star_table_add(file, "twins", true, &t, err));
    for (size_t i = 0; i < set->count; i++)
        if (set->particles[i].source >= 0 && set->particles[i].twin != 0)
            TRY(export_twin(set, &set->particles[i], t, err));
    return STATUS_OK;
}

enum status particle_set_export(const struct particle_set *set, struct star_file *file, struct err *err) {
    struct star_table *t;
    TRY(export_optics(set, file, err));
    TRY(star_table_add(file, "particles", true, &t, err));
    for (size_t i = 0; i < set->count; i++)
        if (particle_is_exported(&set->particles[i])) TRY(export_particle(set, &set->particles[i], t, err));
    return export_twins(set, file, err);
}
