/* The files that a model's weights are read from: model.safetensors, or shards by their index. */
#include "model/model_files.h"

#include <string.h>

#include "base/folder.h"
#include "base/source.h"

/* Each is a file that stays open, and systems give a process 256 to 1024. The largest models of all have 200. */
enum { MAX_SHARDS = 128 };
/* Bytes of all headers together. Paths like "x" and "./x" are one file read twice, so a small folder could ask for a
 * lot.
 */
enum { MAX_HEADERS = SAFETENSORS_MAX_HEADER };

static void shard_close(const struct host *host, struct shard *shard)
{
    if (!shard) return;
    safetensors_close(host, &shard->file);
    host_free(host, shard->name);
    host_free(host, shard);
}

void model_files_close(const struct host *host, struct model_files *files)
{
    if (!files) return;
    for (size_t i = 0; i < files->count; i++) shard_close(host, files->shards[i]);
    host_free(host, files->shards);
    json_decref(files->index);
    host_free(host, files->folder);
    host_free(host, files);
}

static struct shard *shard_open(const struct host *host, const struct model_files *files, const char *name,
                                struct error *e)
{
    struct shard *shard = host_alloc(host, 1, sizeof *shard, e);
    char *path = shard ? path_join(host, files->folder, name, e) : NULL;
    bool ok = path && (shard->name = host_strdup(host, name, e)) && safetensors_open(host, path, &shard->file, e);
    host_free(host, path);
    if (ok) return shard;
    shard_close(host, shard);
    return NULL;
}

/* The file of this name in the folder, opened when it is first asked for. */
static const struct safetensors *files_open(const struct host *host, struct model_files *files, const char *name,
                                            struct error *e)
{
    for (size_t i = 0; i < files->count; i++) {
        if (!strcmp(files->shards[i]->name, name)) return &files->shards[i]->file;
    }
    if (!*name || !path_is_inside(name)) {
        fail(
            e, WHERRY_STATUS_BAD_FORMAT,
            "%.400s/model.safetensors.index.json: the path \"%.200s\" leads out of the model's folder: a hostile file, "
            "do not use this model",
            files->folder, name);
        return NULL;
    }
    if (files->count == MAX_SHARDS) {
        fail(e, WHERRY_STATUS_UNSUPPORTED, "%.400s has more than %d files of weights: save it with larger shards",
             files->folder, MAX_SHARDS);
        return NULL;
    }
    if (!files->shards && !(files->shards = host_alloc(host, MAX_SHARDS, sizeof *files->shards, e))) return NULL;
    struct shard *shard = shard_open(host, files, name, e);
    if (!shard) return NULL;
    files->shards[files->count++] = shard;
    files->header_bytes += shard->file.header_bytes;
    if (files->header_bytes <= MAX_HEADERS) return &shard->file;
    fail(e, WHERRY_STATUS_UNSUPPORTED,
         "%.400s: the headers of its files of weights have more than %d bytes together, the most that are read: not a "
         "model, or damaged",
         files->folder, MAX_HEADERS);
    return NULL;
}

bool model_files_find(const struct host *host, struct model_files *files, const char *name,
                      const struct safetensors **in, const struct safetensors_tensor **out, struct error *e)
{
    const char *file = "model.safetensors";
    *out = NULL;
    if (files->index) {
        const json_t *value = json_object_get(json_object_get(files->index, "weight_map"), name);
        if (!value) return true;
        file = json_string_value(value);
        if (!file) {
            return fail(e, WHERRY_STATUS_BAD_FORMAT,
                        "%.500s/model.safetensors.index.json: weight_map gives no file for %.200s: get the file again",
                        files->folder, name);
        }
    }
    const struct safetensors *from = files_open(host, files, file, e);
    if (!from) return false;
    *in = from;
    *out = safetensors_find(from, name);
    if (*out || !files->index) return true;
    return fail(e, WHERRY_STATUS_BAD_FORMAT,
                "%.400s/%.200s has no tensor %.200s, where model.safetensors.index.json says it is: get both files "
                "again",
                files->folder, file, name);
}

bool model_files_begin(const struct host *host, struct model_files *files, struct error *e)
{
    bool has = false, torch = false, torch_shards = false;
    TRY(folder_has(host, files->folder, "model.safetensors", &has, e));
    if (has) return true;
    TRY(folder_has(host, files->folder, "model.safetensors.index.json", &has, e));
    if (has) {
        TRY(json_file_read(host, files->folder, "model.safetensors.index.json", &json_index, 0, &files->index, e));
        if (json_is_object(json_object_get(files->index, "weight_map"))) return true;
        return fail(e, WHERRY_STATUS_BAD_FORMAT,
                    "%.600s/model.safetensors.index.json has no object \"weight_map\": get the file again",
                    files->folder);
    }
    TRY(folder_has(host, files->folder, "pytorch_model.bin", &torch, e));
    TRY(folder_has(host, files->folder, "pytorch_model.bin.index.json", &torch_shards, e));
    if (torch || torch_shards) {
        return fail(e, WHERRY_STATUS_UNSUPPORTED,
                    "%.500s has its weights in pytorch_model.bin, a format that can run programs and is not read: "
                    "convert it to safetensors (in Python: AutoModel.from_pretrained(folder).save_pretrained(folder, "
                    "safe_serialization=True))",
                    files->folder);
    }
    return fail(e, WHERRY_STATUS_IO,
                "%.600s has no model.safetensors and no model.safetensors.index.json: get the weights of the model",
                files->folder);
}
