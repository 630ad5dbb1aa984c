/* The loss of a masked language model, on the scores of the vocabulary for tokens that have a label. With strips a
 * strip's words at a time are multiplied, and what the rows come to so far goes from strip to strip; the backward pass
 * multiplies each strip again, unless its scores are kept, so that they are never there as a whole. Where rows of
 * scores have a pitch, strips are longer, and the last one has all words that are left. */
#include "graph/entropy.h"

#include <stdio.h>

#include "base/round.h"
#include "interface/interface.h"

enum {
    STRIP_WORDS = 4096,   /* at most: of 16 bits a few thousand rows' scores stay in a large GPU's cache */
    PITCHED_WORDS = 8192, /* of them 2,457 rows are 640 tiles of 128 x 256, five for each of 132 multiprocessors */
    STRIPS_FEWEST = 3,
    ALIGNED_WORDS = 8, /* rows of scores begin on 16 bytes where a strip has a multiple of so many */
    STRIP_ROUND = 128  /* strips begin at a multiple of so many: biases on 256 bytes */
};

/* Letters of what goes by words: of full strips, of the last one, of the rest, of the whole vocabulary. */
enum letter { FULL, LAST, REST, WHOLE };
static const struct {
    char letter;
    const char *words, *table, *narrow, *scores, *product, *product_narrow;
} letters[] = {
    [FULL] = {'x', "x", "xi", "xe", "bsx", "bsi,xi->bsx", "bse,xe->bsx"},
    [LAST] = {'y', "y", "yi", "ye", "bsy", "bsi,yi->bsy", "bse,ye->bsy"},
    [REST] = {'g', "g", "gi", "ge", "bsg", "bsi,gi->bsg", "bse,ge->bsg"},
    [WHOLE] = {'v', "v", "vi", "ve", "bsv", "bsi,vi->bsv", "bse,ve->bsv"},
};

/* Words of strips whose rows are aligned: all, but for a few that are a strip of their own where rows have no pitch. */
static uint32_t aligned_words(const struct graph_options *options)
{
    uint32_t vocabulary = options->config->vocabulary;
    return vocabulary % ALIGNED_WORDS && !options->pitched ? vocabulary / STRIP_ROUND * STRIP_ROUND : vocabulary;
}

/* Words of a full strip; 0: the vocabulary is one. */
static uint32_t strip_words(const struct graph_options *options)
{
    uint32_t aligned = aligned_words(options), most = options->pitched ? PITCHED_WORDS : STRIP_WORDS,
             n = (uint32_t)divide_up(aligned, most);
    if (n < STRIPS_FEWEST) n = STRIPS_FEWEST;
    uint32_t words = (uint32_t)round_up(divide_up(aligned, n), STRIP_ROUND);
    if (options->pitched && words > most / 2) words = most; /* the last one is what is left */
    return words < aligned ? words : 0;
}

struct entropy {
    struct builder *b;
    bool narrow;
    int x, labels, table, bias; /* rows, and what all strips are of */
    int state;                  /* what the rows come to so far, -1: nothing yet */
};

static struct op *last(struct builder *b) { return &b->g->ops[b->g->n_ops - 1]; }

/* Rows of a weight from number `first` on. */
static int add_strip(struct builder *b, int weight, uint32_t first, const char *dims)
{
    struct tensor t = b->g->tensors[weight];
    char name[sizeof t.name];
    snprintf(name, sizeof name, "%.30s_%u", t.name, (unsigned)first);
    int made = builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = t.weight});
    if (!b->ok) return made;
    b->g->tensors[made].parent = weight;
    b->g->tensors[made].strip = true;
    b->g->tensors[made].slice = first;
    return made;
}

static const char *numbered(const char *what, enum letter which, uint32_t first, char name[48])
{
    if (which == WHOLE)
        snprintf(name, 48, "%.30s", what);
    else
        snprintf(name, 48, "%.30s_%u", what, (unsigned)first);
    return name;
}

/* A tensor of scores of `count` words. */
static int add_scores(struct entropy *n, const char *name, enum letter which, uint32_t count)
{
    uint32_t pitch = n->b->options->pitched ? (uint32_t)round_up(count, ALIGNED_WORDS) : count;
    return builder_named(
        n->b, name,
        (struct tensor){.dims = letters[which].scores, .role = TENSOR_VALUE, .pitch = pitch > count ? pitch : 0});
}

/* The scores of `count` words, and what the rows come to with them. */
static void add_words(struct entropy *n, enum letter which, uint32_t first, uint32_t count)
{
    struct builder *b = n->b;
    const char *table_dims = n->narrow ? letters[which].narrow : letters[which].table;
    char name[48], made[48];
    if (!b->ok) return;
    b->g->dims.of[(unsigned char)letters[which].letter] = count;
    int table = which == WHOLE ? n->table : add_strip(b, n->table, first, table_dims),
        bias = which == WHOLE ? n->bias : add_strip(b, n->bias, first, letters[which].words);
    int scores = add_scores(n, numbered("vocabulary", which, first, made), which, count);
    builder_plain(b, numbered("vocabulary", which, first, name), VOCABULARY_SCORES, &kind_contract, scores,
                  (const int[]){n->x, table, -1}, n->narrow ? letters[which].product_narrow : letters[which].product);
    int biased = add_scores(n, numbered("vocabulary_scores", which, first, made), which, count);
    builder_plain(b, numbered("vocabulary_bias", which, first, name), VOCABULARY_BIAS, &kind_bias, biased,
                  (const int[]){scores, bias, -1}, NULL);
    int state = builder_named(b, numbered("entropy", which, first, made),
                              (struct tensor){.dims = "bsa", .role = TENSOR_VALUE, .f32 = true});
    builder_plain(b, numbered("entropy", which, first, name), ENTROPY, &kind_entropy, state,
                  (const int[]){biased, n->labels, n->state}, NULL);
    if (b->ok) last(b)->column = first;
    n->state = state;
}

static void add_strips(struct entropy *n, uint32_t vocabulary, uint32_t words)
{
    uint32_t aligned = aligned_words(n->b->options), first = 0;
    for (; first + words <= aligned; first += words) add_words(n, FULL, first, words);
    if (first < aligned) add_words(n, LAST, first, aligned - first);
    if (aligned < vocabulary) add_words(n, REST, aligned, vocabulary - aligned);
}

int builder_labels(struct builder *b, enum batch_data data, const char *name, const char *dims)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_BATCH, .data = data, .u32 = true});
}

int builder_labelled(struct builder *b, int x)
{
    int rows = builder_labels(b, BATCH_LABELLED, "labelled", "bs");
    return builder_plain(b, "labelled_rows", LABELLED, &kind_pick, builder_value(b, "labelled_rows", "bsi"),
                         (const int[]){x, rows, -1}, NULL);
}

/* The sum over rows with the letters `rows`, after the last of what they come to. */
static int add_sum(struct builder *b, const char *name, const char *rows, int state, int total)
{
    char made[48];
    snprintf(made, sizeof made, "%.30s_lse", name);
    int lse = builder_named(b, made, (struct tensor){.dims = rows, .role = TENSOR_VALUE, .f32 = true});
    snprintf(made, sizeof made, "%.30s_sum", name);
    if (total < 0) total = builder_named(b, made, (struct tensor){.dims = "z", .role = TENSOR_VALUE, .f32 = true});
    builder_plain(b, made, ENTROPY_SUM, &kind_entropy_sum, total, (const int[]){state, -1, -1}, NULL);
    if (b->ok) last(b)->out[1] = lse;
    return total;
}

int builder_entropy(struct builder *b, int x, int table, int bias, int total)
{
    uint32_t vocabulary = b->options->config->vocabulary, words = b->options->strips ? strip_words(b->options) : 0;
    struct entropy n = {.b = b, .narrow = b->options->config->embedding, .x = x, .table = table, .bias = bias};
    n.state = -1;
    n.labels = builder_labels(b, BATCH_LABELS, "labels", "bs");
    b->g->dims.of['a'] = ENTROPY_STATE;
    if (words)
        add_strips(&n, vocabulary, words);
    else
        add_words(&n, WHOLE, 0, vocabulary);
    return add_sum(b, "entropy", "bs", n.state, total);
}

int builder_entropies(struct builder *b, int *masked, int *next)
{
    int *const slices[] = {masked, next};
    b->g->dims.of['n'] = 2;
    int both = builder_named(b, "entropies", (struct tensor){.dims = "nz", .role = TENSOR_VALUE, .f32 = true});
    for (uint32_t i = 0; i < 2; i++) {
        *slices[i] = builder_named(b, i ? "next_sum" : "entropy_sum",
                                   (struct tensor){.dims = "z", .role = TENSOR_VALUE, .f32 = true});
        if (b->ok) b->g->tensors[*slices[i]].parent = both, b->g->tensors[*slices[i]].slice = i;
    }
    return both;
}

int builder_next_rows(struct builder *b, int x)
{
    int first = builder_labels(b, BATCH_NEXT_FIRST, "next_first", "bS");
    return builder_plain(b, "next_rows", LABELLED, &kind_pick, builder_value(b, "next_rows", "bSi"),
                         (const int[]){x, first, -1}, NULL);
}

void builder_next_entropy(struct builder *b, int scores, int total)
{
    int labels = builder_labels(b, BATCH_NEXT, "next_labels", "bS"),
        state = builder_named(b, "next_entropy", (struct tensor){.dims = "bSa", .role = TENSOR_VALUE, .f32 = true});
    builder_plain(b, "next_entropy", ENTROPY, &kind_entropy, state, (const int[]){scores, labels, -1}, NULL);
    add_sum(b, "next", "bS", state, total);
}
