/* The vocabulary of a tokenizer.json, read without building JSON values of it: they took most of the time in which a
 * model is opened. */
#ifndef WHERRY_TOKENIZER_JSON_WORDS_H
#define WHERRY_TOKENIZER_JSON_WORDS_H

#include "base/folder.h"

struct json_word {
    const char *text; /* no NUL after it */
    uint32_t bytes, id;
};

struct json_words {
    struct json_word *list;
    size_t count; /* 0: there is no such vocabulary, or it is written in a way that is left to the reader of JSON */
    char *text;   /* the file's, in which the words are */
};

/* As json_file_read. But where the object "vocab" of the object "model" at the top is a list of plain strings with
 * whole numbers from 0 to 999999999, its words are in *words, which is to be freed, and it is empty in *out. Whatever
 * is wrong with the file is found and told as json_file_read does, except for equal words. */
bool json_words_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                     struct json_words *words, json_t **out, struct error *e);
void json_words_free(const struct host *host, struct json_words *words); /* accepts a zeroed one */

#endif
