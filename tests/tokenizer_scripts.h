/* Which scripts the texts of a sample are written in. */
#ifndef WHERRY_TESTS_TOKENIZER_SCRIPTS_H
#define WHERRY_TESTS_TOKENIZER_SCRIPTS_H

#include "tokenizer_support.h"

/* The letters of a script's main block (Unicode's Blocks.txt): enough to tell that a text is written in it. */
static const struct script {
    const char *name;
    uint32_t first, last;
} scripts[] = {
    {"Latin", 0x41, 0x24F},       {"Greek", 0x386, 0x3FF},      {"Cyrillic", 0x400, 0x52F},
    {"Armenian", 0x531, 0x587},   {"Hebrew", 0x5D0, 0x5EA},     {"Arabic", 0x620, 0x6D3},
    {"Devanagari", 0x904, 0x97F}, {"Bengali", 0x985, 0x9FF},    {"Gurmukhi", 0xA05, 0xA75},
    {"Gujarati", 0xA85, 0xAFF},   {"Tamil", 0xB83, 0xBFF},      {"Telugu", 0xC05, 0xC7F},
    {"Kannada", 0xC85, 0xCFF},    {"Malayalam", 0xD05, 0xD7F},  {"Sinhala", 0xD85, 0xDFF},
    {"Thai", 0xE01, 0xE5B},       {"Lao", 0xE81, 0xEDF},        {"Tibetan", 0xF40, 0xFBC},
    {"Myanmar", 0x1000, 0x109F},  {"Georgian", 0x10D0, 0x10FF}, {"Ethiopic", 0x1200, 0x137F},
    {"Khmer", 0x1780, 0x17FF},    {"Hiragana", 0x3041, 0x3096}, {"Katakana", 0x30A1, 0x30FA},
    {"Han", 0x4E00, 0x9FFF},      {"Hangul", 0xAC00, 0xD7A3},
};

/* Fails unless each script has a line with at least eight characters of it: a text, not one among random ones. */
static inline void check_scripts(const char *lines_path)
{
    enum { SCRIPTS = sizeof scripts / sizeof *scripts, LEAST = 8 };
    size_t size, at = 0, most[SCRIPTS] = {0}, of_line[SCRIPTS] = {0};
    char *text = read_data(lines_path, &size);
    while (at < size) {
        uint32_t c;
        at += utf8_decode(text + at, size - at, &c, NULL);
        for (size_t i = 0; i < SCRIPTS; i++) {
            of_line[i] = c == '\n' ? 0 : of_line[i] + (c >= scripts[i].first && c <= scripts[i].last);
            if (of_line[i] > most[i]) most[i] = of_line[i];
        }
    }
    host_free(&host, text);
    for (size_t i = 0; i < SCRIPTS; i++)
        if (most[i] < LEAST) fail_msg("%s: no text in %s", lines_path, scripts[i].name);
}

#endif
