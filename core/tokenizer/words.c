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
