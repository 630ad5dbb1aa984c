/* Work on pairs of neighbours: gate, rotary (the files of those names in cl/). */
#include "dropout.h"
#include "formulas.h"
#include "rows.h"
#include "traffic.h"

/* ---- gate: rows of N pairs, a strip of them at a time, whose halves lie apart in scratch memory ---- */

enum { PAIRS = 256 };

struct halves {
    float *gated, *other, *held;
};

static size_t gate_scratch(const struct cpu_step *s)
{
    (void)s;
    return 3 * padded(PAIRS);
}

/* `bias` may be NULL. */
static void halves_load(const struct cpu_step *s, const float *pairs, const float *bias, size_t n,
                        const struct halves *to)
{
    size_t gated = s->value[CONST_GATE] == GATE_ODD, other = !gated;
    for (size_t i = 0; i < n; i++) {
        to->gated[i] = pairs[2 * i + gated] + (bias ? bias[2 * i + gated] : 0.0f);
        to->other[i] = pairs[2 * i + other] + (bias ? bias[2 * i + other] : 0.0f);
    }
    row_end(to->gated, n);
    row_end(to->other, n);
}

static void halves_store(const struct cpu_step *s, const struct halves *from, size_t n, float *pairs)
{
    size_t gated = s->value[CONST_GATE] == GATE_ODD, other = !gated;
    for (size_t i = 0; i < n; i++) {
        pairs[2 * i + gated] = from->gated[i];
        pairs[2 * i + other] = from->other[i];
    }
}

static void row_times(float *row, const float *factors, size_t n)
{
    FOR_VECTORS(i, n) v_store(row + i, v_load(row + i) * v_load(factors + i));
}

static void gate_forward(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t column, size_t n,
                         const struct halves *h)
{
    size_t at = row * s->value[CONST_N] + column;
    halves_load(s, s->at[SLOT_X] + 2 * at, s->value[CONST_BIAS] ? s->at[SLOT_BIAS] + 2 * column : NULL, n, h);
    if (s->value[CONST_SUM]) halves_store(s, h, n, s->at[SLOT_SUM] + 2 * at);
    row_activate(h->gated, n, s->value[CONST_ACTIVATION]);
    row_times(h->gated, h->other, n);
    if (drop->threshold) row_drop(drop, h->gated, n, (uint32_t)row, (uint32_t)column);
    row_store(s->at[SLOT_Y] + at, h->gated, n);
}

static void gate_backward(const struct cpu_step *s, const struct dropout *drop, size_t row, size_t column, size_t n,
                          const struct halves *h)
{
    size_t at = row * s->value[CONST_N] + column;
    halves_load(s, s->at[SLOT_SAVED] + 2 * at, NULL, n, h);
    row_load(h->held, s->at[SLOT_X] + at, n);
    if (drop->threshold) row_drop(drop, h->held, n, (uint32_t)row, (uint32_t)column);
    row_times(h->other, h->held, n);
    row_derive(h->other, n, s->value[CONST_DERIVATIVE], h->gated);
    row_activate(h->gated, n, s->value[CONST_DERIVATIVE]);
    row_times(h->held, h->gated, n);
    const struct halves made = {h->other, h->held, NULL};
    halves_store(s, &made, n, s->at[SLOT_Y] + 2 * at);
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

/* ---- rotary: rows of N, of which pairs of Q and K are turned ---- */

static void turn_row(const struct cpu_step *s, const float *angles, float *row)
{
    size_t n = s->value[CONST_N], dim = s->value[CONST_HEAD_DIM], keys = s->value[CONST_KEY_HEADS];
    size_t turned = keys ? n - keys * dim : n / 3 * 2;
    float sense = s->value[CONST_ROTARY] == ROTARY_BACKWARD ? -1.0f : 1.0f;
    for (size_t head = 0; head < n; head += dim) {
        if (s->value[CONST_QKV_INTERLEAVED] ? head / dim % 3 == 2 : head >= turned) continue;
        for (size_t c = 0; c < dim; c += 2) {
            float cosine = angles[c], sine = sense * angles[c + 1], x = row[head + c], y = row[head + c + 1];
            row[head + c] = x * cosine - y * sine;
            row[head + c + 1] = y * cosine + x * sine;
        }
    }
}

static void rotary_run(const struct cpu_step *s, size_t item, float *held)
{
    const uint32_t *positions = (const uint32_t *)s->at[SLOT_POSITIONS];
    size_t n = s->value[CONST_N], unit = rows_at_once(s), end = block_end(item, unit, step_rows(s));
    for (size_t row = item * unit; row < end; row++) {
        row_load(held, s->at[SLOT_X] + row * n, n);
        if (s->value[CONST_BIAS]) row_add(held, s->at[SLOT_BIAS], n);
        if (s->value[CONST_SUM]) row_store(s->at[SLOT_SUM] + row * n, held, n);
        turn_row(s, s->at[SLOT_POSITION] + (size_t)positions[row] * s->value[CONST_HEAD_DIM], held);
        row_store(s->at[SLOT_Y] + row * n, held, n);
    }
}

static void rotary_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], dim = s->value[CONST_HEAD_DIM], rows = step_rows(s), longest = 0;
    for (uint32_t i = 0; i < c->words[HEADER_SEQUENCES]; i++)
        if (length_of(c, i) > longest) longest = length_of(c, i);
    reads(c, SLOT_X, rows * n);
    count_vector(c, SLOT_BIAS, rows_items(s), n);
    reads(c, SLOT_POSITIONS, rows);
    count_again(c, SLOT_POSITION, rows * dim, longest * dim, longest * count_row_bytes(c));
    writes(c, SLOT_SUM, rows * n);
    writes(c, SLOT_Y, rows * n);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_gate) = {.name = "gate", .items = rows_items, .run = gate_run, .scratch = gate_scratch, .count = gate_count};
const struct cpu_kernel CPU_NAME(cpu_rotary) = {.name = "rotary", .items = rows_items, .run = rotary_run, .scratch = row_scratch, .count = rotary_count};
/* clang-format on */
