#include "kernels/tomography/tomography.h"

#include <math.h>

#include "common/memory.h"
#include "kernels/tomography/tomography_private.h"

/* With these limits positions are exact in single precision, and products fit 64 bits. */
#define MOST_PIXELS 65536
#define MOST_TILTS 10000

struct tomography {
    struct tomography_setup setup;
    const struct tomography_work *work; /* for the kind of devices */
    void *state;                        /* of the work */
};

/* Returns NULL for a CUDA device when the program was built without CUDA. */
static const struct tomography_work *work_on(const struct device *device) {
    if (device->kind == DEVICE_CPU) return &tomography_cpu_work;
#ifdef ICESTREAM_HAVE_CUDA
    return &tomography_cuda_work;
#else
    return NULL;
#endif
}

struct tomography_options tomography_defaults(void) {
    return (struct tomography_options){
        .iterations = 25, .relaxation = 1, .roll_off = TOMOGRAPHY_COSINE, .cutoff = 1, .device_count = 0, .threads = 1};
}

static enum status check_tilts(const struct tomography_geometry *g, struct err *err) {
    bool differ = g->tilts == 1;
    for (int t = 0; t < g->tilts; t++) {
        double angle = g->angles[t], shift = g->shifts ? g->shifts[t] : 0;
        FAIL_IF(
            !(fabs(angle) <= 90), err, STATUS_BAD_ARGUMENT,
            "tilt %d of %d has the angle %g°; tilt angles are numbers from -90 to 90: mend the angle file, or leave "
            "the tilt out",
            t + 1, g->tilts, angle);
        FAIL_IF(!(fabs(shift) <= g->nx), err, STATUS_BAD_ARGUMENT,
                "tilt %d of %d (%g°) is shifted by %g px; shifts are numbers within the width of %d px: mend the "
                "alignment or leave the tilt out",
                t + 1, g->tilts, angle, shift, g->nx);
        differ = differ || angle != g->angles[0];
    }
    FAIL_IF(!differ, err, STATUS_BAD_ARGUMENT,
            "all %d tilts have the angle %g°: a tomogram needs different angles; is this the right angle file?",
            g->tilts, g->angles[0]);
    return STATUS_OK;
}

enum status tomography_check_geometry(const struct tomography_geometry *g, struct err *err) {
    FAIL_IF(g->nx < 1 || g->ny < 1 || g->nx > MOST_PIXELS || g->ny > MOST_PIXELS, err, STATUS_BAD_ARGUMENT,
            "images of %d x %d px cannot be reconstructed: both sides must lie between 1 and %d", g->nx, g->ny,
            MOST_PIXELS);
    FAIL_IF(g->nz < 1 || g->nz > MOST_PIXELS, err, STATUS_BAD_ARGUMENT,
            "a thickness of %d px was asked for; it must lie between 1 and %d", g->nz, MOST_PIXELS);
    FAIL_IF(g->tilts < 1 || g->tilts > MOST_TILTS || g->angles == NULL, err, STATUS_BAD_ARGUMENT,
            "a series of %d tilts cannot be reconstructed: from 1 to %d are expected", g->tilts, MOST_TILTS);
    return check_tilts(g, err);
}

static enum status check_options(const struct tomography_options *o, struct err *err) {
    FAIL_IF(o->iterations < 0 || o->iterations > TOMOGRAPHY_MOST_ITERATIONS, err, STATUS_BAD_ARGUMENT,
            "%d iterations were asked for; from 0 to %d are possible", o->iterations, TOMOGRAPHY_MOST_ITERATIONS);
    FAIL_IF(!(o->relaxation > 0 && o->relaxation < 2), err, STATUS_BAD_ARGUMENT,
            "the relaxation is %g; it must be more than 0 and less than 2", o->relaxation);
    FAIL_IF(!(o->limit >= 0 && o->limit <= TOMOGRAPHY_MOST_LIMIT), err, STATUS_BAD_ARGUMENT,
            "the limit at which to stop is %g; it is a part of the residual, from 0 to %d", o->limit,
            TOMOGRAPHY_MOST_LIMIT);
    FAIL_IF(!(o->cutoff > 0 && o->cutoff <= 1), err, STATUS_BAD_ARGUMENT,
            "the filter's cut-off is %g of the Nyquist frequency; it must be more than 0 and at most 1", o->cutoff);
    FAIL_IF(o->device_count < 1 || o->devices == NULL || o->slabs < 0, err, STATUS_BAD_ARGUMENT,
            "%d devices and %d slabs were given; at least one device is needed", o->device_count, o->slabs);
    for (int i = 1; i < o->device_count; i++)
        FAIL_IF(o->devices[i].kind != o->devices[0].kind, err, STATUS_BAD_ARGUMENT,
                "a tomogram is made either on CUDA devices or on the CPU, not on both at once");
    return STATUS_OK;
}

static enum status build(struct tomography *plan, const struct tomography_options *options, struct err *err) {
    TRY(tomography_setup_make(options, &plan->setup, err));
    if (plan->setup.options.threads < 1) plan->setup.options.threads = 1;
    plan->work = work_on(&options->devices[0]);
    FAIL_IF(plan->work == NULL, err, STATUS_UNSUPPORTED,
            "this program was built without CUDA: tomograms can be made on the CPU only");
    return plan->work->create(&plan->setup, &plan->state, err);
}

enum status tomography_create(const struct tomography_options *options, struct tomography **ret_plan, struct err *err) {
    struct tomography *plan = NULL;
    TRY(tomography_check_geometry(&options->geometry, err));
    TRY(check_options(options, err));
    TRY(mem_new(1, sizeof *plan, "a tomogram's plan", &plan, err));
    enum status status = build(plan, options, err);
    if (status != STATUS_OK) {
        tomography_destroy(&plan);
        return status;
    }
    *ret_plan = plan;
    return STATUS_OK;
}

void tomography_destroy(struct tomography **plan) {
    if (!*plan) return;
    if ((*plan)->state) (*plan)->work->destroy((*plan)->state);
    tomography_setup_clear(&(*plan)->setup);
    mem_free(plan);
}

enum status tomography_run(struct tomography *plan, const float *projections, float *ret_volume,
                           struct tomography_report *ret_report, struct err *err) {
    struct tomography_report report = {.residuals = plan->setup.residuals};
    TRY(plan->work->run(plan->state, projections, ret_volume, &report, err));
    if (ret_report) *ret_report = report;
    return STATUS_OK;
}

static size_t count_pairs(const struct tomography_geometry *g) {
    size_t pairs = 0;
    for (int t = 0; t < g->tilts; t++) {
        bool seen = false;
        for (int before = 0; before < t && !seen; before++)
            seen = tomography_is_pair(g, before, t);
        pairs += !seen;
    }
    return pairs;
}

size_t tomography_matrix_bytes(const struct tomography_geometry *g, enum tomography_basis basis,
                               enum tomography_matrix matrix) {
    size_t voxels = (size_t)g->nx * (size_t)g->nz, tilts = (size_t)g->tilts;
    switch (matrix) {
    case TOMOGRAPHY_ELLR:
        return (basis == TOMOGRAPHY_BLOB ? 48 : 32) * tilts * voxels;
    case TOMOGRAPHY_BLOB_ELLR:
        return 8 * count_pairs(g) * ((voxels + 1) / 2);
    default:
        return 0;
    }
}
