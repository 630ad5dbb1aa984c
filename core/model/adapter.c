/* Adapters: their scale, and the linear layers that may have one. */
#include "model/adapter.h"

#include <math.h>
#include <string.h>

float adapter_scale(const struct adapter_settings *settings)
{
    const double rank = (double)settings->rank;
    return (float)((double)settings->alpha / (settings->root ? sqrt(rank) : rank));
}

/* ---- names ---- */

static bool is_table(enum weight weight)
{
    return weight == WEIGHT_WORD || weight == WEIGHT_POSITION || weight == WEIGHT_TYPE || weight == WEIGHT_RELATIVE ||
           weight == WEIGHT_VOCABULARY_TABLE;
}

bool linear_layer_of(const struct wherry_model *model, enum weight weight, int layer, int part,
                     struct linear_layer *out)
{
    static const char ending[] = ".weight";
    struct model_tensor t;
    if (!model->weights[layer + 1][weight][part].elements || is_table(weight)) return false;
    model_tensor(model, weight, layer, part, &t);
    const size_t length = strlen(t.name), n = sizeof ending - 1;
    if (t.kind != WEIGHT_MATRIX || t.rank != 2 || strchr(t.name, '/') || length <= n ||
        strcmp(t.name + length - n, ending) != 0)
        return false;
    *out = (struct linear_layer){.rows = t.shape[0], .columns = t.shape[1]};
    memcpy(out->module, t.name, length - n);
    return true;
}

bool module_is(const char *module, const char *target)
{
    const size_t length = strlen(module), n = strlen(target);
    return n && n <= length && !strcmp(module + length - n, target) && (n == length || module[length - n - 1] == '.');
}

bool module_has(const char *weight, const char *module)
{
    const size_t n = strlen(module);
    for (const char *at = weight; n && (at = strstr(at, module)); at++)
        if ((at == weight || at[-1] == '.') && at[n] == '.') return true;
    return false;
}
