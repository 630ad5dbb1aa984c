/* gemm_wgmma's epilogue where the result is normalized. For gemm_wgmma_epilogue.h alone. */

/* raw = this lane's columns of a row that begins at `from`, 0 where it isn't there. */
INLINE void fetch_own(uint4 *raw, __global const storage *from, const bool there)
{
    UNROLL for (uint u = 0; u < OWN; u++)
        raw[u] = there ? *(__global const uint4 *)(from + u * ROW_LANES * 8) : (uint4)(0);
}

/* finish() where the result is normalized. A lane has OWN pieces of a row; bias, gamma and beta come from the cache for
 * each row, because there are no registers for them. */
INLINE void finish_normalized(const struct tensors *t, __local const uchar *sums, const struct place p,
                              const uint worker, const uint workers, const uint barrier, const uint parity,
                              const bool dry)
{
    const uint lane = local_number() % 32, unit = lane % ROW_LANES;
    const uint rows = dry ? 0 : min(t->row_end - p.row, (uint)TILE_M);
    __global storage *to = t->y + Y_OFFSET + (ulong)p.row * Y_STRIDE + unit * 8;
    uint step = dry ? STEPS - 1 : worker, row = step * AT_ONCE + lane / ROW_LANES;
#if RESIDUAL
    __global const storage *residual = t->residual + (ulong)p.row * N + unit * 8;
    uint4 next_residual[OWN];
    fetch_own(next_residual, residual + row * N, row < rows);
#endif
    if (!dry) mbarrier_wait(barrier, parity);
    ROLLED for (; step < STEPS; step += workers)
    {
        const uint next_row = row + workers * AT_ONCE;
        uint4 raw[OWN];
        float v[OWN][8], total = 0.0f, squares[8];
        UNROLL for (uint u = 0; u < OWN; u++)
            raw[u] = row < rows ? *(__local const uint4 *)(sums + sum_at(row, unit + u * ROW_LANES)) : (uint4)(0);
#if RESIDUAL
        uint4 raw_residual[OWN];
        UNROLL for (uint u = 0; u < OWN; u++) raw_residual[u] = next_residual[u];
        fetch_own(next_residual, residual + next_row * N, next_row < rows);
#endif
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            float addend[8];
            unpack_vector(raw[u], v[u]);
#if BIAS
            unpack_vector(load_again(t->bias + (unit + u * ROW_LANES) * 8), addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] += addend[c];
#endif
#if RESIDUAL
            unpack_vector(raw_residual[u], addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] += addend[c];
#endif
            total += sum_eight(v[u]);
        }
        const float mean = row_sum(total) * (1.0f / (float)(N));
        UNROLL for (uint c = 0; c < 8; c++) squares[c] = 0.0f;
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] -= mean;
            UNROLL for (uint c = 0; c < 8; c++) squares[c] = fma(v[u][c], v[u][c], squares[c]);
        }
        uint4 raw_gamma[OWN], raw_beta[OWN], result[OWN];
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            raw_gamma[u] = load_again(t->gamma + (unit + u * ROW_LANES) * 8);
            raw_beta[u] = load_again(t->beta + (unit + u * ROW_LANES) * 8);
        }
        const float variance = row_sum(sum_eight(squares)) * (1.0f / (float)(N));
        const float scale = rsqrt(variance + as_float((uint)(EPSILON)));
        UNROLL for (uint u = 0; u < OWN; u++)
        {
            float factor[8], addend[8];
            unpack_vector(raw_gamma[u], factor);
            unpack_vector(raw_beta[u], addend);
            UNROLL for (uint c = 0; c < 8; c++) v[u][c] = fma(v[u][c] * scale, factor[c], addend[c]);
            result[u] = pack_here(v[u]);
        }
        UNROLL for (uint u = 0; u < OWN; u++)
            if (row < rows) *(__global uint4 *)(to + row * Y_STRIDE + u * ROW_LANES * 8) = result[u];
        row = next_row;
    }
}
