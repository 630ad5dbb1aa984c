/* `wherry analyze --fuse` and `--split`: what other groups would bring, and what the paper's rule says to them. */
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "groups.h"
#include "paper.h"

static const char *pattern_text(wherry_fusion_pattern pattern)
{
    static const char *const texts[] = {"", "siblings", "map to map", "reduction to map", "map to reduction"};
    return texts[pattern];
}

/* ---- the rule against the paper ---- */

/* Why the rule's groups differ from the paper's uses, or from its table. */
static const struct {
    const char *name, *text;
} notes[] = {
    {"EBSB", "row 25 (lin2_bias_dw) is in it, as in the authors' code: a sibling, of\n"
             "       the same space and reduction. Their table lists it in BDRB, of space bju"},
    {"BAOB", "beside BEI: both run over bji and neither needs the other. That saves a\n"
             "       launch and not a byte; the authors keep them apart and don't say why"},
    {"BEI", "see BAOB"},
};

struct found {
    size_t group; /* the rule's group that holds the use's first row */
    bool same;
};

static int compare_paper(const wherry_analysis *rule, struct found found[PAPER_USES])
{
    size_t count;
    int same = 0;
    wherry_analysis_groups(rule, &count);
    for (int n = 0; n < PAPER_USES; n++) {
        uint64_t rows = paper_use_rows(&paper_uses[n]);
        found[n] = (struct found){SIZE_MAX, false};
        for (size_t group = 0; group < count; group++) {
            uint64_t own = group_rows(rule, group);
            if (own & ((uint64_t)1 << paper_uses[n].first)) found[n].group = group;
            found[n].same |= own == rows;
        }
        same += found[n].same;
    }
    return same;
}

static const char *note_of(const char *name)
{
    for (size_t n = 0; n < sizeof notes / sizeof *notes; n++)
        if (strcmp(notes[n].name, name) == 0) return notes[n].text;
    return "";
}

static void print_comparison(const wherry_analysis *rule, struct output *out)
{
    struct found found[PAPER_USES];
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(rule, &count);
    int same = compare_paper(rule, found);
    output_format(out, "\n%d of the %d uses of the paper's twelve fused kernels are found as they are.\n", same,
                  PAPER_USES);
    for (int n = 0; n < PAPER_USES; n++) {
        const struct paper_use *use = &paper_uses[n];
        if (!found[n].same && found[n].group < count)
            output_format(out, "%-5s  is in %s\n", use->name, cost_kind(&groups[found[n].group]));
        if (*note_of(use->name) && (!found[n].same || use->beside))
            output_format(out, "%-5s  %s\n", use->name, note_of(use->name));
    }
}

/* ---- tables ---- */

static void print_decisions(const struct analysis *a, const wherry_analysis *analysis, struct output *out)
{
    size_t count;
    const wherry_fusion *fusions = wherry_analysis_fusions(analysis, &count);
    output_text(out, "\nDecisions\n");
    for (size_t n = 0; n < count; n++) {
        const wherry_fusion *f = &fusions[n];
        bool all = a->tool.options->all;
        const char *first = f->first, *second = f->second;
        if (!all && strncmp(second, "layer.", 6) == 0 && strncmp(second, "layer.0.", 8) != 0) continue;
        if (!all && strncmp(first, "layer.0.", 8) == 0) first += 8;
        if (!all && strncmp(second, "layer.0.", 8) == 0) second += 8;
        output_format(out, "%s | %s\n", first, second);
        char seconds[NUMBER_SIZE + 8] = "";
        if (a->spec_count)
            snprintf(seconds, sizeof seconds, ", %.2f us", wherry_predict_fusion(&a->specs[0], a->desc.dtype, f) * 1e6);
        if (f->accepted)
            output_format(out, "    fused (%s, %s): %u launch and %.2f MB%s less\n", f->space, pattern_text(f->pattern),
                          f->launches_saved, (double)f->bytes_saved / 1e6, seconds);
        else
            output_format(out, "    apart, %s%s(it would be %.2f MB%s less)\n", f->reason,
                          a->spec_count ? "\n    " : " ", (double)f->bytes_saved / 1e6, seconds);
    }
}

static void add_line(const struct analysis *a, struct table *table, const char *name, const wherry_analysis *analysis)
{
    struct cost_sum total = groups_total(analysis, PASS_BOTH);
    table_cell(table, "%s", name);
    table_cell(table, "%u", total.count);
    table_cell(table, "%.2f", total.bytes_read / 1e6);
    table_cell(table, "%.2f", total.bytes_written / 1e6);
    table_cell(table, "%.2f", (total.bytes_read + total.bytes_written) / 1e6);
    if (a->spec_count) table_cell(table, "%.4f", predict_seconds(a, analysis) * 1e3);
}

static void print_rule(const struct analysis *a, const wherry_analysis *rule, struct output *out)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(rule, &count);
    struct table table = {.columns = "~group|<pass|<paper|>ops|>MB in|>MB out"};
    for (size_t n = 0; n < count; n++) {
        if (groups[n].layer > 0 && !a->tool.options->all) continue;
        const struct paper_use *use = paper_find(group_rows(rule, n));
        table_cell(&table, "%s", a->tool.options->all ? groups[n].name : cost_kind(&groups[n]));
        table_cell(&table, "%s", groups[n].backward ? "bwd" : "fwd");
        table_cell(&table, "%s", use ? use->name : "");
        table_cell(&table, "%u", groups[n].operators);
        table_cell(&table, "%.2f", (double)groups[n].bytes_read / 1e6);
        table_cell(&table, "%.2f", (double)groups[n].bytes_written / 1e6);
    }
    if (a->spec_count) {
        predict_print_spec(a, out);
        output_text(out, "\n");
    }
    output_text(out, "Groups by the rule\n");
    table_print(&table, out);
    if (a->tool.options->explain) print_decisions(a, rule, out);
    struct table sums = {.columns = a->spec_count ? "<groups of|>launches|>MB in|>MB out|>MB|>limit ms"
                                                  : "<groups of|>launches|>MB in|>MB out|>MB"};
    add_line(a, &sums, "plan unfused", a->plans[3]);
    add_line(a, &sums, "the rule", rule);
    add_line(a, &sums, "plan paper", a->plans[2]);
    output_text(out, "\n");
    table_print(&sums, out);
    bool paper = a->desc.layer_only && a->desc.training && !a->config.pre_layernorm;
    if (paper) print_comparison(rule, out);
}

static void print_change(const struct analysis *a, const wherry_analysis *before, const wherry_analysis *after,
                         struct output *out)
{
    struct table table = {.columns = a->spec_count ? "<|>launches|>MB in|>MB out|>MB|>limit ms"
                                                   : "<|>launches|>MB in|>MB out|>MB"};
    size_t count, refused = 0;
    const wherry_fusion *fusions = wherry_analysis_fusions(after, &count);
    if (a->spec_count) {
        predict_print_spec(a, out);
        output_text(out, "\n");
    }
    add_line(a, &table, "before", before);
    add_line(a, &table, "after", after);
    output_format(out, "Plan %s", plan_name(a->tool.options->plan));
    if (a->tool.options->split) output_format(out, ", %s split", a->tool.options->split);
    if (a->tool.options->fuse) output_format(out, ", %s fused", a->tool.options->fuse);
    output_text(out, "\n");
    table_print(&table, out);
    if (!count) return;
    for (size_t n = 0; n < count; n++) refused += !fusions[n].accepted;
    print_decisions(a, after, out);
    output_text(out, refused ? "\nNot legal by the paper's rule.\n" : "\nLegal by the paper's rule.\n");
}

/* ---- JSON ---- */

static json_t *groups_of(const struct analysis *a, const wherry_analysis *analysis)
{
    struct cost_sum total = groups_total(analysis, PASS_BOTH);
    json_t *value = need(json_pack("{s:I, s:I, s:I, s:o}", "launches", (json_int_t)total.count, "bytes_read",
                                   (json_int_t)total.bytes_read, "bytes_written", (json_int_t)total.bytes_written,
                                   "groups", groups_json(analysis)));
    if (a->spec_count) json_object_set_new(value, "limit_seconds", json_real(predict_seconds(a, analysis)));
    return value;
}

static json_t *report_json(const struct analysis *a, const wherry_analysis *before, const wherry_analysis *after)
{
    size_t count;
    const wherry_fusion *fusions = wherry_analysis_fusions(after, &count);
    json_t *decisions = need(json_array());
    bool legal = true;
    for (size_t n = 0; n < count; n++) {
        const wherry_fusion *f = &fusions[n];
        legal &= f->accepted;
        json_t *decision = need(json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:I, s:I}", "first", f->first, "second",
                                          f->second, "space", f->space, "pattern", pattern_text(f->pattern), "accepted",
                                          (int)f->accepted, "reason", f->reason, "launches_saved",
                                          (json_int_t)f->launches_saved, "bytes_saved", (json_int_t)f->bytes_saved));
        if (a->spec_count)
            json_object_set_new(decision, "seconds_saved",
                                json_real(wherry_predict_fusion(&a->specs[0], a->desc.dtype, f)));
        json_array_append_new(decisions, decision);
    }
    json_t *value =
        need(json_pack("{s:o, s:o, s:o, s:o, s:o}", "run", run_json(a->tool.options), "model", text_json(a->name),
                       "before", groups_of(a, before), "after", groups_of(a, after), "decisions", decisions));
    if (a->spec_count) json_object_set_new(value, "spec", predict_spec_json(a, &a->specs[0]));
    if (strcmp(a->tool.options->fuse ? a->tool.options->fuse : "", "auto") != 0)
        json_object_set_new(value, "legal", json_boolean(legal));
    return value;
}

int fusion_report(struct analysis *a)
{
    const struct options *options = a->tool.options;
    bool automatic = options->fuse && strcmp(options->fuse, "auto") == 0;
    int plan = automatic ? 3 : options->plan ? options->plan : 1;
    wherry_analysis_desc desc = a->desc;
    wherry_analysis *after = NULL;
    struct output out;
    desc.plan = plan_name(plan);
    desc.fuse = options->fuse;
    desc.split = options->split;
    wherry_status status = wherry_analyze(a->tool.context, &desc, &after);
    if (status == WHERRY_STATUS_INVALID_ARGUMENT) return tool_error(&a->tool, status, NULL), EXIT_USAGE;
    if (status) return tool_error(&a->tool, status, NULL);
    int code = output_open(&out, options->output) ? EXIT_FINE : EXIT_OUTPUT;
    if (!code) {
        if (options->dot)
            output_text(&out, wherry_analysis_dot(after));
        else if (options->json)
            output_json(&out, report_json(a, a->plans[plan], after));
        else if (automatic)
            print_rule(a, after, &out);
        else
            print_change(a, a->plans[plan], after, &out);
        if (!output_close(&out, true)) code = EXIT_OUTPUT;
    }
    wherry_analysis_destroy(after);
    return code;
}
