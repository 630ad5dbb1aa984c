/* The works whose layouts are measured: the paper's fused kernels and any contraction of two operands, their spaces of
 * configurations, and the kernel calls that run them. */
#include "measure/layout_bench.h"

#include <stdio.h>
#include <string.h>

#define ALONE(letter) (-1 - (letter))
enum { U = LAYOUT_UNIFORM_VALUES, K = LAYOUT_MASK_VALUES, P = LAYOUT_POSITIVE_VALUES };

/* As section 3 of the paper's code has them; the orders' numbers are those of the constants in cl/layout_rows.cl. */
const struct layout_form layout_forms[LAYOUT_FORMS] = {
    [LAYOUT_AIB] = {"AIB",
                    "hpbj",
                    "hpbj,hpbj,hp",
                    "bj",
                    "bj",
                    "",
                    {{0, U}, {0, U}, {0, U}, {2, U}, {2, U}, {2, U}},
                    {{1, U}, {1, U}, {1, U}},
                    6,
                    3},
    [LAYOUT_SM] = {"SM", "hbjk", "hbjk,hbjk,hbjk", "hbjk", "k", "k", {{0, U}}, {{1, U}, {2, U}, {2, U}}, 1, 3},
    [LAYOUT_BDRLN] = {"BDRLN",
                      "bji",
                      "bji,bji,bji,bji,bji,bji,bji,bj",
                      "bji",
                      "i",
                      "i",
                      {{0, U}, {1, U}, {ALONE(2), U}, {ALONE(2), U}, {ALONE(2), U}},
                      {{2, U}, {3, U}, {4, U}, {5, U}, {6, U}, {7, U}},
                      5,
                      6},
    [LAYOUT_BRD] =
        {"BRD", "bju", "bju,bju,bju,bju", "bju", "bju", "", {{0, U}, {ALONE(2), U}}, {{1, U}, {2, U}, {3, U}}, 2, 3},
    [LAYOUT_BSB] = {"BSB",
                    "bji",
                    "bji,bji,bji",
                    "bji",
                    "bj",
                    "bj",
                    {{0, U}, {1, U}, {ALONE(2), U}},
                    {{2, U}, {ALONE(2), U}, {ALONE(2), U}},
                    3,
                    3},
    [LAYOUT_BLNRD] = {"BLNRD",
                      "bji",
                      "bji,bji,bji,bji,bji,bj",
                      "bji",
                      "i",
                      "i",
                      {{0, U}, {1, U}, {2, K}, {5, P}},
                      {{3, U}, {4, U}},
                      4,
                      2},
    [LAYOUT_BDRB] =
        {"BDRB", "bju", "bju,bju,bju,bju", "bju", "bj", "bj", {{0, U}, {1, K}, {2, U}}, {{3, U}, {ALONE(2), U}}, 3, 2},
    [LAYOUT_EBSB] = {"EBSB",
                     "bji",
                     "bji,bji,bji,bji,bji",
                     "bji",
                     "bj",
                     "bj",
                     {{0, U}, {1, U}, {2, U}, {3, U}, {ALONE(2), U}},
                     {{4, U}, {ALONE(2), U}, {ALONE(2), U}, {ALONE(2), U}},
                     5,
                     4},
    [LAYOUT_BAOB] = {"BAOB", "bji", "bji", "bji", "bj", "bj", {{0, U}}, {{ALONE(2), U}}, 1, 1},
    [LAYOUT_BS] = {"BS", "hbjk", "hbjk,hbjk,hbjk", "hbjk", "k", "k", {{0, U}, {1, K}, {1, U}}, {{2, U}}, 3, 1},
    [LAYOUT_BAIB] = {"BAIB",
                     "hpbj",
                     "hpbj,hpbj,hpbj,hp,hp,hp",
                     "hpbj",
                     "bj",
                     "bj",
                     {{0, U}, {1, U}, {2, U}},
                     {{3, U}, {4, U}, {5, U}},
                     3,
                     3},
    [LAYOUT_BEI] = {"BEI", "bji", "bji,bji,bji", "bji", "bji", "", {{0, U}, {1, U}}, {{2, U}}, 2, 1},
};

/* ---- orders by number ---- */

static uint64_t factorial(size_t n)
{
    uint64_t product = 1;
    for (size_t i = 2; i <= n; i++) product *= i;
    return product;
}

/* Permutation number `index` of the letters, in the order in which they stand. */
static void order_at(const char *letters, uint64_t index, char out[16])
{
    char left[16];
    size_t n = strlen(letters);
    snprintf(left, sizeof left, "%s", letters);
    for (size_t i = 0; i < n; i++) {
        uint64_t below = factorial(n - 1 - i);
        size_t at = (size_t)(index / below);
        index %= below;
        out[i] = left[at];
        memmove(left + at, left + at + 1, strlen(left + at));
    }
    out[n] = 0;
}

static void orders_at(const struct layout_work *work, uint64_t index, struct layout_config *out)
{
    for (int i = work->n_orders - 1; i >= 0; i--) {
        uint64_t orders = factorial(strlen(work->tensors[i]));
        order_at(work->tensors[i], index % orders, out->order[i]);
        index /= orders;
    }
}

static int letter_of(const struct layout_work *work, char letter)
{
    return (int)(strchr(work->letters, letter) - work->letters);
}

/* ---- kernels ---- */

static uint64_t choices(const struct layout_form *form) { return strlen(form->vector) * strlen(form->threads); }

static void form_open(struct layout_work *work)
{
    const struct layout_form *form = &layout_forms[work->form];
    work->configurations = choices(form);
    for (const char *at = form->tensors; *at; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        snprintf(work->tensors[work->n_orders], sizeof *work->tensors, "%.*s", (int)strcspn(at, ","), at);
        work->configurations *= factorial(strlen(work->tensors[work->n_orders++]));
    }
    memcpy(work->inputs, form->inputs, sizeof form->inputs);
    memcpy(work->outputs, form->outputs, sizeof form->outputs);
    work->n_inputs = form->n_inputs;
    work->n_outputs = form->n_outputs;
    /* All orders are the first; vectors and threads go along the last letter that they can. */
    work->usual = choices(form) - 1;
}

/* The last digit is the threads' letter, then the vectors', then the orders. */
static void form_config(const struct layout_work *work, uint64_t index, struct layout_config *out)
{
    const struct layout_form *form = &layout_forms[work->form];
    size_t threads = strlen(form->threads), vectors = strlen(form->vector);
    out->threads = letter_of(work, form->threads[index % threads]);
    index /= threads;
    out->vector = letter_of(work, form->vector[index % vectors]);
    index /= vectors;
    orders_at(work, index, out);
}

/* ---- contractions ---- */

static bool triple_take(const struct layout_triple *triple, void *user)
{
    struct layout_work *work = user;
    if (work->n_triples == LAYOUT_TRIPLES) return false;
    work->triples[work->n_triples++] = *triple;
    return true;
}

static bool triples_list(const struct host *host, struct layout_work *work, struct error *e)
{
    if (!(work->triples = host_alloc(host, LAYOUT_TRIPLES, sizeof *work->triples, e))) return false;
    if (!layouts_visit(&work->space, LAYOUT_UNIFORM, triple_take, work))
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s has more than %d layouts", work->name, LAYOUT_TRIPLES);
    work->configurations = work->n_triples;
    for (size_t i = 0; i < work->n_triples; i++) {
        char text[64];
        const struct layout_triple *t = &work->triples[i];
        snprintf(text, sizeof text, "%s,%s->%s", t->order[0], t->order[1], t->order[2]);
        if (!strcmp(text, work->name)) work->usual = i;
    }
    return true;
}

static bool product_open(const struct host *host, struct layout_work *work, const struct dims *dims, bool any,
                         struct error *e)
{
    TRY(layout_space_create(work->name, dims, &work->space, e));
    for (int group = 0; group < LAYOUT_GROUPS; group++)
        for (const char *l = work->space.group[group]; *l; l++) {
            size_t n = strlen(work->letters);
            if (n == LAYOUT_LETTERS)
                return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s has more than %d letters", work->name, LAYOUT_LETTERS);
            work->letters[n] = *l;
        }
    _Static_assert(sizeof work->tensors[0] == sizeof work->space.operand[0], "letters fit");
    for (int t = 0; t < 3; t++) memcpy(work->tensors[t], work->space.operand[t], sizeof work->tensors[t]);
    work->n_orders = 3;
    work->inputs[0] = (struct layout_tensor){0, U};
    work->inputs[1] = (struct layout_tensor){1, U};
    work->outputs[0] = (struct layout_tensor){2, U};
    work->n_inputs = 2;
    work->n_outputs = 1;
    work->configurations = 1;
    for (int t = 0; t < 3; t++) work->configurations *= factorial(strlen(work->tensors[t]));
    return any || triples_list(host, work, e);
}

/* ---- works ---- */

bool layout_work_open(const struct host *host, const char *name, const char *letters, const uint32_t *sizes, bool any,
                      struct layout_work *out, struct error *e)
{
    struct dims dims = {{0}};
    *out = (struct layout_work){.form = 0};
    while (out->form < LAYOUT_FORMS && strcmp(layout_forms[out->form].name, name)) out->form++;
    if (strlen(name) >= sizeof out->name)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "\"%.40s...\" is no kernel of the paper's, and no einsum", name);
    snprintf(out->name, sizeof out->name, "%s", name);
    for (size_t i = 0; letters[i]; i++)
        if ((unsigned char)letters[i] < 128) dims.of[(unsigned char)letters[i]] = sizes[i];
    if (out->form < LAYOUT_FORMS) {
        snprintf(out->letters, sizeof out->letters, "%s", layout_forms[out->form].letters);
        form_open(out);
    } else {
        TRY(product_open(host, out, &dims, any, e));
    }
    uint64_t volume = 1;
    for (size_t i = 0; i < LAYOUT_LETTERS; i++) {
        uint32_t size = out->letters[i] ? dims.of[(unsigned char)out->letters[i]] : 1;
        if (!size || size > 1 << 20)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: the letter %c has the size %u; 1 to 2^20 are possible",
                        name, out->letters[i], (unsigned)size);
        out->sizes[i] = size;
        volume *= out->form < LAYOUT_FORMS ? size : 1;
        if (volume > (uint64_t)1 << 31)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s: more than 2^31 elements: give a smaller --batch or --seq",
                        name);
    }
    for (int i = 0; i < out->n_inputs + out->n_outputs; i++) {
        const struct layout_tensor *t = i < out->n_inputs ? &out->inputs[i] : &out->outputs[i - out->n_inputs];
        if (layout_tensor_elements(out, t) > (uint64_t)1 << 30)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "%s: a tensor of more than 2^30 elements: give a smaller --batch or --seq", name);
    }
    return true;
}

void layout_work_close(const struct host *host, struct layout_work *work)
{
    host_free(host, work->triples);
    *work = (struct layout_work){.form = 0};
}

void layout_config_at(const struct layout_work *work, uint64_t index, struct layout_config *out)
{
    *out = (struct layout_config){.vector = 0};
    if (work->form < LAYOUT_FORMS) {
        form_config(work, index, out);
    } else if (!work->triples) {
        orders_at(work, index, out);
    } else {
        for (int t = 0; t < 3; t++) memcpy(out->order[t], work->triples[index].order[t], sizeof out->order[t]);
    }
}

size_t layout_neighbours(const struct layout_work *work, uint64_t index, uint64_t *out, size_t room)
{
    uint64_t unit = 1;
    size_t n = 0, digits = (size_t)work->n_orders + 2;
    if (work->form == LAYOUT_FORMS) return 0;
    const struct layout_form *form = &layout_forms[work->form];
    for (size_t d = 0; d < digits; d++) {
        uint64_t values = !d       ? strlen(form->threads)
                          : d == 1 ? strlen(form->vector)
                                   : factorial(strlen(work->tensors[digits - 1 - d]));
        uint64_t own = index / unit % values;
        for (uint64_t v = 0; v < values && n < room; v++)
            if (v != own) out[n++] = index + v * unit - own * unit;
        unit *= values;
    }
    return n;
}

void layout_config_text(const struct layout_work *work, const struct layout_config *config, char *text, size_t size)
{
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < work->n_orders && used < size; i++) {
        const char *between = !i ? "" : work->form == LAYOUT_FORMS && i == 2 ? "->" : ",";
        used += (size_t)snprintf(text + used, size - used, "%s%s", between, config->order[i]);
    }
    if (work->form < LAYOUT_FORMS && used < size)
        snprintf(text + used, size - used, " v=%c t=%c", work->letters[config->vector], work->letters[config->threads]);
}

bool layout_config_fits(const struct layout_work *work, const struct layout_config *config, uint32_t width)
{
    return work->form == LAYOUT_FORMS || work->sizes[config->vector] % width == 0;
}

/* ---- tensors ---- */

static uint64_t volume_after(const struct layout_work *work, const char *letters)
{
    uint64_t n = 1;
    for (; *letters; letters++) n *= work->sizes[letter_of(work, *letters)];
    return n;
}

uint64_t layout_tensor_elements(const struct layout_work *work, const struct layout_tensor *tensor)
{
    return tensor->order < 0 ? work->sizes[-1 - tensor->order] : volume_after(work, work->tensors[tensor->order]);
}

uint64_t layout_tensor_stride(const struct layout_work *work, const struct layout_config *config,
                              const struct layout_tensor *tensor, int letter)
{
    if (tensor->order < 0) return -1 - tensor->order == letter;
    const char *at = work->letters[letter] ? strchr(config->order[tensor->order], work->letters[letter]) : NULL;
    return at ? volume_after(work, at + 1) : 0;
}

/* ---- calls ---- */

static const uint8_t size_constants[LAYOUT_LETTERS] = {CONST_TILE_M, CONST_TILE_N,   CONST_TILE_K,
                                                       CONST_TILE_V, CONST_THREAD_M, CONST_THREAD_N};
static const uint8_t order_constants[LAYOUT_ORDERS] = {CONST_X_STRIDE, CONST_X_OFFSET, CONST_W_STRIDE, CONST_W_OFFSET,
                                                       CONST_V_STRIDE, CONST_V_OFFSET, CONST_Y_STRIDE, CONST_Y_OFFSET};

static uint32_t divided(uint32_t n, uint32_t by) { return (n + by - 1) / by; }

/* How many letters of the order are faster, for each of these letters. */
static uint32_t ranks(const char *letters, const char *order)
{
    uint32_t code = 0xffffffff;
    size_t n = strlen(order);
    for (size_t l = 0; letters[l]; l++) {
        const char *at = strchr(order, letters[l]);
        if (at) code ^= (LAYOUT_ABSENT ^ (uint32_t)(n - 1 - (size_t)(at - order))) << (4 * l);
    }
    return code;
}

static uint32_t form_call(const struct layout_work *work, const struct layout_config *config, uint32_t width,
                          struct call *call)
{
    const char *reduced = layout_forms[work->form].reduced;
    /* A warp adds up what is reduced; elsewhere the paper's kernels have up to 128 threads. */
    const uint32_t local = *reduced ? 32 : 128;
    uint64_t groups = 1;
    *call = (struct call){.kernel = "layout_rows", .launch = LAUNCH_ELEMENTS};
    call_set(call, CONST_LOCAL_SIZE, local);
    call_set(call, CONST_FORM, (uint32_t)work->form);
    for (int l = 0; l < 4; l++) {
        uint32_t unit = l == config->threads  ? local * (l == config->vector ? width : 1)
                        : l == config->vector ? width
                                              : 1;
        call_set(call, size_constants[l], work->sizes[l]);
        if (!work->letters[l] || !strchr(reduced, work->letters[l])) groups *= divided(work->sizes[l], unit);
    }
    call_set(call, CONST_THREAD_M, (uint32_t)config->vector);
    call_set(call, CONST_THREAD_N, (uint32_t)config->threads);
    for (int i = 0; i < LAYOUT_ORDERS; i++)
        call_set(call, order_constants[i],
                 i < work->n_orders ? ranks(work->letters, config->order[i]) : LAYOUT_ALONE(2));
    return (uint32_t)groups;
}

/* Letters that follow each other in both operands that have them, in one order, are one letter to the kernel, so that
 * triples that are the same GEMM are the same kernel. `letters` have the slower before the faster one. */
struct merged {
    char letters[LAYOUT_LETTERS + 1];
    uint32_t sizes[LAYOUT_LETTERS], groups[LAYOUT_LETTERS];
    char order[3][16];
};

static uint32_t group_of(const struct layout_work *work, char letter)
{
    static const uint32_t codes[LAYOUT_GROUPS] = {LAYOUT_M, LAYOUT_N, LAYOUT_K, LAYOUT_BATCH};
    for (int g = 0; g < LAYOUT_GROUPS; g++)
        if (strchr(work->space.group[g], letter)) return codes[g];
    return LAYOUT_K;
}

/* The letters of a group stand as in the operand that tells: C for what it has, A for k. */
static void merged_begin(const struct layout_work *work, const struct layout_config *config, struct merged *m)
{
    size_t n = 0;
    *m = (struct merged){.letters = ""};
    for (int t = 0; t < 3; t++) memcpy(m->order[t], config->order[t], sizeof m->order[t]);
    for (uint32_t group = LAYOUT_M; group <= LAYOUT_BATCH; group++)
        for (const char *l = config->order[group == LAYOUT_K ? 0 : 2]; *l; l++) {
            if (group_of(work, *l) != group) continue;
            m->letters[n] = *l;
            m->sizes[n] = work->sizes[letter_of(work, *l)];
            m->groups[n++] = group;
        }
}

static bool adjacent(const struct merged *m, size_t l)
{
    if (m->groups[l] != m->groups[l + 1]) return false;
    for (int t = 0; t < 3; t++) {
        const char *slow = strchr(m->order[t], m->letters[l]), *fast = strchr(m->order[t], m->letters[l + 1]);
        if ((slow || fast) && (!slow || fast != slow + 1)) return false;
    }
    return true;
}

static void merged_make(const struct layout_work *work, const struct layout_config *config, struct merged *m)
{
    merged_begin(work, config, m);
    for (size_t l = 0; m->letters[l] && m->letters[l + 1];) {
        if (!adjacent(m, l)) {
            l++;
            continue;
        }
        size_t left = strlen(m->letters + l + 1);
        m->sizes[l] *= m->sizes[l + 1];
        for (int t = 0; t < 3; t++) {
            char *at = strchr(m->order[t], m->letters[l + 1]);
            if (at) memmove(at, at + 1, strlen(at));
        }
        memmove(m->letters + l + 1, m->letters + l + 2, left);
        memmove(m->sizes + l + 1, m->sizes + l + 2, (left - 1) * sizeof *m->sizes);
        memmove(m->groups + l + 1, m->groups + l + 2, (left - 1) * sizeof *m->groups);
    }
}

/* Whether an operand's fastest letter is of k, and whether vectors along it are whole: it is the fastest of its group,
 * and they divide it. */
static uint32_t operand_flags(const struct merged *m, int t, uint32_t width, uint32_t along, uint32_t wide)
{
    const char *order = m->order[t];
    size_t l = (size_t)(strchr(m->letters, order[strlen(order) - 1]) - m->letters);
    bool last = !m->letters[l + 1] || m->groups[l + 1] != m->groups[l], batch = m->groups[l] == LAYOUT_BATCH;
    return (m->groups[l] == LAYOUT_K ? along : 0) | (last && !batch && m->sizes[l] % width == 0 ? wide : 0);
}

static uint32_t product_call(const struct layout_work *work, const struct layout_config *config, uint32_t width,
                             struct call *call)
{
    struct merged m;
    uint32_t groups = 0, extent[4] = {1, 1, 1, 1};
    merged_make(work, config, &m);
    size_t n = strlen(m.letters);
    *call = (struct call){.kernel = "layout_product", .launch = LAUNCH_ELEMENTS};
    call_set(call, CONST_LOCAL_SIZE, LAYOUT_ITEMS);
    for (size_t l = 0; l < LAYOUT_LETTERS; l++) {
        uint32_t group = l < n ? m.groups[l] : LAYOUT_BATCH, size = l < n ? m.sizes[l] : 1;
        call_set(call, size_constants[l], size);
        groups |= group << (2 * l);
        extent[group] *= size;
    }
    call_set(call, CONST_BATCHED, groups);
    call_set(call, CONST_X_STRIDE, ranks(m.letters, m.order[0]));
    call_set(call, CONST_W_STRIDE, ranks(m.letters, m.order[1]));
    call_set(call, CONST_Y_STRIDE, ranks(m.letters, m.order[2]));
    call_set(call, CONST_V_STRIDE,
             operand_flags(&m, 0, width, LAYOUT_A_ALONG_K, LAYOUT_A_WIDE) |
                 operand_flags(&m, 1, width, LAYOUT_B_ALONG_K, LAYOUT_B_WIDE));
    return divided(extent[LAYOUT_M], LAYOUT_TILE) * divided(extent[LAYOUT_N], LAYOUT_TILE) * extent[LAYOUT_BATCH];
}

uint32_t layout_call_make(const struct layout_work *work, const struct layout_config *config, bool f16,
                          struct call *call)
{
    const uint32_t width = f16 ? 8 : 4;
    return work->form < LAYOUT_FORMS ? form_call(work, config, width, call) : product_call(work, config, width, call);
}
