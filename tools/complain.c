/* What people are told on standard error, and the end of memory. */
#include "complain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "options.h"
#include "system.h"

void *need(void *pointer)
{
    if (pointer) return pointer;
    fprintf(stderr, "wherry: out of host memory\n");
    exit(EXIT_DEVICE);
}

char *shown_text(bool lines, const char *format, va_list arguments)
{
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (length < 0) length = 0;
    char *raw = need(calloc((size_t)length + 1, 1));
    vsnprintf(raw, (size_t)length + 1, format, arguments);
    char *shown = need(malloc(UTF8_SHOWN_MAX * (size_t)length + 1)), *at = shown,
         *end = shown + UTF8_SHOWN_MAX * (size_t)length + 1;
    for (const char *from = raw;;) {
        size_t take = lines ? strcspn(from, "\n") : strlen(from);
        at += utf8_show(from, take, at, (size_t)(end - at));
        from += take;
        if (!*from++) break;
        *at++ = '\n';
    }
    *at = 0;
    free(raw);
    return shown;
}

/* The line on the terminal, of which there is one. */
static struct {
    bool allowed, shown;
    double start, last;
} progress;

static void progress_clear(void)
{
    if (!progress.shown) return; /* and nothing is written: another thread may complain while no line is there */
    fputs("\r\033[K", stderr);
    progress.shown = false;
}

/* Of several processes; 0: this one speaks for all. */
static struct {
    unsigned process;
    char host[128];
} speaker;

void complain_as(unsigned process, const char *host)
{
    speaker.process = process;
    snprintf(speaker.host, sizeof speaker.host, "%s", host);
}

/* Not so long that a user takes it for a standstill. A process that is asked to end while it waits has nothing to say.
 * Counted in sleeps, which take longer where the machine is busy, as what others do takes longer then. */
static void let_others_speak(void)
{
    enum { SECOND = 50 };
    bool stopped = system_stopped();
    for (unsigned sleeps = SECOND + (speaker.process < 20 ? 5 * speaker.process : 2 * SECOND); sleeps; sleeps--) {
        system_sleep(1.0 / SECOND);
        if (stopped || !system_stopped()) continue;
        stopped = true;
        sleeps += 5 * SECOND;
    }
}

int complain(int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = shown_text(false, format, arguments);
    va_end(arguments);
    progress_clear();
    if (speaker.process && code == EXIT_STOPPED) { /* all of them are interrupted, and process 0 says it */
        free(text);
        return code;
    }
    if (speaker.process) let_others_speak();
    if (speaker.process)
        fprintf(stderr, "wherry: process %u, on %s: %s\n", speaker.process, speaker.host, text);
    else
        fprintf(stderr, "wherry: %s\n", text);
    free(text);
    return code;
}

void progress_start(const struct options *options)
{
    progress_clear();
    progress.allowed = !options->quiet && system_is_terminal(stderr);
    progress.start = progress.last = system_seconds();
}

void progress_show(const char *format, ...)
{
    if (!progress.allowed) return;
    double now = system_seconds();
    if (now - progress.start < 1 || now - progress.last < 0.1) return;
    progress.last = now;
    char line[80]; /* so that the terminal does not wrap */
    va_list arguments;
    va_start(arguments, format);
    utf8_format(line, sizeof line, format, arguments);
    va_end(arguments);
    progress_clear();
    fputs(line, stderr);
    fflush(stderr);
    progress.shown = true;
}

void progress_end(void)
{
    progress_clear();
    progress.allowed = false;
}
