/* What a trainer's memory is for. */
#include "train/state.h"
#include "train/trainer.h"

/* Bytes of the session's gradients of weights, as they are placed. */
static uint64_t gradient_bytes(const struct wherry_session *s)
{
    uint64_t bytes = 0;
    for (int t = 0; t < s->graph.n_tensors; t++)
        if (s->graph.tensors[t].gradient_of >= 0) bytes += s->memory.of[t].bytes;
    return bytes;
}

void trainer_memory(const struct wherry_trainer *t, wherry_train_memory *out)
{
    const struct wherry_session *s = t->session;
    const struct optimizer *o = t->optimizer;
    wherry_session_plan plan = {.struct_size = sizeof plan};
    wherry_session_query(s, &plan);
    const uint64_t gradients = gradient_bytes(s), others = plan.activation_bytes - gradients;
    /* Gradients may lie where something was kept for their making. */
    const uint64_t saved = plan.saved_bytes < others ? plan.saved_bytes : others;
    const uint64_t none = arena_bytes(&o->arena, 0), each = arena_bytes(&o->arena, 1) - none;
    const uint64_t sums = each * (uint64_t)o->arena.sums, tables = none - sums;
    const struct adapters_bytes adapters = adapters_bytes(o->options.adapters);
    const bool first = o->parts >> ARENA_FIRST & 1u, second = o->parts >> ARENA_SECOND & 1u;
    *out =
        (wherry_train_memory){.struct_size = sizeof *out,
                              .weights = plan.weight_bytes + adapters.values + adapters.base,
                              .masters = o->parts >> ARENA_MASTER & 1u ? each : 0,
                              .moments = each * ((uint64_t)first + (uint64_t)second),
                              .gradients = gradients + adapters.values,
                              .accumulated = sums + (o->parts >> ARENA_GRADIENT & 1u ? each : 0),
                              .saved = saved,
                              .workspace = others - saved,
                              .loss = t->loss ? loss_session(t->loss)->memory.bytes : 0,
                              .tables = tables + o->header_bytes + o->verdict_bytes + o->table_bytes + adapters.tables};
    out->total = plan.device_bytes + out->loss + optimizer_bytes(o).memory + 2 * adapters.values + adapters.base +
                 adapters.tables + buckets_bytes(t->sharding.buckets);
    out->tables += buckets_bytes(t->sharding.buckets);
}
