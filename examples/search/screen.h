/* A terminal: keys in, frames out. */
#ifndef SEARCH_SCREEN_H
#define SEARCH_SCREEN_H

#include <stdbool.h>
#include <stddef.h>

enum key { KEY_NONE, KEY_TEXT, KEY_ERASE, KEY_CLEAR, KEY_UP, KEY_DOWN, KEY_ENTER, KEY_QUIT };
enum style { STYLE_PLAIN, STYLE_TITLE, STYLE_STRONG, STYLE_FAINT, STYLE_CHOSEN };

struct screen {
    size_t rows, columns, row; /* row: the next one that is drawn */
    char *frame;
    size_t used, room;
};

/* False: standard input and output are no terminal. What the terminal was like comes back at screen_close, at exit and
 * when a signal ends the program; until then what is written to stderr waits. */
bool screen_open(struct screen *screen);
void screen_close(struct screen *screen);
/* The next key, waiting so many milliseconds for it, -1: until there is one. KEY_TEXT: text[0..] are its bytes, with a
 * NUL after them. KEY_NONE: the time is up, or the window has another size. */
enum key screen_key(char text[8], int milliseconds);
void screen_begin(struct screen *screen);
/* A row, cut where the window ends. The text is harmless (memory.h). */
void screen_row(struct screen *screen, enum style style, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Shows the frame, with the cursor at this place, from 0. */
void screen_end(struct screen *screen, size_t row, size_t column);

#endif
