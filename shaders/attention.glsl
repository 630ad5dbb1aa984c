/* What attention and its backward kernels share: the shape of a tile of scores, how operands come into shared memory,
 * who computes what, dropout's bits. Twin of cl/attention.h.
 *
 * A work-group has TILE_M rows of one head (queries; keys in attention_backward) and walks over the columns (the other side
 * of the scores) of their sequence in steps of TILE_N. A tile of TILE_M x TILE_N scores is a product over the channels,
 * in stages of TILE_K; what is made of the scores goes through shared memory and is multiplied with columns x channels.
 * A work-item owns THREAD_M rows and every THREADS_N-th column, later the same rows and every THREADS_N-th quad of
 * channels. */
#include "product.glsl"

layout(constant_id = CONST_HEADS) const uint HEADS = 1;
layout(constant_id = CONST_KEY_HEADS) const uint KEY_HEADS = 0;
#include "heads.h"
layout(constant_id = CONST_HEAD_DIM) const uint HEAD_DIM = 32;
layout(constant_id = CONST_QKV_INTERLEAVED) const uint QKV_INTERLEAVED = 0;
layout(constant_id = CONST_SCALE) const uint SCALE = 0x3f800000u;
layout(constant_id = CONST_X_STRIDE) const uint X_STRIDE = 32;
layout(constant_id = CONST_X_OFFSET) const uint X_OFFSET = 0;
layout(constant_id = CONST_W_STRIDE) const uint W_STRIDE = 32;
layout(constant_id = CONST_W_OFFSET) const uint W_OFFSET = 0;
layout(constant_id = CONST_V_STRIDE) const uint V_STRIDE = 32;
layout(constant_id = CONST_V_OFFSET) const uint V_OFFSET = 0;
layout(constant_id = CONST_TILE_M) const uint TILE_M = 32;
layout(constant_id = CONST_TILE_N) const uint TILE_N = 32;
layout(constant_id = CONST_TILE_V) const uint TILE_V = 32;
layout(constant_id = CONST_TILE_K) const uint TILE_K = 32;
layout(constant_id = CONST_THREAD_M) const uint THREAD_M = 4;

INPUT_OF(SLOT_BATCH, uint, batch);
INPUT(SLOT_X, x);
INPUT(SLOT_W, w);
INPUT(SLOT_V, v);
OUTPUT(SLOT_Y, y);
QUADS_OF(SLOT_Y, y, writeonly);

#include "dropout.glsl"

/* Elements from one row of the gradient of attention's output to the next. */
#define GRADIENT_STRIDE (HEADS * HEAD_DIM)

/* LOCAL_SIZE is THREADS_M times THREADS_N, a power of two. TILE_M and THREAD_M are multiples of 4, TILE_N of
 * 4 * THREADS_N, TILE_K of VECTOR; with dropout, keys come in sixteens. */
#define THREADS_M (TILE_M / THREAD_M)
#define THREADS_N (LOCAL_SIZE / THREADS_M)
#define QUADS_M (TILE_M / 4)
#define QUADS_N (TILE_N / 4)
#define COLUMN_QUADS (QUADS_N / THREADS_N)                               /* of a work-item */
#define CHANNEL_QUADS ((HEAD_DIM + 4 * THREADS_N - 1) / (4 * THREADS_N)) /* likewise; 0 beyond HEAD_DIM */
#define QUADS_V (CHANNEL_QUADS * THREADS_N)
#define SCORES (THREAD_M * COLUMN_QUADS)
#define SUMS (THREAD_M * CHANNEL_QUADS)

/* One quad of padding keeps the neighbours that store a column of the weights on different banks. */
#define QUADS_P (QUADS_M + 1)

/* Stages of rows and of columns, columns x channels, and weights, in shared memory. */
#define TILE_X_QUADS (TILE_K * QUADS_M)
#define TILE_W_QUADS (TILE_K * QUADS_N)
#define TILE_V_QUADS (TILE_V * QUADS_V)
#define TILE_P_QUADS (TILE_N * QUADS_P)

#define VECTORS_K (TILE_K / VECTOR)
#define VECTORS_V (QUADS_V * 4 / VECTOR)
#define BLOCKS_X (QUADS_M * VECTORS_K)
#define BLOCKS_W (QUADS_N * VECTORS_K)
#define BLOCKS_V (TILE_V / 4 * VECTORS_V)
#define ROUNDS(blocks) (((blocks) + LOCAL_SIZE - 1) / LOCAL_SIZE)

/* exp(x) is 2^(x log2 e): the scores are scaled once for both. */
#define LOG2E 1.44269504

/* Neighbours take RUN quads of rows (or columns), the next ones the next VECTOR of channels of the same rows. */
#define RUN ((QUADS_M | QUADS_N) % 8 == 0 ? 8u : 1u)

uint block_quad(const uint block) { return block % RUN + block / (RUN * VECTORS_K) * RUN; }
uint block_channel(const uint block) { return block / RUN % VECTORS_K * VECTOR; }

uint thread_m() { return local_number() / THREADS_N; }
uint thread_n() { return local_number() % THREADS_N; }
/* Row of the tile that this work-item's row i is; first column of its quad j, whose others follow every THREADS_N;
 * first channel of its quad j. */
uint held_row(const uint i) { return (i / 4 * THREADS_M + thread_m()) * 4 + i % 4; }
uint held_column(const uint j) { return j * 4 * THREADS_N + thread_n(); }
uint held_channel(const uint j) { return (j * THREADS_N + thread_n()) * 4; }

/* The block of four rows x VECTOR that this work-item loads in round b. Block 0 is the work-item `turn`'s: loads that
 * follow each other begin where the one before ended, so that all work-items have as many. */
uint block_of(const uint b, const uint turn)
{
    return (local_number() + LOCAL_SIZE - turn % LOCAL_SIZE) % LOCAL_SIZE + b * LOCAL_SIZE;
}

/* tile[tile_at ...] = channels p0 to p0 + TILE_K of the rows from name[at] on, of which there are `count`:
 * [channel][row]. */
#define LOAD_ROWS(tile, tile_at, name, at, stride, count, p0, turn)                                                    \
    UNROLL for (uint b = 0; b < ROUNDS(BLOCKS_X); b++)                                                                 \
    {                                                                                                                  \
        const uint block = block_of(b, turn);                                                                          \
        const uint quad = block_quad(block);                                                                           \
        const uint p = block_channel(block);                                                                           \
        if (block < BLOCKS_X && p0 + p < HEAD_DIM) {                                                                   \
            const uint begin = (at) + quad * 4 * (stride) + p0 + p;                                                    \
            uvec4 raw[4];                                                                                              \
            UNROLL for (uint r = 0; r < 4; r++)                                                                        \
                FETCH_VECTOR(raw[r], name, begin + r * (stride), quad * 4 + r < (count), p0 + p, HEAD_DIM,             \
                             ALIGNED != 0);                                                                            \
            PUT_ROWS(tile, (tile_at) + p * QUADS_M + quad, QUADS_M, raw, 0);                                           \
        }                                                                                                              \
    }

/* The same of the columns: [channel][column], a quad holds every THREADS_N-th. */
#define LOAD_COLUMNS(tile, tile_at, name, at, stride, count, p0, turn)                                                 \
    UNROLL for (uint b = 0; b < ROUNDS(BLOCKS_W); b++)                                                                 \
    {                                                                                                                  \
        const uint block = block_of(b, turn);                                                                          \
        const uint quad = block_quad(block);                                                                           \
        const uint p = block_channel(block);                                                                           \
        if (block < BLOCKS_W && p0 + p < HEAD_DIM) {                                                                   \
            const uint column = quad / THREADS_N * (4 * THREADS_N) + quad % THREADS_N;                                 \
            const uint begin = (at) + column * (stride) + p0 + p;                                                      \
            uvec4 raw[4];                                                                                              \
            UNROLL for (uint r = 0; r < 4; r++)                                                                        \
                FETCH_VECTOR(raw[r], name, begin + r * THREADS_N * (stride), column + r * THREADS_N < (count), p0 + p, \
                             HEAD_DIM, ALIGNED != 0);                                                                  \
            PUT_ROWS(tile, (tile_at) + p * QUADS_N + quad, QUADS_N, raw, 0);                                           \
        }                                                                                                              \
    }

/* All channels of TILE_V columns: [column][channel]. */
#define LOAD_CHANNELS(tile, tile_at, name, at, stride, count)                                                          \
    UNROLL for (uint b = 0; b < ROUNDS(BLOCKS_V); b++)                                                                 \
    {                                                                                                                  \
        const uint block = local_number() + b * LOCAL_SIZE;                                                            \
        const uint column = block / VECTORS_V * 4;                                                                     \
        const uint p = block % VECTORS_V * VECTOR;                                                                     \
        if (block < BLOCKS_V) {                                                                                        \
            const uint begin = (at) + column * (stride) + p;                                                           \
            uvec4 raw[4];                                                                                              \
            UNROLL for (uint r = 0; r < 4; r++)                                                                        \
                FETCH_VECTOR(raw[r], name, begin + r * (stride), column + r < (count), p, HEAD_DIM, ALIGNED != 0);     \
            UNROLL for (uint r = 0; r < 4; r++)                                                                        \
                PUT_VECTOR(tile, (tile_at) + (column + r) * QUADS_V + p / 4, raw[r]);                                  \
        }                                                                                                              \
    }

/* Channels, or columns, that are multiplied without a branch: few work-groups run on a multiprocessor, so that there is
 * much to gain from loads that are on their way early. Channels come in blocks of at least four, with zeros after the
 * last one, so do columns; weights after the last are finite. */
const uint AT_ONCE = HEAD_DIM % 8 == 0 ? 8 : 4;

/* score += rows times columns over `channels` channels of the stages x_tile[x_at ...] and w_tile[w_at ...]. */
#define MULTIPLY_STAGES(score, x_tile, x_at, w_tile, w_at, channels)                                                   \
    MULTIPLY(score, COLUMN_QUADS, x_tile, (x_at) + thread_m(), QUADS_M, w_tile, (w_at) + thread_n(), QUADS_N,          \
             channels, AT_ONCE)

/* sum += weights times channels over `columns` columns. */
#define MULTIPLY_CHANNELS(sum, p_tile, p_at, v_tile, v_at, columns)                                                    \
    MULTIPLY(sum, CHANNEL_QUADS, p_tile, (p_at) + thread_m(), QUADS_P, v_tile, (v_at) + thread_n(), QUADS_V, columns,  \
             AT_ONCE)

/* The same with the channels of the `count` columns from name[at] on, stage by stage; the weights may have been stored
 * right before. Ends with a barrier. */
#define MULTIPLY_ROWS(sum, p_tile, p_at, v_tile, v_at, name, at, stride, count)                                        \
    for (uint v0 = 0; v0 < (count); v0 += TILE_V) {                                                                    \
        LOAD_CHANNELS(v_tile, v_at, name, (at) + v0 * (stride), stride, (count)-v0);                                   \
        barrier();                                                                                                     \
        MULTIPLY_CHANNELS(sum, p_tile, (p_at) + v0 * QUADS_P, v_tile, v_at, min((count)-v0, TILE_V));                  \
        barrier();                                                                                                     \
    }

/* tile = this work-item's scores, or what has been made of them: [column][row]. */
#define PUT_SCORES(tile, score)                                                                                        \
    UNROLL for (uint i = 0; i < THREAD_M / 4; i++)                                                                     \
    {                                                                                                                  \
        UNROLL for (uint j = 0; j < COLUMN_QUADS; j++)                                                                 \
        {                                                                                                              \
            const vec4 e0 = score[(i * 4) * COLUMN_QUADS + j], e1 = score[(i * 4 + 1) * COLUMN_QUADS + j];             \
            const vec4 e2 = score[(i * 4 + 2) * COLUMN_QUADS + j], e3 = score[(i * 4 + 3) * COLUMN_QUADS + j];         \
            const uint to = held_column(j) * QUADS_P + i * THREADS_M + thread_m();                                     \
            tile[to] = vec4(e0.x, e1.x, e2.x, e3.x);                                                                   \
            tile[to + THREADS_N * QUADS_P] = vec4(e0.y, e1.y, e2.y, e3.y);                                             \
            tile[to + 2 * THREADS_N * QUADS_P] = vec4(e0.z, e1.z, e2.z, e3.z);                                         \
            tile[to + 3 * THREADS_N * QUADS_P] = vec4(e0.w, e1.w, e2.w, e3.w);                                         \
        }                                                                                                              \
    }

/* The same with rows and columns exchanged, where there are as many of both: [row][column]. A row of what then is
 * multiplied is a column here. */
#define PUT_TRANSPOSED(tile, score)                                                                                    \
    UNROLL for (uint i = 0; i < THREAD_M; i++)                                                                         \
        UNROLL for (uint j = 0; j < COLUMN_QUADS; j++)                                                                 \
            tile[held_row(i) * QUADS_P + j * THREADS_N + thread_n()] = score[i * COLUMN_QUADS + j];

/* The column that this work-item's row i then is. */
uint transposed_row(const uint i)
{
    const uint quad = i / 4 * THREADS_M + thread_m();
    return quad / THREADS_N * (4 * THREADS_N) + quad % THREADS_N + i % 4 * THREADS_N;
}

/* The `count` rows from name[at] on = sum. */
#define STORE_SUMS(name, at, stride, count, sum)                                                                       \
    UNROLL for (uint i = 0; i < THREAD_M; i++)                                                                         \
    {                                                                                                                  \
        const uint row = held_row(i);                                                                                  \
        UNROLL for (uint j = 0; j < CHANNEL_QUADS; j++)                                                                \
        {                                                                                                              \
            const uint p = held_channel(j);                                                                            \
            const uint element = (at) + row * (stride) + p;                                                            \
            if (row < (count) && p < HEAD_DIM) {                                                                       \
                if (ALIGNED != 0)                                                                                      \
                    STORE_QUAD(name, element, sum[i * CHANNEL_QUADS + j]);                                             \
                else                                                                                                   \
                    STORE_SOME(name, element, sum[i * CHANNEL_QUADS + j], p, HEAD_DIM);                                \
            }                                                                                                          \
        }                                                                                                              \
    }

/* ---- dropout ----
 * Which weights of a tile are kept, made by the whole work-group: bit c of a word is for key 16 g + c of one query.
 * [g][query]. */
#define KEEP_WORDS (TILE_M * TILE_N / 16)
shared uint keep_tile[DROPOUT > 0 ? KEEP_WORDS : 1];

/* The `queries` queries from token `token` on, the keys of the step from `key` on. */
void make_keep(const uint queries, const uint token, const uint head, const uint key)
{
    UNROLL
    for (uint b = 0; b < ROUNDS(KEEP_WORDS); b++) {
        const uint word = local_number() + b * LOCAL_SIZE;
        const uint row = (token + word % queries) * HEADS + head;
        const uint column = key + word / queries * 16;
        if (word < KEEP_WORDS)
            keep_tile[word] =
                dropout_bits(dropout_words(row, column)) | dropout_bits(dropout_words(row, column + 8)) << 8;
    }
}

float keep_factor(const uint queries, const uint query, const uint key)
{
    return (keep_tile[key / 16 * queries + query] >> key % 16 & 1u) != 0 ? DROPOUT_SCALE : 0.0;
}

/* The factors of four weights of a work-item's quad, which has either one query or one key. */
vec4 keep_quad(const uint queries, const uint query, const uint query_step, const uint key, const uint key_step)
{
    return vec4(keep_factor(queries, query, key), keep_factor(queries, query + query_step, key + key_step),
                keep_factor(queries, query + 2 * query_step, key + 2 * key_step),
                keep_factor(queries, query + 3 * query_step, key + 3 * key_step));
}
