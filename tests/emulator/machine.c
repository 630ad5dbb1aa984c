/* Work-groups of an emulated launch: work-items that take turns, barriers, and what is wrong when nobody can go on. */
#include "emulator.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/text.h"

enum { STACK_BYTES = 1 << 20, STALLS_MOST = 8 };

struct item *item;
struct group group;

static void *scheduler_stack;
static uint32_t launches;
static jmp_buf failed;
static char *failure;
static size_t failure_size;
static bool ask_again; /* nobody could go on: those that wait for a phase look again */

/* ---- switching ---- */

/* Saves the callee's registers on the stack, the stack pointer in *from, and goes on where `to` was left. */
void emulator_switch(void **from, void *to);
__asm__(".text\n"
        ".globl emulator_switch\n"
        ".hidden emulator_switch\n"
        "emulator_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n");

/* Arguments beyond the sixth lie on the stack, where a function with fewer of them does not look. */
typedef void kernel_function(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                             uint64_t, uint64_t, uint64_t, uint64_t);

static void item_main(void)
{
    const uint64_t *a = group.launch->arguments;
    kernel_function *f = (kernel_function *)group.launch->function;
    f(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15], a[16],
      a[17], a[18], a[19], a[20], a[21], a[22], a[23], a[24], a[25], a[26], a[27], a[28], a[29], a[30], a[31], a[32],
      a[33], a[34], a[35], a[36], a[37], a[38], a[39]);
    item_finish();
    item->done = true;
    emulator_switch(&item->stack_pointer, scheduler_stack);
    abort();
}

static bool item_begin(uint32_t number)
{
    struct item *i = &group.items[number];
    if (!i->stack) {
        void *stack =
            mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) return false;
        i->stack = stack;
    }
    struct item fresh = {.stack = i->stack, .number = number, .copies = i->copies, .room = i->room};
    *i = fresh;
    void **top = (void **)(i->stack + STACK_BYTES) - 2; /* a function begins 8 bytes off a multiple of 16 */
    *top = (void *)item_main;
    memset(top - 6, 0, 6 * sizeof *top);
    i->stack_pointer = top - 6;
    return true;
}

/* ---- waiting ---- */

void machine_fail(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    struct text_writer text = text_begin(failure, failure_size);
    text_add(&text, "kernel %s, group %u, ", group.launch->name, group.id[0]);
    if (item) text_add(&text, "work-item %u: ", item->number);
    vsnprintf(text.at + text.used, text.size - text.used, format, list);
    va_end(list);
    longjmp(failed, 1);
}

static void yield(void) { emulator_switch(&item->stack_pointer, scheduler_stack); }

void item_yield(void)
{
    item->lazy = true;
    yield();
    item->lazy = false;
}

void item_wait(const uint32_t *counter, uint32_t value, const char *format, ...)
{
    if (*counter != value) return;
    va_list list;
    va_start(list, format);
    vsnprintf(item->waits_for, sizeof item->waits_for, format, list);
    va_end(list);
    item->counter = counter;
    item->value = value;
    item->waits_for_phase = false;
    while (*counter == value) yield();
    item->counter = NULL;
}

bool item_wait_phase(const uint32_t *counter, uint32_t value, uint32_t barrier)
{
    if (*counter != value) return true;
    snprintf(item->waits_for, sizeof item->waits_for, "phase %u of the mbarrier at %u", value, barrier);
    item->counter = counter;
    item->value = value;
    item->waits_for_phase = true;
    yield();
    item->counter = NULL;
    return *counter != value;
}

void warp_meet(const void *instruction)
{
    struct warp *w = &group.warps[item->number / WARP];
    uint32_t before = w->generation, lane = item->number % WARP;
    struct lanes *shown = w->lanes[item->turn];
    item->turn ^= 1;
    shown[lane].instruction = instruction;
    if (++w->arrived == w->size) {
        w->arrived = 0;
        w->generation++;
    } else {
        item_wait(&w->generation, before, "its warp");
    }
    if (shown[0].instruction != instruction) machine_fail("the warp's lanes are at different instructions");
}

void meet(struct meeting *m, uint32_t number, uint32_t items, bool stay)
{
    uint32_t before = m->generation;
    if (m->arrived && m->items != items)
        machine_fail("comes to barrier %u with %u work-items, others with %u", number, items, m->items);
    m->items = items;
    if (++m->arrived == items) {
        m->arrived = 0;
        m->generation++;
    } else if (stay) {
        item_wait(&m->generation, before, "barrier %u of %u", number, items);
    }
}

/* ---- a work-group ---- */

/* What most work-items wait for, for the message. */
static void fail_stuck(uint32_t items)
{
    char text[900];
    struct text_writer t = text_begin(text, sizeof text);
    for (uint32_t i = 0, begin = 0; i < items; i++) {
        const struct item *a = &group.items[i], *b = i + 1 < items ? &group.items[i + 1] : NULL;
        if (b && a->done == b->done && !strcmp(a->waits_for, b->waits_for)) continue;
        if (!a->done) text_add(&t, "; %u to %u wait for %s", begin, i, a->waits_for);
        begin = i + 1;
    }
    for (uint32_t i = 0; i < group.n_used; i++) {
        const struct mbarrier *m = &group.mbarriers[group.used[i]];
        text_add(&t, "; mbarrier at %u: phase %u, %u of %u arrivals and %lld bytes missing", group.used[i] * 8,
                 m->phase, m->pending, m->arrivals, (long long)m->bytes);
    }
    item = NULL;
    machine_fail("nobody can go on%s", text);
}

static bool can_go_on(const struct item *i)
{
    return !i->counter || *i->counter != i->value || (ask_again && i->waits_for_phase);
}

/* How work-items take turns: other ways in each launch, so that a kernel that relies on one of them fails in some. */
struct order {
    uint32_t first;       /* work-item of a round */
    bool backwards;       /* in a round */
    bool late;            /* tensors' copies are made when nobody can go on without, else after each round */
    uint32_t slow, width; /* work-items [slow, slow + width) go on only when the others can't */
};

static struct order order_of(uint32_t number, uint32_t items)
{
    uint32_t bits = (number ^ number >> 7) * 2654435761u;
    uint32_t width = items > WARPGROUP && bits >> 10 & 1 ? WARPGROUP : WARP,
             units = items / width + 1; /* the last one is nobody */
    return (struct order){.first = (bits >> 16) % items,
                          .backwards = bits >> 8 & 1,
                          .late = bits >> 9 & 1,
                          .slow = (bits >> 12) % units * width,
                          .width = width};
}

/* One round over the fast or the slow ones; how many went on that did not only ask again. */
static uint32_t round_go(uint32_t items, const struct order *o, bool slow, uint32_t *left)
{
    uint32_t went = 0;
    for (uint32_t k = 0; k < items; k++) {
        struct item *i = &group.items[(o->first + (o->backwards ? items - k : k)) % items];
        if (i->done || !can_go_on(i)) continue;
        if ((i->lazy || i->number - o->slow < o->width) != slow) continue;
        went += !i->counter || *i->counter != i->value;
        item = i;
        emulator_switch(&scheduler_stack, i->stack_pointer);
        *left -= i->done;
    }
    item = NULL;
    return went;
}

static void group_schedule(uint32_t items, const struct order *o)
{
    uint32_t left = items, stalls = 0;
    while (left) {
        bool asked = ask_again;
        uint32_t went = round_go(items, o, false, &left);
        if (!went) went = round_go(items, o, true, &left);
        ask_again = false;
        if (instructions_pending() && !(o->late && went)) {
            instructions_finish();
            went = 1;
        }
        if (went) stalls = 0;
        if (went || !left) continue;
        ask_again = true;
        if (asked && ++stalls > STALLS_MOST) fail_stuck(items);
    }
    for (uint32_t i = 0; i < group.n_used; i++)
        if (group.mbarriers[group.used[i]].bytes)
            machine_fail("ends, and the mbarrier at %u still expects %lld bytes", group.used[i] * 8,
                         (long long)group.mbarriers[group.used[i]].bytes);
}

static void group_run(const struct launch *l)
{
    for (uint32_t i = 0; i < group.n_used; i++) group.mbarriers[group.used[i]].live = false;
    group.n_used = 0;
    memset(group.named, 0, sizeof group.named);
    memset(group.warpgroups, 0, sizeof group.warpgroups);
    for (uint32_t w = 0; w * WARP < l->items; w++) {
        group.warps[w].arrived = group.warps[w].generation = group.warps[w].factors_of = 0;
        group.warps[w].size = l->items - w * WARP < WARP ? l->items - w * WARP : WARP;
    }
    item = NULL;
    for (uint32_t i = 0; i < l->items; i++)
        if (!item_begin(i)) machine_fail("no memory for the stack of work-item %u", i);
    memset(l->module->shared, 0xff, l->module->shared_bytes); /* no number of any type */
    const struct order order = order_of(launches, l->items);
    group_schedule(l->items, &order);
}

bool machine_run(const struct launch *l, char *message, size_t size)
{
    failure = message;
    failure_size = size;
    message[0] = 0;
    group.launch = l;
    launches++;
    ask_again = false;
    if (setjmp(failed)) {
        instructions_forget();
        return false;
    }
    /* Forwards and backwards in turns: which one is the last of several is up to the GPU. */
    const uint64_t row = l->groups[0], all = row * l->groups[1] * l->groups[2];
    const char *most = getenv("WHERRY_EMULATOR_GROUPS");
    for (uint64_t i = 0; i < all; i++) {
        if (most && i == strtoull(most, NULL, 10)) machine_fail("ends before its work-group %u", (unsigned)i);
        uint64_t at = launches % 2 ? i : all - 1 - i;
        group.id[0] = (uint32_t)(at % row);
        group.id[1] = (uint32_t)(at / row % l->groups[1]);
        group.id[2] = (uint32_t)(at / row / l->groups[1]);
        group_run(l);
    }
    return true;
}
