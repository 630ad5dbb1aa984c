/* `wherry analyze --layouts`: how many ways there are to lay out the tensors of every contraction and fused kernel, and
 * the counts of Ivanov et al. */
#include <stdlib.h>
#include <string.h>

#include "wherry/wherry_measure.h"

#include "analyze.h"
#include "base/text.h"
#include "groups.h"
#include "paper.h"

enum { WIDTH = 110 };

/* ---- contractions ---- */

/* Operators of one einsum, which have their sizes in common, too. */
struct product {
    const char *einsum;
    char names[160]; /* "scores+context_dx1" */
    wherry_product_layouts layouts;
};

/* Of one layer, because layers are equal; memory to free. Those of the unfused plan, whose graph has nothing but what
 * has to be computed. */
static struct product *products_of(const struct analysis *a, size_t *count)
{
    size_t operators;
    const wherry_analysis *analysis = a->plans[PLAN_ALL - 1];
    const wherry_cost *costs = wherry_analysis_operators(analysis, &operators);
    struct product *list = need(calloc(operators + 1, sizeof *list));
    *count = 0;
    for (size_t n = 0; n < operators; n++) {
        wherry_product_layouts layouts;
        size_t at = 0;
        if (costs[n].layer > 0 || !wherry_analysis_product_layouts(analysis, n, &layouts)) continue;
        while (at < *count && strcmp(list[at].einsum, costs[n].einsum) != 0) at++;
        struct product *product = &list[at];
        struct text_writer names = text_behind(product->names, sizeof product->names);
        text_add(&names, "%s%s", names.used ? "+" : "", cost_kind(&costs[n]));
        product->einsum = costs[n].einsum;
        product->layouts = layouts;
        *count += at == *count;
    }
    return list;
}

static const char *const product_columns =
    "~operators|<einsum|>M|>N|>K|>batch|>orders|>valid|>stack|>GEMMs|>packed|>each";

static void count_cell(struct table *table, uint64_t count)
{
    if (count == UINT64_MAX)
        table_cell(table, ">= 2^64");
    else
        table_cell(table, "%llu", (unsigned long long)count);
}

/* "-" where there is nothing of the kind. */
static void count_cell_if(struct table *table, uint64_t count)
{
    if (count)
        count_cell(table, count);
    else
        table_cell(table, "-");
}

static void product_cells(struct table *table, const char *names, const char *einsum, const wherry_product_layouts *l)
{
    table_cell(table, "%s", names);
    table_cell(table, "%s", einsum);
    count_cell(table, l->m);
    count_cell(table, l->n);
    count_cell(table, l->k);
    count_cell(table, l->batch);
    count_cell(table, l->permutations);
    count_cell(table, l->valid);
    count_cell_if(table, l->stack_first);
    count_cell(table, l->gemms);
    count_cell(table, l->packed);
    count_cell_if(table, l->by_sequence);
}

static void print_products(const struct analysis *a, struct output *out)
{
    size_t count;
    struct product *list = products_of(a, &count);
    struct table table = {.columns = product_columns, .width = WIDTH};
    for (size_t n = 0; n < count; n++) product_cells(&table, list[n].names, list[n].einsum, &list[n].layouts);
    free(list);
    output_text(out, "Contractions. orders: triples of orders of the letters of both operands and the result;\n"
                     "valid: those that are one GEMM, or one strided-batched GEMM; stack: of these, with the\n"
                     "stack of Q, K and V slowest, its slices whole; GEMMs: different calls among the valid;\n"
                     "packed: of the valid, for batches of sequences of different lengths; each: triples of\n"
                     "such batches that are a GEMM, or a strided-batched one, for each sequence\n\n");
    table_print(&table, out);
}

/* ---- groups ---- */

static void print_kernels(const struct analysis *a, int plan, struct output *out)
{
    size_t count, products = 0;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    struct table table = {.columns = "<group|~tensors|<vector|<threads|>configurations|>packed", .width = WIDTH};
    for (size_t n = 0; n < count; n++) {
        wherry_kernel_layouts layouts;
        if (groups[n].layer > 0) continue;
        if (!wherry_analysis_kernel_layouts(a->plans[plan], n, &layouts)) {
            products++;
            continue;
        }
        table_cell(&table, "%s", cost_kind(&groups[n]));
        table_cell(&table, "%s", layouts.tensors);
        table_cell(&table, "%s", layouts.vector);
        table_cell(&table, "%s", layouts.threads);
        count_cell(&table, layouts.configurations);
        count_cell(&table, layouts.packed);
    }
    output_format(out,
                  "\nGroups of the plan %s without a product: an order for each tensor, a letter along which\n"
                  "vectors are loaded, one that goes over threads. (The other %zu lie as their products do.)\n\n",
                  plan_name(plan), products);
    table_print(&table, out);
}

/* ---- the paper's ---- */

static bool count_einsum(const struct analysis *a, const struct paper_einsum *paper, wherry_product_layouts *out)
{
    return !wherry_product_layouts_count(a->tool.context, paper->einsum, paper_letters, paper_sizes, paper->stack, out);
}

static bool count_kernel(const struct analysis *a, const struct paper_kernel *paper, const char *only,
                         wherry_kernel_layouts *out)
{
    return !wherry_kernel_layouts_count(a->tool.context, paper->tensors, paper->reduced, only, out);
}

static bool same_einsum(const struct paper_einsum *paper, const wherry_product_layouts *l)
{
    return l->permutations == paper->permutations && l->valid == paper->valid && l->stack_first == paper->stack_first &&
           l->gemms == paper->gemms;
}

static void print_paper_einsums(const struct analysis *a, struct output *out)
{
    struct table table = {.columns = product_columns, .width = WIDTH};
    int same = 0;
    for (int n = 0; n < PAPER_EINSUMS; n++) {
        wherry_product_layouts l;
        if (!count_einsum(a, &paper_einsums[n], &l)) continue;
        product_cells(&table, paper_einsums[n].name, paper_einsums[n].einsum, &l);
        same += same_einsum(&paper_einsums[n], &l);
    }
    output_format(out,
                  "\nThe einsums of Ivanov et al., BERT-large, %d x %d: orders, valid, stack and GEMMs of %d of the\n"
                  "%d are what its code enumerates\n\n",
                  PAPER_BATCH, PAPER_LENGTH, same, PAPER_EINSUMS);
    table_print(&table, out);
}

static void print_paper_kernels(const struct analysis *a, struct output *out)
{
    struct table table = {.columns = "<kernel|~tensors|<vector|<threads|>by rule|>limited|>its code|>packed",
                          .width = WIDTH};
    for (int n = 0; n < PAPER_KERNELS; n++) {
        const struct paper_kernel *paper = &paper_kernels[n];
        wherry_kernel_layouts rule, limited;
        if (!count_kernel(a, paper, NULL, &rule) || !count_kernel(a, paper, paper->only, &limited)) continue;
        table_cell(&table, "%s", paper->name);
        table_cell(&table, "%s", limited.tensors);
        table_cell(&table, "%s", limited.vector);
        table_cell(&table, "%s", limited.threads);
        count_cell(&table, rule.configurations);
        count_cell(&table, limited.configurations);
        table_cell(&table, "%u%s", paper->configurations, limited.configurations == paper->configurations ? " " : "*");
        count_cell(&table, limited.packed);
    }
    output_text(out, "\nIts fused kernels. by rule: all letters to choose from; limited: the letters that its code\n"
                     "takes; its code: what its benchmark has (*: another number)\n\n");
    table_print(&table, out);
    output_text(out, "\nWhat its authors chose, and no rule tells:\n");
    for (int n = 0; n < PAPER_KERNELS; n++)
        if (*paper_kernels[n].note) output_format(out, "  %-5s  %s\n", paper_kernels[n].name, paper_kernels[n].note);
}

/* ---- JSON ---- */

static json_t *count_json(uint64_t count)
{
    return need(count > INT64_MAX ? json_real((double)count) : json_integer((json_int_t)count));
}

static json_t *product_json(const char *einsum, const wherry_product_layouts *l)
{
    return need(json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "einsum", einsum, "m",
                          (json_int_t)l->m, "n", (json_int_t)l->n, "k", (json_int_t)l->k, "batch", (json_int_t)l->batch,
                          "permutations", (json_int_t)l->permutations, "valid", (json_int_t)l->valid, "stack_first",
                          (json_int_t)l->stack_first, "gemms", (json_int_t)l->gemms, "packed", (json_int_t)l->packed,
                          "by_sequence", (json_int_t)l->by_sequence));
}

static json_t *kernel_json(const char *name, const wherry_kernel_layouts *l)
{
    return need(json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "name", name, "tensors", l->tensors, "vector", l->vector,
                          "threads", l->threads, "configurations", count_json(l->configurations), "packed",
                          count_json(l->packed)));
}

static json_t *products_json(const struct analysis *a)
{
    size_t count;
    struct product *list = products_of(a, &count);
    json_t *products = need(json_array());
    for (size_t n = 0; n < count; n++) {
        json_t *product = product_json(list[n].einsum, &list[n].layouts), *names = need(json_array());
        for (char *name = strtok(list[n].names, "+"); name; name = strtok(NULL, "+"))
            json_array_append_new(names, json_string(name));
        json_object_set_new(product, "operators", names);
        json_array_append_new(products, product);
    }
    free(list);
    return products;
}

static json_t *plan_json(const struct analysis *a, int plan)
{
    size_t count;
    const wherry_cost *groups = wherry_analysis_groups(a->plans[plan], &count);
    json_t *kernels = need(json_array());
    for (size_t n = 0; n < count; n++) {
        wherry_kernel_layouts layouts;
        if (groups[n].layer <= 0 && wherry_analysis_kernel_layouts(a->plans[plan], n, &layouts))
            json_array_append_new(kernels, kernel_json(cost_kind(&groups[n]), &layouts));
    }
    return need(json_pack("{s:s, s:o}", "plan", plan_name(plan), "groups", kernels));
}

static json_t *paper_json(const struct analysis *a)
{
    json_t *einsums = need(json_array()), *kernels = need(json_array());
    for (int n = 0; n < PAPER_EINSUMS; n++) {
        wherry_product_layouts l;
        if (!count_einsum(a, &paper_einsums[n], &l)) continue;
        json_t *one = product_json(paper_einsums[n].einsum, &l);
        json_object_set_new(one, "name", json_string(paper_einsums[n].name));
        json_object_set_new(one, "same", json_boolean(same_einsum(&paper_einsums[n], &l)));
        json_array_append_new(einsums, one);
    }
    for (int n = 0; n < PAPER_KERNELS; n++) {
        const struct paper_kernel *paper = &paper_kernels[n];
        wherry_kernel_layouts rule, limited;
        if (!count_kernel(a, paper, NULL, &rule) || !count_kernel(a, paper, paper->only, &limited)) continue;
        json_t *one = kernel_json(paper->name, &limited);
        json_object_set_new(one, "by_rule", count_json(rule.configurations));
        json_object_set_new(one, "its_code", json_integer(paper->configurations));
        json_object_set_new(one, "same", json_boolean(limited.configurations == paper->configurations));
        json_array_append_new(kernels, one);
    }
    return need(json_pack("{s:o, s:o}", "contractions", einsums, "kernels", kernels));
}

static json_t *report_json(const struct analysis *a, bool paper)
{
    json_t *plans = need(json_array());
    for (int plan = 1; plan < PLAN_ALL; plan++)
        if (plan_asked(a->tool.options, plan)) json_array_append_new(plans, plan_json(a, plan));
    json_t *value = need(json_pack("{s:o, s:o, s:I, s:I, s:b, s:b, s:o, s:o}", "run", run_json(a->tool.options),
                                   "model", text_json(a->name), "batch", (json_int_t)a->desc.batch, "length",
                                   (json_int_t)a->desc.length, "training", a->desc.training != NULL, "layer_only",
                                   (int)a->desc.layer_only, "contractions", products_json(a), "plans", plans));
    if (paper) json_object_set_new(value, "paper", paper_json(a));
    return value;
}

int layouts_report(struct analysis *a)
{
    const struct options *options = a->tool.options;
    bool paper = !options->model && !options->config;
    struct output out;
    if (!output_open(&out, options->output)) return EXIT_OUTPUT;
    if (options->json) {
        output_json(&out, report_json(a, paper));
    } else {
        output_format(&out, "%s: %u sequences of %u tokens, %s, %s\n\n", a->name, a->desc.batch, a->desc.length,
                      a->desc.layer_only ? "one layer" : "one layer of the encoder, and what is outside",
                      a->desc.training ? "training" : "inference");
        print_products(a, &out);
        for (int plan = 1; plan < PLAN_ALL; plan++)
            if (plan_asked(a->tool.options, plan)) print_kernels(a, plan, &out);
        if (paper) {
            print_paper_einsums(a, &out);
            print_paper_kernels(a, &out);
        }
    }
    return output_close(&out, true) ? EXIT_FINE : EXIT_OUTPUT;
}
