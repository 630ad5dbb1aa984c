/* Y = layernorm(word[ids] or X, + position[positions], + type[types]), any of these, a token per team; SUM also
 * stores what the layernorm reads. Ids are trusted: the host compares them with the tables' sizes. Where M is given,
 * WORD has the M rows of its table that come after W_OFFSET elements, and only their tokens' rows are written. Twin of
 * shaders/embed.comp.
 *
 * LOCAL_SIZE, TEAM: as layernorm; one team without NORM. */
#include "common.h"

#ifndef WORD
#define WORD 0
#endif
#ifndef POSITION
#define POSITION 0
#endif
#ifndef TYPE
#define TYPE 0
#endif
#ifndef NORM
#define NORM 0
#endif
#ifndef SUM
#define SUM 0
#endif
#ifndef M
#define M 0
#endif
#ifndef W_OFFSET
#define W_OFFSET 0
#endif
#ifndef EPSILON
#define EPSILON 0x2b8cbcccu /* 1e-12 */
#endif
#include "row.h"

/* clang-format off */
__kernel __attribute__((reqd_work_group_size(LOCAL_SIZE, 1, 1)))
void embed(BATCH_ARGUMENT
#if !WORD
    , INPUT(x)
#endif
#if NORM
    , INPUT(gamma)
#if BETA
    , INPUT(beta)
#endif
#endif
#if WORD
    , INPUT_OF(uint, ids)
    , INPUT(word)
#endif
#if POSITION
    , INPUT_OF(uint, positions)
    , INPUT(position)
#endif
#if TYPE
    , INPUT_OF(uint, types)
    , INPUT(type)
#endif
    , OUTPUT(y)
#if SUM
    , OUTPUT(sum)
#endif
)
/* clang-format on */
{
    BEGIN_OF(uint, batch);
    BEGIN_OUTPUT(y);
#if NORM
    __local float scratch[REDUCE_WORDS];
#endif
    if (FIRST_ROW < batch[ROWS]) {
        BEGIN_ROW;
        float held[STEPS][ACCESS];
#if WORD
        BEGIN_OF(uint, ids);
        BEGIN(word);
        const uint asked = ids[row] - W_OFFSET / N; /* wraps around where it is before them */
        const bool here = stored && (M == 0 || asked < M);
        ROW_LOAD(word, (M == 0 || asked < M ? asked : 0) * N);
#else
        const bool here = stored;
        BEGIN(x);
        ROW_LOAD(x, row * N);
#endif
#if POSITION
        BEGIN_OF(uint, positions);
        BEGIN(position);
        ROW_ADD(position, positions[row] * N);
#endif
#if TYPE
        BEGIN_OF(uint, types);
        BEGIN(type);
        ROW_ADD(type, types[row] * N);
#endif
#if SUM
        BEGIN_OUTPUT(sum);
        if (here) {
            ROW_STORE(sum, row * N);
        }
#endif
#if NORM
        BEGIN(gamma);
#if BETA
        BEGIN(beta);
#endif
        row_standardize(held, as_float((uint)(EPSILON)), scratch);
        ROW_SCALE_SHIFT(gamma, beta);
#endif
        if (here) {
            ROW_STORE(y, row * N);
        }
    }
}
