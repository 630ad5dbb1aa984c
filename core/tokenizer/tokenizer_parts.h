/* What a tokenizer is made of: shared by the code that reads it from files and the code that runs it. */
#ifndef WHERRY_TOKENIZER_TOKENIZER_PARTS_H
#define WHERRY_TOKENIZER_TOKENIZER_PARTS_H

#include "tokenizer/added_tokens.h"
#include "tokenizer/models.h"
#include "tokenizer/normalizers.h"
#include "tokenizer/post_processors.h"
#include "tokenizer/pre_tokenizers.h"
#include "tokenizer/tokenizer.h"

/* In the order in which a text passes them. */
struct tokenizer {
    struct host host; /* a copy: the tokenizer may outlive the one it was made with */
    struct added_tokens added;
    struct normalizers normalizers;
    struct pre_tokenizers pre_tokenizers;
    struct token_model model;
    struct post_processor post;
    bool cut_left;     /* what is too much is cut off the beginning */
    bool needs_places; /* a pre-tokenizer asks where a text begins */
};

#endif
