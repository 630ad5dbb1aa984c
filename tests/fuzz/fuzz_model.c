/* Model folders: configuration, modules, limits, index, and weights of a header whose tensors are made up here. */
#include "weights.h"

static const char *const names[] = {
    "config.json",           "modules.json", "1_Pooling/config.json", "sentence_bert_config.json",
    "tokenizer_config.json", "vocab.txt",    "tokenizer.json",        "model.safetensors.index.json",
};
enum { NAMES = sizeof names / sizeof *names, HEADERS = 2, BYTES = NAMES + HEADERS, PARTS };

static const char *const weights[HEADERS] = {"model.safetensors", "more.safetensors"};

static void use(const struct wherry_model *model)
{
    const wherry_model_config *config = &model->info.config;
    fuzz_use_weights(model);
    CHECK(config->hidden && config->heads && config->hidden % config->heads == 0);
    CHECK(model->info.max_tokens && model->info.max_tokens <= config->positions);
}

/* The same files by callbacks, which read them from the folder. */
static bool find(const char *name, uint64_t *bytes, void *user)
{
    struct stat st;
    (void)user;
    if (stat(fuzz_path(name), &st) || !S_ISREG(st.st_mode)) return false;
    *bytes = (uint64_t)st.st_size;
    return true;
}

static bool read_bytes(const char *name, uint64_t offset, void *to, size_t bytes, void *user)
{
    (void)user;
    FILE *file = fopen(fuzz_path(name), "rb");
    bool ok = file && !fseeko(file, (off_t)offset, SEEK_SET) && fread(to, 1, bytes, file) == bytes;
    if (file) fclose(file);
    return ok;
}

static void open_given(void)
{
    const wherry_model_files files = {.struct_size = sizeof files, .find = find, .read = read_bytes};
    struct wherry_model *model = NULL;
    struct error e = {0};
    if (model_open_memory(&fuzz_host, &files, &model, &e)) {
        use(model);
        model_close(model);
    } else {
        fuzz_failed(&e);
    }
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
        fuzz_write_weights(weights[i], parts[NAMES + i], bytes < WEIGHT_BYTES_MAX ? bytes : WEIGHT_BYTES_MAX);
    }
    free(text);
    long before = fuzz_blocks;
    if (model_open(&fuzz_host, fuzz_folder(), &model, &e)) {
        use(model);
        model_close(model);
    } else {
        fuzz_failed(&e);
    }
    open_given();
    CHECK(fuzz_blocks == before);
    return 0;
}
