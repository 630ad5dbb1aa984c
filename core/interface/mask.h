/* Which keys a query sees, and ALiBi's slopes (CONST_BEFORE, CONST_AFTER, CONST_ALIBI). After formulas.h, written once
 * for OpenCL C and GLSL as that is. Queries and keys are counted from the sequence's first token; before and after are
 * the constants, 0: no limit. A query sees itself. */
#ifndef WHERRY_KERNEL_MASK_H
#define WHERRY_KERNEL_MASK_H

/* In the place of a score that is not seen: below all that are, and what is computed with it stays finite. */
#define HIDDEN_SCORE (-1e30f)

/* `offset`: the key's number less the query's. */
FORMULA bool mask_sees(int offset, int before, int after)
{
    return (before == 0 || -offset < before) && (after == 0 || offset < after);
}

/* Whether all of the keys from `key` to `last_key` are seen by all of the queries from `query` to `last_query`. */
FORMULA bool mask_sees_all(int query, int last_query, int key, int last_key, int before, int after)
{
    return (before == 0 || last_query - key < before) && (after == 0 || last_key - query < after);
}

/* Keys that queries from `query` on see: the first; and the one after the last that queries to `last_query` see, of
 * `count`. */
FORMULA int mask_first_key(int query, int before) { return before == 0 || query < before ? 0 : query - before + 1; }

FORMULA int mask_end_key(int last_query, int after, int count)
{
    return after == 0 || last_query + after > count ? count : last_query + after;
}

/* Queries that see keys from `key` on: the first; and the one after the last that sees keys to `last_key`. */
FORMULA int mask_first_query(int key, int after) { return after == 0 || key < after ? 0 : key - after + 1; }

FORMULA int mask_end_query(int last_key, int before, int count)
{
    return before == 0 || last_key + before > count ? count : last_key + before;
}

/* What ALiBi takes from a score per token of distance: of 2^n heads 2^(-8 (head + 1) / 2^n); other numbers of heads
 * have those of the next lower power of two first, then every other one of twice as many. `heads` is a constant. */
FORMULA float alibi_slope(uint heads, uint head)
{
    uint power = 1;
    while (power <= heads / 2) power *= 2;
    return head < power ? exp2(-8.0f * (head + 1) / power) : exp2(-4.0f * (2 * (head - power) + 1) / power);
}

#endif
