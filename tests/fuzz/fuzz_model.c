/* Model folders: configuration, modules, limits, index, and weights of a header whose tensors are made up here. */
#include "mutate.h"

#include "model/model.h"

enum { WEIGHT_BYTES_MAX = 1 << 16 };

static const char *const names[] = {
    "config.json",           "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
    "tokenizer_config.json", "vocab.txt",    "tokenizer.json",        "model.safetensors.index.json",
};
enum { NAMES = sizeof names / sizeof *names, HEADERS = 2, BYTES = NAMES + HEADERS, PARTS };

static const char *const weights[HEADERS] = {"model.safetensors", "more.safetensors"};

/* The header, and `bytes` bytes of tensors after it. */
static void write_weights(const char *name, struct fuzz_part header, size_t bytes)
{
    static uint8_t file[8 + (1 << 16) + WEIGHT_BYTES_MAX];
    size_t length = header.size < 1 << 16 ? header.size : 1 << 16;
    for (int i = 0; i < 8; i++) file[i] = (uint8_t)((uint64_t)length >> 8 * i);
    memcpy(file + 8, header.data, length);
    memset(file + 8 + length, 0x3C, bytes); /* 0.0115 in f32, 1.06 in f16 */
    if (length)
        fuzz_write(name, file, 8 + length + bytes);
    else
        unlink(fuzz_path(name));
}

static void read_part(const struct weight_part *part, uint64_t first, uint64_t n, enum weight_type as, void *raw,
                      void *out)
{
    struct error e = {0};
    if (!weight_convert(part, first, n, as, raw, out, &e)) fuzz_failed(&e);
}

/* All weights can be read as both types, and a text becomes tokens of the vocabulary. */
static void use(const struct wherry_model *model)
{
    const wherry_model_config *config = &model->info.config;
    for (int layer = -1; layer < (int)config->layers; layer++) {
        for (int w = 0; w < WEIGHT_COUNT; w++) {
            const struct weight_part *parts;
            static float out[16], raw[WEIGHT_RAW_BYTES / sizeof(float)];
            int count = model_weight(model, (enum weight)w, layer, &parts);
            for (int p = 0; p < count; p++) {
                uint64_t n = parts[p].elements < 16 ? parts[p].elements : 16;
                CHECK(parts[p].elements);
                read_part(&parts[p], parts[p].elements - n, n, WEIGHT_TYPE_F32, raw, out);
                read_part(&parts[p], 0, n, WEIGHT_TYPE_F16, raw, out);
            }
        }
    }
    CHECK(config->hidden && config->heads && config->hidden % config->heads == 0);
    CHECK(model->info.max_tokens && model->info.max_tokens <= config->positions);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_part(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    struct fuzz_part parts[PARTS];
    struct wherry_model *model = NULL;
    struct error e = {0};
    if (!made) CHECK(mkdir(fuzz_path("1_Pooling"), 0700) == 0);
    made = true;
    fuzz_split(data, size, parts, PARTS);
    fuzz_write_parts(parts, names, NAMES);
    /* The sizes of both files' tensors: "1234 0". */
    char *text = fuzz_text(parts[BYTES]), *at = text;
    for (int i = 0; i < HEADERS; i++) {
        unsigned long bytes = strtoul(at, &at, 10);
        write_weights(weights[i], parts[NAMES + i], bytes < WEIGHT_BYTES_MAX ? bytes : WEIGHT_BYTES_MAX);
    }
    free(text);
    long before = fuzz_blocks;
    if (model_open(&fuzz_host, fuzz_folder(), &model, &e)) {
        use(model);
        model_close(model);
    } else {
        fuzz_failed(&e);
    }
    CHECK(fuzz_blocks == before);
    return 0;
}
