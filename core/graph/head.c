/* What stands on the layers: a pooling with the modules after it, or a head's dense layer and what reads it. */
#include <stdio.h>

#include "graph/builder.h"
#include "graph/entropy.h"

/* An operator and the tensor that it makes. */
static int add(struct builder *b, const char *name, enum role role, const struct op_kind *kind, const char *made,
               const char *dims, const int in[OP_ROW_IN], const char *einsum)
{
    return builder_plain(b, name, role, kind, builder_value(b, made, dims), in, einsum);
}

static int add_weight(struct builder *b, const char *name, const char *dims, enum weight weight)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = weight});
}

static int add_pooler(struct builder *b)
{
    const struct tensor_row *row = &tensor_pooler;
    const char *dims = builder_weight_dims(b, WEIGHT_POOLER, false);
    return builder_named(b, row->name,
                         (struct tensor){.dims = dims,
                                         .model_dims = dims != row->dims ? row->dims : NULL,
                                         .role = TENSOR_WEIGHT,
                                         .weight = row->weight});
}

/* The layernorm after the last layer of pre-LN encoders. */
static int add_final_norm(struct builder *b, int x)
{
    if (!b->options->config->pre_layernorm) return x;
    return builder_norm(b, "final.norm", FINAL_NORM, builder_value(b, "final.norm", "bji"), x,
                        (const char *const[]){"final.gamma", "final.beta"}, "i", WEIGHT_FINAL_GAMMA);
}

static const struct op_kind *head_kind(wherry_head_activation activation)
{
    static const struct op_kind *const kinds[] = {[WHERRY_HEAD_TANH] = &kind_tanh,
                                                  [WHERRY_HEAD_RELU] = &kind_relu,
                                                  [WHERRY_HEAD_GELU] = &kind_gelu,
                                                  [WHERRY_HEAD_GELU_TANH] = &kind_gelu_tanh};
    return kinds[activation];
}

/* ---- poolings ---- */

static const struct op_kind *pool_kind(wherry_pool pool)
{
    switch (pool) {
    case WHERRY_POOL_MEAN:
        return &kind_pool_mean;
    case WHERRY_POOL_MAX:
        return &kind_pool_max;
    case WHERRY_POOL_LAST:
        return &kind_pool_last;
    case WHERRY_POOL_MEAN_SQRT:
        return &kind_pool_sqrt;
    case WHERRY_POOL_WEIGHTED_MEAN:
        return &kind_pool_weighted;
    default:
        return &kind_pool_cls;
    }
}

static int add_pool(struct builder *b, wherry_pool pool, int x)
{
    return add(b, "pool", POOL, pool_kind(pool), "pool", "bi", (const int[]){x, -1, -1}, NULL);
}

/* Several, each a slice of the rows of all. */
static int add_pools(struct builder *b, int x)
{
    char name[32];
    int all = builder_value(b, "pools", "bni");
    for (uint32_t i = 0; i < b->options->n_pools; i++) {
        const struct op_kind *kind = pool_kind(b->options->pools[i]);
        snprintf(name, sizeof name, "pool_%u_%s", i + 1, kind->name + sizeof "pool");
        int slice = builder_named(b, name, (struct tensor){.dims = "bi", .role = TENSOR_VALUE});
        if (b->ok) b->g->tensors[slice].parent = all, b->g->tensors[slice].slice = i;
        builder_plain(b, name, POOL, kind, slice, (const int[]){x, -1, -1}, NULL);
    }
    return all;
}

/* The row of the token that the batch names. */
static int add_row(struct builder *b, int x)
{
    int rows =
        builder_named(b, "rows", (struct tensor){.dims = "b", .role = TENSOR_BATCH, .data = BATCH_ROWS, .u32 = true});
    return add(b, "pool", POOL, &kind_pool_row, "pool", "bi", (const int[]){x, rows, -1}, NULL);
}

/* Rows that a dense layer stands on: of all sequences, of those that have a label, or of tokens. */
static const struct dense_rows {
    const char *made, *einsum;
} all_sequences = {"bo", "bi,oi->bo"}, labelled_sequences = {"bSo", "bSi,oi->bSo"}, all_tokens = {"bjo", "bji,oi->bjo"};

/* A dense layer on such rows: BERT's pooler, and what stands before a classifier. */
static int add_dense(struct builder *b, int x, const struct dense_rows *rows, const struct op_kind *activation)
{
    const wherry_model_config *config = b->options->config;
    char name[32];
    x = add(b, "pooler", POOLER, &kind_contract, "pooler", rows->made, (const int[]){x, add_pooler(b), -1},
            rows->einsum);
    if (!(config->without & WHERRY_WITHOUT_HEAD_BIAS)) {
        int bias = add_weight(b, "b_pooler", "o", WEIGHT_POOLER_BIAS);
        x = add(b, "pooler_bias", POOLER_BIAS, &kind_bias, "pooler_biased", rows->made, (const int[]){x, bias, -1},
                NULL);
    }
    snprintf(name, sizeof name, "pooler_%s", activation->name);
    x = add(b, name, POOLER_TANH, activation, name, rows->made, (const int[]){x, -1, -1}, NULL);
    if (!config->head_norm) return x;
    return builder_norm(b, "head_norm", MODULE_NORM, builder_value(b, "head_norm", rows->made), x,
                        (const char *const[]){"gamma_head", "beta_head"}, "o", WEIGHT_HEAD_GAMMA);
}

/* ---- modules after the pooling ---- */

/* Letters of rows: of what is pooled, of several poolings, of BERT's pooler, and of each dense layer; of sequences and
 * of tokens. */
enum letters { LETTERS_POOLED, LETTERS_POOLS, LETTERS_POOLER, LETTERS_DENSE };
static const char *const row_letters[2][LETTERS_DENSE + MODULES_MOST] = {
    {"bi", "bni", "bo", "bf", "bg", "bl", "bw"}, {"bji", "bjni", "bjo", "bjf", "bjg", "bjl", "bjw"}};

static const char *dense_letters(uint32_t k, enum letters from)
{
    static const char *const first[] = {"fi", "fni", "fo"}, *const next[] = {"gf", "lg", "wl"};
    return k ? next[k - 1] : first[from];
}

static int add_module_dense(struct builder *b, const struct module *m, uint32_t k, enum weight weight, bool tokens,
                            enum letters from, int x)
{
    const char *made = row_letters[tokens][LETTERS_DENSE + k], *dims = dense_letters(k, from);
    char name[32], einsum[24];
    enum role role = (enum role)(MODULE_DENSE + 3 * k);
    snprintf(name, sizeof name, "w_dense_%u", k + 1);
    int w = add_weight(b, name, dims, weight);
    snprintf(name, sizeof name, "dense_%u", k + 1);
    snprintf(einsum, sizeof einsum, "%s,%s->%s", row_letters[tokens][from], dims, made);
    x = add(b, name, role, &kind_contract, name, made, (const int[]){x, w, -1}, einsum);
    if (m->bias) {
        snprintf(name, sizeof name, "b_dense_%u", k + 1);
        int bias = add_weight(b, name,
                              dims[0] == 'f'   ? "f"
                              : dims[0] == 'g' ? "g"
                              : dims[0] == 'l' ? "l"
                                               : "w",
                              weight + 1);
        snprintf(name, sizeof name, "dense_%u_bias", k + 1);
        x = add(b, name, (enum role)(role + 1), &kind_bias, name, made, (const int[]){x, bias, -1}, NULL);
    }
    if (m->activation == WHERRY_HEAD_PLAIN) return x;
    const struct op_kind *kind = head_kind(m->activation);
    snprintf(name, sizeof name, "dense_%u_%s", k + 1, kind->name);
    return add(b, name, (enum role)(role + 2), kind, name, made, (const int[]){x, -1, -1}, NULL);
}

/* Returns what they make of x; *letters: of its rows, before and after. */
static int add_modules(struct builder *b, bool tokens, enum letters *letters, int x)
{
    const struct graph_options *options = b->options;
    for (uint32_t i = 0, k = 0; i < options->n_modules; i++) {
        const struct module *m = &options->modules[i];
        enum weight weight = (options->first_weight ? options->first_weight : WEIGHT_MODULE) + 2 * i;
        char name[32];
        if (!m->norm) {
            x = add_module_dense(b, m, k, weight, tokens, *letters, x);
            *letters = (enum letters)(LETTERS_DENSE + k++);
            continue;
        }
        const char *dims = row_letters[tokens][*letters], *own = dims + 1 + tokens;
        snprintf(name, sizeof name, "gamma_module_%u", i + 1);
        int gamma = add_weight(b, name, own, weight);
        snprintf(name, sizeof name, "beta_module_%u", i + 1);
        int beta = add_weight(b, name, own, weight + 1);
        snprintf(name, sizeof name, "module_%u_norm", i + 1);
        x = add(b, name, MODULE_NORM, &kind_layernorm, name, dims, (const int[]){x, gamma, beta}, NULL);
        if (b->ok) b->g->ops[b->g->n_ops - 1].attribute = 1e-5f; /* PyTorch's */
    }
    return x;
}

static int add_embedding(struct builder *b, int x)
{
    const struct graph_options *options = b->options;
    bool tokens = options->pool == WHERRY_POOL_NONE;
    enum letters letters = LETTERS_POOLED;
    if (options->pool == WHERRY_POOL_COMBINED) {
        x = add_pools(b, x);
        letters = LETTERS_POOLS;
    } else if (!tokens) {
        x = add_pool(b, options->pool, x);
    }
    if (options->pool == WHERRY_POOL_POOLER) {
        x = add_dense(b, x, &all_sequences, &kind_tanh);
        letters = LETTERS_POOLER;
    }
    x = add_modules(b, tokens, &letters, x);
    if (!options->normalize) return x;
    return add(b, "normalize", NORMALIZE, &kind_normalize, "normalized", row_letters[tokens][letters],
               (const int[]){x, -1, -1}, NULL);
}

/* ---- classes ---- */

/* A classifier on rows of the letters `of`: "bj" of tokens, "b" of sequences; `letter` is that of a row's channels. */
static int add_classifier(struct builder *b, int x, const char *of, char letter)
{
    char einsum[24];
    bool tokens = of[1], dense = letter == 'o';
    const char *made = tokens ? "bjc" : "bc";
    snprintf(einsum, sizeof einsum, "%s%c,c%c->%s", of, letter, letter, made);
    int w = add_weight(b, "w_classifier", dense ? "co" : "ci", WEIGHT_CLASSIFIER);
    x = add(b, "classifier", CLASSIFIER, &kind_contract, "classes", made, (const int[]){x, w, -1}, einsum);
    if (b->options->config->without & WHERRY_WITHOUT_CLASSIFIER_BIAS) return x;
    int bias = add_weight(b, "b_classifier", "c", WEIGHT_CLASSIFIER_BIAS);
    return add(b, "classifier_bias", CLASSIFIER_BIAS, &kind_bias, "logits", made, (const int[]){x, bias, -1}, NULL);
}

static int add_classes(struct builder *b, bool tokens, int x)
{
    const wherry_model_config *config = b->options->config;
    const char *of = tokens ? "bj" : "b";
    wherry_pool pool = config->head_mean ? WHERRY_POOL_MEAN : config->head_last ? WHERRY_POOL_LAST : WHERRY_POOL_CLS;
    if (!tokens) x = add_pool(b, pool, x);
    if (config->head_activation == WHERRY_HEAD_PLAIN) return add_classifier(b, x, of, 'i');
    return add_classifier(b, add_dense(b, x, tokens ? &all_tokens : &all_sequences, head_kind(config->head_activation)),
                          of, 'o');
}

/* ---- the vocabulary ---- */

static int word_table(const struct graph *g)
{
    for (int t = 0; t < g->n_tensors; t++)
        if (g->tensors[t].weight == WEIGHT_WORD) return t;
    return -1;
}

/* Letters of the head's rows: of sequences, of tokens, of tokens that have a label. */
static const struct head_rows {
    const char *of, *row, *made, *narrow, *scores;
} of_sequences = {"b", "bi", "bo", "be", "bv"}, of_tokens = {"bj", "bji", "bjo", "bje", "bjv"},
  of_labelled = {"bs", "bsi", "bso", "bse", NULL};

/* What is multiplied with the words. */
static int add_word_rows(struct builder *b, int x, const struct head_rows *rows)
{
    bool narrow = b->options->config->embedding;
    const char *of = rows->of, *made = narrow ? rows->narrow : rows->made, *row = narrow ? rows->narrow : rows->row;
    const char *own = narrow ? "e" : "o";
    char einsum[24];
    int w = add_weight(b, "w_vocabulary", narrow ? "ei" : "oi", WEIGHT_VOCABULARY_DENSE);
    snprintf(einsum, sizeof einsum, "%si,%si->%s", of, own, made);
    x = add(b, "vocabulary_dense", VOCABULARY_DENSE, &kind_contract, "vocabulary_dense", made, (const int[]){x, w, -1},
            einsum);
    if (!(b->options->config->without & WHERRY_WITHOUT_HEAD_BIAS)) {
        int bias = add_weight(b, "b_vocabulary", own, WEIGHT_VOCABULARY_DENSE_BIAS);
        x = add(b, "vocabulary_dense_bias", VOCABULARY_DENSE_BIAS, &kind_bias, "vocabulary_biased", made,
                (const int[]){x, bias, -1}, NULL);
    }
    x = add(b, "vocabulary_activation", VOCABULARY_ACTIVATION, head_kind(b->options->config->head_activation),
            "vocabulary_active", made, (const int[]){x, -1, -1}, NULL);
    return builder_norm(b, "vocabulary_norm", VOCABULARY_NORM, builder_value(b, "vocabulary_norm", row), x,
                        (const char *const[]){"gamma_vocabulary", "beta_vocabulary"}, own, WEIGHT_VOCABULARY_GAMMA);
}

/* The table that embeds words, or the head's own. */
static int add_table(struct builder *b)
{
    const wherry_model_config *config = b->options->config;
    if (!config->untied) return word_table(b->g);
    return add_weight(b, "vocabulary_table", config->embedding ? "ve" : "vi", WEIGHT_VOCABULARY_TABLE);
}

static int add_bias(struct builder *b) { return add_weight(b, "vocabulary_bias", "v", WEIGHT_VOCABULARY_BIAS); }

/* Scores of the whole vocabulary. */
static int add_scores(struct builder *b, int x, const struct head_rows *rows)
{
    bool narrow = b->options->config->embedding;
    char einsum[24];
    x = add_word_rows(b, x, rows);
    int table = add_table(b);
    snprintf(einsum, sizeof einsum, "%s,v%s->%s", narrow ? rows->narrow : rows->row, narrow ? "e" : "i", rows->scores);
    x = add(b, "vocabulary", VOCABULARY_SCORES, &kind_contract, "vocabulary", rows->scores, (const int[]){x, table, -1},
            einsum);
    return add(b, "vocabulary_bias", VOCABULARY_BIAS, &kind_bias, "vocabulary_scores", rows->scores,
               (const int[]){x, add_bias(b), -1}, NULL);
}

/* The loss of tokens whose words are to be told from the others, into the slice `total` of several losses (-1: it is
 * the only one). */
static int add_entropy(struct builder *b, int x, int total)
{
    x = add_word_rows(b, builder_labelled(b, x), &of_labelled);
    int table = add_table(b);
    return builder_entropy(b, x, table, add_bias(b), total);
}

/* And that of pairs whose second part is to be told to be what comes after the first, or not. */
static int add_entropies(struct builder *b, int x)
{
    int masked, next, both = builder_entropies(b, &masked, &next);
    add_entropy(b, x, masked);
    x = add_dense(b, builder_next_rows(b, x), &labelled_sequences, &kind_tanh);
    int w = add_weight(b, "w_next", "zo", WEIGHT_NEXT), bias = add_weight(b, "b_next", "z", WEIGHT_NEXT_BIAS);
    x = add(b, "next", CLASSIFIER, &kind_contract, "next_scores", "bSz", (const int[]){x, w, -1}, "bSo,zo->bSz");
    x = add(b, "next_bias", CLASSIFIER_BIAS, &kind_bias, "next_logits", "bSz", (const int[]){x, bias, -1}, NULL);
    builder_next_entropy(b, x, next);
    return both;
}

/* Of the scores for all tokens of a sequence one weight of each word. */
static int add_words(struct builder *b, int x)
{
    const struct word_weights *words = &b->options->words;
    x = add(b, "vocabulary_weight", VOCABULARY_WEIGHT, words->twice ? &kind_log1p_log1p_relu : &kind_log1p_relu,
            "vocabulary_weight", "bjv", (const int[]){add_scores(b, x, &of_tokens), -1, -1}, NULL);
    return add(b, "pool", POOL, words->sum ? &kind_pool_sum : &kind_pool_max, "words", "bv", (const int[]){x, -1, -1},
               NULL);
}

/* Sizes of the letters that stand for what follows the pooling. */
static void set_dims(const struct graph_options *options, struct dims *dims)
{
    dims->of['n'] = options->n_pools;
    for (uint32_t i = 0, k = 0; i < options->n_modules; i++)
        if (!options->modules[i].norm) dims->of[(unsigned char)"fglw"[k++]] = options->modules[i].width;
}

int builder_head(struct builder *b, int x)
{
    set_dims(b->options, &b->g->dims);
    x = add_final_norm(b, x);
    switch (b->options->output) {
    case WHERRY_OUTPUT_CLASSES:
        return add_classes(b, false, x);
    case WHERRY_OUTPUT_TOKEN_CLASSES:
        return add_classes(b, true, x);
    case WHERRY_OUTPUT_VOCABULARY:
        return add_scores(b, add_row(b, x), &of_sequences);
    case WHERRY_OUTPUT_WORDS:
        return add_words(b, x);
    case WHERRY_OUTPUT_ENTROPY:
        return add_entropy(b, x, -1);
    case WHERRY_OUTPUT_ENTROPY_NEXT:
        return add_entropies(b, x);
    default:
        return add_embedding(b, x);
    }
}
