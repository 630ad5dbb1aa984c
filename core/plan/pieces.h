/* Tables of words that one buffer, or one argument of a kernel, can't hold: they lie in several buffers, and each call
 * that has such a table becomes one call for each of them. */
#ifndef WHERRY_PLAN_PIECES_H
#define WHERRY_PLAN_PIECES_H

#include "graph/group.h"
#include "plan/memory.h"

/* Bytes of each piece but the last, a multiple of MEMORY_ROUND and whole rows; 0: the tensor fits, or is no table that
 * can be divided. `storage`: bytes of an element; the others as in memory_request. */
uint64_t table_piece_bytes(const struct graph *g, const struct batch_shape *b, int tensor, size_t storage,
                           uint64_t max_tensor_bytes, uint64_t max_block_bytes);
/* How many calls this one becomes, 1: it has no such table. Fails with WHERRY_STATUS_UNSUPPORTED where the kernel can't
 * take a table in pieces. */
bool call_pieces(const struct graph *g, const struct batch_shape *b, const struct call *call, size_t storage,
                 uint64_t max_tensor_bytes, uint64_t max_block_bytes, uint32_t *count, struct error *e);
/* Makes of a call with its sizes the one for piece `index`. */
void call_piece(const struct graph *g, const struct batch_shape *b, struct call *call, size_t storage,
                uint64_t max_tensor_bytes, uint64_t max_block_bytes, uint32_t index);

#endif
