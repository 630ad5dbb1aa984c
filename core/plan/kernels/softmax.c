/* softmax and softmax_backward: rows of scores, one for each token and head (cl/scores.h). */
#include "interface/interface.h"
#include "plan/candidates.h"
#include "plan/traffic_model.h"
#include "plan/variants.h"

/* A team's registers hold 16 scores a work-item: as few work-items as hold the longest row, up to 512 scores. */
static void size(struct call *call, const struct sizes *s)
{
    uint32_t team = 8;
    while (team < 32 && 16 * team < s->longest) team *= 2;
    size_row(call, s, 128);
    call_set(call, CONST_TEAM, team);
}

/* ---- their traffic ---- */

/* Teams after the last row repeat it. */
static uint64_t rows_repeated(const struct count *c)
{
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    return divide_up(rows, teams_of(c)) * teams_of(c) - rows;
}

/* `operands` are read, and what does not stay in registers in every one of `passes`. A bias's table is small: it stays
 * in caches. */
static void count_rows(struct count *c, const uint8_t *operands, int n_operands, uint64_t passes)
{
    uint64_t items = team_of(c), block = items * vector_of(c);
    uint64_t heads = get(c, CONST_HEADS, 1), held = 16 / vector_of(c);
    for (uint32_t s = 0; s < c->words[HEADER_SEQUENCES]; s++) {
        uint64_t length = length_of(c, s), blocks = divide_up(length, block), rows = length * heads;
        uint64_t repeated = s + 1 == c->words[HEADER_SEQUENCES] ? rows_repeated(c) : 0;
        uint64_t rest = blocks > held ? blocks - held : 0;
        uint64_t together = groups_at_once(c) * teams_of(c) * length * c->storage * (uint64_t)c->call->n_arguments;
        for (int i = 0; i < n_operands; i++) {
            reads(c, operands[i], (rows + repeated) * (least(blocks, held) + rest * passes) * block);
            if (rest && operands[i] != SLOT_RELATIVE)
                reads_again(c, operands[i], rows * (passes - 1) * (length - held * block), together);
        }
        writes(c, SLOT_Y, rows * length);
        writes(c, SLOT_SUM, rows * length);
    }
}

static void count_forward(struct count *c)
{
    static const uint8_t operands[] = {SLOT_X, SLOT_RELATIVE};
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    uint64_t items = team_of(c);
    uint32_t lse = get(c, CONST_LSE, LSE_NONE);
    count_rows(c, operands, 2, get(c, CONST_SOFTMAX, 1) && lse != LSE_READ ? 3 : 1);
    if (lse == LSE_READ) reads(c, SLOT_LSE, (rows + rows_repeated(c)) * items);
    if (lse == LSE_WRITE) writes(c, SLOT_LSE, rows);
}

static void count_backward(struct count *c)
{
    static const uint8_t operands[] = {SLOT_X, SLOT_SAVED};
    uint64_t rows = (uint64_t)c->words[HEADER_TOKENS] * get(c, CONST_HEADS, 1);
    uint64_t items = team_of(c);
    count_rows(c, operands, 2, get(c, CONST_DELTA, 0) ? 1 : 2);
    reads(c, SLOT_DELTA, (rows + rows_repeated(c)) * items);
}

const struct variant variant_softmax = {
    .kernel = "softmax",
    .name = "softmax",
    .takes = {CONST_HEADS, CONST_SUM, CONST_DROPOUT, CONST_KEPT, CONST_LSE, CONST_SOFTMAX, CONST_RELATIVE, CONST_BEFORE,
              CONST_AFTER, CONST_ALIBI},
    .why = "512 scores in the registers of a sub-group",
    .size = size,
    .count = count_forward,
    .candidates = choices_elements,
};

const struct variant variant_softmax_backward = {
    .kernel = "softmax_backward",
    .name = "softmax_backward",
    .takes = {CONST_HEADS, CONST_DROPOUT, CONST_KEPT, CONST_SOFTMAX, CONST_DELTA},
    .why = "512 scores in the registers of a sub-group",
    .size = size,
    .count = count_backward,
    .candidates = choices_elements,
};
