/* Sizes, strides and orders of tensors, and the letters of einsums. */
#include <ctype.h>
#include <string.h>

#include "graph/group.h"
#include "graph/kinds.h"
#include "interface/interface.h"

/* ---- sizes ---- */

uint32_t dims_rows(const char *dims)
{
    return strchr(dims, 'j')   ? HEADER_TOKENS
           : strchr(dims, 's') ? HEADER_LABELLED
           : strchr(dims, 'S') ? HEADER_NEXT
                               : HEADER_SEQUENCES;
}

uint64_t dims_volume(const struct dims *d, const struct batch_shape *b, const char *letters)
{
    bool j = strchr(letters, 'j') != NULL, k = strchr(letters, 'k') != NULL, sequence = strchr(letters, 'b') != NULL;
    bool labelled = strchr(letters, 's') != NULL, next = strchr(letters, 'S') != NULL;
    uint64_t n = j && k     ? b->pairs
                 : j || k   ? b->tokens
                 : labelled ? b->labelled
                 : next     ? b->next
                 : sequence ? b->sequences
                            : 1;
    for (const char *c = letters; *c; c++)
        if (!strchr(DIMS_RAGGED, *c)) n *= d->of[(unsigned char)*c];
    return n;
}

uint64_t tensor_elements(const struct graph *g, const struct batch_shape *b, int tensor)
{
    return dims_volume(&g->dims, b, g->tensors[tensor].dims) + g->tensors[tensor].before;
}

bool dims_channel_major(const char *dims) { return strchr(dims, 'j') && *dims != 'b'; }

uint64_t tensor_extent(const struct graph *g, const struct batch_shape *b, int tensor)
{
    if (g->tensors[tensor].pitch)
        return tensor_elements(g, b, tensor) / tensor_row_length(g, tensor) * g->tensors[tensor].pitch;
    if (!dims_channel_major(g->tensors[tensor].dims)) return tensor_elements(g, b, tensor);
    return (uint64_t)tensor_row_length(g, tensor) * g->channel_stride;
}

int tensor_owner(const struct graph *g, int tensor)
{
    return g->tensors[tensor].parent >= 0 ? g->tensors[tensor].parent : tensor;
}

uint32_t tensor_row_length(const struct graph *g, int tensor)
{
    uint32_t n = 1;
    for (const char *c = g->tensors[tensor].dims; *c; c++)
        if (!strchr(DIMS_RAGGED, *c)) n *= g->dims.of[(unsigned char)*c];
    return n;
}

uint32_t tensor_row_pitch(const struct graph *g, int tensor)
{
    return g->tensors[tensor].pitch ? g->tensors[tensor].pitch : tensor_row_length(g, tensor);
}

uint32_t letters_volume(const struct graph *g, const char *letters)
{
    uint32_t n = 1;
    for (const char *c = letters; *c; c++) n *= g->dims.of[(unsigned char)*c];
    return n;
}

/* The owner's letters from the stack's on. A slice has the same ones before it, and its own from the same place on. */
static const char *slice_letters(const struct graph *g, int tensor)
{
    return strpbrk(g->tensors[tensor_owner(g, tensor)].dims, "qnQ");
}

uint32_t tensor_row_stride(const struct graph *g, int tensor)
{
    if (g->tensors[tensor].parent < 0 || g->tensors[tensor].strip) return tensor_row_length(g, tensor);
    return letters_volume(g, strpbrk(g->tensors[tensor_owner(g, tensor)].dims, "qhnQ"));
}

uint32_t tensor_slice_stride(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    if (t->strip) return tensor_row_length(g, t->parent);
    return t->parent >= 0 ? letters_volume(g, slice_letters(g, tensor)) : tensor_row_length(g, tensor);
}

uint32_t tensor_row_offset(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    if (t->strip) return t->slice * letters_volume(g, g->tensors[t->parent].dims + 1);
    return t->parent >= 0 ? t->slice * letters_volume(g, slice_letters(g, tensor) + 1) : 0;
}

uint32_t tensor_slice_length(const struct graph *g, int tensor)
{
    const struct tensor *t = &g->tensors[tensor];
    if (t->parent < 0 || t->strip) return tensor_row_length(g, tensor);
    return letters_volume(g, t->dims + (slice_letters(g, tensor) - g->tensors[t->parent].dims));
}

uint32_t key_heads(const wherry_model_config *config) { return config->key_heads ? config->key_heads : config->heads; }

bool heads_grouped(const wherry_model_config *config) { return key_heads(config) != config->heads; }

bool layer_mixed(const wherry_model_config *config, int layer)
{
    return config->experts && config->experts_every && (uint32_t)layer % config->experts_every == 1;
}

bool norms_have_beta(const wherry_model_config *config)
{
    return !config->norm && !(config->without & WHERRY_WITHOUT_NORM_BIAS);
}

uint32_t graph_key_heads(const struct graph *g) { return g->dims.of['G'] > 1 ? g->dims.of['H'] : 0; }

/* Of `n` rows or columns with these letters, those of Q and K: all heads but V's. */
static uint32_t turned_of(const struct graph *g, const char *letters, uint32_t n)
{
    return strchr(letters, 'q') ? n / 3 * 2 : strchr(letters, 'Q') ? n - g->dims.of['H'] * g->dims.of['p'] : n;
}

uint32_t tensor_turned(const struct graph *g, int tensor)
{
    return turned_of(g, g->tensors[tensor].dims, tensor_row_length(g, tensor));
}

bool dims_qkv_interleaved(const char *dims)
{
    const char *stack = strchr(dims, 'q');
    return stack && strchr(dims, 'h') < stack;
}

/* Whether a gate's halves lie side by side: neighbours are of both. */
static bool dims_gated(const char *dims, const char *model) { return model[0] == 'r' && dims[0] != 'r'; }

bool tensor_reordered(const struct graph *g, int tensor, struct matrix_order *out)
{
    const struct tensor *t = &g->tensors[tensor];
    const char *model = t->model_dims, *dims = t->dims;
    if (!model) return false;
    bool gated = dims_gated(dims, model), whole = dims_qkv_interleaved(dims) || gated;
    /* Where the letters of a row begin in the model; a bias has none. */
    const char *inner = strchr(model, whole || dims[0] == model[0] ? 'i' : dims[0]);
    *out = (struct matrix_order){.columns = inner ? letters_volume(g, inner) : 1,
                                 .transposed = inner && *inner == dims[0],
                                 .heads = gated   ? g->dims.of['u']
                                          : whole ? g->dims.of['h']
                                                  : 0,
                                 .channels = gated   ? 1
                                             : whole ? g->dims.of['p']
                                                     : 0};
    out->rows = letters_volume(g, model) / out->columns;
    if (t->paired) out->paired = turned_of(g, model, (uint32_t)out->rows), out->half = g->dims.of['p'] / 2;
    return true;
}

static uint64_t paired_row(const struct matrix_order *order, uint64_t row)
{
    if (row >= order->paired) return row;
    uint64_t c = row % (2 * order->half);
    return row - c + c / 2 + (c % 2 ? order->half : 0);
}

uint64_t matrix_order_row(const struct matrix_order *order, uint64_t row)
{
    if (!order->heads) return paired_row(order, row);
    uint64_t stack = order->rows / order->heads / order->channels, p = row % order->channels,
             q = row / order->channels % stack, h = row / order->channels / stack;
    return paired_row(order, (q * order->heads + h) * order->channels + p);
}

/* ---- operands ---- */

bool op_exchanged(const struct graph *g, const struct op *o)
{
    char first[16], second[16], slowest = g->tensors[o->out[0]].dims[0];
    if (!*o->einsum) return false;
    einsum_operand(o->einsum, 0, first);
    einsum_operand(o->einsum, 1, second);
    return strchr(second, slowest) && !strchr(first, slowest);
}

uint32_t op_transposed_rows(const struct graph *g, const struct op *o)
{
    const char *x = g->tensors[o->in[0]].dims, *columns = strchr(x, g->tensors[o->out[0]].dims[0]);
    return letters_volume(g, x) / letters_volume(g, columns);
}

/* ---- einsums ---- */

int einsum_letters(const char *einsum, char letters[16])
{
    int n = 0;
    for (const char *c = einsum; *c; c++)
        if (isalpha((unsigned char)*c) && !memchr(letters, *c, (size_t)n) && n < 15) letters[n++] = *c;
    letters[n] = 0;
    return n;
}

void einsum_operand(const char *einsum, int operand, char letters[16])
{
    int n = 0, at = 0;
    for (const char *c = einsum; *c; c++) {
        if (*c == ',' || *c == '>')
            at++;
        else if (*c != '-' && at == operand && n < 15)
            letters[n++] = *c;
    }
    letters[n] = 0;
}

size_t tensor_element_bytes(const struct graph *g, int tensor, size_t storage)
{
    const struct tensor *t = &g->tensors[tensor];
    return t->int8 ? 1 : t->bf16 ? 2 : t->u32 || t->f32 ? 4 : storage;
}

/* They begin on 16 bytes. */
uint32_t tensor_scales_at(const struct graph *g, int tensor)
{
    return (letters_volume(g, g->tensors[tensor].dims) + 15) / 16 * 4;
}

uint32_t tensor_scales(const struct graph *g, int tensor)
{
    return letters_volume(g, g->tensors[tensor].dims) / g->tensors[tensor].int8;
}

uint64_t tensor_scale_bytes(const struct graph *g, int tensor)
{
    if (!g->tensors[tensor].int8) return 0;
    return ((uint64_t)tensor_scales_at(g, tensor) + tensor_scales(g, tensor)) * sizeof(float) -
           letters_volume(g, g->tensors[tensor].dims);
}

int tensor_maker(const struct graph *g, int tensor)
{
    for (int o = 0; o < g->n_ops; o++)
        for (int k = 0; k < OP_MAX_OUT; k++)
            if (g->ops[o].out[k] == tensor) return o;
    return -1;
}
