/* The encoder's forward pass as tables: which tensors there are, and which operators connect them. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/round.h"
#include "base/text.h"
#include "graph/builder.h"
#include "interface/random.h"

/* ---- one layer ---- */

struct tensor_row {
    const char *name, *dims;
    enum weight weight;
    int parent, slice; /* parent 0 (X): none, because nothing is a slice of X */
    bool f32;
    int gradient_of;        /* a weight; 0 (X): none */
    int copy_of;            /* a weight, whose other order it has; 0 (X): none */
    const char *transposed; /* of matrices: dims of the transposition; a gradient's are its weight's */
    const char *interleaved, *interleaved_transposed; /* dims where Q, K and V of a head lie side by side */
    const char *channel_major;                        /* dims in channel-major order */
};

static const struct tensor_row layer_tensors[LAYER_TENSORS] = {
    [X] = {"x", "bji"},
    [W_QKV] = {"w_qkv", "qhpi", WEIGHT_QKV, .transposed = "iqhp", .interleaved = "hqpi",
               .interleaved_transposed = "ihqp"},
    [W_QKV_COPY] = {"w_qkv_copy", .copy_of = W_QKV},
    [W_QK] = {"w_qk", "rhpi", WEIGHT_QKV, W_QKV, 0, .transposed = "irhp"},
    [W_Q] = {"w_q", "hpi", WEIGHT_QKV, W_QKV, 0, .transposed = "ihp"},
    [W_K] = {"w_k", "hpi", WEIGHT_QKV, W_QKV, 1, .transposed = "ihp"},
    [W_V] = {"w_v", "hpi", WEIGHT_QKV, W_QKV, 2, .transposed = "ihp"},
    [B_QKV] = {"b_qkv", "qhp", WEIGHT_QKV_BIAS, .interleaved = "hqp"},
    [QKV_RAW] = {"qkv_raw", "bjqhp", .interleaved = "bjhqp"},
    [QK_RAW] = {"qk_raw", "bjrhp", .parent = QKV_RAW, .slice = 0},
    [Q_RAW] = {"q_raw", "bjhp", .parent = QKV_RAW, .slice = 0},
    [K_RAW] = {"k_raw", "bjhp", .parent = QKV_RAW, .slice = 1},
    [V_RAW] = {"v_raw", "bjhp", .parent = QKV_RAW, .slice = 2},
    [QKV_ALL] = {"qkv", "bjqhp", .interleaved = "bjhqp"},
    [Q] = {"q", "bjhp", .parent = QKV_ALL, .slice = 0},
    [K] = {"k", "bkhp", .parent = QKV_ALL, .slice = 1},
    [V] = {"v", "bkhp", .parent = QKV_ALL, .slice = 2},
    [BETA] = {"beta", "bhjk"},
    [ALPHA] = {"alpha", "bhjk"},
    [LSE] = {"lse", "bjh", .f32 = true},
    [ALPHA_DROPPED] = {"alpha_dropped", "bhjk"},
    [GAMMA] = {"gamma", "bjhp"},
    [W_OUT] = {"w_out", "ihp", WEIGHT_OUT, .transposed = "hpi"},
    [W_OUT_COPY] = {"w_out_copy", .copy_of = W_OUT},
    [B_OUT] = {"b_out", "i", WEIGHT_OUT_BIAS},
    [OUT_RAW] = {"out", "bji"},
    [OUT_BIASED] = {"out_biased", "bji"},
    [OUT_DROPPED] = {"out_dropped", "bji"},
    [SUM1] = {"sum1", "bji"},
    [G1] = {"gamma1", "i", WEIGHT_GAMMA1},
    [B1] = {"beta1", "i", WEIGHT_BETA1},
    [N1] = {"norm1", "bji"},
    [W_LIN1] = {"w_lin1", "ui", WEIGHT_LIN1, .transposed = "iu"},
    [W_LIN1_COPY] = {"w_lin1_copy", .copy_of = W_LIN1},
    [B_LIN1] = {"b_lin1", "u", WEIGHT_LIN1_BIAS},
    [LIN1_RAW] = {"lin1", "bju", .channel_major = "ubj"},
    [LIN1_BIASED] = {"lin1_biased", "bju", .channel_major = "ubj"},
    [ACTIVE] = {"active", "bju", .channel_major = "ubj"},
    [ACTIVE_DROPPED] = {"active_dropped", "bju", .channel_major = "ubj"},
    [W_LIN2] = {"w_lin2", "iu", WEIGHT_LIN2, .transposed = "ui"},
    [W_LIN2_COPY] = {"w_lin2_copy", .copy_of = W_LIN2},
    [B_LIN2] = {"b_lin2", "i", WEIGHT_LIN2_BIAS},
    [LIN2_RAW] = {"lin2", "bji"},
    [LIN2_BIASED] = {"lin2_biased", "bji"},
    [LIN2_DROPPED] = {"lin2_dropped", "bji"},
    [SUM2] = {"sum2", "bji"},
    [G2] = {"gamma2", "i", WEIGHT_GAMMA2},
    [B2] = {"beta2", "i", WEIGHT_BETA2},
    [N2] = {"norm2", "bji"},
    [DY] = {"d_y", "bji"},
    [D_SUM2] = {"d_sum2", "bji"},
    [D_LIN2] = {"d_lin2", "bji"},
    [D_ACTIVE_DROPPED] = {"d_active_dropped", "bju", .channel_major = "ubj"},
    [D_ACTIVE] = {"d_active", "bju", .channel_major = "ubj"},
    [D_LIN1] = {"d_lin1", "bju", .channel_major = "ubj"},
    [D_FF] = {"d_ff", "bji"},
    [D_FFN] = {"d_ffn", "bji"},
    [D_N1] = {"d_norm1", "bji"},
    [D_SUM1] = {"d_sum1", "bji"},
    [D_OUT] = {"d_out", "bji"},
    [D_GAMMA] = {"d_gamma", "bjhp"},
    [DELTA] = {"delta", "bjh", .f32 = true},
    [BETA_RECOMPUTE] = {"beta_again", "bhjk"},
    [ALPHA_RECOMPUTE] = {"alpha_again", "bhjk"},
    [ALPHA_DROPPED_RECOMPUTE] = {"alpha_dropped_again", "bhjk"},
    [D_ALPHA_DROPPED] = {"d_alpha_dropped", "bhjk"},
    [D_ALPHA] = {"d_alpha", "bhjk"},
    [D_BETA] = {"d_beta", "bhjk"},
    [D_QKV] = {"d_qkv", "bjqhp", .interleaved = "bjhqp"},
    [D_Q] = {"d_q", "bjhp", .parent = D_QKV, .slice = 0},
    [D_K] = {"d_k", "bkhp", .parent = D_QKV, .slice = 1},
    [D_V] = {"d_v", "bkhp", .parent = D_QKV, .slice = 2},
    [D_QK_ROWS] = {"d_qk_rows", "bjrhp", .parent = D_QKV, .slice = 0},
    [D_Q_ROWS] = {"d_q_rows", "bjhp", .parent = D_QKV, .slice = 0},
    [D_K_ROWS] = {"d_k_rows", "bjhp", .parent = D_QKV, .slice = 1},
    [D_V_ROWS] = {"d_v_rows", "bjhp", .parent = D_QKV, .slice = 2},
    [D_ATT_FIRST] = {"d_att_first", "bji"},
    [D_ATT_SECOND] = {"d_att_second", "bji"},
    [D_ATT_SECOND_SUM] = {"d_att_second_sum", "bji"},
    [D_ATT_LAST] = {"d_att_last", "bji"},
    [D_ATT] = {"d_att", "bji"},
    [D_ATTN] = {"d_attn", "bji"},
    [DX] = {"d_x", "bji"},
    [DW_QKV] = {"dw_qkv", "qhpi", .gradient_of = W_QKV},
    [DW_QK] = {"dw_qk", "rhpi", .parent = DW_QKV, .slice = 0, .transposed = "irhp"},
    [DW_Q] = {"dw_q", "hpi", .parent = DW_QKV, .slice = 0, .transposed = "ihp"},
    [DW_K] = {"dw_k", "hpi", .parent = DW_QKV, .slice = 1, .transposed = "ihp"},
    [DW_V] = {"dw_v", "hpi", .parent = DW_QKV, .slice = 2, .transposed = "ihp"},
    [DB_QKV] = {"db_qkv", "qhp", .gradient_of = B_QKV},
    [DW_OUT] = {"dw_out", "ihp", .gradient_of = W_OUT},
    [DB_OUT] = {"db_out", "i", .gradient_of = B_OUT},
    [DG1] = {"d_gamma1", "i", .gradient_of = G1},
    [DB1] = {"d_beta1", "i", .gradient_of = B1},
    [DW_LIN1] = {"dw_lin1", "ui", .gradient_of = W_LIN1},
    [DB_LIN1] = {"db_lin1", "u", .gradient_of = B_LIN1},
    [DW_LIN2] = {"dw_lin2", "iu", .gradient_of = W_LIN2},
    [DB_LIN2] = {"db_lin2", "i", .gradient_of = B_LIN2},
    [DG2] = {"d_gamma2", "i", .gradient_of = G2},
    [DB2] = {"d_beta2", "i", .gradient_of = B2},
};

/* Outside the layers the only matrix of a product. */
static const struct tensor_row tensor_pooler = {"w_pooler", "oi", WEIGHT_POOLER, .transposed = "io"};

#define ATTENTION(input)                                                                                               \
    {"qkv", QKV, &kind_contract, {QKV_RAW}, {input, W_QKV, NONE}, "bji,qhpi->bjqhp", 1, .parts = 1},                   \
        {"qk", QKV, &kind_contract, {QK_RAW}, {input, W_QK, NONE}, "bji,rhpi->bjrhp", 1, .parts = 2},                  \
        {"v", QKV, &kind_contract, {V_RAW}, {input, W_V, NONE}, "bji,hpi->bjhp", 1, .parts = 2},                       \
        {"q", QKV, &kind_contract, {Q_RAW}, {input, W_Q, NONE}, "bji,hpi->bjhp", 1, .parts = 3},                       \
        {"k", QKV, &kind_contract, {K_RAW}, {input, W_K, NONE}, "bji,hpi->bjhp", 1, .parts = 3},                       \
        {"v", QKV, &kind_contract, {V_RAW}, {input, W_V, NONE}, "bji,hpi->bjhp", 1, .parts = 3},                       \
        {"qkv_bias", QKV_BIAS, &kind_bias, {QKV_ALL}, {QKV_RAW, B_QKV, NONE}, NULL, 2},                                \
        {"scores", SCORES, &kind_contract, {BETA}, {Q, K, NONE}, "bjhp,bkhp->bhjk", 3},                                \
        {"softmax", SOFTMAX, &kind_softmax, {ALPHA}, {BETA, NONE, NONE}, NULL, 4, WHEN_STORED},                        \
        {"softmax", SOFTMAX, &kind_softmax, {ALPHA, LSE}, {BETA, NONE, NONE}, NULL, 4, WHEN_FLASH},                    \
        {"attention_dropout",      ATTENTION_DROPOUT, &kind_dropout, {ALPHA_DROPPED}, {ALPHA, NONE, NONE}, NULL, 4,    \
         .site = DROPOUT_ATTENTION},                                                                                   \
        {"context", CONTEXT, &kind_contract, {GAMMA}, {ALPHA_DROPPED, V, NONE}, "bhjk,bkhp->bjhp", 5},                 \
        {"out", OUT, &kind_contract, {OUT_RAW}, {GAMMA, W_OUT, NONE}, "bjhp,ihp->bji", 6},                             \
        {"out_bias", OUT_BIAS, &kind_bias, {OUT_BIASED}, {OUT_RAW, B_OUT, NONE}, NULL, 7},                             \
        {"out_dropout", OUT_DROPOUT, &kind_dropout,      {OUT_DROPPED}, {OUT_BIASED, NONE, NONE},                      \
         NULL,          8,           .site = DROPOUT_OUT},                                                             \
    {                                                                                                                  \
        "out_residual", OUT_RESIDUAL, &kind_add, {SUM1}, {OUT_DROPPED, X, NONE}, NULL, 9                               \
    }

#define FEED_FORWARD(input, residual)                                                                                  \
    {"lin1", LIN1, &kind_contract, {LIN1_RAW}, {input, W_LIN1, NONE}, "bji,ui->bju", 11},                              \
        {"lin1_bias", LIN1_BIAS, &kind_bias, {LIN1_BIASED}, {LIN1_RAW, B_LIN1, NONE}, NULL, 12},                       \
        {"activation", ACTIVATION, NULL, {ACTIVE}, {LIN1_BIASED, NONE, NONE}, NULL, 13}, {"activation_dropout",        \
                                                                                          ACTIVATION_DROPOUT,          \
                                                                                          &kind_dropout,               \
                                                                                          {ACTIVE_DROPPED},            \
                                                                                          {ACTIVE, NONE, NONE},        \
                                                                                          NULL,                        \
                                                                                          14,                          \
                                                                                          .site = DROPOUT_ACTIVATION}, \
        {"lin2", LIN2, &kind_contract, {LIN2_RAW}, {ACTIVE_DROPPED, W_LIN2, NONE}, "bju,iu->bji", 15},                 \
        {"lin2_bias", LIN2_BIAS, &kind_bias, {LIN2_BIASED}, {LIN2_RAW, B_LIN2, NONE}, NULL, 16},                       \
        {"lin2_dropout", LIN2_DROPOUT, &kind_dropout,       {LIN2_DROPPED}, {LIN2_BIASED, NONE, NONE},                 \
         NULL,           17,           .site = DROPOUT_LIN2},                                                          \
    {                                                                                                                  \
        "lin2_residual", LIN2_RESIDUAL, &kind_add, {SUM2}, {LIN2_DROPPED, residual, NONE}, NULL, 18                    \
    }

static const struct op_row post_layernorm[] = {
    ATTENTION(X),
    {"norm1", NORM1, &kind_layernorm, {N1}, {SUM1, G1, B1}, NULL, 10},
    FEED_FORWARD(N1, N1),
    {"norm2", NORM2, &kind_layernorm, {N2}, {SUM2, G2, B2}, NULL, 19},
};

static const struct op_row pre_layernorm[] = {
    {"norm1", NORM1, &kind_layernorm, {N1}, {X, G1, B1}, NULL, 10},
    ATTENTION(N1),
    {"norm2", NORM2, &kind_layernorm, {N2}, {SUM1, G2, B2}, NULL, 19},
    FEED_FORWARD(N2, SUM1),
};

/* ---- orders of weights ---- */

/* Those whose order can be chosen, NULL past the last. */
static const struct tensor_row *choosable(size_t index)
{
    static const int places[] = {QKV_ALL, W_QKV, W_OUT, W_LIN1, W_LIN2, ACTIVE};
    enum { PLACES = sizeof places / sizeof *places };
    return index < PLACES ? &layer_tensors[places[index]] : index == PLACES ? &tensor_pooler : NULL;
}

static const struct tensor_row *choosable_named(const char *name, size_t length)
{
    const struct tensor_row *row;
    for (size_t i = 0; (row = choosable(i)); i++)
        if (strlen(row->name) == length && !strncmp(row->name, name, length)) return row;
    return NULL;
}

static const char *row_order(const struct tensor_row *row, bool transposed, bool interleaved)
{
    const char *order = !interleaved ? NULL : transposed ? row->interleaved_transposed : row->interleaved;
    if (order) return order;
    return transposed ? row->transposed : row->dims;
}

/* The bit of what can be chosen. Those that are no weights take bits of none. */
static uint32_t order_bit(const struct tensor_row *row)
{
    return WEIGHT_BIT(row->channel_major ? WEIGHT_COUNT : row->weight);
}

/* Whether the word has the same letters as `letters`, each once. */
static bool same_letters(const char *letters, const char *word, size_t length)
{
    if (strlen(letters) != length) return false;
    for (size_t i = 0; i < length; i++)
        if (!strchr(letters, word[i]) || memchr(word, word[i], i)) return false;
    return true;
}

/* What was read so far. */
struct orders {
    uint32_t named, transposed, copied, interleaved; /* by order_bit; WEIGHT_NONE is that of Q, K and V themselves */
    bool channel_major;
};

/* "qkv, w_qkv, w_out, ..." */
static void choosable_list(char *text, size_t size)
{
    const struct tensor_row *row;
    struct text_writer t = text_begin(text, size);
    for (size_t i = 0; (row = choosable(i)); i++) text_add(&t, "%s%s", i ? ", " : "", row->name);
}

/* "qhpi, iqhp, hqpi, ihqp" */
static void orders_list(const struct tensor_row *row, char *text, size_t size)
{
    const char *all[] = {row->dims, row->transposed, row->interleaved, row->interleaved_transposed, row->channel_major};
    struct text_writer t = text_begin(text, size);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) text_add(&t, "%s%s", t.used ? ", " : "", all[i]);
}

static bool is_order(const char *order, const char *word, size_t length)
{
    return order && strlen(order) == length && !strncmp(order, word, length);
}

/* Which of a tensor's orders. */
struct which_order {
    bool transposed, interleaved, channel_major;
};

static bool letters_read(const struct tensor_row *row, const char *order, size_t n, struct which_order *out,
                         struct error *e)
{
    char list[64];
    if (!same_letters(row->dims, order, n))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: \"%.*s\" is no order of the letters of %s, %s",
                    n < 40 ? (int)n : 40, order, row->name, row->dims);
    out->transposed = is_order(row->transposed, order, n) || is_order(row->interleaved_transposed, order, n);
    out->interleaved = is_order(row->interleaved, order, n) || is_order(row->interleaved_transposed, order, n);
    out->channel_major = is_order(row->channel_major, order, n);
    if (out->transposed || out->interleaved || out->channel_major || is_order(row->dims, order, n)) return true;
    orders_list(row, list, sizeof list);
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: no kernel runs %s as %.*s; its orders are %s", row->name,
                (int)n, order, list);
}

/* The order after a "+": that of the copy. */
static bool copy_read(const struct tensor_row *row, const char *order, size_t n, const struct which_order *first,
                      struct error *e)
{
    struct which_order copy;
    if (!row->weight)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: %s is no weight: give it one order", row->name);
    TRY(letters_read(row, order, n, &copy, e));
    if (copy.transposed != first->transposed && copy.interleaved == first->interleaved) return true;
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "layouts: %s in both orders has the transposition after the \"+\": %s=%s+%s", row->name, row->name,
                row_order(row, first->transposed, first->interleaved),
                row_order(row, !first->transposed, first->interleaved));
}

/* One "name=letters" or "name=letters+letters". */
static bool order_read(const char *word, size_t length, struct orders *out, struct error *e)
{
    const char *equals = memchr(word, '=', length);
    int shown = (int)(length < 40 ? length : 40);
    if (!equals)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: \"%.*s\" is no name=letters, as in w_lin1=iu,w_lin2=ui", shown, word);
    const struct tensor_row *row = choosable_named(word, (size_t)(equals - word));
    const char *order = equals + 1;
    size_t n = length - (size_t)(order - word), name = (size_t)(equals - word);
    const char *plus = memchr(order, '+', n);
    size_t first = plus ? (size_t)(plus - order) : n;
    char list[64];
    struct which_order which;
    choosable_list(list, sizeof list);
    if (!row)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: no tensor \"%.*s\" has an order to choose; those that have are %s",
                    name < 40 ? (int)name : 40, word, list);
    TRY(letters_read(row, order, first, &which, e));
    if (plus) TRY(copy_read(row, plus + 1, n - first - 1, &which, e));
    if (out->named & order_bit(row))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: %s is there twice", row->name);
    out->named |= order_bit(row);
    if (which.transposed) out->transposed |= order_bit(row);
    if (plus) out->copied |= order_bit(row);
    if (which.interleaved) out->interleaved |= order_bit(row);
    out->channel_major |= which.channel_major;
    return true;
}

bool orders_read(const char *text, struct graph_options *options, struct error *e)
{
    struct orders read = {0};
    for (const char *word = text && *text ? text : NULL; word;) {
        size_t length = strcspn(word, ",");
        TRY(order_read(word, length, &read, e));
        word = word[length] ? word + length + 1 : NULL;
    }
    options->transposed = read.transposed;
    options->copied = read.copied;
    options->qkv_interleaved = read.interleaved & WEIGHT_BIT(WEIGHT_NONE);
    options->channel_major = read.channel_major;
    const uint32_t both = WEIGHT_BIT(WEIGHT_LIN1) | WEIGHT_BIT(WEIGHT_LIN2);
    if (read.channel_major && ((read.transposed & both) != WEIGHT_BIT(WEIGHT_LIN2) || read.copied & both))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: with active=ubj both weights have a row for each of its channels: w_lin2=ui must be "
                    "there and w_lin1 stay ui");
    bool weight_interleaved = read.interleaved & WEIGHT_BIT(WEIGHT_QKV);
    if (read.named & WEIGHT_BIT(WEIGHT_QKV) && weight_interleaved != options->qkv_interleaved)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: a row of w_qkv makes a column of qkv: with qkv=bjqhp it is qhpi or iqhp, with qkv=bjhqp "
                    "hqpi or ihqp");
    return true;
}

static void add_order(char orders[ORDERS_MOST][ORDER_TEXT], int *n, const char *order, const char *copy)
{
    if (order && *n < ORDERS_MOST)
        snprintf(orders[(*n)++], ORDER_TEXT, "%s%s%s", order, copy ? "+" : "", copy ? copy : "");
}

int orders_of(size_t index, char name[ORDER_TEXT], char orders[ORDERS_MOST][ORDER_TEXT])
{
    const struct tensor_row *row = choosable(index);
    int n = 0;
    if (!row) return 0;
    snprintf(name, ORDER_TEXT, "%s", row->name);
    add_order(orders, &n, row->dims, NULL);
    add_order(orders, &n, row->transposed, NULL);
    add_order(orders, &n, row->interleaved, NULL);
    add_order(orders, &n, row->interleaved_transposed, NULL);
    add_order(orders, &n, row->channel_major, NULL);
    if (row->transposed) add_order(orders, &n, row->dims, row->transposed);
    if (row->transposed) add_order(orders, &n, row->transposed, row->dims);
    if (row->interleaved_transposed) add_order(orders, &n, row->interleaved, row->interleaved_transposed);
    if (row->interleaved_transposed) add_order(orders, &n, row->interleaved_transposed, row->interleaved);
    return n;
}

void orders_text(uint32_t transposed, uint32_t copied, bool qkv_interleaved, bool channel_major, char text[ORDERS_TEXT])
{
    const struct tensor_row *row;
    struct text_writer t = text_begin(text, ORDERS_TEXT);
    for (size_t i = 0; (row = choosable(i)); i++) {
        bool is_transposed = row->weight && transposed & WEIGHT_BIT(row->weight);
        bool is_copied = row->weight && copied & WEIGHT_BIT(row->weight);
        if (is_transposed || is_copied || (row->channel_major ? channel_major : !row->weight && qkv_interleaved))
            text_add(&t, "%s%s=%s%s%s", t.used ? "," : "", row->name,
                     row->channel_major ? row->channel_major : row_order(row, is_transposed, qkv_interleaved),
                     is_copied ? "+" : "", is_copied ? row_order(row, !is_transposed, qkv_interleaved) : "");
    }
}

/* A weight that is not there has no order. */
static bool orders_are_there(const struct graph *g, uint32_t transposed, uint32_t copied, struct error *e)
{
    char text[ORDERS_TEXT];
    uint32_t absent = transposed | copied;
    for (int t = 0; t < g->n_tensors; t++) absent &= ~WEIGHT_BIT(g->tensors[t].weight);
    if (!absent) return true;
    orders_text(transposed & absent, copied & absent, false, false, text);
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: %s is of a weight that is not used here", text);
}

/* A copy is for the gradient of an input that is one product. */
static bool copies_are_read(const struct graph_options *options, struct error *e)
{
    char text[ORDERS_TEXT];
    orders_text(options->transposed, options->copied, options->qkv_interleaved, options->channel_major, text);
    if (options->copied && !options->training)
        return fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "layouts: %s: what reads a weight in a second order is the backward pass: in inference give each one "
            "order",
            text);
    if (options->copied & WEIGHT_BIT(WEIGHT_QKV) && options->qkv_parts > 1)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: w_qkv in both orders is for Q, K and V as one product, not for %u: give it one order",
                    options->qkv_parts);
    return true;
}

/* The weight by which a tensor lies: its gradient and slices of both lie as it does. */
static enum weight row_weight(const struct tensor_row *row)
{
    return row->weight ? row->weight : row_weight(&layer_tensors[row->gradient_of ? row->gradient_of : row->parent]);
}

static bool row_transposed(const struct builder *b, const struct tensor_row *row)
{
    return row->transposed && b->options->transposed & WEIGHT_BIT(row_weight(row));
}

/* ---- building ---- */

int builder_tensor(struct builder *b, const struct tensor *t)
{
    struct graph *g = b->g;
    if (!b->ok) return 0;
    if (g->n_tensors == b->tensor_capacity) {
        int capacity = b->tensor_capacity ? 2 * b->tensor_capacity : 64;
        void *grown = host_grow(g->host, g->tensors, (size_t)g->n_tensors, (size_t)capacity, sizeof *t, b->e);
        if (!grown) return b->ok = false, 0;
        g->tensors = grown;
        b->tensor_capacity = capacity;
    }
    g->tensors[g->n_tensors] = *t;
    return g->n_tensors++;
}

void builder_op(struct builder *b, const struct op *o)
{
    struct graph *g = b->g;
    if (!b->ok) return;
    if (g->n_ops == b->op_capacity) {
        int capacity = b->op_capacity ? 2 * b->op_capacity : 64;
        void *grown = host_grow(g->host, g->ops, (size_t)g->n_ops, (size_t)capacity, sizeof *o, b->e);
        if (!grown) {
            b->ok = false;
            return;
        }
        g->ops = grown;
        b->op_capacity = capacity;
    }
    g->ops[g->n_ops++] = *o;
}

int builder_named(struct builder *b, const char *name, struct tensor t)
{
    t.layer = t.parent = -1;
    if (!t.gradient_of) t.gradient_of = -1;
    snprintf(t.name, sizeof t.name, "%s", name);
    return builder_tensor(b, &t);
}

static int add_batch(struct builder *b, const char *name, enum batch_data data)
{
    return builder_named(b, name, (struct tensor){.dims = "bj", .role = TENSOR_BATCH, .data = data, .u32 = true});
}

int builder_value(struct builder *b, const char *name, const char *dims)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_VALUE});
}

int builder_gradient(struct builder *b, int weight)
{
    char name[48];
    if (!b->ok) return 0;
    snprintf(name, sizeof name, "d_%.40s", b->g->tensors[weight].name);
    return builder_named(b, name,
                         (struct tensor){.dims = b->g->tensors[weight].dims,
                                         .model_dims = b->g->tensors[weight].model_dims,
                                         .role = TENSOR_VALUE,
                                         .output = true,
                                         .gradient_of = weight});
}

static int add_weight(struct builder *b, const char *name, const char *dims, enum weight weight)
{
    return builder_named(b, name, (struct tensor){.dims = dims, .role = TENSOR_WEIGHT, .weight = weight});
}

static int add_pooler(struct builder *b)
{
    const struct tensor_row *row = &tensor_pooler;
    bool transposed = row_transposed(b, row);
    return builder_named(b, row->name,
                         (struct tensor){.dims = transposed ? row->transposed : row->dims,
                                         .model_dims = transposed ? row->dims : NULL,
                                         .role = TENSOR_WEIGHT,
                                         .weight = row->weight});
}

int builder_pooler_copy(struct builder *b)
{
    return builder_value(b, "w_pooler_copy", row_order(&tensor_pooler, !row_transposed(b, &tensor_pooler), false));
}

int builder_plain(struct builder *b, const char *name, enum place place, const struct op_kind *kind, int out0, int out1,
                  const int in[OP_MAX_IN], const char *einsum)
{
    struct op o = {
        .kind = kind, .place = place, .layer = -1, .out = {out0, out1}, .in = {in[0], in[1], in[2]}, .einsum = einsum};
    snprintf(o.name, sizeof o.name, "%s", name);
    if (kind == &kind_layernorm || kind == &kind_norm_dx || kind == &kind_norm_dw)
        o.attribute = b->options->config->epsilon;
    builder_op(b, &o);
    return out0;
}

static int add_plain(struct builder *b, const char *name, enum place place, const struct op_kind *kind, int out,
                     int in0, int in1, int in2, const char *einsum)
{
    return builder_plain(b, name, place, kind, out, -1, (const int[]){in0, in1, in2}, einsum);
}

int builder_layer_tensor(struct builder *b, int layer, int at)
{
    if (at == NONE) return -1;
    int *made = b->made[layer];
    if (made[at] >= 0) return made[at];
    const struct tensor_row *row = &layer_tensors[at], *like = row->gradient_of ? &layer_tensors[row->gradient_of]
                                                               : row->copy_of   ? &layer_tensors[row->copy_of]
                                                                                : row;
    const char *dims =
        row->channel_major && b->options->channel_major
            ? row->channel_major
            : row_order(like, row_transposed(b, like) != (row->copy_of != 0), b->options->qkv_interleaved);
    struct tensor t = {.dims = dims,
                       .model_dims = like->weight && !row->copy_of && dims != like->dims ? like->dims : NULL,
                       .role = row->weight ? TENSOR_WEIGHT : TENSOR_VALUE,
                       .weight = row->weight,
                       .layer = layer,
                       .f32 = row->f32,
                       .parent = row->parent ? builder_layer_tensor(b, layer, row->parent) : -1,
                       .slice = (uint32_t)row->slice,
                       .output = row->gradient_of,
                       .gradient_of = row->gradient_of ? builder_layer_tensor(b, layer, row->gradient_of) : -1};
    snprintf(t.name, sizeof t.name, "layer.%d.%s", layer, row->name);
    return made[at] = builder_tensor(b, &t);
}

static const struct op_kind *activation_kind(wherry_activation activation, bool derivative)
{
    switch (activation) {
    case WHERRY_ACTIVATION_GELU_TANH:
        return derivative ? &kind_gelu_tanh_dx : &kind_gelu_tanh;
    case WHERRY_ACTIVATION_RELU:
        return derivative ? &kind_relu_dx : &kind_relu;
    default:
        return derivative ? &kind_gelu_dx : &kind_gelu;
    }
}

static bool row_there(const struct builder *b, const struct op_row *row)
{
    if (row->kind == &kind_dropout) return b->options->dropout > 0;
    if (row->kind == &kind_transpose) return b->options->copied & WEIGHT_BIT(layer_tensors[row->in[0]].weight);
    return true;
}

void builder_rows(struct builder *b, int layer, const struct op_row *rows, size_t count)
{
    const wherry_model_config *config = b->options->config;
    for (size_t i = 0; i < count && b->ok; i++) {
        const struct op_row *row = &rows[i];
        bool flash = b->options->training && b->options->flash;
        int parts = b->options->qkv_parts > 1 ? (int)b->options->qkv_parts : 1;
        if (row->parts && row->parts != parts) continue;
        if (row->when == (flash ? WHEN_STORED : WHEN_FLASH)) continue;
        if (!row_there(b, row)) { /* its output is its input */
            b->made[layer][row->out[0]] = builder_layer_tensor(b, layer, row->in[0]);
            continue;
        }
        struct op o = {.kind = row->kind ? row->kind : activation_kind(config->activation, row->place == ACTIVATION_DX),
                       .place = row->place,
                       .layer = layer,
                       .out = {builder_layer_tensor(b, layer, row->out[0]),
                               row->out[1] ? builder_layer_tensor(b, layer, row->out[1]) : -1},
                       .einsum = row->einsum,
                       .site = row->site,
                       .paper_row = row->paper_row};
        snprintf(o.name, sizeof o.name, "layer.%d.%s", layer, row->name);
        for (int k = 0; k < OP_MAX_IN; k++) o.in[k] = builder_layer_tensor(b, layer, row->in[k]);
        if (o.kind == &kind_layernorm || o.kind == &kind_norm_dx || o.kind == &kind_norm_dw)
            o.attribute = config->epsilon;
        if (o.kind == &kind_softmax || o.kind == &kind_softmax_recompute || o.kind == &kind_softmax_dx)
            o.attribute = (float)(1 / sqrt((double)b->g->dims.of['p']));
        if (o.kind == &kind_dropout) o.dropout = b->options->dropout;
        builder_op(b, &o);
    }
}

/* Appends a layer that reads x; returns what it makes. */
static int add_layer(struct builder *b, int layer, int x)
{
    bool pre = b->options->config->pre_layernorm;
    b->made[layer][X] = x;
    if (pre)
        builder_rows(b, layer, pre_layernorm, sizeof pre_layernorm / sizeof *pre_layernorm);
    else
        builder_rows(b, layer, post_layernorm, sizeof post_layernorm / sizeof *post_layernorm);
    return builder_layer_tensor(b, layer, pre ? SUM2 : N2);
}

static int add_embeddings(struct builder *b)
{
    int ids = add_batch(b, "ids", BATCH_IDS);
    int positions = add_batch(b, "positions", BATCH_POSITIONS);
    int x = add_plain(b, "embed.word", EMBED_WORD, &kind_gather, builder_value(b, "embed.word", "bji"), ids,
                      add_weight(b, "word", "vi", WEIGHT_WORD), -1, NULL);
    x = add_plain(b, "embed.position", EMBED_POSITION, &kind_gather_position, builder_value(b, "embed.position", "bji"),
                  x, positions, add_weight(b, "position", "mi", WEIGHT_POSITION), NULL);
    if (b->options->config->token_types) {
        int types = add_batch(b, "types", BATCH_TYPES);
        x = add_plain(b, "embed.type", EMBED_TYPE, &kind_gather_type, builder_value(b, "embed.type", "bji"), x, types,
                      add_weight(b, "type", "ti", WEIGHT_TYPE), NULL);
    }
    return add_plain(b, "embed.norm", EMBED_NORM, &kind_layernorm, builder_value(b, "embed.norm", "bji"), x,
                     add_weight(b, "embed.gamma", "i", WEIGHT_EMBED_GAMMA),
                     add_weight(b, "embed.beta", "i", WEIGHT_EMBED_BETA), NULL);
}

static int add_head(struct builder *b, int x)
{
    const struct graph_options *options = b->options;
    if (options->config->pre_layernorm)
        x = add_plain(b, "final.norm", FINAL_NORM, &kind_layernorm, builder_value(b, "final.norm", "bji"), x,
                      add_weight(b, "final.gamma", "i", WEIGHT_FINAL_GAMMA),
                      add_weight(b, "final.beta", "i", WEIGHT_FINAL_BETA), NULL);
    if (options->pool != WHERRY_POOL_NONE) {
        const struct op_kind *kind = options->pool == WHERRY_POOL_MEAN  ? &kind_pool_mean
                                     : options->pool == WHERRY_POOL_MAX ? &kind_pool_max
                                                                        : &kind_pool_cls;
        x = add_plain(b, "pool", POOL, kind, builder_value(b, "pool", "bi"), x, -1, -1, NULL);
    }
    if (options->pool == WHERRY_POOL_POOLER) {
        x = add_plain(b, "pooler", POOLER, &kind_contract, builder_value(b, "pooler", "bo"), x, add_pooler(b), -1,
                      "bi,oi->bo");
        x = add_plain(b, "pooler_bias", POOLER_BIAS, &kind_bias, builder_value(b, "pooler_biased", "bo"), x,
                      add_weight(b, "b_pooler", "o", WEIGHT_POOLER_BIAS), -1, NULL);
        x = add_plain(b, "pooler_tanh", POOLER_TANH, &kind_tanh, builder_value(b, "pooler_tanh", "bo"), x, -1, -1,
                      NULL);
    }
    if (options->normalize) {
        const char *dims = options->pool == WHERRY_POOL_NONE     ? "bji"
                           : options->pool == WHERRY_POOL_POOLER ? "bo"
                                                                 : "bi";
        x = add_plain(b, "normalize", NORMALIZE, &kind_normalize, builder_value(b, "normalized", dims), x, -1, -1,
                      NULL);
    }
    return x;
}

bool graph_create(const struct host *host, const struct graph_options *options, struct graph *out, struct error *e)
{
    const wherry_model_config *c = options->config;
    memset(out, 0, sizeof *out);
    out->host = host;
    if (!c->layers || !c->hidden || !c->heads || !c->feed_forward || c->hidden % c->heads)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "an encoder of %u layers, %u channels, %u heads, %u feed-forward channels: each must be positive, "
                    "and the heads must divide the channels",
                    c->layers, c->hidden, c->heads, c->feed_forward);
    if (options->qkv_interleaved && options->qkv_parts > 1)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: qkv=bjhqp is for Q, K and V as one product, not for %u", options->qkv_parts);
    TRY(copies_are_read(options, e));
    out->dims.of['q'] = 3;
    out->dims.of['r'] = 2;
    out->dims.of['h'] = c->heads;
    out->dims.of['p'] = c->hidden / c->heads;
    out->dims.of['i'] = out->dims.of['o'] = c->hidden;
    out->dims.of['u'] = c->feed_forward;
    out->dims.of['v'] = c->vocabulary;
    out->dims.of['m'] = c->positions;
    out->dims.of['t'] = c->token_types;
    out->input = out->out_gradient = out->in_gradient = -1;
    out->pre_layernorm = c->pre_layernorm;
    if (options->channel_major) out->channel_stride = (uint32_t)round_up(options->tokens, CHANNEL_ROUND);
    out->save_all = options->training && options->save == WHERRY_SAVE_ALL;
    struct builder b = {.g = out, .options = options, .e = e};
    b.made = host_alloc(host, c->layers, sizeof *b.made, e);
    if (!b.made) return false;
    memset(b.made, 0xff, c->layers * sizeof *b.made); /* -1: nothing is made yet */
    b.ok = true;
    int x;
    if (options->stack) {
        x = out->input = builder_named(&b, "x", (struct tensor){.dims = "bji", .role = TENSOR_VALUE, .input = true});
    } else {
        x = add_embeddings(&b);
    }
    for (uint32_t l = 0; l < c->layers; l++) x = add_layer(&b, (int)l, x);
    if (!options->stack) x = add_head(&b, x);
    out->n_forward = out->n_ops;
    out->output = x;
    if (b.ok) out->tensors[x].output = true;
    if (options->training) builder_backward(&b);
    host_free(host, b.made);
    b.ok = b.ok && orders_are_there(out, options->transposed, options->copied, e);
    if (!b.ok) graph_destroy(out);
    return b.ok;
}

void graph_destroy(struct graph *graph)
{
    if (!graph->host) return;
    host_free(graph->host, graph->tensors);
    host_free(graph->host, graph->ops);
    memset(graph, 0, sizeof *graph);
}
