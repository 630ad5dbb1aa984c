/* Files of texts: lines, pairs and JSONL. The first byte says which. */
#include "mutate.h"

#include "texts.h"

static size_t lines_of(const uint8_t *data, size_t size)
{
    size_t lines = 0;
    for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
    return lines + (size && data[size - 1] != '\n');
}

/* The text comes back from its own JSON, and the id is a value of JSON on one line. */
static void check_text(const struct text *text)
{
    struct output out = {.name = "memory"};
    char *written;
    size_t size;
    out.file = open_memstream(&written, &size);
    CHECK(out.file != NULL);
    output_json_string(&out, text->text, text->text_bytes);
    CHECK(output_ok(&out) && fclose(out.file) == 0);
    json_t *value = json_loadb(written, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    CHECK(json_is_string(value) && json_string_length(value) >= text->text_bytes);
    json_decref(value);
    free(written);
    if (!text->id) return;
    CHECK(!strpbrk(text->id, "\n\r"));
    value = json_loads(text->id, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
    /* A number may be too large for a reader, and is still one. */
    CHECK(value || strspn(text->id, "+-0123456789.eE") == strlen(text->id));
    json_decref(value);
}

/* A line of JSONL, or the bytes. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    if (size < 2 || !(data[0] & 1) || seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
    for (size_t i = 1; i < size; i++) data[i] = data[i] == '\n' ? FUZZ_SEPARATOR : data[i];
    size = 1 + fuzz_mutate_part(data + 1, size - 1, max_size - 1, seed / 4);
    for (size_t i = 1; i < size; i++) data[i] = data[i] == FUZZ_SEPARATOR ? '\n' : data[i];
    return size;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *path = fuzz_path("texts");
    struct text_source source;
    struct text text;
    uint64_t texts = 0, line = 0;
    bool more = true;
    if (!size) return 0;
    bool jsonl = data[0] & 1, pairs = !jsonl && data[0] & 2;
    fuzz_write("texts", data + 1, size - 1);
    int code = text_source_open(&source, &path, 1, jsonl ? INPUT_JSONL : INPUT_LINES, pairs);
    while (!code && more) {
        code = text_source_next(&source, &text, &more);
        if (code || !more) break;
        texts++;
        CHECK(text.line > line && text.text && text.text_bytes < 3 * size + 3);
        CHECK(!pairs || text.pair);
        line = text.line;
        check_text(&text);
    }
    CHECK(texts <= lines_of(data + 1, size - 1));
    if (!code && !jsonl) CHECK(texts == lines_of(data + 1, size - 1));
    text_source_close(&source);
    return 0;
}
