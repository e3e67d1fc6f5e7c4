#include "pipelines/launcher/status_marks.h"

#include <time.h>

struct choices *status_marks(const struct session *session) {
    struct choices *marks = NULL;
    if (choices_create(session->path, NULL, &marks, NULL) != STATUS_OK) return NULL;
    (void)choices_poll(marks, NULL, NULL); /* status names a broken change beside the history */
    return marks;
}

void status_marks_text(const struct choices *marks, const struct tally_choice *choice, FILE *out) {
    for (size_t i = 0; marks != NULL && i < choice->count; i++) {
        const json_t *mark = choices_mark(marks, tally_key(choice->items[i]));
        if (mark == NULL) continue;
        const char *why = json_string_value(json_object_get(mark, "why"));
        const char *user = json_string_value(json_object_get(mark, "user"));
        time_t at = (time_t)json_number_value(json_object_get(mark, "time"));
        struct tm local;
        char when[32] = "";
        if (localtime_r(&at, &local) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
        bool kept = choice_named(json_string_value(json_object_get(mark, "mark"))) == CHOICE_KEEP;
        fprintf(out, "%s: %s by hand, change %lld, %s, %s%s%s\n", choice->items[i]->name, kept ? "kept" : "rejected",
                (long long)json_integer_value(json_object_get(mark, "number")), when, user != NULL ? user : "",
                why != NULL ? ": " : "", why != NULL ? why : "");
    }
}
