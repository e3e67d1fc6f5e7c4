/* Selects atoms, and compares the selected atoms of two structures. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/formats/structure_private.h"
#include "common/memory.h"

static bool is_one_of(const char *word, const char *const *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, list[i]) == 0) return true;
    return false;
}
#define IS_ONE_OF(word, list) is_one_of((word), (list), sizeof(list) / sizeof *(list))

/* Reads a residue such as "-5" or "52A" and moves *text on. */
static bool read_residue(const char **text, int32_t *ret_number, char *ret_insertion) {
    char *end;
    const char *digits = *text + (**text == '-' || **text == '+');
    if (!isdigit((unsigned char)*digits)) return false;
    long number = strtol(*text, &end, 10);
    if (number < -1000000 || number > 100000000) return false;
    *ret_number = (int32_t)number;
    *ret_insertion = '\0';
    if (isalpha((unsigned char)*end)) *ret_insertion = *end++;
    *text = end;
    return true;
}

static bool read_range(const char **text, struct structure_range *range) {
    if (!read_residue(text, &range->first, &range->first_insertion)) return false;
    range->last = range->first;
    range->last_insertion = range->first_insertion;
    if (**text != '-') return true;
    (*text)++;
    return read_residue(text, &range->last, &range->last_insertion) && range->last >= range->first;
}

static enum status parse_residues(const char *text, struct structure_selection *selection, struct err *err) {
    for (const char *at = text; *at != '\0';) {
        at += strspn(at, ", \t");
        if (*at == '\0') break;
        FAIL_IF(selection->range_count == STRUCTURE_RANGES_MAX, err, STATUS_BAD_ARGUMENT,
                "residues: more than %d ranges", STRUCTURE_RANGES_MAX);
        const char *begin = at;
        FAIL_IF(!read_range(&at, &selection->ranges[selection->range_count++]) || strchr(", \t", *at) == NULL, err,
                STATUS_BAD_ARGUMENT,
                "residues: '%.*s' is not a range: numbers were expected as in 10-50,52A,60-70, the smaller one first",
                (int)strcspn(begin, ","), begin);
    }
    return STATUS_OK;
}

static enum status parse_chains(const char *text, struct structure_selection *selection, struct err *err) {
    for (const char *at = text; *at != '\0';) {
        at += strspn(at, ", \t");
        size_t length = strcspn(at, ", \t");
        if (length == 0) break;
        FAIL_IF(selection->chain_count == STRUCTURE_CHAINS_MAX, err, STATUS_BAD_ARGUMENT, "chain: more than %d chains",
                STRUCTURE_CHAINS_MAX);
        FAIL_IF(length >= sizeof selection->chains[0], err, STATUS_BAD_ARGUMENT,
                "chain: '%.*s' is longer than a chain's name can be (%zu)", (int)length, at,
                sizeof selection->chains[0] - 1);
        memcpy(selection->chains[selection->chain_count++], at, length);
        at += length;
    }
    return STATUS_OK;
}

enum status structure_selection_parse(enum structure_what what, const char *chains, const char *residues,
                                      struct structure_selection *ret_selection, struct err *err) {
    struct structure_selection selection = {.what = what};
    if (chains != NULL) TRY(parse_chains(chains, &selection, err));
    if (residues != NULL) TRY(parse_residues(residues, &selection, err));
    *ret_selection = selection;
    return STATUS_OK;
}

static bool in_range(const struct structure_identity *id, const struct structure_range *range) {
    if (id->number < range->first || id->number > range->last) return false;
    /* 52A-60 excludes 52; 52-60 includes 52 and 52A. */
    if (id->number == range->first && range->first_insertion != '\0' && id->insertion[0] < range->first_insertion)
        return false;
    return id->number != range->last || range->last_insertion == '\0' || id->insertion[0] <= range->last_insertion;
}

static bool residue_is_asked_for(const struct structure_identity *id, const struct structure_selection *selection) {
    bool chain = selection->chain_count == 0, range = selection->range_count == 0;
    for (int i = 0; i < selection->chain_count && !chain; i++)
        chain = strcmp(id->chain, selection->chains[i]) == 0;
    for (int i = 0; i < selection->range_count && !range; i++)
        range = in_range(id, &selection->ranges[i]);
    return chain && range;
}

static bool same_residue(const struct structure_identity *a, const struct structure_identity *b) {
    return a->number == b->number && strcmp(a->insertion, b->insertion) == 0 && strcmp(a->chain, b->chain) == 0;
}

/* Consecutive rows of one residue with all its alternate locations, even if these are different kinds of residue. */
struct group {
    const struct structure_atom *atoms;
    size_t begin, end;
    char altloc; /* the chosen location; ' ': none */
    bool amino_acid, water;
};

static void choose_altloc(struct group *group) {
    enum { LABELS_MAX = 16 };
    char labels[LABELS_MAX];
    double means[LABELS_MAX] = {0}; /* occupancies */
    int atoms[LABELS_MAX] = {0}, count = 0, best = 0;
    for (size_t i = group->begin; i < group->end; i++) {
        const struct structure_atom *atom = &group->atoms[i];
        if (atom->altloc == ' ') continue;
        int label = 0;
        while (label < count && labels[label] != atom->altloc)
            label++;
        if (label == LABELS_MAX) continue;
        if (label == count) labels[count++] = atom->altloc;
        means[label] += ((double)atom->occupancy - means[label]) / ++atoms[label];
    }
    for (int label = 1; label < count; label++)
        if (means[label] > means[best] + 1e-4) best = label;
    group->altloc = count > 0 ? labels[best] : ' ';
}

/* An atom that is missing in the chosen location stays in its own best location, in a residue of the same kind. */
static bool stands_in(const struct group *group, size_t at) {
    enum { ROWS_MAX = 512 };
    const struct structure_atom *atom = &group->atoms[at];
    if (group->end - group->begin > ROWS_MAX) return false;
    bool same_kind = false;
    for (size_t i = group->begin; i < group->end; i++) {
        const struct structure_atom *other = &group->atoms[i];
        same_kind = same_kind || (other->altloc == group->altloc && strcmp(other->id.residue, atom->id.residue) == 0);
        if (i == at || strcmp(other->id.name, atom->id.name) != 0) continue;
        if (other->altloc == ' ' || other->altloc == group->altloc || other->occupancy > atom->occupancy) return false;
        if (i < at && other->occupancy >= atom->occupancy) return false;
    }
    return same_kind;
}

static bool has_atom(const struct group *group, const char *name) {
    for (size_t i = group->begin; i < group->end; i++)
        if (strcmp(group->atoms[i].id.name, name) == 0) return true;
    return false;
}

/* Residues of HETATM rows count as amino acids if they are well known or have the three atoms of a chain. */
static void tell_kind(struct group *group) {
    static const char *const waters[] = {"HOH",  "WAT",  "H2O",  "DOD",  "SOL", "TIP",
                                         "TIP2", "TIP3", "TIP4", "TIP5", "SPC"};
    static const char *const modified[] = {"MSE", "SEP", "TPO", "PTR", "CSO", "HYP", "MLY", "KCX", "PCA", "CME", "SEC"};
    const struct structure_atom *first = &group->atoms[group->begin];
    group->water = IS_ONE_OF(first->id.residue, waters);
    group->amino_acid = !group->water && (!first->hetero || IS_ONE_OF(first->id.residue, modified) ||
                                          (has_atom(group, "N") && has_atom(group, "CA") && has_atom(group, "C")));
}

static bool atom_is_asked_for(const struct group *group, const struct structure_atom *atom, enum structure_what what) {
    static const char *const backbone[] = {"N", "CA", "C", "O"};
    const char *element = atom->element;
    switch (what) {
    case STRUCTURE_CA:
        return group->amino_acid && strcmp(atom->id.name, "CA") == 0 && strcmp(element, "CA") != 0;
    case STRUCTURE_BACKBONE:
        return group->amino_acid && IS_ONE_OF(atom->id.name, backbone) && strcmp(element, "CA") != 0;
    case STRUCTURE_HEAVY:
        return !group->water && strcmp(element, "H") != 0 && strcmp(element, "D") != 0;
    case STRUCTURE_ALL:
        break;
    }
    return true;
}

static void select_group(struct group *group, const struct structure_selection *selection, size_t *indices,
                         size_t *count) {
    if (!residue_is_asked_for(&group->atoms[group->begin].id, selection)) return;
    choose_altloc(group);
    tell_kind(group);
    for (size_t i = group->begin; i < group->end; i++) {
        const struct structure_atom *atom = &group->atoms[i];
        bool here = atom->altloc == ' ' || atom->altloc == group->altloc || stands_in(group, i);
        if (here && atom_is_asked_for(group, atom, selection->what)) indices[(*count)++] = i;
    }
}

static enum status nothing_selected(const struct structure_model *model, const struct structure_selection *selection,
                                    const char *name, struct err *err) {
    static const char *const what[] = {"ca", "backbone", "heavy", "all"};
    char chains[200] = "";
    const char *last = NULL;
    int32_t first = INT32_MAX, final = INT32_MIN;
    for (size_t i = 0; i < model->count; i++) {
        const struct structure_identity *id = &model->atoms[i].id;
        first = id->number < first ? id->number : first;
        final = id->number > final ? id->number : final;
        if (last != NULL && strcmp(last, id->chain) == 0) continue;
        size_t used = strlen(chains);
        if (used + sizeof id->chain + 4 < sizeof chains)
            snprintf(chains + used, sizeof chains - used, "%s'%s'", used > 0 ? ", " : "", id->chain);
        last = id->chain;
    }
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: none of its %zu atoms is selected by select: %s%s%s: it has the chains %s and residues %d to %d", name,
         model->count, what[selection->what], selection->chain_count > 0 ? ", chain" : "",
         selection->range_count > 0 ? ", residues" : "", chains, first, final);
}

enum status structure_select(const struct structure_model *model, const struct structure_selection *selection,
                             const char *name, size_t *indices, size_t *ret_count, struct err *err) {
    size_t count = 0;
    for (size_t begin = 0, end; begin < model->count; begin = end) {
        for (end = begin + 1; end < model->count; end++)
            if (!same_residue(&model->atoms[begin].id, &model->atoms[end].id)) break;
        struct group group = {.atoms = model->atoms, .begin = begin, .end = end};
        select_group(&group, selection, indices, &count);
    }
    if (count == 0) return nothing_selected(model, selection, name, err);
    *ret_count = count;
    return STATUS_OK;
}

const char *structure_describe(const struct structure_identity *id, char text[64]) {
    snprintf(text, 64, "%.7s of %.7s %d%.3s in chain %s%.11s%s", id->name, id->residue, id->number, id->insertion,
             id->chain[0] != '\0' ? "" : "'", id->chain, id->chain[0] != '\0' ? "" : "'");
    return text;
}

static enum status bad_coordinate(const struct structure_model *model, size_t atom, const char *name, struct err *err) {
    char text[64];
    const float *xyz = &model->xyz[3 * atom];
    structure_describe(&model->atoms[atom].id, text);
    for (int i = 0; i < model->fault_count; i++)
        if (model->faults[i].atom == atom)
            FAIL(err, STATUS_BAD_FORMAT,
                 "%s: line %ld: the coordinates of %s are not numbers ('%s')%s: leave the atom out, or mend the file",
                 name, model->faults[i].line, text, model->faults[i].text,
                 strchr(model->faults[i].text, '*') != NULL ? ", since they were too large for their columns" : "");
    FAIL(err, STATUS_BAD_FORMAT,
         "%s: the coordinates of %s are (%g, %g, %g): numbers below %g Å were expected: leave the atom out, or mend "
         "the file",
         name, text, (double)xyz[0], (double)xyz[1], (double)xyz[2], (double)STRUCTURE_FAR);
}

enum status structure_take(const struct structure_model *model, const size_t *indices, size_t count, const char *name,
                           float *xyz, struct err *err) {
    for (size_t i = 0; i < count; i++)
        for (int axis = 0; axis < 3; axis++) {
            float value = model->xyz[3 * indices[i] + (size_t)axis];
            if (!(fabsf(value) <= STRUCTURE_FAR)) return bad_coordinate(model, indices[i], name, err);
            xyz[3 * i + (size_t)axis] = value;
        }
    return STATUS_OK;
}

enum status structure_same(const struct structure_identity *expected, size_t expected_count, const char *expected_name,
                           const struct structure_identity *found, size_t count, const char *name, struct err *err) {
    static const char advice[] = "all structures need the same atoms: choose fewer with select, chain and residues";
    char text[64], other[64];
    for (size_t i = 0; i < count && i < expected_count; i++)
        FAIL_IF(memcmp(&found[i], &expected[i], sizeof *found) != 0, err, STATUS_BAD_FORMAT,
                "%s: its selected atom %zu is %s, and in %s it is %s: %s", name, i + 1,
                structure_describe(&found[i], text), expected_name, structure_describe(&expected[i], other), advice);
    FAIL_IF(count < expected_count, err, STATUS_BAD_FORMAT,
            "%s: %zu atoms are selected in it, and %zu in %s, the next of them %s: %s", name, count, expected_count,
            expected_name, structure_describe(&expected[count], text), advice);
    FAIL_IF(count > expected_count, err, STATUS_BAD_FORMAT,
            "%s: %zu atoms are selected in it, and %zu in %s: its next is %s: %s", name, count, expected_count,
            expected_name, structure_describe(&found[expected_count], text), advice);
    return STATUS_OK;
}

float structure_mass(const char *element) {
    static const struct {
        char element[4];
        float mass;
    } masses[] = {{"H", 1.008F},   {"D", 2.014F},   {"C", 12.011F},   {"N", 14.007F},   {"O", 15.999F},
                  {"S", 32.06F},   {"P", 30.974F},  {"SE", 78.971F},  {"F", 18.998F},   {"CL", 35.45F},
                  {"BR", 79.904F}, {"I", 126.904F}, {"NA", 22.990F},  {"MG", 24.305F},  {"K", 39.098F},
                  {"CA", 40.078F}, {"MN", 54.938F}, {"FE", 55.845F},  {"CO", 58.933F},  {"NI", 58.693F},
                  {"CU", 63.546F}, {"ZN", 65.38F},  {"CD", 112.414F}, {"HG", 200.592F}, {"B", 10.81F},
                  {"SI", 28.085F}, {"LI", 6.94F},   {"MO", 95.95F},   {"V", 50.942F},   {"W", 183.84F}};
    for (size_t i = 0; i < sizeof masses / sizeof *masses; i++)
        if (strcmp(element, masses[i].element) == 0) return masses[i].mass;
    return 0;
}
