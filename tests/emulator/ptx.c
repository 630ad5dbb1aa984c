/* The instructions of kernels' inline assembly. A statement comes as its text and its operands, 64 bits each; texts are
 * taken apart once. Shared memory's addresses are the low 32 bits of the host's, and 18 of them in descriptors: no
 * work-group has so much that these are ambiguous. */
#include "emulator.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPERANDS = 144, MOST_INSTRUCTIONS = 8, MOST_REGISTERS = 4, NAME_BYTES = 112 };

enum source { OPERAND, REGISTER, LITERAL };

struct instruction;
typedef void execute(const struct instruction *i, uint64_t *values);

struct instruction {
    char name[NAME_BYTES];
    execute *run;
    int n;
    struct operand {
        enum source source;
        uint64_t value; /* number of an operand or register, or the literal */
    } operands[MOST_OPERANDS];
};

struct statement {
    const char *text; /* the program's own: one address is one statement */
    int n, n_registers;
    char registers[MOST_REGISTERS][16];
    struct instruction instructions[MOST_INSTRUCTIONS];
};

static uint64_t locals[MOST_REGISTERS]; /* no statement lets others go on between its instructions' uses of them, but
                                           for what it waits for itself: those save them */

static uint64_t get(const struct instruction *i, const uint64_t *values, int n)
{
    const struct operand *o = &i->operands[n];
    return o->source == LITERAL ? o->value : o->source == REGISTER ? locals[o->value] : values[o->value];
}

static uint32_t get32(const struct instruction *i, const uint64_t *values, int n)
{
    return (uint32_t)get(i, values, n);
}

static void put(const struct instruction *i, uint64_t *values, int n, uint64_t value)
{
    const struct operand *o = &i->operands[n];
    if (o->source == LITERAL) machine_fail("%s writes a literal", i->name);
    *(o->source == REGISTER ? &locals[o->value] : &values[o->value]) = value;
}

static float to_float(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

/* ---- 16-bit floats ---- */

float half_to_float(uint16_t half)
{
    static float table[65536];
    static bool made;
    for (uint32_t h = 0; !made && h < 65536; h++) {
        uint32_t exponent = h >> 10 & 31, fraction = h & 1023;
        float size = exponent == 31 ? (fraction ? NAN : INFINITY)
                     : exponent     ? ldexpf((float)(fraction | 1024), (int)exponent - 25)
                                    : ldexpf((float)fraction, -24);
        table[h] = h & 0x8000 ? -size : size;
    }
    made = true;
    return table[half];
}

/* To nearest, ties to even; beyond the range infinity. */
uint16_t float_to_half(float value)
{
    uint32_t bits = to_bits(value), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7fff);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
    if (size < 0x38800000) /* the halves below 2^-14 are 2^-24 apart, and floats from 2^23 on 1 */
        return (uint16_t)(sign | (to_bits(to_float(size) * 16777216.0f + 8388608.0f) & 0x7fff));
    uint32_t rounded = size - 0x38000000 + 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | rounded >> 13);
}

/* An instruction's 16-bit floats are of one of both types. */
static bool is_bf16(const struct instruction *i) { return strstr(i->name, "bf16") != NULL; }

static float narrow_to_float(const struct instruction *i, uint16_t narrow)
{
    return is_bf16(i) ? to_float((uint32_t)narrow << 16) : half_to_float(narrow);
}

static uint16_t float_to_narrow(const struct instruction *i, float value)
{
    uint32_t bits = to_bits(value);
    if (!is_bf16(i)) return float_to_half(value);
    return isnan(value) ? 0x7fff : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* ---- shared memory ---- */

static unsigned char *shared_at(uint32_t address, uint32_t bytes, uint32_t alignment, const char *what)
{
    const struct module *m = group.launch->module;
    uint32_t offset = address - (uint32_t)(uintptr_t)m->shared;
    if (offset > m->shared_bytes || bytes > m->shared_bytes - offset)
        machine_fail("%s: %u bytes at %d are outside of the %zu of shared memory", what, bytes, (int)offset,
                     m->shared_bytes);
    if (address % alignment) machine_fail("%s: address %u is no multiple of %u", what, offset, alignment);
    return m->shared + offset;
}

/* ---- warps ---- */

static struct lanes *shown(uint32_t lane) /* what a lane shows at the instruction where all have just met */
{
    return &group.warps[item->number / WARP].lanes[item->turn ^ 1][lane];
}

/* Puts words up for the other lanes, and waits until all have. */
static void show(const struct instruction *i, int n, const uint32_t *words)
{
    struct lanes *mine = &group.warps[item->number / WARP].lanes[item->turn][item->number % WARP];
    for (int k = 0; k < n; k++) mine->word[k] = words[k];
    uint64_t saved[MOST_REGISTERS];
    memcpy(saved, locals, sizeof saved);
    warp_meet(i);
    memcpy(locals, saved, sizeof saved);
}

static void run_shuffle(const struct instruction *i, uint64_t *v)
{
    uint32_t word = get32(i, v, 1), lane = item->number % WARP;
    show(i, 1, &word);
    put(i, v, 0, shown(lane ^ get32(i, v, 2))->word[0]);
}

static void run_shuffle_from(const struct instruction *i, uint64_t *v)
{
    uint32_t word = get32(i, v, 1);
    show(i, 1, &word);
    put(i, v, 0, shown(get32(i, v, 2) % WARP)->word[0]);
}

static void run_warp(const struct instruction *i, uint64_t *v)
{
    (void)v;
    show(i, 0, NULL);
}

static void run_nothing(const struct instruction *i, uint64_t *v) { (void)i, (void)v; }

static void run_set_registers(const struct instruction *i, uint64_t *v)
{
    uint32_t registers = get32(i, v, 0);
    if (registers % 8 || registers < 24 || registers > 256) machine_fail("%s %u", i->name, registers);
    show(i, 0, NULL);
}

static void run_barrier(const struct instruction *i, uint64_t *v)
{
    uint32_t number = get32(i, v, 0), items = get32(i, v, 1);
    if (!number || number >= NAMED_BARRIERS) machine_fail("barrier number %u", number);
    if (!items || items % WARP || items > group.launch->items)
        machine_fail("barrier %u of %u work-items", number, items);
    show(i, 0, NULL);
    meet(&group.named[number], number, items, !strncmp(i->name, "bar.sync", 8));
}

/* ---- small arithmetic ---- */

static void run_pack(const struct instruction *i, uint64_t *v)
{
    uint32_t high = float_to_narrow(i, to_float(get32(i, v, 1))), low = float_to_narrow(i, to_float(get32(i, v, 2)));
    put(i, v, 0, high << 16 | low);
}

/* No number becomes the one that PTX has for it. */
static void run_pack_relu(const struct instruction *i, uint64_t *v)
{
    float high = to_float(get32(i, v, 1)), low = to_float(get32(i, v, 2));
    uint32_t packed_high = isnan(high) ? 0x7fff : float_to_narrow(i, high > 0 ? high : 0),
             packed_low = isnan(low) ? 0x7fff : float_to_narrow(i, low > 0 ? low : 0);
    put(i, v, 0, packed_high << 16 | packed_low);
}

static float flushed(float x) { return fabsf(x) < 1.17549435e-38f ? 0.0f : x; }

static void run_exp2(const struct instruction *i, uint64_t *v)
{
    put(i, v, 0, to_bits(flushed(exp2f(flushed(to_float(get32(i, v, 1)))))));
}

static void run_min_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), low_a = a & 0xffff, low_b = b & 0xffff;
    put(i, v, 0, (a >> 16 < b >> 16 ? a >> 16 : b >> 16) << 16 | (low_a < low_b ? low_a : low_b));
}

static void run_not_less_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), result = 0;
    if (half_to_float((uint16_t)a) >= half_to_float((uint16_t)b)) result |= 0xffff;
    if (half_to_float((uint16_t)(a >> 16)) >= half_to_float((uint16_t)(b >> 16))) result |= 0xffff0000;
    put(i, v, 0, result);
}

static void run_above_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), result = 0;
    if (half_to_float((uint16_t)a) > half_to_float((uint16_t)b)) result |= 0xffff;
    if (half_to_float((uint16_t)(a >> 16)) > half_to_float((uint16_t)(b >> 16))) result |= 0xffff0000;
    put(i, v, 0, result);
}

static void run_less_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), result = 0;
    for (int half = 0; half < 32; half += 16)
        result |= (uint32_t)float_to_half(half_to_float((uint16_t)(a >> half)) - half_to_float((uint16_t)(b >> half)))
                  << half;
    put(i, v, 0, result);
}

static void run_add_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), result = 0;
    for (int half = 0; half < 32; half += 16)
        result |= (uint32_t)float_to_narrow(i, narrow_to_float(i, (uint16_t)(a >> half)) +
                                                   narrow_to_float(i, (uint16_t)(b >> half)))
                  << half;
    put(i, v, 0, result);
}

static void run_multiply_halves(const struct instruction *i, uint64_t *v)
{
    uint32_t a = get32(i, v, 1), b = get32(i, v, 2), result = 0;
    for (int half = 0; half < 32; half += 16)
        result |= (uint32_t)float_to_narrow(i, narrow_to_float(i, (uint16_t)(a >> half)) *
                                                   narrow_to_float(i, (uint16_t)(b >> half)))
                  << half;
    put(i, v, 0, result);
}

static void run_permute(const struct instruction *i, uint64_t *v)
{
    uint64_t from = (uint64_t)get32(i, v, 2) << 32 | get32(i, v, 1);
    uint32_t selector = get32(i, v, 3), result = 0;
    for (int byte = 0; byte < 4; byte++) {
        uint32_t which = selector >> 4 * byte & 15;
        if (which > 7) machine_fail("%s spreads signs", i->name);
        result |= (uint32_t)(from >> 8 * which & 0xff) << 8 * byte;
    }
    put(i, v, 0, result);
}

static void run_load(const struct instruction *i, uint64_t *v)
{
    uint64_t from = get(i, v, 4);
    uint32_t words[4];
    if (from % sizeof words || !memory_holds((const void *)(uintptr_t)from, sizeof words))
        machine_fail("%s from %llx, which is in no buffer or no multiple of 16", i->name, (unsigned long long)from);
    memcpy(words, (const void *)(uintptr_t)from, sizeof words);
    for (int w = 0; w < 4; w++) put(i, v, w, words[w]);
}

static void run_not_equal(const struct instruction *i, uint64_t *v) { put(i, v, 0, get32(i, v, 1) != get32(i, v, 2)); }

static void run_select(const struct instruction *i, uint64_t *v)
{
    put(i, v, 0, get(i, v, 3) ? get32(i, v, 1) : get32(i, v, 2));
}

/* ---- barriers in shared memory ---- */

static struct mbarrier *mbarrier_at(const struct instruction *i, uint32_t address, bool begin)
{
    uint32_t number = (uint32_t)(shared_at(address, 8, 8, i->name) - group.launch->module->shared) / 8;
    struct mbarrier *m = &group.mbarriers[number];
    if (m->live == begin)
        machine_fail("%s: the mbarrier at %u is %s", i->name, number * 8, begin ? "there" : "not there");
    if (!begin) return m;
    if (group.n_used == sizeof group.used / sizeof *group.used) machine_fail("too many mbarriers for the emulator");
    group.used[group.n_used++] = number;
    *m = (struct mbarrier){.live = true};
    return m;
}

static void mbarrier_check(struct mbarrier *m)
{
    if (m->pending || m->bytes) return;
    m->phase++;
    m->pending = m->arrivals;
}

static void run_mbarrier_init(const struct instruction *i, uint64_t *v)
{
    struct mbarrier *m = mbarrier_at(i, get32(i, v, 0), true);
    m->arrivals = m->pending = get32(i, v, 1);
    if (!m->arrivals) machine_fail("an mbarrier for no arrivals");
}

static void arrive(const struct instruction *i, uint32_t address, uint32_t bytes)
{
    struct mbarrier *m = mbarrier_at(i, address, false);
    if (!m->pending)
        machine_fail("more arrivals than the %u that the mbarrier's phase %u takes", m->arrivals, m->phase);
    m->bytes += bytes;
    m->pending--;
    mbarrier_check(m);
}

static void run_arrive(const struct instruction *i, uint64_t *v) { arrive(i, get32(i, v, 1), 0); }
static void run_expect(const struct instruction *i, uint64_t *v) { arrive(i, get32(i, v, 1), get32(i, v, 2)); }

/* The phase that is under way has one parity, all that have ended count as of the other. */
static void run_try_wait(const struct instruction *i, uint64_t *v)
{
    uint32_t address = get32(i, v, 1), parity = get32(i, v, 2);
    struct mbarrier *m = mbarrier_at(i, address, false);
    bool ended = (m->phase & 1) != parity;
    if (!ended) ended = item_wait_phase(&m->phase, m->phase, (uint32_t)(m - group.mbarriers) * 8);
    put(i, v, 0, ended);
}

/* ---- what work-groups tell one another, who run one after the other ---- */

static void run_add(const struct instruction *i, uint64_t *v)
{
    uint32_t *at = (uint32_t *)(uintptr_t)get(i, v, 1);
    if ((uintptr_t)at % sizeof *at || !memory_holds(at, sizeof *at))
        machine_fail("%s to %p, which is in no buffer or no multiple of 4", i->name, (void *)at);
    uint32_t before = *at;
    *at = before + get32(i, v, 2);
    put(i, v, 0, before);
}

static void run_add_floats(const struct instruction *i, uint64_t *v)
{
    float *at = (float *)(uintptr_t)get(i, v, 0);
    if ((uintptr_t)at % 8 || !memory_holds(at, 8))
        machine_fail("%s to %p, which is in no buffer or no multiple of 8", i->name, (void *)at);
    for (int w = 0; w < 2; w++) at[w] += to_float(get32(i, v, 1 + w));
}

/* ---- copies ---- */

static void copy_make(const struct copy *c)
{
    void *to = shared_at(c->to, c->size, c->size, "cp.async");
    memset(to, 0, c->size);
    if (c->bytes) memcpy(to, c->from, c->bytes);
}

static void run_copy(const struct instruction *i, uint64_t *v)
{
    struct copy c = {.to = get32(i, v, 0), .from = (const void *)(uintptr_t)get(i, v, 1), .group = item->copy_group};
    const bool small = strstr(i->name, ".ca."); /* 4, 8 or 16 bytes, else 16 */
    c.size = get32(i, v, 2);
    c.bytes = i->n > 3 ? get32(i, v, 3) : c.size;
    if ((c.size != 16 && !(small && (c.size == 4 || c.size == 8))) || c.bytes > c.size)
        machine_fail("%s of %u bytes", i->name, c.bytes);
    shared_at(c.to, c.size, c.size, i->name);
    if (c.bytes && ((uintptr_t)c.from % c.size || !memory_holds(c.from, c.bytes)))
        machine_fail("%s from %p, which is in no buffer or no multiple of %u", i->name, c.from, c.size);
    if (item->n_copies == item->room) {
        item->room = item->room ? item->room * 2 : 64;
        item->copies = realloc(item->copies, item->room * sizeof *item->copies);
        if (!item->copies) abort();
    }
    item->copies[item->n_copies++] = c;
}

static void run_copies_commit(const struct instruction *i, uint64_t *v)
{
    (void)i, (void)v;
    item->copy_group++;
}

/* All groups but the last `left`; what was not committed stays. */
static void copies_make(uint32_t left)
{
    uint32_t kept = 0;
    for (uint32_t n = 0; n < item->n_copies; n++)
        if (item->copies[n].group + left < item->copy_group)
            copy_make(&item->copies[n]);
        else
            item->copies[kept++] = item->copies[n];
    item->n_copies = kept;
}

static void run_copies_wait(const struct instruction *i, uint64_t *v) { copies_make(get32(i, v, 0)); }

void item_finish(void)
{
    if (item->n_copies) item_yield();
    item->copy_group++;
    copies_make(0);
}

/* ---- tensor maps: 128 bytes, as this emulator lays them out ---- */

struct map {
    uint64_t address, stride; /* in units of 16 bytes */
    uint32_t rank, box[2], sizes[2], steps[2], type, interleave, swizzle, fill;
    uint32_t unused[17];
};
_Static_assert(sizeof(struct map) == 128, "a tensor map has 128 bytes");

static struct map *map_at(const struct instruction *i, uint64_t *v)
{
    return (struct map *)(void *)shared_at(get32(i, v, 0), 128, 128, i->name);
}

static uint32_t *map_field(const struct instruction *i, struct map *m, uint32_t dimension)
{
    const char *name = i->name + strlen("tensormap.replace.tile.");
    if (dimension > 1) machine_fail("%s of dimension %u", i->name, dimension);
    return !strncmp(name, "box_dim", 7)          ? &m->box[dimension]
           : !strncmp(name, "global_dim", 10)    ? &m->sizes[dimension]
           : !strncmp(name, "element_stride", 8) ? &m->steps[dimension]
           : !strncmp(name, "rank", 4)           ? &m->rank
           : !strncmp(name, "elemtype", 8)       ? &m->type
           : !strncmp(name, "interleave", 10)    ? &m->interleave
           : !strncmp(name, "swizzle", 7)        ? &m->swizzle
           : !strncmp(name, "fill", 4)           ? &m->fill
                                                 : NULL;
}

static void run_map_replace(const struct instruction *i, uint64_t *v)
{
    struct map *m = map_at(i, v);
    if (strstr(i->name, "global_address")) {
        m->address = get(i, v, 1);
    } else if (strstr(i->name, "global_stride")) {
        m->stride = get(i, v, 2);
    } else {
        uint32_t *field = map_field(i, m, i->n > 2 ? get32(i, v, 1) : 0);
        if (!field) machine_fail("unknown: %s", i->name);
        *field = get32(i, v, i->n - 1);
    }
}

static void run_map_publish(const struct instruction *i, uint64_t *v)
{
    void *to = (void *)(uintptr_t)get(i, v, 0);
    show(i, 0, NULL);
    if (!memory_holds(to, 128)) machine_fail("%s to %p, which is in no buffer", i->name, to);
    memcpy(to, shared_at(get32(i, v, 1), 128, 128, i->name), 128);
}

static void run_map_acquire(const struct instruction *i, uint64_t *v)
{
    if (item->n_acquired == sizeof item->acquired / sizeof *item->acquired) machine_fail("%s: too many maps", i->name);
    item->acquired[item->n_acquired++] = (const void *)(uintptr_t)get(i, v, 0);
}

/* ---- the tensor copy engine ---- */

static struct load {
    uint32_t to, column, row, barrier;
    struct map map;
} loads[256];
static uint32_t n_loads;

static void map_check(const struct instruction *i, const struct map *m)
{
    const char *wrong = m->rank != 1                                  ? "rank"
                        : m->type != 6                                ? "type"
                        : m->interleave || m->swizzle != 3 || m->fill ? "layout"
                        : m->steps[0] != 1 || m->steps[1] != 1        ? "steps"
                        : m->box[0] != 64                             ? "box's columns, of which the emulator takes 64"
                        : !m->box[1] || m->box[1] > 256               ? "box's rows"
                        : m->address % 16                             ? "address"
                        : !m->sizes[0] || !m->sizes[1]                ? "sizes"
                        : (uint64_t)m->sizes[0] * 2 > m->stride * 16 && m->sizes[1] > 1 ? "stride"
                                                                                        : NULL;
    if (wrong)
        machine_fail("%s by a map with a wrong %s (%u x %u at %llx, stride 16 * %llu, box %u x %u)", i->name, wrong,
                     m->sizes[1], m->sizes[0], (unsigned long long)m->address, (unsigned long long)m->stride, m->box[1],
                     m->box[0]);
    size_t all = (size_t)(m->sizes[1] - 1) * m->stride * 16 + (size_t)m->sizes[0] * 2;
    if (!memory_holds((const void *)(uintptr_t)m->address, all))
        machine_fail("%s by a map of %u x %u at %llx, stride 16 * %llu, which is in no buffer", i->name, m->sizes[1],
                     m->sizes[0], (unsigned long long)m->address, (unsigned long long)m->stride);
}

static void run_tensor_load(const struct instruction *i, uint64_t *v)
{
    const void *map = (const void *)(uintptr_t)get(i, v, 1);
    bool acquired = false;
    for (uint32_t n = 0; n < item->n_acquired; n++) acquired |= item->acquired[n] == map;
    if (!acquired) machine_fail("%s by a map that was not acquired", i->name);
    if ((uintptr_t)map % 64 || !memory_holds(map, 128)) machine_fail("%s by a map at %p", i->name, map);
    struct load l = {get32(i, v, 0), get32(i, v, 2), get32(i, v, 3), get32(i, v, 4), .map = *(const struct map *)map};
    map_check(i, &l.map);
    shared_at(l.to, l.map.box[1] * 128, 128, i->name);
    mbarrier_at(i, l.barrier, false);
    if (n_loads == sizeof loads / sizeof *loads) instructions_finish();
    loads[n_loads++] = l;
}

static void load_make(const struct load *l)
{
    const struct map *m = &l->map;
    for (uint32_t r = 0; r < m->box[1]; r++)
        for (uint32_t c = 0; c < 64; c++) {
            uint32_t to = l->to + r * 128 + c * 2;
            uint64_t row = (uint64_t)l->row + r, column = (uint64_t)l->column + c;
            uint16_t value = 0;
            if (row < m->sizes[1] && column < m->sizes[0])
                memcpy(&value, (const unsigned char *)(uintptr_t)m->address + row * m->stride * 16 + column * 2, 2);
            memcpy(shared_at(to ^ (to >> 7 & 7) << 4, 2, 2, "a tensor's copy"), &value, 2);
        }
    static const struct instruction ended = {.name = "a tensor's copy"};
    struct mbarrier *b = mbarrier_at(&ended, l->barrier, false);
    b->bytes -= m->box[1] * 128;
    mbarrier_check(b);
}

bool instructions_pending(void) { return n_loads > 0; }

/* The last one first: nothing orders them. */
void instructions_finish(void)
{
    while (n_loads) load_make(&loads[--n_loads]);
}

/* ---- matrices of a warp ---- */

static void run_load_matrices(const struct instruction *i, uint64_t *v)
{
    bool transposed = strstr(i->name, ".trans");
    uint32_t address = get32(i, v, 4), lane = item->number % WARP;
    show(i, 1, &address);
    for (uint32_t m = 0; m < 4; m++) {
        uint32_t word = 0;
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
            uint16_t half;
            memcpy(&half, shared_at(shown(m * 8 + row)->word[0], 16, 16, i->name) + column * 2, 2);
            word |= (uint32_t)half << 16 * e;
        }
        put(i, v, (int)m, word);
    }
    show(i, 0, NULL); /* what a lane stores next comes after all lanes' loads */
}

static void run_store_matrices(const struct instruction *i, uint64_t *v)
{
    bool transposed = strstr(i->name, ".trans");
    uint32_t address = get32(i, v, 0), lane = item->number % WARP;
    show(i, 1, &address);
    for (uint32_t m = 0; m < 4; m++)
        for (uint32_t e = 0; e < 2; e++) {
            uint32_t row = transposed ? lane % 4 * 2 + e : lane / 4, column = transposed ? lane / 4 : lane % 4 * 2 + e;
            uint16_t half = (uint16_t)(get32(i, v, 1 + (int)m) >> 16 * e);
            memcpy(shared_at(shown(m * 8 + row)->word[0], 16, 16, i->name) + column * 2, &half, 2);
        }
}

static float narrow_of(const struct instruction *i, uint32_t word, uint32_t number)
{
    return narrow_to_float(i, (uint16_t)(word >> 16 * number));
}

/* Operands as floats, for all lanes by the first one that comes here after the meeting; NULL for the others. */
static float *factors_make(void)
{
    struct warp *w = &group.warps[item->number / WARP];
    if (w->factors_of == w->generation) return NULL;
    w->factors_of = w->generation;
    return w->factors;
}

/* d[16][8] = a[16][16] b[16][8] + c; lane 4 g + q has rows g and g + 8, columns 2 q and 2 q + 1. */
static void run_mma(const struct instruction *i, uint64_t *v)
{
    uint32_t words[6], lane = item->number % WARP;
    for (int k = 0; k < 6; k++) words[k] = get32(i, v, 4 + k);
    show(i, 6, words);
    float *make = factors_make();
    for (uint32_t r = 0; make && r < 24; r++) /* rows of a, then columns of b */
        for (uint32_t k = 0; k < 16; k++) {
            const uint32_t *word = shown(r % 8 * 4 + k % 8 / 2)->word;
            make[r * 16 + k] = narrow_of(i, word[r < 16 ? r / 8 + k / 8 * 2 : 4 + k / 8], k % 2);
        }
    const float *factors = group.warps[item->number / WARP].factors;
    for (uint32_t d = 0; d < 4; d++) {
        const float *a = factors + (lane / 4 + d / 2 * 8) * 16, *b = factors + (16 + lane % 4 * 2 + d % 2) * 16;
        float sum = to_float(get32(i, v, 10 + (int)d));
        for (uint32_t k = 0; k < 16; k++) sum += a[k] * b[k];
        words[d] = to_bits(sum);
    }
    for (int d = 0; d < 4; d++) put(i, v, d, words[d]);
}

/* ---- wgmma ---- */

struct matrix { /* in shared memory, permuted by 128 bytes */
    uint32_t at, leading, stride;
    bool transposed; /* k is the slow dimension */
};

static struct matrix matrix_of(const struct instruction *i, uint64_t descriptor, uint64_t transposed)
{
    const struct module *m = group.launch->module;
    uint32_t base = (uint32_t)(uintptr_t)m->shared, low = (uint32_t)(descriptor & 0x3fff) << 4;
    /* Steps that kernels add may carry out of the address's 14 bits here, where shared memory begins anywhere. */
    if (descriptor >> 62 != 1 || descriptor >> 49 & 7 || descriptor & UINT64_C(0x1c000c0000000))
        machine_fail("%s: descriptor %llx", i->name, (unsigned long long)descriptor);
    return (struct matrix){.at = base + ((low - base) & 0x3ffff),
                           .leading = (uint32_t)(descriptor >> 16 & 0x3fff) << 4,
                           .stride = (uint32_t)(descriptor >> 32 & 0x3fff) << 4,
                           .transposed = transposed};
}

static float element(const struct instruction *i, const struct matrix *m, uint32_t row, uint32_t k)
{
    uint32_t at = m->transposed ? m->at + row / 64 * m->leading + k / 8 * m->stride + k % 8 * 128 + row % 64 * 2
                                : m->at + row / 8 * m->stride + row % 8 * 128 + k * 2;
    uint16_t half;
    memcpy(&half, shared_at(at ^ (at >> 7 & 7) << 4, 2, 2, "wgmma"), 2);
    return narrow_to_float(i, half);
}

/* A warpgroup's product has ended when it has for all four warps: that one of them may then let go of the operands for
 * all is what CUTLASS relies on. */
static void run_wgmma_wait(const struct instruction *i, uint64_t *v)
{
    (void)v;
    show(i, 0, NULL);
    uint32_t number = item->number / WARPGROUP;
    if ((number + 1) * WARPGROUP > group.launch->items) machine_fail("%s by less than a warpgroup", i->name);
    meet(&group.warpgroups[number], NAMED_BARRIERS + number, WARPGROUP, true);
}

/* Each work-item makes its own sums, at once: the others of its warpgroup may have made theirs before, or not yet. */
static void run_wgmma(const struct instruction *i, uint64_t *v)
{
    uint32_t columns = (uint32_t)strtoul(i->name + strlen("wgmma.mma_async.sync.aligned.m64n"), NULL, 10);
    int sums = (int)columns / 2;
    bool registers = i->n == sums + 4 + 1 + 4;
    if (!registers && i->n != sums + 2 + 5) machine_fail("%s with %d operands", i->name, i->n);
    int last = sums + (registers ? 4 : 1); /* b's descriptor */
    if (get(i, v, last + 2) != 1 || get(i, v, last + 3) != 1) machine_fail("%s with other signs", i->name);
    bool more = get(i, v, last + 1);
    uint32_t words[4] = {0}, lane = item->number % WARP, row = item->number % 128 / WARP * 16 + lane / 4;
    for (int k = 0; registers && k < 4; k++) words[k] = get32(i, v, sums + k);
    show(i, 4, words);
    float a[2][16];
    struct matrix b = matrix_of(i, get(i, v, last), get(i, v, i->n - 1)), x = {0};
    if (!registers) x = matrix_of(i, get(i, v, sums), get(i, v, i->n - 2));
    for (uint32_t h = 0; h < 2; h++)
        for (uint32_t k = 0; k < 16; k++)
            a[h][k] = registers ? narrow_of(i, shown(lane / 4 * 4 + k % 8 / 2)->word[h + k / 8 * 2], k % 2)
                                : element(i, &x, row + h * 8, k);
    float *make = factors_make();
    for (uint32_t c = 0; make && c < columns; c++)
        for (uint32_t k = 0; k < 16; k++) make[c * 16 + k] = element(i, &b, c, k);
    for (uint32_t c = 0; c < columns; c += 8)
        for (uint32_t e = 0; e < 2; e++) {
            const float *factors = group.warps[item->number / WARP].factors + (c + lane % 4 * 2 + e) * 16;
            int first = (int)(c / 2 + e);
            float sum0 = more ? to_float(get32(i, v, first)) : 0, sum1 = more ? to_float(get32(i, v, first + 2)) : 0;
            for (uint32_t k = 0; k < 16; k++) {
                sum0 += a[0][k] * factors[k];
                sum1 += a[1][k] * factors[k];
            }
            put(i, v, first, to_bits(sum0));
            put(i, v, first + 2, to_bits(sum1));
        }
}

/* ---- texts ---- */

/* A name that ends with '*' stands for all that begin so. */
static const struct known {
    const char *name;
    execute *run;
    bool hopper;
} known[] = {
    {"shfl.sync.bfly.b32", run_shuffle, false},
    {"shfl.sync.idx.b32", run_shuffle_from, false},
    {"fence.acq_rel.gpu", run_nothing, false},
    {"atom.relaxed.gpu.global.add.u32", run_add, false},
    {"red.relaxed.gpu.global.add.v2.f32", run_add_floats, false},
    {"ld.relaxed.gpu.global.v4.f32", run_load, false},
    {"bar.warp.sync", run_warp, false},
    {"bar.sync", run_barrier, false},
    {"bar.arrive", run_barrier, false},
    {"cvt.rn.f16x2.f32", run_pack, false},
    {"cvt.rn.bf16x2.f32", run_pack, false},
    {"ld.global.nc.v4.u32", run_load, false},
    {"ex2.approx.ftz.f32", run_exp2, false},
    {"prmt.b32", run_permute, false},
    {"min.u16x2", run_min_halves, false},
    {"sub.rn.f16x2", run_less_halves, false},
    {"add.rn.f16x2", run_add_halves, false},
    {"add.rn.bf16x2", run_add_halves, false},
    {"mul.rn.f16x2", run_multiply_halves, false},
    {"mul.rn.bf16x2", run_multiply_halves, false},
    {"set.ge.u32.f16x2", run_not_less_halves, false},
    {"set.gt.u32.f16x2", run_above_halves, false},
    {"cvt.rn.relu.f16x2.f32", run_pack_relu, false},
    {"cvt.rn.relu.bf16x2.f32", run_pack_relu, false},
    {"setp.ne.u32", run_not_equal, false},
    {"selp.u32", run_select, false},
    {"stmatrix.sync.aligned.m8n8.x4.*", run_store_matrices, false},
    {"ldmatrix.sync.aligned.m8n8.x4.*", run_load_matrices, false},
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", run_mma, false},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", run_mma, false},
    {"mbarrier.init.shared::cta.b64", run_mbarrier_init, false},
    {"mbarrier.arrive.shared::cta.b64", run_arrive, false},
    {"mbarrier.arrive.expect_tx.shared::cta.b64", run_expect, false},
    {"mbarrier.try_wait.parity.shared::cta.b64", run_try_wait, false},
    {"fence.proxy.async.shared::cta", run_nothing, false},
    {"fence.proxy.tensormap::generic.acquire.gpu", run_map_acquire, false},
    {"cp.async.cg.shared.global", run_copy, false},
    {"cp.async.ca.shared.global", run_copy, false},
    {"cp.async.commit_group", run_copies_commit, false},
    {"cp.async.wait_group", run_copies_wait, false},
    {"cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes", run_tensor_load, false},
    {"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned", run_map_publish, false},
    {"tensormap.replace.tile.*", run_map_replace, true},
    {"setmaxnreg.*", run_set_registers, true},
    {"wgmma.fence.sync.aligned", run_warp, true},
    {"wgmma.commit_group.sync.aligned", run_warp, true},
    {"wgmma.wait_group.sync.aligned", run_wgmma_wait, true},
    {"wgmma.mma_async.*", run_wgmma, true},
};

static execute *find(const char *name)
{
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        size_t n = strlen(known[k].name);
        bool any = known[k].name[n - 1] == '*';
        if (any ? strncmp(name, known[k].name, n - 1) : strcmp(name, known[k].name)) continue;
        if (known[k].hopper && !group.launch->module->hopper) machine_fail("%s needs the target sm_90a", name);
        return known[k].run;
    }
    machine_fail("the emulator does not know the instruction %s", name);
}

static struct operand operand_of(const struct statement *s, const char *token, const char *name)
{
    if (token[0] == '%') return (struct operand){OPERAND, strtoul(token + 1, NULL, 10)};
    if (isdigit((unsigned char)token[0])) return (struct operand){LITERAL, strtoull(token, NULL, 0)};
    for (int r = 0; r < s->n_registers; r++)
        if (!strcmp(s->registers[r], token)) return (struct operand){REGISTER, (uint64_t)r};
    machine_fail("%s: what is \"%s\"?", name, token);
}

/* One instruction up to its semicolon: a name, then operands, whose brackets and braces say nothing that the name does
 * not. A declaration adds registers. */
static void take_apart(struct statement *s, const char *text, size_t length)
{
    static const char separators[] = " \t\n,[]{}";
    char copy[4096], *next;
    if (length >= sizeof copy) machine_fail("an instruction of %zu characters", length);
    memcpy(copy, text, length);
    copy[length] = 0;
    char *name = strtok_r(copy, separators, &next);
    if (!name) return;
    if (!strcmp(name, ".reg")) {
        strtok_r(NULL, separators, &next); /* the type */
        for (char *token; (token = strtok_r(NULL, separators, &next));) {
            if (s->n_registers == MOST_REGISTERS) machine_fail("more registers than the emulator takes");
            snprintf(s->registers[s->n_registers++], sizeof s->registers[0], "%s", token);
        }
        return;
    }
    if (s->n == MOST_INSTRUCTIONS) machine_fail("more instructions than the emulator takes");
    struct instruction *i = &s->instructions[s->n++];
    snprintf(i->name, sizeof i->name, "%s", name);
    i->run = find(name);
    for (char *token; (token = strtok_r(NULL, separators, &next));) {
        if (i->n == MOST_OPERANDS) machine_fail("%s: more operands than the emulator takes", i->name);
        i->operands[i->n++] = operand_of(s, token, i->name);
    }
}

enum { STATEMENTS = 4096 };
static struct statement *statements[STATEMENTS];

void instructions_forget(void)
{
    n_loads = 0;
    for (size_t n = 0; n < STATEMENTS; n++) {
        free(statements[n]);
        statements[n] = NULL;
    }
}

static struct statement *decode(const char *text)
{
    size_t at = (uintptr_t)text * 11400714819323198485u >> 52, tried = 0;
    while (statements[at] && statements[at]->text != text && tried++ < STATEMENTS) at = (at + 1) % STATEMENTS;
    if (statements[at] && statements[at]->text == text) return statements[at];
    if (statements[at]) machine_fail("more statements than the emulator takes");
    struct statement *s = calloc(1, sizeof *s);
    if (!s) abort();
    s->text = text;
    statements[at] = s;
    for (const char *c = text; *c;) {
        c += strspn(c, " \t\n{}");
        if (!strncmp(c, "//", 2)) { /* a mark that was not removed makes a comment */
            c += strcspn(c, "\n");
            continue;
        }
        size_t length = strcspn(c, ";");
        take_apart(s, c, length);
        c += length + (c[length] == ';');
    }
    return s;
}

/* What every asm statement of a kernel becomes. */
EXPORT void emulate(const char *text, uint64_t *operands);
void emulate(const char *text, uint64_t *operands)
{
    const struct statement *s = decode(text);
    for (int n = 0; n < s->n; n++) s->instructions[n].run(&s->instructions[n], operands);
}
