/* Plans a session: everything that is decided before a device allocates or compiles anything, but the rungs. */
#include "runtime/plan.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/round.h"
#include "base/text.h"
#include "graph/fold.h"
#include "interface/interface.h"
#include "plan/pieces.h"
#include "plan/variants.h"
#include "runtime/buffers.h"
#include "runtime/calls.h"
#include "runtime/launches.h"
#include "runtime/output.h"
#include "runtime/tuned.h"
#include "runtime/types.h"

enum { DEFAULT_MAX_TOKENS = 16384 };

static struct batch_shape limits_shape(uint32_t tokens, uint32_t sequences, uint32_t length, uint32_t labels)
{
    return (struct batch_shape){.sequences = sequences < tokens ? sequences : tokens,
                                .tokens = tokens,
                                .pairs = (uint64_t)tokens * (length < tokens ? length : tokens),
                                .longest = length < tokens ? length : tokens,
                                .labelled = labels && labels < tokens ? labels : tokens,
                                .next = sequences < tokens ? sequences : tokens};
}

/* ---- the graph ---- */

/* Whether wherry_session_desc.kernels names something; else the error has the names. */
static bool kernels_check(const char *kernels, struct error *e)
{
    char names[128];
    struct text_writer t = text_begin(names, sizeof names);
    if (!kernels || !*kernels || !strcmp(kernels, "auto") || !strcmp(kernels, "clblast") || !strcmp(kernels, "onednn"))
        return true;
    for (int r = 0; r < RUNG_COUNT; r++) {
        if (!strcmp(kernels, rung_name((enum rung)r))) return true;
        text_add(&t, "%s, ", rung_name((enum rung)r));
    }
    return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                "no way to compute products is called \"%.40s\": there are auto, %sclblast, onednn", kernels, names);
}

static bool resolve_training(const wherry_training_desc *desc, const char *plan, struct graph_options *options,
                             struct error *e)
{
    const uint32_t layers = options->config->layers;
    if (!desc) return true;
    if (desc->struct_size != sizeof *desc)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "wherry_training_desc.struct_size is %u, this library's is %zu",
                    desc->struct_size, sizeof *desc);
    if (!(desc->dropout >= 0 && desc->dropout < 1))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "a dropout of %s: it must be at least 0 and below 1",
                    NUMBER("%g", (double)desc->dropout));
    if (desc->save > WHERRY_SAVE_LEAST)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "save %d is none of wherry_save", (int)desc->save);
    if (desc->qkv_products > 3)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "qkv_products is %u: there are three of them at most",
                    desc->qkv_products);
    if (desc->least_layers > layers || (desc->least_layers && desc->save))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "least_layers is %u: it is at most the number of layers, %u, and goes with WHERRY_SAVE_DEFAULT",
                    desc->least_layers, layers);
    options->training = true;
    options->least_layers = (int)desc->least_layers;
    options->qkv_parts = desc->qkv_products;
    options->dropout = desc->dropout;
    options->save = desc->save;
    options->stack = desc->stack;
    options->flash = !strcmp(plan, "flash");
    return true;
}

static bool make_graph_with(struct wherry_session *s, const char *layouts, struct graph_options *options,
                            struct error *e)
{
    TRY(orders_read(layouts, &options->layout, e));
    if (options->layout.channel_major && strcmp(s->plan->name, "flash"))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "layouts: active=ubj is for the plan \"flash\": no kernel of the plan \"%s\" sums rows of tokens",
                    s->plan->name);
    if (options->layout.channel_major && options->bf16)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "layouts: active=ubj is not for bf16: use f32, or leave it out");
    if (options->layout.channel_major && s->int8)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "layouts: active=ubj is not for int8 weights: leave it out");
    if (options->layout.channel_major) options->slopes = false; /* they come with rows of tokens */
    TRY(graph_create(&s->context->host, options, &s->graph, e));
    s->layout = options->layout;
    return true;
}

/* With the orders that are asked for, else with those that were tuned, else with the model's. */
static bool make_graph(struct wherry_session *s, const char *layouts, struct graph_options *options, struct error *e)
{
    const struct tuned_layouts *tuned = layouts ? NULL : tuning_layouts(&s->tuning, s->kind);
    struct error refused;
    if (!tuned) return make_graph_with(s, layouts, options, e);
    if (make_graph_with(s, tuned->layouts, options, &refused)) {
        snprintf(s->why, sizeof s->why, "tuned: a run took %s us, with the model's orders and the table's sizes %s",
                 NUMBER("%.4g", 1e6 * tuned->best), NUMBER("%.4g", 1e6 * tuned->usual));
        return true;
    }
    TRY(session_note(s, e, "tuned layouts %s are not used: %.280s", tuned->layouts, refused.text));
    return make_graph_with(s, NULL, options, e);
}

/* The graph of the session's type, which is another one where f16 does not hold the weights. */
static bool graph_of_type(struct wherry_session *s, const wherry_session_desc *desc, bool tuned,
                          struct graph_options *options, struct error *e)
{
    for (bool again = true; again;) {
        TRY(session_kind(s, options, desc->kernels, s->kind, e));
        if (tuned) TRY(session_tuning(s, desc->tuning, e));
        TRY(make_graph(s, desc->layouts, options, e) && types_fit(s, desc, &again, e));
        if (!again) break;
        tuning_free(&s->context->host, &s->tuning);
        graph_destroy(&s->graph);
    }
    return true;
}

/* Whether the session's products may be wgmma's, for which the graph then is made: others run it, too. */
static bool may_take_wgmma(const struct wherry_session *s, const char *kernels, const struct device_limits *device)
{
    bool asked = !kernels || !*kernels || !strcmp(kernels, "auto") || !strcmp(kernels, rung_name(RUNG_WGMMA));
    return asked && s->f16 && device->rungs & RUNG_BIT(RUNG_WGMMA);
}

/* By the rungs that the session takes, as its kernels' sizes are. */
static struct batch_tables session_tables(const struct wherry_session *s)
{
    const wherry_model_config *c = &s->model->info.config;
    const struct device_limits *device = &s->device_limits;
    return (struct batch_tables){tile_queries(device), tile_scores(device), c->relative_buckets, c->relative_distance};
}

bool session_begin(struct wherry_session *s, const wherry_session_desc *desc, bool tuned, struct error *e)
{
    const struct device_limits *device = s->device->backend->limits(s->device->handle);
    const wherry_model_info *info = &s->model->info;
    struct graph_options options = {.config = &info->config};
    if (!(s->plan = plan_find(desc->plan ? desc->plan : "flash", e))) return false;
    TRY(kernels_check(desc->kernels, e));
    TRY(output_resolve(s->model, desc, &options, e));
    s->dimensions = output_dimensions(desc, info);
    if (!(desc->max_submit_ms >= 0 && desc->max_submit_ms <= 1e9))
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "max_submit_ms is no number of milliseconds from 0 to 1e9");
    s->max_submit_seconds = 1e-3 * desc->max_submit_ms;
    TRY(launches_resolve(s, desc->max_launch_ms, e));
    s->pause_ns = 1000 * (uint64_t)desc->pause_us;
    s->normalized = options.normalize;
    TRY(resolve_training(desc->training, s->plan->name, &options, e));
    if (options.stack) output_of_stack(&options);

    TRY(types_resolve(s, desc, device, e));
    options.bf16 = s->bf16 && !s->f16;
    options.int8 = s->int8;
    options.strips = !strcmp(s->plan->name, "flash");
    options.pitched = options.strips && may_take_wgmma(s, desc->kernels, device);
    options.slopes = options.pitched && options.save == WHERRY_SAVE_DEFAULT;
    s->max_length = desc->max_length ? desc->max_length : info->max_tokens;
    if (s->max_length > info->max_tokens)
        return fail(e, WHERRY_STATUS_TOO_LONG, "sequences of %u tokens: this model has positions for %u", s->max_length,
                    info->max_tokens);
    uint32_t tokens = desc->max_tokens ? desc->max_tokens : DEFAULT_MAX_TOKENS;
    s->max_labels = desc->max_labels;
    s->limits = limits_shape(tokens, desc->max_sequences ? desc->max_sequences : output_sequences(&options, tokens),
                             s->max_length, s->max_labels);
    options.tokens = tokens;
    output_scores(&s->limits, &options);
    s->part = desc->only != NULL;
    s->keep = desc->keep_intermediates || s->part;
    s->device_limits = *device;

    return graph_of_type(s, desc, tuned, &options, e);
}

/* ---- a part of a plan ---- */

static bool is_word(const char *name, const char *word, size_t length)
{
    return strlen(name) == length && !strncmp(name, word, length);
}

/* Whether the list, with commas, has the group's name. */
static bool group_named(const struct group *group, const char *list)
{
    for (const char *word = list; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (is_word(group_short_name(group), word, strcspn(word, ","))) return true;
    return false;
}

/* Leaves the groups that the session is to have, in their order. */
static bool groups_select(struct wherry_session *s, struct error *e)
{
    for (const char *word = s->only;; word++) {
        size_t length = strcspn(word, ",");
        bool found = false;
        for (int i = 0; i < s->n_groups; i++) found |= is_word(group_short_name(&s->groups[i]), word, length);
        if (!found)
            return fail(e, WHERRY_STATUS_INVALID_ARGUMENT, "on %s the plan %s has no group \"%.*s\"%s%.400s",
                        s->device->info.id, s->plan->name, (int)(length < 40 ? length : 40), word,
                        s->n_notes ? ": " : "", s->n_notes ? s->notes[0] : "");
        word += length;
        if (!*word) break;
    }
    int n = 0;
    for (int i = 0; i < s->n_groups; i++)
        if (group_named(&s->groups[i], s->only)) s->groups[n++] = s->groups[i];
    s->n_groups = n;
    return true;
}

/* ---- covering the graph by what the device runs ---- */

static bool filter_runs(const struct graph *g, const struct group *group, char *reason, size_t size, void *user)
{
    struct wherry_session *s = user;
    struct error e = {0};
    if (s->only && !group_named(group, s->only)) return true; /* it will not run */
    struct call calls[GROUP_MAX_CALLS];
    const char *reasons[GROUP_MAX_CALLS];
    uint64_t scratch;
    int count;
    if (!session_calls(s, g, group, NULL, calls, reasons, &count, &scratch, &e)) {
        snprintf(reason, size, "%s", e.text);
        return false;
    }
    const struct sizes sizes = {.limits = &s->device_limits, .f16 = s->f16, .longest = s->limits.longest};
    const char *refused;
    if (!call_runs(&calls[0], &sizes, &refused)) { /* a backend, asked below, does not know how long sequences are */
        snprintf(reason, size, "%s", refused);
        return false;
    }
    size_t have = s->device_limits.shared_bytes;
    if (call_fuses(&calls[0])) { /* no variant took it */
        snprintf(reason, size, "the portable kernel %s does less", calls[0].kernel);
        return false;
    }
    for (int i = 0; i < count; i++) {
        /* A variant knows what it may take, which can be more than the driver says. */
        if (!variant_find(calls[i].kernel) && call_shared_bytes(&calls[i]) > have) {
            snprintf(reason, size, "the kernel %s needs %zu bytes of shared memory, the device has %zu",
                     calls[i].kernel, call_shared_bytes(&calls[i]), have);
            return false;
        }
        TRY(s->device->backend->supports(s->device->handle, &calls[i], session_type(s), reason, size));
    }
    return true;
}

static void filter_split(const struct graph *g, const struct group *group, const char *reason, void *user)
{
    struct wherry_session *s = user;
    struct error e = {0};
    (void)g;
    s->splits++;
    session_note(s, &e, "%s, %d operators, does not run as one kernel on %s: %s", group_short_name(group), group->count,
                 s->device->info.id, reason);
}

/* Calls that the tables' pieces make out of one, at most, over all groups. */
static size_t calls_of_pieces(const struct wherry_session *s)
{
    const struct device_limits *d = &s->device_limits;
    size_t more = 0;
    for (int i = 0; i < s->n_groups; i++) {
        const struct group *group = &s->groups[i];
        for (int k = 0; k < group->n_reads + group->n_writes; k++) {
            int t = k < group->n_reads ? group->reads[k] : group->writes[k - group->n_reads];
            uint64_t piece = table_piece_bytes(&s->graph, &s->limits, t, session_storage(s), d->max_binding_bytes,
                                               d->max_buffer_bytes);
            uint64_t elements = piece ? tensor_elements(&s->graph, &s->limits, t) : 0;
            if (piece) more += (size_t)(elements * session_storage(s) / piece);
        }
    }
    return more;
}

/* Adds a group's calls, each as often as it has pieces. */
static bool add_calls(struct wherry_session *s, int group, const struct call *calls, const char *const *reasons,
                      int count, struct error *e)
{
    const struct device_limits *d = &s->device_limits;
    for (int i = 0; i < count; i++) {
        uint32_t pieces;
        TRY(call_pieces(&s->graph, &s->limits, &calls[i], session_storage(s), d->max_binding_bytes, d->max_buffer_bytes,
                        &pieces, e));
        for (uint32_t piece = 0; piece < pieces; piece++) {
            s->calls[s->n_calls] = calls[i];
            s->reasons[s->n_calls] = reasons[i];
            s->call_groups[s->n_calls] = group;
            call_piece(&s->graph, &s->limits, &s->calls[s->n_calls++], session_storage(s), d->max_binding_bytes,
                       d->max_buffer_bytes, piece);
        }
    }
    return true;
}

/* Calls of all groups, back to back. */
static bool make_calls(struct wherry_session *s, struct error *e)
{
    const struct host *host = &s->context->host;
    size_t most = (size_t)s->n_groups * GROUP_MAX_CALLS + calls_of_pieces(s);
    bool queries = false, scores = false;
    if (!(s->calls = host_alloc(host, most, sizeof *s->calls, e)) ||
        !(s->call_groups = host_alloc(host, most, sizeof *s->call_groups, e)) ||
        !(s->reasons = host_alloc(host, most, sizeof *s->reasons, e)) ||
        !(s->scratch = host_alloc(host, (size_t)s->n_groups, sizeof *s->scratch, e)))
        return false;
    int forward = groups_forward(s->groups, s->n_groups);
    for (int i = 0; i < s->n_groups; i++) {
        int count;
        if (i == forward) s->boundary = s->n_calls;
        struct call calls[GROUP_MAX_CALLS];
        const char *reasons[GROUP_MAX_CALLS];
        TRY(session_calls(s, &s->graph, &s->groups[i], NULL, calls, reasons, &count, &s->scratch[i], e));
        TRY(add_calls(s, i, calls, reasons, count, e));
    }
    if (forward == s->n_groups) s->boundary = s->n_calls;
    for (int i = 0; i < s->n_calls; i++) {
        const struct call *call = &s->calls[i];
        scores |= call->launch == LAUNCH_SCORES;
        if (call->launch != LAUNCH_QUERIES) continue;
        /* A batch has one table of queries: their tiles are those of whatever kernel goes by it. */
        uint32_t tile = call_get(call, CONST_TILE_M, s->tables.query_tile);
        if (queries && tile != s->tables.query_tile)
            return fail(e, WHERRY_STATUS_UNSUPPORTED, "%s has tiles of %u queries, another kernel of %u", call->kernel,
                        (unsigned)tile, (unsigned)s->tables.query_tile);
        s->tables.query_tile = tile;
        queries = true;
    }
    if (!queries) s->tables.query_tile = 0;
    if (!scores) s->tables.score_tile = 0;
    return true;
}

bool session_cover(struct wherry_session *s, const char *only, bool optional, struct error *e)
{
    const struct group_filter filter = {filter_runs, filter_split, s, .optional = optional};
    s->only = only;
    s->covered_notes = s->n_notes;
    s->tables = session_tables(s);
    const bool halves = s->f16 && !s->part && optional && s->device_limits.rungs & RUNGS_OF_MOMENTS;
    TRY(norms_split(&s->graph, s->plan, halves ? &filter : NULL, e) &&
        groups_create(&s->graph, s->plan, &filter, &s->groups, &s->n_groups, e));
    if (s->part) TRY(groups_select(s, e));
    s->only = NULL;
    return make_calls(s, e);
}

void session_uncover(struct wherry_session *s)
{
    const struct host *host = &s->context->host;
    void **memory[] = {(void **)&s->groups, (void **)&s->calls, (void **)&s->call_groups, (void **)&s->reasons,
                       (void **)&s->scratch};
    for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) {
        host_free(host, *memory[i]);
        *memory[i] = NULL;
    }
    memory_plan_destroy(&s->memory);
    s->n_groups = s->n_calls = s->boundary = 0;
    s->n_notes = s->covered_notes;
    s->splits = 0;
}

/* ---- memory within a budget ---- */

static bool plan_memory(struct wherry_session *s, const struct batch_shape *limits, struct memory_plan *out,
                        struct error *e)
{
    const struct device_limits *device = &s->device_limits;
    return memory_plan_create(&s->context->host,
                              &(struct memory_request){.graph = &s->graph,
                                                       .groups = s->groups,
                                                       .n_groups = s->n_groups,
                                                       .limits = *limits,
                                                       .storage = session_storage(s),
                                                       .scratch = s->scratch,
                                                       .max_block_bytes = device->max_buffer_bytes,
                                                       .max_tensor_bytes = device->max_binding_bytes,
                                                       .given = s->shared.of ? &s->shared.given : NULL,
                                                       .keep = s->keep,
                                                       .guard = s->keep ? MEMORY_ALIGNMENT : 0,
                                                       .tables_bytes = 4 * batch_words_most(&s->tables, limits)},
                              out, e);
}

static uint64_t budget_of(const struct wherry_session *s, const wherry_session_desc *desc)
{
    uint64_t device = s->device_limits.memory_bytes;
    return desc->memory_budget ? desc->memory_budget : device ? device : UINT64_MAX;
}

uint32_t session_tokens_within(struct wherry_session *s, const wherry_session_desc *desc)
{
    uint64_t budget = budget_of(s, desc);
    uint32_t low = 0, high = (uint32_t)s->limits.tokens, stride = s->graph.channel_stride;
    while (low < high) {
        uint32_t middle = low + (high - low + 1) / 2;
        struct batch_shape limits = limits_shape(middle, s->limits.sequences, s->max_length, s->max_labels);
        struct memory_plan plan;
        struct error e = {0};
        if (stride) s->graph.channel_stride = (uint32_t)round_up(middle, CHANNEL_ROUND);
        bool ok = plan_memory(s, &limits, &plan, &e) && plan.bytes <= budget;
        memory_plan_destroy(&plan);
        if (ok)
            low = middle;
        else
            high = middle - 1;
    }
    s->graph.channel_stride = stride;
    return low;
}

/* With what other sessions have there, unless all memory is one buffer, which has nothing of others'. */
static bool plan_with_shared(struct wherry_session *s, struct error *e)
{
    memory_plan_destroy(&s->memory);
    s->shared.wanted = s->shares && !session_one_buffer(s);
    TRY(shared_weights_find(s, e) && plan_memory(s, &s->limits, &s->memory, e));
    if (!s->shares || s->shared.wanted || session_in_one_buffer(s)) return true;
    memory_plan_destroy(&s->memory);
    s->shared.wanted = true;
    return shared_weights_find(s, e) && plan_memory(s, &s->limits, &s->memory, e);
}

bool session_place(struct wherry_session *s, const wherry_session_desc *desc, bool *over, struct error *e)
{
    uint64_t budget = budget_of(s, desc);
    *over = false;
    if (!plan_with_shared(s, e)) {
        struct error cause = *e;
        *over = cause.status == WHERRY_STATUS_OUT_OF_DEVICE_MEMORY;
        return *over && fail(e, cause.status, "%.600s;", cause.text);
    }
    *over = s->memory.bytes > budget;
    return !*over || fail(e, WHERRY_STATUS_OUT_OF_DEVICE_MEMORY,
                          "batches of %llu tokens need %llu bytes of device memory%s, the budget is %llu:",
                          (unsigned long long)s->limits.tokens, (unsigned long long)s->memory.bytes,
                          s->memory.given_bytes ? " beside the weights that other sessions have" : "",
                          (unsigned long long)budget);
}

void session_shrink(struct wherry_session *s, uint32_t tokens, uint32_t longest)
{
    if (tokens > s->limits.tokens) tokens = (uint32_t)s->limits.tokens;
    if (longest > s->limits.longest) longest = s->limits.longest;
    s->limits = limits_shape(tokens, s->limits.sequences, longest, s->max_labels);
    memset(s->scratch, 0, (size_t)s->n_groups * sizeof *s->scratch);
    for (int i = 0; i < s->n_calls; i++) {
        uint64_t *most = &s->scratch[s->call_groups[i]], bytes = session_scratch_bytes(s, &s->calls[i]);
        if (bytes > *most) *most = bytes;
    }
}

bool session_remedy(uint32_t tokens, struct error *e)
{
    struct error cause = *e;
    char remedy[160];
    if (tokens)
        snprintf(remedy, sizeof remedy, "the largest batch that fits has %u tokens (max_tokens)", tokens);
    else
        snprintf(remedy, sizeof remedy,
                 "no batch fits: use f16, the plan \"flash\", a smaller model or another device");
    return fail(e, cause.status, "%.700s %s", cause.text, remedy);
}

/* ---- 32-bit indices ---- */

static bool indices_fit(const struct wherry_session *s, struct error *e)
{
    for (int t = 0; t < s->graph.n_tensors; t++) {
        if (s->graph.tensors[t].role == TENSOR_VALUE && s->memory.of[t].block < 0) continue;
        uint64_t n = tensor_extent(&s->graph, &s->limits, t);
        if (n >= UINT32_MAX)
            return fail(e, WHERRY_STATUS_TOO_LONG,
                        "%s would have %llu elements, and kernels index with 32 bits: use smaller limits (tokens, "
                        "length) or the plan \"flash\"",
                        s->graph.tensors[t].name, (unsigned long long)n);
    }
    return true;
}

bool session_finish(struct wherry_session *s, struct error *e)
{
    TRY(indices_fit(s, e));
    char note[400];
    /* These are logged already: by the device's opening, and the context's. */
    if (device_priority_note(s->device, note, sizeof note)) TRY(session_note_logged(s, note, e));
    return !s->context->uncached.text[0] || !s->device->kernels_hash ||
           session_note_logged(s, s->context->uncached.text, e);
}
