/* Model folders written anew. */
#include "model/model_write.h"

#include <string.h>

#include "base/folder.h"
#include "base/source.h"
#include "model/config_write.h"
#include "model/model_files.h"
#include "model/tensor_names.h"
#include "model/token_heads.h"
#include "model/weight_file_write.h"

/* Of a file beside the weights: tokenizers of the largest vocabularies have 35 MB. */
enum { SMALL_BYTES = 256 << 20 };

/* ---- small files ---- */

struct copy {
    const struct wherry_model *model;
    const struct new_folder *to;
    const char *within; /* the folder's path in the model's, "" for that itself */
};

/* In config.json 16-bit floats become what the weights are written in: else they would be read as 16 bits. Only the
 * type's name is changed, and all else stays as it was, byte for byte. */
static void dtype_change(char *text, size_t *size)
{
    static const char *const keys[] = {"\"torch_dtype\"", "\"dtype\""}, *const types[] = {"\"bfloat16\"",
                                                                                          "\"float16\""};
    static const char f32[] = "\"float32\"";
    for (size_t k = 0; k < 2; k++) {
        char *at = strstr(text, keys[k]);
        if (!at) continue;
        at += strlen(keys[k]);
        at += strspn(at, " \t\r\n:");
        for (size_t t = 0; t < 2; t++) {
            size_t length = strlen(types[t]), want = sizeof f32 - 1;
            if (strncmp(at, types[t], length)) continue;
            memcpy(at, f32, want);
            memmove(at + want, at + length, strlen(at + length) + 1);
            *size -= length - want;
            break;
        }
    }
}

static bool file_copy(const struct copy *c, const char *name, struct error *e)
{
    const struct host *host = &c->model->host;
    char *inside = *c->within ? path_join(host, c->within, name, e) : host_strdup(host, name, e);
    char *path = inside ? path_join(host, c->model->folder, inside, e) : NULL, *data = NULL;
    size_t size = 0;
    bool ok = path && source_read_all(host, path, SMALL_BYTES, &data, &size, e);
    if (ok && !strcmp(name, "config.json")) dtype_change(data, &size);
    ok = ok && new_file_write(c->to, inside, data, size, e);
    host_free(host, data);
    host_free(host, path);
    host_free(host, inside);
    return ok;
}

/* Weights of whatever kind, of which those that are written anew would differ, lists of them, and what a version
 * control keeps. */
static bool is_small_file(const char *name, uint64_t bytes)
{
    static const char *const endings[] = {".safetensors", ".bin",        ".pt",   ".pth",       ".h5",   ".ot",
                                          ".msgpack",     ".onnx",       ".gguf", ".npz",       ".ckpt", ".tflite",
                                          ".data",        ".index.json", ".lock", ".unfinished"};
    size_t length = strlen(name);
    if (*name == '.' || bytes > SMALL_BYTES || !strncmp(name, "training_state.", 15)) return false;
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        size_t n = strlen(endings[i]);
        if (length > n && !strcmp(name + length - n, endings[i])) return false;
    }
    return true;
}

static bool entry_copy(const char *name, bool is_folder, uint64_t bytes, void *user, struct error *e)
{
    return is_folder || !is_small_file(name, bytes) || file_copy(user, name, e);
}

/* What is asked for in an application's files, which can't be listed. */
static bool known_copy(const struct copy *c, struct error *e)
{
    static const char *const names[] = {"config.json",
                                        "tokenizer.json",
                                        "tokenizer_config.json",
                                        "chat_template.jinja",
                                        "special_tokens_map.json",
                                        "added_tokens.json",
                                        "vocab.txt",
                                        "vocab.json",
                                        "merges.txt",
                                        "sentencepiece.bpe.model",
                                        "spiece.model",
                                        "modules.json",
                                        "sentence_bert_config.json",
                                        "config_sentence_transformers.json",
                                        "artifact.metadata",
                                        "README.md"};
    const struct host *host = &c->model->host;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *folder = path_join(host, c->model->folder, c->within, e);
        bool has = false, ok = folder && folder_has(host, folder, names[i], &has, e);
        host_free(host, folder);
        TRY(ok && (!has || file_copy(c, names[i], e)));
    }
    return true;
}

static bool folder_copy(const struct wherry_model *model, const char *within, const struct new_folder *to,
                        struct error *e)
{
    struct copy c = {model, to, within};
    bool empty = true;
    if (model->source) return known_copy(&c, e);
    char *path = path_join(&model->host, model->folder, within, e);
    bool ok = path && folder_is_free(path, &empty, e); /* of a module without files there may be no folder */
    ok = ok && (empty || folder_list(path, entry_copy, &c, e));
    host_free(&model->host, path);
    return ok;
}

/* The model's folder, and those that modules.json names. */
static bool folders_copy(const struct wherry_model *model, const struct new_folder *to, struct error *e)
{
    const struct host *host = &model->host;
    bool has = false;
    json_t *modules = NULL;
    TRY(folder_copy(model, "", to, e) && folder_has(host, model->folder, "modules.json", &has, e));
    if (!has) return true;
    TRY(json_file_read(host, model->folder, "modules.json", &json_config, 0, &modules, e));
    bool ok = true;
    for (size_t i = 0; ok && i < json_array_size(modules); i++) {
        const char *path = json_string_value(json_object_get(json_array_get(modules, i), "path"));
        if (path && *path && strcmp(path, ".") && path_is_inside(path)) ok = folder_copy(model, path, to, e);
    }
    json_decref(modules);
    return ok;
}

/* ---- weights ---- */

struct file_list {
    const struct safetensors **files; /* [count] */
    size_t count;
    struct safetensors *own; /* [owned]: those that the model did not open */
    size_t owned;
};

static const struct safetensors *file_of(const struct wherry_model *model, const char *name)
{
    for (size_t i = 0; i < model->files->count; i++)
        if (!strcmp(model->files->shards[i]->name, name)) return &model->files->shards[i]->file;
    return NULL;
}

static bool file_add(const struct wherry_model *model, struct file_list *list, const char *name, struct error *e)
{
    const struct safetensors *file = file_of(model, name);
    for (size_t i = 0; i < list->count; i++) {
        const char *path = list->files[i]->path, *end = strrchr(path, '/');
        if (list->files[i] == file || !strcmp(end ? end + 1 : path, name)) return true;
    }
    if (!file) {
        if (!path_is_inside(name)) return true; /* of a hostile index, which the model did without */
        char *path = path_join(&model->host, model->files->folder, name, e);
        bool ok = path && safetensors_open(&model->host, path, &list->own[list->owned], e);
        host_free(&model->host, path);
        TRY(ok);
        file = &list->own[list->owned++];
    }
    list->files[list->count++] = file;
    return true;
}

/* The encoder's files, those that have nothing that the model reads included. */
static bool files_list(const struct wherry_model *model, struct file_list *list, struct error *e)
{
    const json_t *map = json_object_get(model->files->index, "weight_map");
    size_t most = map ? json_object_size(map) : 1;
    const char *key;
    json_t *value;
    if (!(list->files = host_alloc(&model->host, most, sizeof *list->files, e)) ||
        !(list->own = host_alloc(&model->host, most, sizeof *list->own, e)))
        return false;
    if (!map) return file_add(model, list, "model.safetensors", e);
    json_object_foreach((json_t *)map, key, value)
    {
        if (json_string_value(value)) TRY(file_add(model, list, json_string_value(value), e));
    }
    return true;
}

static char *inside_path(const struct wherry_model *model, const char *folder, const char *name, struct error *e)
{
    size_t root = strlen(model->folder);
    if (!strncmp(folder, model->folder, root)) folder += root;
    while (*folder == '/') folder++;
    return *folder ? path_join(&model->host, folder, name, e) : host_strdup(&model->host, name, e);
}

static bool encoder_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                          const struct new_folder *folder, struct error *e)
{
    struct file_list list = {0};
    char *name = inside_path(model, model->files->folder, "model.safetensors", e);
    bool drawn = model->memory != NULL; /* and no file was read */
    bool ok = name && (drawn || files_list(model, &list, e)) &&
              weight_file_write(model, weights, list.files, list.count, folder, name, e);
    for (size_t i = 0; i < list.owned; i++) safetensors_close(&model->host, &list.own[i]);
    host_free(&model->host, list.own);
    host_free(&model->host, list.files);
    host_free(&model->host, name);
    return ok;
}

static bool modules_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                          const struct new_folder *folder, struct error *e)
{
    for (uint32_t m = 0; m < model->modules.count; m++) {
        const struct safetensors *file = &model->modules.files[m];
        char *name = path_join(&model->host, module_path(model, m), "model.safetensors", e);
        bool ok = name && weight_file_write(model, weights, &file, 1, folder, name, e);
        host_free(&model->host, name);
        TRY(ok);
    }
    return true;
}

/* The heads on tokens' vectors (bge-m3's), as they are. */
static bool token_heads_write(const struct wherry_model *model, const struct new_folder *folder, struct error *e)
{
    static const char *const names[] = {"sparse_linear.safetensors", "sparse_linear.pt", "colbert_linear.safetensors",
                                        "colbert_linear.pt"};
    char *within = inside_path(model, model->files->folder, "", e);
    const struct copy c = {model, folder, within};
    bool ok = within != NULL;
    for (size_t i = 0; ok && i < sizeof names / sizeof *names; i++) {
        bool has = false;
        ok = folder_has(&model->host, model->files->folder, names[i], &has, e) && (!has || file_copy(&c, names[i], e));
    }
    host_free(&model->host, within);
    return ok;
}

bool model_write_check(const struct wherry_model *model, struct error *e)
{
    return model->files ? true : config_write(model, NULL, e);
}

bool model_write(const struct wherry_model *model, const struct weight_part (*weights)[WEIGHT_COUNT][3],
                 const struct new_folder *folder, struct error *e)
{
    if (!model->files)
        return config_write(model, folder, e) &&
               weight_file_write(model, weights, NULL, 0, folder, "model.safetensors", e);
    return folders_copy(model, folder, e) && encoder_write(model, weights, folder, e) &&
           modules_write(model, weights, folder, e) && token_heads_write(model, folder, e);
}
