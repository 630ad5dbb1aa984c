/* Gates in gemm_wgmma's epilogue: of pairs of neighbours, and their gradients; and slopes that are given, a gate's or not.
 * For gemm_wgmma_epilogue.h alone. */

/* Each half of a word twice, in a word of its own. */
INLINE uint2 both_twice(const uint word)
{
    uint2 twice; /* an instruction each, where compilers make two of shifts */
    asm("prmt.b32 %0, %1, %1, %2;" : "=r"(twice.x) : "r"(word), "r"(0x1010));
    asm("prmt.b32 %0, %1, %1, %2;" : "=r"(twice.y) : "r"(word), "r"(0x3232));
    return twice;
}

#if MAKES_HALVES
/* Two rows' pairs become results: with GELU's steps for eight of them at once; and slopes, which are pairs again. */
INLINE void finish_halves(const struct tensors *t, float v[2][8], const uint first_row, const uint row, const uint rows,
                          const uint column)
{
    float made[8];
    UNROLL for (uint i = 0; i < 8; i++) made[i] = v[i / 4][i % 4 * 2 + GATED];
#if SUM == SUM_SLOPE
    float slope[8];
    uint4 slopes[2];
    activate_slope_eight(ACTIVATION, DROPOUT_SCALE, made, slope);
    UNROLL for (uint i = 0; i < 8; i++)
    {
        const float other = v[i / 4][i % 4 * 2 + OTHER];
        v[i / 4][i % 4 * 2 + OTHER] = made[i];
        v[i / 4][i % 4 * 2 + GATED] = slope[i] * other;
        made[i] *= other;
    }
    UNROLL for (uint r = 0; r < 2; r++) slopes[r] = pack_here(v[r]);
#else
    activate_eight(ACTIVATION, 1.0f, made);
    UNROLL for (uint i = 0; i < 8; i++) made[i] *= DROPOUT_SCALE * v[i / 4][i % 4 * 2 + OTHER];
#endif
    uint2 raw[2];
    UNROLL for (uint r = 0; r < 2; r++)
        raw[r] = (uint2)(pack_halves(made[r * 4], made[r * 4 + 1]), pack_halves(made[r * 4 + 2], made[r * 4 + 3]));
#if DROPOUT
    /* One draw decides eight results, half of them a neighbour's: each of the two draws for one row. */
    const bool odd = local_number() % 2 != 0;
    const uint4 mine = dropout_words_keyed(t->key, first_row + row + (odd ? APART : 0), column / 2);
    const uint2 gotten = (uint2)(shuffle_xor(odd ? mine.x : mine.z, 1), shuffle_xor(odd ? mine.y : mine.w, 1));
    const uint2 decided[2] = {odd ? gotten : mine.xy, odd ? mine.zw : gotten};
    UNROLL for (uint r = 0; r < 2; r++)
    {
        const uint2 kept = (uint2)(keep_pair(decided[r].x, DROPOUT), keep_pair(decided[r].y, DROPOUT));
        raw[r] &= kept;
#if SUM == SUM_SLOPE
        slopes[r] &= (uint4)(both_twice(kept.x), both_twice(kept.y));
#endif
    }
#endif
    UNROLL for (uint r = 0; r < 2; r++)
        if (row + r * APART < rows)
            *(__global uint2 *)(t->y + ((ulong)(first_row + row + r * APART) * N + column) / 2) = raw[r];
#if SUM == SUM_SLOPE
    store_rows(t->before + (ulong)first_row * N + column, N, row, rows, 8, slopes);
#endif
}
#elif MAKES_PAIRS && !PACKED_GIVEN
/* What eight values are gradients of was made of pairs, which become theirs. */
INLINE void finish_pairs(__global storage *to, const float *v, const uint4 *saved, const bool there)
{
    float pairs[16], gate[8], slope[8];
    unpack_vector(saved[0], pairs);
    unpack_vector(saved[1], pairs + 8);
    UNROLL for (uint c = 0; c < 8; c++) gate[c] = pairs[2 * c + GATED];
    activate_slope_eight(DERIVATIVE, 1.0f, gate, slope);
    UNROLL for (uint c = 0; c < 8; c++)
    {
        pairs[2 * c + GATED] = v[c] * pairs[2 * c + OTHER] * slope[c];
        pairs[2 * c + OTHER] = v[c] * gate[c];
    }
    const uint4 low = pack_here(pairs), high = pack_here(pairs + 8);
    if (there) {
        ((__global uint4 *)to)[0] = low;
        ((__global uint4 *)to)[1] = high;
    }
}
#endif

#if PACKED_GIVEN
/* What is saved with two rows' values at `from`; of rows that aren't there, which are not stored, what was before. */
INLINE void fetch_given(uint4 *raw, __global const storage *from, const uint row, const uint rows)
{
    UNROLL for (uint r = 0; r < 2; r++)
        if (row + r * APART < rows) {
            UNROLL for (uint i = 0; i < SAVED_PIECES; i++)
                raw[r * SAVED_PIECES + i] =
                    *(__global const uint4 *)(from + (row + r * APART) * (Y_STRIDE * SAVED_PIECES) + i * 8);
        }
}

/* Eight sums times what is given, of a gate both slopes of each pair. Sums and slopes have 16 bits, and a product that is
 * rounded once is that of 32 bits, rounded. */
INLINE void multiply_given(uint4 *product, const uint4 raw, const uint4 *given)
{
#if MAKES_PAIRS
    product[0] = multiply_eight((uint4)(both_twice(raw.x), both_twice(raw.y)), given[0]);
    product[1] = multiply_eight((uint4)(both_twice(raw.z), both_twice(raw.w)), given[1]);
#else
    product[0] = multiply_eight(raw, given[0]);
#endif
}
#endif
