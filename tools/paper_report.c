/* `wherry analyze --paper`: the counts of the paper's layer beside the figures that the paper prints. */
#include <stdlib.h>
#include <string.h>

#include "analyze.h"
#include "groups.h"
#include "paper.h"

enum { SAVES = 4, OTHER_BATCH = 96, OTHER_LENGTH = 128 };

static const char *const save_names[SAVES] = {"default", "paper", "all", "least"}; /* as wherry_save counts */

struct report {
    struct tool *tool;
    wherry_model_config config;
    wherry_analysis *plans[PLAN_ALL][SAVES];
    wherry_analysis *other; /* unfused, at the second shape */
    /* 10^6 words */
    double unfused, fused, moved, products;
};

static int analyze_one(struct report *r, int plan, int save, uint32_t batch, uint32_t length, wherry_analysis **out)
{
    wherry_training_desc training = {
        .struct_size = sizeof training, .dropout = 0.1f, .save = (wherry_save)(WHERRY_SAVE_DEFAULT + save)};
    wherry_analysis_desc desc = {.struct_size = sizeof desc,
                                 .config = &r->config,
                                 .batch = batch,
                                 .length = length,
                                 .dtype = WHERRY_DTYPE_F16,
                                 .plan = plan_name(plan),
                                 .layer_only = true,
                                 .training = &training};
    wherry_status status = wherry_analyze(r->tool->context, &desc, out);
    return status ? tool_error(r->tool, status, NULL) : EXIT_FINE;
}

static int analyze_all(struct report *r)
{
    r->config.struct_size = sizeof r->config;
    wherry_status status = wherry_model_config_named(r->tool->context, "bert-large", &r->config);
    int code = status ? tool_error(r->tool, status, NULL) : EXIT_FINE;
    r->config.activation = WHERRY_ACTIVATION_RELU;
    for (int plan = 1; plan < PLAN_ALL; plan++)
        for (int save = 0; save < SAVES && !code; save++)
            code = analyze_one(r, plan, save, PAPER_BATCH, PAPER_LENGTH, &r->plans[plan][save]);
    return code ? code : analyze_one(r, PLAN_ALL - 1, 1, OTHER_BATCH, OTHER_LENGTH, &r->other);
}

static const wherry_cost *paper_rows_of(const struct report *r, size_t *count)
{
    return wherry_analysis_rows(r->plans[PLAN_ALL - 1][1], count);
}

static void add_up(struct report *r)
{
    size_t count;
    const wherry_cost *rows = paper_rows_of(r, &count);
    double in, out;
    for (size_t n = 0; n < count; n++) {
        paper_words(&rows[n], PAPER_BATCH * PAPER_LENGTH, &in, &out);
        r->unfused += (in + out) / 1e6;
        if (rows[n].class_ == WHERRY_CLASS_CONTRACTION) r->products += (in + out) / 1e6;
    }
    r->fused = r->moved = r->products;
    for (int n = 0; n < PAPER_USES; n++) {
        double tensor = paper_tensor(&r->config, PAPER_BATCH, PAPER_LENGTH, paper_uses[n].tensor) / 1e6;
        r->fused += paper_uses[n].words * tensor;
        r->moved += paper_uses[n].moved * tensor;
    }
}

/* The name of the kernel whose first row this is in the paper's table, "." in its other rows. */
static const char *kernel_of(int row)
{
    enum { BEFORE_BDRB = 25 }; /* the authors' code has it elsewhere, and so has paper_uses */
    for (int n = 0; n < PAPER_USES; n++)
        if (row >= paper_uses[n].first && row <= paper_uses[n].last)
            return row == paper_uses[n].first && row != BEFORE_BDRB + 1 ? paper_uses[n].name : ".";
    return row == BEFORE_BDRB ? "BDRB" : "-";
}

/* ---- tables ---- */

static void cell_beside(struct table *table, const char *ours, const char *paper)
{
    table_cell(table, "%s", ours);
    table_cell(table, "%s%s", paper, paper_same(paper, ours) ? " " : "*");
}

static void print_rows(const struct report *r, struct output *out)
{
    size_t count;
    const wherry_cost *rows = paper_rows_of(r, &count);
    struct table table = {.columns = ">row|~operator|<|>2^30|>paper |>in|>paper |>out|>paper |>us|<kernel"};
    for (size_t n = 0; n < count; n++) {
        char text[NUMBER_SIZE];
        double in, written;
        const struct paper_row *paper = &paper_rows[rows[n].paper_row];
        paper_words(&rows[n], PAPER_BATCH * PAPER_LENGTH, &in, &written);
        table_cell(&table, "%u", rows[n].paper_row);
        table_cell(&table, "%s", cost_kind(&rows[n]));
        table_cell(&table, "%c", class_letter(rows[n].class_));
        cell_beside(&table, paper_format_flops(rows[n].flops, text), paper->gflop);
        cell_beside(&table, paper_format_words(in, text), paper->in);
        cell_beside(&table, paper_format_words(written, text), paper->out);
        if (paper->us)
            table_cell(&table, "%u", paper->us);
        else
            table_cell(&table, "%s", "");
        table_cell(&table, "%s", kernel_of((int)rows[n].paper_row));
    }
    output_format(out,
                  "One layer of BERT-large in training, %d x %d, beside the cells of Ivanov et al.; rows\n"
                  "1 to 19 are the forward pass. 2^30: flop in that unit. in, out: 10^6 words, with the\n"
                  "masks and row statistics that the paper stores. us, kernel: the paper's (a dot: part\n"
                  "of the kernel above). *: differs from ours.\n\n",
                  PAPER_BATCH, PAPER_LENGTH);
    table_print(&table, out);
    output_text(out, "\nRows whose printed words follow no rule that the others follow:\n");
    for (int n = 0; n < PAPER_NOTES; n++) output_format(out, "  %d  %s\n", paper_notes[n].row, paper_notes[n].text);
}

static void print_classes(const struct report *r, struct output *out)
{
    static const char *const shares[] = {"99.80", "0.17", "0.03"}, *const times[] = {"61.0", "25.5", "13.5"},
                             *const totals[] = {"312", "0.535", "0.098"};
    size_t count;
    char text[NUMBER_SIZE];
    const wherry_cost *rows = paper_rows_of(r, &count);
    double flops[3] = {0}, all = 0;
    for (size_t n = 0; n < count; n++) flops[rows[n].class_] += rows[n].flops, all += rows[n].flops;
    struct table table = {.columns = "<class|>2^30|>paper|>% of flop|>paper|>% of PyTorch's time (paper)"};
    for (int class_ = 0; class_ < 3; class_++) {
        table_cell(&table, "%c", class_letter((wherry_class)class_));
        table_cell(&table, "%s", paper_format_flops(flops[class_], text));
        table_cell(&table, "%s", totals[class_]);
        table_cell(&table, "%.2f", 100 * flops[class_] / all);
        table_cell(&table, "%s", shares[class_]);
        table_cell(&table, "%s", times[class_]);
    }
    output_text(out, "\nClasses\n");
    table_print(&table, out);
}

/* Words that the group of our plan "paper" with the use's first row moves, in 10^6. */
static double our_words(const struct report *r, const struct paper_use *use)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(r->plans[2][1], &count);
    for (size_t n = 0; n < count; n++)
        if (group_rows(r->plans[2][1], n) & ((uint64_t)1 << use->first))
            return ((double)groups[n].bytes_read + (double)groups[n].bytes_written) / 2e6;
    return 0;
}

static void print_kernels(const struct report *r, struct output *out)
{
    struct table table = {.columns = "<kernel|<rows|>Q|>Mwords|>its code|>our plan|>us|>MUE|>printed"};
    for (int n = 0; n < PAPER_USES; n++) {
        const struct paper_use *use = &paper_uses[n];
        double tensor = paper_tensor(&r->config, PAPER_BATCH, PAPER_LENGTH, use->tensor), low, high;
        paper_mue(use, use->words * tensor, &low, &high);
        table_cell(&table, "%s", use->name);
        if (use->first == use->last)
            table_cell(&table, "%d", use->first);
        else
            table_cell(&table, "%d-%d%s", use->first, use->last, use->beside ? ",25" : "");
        table_cell(&table, "%d%c", use->words, use->tensor);
        table_cell(&table, "%.2f", use->words * tensor / 1e6);
        table_cell(&table, "%.2f", use->moved * tensor / 1e6);
        table_cell(&table, "%.2f", our_words(r, use));
        table_cell(&table, "%u", use->us);
        table_cell(&table, "%.1f-%.1f", low, high);
        table_cell(&table, "%u", use->mue);
    }
    output_text(out, "\nFused kernels. Q: words of the lower bound, X = [b,j,i], S = [b,h,j,k], F = [b,j,u];\n"
                     "beside it what the authors' code moves, and our plan paper. MUE: Q / (time * 900 *\n"
                     "2^30 B/s), for a time of us to us + 1, because printed times are cut off\n");
    table_print(&table, out);
}

static void print_movement(const struct report *r, struct output *out)
{
    struct table table = {.columns = "<words moved, 10^6|>|>less than unfused"};
    const struct {
        const char *name;
        double words;
    } lines[] = {{"operator by operator, by the rule of the rows above", r->unfused},
                 {"of these the contractions", r->products},
                 {"with its fused kernels, their Q", r->fused},
                 {"with its fused kernels, as its code moves them", r->moved}};
    for (size_t n = 0; n < sizeof lines / sizeof *lines; n++) {
        table_cell(&table, "%s", lines[n].name);
        table_cell(&table, "%.2f", lines[n].words);
        if (n > 1)
            table_cell(&table, "%.2f %%", 100 * (1 - lines[n].words / r->unfused));
        else
            table_cell(&table, "%s", "");
    }
    output_text(out, "\nData movement (the paper prints 22.91 % and no rule; none that was tried gives it)\n");
    table_print(&table, out);
}

static void print_plans(const struct report *r, struct output *out)
{
    struct table table = {.columns = "<our plan|>launches|>Mwords|>forward|>backward|>less"};
    struct table kept = {.columns = "<our plan|>default|>paper|>all|>least"};
    for (int plan = PLAN_ALL - 1; plan > 0; plan--) {
        struct cost_sum parts[3];
        for (int pass = 0; pass < 3; pass++) parts[pass] = groups_total(r->plans[plan][1], (enum pass)pass);
        table_cell(&table, "%s", plan_name(plan));
        table_cell(&table, "%u", parts[PASS_BOTH].count);
        table_cell(&table, "%.2f", (parts[PASS_BOTH].bytes_read + parts[PASS_BOTH].bytes_written) / 2e6);
        for (int pass = 0; pass < 2; pass++)
            table_cell(&table, "%.2f", (parts[pass].bytes_read + parts[pass].bytes_written) / 2e6);
        table_cell(&table, "%.2f %%", 100 * bytes_saved(r->plans[plan][1], r->plans[PLAN_ALL - 1][1]));
        table_cell(&kept, "%s", plan_name(plan));
        for (int save = 0; save < SAVES; save++)
            table_cell(&kept, "%.2f", (double)wherry_analysis_saved_bytes(r->plans[plan][save]) / 1e6);
    }
    output_text(out, "\nWhat our plans move (with --save paper); masks are computed again, not stored\n");
    table_print(&table, out);
    output_text(out, "\nMB kept for the backward pass, by --save\n");
    table_print(&kept, out);
}

static void print_other(const struct report *r, struct output *out)
{
    size_t count;
    const wherry_cost *rows = wherry_analysis_rows(r->other, &count);
    double sums[4] = {0}; /* flop of the classes, words */
    char text[NUMBER_SIZE];
    struct table table = {.columns = ">row|~operator|<|>2^30|>in|>out"};
    for (size_t n = 0; n < count; n++) {
        double in, written;
        paper_words(&rows[n], (uint64_t)OTHER_BATCH * OTHER_LENGTH, &in, &written);
        table_cell(&table, "%u", rows[n].paper_row);
        table_cell(&table, "%s", cost_kind(&rows[n]));
        table_cell(&table, "%c", class_letter(rows[n].class_));
        table_cell(&table, "%s", paper_format_flops(rows[n].flops, text));
        table_cell(&table, "%s", paper_format_words(in, text));
        table_cell(&table, "%s", paper_format_words(written, text));
        sums[rows[n].class_] += rows[n].flops;
        sums[3] += in + written;
    }
    output_format(out, "\nThe same layer, %d x %d (the paper prints no cells for it)\n", OTHER_BATCH, OTHER_LENGTH);
    table_print(&table, out);
    output_format(out, "T %.2f, S %.2f, E %.2f: %.1f Gflop; %.2f Mwords\n", sums[0] / 1e9, sums[1] / 1e9, sums[2] / 1e9,
                  (sums[0] + sums[1] + sums[2]) / 1e9, sums[3] / 1e6);
}

/* ---- JSON ---- */

static json_t *rows_json(const wherry_analysis *analysis, uint64_t tokens, bool beside)
{
    size_t count;
    const wherry_cost *rows = wherry_analysis_rows(analysis, &count);
    json_t *list = need(json_array());
    for (size_t n = 0; n < count; n++) {
        char gflop[NUMBER_SIZE], in[NUMBER_SIZE], out[NUMBER_SIZE];
        double words_in, words_out;
        const struct paper_row *paper = &paper_rows[rows[n].paper_row];
        paper_words(&rows[n], tokens, &words_in, &words_out);
        paper_format_flops(rows[n].flops, gflop);
        paper_format_words(words_in, in);
        paper_format_words(words_out, out);
        json_t *row = need(json_pack(
            "{s:I, s:s, s:s, s:I, s:I, s:I, s:s, s:s, s:s}", "row", (json_int_t)rows[n].paper_row, "operator",
            cost_kind(&rows[n]), "class", class_name(rows[n].class_), "flops", (json_int_t)rows[n].flops, "words_in",
            (json_int_t)words_in, "words_out", (json_int_t)words_out, "gflop", gflop, "in", in, "out", out));
        if (beside)
            json_object_set_new(
                row, "paper",
                need(json_pack("{s:s, s:s, s:s, s:b, s:b, s:I, s:I}", "gflop", paper->gflop, "in", paper->in, "out",
                               paper->out, "same_flop", (int)paper_same(paper->gflop, gflop), "same_words",
                               (int)(paper_same(paper->in, in) && paper_same(paper->out, out)), "pytorch_us",
                               (json_int_t)paper->pytorch_us, "us", (json_int_t)paper->us)));
        json_array_append_new(list, row);
    }
    return list;
}

static json_t *kernels_json(const struct report *r)
{
    json_t *list = need(json_array());
    for (int n = 0; n < PAPER_USES; n++) {
        const struct paper_use *use = &paper_uses[n];
        double tensor = paper_tensor(&r->config, PAPER_BATCH, PAPER_LENGTH, use->tensor), low, high;
        paper_mue(use, use->words * tensor, &low, &high);
        json_array_append_new(
            list, need(json_pack("{s:s, s:i, s:i, s:I, s:I, s:f, s:i, s:f, s:f, s:i}", "name", use->name, "first_row",
                                 use->first, "last_row", use->last, "words", (json_int_t)(use->words * tensor),
                                 "words_of_its_code", (json_int_t)(use->moved * tensor), "words_of_plan_paper",
                                 our_words(r, use) * 1e6, "us", (int)use->us, "mue_low", low, "mue_high", high,
                                 "mue_printed", (int)use->mue)));
    }
    return list;
}

static json_t *report_json(const struct report *r)
{
    json_t *plans = need(json_array());
    for (int plan = 1; plan < PLAN_ALL; plan++) {
        json_t *kept = need(json_object());
        struct cost_sum parts[3];
        for (int pass = 0; pass < 3; pass++) parts[pass] = groups_total(r->plans[plan][1], (enum pass)pass);
        for (int save = 0; save < SAVES; save++)
            json_object_set_new(kept, save_names[save],
                                json_integer((json_int_t)wherry_analysis_saved_bytes(r->plans[plan][save])));
        json_array_append_new(
            plans, need(json_pack("{s:s, s:I, s:I, s:I, s:o}", "plan", plan_name(plan), "launches",
                                  (json_int_t)parts[PASS_BOTH].count, "bytes_forward",
                                  (json_int_t)(parts[PASS_FORWARD].bytes_read + parts[PASS_FORWARD].bytes_written),
                                  "bytes_backward",
                                  (json_int_t)(parts[PASS_BACKWARD].bytes_read + parts[PASS_BACKWARD].bytes_written),
                                  "bytes_kept", kept)));
    }
    return need(json_pack("{s:o, s:o, s:o, s:o, s:{s:f, s:f, s:f, s:f}, s:o}", "run", run_json(r->tool->options),
                          "rows", rows_json(r->plans[PLAN_ALL - 1][1], PAPER_BATCH * PAPER_LENGTH, true), "rows_96x128",
                          rows_json(r->other, (uint64_t)OTHER_BATCH * OTHER_LENGTH, false), "kernels", kernels_json(r),
                          "mwords", "unfused", r->unfused, "contractions", r->products, "fused", r->fused,
                          "fused_as_moved", r->moved, "plans", plans));
}

int paper_report(struct tool *tool)
{
    const struct options *options = tool->options;
    struct report r = {.tool = tool};
    struct output out;
    if (options->model || options->config || options->batch || options->seq || options->plan || options->dtype ||
        options->activation || options->save || options->fuse || options->split || options->explain ||
        options->training || options->inference || options->layer || options->encoder || options->all || options->dot ||
        options->layouts || options->device_spec || options->hidden || options->heads || options->feed_forward)
        return complain(EXIT_USAGE, "--paper has shapes of its own: it goes with --json and --output alone");
    int code = analyze_all(&r);
    if (!code && !output_open(&out, options->output)) {
        code = EXIT_OUTPUT;
    } else if (!code) {
        add_up(&r);
        if (options->json) {
            output_json(&out, report_json(&r));
        } else {
            print_rows(&r, &out);
            print_classes(&r, &out);
            print_kernels(&r, &out);
            print_movement(&r, &out);
            print_plans(&r, &out);
            print_other(&r, &out);
        }
        if (!output_close(&out, true)) code = EXIT_OUTPUT;
    }
    for (int plan = 1; plan < PLAN_ALL; plan++)
        for (int save = 0; save < SAVES; save++) wherry_analysis_destroy(r.plans[plan][save]);
    wherry_analysis_destroy(r.other);
    return code;
}
