/* The works of `wherry bench layouts`: which are wanted, and what is drawn of each. */
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bench_layouts.h"
#include "hash.h"
#include "system.h"

bool layouts_progress(const char *what, size_t done, size_t total, void *user)
{
    (void)what, (void)done, (void)total, (void)user;
    return !system_stopped();
}

static bool name_is(const char *text, size_t length, const char *name)
{
    return strlen(name) == length && strncmp(text, name, length) == 0;
}

bool layouts_work_wanted(const struct options *options, int n)
{
    if (!options->only) return true;
    for (const char *at = options->only; *at; at += strcspn(at, ",") + (strchr(at, ',') != NULL))
        if (name_is(at, strcspn(at, ","), layouts_work_name(n))) return true;
    return false;
}

int layouts_works_check(const struct options *options)
{
    for (const char *at = options->only ? options->only : ""; *at; at += strcspn(at, ",") + (strchr(at, ',') != NULL)) {
        int n = 0;
        while (n < LAYOUT_WORKS && !name_is(at, strcspn(at, ","), layouts_work_name(n))) n++;
        if (n < LAYOUT_WORKS) continue;
        char names[512];
        struct text_writer writer = text_begin(names, sizeof names);
        for (n = 0; n < LAYOUT_WORKS; n++) text_add(&writer, "%s%s", n ? ", " : "", layouts_work_name(n));
        return complain(EXIT_USAGE, "--only: there is no \"%.*s\"; there are %s", (int)strcspn(at, ","), at, names);
    }
    return EXIT_FINE;
}

/* ---- what is drawn ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 16;
}

/* One of each of N equal parts of the space, the model's order first, the rest shuffled: whenever time is up, what was
 * measured is from everywhere. The same for the same seed. */
static void draw(struct work *w)
{
    const struct options *options = &w->bench->options;
    const uint64_t count = wherry_layout_bench_configurations(w->runs), usual = wherry_layout_bench_default(w->runs);
    const uint64_t parts = options->sample && options->sample < count ? options->sample : count;
    uint64_t state = hash_more(options->seed ? options->seed : 1, w->name, strlen(w->name));
    size_t n = 1;
    w->drawn = need(malloc((size_t)(parts + 1) * sizeof *w->drawn));
    w->drawn[0] = usual;
    for (uint64_t part = 0; part < parts; part++) {
        uint64_t low = part * (count / parts) + (part < count % parts ? part : count % parts);
        uint64_t size = count / parts + (part < count % parts);
        uint64_t index = low + next_random(&state) % size;
        if (index != usual && n < parts) w->drawn[n++] = index;
    }
    for (size_t at = n; at > 2; at--) {
        size_t with = 1 + (size_t)(next_random(&state) % (at - 1));
        uint64_t moved = w->drawn[at - 1];
        w->drawn[at - 1] = w->drawn[with];
        w->drawn[with] = moved;
    }
    w->n_drawn = n;
}

int layouts_work_open(struct bench *b, int number, struct work *w)
{
    *w = (struct work){.bench = b, .number = number, .name = layouts_work_name(number)};
    w->takes = number < PAPER_KERNELS ? w->name : paper_einsums[number - PAPER_KERNELS].einsum;
    const wherry_layout_bench_desc desc = {.struct_size = sizeof desc,
                                           .name = w->takes,
                                           .letters = paper_letters,
                                           .sizes = b->sizes,
                                           .dtype = (wherry_dtype)b->options.dtype,
                                           .repeats = b->options.repeats,
                                           .cache = *b->kernels ? b->kernels : NULL,
                                           .compile_only = b->options.compile_share != NULL};
    wherry_status status = wherry_layout_bench_create(b->tool.device, &desc, &w->runs);
    if (status) return tool_error(&b->tool, status, w->name);
    draw(w);
    return EXIT_FINE;
}

void layouts_work_close(struct work *w)
{
    wherry_layout_bench_destroy(w->runs);
    free(w->drawn);
}
