/* Sets aside files of a folder whose names no item can have. */
#include <stdio.h>
#include <string.h>

#include "common/harness/stage_private.h"
#include "common/text.h"

bool stage_files_name_fits(const char *name) {
    bool fits = item_text_fits(name);
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0' && fits; c++)
        fits = *c >= 0x20 && *c != 0x7f;
    return fits;
}

enum status stage_files_refuse(const struct stage *stage, const char *kind, const char *name, struct err *err) {
    static const char REASON[] =
        "its name holds a line break, a control character or bytes that are not UTF-8: rename it";
    enum { SHOWN = 200 };
    char id[SHOWN + 32];
    struct item *item = NULL;
    bool is_new = false;
    /* Its readable characters and a hash, because two such names may differ only in the others. */
    snprintf(id, sizeof id, "%.*s", (int)SHOWN, name);
    for (unsigned char *c = (unsigned char *)id; *c != '\0'; c++)
        if (*c < 0x20 || *c >= 0x7f) *c = '?';
    size_t length = strlen(id);
    snprintf(id + length, sizeof id - length, "~%016llx", (unsigned long long)text_hash(name));
    TRY(item_create(id, kind, &item, err));
    enum status status = STATUS_OK;
    if (stage->ledger != NULL)
        status = ledger_originate(stage->ledger, item, LEDGER_FAILED, REASON, NULL, 0, &is_new, err);
    if (status == STATUS_OK) log_write(stage->log, LOG_WARN, "failed", "%s: %s", id, REASON);
    item_destroy(&item);
    return status;
}
