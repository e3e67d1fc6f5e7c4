/* Times alignment_cuda_compare at real sizes, for test_alignment_compare_devices.c. Values are random: times do not
 * depend on them. */

/* FP32 rate of one H200 (measured: a large product of cuBLAS). */
static const double MEASURED_RATE = 52e12;

static float *noise(size_t count) {
    float *values = floats(count);
    uint32_t x = (uint32_t)(uniform() * 4e9) | 1;
    for (size_t i = 0; i < count; i++) {
        x ^= x << 13, x ^= x >> 17, x ^= x << 5;
        values[i] = (float)x * 0x1p-32f - 0.5f;
    }
    return values;
}

static float *noise_on_device(size_t count) {
    float *values = noise(count), *device = on_device(values, count, sizeof *values);
    free(values);
    return device;
}

/* Makes grids and particles of noise. */
static void make_noise(struct setting *s) {
    struct err err = {0};
    must(fourier_pixels_create(s->box, s->size, &s->pixels, &err), &err);
    size_t n = (size_t)s->pixels.count, count = (size_t)s->particles;
    int r_max = s->size / 2, reach = 2 * r_max + 1, nx = reach + 1, ny = 2 * reach + 1;
    for (int k = 0; k < s->references; k++)
        s->references_cuda.grids[k] =
            (struct grid_cuda){.values = noise_on_device(2 * (size_t)nx * ny * (s->dimensions == 3 ? ny : 1)),
                               .nx = nx,
                               .ny = ny,
                               .reach = reach,
                               .r_max = r_max,
                               .dimensions = s->dimensions};
    s->references_cuda.pixels = (struct pixels_cuda){.kx = on_device(s->pixels.kx, n, sizeof(short)),
                                                     .ky = on_device(s->pixels.ky, n, sizeof(short)),
                                                     .box = s->box,
                                                     .count = (int)n};
    s->references_cuda.coarse_pixels = fourier_pixels_within(&s->pixels, s->coarse_size);
    s->references_cuda.fine_pixels = s->pixels.count;
    s->stride = (n + 31) / 32 * 32;
    s->particles_cuda = (struct particles_cuda){.count = s->particles,
                                                .stride = s->stride,
                                                .masked = noise_on_device(count * 2 * s->stride),
                                                .ctf = noise_on_device(count * s->stride),
                                                .weight = noise_on_device(count * s->stride)};
}

static int ascending_rows(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Lists `rows` rows of each particle: rows near a random pose, or (sigma 0) from the whole grid. Each row has `shifts`
 * samples, all close together, like real samples that fit. */
static void make_busy_list(const struct setting *s, double sigma, int rows, int shifts, struct list *l) {
    struct err err = {0};
    struct sampling_subset near = {0};
    int t = s->sampling.shift_count, *chosen = host_new((size_t)s->rows + 100000, sizeof *chosen);
    l->rows = host_new((size_t)s->particles * (size_t)rows + 1, sizeof *l->rows);
    l->samples = host_new((size_t)s->particles * (size_t)rows * (size_t)shifts + 1, sizeof *l->samples);
    uint32_t row_count = 0, count = 0;
    for (int p = 0; p < s->particles; p++) {
        double pose[9];
        int found = s->rows;
        euler_to_matrix(360 * uniform(), acos(1.9 * uniform() - 0.95) * 180 / M_PI, 360 * uniform(), pose);
        if (sigma > 0) {
            must(sampling_near(&s->grid, pose, sigma, 0, &near, &err), &err);
            found = near.count;
        }
        int want = rows < found ? rows : found;
        for (int i = 0; i < found; i++)
            chosen[i] = sigma > 0 ? near.orientations[i] : i;
        for (int i = 0; i < want; i++) {
            int other = i + (int)(uniform() * (found - i)), swap = chosen[i];
            chosen[i] = chosen[other], chosen[other] = swap;
        }
        qsort(chosen, (size_t)want, sizeof *chosen, ascending_rows);
        for (int i = 0; i < want; i++) {
            l->rows[row_count++] = (struct row_cuda){.particle = p, .row = chosen[i], .first = count};
            int from = (int)(uniform() * (t - shifts + 1));
            for (int k = 0; k < shifts; k++)
                l->samples[count++] = (uint32_t)((size_t)chosen[i] * t + from + k);
        }
    }
    l->rows[row_count] = (struct row_cuda){.particle = s->particles, .first = count};
    upload_list(l, s->particles, row_count);
    sampling_subset_destroy(&near);
    free(chosen);
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Returns the best time of three; each time covers several launches. */
static double time_of(const struct setting *s, const struct list *l, bool fine, float *values) {
    struct err err = {0};
    float one;
    double best = 1e9;
    for (int round = 0; round < 4; round++) {
        const int launches = 3;
        double start = seconds();
        for (int i = 0; i < launches; i++)
            must(alignment_cuda_compare(&s->references_cuda, &s->sampling, &s->particles_cuda, &l->device, fine, values,
                                        NULL, &err),
                 &err);
        from_device(&one, values, sizeof one);
        double took = (seconds() - start) / launches;
        if (round > 0 && took < best) best = took;
    }
    return best;
}

struct work_case {
    const char *name;
    double sigma; /* in steps of the grid; 0: rows from the whole grid */
    int rows, shifts;
    bool fine;
    enum { FROM_GRID, FROM_QUADS, FROM_SLICES } source;
};

static void time_case(struct setting *s, const struct work_case *c) {
    struct err err = {0};
    struct list list;
    must(arena_open(arena, ARENA_PARTICLES, &err), &err);
    make_busy_list(s, c->sigma * s->grid.angle_step, c->rows, c->shifts, &list);
    int rotations = c->fine ? s->rotations : 1, each = rotations * (c->fine ? s->sampling.shift_children : 1);
    double n = c->fine ? s->pixels.count : s->references_cuda.coarse_pixels, made = 0;
    float *values = on_device(NULL, (size_t)list.device.count * (size_t)each, sizeof *values);
    static const char *const sources[] = {"grid", "quads", "slices"};
    for (int k = 0; k < s->references; k++)
        s->references_cuda.grids[k].quads = NULL;
    if (c->source == FROM_QUADS) make_quads(s);
    s->references_cuda.slices = NULL;
    if (c->source == FROM_SLICES) {
        float *slices = on_device(
                  NULL, (size_t)s->rows * s->rotations * 2 * alignment_cuda_fine_slice_row(&s->references_cuda), 4),
              one;
        for (int i = 0; i < 2; i++) {
            double start = seconds();
            must(alignment_cuda_fine_slices(&s->references_cuda, &s->sampling, 0, s->rows, slices, NULL, &err), &err);
            from_device(&one, slices, sizeof one);
            made = seconds() - start;
        }
        s->references_cuda.slices = slices;
    }
    double took = time_of(s, &list, c->fine, values), whole = 6496.0 / s->particles;
    double floor = 4 * n * list.device.count * each / MEASURED_RATE;
    double points = n * rotations * list.device.row_count;
    printf("%-26s %5.0f px %7.1f rows %5.1f samples a row %-6s %8.2f ms, products at 52 TF %6.2f (%3.0f %%), %5.1f G "
           "slice "
           "pixels/s; 6,496 particles %7.1f ms%s",
           c->name, n, (double)list.device.row_count / s->particles, (double)list.device.count / list.device.row_count,
           sources[c->source], 1e3 * took, 1e3 * floor, 100 * floor / took, points / took * 1e-9, 1e3 * took * whole,
           c->source == FROM_SLICES ? "" : "\n");
    if (c->source == FROM_SLICES) printf("; slices of %d rows %.2f ms\n", s->rows, 1e3 * made);
    fflush(stdout);
    free_list(&list);
    arena_close(arena, ARENA_PARTICLES);
}

static void time_setting(struct setting s, const struct work_case *cases, int count) {
    struct err err = {0};
    must(arena_open(arena, ARENA_ITERATION, &err), &err);
    make_sampling(&s);
    make_noise(&s);
    for (int i = 0; i < count; i++)
        time_case(&s, &cases[i]);
    free_setting(&s);
    arena_close(arena, ARENA_ITERATION);
}

static void times_of_real_work(void **state) {
    (void)state;
    const struct work_case global[] = {
        {"3D global", 0, 300, 10, true, FROM_SLICES}, {"3D global", 0, 300, 10, true, FROM_GRID},
        {"3D global", 0, 300, 10, true, FROM_QUADS},  {"3D global", 0, 300, 1, true, FROM_SLICES},
        {"3D global", 0, 300, 1, true, FROM_GRID},    {"3D global", 0, 100, 21, true, FROM_SLICES},
    };
    time_setting((struct setting){.dimensions = 3,
                                  .box = 128,
                                  .size = 64,
                                  .coarse_size = 40,
                                  .references = 1,
                                  .order = 2,
                                  .particles = 192,
                                  .shift_range = 5,
                                  .shift_step = 2,
                                  .children = true},
                 global, 6);
    time_setting((struct setting){.dimensions = 3,
                                  .box = 128,
                                  .size = 40,
                                  .coarse_size = 40,
                                  .references = 1,
                                  .order = 2,
                                  .particles = 192,
                                  .shift_range = 5,
                                  .shift_step = 2,
                                  .children = true},
                 global, 2);
    const struct work_case local[] = {
        {"3D near, coarse", 1, 400, 29, false, FROM_GRID}, {"3D near, coarse", 1, 400, 29, false, FROM_QUADS},
        {"3D near, fine", 1, 30, 4, true, FROM_GRID},      {"3D near, fine", 1, 30, 4, true, FROM_QUADS},
        {"3D near, fine", 1, 30, 10, true, FROM_QUADS},
    };
    time_setting((struct setting){.dimensions = 3,
                                  .box = 128,
                                  .size = 80,
                                  .coarse_size = 64,
                                  .references = 1,
                                  .order = 5,
                                  .particles = 192,
                                  .shift_range = 3,
                                  .shift_step = 1,
                                  .children = true},
                 local, 5);
    time_setting((struct setting){.dimensions = 3,
                                  .box = 128,
                                  .size = 128,
                                  .coarse_size = 128,
                                  .references = 1,
                                  .order = 5,
                                  .particles = 192,
                                  .shift_range = 3,
                                  .shift_step = 1,
                                  .children = true},
                 local, 5);
    const struct work_case classes_2d[] = {{"2D", 0, 150, 4, true, FROM_SLICES},
                                           {"2D", 0, 150, 4, true, FROM_GRID},
                                           {"2D", 0, 400, 21, true, FROM_SLICES}};
    time_setting((struct setting){.dimensions = 2,
                                  .box = 128,
                                  .size = 64,
                                  .coarse_size = 40,
                                  .references = 50,
                                  .psi_count = 30,
                                  .particles = 512,
                                  .shift_range = 5,
                                  .shift_step = 2,
                                  .children = true},
                 classes_2d, 3);
}
