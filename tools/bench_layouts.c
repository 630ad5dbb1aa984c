/* `wherry bench layouts`: the paper's kernels and contractions with their tensors in other orders, measured. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "bench_layouts.h"
#include "commands.h"
#include "compile_jobs.h"
#include "layer.h"
#include "report/fields.h"
#include "report/layouts.h"
#include "report/write.h"
#include "system.h"

enum {
    CHUNK = 16, /* configurations that are compiled together */
    LEAST = 2,  /* of a work, however late it is */
    NEIGHBOURS = 128,
    SEARCHES = 3 /* steps from the best, or the worst, that was drawn */
};

static const double drawing_share = 0.7; /* of a work's time, where that is limited; the rest is for searching */

/* The letters' sizes: j and k are the sequence's length, p a head's width. */
static void sizes_set(struct bench *b, const wherry_model_config *config)
{
    const uint32_t batch = b->options.batch ? b->options.batch : PAPER_BATCH;
    const uint32_t length = b->options.seq ? b->options.seq : PAPER_LENGTH;
    const struct {
        char letter;
        uint32_t size;
    } known[] = {{'b', batch},
                 {'j', length},
                 {'k', length},
                 {'h', config->heads},
                 {'p', config->hidden / config->heads},
                 {'i', config->hidden},
                 {'u', config->feed_forward},
                 {'q', 3},
                 {'v', 2}};
    for (size_t n = 0; n < sizeof known / sizeof *known; n++)
        b->sizes[strchr(paper_letters, known[n].letter) - paper_letters] = known[n].size;
}

/* ---- measuring ---- */

/* Those of the list that the log lacks, until the time is up; the first `least` of them whatever the time. */
static int measure(struct work *w, const uint64_t *list, size_t count, size_t least, double until)
{
    struct bench *b = w->bench;
    for (size_t at = 0; at < count;) {
        uint64_t some[CHUNK];
        wherry_layout_result results[CHUNK];
        struct layouts_entry entries[CHUNK];
        const bool late = system_seconds() >= until;
        size_t n = 0;
        for (; at < (late ? least : count) && n < CHUNK; at++)
            if (!layouts_log_find(&b->log, w->name, list[at])) some[n++] = list[at];
        if (!n) break;
        progress_show("measuring: %s, %zu of %zu, %d more after it", w->name, at - n, count, b->works - 1);
        wherry_status status = wherry_layout_bench_measure(w->runs, some, n, layouts_progress, NULL, results);
        if (system_stopped()) return complain(EXIT_STOPPED, "interrupted");
        if (status) return tool_error(&b->tool, status, w->name);
        for (size_t i = 0; i < n; i++) {
            entries[i] = (struct layouts_entry){.configuration = some[i], .result = results[i]};
            snprintf(entries[i].work, sizeof entries[i].work, "%s", w->name);
        }
        int code = layouts_log_add(&b->log, entries, n);
        if (code) return code;
    }
    return EXIT_FINE;
}

/* The fastest, or the slowest, of what was measured; NULL: none is right. */
static const struct layouts_entry *extreme(const struct work *w, bool slowest)
{
    const struct layouts_log *log = &w->bench->log;
    const struct layouts_entry *found = NULL;
    for (size_t n = 0; n < log->count; n++) {
        const struct layouts_entry *m = &log->entries[n];
        if (m->result.verdict || strcmp(m->work, w->name)) continue;
        if (!found || (slowest ? m->result.time.median > found->result.time.median
                               : m->result.time.median < found->result.time.median))
            found = m;
    }
    return found;
}

/* From the best that was drawn to better ones that differ in one choice, and likewise from the worst: a sample hardly
 * has the space's own. */
static int search(struct work *w, bool slowest)
{
    uint64_t from = UINT64_MAX, list[NEIGHBOURS];
    for (int step = 0; step < SEARCHES && system_seconds() < w->until; step++) {
        const struct layouts_entry *m = extreme(w, slowest);
        if (!m || m->configuration == from) break;
        from = m->configuration;
        size_t n = wherry_layout_bench_neighbours(w->runs, from, list, NEIGHBOURS);
        int code = measure(w, list, n, 0, w->until);
        if (code) return code;
    }
    return EXIT_FINE;
}

/* ---- the record ---- */

static json_t *us_json(double seconds) { return number_json(seconds * 1e6); }

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static bool was_drawn(const struct work *w, uint64_t index)
{
    return bsearch(&index, w->drawn, w->n_drawn, sizeof index, by_number) != NULL;
}

static json_t *times_json(const struct work *w, size_t counts[3])
{
    const struct layouts_log *log = &w->bench->log;
    const uint64_t usual = wherry_layout_bench_default(w->runs);
    json_t *times = need(json_array());
    for (size_t n = 0; n < log->count; n++) {
        const struct layouts_entry *m = &log->entries[n];
        char text[128];
        if (strcmp(m->work, w->name)) continue;
        counts[m->result.verdict]++;
        if (m->result.verdict == WHERRY_LAYOUT_REFUSED) continue;
        wherry_layout_bench_text(w->runs, m->configuration, text, sizeof text);
        const wherry_time *t = &m->result.time;
        json_t *one = need(json_pack("{s:I, s:s, s:b}", "number", (json_int_t)m->configuration, "layout", text, "drawn",
                                     was_drawn(w, m->configuration)));
        if (m->result.verdict) {
            json_object_set_new(one, "wrong", text_json(m->result.text));
        } else {
            json_object_set_new(one, "us", us_json(t->median));
            json_object_set_new(one, "low_us", us_json(t->ci_low));
            json_object_set_new(one, "high_us", us_json(t->ci_high));
        }
        if (m->configuration == usual) json_object_set_new(one, "default", json_true());
        json_array_append_new(times, one);
    }
    return times;
}

static void collect(struct work *w)
{
    const struct bench *b = w->bench;
    const struct layouts_entry *best = extreme(w, false), *worst = extreme(w, true);
    const struct layouts_entry *usual = layouts_log_find(&b->log, w->name, wherry_layout_bench_default(w->runs));
    size_t counts[3] = {0};
    qsort(w->drawn, w->n_drawn, sizeof *w->drawn, by_number);
    json_t *times = times_json(w, counts);
    const double usual_seconds =
        usual && usual->result.verdict == WHERRY_LAYOUT_RIGHT ? usual->result.time.median : (double)NAN;
    json_t *one =
        need(json_pack("{s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o, s:o}", "name", w->name, "space",
                       (json_int_t)wherry_layout_bench_configurations(w->runs), "measured", (json_int_t)counts[0],
                       "wrong", (json_int_t)counts[1], "refused", (json_int_t)counts[2], "best_us",
                       us_json(best ? best->result.time.median : (double)NAN), "worst_us",
                       us_json(worst ? worst->result.time.median : (double)NAN), "default_us", us_json(usual_seconds),
                       "shipped_us", us_json(b->shipped[w->number]), "times", times));
    json_object_update_new(one, layouts_paper_json(w->number));
    if (*b->shipped_by[w->number]) json_object_set_new(one, "shipped", text_json(b->shipped_by[w->number]));
    json_array_append_new(b->list, one);
}

/* ---- a work ---- */

static int work_run(struct work *w)
{
    struct bench *b = w->bench;
    const double now = system_seconds();
    const double left = b->options.seconds > 0 ? b->begun + b->options.seconds - now : 1e9;
    w->until = now + fmax(left, 0) / b->works;
    int code = measure(w, w->drawn, w->n_drawn, w->n_drawn < LEAST ? w->n_drawn : LEAST,
                       now + drawing_share * (w->until - now));
    if (w->n_drawn < wherry_layout_bench_configurations(w->runs)) {
        if (!code) code = search(w, false);
        if (!code) code = search(w, true);
    }
    if (!code) collect(w);
    return code;
}

static int works_run(struct bench *b)
{
    int code = EXIT_FINE;
    for (int n = 0; n < LAYOUT_WORKS; n++) b->works += layouts_work_wanted(&b->options, n);
    progress_start(&b->options);
    for (int n = 0; n < LAYOUT_WORKS && !code; n++) {
        if (!layouts_work_wanted(&b->options, n)) continue;
        struct work w;
        code = layouts_work_open(b, n, &w);
        if (!code) code = work_run(&w);
        layouts_work_close(&w);
        b->works--;
    }
    progress_end();
    return code;
}

/* ---- what sessions run ---- */

static void shipped_take(struct bench *b, const wherry_group_measure *g)
{
    for (int n = 0; n < LAYOUT_WORKS; n++) {
        const char *group = n < PAPER_KERNELS ? paper_kernel_groups[n] : paper_einsum_groups[n - PAPER_KERNELS];
        const char *name = strrchr(g->cost.name, '.');
        if (!group || !g->warm.n || strcmp(name ? name + 1 : g->cost.name, group)) continue;
        b->shipped[n] = g->warm.median;
        snprintf(b->shipped_by[n], sizeof b->shipped_by[n], "%s", g->launches ? g->kernels[0].name : "");
    }
}

/* The plan whose groups are the paper's, one layer in training. */
static int shipped_measure(struct bench *b, const struct layer *layer)
{
    wherry_session_desc desc = {.max_tokens = layer->batch.tokens,
                                .max_sequences = layer->batch.batch.sequences,
                                .max_length = layer->batch.longest,
                                .dtype = (wherry_dtype)b->options.dtype,
                                .training = &layer->training};
    int code = tool_open_session(&b->tool, "paper", desc);
    if (code) return code;
    size_t count = b->tool.plan.groups;
    wherry_group_measure *groups = need(calloc(count + 1, sizeof *groups));
    const wherry_measure_desc measured = {.struct_size = sizeof measured, .repeats = 20, .warm_seconds = 0.2};
    wherry_status status = wherry_measure(b->tool.session, &layer->batch.batch, &measured, groups, &count, NULL);
    if (status) code = tool_error(&b->tool, status, "the plan paper");
    for (size_t n = 0; n < count && !code; n++) shipped_take(b, &groups[n]);
    free(groups);
    tool_close_session(&b->tool);
    return code;
}

/* ---- the command ---- */

static void key_write(const struct bench *b, char *key, size_t size)
{
    const wherry_device_info *device = &b->tool.device_info;
    struct text_writer writer = text_begin(key, size);
    text_add(&writer, "%s %.60s %.60s %s %u %s", device->id, device->name, device->driver, tool_commit(),
             (unsigned)b->options.repeats, dtype_name((wherry_dtype)b->options.dtype));
    for (int n = 0; paper_letters[n]; n++) text_add(&writer, " %c%u", paper_letters[n], (unsigned)b->sizes[n]);
    for (char *at = key; *at; at++)
        if (*at == '\n' || *at == '\t') *at = ' ';
}

static json_t *record_json(const struct bench *b)
{
    const struct options *options = &b->options;
    json_t *sizes = need(json_object());
    for (int n = 0; paper_letters[n]; n++) {
        const char letter[2] = {paper_letters[n], 0};
        json_object_set_new(sizes, letter, json_integer((json_int_t)b->sizes[n]));
    }
    return need(json_pack("{s:s, s:o, s:o, s:s, s:o, s:s, s:s, s:o, s:I, s:f, s:s, s:O}", "schema", LAYOUTS_SCHEMA,
                          "run", run_json(options), "device", device_json(&b->tool.device_info), "model",
                          options->config, "sizes", sizes, "dtype", dtype_name((wherry_dtype)options->dtype), "caches",
                          "warm", "sample", options->sample ? json_integer(options->sample) : json_null(), "seed",
                          (json_int_t)(options->seed ? options->seed : 1), "seconds", system_seconds() - b->begun,
                          "source", "Ivanov et al., arXiv 2007.00072v2, figures 4 and 5: V100, f16", "works", b->list));
}

static int run(struct bench *b)
{
    char key[512], path[1024];
    const struct options *options = &b->options;
    const char *log = options->log;
    wherry_device_limits limits = {.struct_size = sizeof limits};
    if (!b->options.dtype && !wherry_device_query(b->tool.device, &limits))
        b->options.dtype = limits.f16 ? WHERRY_DTYPE_F16 : WHERRY_DTYPE_F32;
    if (!log && options->output && strcmp(options->output, "-") != 0) {
        snprintf(path, sizeof path, "%s.log", options->output);
        log = path;
    }
    key_write(b, key, sizeof key);
    uint32_t share, shares;
    int code = compile_share(options, &share, &shares);
    if (!code) code = layouts_log_open(&b->log, log, key);
    if (!code && shares) return layouts_share_compile(b, share, shares);
    if (!code) code = layouts_compile_ahead(b);
    if (!code) code = works_run(b);
    if (code) return code;
    json_t *values = need(json_pack("[o]", record_json(b)));
    const struct report report = {.values = values, .layouts = true};
    code = report_write(options, &report);
    json_decref(values);
    return code;
}

int bench_layouts_command(const struct options *options)
{
    static struct bench b; /* its options are large */
    struct layer layer = {.batch = {.tokens = 0}};
    const uint32_t usual[PAPER_BATCH] = {PAPER_LENGTH, PAPER_LENGTH, PAPER_LENGTH, PAPER_LENGTH,
                                         PAPER_LENGTH, PAPER_LENGTH, PAPER_LENGTH, PAPER_LENGTH};
    b = (struct bench){.options = *options, .begun = system_seconds(), .list = need(json_array())};
    if (!b.options.config) b.options.config = "bert-large";
    for (int n = 0; n < LAYOUT_WORKS; n++) b.shipped[n] = (double)NAN;
    int code = report_format(options) ? layouts_works_check(options) : EXIT_USAGE;
    if (!code) code = tool_open_context(&b.tool, &b.options);
    if (!code) code = layer_open(&b.tool, true, usual, PAPER_BATCH, &layer);
    if (!code) code = tool_open_device(&b.tool);
    if (!code) {
        sizes_set(&b, &b.tool.model_info.config);
        if (!options->no_shipped && !options->compile_share) code = shipped_measure(&b, &layer);
    }
    b.begun = system_seconds();
    if (!code) code = run(&b);
    if (code != EXIT_STOPPED) layouts_ahead_remove(&b);
    layouts_log_close(&b.log);
    json_decref(b.list);
    layer_close(&layer);
    tool_close(&b.tool);
    return code;
}
