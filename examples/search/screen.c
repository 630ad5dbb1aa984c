/* ANSI's sequences and termios, which every terminal has (screen.h). */
#define _XOPEN_SOURCE 700
#define _DEFAULT_SOURCE /* winsize */
#include "screen.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "memory.h"

static struct termios before;
static bool opened;
static FILE *messages;
static int errors = -1; /* where stderr leads else */
static volatile sig_atomic_t resized, ended;

static void put(const char *text, size_t bytes)
{
    for (ssize_t n; bytes && (n = write(STDOUT_FILENO, text, bytes)) > 0; text += n) bytes -= (size_t)n;
}

/* What somebody says on stderr would be lost in the middle of a frame: it waits in a file. */
static void hold_messages(void)
{
    messages = tmpfile();
    errors = messages ? dup(STDERR_FILENO) : -1;
    if (errors >= 0) dup2(fileno(messages), STDERR_FILENO);
}

static void show_messages(void)
{
    char text[512];
    if (errors >= 0) {
        fflush(stderr);
        dup2(errors, STDERR_FILENO);
        close(errors);
        rewind(messages);
        for (size_t n; (n = fread(text, 1, sizeof text, messages)) > 0;) fwrite(text, 1, n, stderr);
    }
    if (messages) fclose(messages);
    messages = NULL;
    errors = -1;
}

static void restore(void)
{
    static const char leave[] = "\x1b[0m\x1b[?1049l";
    if (!opened) return;
    opened = false;
    put(leave, sizeof leave - 1);
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    show_messages();
}

static void on_signal(int number)
{
    if (number == SIGWINCH)
        resized = 1;
    else
        ended = 1;
}

bool screen_open(struct screen *screen)
{
    static const char enter[] = "\x1b[?1049h";
    *screen = (struct screen){.frame = NULL};
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before)) return false;
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO | ISIG | IEXTEN);
    raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    if (tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw)) return false;
    opened = true;
    hold_messages();
    atexit(restore);
    const struct sigaction action = {.sa_handler = on_signal};
    static const int numbers[] = {SIGWINCH, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    put(enter, sizeof enter - 1);
    return true;
}

void screen_close(struct screen *screen)
{
    restore();
    free(screen->frame);
    screen->frame = NULL;
}

/* ---- keys ---- */

static int wait_for_key(int milliseconds)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    if (poll(&input, 1, milliseconds) <= 0) return -1; /* also a signal */
    unsigned char byte;
    ssize_t n = read(STDIN_FILENO, &byte, 1);
    if (n == 0) ended = 1; /* the terminal is gone */
    return n == 1 ? byte : -1;
}

/* What follows an escape: the keys of a terminal send sequences, and the key Escape nothing more. */
static enum key sequence(void)
{
    enum { SOON = 25 };
    int byte = wait_for_key(SOON);
    if (byte < 0) return KEY_QUIT;
    if (byte != '[' && byte != 'O') return KEY_NONE;
    while ((byte = wait_for_key(SOON)) >= 0 && byte < 0x40) continue;
    return byte == 'A' ? KEY_UP : byte == 'B' ? KEY_DOWN : KEY_NONE;
}

enum key screen_key(char text[8], int milliseconds)
{
    enum { CTRL = 0x1f, DELETE = 0x7f };
    int byte = ended ? -1 : wait_for_key(milliseconds);
    if (ended) return KEY_QUIT;
    if (byte < 0) return KEY_NONE;
    if (byte == ('C' & CTRL) || byte == ('D' & CTRL)) return KEY_QUIT;
    if (byte == '\r' || byte == '\n') return KEY_ENTER;
    if (byte == DELETE || byte == '\b') return KEY_ERASE;
    if (byte == ('U' & CTRL)) return KEY_CLEAR;
    if (byte == ('P' & CTRL)) return KEY_UP;
    if (byte == ('N' & CTRL)) return KEY_DOWN;
    if (byte == 0x1b) return sequence();
    if (byte < ' ') return KEY_NONE;
    size_t bytes = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4, got = 0;
    for (text[got++] = (char)byte; got < bytes && (byte = wait_for_key(25)) >= 0;) text[got++] = (char)byte;
    text[got] = 0;
    return KEY_TEXT;
}

/* ---- frames ---- */

static void append(struct screen *s, const char *text, size_t bytes)
{
    if (s->room - s->used < bytes) {
        s->room = 2 * (s->used + bytes);
        s->frame = need(realloc(s->frame, s->room));
    }
    memcpy(s->frame + s->used, text, bytes);
    s->used += bytes;
}

static void append_text(struct screen *s, const char *text) { append(s, text, strlen(text)); }

void screen_begin(struct screen *s)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
    s->rows = size.ws_row ? size.ws_row : 24;
    s->columns = size.ws_col ? size.ws_col : 80;
    s->row = s->used = 0;
    resized = 0;
    append_text(s, "\x1b[?25l\x1b[H"); /* no cursor while it is drawn */
}

void screen_row(struct screen *s, enum style style, const char *format, ...)
{
    static const char *const styles[] = {"", "\x1b[7m", "\x1b[1m", "\x1b[2m", "\x1b[1;36m"};
    char text[1024];
    size_t columns;
    va_list ap;
    if (s->row >= s->rows) return;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    if (s->row++) append_text(s, "\r\n");
    append_text(s, styles[style]);
    append(s, text, fitting(text, s->columns, &columns));
    if (style == STYLE_TITLE)
        for (; columns < s->columns; columns++) append_text(s, " ");
    append_text(s, "\x1b[0m\x1b[K");
}

void screen_end(struct screen *s, size_t row, size_t column)
{
    char place[48];
    append_text(s, "\x1b[J");
    snprintf(place, sizeof place, "\x1b[%zu;%zuH\x1b[?25h", row + 1,
             (column < s->columns ? column : s->columns - 1) + 1);
    append_text(s, place);
    put(s->frame, s->used);
}
