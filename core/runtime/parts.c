/* Where the time since a context's beginning went, as the public API tells it. */
#include "base/parts.h"

#include <stdio.h>

#include "runtime/context.h"
#include "wherry/wherry_measure.h"

/* In the order of a start, but for what precedes it. */
static const struct {
    int part;
    const char *name;
} names[] = {{PART_OPEN, "open"},
             {PART_FILES, "model files"},
             {PART_TOKENIZER, "tokenizer"},
             {PART_PLAN, "plan"},
             {PART_CHECK, "check of kernels"},
             {PART_MEMORY, "device memory"},
             {PART_WEIGHTS, "weights"},
             {PART_UPLOAD, "upload"},
             {PART_BUILD, "compile kernels"},
             {PART_LOAD, "load kernels"},
             {PART_RECORD, "record"},
             {PART_LAUNCH, "first launches"},
             {PART_PROBE, "check of device"},
             {PART_RUN, "run"},
             {PART_REST, "rest"}};
enum { NAMES = sizeof names / sizeof *names };

static void add(wherry_part *out, size_t room, size_t *count, const char *verb, const char *name, uint64_t wall,
                uint64_t processor)
{
    if (*count < room) {
        wherry_part *p = &out[*count];
        snprintf(p->name, sizeof p->name, "%s%s", verb, name);
        p->seconds = (double)wall * 1e-9;
        p->processor_seconds = (double)processor * 1e-9;
    }
    ++*count;
}

wherry_status wherry_context_parts(wherry_context *context, wherry_part *out, size_t *count)
{
    if (!context) return WHERRY_STATUS_INVALID_ARGUMENT;
    if (!count) return context_invalid(context, "wherry_context_parts: count is NULL");
    struct parts *parts = context->host.parts;
    if (!parts) return context_invalid(context, "wherry_context_parts: the context was not made with `timed`");
    size_t room = out ? *count : 0;
    *count = 0;
    if (parts->thread == thread_number()) parts_update(parts);
    add(out, room, count, "", "before the context", parts->processor_before, parts->processor_before);
    for (size_t b = 0; b < backends_count; b++)
        add(out, room, count, "list ", backends[b]->name, parts->wall_ns[PART_LIST + b],
            parts->processor_ns[PART_LIST + b]);
    for (size_t i = 0; i < NAMES; i++)
        add(out, room, count, "", names[i].name, parts->wall_ns[names[i].part], parts->processor_ns[names[i].part]);
    return WHERRY_STATUS_OK;
}
