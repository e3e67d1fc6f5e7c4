#include "pipelines/launcher/serve/page.h"

#include <stdio.h>
#include <string.h>

#include "common/text.h"
#include "pipelines/launcher/serve/serve_handlers.h"

static const char *type_of(const char *name) {
    const char *ending = strrchr(name, '.');
    if (ending != NULL && strcmp(ending, ".css") == 0) return "text/css; charset=utf-8";
    if (ending != NULL && strcmp(ending, ".js") == 0) return "text/javascript; charset=utf-8";
    return "text/html; charset=utf-8";
}

enum status serve_page(struct serve *serve, const struct http_request *request, struct http_answer *answer,
                       struct err *err) {
    const char *name = strcmp(request->path, "/") == 0 ? "index.html" : request->path + 1;
    (void)serve;
    for (const struct page *page = serve_pages; page->name != NULL; page++) {
        if (strcmp(page->name, name) != 0) continue;
        answer->type = type_of(name);
        answer->borrowed = page->bytes;
        answer->length = page->length;
        answer->squeezed = true;
        answer->cache = HTTP_TAGGED;
        snprintf(answer->tag, sizeof answer->tag, "\"%016llx\"",
                 (unsigned long long)text_hash_bytes(page->bytes, page->length));
        return STATUS_OK;
    }
    FAIL(err, STATUS_NOT_FOUND, "%s: this program was built without its page", request->path);
}
