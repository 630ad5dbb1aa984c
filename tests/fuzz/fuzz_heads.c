/* What stands around an encoder: a task's head and its labels, modules, prompts, and bge-m3's heads on tokens. */
#include "weights.h"

#include "model/head.h"
#include "model/token_heads.h"

static const char *const names[] = {
    "config.json",           "modules.json",        "config_sentence_transformers.json", "sentence_bert_config.json",
    "1_Pooling/config.json", "2_Dense/config.json", "3_LayerNorm/config.json",
};
static const char *const weights[] = {"model.safetensors", "2_Dense/model.safetensors", "3_LayerNorm/model.safetensors",
                                      "colbert_linear.safetensors"};
enum {
    NAMES = sizeof names / sizeof *names,
    HEADERS = sizeof weights / sizeof *weights,
    BYTES = NAMES + HEADERS,
    TORCH, /* the last, as it may have the byte that separates */
    PARTS
};

/* Every label has a name, and logits become scores. */
static void use_labels(const struct wherry_model *model)
{
    uint32_t labels = model->info.config.labels;
    CHECK(!labels || (model->labels && model->labels->count == labels));
    for (uint32_t i = 0; i < labels; i++) CHECK(model->labels->names[i] != NULL);
}

/* A prompt is found by its name, and the one that is used without a name. */
static void use_prompts(const struct prompts *prompts)
{
    const char *text;
    struct error e = {0};
    CHECK(prompts->used <= prompts->count);
    if (!prompts_find(prompts, NULL, &text, &e)) fuzz_failed(&e);
    for (uint32_t i = 0; i < prompts->count; i++) {
        e = (struct error){0};
        if (!prompts_find(prompts, prompts->names[i], &text, &e)) fuzz_failed(&e);
    }
    e = (struct error){0};
    if (!prompts_find(prompts, "no such prompt", &text, &e)) fuzz_failed(&e);
}

/* Layers follow each other, each with its weights. */
static void use_modules(const struct wherry_model *model)
{
    const struct head_modules *after = &model->modules;
    CHECK(after->count <= MODULES_MOST && after->n_pools <= POOLS_MOST && after->opened == after->count);
    for (uint32_t i = 0; i < after->count; i++) {
        const struct weight_part *parts;
        CHECK(after->list[i].width && after->paths[i]);
        CHECK(model_weight(model, (enum weight)(WEIGHT_MODULE + 2 * i), -1, &parts) == 1);
    }
    for (int kind = 0; kind < TOKEN_HEADS; kind++) {
        struct error e = {0};
        const struct token_head *head = token_head_find(model, (enum token_head_kind)kind, &e);
        if (!head) fuzz_failed(&e);
        CHECK(!head || (head->module.width && !e.status));
    }
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_part(data, size, max_size, seed);
}

static void write_files(const struct fuzz_part *parts)
{
    fuzz_write_parts(parts, names, NAMES);
    /* The sizes of the files' tensors: "1234 0 64 0". */
    char *text = fuzz_text(parts[BYTES]), *at = text;
    for (int i = 0; i < HEADERS; i++) {
        unsigned long bytes = strtoul(at, &at, 10);
        fuzz_write_weights(weights[i], parts[NAMES + i], bytes < WEIGHT_BYTES_MAX ? bytes : WEIGHT_BYTES_MAX);
    }
    free(text);
    static const char *const torch[] = {"sparse_linear.pt"};
    fuzz_write_parts(&parts[TORCH], torch, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const folders[] = {"1_Pooling", "2_Dense", "3_LayerNorm"};
    static bool made;
    struct fuzz_part parts[PARTS];
    struct wherry_model *model = NULL;
    struct error e = {0};
    for (int i = 0; i < 3 && !made; i++) mkdir(fuzz_path(folders[i]), 0700);
    made = true;
    fuzz_split(data, size, parts, PARTS);
    write_files(parts);
    long before = fuzz_blocks;
    if (model_open(&fuzz_host, fuzz_folder(), &model, &e)) {
        fuzz_use_weights(model);
        use_labels(model);
        use_prompts(&model->prompts);
        use_modules(model);
        model_close(model);
    } else {
        fuzz_failed(&e);
    }
    CHECK(fuzz_blocks == before);
    return 0;
}
