/* Several workers, each an alignment of its own on one device: deals particles out by their chunks, and gives results
 * back in the order of the particles. The first worker works in the caller's thread, on the caller's references and
 * sums; each other one has a thread of its own. */
#include <string.h>

#include "common/memory.h"
#include "common/worker.h"
#include "kernels/alignment/alignment_private.h"
#include "kernels/alignment/turns.h"

/* Particles of a job that follow each other in the caller's order and in a chunk. */
struct run {
    int first, count, turn;
};

/* A worker takes its particles from here in each call, and puts its results here. */
struct job {
    struct alignment_options options;
    double memory; /* free for the worker before any takes its own, bytes */
    struct alignment *worker;
    struct alignment_turns *turns;
    const struct alignment_iteration *iteration;
    struct alignment_particle *particles; /* [room] */
    struct alignment_result *results;     /* [room] */
    int *places;                          /* [room]: in the caller's arrays */
    struct run *runs;                     /* [room] */
    int count, run_count, room;
    int turn; /* after a failure: of the run that failed */
};

struct alignment_several {
    int count;
    struct alignment **workers; /* [count] */
    struct worker **threads;    /* [count]; the first is NULL */
    struct job *jobs;           /* [count] */
    struct alignment_turns *turns;
    int runs, chunk; /* of the iteration so far; chunk of the last particle, −1: none yet */
};

int alignment_several_count(const struct alignment *a) {
    return a->several->count;
}

static struct alignment *leader(const struct alignment *a) {
    return a->several->workers[0];
}

static int count_alike(const struct alignment_options *o, const struct device *device) {
    int alike = 0;
    for (int i = 0; i < o->device_count; i++)
        alike += o->devices[i].kind == device->kind && o->devices[i].index == device->index;
    return alike;
}

/* Runs the jobs of all workers but the first. */
static void start(struct alignment_several *s, worker_run *run) {
    for (int i = 1; i < s->count; i++)
        worker_start(s->threads[i], run, &s->jobs[i]);
}

/* Waits for all workers. Returns the error of the earliest turn, so that it does not depend on the fastest. */
static enum status wait_for_all(struct alignment_several *s, enum status first, const struct err *first_err,
                                struct err *err) {
    enum status status = first;
    struct err own = *first_err;
    int turn = s->jobs[0].turn;
    for (int i = 1; i < s->count; i++) {
        struct err other = {0};
        enum status found = worker_wait(s->threads[i], &other);
        if (found == STATUS_OK || (status != STATUS_OK && turn <= s->jobs[i].turn)) continue;
        status = found;
        own = other;
        turn = s->jobs[i].turn;
    }
    if (status != STATUS_OK && err != NULL) *err = own;
    return status;
}

/* Runs the jobs of all workers at the same time, that of the first in this thread. */
static enum status run_all(struct alignment_several *s, worker_run *run, struct err *err) {
    struct err own = {0};
    for (int i = 0; i < s->count; i++)
        s->jobs[i].turn = i;
    start(s, run);
    enum status first = run(&s->jobs[0], &own);
    return wait_for_all(s, first, &own, err);
}

static enum status find_one(void *context, struct err *err) {
    struct job *job = context;
    return alignment_find_memory(&job->options.device, &job->memory, err);
}

/* Finds the memory of each worker before any takes its own. Workers on one CUDA device share what is free there. All
 * have the least of any, because they follow one plan. */
static enum status find_memory(struct alignment *a, struct err *err) {
    struct alignment_several *s = a->several;
    double least = INFINITY;
    if (a->options.memory > 0) return STATUS_OK;
    TRY(run_all(s, find_one, err));
    for (int i = 0; i < s->count; i++) {
        const struct device *device = &a->options.devices[i];
        const int sharing = device->kind == DEVICE_CPU ? 1 : count_alike(&a->options, device);
        least = fmin(least, s->jobs[i].memory / sharing);
    }
    a->options.memory = least;
    for (int i = 0; i < s->count; i++)
        s->jobs[i].options.memory = least;
    return STATUS_OK;
}

static enum status create_one(void *context, struct err *err) {
    struct job *job = context;
    return alignment_create(&job->options, &job->worker, err);
}

/* Returns the threads of a worker. The first works in the caller's thread. There OpenMP would end the threads that a
 * smaller team does not need, and take milliseconds to start them again for the caller's own loops: on devices, where
 * the threads have little to do, it has all. On the CPU they compare particles. */
static int threads_of(const struct alignment *a, int worker) {
    const bool all = worker == 0 && a->options.devices[0].kind != DEVICE_CPU;
    return all ? a->options.threads : a->options.threads / a->several->count;
}

/* Each worker is made by its own thread, because a device takes a while to open. The first one's device becomes the
 * current one of the caller's thread, which makes references on it. */
static enum status create_workers(struct alignment *a, struct err *err) {
    struct alignment_several *s = a->several;
    for (int i = 0; i < s->count; i++) {
        struct job *job = &s->jobs[i];
        *job = (struct job){.options = a->options, .turns = s->turns};
        job->options.device = a->options.devices[i];
        job->options.device_count = 0;
        job->options.threads = threads_of(a, i);
        if (i > 0) TRY(worker_create(&s->threads[i], err));
    }
    TRY(find_memory(a, err));
    enum status status = run_all(s, create_one, err);
    for (int i = 0; i < s->count; i++)
        s->workers[i] = s->jobs[i].worker;
    TRY(status);
    for (int i = 1; i < s->count; i++) {
        FAIL_IF(s->workers[i]->work != s->workers[0]->work, err, STATUS_BAD_ARGUMENT,
                "the CPU and a CUDA device cannot share particles: their sums differ in the last digits");
        s->workers[i]->leader = s->workers[0];
    }
    return STATUS_OK;
}

static enum status create(struct alignment *a, struct err *err) {
    const size_t count = (size_t)a->options.device_count;
    TRY(mem_new(1, sizeof *a->several, "an E-step", &a->several, err));
    struct alignment_several *s = a->several;
    TRY(mem_new(count, sizeof *s->workers, "an E-step", &s->workers, err));
    TRY(mem_new(count, sizeof *s->threads, "an E-step", &s->threads, err));
    TRY(mem_new(count, sizeof *s->jobs, "an E-step", &s->jobs, err));
    s->count = (int)count;
    TRY(alignment_turns_create(&s->turns, err));
    return create_workers(a, err);
}

static void release_job(struct job *job) {
    mem_free(&job->particles);
    mem_free(&job->results);
    mem_free(&job->places);
    mem_free(&job->runs);
    job->room = 0;
}

static enum status destroy_one(void *context, struct err *err) {
    struct job *job = context;
    (void)err;
    alignment_destroy(&job->worker);
    return STATUS_OK;
}

/* The first worker goes last: the others may hold on to what is its own. */
static void destroy(struct alignment *a) {
    struct alignment_several *s = a->several;
    if (s == NULL) return;
    for (int i = 1; i < s->count; i++)
        if (s->threads[i] != NULL) worker_start(s->threads[i], destroy_one, &s->jobs[i]);
    for (int i = 1; i < s->count; i++)
        worker_destroy(&s->threads[i]);
    for (int i = 0; i < s->count; i++) {
        release_job(&s->jobs[i]);
        alignment_destroy(&s->jobs[i].worker);
    }
    alignment_turns_destroy(&s->turns);
    mem_free(&s->workers);
    mem_free(&s->threads);
    mem_free(&s->jobs);
    mem_free(&a->several);
}

static struct workspace *workspace(const struct alignment *a) {
    return alignment_workspace(leader(a));
}

static enum status keep_images(struct alignment *a, int count, size_t most_bytes, struct err *err) {
    for (int i = 0; i < a->several->count; i++)
        TRY(alignment_keep_images(a->several->workers[i], count, most_bytes, err));
    return STATUS_OK;
}

static void forget_images(struct alignment *a) {
    for (int i = 0; i < a->several->count; i++)
        alignment_forget_images(a->several->workers[i]);
}

bool alignment_several_keeps_image(const struct alignment *a, int number, int chunk) {
    return alignment_keeps_image(a->several->workers[chunk % a->several->count], number, 0);
}

int alignment_several_image_room(const struct alignment *a, int chunk) {
    return alignment_image_room(a->several->workers[chunk % a->several->count], 0);
}

static enum status begin_one(void *context, struct err *err) {
    struct job *job = context;
    job->worker->iteration = *job->iteration;
    return job->worker->work->begin(job->worker, job->iteration, err);
}

/* The first worker comes before the others, which copy its references and its plan. */
static enum status begin(struct alignment *a, const struct alignment_iteration *iteration, struct err *err) {
    struct alignment_several *s = a->several;
    struct err own = {0};
    s->runs = 0;
    s->chunk = -1;
    for (int i = 0; i < s->count; i++) {
        s->jobs[i].iteration = iteration;
        s->jobs[i].turn = i;
    }
    TRY(begin_one(&s->jobs[0], err));
    start(s, begin_one);
    return wait_for_all(s, STATUS_OK, &own, err);
}

static int batch(const struct alignment *a) {
    const struct alignment_several *s = a->several;
    int least = alignment_batch(s->workers[0]);
    for (int i = 1; i < s->count; i++) {
        int other = alignment_batch(s->workers[i]);
        if (other < least) least = other;
    }
    return least;
}

static enum status reserve_job(struct job *job, int count, struct err *err) {
    if (count <= job->room) return STATUS_OK;
    size_t n = (size_t)count;
    release_job(job);
    TRY(mem_new(n, sizeof *job->particles, "particles", &job->particles, err));
    TRY(mem_new(n, sizeof *job->results, "particles", &job->results, err));
    TRY(mem_new(n, sizeof *job->places, "particles", &job->places, err));
    TRY(mem_new(n, sizeof *job->runs, "particles", &job->runs, err));
    job->room = count;
    return STATUS_OK;
}

/* Measures on the first worker, which must not keep images that another one will compare. */
static enum status scale(struct alignment *a, const struct alignment_particle *particles, int count, double *ret_mean,
                         double *dots, double *norms, struct err *err) {
    struct job *job = &a->several->jobs[0];
    const int most = alignment_batch(leader(a));
    double mean;
    for (int first = 0, part; first < count; first += part) {
        part = count - first < most ? count - first : most;
        TRY(reserve_job(job, part, err));
        for (int i = 0; i < part; i++) {
            job->particles[i] = particles[first + i];
            job->particles[i].number = 0;
        }
        TRY(leader(a)->work->scale(leader(a), job->particles, part, &mean, dots, norms, err));
        if (first == 0) *ret_mean = mean;
        if (dots == NULL) break;
    }
    return STATUS_OK;
}

static enum status bring_one(void *context, struct err *err) {
    struct job *job = context;
    const struct alignment_work *work = job->worker->work;
    return work->bring != NULL ? work->bring(job->worker, job->particles, job->count, err) : STATUS_OK;
}

static enum status bring(struct alignment *a, const struct alignment_particle *particles, int count, struct err *err) {
    struct alignment_several *s = a->several;
    for (int i = 0; i < s->count; i++) {
        s->jobs[i].count = 0;
        TRY(reserve_job(&s->jobs[i], count, err));
    }
    for (int i = 0; i < count; i++) {
        struct job *job = &s->jobs[particles[i].chunk % s->count];
        job->particles[job->count++] = particles[i];
    }
    return run_all(s, bring_one, err);
}

/* Gives each worker its particles. shared: workers add to the same sums, one chunk of this call after the other. A
 * chunk that comes again later is another one: particles between belong to other sums, whoever compares them. */
static enum status deal(struct alignment_several *s, const struct alignment_particle *particles, int count, bool shared,
                        struct alignment_result *results, struct err *err) {
    for (int i = 0; i < s->count; i++) {
        s->jobs[i].count = s->jobs[i].run_count = 0;
        TRY(reserve_job(&s->jobs[i], count, err));
    }
    if (shared) s->runs = 0, s->chunk = -1;
    for (int i = 0; i < count; i++) {
        struct job *job = &s->jobs[particles[i].chunk % s->count];
        bool begins = particles[i].chunk != s->chunk;
        s->runs += begins;
        s->chunk = particles[i].chunk;
        if (begins || job->run_count == 0)
            job->runs[job->run_count++] = (struct run){.first = job->count, .turn = s->runs - 1};
        job->runs[job->run_count - 1].count++;
        job->particles[job->count] = particles[i];
        job->particles[job->count].chunk = s->runs;
        job->results[job->count] = results[i];
        job->places[job->count++] = i;
    }
    return STATUS_OK;
}

/* Adds the runs of a worker to the sums of all, each in its turn. */
static enum status add_in_turn(struct job *job, struct err *err) {
    const struct alignment_work *work = job->worker->work;
    for (int i = 0; i < job->run_count; i++) {
        const struct run *run = &job->runs[i];
        work->take_turn(job->worker, job->turns, run->turn);
        enum status status =
            work->add(job->worker, job->particles + run->first, run->count, job->results + run->first, err);
        /* Whatever the worker did, the next turn comes after all earlier ones. */
        if (status == STATUS_OK) status = alignment_turns_await(job->turns, run->turn, err);
        alignment_turns_end(job->turns, run->turn, status != STATUS_OK);
        job->turn = run->turn;
        TRY(status);
    }
    return STATUS_OK;
}

static enum status add_one(void *context, struct err *err) {
    struct job *job = context;
    const int most = alignment_batch(job->worker);
    if (job->worker->work->take_turn != NULL) return add_in_turn(job, err);
    for (int first = 0, part; first < job->count; first += part) {
        part = job->count - first < most ? job->count - first : most;
        TRY(job->worker->work->add(job->worker, job->particles + first, part, job->results + first, err));
    }
    return STATUS_OK;
}

/* A single worker on the CPU takes no more particles at a time than its plan allows. */
static enum status check_runs(const struct alignment_several *s, int most, struct err *err) {
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < s->jobs[i].run_count; k++)
            FAIL_IF(s->jobs[i].runs[k].count > most, err, STATUS_BAD_ARGUMENT,
                    "a chunk of %d particles cannot be compared at a time, at most %d can", s->jobs[i].runs[k].count,
                    most);
    return STATUS_OK;
}

static enum status add(struct alignment *a, const struct alignment_particle *particles, int count,
                       struct alignment_result *results, struct err *err) {
    struct alignment_several *s = a->several;
    const bool shared = leader(a)->work->take_turn != NULL;
    struct err own = {0};
    TRY(deal(s, particles, count, shared, results, err));
    if (shared) TRY(check_runs(s, batch(a), err));
    alignment_turns_begin(s->turns);
    for (int i = 0; i < s->count; i++)
        s->jobs[i].turn = s->jobs[i].run_count > 0 ? s->jobs[i].runs[0].turn : 0;
    start(s, add_one);
    enum status first = add_one(&s->jobs[0], &own);
    TRY(wait_for_all(s, first, &own, err));
    for (int i = 0; i < s->count; i++)
        for (int k = 0; k < s->jobs[i].count; k++)
            results[s->jobs[i].places[k]] = s->jobs[i].results[k];
    return STATUS_OK;
}

static enum status close_one(void *context, struct err *err) {
    struct job *job = context;
    return job->worker->work->close(job->worker, err);
}

static enum status finish(struct alignment *a, struct err *err) {
    struct alignment_several *s = a->several;
    const struct alignment_work *work = leader(a)->work;
    struct err own = {0};
    for (int i = 0; i < s->count; i++)
        s->jobs[i].turn = i;
    if (work->close != NULL) {
        start(s, close_one);
        TRY(wait_for_all(s, STATUS_OK, &own, err));
        for (int i = 1; i < s->count; i++)
            TRY(work->join(leader(a), s->workers[i], err));
    }
    return work->finish != NULL ? work->finish(leader(a), err) : STATUS_OK;
}

static enum status seconds(struct alignment *a, double *ret_seconds, struct err *err) {
    return alignment_device_seconds(leader(a), ret_seconds, err);
}

static size_t trace(struct alignment *a, struct arena_step *steps, size_t capacity) {
    return alignment_trace(leader(a), steps, capacity);
}

const struct alignment_work alignment_several_work = {
    .create = create,
    .destroy = destroy,
    .workspace = workspace,
    .keep_images = keep_images,
    .forget_images = forget_images,
    .bring = bring,
    .begin = begin,
    .batch = batch,
    .scale = scale,
    .add = add,
    .finish = finish,
    .seconds = seconds,
    .trace = trace,
};
