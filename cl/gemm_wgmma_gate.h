/* Gates in gemm_wgmma's epilogue: of pairs of neighbours, and their gradients. For gemm_wgmma_epilogue.h alone. */
#if MAKES_HALVES
/* Two rows' pairs become results: with GELU's steps for eight of them at once. `key`: dropout's. */
INLINE void finish_halves(const struct tensors *t, float v[2][8], const uint first_row, const uint row, const uint rows,
                          const uint column)
{
    float made[8];
    UNROLL for (uint i = 0; i < 8; i++) made[i] = v[i / 4][i % 4 * 2 + GATED];
    activate_eight(ACTIVATION, 1.0f, made);
    UNROLL for (uint i = 0; i < 8; i++) made[i] *= v[i / 4][i % 4 * 2 + OTHER];
#if DROPOUT
    /* One draw decides eight results, half of them a neighbour's: each of the two draws for one row. */
    const bool odd = local_number() % 2 != 0;
    const uint4 mine = dropout_words_keyed(t->key, first_row + row + (odd ? APART : 0), column / 2);
    const uint2 gotten = (uint2)(shuffle_xor(odd ? mine.x : mine.z, 1), shuffle_xor(odd ? mine.y : mine.w, 1));
    const uint2 decided[2] = {odd ? gotten : mine.xy, odd ? mine.zw : gotten};
#endif
    UNROLL for (uint r = 0; r < 2; r++)
    {
        const uint at = first_row + row + r * APART;
        float4 four = (float4)(made[r * 4], made[r * 4 + 1], made[r * 4 + 2], made[r * 4 + 3]);
#if DROPOUT
        four *= (float4)(dropout_pair(decided[r].x), dropout_pair(decided[r].y));
#endif
        const uint2 raw = (uint2)(pack_halves(four.x, four.y), pack_halves(four.z, four.w));
        if (row + r * APART < rows) *(__global uint2 *)(t->y + ((ulong)at * N + column) / 2) = raw;
    }
}
#elif MAKES_PAIRS
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
