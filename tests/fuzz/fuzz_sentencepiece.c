/* SentencePiece's file of a model with its configuration, and a text for the tokenizer that they give. */
#include "mutate.h"

#include "tokens.h"

/* The model comes last, as it may have any byte in it. */
enum { CONFIG, TEXT, MODEL, PARTS };

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned seed)
{
    return fuzz_mutate_part(data, size, max_size, seed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"tokenizer_config.json", "sentencepiece.bpe.model"};
    struct fuzz_part parts[PARTS];
    fuzz_split(data, size, parts, PARTS);
    const struct fuzz_part files[] = {parts[CONFIG], parts[MODEL]};
    fuzz_write_parts(files, names, 2);
    tokens_check_folder(parts[TEXT], "a b", 3);
    return 0;
}
