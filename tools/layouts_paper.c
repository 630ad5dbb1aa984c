/* The paper's kernels and contractions as works. */
#include "layouts_paper.h"

#include <string.h>

#include "report/fields.h"
#include "session.h"

const char *layouts_work_name(int n)
{
    return n < PAPER_KERNELS ? paper_kernels[n].name : paper_einsums[n - PAPER_KERNELS].name;
}

int layouts_work_number(const char *name)
{
    for (int n = 0; n < LAYOUT_WORKS; n++)
        if (strcmp(layouts_work_name(n), name) == 0) return n;
    return -1;
}

static json_t *range_json(int n)
{
    const bool kernel = n < PAPER_KERNELS;
    const struct paper_range *r = kernel ? &paper_kernel_ranges[n] : &paper_einsum_ranges[n - PAPER_KERNELS];
    json_t *range =
        need(json_pack("{s:o, s:o}", "best_us", number_json(r->best * 1e3), "worst_us", number_json(r->worst * 1e3)));
    json_object_set_new(range, "figure", json_string(kernel ? "5" : "4, tensor cores"));
    if (!kernel) {
        json_object_set_new(range, "half_best_us", number_json(r->half_best * 1e3));
        json_object_set_new(range, "half_worst_us", number_json(r->half_worst * 1e3));
    }
    return range;
}

json_t *layouts_paper_json(int n)
{
    const bool kernel = n < PAPER_KERNELS;
    return need(json_pack("{s:s, s:s, s:o}", "kind", kernel ? "kernel" : "contraction", "tensors",
                          kernel ? paper_kernels[n].tensors : paper_einsums[n - PAPER_KERNELS].einsum, "paper",
                          range_json(n)));
}
