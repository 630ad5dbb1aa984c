/* Rotary positions whose angles depend on a text's length: one that is longer than those of training turns more slowly.
 * Then the model's table has no angles: row l has what a text of l + 1 tokens turns by from one token to the next, and
 * the operator `angles` makes of that one row for each token of a batch, which the operators `rotary` read as they
 * would the model's table. */
#ifndef WHERRY_GRAPH_ROTARY_H
#define WHERRY_GRAPH_ROTARY_H

#include <stdint.h>

/* A turn's share, as the table has it of each pair of channels: `whole` units, of ANGLE_UNITS to a turn, and `part` of
 * one. Multiplied by a position, the former is exact without its whole turns, in 32 bits. */
struct frequency {
    float whole, part;
};

enum { ANGLE_UNITS = 1 << 24 };

/* Of `radians` for one position, less than a turn. */
struct frequency frequency_of(double radians);

/* Of each token its sequence's length less 1, and the token whose row of angles it reads: of sequences that are not
 * longer than `trained`, whose angles are the same, that of the longest one at its position; else its own. */
void rotary_rows(uint32_t trained, uint32_t sequences, const uint32_t *offsets, uint32_t *lengths, uint32_t *rows);
/* Different rows among these. */
uint64_t rotary_rows_count(uint32_t trained, uint32_t sequences, const uint32_t *offsets);

#endif
