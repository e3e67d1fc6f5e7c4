#include "stages/refiner/loader.h"

#include <stdlib.h>
#include <string.h>

#include "common/formats/image.h"
#include "common/memory.h"
#include "common/worker.h"
#include "kernels/prepare/image_check.h"
#include "stages/refiner/grids.h"

enum { THREADS_MOST = 32 };

/* An image to read. */
struct job {
    int particle, stack, slice, at; /* at: index in the batch */
    const struct regrid *regrid;    /* NULL: the image stays as it is */
    float *to;
    bool kept;    /* `to` belongs to the particle from then on */
    bool spoiled; /* the image is unusable and was set to 0 */
    struct digest_value digest;
};

struct batch {
    int *indices, count, room;
    bool *elsewhere; /* images that the device keeps */
    const struct alignment *kept_by;
    bool through; /* images that are read do not stay in memory */
    const float **images;
    struct job *jobs;
    float *space; /* for images that are not kept */
    size_t space_floats;
    bool begun; /* by loader_begin */
};

/* The way in which images of one optics group and one box come to the grid of the refinement. */
struct way {
    int optics, box;
    struct regrid *regrid; /* NULL: they stay as they are */
};

struct loader {
    struct particle_set *set;
    struct way *ways;
    int way_count;
    struct stack_reader *readers[THREADS_MOST]; /* of each thread */
    float *scratch[THREADS_MOST]; /* of each thread: an image as its file has it, and what kernels/regrid needs */
    size_t scratch_floats;
    int threads;
    struct worker *worker;
    struct batch batches[2]; /* one is being read while the other is in use */
    int used;
    bool through; /* of batches from now on */
};

enum status loader_create(struct particle_set *set, int threads, struct shards *cache, struct loader **ret_loader,
                          struct err *err) {
    struct loader *l = NULL;
    TRY(mem_new(1, sizeof *l, "reading particles", &l, err));
    *l = (struct loader){.set = set, .threads = threads < 1 ? 1 : threads < THREADS_MOST ? threads : THREADS_MOST};
    enum status status = worker_create(&l->worker, err);
    for (int t = 0; t < l->threads && status == STATUS_OK; t++)
        status = stack_reader_create(cache, &l->readers[t], err);
    if (status != STATUS_OK) {
        loader_destroy(&l);
        return status;
    }
    *ret_loader = l;
    return STATUS_OK;
}

void loader_destroy(struct loader **loader) {
    struct loader *l = *loader;
    if (l == NULL) return;
    worker_destroy(&l->worker);
    for (int i = 0; i < 2; i++) {
        struct batch *b = &l->batches[i];
        void *owned[] = {b->indices, b->elsewhere, b->images, b->jobs, b->space};
        for (size_t j = 0; j < sizeof owned / sizeof *owned; j++)
            free(owned[j]);
    }
    for (int i = 0; i < l->way_count; i++)
        regrid_destroy(&l->ways[i].regrid);
    free(l->ways);
    for (int t = 0; t < THREADS_MOST; t++) {
        stack_reader_destroy(&l->readers[t]);
        free(l->scratch[t]);
    }
    mem_free(loader);
}

struct stack_reads loader_reads(const struct loader *l) {
    struct stack_reads sum = {0};
    for (int t = 0; t < l->threads; t++) {
        const struct stack_reads reads = stack_reader_reads(l->readers[t]);
        sum.opened += reads.opened;
        sum.images += reads.images;
        sum.cached += reads.cached;
    }
    return sum;
}

static enum status reserve(struct batch *b, int count, struct err *err) {
    size_t n = (size_t)count;
    if (count <= b->room) return STATUS_OK;
    b->room = 0;
    mem_free(&b->indices);
    mem_free(&b->elsewhere);
    mem_free(&b->images);
    mem_free(&b->jobs);
    TRY(mem_new(n, sizeof *b->indices, "particle images", &b->indices, err));
    TRY(mem_new(n, sizeof *b->elsewhere, "particle images", &b->elsewhere, err));
    TRY(mem_new(n, sizeof *b->images, "particle images", &b->images, err));
    TRY(mem_new(n, sizeof *b->jobs, "particle images", &b->jobs, err));
    b->room = count;
    return STATUS_OK;
}

static int by_place(const void *a, const void *b) {
    const struct job *x = a, *y = b;
    return x->stack != y->stack ? (x->stack > y->stack) - (x->stack < y->stack)
                                : (x->slice > y->slice) - (x->slice < y->slice);
}

/* Finds the way of a particle's image to the grid, or makes it. */
static enum status find_way(struct loader *l, const struct particle *p, const struct regrid **ret_regrid,
                            struct err *err) {
    const int box = l->set->stacks[p->stack].box;
    int i = 0;
    while (i < l->way_count && !(l->ways[i].optics == p->optics && l->ways[i].box == box))
        i++;
    if (i == l->way_count) {
        struct regrid *regrid;
        TRY(grids_regrid(l->set, &l->set->optics[p->optics], box, &regrid, err));
        struct way *larger = realloc(l->ways, ((size_t)i + 1) * sizeof *larger);
        if (larger == NULL) regrid_destroy(&regrid);
        FAIL_IF(larger == NULL, err, STATUS_NO_MEMORY, "no memory for the grids of particles");
        l->ways = larger;
        larger[l->way_count++] = (struct way){p->optics, box, regrid};
    }
    *ret_regrid = l->ways[i].regrid;
    return STATUS_OK;
}

/* Makes the scratch of all threads large enough for the ways there are. */
static enum status reserve_scratch(struct loader *l, struct err *err) {
    size_t most = 0;
    for (int i = 0; i < l->way_count; i++) {
        if (l->ways[i].regrid == NULL) continue;
        size_t need = regrid_before_scratch(l->ways[i].box) + regrid_scratch(l->ways[i].regrid);
        if (need > most) most = need;
    }
    if (most <= l->scratch_floats) return STATUS_OK;
    l->scratch_floats = 0;
    for (int t = 0; t < l->threads; t++) {
        mem_free(&l->scratch[t]);
        TRY(mem_new_unset(most, sizeof *l->scratch[t], "particle images", &l->scratch[t], err));
    }
    l->scratch_floats = most;
    return STATUS_OK;
}

/* Returns whether the image is normalised before it is brought to the grid of the set. */
static bool normalised_before(const struct particle_set *set, const struct particle *p) {
    return set->check != NULL && image_check_normalises(set->check) && grids_change_noise(set, p);
}

/* Lists the images that are not in memory, and where to put them. They stay in memory as far as the limit allows. */
static enum status list_jobs(struct loader *l, struct batch *b, int *ret_jobs, struct err *err) {
    struct particle_set *set = l->set;
    size_t pixels = (size_t)set->box * (size_t)set->box, unkept = 0;
    int jobs = 0;
    for (int i = 0; i < b->count; i++) {
        struct particle *p = &set->particles[b->indices[i]];
        b->images[i] = p->image;
        if (p->image != NULL || b->elsewhere[i]) continue;
        struct job *job = &b->jobs[jobs];
        *job = (struct job){.particle = b->indices[i], .stack = p->stack, .slice = p->slice, .at = i};
        *ret_jobs = ++jobs;
        TRY(find_way(l, p, &job->regrid, err));
        if (normalised_before(set, p))
            TRY(image_check_prepare_other(set->check, set->stacks[p->stack].box, set->optics[p->optics].pixel_size,
                                          err));
        if (!b->through) job->to = particle_image_room(set);
        job->kept = job->to != NULL;
        unkept += !job->kept;
    }
    if (unkept * pixels > b->space_floats) {
        mem_free(&b->space);
        b->space_floats = 0;
        TRY(mem_new_pages(unkept * pixels * sizeof *b->space, "particle images", &b->space, err));
        b->space_floats = unkept * pixels;
    }
    size_t used = 0;
    for (int i = 0; i < jobs; i++)
        if (!b->jobs[i].kept) b->jobs[i].to = b->space + pixels * used++;
    qsort(b->jobs, (size_t)jobs, sizeof *b->jobs, by_place);
    return STATUS_OK;
}

static bool is_constant(const float *values, size_t count) {
    return memcmp(values, values + 1, (count - 1) * sizeof *values) == 0;
}

static enum status read_one(const struct particle_set *set, struct job *job, struct stack_reader *reader,
                            float *scratch, struct err *err) {
    const int box = set->stacks[job->stack].box;
    float *image = job->regrid != NULL ? scratch : job->to; /* as the file has it */
    size_t given = (size_t)box * (size_t)box, pixels = (size_t)set->box * (size_t)set->box;
    TRY(stack_reader_image(reader, set->stacks[job->stack].path, box, job->slice, image, err));
    /* One NaN or huge value would spread over the whole map. */
    job->spoiled = !image_values_fit(image, given) || is_constant(image, given);
    if (!job->spoiled && particle_has_digest(&set->particles[job->particle]))
        job->digest = set->particles[job->particle].digest;
    else if (!job->spoiled && !set->keep_twins)
        job->digest = digest_memory(image, given * sizeof *image);
    const bool before = normalised_before(set, &set->particles[job->particle]);
    bool usable = !job->spoiled;
    if (usable && before)
        TRY(image_check_take_other(set->check, box, set->optics[set->particles[job->particle].optics].pixel_size, image,
                                   &usable, err));
    if (usable && job->regrid != NULL) regrid_run(job->regrid, image, scratch + regrid_before_scratch(box), job->to);
    if (usable && !before && set->check != NULL) usable = image_check_usable(set->check, job->to);
    job->spoiled = !usable;
    if (job->spoiled) {
        memset(job->to, 0, pixels * sizeof *job->to);
        job->digest = (struct digest_value){0};
    } else if (!before && set->check != NULL)
        image_check_take(set->check, job->to);
    return STATUS_OK;
}

static enum status read_some(const struct particle_set *set, struct job *jobs, int count, struct stack_reader *reader,
                             float *scratch, struct err *err) {
    enum status status = STATUS_OK;
    for (int i = 0; i < count && status == STATUS_OK; i++)
        status = read_one(set, &jobs[i], reader, scratch, err);
    stack_reader_close(reader);
    return status;
}

/* If several reads fail the error is that of the first in order, not that of the fastest thread. */
static enum status read_jobs(const struct loader *l, const struct batch *b, int jobs, struct err *err) {
    int threads = l->threads;
    if (threads > jobs / 8) threads = jobs < 8 ? 1 : jobs / 8;
    enum status statuses[THREADS_MOST] = {STATUS_OK};
    struct err errs[THREADS_MOST] = {{0}};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int t = 0; t < threads; t++) {
        int first = (int)((long)jobs * t / threads), end = (int)((long)jobs * (t + 1) / threads);
        statuses[t] = read_some(l->set, b->jobs + first, end - first, l->readers[t], l->scratch[t], &errs[t]);
    }
    for (int t = 0; t < threads; t++)
        if (statuses[t] != STATUS_OK) {
            if (err != NULL) *err = errs[t];
            return statuses[t];
        }
    return STATUS_OK;
}

static enum status read_batch(struct loader *l, struct batch *b, struct err *err) {
    struct particle_set *set = l->set;
    int jobs = 0;
    enum status status = list_jobs(l, b, &jobs, err);
    if (status == STATUS_OK) status = reserve_scratch(l, err);
    if (status == STATUS_OK && jobs > 0) status = read_jobs(l, b, jobs, err);
    for (int i = 0; i < jobs; i++) {
        struct job *job = &b->jobs[i];
        b->images[job->at] = job->to;
        if (status == STATUS_OK) {
            set->particles[job->particle].spoiled = job->spoiled;
            set->particles[job->particle].digest = job->digest;
        }
        if (!job->kept) continue;
        if (status != STATUS_OK) {
            particle_image_give(set, job->to);
            continue;
        }
        set->particles[job->particle].image = job->to;
    }
    return status;
}

/* Runs on the worker's thread. */
static enum status read_ahead(void *context, struct err *err) {
    struct loader *l = context;
    return read_batch(l, &l->batches[1 - l->used], err);
}

void loader_pass(struct loader *l, bool through) {
    l->through = through;
}

void loader_stop(struct loader *l) {
    if (l == NULL) return;
    (void)worker_wait(l->worker, NULL); /* loader_take reads the batch again and reports an error */
    l->batches[1 - l->used].begun = false;
}

static enum status fill(const struct loader *l, struct batch *b, const struct alignment *kept_by, const int *indices,
                        int count, struct err *err) {
    TRY(reserve(b, count, err));
    memcpy(b->indices, indices, (size_t)count * sizeof *indices);
    for (int i = 0; i < count; i++)
        b->elsewhere[i] =
            kept_by != NULL && alignment_keeps_image(kept_by, indices[i] + 1, l->set->particles[indices[i]].chunk);
    b->count = count;
    b->kept_by = kept_by;
    b->through = l->through;
    return STATUS_OK;
}

void loader_begin(struct loader *l, const struct alignment *kept_by, const int *indices, int count) {
    struct batch *b = &l->batches[1 - l->used];
    loader_stop(l);
    if (fill(l, b, kept_by, indices, count, NULL) != STATUS_OK) return;
    b->begun = true;
    worker_start(l->worker, read_ahead, l);
}

enum status loader_take(struct loader *l, const struct alignment *kept_by, const int *indices, int count,
                        const float *const **ret_images, struct err *err) {
    struct batch *b = &l->batches[1 - l->used];
    bool ready = b->begun && b->through == l->through && b->kept_by == kept_by && b->count == count &&
                 memcmp(b->indices, indices, (size_t)count * sizeof *indices) == 0;
    if (ready) {
        b->begun = false;
        TRY(worker_wait(l->worker, err));
    } else {
        loader_stop(l);
        TRY(fill(l, b, kept_by, indices, count, err));
        TRY(read_batch(l, b, err));
    }
    l->used = 1 - l->used;
    *ret_images = b->images;
    return STATUS_OK;
}

/* Judges the images that are in memory, and normalises them. */
static void judge_again(struct particle_set *set, const struct image_check *check) {
    size_t pixels = (size_t)set->box * (size_t)set->box;
    for (size_t i = 0; i < set->count; i++) {
        struct particle *p = &set->particles[i];
        if (p->image == NULL || (p->spoiled && !image_check_normalises(check))) continue;
        /* An image that was too strong may not be once it is normalised; one of another grid is normalised before. */
        if (p->spoiled || (image_check_normalises(check) && grids_change_noise(set, p))) {
            particle_image_free(set, p); /* to be read again */
            p->spoiled = false;
            continue;
        }
        if (image_check_usable(check, p->image)) {
            image_check_take(check, p->image);
            continue;
        }
        memset(p->image, 0, pixels * sizeof *p->image);
        p->spoiled = true;
        p->digest = (struct digest_value){0};
    }
}

/* Adds images to the sample, as their files have them: what is known already is no measure of others. */
static enum status sample(struct loader *l, struct image_check *check, const int *indices, int count, struct err *err) {
    enum { AT_A_TIME = 128 };
    struct particle_set *set = l->set;
    for (int first = 0, part; first < count; first += part) {
        const float *const *images = NULL;
        part = count - first < AT_A_TIME ? count - first : AT_A_TIME;
        TRY(loader_take(l, NULL, indices + first, part, &images, err));
        for (int i = 0; i < part; i++) {
            const struct particle *p = &set->particles[indices[first + i]];
            if (!p->spoiled) TRY(image_check_sample(check, images[i], grids_change_noise(set, p), err));
        }
    }
    return image_check_decide(check, err);
}

enum status loader_judge(struct loader *l, struct image_check *check, const int *indices, int count, struct err *err) {
    struct particle_set *set = l->set;
    struct image_check *before = set->check;
    loader_stop(l);
    set->check = NULL;
    enum status status = sample(l, check, indices, count, err);
    set->check = status == STATUS_OK && (before == NULL || image_check_normalises(check)) ? check : before;
    if (set->check != NULL) judge_again(set, set->check);
    return status;
}
