/* The files that a tokenizer is read from, shared by the readers of each. */
#ifndef WHERRY_TOKENIZER_TOKENIZER_FILES_H
#define WHERRY_TOKENIZER_TOKENIZER_FILES_H

#include "tokenizer/tokenizer_parts.h"

/* What is known while a tokenizer is being made. */
struct file_reader {
    struct tokenizer *t;
    const char *folder;
    const json_t *config;   /* tokenizer_config.json, NULL: there is none */
    const char *class_name; /* which it names, or else the caller; NULL: neither */
    struct part_reader part;
    struct added_reader added;
};

/* Puts the file's path before the error. Always false. */
bool file_fail(const struct file_reader *r, const char *name);
/* An added token written as an object. */
bool file_added(const struct file_reader *r, const json_t *object, const char **content, struct added_entry *out);
/* A special token of tokenizer_config.json: a string, an object, or null for none, which gives NULL. */
bool file_special(const struct file_reader *r, const json_t *value, const char *key, const char **content,
                  struct added_entry *entry);
/* Adds what tokenizer_config.json has under "additional_special_tokens" and "added_tokens_decoder". */
bool file_more_added(struct file_reader *r);
/* Whether the tokenizer's class is this one, or its fast form. */
bool file_is_class(const struct file_reader *r, const char *wanted);
/* That the file is another class's than `read` says. Always false. */
bool file_refuse_class(const struct file_reader *r, const char *file, const char *read);
/* Whether a class of tokenizer_config.json is BERT's tokenizer. */
bool file_is_bert(const char *class_name);
/* How tokenizer_config.json, where it is BERT's, overrules the normalizer. */
bool file_bert_settings(const struct file_reader *r, struct bert_normalizer *bert);

/* vocab.txt */
bool read_vocabulary(struct file_reader *r);
/* sentencepiece.bpe.model */
bool read_sentencepiece(struct file_reader *r);
/* vocab.json and merges.txt */
bool read_merges(struct file_reader *r);

#endif
