/* Alignment on a CUDA device: plans and buffers. The course of the alignment is kernels/motion/motion_course.c. */
#include <stdlib.h>

#include "common/memory.h"
#include "kernels/motion/motion_align_cuda.cuh"

namespace {

const motion_align_work operations = {motion_align_cuda_spectra, motion_align_cuda_powers, motion_align_cuda_search,
                                      motion_align_cuda_cut, motion_align_cuda_slopes};

enum status room(void *ret_memory, size_t count, size_t size, err *err) {
    CUDA_TRY(cudaMalloc((void **)ret_memory, mem_bytes(count, size)), err, "making room for the alignment of frames");
    return STATUS_OK;
}

/* Fills the rings of a band: of the highest frequencies, which have no sign, none is used. */
enum status put_rings(const motion_align_plan *plan, align_band *band, double step_x, double step_y, err *err) {
    int columns = band->nx / 2 + 1;
    uint8_t *rings = (uint8_t *)malloc(align_count(band));
    FAIL_IF(rings == NULL, err, STATUS_NO_MEMORY, "no memory for the alignment of frames");
    for (int y = 0; y < band->ny; y++)
        for (int x = 0; x < columns; x++) {
            double fx = x * step_x, fy = (y <= band->ny / 2 ? y : y - band->ny) * step_y;
            int ring = x < columns - 1 && y != band->ny / 2 ? motion_align_ring(plan, fx, fy) : ALIGN_OUTSIDE;
            rings[(size_t)y * columns + x] = (uint8_t)(ring < ALIGN_OUTSIDE ? ring : ALIGN_OUTSIDE);
        }
    band->step_x = (float)step_x, band->step_y = (float)step_y;
    enum status status = room(&band->rings, align_count(band), 1, err);
    cudaError_t result = status == STATUS_OK ? cuda_copy(band->rings, rings, align_count(band)) : cudaSuccess;
    free(rings);
    CUDA_TRY(result, err, "taking rings there");
    return status;
}

enum status build_set(const motion_align_plan *plan, align_set *set, int members, int frames, int nx, int ny,
                      err *err) {
    set->members = members, set->frames = frames, set->band.nx = nx, set->band.ny = ny;
    size_t count = align_count(&set->band), all = (size_t)members * frames;
    size_t slopes = all * blocks_for(count, ALIGN_CHUNK) * 2;
    size_t curvatures = (size_t)members * blocks_for(count, ALIGN_THREADS) * 3;
    TRY(put_rings(plan, &set->band, 1 / (nx * plan->pitch_x), 1 / (ny * plan->pitch_y), err));
    TRY(room(&set->spectra, all * count, sizeof(float2), err));
    TRY(room(&set->shifts, all, sizeof(float2), err));
    TRY(room(&set->sum, members * count, sizeof(float2), err));
    TRY(room(&set->shared, members * count, sizeof(float), err));
    TRY(room(&set->total, members * count, sizeof(float), err));
    TRY(room(&set->slopes, slopes, sizeof(double), err));
    TRY(room(&set->curvatures, curvatures, sizeof(double), err));
    return motion_host_new(slopes + curvatures, sizeof(double), "slopes of the alignment", &set->host, err);
}

void clear_set(align_set *set) {
    void *buffers[] = {set->band.rings, set->spectra, set->shifts, set->sum,
                       set->shared,     set->total,   set->slopes, set->curvatures};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    free(set->host);
}

/* Takes the tapers of the two sides of an image there. */
enum status put_tapers(int nx, int ny, float **ret_x, float **ret_y, err *err) {
    int sides[2] = {nx, ny};
    float **to[2] = {ret_x, ret_y};
    for (int axis = 0; axis < 2; axis++) {
        size_t bytes = (size_t)sides[axis] * sizeof(float);
        TRY(room(to[axis], sides[axis], sizeof(float), err));
        float *taper = (float *)malloc(bytes);
        FAIL_IF(taper == NULL, err, STATUS_NO_MEMORY, "no memory for a taper");
        for (int i = 0; i < sides[axis]; i++)
            taper[i] = (float)motion_align_taper(sides[axis], i);
        cudaError_t result = cuda_copy(*to[axis], taper, bytes);
        free(taper);
        CUDA_TRY(result, err, "taking a taper there");
    }
    return STATUS_OK;
}

/* Plans `batch` transforms, each contiguous; in place: the rows of real values have room for the transform. */
enum status plan_transforms(motion_align_cuda *a, int nx, int ny, cufftType type, int batch, bool in_place,
                            cufftHandle *ret_plan, err *err) {
    int shape[2] = {ny, nx}, real[2] = {ny, in_place ? 2 * (nx / 2 + 1) : nx}, half[2] = {ny, nx / 2 + 1};
    bool forward = type == CUFFT_R2C;
    int real_count = real[0] * real[1], half_count = half[0] * half[1];
    CUFFT_TRY(cufftPlanMany(ret_plan, 2, shape, forward ? real : half, 1, forward ? real_count : half_count,
                            forward ? half : real, 1, forward ? half_count : real_count, type, batch),
              err, "planning the transforms of the alignment");
    CUFFT_TRY(cufftSetStream(*ret_plan, a->motion->stream), err, "planning the transforms of the alignment");
    return STATUS_OK;
}

enum status build_patches(motion_align_cuda *a, err *err) {
    const motion_align_plan *plan = &a->plan;
    size_t patches = (size_t)plan->patches_x * plan->patches_y, groups = plan->groups;
    TRY(build_set(plan, &a->patches, (int)patches, plan->groups, plan->patch_x, plan->patch_y, err));
    TRY(put_tapers(plan->patch_x, plan->patch_y, &a->patch_taper_x, &a->patch_taper_y, err));
    TRY(room(&a->group_sums, groups * align_count(&a->whole.band), sizeof(float2), err));
    TRY(room(&a->group_images, groups * plan->window_x * plan->window_y, sizeof(float), err));
    TRY(room(&a->patch_images, patches * groups * plan->patch_x * plan->patch_y, sizeof(float), err));
    TRY(room(&a->patch_starts, patches, sizeof(int2), err));
    for (size_t p = 0; p < patches; p++) {
        int px = (int)p % plan->patches_x, py = (int)p / plan->patches_x;
        int2 start = make_int2(motion_align_patch_start(plan->window_x, plan->patches_x, plan->patch_x, px),
                               motion_align_patch_start(plan->window_y, plan->patches_y, plan->patch_y, py));
        CUDA_TRY(cuda_copy(a->patch_starts + p, &start, sizeof start), err, "taking the places of patches there");
    }
    TRY(plan_transforms(a, plan->window_x, plan->window_y, CUFFT_C2R, plan->groups, false, &a->group_plan, err));
    return plan_transforms(a, plan->patch_x, plan->patch_y, CUFFT_R2C, (int)(patches * groups), false, &a->patch_plan,
                           err);
}

enum status build(motion_align_cuda *a, err *err) {
    const motion_align_plan *plan = &a->plan;
    size_t frames = (size_t)plan->task.frames, patches = (size_t)plan->patches_x * plan->patches_y * plan->groups;
    size_t searched = (size_t)plan->search_x * plan->search_y;
    TRY(motion_course_create(plan, &a->course, err));
    TRY(motion_host_new(frames > patches ? frames : patches, sizeof(float2), "shifts of frames", &a->host_shifts, err));
    TRY(motion_host_new(frames, sizeof *a->host_peaks, "peaks of correlations", &a->host_peaks, err));
    TRY(build_set(plan, &a->whole, 1, plan->task.frames, plan->window_x, plan->window_y, err));
    a->search.nx = plan->search_x, a->search.ny = plan->search_y;
    TRY(put_rings(plan, &a->search, 1 / (plan->window_x * plan->pitch_x), 1 / (plan->window_y * plan->pitch_y), err));
    TRY(put_tapers(plan->binned_x, plan->binned_y, &a->taper_x, &a->taper_y, err));
    TRY(room(&a->weight, MOTION_RINGS, sizeof(float), err));
    TRY(room(&a->rings, 3 * MOTION_RINGS, sizeof(double), err));
    TRY(room(&a->means, frames, sizeof(float), err));
    TRY(room(&a->binned, (size_t)plan->binned_y * (plan->binned_x / 2 + 1), sizeof(float2), err));
    TRY(room(&a->correlation, frames * align_count(&a->search), sizeof(float2), err));
    TRY(room(&a->image, frames * searched, sizeof(float), err));
    TRY(room(&a->peaks, frames, sizeof *a->peaks, err));
    TRY(plan_transforms(a, plan->binned_x, plan->binned_y, CUFFT_R2C, 1, true, &a->binned_plan, err));
    TRY(plan_transforms(a, plan->search_x, plan->search_y, CUFFT_C2R, (int)frames, false, &a->search_plan, err));
    return plan->groups > 0 ? build_patches(a, err) : STATUS_OK;
}

} // namespace

void motion_align_cuda_destroy(struct motion_align_cuda *a) {
    if (a == NULL) return;
    cufftHandle plans[] = {a->binned_plan, a->search_plan, a->group_plan, a->patch_plan};
    for (int i = 0; i < 4; i++)
        if (plans[i]) (void)cufftDestroy(plans[i]);
    void *buffers[] = {a->weight,        a->binned,        a->taper_x,      a->taper_y,
                       a->patch_taper_x, a->patch_taper_y, a->means,        a->search.rings,
                       a->correlation,   a->image,         a->peaks,        a->group_sums,
                       a->group_images,  a->patch_images,  a->patch_starts, a->rings};
    for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++)
        (void)cudaFree(buffers[i]);
    clear_set(&a->whole);
    clear_set(&a->patches);
    motion_course_destroy(&a->course);
    free(a->host_shifts);
    free(a->host_peaks);
    free(a);
}

enum status motion_align_cuda_create(struct motion_cuda *m, struct motion_align_cuda **ret_align, struct err *err) {
    struct motion_align_cuda *a = (struct motion_align_cuda *)calloc(1, sizeof *a);
    FAIL_IF(a == NULL, err, STATUS_NO_MEMORY, "no memory for the alignment of frames");
    *ret_align = a; /* destroyed with the motion, also half made */
    a->motion = m;
    motion_align_plan_make(&m->task, &a->plan);
    return build(a, err);
}

enum status motion_align_cuda_run(struct motion_cuda *m, struct motion_model *model, struct motion_report *report,
                                  struct err *err) {
    return motion_course_run(m->align->course, &operations, m->align, model, report, err);
}

size_t motion_align_cuda_bytes(const struct motion_task *task) {
    struct motion_align_plan plan;
    motion_align_plan_make(task, &plan);
    size_t whole = (size_t)plan.window_y * (plan.window_x / 2 + 1), search = (size_t)plan.search_x * plan.search_y;
    size_t patch = (size_t)plan.patch_y * (plan.patch_x / 2 + 1);
    size_t patches = (size_t)plan.patches_x * plan.patches_y;
    size_t floats = (size_t)plan.binned_y * (plan.binned_x + 2) + (size_t)task->frames * (2 * whole + 2 * search) +
                    4 * whole + (size_t)plan.groups * 4 * whole + patches * (4 * (size_t)plan.groups + 4) * patch;
    return mem_bytes(floats, sizeof(float));
}
