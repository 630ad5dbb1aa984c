/* Many texts' tokens at once, by several threads: a batch, or several, for wherry_encode. Part of wherry.h, whose rules
 * hold here.
 *
 *   wherry_tokens tokens = {.struct_size = sizeof tokens};
 *   wherry_tokenize_texts(context, model, texts, count, NULL, &tokens);
 *   wherry_batch batch = {sizeof batch, (uint32_t)tokens.texts, tokens.offsets, tokens.ids, tokens.types};
 *   wherry_encode(session, &batch, out, out_floats);
 *   wherry_tokens_free(context, &tokens);
 */
#ifndef WHERRY_TEXTS_H
#define WHERRY_TEXTS_H

#include <wherry/wherry.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text, or two that the model takes as a pair. UTF-8; no NUL has to stand after them. */
typedef struct wherry_text {
    const char *text;
    size_t text_bytes;
    const char *pair; /* NULL: none */
    size_t pair_bytes;
} wherry_text;

typedef struct wherry_texts_desc {
    uint32_t struct_size;
    uint32_t max_tokens; /* a text with more is cut, as wherry_tokenize does; 0: nothing is cut */
    uint32_t limit;      /* a text that has more tokens then is one that fails; 0: the model's limit */
    uint32_t threads;    /* that tokenize, the calling one among them, at most; 0: as many as there are cores */
    const char *prompt;  /* in front of each text, not of its pair; NULL: nothing. WHERRY_STATUS_UNSUPPORTED where the
                            model's pooling leaves its tokens out */
    const wherry_text_form *form; /* what the prompt makes of texts (wherry_model_text_form); NULL: nothing */
    bool places;                  /* where tokens come from is wanted, too */
    const char *instruction;      /* of pairs, where the model's template has a place for one
                                     (wherry_model_info.pair_template); NULL: the model's own */
} wherry_texts_desc;

/* What the texts became. The caller sets struct_size and leaves the rest zero. */
typedef struct wherry_tokens {
    uint32_t struct_size;
    size_t texts;               /* of which there are tokens: all, or those before the first that failed */
    uint32_t *offsets;          /* [texts + 1], offsets[0] = 0: text t has tokens offsets[t] to offsets[t + 1] */
    int32_t *ids, *types;       /* [tokens] */
    wherry_token_place *places; /* [tokens] where they were wanted, else NULL */
    uint32_t threads;           /* that tokenized, at most */
    /* Of the first text that failed; else WHERRY_STATUS_OK. WHERRY_STATUS_TOO_LONG: of more tokens than the limit. */
    wherry_status failed;
    uint64_t failed_tokens; /* with WHERRY_STATUS_TOO_LONG: that it has */
    char problem[512];      /* what is wrong with it; "" */
} wherry_tokens;

/* Tokens of `count` texts, as wherry_tokenize makes them, in the texts' order. desc may be NULL: nothing is cut, and
 * the limit is the model's. One text that can't be tokenized is no failure of this call: `failed` says so, and the
 * texts before it have their tokens. With more than one thread the context's alloc and free are called by all of them.
 * Free the result with wherry_tokens_free. */
WHERRY_API wherry_status wherry_tokenize_texts(wherry_context *context, const wherry_model *model,
                                               const wherry_text *texts, size_t count, const wherry_texts_desc *desc,
                                               wherry_tokens *out);
/* Accepts NULL, and one that is zero or was freed before. The context is the one that made them. */
WHERRY_API void wherry_tokens_free(wherry_context *context, wherry_tokens *tokens);

#ifdef __cplusplus
}
#endif

#endif
