#include "plan/pieces.h"

#include <string.h>

#include "interface/interface.h"
#include "plan/variants.h"

/* Rows of a piece are a multiple of so many: what goes by them (a bias, columns of the result) begins on 256 bytes, and
 * tiles of products are whole. */
enum { PIECE_ROWS = 128 };

static bool is_table(const struct graph *g, int tensor)
{
    const char *dims = g->tensors[tensor].dims;
    return dims[0] == 'v' && dims[1] && !dims[2] && g->tensors[tensor].parent < 0;
}

static uint64_t row_bytes(const struct graph *g, int tensor, size_t storage)
{
    return g->dims.of[(unsigned char)g->tensors[tensor].dims[1]] * tensor_element_bytes(g, tensor, storage);
}

uint64_t table_piece_bytes(const struct graph *g, const struct batch_shape *b, int tensor, size_t storage,
                           uint64_t max_tensor_bytes, uint64_t max_block_bytes)
{
    if (tensor < 0 || !is_table(g, tensor)) return 0;
    uint64_t bytes = tensor_elements(g, b, tensor) * tensor_element_bytes(g, tensor, storage);
    uint64_t most = max_block_bytes > MEMORY_ROUND ? max_block_bytes - MEMORY_ROUND : 0; /* guards lie in it, too */
    if (most > max_tensor_bytes) most = max_tensor_bytes;
    if (bytes <= most) return 0;
    uint64_t unit = PIECE_ROWS * row_bytes(g, tensor, storage);
    while (unit % MEMORY_ROUND) unit *= 2;
    return most / unit * unit;
}

/* The argument that is in pieces; -1: none is. */
static int argument_in_pieces(const struct graph *g, const struct batch_shape *b, const struct call *call,
                              size_t storage, uint64_t max_tensor_bytes, uint64_t max_block_bytes, uint64_t *bytes)
{
    for (int i = 0; i < call->n_arguments; i++) {
        *bytes = table_piece_bytes(g, b, call->arguments[i].tensor, storage, max_tensor_bytes, max_block_bytes);
        if (*bytes) return i;
    }
    return -1;
}

/* A lookup takes the words of its piece, a table's gradient is made row by row, and of a product with the table each
 * piece makes columns of the result. */
static bool knows_pieces(const struct call *call, uint8_t slot)
{
    const char *base = kernel_base(call->kernel);
    if (!strcmp(base, "embed")) return slot == SLOT_WORD;
    if (!strcmp(base, "scatter")) return slot == SLOT_Y && !call_get(call, CONST_COLUMN_SUMS, 0);
    if (strcmp(base, "gemm") != 0 || slot != SLOT_W || call->n_maps || call->counters) return false;
    for (int i = 0; i < call->n_arguments; i++) {
        uint8_t other = call->arguments[i].slot;
        if (other != SLOT_X && other != SLOT_W && other != SLOT_BIAS && other != SLOT_Y) return false;
    }
    return call_get(call, CONST_FORM, GEMM_NT) == GEMM_NT && call_runtime(call) == RUNTIME_M &&
           !call_get(call, CONST_Y_OFFSET, 0) && !call_get(call, CONST_Y_STRIDE, 0) &&
           !call_get(call, CONST_W_OFFSET, 0);
}

bool call_pieces(const struct graph *g, const struct batch_shape *b, const struct call *call, size_t storage,
                 uint64_t max_tensor_bytes, uint64_t max_block_bytes, uint32_t *count, struct error *e)
{
    uint64_t bytes;
    int at = argument_in_pieces(g, b, call, storage, max_tensor_bytes, max_block_bytes, &bytes);
    *count = 1;
    if (at < 0) return true;
    int tensor = call->arguments[at].tensor;
    if (!knows_pieces(call, call->arguments[at].slot))
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%s does not fit one buffer, and the kernel %s does not take it in pieces: use f16, or another "
                    "device",
                    g->tensors[tensor].name, call->kernel);
    uint64_t all = tensor_elements(g, b, tensor) * tensor_element_bytes(g, tensor, storage);
    *count = (uint32_t)((all + bytes - 1) / bytes);
    return true;
}

void call_piece(const struct graph *g, const struct batch_shape *b, struct call *call, size_t storage,
                uint64_t max_tensor_bytes, uint64_t max_block_bytes, uint32_t index)
{
    uint64_t bytes;
    int at = argument_in_pieces(g, b, call, storage, max_tensor_bytes, max_block_bytes, &bytes);
    if (at < 0) return;
    struct call_argument *table = &call->arguments[at];
    uint32_t all = g->dims.of['v'], width = g->dims.of[(unsigned char)g->tensors[table->tensor].dims[1]],
             rows = (uint32_t)(bytes / row_bytes(g, table->tensor, storage)), first = index * rows;
    if (rows > all - first) rows = all - first;
    table->skipped = index * bytes;
    if (table->slot == SLOT_W) {
        call_set(call, CONST_N, rows);
        call_set(call, CONST_Y_STRIDE, all);
        call_set(call, CONST_Y_OFFSET, first);
        for (int i = 0; i < call->n_arguments; i++) {
            struct call_argument *bias = &call->arguments[i];
            if (bias->slot == SLOT_BIAS) bias->skipped = first * tensor_element_bytes(g, bias->tensor, storage);
        }
        return;
    }
    call_set(call, CONST_M, rows);
    call_set(call, table->slot == SLOT_Y ? CONST_Y_OFFSET : CONST_W_OFFSET, first * width);
}
