/* Lines on a terminal that are drawn again in place. Nothing that is shown may move the cursor: control characters become
 * '?', and a terminal whose locale is not UTF-8 gets the nearest letters of ASCII. */
#ifndef ICESTREAM_COMMON_SCREEN_H
#define ICESTREAM_COMMON_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

enum { SCREEN_ROWS = 128, SCREEN_COLUMNS = 80 /* where the terminal does not say */ };

struct screen {
    int descriptor;
    bool terminal, utf8;
    int rows;                /* on the screen now */
    int widths[SCREEN_ROWS]; /* of these rows, in columns */
};

/* Notes whether the descriptor is a terminal, and whether its locale (LC_ALL, LC_CTYPE, LANG) is UTF-8. */
void screen_begin(struct screen *screen, int descriptor);
/* Returns the columns and the rows of the terminal now. COLUMNS counts where the terminal does not know. */
void screen_size(const struct screen *screen, int *ret_columns, int *ret_rows);
/* Draws lines (each ends in a newline) in the place of those before. Lines for which the terminal is too low are left
 * out, and a last line tells how many. */
void screen_draw(struct screen *screen, const char *lines);
/* Prints lines that stay, above those that are drawn next. */
void screen_say(struct screen *screen, const char *lines);
/* Removes what is drawn. */
void screen_wipe(struct screen *screen);
/* Leaves what is drawn where it is. */
void screen_leave(struct screen *screen);

/* Returns the bytes of the first line of a text that is broken at `width` columns: at a blank, but not between a number
 * and its unit; inside a word only where that is longer than a line, and not inside a number. */
size_t screen_break(const char *text, size_t width);
/* Copies a text as a terminal can show it, a newline too; cut to size. */
void screen_plain(const char *text, bool utf8, char *out, size_t size);

#endif
