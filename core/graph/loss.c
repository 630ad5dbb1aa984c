/* The forward pass of losses. Their backward pass is derived as an encoder's is (backward.c). */
#include "graph/loss.h"

#include <stdio.h>
#include <string.h>

#include "base/round.h"
#include "graph/builder.h"

/* One loss by one width of rows. */
struct loss_part {
    struct builder *b;
    const struct loss_graph_options *options;
    uint32_t width;
    char letter; /* of the width */
    int targets, total;
};

/* Rows of scores are whole vectors: what is more than there are candidates is zeros. */
enum { VECTOR_ROWS = 4 };

/* Letters of cut rows and of rows of targets; a graph's tensors point to their dims. */
enum { NAMES = 7 };
static const char *const named[1 + LOSS_DIMENSIONS_MOST][NAMES] = {
    /* rows, anchors, candidates, all anchors, scores of candidates, scores of anchors, targets */
    {"bji", "bi", "ci", "ei", "bi,ci->bc", "bi,ei->be", "bI"},
    {"bjf", "bf", "cf", "ef", "bf,cf->bc", "bf,ef->be", "bF"},
    {"bjg", "bg", "cg", "eg", "bg,cg->bc", "bg,eg->be", "bG"},
    {"bjl", "bl", "cl", "el", "bl,cl->bc", "bl,el->be", "bL"},
    {"bjm", "bm", "cm", "em", "bm,cm->bc", "bm,em->be", "bM"},
    {"bjo", "bo", "co", "eo", "bo,co->bc", "bo,eo->be", "bO"},
    {"bjt", "bt", "ct", "et", "bt,ct->bc", "bt,et->be", "bT"},
    {"bju", "bu", "cu", "eu", "bu,cu->bc", "bu,eu->be", "bU"},
    {"bjv", "bv", "cv", "ev", "bv,cv->bc", "bv,ev->be", "bV"}};

enum { ROWS_OF, ANCHORS_OF, CANDIDATES_OF, ALL_ANCHORS_OF, CANDIDATES_BY, ANCHORS_BY, TARGETS_OF };

static const char *dims_of(const struct loss_part *p, int which)
{
    int n = 0;
    while (named[n][ROWS_OF][2] != p->letter) n++;
    return named[n][which];
}

static const char *name_of(const struct loss_part *p, const char *what, char name[48])
{
    if (p->options->n_dimensions)
        snprintf(name, 48, "%.30s_%u", what, (unsigned)p->width);
    else
        snprintf(name, 48, "%.30s", what);
    return name;
}

static struct op *last(const struct loss_part *p) { return &p->b->g->ops[p->b->g->n_ops - 1]; }

/* An operator that makes a tensor of its name; returns that. */
static int add(struct loss_part *p, const char *what, const struct op_kind *kind, const char *dims, int in0, int in1,
               int in2, const char *einsum)
{
    char name[48];
    int made = builder_value(p->b, name_of(p, what, name), dims);
    return builder_plain(p->b, name, LOSS, kind, made, (const int[]){in0, in1, in2}, einsum);
}

static int add_take(struct loss_part *p, const char *what, const char *dims, int x, uint32_t column, uint32_t columns)
{
    int made = add(p, what, &kind_take, dims, x, -1, -1, NULL);
    if (!p->b->ok) return made;
    last(p)->column = column;
    last(p)->columns = columns;
    return made;
}

static int second_output(struct loss_part *p, const char *what, const char *dims)
{
    char name[48];
    int made = builder_value(p->b, name_of(p, what, name), dims);
    if (p->b->ok) last(p)->out[1] = made;
    return made;
}

static void add_sum(struct loss_part *p, const char *what, const struct op_kind *kind, int rows, int targets)
{
    p->total = add(p, what, kind, "", rows, p->total, targets, NULL);
}

/* Of scores by their targets; `columns` of them for each example, 0: as many as the row has. */
static void add_cross_entropy(struct loss_part *p, const char *what, const char *sum, int scores, uint32_t columns)
{
    char lse[48];
    int rows = add(p, what, &kind_cross_entropy, "b", scores, p->targets, -1, NULL);
    if (!p->b->ok) return;
    last(p)->attribute = p->options->scale;
    last(p)->columns = columns;
    snprintf(lse, sizeof lse, "%.30s_lse", what);
    second_output(p, lse, "b");
    add_sum(p, sum, &kind_loss_sum, rows, -1);
}

static void add_contrastive(struct loss_part *p, int x)
{
    uint32_t others = p->options->columns - 1;
    int anchors = add_take(p, "anchors", dims_of(p, ANCHORS_OF), x, 0, 1);
    int candidates = add_take(p, "candidates", dims_of(p, CANDIDATES_OF), x, 1, others);
    int scores = add(p, "scores", &kind_contract, "bc", anchors, candidates, -1, dims_of(p, CANDIDATES_BY));
    add_cross_entropy(p, "cross_entropy", "sum", scores, others);
    if (!p->options->symmetric) return;
    int positives = add_take(p, "positives", dims_of(p, ANCHORS_OF), x, 1, 1);
    int all = add_take(p, "all_anchors", dims_of(p, ALL_ANCHORS_OF), x, 0, 1);
    int back = add(p, "scores_back", &kind_contract, "be", positives, all, -1, dims_of(p, ANCHORS_BY));
    add_cross_entropy(p, "cross_entropy_back", "sum_back", back, 1);
}

/* Element by element of the rows, of their products, or of their scores. */
static void add_rows(struct loss_part *p, const struct op_kind *kind, int x, float scale)
{
    int rows = add(p, kind->name, kind, "b", x, p->targets, -1, NULL);
    if (!p->b->ok) return;
    last(p)->attribute = scale;
    if (kind != &kind_cosent) {
        add_sum(p, "sum", &kind_loss_sum, rows, -1);
        return;
    }
    add_sum(p, "sum", &kind_cosent_sum, rows, p->targets);
    second_output(p, "sum_lse", "");
}

static int add_pairs(struct loss_part *p, int x)
{
    int made = add(p, "pairs", &kind_pairs, "b", x, -1, -1, NULL);
    if (p->b->ok) last(p)->columns = p->options->columns;
    return made;
}

static int cut_and_normalize(struct loss_part *p, int x)
{
    const struct loss_graph_options *o = p->options;
    bool cosines = o->kind == LOSS_CONTRASTIVE || o->kind == LOSS_COSENT || o->kind == LOSS_COSINE;
    const char *rows = dims_of(p, ROWS_OF);
    if (p->letter != 'i') x = add_take(p, "cut", rows, x, 0, 0);
    return cosines || o->n_dimensions ? add(p, "normal", &kind_normalize, rows, x, -1, -1, NULL) : x;
}

uint32_t loss_row_targets(enum loss_kind kind, uint32_t width)
{
    return kind == LOSS_VECTORS || kind == LOSS_BINARY || kind == LOSS_REGRESSION ? width : 1;
}

static void add_part(struct loss_part *p, int x)
{
    char name[48];
    bool wide = loss_row_targets(p->options->kind, 2) > 1;
    p->targets = builder_named(
        p->b, name_of(p, "targets", name),
        (struct tensor){.dims = wide ? dims_of(p, TARGETS_OF) : "bz", .role = TENSOR_VALUE, .input = true});
    x = cut_and_normalize(p, x);
    switch (p->options->kind) {
    case LOSS_CONTRASTIVE:
        add_contrastive(p, x);
        break;
    case LOSS_CLASSES:
        add_cross_entropy(p, "cross_entropy", "sum", x, 0);
        break;
    case LOSS_COSENT:
        add_rows(p, &kind_cosent, add_pairs(p, x), p->options->scale);
        break;
    case LOSS_COSINE:
    case LOSS_MARGIN:
        add_rows(p, &kind_squared, add_pairs(p, x), 1);
        break;
    case LOSS_BINARY:
        add_rows(p, &kind_binary, x, p->options->positive_weight);
        break;
    default:
        add_rows(p, &kind_squared, x, 1);
    }
}

static void set_width(struct graph *g, const char letter, uint32_t width)
{
    g->dims.of[(unsigned char)letter] = width;
    g->dims.of[(unsigned char)letter - 'a' + 'A'] = width + 1;
}

bool loss_graph_create(const struct host *host, const struct loss_graph_options *options, struct graph *out,
                       int targets[LOSS_DIMENSIONS_MOST], struct error *e)
{
    static const wherry_model_config none = {0};
    const struct graph_options backward = {.config = &none, .stack = true, .training = true};
    uint32_t parts = options->n_dimensions ? options->n_dimensions : 1;
    memset(out, 0, sizeof *out);
    out->host = host;
    out->loss = true;
    out->out_gradient = out->in_gradient = -1;
    out->dims.of['c'] = (uint32_t)round_up((uint64_t)options->examples * (options->columns - 1), VECTOR_ROWS);
    out->dims.of['e'] = (uint32_t)round_up(options->examples, VECTOR_ROWS);
    out->dims.of['z'] = 2;
    out->dims.of['h'] = out->dims.of['p'] = 1;
    set_width(out, 'i', options->length);
    struct builder b = {.g = out, .options = &backward, .e = e, .ok = true};
    struct loss_part p = {.b = &b, .options = options, .total = -1};
    out->input = builder_named(&b, "x", (struct tensor){.dims = "bji", .role = TENSOR_VALUE, .input = true});
    for (uint32_t k = 0; k < parts && b.ok; k++) {
        p.width = options->n_dimensions ? options->dimensions[k] : options->length;
        p.letter = named[p.width == options->length ? 0 : 1 + k][ROWS_OF][2];
        set_width(out, p.letter, p.width);
        add_part(&p, out->input);
        targets[k] = p.targets;
    }
    out->n_forward = out->n_ops;
    out->output = p.total;
    if (b.ok) out->tensors[out->output].output = true;
    builder_backward(&b);
    if (!b.ok) graph_destroy(out);
    return b.ok;
}
