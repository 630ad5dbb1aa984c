/* Lists the sizes that kernels say they are right with; what a device can't run is left out, and what can't be good is
 * cut by a bound. Rows are the bucket's, so that every session of a bucket has the same list. */
#include "plan/candidates.h"

#include <stdio.h>
#include <string.h>

#include "base/round.h"
#include "interface/interface.h"
#include "plan/constants.h"
#include "plan/variants.h"

uint64_t choices_bucket(uint64_t rows) { return power_of_two(rows); }

/* ---- choices and works as text ---- */

static bool is_size(uint8_t id) { return constants[id].role == CONSTANT_SIZE; }

/* A weight's gradient becomes one in parts by its sizes. */
static bool is_gradient(const struct call *call) { return call_runtime(call) == RUNTIME_K; }

static bool tells_work(const struct call *call, uint8_t id)
{
    return constants[id].role == CONSTANT_WORK && (id != CONST_COLUMN_SUMS || !is_gradient(call));
}

static bool by_sequences(enum launch launch)
{
    return launch == LAUNCH_QUERIES || launch == LAUNCH_SEQUENCES || launch == LAUNCH_SCORES ||
           launch == LAUNCH_SCORE_ROWS;
}

bool work_text(const struct call *call, const struct sizes *s, char text[WORK_TEXT])
{
    struct text_writer t = text_begin(text, WORK_TEXT);
    text_add(&t, "%s rungs=%x rows=%llu", s->f16 ? "f16" : "f32", (unsigned)s->limits->rungs,
             (unsigned long long)choices_bucket(s->max_rows));
    if (by_sequences(call->launch)) text_add(&t, " longest=%llu", (unsigned long long)choices_bucket(s->longest));
    if (s->before) text_add(&t, " after %s:", kernel_base(s->before->kernel));
    text_add(&t, " %s", kernel_base(call->kernel));
    for (int i = 0; i < call->n_constants; i++) {
        const struct call_constant *c = &call->constants[i];
        if (!tells_work(call, c->id)) continue;
        unsigned value = c->id == CONST_DROPOUT ? c->value != 0 : c->value;
        text_add(&t, " %u=%u", (unsigned)c->id, value);
    }
    return !t.cut;
}

bool choice_of(const struct call *call, const struct call *before, struct choice *out)
{
    *out = (struct choice){.kernel = call->kernel};
    for (int i = 0; i < call->n_constants; i++) {
        uint8_t id = call->constants[i].id;
        if (!is_size(id) || (before && constants[id].second)) continue;
        if (out->n_sizes == CHOICE_SIZES) return false;
        out->sizes[out->n_sizes++] = call->constants[i];
    }
    return true;
}

/* The longest: a kernel's name, and in each size " 99=4294967295". */
_Static_assert(CHOICE_TEXT > sizeof((wherry_cost *)0)->kernel + CHOICE_SIZES * 14, "a choice may not fit its text");

void choice_text(const struct choice *choice, char text[CHOICE_TEXT])
{
    struct text_writer t = text_begin(text, CHOICE_TEXT);
    text_add(&t, "%s", choice->kernel);
    for (int i = 0; i < choice->n_sizes; i++)
        text_add(&t, " %u=%u", (unsigned)choice->sizes[i].id, (unsigned)choice->sizes[i].value);
}

/* The longest: a kernel's name, and in each constant " ff=ffffffff". */
_Static_assert(CALL_TEXT > sizeof((wherry_cost *)0)->kernel + CALL_MAX_CONSTANTS * 12, "a call may not fit its text");

void call_text(const struct call *call, struct text_writer *out)
{
    text_add(out, "%s", call->kernel);
    for (int i = 0; i < call->n_constants; i++)
        text_add(out, " %x=%x", (unsigned)call->constants[i].id, (unsigned)call->constants[i].value);
}

void choice_apply(const struct choice *choice, struct call calls[GROUP_MAX_CALLS], int i, int *count,
                  const struct sizes *s)
{
    struct call *call = &calls[i];
    call->kernel = choice->kernel;
    const struct variant *variant = kernel_row(call->kernel);
    call->n_maps = 0;
    call_size(call, s);
    for (int k = 0; k < choice->n_sizes; k++) call_set(call, choice->sizes[k].id, choice->sizes[k].value);
    if (variant && variant->derive) {
        call->n_maps = 0;
        variant->derive(call, s);
    }
    uint32_t part_rows = call_get(call, CONST_PART_ROWS, 0);
    if (!i) calls_drop(call, count);
    if (!i && *count == 1 && part_rows && call_sums_in_parts(call)) calls_split(calls, count, s, part_rows);
}

/* ---- what a device can run ---- */

enum { REGISTERS_MOST = 255, REGISTERS_GROUP = 65536 };

static bool can_run(const struct call *call, const struct sizes *s)
{
    const struct variant *variant = kernel_row(call->kernel);
    uint32_t local = call_get(call, CONST_LOCAL_SIZE, 1);
    if (!local || local > s->limits->max_local_size) return false;
    if (variant->rung != RUNG_TILED) return true; /* it knows what it may take */
    if (call_shared_bytes(call) > s->limits->shared_bytes) return false;
    uint32_t registers = variant->registers ? variant->registers(call, s) : 0;
    return s->limits->cpu || (registers <= REGISTERS_MOST && registers * local <= REGISTERS_GROUP);
}

static bool choice_same(const struct choice *a, const struct choice *b)
{
    bool same = a->n_sizes == b->n_sizes && !strcmp(a->kernel, b->kernel);
    for (int i = 0; same && i < a->n_sizes; i++)
        same = a->sizes[i].id == b->sizes[i].id && a->sizes[i].value == b->sizes[i].value;
    return same;
}

void choices_add(struct choices *list, const struct call *call)
{
    struct choice choice;
    if (list->n == CHOICES_LEGAL) return;
    if (!can_run(call, list->s) || !choice_of(call, list->s->before, &choice)) {
        list->refused++;
        return;
    }
    const struct variant *variant = kernel_row(call->kernel);
    choice.bound = variant->bound ? variant->bound(call, list->s) : 0;
    for (int i = 0; i < list->n; i++)
        if (choice_same(&list->of[i], &choice)) return;
    list->of[list->n++] = choice;
}

uint32_t choices_part_rows(const struct choices *list, uint64_t parts, uint32_t unit)
{
    return rows_in_parts(choices_bucket(list->s->max_rows), parts, unit);
}

/* ---- kernels of rows ---- */

enum { LOCAL_MOST = 1024, ROW_VALUES = 64 };

void choices_local_sizes(struct choices *list, const struct call *sized, uint32_t least, uint32_t most)
{
    struct call call = *sized;
    uint32_t row = call_get(sized, CONST_N, 1);
    for (uint32_t local = least; local <= most; local *= 2) {
        call_set(&call, CONST_LOCAL_SIZE, local);
        if (row / local <= ROW_VALUES || local == most) choices_add(list, &call);
    }
}

void choices_rows(const struct call *sized, const struct sizes *s, struct choices *list)
{
    (void)s;
    choices_local_sizes(list, sized, LOCAL_LEAST, LOCAL_MOST);
}

void choices_teams(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    uint32_t row = call_get(sized, CONST_N, 1);
    (void)s;
    for (uint32_t local = LOCAL_LEAST; local <= LOCAL_MOST; local *= 2)
        for (uint32_t team = LEAST_TEAM; team <= local; team *= 2) {
            if ((local > 256 && team < local) || (row / team > ROW_VALUES && team < LOCAL_MOST)) continue;
            call_set(&call, CONST_LOCAL_SIZE, local);
            call_set(&call, CONST_TEAM, team);
            choices_add(list, &call);
        }
}

void choices_elements(const struct call *sized, const struct sizes *s, struct choices *list)
{
    struct call call = *sized;
    (void)s;
    for (uint32_t local = LOCAL_LEAST; local <= LOCAL_MOST; local *= 2) {
        call_set(&call, CONST_LOCAL_SIZE, local);
        choices_add(list, &call);
    }
}

uint64_t choices_parts(const struct choices *list, int i)
{
    return (list->s->limits->cpu ? 4u : LARGE_GPU_UNITS / 2u) << i;
}

/* ---- the list ---- */

static void list_variant(const struct variant *variant, const struct call *call, const struct sizes *s,
                         struct choices *list)
{
    const char *refused;
    bool portable = variant->rung == RUNG_TILED;
    if (strcmp(variant->kernel, call->kernel) || (!portable && !(s->limits->rungs & RUNG_BIT(variant->rung))) ||
        !variant_runs(variant, call, s, &refused))
        return;
    struct call sized = *call;
    sized.kernel = variant->name;
    variant->size(&sized, s);
    if (!portable) choices_add(list, &sized);
    if (variant->candidates) variant->candidates(&sized, s, list);
}

void choices_legal(const struct call *call, const struct sizes *s, struct choices *list)
{
    struct call base = *call;
    list->n = list->refused = 0;
    list->s = s;
    base.kernel = kernel_base(call->kernel);
    base.n_maps = 0;
    for (size_t i = 0; variant_at(i); i++) list_variant(variant_at(i), &base, s, list);
}

/* ---- pruning ---- */

/* Sizes in which they differ. */
static int choice_distance(const struct choice *a, const struct choice *b)
{
    int n = strcmp(a->kernel, b->kernel) ? CHOICE_SIZES : 0;
    for (int i = 0; i < a->n_sizes; i++) {
        bool same = false;
        for (int k = 0; k < b->n_sizes; k++)
            same |= a->sizes[i].id == b->sizes[k].id && a->sizes[i].value == b->sizes[k].value;
        n += !same;
    }
    return n;
}

/* Where in the list it belongs: a size more that differs counts as a twentieth of the time. */
static double choice_rank(const struct choice *choice, const struct choice *usual, double least)
{
    return (choice->bound > 0 ? choice->bound / least : 1) * (1 + 0.05 * choice_distance(choice, usual));
}

static void choices_sort(struct choices *list, const struct choice *usual, double least)
{
    for (int i = 1; i < list->n; i++) { /* few: by insertion, which keeps the order of equals */
        struct choice moving = list->of[i];
        double rank = choice_rank(&moving, usual, least);
        int at = i;
        for (; at > 0 && choice_rank(&list->of[at - 1], usual, least) > rank; at--) list->of[at] = list->of[at - 1];
        list->of[at] = moving;
    }
}

/* Moves those that are wanted to the front; returns how many. Both parts keep their order. */
static int choices_divide(struct choices *list, const bool *wanted, struct choice *rest)
{
    int n = 0, n_rest = 0;
    for (int i = 0; i < list->n; i++) {
        if (wanted[i])
            list->of[n++] = list->of[i];
        else
            rest[n_rest++] = list->of[i];
    }
    memcpy(&list->of[n], rest, (size_t)n_rest * sizeof *rest);
    return n;
}

/* The first of each kernel that is not the usual one: the table has its reasons. */
static void choices_thin(const struct choices *list, int n, const struct choice *usual, bool *wanted)
{
    enum { OF_OTHERS = 4 };
    for (int i = 0; i < n; i++) {
        int before = 0;
        for (int k = 0; k < i; k++) before += wanted[k] && !strcmp(list->of[k].kernel, list->of[i].kernel);
        wanted[i] = !strcmp(list->of[i].kernel, usual->kernel) || before < OF_OTHERS;
    }
}

int choices_prune(struct choices *list, const struct choice *usual, int most, bool all)
{
    const double factor = 2;
    int n = 0;
    double least = 0;
    bool wanted[CHOICES_LEGAL];
    struct choice rest[CHOICES_LEGAL];
    for (int i = 0; i < list->n; i++)
        if (list->of[i].bound > 0 && (!(least > 0) || list->of[i].bound < least)) least = list->of[i].bound;
    for (int i = 0; i < list->n; i++)
        if (!choice_same(&list->of[i], usual)) list->of[n++] = list->of[i];
    list->n = n;
    choices_sort(list, usual, least);
    for (int i = 0; i < n; i++) wanted[i] = !(list->of[i].bound > factor * least);
    list->kept = choices_divide(list, wanted, rest);
    memset(wanted, 0, sizeof wanted);
    choices_thin(list, list->kept, usual, wanted);
    list->kept = choices_divide(list, wanted, rest);
    if (list->kept > most) list->kept = most;
    if (!all) list->n = list->kept;
    return n - list->kept;
}
