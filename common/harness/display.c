#include "common/harness/display.h"

#include "common/files.h"
#include "common/formats/thumbnail.h"

static const char THUMB[] = "display.thumb";

bool display_wants_micrograph(const struct stage *stage, const struct item *item) {
    return stage_in_pipeline(stage) && !item_has(item, THUMB);
}

enum status display_micrograph(struct stage *stage, struct item *item, const struct image *micrograph,
                               struct err *err) {
    char relative[PATH_SIZE], path[PATH_SIZE];
    struct thumbnail thumbnail;
    if (!display_wants_micrograph(stage, item) || micrograph->data == NULL || image_count(micrograph) == 0)
        return STATUS_OK;
    thumbnail_make(micrograph, &thumbnail);
    TRY(stage_product(stage, item, "_thumb.jpg", relative, path, err));
    TRY(thumbnail_write(&thumbnail, path, err));
    return item_set_string(item, THUMB, relative, err);
}
