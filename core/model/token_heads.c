/* bge-m3's heads on token vectors: a Linear each, in a file of its own beside the encoder's. */
#include "model/token_heads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/folder.h"
#include "model/weights.h"

enum { WIDTH_MOST = 1 << 16 };

static const struct {
    const char *name;
    enum weight weight;
    uint32_t rows; /* 0: any number */
    wherry_head_activation activation;
    const char *makes;
} kinds[TOKEN_HEADS] = {
    [TOKEN_HEAD_WEIGHTS] = {"sparse_linear", WEIGHT_SPARSE, 1, WHERRY_HEAD_RELU, "weights of tokens"},
    [TOKEN_HEAD_VECTORS] = {"colbert_linear", WEIGHT_COLBERT, 0, WHERRY_HEAD_PLAIN, "projected vectors of tokens"},
};

/* One of the two kinds of files. */
struct source {
    const char *path;
    const struct torch_file *torch; /* NULL: the other one */
    const struct safetensors *file;
};

/* Shape and part of a tensor. *rank 0: there is none of that name. */
static bool tensor_find(const struct source *from, const char *name, const uint64_t **shape, int *rank,
                        struct weight_part *part, struct error *e)
{
    *rank = 0;
    if (from->torch) {
        const struct torch_tensor *t = torch_file_find(from->torch, name);
        if (t) *shape = t->shape, *rank = t->rank, *part = t->part;
        return true;
    }
    const struct safetensors_tensor *t = safetensors_find(from->file, name);
    if (!t) return true;
    *shape = t->shape;
    *rank = t->rank;
    return weight_part_check(from->file, t, t->shape, t->rank, part, e);
}

static bool shape_fails(const struct source *from, const char *name, const uint64_t *shape, int rank,
                        const char *expected, struct error *e)
{
    char found[200];
    safetensors_shape_text(shape, rank, found, sizeof found);
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.400s: tensor %s has shape %s, and the model asks for %s: the files belong to different models, get "
                "both again",
                from->path, name, found, expected);
}

/* The state of a Linear: weight [rows, hidden], and mostly bias [rows]. */
static bool linear_check(const struct source *from, enum token_head_kind kind, uint32_t hidden, struct module *module,
                         struct weight_part parts[2], struct error *e)
{
    const uint64_t *shape = NULL;
    uint32_t rows = kinds[kind].rows;
    int rank;
    char expected[64];
    size_t count = from->torch ? from->torch->count : from->file->count;
    TRY(tensor_find(from, "weight", &shape, &rank, &parts[0], e));
    if (!rank) return fail(e, WHERRY_STATUS_BAD_FORMAT, "%.600s has no tensor weight: get the file again", from->path);
    snprintf(expected, sizeof expected, rows ? "[%" PRIu32 ", %" PRIu32 "]" : "[1 to %" PRIu32 ", %" PRIu32 "]",
             rows ? rows : WIDTH_MOST, hidden);
    if (rank != 2 || shape[1] != hidden || !shape[0] || shape[0] > (rows ? rows : WIDTH_MOST))
        return shape_fails(from, "weight", shape, rank, expected, e);
    *module = (struct module){.width = (uint32_t)shape[0], .activation = kinds[kind].activation};
    if ((uint64_t)module->width * hidden > UINT32_MAX)
        return fail(e, WHERRY_STATUS_UNSUPPORTED, "%.600s: the matrix has more elements than 32 bits can count",
                    from->path);
    TRY(tensor_find(from, "bias", &shape, &rank, &parts[1], e));
    module->bias = rank > 0;
    snprintf(expected, sizeof expected, "[%" PRIu32 "]", module->width);
    if (rank && (rank != 1 || shape[0] != module->width)) return shape_fails(from, "bias", shape, rank, expected, e);
    return count == 1 + (size_t)module->bias ||
           fail(e, WHERRY_STATUS_UNSUPPORTED,
                "%.600s has more tensors than weight and bias, the state of one linear layer: it is not known what to "
                "compute",
                from->path);
}

static bool head_read(struct wherry_model *model, const char *path, bool torch, enum token_head_kind kind,
                      struct error *e)
{
    struct token_head *head = &model->token_heads->of[kind];
    struct weight_part parts[2] = {{0}};
    struct module module;
    const struct source from = {.path = path, .torch = torch ? &head->torch : NULL, .file = &head->file};
    TRY(torch ? torch_file_open(&model->host, path, &head->torch, e)
              : safetensors_open(&model->host, path, &head->file, e));
    TRY(linear_check(&from, kind, model->info.config.hidden, &module, parts, e));
    for (int i = 0; i < 1 + module.bias; i++) {
        model->weights[0][kinds[kind].weight + i][0] = parts[i];
        model->info.parameters += parts[i].elements;
    }
    head->module = module;
    return true;
}

static bool head_look(struct wherry_model *model, const char *folder, enum token_head_kind kind, bool *has,
                      struct error *e)
{
    static const char *const endings[] = {".safetensors", ".pt"};
    struct token_head *head = &model->token_heads->of[kind];
    for (int torch = 0; torch < 2; torch++) {
        char name[40];
        snprintf(name, sizeof name, "%s%s", kinds[kind].name, endings[torch]);
        TRY(folder_has(&model->host, folder, name, has, e));
        if (!*has) continue;
        char *path = path_join(&model->host, folder, name, e);
        bool ok = path && head_read(model, path, torch, kind, e);
        host_free(&model->host, path);
        if (ok) return true;
        if (e->status != WHERRY_STATUS_BAD_FORMAT && e->status != WHERRY_STATUS_UNSUPPORTED) return false;
        head->why = *e;
        *e = (struct error){0};
        return true;
    }
    return true;
}

bool token_heads_read(struct wherry_model *model, const char *folder, struct error *e)
{
    model->token_heads = host_alloc(&model->host, 1, sizeof *model->token_heads, e);
    if (!model->token_heads) return false;
    return head_look(model, folder, TOKEN_HEAD_WEIGHTS, &model->info.token_weights, e) &&
           head_look(model, folder, TOKEN_HEAD_VECTORS, &model->info.token_vectors, e);
}

const struct token_head *token_head_find(const struct wherry_model *model, enum token_head_kind kind, struct error *e)
{
    const struct token_head *head = model->token_heads ? &model->token_heads->of[kind] : NULL;
    if (head && head->module.width) return head;
    if (head && head->why.status)
        *e = head->why;
    else
        fail(
            e, WHERRY_STATUS_UNSUPPORTED,
            "this model (%.63s) has no %s: that takes a folder with %s.safetensors or %s.pt beside the encoder's files",
            model->info.architecture, kinds[kind].makes, kinds[kind].name, kinds[kind].name);
    return NULL;
}

void token_heads_free(const struct host *host, struct token_heads *heads)
{
    if (!heads) return;
    for (int kind = 0; kind < TOKEN_HEADS; kind++) {
        torch_file_close(host, &heads->of[kind].torch);
        safetensors_close(host, &heads->of[kind].file);
    }
    host_free(host, heads);
}
