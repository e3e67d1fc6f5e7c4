/* Fuzzes a change of a session as a stage reads it: marks of exposures, choices of classes, and behind the first byte 0 the
 * table of particles that a choice names (changes/0001.star). */
#include "tests/fuzz/fuzz.h"

#include <string.h>

#include "common/files.h"
#include "common/harness/choices.h"

static char session[64];

static void put(const char *name, const uint8_t *bytes, size_t length) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s/changes/%s", session, name);
    FILE *file = fopen(path, "wb");
    FUZZ_CHECK(file != NULL && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

static void begin(void) {
    char folder[PATH_SIZE];
    if (session[0] != '\0') return;
    fuzz_scratch("choices", session);
    snprintf(folder, sizeof folder, "%s/changes", session);
    FUZZ_CHECK(file_make_folders(folder, 0777, NULL) == STATUS_OK);
}

/* Whatever the file holds, each question has an answer, and reading it again changes nothing. */
static void ask(struct choices *c) {
    const struct ledger_key keys[] = {{"watcher", "m1"}, {"", "m1"}, {"watcher", ""}};
    enum choice before[3];
    bool changed = true;
    for (size_t i = 0; i < 3; i++) {
        before[i] = choices_of_item(c, keys[i]);
        FUZZ_CHECK((before[i] != CHOICE_NONE) <= (choices_mark(c, keys[i]) != NULL));
    }
    json_t *marks = choices_marks(c);
    size_t counted = choices_count(c, CHOICE_KEEP) + choices_count(c, CHOICE_REJECT);
    FUZZ_CHECK(marks != NULL && json_array_size(marks) == counted);
    json_decref(marks);
    enum choice particle = choices_of_particle(c, "1@a.mrcs", "10", "10");
    int number = choices_number(c);
    FUZZ_CHECK(number == 0 || number == 1);
    if (choices_poll(c, &changed, NULL) == STATUS_OK) FUZZ_CHECK(!changed);
    FUZZ_CHECK(choices_number(c) == number && choices_of_particle(c, "1@a.mrcs", "10", "10") == particle);
    for (size_t i = 0; i < 3; i++)
        FUZZ_CHECK(choices_of_item(c, keys[i]) == before[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
    const uint8_t *end = length > 0 ? memchr(bytes, 0, length) : NULL;
    size_t text = end != NULL ? (size_t)(end - bytes) : length;
    struct choices *c = NULL;
    begin();
    put("0001.json", bytes, text);
    put("0001.star", end != NULL ? end + 1 : bytes, end != NULL ? length - text - 1 : 0);
    FUZZ_CHECK(choices_create(session, "classifier", &c, NULL) == STATUS_OK);
    (void)choices_poll(c, NULL, NULL);
    ask(c);
    choices_destroy(&c);
    return 0;
}
