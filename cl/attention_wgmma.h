/* What the attention kernels for Hopper's tensor cores share: the arguments' shapes, how tiles come into shared memory,
 * products with the channels of a head as columns, results, dropout's decisions on the layout of products.
 *
 * A tile has rows of 128 bytes as wgmma reads them (cl/hopper.h): 64 channels or queries; of 32 channels the second
 * half stays unused, and 128 channels are two such tiles, one behind the other. Tiles do not come by tensor maps but by
 * 16-byte copies: these put zeros where a sequence has ended, so that no product ever sees another sequence's tokens,
 * and place rows in any order. */
#define LAUNCHED_WHOLE
#include "common.h"
#include "dropout.h"
#include "hopper.h"
#include "attention_arguments.h"

#define LOG2E 1.44269504f
#define LN2 0.693147181f

/* Below every score, and far enough from the end of the range that a difference stays finite. */
#define LOWEST -3.0e38f

#define WARPGROUP 128 /* work-items */
#define ROW_BYTES 128
#define CHUNKS (HEAD_DIM / 8) /* of 16 bytes in a row of channels */
#define HALVES ((HEAD_DIM + 63) / 64) /* of a tile of rows of channels */
#define HALF_ROWS 128 /* of every tile that has two */

/* ---- barriers ---- */

/* Whether the phase of this parity has ended; may wait a while. */
INLINE bool mbarrier_ended(const uint barrier, const uint parity)
{
    uint ended;
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}

/* One arrival for the warp, after what all its work-items did. */
INLINE void warp_arrive(const uint barrier)
{
    warp_barrier();
    if (local_number() % 32 == 0) mbarrier_arrive(barrier);
}

/* ---- copies ---- */

/* 16 bytes. */
INLINE void copy_whole(const uint to, __global const void *from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

/* Where row `row` of a tile of keys lies in the order that gives each work-item eight neighbouring keys of a tile of
 * scores, the keys of one draw of dropout's generator: of 32 keys, 8 * i + 2 * j + e goes to 8 * j + 2 * i + e. So it is
 * also the row that lies at a place. */
INLINE uint permuted_row(const uint row) { return (row & ~30u) | (row & 24u) >> 2 | (row & 6u) << 2; }
#define ROW_AT(place) (permuted ? permuted_row(place) : (place))

/* `rows` rows of a tile at `to` from the tensor's `count` rows at `from` on, by `copiers` work-items, this the
 * `copier`-th. Its places are a multiple of eight apart, and so its chunk is the same in all of their rows. */
INLINE void copy_rows(uint to, __global const storage *from, const uint stride, const uint rows, const uint count,
                      const uint copiers, const uint copier, const bool permuted)
{
    const uint chunk = copier % CHUNKS, step = copiers / CHUNKS, place = copier / CHUNKS, row = ROW_AT(place);
    __global const storage *begin = from;
    to += (chunk / 8 * rows + place) * ROW_BYTES + (chunk % 8 ^ place % 8) * 16;
    from += row * stride + chunk * 8;
    if (count >= rows) {
        UNROLL
        for (uint r = 0; r < rows; r += step) copy_whole(to + r * ROW_BYTES, from + ROW_AT(r) * stride);
    } else {
        ROLLED
        for (uint r = 0; r < rows; r += step) {
            const bool there = row + ROW_AT(r) < count;
            copy_async(to + r * ROW_BYTES, there ? from + ROW_AT(r) * stride : begin, there);
        }
    }
}

/* ---- products ---- */

/* What the descriptors of a tile at `at` differ in, of steps along its rows and of those across; and the descriptors of
 * step `step` of 16. */
#define TILE_ROWS(at) ((uint)wgmma_rows(at))
#define TILE_COLUMNS(at) ((uint)wgmma_columns(at, HALVES > 1 ? HALF_ROWS * ROW_BYTES : 0))
#define OPAQUE(low) asm volatile("" : "+r"(low)) /* in a loop, which else has all steps' descriptors in registers */
#define DESCRIPTOR(low) ((ulong)(low) | wgmma_rows(0) & 0xffffffff00000000)
#define ALONG(rows, step) DESCRIPTOR((rows) + ((step) % 4 * 32 + (step) / 4 * HALF_ROWS * ROW_BYTES) / 16)
#define ACROSS(columns, step) DESCRIPTOR((columns) + (step)*ROW_BYTES)

/* Products with the channels of a head as columns: sum[HEAD_DIM / 2] = (more ? sum : 0) + a b, a from registers, or a
 * and b from shared memory, both across. */
#if HEAD_DIM == 128
#define CHANNELS_REGISTERS(sum, a, b, more) WGMMA_REGISTERS_128(sum, a, b, more, 1)
#define CHANNELS_WAIT(left, sum) WGMMA_WAIT(left, 64, sum)
#elif HEAD_DIM == 64
#define CHANNELS_REGISTERS(sum, a, b, more) WGMMA_REGISTERS_64(sum, a, b, more, 1)
#define CHANNELS_SHARED(sum, a, b, more) WGMMA_64(sum, a, b, more, 1, 1)
#define CHANNELS_WAIT(left, sum) WGMMA_WAIT(left, 32, sum)
#else
#define CHANNELS_REGISTERS(sum, a, b, more) WGMMA_REGISTERS_32(sum, a, b, more, 1)
#define CHANNELS_SHARED(sum, a, b, more) WGMMA_32(sum, a, b, more, 1, 1)
#define CHANNELS_WAIT(left, sum) WGMMA_WAIT(left, 16, sum)
#endif

/* ---- results ---- */

/* Of four words that each of four neighbours has: word i of neighbour j becomes word j of neighbour i. */
INLINE uint4 turn_words(uint4 v)
{
    const bool odd = (local_number() & 1) != 0, high = (local_number() & 2) != 0;
    const uint a = shuffle_xor(odd ? v.x : v.y, 1), b = shuffle_xor(odd ? v.z : v.w, 1);
    v = odd ? (uint4)(a, v.y, b, v.w) : (uint4)(v.x, a, v.z, b);
    const uint c = shuffle_xor(high ? v.x : v.z, 2), d = shuffle_xor(high ? v.y : v.w, 2);
    return high ? (uint4)(c, d, v.z, v.w) : (uint4)(v.x, v.y, c, d);
}

/* A warpgroup's sums, 64 rows x HEAD_DIM, times a factor for each of a work-item's two rows, to the rows at `to`, of
 * which there are `count`. */
INLINE void store_rows(__global storage *to, const uint stride, const uint count, const float *sum, const float factor0,
                       const float factor1)
{
    const uint lane = local_number() % 32, row = local_number() % WARPGROUP / 32 * 16 + lane / 4;
    UNROLL
    for (uint h = 0; h < 2; h++) {
        const float factor = h ? factor1 : factor0;
        UNROLL
        for (uint j = 0; j < HEAD_DIM / 8; j += 4) {
            uint word[4];
            UNROLL
            for (uint i = 0; i < 4; i++)
                word[i] = pack_halves(sum[(j + i) * 4 + h * 2] * factor, sum[(j + i) * 4 + h * 2 + 1] * factor);
            const uint4 chunk = turn_words((uint4)(word[0], word[1], word[2], word[3]));
            if (row + 8 * h < count)
                *(__global uint4 *)(to + (row + 8 * h) * stride + (j + lane % 4) * 8) = chunk;
        }
    }
}

/* ---- dropout ---- */
#if DROPOUT > 0
/* One multiplication for both words. */
#undef PHILOX_MUL
#define PHILOX_MUL(high, low, a, b)                                                                                    \
    {                                                                                                                  \
        const ulong both = (ulong)(uint)(a) * (b);                                                                     \
        high = (uint)(both >> 32);                                                                                     \
        low = (uint)both;                                                                                              \
    }

/* The random words of the eight keys around `key` for a row of weights; random_key is dropout_key's. */
INLINE uint4 draw(const uint4 random_key, const uint row, const uint key)
{
    uint c0 = row, c1 = key / 8, c2 = random_key.w, c3 = random_key.z, k0 = random_key.x, k1 = random_key.y;
    PHILOX(c0, c1, c2, c3, k0, k1)
    return (uint4)(c0, c1, c2, c3);
}

/* The decisions of the 16 keys from `key` on in 16 bits: key 8 i + 2 j + e in bit 4 i + j + 8 e. */
INLINE uint draw_bits(const uint4 random_key, const uint row, const uint key)
{
    uint bits = 0;
    UNROLL
    for (uint i = 0; i < 2; i++) {
        const uint4 words = draw(random_key, row, key + 8 * i);
        bits |= keep_pair(words.x, DROPOUT) & 0x10001u << 4 * i;
        bits |= keep_pair(words.y, DROPOUT) & 0x20002u << 4 * i;
        bits |= keep_pair(words.z, DROPOUT) & 0x40004u << 4 * i;
        bits |= keep_pair(words.w, DROPOUT) & 0x80008u << 4 * i;
    }
    return (bits | bits >> 8) & 0xffff;
}
#endif
