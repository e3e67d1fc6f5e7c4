#include "common/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/memory.h"
#include "common/text.h"

static bool locale_is_utf8(void) {
    locale_t locale = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (locale == (locale_t)0) return false;
    bool utf8 = strcmp(nl_langinfo_l(CODESET, locale), "UTF-8") == 0;
    freelocale(locale);
    return utf8;
}

void screen_begin(struct screen *screen, int descriptor) {
    *screen = (struct screen){.descriptor = descriptor, .terminal = isatty(descriptor) == 1, .utf8 = true};
    if (screen->terminal) screen->utf8 = locale_is_utf8();
}

void screen_size(const struct screen *screen, int *ret_columns, int *ret_rows) {
    struct winsize size = {0};
    bool known = ioctl(screen->descriptor, TIOCGWINSZ, &size) == 0;
    const char *columns = getenv("COLUMNS");
    int wanted = columns != NULL ? atoi(columns) : 0;
    *ret_columns = known && size.ws_col > 0 ? size.ws_col : wanted > 0 ? wanted : SCREEN_COLUMNS;
    *ret_rows = known && size.ws_row > 0 ? size.ws_row : SCREEN_ROWS;
}

/* A terminal that has become narrower since shows a row on several lines. */
static int lines_of(const struct screen *screen) {
    int columns, rows, lines = 0;
    screen_size(screen, &columns, &rows);
    for (int i = 0; i < screen->rows; i++)
        lines += screen->widths[i] > columns ? (screen->widths[i] + columns - 1) / columns : 1;
    return lines;
}

/* The terminal echoes Ctrl-C as ^C where the cursor is, so the cursor goes to the first column before it goes up. */
static void put_wipe(struct screen *screen, FILE *out) {
    if (screen->rows > 0) fprintf(out, "\r\033[%dA\033[J", lines_of(screen));
    screen->rows = 0;
}

/* One write for all, so that nobody sees half a table. A terminal that is gone is no reason to stop. */
static void put_all(const struct screen *screen, const char *bytes, size_t length) {
    while (length > 0) {
        ssize_t written = write(screen->descriptor, bytes, length);
        if (written <= 0) return;
        bytes += written;
        length -= (size_t)written;
    }
}

static void flush_to(const struct screen *screen, FILE *out, char **bytes, const size_t *length) {
    if (fclose(out) == 0) put_all(screen, *bytes, *length);
    free(*bytes);
    *bytes = NULL;
}

static size_t count_lines(const char *lines) {
    size_t count = 0;
    for (; *lines != '\0'; lines++)
        count += *lines == '\n';
    return count;
}

void screen_draw(struct screen *screen, const char *lines) {
    int columns, rows;
    size_t length = 0, count = count_lines(lines), room = strlen(lines) * 3 + 1;
    char *bytes = NULL;
    _cleanup_(mem_free) char *plain = malloc(room);
    FILE *out = plain != NULL ? open_memstream(&bytes, &length) : NULL;
    if (out == NULL) return;
    screen_size(screen, &columns, &rows);
    screen_plain(lines, screen->utf8, plain, room);
    put_wipe(screen, out);
    size_t most = rows > SCREEN_ROWS ? SCREEN_ROWS : rows > 2 ? (size_t)rows - 1 : 1;
    size_t shown = count <= most ? count : most - 1;
    char *line = plain;
    for (size_t i = 0; i < shown; i++) {
        char *end = strchr(line, '\n');
        *end = '\0';
        screen->widths[screen->rows++] = (int)text_width(line);
        fprintf(out, "%s\n", line);
        line = end + 1;
    }
    if (shown < count) {
        screen->widths[screen->rows++] = 0;
        fprintf(out, "(%zu more lines)\n", count - shown);
    }
    flush_to(screen, out, &bytes, &length);
}

void screen_say(struct screen *screen, const char *lines) {
    size_t length = 0, room = strlen(lines) * 3 + 1;
    char *bytes = NULL;
    _cleanup_(mem_free) char *plain = malloc(room);
    FILE *out = plain != NULL ? open_memstream(&bytes, &length) : NULL;
    if (out == NULL) return;
    screen_plain(lines, screen->utf8, plain, room);
    put_wipe(screen, out);
    fputs(plain, out);
    flush_to(screen, out, &bytes, &length);
}

void screen_wipe(struct screen *screen) {
    screen_say(screen, "");
}

void screen_leave(struct screen *screen) {
    screen->rows = 0;
}

/* ---- Texts ---- */

static bool is_figure(char c) {
    return (c >= '0' && c <= '9') || c == '.' || c == ',';
}

/* Returns whether a line may end before the blank at `at`. */
static bool may_break(const char *text, size_t at) {
    const char *next = text + at + 1;
    bool unit = strncmp(next, "Å", strlen("Å")) == 0 || *next == '%' || strncmp(next, "px", 2) == 0;
    return !(unit && at > 0 && is_figure(text[at - 1]));
}

size_t screen_break(const char *text, size_t width) {
    size_t columns = 0, at = 0, blank = 0;
    if (width == 0) width = 1;
    for (; text[at] != '\0' && text[at] != '\n'; at++) {
        if (text[at] == ' ' && at > 0 && may_break(text, at)) blank = at;
        columns += ((unsigned char)text[at] & 0xc0) != 0x80;
        if (columns > width) break;
    }
    if (text[at] == '\0' || text[at] == '\n') return at;
    if (blank > 0) return blank;
    size_t cut = at;
    while (cut > 0 && is_figure(text[cut - 1]) && is_figure(text[cut]))
        cut--;
    return cut > 0 ? cut : at;
}

static const char *in_ascii(const char *character) {
    static const char *const pairs[][2] = {{"Å", "A"},   {"°", "deg"}, {"×", "x"}, {"µ", "u"}, {"μ", "u"},
                                           {"…", "..."}, {"–", "-"},   {"−", "-"}, {"²", "2"}, {"³", "3"},
                                           {"█", "#"},   {"░", "."},   {"·", "."}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strncmp(character, pairs[i][0], strlen(pairs[i][0])) == 0) return pairs[i][1];
    return "?";
}

void screen_plain(const char *text, bool utf8, char *out, size_t size) {
    size_t used = 0;
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        char single[2] = {*text, '\0'};
        const char *shown = single;
        if ((c < 0x20 && c != '\n') || c == 0x7f) shown = "?";
        /* 0x80 to 0x9f are control characters, too: C2 80 to C2 9F in UTF-8. */
        if (c == 0xc2 && (unsigned char)text[1] < 0xa0) shown = "";
        if (c >= 0x80 && !utf8) shown = c >= 0xc0 ? in_ascii(text) : "";
        size_t length = strlen(shown);
        if (used + length + 1 > size) break;
        memcpy(out + used, shown, length);
        used += length;
        if (c == 0xc2 && shown[0] == '\0' && text[1] != '\0') text++;
    }
    out[used] = '\0';
    text_trim(out);
}
