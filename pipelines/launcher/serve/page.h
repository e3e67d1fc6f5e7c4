/* The files of the page, which the program carries within itself. */
#ifndef ICESTREAM_PIPELINES_LAUNCHER_SERVE_PAGE_H
#define ICESTREAM_PIPELINES_LAUNCHER_SERVE_PAGE_H

#include <stddef.h>

struct page {
    const char *name; /* "index.html" */
    const unsigned char *bytes;
    size_t length; /* gzip */
};
/* Made at build of pipelines/web; ended by a row without name. */
extern const struct page serve_pages[];

#endif
