/* Tests the superposer in process. A matrix that grows by rows equals the matrix of all structures at once. A second
 * run over the same ledger resumes the first. Also tests the items that it sends, structures that are put back, and
 * files with other atoms. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/edges/ledger.h"
#include "common/harness/stage_private.h"
#include "common/memory.h"
#include "stages/superposer/superposer.h"
#include "tests/common/scratch.h"

enum { ATOMS = 12, COUNT = 30, SEED = 99 };

static double uniform(unsigned *state) {
    *state = *state * 1664525u + 1013904223u;
    return (*state >> 8) / 16777216.0;
}

/* Writes structure `index` to a PDB file with three decimals: one of two shapes in turn, with noise. */
static void make_xyz(int index, float xyz[3 * ATOMS]) {
    unsigned shape = SEED + (unsigned)index % 2, noise = SEED * 1000 + (unsigned)index;
    for (int i = 0; i < 3 * ATOMS; i++)
        xyz[i] = (float)(rint(1000 * (20 * uniform(&shape) + uniform(&noise))) / 1000);
}

static void write_structure(const char *name, int index, const char *residue) {
    struct structure_atom atoms[ATOMS];
    float xyz[3 * ATOMS];
    struct structure_model model = {.count = ATOMS, .atoms = atoms, .xyz = xyz};
    char path[PATH_SIZE];
    struct err err = {0};
    make_xyz(index, xyz);
    for (int i = 0; i < ATOMS; i++) {
        atoms[i] =
            (struct structure_atom){.id = {.name = "CA", .chain = "A", .number = i + 1}, .element = "C", .altloc = ' '};
        snprintf(atoms[i].id.residue, sizeof atoms[i].id.residue, "%s", residue);
    }
    scratch_path(name, path);
    assert_ok(file_make_parents(path, 0777, &err));
    FILE *out = fopen(path, "w");
    assert_ok(structure_pdb_write(out, &model, 0, &err));
    structure_pdb_end(out);
    fclose(out);
}

static void begin(struct superposer *s, enum superposer_results results) {
    struct superposer_options options = {.results = results, .method = METHOD_QCP, .cutoff = 2, .memory = 16};
    struct device device = {.kind = DEVICE_CPU};
    superposer_init(s, &options, &device, 2);
}

static void add_some(struct superposer *s, int begin, int count) {
    struct ensemble_batch batch = {
        .path = (char *)(uintptr_t) "f", .name = (char *)(uintptr_t) "f", .atoms = ATOMS, .count = count};
    struct err err = {0};
    batch.numbers = calloc((size_t)count, sizeof *batch.numbers);
    batch.xyz = calloc((size_t)count * 3 * ATOMS, sizeof *batch.xyz);
    for (int i = 0; i < count; i++) {
        batch.numbers[i] = begin + i + 1;
        make_xyz(begin + i, batch.xyz + (size_t)i * 3 * ATOMS);
    }
    assert_ok(superposer_add(s, &batch, &err));
    free(batch.numbers);
    free(batch.xyz);
}

static void rows_make_the_same_matrix(void **state) {
    (void)state;
    struct superposer whole, grown;
    struct err err = {0};
    begin(&whole, RESULTS_MATRIX);
    begin(&grown, RESULTS_MATRIX);
    add_some(&whole, 0, COUNT);
    assert_ok(superposer_solve(&whole, true, &err));
    static const int pieces[] = {8, 1, 1, 2, 3, 1, 4, 10}; /* the last piece is more than a quarter */
    int count = 0;
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        add_some(&grown, count, pieces[p]);
        count += pieces[p];
        assert_ok(superposer_solve(&grown, false, &err));
        assert_int_equal(grown.solved, count);
        for (int i = 0; i < count; i++)
            for (int j = i + 1; j < count; j++) {
                float a = grown.rmsd[superpose_at(count, i, j)], b = whole.rmsd[superpose_at(COUNT, i, j)];
                if (!(fabsf(a - b) < 1e-4F))
                    fail_msg("%d of %d structures: (%d, %d) is %g, not %g", count, COUNT, i, j, (double)a, (double)b);
            }
    }
    assert_int_equal(count, COUNT);
    assert_int_equal(grown.clusters.count, 2);
    assert_memory_equal(grown.clusters.cluster, whole.clusters.cluster, COUNT * sizeof(int32_t));
    /* The final solution is equal to the last bit. */
    assert_ok(superposer_solve(&grown, true, &err));
    assert_memory_equal(grown.rmsd, whole.rmsd, superpose_pairs(COUNT) * sizeof(float));
    assert_string_equal(grown.names[9], "f");
    assert_string_equal(grown.names[0], "f:1");
    superposer_clear(&whole);
    superposer_clear(&grown);
}

static void memory_decides_on_the_matrix(void **state) {
    (void)state;
    struct superposer s;
    struct err err = {0};
    begin(&s, RESULTS_AUTO);
    s.memory = 64 << 10;
    assert_true(superposer_has_matrix(&s, 180) && !superposer_has_matrix(&s, 200));
    s.options.clustering = CLUSTERING_AVERAGE;
    assert_true(superposer_has_matrix(&s, 120) && !superposer_has_matrix(&s, 150));
    s.options.results = RESULTS_NEIGHBOURS;
    add_some(&s, 0, 4);
    assert_int_equal(superposer_solve(&s, true, &err), STATUS_BAD_ARGUMENT);
    assert_non_null(strstr(err.message, "clustering: average needs the RMSDs of all pairs"));
    superposer_clear(&s);
}

static struct item *structure_item(const char *id, const char *path) {
    struct item *item;
    struct err err = {0};
    assert_ok(item_create(id, "structure", &item, &err));
    assert_ok(item_set_string(item, "structure.path", path, &err));
    return item;
}

static struct stage_results run(int from, int to, bool other) {
    struct item *items[COUNT + 2];
    size_t count = 0;
    char root[PATH_SIZE], ledger[PATH_SIZE];
    struct stage_results results = {0};
    struct err err = {0};
    for (int i = from; i < to; i++) {
        char id[16], name[32];
        snprintf(id, sizeof id, "m%02d", i);
        snprintf(name, sizeof name, "run/in/m%02d.pdb", i);
        write_structure(name, i, "ALA");
        items[count++] = structure_item(id, name + 4);
    }
    if (other) {
        write_structure("run/in/other.pdb", 3, "TRP");
        items[count++] = structure_item("other", "in/other.pdb");
    }
    scratch_path("run", root);
    scratch_path("run/l.sqlite", ledger);
    const char *key_values[] = {"cutoff", "2", "threads", "2", "rotations", "true", "superposed", "pdb", NULL};
    assert_ok(stage_run_results(&superposer_stage, root, ledger, key_values, items, count, &results, &err));
    for (size_t i = 0; i < count; i++)
        item_destroy(&items[i]);
    return results;
}

static char *read_product(const char *name, size_t *length) {
    char path[PATH_SIZE], relative[64], *text;
    struct err err = {0};
    snprintf(relative, sizeof relative, "run/superposer/%s", name);
    scratch_path(relative, path);
    assert_ok(file_read_whole(path, 1 << 24, &text, length, &err));
    return text;
}

/* Runs with twelve structures, then again with the others. The results equal those of a single run. */
static void a_second_run_goes_on(void **state) {
    (void)state;
    struct stage_results results = run(0, 12, true);
    size_t failed = 0, length;
    for (size_t i = 0; i < results.outcome_count; i++)
        if (results.outcomes[i].state == LEDGER_FAILED) {
            failed++;
            assert_string_equal(results.outcomes[i].id, "other");
            assert_non_null(strstr(results.outcomes[i].reason, "CA of TRP 1 in chain A, and in"));
        }
    assert_int_equal(failed, 1);
    assert_int_equal(results.emitted_count, 1);
    assert_string_equal(item_id(results.emitted[0]), "clusters/0000012");
    assert_string_equal(item_kind(results.emitted[0]), "clusters");
    assert_string_equal(item_string(results.emitted[0], "clusters.csv"), "superposer/clusters.csv");
    assert_true(item_number(results.emitted[0], "clusters.count", 0) == 2);
    assert_true(item_number(results.emitted[0], "clusters.largest", 0) == 6);
    assert_string_equal(item_string(results.emitted[0], "clusters.centre"), "m00");
    stage_results_clear(&results);

    results = run(12, COUNT, false);
    assert_int_equal(results.emitted_count, 1);
    assert_string_equal(item_id(results.emitted[0]), "clusters/0000030");
    stage_results_clear(&results);
    char *names = read_product("structures.txt", &length);
    assert_int_equal(length, 4 * COUNT);
    free(names);

    struct superposer whole;
    struct err err = {0};
    begin(&whole, RESULTS_MATRIX);
    add_some(&whole, 0, COUNT);
    assert_ok(superposer_solve(&whole, true, &err));
    char *rmsd = read_product("rmsd.npy", &length);
    assert_int_equal(length, 128 + superpose_pairs(COUNT) * sizeof(float));
    assert_memory_equal(rmsd + 128, whole.rmsd, superpose_pairs(COUNT) * sizeof(float));
    free(rmsd);
    superposer_clear(&whole);

    /* Without new structures the files stay the same, and no item is sent twice. */
    results = run(0, 0, false);
    stage_results_clear(&results);
    char *again = read_product("structures.txt", &length);
    assert_int_equal(length, 4 * COUNT);
    free(again);
}

static void what_is_put_back_comes_first(void **state) {
    (void)state;
    struct ensemble_rules rules = {.selection = {.what = STRUCTURE_CA}};
    struct ensemble *ensemble = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    write_structure("back/a.pdb", 0, "ALA");
    scratch_path("back/a.pdb", path);
    assert_ok(ensemble_create(&rules, &ensemble, &err));
    static const char *const names[] = {"a", "b", "c"};
    for (int i = 0; i < 3; i++) {
        struct ensemble_batch *batch = NULL;
        assert_ok(ensemble_batch_read(&rules, path, names[i], &batch, &err));
        assert_ok(ensemble_submit(ensemble, &batch, &err));
        assert_null(batch);
    }
    ensemble_put_back(ensemble, ensemble_next(ensemble));
    for (int i = 0; i < 3; i++) {
        struct ensemble_batch *batch = ensemble_next(ensemble);
        assert_string_equal(batch->name, names[i]);
        if (i == 2) {
            ensemble_put_back(ensemble, batch);
            batch = ensemble_next(ensemble);
            assert_string_equal(batch->name, names[i]);
        }
        ensemble_batch_destroy(&batch);
    }
    assert_null(ensemble_next(ensemble));
    ensemble_destroy(&ensemble);
}

static void weights_are_from_the_first(void **state) {
    (void)state;
    struct ensemble_rules rules = {.selection = {.what = STRUCTURE_CA}, .weights = WEIGHTS_MASS};
    struct ensemble_batch *batch = NULL;
    struct err err = {0};
    char path[PATH_SIZE];
    write_structure("weights.pdb", 0, "ALA");
    scratch_path("weights.pdb", path);
    assert_ok(ensemble_batch_read(&rules, path, "w", &batch, &err));
    assert_true(batch->weights[ATOMS - 1] == 12.011F);
    ensemble_batch_destroy(&batch);
    rules.weights = WEIGHTS_OCCUPANCY; /* all occupancies are 0 */
    assert_int_equal(ensemble_batch_read(&rules, path, "w", &batch, &err), STATUS_BAD_FORMAT);
    assert_non_null(strstr(err.message, "all atoms have the weight 0"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_make_the_same_matrix),  cmocka_unit_test(memory_decides_on_the_matrix),
        cmocka_unit_test(a_second_run_goes_on),       cmocka_unit_test(what_is_put_back_comes_first),
        cmocka_unit_test(weights_are_from_the_first),
    };
    printf("seed %d\n", SEED);
    return scratch_run("superposer", tests, sizeof tests / sizeof *tests);
}
