/* The orders in which tensors can lie, as text: which have a choice, what they are called, what goes together. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "graph/builder.h"

/* Those whose order can be chosen, NULL past the last. */
static const struct tensor_row *choosable(size_t index)
{
    static const int chosen[] = {QKV_ALL, W_QKV, W_OUT, W_LIN1, W_LIN2, ACTIVE};
    enum { CHOSEN = sizeof chosen / sizeof *chosen };
    return index < CHOSEN ? &layer_tensors[chosen[index]] : index == CHOSEN ? &tensor_pooler : NULL;
}

static const struct tensor_row *choosable_named(const char *name, size_t length)
{
    const struct tensor_row *row;
    for (size_t i = 0; (row = choosable(i)); i++)
        if (strlen(row->name) == length && !strncmp(row->name, name, length)) return row;
    return NULL;
}

const char *row_order(const struct tensor_row *row, bool transposed, bool interleaved)
{
    const char *order = !interleaved ? NULL : transposed ? row->interleaved_transposed : row->interleaved;
    if (order) return order;
    return transposed ? row->transposed : row->dims;
}

/* The bit of what can be chosen. Those that are no weights take bits of none. */
static uint32_t order_bit(const struct tensor_row *row)
{
    return row->channel_major ? 1u << 31 : WEIGHT_BIT(row->weight);
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

bool orders_read(const char *text, struct layout_choice *out, struct error *e)
{
    struct orders read = {0};
    for (const char *word = text && *text ? text : NULL; word;) {
        size_t length = strcspn(word, ",");
        TRY(order_read(word, length, &read, e));
        word = word[length] ? word + length + 1 : NULL;
    }
    *out = (struct layout_choice){.transposed = read.transposed,
                                  .copied = read.copied,
                                  .qkv_interleaved = read.interleaved & WEIGHT_BIT(WEIGHT_NONE),
                                  .channel_major = read.channel_major};
    const uint32_t both = WEIGHT_BIT(WEIGHT_LIN1) | WEIGHT_BIT(WEIGHT_LIN2);
    if (read.channel_major && ((read.transposed & both) != WEIGHT_BIT(WEIGHT_LIN2) || read.copied & both))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: with active=ubj both weights have a row for each of its channels: w_lin2=ui must be "
                    "there and w_lin1 stay ui");
    bool weight_interleaved = read.interleaved & WEIGHT_BIT(WEIGHT_QKV);
    if (read.named & WEIGHT_BIT(WEIGHT_QKV) && weight_interleaved != out->qkv_interleaved)
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

void orders_text(const struct layout_choice *layout, char text[ORDERS_TEXT])
{
    const struct tensor_row *row;
    struct text_writer t = text_begin(text, ORDERS_TEXT);
    for (size_t i = 0; (row = choosable(i)); i++) {
        bool transposed = row->weight && layout->transposed & WEIGHT_BIT(row->weight);
        bool copied = row->weight && layout->copied & WEIGHT_BIT(row->weight);
        bool interleaved = layout->qkv_interleaved;
        bool chosen = row->channel_major ? layout->channel_major : !row->weight && interleaved;
        if (!transposed && !copied && !chosen) continue;
        text_add(&t, "%s%s=%s", t.used ? "," : "", row->name,
                 row->channel_major ? row->channel_major : row_order(row, transposed, interleaved));
        if (copied) text_add(&t, "+%s", row_order(row, !transposed, interleaved));
    }
}

bool orders_are_there(const struct graph *g, const struct layout_choice *layout, struct error *e)
{
    char text[ORDERS_TEXT];
    uint32_t absent = layout->transposed | layout->copied;
    for (int t = 0; t < g->n_tensors; t++) absent &= ~WEIGHT_BIT(g->tensors[t].weight);
    if (!absent) return true;
    orders_text(&(struct layout_choice){.transposed = layout->transposed & absent, .copied = layout->copied & absent},
                text);
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "layouts: %s is of a weight that is not used here", text);
}

bool copies_are_read(const struct graph_options *options, struct error *e)
{
    char text[ORDERS_TEXT];
    orders_text(&options->layout, text);
    if (options->layout.copied && !options->training)
        return fail(
            e, WHERRY_STATUS_INVALID_ARGUMENT,
            "layouts: %s: what reads a weight in a second order is the backward pass: in inference give each one "
            "order",
            text);
    if (options->layout.copied & WEIGHT_BIT(WEIGHT_QKV) && options->qkv_parts > 1)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: w_qkv in both orders is for Q, K and V as one product, not for %u: give it one order",
                    options->qkv_parts);
    return true;
}
