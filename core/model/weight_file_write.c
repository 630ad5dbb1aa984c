/* A file of weights, written anew with other values. */
#include "model/weight_file_write.h"

#include <stdio.h>
#include <string.h>

#include "model/model_files.h"
#include "model/safetensors_write.h"
#include "model/tensor_names.h"

enum { PIECE_BYTES = 1 << 20 };

/* Where an entry's bytes come from. */
struct entry_source {
    struct weight_part part;        /* floats; elements 0: none */
    const struct safetensors *file; /* else these bytes */
    const struct safetensors_tensor *tensor;
    char name[TENSOR_NAME]; /* of random weights */
};

struct writer {
    const struct wherry_model *model;
    const struct weight_part (*weights)[WEIGHT_COUNT][3];
    struct safetensors_entry *entries;
    struct entry_source *sources; /* [count], both */
    size_t count, room;
};

/* ---- which tensors ---- */

static struct entry_source *entry_add(struct writer *w, const struct safetensors_entry *entry, struct error *e)
{
    const struct host *host = &w->model->host;
    if (w->count == w->room) {
        size_t room = w->room ? 2 * w->room : 64;
        struct safetensors_entry *entries = host_grow(host, w->entries, w->room, room, sizeof *w->entries, e);
        if (!entries) return NULL;
        w->entries = entries;
        struct entry_source *sources = host_grow(host, w->sources, w->room, room, sizeof *w->sources, e);
        if (!sources) return NULL;
        w->sources = sources;
        w->room = room;
    }
    w->entries[w->count] = *entry;
    return &w->sources[w->count++];
}

static const struct weight_part *part_of(const struct writer *w, int layer, int weight, int part)
{
    return &(w->weights ? w->weights
                        : (const struct weight_part(*)[WEIGHT_COUNT][3])w->model->weights)[layer + 1][weight][part];
}

/* What the model computes with where it reads this tensor. A matrix of scores that is tied to the word table, and the
 * bias beside it, may lie in the file a second time. */
static const struct weight_part *part_find(const struct writer *w, const struct safetensors_tensor *t)
{
    const struct wherry_model *model = w->model;
    const struct architecture *a = model->architecture;
    const char *tied = a ? a->modules[WEIGHT_VOCABULARY_TABLE][0] : NULL;
    for (int layer = -1; layer < (int)model->info.config.layers; layer++)
        for (int weight = 0; weight < WEIGHT_COUNT; weight++)
            for (int part = 0; part < 3; part++)
                if (model->weights[layer + 1][weight][part].tensor == t) return part_of(w, layer, weight, part);
    if (!tied || model->info.config.untied || strncmp(t->name, tied, strlen(tied))) return NULL;
    const char *ending = t->name + strlen(tied);
    const struct weight_part *of = !strcmp(ending, ".weight") ? part_of(w, -1, WEIGHT_WORD, 0)
                                   : !strcmp(ending, ".bias") ? part_of(w, -1, WEIGHT_VOCABULARY_BIAS, 0)
                                                              : NULL;
    uint64_t elements = 1;
    for (int d = 0; d < t->rank; d++) elements *= t->shape[d];
    return of && of->elements == elements ? of : NULL;
}

static bool file_tensor_add(struct writer *w, const struct safetensors *file, const struct safetensors_tensor *t,
                            struct error *e)
{
    struct safetensors_entry entry = {.name = t->name, .dtype = t->dtype, .rank = t->rank, .bytes = t->bytes};
    struct weight_part part = {.type = WEIGHT_TYPE_F32, .file = file, .tensor = t};
    const struct weight_part *known = part_find(w, t);
    bool f16 = !strcmp(t->dtype, "F16"), bf16 = !strcmp(t->dtype, "BF16");
    memcpy(entry.shape, t->shape, sizeof entry.shape);
    if (f16 || bf16) part.type = f16 ? WEIGHT_TYPE_F16 : WEIGHT_TYPE_BF16, part.elements = t->bytes / 2;
    if (known) part = *known;
    if (part.elements) entry.dtype = "F32", entry.bytes = part.elements * sizeof(float);
    struct entry_source *source = entry_add(w, &entry, e);
    if (!source) return false;
    *source = (struct entry_source){.part = part, .file = file, .tensor = t};
    return true;
}

static bool named_tensors_add(struct writer *w, struct error *e)
{
    const struct wherry_model *model = w->model;
    for (int layer = -1; layer < (int)model->info.config.layers; layer++)
        for (int weight = 0; weight < WEIGHT_COUNT; weight++)
            for (int part = 0; part < 3; part++) {
                const struct weight_part *of = part_of(w, layer, weight, part);
                struct model_tensor t;
                if (!of->elements || weight_is_rotary((enum weight)weight)) continue;
                model_tensor(model, (enum weight)weight, layer, part, &t);
                const struct safetensors_entry entry = {.dtype = "F32",
                                                        .rank = t.rank,
                                                        .shape = {t.shape[0], t.shape[1]},
                                                        .bytes = t.elements * sizeof(float)};
                struct entry_source *source = entry_add(w, &entry, e);
                if (!source) return false;
                *source = (struct entry_source){.part = *of};
                memcpy(source->name, t.name, sizeof source->name);
            }
    for (size_t i = 0; i < w->count; i++) w->entries[i].name = w->sources[i].name;
    return true;
}

/* ---- their bytes ---- */

static bool floats_write(const struct new_file *file, const struct weight_part *part, char *raw, float *piece,
                         struct error *e)
{
    const uint64_t most = PIECE_BYTES / sizeof *piece;
    for (uint64_t at = 0, n; at < part->elements; at += n) {
        n = part->elements - at < most ? part->elements - at : most;
        TRY(weight_convert(part, at, n, WEIGHT_TYPE_F32, raw, piece, e));
        TRY(new_file_add(file, piece, (size_t)n * sizeof *piece, e));
    }
    return true;
}

static bool bytes_write(const struct new_file *file, const struct entry_source *source, void *piece, struct error *e)
{
    for (uint64_t at = 0; at < source->tensor->bytes;) {
        uint64_t left = source->tensor->bytes - at;
        size_t n = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
        TRY(safetensors_read(source->file, source->tensor, at, n, piece, e));
        TRY(new_file_add(file, piece, n, e));
        at += n;
    }
    return true;
}

static bool entries_write(const struct writer *w, const struct new_file *file, struct error *e)
{
    const struct host *host = &w->model->host;
    void *raw = host_alloc_unset(host, WEIGHT_RAW_BYTES, 1, e), *piece = host_alloc_unset(host, PIECE_BYTES, 1, e);
    bool ok = raw && piece;
    for (size_t i = 0; ok && i < w->count; i++) {
        const struct entry_source *source = &w->sources[i];
        ok = source->part.elements ? floats_write(file, &source->part, raw, piece, e)
                                   : bytes_write(file, source, piece, e);
    }
    host_free(host, raw);
    host_free(host, piece);
    return ok;
}

bool weight_file_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                       const struct safetensors *const *files, size_t count, const struct new_folder *folder,
                       const char *name, struct error *e)
{
    struct writer w = {.model = model, .weights = weights};
    struct new_file file;
    bool ok = count || named_tensors_add(&w, e);
    for (size_t f = 0; ok && f < count; f++)
        for (size_t t = 0; ok && t < files[f]->count; t++) ok = file_tensor_add(&w, files[f], &files[f]->tensors[t], e);
    ok = ok && safetensors_begin(folder, name, w.entries, w.count, &file, e);
    if (ok) ok = new_file_end(folder, &file, entries_write(&w, &file, e), e);
    host_free(&model->host, w.entries);
    host_free(&model->host, w.sources);
    return ok;
}
