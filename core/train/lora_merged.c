/* What a layer with an adapter computes with, on the host. */
#include "train/trainer.h"

bool lora_merged(struct wherry_trainer *t, size_t layer, float *out, struct error *e)
{
    const struct host *host = &t->context->host;
    const struct lora_layer *l = &t->lora->layers[layer];
    const uint32_t rank = t->lora->settings.rank;
    const struct weight_part *part = &t->model->weights[l->layer + 1][l->weight][l->part];
    void *raw = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e);
    float *a = raw ? host_alloc_unset(host, (size_t)(rank * (l->rows + l->columns)), sizeof *a, e) : NULL,
          *b = a ? a + rank * l->columns : NULL;
    bool ok = a && weight_convert(part, 0, part->elements, WEIGHT_TYPE_F32, raw, out, e) &&
              adapters_read(t->lora->adapters, 2 * layer, a, e) &&
              adapters_read(t->lora->adapters, 2 * layer + 1, b, e);
    if (ok) adapter_add(a, b, rank, l->rows, l->columns, adapter_scale(&t->lora->settings), out);
    host_free(host, a);
    host_free(host, raw);
    return ok;
}
