/* Layouts of contractions, group by group, and of fused kernels. */
#include "analysis/layouts.h"

#include <stdio.h>
#include <string.h>

#include "analysis/fusion.h"

enum {
    GEMMS_MAX = 64
}; /* letters within a group change no GEMM: at most four ways for its groups to lie in each of
      three operands */

/* ---- letters ---- */

static bool has(const char *letters, char letter) { return strchr(letters, letter) != NULL; }

static void add(char letters[16], char letter)
{
    size_t n = strlen(letters);
    if (n < 15 && !has(letters, letter)) letters[n++] = letter;
    letters[n] = 0;
}

/* The next one of a word's permutations in the alphabet's order; false, and the first one again, after the last. */
static bool permute(char *word)
{
    size_t n = strlen(word), at = n;
    if (n < 2) return false;
    while (--at > 0 && word[at - 1] >= word[at]) continue;
    bool more = at > 0;
    if (more) {
        size_t with = n - 1;
        while (word[with] <= word[at - 1]) with--;
        char letter = word[at - 1];
        word[at - 1] = word[with];
        word[with] = letter;
    }
    for (size_t end = n - 1; at < end; at++, end--) {
        char letter = word[at];
        word[at] = word[end];
        word[end] = letter;
    }
    return more;
}

static void sort(char *word)
{
    for (size_t i = 1; word[0] && word[i]; i++)
        for (size_t k = i; k > 0 && word[k - 1] > word[k]; k--) {
            char letter = word[k];
            word[k] = word[k - 1];
            word[k - 1] = letter;
        }
}

/* ---- the space ---- */

static enum layout_group group_of(const struct layout_space *s, char letter)
{
    enum layout_group group = LAYOUT_M;
    while (group < LAYOUT_GROUPS && !has(s->group[group], letter)) group++;
    return group;
}

/* Elements that these letters count; b and positions together count what a packed batch has. */
static uint64_t volume(const struct layout_space *s, const char *letters)
{
    bool b = has(letters, 'b'), j = has(letters, 'j'), k = has(letters, 'k'), ragged = s->tokens && b && (j || k);
    uint64_t n = ragged ? j && k ? s->pairs : s->tokens : 1;
    for (; *letters; letters++)
        if (!ragged || !has("bjk", *letters)) n *= s->dims.of[(unsigned char)*letters];
    return n;
}

uint64_t layout_group_size(const struct layout_space *space, enum layout_group group)
{
    return volume(space, space->group[group]);
}

static bool set_operand(struct layout_space *s, const char *einsum, int operand, struct error *e)
{
    char letters[16];
    einsum_operand(einsum, operand, letters);
    for (const char *l = letters; *l; l++) {
        if (has(s->operand[operand], *l))
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: one operand has %c twice", einsum, *l);
        if ((unsigned char)*l >= 128 || !s->dims.of[(unsigned char)*l])
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: the letter %c has no size", einsum, *l);
        add(s->operand[operand], *l);
    }
    return true;
}

bool layout_space_create(const char *einsum, const struct dims *dims, struct layout_space *out, struct error *e)
{
    const char *comma = strchr(einsum, ','), *arrow = strstr(einsum, "->");
    memset(out, 0, sizeof *out);
    out->dims = *dims;
    if (!comma || !arrow || arrow < comma || strchr(comma + 1, ',') || comma - einsum > 8 || arrow - comma > 9 ||
        strlen(arrow) > 10)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "\"%s\" is no contraction of two operands of at most 8 letters, as in \"bji,ui->bju\"", einsum);
    for (int t = 0; t < 3; t++) TRY(set_operand(out, einsum, t, e));
    for (int t = 0; t < 3; t++)
        for (const char *l = out->operand[t]; *l; l++) {
            bool a = has(out->operand[0], *l), b = has(out->operand[1], *l), c = has(out->operand[2], *l);
            if (a + b + c < 2)
                return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: %c stands in one operand alone", einsum, *l);
            add(out->group[a && b ? c ? LAYOUT_BATCH : LAYOUT_K : a ? LAYOUT_M : LAYOUT_N], *l);
        }
    return true;
}

void layout_space_sequence(struct layout_space *space, const struct batch_shape *b, uint32_t sequence)
{
    space->dims.of['b'] = b->sequences;
    space->dims.of['j'] = space->dims.of['k'] = b->offsets[sequence + 1] - b->offsets[sequence];
    space->tokens = b->tokens;
    space->pairs = b->pairs;
}

/* ---- one triple ---- */

/* Checks one operand, and notes the order that it gives to the letters of each of its groups and its last group, which
 * is the one that GEMM finds contiguous. */
static bool read_operand(const struct layout_space *s, int operand, const char *order, char letters[LAYOUT_GROUPS][16],
                         enum layout_group *last)
{
    if (strlen(order) != strlen(s->operand[operand])) return false;
    *last = LAYOUT_GROUPS;
    for (const char *l = order; *l; l++) {
        enum layout_group group = group_of(s, *l);
        if (!has(s->operand[operand], *l) || has(letters[group], *l)) return false;
        if (group != *last && *letters[group]) return false; /* the group was left and comes again */
        add(letters[group], *l);
        *last = group;
    }
    return *last != LAYOUT_BATCH;
}

/* Elements from one value of this letter to the next one. */
static uint64_t stride_of(const struct layout_space *s, const char *order, char letter)
{
    return volume(s, strchr(order, letter) + 1);
}

/* The groups over which each operand's rows and columns go, as A [m][k], B [k][n], C [m][n]. */
static const enum layout_group rows_of[3] = {LAYOUT_M, LAYOUT_K, LAYOUT_M},
                               columns_of[3] = {LAYOUT_K, LAYOUT_N, LAYOUT_N};

/* What no letter is in is counted once; a matrix of one row is as far from the next as it is long. */
static void set_distances(const struct layout_space *s, int operand, const char *order, struct layout_gemm *out)
{
    enum layout_group slow = out->transposed[operand] ? columns_of[operand] : rows_of[operand];
    enum layout_group fast = out->transposed[operand] ? rows_of[operand] : columns_of[operand];
    const char *letters = s->group[slow], *batch = s->group[LAYOUT_BATCH];
    uint64_t least = layout_group_size(s, fast);
    out->ld[operand] = least;
    for (const char *l = letters; *l; l++) {
        uint64_t stride = stride_of(s, order, *l);
        if (l == letters || stride < out->ld[operand]) out->ld[operand] = stride;
    }
    for (const char *l = batch; *l; l++) {
        uint64_t stride = stride_of(s, order, *l);
        if (l == batch || stride < out->stride[operand]) out->stride[operand] = stride;
    }
}

static void set_sizes(const struct layout_space *s, struct layout_gemm *out)
{
    memset(out, 0, sizeof *out);
    out->m = layout_group_size(s, LAYOUT_M);
    out->n = layout_group_size(s, LAYOUT_N);
    out->k = layout_group_size(s, LAYOUT_K);
    out->batch = layout_group_size(s, LAYOUT_BATCH);
}

bool layout_gemm_of(const struct layout_space *space, const char *const order[3], struct layout_gemm *out)
{
    char letters[3][LAYOUT_GROUPS][16] = {{{0}}};
    set_sizes(space, out);
    for (int t = 0; t < 3; t++) {
        enum layout_group last;
        if (!read_operand(space, t, order[t], letters[t], &last)) return false;
        out->transposed[t] = last == rows_of[t];
        set_distances(space, t, order[t], out);
        for (int group = 0; group < LAYOUT_GROUPS; group++)
            for (int before = 0; before < t; before++)
                if (*letters[t][group] && *letters[before][group] &&
                    strcmp(letters[t][group], letters[before][group]) != 0)
                    return false;
    }
    return true;
}

void layout_blas_of(const struct layout_gemm *gemm, struct layout_blas *out, bool *exchanged)
{
    bool b_first = !gemm->transposed[2];
    int first = b_first ? 1 : 0, second = 1 - first;
    memset(out, 0, sizeof *out);
    /* Read by columns, B [k][n] is n by k, which is how it is wanted in front of A; in its own place it would have to
     * be transposed. The same for A. */
    out->transposed[0] = gemm->transposed[first] == b_first;
    out->transposed[1] = gemm->transposed[second] == b_first;
    out->m = b_first ? gemm->n : gemm->m;
    out->n = b_first ? gemm->m : gemm->n;
    out->k = gemm->k;
    out->batch = gemm->batch;
    const int operands[3] = {first, second, 2};
    for (int t = 0; t < 3; t++) {
        out->ld[t] = gemm->ld[operands[t]];
        out->stride[t] = gemm->stride[operands[t]];
    }
    if (exchanged) *exchanged = b_first;
}

bool layout_blas_same(const struct layout_blas *a, const struct layout_blas *b)
{
    return a->transposed[0] == b->transposed[0] && a->transposed[1] == b->transposed[1] && a->m == b->m &&
           a->n == b->n && a->k == b->k && a->batch == b->batch && memcmp(a->ld, b->ld, sizeof a->ld) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

/* ---- all triples ---- */

struct walk {
    const struct layout_space *space; /* as asked for, for what a triple's GEMM is */
    struct layout_space inner;        /* without b in LAYOUT_BY_SEQUENCE */
    enum layout_batch batch;
    bool (*visit)(const struct layout_triple *triple, void *user);
    void *user;
    char letters[LAYOUT_GROUPS][16]; /* each group's, in the order at hand */
    char groups[3][4];               /* each operand's groups, in the order at hand: digits, which can be permuted */
};

static void remove_letter(char *letters, char letter)
{
    char *at = strchr(letters, letter);
    if (at) memmove(at, at + 1, strlen(at));
}

/* The GEMM of one sequence: b is in the orders, and so in the distances of what is slower, but in no group. */
static void sequence_gemm(const struct walk *w, struct layout_triple *t)
{
    set_sizes(&w->inner, &t->gemm);
    for (int operand = 0; operand < 3; operand++) {
        char last = t->order[operand][strlen(t->order[operand]) - 1];
        t->gemm.transposed[operand] = group_of(&w->inner, last) == rows_of[operand];
        set_distances(&w->inner, operand, t->order[operand], &t->gemm);
    }
}

/* Puts b everywhere into the operand's order where a packed batch has it, and goes on with the next operand. */
static bool insert_b(struct walk *w, struct layout_triple *t, int operand)
{
    if (operand == 3) {
        sequence_gemm(w, t);
        return w->visit(t, w->user);
    }
    char without[16];
    memcpy(without, t->order[operand], sizeof without);
    for (size_t at = 0; at < strlen(without); at++) {
        snprintf(t->order[operand], sizeof t->order[operand], "%.*sb%s", (int)at, without, without + at);
        if (layout_packed(t->order[operand]) && !insert_b(w, t, operand + 1)) return false;
    }
    memcpy(t->order[operand], without, sizeof without);
    return true;
}

static bool visit_one(struct walk *w)
{
    struct layout_triple t;
    memset(&t, 0, sizeof t);
    for (int operand = 0; operand < 3; operand++)
        for (const char *digit = w->groups[operand]; *digit; digit++)
            strcat(t.order[operand], w->letters[*digit - '0']); /* 8 letters at most (layout_space_create) */
    if (w->batch == LAYOUT_BY_SEQUENCE) return insert_b(w, &t, 0);
    for (int operand = 0; operand < 3; operand++)
        if (w->batch == LAYOUT_PACKED && !layout_packed(t.order[operand])) return true;
    const char *const order[3] = {t.order[0], t.order[1], t.order[2]};
    return !layout_gemm_of(w->space, order, &t.gemm) || w->visit(&t, w->user);
}

/* All orders of the operand's groups that don't end with the batch group, then those of the next one. */
static bool visit_groups(struct walk *w, int operand)
{
    if (operand == 3) return visit_one(w);
    char *groups = w->groups[operand];
    size_t n = 0;
    for (int group = 0; group < LAYOUT_GROUPS; group++)
        if (*w->letters[group] && has(w->inner.operand[operand], *w->letters[group])) groups[n++] = (char)('0' + group);
    groups[n] = 0;
    do {
        if (n && groups[n - 1] == '0' + LAYOUT_BATCH) continue;
        if (!visit_groups(w, operand + 1)) return false;
    } while (permute(groups));
    return true;
}

static bool visit_letters(struct walk *w, int group)
{
    if (group == LAYOUT_GROUPS) return visit_groups(w, 0);
    do {
        if (!visit_letters(w, group + 1)) return false;
    } while (permute(w->letters[group]));
    return true;
}

bool layouts_visit(const struct layout_space *space, enum layout_batch batch,
                   bool (*visit)(const struct layout_triple *triple, void *user), void *user)
{
    struct walk w = {.space = space, .inner = *space, .batch = batch, .visit = visit, .user = user};
    if (batch == LAYOUT_BY_SEQUENCE) {
        if (!has(space->group[LAYOUT_BATCH], 'b')) return true;
        remove_letter(w.inner.group[LAYOUT_BATCH], 'b');
        for (int t = 0; t < 3; t++) remove_letter(w.inner.operand[t], 'b');
    }
    memcpy(w.letters, w.inner.group, sizeof w.letters);
    for (int group = 0; group < LAYOUT_GROUPS; group++) sort(w.letters[group]);
    return visit_letters(&w, 0);
}

/* ---- counting ---- */

bool layout_stack_first(const struct layout_triple *triple, char stack)
{
    for (int t = 0; t < 3; t++)
        if (has(triple->order[t], stack) && triple->order[t][0] != stack) return false;
    return true;
}

struct counts {
    wherry_product_layouts *out;
    uint64_t *total;
    char stack;
    struct layout_blas gemms[GEMMS_MAX];
};

static bool count_valid(const struct layout_triple *triple, void *user)
{
    struct counts *c = user;
    struct layout_blas gemm;
    c->out->valid++;
    if (c->stack && layout_stack_first(triple, c->stack)) c->out->stack_first++;
    layout_blas_of(&triple->gemm, &gemm, NULL);
    for (uint64_t i = 0; i < c->out->gemms; i++)
        if (layout_blas_same(&c->gemms[i], &gemm)) return true;
    if (c->out->gemms < GEMMS_MAX) c->gemms[c->out->gemms++] = gemm;
    return true;
}

static bool count_total(const struct layout_triple *triple, void *user)
{
    (void)triple;
    ++*(uint64_t *)user;
    return true;
}

void layout_space_count(const struct layout_space *space, char stack, wherry_product_layouts *out)
{
    struct counts counts = {.out = out, .stack = stack};
    memset(out, 0, sizeof *out);
    out->m = layout_group_size(space, LAYOUT_M);
    out->n = layout_group_size(space, LAYOUT_N);
    out->k = layout_group_size(space, LAYOUT_K);
    out->batch = layout_group_size(space, LAYOUT_BATCH);
    out->permutations = 1;
    for (int t = 0; t < 3; t++) out->permutations *= layout_orders(space->operand[t], false);
    layouts_visit(space, LAYOUT_UNIFORM, count_valid, &counts);
    layouts_visit(space, LAYOUT_PACKED, count_total, &out->packed);
    layouts_visit(space, LAYOUT_BY_SEQUENCE, count_total, &out->by_sequence);
}

/* ---- tensors ---- */

bool layout_packed(const char *order)
{
    const char *b = strchr(order, 'b'), *j = strchr(order, 'j'), *k = strchr(order, 'k');
    if (!b || (!j && !k)) return true;
    if (j && k) return b < j && b < k;
    return (j ? j : k) == b + 1;
}

uint64_t layout_orders(const char *letters, bool packed)
{
    bool j = has(letters, 'j'), k = has(letters, 'k'), ragged = packed && has(letters, 'b') && (j || k);
    uint64_t n = strlen(letters), orders = 1;
    for (uint64_t i = 2; i <= n; i++) orders *= i;
    return !ragged ? orders : j && k ? orders / 3 : orders / n; /* b before both of two; or one letter with the other */
}

/* ---- kernels without a product ---- */

static void set_choices(struct layout_kernel *kernel, const char *letters, const char *reduced)
{
    snprintf(kernel->vector, sizeof kernel->vector, "%s", letters);
    snprintf(kernel->threads, sizeof kernel->threads, "%s", *reduced ? reduced : letters);
}

static void keep_letters(char letters[16], const char *only)
{
    char kept[16] = "";
    for (const char *l = letters; *l; l++)
        if (has(only, *l)) add(kept, *l);
    memcpy(letters, kept, sizeof kept);
}

bool layout_kernel_read(const char *tensors, const char *reduced, const char *only, struct layout_kernel *out,
                        struct error *e)
{
    char letters[16] = "";
    memset(out, 0, sizeof *out);
    for (const char *at = tensors;;) {
        size_t n = strcspn(at, ",");
        if (!n || n > 8 || out->n_tensors == GROUP_MAX_TENSORS)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                        "\"%s\" is no list of at most %d tensors of 1 to 8 letters, as in \"bji,bji,i\"", tensors,
                        GROUP_MAX_TENSORS);
        char *tensor = out->tensors[out->n_tensors++];
        for (size_t i = 0; i < n; i++) {
            add(tensor, at[i]);
            add(letters, at[i]);
        }
        if (strlen(tensor) != n)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: a tensor has a letter twice", tensors);
        if (strspn(tensor, letters) != n)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: more than 15 different letters", tensors);
        if (!at[n]) break;
        at += n + 1;
    }
    if (strspn(reduced, letters) != strlen(reduced) || (only && strspn(only, letters) != strlen(only)))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "%s: no tensor has a letter of \"%s\" or \"%s\"", tensors,
                    reduced, only ? only : "");
    set_choices(out, letters, reduced);
    if (only) {
        keep_letters(out->vector, only);
        keep_letters(out->threads, only);
    }
    return true;
}

bool layout_kernel_of(const struct graph *g, const struct group *group, struct layout_kernel *out)
{
    char letters[16] = "", reduced[16] = "";
    memset(out, 0, sizeof *out);
    for (int i = 0; i < group->count; i++) {
        struct space space;
        op_space(g, &g->ops[group->ops[i]], &space);
        if (space.contraction) return false;
        for (const char *l = space.letters; *l; l++) add(letters, *l);
        for (const char *l = space.reduced; *l; l++) add(reduced, *l);
    }
    for (int i = 0; i < group->n_reads + group->n_writes; i++) {
        int tensor = i < group->n_reads ? group->reads[i] : group->writes[i - group->n_reads];
        if (g->tensors[tensor].u32 || out->n_tensors == GROUP_MAX_TENSORS) continue;
        snprintf(out->tensors[out->n_tensors++], sizeof *out->tensors, "%s", g->tensors[tensor].dims);
    }
    set_choices(out, letters, reduced);
    return true;
}

uint64_t layout_kernel_count(const struct layout_kernel *kernel, bool packed)
{
    uint64_t n = strlen(kernel->vector) * strlen(kernel->threads);
    for (int t = 0; t < kernel->n_tensors; t++) {
        uint64_t orders = layout_orders(kernel->tensors[t], packed);
        n = n > UINT64_MAX / orders ? UINT64_MAX : n * orders;
    }
    return n;
}
