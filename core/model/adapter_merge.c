/* What an adapter adds to a model. */
#include "model/adapter.h"

void adapter_add(const float *a, const float *b, uint32_t rank, uint64_t rows, uint64_t columns, float scale, float *w)
{
    enum { PIECE = 512 };
    for (uint64_t row = 0; row < rows; row++)
        for (uint64_t first = 0; first < columns; first += PIECE) {
            const uint64_t n = columns - first < PIECE ? columns - first : PIECE;
            float sums[PIECE] = {0};
            for (uint32_t k = 0; k < rank; k++) {
                const float *from = a + k * columns + first, factor = b[row * rank + k];
                for (uint64_t c = 0; c < n; c++) sums[c] += factor * from[c];
            }
            for (uint64_t c = 0; c < n; c++) w[row * columns + first + c] += scale * sums[c];
        }
}

static struct weight_part *part_of(struct wherry_model *model, enum weight weight, int layer, int part)
{
    return &model->weights[layer + 1][weight][part];
}

/* The part's values are in memory from now on, and where they were in a file says what it is called. */
static void part_replace(struct weight_part *part, const float *values)
{
    part->memory = values;
    part->type = WEIGHT_TYPE_F32;
}

static bool pair_merge(struct wherry_model *model, const struct adapter_file *f, const struct adapter_pair *pair,
                       void *raw, float *at, struct error *e)
{
    const uint64_t rank = f->settings.rank;
    struct weight_part *part = part_of(model, pair->weight, pair->layer, pair->part);
    float *a = host_alloc_unset(&model->host, (size_t)(rank * (pair->rows + pair->columns)), sizeof *a, e);
    bool ok = a && weight_convert(part, 0, part->elements, WEIGHT_TYPE_F32, raw, at, e) &&
              weight_convert(&pair->a, 0, pair->a.elements, WEIGHT_TYPE_F32, raw, a, e) &&
              weight_convert(&pair->b, 0, pair->b.elements, WEIGHT_TYPE_F32, raw, a + pair->a.elements, e);
    if (ok) {
        adapter_add(a, a + pair->a.elements, f->settings.rank, pair->rows, pair->columns, adapter_scale(&f->settings),
                    at);
        part_replace(part, at);
    }
    host_free(&model->host, a);
    return ok;
}

static bool merge(struct wherry_model *model, const struct adapter_file *f, void *raw, struct error *e)
{
    uint64_t elements = 0;
    for (size_t i = 0; i < f->n_pairs; i++) elements += f->pairs[i].rows * f->pairs[i].columns;
    for (size_t i = 0; i < f->n_wholes; i++) elements += f->wholes[i].values.elements;
    if (elements > SIZE_MAX / sizeof(float))
        return fail(e, WHERRY_STATUS_OUT_OF_HOST_MEMORY, "the weights are too large for this process");
    float *at = model->adapted = host_alloc_unset(&model->host, (size_t)elements, sizeof *at, e);
    if (!at) return false;
    for (uint32_t l = 0; l <= model->info.config.layers; l++)
        for (int w = 0; w < WEIGHT_COUNT; w++) model->ranges[l][w] = RANGE_UNKNOWN;
    for (size_t i = 0; i < f->n_pairs; at += f->pairs[i].rows * f->pairs[i].columns, i++)
        TRY(pair_merge(model, f, &f->pairs[i], raw, at, e));
    for (size_t i = 0; i < f->n_wholes; at += f->wholes[i].values.elements, i++) {
        const struct adapter_whole *w = &f->wholes[i];
        if (w->weight == WEIGHT_WORD && model->word_row)
            return fail(e, WHERRY_STATUS_UNSUPPORTED,
                        "the adapter replaces the word table, of which this model's score is made: merge it by PEFT");
        TRY(weight_convert(&w->values, 0, w->values.elements, WEIGHT_TYPE_F32, raw, at, e));
        part_replace(part_of(model, w->weight, w->layer, w->part), at);
    }
    return true;
}

bool model_adapt(struct wherry_model *model, const char *folder, struct error *e)
{
    struct adapter_file file;
    if (model->adapted)
        return fail(e, WHERRY_STATUS_INVALID_ARGUMENT,
                    "this model has an adapter already: save it merged, and add another to that");
    TRY(adapter_open(model, folder, &file, e));
    void *raw = host_alloc_unset(&model->host, WEIGHT_RAW_BYTES, 1, e);
    bool ok = raw && merge(model, &file, raw, e);
    host_free(&model->host, raw);
    adapter_close(&model->host, &file);
    return ok;
}
