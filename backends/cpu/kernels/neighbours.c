/* Work on pairs of neighbours: gate, rotary (the files of those names in cl/). */
#include "formulas.h"
#include "pairs.h"
#include "traffic.h"

/* ---- gate: rows of N pairs, a strip of them at a time, whose halves lie apart in scratch memory ---- */

enum { PAIRS = 256 };

static size_t gate_scratch(const struct cpu_step *s)
{
    (void)s;
    return 3 * padded(PAIRS);
}

static void gate_forward(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t column, size_t n,
                         const struct halves *h)
{
    size_t at = row * s->value[CONST_N] + column;
    halves_load(s, s->at[SLOT_X] + 2 * at, s->value[CONST_BIAS] ? s->at[SLOT_BIAS] + 2 * column : NULL, n, h);
    if (s->value[CONST_SUM]) halves_store(s, h, n, s->at[SLOT_SUM] + 2 * at);
    halves_gate(s, drop, row, column, n, h);
    row_store(s->at[SLOT_Y] + at, h->gated, n);
}

static void gate_backward(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t column, size_t n,
                          const struct halves *h)
{
    size_t at = row * s->value[CONST_N] + column;
    halves_load(s, s->at[SLOT_SAVED] + 2 * at, NULL, n, h);
    row_load(h->held, s->at[SLOT_X] + at, n);
    if (drop->threshold) row_drop(drop, h->held, n, (uint32_t)row, (uint32_t)column);
    halves_differentiate(s, n, h, s->at[SLOT_Y] + 2 * at);
}

static void gate_run(const struct cpu_step *s, size_t item, float *scratch)
{
    const struct halves h = {scratch, scratch + padded(PAIRS), scratch + 2 * padded(PAIRS)};
    struct dropout drop = dropout_of(s);
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t row = item * unit; row < end; row++)
        for (size_t column = 0; column < n; column += PAIRS) {
            size_t wide = n - column < PAIRS ? n - column : PAIRS;
            if (s->value[CONST_DERIVATIVE])
                gate_backward(s, &drop, row, column, wide, &h);
            else
                gate_forward(s, &drop, row, column, wide, &h);
        }
}

static void gate_count(const struct cpu_step *s, struct count *c)
{
    bool backward = s->value[CONST_DERIVATIVE] != ACTIVATION_NONE;
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n;
    reads(c, SLOT_X, backward ? all : 2 * all);
    reads(c, SLOT_SAVED, 2 * all);
    count_vector(c, SLOT_BIAS, rows_items(s), 2 * n);
    writes(c, SLOT_SUM, 2 * all);
    writes(c, SLOT_Y, backward ? 2 * all : all);
}

/* ---- angles: rows of N, of a position and a row of frequencies ---- */

static void angles_run(const struct cpu_step *s, size_t item, float *scratch)
{
    const uint32_t *lengths = (const uint32_t *)s->at[SLOT_IDS], *positions = (const uint32_t *)s->at[SLOT_POSITIONS];
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    (void)scratch;
    for (size_t row = item * unit; row < end; row++) {
        const float *share = s->at[SLOT_POSITION] + lengths[row] * n;
        float *to = s->at[SLOT_ANGLES] + row * n;
        for (size_t c = 0; c < n; c += 2) {
            uint32_t units = angle_units(positions[row], share[c], share[c + 1]);
            float rest = angle_rest(positions[row], share[c + 1]);
            to[c] = angle_cosine(units, rest);
            to[c + 1] = angle_cosine(units - ANGLE_QUARTER, rest);
        }
    }
}

static void angles_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], rows = step_rows(s), texts = c->words[HEADER_SEQUENCES], met = 0;
    const uint32_t *offsets = c->words + c->words[HEADER_AT_OFFSETS];
    for (uint64_t i = 0; i < texts; i++) /* by items, which read a text's row once */
        met += blocks_of(offsets[i + 1], rows_at_once(s)) - offsets[i] / rows_at_once(s);
    reads(c, SLOT_IDS, rows);
    reads(c, SLOT_POSITIONS, rows);
    count_again(c, SLOT_POSITION, met * n, texts * n, n * sizeof(float));
    writes(c, SLOT_ANGLES, rows * n);
}

/* ---- rotary: rows of N, of which pairs of Q and K are turned ---- */

static void rotary_run(const struct cpu_step *s, size_t item, float *held)
{
    const uint32_t *positions = (const uint32_t *)s->at[SLOT_POSITIONS];
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t row = item * unit; row < end; row++) {
        row_load(held, s->at[SLOT_X] + row * n, n);
        if (s->value[CONST_BIAS]) row_add(held, s->at[SLOT_BIAS], n);
        if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
        turn_columns(s, s->at[SLOT_POSITION] + (size_t)positions[row] * s->value[CONST_HEAD_DIM], 0, n, held);
        row_store(s->at[SLOT_Y] + row * n, held, n);
    }
}

static void rotary_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], dim = s->value[CONST_HEAD_DIM], rows = step_rows(s), angles = angle_rows_of(c);
    reads(c, SLOT_X, rows * n);
    count_vector(c, SLOT_BIAS, rows_items(s), n);
    reads(c, SLOT_POSITIONS, rows);
    count_again(c, SLOT_POSITION, rows * dim, angles * dim, angles * count_row_bytes(c));
    writes(c, SLOT_SUM, rows * n);
    writes(c, SLOT_Y, rows * n);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_gate) = {.name = "gate", .items = rows_items, .run = gate_run, .scratch = gate_scratch, .count = gate_count};
const struct cpu_kernel CPU_NAME(cpu_angles) = {.name = "angles", .items = rows_items, .run = angles_run, .count = angles_count};
const struct cpu_kernel CPU_NAME(cpu_rotary) = {.name = "rotary", .items = rows_items, .run = rotary_run, .scratch = row_scratch, .count = rotary_count};
/* clang-format on */
