/* Model folders for tests: a tiny BERT in a temporary folder, in every form that published models have. Include this
 * first, as it asks for POSIX, and cmocka last, as it defines fail(). */
#ifndef WHERRY_TESTS_MODEL_FILES_H
#define WHERRY_TESTS_MODEL_FILES_H

#ifndef _XOPEN_SOURCE
#define _XOPEN_SOURCE 700
#endif

#include <ftw.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/half.h"
#include "base/host.h"
#include "base/text.h"

static inline void *files_alloc(size_t size, void *user)
{
    (void)user;
    return malloc(size);
}

static inline void files_free(void *pointer, void *user)
{
    (void)user;
    free(pointer);
}

static const struct host files_host = {.alloc = files_alloc, .free = files_free};

/* ---- files: a failure here is a broken machine, not a failed test ---- */

static inline void files_check(bool ok, const char *what)
{
    if (ok) return;
    perror(what);
    abort();
}

static inline char *files_format(const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    int n = vsnprintf(NULL, 0, format, ap);
    va_end(ap);
    char *text = malloc((size_t)n + 1);
    files_check(text, "malloc");
    va_start(ap, format);
    vsnprintf(text, (size_t)n + 1, format, ap);
    va_end(ap);
    return text;
}

/* A new empty folder; to be given to files_remove. */
static inline char *files_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *path = files_format("%s/wherry-test-XXXXXX", base && *base ? base : P_tmpdir);
    files_check(mkdtemp(path), path);
    return path;
}

static inline int files_remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

/* Removes what is in the folder, and it, and frees its name. */
static inline void files_remove(char *folder)
{
    nftw(folder, files_remove_one, 16, FTW_DEPTH | FTW_PHYS);
    free(folder);
}

static inline void files_write(const char *folder, const char *name, const void *data, size_t size)
{
    char *path = files_format("%s/%s", folder, name);
    for (char *slash = path + strlen(folder) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "wb");
    files_check(file && fwrite(data, 1, size, file) == size && !fclose(file), path);
    free(path);
}

static inline void files_write_text(const char *folder, const char *name, const char *text)
{
    files_write(folder, name, text, strlen(text));
}

/* ---- safetensors ---- */

struct tensor_writer {
    char *header; /* without the last brace */
    unsigned char *data;
    size_t data_bytes;
};

/* The value that a tiny model has there: one that every type holds exactly. `name` is the tensor's, that of the tiny
 * BERT without prefix and with the new names of layernorms. */
static inline float tiny_value(const char *name, uint64_t element)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (const char *c = name; *c; c++) h = (h ^ (unsigned char)*c) * 0x100000001b3u;
    h = (h ^ element) * 0x9e3779b97f4a7c15u;
    if (strstr(name, "LayerNorm.weight") || (strstr(name, "layer_norm_") && strstr(name, ".weight")) ||
        strstr(name, "layer_norm.weight") || strstr(name, "layernorm.weight") || strstr(name, "emb_ln.weight") ||
        strstr(name, "norm1.weight") || strstr(name, "norm2.weight") || strstr(name, "attn_ln.weight") ||
        strstr(name, "mlp_ln.weight") || strstr(name, "norm.weight"))
        return 1 + (float)((int)(h >> 40 & 31) - 16) / 128;
    return (float)((int)(h >> 40 & 127) - 63) / 256;
}

static inline void tensor_add(struct tensor_writer *w, const char *stored_name, const char *name, const char *dtype,
                              const uint32_t *shape, int rank)
{
    size_t elements = 1, bytes = !strcmp(dtype, "F32") ? 4 : !strcmp(dtype, "I64") ? 8 : 2;
    char sizes[64];
    struct text_writer t = text_begin(sizes, sizeof sizes);
    for (int i = 0; i < rank; i++) {
        elements *= shape[i];
        text_add(&t, "%s%u", i ? "," : "", shape[i]);
    }
    char *header = files_format("%s%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%zu,%zu]}",
                                w->header ? w->header : "{", w->header ? "," : "", stored_name, dtype, sizes,
                                w->data_bytes, w->data_bytes + elements * bytes);
    free(w->header);
    w->header = header;
    w->data = realloc(w->data, w->data_bytes + elements * bytes + 1);
    files_check(w->data, "realloc");
    unsigned char *to = w->data + w->data_bytes;
    for (size_t i = 0; i < elements; i++, to += bytes) {
        float value = tiny_value(name, i);
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        uint16_t half = !strcmp(dtype, "F16") ? half_from_float(value) : (uint16_t)(bits >> 16);
        if (bytes == 2) {
            memcpy(to, &half, 2);
        } else if (bytes == 4) {
            memcpy(to, &bits, 4);
        } else {
            memcpy(to, &(uint64_t){i}, 8);
        }
    }
    w->data_bytes += elements * bytes;
}

/* Header length, header, data. */
static inline unsigned char *safetensors_bytes(const char *header, const void *data, size_t data_bytes, size_t *size)
{
    uint64_t n = strlen(header);
    unsigned char *bytes = malloc(8 + (size_t)n + data_bytes + 1);
    files_check(bytes, "malloc");
    for (int i = 0; i < 8; i++) bytes[i] = (unsigned char)(n >> 8 * i);
    memcpy(bytes + 8, header, (size_t)n);
    if (data_bytes) memcpy(bytes + 8 + n, data, data_bytes);
    *size = 8 + (size_t)n + data_bytes;
    return bytes;
}

/* Writes the file and empties the writer. */
static inline void tensors_write(struct tensor_writer *w, const char *folder, const char *name)
{
    size_t size;
    char *header = files_format("%s}", w->header ? w->header : "{");
    unsigned char *bytes = safetensors_bytes(header, w->data, w->data_bytes, &size);
    files_write(folder, name, bytes, size);
    free(bytes);
    free(header);
    free(w->header);
    free(w->data);
    *w = (struct tensor_writer){0};
}

/* ---- the tiny BERT ---- */

struct tiny_model {
    const char *prefix; /* of tensor names; NULL: "" */
    const char *dtype;  /* NULL: "F32" */
    const char *skip;   /* the tensor of this name is left out */
    bool old_names;     /* layernorms have gamma and beta */
    bool no_pooler, no_vocabulary, sharded;
    bool sentence; /* modules.json (mean, normalize) and sentence_bert_config.json (16 tokens) are there */
};

enum {
    TINY_LAYERS = 2,
    TINY_HIDDEN = 16,
    TINY_HEADS = 2,
    TINY_FEED_FORWARD = 32,
    TINY_POSITIONS = 24,
    TINY_TYPES = 2,
    TINY_VOCABULARY = 44
};

#define TINY_CONFIG                                                                                                    \
    "{\"architectures\": [\"BertModel\"], \"model_type\": \"bert\", \"hidden_act\": \"gelu\", \"hidden_size\": 16, "   \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"intermediate_size\": 32, \"vocab_size\": 44, "            \
    "\"max_position_embeddings\": 24, \"type_vocab_size\": 2, \"layer_norm_eps\": 1e-12, "                             \
    "\"position_embedding_type\": \"absolute\"}"

static inline void tiny_add(struct tensor_writer *w, const struct tiny_model *m, const char *name,
                            const uint32_t *shape, int rank)
{
    if (m->skip && !strcmp(m->skip, name)) return;
    char *stored = files_format("%s%s", m->prefix ? m->prefix : "", name);
    const char *norm = strstr(name, "LayerNorm.");
    if (m->old_names && norm) {
        char *old = files_format("%s%.*s%s", m->prefix ? m->prefix : "", (int)(norm - name), name,
                                 strstr(norm, "weight") ? "LayerNorm.gamma" : "LayerNorm.beta");
        free(stored);
        stored = old;
    }
    tensor_add(w, stored, name, m->dtype ? m->dtype : "F32", shape, rank);
    free(stored);
}

/* A module's matrix and bias, or a layernorm's two vectors when columns is 0. */
static inline void tiny_module(struct tensor_writer *w, const struct tiny_model *m, int layer, const char *module,
                               uint32_t rows, uint32_t columns)
{
    char at[32] = "";
    if (layer >= 0) snprintf(at, sizeof at, "encoder.layer.%d.", layer);
    char *weight = files_format("%s%s.weight", at, module), *bias = files_format("%s%s.bias", at, module);
    tiny_add(w, m, weight, (uint32_t[]){rows, columns}, columns ? 2 : 1);
    tiny_add(w, m, bias, &rows, 1);
    free(weight);
    free(bias);
}

static inline void tiny_layer(struct tensor_writer *w, const struct tiny_model *m, int layer)
{
    tiny_module(w, m, layer, "attention.self.query", TINY_HIDDEN, TINY_HIDDEN);
    tiny_module(w, m, layer, "attention.self.key", TINY_HIDDEN, TINY_HIDDEN);
    tiny_module(w, m, layer, "attention.self.value", TINY_HIDDEN, TINY_HIDDEN);
    tiny_module(w, m, layer, "attention.output.dense", TINY_HIDDEN, TINY_HIDDEN);
    tiny_module(w, m, layer, "attention.output.LayerNorm", TINY_HIDDEN, 0);
    tiny_module(w, m, layer, "intermediate.dense", TINY_FEED_FORWARD, TINY_HIDDEN);
    tiny_module(w, m, layer, "output.dense", TINY_HIDDEN, TINY_FEED_FORWARD);
    tiny_module(w, m, layer, "output.LayerNorm", TINY_HIDDEN, 0);
}

static inline void tiny_embeddings(struct tensor_writer *w, const struct tiny_model *m)
{
    tiny_add(w, m, "embeddings.word_embeddings.weight", (uint32_t[]){TINY_VOCABULARY, TINY_HIDDEN}, 2);
    tiny_add(w, m, "embeddings.position_embeddings.weight", (uint32_t[]){TINY_POSITIONS, TINY_HIDDEN}, 2);
    tiny_add(w, m, "embeddings.token_type_embeddings.weight", (uint32_t[]){TINY_TYPES, TINY_HIDDEN}, 2);
    tiny_module(w, m, -1, "embeddings.LayerNorm", TINY_HIDDEN, 0);
    char *ids = files_format("%sembeddings.position_ids", m->prefix ? m->prefix : "");
    tensor_add(w, ids, ids, "I64", (uint32_t[]){1, TINY_POSITIONS}, 2); /* no weight; old files have it */
    free(ids);
}

/* "weight_map" entries for all tensors in the writer, by their order in its header. */
static inline char *tiny_map(char *map, const struct tensor_writer *w, const char *file)
{
    for (const char *at = w->header; (at = strstr(at, "\":{\"dtype\"")); at++) {
        const char *begin = at - 1;
        while (begin[-1] != '"') begin--;
        char *grown =
            files_format("%s%s\"%.*s\": \"%s\"", map ? map : "", map ? ", " : "", (int)(at - begin), begin, file);
        free(map);
        map = grown;
    }
    return map;
}

static inline void tiny_weights(const char *folder, const struct tiny_model *m)
{
    static const char first[] = "model-00001-of-00002.safetensors", second[] = "model-00002-of-00002.safetensors";
    struct tensor_writer w = {0};
    char *map = NULL;
    tiny_embeddings(&w, m);
    tiny_layer(&w, m, 0);
    if (m->sharded) {
        map = tiny_map(NULL, &w, first);
        tensors_write(&w, folder, first);
    }
    tiny_layer(&w, m, 1);
    if (!m->no_pooler) tiny_module(&w, m, -1, "pooler.dense", TINY_HIDDEN, TINY_HIDDEN);
    if (m->sharded) {
        map = tiny_map(map, &w, second);
        char *index = files_format("{\"metadata\": {\"total_size\": 1}, \"weight_map\": {%s}}", map);
        files_write_text(folder, "model.safetensors.index.json", index);
        free(index);
        free(map);
    }
    tensors_write(&w, folder, m->sharded ? second : "model.safetensors");
}

static inline void tiny_vocabulary(const char *folder)
{
    char text[1024] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    char *at = text + strlen(text);
    for (int c = 'a'; c <= 'z'; c++) at += sprintf(at, "%c\n", c);
    sprintf(at, "##s\n##ing\nboat\nriver\ncarries\npeople\nthe\n.\n,\n!\n?\n##er\n##ed\n");
    files_write_text(folder, "vocab.txt", text);
}

/* Fills the folder with a BERT of 2 layers; zeroed options give the plainest one. */
static inline void tiny_model_write(const char *folder, const struct tiny_model *m)
{
    files_write_text(folder, "config.json", TINY_CONFIG);
    tiny_weights(folder, m);
    if (!m->no_vocabulary) tiny_vocabulary(folder);
    if (!m->sentence) return;
    files_write_text(
        folder, "modules.json",
        "[{\"idx\": 0, \"name\": \"0\", \"path\": \"\", \"type\": \"sentence_transformers.models.Transformer\"}, "
        "{\"idx\": 1, \"name\": \"1\", \"path\": \"1_Pooling\", \"type\": "
        "\"sentence_transformers.models.Pooling\"}, {\"idx\": 2, \"name\": \"2\", \"path\": \"2_Normalize\", "
        "\"type\": \"sentence_transformers.models.Normalize\"}]");
    files_write_text(folder, "1_Pooling/config.json",
                     "{\"word_embedding_dimension\": 16, \"pooling_mode_cls_token\": false, "
                     "\"pooling_mode_mean_tokens\": true, \"pooling_mode_max_tokens\": false, "
                     "\"pooling_mode_mean_sqrt_len_tokens\": false}");
    files_write_text(folder, "sentence_bert_config.json", "{\"max_seq_length\": 16, \"do_lower_case\": false}");
}

#endif
