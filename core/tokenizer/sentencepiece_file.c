/* The tokenizers of XLM-RoBERTa and CamemBERT from their older file, sentencepiece.bpe.model: the vocabulary is
 * Unigram's, whatever the name, and its first pieces are others than in the model. */
#include <string.h>

#include "base/source.h"
#include "tokenizer/normalize_precompiled.h"
#include "tokenizer/pre_metaspace.h"
#include "tokenizer/roberta_files.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/unigram.h"

enum { HEAD_MOST = 5 };
static const size_t file_max_bytes = (size_t)64 << 20;

/* A vocabulary is a head of tokens, the file's pieces after the first few, and the mask. */
struct form {
    const char *class_name;
    struct {
        const char *name; /* NULL: the special token of `key` */
        int key;
        double score;
    } head[HEAD_MOST];
    size_t head_count, skipped;
    const char *unused[3]; /* added tokens besides the special ones */
    bool mask_strips;      /* takes the white space before it where the configuration does not say */
};

static const struct form forms[] = {
    {"XLMRobertaTokenizer",
     {{NULL, ROBERTA_BEGIN, 0}, {NULL, ROBERTA_PAD, 0}, {NULL, ROBERTA_END, 0}, {NULL, ROBERTA_UNKNOWN, 0}},
     4,
     3,
     {NULL},
     false},
    {"CamembertTokenizer",
     {{"<s>NOTUSED", 0, 0},
      {NULL, ROBERTA_PAD, 0},
      {"</s>NOTUSED", 0, 0},
      {NULL, ROBERTA_UNKNOWN, 0},
      {"<unk>NOTUSED", 0, -100}},
     5,
     1,
     {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"},
     true},
};
enum { UNKNOWN_ID = 3 /* in both */ };

/* ---- which of the two ---- */

static bool find_form(struct file_reader *r, const struct form **out)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        *out = &forms[i];
        if (file_is_class(r, forms[i].class_name)) return true;
    }
    return file_refuse_class(r, "sentencepiece.bpe.model",
                             "from such a file only those of XLM-RoBERTa and CamemBERT are read");
}

/* ---- its parts ---- */

static bool read_specials(struct file_reader *r, const struct form *form, const char *specials[ROBERTA_SPECIALS])
{
    const struct added_entry plain = {0};
    TRY(roberta_specials_add(r, NULL, form->mask_strips, specials));
    for (int i = 0; i < 3; i++) TRY(added_add(&r->added, form->unused[i], &plain, false, r->part.e));
    return file_more_added(r);
}

static bool add_word(const struct part_reader *r, struct words *words, double *scores, const char *text, size_t bytes,
                     double score)
{
    scores[words->count] = score;
    return words_add(r, words, text, bytes, false, words->count);
}

static bool make_words(const struct part_reader *r, const struct form *form, const struct sentencepiece_model *from,
                       const char *const specials[ROBERTA_SPECIALS], struct words *words, double *scores)
{
    for (size_t i = 0; i < form->head_count; i++) {
        const char *name = form->head[i].name ? form->head[i].name : specials[form->head[i].key];
        TRY(add_word(r, words, scores, name, strlen(name), form->head[i].score));
    }
    for (size_t i = form->skipped; i < from->count; i++)
        TRY(add_word(r, words, scores, from->pieces[i].text, from->pieces[i].bytes, (double)from->pieces[i].score));
    return add_word(r, words, scores, specials[ROBERTA_MASK], strlen(specials[ROBERTA_MASK]), 0);
}

static bool make_model(struct file_reader *r, const struct form *form, const struct sentencepiece_model *from,
                       const char *const specials[ROBERTA_SPECIALS])
{
    const struct part_reader *part = &r->part;
    struct words words = {.count = 0};
    size_t bytes = strlen(specials[ROBERTA_MASK]);
    if (from->type != SENTENCEPIECE_UNIGRAM)
        return fail(part->e, WHERRY_STATUS_UNSUPPORTED, "its model type is %d; only 1, Unigram, is supported",
                    (int)from->type);
    for (size_t i = 0; i < form->head_count; i++)
        bytes += strlen(form->head[i].name ? form->head[i].name : specials[form->head[i].key]);
    for (size_t i = 0; i < from->count; i++) bytes += from->pieces[i].bytes;
    size_t most = form->head_count + from->count + 1;
    double *scores = host_alloc(part->host, most, sizeof *scores, part->e);
    r->t->model.kind = &model_unigram;
    bool ok = scores && words_reserve(part, &words, most, bytes) &&
              make_words(part, form, from, specials, &words, scores) &&
              unigram_make(part, &words, scores, UNKNOWN_ID, false, &r->t->model.data);
    words_free(part->host, &words);
    host_free(part->host, scores);
    return ok;
}

/* The other parts, as transformers makes them. */
static bool make_parts(struct file_reader *r, const struct sentencepiece_model *from,
                       const char *const specials[ROBERTA_SPECIALS])
{
    struct tokenizer *t = r->t;
    void *data = NULL;
    if (from->map_bytes) {
        bool made = precompiled_make(&r->part, from->map, from->map_bytes, &data);
        if (data) made = normalizers_add(&r->part, &normalizer_precompiled, data, &t->normalizers) && made;
        if (!made) return false;
    }
    TRY(pre_tokenizers_add(&r->part, &pre_tokenizer_whitespace_split, NULL, &t->pre_tokenizers));
    bool prefix = true;
    TRY(part_optional_bool(&r->part, r->config, "add_prefix_space", &prefix));
    if (!(data = metaspace_make(&r->part, prefix))) return false;
    TRY(pre_tokenizers_add(&r->part, &pre_tokenizer_metaspace, data, &t->pre_tokenizers));
    return roberta_frame(r, specials[ROBERTA_BEGIN], specials[ROBERTA_END]);
}

bool read_sentencepiece(struct file_reader *r)
{
    static const char name[] = "sentencepiece.bpe.model";
    const struct form *form;
    const char *specials[ROBERTA_SPECIALS];
    struct sentencepiece_model model = {.count = 0};
    TRY(find_form(r, &form));
    if (!read_specials(r, form, specials)) return file_fail(r, "tokenizer_config.json");
    char *path = path_join(r->part.host, r->folder, name, r->part.e), *data = NULL;
    size_t size = 0;
    bool got = path && source_read_all(r->part.host, path, file_max_bytes, &data, &size, r->part.e);
    bool ok = got && sentencepiece_parse(&r->part, (const unsigned char *)data, size, &model) &&
              make_model(r, form, &model, specials) && make_parts(r, &model, specials);
    if (got && !ok) file_fail(r, name);
    sentencepiece_free(r->part.host, &model);
    host_free(r->part.host, data);
    host_free(r->part.host, path);
    return ok;
}
