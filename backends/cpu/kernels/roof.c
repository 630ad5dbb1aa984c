/* The kernels that measure ceilings: roof_memory and roof_arithmetic (the files of those names in cl/). An item is what
 * a work-group is there. */
#include "interface/roof.h"
#include "vector.h"

#include "backends/cpu/step.h"

static size_t groups(const struct cpu_step *s) { return s->batch[ROOF_GROUPS]; }

/* Words that a group moves in one turn. */
static size_t chunk_words(const struct cpu_step *s)
{
    return (size_t)s->value[CONST_LOCAL_SIZE] * s->value[CONST_THREAD_M] * s->value[CONST_N];
}

static uint32_t read_words(const uint32_t *from, size_t count)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < count; i++) sum += from[i];
    return sum;
}

static void write_words(const struct cpu_step *s, uint32_t *to, uint32_t first, size_t count)
{
    uint32_t mask = s->batch[ROOF_MASK], bits = s->batch[ROOF_BITS], salt = first + s->batch[ROOF_SALT];
    for (size_t i = 0; i < count; i++) to[i] = (ROOF_MIX(ROOF_SCATTER((uint32_t)i + salt)) & mask) | bits;
}

static void triad(const float *x, const float *w, float *y, size_t count)
{
    for (size_t i = 0; i < count; i++) y[i] = x[i] + 0.5f * w[i];
}

static void memory_run(const struct cpu_step *s, size_t group, float *scratch)
{
    (void)scratch;
    const uint32_t *batch = s->batch;
    size_t words = chunk_words(s), chunks = batch[ROOF_CHUNKS], at = group * batch[ROOF_FIRST] % chunks;
    uint32_t form = s->value[CONST_FORM], sum = 0;
    for (uint32_t turn = 0; turn < batch[ROOF_TURNS]; turn++) {
        size_t first = (group * batch[ROOF_OWN] + at) * words;
        if (form == ROOF_READ) sum += read_words((const uint32_t *)s->at[SLOT_X] + first, words);
        if (form == ROOF_WRITE) write_words(s, (uint32_t *)s->at[SLOT_Y] + first, (uint32_t)first, words);
        if (form == ROOF_COPY) memcpy(s->at[SLOT_Y] + first, s->at[SLOT_X] + first, words * sizeof(float));
        if (form == ROOF_TRIAD) triad(s->at[SLOT_X] + first, s->at[SLOT_W] + first, s->at[SLOT_Y] + first, words);
        at += batch[ROOF_STEP];
        if (at >= chunks) at -= chunks;
    }
    if (form == ROOF_READ) ((uint32_t *)s->at[SLOT_Y])[group] = sum;
}

/* Eight chains of vectors, as many as hide an fma's latency: LANES of them are what LANES / 8 work-items with one
 * vector each have, in turn. */
enum { CHAINS = 8 };

static void arithmetic_turns(const struct cpu_step *s, vec chain[CHAINS])
{
    float factor, addend;
    memcpy(&factor, &s->batch[ROOF_FACTOR], sizeof factor);
    memcpy(&addend, &s->batch[ROOF_ADDEND], sizeof addend);
    vec m = v_set(factor), c = v_set(addend), a[CHAINS];
    for (int i = 0; i < CHAINS; i++) a[i] = chain[i];
    for (uint32_t turn = 0; turn < s->batch[ROOF_TURNS]; turn++)
        for (int u = 0; u < ROOF_UNROLLED; u++)
            for (int i = 0; i < CHAINS; i++) a[i] = v_fma(a[i], m, c);
    for (int i = 0; i < CHAINS; i++) chain[i] = a[i];
}

/* Of all chains of a group, [work-item][vector][8]: what they begin with, and each work-item's sum. Both take little
 * beside the chains, which the kernel is there for. */
static void start_chains(float *at, size_t items, size_t vectors)
{
    for (size_t item = 0; item < items; item++)
        for (size_t vector = 0; vector < vectors; vector++)
            for (size_t c = 0; c < 8; c++)
                *at++ = (float)item * (1.0f / 1024.0f) + (float)vector * 0.125f + (float)c * 0.01f;
}

static void sum_chains(const float *at, size_t items, size_t vectors, float *y)
{
    for (size_t item = 0; item < items; item++) {
        float sum[8] = {0};
        for (size_t vector = 0; vector < vectors; vector++, at += 8)
            for (size_t c = 0; c < 8; c++) sum[c] += at[c];
        y[item] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    }
}

static void arithmetic_run(const struct cpu_step *s, size_t group, float *scratch)
{
    size_t local = s->value[CONST_LOCAL_SIZE], vectors = s->value[CONST_THREAD_M], all = local * vectors * 8;
    start_chains(scratch, local, vectors);
    memset(scratch + all, 0, CHAINS * LANES * sizeof *scratch); /* the last ones may lack neighbours */
    for (size_t first = 0; first < all; first += CHAINS * LANES) {
        vec chain[CHAINS];
        for (int i = 0; i < CHAINS; i++) chain[i] = v_load(scratch + first + (size_t)i * LANES);
        arithmetic_turns(s, chain);
        for (int i = 0; i < CHAINS; i++) v_store(scratch + first + (size_t)i * LANES, chain[i]);
    }
    sum_chains(scratch, local, vectors, s->at[SLOT_Y] + group * local);
}

static size_t arithmetic_scratch(const struct cpu_step *s)
{
    return (size_t)s->value[CONST_LOCAL_SIZE] * 8 * s->value[CONST_THREAD_M] + CHAINS * LANES;
}

const struct cpu_kernel CPU_NAME(cpu_roof_memory) = {.name = "roof_memory", .items = groups, .run = memory_run};
const struct cpu_kernel CPU_NAME(cpu_roof_arithmetic) = {
    .name = "roof_arithmetic", .items = groups, .run = arithmetic_run, .scratch = arithmetic_scratch};
