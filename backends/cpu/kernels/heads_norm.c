/* heads_norm and heads_norm_backward: norms of single heads of Q and K, and their gradients (the files of those names
 * in cl/). */
#include "rows.h"
#include "traffic.h"

/* Tokens of an item: some 32 KiB of one operand. */
static size_t tokens_at_once(const struct cpu_step *s)
{
    size_t tokens = 8192 / ((size_t)s->value[CONST_N] * s->value[CONST_HEADS] + 1);
    return tokens < 1 ? 1 : tokens > 64 ? 64 : tokens;
}

static size_t heads_items(const struct cpu_step *s) { return blocks_of(step_rows(s), tokens_at_once(s)); }

/* The weight of a head; NULL: it is V's, which has none. */
static const float *gamma_of(const struct cpu_step *s, size_t head)
{
    size_t heads = s->value[CONST_HEADS], values = s->value[CONST_KEY_HEADS];
    if (head >= heads - values) return NULL;
    return s->at[SLOT_GAMMA] + (head < heads - 2 * values ? 0 : s->value[CONST_N]);
}

/* to = held * (gamma, or 1 + gamma) */
static void scale_by(const struct cpu_step *s, float *to, const float *held, const float *gamma, size_t n)
{
    FOR_VECTORS(i, n) v_store(to + i, v_load(held + i) * (v_load_at(gamma, i, n) + row_one(s)));
    row_end(to, n);
}

static bool is_layernorm(const struct cpu_step *s) { return s->value[CONST_RMS] == RMS_NONE; }

static void turn(const float *angles, float *row, size_t n)
{
    for (size_t c = 0; c < n; c += 2) {
        float cosine = angles[c], sine = angles[c + 1], x = row[c], y = row[c + 1];
        row[c] = x * cosine - y * sine;
        row[c + 1] = y * cosine + x * sine;
    }
}

static void heads_run(const struct cpu_step *s, size_t item, float *held)
{
    const uint32_t *positions = (const uint32_t *)s->at[SLOT_POSITIONS];
    size_t n = s->value[CONST_N], heads = s->value[CONST_HEADS], unit = tokens_at_once(s),
           end = block_end(item, unit, step_rows(s));
    for (size_t token = item * unit; token < end; token++)
        for (size_t head = 0; head < heads; head++) {
            const float *gamma = gamma_of(s, head), *x = s->at[SLOT_X] + (token * heads + head) * n;
            row_load(held, x, n);
            if (gamma) {
                row_standardize(s, held, n);
                scale_by(s, held, held, gamma, n);
                if (is_layernorm(s)) row_add(held, s->at[SLOT_BETA] + (gamma - s->at[SLOT_GAMMA]), n);
            }
            if (gamma && s->value[CONST_ROTARY]) turn(s->at[SLOT_POSITION] + (size_t)positions[token] * n, held, n);
            row_store(s->at[SLOT_Y] + (token * heads + head) * n, held, n);
        }
}

static void heads_count(const struct cpu_step *s, struct count *c)
{
    uint64_t rows = step_rows(s), n = s->value[CONST_N], all = rows * n * s->value[CONST_HEADS];
    reads(c, SLOT_X, all);
    count_vector(c, SLOT_GAMMA, heads_items(s), 2 * n);
    count_vector(c, SLOT_BETA, heads_items(s), 2 * n);
    writes(c, SLOT_Y, all);
    if (!s->value[CONST_ROTARY]) return;
    reads(c, SLOT_POSITIONS, rows);
    count_again(c, SLOT_POSITION, rows * n, angle_rows_of(c) * n, angle_rows_of(c) * count_row_bytes(c));
}

/* ---- backward ---- */

static size_t parts_of(const struct cpu_step *s)
{
    size_t parts = s->value[CONST_PARTS], needed = blocks_of(step_rows(s), s->value[CONST_PART_ROWS]);
    return parts < needed ? parts : needed;
}

/* Sums of Q's heads and of K's; of a layernorm's beta as many. */
static size_t sets_of(const struct cpu_step *s) { return is_layernorm(s) ? 4 : 2; }

/* d, z, g, and the sums. */
static size_t backward_scratch(const struct cpu_step *s) { return (3 + sets_of(s)) * padded(s->value[CONST_N]); }

static void run_head(const struct cpu_step *s, size_t at, size_t head, float *scratch)
{
    size_t n = s->value[CONST_N], wide = padded(n), heads = s->value[CONST_HEADS], values = s->value[CONST_KEY_HEADS];
    float *d = scratch, *z = scratch + wide, *g = scratch + 2 * wide;
    row_load(d, s->at[SLOT_X] + at, n);
    if (head >= heads - values) {
        if (s->value[CONST_NORM_DX]) row_store(s->at[SLOT_Y] + at, d, n);
        return;
    }
    float *sums = scratch + (head < heads - 2 * values ? 3 : 4) * wide;
    row_load(z, s->at[SLOT_SAVED] + at, n);
    float root = row_standardize(s, z, n);
    FOR_VECTORS(i, n) v_store(sums + i, v_fma(v_load(d + i), v_load(z + i), v_load(sums + i)));
    if (is_layernorm(s)) row_add(sums + 2 * wide, d, n);
    if (!s->value[CONST_NORM_DX]) return;
    scale_by(s, g, d, gamma_of(s, head), n);
    float along = row_dot(g, z, n) / (float)n;
    if (is_layernorm(s)) row_center(g, n);
    FOR_VECTORS(i, n) v_store(g + i, v_set(root) * v_fma(-v_load(z + i), v_set(along), v_load(g + i)));
    row_store(s->at[SLOT_Y] + at, g, n);
}

static void backward_run(const struct cpu_step *s, size_t part, float *scratch)
{
    size_t n = s->value[CONST_N], wide = padded(n), heads = s->value[CONST_HEADS], rows = step_rows(s),
           unit = s->value[CONST_PART_ROWS];
    memset(scratch + 3 * wide, 0, sets_of(s) * wide * sizeof(float));
    for (size_t first = part * unit; first < rows; first += s->value[CONST_PARTS] * unit)
        for (size_t row = first; row < rows && row < first + unit; row++)
            for (size_t head = 0; head < heads; head++) run_head(s, (row * heads + head) * n, head, scratch);
    if (!s->value[CONST_NORM_DW]) return;
    for (size_t set = 0; set < sets_of(s); set++)
        row_store(s->at[SLOT_PARTIALS] + (part * sets_of(s) + set) * n, scratch + (3 + set) * wide, n);
}

static void backward_count(const struct cpu_step *s, struct count *c)
{
    uint64_t n = s->value[CONST_N], all = step_rows(s) * n * s->value[CONST_HEADS], parts = parts_of(s),
             normed = all / s->value[CONST_HEADS] * (s->value[CONST_HEADS] - s->value[CONST_KEY_HEADS]);
    reads(c, SLOT_X, all);
    reads(c, SLOT_SAVED, normed);
    if (s->value[CONST_NORM_DW]) writes_scratch(c, SLOT_PARTIALS, parts * sets_of(s) * n);
    if (!s->value[CONST_NORM_DX]) return;
    count_vector(c, SLOT_GAMMA, parts, 2 * n);
    writes(c, SLOT_Y, all);
}

/* clang-format off */
const struct cpu_kernel CPU_NAME(cpu_heads_norm) = {.name = "heads_norm", .items = heads_items, .run = heads_run, .scratch = row_scratch, .count = heads_count};
const struct cpu_kernel CPU_NAME(cpu_heads_norm_backward) = {.name = "heads_norm_backward", .items = parts_of, .run = backward_run, .scratch = backward_scratch, .count = backward_count};
/* clang-format on */
