/* A vocabulary on its way from a file. */
#include "tokenizer/words.h"

#include <string.h>

#include "base/utf8.h"
#include "tokenizer/unicode.h"

bool words_reserve(const struct part_reader *r, struct words *words, size_t tokens, size_t bytes)
{
    words->text.host = r->host;
    TRY(list_reserve(&words->text, bytes, r->e));
    words->tokens = host_alloc(r->host, tokens, sizeof *words->tokens, r->e);
    return words->tokens;
}

bool words_add(const struct part_reader *r, struct words *words, const char *name, size_t bytes, bool line, uint64_t id)
{
    size_t first = words->text.count;
    TRY(list_add_text(&words->text, name, bytes, "a token of the vocabulary", r->e));
    const uint32_t *text = words->text.items + first;
    size_t length = words->text.count - first;
    while (line && length && unicode_is_space(text[length - 1])) length--;
    /* An empty line is a token as well, but one that no text contains. */
    if (id >= r->vocabulary && length)
        return fail(r->e, WHERRY_STATUS_BAD_FORMAT,
                    "token \"%.*s\" has id %llu, but the model has %u ids: the files belong to different models",
                    bytes < 100 ? (int)bytes : 100, name, (unsigned long long)id, (unsigned)r->vocabulary);
    int32_t kept = id < r->vocabulary ? (int32_t)id : 0;
    words->tokens[words->count] = (struct token){text, length, kept, words->count};
    words->count++;
    return true;
}

bool words_read(const struct part_reader *r, const struct json_words *plain, const json_t *vocabulary,
                struct words *words)
{
    const char *name;
    json_t *value;
    size_t bytes = 0;
    for (size_t i = 0; i < plain->count; i++) bytes += plain->list[i].bytes;
    json_object_foreach((json_t *)vocabulary, name, value) bytes += strlen(name);
    TRY(words_reserve(r, words, json_object_size(vocabulary) + plain->count, bytes));
    for (size_t i = 0; i < plain->count; i++) {
        const struct json_word *word = &plain->list[i];
        TRY(words_add(r, words, word->text, word->bytes, false, word->id));
    }
    json_object_foreach((json_t *)vocabulary, name, value)
    {
        if (!json_is_integer(value) || json_integer_value(value) < 0)
            return fail(r->e, WHERRY_STATUS_BAD_FORMAT, "the id of token \"%.100s\" is not a whole number from 0 on",
                        name);
        TRY(words_add(r, words, name, strlen(name), false, (uint64_t)json_integer_value(value)));
    }
    return true;
}

void words_free(const struct host *host, struct words *words)
{
    if (words->text.host) list_free(&words->text);
    host_free(host, words->tokens);
    *words = (struct words){0};
}

int32_t words_find(const struct vocabulary *vocabulary, const char *name)
{
    uint32_t text[256];
    size_t length = 0, bytes = strlen(name);
    for (size_t i = 0; i < bytes && length < 256;) i += utf8_decode(name + i, bytes - i, &text[length++], NULL);
    return length < 256 ? vocabulary_find(vocabulary, text, length) : -1;
}
