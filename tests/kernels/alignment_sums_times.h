/* Times residuals and back-projection at real sizes, beside their lower bounds: for test_alignment_sums_devices.c
 * only. */

/* Limits of an H200 per second: memory sectors to which integers are added, and single-precision instructions
 * (measured; 132 processors of 128 lanes at 1.755 GHz). */
static const double SECTORS = 8.7e10, INSTRUCTIONS = 2.96e13;
/* Instructions per pose and pixel: its phase, and two products. */
static const double OF_POSE = 22;

struct timed {
    const char *name;
    int dimensions, order, size, particles, references, rows, shifts;
    bool near, every; /* near: rows near a pose of each particle; every: each slice once */
    double batches;   /* batches per iteration */
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void real_frames(struct world *w, const struct sampling *s) {
    w->frame_count = w->directions * (w->dimensions == 3 ? 4 : 1), w->psi_count = w->psis * 2;
    w->shift_count = w->shifts * 4, w->rotations = w->dimensions == 3 ? 8 : 2;
    w->frames = host_new((size_t)w->frame_count * 9, sizeof(float));
    w->psi = host_new((size_t)w->psi_count * 2, sizeof(float));
    w->shift = host_new((size_t)w->shift_count * 2, sizeof(float));
    for (int i = 0; i < w->frame_count; i++) {
        double m[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
        if (w->dimensions == 3) sampling_child_frame(s, i / 4, i % 4, m);
        for (int j = 0; j < 9; j++)
            w->frames[9 * i + j] = (float)m[j];
    }
    for (int i = 0; i < w->psi_count; i++) {
        double angle = 2 * M_PI * (i / 2 + (i % 2 == 0 ? -0.25 : 0.25)) / w->psis;
        w->psi[2 * i] = (float)cos(angle), w->psi[2 * i + 1] = (float)sin(angle);
    }
    for (int i = 0; i < w->shift_count; i++) {
        double shift[2];
        sampling_child_shift(s, i / 4, i % 4, shift);
        w->shift[2 * i] = (float)shift[0], w->shift[2 * i + 1] = (float)shift[1];
    }
}

static int by_number(const void *a, const void *b) {
    return (*(const int *)a > *(const int *)b) - (*(const int *)a < *(const int *)b);
}

/* Lists `rows` rows of a particle, with all their children at `shifts` shifts. */
static void rows_of(const struct world *w, const struct timed *t, const struct sampling *s, int *rows) {
    struct err err = {0};
    int all = w->references * w->directions * w->psis;
    struct sampling_subset near = {0};
    if (t->near) {
        double pose[9];
        sampling_matrix(s, (int)(uniform() * all), pose);
        must(sampling_near(s, pose, s->angle_step, 0, &near, &err), &err);
    }
    for (int i = 0; i < t->rows && !t->near; i++)
        rows[i] = (int)((double)all * (i + uniform()) / t->rows);
    for (int i = 0; i < t->rows && t->near; i++) {
        int nearest = 0;
        for (int k = 1; k < near.count; k++)
            if (near.log_priors[k] > near.log_priors[nearest]) nearest = k;
        near.log_priors[nearest] -= 1000;
        rows[i] = near.orientations[nearest];
    }
    qsort(rows, (size_t)t->rows, sizeof *rows, by_number);
    sampling_subset_destroy(&near);
}

static void real_list(struct world *w, const struct timed *t, const struct sampling *s) {
    uint32_t slices = (uint32_t)(w->references * w->directions * w->psis * w->rotations);
    int each = t->rows * w->rotations * t->shifts, *rows = host_new((size_t)t->rows + 1, sizeof *rows);
    size_t most = t->every ? slices + (size_t)w->particles : (size_t)w->particles * (size_t)each;
    w->begin = host_new((size_t)w->particles + 1, sizeof *w->begin);
    w->list = host_new(most + 1, sizeof *w->list);
    w->best = host_new((size_t)w->particles, sizeof *w->best);
    for (int p = 0; p < w->particles; p++) {
        w->begin[p] = w->count;
        if (t->every) {
            for (uint32_t slice = (uint32_t)p; slice < slices; slice += (uint32_t)w->particles)
                w->list[w->count++] =
                    (struct contribution_cuda){pose_of(w, slice, (int)(slice % (uint32_t)w->shift_count)), p, 1e-3f};
        } else {
            rows_of(w, t, s, rows);
            int shift = (int)(uniform() * (w->shift_count - t->shifts));
            for (int i = 0; i < each; i++)
                w->list[w->count++] = (struct contribution_cuda){{(uint32_t)rows[i / t->shifts / w->rotations],
                                                                  (uint16_t)(i / t->shifts % w->rotations),
                                                                  (uint16_t)(shift + i % t->shifts)},
                                                                 p,
                                                                 1.0f / (float)each};
        }
        w->best[p] = (struct best_cuda){.weight_sum = 1,
                                        .pose.row = w->list[w->begin[p]].pose.row,
                                        .pose.rotation = w->list[w->begin[p]].pose.rotation};
    }
    w->begin[w->particles] = w->count;
    free(rows);
}

/* Returns the number of scattered pieces: slices, as long as none is long. */
static double slices_of(const struct world *w) {
    struct contribution_cuda *list = host_new(w->count, sizeof *list);
    double slices = 0;
    memcpy(list, w->list, w->count * sizeof *list);
    qsort(list, w->count, sizeof *list, by_place);
    for (uint32_t i = 0; i < w->count; i++)
        slices += i == 0 || slice_of(w, list[i].pose) != slice_of(w, list[i - 1].pose);
    free(list);
    return slices;
}

enum work { RESIDUALS, SUMS, SUMS_NEAR };

static double best_time(struct world *w, enum work work) {
    struct err err = {0};
    double best = 1e9;
    size_t bytes = 0;
    must(alignment_cuda_back_project_scratch(w->count, &bytes, &err), &err);
    if (bytes < alignment_cuda_residuals_scratch(&w->d_particles))
        bytes = alignment_cuda_residuals_scratch(&w->d_particles);
    must(arena_open(arena, ARENA_PARTICLES, &err), &err);
    void *scratch = on_device(NULL, 1, bytes), *power = on_device(NULL, (size_t)w->particles * (size_t)w->shells, 4);
    void *sums = on_device(NULL, 2 * (size_t)w->particles, sizeof(double));
    for (int i = 0; i < 4; i++) {
        (void)get_fill(w);
        double start = now();
        if (work == RESIDUALS)
            must(alignment_cuda_residuals(&w->d_references, &w->d_sampling, &w->d_particles, w->d_list, w->d_begin,
                                          w->d_best, w->shells, w->d_known, scratch, power, sums, NULL, &err),
                 &err);
        else
            must(alignment_cuda_back_project(&w->d_references, &w->d_sampling, &w->d_particles, w->d_factor, w->d_list,
                                             w->d_begin, w->count, work == SUMS_NEAR, scratch, &w->d_sums, NULL, &err),
                 &err);
        (void)get_fill(w);
        double taken = now() - start;
        if (taken < best) best = taken;
    }
    arena_close(arena, ARENA_PARTICLES);
    return best;
}

/* Returns the number of a slice's pixels inside the circle that is added. */
static int pixels_inside(const struct world *w) {
    int inside = 0;
    for (int i = 0; i < w->pixels.count; i++)
        inside += w->pixels.kx[i] * w->pixels.kx[i] + w->pixels.ky[i] * w->pixels.ky[i] <= w->size * w->size / 4;
    return inside;
}

static void time_one(const struct timed *t) {
    struct err err = {0};
    struct sampling s = {0};
    struct world w = {.dimensions = t->dimensions,
                      .box = 128,
                      .size = t->size,
                      .particles = t->particles,
                      .references = t->references};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    must(sampling_create(t->order, NULL, 5, 2, &s, &err), &err);
    sampling_perturb(&s, 0.3);
    must(fourier_pixels_create(w.box, w.size, &w.pixels, &err), &err);
    w.shells = w.box / 2 + 1;
    w.directions = t->dimensions == 3 ? s.direction_count : 1;
    w.psis = t->dimensions == 3 ? s.psi_count : 30;
    w.shifts = s.shift_count;
    real_frames(&w, &s);
    struct world one = w;
    one.references = t->references > 2 ? 1 : t->references;
    make_grids(&one);
    w.voxels = one.voxels, w.grids[0] = one.grids[0], w.grids[1] = one.grids[1];
    w.d_references = one.d_references, w.d_sums = one.d_sums;
    for (int k = one.references; k < w.references; k++) {
        w.d_references.grids[k] = w.d_references.grids[0];
        w.d_sums.voxels[k] = on_device(NULL, (size_t)w.voxels * 4, sizeof(int64_t));
    }
    make_particles(&w);
    real_list(&w, t, &s);
    bring(&w);
    alignment_cuda_sums_scale(w.sigma2, 1, w.shells, 1e6, &w.d_sums);
    clear_sums(&w);
    int inside = pixels_inside(&w);
    double slices = slices_of(&w), residual = best_time(&w, RESIDUALS), sums = best_time(&w, SUMS);
    double near = t->near ? best_time(&w, SUMS_NEAR) : 0, quads = 0, stored = 0;
    if (w.dimensions == 3) {
        use_source(&w, QUADS);
        quads = best_time(&w, RESIDUALS);
    }
    if (!t->near && (double)w.references * w.directions * w.psis * w.rotations * w.pixels.count * 8 < 5e9) {
        use_source(&w, STORED);
        stored = best_time(&w, RESIDUALS);
    }
    double phases = (double)w.count * w.pixels.count * OF_POSE / INSTRUCTIONS;
    double sectors = slices * inside * (t->dimensions == 3 ? 8 : 4) / SECTORS;
    double floor = phases > sectors ? phases : sectors, all = t->batches;
    printf(
        "%-7s %d %4d %5d %8u %7.0f | %6.2f %6.2f %6.2f %6.2f | %6.2f %6.2f %6.2f %3.0f %% %6.2f | %7.1f %7.1f %7.1f\n",
        t->name, t->order, t->size, w.pixels.count, w.count, slices, 1e3 * residual, 1e3 * quads, 1e3 * stored,
        1e3 * phases, 1e3 * sums, 1e3 * phases, 1e3 * sectors, 100 * floor / sums, 1e3 * near,
        1e3 *
            (stored > 0  ? stored
             : quads > 0 ? quads
                         : residual) *
            all,
        1e3 * sums * all, 1e3 * near * all);
    fflush(stdout);
    sampling_destroy(&s);
    free_world(&w);
}

static void times_at_real_sizes(void **state) {
    (void)state;
    puts(
        "box 128, 512 particles; ms. Residuals from grids, quads, stored slices; floor: phases. Sums: floors: phases,");
    puts(
        "sectors that are added to; per particle first (near). Iteration: 6,496 particles: residuals, sums, sums near");
    puts("poses order size px    poses  slices | grids  quads stored phases |   sums phases sectors     near |   "
         "iteration");
    const struct timed cases[] = {
        {"every", 3, 3, 40, 512, 1, 0, 0, false, true, 1},
        {"every", 3, 3, 64, 512, 1, 0, 0, false, true, 1},
        {"every", 3, 3, 80, 512, 1, 0, 0, false, true, 1},
        {"global", 3, 3, 64, 512, 1, 37, 2, false, false, 12.7},
        {"global", 3, 3, 64, 512, 1, 37, 8, false, false, 12.7},
        {"local", 3, 5, 64, 512, 1, 13, 2, true, false, 12.7},
        {"local", 3, 5, 80, 512, 1, 13, 2, true, false, 12.7},
        {"local", 3, 5, 128, 512, 1, 13, 2, true, false, 12.7},
        {"local", 3, 5, 80, 512, 1, 13, 8, true, false, 12.7},
        {"local", 3, 6, 128, 512, 1, 13, 4, true, false, 12.7},
        {"wide", 3, 5, 80, 512, 1, 60, 4, true, false, 12.7},
        {"2D", 2, 3, 64, 512, 50, 50, 4, false, false, 12.7},
        {"2D", 2, 3, 128, 512, 50, 50, 4, false, false, 12.7},
        {"global", 3, 3, 40, 192, 4, 37, 8, false, false, 33.8},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        time_one(&cases[i]);
}

static int open_large(void **state) {
    (void)state;
    struct err err = {0};
    return arena_create(&DEVICE, (size_t)16 << 30, &arena, &err) == STATUS_OK ? 0 : -1;
}

static const struct CMUnitTest times[] = {cmocka_unit_test(times_at_real_sizes)};
