/* The vocabulary of a tokenizer.json, read without building JSON values of it: they took most of the time in which a
 * model is opened. */
#ifndef WHERRY_TOKENIZER_JSON_WORDS_H
#define WHERRY_TOKENIZER_JSON_WORDS_H

#include "base/folder.h"

struct json_word {
    const char *text; /* no NUL after it */
    uint32_t bytes, id;
    double score;
};

struct json_words {
    struct json_word *list;
    bool scored;  /* of a list of [word, score], ids being places in it; else of an object of ids */
    size_t count; /* 0: there is no such vocabulary, or it is written in a way that is left to the reader of JSON */
    char *text;   /* the file's, in which the words are */
};

/* As json_file_read. But where "vocab" of the object "model" at the top is an object of strings with whole numbers from
 * 0 to 999999999, or an array of arrays of a string and a number, its words are in *words, which is to be freed, and it
 * is empty in *out. Whatever is wrong with the file is found and told as json_file_read does, except for equal words.
 */
bool json_words_read(const struct host *host, const char *folder, const char *name, const struct json_limits *limits,
                     struct json_words *words, json_t **out, struct error *e);
/* A number as Hugging Face's reader of JSON understands it: where a decimal has more than 53 bits, not always the
 * nearest double. The byte after it; 0: it is none, or beyond the range of doubles. */
size_t json_score_read(const char *text, size_t size, size_t i, double *out);
void json_words_free(const struct host *host, struct json_words *words); /* accepts a zeroed one */

#endif
