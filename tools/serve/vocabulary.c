/* Tokens of a model by their ids, and texts of them again. */
#include "vocabulary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

enum { NAMED = 5, FRAME = 8, SPECIAL = NAMED + FRAME, UNKNOWN = 3 };

struct word {
    char *text; /* NULL: none has this id */
    size_t bytes;
};

struct vocabulary {
    struct word *words;
    uint32_t count;
    int32_t special[SPECIAL]; /* -1: none */
    bool pieces, marks;       /* words begin with U+2581; others are joined to them by "##" */
};

static const char begin_mark[] = "\xE2\x96\x81";
enum { BEGIN_MARK = sizeof begin_mark - 1 };

static bool keep(int32_t id, const char *text, size_t bytes, void *user)
{
    struct vocabulary *v = user;
    if (id < 0 || (uint32_t)id >= v->count || v->words[id].text) return true;
    v->words[id] = (struct word){need(malloc(bytes + 1)), bytes};
    memcpy(v->words[id].text, text, bytes);
    return true;
}

/* Added tokens are in no vocabulary: those that the model's files name are called what they are for. */
static void name_special(struct vocabulary *v)
{
    static const char *const names[] = {"[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"};
    static const char *const other[] = {"<s>", "</s>", "<pad>", "<unk>", "<mask>"};
    for (int i = 0; i < NAMED; i++) {
        const char *name = v->marks ? names[i] : other[i];
        if (v->special[i] >= 0) keep(v->special[i], name, strlen(name), v);
    }
}

/* What stands around a pair of empty texts is special, too, whether files name it or not. */
static wherry_status find_frame(wherry_context *context, const wherry_model *model, struct vocabulary *v)
{
    int32_t ids[FRAME], types[FRAME];
    wherry_token_place places[FRAME];
    size_t count = FRAME;
    for (int i = NAMED; i < SPECIAL; i++) v->special[i] = -1;
    wherry_status status = wherry_tokenize_places(context, model, "", 0, "", 0, 0, ids, types, places, &count);
    for (size_t i = 0; !status && i < count && i < FRAME; i++)
        if (places[i].text < 0) v->special[NAMED + i] = ids[i];
    return status;
}

struct vocabulary *vocabulary_open(wherry_context *context, const wherry_model *model, const wherry_model_info *info,
                                   wherry_status *status)
{
    *status = WHERRY_STATUS_OK;
    if (!info->has_tokenizer) return NULL;
    struct vocabulary *v = need(calloc(1, sizeof *v));
    v->count = info->config.vocabulary;
    v->words = need(calloc(v->count ? v->count : 1, sizeof *v->words));
    v->pieces = strcmp(info->tokenizer, "Unigram") == 0;
    v->marks = strcmp(info->tokenizer, "WordPiece") == 0;
    const int32_t special[] = {info->cls_token, info->eos_token, info->pad_token, info->unknown_token,
                               info->mask_token};
    memcpy(v->special, special, sizeof special);
    *status = wherry_model_tokens(context, model, keep, v);
    if (!*status) *status = find_frame(context, model, v);
    if (!*status) {
        name_special(v);
        return v;
    }
    vocabulary_close(v);
    return NULL;
}

void vocabulary_close(struct vocabulary *v)
{
    if (!v) return;
    for (uint32_t i = 0; i < v->count; i++) free(v->words[i].text);
    free(v->words);
    free(v);
}

static struct word word_of(const struct vocabulary *v, int32_t id)
{
    return id >= 0 && (uint32_t)id < v->count ? v->words[id] : (struct word){NULL, 0};
}

void vocabulary_write(const struct vocabulary *v, int32_t id, struct bytes *out)
{
    struct word word = word_of(v, id);
    if (word.text)
        bytes_quoted(out, word.text, word.bytes);
    else
        bytes_format(out, "\"#%d\"", (int)id);
}

static bool is_special(const struct vocabulary *v, int32_t id)
{
    for (int i = 0; i < SPECIAL; i++)
        if (v->special[i] == id && id >= 0 && i != UNKNOWN) return true; /* an unknown word is a word */
    return false;
}

/* Punctuation that stands at the word before it in most languages. */
static bool clings(const struct word *word) { return word->bytes == 1 && strchr(".,!?", word->text[0]); }

static void add_word(const struct vocabulary *v, struct word word, bool special, struct bytes *text)
{
    if (v->pieces && word.bytes >= BEGIN_MARK && !memcmp(word.text, begin_mark, BEGIN_MARK)) {
        if (text->used) bytes_text(text, " ");
        bytes_put(text, word.text + BEGIN_MARK, word.bytes - BEGIN_MARK);
    } else if (v->marks && word.bytes > 2 && !memcmp(word.text, "##", 2)) {
        bytes_put(text, word.text + 2, word.bytes - 2);
    } else {
        if (v->marks && text->used && (special || !clings(&word))) bytes_text(text, " ");
        bytes_put(text, word.text, word.bytes);
    }
}

void vocabulary_decode(const struct vocabulary *v, const int32_t *ids, size_t count, bool skip_special,
                       struct bytes *out)
{
    struct bytes text = {.at = NULL};
    for (size_t i = 0; i < count; i++) {
        struct word word = word_of(v, ids[i]);
        bool special = is_special(v, ids[i]);
        if (word.text && !(special && skip_special)) add_word(v, word, special, &text);
    }
    bytes_quoted(out, text.at ? text.at : "", text.used);
    bytes_free(&text);
}
